//! Assembles a model's messages from several records. Each message is reported once, with its last
//! usage (pure).

use std::collections::VecDeque;

use super::event_writer::{EventWriter, TokenUsage};
use super::recent_ids::RecentIds;
use crate::agent::summary::TextPrefix;

/// The maximum number of open messages of sub-agents, which run concurrently.
const OPEN_MAX: usize = 32;

/// A message that may be incomplete.
#[derive(Debug, Default)]
pub(super) struct OpenMessage {
    id: Box<str>,
    is_own: bool,
    pub text: TextPrefix,
    pub usage: TokenUsage,
    pub has_tool_calls: bool,
}

/// A tool call whose arguments arrive in pieces.
#[derive(Debug, Default)]
pub(super) struct PartialCall {
    pub index: u64,
    pub id: String,
    pub name: String,
    pub arguments: TextPrefix,
}

/// The open messages, oldest first.
#[derive(Debug, Default)]
pub(super) struct OpenMessages {
    open: VecDeque<OpenMessage>,
    completed: RecentIds,
    /// The usage of the agent's own complete messages.
    own: TokenUsage,
}

impl OpenMessages {
    /// Returns the message with this id, unless it is complete. A new message of the agent itself
    /// completes the previous one. Messages of sub-agents cannot be attributed, so the oldest is
    /// completed if too many are open.
    pub fn open(
        &mut self,
        id: &str,
        is_own: bool,
        writer: &mut EventWriter,
    ) -> Option<&mut OpenMessage> {
        // Searches from the end, because the message usually is the last one.
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
            ..OpenMessage::default()
        });
        self.open.back_mut()
    }

    pub fn complete_own(&mut self, writer: &mut EventWriter) {
        for message in std::mem::take(&mut self.open) {
            match message.is_own {
                true => self.complete(&message, writer),
                false => self.open.push_back(message),
            }
        }
    }

    pub fn complete_all(&mut self, writer: &mut EventWriter) {
        for message in std::mem::take(&mut self.open) {
            self.complete(&message, writer);
        }
    }

    /// Completes the agent's own messages after a run that used at least `total`. The last message
    /// gets the usage that the others lack, because their counts may be those of their beginning.
    pub fn complete_run(&mut self, total: TokenUsage, writer: &mut EventWriter) {
        let open = self.open.iter().filter(|message| message.is_own);
        let completed = open.fold(self.own, |sum, message| sum.plus(message.usage));
        let missing = total.minus(completed);
        if let Some(last) = self.open.iter_mut().rfind(|message| message.is_own) {
            last.usage = last.usage.plus(missing);
        } else if missing != TokenUsage::default() {
            self.own = self.own.plus(missing);
            writer.response_completed("", missing, false);
        }
        self.complete_own(writer);
    }

    /// Resets the counts for another run.
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
