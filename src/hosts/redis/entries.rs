//! Entries of streams as Redis answers them, and the last one of this program.

use redis::{ServerError, Value};

use super::keys::{ENVELOPE, EntryId};
use super::link::{Link, LinkError};
use crate::event::{Envelope, LogGapRange};
use crate::history::parse_line;

/// The number of entries that are read at once to find the last one of this program.
const STEP: usize = 100;

/// An entry of a stream.
#[derive(Debug)]
pub(super) struct Entry {
    pub id: EntryId,
    /// The line of a log, if the entry has one.
    pub line: Option<Vec<u8>>,
    /// The other fields.
    others: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Entry {
    fn of(value: Value) -> Option<Self> {
        let Value::Array(parts) = value else {
            return None;
        };
        let mut parts = parts.into_iter();
        let Some(Value::BulkString(id)) = parts.next() else {
            return None;
        };
        let (mut line, mut others) = (None, Vec::new());
        for (field, value) in pairs(parts.next()) {
            if field == ENVELOPE.as_bytes() {
                line = Some(value);
            } else {
                others.push((field, value));
            }
        }
        Some(Self {
            id: EntryId::parse(&id)?,
            line,
            others,
        })
    }

    /// Returns the value of a field other than that with the line.
    pub fn field(&self, name: &[u8]) -> Option<&[u8]> {
        let mut fields = self.others.iter();
        fields.find_map(|(field, value)| (field == name).then_some(value.as_slice()))
    }

    /// Returns the event, if the entry is one of this program: its id has the number of the event.
    pub fn envelope(&self) -> Option<Envelope> {
        let envelope = parse_line(self.line.as_deref()?).ok()?;
        let numbers = LogGapRange::of(&envelope)?;
        (numbers.last == self.id.number).then_some(envelope)
    }
}

/// Returns the pairs of an answer that has names and values in turn.
pub(super) fn pairs(answer: Option<Value>) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let (values, map) = match answer {
        Some(Value::Array(values)) => (values, Vec::new()),
        Some(Value::Map(map)) => (Vec::new(), map),
        _ => (Vec::new(), Vec::new()),
    };
    let mut values = values.into_iter();
    let in_turn = std::iter::from_fn(move || Some((values.next()?, values.next()?)));
    let bytes = |value| match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    };
    let all = in_turn.chain(map);
    all.filter_map(move |(name, value)| Some((bytes(name)?, bytes(value)?)))
}

/// Returns the texts in an answer.
pub(super) fn values(answer: Option<Value>) -> Vec<Vec<u8>> {
    let (Some(Value::Array(values)) | Some(Value::Set(values))) = answer else {
        return Vec::new();
    };
    let texts = values.into_iter().filter_map(|value| match value {
        Value::BulkString(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

/// Returns the entries in an answer.
pub(super) fn entries(answer: Value) -> Result<Vec<Entry>, ServerError> {
    match answer {
        Value::ServerError(error) => Err(error),
        Value::Array(entries) => Ok(entries.into_iter().filter_map(Entry::of).collect()),
        _ => Ok(Vec::new()),
    }
}

/// Returns the id after which entries of this program go on: that of the last entry, with the number of the last
/// entry of this program.
pub(super) fn last_own(link: &mut Link, stream: &str) -> Result<EntryId, LinkError> {
    let mut before = "+".to_owned();
    let mut ms = 0;
    loop {
        let mut command = redis::cmd("XREVRANGE");
        command
            .arg(stream)
            .arg(&before)
            .arg("-")
            .arg("COUNT")
            .arg(STEP);
        let entries = entries(link.ask(&command)?).unwrap_or_default();
        for entry in &entries {
            ms = ms.max(entry.id.ms);
            if entry.envelope().is_some() {
                let number = entry.id.number;
                return Ok(EntryId { ms, number });
            }
        }
        match entries.last() {
            Some(first) => before = format!("({}", first.id),
            None => return Ok(EntryId { ms, number: 0 }),
        }
    }
}

/// Returns the id of the last entry of a stream that has none left, because all were trimmed.
pub(super) fn last_trimmed(link: &mut Link, stream: &str) -> Result<EntryId, LinkError> {
    let mut command = redis::cmd("XINFO");
    command.arg("STREAM").arg(stream);
    let answers = link.ask_all(&[command])?;
    let id = pairs(answers.into_iter().next()).find_map(|(name, value)| {
        let is_id = name == b"last-generated-id";
        is_id.then(|| EntryId::parse(&value)).flatten()
    });
    Ok(id.unwrap_or_default())
}
