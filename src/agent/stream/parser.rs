//! The stream of one agent, whatever its format: bytes in, events out, and where it stands (pure).

use super::aider::History;
use super::choose::Chooser;
use super::claude::{Print as ClaudePrint, Transcript};
use super::codex::{Exec, Rollout};
use super::copilot::Events as CopilotEvents;
use super::event::AgentEvent;
use super::format::{Format, StreamFormat};
use super::gemini::{Print as GeminiPrint, Session};
use super::grammar::{Grammar, Reading};
use super::json::Json;
use super::lines::JsonLines;
use super::opencode::OpenCode;
use super::qwen::Session as QwenSession;
use super::scribe::Scribe;
use super::sse::{Anthropic, Chat, Responses, SseEvents};
use super::standing::{Expected, Standing};
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
/// use td_observe::agent::{AgentEvent, Format, Standing, StreamParser};
///
/// let mut parser = StreamParser::new(Format::Auto);
/// let (now, mut events) = (Timestamp::from_micros(0), Vec::new());
/// parser.push(b"{\"type\":\"thread.started\"}\n{\"type\":\"turn.star", now, &mut events);
/// parser.push(b"ted\"}\n{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":7}}\n", now, &mut events);
/// assert_eq!(parser.standing(), Standing::Done);
/// parser.finish(now, &mut events);
/// assert!(matches!(events.last(), Some(AgentEvent::AgentCompleted { .. })));
/// ```
pub struct StreamParser {
    reader: Reader,
    scribe: Scribe,
    bytes_max: usize,
    is_finished: bool,
}

/// How bytes are read.
enum Reader {
    /// It is not known yet.
    Choosing(Box<Chooser>),
    Reading(StreamFormat, Box<dyn Reading>),
}

/// Plain text, of which nothing can be said.
struct Text;

impl Reading for Text {
    fn push(&mut self, _bytes: &[u8], _scribe: &mut Scribe) {}

    fn finish(&mut self, _scribe: &mut Scribe) {}
}

impl std::fmt::Debug for StreamParser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamParser")
            .field("format", &self.format())
            .field("standing", &self.standing())
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
        let (reader, scribe) = match format.formats() {
            [only] => return Self::reading(*only, bytes_max),
            may_be => {
                let chooser = Chooser::new(may_be, bytes_max);
                (Reader::Choosing(Box::new(chooser)), Scribe::default())
            }
        };
        Self {
            reader,
            scribe,
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
            scribe: Scribe::of(format),
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
        self.writing(now, events, |reader, scribe, bytes_max| {
            if let Reader::Choosing(chooser) = reader {
                if let Some(format) = chooser.push(bytes) {
                    reader.choose(format, bytes_max, scribe);
                }
            } else if let Reader::Reading(_, reading) = reader {
                reading.push(bytes, scribe);
            }
        });
    }

    /// No more came for a while: a last record that is whole but for its newline is taken. Many
    /// files end so, and where an agent stands is often in that record.
    pub fn settle(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) {
        if self.is_finished {
            return;
        }
        self.writing(now, events, |reader, scribe, bytes_max| {
            if let Reader::Choosing(chooser) = reader
                && let Some(format) = chooser.settle()
            {
                reader.choose(format, bytes_max, scribe);
            }
            if let Reader::Reading(_, reading) = reader {
                reading.settle(scribe);
            }
        });
    }

    /// Ends the turn because another source reports its end: a last answer without a tool completes it.
    pub(crate) fn turn_over(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) {
        if self.is_finished || self.standing() != Standing::MaybeDone {
            return;
        }
        self.writing(now, events, |reader, scribe, _| {
            if let Reader::Reading(_, reading) = reader {
                reading.turn_over(scribe);
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
        self.writing(now, events, |reader, scribe, bytes_max| {
            if let Reader::Choosing(chooser) = reader {
                let format = chooser.finish();
                reader.choose(format, bytes_max, scribe);
            }
            if let Reader::Reading(_, reading) = reader {
                reading.finish(scribe);
            }
        });
    }

    /// Lets the scribe write into the caller's list.
    fn writing(
        &mut self,
        now: Timestamp,
        events: &mut Vec<AgentEvent>,
        read: impl FnOnce(&mut Reader, &mut Scribe, usize),
    ) {
        self.scribe.now = now;
        std::mem::swap(&mut self.scribe.out, events);
        read(&mut self.reader, &mut self.scribe, self.bytes_max);
        std::mem::swap(&mut self.scribe.out, events);
    }

    /// Takes whole records that stand before what was pushed first: a reader that began in the
    /// middle learns of tasks that were begun there. They make no events.
    pub(crate) fn recall(&mut self, bytes: &[u8]) {
        let mut events = Vec::new();
        self.writing(Timestamp::default(), &mut events, |reader, scribe, _| {
            if let Reader::Reading(_, reading) = reader {
                reading.recall(bytes, scribe);
            }
        });
    }

    /// What may still come of an agent that stands so.
    pub(crate) fn expected(&self) -> Expected {
        self.scribe.expected()
    }

    /// Whether the records are those of a sub-agent, where they tell.
    pub(crate) fn is_sub_agents(&self) -> Option<bool> {
        self.scribe.side
    }

    /// Whether a record has begun whose end has not come: something is being written, or was cut.
    pub(crate) fn is_open(&self) -> bool {
        match &self.reader {
            Reader::Choosing(chooser) => chooser.is_open(),
            Reader::Reading(_, reading) => reading.is_open(),
        }
    }

    /// The format, once it is known.
    pub fn format(&self) -> Option<StreamFormat> {
        match &self.reader {
            Reader::Choosing(_) => None,
            Reader::Reading(format, _) => Some(*format),
        }
    }

    /// Where the agent stands. A reader that began in the middle and finds it `Unknown` saw no
    /// record that says: it has to begin further ahead.
    pub fn standing(&self) -> Standing {
        self.scribe.standing()
    }

    /// What says so.
    pub fn evidence(&self) -> &str {
        self.scribe.evidence()
    }

    /// The oldest tool that the agent itself has called and that has not answered: its name and the
    /// The tools of the agent itself that wait for their results: names and arguments.
    pub(crate) fn open_tools(&self) -> impl Iterator<Item = (&str, &str)> {
        self.scribe.open_tools()
    }

    /// What the agent said last, cut to what a result needs.
    pub fn answer(&self) -> &str {
        self.scribe.answer()
    }
}

impl Reader {
    /// The format is known: what has come so far is read.
    fn choose(&mut self, format: StreamFormat, bytes_max: usize, scribe: &mut Scribe) {
        let chosen = Self::Reading(format, reading(format, bytes_max));
        scribe.format = Some(format);
        if let Self::Choosing(chooser) = std::mem::replace(self, chosen)
            && let Self::Reading(_, reading) = self
        {
            reading.push(&chooser.into_pending(), scribe);
        }
    }
}

fn reading(format: StreamFormat, bytes_max: usize) -> Box<dyn Reading> {
    fn lines<G: Grammar + Default + Send + 'static>(bytes_max: usize) -> Box<dyn Reading> {
        Box::new(JsonLines::new(G::default(), bytes_max))
    }
    fn sse<G: Grammar + Default + Send + 'static>(bytes_max: usize) -> Box<dyn Reading> {
        Box::new(SseEvents::new(G::default(), bytes_max))
    }
    match format {
        StreamFormat::ClaudeStream => lines::<ClaudePrint>(bytes_max),
        StreamFormat::ClaudeTranscript => lines::<Transcript>(bytes_max),
        StreamFormat::CodexExec => lines::<Exec>(bytes_max),
        StreamFormat::CodexRollout => lines::<Rollout>(bytes_max),
        StreamFormat::GeminiStream => lines::<GeminiPrint>(bytes_max),
        StreamFormat::GeminiSession => lines::<Session>(bytes_max),
        StreamFormat::QwenSession => lines::<QwenSession>(bytes_max),
        StreamFormat::CopilotSession => lines::<CopilotEvents>(bytes_max),
        StreamFormat::OpenCodeRun => lines::<OpenCode>(bytes_max),
        StreamFormat::AiderHistory => Box::new(History::new(bytes_max)),
        StreamFormat::AnthropicSse => sse::<Anthropic>(bytes_max),
        StreamFormat::OpenAiChatSse => sse::<Chat>(bytes_max),
        StreamFormat::OpenAiResponsesSse => sse::<Responses>(bytes_max),
        StreamFormat::Json => lines::<Json>(bytes_max),
        StreamFormat::Text => Box::new(Text),
    }
}
