//! Claude Code: the output of `claude -p --output-format stream-json`, and session transcripts (pure).

mod background;
mod wire;

mod pending;

mod print;
mod transcript;

pub(super) use print::ClaudePrint;
pub(super) use transcript::ClaudeTranscript;
pub(super) use wire::{ApiEvent, LiveMessage, StreamStep};

use super::{EventTime, EventWriter, OpenMessages};
use wire::{ApiMessage, MessageContent};

/// The model name of messages that Claude Code itself has written.
const SYNTHETIC: &str = "<synthetic>";

/// The origin of a record.
#[derive(Clone, Copy, Debug)]
struct Speaker {
    /// True for the agent itself, false for a sub-agent.
    is_own: bool,
    /// True if the text is reported elsewhere, because it arrived as deltas or is an error.
    is_repeated: bool,
}

/// The contents of an assistant's record.
#[derive(Clone, Copy, Debug, Default)]
struct MessageParts {
    has_text: bool,
    has_tool: bool,
}

/// Reports the contents of an assistant's record: text, tools, and its part of a message.
fn report_assistant(
    message: ApiMessage<'_>,
    speaker: Speaker,
    when: EventTime,
    messages: &mut OpenMessages,
    writer: &mut EventWriter,
) -> MessageParts {
    let mut parts = MessageParts::default();
    let is_synthetic = message.model.as_str() == SYNTHETIC;
    if speaker.is_own && !is_synthetic {
        // Completes the previous message, whose event precedes those of this message.
        messages.open(message.id.as_str(), true, writer);
    }
    let ApiMessage {
        id, content, usage, ..
    } = message;
    let mut text = String::new();
    match content {
        MessageContent::None => {}
        MessageContent::Text(whole) => {
            parts.has_text = !whole.is_empty();
            text.push_str(&whole);
            if speaker.is_own && !speaker.is_repeated {
                writer.token(whole);
            }
        }
        MessageContent::Blocks(blocks) => {
            for block in blocks {
                if block.is_tool_use() {
                    parts.has_tool = true;
                    writer.tool_started(
                        block.id.as_str(),
                        block.name.as_str(),
                        block.args(),
                        when,
                        speaker.is_own,
                    );
                } else if let Some(id) = block.tool_use_id.get() {
                    // The message of a tool that the API runs also has the tool's result.
                    writer.tool_completed(
                        id,
                        block.is_success(),
                        block.content.text.as_str(),
                        when,
                    );
                } else if block.kind.as_str() == "text"
                    && let Some(piece) = block.text.into_inner()
                {
                    parts.has_text = true;
                    text.push_str(&piece);
                    if speaker.is_own && !speaker.is_repeated {
                        writer.token(piece);
                    }
                }
            }
        }
    }
    if speaker.is_own {
        writer.set_answer(&text);
    }
    if !is_synthetic && let Some(open) = messages.open(id.as_str(), speaker.is_own, writer) {
        if !open.text.is_empty() && !text.is_empty() {
            open.text.push("\n");
        }
        open.text.push(&text);
        open.has_tool_calls |= parts.has_tool;
        if let Some(usage) = usage.0 {
            usage.replace(&mut open.usage);
        }
    }
    parts
}

/// Reports the tool results of a user's record; returns true if it has any.
fn report_tool_results(
    content: &MessageContent<'_>,
    time: EventTime,
    writer: &mut EventWriter,
) -> bool {
    for (id, block) in content.tool_results() {
        writer.tool_completed(id, block.is_success(), block.content.text.as_str(), time);
    }
    content.tool_results().next().is_some()
}

/// Returns true if the text replaces a prompt after the user has stopped the agent.
fn is_interruption(text: &str) -> bool {
    text.starts_with("[Request interrupted by user")
}

/// Returns true if the text comes from a stop hook, which makes the agent continue, instead of a prompt.
fn is_hook_feedback(text: &str) -> bool {
    let title = text.split(':').next().unwrap_or_default();
    matches!(title, "Stop hook feedback" | "SubagentStop hook feedback")
}

/// Returns true if the text is a command or its output, which is not sent to the model as a prompt.
fn is_aside(text: &str) -> bool {
    [
        "<command-name>",
        "<local-command-",
        "<bash-input>",
        "<bash-stdout>",
    ]
    .iter()
    .any(|begin| text.starts_with(begin))
}
