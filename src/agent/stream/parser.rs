//! Parses the stream of one agent, whatever its format: bytes in, events and status out (pure).

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
/// A record may be long; what the parser remembers beside it is bounded. The parser may begin anywhere in
/// a stream where a line begins.
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
    is_finished: bool,
}

enum Reader {
    /// The format is not known yet.
    Detecting(Box<FormatDetector>),
    Reading(StreamFormat, Box<dyn FormatReader>),
}

/// Plain text, which has no events.
struct TextReader;

impl FormatReader for TextReader {
    fn push(&mut self, _bytes: &[u8], _writer: &mut EventWriter) {}

    fn finish(&mut self, _writer: &mut EventWriter) {}
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
    /// The default limit of a record in bytes. The longest one seen had 1 MB, an image; a longer record is
    /// skipped with a warning.
    pub const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

    /// Creates a parser for one of these formats; the first records show which.
    pub fn new(format: Format) -> Self {
        Self::with_record_bytes_max(format, Self::RECORD_BYTES_MAX)
    }

    /// Creates a parser that keeps at most this many bytes of a record.
    pub fn with_record_bytes_max(format: Format, bytes_max: usize) -> Self {
        match format.formats() {
            [only] => Self::reading(*only, bytes_max),
            candidates => Self {
                reader: Reader::Detecting(Box::new(FormatDetector::new(candidates, bytes_max))),
                writer: EventWriter::default(),
                is_finished: false,
            },
        }
    }

    /// Creates a parser for this format.
    pub fn of(format: StreamFormat) -> Self {
        Self::reading(format, Self::RECORD_BYTES_MAX)
    }

    fn reading(format: StreamFormat, bytes_max: usize) -> Self {
        Self {
            reader: Reader::Reading(format, reading(format, bytes_max)),
            writer: EventWriter::of(format),
            is_finished: false,
        }
    }

    /// Takes bytes, cut anywhere, and appends their events to `events`. `now` dates records without a time
    /// of their own.
    pub fn push(&mut self, bytes: &[u8], now: Timestamp, events: &mut Vec<AgentEvent>) {
        self.with_events(now, events, |reader, writer| match reader {
            Reader::Detecting(detector) => {
                if let Some(format) = detector.push(bytes) {
                    reader.set_format(format, writer);
                }
            }
            Reader::Reading(_, reading) => reading.push(bytes, writer),
        });
    }

    /// Takes a last record that lacks only its newline, because no more bytes came for a while. Many files
    /// end so, and that record often holds the agent's status.
    pub fn flush_idle(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) {
        self.with_events(now, events, |reader, writer| {
            if let Reader::Detecting(detector) = reader
                && let Some(format) = detector.flush_idle()
            {
                reader.set_format(format, writer);
            }
            if let Reader::Reading(_, reading) = reader {
                reading.flush_idle(writer);
            }
        });
    }

    /// Ends the turn because another source reports its end: a last answer without a tool completes it.
    pub(crate) fn end_turn(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) {
        // A transcript may lag: what it writes later is of the turn that is over.
        if matches!(
            self.status(),
            StreamStatus::MaybeDone | StreamStatus::Working
        ) {
            self.with_events(now, events, |reader, writer| {
                if let Reader::Reading(_, reading) = reader {
                    reading.end_turn(writer);
                }
            });
        }
    }

    /// Ends the stream: takes an unterminated last line, and reports an end that the stream did not report;
    /// a run without its last record was cut off. Later calls have no effect.
    pub fn finish(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) {
        self.with_events(now, events, |reader, writer| {
            if let Reader::Detecting(detector) = reader {
                let format = detector.finish();
                reader.set_format(format, writer);
            }
            if let Reader::Reading(_, reading) = reader {
                reading.finish(writer);
            }
        });
        self.is_finished = true;
    }

    /// Lets the writer append to the caller's list until the stream is finished.
    fn with_events(
        &mut self,
        now: Timestamp,
        events: &mut Vec<AgentEvent>,
        read: impl FnOnce(&mut Reader, &mut EventWriter),
    ) {
        if self.is_finished {
            return;
        }
        self.writer.now = now;
        std::mem::swap(&mut self.writer.out, events);
        read(&mut self.reader, &mut self.writer);
        std::mem::swap(&mut self.writer.out, events);
    }

    /// Takes whole records that precede the first pushed byte, without events: a reader that began in the
    /// middle learns of tasks that began there.
    pub(crate) fn read_earlier(&mut self, bytes: &[u8]) {
        self.with_events(Timestamp::default(), &mut Vec::new(), |reader, writer| {
            if let Reader::Reading(_, reading) = reader {
                reading.read_earlier(bytes, writer);
            }
        });
    }

    /// Returns what may still follow the last record.
    pub(crate) fn follow_up(&self) -> FollowUp {
        self.writer.follow_up()
    }

    /// Returns whether a sub-agent wrote the records, where they show it.
    pub(crate) fn is_sub_agent(&self) -> Option<bool> {
        self.writer.is_sub_agent
    }

    /// Returns whether a record has begun whose end has not come: it is being written, or was cut off.
    pub(crate) fn is_open(&self) -> bool {
        match &self.reader {
            Reader::Detecting(detector) => detector.is_open(),
            Reader::Reading(_, reading) => reading.is_open(),
        }
    }

    /// Returns the format, once it is known.
    pub fn format(&self) -> Option<StreamFormat> {
        match &self.reader {
            Reader::Detecting(_) => None,
            Reader::Reading(format, _) => Some(*format),
        }
    }

    /// Returns the agent's status. `Unknown` after a start in the middle of a stream means that no record
    /// showed it: the caller has to begin further ahead.
    pub fn status(&self) -> StreamStatus {
        self.writer.status()
    }

    /// Returns the record that shows the status, in words.
    pub fn evidence(&self) -> &str {
        self.writer.evidence()
    }

    /// Returns the agent's own tool calls without a result: names and arguments.
    pub(crate) fn open_tools(&self) -> impl Iterator<Item = (&str, &str)> {
        self.writer.open_tools()
    }

    /// Returns the agent's last answer, cut to the length of a result.
    pub fn answer(&self) -> &str {
        self.writer.answer()
    }
}

impl Reader {
    /// Replaces the detector with the format's reader, which takes the bytes so far.
    fn set_format(&mut self, format: StreamFormat, writer: &mut EventWriter) {
        let Self::Detecting(detector) = self else {
            return;
        };
        let mut reading = reading(format, detector.bytes_max());
        writer.format = Some(format);
        reading.push(&detector.take_pending(), writer);
        *self = Self::Reading(format, reading);
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
