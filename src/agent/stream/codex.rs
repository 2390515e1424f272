//! Codex: the output of `codex exec --json`, and session rollouts (pure).

use super::{EventTime, EventWriter, Json, RecordHandler, StreamStatus, TokenUsage, first};

// `codex exec --json`: threads with turns, whose items start and complete (pure).

/// Returns the kind of an item; older versions call it `item_type`.
fn kind_of<'r>(item: &'r Json<'_>) -> &'r str {
    item["type"].as_str().unwrap_or(item["item_type"].text())
}

/// Returns the name and arguments of the item, if it is a tool.
fn tool_of(item: &Json<'_>) -> Option<(String, String)> {
    let kind = kind_of(item);
    let arguments = match kind {
        "command_execution" => &item["command"],
        "file_change" => &item["changes"],
        "web_search" => &item["query"],
        "mcp_tool_call" | "collab_tool_call" if item["arguments"].is_null() => &item["prompt"],
        "mcp_tool_call" | "collab_tool_call" => &item["arguments"],
        _ => return None,
    };
    let name = match (item["server"].text(), item["tool"].text()) {
        ("", "") => kind.to_owned(),
        ("", tool) => tool.to_owned(),
        (server, tool) => format!("{server}.{tool}"),
    };
    Some((name, arguments.arguments().into_owned()))
}

/// Reports the result of a tool.
fn report_result(item: &Json<'_>, writer: &mut EventWriter) {
    // A search has no status. A `completed` command without an exit code was abandoned.
    let status = item["status"].as_str();
    let exit_code = item["exit_code"].as_i64();
    let is_command = kind_of(item) == "command_execution";
    let success = status.is_none_or(|status| status == "completed")
        && (!is_command || exit_code == Some(0))
        && !item["error"].is_object();
    let (output, result) = (
        item["aggregated_output"].any_text(),
        item["result"].any_text(),
    );
    let texts = [
        item["error"]["message"].text(),
        output.as_str(),
        result.as_str(),
    ];
    let text = match first(texts) {
        "" if is_command && exit_code.is_none() => "abandoned: no exit code",
        "" => item["query"].text(),
        text => text,
    };
    let when = writer.time(None);
    writer.tool_completed(item["id"].text(), success, text, when);
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
    fn record(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        let item = &record["item"];
        match record["type"].text() {
            "thread.started" => {
                writer.cut_off_by("another thread began");
                writer.tools.clear();
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
                let usage = TokenUsage::of(&record["usage"], "input_tokens", "output_tokens");
                let answer = writer.answer.clone();
                writer.response_completed(&answer, usage, self.has_tool_calls);
                writer.turn_completed("turn.completed");
                writer.completed("turn.completed");
            }
            "turn.failed" => {
                self.is_open = false;
                let error = record["error"]["message"].as_str();
                writer.failed(error.unwrap_or(&self.error), "turn.failed");
            }
            "error" => {
                // The turn may continue (`Reconnecting... 1/5`). If not, its end reports the failure.
                let message = record["message"].text();
                message.clone_into(&mut self.error);
                writer.warn(format!("codex reports: {message}"));
            }
            "item.started" | "item.updated" => drop(self.item_started(item, writer)),
            "item.completed" => match kind_of(item) {
                "agent_message" | "assistant_message" => {
                    let text = item["text"].text();
                    writer.set_answer(text);
                    writer.token(text.into());
                }
                "error" => writer.warn(format!("codex reports: {}", item["message"].text())),
                _ => {
                    // Some items are reported only when they complete.
                    if self.item_started(item, writer) {
                        report_result(item, writer);
                    }
                }
            },
            _ => writer.mark_unknown(),
        }
    }

    fn finish(&mut self, writer: &mut EventWriter) {
        if writer.status == StreamStatus::Working && !self.error.is_empty() {
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

    /// Reports the start of a tool; returns false for other items.
    fn item_started(&mut self, item: &Json<'_>, writer: &mut EventWriter) -> bool {
        let Some((name, arguments)) = tool_of(item) else {
            return false;
        };
        self.has_tool_calls = true;
        let when = writer.time(None);
        writer.tool_started(item["id"].text(), &name, &arguments, when, true);
        true
    }
}

/// Returns the command and the result of an item that is a command of the user's (`!make`); `None` for others.
fn user_command<'a>(item: &'a Json<'_>) -> Option<(&'a str, &'a str)> {
    if item["type"].text() != "message" || item["role"].text() != "user" {
        return None;
    }
    let text = item["content"].list().first()?["text"].text();
    let text = text.strip_prefix("<user_shell_command>\n<command>\n")?;
    let (command, rest) = text.split_once("\n</command>\n<result>\n")?;
    Some((command, rest.split("\n</result>").next().unwrap_or(rest)))
}

// Determines from a tool's output in a rollout, by the exit code at its head, whether it succeeded (pure).

/// Returns true if the command succeeded, and its output, which may be a JSON object in a string.
fn parse_output(text: &str) -> (bool, String) {
    if text.starts_with('{')
        && let Ok(wrapped) = serde_json::from_str::<Json<'_>>(text)
        && wrapped["metadata"].is_object()
    {
        let success = wrapped["metadata"]["exit_code"].as_i64().unwrap_or(0) == 0;
        return (success, wrapped["output"].any_text().as_str().to_owned());
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
    /// True if the turn has a prompt. Others are commands of the user's (`/compact`, `!make`).
    is_prompted: bool,
}

impl RecordHandler for CodexRollout {
    fn record(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        let when = writer.time(record["timestamp"].time());
        // An envelope with a payload, or the payload alone in old versions.
        let payload = &record["payload"];
        match (record["type"].text(), payload.is_object()) {
            ("event_msg", true) => self.event(payload, when, writer),
            ("response_item", true) => self.item(payload, when, false, writer),
            ("compacted", _) => self.is_compacted = true,
            (_, true) => {}
            (_, false) => self.item(record, when, true, writer),
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

    fn event(&mut self, event: &Json<'_>, when: EventTime, writer: &mut EventWriter) {
        let message = event["message"].text();
        match event["type"].text() {
            "task_started" | "turn_started" => {
                let id = event["turn_id"].text();
                let is_same = id == self.turn_id && !id.is_empty();
                if writer.status == StreamStatus::Working && !is_same {
                    self.flush(writer);
                    writer.cut_off("another turn began");
                }
                id.clone_into(&mut self.turn_id);
                self.error.clear();
                (self.is_compacted, self.is_prompted) = (false, false);
                writer.working("task_started");
            }
            "task_complete" | "turn_complete" => self.turn_complete(event, writer),
            "turn_aborted" => {
                self.flush(writer);
                let reason = event["reason"].as_str().unwrap_or("aborted");
                writer.interrupted(format!("turn_aborted: {reason}"));
            }
            "user_message" if self.uses(MessageSource::Events) => self.prompt(message, writer),
            "agent_message" if self.uses(MessageSource::Events) => self.answer(message, writer),
            "item_completed" => {
                let item = &event["item"];
                let is_user = item["type"].text() == "UserMessage";
                let is_agent = item["type"].text() == "AgentMessage";
                if (is_user || is_agent) && self.uses(MessageSource::Items) {
                    self.message(&item["content"], is_user, writer);
                }
            }
            "token_count" => self.token_count(&event["info"], writer),
            "exec_command_end" | "patch_apply_end" => {
                let exit_code = event["exit_code"].as_i64().unwrap_or(0);
                if event["success"].as_bool() == Some(false) || exit_code != 0 {
                    // The output that follows may not show the failure.
                    let output = event["output"].any_text();
                    writer.tool_completed(event["call_id"].text(), false, output.as_str(), when);
                }
            }
            "context_compacted" => self.is_compacted = true,
            "error" => {
                message.clone_into(&mut self.error);
                writer.warn(format!("codex reports: {message}"));
            }
            "stream_error" | "warning" => writer.warn(format!("codex reports: {message}")),
            _ => {}
        }
    }

    fn turn_complete(&mut self, event: &Json<'_>, writer: &mut EventWriter) {
        self.flush(writer);
        let last = event["last_agent_message"].text();
        if event["error"].is_object() {
            let message = event["error"]["message"].text();
            return writer.failed(message, "task_complete with an error");
        }
        if last.is_empty() && !self.error.is_empty() {
            let error = std::mem::take(&mut self.error);
            return writer.failed(&error, "an error, and task_complete without an answer");
        }
        if last.is_empty() && !self.is_prompted {
            return writer.set_status(StreamStatus::Done, "task_complete without a prompt");
        }
        if last.is_empty() && !self.is_compacted {
            writer.warn("a turn is complete without an answer".to_owned());
        }
        writer.set_answer(last);
        writer.turn_completed("task_complete");
        writer.set_status(StreamStatus::Done, "task_complete");
    }

    fn item(&mut self, item: &Json<'_>, when: EventTime, is_bare: bool, writer: &mut EventWriter) {
        let id = item["call_id"].as_str().unwrap_or(item["id"].text());
        let name = item["name"].text();
        if let Some((command, result)) = user_command(item) {
            let (success, output) = parse_output(result);
            writer.user_command(id, command, when);
            return writer.tool_completed(id, success, &output, when);
        }
        match item["type"].text() {
            "message" if is_bare && self.uses(MessageSource::Messages) => {
                match item["role"].text() {
                    "user" => self.message(&item["content"], true, writer),
                    "assistant" => {
                        self.message(&item["content"], false, writer);
                        // These versions have no record for the end of a turn.
                        writer.set_status(StreamStatus::MaybeDone, "inferred: an answer");
                    }
                    _ => {}
                }
            }
            "function_call" => self.tool(id, name, &item["arguments"], when, writer),
            "custom_tool_call" => self.tool(id, name, &item["input"], when, writer),
            kind @ "local_shell_call" => self.tool(id, kind, &item["action"], when, writer),
            "web_search_call" => {
                // The API runs the search and reports only its end. Old versions write no id.
                let arguments = item["action"].arguments();
                let generated = format!("web_search {:?} {arguments}", when.recorded);
                let id = if id.is_empty() { &generated } else { id };
                self.tool(id, "web_search", &item["action"], when, writer);
                let success = item["status"].text() != "failed";
                writer.tool_completed(id, success, &arguments, when);
            }
            "function_call_output" | "custom_tool_call_output" => {
                // A text, parts, or an object with a success flag.
                let output = &item["output"];
                let (is_good, text) = parse_output(output.any_text().as_str());
                let success = output["success"].as_bool().unwrap_or(is_good);
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
        if is_bare || writer.status == StreamStatus::Unknown {
            writer.working(how);
        }
    }

    fn tool(
        &mut self,
        id: &str,
        name: &str,
        arguments: &Json<'_>,
        when: EventTime,
        writer: &mut EventWriter,
    ) {
        self.has_tool_calls = true;
        if matches!(
            writer.status,
            StreamStatus::Unknown | StreamStatus::MaybeDone
        ) {
            writer.working("a tool is called");
        }
        writer.tool_started(id, name, &arguments.arguments(), when, true);
    }

    fn message(&mut self, content: &Json<'_>, is_user: bool, writer: &mut EventWriter) {
        for part in content.list() {
            let text = part["text"].text();
            if is_user {
                self.prompt(text, writer);
            } else {
                self.answer(text, writer);
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
        self.is_prompted = true;
        if writer.status == StreamStatus::MaybeDone {
            self.flush(writer);
        }
        writer.prompt_sent(text);
    }

    fn answer(&mut self, text: &str, writer: &mut EventWriter) {
        writer.set_answer(text);
        text.clone_into(&mut self.text);
        if writer.status == StreamStatus::Unknown {
            writer.working("an answer");
        }
        writer.token(text.into());
    }

    /// Processes token counts. They repeat whenever a limit changes, so they count only if the
    /// total has grown.
    fn token_count(&mut self, info: &Json<'_>, writer: &mut EventWriter) {
        let total = &info["total_token_usage"];
        let last = &info["last_token_usage"];
        if !total.is_object() || !last.is_object() {
            return;
        }
        let total = total["total_tokens"].as_u64();
        if total != self.total_tokens {
            self.total_tokens = total;
            self.response(
                TokenUsage::of(last, "input_tokens", "output_tokens"),
                writer,
            );
        }
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
