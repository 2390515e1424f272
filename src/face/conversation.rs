//! Renders the conversation of an agent in a pane as prose: prompts, answers, tools with their results
//! (pure).

use super::describe::{beginning, tool_result};
use super::sanitize::Tone;
use crate::agent::tool_question;
use crate::event::TdEvent;

/// Returns the lines of an event of a pane's agent; `None` for other events, and for an agent without a pane.
pub(super) fn conversation_lines(event: &TdEvent, is_verbose: bool) -> Option<Vec<(Tone, String)>> {
    event.pane()?;
    Some(match event {
        TdEvent::PromptSent { prompt_summary, .. } => {
            let rows = prompt_summary.lines().filter(|row| !row.trim().is_empty());
            let marks = std::iter::once("> ").chain(std::iter::repeat("  "));
            rows.zip(marks)
                .map(|(row, mark)| (Tone::Prompt, format!("{mark}{row}")))
                .collect()
        }
        TdEvent::TokenReceived { token, .. } => {
            let rows = token.trim_end().lines();
            rows.map(|row| (Tone::Plain, row.to_owned())).collect()
        }
        TdEvent::ToolCallStarted {
            tool_name,
            tool_args_summary,
            ..
        } => {
            let question = tool_question(tool_name, tool_args_summary);
            let question = question.filter(|question| question != tool_name);
            let question = question.map_or(String::new(), |question| format!(": {question}"));
            vec![(Tone::Dim, format!("* {tool_name}{question}"))]
        }
        TdEvent::ToolCallCompleted {
            tool_name,
            success,
            result_summary,
            duration_ms,
            ..
        } => {
            let (tone, text) = tool_result(tool_name, *success, *duration_ms);
            // A tool call that was read from the screen has no duration.
            let text = text.trim_end_matches(" after 0.00 s");
            let result = first_line(result_summary);
            let colon = if result.is_empty() { "" } else { ": " };
            vec![(tone, format!("  {text}{colon}{result}"))]
        }
        TdEvent::ResponseCompleted {
            input_tokens,
            output_tokens,
            ..
        } => {
            let text = format!("[{input_tokens} tokens read, {output_tokens} written]");
            is_verbose
                .then_some((Tone::Dim, text))
                .into_iter()
                .collect()
        }
        _ => return None,
    })
}

/// Returns the lines of an event of a pane's agent without their tones; `None` for other events.
#[cfg(feature = "notify")]
pub(crate) fn conversation_text(event: &TdEvent) -> Option<Vec<String>> {
    let lines = conversation_lines(event, false)?;
    Some(lines.into_iter().map(|(_, line)| line).collect())
}

/// Returns the first line of a result that is neither empty nor added by the agent, cut to a length.
fn first_line(text: &str) -> String {
    // The beginnings of lines that agents add to the output of a command.
    let wrappers = "Chunk ID: |Wall time: |Process exited with code |Original token count: |Exit code: |Command: |\
        Directory: |Error: (none)|Exit Code: 0|Signal: (none)|Process Group PGID: |Background PIDs: (none)|\
        <untrusted_context>|</untrusted_context>";
    let is_wrapper = |line: &&str| wrappers.split('|').any(|wrapper| line.starts_with(wrapper));
    let lines = text.lines().map(str::trim).filter(|line| !is_wrapper(line));
    // Output begins after its label, on the same line or on the next.
    let mut lines = lines.map(|line| line.strip_prefix("Output:").unwrap_or(line).trim());
    let line = lines.find(|line| !line.is_empty() && *line != "(empty)");
    // The agent's transcript has all of it.
    beginning(line.unwrap_or_default(), 120)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(event: &TdEvent) -> Vec<String> {
        let lines = conversation_lines(event, false).unwrap_or_default();
        lines.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn a_result_is_the_output_of_the_command() {
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
            token_count: None,
            pane: pane.clone(),
        };
        assert_eq!(shown(&prompt), ["> fix it", "  please"]);
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
        assert_eq!(
            conversation_lines(&answer, false),
            None,
            "an agent without a pane"
        );
    }
}
