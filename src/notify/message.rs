//! What a notification says: its items, as lines of text and as JSON (pure).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::event::{DialogueChoice, SCHEMA};
use crate::text::first_chars;
use crate::timestamp::Timestamp;

/// What a row of the board can be told of, in the words of `when`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum News {
    /// An agent asks.
    Waiting,
    /// An agent has failed.
    Error,
    /// An agent has reached its limit.
    Limited,
    /// A job, a command or a loop has failed.
    Failed,
    /// An agent or a job is stopped.
    Suspended,
    /// An agent has finished its turn.
    Done,
    /// A program has ended well, or nobody knows how.
    Ended,
}

impl News {
    /// Every kind, the most urgent first.
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Error,
        Self::Limited,
        Self::Failed,
        Self::Suspended,
        Self::Done,
        Self::Ended,
    ];

    /// Returns the word for it in `when`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Error => "error",
            Self::Limited => "limited",
            Self::Failed => "failed",
            Self::Suspended => "suspended",
            Self::Done => "done",
            Self::Ended => "ended",
        }
    }

    /// Returns the kind of a word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|news| news.as_str() == name)
    }

    /// Returns true if the row needs the user, and false if it has only finished.
    pub fn needs_user(self) -> bool {
        !matches!(self, Self::Done | Self::Ended)
    }

    /// Returns the verb of a title.
    fn verb(self) -> &'static str {
        match self {
            Self::Waiting => "asks",
            Self::Error => "has an error",
            Self::Limited => "has reached its limit",
            Self::Failed => "has failed",
            Self::Suspended => "is stopped",
            Self::Done => "is done",
            Self::Ended => "has ended",
        }
    }
}

/// How it came that an item no longer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Settled {
    /// The question has been answered, or the row goes on.
    Over,
    /// The user has looked at the row, or dismissed it.
    Seen,
    /// The row has left the board.
    Gone,
}

impl Settled {
    /// Returns the word for it in a message.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Over => "settled",
            Self::Seen => "seen",
            Self::Gone => "gone",
        }
    }
}

/// One thing that a message tells: a question, an error, an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Item {
    pub news: News,
    /// The id of the row, as in the board's JSON.
    pub row: String,
    pub execution_id: String,
    pub pane: Option<String>,
    /// The socket of the pane's tmux server.
    pub server: Option<String>,
    pub name: String,
    pub agent: Option<String>,
    pub since: Timestamp,
    /// The hash of the question, also if texts are not sent; 0 without one.
    pub question: u64,
    /// The question, the words of the error or the conclusion, in one line; `None` if texts are not sent.
    pub text: Option<String>,
    /// The id of the question.
    pub question_id: Option<String>,
    /// The whole question, in lines.
    pub dialogue: Option<String>,
    pub choices: Vec<DialogueChoice>,
    /// `None` while it holds.
    pub settled: Option<Settled>,
}

impl Item {
    /// Returns the name of the row and what happens there, in one line.
    pub fn title(&self) -> String {
        let agent = self.agent.as_deref();
        let agent = agent.filter(|agent| !["shell", &self.name].contains(agent));
        let agent = agent.map_or(String::new(), |agent| format!(" ({agent})"));
        format!("{}{agent} {}", self.name, self.news.verb())
    }

    /// Returns the title and the text in one line, with what has become of it.
    pub fn line(&self) -> String {
        let mut line = self.title();
        if let Some(text) = self.text.as_deref().filter(|text| !text.is_empty()) {
            line.push_str(": ");
            line.push_str(text);
        }
        match self.settled {
            Some(settled) => format!("✓ {line} [{}]", settled.as_str()),
            None => line,
        }
    }

    fn json(&self) -> Value {
        let mut value = json!({
            "row": self.row,
            "execution_id": self.execution_id,
            "pane": self.pane,
            "server": self.server,
            "session": self.name,
            "agent": self.agent,
            "state": self.news.as_str(),
            "since": self.since,
            "question_id": self.question_id,
        });
        if let Some(text) = &self.text {
            value["asks"] = json!((self.news == News::Waiting).then_some(text));
            value["text"] = json!(text);
        }
        if let Some(dialogue) = &self.dialogue {
            value["dialogue"] = json!({"text": dialogue, "choices": self.choices});
        }
        if let Some(settled) = self.settled {
            value["settled"] = json!(settled.as_str());
        }
        value
    }
}

/// One message to one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Of letters and digits, and the same for each retry and each update.
    pub id: String,
    pub at: Timestamp,
    /// At least one, the most urgent first.
    pub items: Vec<Item>,
}

/// The items that a message lists; it counts the others.
pub(super) const ITEMS_MAX: usize = 8;

impl Note {
    /// Returns a message that shows that a channel works.
    pub fn test(channel: &str, at: Timestamp) -> Self {
        let item = Item {
            news: News::Done,
            row: "test".to_owned(),
            execution_id: "test".to_owned(),
            pane: None,
            server: None,
            name: format!("td-observe: the channel {channel}"),
            agent: None,
            since: at,
            question: 0,
            text: Some(
                "This is a test. Messages of your agents and jobs look like this.".to_owned(),
            ),
            question_id: None,
            dialogue: None,
            choices: Vec::new(),
            settled: None,
        };
        Self {
            id: format!("{:016x}", at.micros()),
            at,
            items: vec![item],
        }
    }

    /// Returns true if nothing in it holds any more.
    pub fn is_settled(&self) -> bool {
        self.items.iter().all(|item| item.settled.is_some())
    }

    /// Returns true if something in it needs the user.
    pub fn needs_user(&self) -> bool {
        let mut open = self.items.iter().filter(|item| item.settled.is_none());
        open.any(|item| item.news.needs_user())
    }

    /// Returns the message's heading, in one line.
    pub fn title(&self) -> String {
        match self.items.as_slice() {
            [item] => match item.settled {
                Some(settled) => format!("✓ {} [{}]", item.title(), settled.as_str()),
                None => item.title(),
            },
            items => {
                let open = items.iter().filter(|item| item.settled.is_none());
                let needs = open.filter(|item| item.news.needs_user()).count();
                match (self.is_settled(), needs) {
                    (true, _) => format!("✓ {} agents and jobs: all settled", items.len()),
                    (false, 0) => format!("{} agents and jobs have news", items.len()),
                    (false, 1) => format!("1 of {} agents and jobs needs you", items.len()),
                    (false, count) => {
                        format!("{count} of {} agents and jobs need you", items.len())
                    }
                }
            }
        }
    }

    /// Returns what the message says below its heading, cut to a number of characters.
    pub fn body(&self, chars_max: usize) -> String {
        let body = match self.items.as_slice() {
            [item] => {
                let whole = item.dialogue.as_ref().filter(|text| !text.is_empty());
                whole.or(item.text.as_ref()).cloned().unwrap_or_default()
            }
            items => {
                let lines = items.iter().take(ITEMS_MAX).map(Item::line);
                let mut lines: Vec<String> = lines.collect();
                if items.len() > ITEMS_MAX {
                    lines.push(format!("and {} more", items.len() - ITEMS_MAX));
                }
                lines.join("\n")
            }
        };
        cut(&body, chars_max)
    }

    /// Returns the envelope for programs; `id` is that of this event, the message's or that of its update.
    pub fn envelope(&self, id: &str, channel: &str) -> Value {
        let mut items = self.items.iter().map(Item::json);
        let mut event = items.next().unwrap_or_else(|| json!({}));
        event["type"] = json!("Notification");
        event["id"] = json!(id);
        event["notification"] = json!(self.id);
        event["channel"] = json!(channel);
        event["title"] = json!(self.title());
        let more: Vec<Value> = items.collect();
        if !more.is_empty() {
            event["more"] = json!(more);
        }
        if self.is_settled() {
            event["resolved"] = json!(true);
        }
        json!({"schema": SCHEMA, "ts": self.at, "event": event})
    }
}

/// Returns a text of at most a number of characters, whose cut shows.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    let kept = first_chars(text, chars_max);
    if kept.len() == text.len() {
        return text.to_owned();
    }
    let kept = first_chars(text, chars_max.saturating_sub(1));
    format!("{kept}…")
}
