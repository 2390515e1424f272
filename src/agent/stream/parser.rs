//! The stream of one agent, whatever its format: bytes in, events out, and where it stands (pure).

use super::aider::AiderHistory;
use super::claude::{ClaudePrint, ClaudeTranscript};
use super::codex::{CodexExec, CodexRollout};
use super::copilot::CopilotEvents;
use super::detect::FormatDetector;
use super::event::AgentEvent;
use super::event_writer::EventWriter;
use super::format::{Format, StreamFormat};
use super::gemini::{GeminiPrint, GeminiSession};
use super::json::GenericJson;
use super::lines::JsonLines;
use super::opencode::OpenCodeRun;
use super::qwen::QwenSession;
use super::sse::{AnthropicMessage, ChatCompletion, ResponseStream, SseReader};
use super::status::{FollowUp, StreamStatus};
use super::traits::{FormatReader, RecordHandler};
use crate::timestamp::Timestamp;

/// Turns what an agent writes into events.
///
/// It owns nothing but memory, and little of that: a record may be long, what is remembered beside
/// it is bounded. It may begin anywhere in a stream where a line begins.
///
/// # Example
///
/// ```
/// use td_observe::Timestamp;
/// use td_observe::agent::{AgentEvent, Format, StreamStatus, StreamParser};
///
/// let mut parser = StreamParser::new(Format::Auto);
/// let (now, mut events) = (Timestamp::from_micros(0), Vec::new());
/// parser.push(b"{\"type\":\"thread.started\"}\n{\"type\":\"turn.star", now, &mut events);
/// parser.push(b"ted\"}\n{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":7}}\n", now, &mut events);
/// assert_eq!(parser.status(), StreamStatus::Done);
/// parser.finish(now, &mut events);
/// assert!(matches!(events.last(), Some(AgentEvent::AgentCompleted { .. })));
/// ```
pub struct StreamParser {
    reader: Reader,
    writer: EventWriter,
    bytes_max: usize,
    is_finished: bool,
}

/// How bytes are read.
enum Reader {
    /// It is not known yet.
    Detecting(Box<FormatDetector>),
    Reading(StreamFormat, Box<dyn FormatReader>),
}

/// Plain text, of which nothing can be said.
struct TextReader;

impl FormatReader for TextReader {
    fn push(&mut self, _bytes: &[u8], _scribe: &mut EventWriter) {}

    fn finish(&mut self, _scribe: &mut EventWriter) {}
}

impl std::fmt::Debug for StreamParser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamParser")
            .field("format", &self.format())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl StreamParser {
    /// Bytes of a record that are kept. The longest that was seen has one megabyte, an image; a
    /// longer one is skipped, and said.
    pub const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

    /// A parser for one of these formats; the first records tell which.
    pub fn new(format: Format) -> Self {
        Self::with_record_bytes_max(format, Self::RECORD_BYTES_MAX)
    }

    /// A parser that keeps so many bytes of a record at most.
    pub fn with_record_bytes_max(format: Format, bytes_max: usize) -> Self {
        let (reader, writer) = match format.formats() {
            [only] => return Self::reading(*only, bytes_max),
            may_be => {
                let detector = FormatDetector::new(may_be, bytes_max);
                (
                    Reader::Detecting(Box::new(detector)),
                    EventWriter::default(),
                )
            }
        };
        Self {
            reader,
            writer,
            bytes_max,
            is_finished: false,
        }
    }

    /// A parser for this format.
    pub fn of(format: StreamFormat) -> Self {
        Self::reading(format, Self::RECORD_BYTES_MAX)
    }

    fn reading(format: StreamFormat, bytes_max: usize) -> Self {
        Self {
            reader: Reader::Reading(format, reading(format, bytes_max)),
            writer: EventWriter::of(format),
            bytes_max,
            is_finished: false,
        }
    }

    /// Takes bytes as they were read, cut anywhere, and appends what they say to `events`. `now`
    /// dates what has no time of its own.
    pub fn push(&mut self, bytes: &[u8], now: Timestamp, events: &mut Vec<AgentEvent>) {
        if self.is_finished {
            return;
        }
        self.with_events(now, events, |reader, writer, bytes_max| {
            if let Reader::Detecting(detector) = reader {
                if let Some(format) = detector.push(bytes) {
                    reader.set_format(format, bytes_max, writer);
                }
            } else if let Reader::Reading(_, reading) = reader {
                reading.push(bytes, writer);
            }
        });
    }

    /// No more came for a while: a last record that is whole but for its newline is taken. Many
    /// files end so, and where an agent stands is often in that record.
    pub fn flush_idle(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) {
        if self.is_finished {
            return;
        }
        self.with_events(now, events, |reader, writer, bytes_max| {
            if let Reader::Detecting(detector) = reader
                && let Some(format) = detector.flush_idle()
            {
                reader.set_format(format, bytes_max, writer);
            }
            if let Reader::Reading(_, reading) = reader {
                reading.flush_idle(writer);
            }
        });
    }

    /// Ends the turn because another source reports its end: a last answer without a tool completes it.
    pub(crate) fn end_turn(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) {
        if self.is_finished || self.status() != StreamStatus::MaybeDone {
            return;
        }
        self.with_events(now, events, |reader, writer, _| {
            if let Reader::Reading(_, reading) = reader {
                reading.end_turn(writer);
            }
        });
    }

    /// The stream has ended: a last line without its newline is tried, and what the stream did not
    /// say of its end is said: a run without its last record was cut. Calls after the first do
    /// nothing.
    pub fn finish(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        self.with_events(now, events, |reader, writer, bytes_max| {
            if let Reader::Detecting(detector) = reader {
                let format = detector.finish();
                reader.set_format(format, bytes_max, writer);
            }
            if let Reader::Reading(_, reading) = reader {
                reading.finish(writer);
            }
        });
    }

    /// Lets the writer write into the caller's list.
    fn with_events(
        &mut self,
        now: Timestamp,
        events: &mut Vec<AgentEvent>,
        read: impl FnOnce(&mut Reader, &mut EventWriter, usize),
    ) {
        self.writer.now = now;
        std::mem::swap(&mut self.writer.out, events);
        read(&mut self.reader, &mut self.writer, self.bytes_max);
        std::mem::swap(&mut self.writer.out, events);
    }

    /// Takes whole records that stand before what was pushed first: a reader that began in the
    /// middle learns of tasks that were begun there. They make no events.
    pub(crate) fn recall(&mut self, bytes: &[u8]) {
        let mut events = Vec::new();
        self.with_events(Timestamp::default(), &mut events, |reader, writer, _| {
            if let Reader::Reading(_, reading) = reader {
                reading.recall(bytes, writer);
            }
        });
    }

    /// What may still come of an agent that stands so.
    pub(crate) fn follow_up(&self) -> FollowUp {
        self.writer.follow_up()
    }

    /// Whether the records are those of a sub-agent, where they tell.
    pub(crate) fn is_sub_agent(&self) -> Option<bool> {
        self.writer.is_sub_agent
    }

    /// Whether a record has begun whose end has not come: something is being written, or was cut.
    pub(crate) fn is_open(&self) -> bool {
        match &self.reader {
            Reader::Detecting(detector) => detector.is_open(),
            Reader::Reading(_, reading) => reading.is_open(),
        }
    }

    /// The format, once it is known.
    pub fn format(&self) -> Option<StreamFormat> {
        match &self.reader {
            Reader::Detecting(_) => None,
            Reader::Reading(format, _) => Some(*format),
        }
    }

    /// Where the agent stands. A reader that began in the middle and finds it `Unknown` saw no
    /// record that says: it has to begin further ahead.
    pub fn status(&self) -> StreamStatus {
        self.writer.status()
    }

    /// What says so.
    pub fn evidence(&self) -> &str {
        self.writer.evidence()
    }

    /// The oldest tool that the agent itself has called and that has not answered: its name and the
    /// The tools of the agent itself that wait for their results: names and arguments.
    pub(crate) fn open_tools(&self) -> impl Iterator<Item = (&str, &str)> {
        self.writer.open_tools()
    }

    /// What the agent said last, cut to what a result needs.
    pub fn answer(&self) -> &str {
        self.writer.answer()
    }
}

impl Reader {
    /// The format is known: what has come so far is read.
    fn set_format(&mut self, format: StreamFormat, bytes_max: usize, writer: &mut EventWriter) {
        let chosen = Self::Reading(format, reading(format, bytes_max));
        writer.format = Some(format);
        if let Self::Detecting(detector) = std::mem::replace(self, chosen)
            && let Self::Reading(_, reading) = self
        {
            reading.push(&detector.into_pending(), writer);
        }
    }
}

fn reading(format: StreamFormat, bytes_max: usize) -> Box<dyn FormatReader> {
    fn lines<G: RecordHandler + Default + Send + 'static>(
        bytes_max: usize,
    ) -> Box<dyn FormatReader> {
        Box::new(JsonLines::new(G::default(), bytes_max))
    }
    fn sse<G: RecordHandler + Default + Send + 'static>(bytes_max: usize) -> Box<dyn FormatReader> {
        Box::new(SseReader::new(G::default(), bytes_max))
    }
    match format {
        StreamFormat::ClaudeStream => lines::<ClaudePrint>(bytes_max),
        StreamFormat::ClaudeTranscript => lines::<ClaudeTranscript>(bytes_max),
        StreamFormat::CodexExec => lines::<CodexExec>(bytes_max),
        StreamFormat::CodexRollout => lines::<CodexRollout>(bytes_max),
        StreamFormat::GeminiStream => lines::<GeminiPrint>(bytes_max),
        StreamFormat::GeminiSession => lines::<GeminiSession>(bytes_max),
        StreamFormat::QwenSession => lines::<QwenSession>(bytes_max),
        StreamFormat::CopilotSession => lines::<CopilotEvents>(bytes_max),
        StreamFormat::OpenCodeRun => lines::<OpenCodeRun>(bytes_max),
        StreamFormat::AiderHistory => Box::new(AiderHistory::new(bytes_max)),
        StreamFormat::AnthropicSse => sse::<AnthropicMessage>(bytes_max),
        StreamFormat::OpenAiChatSse => sse::<ChatCompletion>(bytes_max),
        StreamFormat::OpenAiResponsesSse => sse::<ResponseStream>(bytes_max),
        StreamFormat::Json => lines::<GenericJson>(bytes_max),
        StreamFormat::Text => Box::new(TextReader),
    }
}
