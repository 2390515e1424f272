//! Codex: the output of `codex exec --json`, and session rollouts (pure).

use super::{
    AnyText, Count, ErrorBody, EventTime, EventWriter, Flag, Int, List, Maybe, RecordHandler, Str,
    StreamStatus, Time, TokenUsage, token_counts,
};
use serde::Deserialize;
use serde_json::value::RawValue;

// `codex exec --json`: threads with turns, whose items start and complete (pure).

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct ExecRecord<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    item: Maybe<Box<ExecItem<'a>>>,
    usage: Maybe<ExecTokens>,
    message: Str<'a>,
    error: Maybe<ErrorBody<'a>>,
}

token_counts!(ExecTokens, "input_tokens", "output_tokens");

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ExecItem<'a> {
    id: Str<'a>,
    // Older versions call it `item_type`.
    #[serde(rename = "type")]
    kind: Str<'a>,
    item_type: Str<'a>,
    status: Str<'a>,
    text: Str<'a>,
    message: Str<'a>,
    command: Str<'a>,
    aggregated_output: AnyText,
    exit_code: Int,
    changes: Option<&'a RawValue>,
    server: Str<'a>,
    tool: Str<'a>,
    arguments: Option<&'a RawValue>,
    prompt: Str<'a>,
    query: Str<'a>,
    result: AnyText,
    error: Maybe<ErrorBody<'a>>,
}

impl ExecItem<'_> {
    fn kind(&self) -> &str {
        self.kind.get().unwrap_or(self.item_type.as_str())
    }

    /// Returns the name and arguments of the item, if it is a tool.
    fn tool(&self) -> Option<(String, &str)> {
        let kind = self.kind();
        match kind {
            "command_execution" => Some((kind.to_owned(), self.command.as_str())),
            "file_change" => Some((kind.to_owned(), self.changes.map_or("", RawValue::get))),
            "web_search" => Some((kind.to_owned(), self.query.as_str())),
            "mcp_tool_call" | "collab_tool_call" => {
                let name = match (self.server.as_str(), self.tool.as_str()) {
                    ("", "") => kind.to_owned(),
                    ("", tool) => tool.to_owned(),
                    (server, tool) => format!("{server}.{tool}"),
                };
                let args = self.arguments.map_or(self.prompt.as_str(), RawValue::get);
                Some((name, args))
            }
            _ => None,
        }
    }

    /// Returns true if the tool succeeded. A `completed` command without an exit code was abandoned.
    fn is_success(&self) -> bool {
        // A search has no status.
        let ended_well = (self.status.get()).is_none_or(|status| status == "completed");
        let exited_well = self.kind() != "command_execution" || self.exit_code.0 == Some(0);
        ended_well && exited_well && self.error.0.is_none()
    }

    fn result(&self) -> &str {
        let error = self.error.0.as_ref();
        let texts = [
            error.map_or("", |error| error.message.as_str()),
            self.aggregated_output.text.as_str(),
            self.result.text.as_str(),
        ];
        let text = texts.into_iter().find(|text| !text.is_empty());
        match text {
            Some(text) => text,
            None if self.kind() == "command_execution" && self.exit_code.0.is_none() => {
                "abandoned: no exit code"
            }
            None => self.query.as_str(),
        }
    }
}

#[derive(Debug, Default)]
pub struct CodexExec {
    /// True while a turn is open.
    is_open: bool,
    has_tool_calls: bool,
    /// The last error of the stream, for a turn whose end states none.
    error: String,
}

impl RecordHandler for CodexExec {
    type Record<'a> = ExecRecord<'a>;

    fn record(&mut self, record: ExecRecord<'_>, writer: &mut EventWriter) {
        match record.kind.as_str() {
            "thread.started" => {
                writer.cut_off_by("another thread began");
                writer.clear_tools();
                self.begin(false);
                writer.working("thread.started");
            }
            "turn.started" => {
                if self.is_open {
                    writer.cut_off("another turn began");
                }
                self.begin(true);
                writer.working("turn.started");
            }
            "turn.completed" => {
                self.is_open = false;
                let usage = record.usage.0.unwrap_or_default().usage();
                let answer = writer.answer().to_owned();
                writer.response_completed(&answer, usage, self.has_tool_calls);
                writer.turn_completed("turn.completed");
                writer.completed("turn.completed");
            }
            "turn.failed" => {
                self.is_open = false;
                let error = record.error.0.unwrap_or_default();
                let error = error.message.get().unwrap_or(&self.error);
                writer.failed(error, "turn.failed");
            }
            "error" => {
                // The turn may continue (`Reconnecting... 1/5`). If not, its end reports the failure.
                record.message.as_str().clone_into(&mut self.error);
                writer.warn(format!("codex reports: {}", record.message.as_str()));
            }
            "item.started" | "item.updated" => {
                if let Some(item) = record.item.0 {
                    self.item_started(&item, writer);
                }
            }
            "item.completed" => {
                if let Some(item) = record.item.0 {
                    self.completes(item, writer);
                }
            }
            _ => writer.mark_unknown(),
        }
    }

    fn finish(&mut self, writer: &mut EventWriter) {
        if writer.status() == StreamStatus::Working && !self.error.is_empty() {
            writer.failed(
                &self.error,
                "an error, and the stream ended without turn.failed",
            );
        }
        writer.finish();
    }
}

impl CodexExec {
    fn begin(&mut self, is_turn: bool) {
        self.is_open = is_turn;
        self.has_tool_calls = false;
        self.error.clear();
    }

    fn item_started(&mut self, item: &ExecItem<'_>, writer: &mut EventWriter) {
        if let Some((name, args)) = item.tool() {
            self.has_tool_calls = true;
            let when = writer.time(None);
            writer.tool_started(item.id.as_str(), &name, args, when, true);
        }
    }

    fn completes(&mut self, item: Box<ExecItem<'_>>, writer: &mut EventWriter) {
        match item.kind() {
            "agent_message" | "assistant_message" => {
                if let Some(text) = item.text.into_inner() {
                    writer.set_answer(&text);
                    writer.token(text);
                }
            }
            "error" => writer.warn(format!("codex reports: {}", item.message.as_str())),
            _ => {
                // Some items are reported only when they complete.
                self.item_started(&item, writer);
                if item.tool().is_some() {
                    let when = writer.time(None);
                    let id = item.id.as_str();
                    writer.tool_completed(id, item.is_success(), item.result(), when);
                }
            }
        }
    }
}

// Determines from a tool's output in a rollout, by the exit code at its head, whether it succeeded (pure).

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

// Codex's session rollouts: turns with a start and an end, and messages that are recorded twice (pure).

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
