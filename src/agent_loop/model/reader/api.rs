//! The APIs' own streams: server-sent events of which the first tells whose they are.

use serde_json::Value;

use super::super::intake::Intake;
use super::agent::Agent;
use super::{Anthropic, Chat, Flaw, Reader};
use crate::agent::{Format, SseRecord, SseRecords};
use crate::timestamp::Timestamp;

/// Bytes of one event: a tool's whole input may stand in one.
const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// So much is looked at for a first event; it is read again with each piece.
const HELD_BYTES_MAX: usize = 1024 * 1024;

/// What an API says in its events.
pub(in super::super) trait Dialect: Send {
    /// An event.
    ///
    /// # Errors
    /// When the API says that it has failed, and when what it says makes no whole answer.
    fn event(&mut self, event: &Value, intake: &mut Intake<'_>) -> Result<(), Flaw>;

    /// `[DONE]`.
    fn done(&mut self, _intake: &mut Intake<'_>) {}

    /// Whether the answer is whole, once its stream has ended.
    fn is_whole(&self) -> bool;

    /// Whether nothing more belongs to the answer.
    fn is_done(&self) -> bool;
}

/// An API's stream.
pub(in super::super) struct Api {
    records: SseRecords,
    dialect: Box<dyn Dialect>,
    flaw: Option<Flaw>,
}

impl Api {
    pub fn new(dialect: impl Dialect + 'static) -> Self {
        Self {
            records: SseRecords::new(RECORD_BYTES_MAX),
            dialect: Box::new(dialect),
            flaw: None,
        }
    }
}

fn take(
    record: &SseRecord,
    dialect: &mut dyn Dialect,
    flaw: &mut Option<Flaw>,
    intake: &mut Intake<'_>,
) {
    // What follows the end is nobody's, and what follows a flaw makes nothing whole.
    if flaw.is_some() || dialect.is_done() {
        return;
    }
    let taken = match record {
        SseRecord::Value(event) => dialect.event(event, intake),
        SseRecord::Done => {
            dialect.done(intake);
            Ok(())
        }
        SseRecord::Broken(text) => Err(Flaw::new(format!("the stream has no event here: {text}"))),
        SseRecord::TooLong(bytes) => Err(Flaw::new(format!(
            "an event of the stream has {bytes} bytes"
        ))),
    };
    *flaw = taken.err();
}

impl Reader for Api {
    fn push(&mut self, bytes: &[u8], _: Timestamp, intake: &mut Intake<'_>) -> Result<(), Flaw> {
        let (dialect, flaw) = (&mut *self.dialect, &mut self.flaw);
        self.records
            .push(bytes, &mut |record| take(&record, dialect, flaw, intake));
        self.flaw.clone().map_or(Ok(()), Err)
    }

    fn finish(&mut self, _: Timestamp, intake: &mut Intake<'_>) -> Result<(), Flaw> {
        if !self.dialect.is_done() {
            let (dialect, flaw) = (&mut *self.dialect, &mut self.flaw);
            // An event without its blank line was cut, as often as not in the middle: what is no
            // whole value is not told as broken.
            self.records.finish(&mut |record| {
                if !matches!(record, SseRecord::Broken(_)) {
                    take(&record, dialect, flaw, intake);
                }
            });
        }
        match &self.flaw {
            Some(flaw) => Err(flaw.clone()),
            None if self.dialect.is_whole() => Ok(()),
            None => Err(Flaw::new("the stream was cut off before its end")),
        }
    }

    fn is_done(&self) -> bool {
        self.dialect.is_done()
    }
}

/// The stream of an API that tells by its first event which one it is.
#[derive(Default)]
pub(in super::super) struct AnyApi {
    api: Option<Box<dyn Reader>>,
    /// What came before it was known.
    held: Vec<u8>,
}

impl AnyApi {
    fn choose(&mut self, is_end: bool) {
        let mut records = SseRecords::new(RECORD_BYTES_MAX);
        let mut first = None;
        let mut look = |record: SseRecord| {
            first.get_or_insert(record);
        };
        records.push(&self.held, &mut look);
        if is_end {
            records.finish(&mut look);
        }
        let Some(first) = first else {
            return;
        };
        let kind = match &first {
            SseRecord::Value(event) => event["type"].as_str(),
            _ => None,
        };
        self.api = Some(match kind {
            // Its tools' inputs are not read: no client here asks it.
            Some(kind) if kind.starts_with("response.") => Box::new(Agent::new(Format::Sse)),
            Some(_) => Box::new(Api::new(Anthropic::default())),
            None => Box::new(Api::new(Chat::default())),
        });
    }

    fn read(&mut self, now: Timestamp, intake: &mut Intake<'_>) -> Result<(), Flaw> {
        match &mut self.api {
            Some(api) => api.push(&std::mem::take(&mut self.held), now, intake),
            None => Ok(()),
        }
    }
}

impl Reader for AnyApi {
    fn push(&mut self, bytes: &[u8], now: Timestamp, intake: &mut Intake<'_>) -> Result<(), Flaw> {
        if let Some(api) = &mut self.api {
            return api.push(bytes, now, intake);
        }
        self.held.extend_from_slice(bytes);
        self.choose(false);
        if self.api.is_none() && self.held.len() > HELD_BYTES_MAX {
            return Err(Flaw::new("what came is no stream of an API"));
        }
        self.read(now, intake)
    }

    fn finish(&mut self, now: Timestamp, intake: &mut Intake<'_>) -> Result<(), Flaw> {
        if self.api.is_none() {
            self.choose(true);
            self.read(now, intake)?;
        }
        match &mut self.api {
            Some(api) => api.finish(now, intake),
            None => Err(Flaw::new("nothing came")),
        }
    }

    fn is_done(&self) -> bool {
        self.api.as_ref().is_some_and(|api| api.is_done())
    }
}
