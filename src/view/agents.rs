//! What agents say and do, in a few words a row, for the console and the tree alike (pure).

use super::tone::Tone;
use super::words::duration;
use crate::event::TdEvent;

/// Columns of what a row says of a result; the whole of it is in the event.
const TEXT_CHARS_MAX: usize = 300;

/// A row about an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub name: &'static str,
    pub tone: Tone,
    pub text: String,
}

/// Whether a model's answer is over with this event: something else has happened.
pub(super) fn ends_answer(event: &TdEvent) -> bool {
    !matches!(
        event,
        TdEvent::TokenReceived { .. }
            | TdEvent::Warning { .. }
            | TdEvent::AgentState { .. }
            | TdEvent::LogOpened { .. }
            | TdEvent::Unknown(_)
    )
}

/// The row of an event about an agent; `None` for other events. An answer itself is no row but
/// text.
pub(super) fn row(event: &TdEvent) -> Option<Row> {
    let row = |name, tone, text: String| Some(Row { name, tone, text });
    match event {
        TdEvent::PromptSent { prompt_summary, .. } => {
            row("prompt", Tone::Plain, prompt_summary.clone())
        }
        TdEvent::ResponseCompleted {
            input_tokens,
            output_tokens,
            ..
        } => {
            // Plain text has no count.
            if (*input_tokens, *output_tokens) == (0, 0) {
                return row("response", Tone::Dim, "complete".to_owned());
            }
            let text = format!("{input_tokens} tokens read, {output_tokens} written");
            row("response", Tone::Dim, text)
        }
        TdEvent::ToolCallStarted {
            tool_name,
            tool_args_summary,
            ..
        } => row("tool", Tone::Plain, said(tool_name, tool_args_summary)),
        TdEvent::ToolCallCompleted {
            tool_name,
            success,
            result_summary,
            duration_ms,
            ..
        } => {
            let (tone, text) = tool_ended(tool_name, *success, *duration_ms);
            row("tool", tone, said(&text, result_summary))
        }
        // That of a pane is the pane's to show.
        TdEvent::TurnCompleted {
            marker,
            pane: None,
            agent_id,
            ..
        } => {
            let whose = agent_id
                .as_ref()
                .map_or(String::new(), |id| format!("{id} "));
            row("turn", Tone::Good, format!("{whose}ended: {marker}"))
        }
        TdEvent::AgentRegistered {
            agent_id,
            output_file,
            ..
        } => row("agent", Tone::Dim, format!("{agent_id}: {output_file}")),
        TdEvent::AgentCompleted {
            agent_id,
            result,
            evidence,
            ..
        } => {
            let text = format!("{agent_id} COMPLETED ({evidence})");
            row("agent", Tone::Good, said(&text, result))
        }
        TdEvent::AgentFailed {
            agent_id,
            error,
            evidence,
            ..
        } => {
            let text = format!("{agent_id} FAILED ({evidence})");
            row("agent", Tone::Alarm, said(&text, error))
        }
        _ => None,
    }
}

/// How a tool ended, and after what time.
pub(super) fn tool_ended(name: &str, success: bool, duration_ms: u64) -> (Tone, String) {
    let (tone, word) = match success {
        true => (Tone::Dim, "done"),
        false => (Tone::Caution, "FAILED"),
    };
    (
        tone,
        format!("{name} {word} after {}", duration(duration_ms)),
    )
}

/// What it is, and the beginning of what it says.
fn said(what: &str, text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return what.to_owned();
    }
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        None => format!("{what}: {text}"),
        Some((at, _)) => format!("{what}: {}…", &text[..at]),
    }
}
