//! What a row of the board has to tell (pure).

use super::message::{Item, News, cut};
use crate::board::{Attention, ExecutionKind, Row, RowState, is_failure};
use crate::event::AgentState;
use crate::history::fnv1a;
use crate::timestamp::Timestamp;

/// The longest text of an item in one line, in characters: what fits on a phone's lock screen, and more.
const LINE_CHARS_MAX: usize = 500;

/// The longest question, in characters: the board keeps 4 KiB.
const DIALOGUE_CHARS_MAX: usize = 4096;

/// The time before an end in which a view counts as one of the end: who has looked at a program within the last minute
/// has ended it, or knows that it was about to end.
const SEEN_BEFORE_MICROS: i64 = 60_000_000;

/// The identity of what a row tells, the same for each process that observes the row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct NewsId {
    pub row: String,
    pub news: News,
    pub since: Timestamp,
    /// The hash of the question, 0 without one: a row may ask another one without having gone on.
    pub question: u64,
}

impl NewsId {
    /// Returns true if it is the same but for its time.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.row, self.news, self.question) == (&other.row, other.news, other.question)
    }

    /// Returns the identity of an item.
    pub fn of(item: &Item) -> Self {
        Self {
            row: item.row.clone(),
            news: item.news,
            since: item.since,
            question: item.question,
        }
    }
}

/// What a row tells now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing.
    Nothing,
    /// Nobody knows yet, or any more.
    Unknown,
    /// It is for another process to tell, which may have dated it otherwise.
    Others(Option<NewsId>),
    /// This, and whether the user knows it.
    News { id: NewsId, is_seen: bool },
}

/// What is known of a row from before its present state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Past {
    /// The last time at which the user has looked at it.
    pub viewed: Option<Timestamp>,
    /// It has shown a prompt.
    pub was_at_prompt: bool,
}

/// Returns what a row tells.
pub(super) fn told_by(row: &Row, past: &Past) -> Told {
    let news = match &row.state {
        RowState::NotObserved | RowState::Connecting | RowState::Unreachable => {
            return Told::Unknown;
        }
        RowState::Agent(_) if row.is_unread() => return Told::Unknown,
        RowState::Agent(state) => match state.known() {
            Some(AgentState::Waiting) => News::Waiting,
            Some(AgentState::Error) => News::Error,
            Some(AgentState::Limited) => News::Limited,
            Some(AgentState::Suspended) => News::Suspended,
            Some(AgentState::Done) => News::Done,
            _ => return Told::Nothing,
        },
        // A job that has failed beside its user is no news.
        RowState::Failed if row.attention() == Attention::Finished => return Told::Nothing,
        RowState::Failed => News::Failed,
        // Who has typed a command looks at it for a while.
        RowState::Exited if row.kind == ExecutionKind::Command && !row.has_lived_long() => {
            return Told::Nothing;
        }
        RowState::Exited if row.exit_status.is_some_and(is_failure) => News::Failed,
        // Whoever ends a shell knows it; a script has no user.
        RowState::Exited if is_shell(row) && past.was_at_prompt => return Told::Nothing,
        RowState::Exited => News::Ended,
        RowState::Running | RowState::Quiet => return Told::Nothing,
    };
    let ends_with_user = matches!(news, News::Ended | News::Failed);
    let before = row.since.micros().saturating_sub(SEEN_BEFORE_MICROS);
    let is_viewed = ends_with_user && past.viewed.is_some_and(|at| at.micros() >= before);
    let question = row.asks.as_ref().filter(|_| news == News::Waiting);
    let is_seen = row.seen.is_some_and(|seen| seen >= row.since);
    Told::News {
        id: NewsId {
            row: row.key().to_string(),
            news,
            since: row.since,
            question: question.map_or(0, |asks| fnv1a(asks.as_bytes())),
        },
        is_seen: is_seen || is_viewed || row.dismissed,
    }
}

fn is_shell(row: &Row) -> bool {
    row.kind == ExecutionKind::Pane && row.agent.as_deref().is_none_or(|agent| agent == "shell")
}

/// Returns a row's news as an item of a message, without the words of the row unless `with_text`.
pub(super) fn item(row: &Row, id: &NewsId, with_text: bool) -> Item {
    let words = match id.news {
        News::Waiting => row.asks.as_deref().unwrap_or_default(),
        _ => &row.last_line,
    };
    let dialogue = row.dialogue.as_deref();
    let dialogue = dialogue.filter(|_| with_text && id.news == News::Waiting);
    Item {
        news: id.news,
        row: id.row.clone(),
        execution_id: row.execution_id.as_str().to_owned(),
        pane: row.pane.as_ref().map(|pane| pane.as_str().to_owned()),
        server: row.server.clone(),
        name: row.name.clone(),
        agent: row.agent.clone(),
        since: id.since,
        question: id.question,
        text: with_text.then(|| cut(words, LINE_CHARS_MAX)),
        question_id: row.question_id.clone(),
        dialogue: dialogue.map(|dialogue| cut(&dialogue.text, DIALOGUE_CHARS_MAX)),
        choices: dialogue.map_or_else(Vec::new, |dialogue| dialogue.choices.clone()),
        settled: None,
    }
}
