//! Summarises in one line the question of an agent: a tool's command, file or question (pure).

use serde_json::Value;

use super::summary::{SUMMARY_CHARS_MAX, summary};

/// Names of tool arguments that describe the call, the most specific first: `command` and `cmd` of
/// shells, `question` of questions, paths of written files, `url`, `pattern`.
const SPECIFIC_ARGUMENTS: &[&str] = &[
    "command",
    "cmd",
    "question",
    "plan",
    "file_path",
    "filePath",
    "absolute_path",
    "path",
    "url",
    "query",
    "pattern",
    "description",
    "prompt",
    "input",
];

/// Summarises a tool call for the user who must allow it. Takes the tool's name and the beginning
/// of its JSON arguments; returns `None` if both are empty.
pub(crate) fn tool_question(tool: &str, arguments: &str) -> Option<String> {
    let found = match serde_json::from_str::<Value>(arguments) {
        Ok(value) => question_in(&value),
        // Truncated JSON, a patch or a script.
        Err(_) => cut_value(arguments).or_else(|| Some(arguments.to_owned())),
    };
    let text = one_line(&found.unwrap_or_default());
    match text.is_empty() {
        true => Some(one_line(tool)).filter(|tool| !tool.is_empty()),
        false => Some(text),
    }
}

/// Returns true if a failure is a usage limit, which only waiting or paying resolves.
pub(crate) fn is_limit(failure: &str) -> bool {
    let failure = failure.to_lowercase();
    let contains_any = |words: &[&str]| words.iter().any(|word| failure.contains(word));
    // Also matches sentences such as "Number of request tokens has exceeded your per-minute rate limit".
    contains_any(&[
        "usage limit",
        "hour limit",
        "weekly limit",
        "rate limit",
        "rate_limit",
        "ratelimit",
        "limit reached",
        "hit your",
        "quota",
        "credit balance",
        "too many requests",
        "(429)",
        " 429",
        "resource_exhausted",
    ])
}

/// Joins the text to one line without control characters, and truncates it to a summary.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let mut line = String::new();
    for word in words.filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > SUMMARY_CHARS_MAX * 4 {
            break;
        }
    }
    summary(&line)
}

fn question_in(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(fields) => {
            // `{"questions":[{"question":…}]}`.
            if let Some(Value::Array(questions)) = fields.get("questions") {
                return questions.iter().find_map(question_in);
            }
            let specific = SPECIFIC_ARGUMENTS
                .iter()
                .filter_map(|name| fields.get(*name));
            specific
                .filter_map(text_of)
                .find(|text| !text.trim().is_empty())
        }
        _ => None,
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            words.map(|words| command_of(&words))
        }
        _ => None,
    }
}

/// Returns the command as the user would type it: `["bash","-lc","make"]` is `make`.
fn command_of(words: &[&str]) -> String {
    match words {
        [shell, flags, script]
            if shell.ends_with("sh") && flags.starts_with('-') && flags.contains('c') =>
        {
            (*script).to_owned()
        }
        words => words.join(" "),
    }
}

/// Returns the most specific argument of truncated JSON.
fn cut_value(arguments: &str) -> Option<String> {
    let candidates = SPECIFIC_ARGUMENTS.iter().filter_map(|name| {
        let at = arguments.find(&format!("\"{name}\":"))? + name.len() + 3;
        let text = arguments[at..].trim_start().strip_prefix('"')?;
        Some((at, text))
    });
    let (_, text) = candidates.min_by_key(|(at, _)| *at)?;
    let mut value = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next()? {
                'n' | 't' | 'r' => value.push(' '),
                other => value.push(other),
            },
            c => value.push(c),
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_tool_asks_about_its_command_file_or_question() {
        for (tool, arguments, expected) in [
            (
                "Bash",
                r#"{"command":"touch a && ls","description":"Runs a command"}"#,
                "touch a && ls",
            ),
            (
                "exec_command",
                r#"{"cmd":"touch a","justification":"x"}"#,
                "touch a",
            ),
            (
                "shell",
                r#"{"command":["bash","-lc","make -j2"]}"#,
                "make -j2",
            ),
            (
                "Write",
                r#"{"file_path":"/w/hello.py","content":"print"}"#,
                "/w/hello.py",
            ),
            (
                "AskUserQuestion",
                r#"{"questions":[{"question":"Which colour shall it be?","options":[]}]}"#,
                "Which colour shall it be?",
            ),
            (
                "ExitPlanMode",
                r##"{"plan":"# Plan\n\n1. Do this"}"##,
                "# Plan 1. Do this",
            ),
            (
                "apply_patch",
                "*** Begin Patch\n*** Add File: a",
                "*** Begin Patch *** Add File: a",
            ),
            ("Bash", r#"{"command":"echo \"a\nb"#, r#"echo "a b"#),
            ("TodoRead", "{}", "TodoRead"),
        ] {
            assert_eq!(
                tool_question(tool, arguments).as_deref(),
                Some(expected),
                "{tool} {arguments}"
            );
        }
        assert_eq!(tool_question("", ""), None);
    }

    #[test]
    fn no_part_of_a_cut_key_remains() {
        let command = format!("{}ghp_{}", "b ".repeat(80), "0123456789".repeat(4));
        let arguments = serde_json::json!({ "command": command }).to_string();
        let question = tool_question("Bash", &arguments).unwrap();
        assert_eq!(question, "b ".repeat(80) + "…");
    }

    #[test]
    fn limits_are_distinguished_from_other_failures() {
        for failure in [
            "You've hit your 5-hour limit · resets 3:53pm (UTC)",
            "API Error: Request rejected (429) · usage limit",
            "Quota exceeded. Check your plan and billing details.",
            "Your credit balance is too low to access the Anthropic API.",
        ] {
            assert!(is_limit(failure), "{failure}");
        }
        for failure in [
            "Invalid API key · Fix external API key",
            "unexpected status 401",
            "the run was cut off",
        ] {
            assert!(!is_limit(failure), "{failure}");
        }
    }

    proptest! {
        #[test]
        fn any_arguments_give_one_line(tool in ".{0,20}", arguments in ".{0,300}") {
            if let Some(line) = tool_question(&tool, &arguments) {
                prop_assert!(!line.contains('\n') && line.chars().count() <= SUMMARY_CHARS_MAX + 1);
            }
        }
    }
}
