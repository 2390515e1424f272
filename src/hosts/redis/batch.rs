//! Entries of several streams, encoded as one transaction (pure).

use std::io::Write;

use super::keys::{ENVELOPE, EntryId};
use crate::event::ExecutionId;

/// The most entries of a transaction. Redis serves nobody else for the some 10 ms that it takes.
const ENTRIES_MAX: usize = 4096;

/// The most bytes of a transaction, beyond which no entry is added.
const BYTES_MAX: usize = 1024 * 1024;

/// A transaction that appends entries. Redis does all of it or none: without that, an entry that a full Redis refuses
/// could be followed by one that finds room, and would be lost.
#[derive(Debug)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    max_len: Option<String>,
    /// The runs, each with the ids of its entries in order.
    pub runs: Vec<(ExecutionId, Vec<EntryId>)>,
    entries: usize,
}

impl Batch {
    /// Creates an empty transaction; streams are trimmed to about `max_len` entries.
    pub fn new(max_len: Option<u64>) -> Self {
        let mut batch = Self {
            bytes: Vec::with_capacity(BYTES_MAX + BYTES_MAX / 8),
            max_len: max_len.map(|max_len| max_len.to_string()),
            runs: Vec::new(),
            entries: 0,
        };
        batch.push_command(&[b"MULTI"]);
        batch
    }

    pub fn len(&self) -> usize {
        self.entries
    }

    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    pub fn is_full(&self) -> bool {
        self.entries >= ENTRIES_MAX || self.bytes.len() >= BYTES_MAX
    }

    /// Begins the entries of a run.
    pub fn begin_run(&mut self, id: &ExecutionId) {
        self.runs.push((id.clone(), Vec::new()));
    }

    /// Appends an entry to the stream of the run that was begun last.
    pub fn push(&mut self, stream: &str, id: EntryId, line: &[u8]) {
        let text = id.to_string();
        let max_len = self.max_len.clone();
        let mut words: Vec<&[u8]> = vec![b"XADD", stream.as_bytes()];
        if let Some(max_len) = &max_len {
            words.extend([&b"MAXLEN"[..], b"~", max_len.as_bytes()]);
        }
        words.extend([text.as_bytes(), ENVELOPE.as_bytes(), line]);
        self.push_command(&words);
        self.entries += 1;
        if let Some((_, ids)) = self.runs.last_mut() {
            ids.push(id);
        }
    }

    /// Returns the encoded transaction.
    pub fn finish(&mut self) -> &[u8] {
        self.push_command(&[b"EXEC"]);
        &self.bytes
    }

    fn push_command(&mut self, words: &[&[u8]]) {
        let out = &mut self.bytes;
        // Writing to memory cannot fail.
        let _ = write!(out, "*{}\r\n", words.len());
        for word in words {
            let _ = write!(out, "${}\r\n", word.len());
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_encoded_as_redis_expects_it() {
        let id = EntryId { ms: 7, number: 1 };
        for (max_len, trim) in [
            (None, ""),
            (Some(50), "$6\r\nMAXLEN\r\n$1\r\n~\r\n$2\r\n50\r\n"),
        ] {
            let mut batch = Batch::new(max_len);
            assert!(batch.is_empty() && !batch.is_full());
            batch.begin_run(&"a".into());
            batch.push("td:h:a", id, b"{}");
            assert_eq!((batch.len(), batch.runs[0].1.as_slice()), (1, &[id][..]));
            let words = if max_len.is_some() { 8 } else { 5 };
            let expected = format!(
                "*1\r\n$5\r\nMULTI\r\n*{words}\r\n$4\r\nXADD\r\n$6\r\ntd:h:a\r\n{trim}$3\r\n7-1\r\n$8\r\nenvelope\r\n\
                 $2\r\n{{}}\r\n*1\r\n$4\r\nEXEC\r\n"
            );
            assert_eq!(std::str::from_utf8(batch.finish()).unwrap(), expected);
        }
    }
}
