//! Messages of a model that come in several records: each is told once, with the usage of its last (pure).

use std::collections::VecDeque;

use super::recent::Recent;
use super::scribe::{Scribe, Usage};
use crate::agent::summary::Beginning;

/// Messages of sub-agents that may be open at once; they run side by side.
const OPEN_MAX: usize = 32;

/// A message that may not be complete yet.
#[derive(Debug)]
pub(super) struct Message {
    id: Box<str>,
    is_own: bool,
    pub text: Beginning,
    pub usage: Usage,
    pub has_tool_calls: bool,
}

/// The messages that are open, oldest first.
#[derive(Debug, Default)]
pub(super) struct Messages {
    open: VecDeque<Message>,
    told: Recent,
    /// What the agent's own messages that were told took together.
    own: Usage,
}

impl Messages {
    /// The message with this id, unless it was told. Another message of the agent itself ends the
    /// one before; of its sub-agents nobody knows whose it is, so the oldest make room.
    pub fn open(&mut self, id: &str, is_own: bool, scribe: &mut Scribe) -> Option<&mut Message> {
        // Searched from behind: the last one it is, as a rule.
        if let Some(at) = self.open.iter().rposition(|message| &*message.id == id) {
            return self.open.get_mut(at);
        }
        if !self.told.insert(id) {
            return None;
        }
        if is_own {
            self.tell_own(scribe);
        }
        if self.open.len() >= OPEN_MAX
            && let Some(oldest) = self.open.pop_front()
        {
            self.tell(&oldest, scribe);
        }
        self.open.push_back(Message {
            id: id.into(),
            is_own,
            text: Beginning::default(),
            usage: Usage::default(),
            has_tool_calls: false,
        });
        self.open.back_mut()
    }

    /// The agent's own messages are complete.
    pub fn tell_own(&mut self, scribe: &mut Scribe) {
        for message in std::mem::take(&mut self.open) {
            match message.is_own {
                true => self.tell(&message, scribe),
                false => self.open.push_back(message),
            }
        }
    }

    /// All are complete.
    pub fn tell_all(&mut self, scribe: &mut Scribe) {
        for message in std::mem::take(&mut self.open) {
            self.tell(&message, scribe);
        }
    }

    /// The run has taken at least this: the agent's own messages are told, and the last of them with
    /// what the others have not accounted for. The counts of the messages may be those of their
    /// beginning.
    pub fn tell_run(&mut self, taken: Usage, scribe: &mut Scribe) {
        let open = self.open.iter().filter(|message| message.is_own);
        let told = open.fold(self.own, |sum, message| sum.plus(message.usage));
        let missing = taken.minus(told);
        if let Some(last) = self.open.iter_mut().rfind(|message| message.is_own) {
            last.usage = last.usage.plus(missing);
        } else if missing != Usage::default() {
            self.own = self.own.plus(missing);
            scribe.response("", missing, false);
        }
        self.tell_own(scribe);
    }

    /// Another run begins: what it takes is counted anew.
    pub fn begin_run(&mut self) {
        self.own = Usage::default();
    }

    fn tell(&mut self, message: &Message, scribe: &mut Scribe) {
        if message.is_own {
            self.own = self.own.plus(message.usage);
        }
        scribe.response(message.text.as_str(), message.usage, message.has_tool_calls);
    }
}
