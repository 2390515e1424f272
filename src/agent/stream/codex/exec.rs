//! `codex exec --json`: threads with turns, whose items start and complete (pure).

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::agent::stream::{
    AnyText, ErrorBody, EventWriter, Int, Maybe, RecordHandler, Str, StreamStatus, token_counts,
};

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
