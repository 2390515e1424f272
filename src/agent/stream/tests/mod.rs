//! Tests of the formats on small records.

mod claude;
mod codex;
mod copilot;
mod cuts;
mod gemini;
mod opencode;
mod pending;
mod qwen;
mod sse;

use super::{AgentEvent, Format, StreamFormat, StreamParser, StreamStatus};
use crate::timestamp::Timestamp;

/// Returns the events of a stream, one short line for each event.
fn events_of(format: Format, text: &str) -> Vec<String> {
    let mut parser = StreamParser::new(format);
    let (now, mut events) = (Timestamp::from_micros(0), Vec::new());
    parser.push(text.as_bytes(), now, &mut events);
    parser.finish(now, &mut events);
    events.iter().map(short).collect()
}

/// Returns the agent's status after the last bytes.
fn status_of(text: &str) -> StreamStatus {
    let mut parser = StreamParser::new(Format::Auto);
    let (now, mut events) = (Timestamp::from_micros(0), Vec::new());
    parser.push(text.as_bytes(), now, &mut events);
    parser.flush_idle(now, &mut events);
    parser.status()
}

fn short(event: &AgentEvent) -> String {
    match event {
        AgentEvent::PromptSent { prompt_summary, .. } => format!("prompt {prompt_summary}"),
        AgentEvent::TokenReceived { token } => format!("token {token}"),
        AgentEvent::ResponseCompleted {
            input_tokens,
            output_tokens,
            has_tool_calls,
            ..
        } => {
            let tools = if *has_tool_calls { " tools" } else { "" };
            format!("response {input_tokens}/{output_tokens}{tools}")
        }
        AgentEvent::ToolCallStarted {
            tool_name,
            tool_args_summary,
        } => format!("tool {tool_name} {tool_args_summary}"),
        AgentEvent::ToolCallCompleted {
            tool_name,
            success,
            result_summary,
            duration_ms,
        } => {
            let how = if *success { "ok" } else { "failed" };
            format!("{how} {tool_name} {result_summary} {duration_ms}ms")
        }
        AgentEvent::TurnCompleted { marker, .. } => format!("turn {marker}"),
        AgentEvent::AgentCompleted { result, .. } => format!("completed {result}"),
        AgentEvent::AgentFailed { error, .. } => format!("failed {error}"),
        AgentEvent::Warning { message, .. } => format!("! {message}"),
    }
}
