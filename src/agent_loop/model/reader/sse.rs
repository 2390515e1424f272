//! Reads the streams of APIs: server-sent events, the first of which identifies the API.

use super::super::error::{AnswerError, ReadResult};
use super::super::response_builder::ResponseBuilder;
use super::agent;
use super::answer::{AnswerReader, Dialect};
use super::anthropic::AnthropicDialect;
use super::chat::ChatDialect;
use crate::agent::{Format, SseRecord, SseRecords};
use crate::clock::Clock;

/// Maximum size of an event, which may contain the complete input of a tool.
const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum number of bytes before the first event. They are parsed again with each read.
const PENDING_BYTES_MAX: usize = 1024 * 1024;

pub(in super::super) struct SseReader {
    records: SseRecords,
    dialect: Box<dyn Dialect>,
    error: Option<AnswerError>,
}

impl SseReader {
    pub fn new(dialect: impl Dialect + 'static) -> Self {
        Self {
            records: SseRecords::new(RECORD_BYTES_MAX),
            dialect: Box::new(dialect),
            error: None,
        }
    }
}

fn handle_record(
    record: &SseRecord,
    dialect: &mut dyn Dialect,
    error: &mut Option<AnswerError>,
    response: &mut ResponseBuilder<'_>,
) {
    // Events after the end or after an error are ignored.
    if error.is_some() || dialect.is_done() {
        return;
    }
    let result = match record {
        SseRecord::Value(event) => dialect.event(event, response),
        SseRecord::Done => {
            dialect.done(response);
            Ok(())
        }
        SseRecord::Broken(text) => Err(AnswerError::new(format!(
            "the stream contains an invalid event: {text}"
        ))),
        SseRecord::TooLong(bytes) => Err(AnswerError::new(format!(
            "an event of the stream has {bytes} bytes"
        ))),
    };
    *error = result.err();
}

impl AnswerReader for SseReader {
    fn push(&mut self, bytes: &[u8], response: &mut ResponseBuilder<'_>) -> ReadResult {
        let (dialect, error) = (&mut *self.dialect, &mut self.error);
        self.records.push(bytes, &mut |record| {
            handle_record(&record, dialect, error, response)
        });
        self.error.clone().map_or(Ok(()), Err)
    }

    fn finish(&mut self, response: &mut ResponseBuilder<'_>) -> ReadResult {
        if !self.dialect.is_done() {
            let (dialect, error) = (&mut *self.dialect, &mut self.error);
            // A last event without its blank line is often truncated, so it is ignored if invalid.
            self.records.finish(&mut |record| {
                if !matches!(record, SseRecord::Broken(_)) {
                    handle_record(&record, dialect, error, response);
                }
            });
        }
        match &self.error {
            Some(error) => Err(error.clone()),
            None if self.dialect.is_complete() => Ok(()),
            None => Err(AnswerError::new(
                "the stream ended before the answer was complete",
            )),
        }
    }

    fn is_done(&self) -> bool {
        self.dialect.is_done()
    }
}

/// Reads a stream whose API the first event identifies.
pub(in super::super) struct DetectingReader {
    api: Option<Box<dyn AnswerReader>>,
    /// The bytes received before the API is known.
    pending: Vec<u8>,
    clock: Clock,
}

impl DetectingReader {
    pub fn new(clock: Clock) -> Self {
        Self {
            api: None,
            pending: Vec::new(),
            clock,
        }
    }

    fn detect(&mut self, is_end: bool) {
        let mut records = SseRecords::new(RECORD_BYTES_MAX);
        let mut first = None;
        let mut keep_first = |record: SseRecord| {
            first.get_or_insert(record);
        };
        records.push(&self.pending, &mut keep_first);
        if is_end {
            records.finish(&mut keep_first);
        }
        let Some(first) = first else {
            return;
        };
        let kind = match &first {
            SseRecord::Value(event) => event["type"].as_str(),
            _ => None,
        };
        self.api = Some(match kind {
            // Tool inputs are not read, because no client here uses this API.
            Some(kind) if kind.starts_with("response.") => agent::reader(Format::Sse, &self.clock),
            Some(_) => Box::new(SseReader::new(AnthropicDialect::default())),
            None => Box::new(SseReader::new(ChatDialect::default())),
        });
    }

    fn read(&mut self, response: &mut ResponseBuilder<'_>) -> ReadResult {
        match &mut self.api {
            Some(api) => api.push(&std::mem::take(&mut self.pending), response),
            None => Ok(()),
        }
    }
}

impl AnswerReader for DetectingReader {
    fn push(&mut self, bytes: &[u8], response: &mut ResponseBuilder<'_>) -> ReadResult {
        if let Some(api) = &mut self.api {
            return api.push(bytes, response);
        }
        self.pending.extend_from_slice(bytes);
        self.detect(false);
        if self.api.is_none() && self.pending.len() > PENDING_BYTES_MAX {
            return Err(AnswerError::new("the data is not a stream of an API"));
        }
        self.read(response)
    }

    fn finish(&mut self, response: &mut ResponseBuilder<'_>) -> ReadResult {
        if self.api.is_none() {
            self.detect(true);
            self.read(response)?;
        }
        match &mut self.api {
            Some(api) => api.finish(response),
            None => Err(AnswerError::new("the answer is empty")),
        }
    }

    fn is_done(&self) -> bool {
        self.api.as_ref().is_some_and(|api| api.is_done())
    }
}
