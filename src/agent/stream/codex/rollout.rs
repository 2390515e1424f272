//! Codex's session rollouts: turns with a start and an end, and messages that are recorded twice (pure).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::output::{ToolSuccess, parse_output};
use crate::agent::stream::{
    AnyText, Count, ErrorBody, EventTime, EventWriter, Flag, Int, List, Maybe, RecordHandler, Str,
    StreamStatus, Time, TokenUsage, token_counts,
};

/// A line: an envelope with a payload, or the payload alone in old versions.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct RolloutRecord<'a> {
    timestamp: Time<'a>,
    payload: Maybe<Box<RolloutRecord<'a>>>,
    #[serde(rename = "type")]
    kind: Str<'a>,
    // Fields of an event.
    turn_id: Str<'a>,
    reason: Str<'a>,
    message: Str<'a>,
    last_agent_message: Str<'a>,
    error: Maybe<ErrorBody<'a>>,
    item: Maybe<RolloutItem<'a>>,
    info: Maybe<TokenInfo>,
    success: Flag,
    exit_code: Int,
    // Fields of a message or a tool.
    role: Str<'a>,
    content: List<TextPart<'a>>,
    id: Str<'a>,
    call_id: Str<'a>,
    name: Str<'a>,
    arguments: Str<'a>,
    input: Str<'a>,
    action: Option<&'a RawValue>,
    status: Str<'a>,
    output: ToolOutput,
}

/// An item of a turn, in versions that record items.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct RolloutItem<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    content: List<TextPart<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct TextPart<'a> {
    text: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenInfo {
    total_token_usage: Maybe<TokenTotal>,
    last_token_usage: Maybe<RolloutTokens>,
}

token_counts!(RolloutTokens, "input_tokens", "output_tokens");

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct TokenTotal {
    total_tokens: Count,
}

/// The output of a tool: a text, parts, or an object with a success flag.
#[derive(Debug, Default)]
struct ToolOutput {
    text: AnyText,
    success: Option<bool>,
}

impl<'de> Deserialize<'de> for ToolOutput {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        let object: Maybe<ToolSuccess> = serde_json::from_str(raw.get()).unwrap_or_default();
        Ok(Self {
            text: serde_json::from_str(raw.get()).unwrap_or_default(),
            success: object.0.and_then(|object| object.success.0),
        })
    }
}

/// The records that messages are taken from: the first kind that appears, because several kinds
/// repeat them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageSource {
    Events,
    Items,
    /// Messages, which are the only records of old versions.
    Messages,
}

#[derive(Debug, Default)]
pub struct CodexRollout {
    channel: Option<MessageSource>,
    turn_id: String,
    /// The text since the last token count.
    text: String,
    has_tool_calls: bool,
    total_tokens: Option<u64>,
    /// An error of the turn, which its end may not contain.
    error: String,
    is_compacted: bool,
}

impl RecordHandler for CodexRollout {
    type Record<'a> = RolloutRecord<'a>;

    fn record(&mut self, mut record: RolloutRecord<'_>, writer: &mut EventWriter) {
        let when = writer.time(record.timestamp.read());
        let payload = record.payload.0.take();
        match (record.kind.as_str(), payload) {
            ("event_msg", Some(event)) => self.event(*event, when, writer),
            ("response_item", Some(item)) => self.item(*item, when, false, writer),
            ("compacted", _) => self.is_compacted = true,
            (_, Some(_)) => {}
            // A payload without an envelope.
            (_, None) => self.item(record, when, true, writer),
        }
    }

    fn finish(&mut self, writer: &mut EventWriter) {
        self.flush(writer);
        writer.finish();
    }
}

impl CodexRollout {
    fn uses(&mut self, channel: MessageSource) -> bool {
        *self.channel.get_or_insert(channel) == channel
    }

    fn event(&mut self, event: RolloutRecord<'_>, when: EventTime, writer: &mut EventWriter) {
        match event.kind.as_str() {
            "task_started" | "turn_started" => {
                let id = event.turn_id.as_str();
                let is_same = id == self.turn_id && !id.is_empty();
                if writer.status() == StreamStatus::Working && !is_same {
                    self.flush(writer);
                    writer.cut_off("another turn began");
                }
                id.clone_into(&mut self.turn_id);
                self.error.clear();
                self.is_compacted = false;
                writer.working("task_started");
            }
            "task_complete" | "turn_complete" => self.turn_complete(&event, writer),
            "turn_aborted" => {
                self.flush(writer);
                let reason = event.reason.get().unwrap_or("aborted").to_owned();
                writer.interrupted(format!("turn_aborted: {reason}"));
            }
            "user_message" if self.uses(MessageSource::Events) => {
                self.prompt(event.message.as_str(), writer);
            }
            "agent_message" if self.uses(MessageSource::Events) => {
                self.answer(event.message, writer);
            }
            "item_completed" => {
                let Some(item) = event.item.0 else { return };
                let is_user = item.kind.as_str() == "UserMessage";
                let is_agent = item.kind.as_str() == "AgentMessage";
                if (is_user || is_agent) && self.uses(MessageSource::Items) {
                    self.message(item.content, is_user, writer);
                }
            }
            "token_count" => {
                if let Some(info) = event.info.0 {
                    self.token_count(&info, writer);
                }
            }
            "exec_command_end" | "patch_apply_end" => {
                let success = event.success.0 != Some(false) && event.exit_code.0.unwrap_or(0) == 0;
                if !success {
                    // The output that follows may not show the failure.
                    let id = event.call_id.as_str();
                    writer.tool_completed(id, false, event.output.text.text.as_str(), when);
                }
            }
            "context_compacted" => self.is_compacted = true,
            "error" => {
                event.message.as_str().clone_into(&mut self.error);
                writer.warn(format!("codex reports: {}", event.message.as_str()));
            }
            "stream_error" | "warning" => {
                writer.warn(format!("codex reports: {}", event.message.as_str()));
            }
            _ => {}
        }
    }

    fn turn_complete(&mut self, event: &RolloutRecord<'_>, writer: &mut EventWriter) {
        self.flush(writer);
        let last = event.last_agent_message.as_str();
        if let Some(failure) = &event.error.0 {
            return writer.failed(failure.message.as_str(), "task_complete with an error");
        }
        if last.is_empty() && !self.error.is_empty() {
            let error = std::mem::take(&mut self.error);
            return writer.failed(&error, "an error, and task_complete without an answer");
        }
        if last.is_empty() && !self.is_compacted {
            writer.warn("a turn is complete without an answer".to_owned());
        }
        writer.set_answer(last);
        writer.turn_completed("task_complete");
        writer.set_status(StreamStatus::Done, "task_complete");
    }

    fn item(
        &mut self,
        item: RolloutRecord<'_>,
        when: EventTime,
        is_bare: bool,
        writer: &mut EventWriter,
    ) {
        let id = item.call_id.get().unwrap_or(item.id.as_str());
        match item.kind.as_str() {
            "message" if is_bare && self.uses(MessageSource::Messages) => {
                match item.role.as_str() {
                    "user" => self.message(item.content, true, writer),
                    "assistant" => {
                        self.message(item.content, false, writer);
                        // These versions have no record for the end of a turn.
                        writer.set_status(StreamStatus::MaybeDone, "inferred: an answer");
                    }
                    _ => {}
                }
            }
            kind @ ("function_call" | "custom_tool_call" | "local_shell_call") => {
                let (name, args) = match kind {
                    "function_call" => (item.name.as_str(), item.arguments.as_str()),
                    "custom_tool_call" => (item.name.as_str(), item.input.as_str()),
                    _ => (kind, item.action.map_or("", RawValue::get)),
                };
                self.tool(id, name, args, when, writer);
            }
            "web_search_call" => {
                // The API runs the search and reports only its end. Old versions write no id.
                let args = item.action.map_or("", RawValue::get);
                let generated = format!("web_search {:?} {args}", when.recorded);
                let id = if id.is_empty() { &generated } else { id };
                self.tool(id, "web_search", args, when, writer);
                writer.tool_completed(id, item.status.as_str() != "failed", args, when);
            }
            "function_call_output" | "custom_tool_call_output" => {
                let (is_good, text) = parse_output(item.output.text.text.as_str());
                let success = item.output.success.unwrap_or(is_good);
                writer.tool_completed(id, success, &text, when);
                self.continue_turn("a tool's result", is_bare, writer);
            }
            "reasoning" => self.continue_turn("it thinks", is_bare, writer),
            // The line is neither an envelope nor an item.
            _ if is_bare => writer.mark_unknown(),
            _ => {}
        }
    }

    /// Continues a turn whose start has no record.
    fn continue_turn(&self, how: &'static str, is_bare: bool, writer: &mut EventWriter) {
        if is_bare || writer.status() == StreamStatus::Unknown {
            writer.working(how);
        }
    }

    fn tool(
        &mut self,
        id: &str,
        name: &str,
        args: &str,
        when: EventTime,
        writer: &mut EventWriter,
    ) {
        self.has_tool_calls = true;
        if matches!(
            writer.status(),
            StreamStatus::Unknown | StreamStatus::MaybeDone
        ) {
            writer.working("a tool is called");
        }
        writer.tool_started(id, name, args, when, true);
    }

    fn message(&mut self, content: List<TextPart<'_>>, is_user: bool, writer: &mut EventWriter) {
        for part in content.0 {
            if is_user {
                self.prompt(part.text.as_str(), writer);
            } else {
                self.answer(part.text, writer);
            }
        }
    }

    fn prompt(&mut self, text: &str, writer: &mut EventWriter) {
        // Context that Codex writes before the prompt, in versions without events.
        let is_context = [
            "<environment_context>",
            "<user_instructions>",
            "# AGENTS.md",
        ];
        let is_context = self.channel == Some(MessageSource::Messages)
            && is_context.iter().any(|begin| text.starts_with(begin));
        if text.is_empty() || is_context {
            return;
        }
        if writer.status() == StreamStatus::MaybeDone {
            self.flush(writer);
        }
        writer.prompt_sent(text);
    }

    fn answer(&mut self, text: Str<'_>, writer: &mut EventWriter) {
        if let Some(text) = text.into_inner() {
            writer.set_answer(&text);
            text.as_ref().clone_into(&mut self.text);
            if writer.status() == StreamStatus::Unknown {
                writer.working("an answer");
            }
            writer.token(text);
        }
    }

    /// Processes token counts. They repeat whenever a limit changes, so they count only if the
    /// total has grown.
    fn token_count(&mut self, info: &TokenInfo, writer: &mut EventWriter) {
        let (Some(total), Some(last)) = (info.total_token_usage.0, info.last_token_usage.0) else {
            return;
        };
        if total.total_tokens.0 == self.total_tokens {
            return;
        }
        self.total_tokens = total.total_tokens.0;
        self.response(last.usage(), writer);
    }

    /// Reports an answer that has no usage of its own.
    fn flush(&mut self, writer: &mut EventWriter) {
        if !self.text.is_empty() {
            self.response(TokenUsage::default(), writer);
        }
    }

    fn response(&mut self, usage: TokenUsage, writer: &mut EventWriter) {
        writer.response_completed(&self.text, usage, self.has_tool_calls);
        self.text.clear();
        self.has_tool_calls = false;
    }
}
