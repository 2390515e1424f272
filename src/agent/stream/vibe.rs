//! Vibe's session journals: messages, tools with ids, and the state of the latest turn (pure).
//!
//! Measured on 3.0.2: `~/.vibe/logs/session/unified/SESSION/journal/NUMBER.jsonl`. Of its
//! records, only the changes of the session's projection matter: entries, and the envelope with the latest turn. A file
//! may begin with a copy of the envelope that ends the one before.

use super::{EventWriter, Json, RecordHandler, StreamStatus, TokenUsage, first};
use crate::timestamp::Timestamp;

#[derive(Debug, Default)]
pub struct VibeJournal {
    /// The turn that goes on.
    turn: String,
    /// The answer whose usage the next envelope has.
    answer: Option<String>,
    /// The usage of the session so far.
    used: Option<TokenUsage>,
}

impl RecordHandler for VibeJournal {
    fn record(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        if record["type"].text() != "projection_delta" {
            return;
        }
        for change in record["payload"]["delta"].list() {
            match change["op"].text() {
                "append_entry" => self.entry(&change["entry"], writer),
                "replace_entry" if change["entry"]["type"].text() == "effect" => {
                    tool(&change["entry"], writer);
                }
                "set_envelope" => self.envelope(&change["state"], writer),
                _ => {}
            }
        }
    }
}

impl VibeJournal {
    fn entry(&mut self, entry: &Json<'_>, writer: &mut EventWriter) {
        match (entry["type"].text(), entry["role"].text()) {
            ("message", "user") => {
                writer.abandon_tools();
                writer.prompt_sent(entry["content"].any_text().as_str());
            }
            ("message", "assistant") => {
                let parts = entry["content"].list().iter();
                let text: String = parts.map(|part| part["text"].text()).collect();
                writer.set_answer(&text);
                writer.token(text.as_str().into());
                self.answer = Some(text);
            }
            ("effect", _) => tool(entry, writer),
            _ => {}
        }
    }

    fn envelope(&mut self, state: &Json<'_>, writer: &mut EventWriter) {
        let (turn, id) = (&state["latestTurn"], state["latestTurn"]["id"].text());
        let status = turn["status"].text();
        let used = TokenUsage::of(
            &state["session"]["tokenUsage"],
            "inputTokens",
            "outputTokens",
        );
        let before = self.used.replace(used).unwrap_or(used);
        if let Some(text) = self.answer.take() {
            writer.response_completed(&text, used.minus(before), status == "in_progress");
        }
        if status == "in_progress" {
            id.clone_into(&mut self.turn);
            return writer.working("the turn is in progress");
        }
        if std::mem::take(&mut self.turn) != id {
            return;
        }
        match status {
            "completed" => {
                writer.turn_completed("the turn is completed");
                writer.set_status(StreamStatus::Done, "the turn is completed");
            }
            "failed" => writer.failed(turn["error"]["message"].text(), "the turn has failed"),
            "interrupted" => writer.interrupted(turn["reason"].text().to_owned()),
            _ => {}
        }
    }
}

fn tool(entry: &Json<'_>, writer: &mut EventWriter) {
    let (id, detail, state) = (entry["id"].text(), &entry["detail"], &entry["state"]);
    let arguments = detail["input"].arguments();
    let begun = writer.time(entry["createdAt"].time());
    writer.tool_started(id, detail["toolName"].text(), &arguments, begun, true);
    if entry["generationStatus"].text() != "in_progress" {
        let output = &state["output"];
        let printed = &output["structured_content"];
        let content = output["content"].any_text();
        let texts = [
            state["error"]["message"].text(),
            printed["stdout"].text(),
            printed["stderr"].text(),
            content.as_str(),
        ];
        let when = writer.time(entry["updatedAt"].time());
        writer.tool_completed(
            id,
            state["status"].text() == "completed",
            first(texts),
            when,
        );
    }
}

/// Returns the time of a record: its entries and the envelope have times of their own.
pub(super) fn time_of(record: &Json<'_>) -> Option<Timestamp> {
    let changes = record["payload"]["delta"].list().iter();
    let times = changes.filter_map(|change| {
        let session = &change["state"]["session"];
        change["entry"]["updatedAt"]
            .time()
            .or_else(|| session["updatedAt"].time())
    });
    times.max()
}
