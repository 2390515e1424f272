//! OpenMessages of a model that come in several records: each is completed once, with the usage of its last (pure).

use std::collections::VecDeque;

use super::event_writer::{EventWriter, TokenUsage};
use super::recent_ids::RecentIds;
use crate::agent::summary::TextPrefix;

/// OpenMessages of sub-agents that may be open at once; they run side by side.
const OPEN_MAX: usize = 32;

/// A message that may not be complete yet.
#[derive(Debug)]
pub(super) struct OpenMessage {
    id: Box<str>,
    is_own: bool,
    pub text: TextPrefix,
    pub usage: TokenUsage,
    pub has_tool_calls: bool,
}

/// The messages that are open, oldest first.
#[derive(Debug, Default)]
pub(super) struct OpenMessages {
    open: VecDeque<OpenMessage>,
    completed: RecentIds,
    /// What the agent's own messages that were completed took together.
    own: TokenUsage,
}

impl OpenMessages {
    /// The message with this id, unless it was completed. Another message of the agent itself ends the
    /// one before; of its sub-agents nobody knows whose it is, so the oldest make room.
    pub fn open(
        &mut self,
        id: &str,
        is_own: bool,
        writer: &mut EventWriter,
    ) -> Option<&mut OpenMessage> {
        // Searched from behind: the last one it is, as a rule.
        if let Some(at) = self.open.iter().rposition(|message| &*message.id == id) {
            return self.open.get_mut(at);
        }
        if !self.completed.insert(id) {
            return None;
        }
        if is_own {
            self.complete_own(writer);
        }
        if self.open.len() >= OPEN_MAX
            && let Some(oldest) = self.open.pop_front()
        {
            self.complete(&oldest, writer);
        }
        self.open.push_back(OpenMessage {
            id: id.into(),
            is_own,
            text: TextPrefix::default(),
            usage: TokenUsage::default(),
            has_tool_calls: false,
        });
        self.open.back_mut()
    }

    /// The agent's own messages are complete.
    pub fn complete_own(&mut self, writer: &mut EventWriter) {
        for message in std::mem::take(&mut self.open) {
            match message.is_own {
                true => self.complete(&message, writer),
                false => self.open.push_back(message),
            }
        }
    }

    /// All are complete.
    pub fn complete_all(&mut self, writer: &mut EventWriter) {
        for message in std::mem::take(&mut self.open) {
            self.complete(&message, writer);
        }
    }

    /// The run has taken at least this: the agent's own messages are completed, and the last of them with
    /// what the others have not accounted for. The counts of the messages may be those of their
    /// beginning.
    pub fn complete_run(&mut self, taken: TokenUsage, writer: &mut EventWriter) {
        let open = self.open.iter().filter(|message| message.is_own);
        let completed = open.fold(self.own, |sum, message| sum.plus(message.usage));
        let missing = taken.minus(completed);
        if let Some(last) = self.open.iter_mut().rfind(|message| message.is_own) {
            last.usage = last.usage.plus(missing);
        } else if missing != TokenUsage::default() {
            self.own = self.own.plus(missing);
            writer.response_completed("", missing, false);
        }
        self.complete_own(writer);
    }

    /// Another run begins: what it takes is counted anew.
    pub fn begin_run(&mut self) {
        self.own = TokenUsage::default();
    }

    fn complete(&mut self, message: &OpenMessage, writer: &mut EventWriter) {
        if message.is_own {
            self.own = self.own.plus(message.usage);
        }
        writer.response_completed(message.text.as_str(), message.usage, message.has_tool_calls);
    }
}
