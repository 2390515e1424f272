//! Determines from a tool's output in a rollout, by the exit code at its head, whether it succeeded (pure).

use serde::Deserialize;

use crate::agent::stream::{AnyText, Flag, Int, Maybe};

/// An output that is a JSON object in a string.
#[derive(Default, Deserialize)]
#[serde(default)]
struct JsonOutput {
    output: AnyText,
    metadata: Maybe<OutputMetadata>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OutputMetadata {
    exit_code: Int,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ToolSuccess {
    pub success: Flag,
}

/// Returns true if the command succeeded, and its output.
pub fn parse_output(text: &str) -> (bool, String) {
    if text.starts_with('{')
        && let Ok(wrapped) = serde_json::from_str::<JsonOutput>(text)
        && let Some(metadata) = wrapped.metadata.0
    {
        let success = metadata.exit_code.0.unwrap_or(0) == 0;
        return (success, wrapped.output.text.as_str().to_owned());
    }
    (exit_code(text).unwrap_or(0) == 0, text.to_owned())
}

/// Returns the exit code in the head of an output, which consists of lines of known forms up to
/// `Output:`. The output of the command follows and does not count.
fn exit_code(text: &str) -> Option<i64> {
    let mut code = None;
    for line in text.lines().take(8) {
        if line == "Output:" {
            return code;
        }
        let number = line
            .strip_prefix("Exit code: ")
            .or_else(|| line.strip_prefix("Process exited with code "));
        if let Some(number) = number.and_then(|number| number.trim().parse().ok()) {
            code = Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_head_of_an_output_counts() {
        for (text, success) in [
            ("plain", true),
            ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\nx", false),
            (
                "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nExit code: 1\nOutput:",
                true,
            ),
            (
                "Wall time: 1 s\nProcess exited with code 2\nOutput:\n",
                false,
            ),
            ("Exit code: 1\n", true),
            (
                r#"{"output":"x","metadata":{"exit_code":1,"duration_seconds":0.1}}"#,
                false,
            ),
            (r#"{"output":"x","metadata":{"exit_code":0}}"#, true),
            (r#"{"error":"mine"}"#, true),
        ] {
            assert_eq!(parse_output(text).0, success, "{text}");
        }
    }
}
