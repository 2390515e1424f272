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
            tell(&oldest, scribe);
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
        self.open.retain(|message| {
            if message.is_own {
                tell(message, scribe);
            }
            !message.is_own
        });
    }

    /// All are complete.
    pub fn tell_all(&mut self, scribe: &mut Scribe) {
        for message in self.open.drain(..) {
            tell(&message, scribe);
        }
    }
}

fn tell(message: &Message, scribe: &mut Scribe) {
    scribe.response(message.text.as_str(), message.usage, message.has_tool_calls);
}
