//! The conversations of rows, and when logs have their events (pure).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::event::TdEvent;
use crate::timestamp::Timestamp;

/// The most conversations of a row whose files are read. A user begins a new one some times a day.
const CONVERSATIONS_MAX: usize = 50;

/// The longest time from the beginning of an observation until it has found an agent that was there before: searches are
/// half a second apart, and a busy machine is slow.
const FINDING_TIME: Duration = Duration::from_secs(5);

/// The longest time from the start of an agent until it is found: 1 s. It may say something before.
const STARTING_MICROS: i64 = 1_000_000;

/// A time in which a log has the events of a conversation. Another time of the same observer may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Observed {
    /// The first record whose events the log has: an observer goes on after what the one before it has logged.
    pub from: Timestamp,
    /// Since when the conversation was observed. Events of older records were logged then.
    pub live: Timestamp,
    /// The last record; `None` while the observation goes on.
    pub until: Option<Timestamp>,
    /// The log has the prompt and the open tools of the turn in which the observation began, too.
    pub has_open_turn: bool,
}

impl Observed {
    pub fn contains(&self, at: Timestamp) -> bool {
        self.from <= at && self.until.is_none_or(|until| at <= until)
    }
}

/// A conversation that a row has had, and the times in which the log has its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conversation {
    pub file: String,
    pub agent: Option<String>,
    pub observed: Vec<Observed>,
}

impl Conversation {
    /// Returns the start of the last observation.
    fn last_found(&self) -> Option<Timestamp> {
        self.observed.last().map(|of| of.live)
    }

    fn is_open(&self) -> bool {
        self.observed.last().is_some_and(|of| of.until.is_none())
    }
}

/// The conversations of a row, as a fold over its events.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversations {
    pub found: Vec<Conversation>,
    /// Since when the present observer observes the row.
    opened: Option<Timestamp>,
    /// What the log has of the conversations of the agent that was found last.
    logged: Option<(Timestamp, bool)>,
    /// The last event of a conversation, and of any kind.
    last_said: Option<Timestamp>,
    last: Option<Timestamp>,
    /// The last event that an earlier observer has logged, until the present one has found an agent.
    before: Option<Timestamp>,
}

impl Conversations {
    /// Applies the next event of the row.
    pub fn note(&mut self, event: &TdEvent, at: Timestamp) {
        match event {
            TdEvent::PaneOpened { .. } => self.opened = Some(self.opened.unwrap_or(at)),
            TdEvent::ConversationFound { file: None, .. } => self.find_agent(at),
            TdEvent::ConversationFound {
                file: Some(file),
                agent,
                ..
            } => self.find(file, agent.as_deref().map(String::as_str), at),
            TdEvent::AgentRegistered {
                output_file,
                pane: None,
                ..
            } => self.find(output_file, None, at),
            TdEvent::PromptSent { .. }
            | TdEvent::ResponseCompleted { .. }
            | TdEvent::ToolCallStarted { .. }
            | TdEvent::ToolCallCompleted { .. }
            | TdEvent::TurnCompleted { .. } => self.last_said = Some(at),
            _ => {}
        }
        self.last = Some(at);
    }

    /// Notes that nothing observes the row any more.
    pub fn lose_observer(&mut self, at: Timestamp) {
        // What was written later was not read.
        self.close(self.last_said.unwrap_or(at));
        self.before = self.last_said.or(self.last);
        (self.opened, self.logged) = (None, None);
    }

    fn find_agent(&mut self, at: Timestamp) {
        let before = self.before.take();
        let opened = self.opened.unwrap_or(at);
        let was_there = at <= opened.after(FINDING_TIME);
        self.logged = Some(match before {
            // The observer goes on with its conversation.
            Some(before) if was_there => (before, self.last_said.is_none()),
            _ if was_there => (at, true),
            // It was started, and is read from its beginning.
            _ => {
                let started = at.micros().saturating_sub(STARTING_MICROS);
                (opened.max(Timestamp::from_micros(started)), false)
            }
        });
    }

    /// The log has the events of a conversation from now on, and no others of its row.
    fn find(&mut self, file: &str, agent: Option<&str>, at: Timestamp) {
        let is_read = |of: &Conversation| of.file == file && of.is_open();
        if self.found.iter().any(is_read) {
            return;
        }
        self.close(at);
        let (from, has_open_turn) = self.logged.unwrap_or((at, false));
        let observed = Observed {
            from,
            live: self.opened.unwrap_or(at),
            until: None,
            has_open_turn,
        };
        if let Some(known) = self.found.iter_mut().find(|of| of.file == file) {
            known.observed.push(observed);
        } else if self.found.len() < CONVERSATIONS_MAX {
            self.found.push(Conversation {
                file: file.to_owned(),
                agent: agent.map(str::to_owned),
                observed: vec![observed],
            });
        }
    }

    fn close(&mut self, at: Timestamp) {
        for observed in self
            .found
            .iter_mut()
            .filter_map(|of| of.observed.last_mut())
        {
            observed.until.get_or_insert(at.max(observed.from));
        }
    }
}

/// Returns the conversations by their files: the row that had each last, its agent, and all times in which any log has
/// its events.
pub(super) fn by_file<'a>(
    rows: impl Iterator<Item = &'a [Conversation]>,
) -> BTreeMap<String, (usize, Conversation)> {
    let mut files: BTreeMap<String, (usize, Conversation)> = BTreeMap::new();
    for (place, conversations) in rows.enumerate() {
        for conversation in conversations {
            let known = files.get_mut(&conversation.file);
            let Some((owner, known)) = known else {
                let file = conversation.file.clone();
                files.insert(file, (place, conversation.clone()));
                continue;
            };
            if known.last_found() < conversation.last_found() {
                *owner = place;
                known.agent = conversation.agent.clone().or(known.agent.take());
            }
            known.observed.extend(&conversation.observed);
            known.observed.sort();
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn observed(from: i64, live: i64, until: Option<i64>) -> Observed {
        Observed {
            from: at(from),
            live: at(live),
            until: until.map(at),
            has_open_turn: false,
        }
    }

    #[test]
    fn a_conversation_of_two_rows_belongs_to_the_last_one() {
        let of = |from: i64, until: Option<i64>| Conversation {
            file: "f".to_owned(),
            agent: None,
            observed: vec![observed(from, from, until)],
        };
        let rows = [vec![of(500, None)], vec![], vec![of(1, Some(9))]];
        let files = by_file(rows.iter().map(Vec::as_slice));
        let (owner, conversation) = &files["f"];
        assert_eq!(*owner, 0);
        assert_eq!(
            conversation.observed,
            [observed(1, 1, Some(9)), observed(500, 500, None)]
        );
    }

    fn opened() -> TdEvent {
        TdEvent::pane_opened("a", &"%1".into(), 80, 24, "claude")
    }

    fn found(file: Option<&str>) -> TdEvent {
        TdEvent::ConversationFound {
            execution_id: "a".into(),
            pane: Some("%1".into()),
            agent: None,
            file: file.map(|file| Box::new(file.to_owned())),
            answer: None,
            turn_began: None,
            turn_ended: None,
            acted: None,
        }
    }

    fn said() -> TdEvent {
        TdEvent::PromptSent {
            execution_id: "a".into(),
            iteration: 1,
            prompt_summary: "go".to_owned(),
            token_count: None,
            pane: Some("%1".into()),
        }
    }

    #[test]
    fn a_log_has_what_an_agent_says_before_its_file_is_found() {
        let mut conversations = Conversations::default();
        let events = [
            (1, opened()),
            (60, found(None)),
            (62, said()),
            (63, found(Some("f"))),
        ];
        for (second, event) in events {
            conversations.note(&event, at(second));
        }
        // Another one of the same agent.
        conversations.note(&found(Some("g")), at(90));
        let [first, second] = &conversations.found[..] else {
            panic!("{conversations:?}");
        };
        assert_eq!(first.observed, [observed(59, 1, Some(90))]);
        assert_eq!(second.observed, [observed(59, 1, None)]);
    }

    #[test]
    fn an_observer_goes_on_after_what_the_one_before_has_logged() {
        let mut conversations = Conversations::default();
        let events = [
            (1, opened()),
            (1, found(None)),
            (1, found(Some("f"))),
            (20, said()),
        ];
        for (second, event) in events {
            conversations.note(&event, at(second));
        }
        conversations.lose_observer(at(30));
        conversations.lose_observer(at(31));
        for (second, event) in [
            (100, opened()),
            (101, said()),
            (101, found(None)),
            (101, found(Some("f"))),
        ] {
            conversations.note(&event, at(second));
        }
        let first = Observed {
            has_open_turn: true,
            ..observed(1, 1, Some(20))
        };
        assert_eq!(
            conversations.found[0].observed,
            [first, observed(20, 100, None)]
        );
    }
}
