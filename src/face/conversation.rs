//! The conversation of an agent in a pane as prose: prompts, answers, tools with their results (pure).

use super::agents::tool_ended;
use super::tone::Tone;
use crate::agent::tool_question;
use crate::event::TdEvent;

/// Characters of a tool's result that are shown: the whole is in the agent's transcript.
const RESULT_CHARS_MAX: usize = 120;

/// A line of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub tone: Tone,
    pub text: String,
}

/// The lines of an event of a pane's agent; `None` for other events, and for those of an agent without a
/// pane.
pub(super) fn lines(event: &TdEvent, is_verbose: bool) -> Option<Vec<Line>> {
    event.pane()?;
    let line = |tone, text: String| Some(vec![Line { tone, text }]);
    match event {
        TdEvent::PromptSent { prompt_summary, .. } => {
            let rows = prompt_summary.lines().filter(|row| !row.trim().is_empty());
            let prompt = |row: &str| Line {
                tone: Tone::Prompt,
                text: format!("> {row}"),
            };
            Some(rows.map(prompt).collect())
        }
        TdEvent::TokenReceived { token, .. } => {
            let rows = token.trim_end().lines();
            let answer = |row: &str| Line {
                tone: Tone::Plain,
                text: row.to_owned(),
            };
            Some(rows.map(answer).collect())
        }
        TdEvent::ToolCallStarted {
            tool_name,
            tool_args_summary,
            ..
        } => {
            let what = tool_question(tool_name, tool_args_summary).filter(|what| what != tool_name);
            let what = what.map_or(String::new(), |what| format!(": {what}"));
            line(Tone::Dim, format!("* {tool_name}{what}"))
        }
        TdEvent::ToolCallCompleted {
            tool_name,
            success,
            result_summary,
            duration_ms,
            ..
        } => {
            let (tone, text) = tool_ended(tool_name, *success, *duration_ms);
            let result = first_line(result_summary);
            let result = match result.is_empty() {
                true => String::new(),
                false => format!(": {result}"),
            };
            line(tone, format!("  {text}{result}"))
        }
        TdEvent::ResponseCompleted {
            input_tokens,
            output_tokens,
            ..
        } => match is_verbose {
            true => line(
                Tone::Dim,
                format!("[{input_tokens} tokens read, {output_tokens} written]"),
            ),
            false => Some(Vec::new()),
        },
        _ => None,
    }
}

/// What agents write around the output of a command.
const AROUND_OUTPUT: &[&str] = &[
    "Chunk ID: ",
    "Wall time: ",
    "Process exited with code ",
    "Original token count: ",
    "Exit code: ",
    "Command: ",
    "Directory: ",
    "Error: (none)",
    "Exit Code: 0",
    "Signal: (none)",
    "Process Group PGID: ",
    "Background PIDs: (none)",
    "<untrusted_context>",
    "</untrusted_context>",
];

/// The first line of a text that has something in it, cut.
fn first_line(text: &str) -> String {
    let is_around = |line: &&str| AROUND_OUTPUT.iter().any(|around| line.starts_with(around));
    let lines = text.lines().map(str::trim).filter(|line| !is_around(line));
    // Output begins behind its name, in the same line or in the next.
    let mut lines = lines.map(|line| line.strip_prefix("Output:").unwrap_or(line).trim());
    let line = lines.find(|line| !line.is_empty() && *line != "(empty)");
    let line = line.unwrap_or_default();
    match line.char_indices().nth(RESULT_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(event: &TdEvent) -> Vec<String> {
        let lines = lines(event, false).unwrap_or_default();
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn a_result_is_what_the_command_printed() {
        let codex = "Chunk ID: 529331\nWall time: 0.9 seconds\nProcess exited with code 0\nOriginal token count: 2\nOutput:\nstep 1\n";
        let gemini =
            "<untrusted_context>\nOutput: step 1\nProcess Group PGID: 38\n</untrusted_context>";
        let qwen = "Command: echo\nDirectory: (root)\nOutput: step 1\nError: (none)\nExit Code: 0";
        for text in [codex, gemini, qwen, "step 1\nmore"] {
            assert_eq!(first_line(text), "step 1");
        }
        assert_eq!(first_line("Output: (empty)\nProcess Group PGID: 1"), "");
    }

    #[test]
    fn a_conversation_reads_as_prose() {
        let (execution_id, pane) = (crate::event::ExecutionId::from("x"), Some("%1".into()));
        let prompt = TdEvent::PromptSent {
            execution_id: execution_id.clone(),
            iteration: 1,
            prompt_summary: "fix it\n\nplease".into(),
            token_count: 0,
            pane: pane.clone(),
        };
        assert_eq!(shown(&prompt), ["> fix it", "> please"]);
        let tool = TdEvent::ToolCallStarted {
            execution_id: execution_id.clone(),
            iteration: 1,
            tool_name: "Bash".into(),
            tool_args_summary: r#"{"command":"make","description":"builds"}"#.into(),
            pane: pane.clone(),
        };
        assert_eq!(shown(&tool), ["* Bash: make"]);
        let result = TdEvent::ToolCallCompleted {
            execution_id: execution_id.clone(),
            iteration: 1,
            tool_name: "Bash".into(),
            success: false,
            result_summary: "\nmake: *** No targets.\nmore".into(),
            duration_ms: 1200,
            pane: pane.clone(),
        };
        assert_eq!(
            shown(&result),
            ["  Bash FAILED after 1.2 s: make: *** No targets."]
        );
        let answer = TdEvent::TokenReceived {
            execution_id,
            iteration: 1,
            token: "It is **done**.\n\n- a\n".into(),
            pane: None,
        };
        assert_eq!(lines(&answer, false), None, "an agent without a pane");
    }
}
