//! Messages to Claude Code when a row begins to need someone, in the channel that it offers to servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::message::notification;
use super::server::McpServer;
use super::short::short;
use super::streams::Output;
use crate::board::{Attention, Row, listed};
use crate::error::Result;
use crate::thread::{Handle, Stop, is_stopped, park, spawn};

/// The longest time until a stop is noticed.
const HOLD: Duration = Duration::from_millis(300);

/// The longest words of a row in a message, in characters.
const WORDS_CHARS_MAX: usize = 400;

/// Starts to tell the client.
pub(super) fn start(server: Arc<McpServer>, output: Output, stop: Stop) -> Result<Handle<()>> {
    spawn("td-mcp-channel", move || run(&server, &output, &stop))
}

fn run(server: &McpServer, output: &Output, stop: &Stop) {
    let mut told = Told::default();
    let mut tag = None;
    while !is_stopped(stop) {
        let board = (server.find)().map(|observer| observer.board(tag.as_deref(), HOLD));
        match board {
            Ok(Ok(Some((rows, next)))) => {
                tag = next;
                for message in told.news(server, rows) {
                    output.send(message, stop);
                }
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) => {
                log::debug!("{error:?}");
                park(Some(HOLD));
            }
            Err(_) => park(Some(HOLD)),
        }
    }
}

/// What the client has been told of each row.
#[derive(Default)]
struct Told {
    /// The question, or the state and its time, of each row that needs someone.
    rows: HashMap<String, String>,
    has_begun: bool,
}

impl Told {
    /// Returns the messages for what is new. What has been there before the client is not.
    fn news(&mut self, server: &McpServer, rows: Vec<Row>) -> Vec<Value> {
        let needy = listed(rows, |_| false).into_iter();
        let needy = needy.filter(|row| row.attention() == Attention::NeedsYou);
        let mut now = HashMap::new();
        let mut messages = Vec::new();
        for row in needy {
            if server.own.is_some() && row.place() == server.own {
                continue;
            }
            let key = row.key().to_string();
            let what = match &row.question_id {
                Some(id) => id.clone(),
                None => format!("{} {}", row.state.as_str(), row.since),
            };
            let is_new = self.rows.get(&key) != Some(&what);
            if is_new && self.has_begun {
                messages.push(message(&row));
            }
            now.insert(key, what);
        }
        self.rows = now;
        self.has_begun = true;
        messages
    }
}

/// Returns the message of a row. The names of its fields have letters and `_` only, as Claude Code asks for.
fn message(row: &Row) -> Value {
    let mut meta = Map::new();
    let mut put = |name: &str, value: &str| drop(meta.insert(name.to_owned(), json!(value)));
    put("row", &row.key().to_string());
    if let Some(pane) = &row.pane {
        put("pane", pane.as_str());
    }
    put("name", &short(&row.name, WORDS_CHARS_MAX));
    put("state", row.state.as_str());
    if let Some(agent) = &row.agent {
        put("agent", &short(agent, WORDS_CHARS_MAX));
    }
    if let Some(id) = &row.question_id {
        put("question_id", id);
    }
    // What the program says is a field, and no instruction.
    let words = row.asks.as_deref().unwrap_or(&row.last_line);
    put("says", &short(words, WORDS_CHARS_MAX));
    let what = if row.is_waiting() {
        "has a question"
    } else {
        "needs someone"
    };
    let content = format!("A pane {what}: look at it with list_panes and its row, then decide.");
    let params = json!({"content": content, "meta": meta});
    notification("notifications/claude/channel", params)
}
