//! Documents that an agent writes anew with each message: finds the messages that are new or have changed (pure).

use std::collections::HashMap;

use super::event_writer::{EventWriter, TakeRecord, hash};
use super::json::Json;
use super::json_lines::replace_lone_surrogates;
use crate::timestamp::Timestamp;

/// The most messages of a document that are read. A document has at most 16 MB, and a message takes some 200 bytes.
const MESSAGES_MAX: usize = 100_000;

/// Interprets the messages of one format.
pub(super) trait MessageHandler: Send {
    /// Returns the messages of a document.
    fn list<'a>(&self, document: &'a Json<'a>) -> &'a Json<'a>;

    /// Returns what identifies a message in all versions of the document.
    fn identity(&self, message: &Json<'_>) -> String;

    /// Returns the time of a message, if it has one.
    fn time(&self, message: &Json<'_>) -> Option<Timestamp>;

    /// Interprets a message that is new, or that has changed since it was.
    fn message(&mut self, message: &Json<'_>, is_new: bool, writer: &mut EventWriter);

    /// Notes what a version of the document states beside its messages.
    fn head(&mut self, _document: &Json<'_>, _writer: &mut EventWriter) {}
}

/// The messages of a document that were read.
pub(super) struct Document {
    handler: Box<dyn MessageHandler>,
    /// The identity and the content of each message, as hashes.
    known: Vec<(u64, u64)>,
}

impl Document {
    pub fn new(handler: Box<dyn MessageHandler>) -> Self {
        Self {
            handler,
            known: Vec::new(),
        }
    }

    /// Reads a version of the document, if it is complete. Messages after the part that is unchanged are new, except
    /// those that have only moved, because an agent may replace earlier messages by a summary of them.
    pub fn read(&mut self, bytes: &[u8], writer: &mut EventWriter, take: TakeRecord<'_>) {
        let text = String::from_utf8_lossy(bytes);
        let text = replace_lone_surrogates(&text);
        // A version that is being written is incomplete.
        let Ok(document) = serde_json::from_str::<Json<'_>>(&text) else {
            return;
        };
        let Json::List(messages) = self.handler.list(&document) else {
            return;
        };
        let messages = &messages[..messages.len().min(MESSAGES_MAX)];
        let next: Vec<(u64, u64)> = messages
            .iter()
            .map(|message| {
                let content = hash(&message.arguments());
                (hash(&self.handler.identity(message)), content)
            })
            .collect();
        let known = std::mem::take(&mut self.known);
        let pairs = known.iter().zip(&next);
        let same = pairs.take_while(|(before, now)| before.0 == now.0).count();
        let mut moved: HashMap<u64, usize> = HashMap::new();
        for (identity, _) in &known[same..] {
            *moved.entry(*identity).or_default() += 1;
        }
        for (at, message) in messages.iter().enumerate() {
            let (identity, content) = next[at];
            let is_new = at >= same;
            if is_new && let Some(count) = moved.get_mut(&identity).filter(|count| **count > 0) {
                *count -= 1;
                continue;
            }
            if is_new || known[at].1 != content {
                self.handler.message(message, is_new, writer);
                writer.give(self.handler.time(message), take);
            }
        }
        self.handler.head(&document, writer);
        if writer.has_notes() {
            writer.give(None, take);
        }
        self.known = next;
    }
}
