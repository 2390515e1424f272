//! Rows of the board as JSON for a model: short, the texts of panes in fields of their own (pure).

use serde_json::{Map, Value, json};

use super::result::Budget;
use super::short::short;
use crate::board::{Attention, ExecutionKind, Place, Row};
use crate::face::sanitize::sanitized;
use crate::text::first_chars;
use crate::timestamp::Timestamp;

/// The longest line of a row, in characters.
const LINE_CHARS_MAX: usize = 120;

/// The longest question in one line, in characters.
const ASKS_CHARS_MAX: usize = 300;

/// The longest question in full, in characters: what fits into a short result beside the rest.
const TEXT_CHARS_MAX: usize = 900;

/// The longest choice, in characters.
const LABEL_CHARS_MAX: usize = 100;

/// The maximum number of choices: menus of agents have up to a dozen.
const CHOICES_MAX: usize = 16;

/// Returns the open question of a row, if there is one. Its whole text is long.
pub(super) fn question_of(row: &Row, is_whole: bool) -> Option<Value> {
    let id = row.question_id.as_deref().filter(|_| row.is_waiting())?;
    let mut question = Map::new();
    question.insert("id".to_owned(), json!(id));
    let asks = row.asks.as_deref().unwrap_or_default();
    question.insert("asks".to_owned(), json!(short(asks, ASKS_CHARS_MAX)));
    if let Some(dialogue) = row.dialogue.as_deref() {
        if is_whole && !dialogue.text.is_empty() {
            let text = first_chars(&dialogue.text, TEXT_CHARS_MAX);
            let text: Vec<String> = text.lines().map(sanitized).collect();
            let text = text.join("\n");
            question.insert("text".to_owned(), json!(text));
        }
        let choices = dialogue.choices.iter().take(CHOICES_MAX).map(|choice| {
            let mut json = json!({
                "key": short(&choice.key, LABEL_CHARS_MAX),
                "label": short(&choice.label, LABEL_CHARS_MAX),
            });
            if choice.selected {
                json["selected"] = json!(true);
            }
            json
        });
        question.insert("choices".to_owned(), choices.collect());
    }
    Some(Value::Object(question))
}

/// What is known around the rows.
pub(super) struct Around<'a> {
    pub now: Timestamp,
    /// The pane of the client.
    pub own: Option<&'a Place>,
    /// There are several tmux servers.
    pub has_servers: bool,
    /// The whole questions are wanted.
    pub is_whole: bool,
}

/// Returns a row as JSON. Fields without a value, or with the common one, are left out.
pub(super) fn row_json(row: &Row, around: &Around<'_>) -> Value {
    let mut json = Map::new();
    let mut put = |name: &str, value: Value| json.insert(name.to_owned(), value);
    if let Some(pane) = &row.pane {
        put("pane", json!(pane.as_str()));
    }
    put("id", json!(row.key().to_string()));
    put("name", json!(short(&row.name, LABEL_CHARS_MAX)));
    if let Some(host) = &row.host {
        put("host", json!(host));
    }
    if let Some(server) = row.server.as_deref().filter(|_| around.has_servers) {
        put("server", json!(server));
    }
    if row.kind != ExecutionKind::Pane {
        put("kind", json!(row.kind.as_str()));
    }
    if let Some(agent) = &row.agent {
        put("agent", json!(short(agent, LABEL_CHARS_MAX)));
    }
    put("state", json!(row.state.as_str()));
    if row.attention() == Attention::NeedsYou {
        put("needs_you", json!(true));
    }
    let micros = around.now.micros().saturating_sub(row.since.micros());
    put("for_s", json!(micros.max(0) / 1_000_000));
    if let Some(question) = question_of(row, around.is_whole) {
        put("question", question);
    } else if !row.last_line.is_empty() {
        put("last_line", json!(short(&row.last_line, LINE_CHARS_MAX)));
    }
    if let Some(status) = row.exit_status {
        put("exit_status", json!(status));
    }
    if around.own.is_some() && row.place().as_ref() == around.own {
        put("is_you", json!(true));
    }
    Value::Object(json)
}

/// Returns the rows from one on that fit, and how many those are; at least one.
pub(super) fn rows_that_fit(
    rows: &[Row],
    limit: usize,
    budget: &mut Budget,
    around: &Around<'_>,
) -> Vec<Value> {
    let mut fitting = Vec::new();
    for row in rows.iter().take(limit) {
        let json = row_json(row, around);
        if !budget.take(&json) && !fitting.is_empty() {
            break;
        }
        fitting.push(json);
    }
    fitting
}
