//! Parses the stream of one agent in any format: bytes in, events and status out (pure).

use super::super::summary::summary;
use super::aider::AiderHistory;
use super::api::{ApiAnswers, ApiDialect};
use super::claude::{ClaudePrint, ClaudeTranscript};
use super::cline::ClineMessages;
use super::cn::CnHistory;
use super::codex::{CodexExec, CodexRollout};
use super::copilot::CopilotEvents;
use super::document::Document;
use super::event::{AgentEvent, FollowUp, Format, StreamFormat, StreamStatus};
use super::event_writer::{EventWriter, RecordHandler, TakeRecord};
use super::gemini::{GeminiPrint, GeminiSession};
use super::json::Json;
use super::json_lines;
use super::json_lines::{ByteLine, GenericJson, LineEnd, LineSplitter};
use super::kimi::KimiWire;
use super::opencode::OpenCodeRun;
use super::qwen::QwenSession;
use super::sse::{Framing, SseEvent, SseFrames};
use super::vibe::{self, VibeJournal};
use crate::event::Background;
use crate::timestamp::Timestamp;
use serde::Deserialize;

/// Converts the output of an agent to events.
///
/// The memory beyond the current record is bounded. The parser may start at any line of a stream.
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
    /// Records, or lines, which are interpreted by a handler.
    Records {
        framing: Framing,
        handler: Box<dyn RecordHandler>,
    },
    /// A document, of which each version is read as a whole.
    Document(Document),
    /// Plain text, which has no events.
    Text,
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
    /// The default maximum size of a record in bytes. The longest known one, an image, has 1 MB. A
    /// longer record is skipped with a warning.
    pub const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

    /// Creates a parser for these formats; the first records determine the format.
    pub fn new(format: Format) -> Self {
        Self::with_record_bytes_max(format, Self::RECORD_BYTES_MAX)
    }

    /// Creates a parser with this maximum size of a record, in bytes.
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
            reader: Reader::of(format, bytes_max),
            writer: EventWriter::of(format),
            is_finished: false,
        }
    }

    /// Processes bytes, cut anywhere, and appends their events to `events`. `now` is the time of
    /// records without a timestamp. Of a format whose files are documents, `bytes` is the whole of a version.
    pub fn push(&mut self, bytes: &[u8], now: Timestamp, events: &mut Vec<AgentEvent>) {
        self.with_events(now, events, |reader, writer| match reader {
            Reader::Detecting(detector) => {
                if let Some(format) = detector.push(bytes) {
                    reader.set_format(format, writer);
                }
            }
            _ => reader.push(bytes, writer),
        });
    }

    /// Processes bytes as [`StreamParser::push`] does, and gives what each record shows to `take`, or each message of a
    /// document. A text may be cut anywhere, too: nothing counts as written at once.
    pub(crate) fn read_records(&mut self, bytes: &[u8], now: Timestamp, take: TakeRecord<'_>) {
        self.writer.now = now;
        let pending = match &mut self.reader {
            Reader::Detecting(detector) => detector.push(bytes).map(|format| {
                let pending = self.reader.determine(format, &mut self.writer);
                pending.unwrap_or_default()
            }),
            _ => None,
        };
        let bytes = pending.as_deref().unwrap_or(bytes);
        self.reader.read(bytes, &mut self.writer, take);
    }

    /// Gives what the last records show to `take`: an unterminated one, and answers that are complete as nothing follows.
    /// No end of the agent is reported, because it may go on.
    #[cfg(feature = "cli")]
    pub(crate) fn finish_records(&mut self, now: Timestamp, take: TakeRecord<'_>) {
        self.writer.now = now;
        if let Reader::Detecting(detector) = &mut self.reader {
            let format = detector.finish();
            let pending = self.reader.determine(format, &mut self.writer);
            self.reader
                .read(&pending.unwrap_or_default(), &mut self.writer, take);
        }
        let writer = &mut self.writer;
        match &mut self.reader {
            Reader::Records { framing, handler } => {
                let is_text = handler.is_text();
                let mut last = |record: SseEvent<'_>| {
                    take_record(record, &mut **handler, writer, &mut give_to(take));
                };
                // A record that is being written is incomplete.
                if is_text {
                    framing.finish(&mut last);
                } else {
                    framing.flush_idle(&mut last);
                }
                handler.finish(writer);
            }
            Reader::Document(_) => writer.finish(),
            Reader::Detecting(_) | Reader::Text => return,
        }
        let is_end = |event: &AgentEvent| {
            matches!(
                event,
                AgentEvent::AgentCompleted { .. } | AgentEvent::AgentFailed { .. }
            )
        };
        writer.out.retain(|event| !is_end(event));
        writer.give(None, take);
    }

    /// Makes [`StreamParser::read_records`] give what records state beside events, too.
    #[cfg(feature = "cli")]
    pub(crate) fn keep_notes(&mut self) {
        self.writer.notes = Some(Vec::new());
    }

    /// Processes a last record that lacks only its newline, after no bytes have arrived for a
    /// while. Many files end this way, and that record often determines the agent's status.
    pub fn flush_idle(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) {
        self.with_events(now, events, |reader, writer| {
            if let Reader::Detecting(detector) = reader
                && let Some(format) = detector.flush_idle()
            {
                reader.set_format(format, writer);
            }
            if let Reader::Records { framing, handler } = reader
                && !handler.is_text()
            {
                framing.flush_idle(&mut |record| take(record, &mut **handler, writer));
                handler.idle(writer);
            }
        });
    }

    /// Ends the turn because another source reports its end. A last answer without a tool completes it.
    pub(crate) fn end_turn(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) {
        // A transcript may be delayed: records that it writes later belong to the turn that has ended.
        if matches!(
            self.status(),
            StreamStatus::MaybeDone | StreamStatus::Working
        ) {
            self.with_events(now, events, |reader, writer| match reader {
                Reader::Records { handler, .. } => handler.end_turn(writer),
                Reader::Document(_) => writer.end_turn(),
                Reader::Detecting(_) | Reader::Text => {}
            });
        }
    }

    /// Ends the stream: processes an unterminated last line, and reports the end of the run if the
    /// stream has not. A run without its last record was cut off. Later calls have no effect.
    pub fn finish(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) {
        self.with_events(now, events, |reader, writer| {
            if let Reader::Detecting(detector) = reader {
                let format = detector.finish();
                reader.set_format(format, writer);
            }
            if let Reader::Records { framing, handler } = reader {
                framing.finish(&mut |record| take(record, &mut **handler, writer));
                handler.finish(writer);
            }
        });
        self.is_finished = true;
    }

    /// Lets the writer append to the caller's list, unless the stream is finished.
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

    /// Processes complete records that precede the first pushed byte, without events, so that a
    /// parser that starts in the middle knows the tasks that began earlier.
    pub(crate) fn read_earlier(&mut self, bytes: &[u8]) {
        self.with_events(Timestamp::default(), &mut Vec::new(), |reader, writer| {
            if let Reader::Records { handler, .. } = reader {
                for line in bytes.split(|byte| *byte == b'\n') {
                    let mut earlier = |record: &Json<'_>, writer: &mut EventWriter| {
                        handler.earlier_record(record, writer);
                    };
                    json_lines::read(line, &mut earlier, writer);
                }
                handler.earlier_records_end(writer);
            }
        });
    }

    /// Returns the record that may follow and change the status.
    pub(crate) fn follow_up(&self) -> FollowUp {
        self.writer.follow_up
    }

    /// Returns what runs in the background and was begun since this time.
    pub(crate) fn background(&self, since: Timestamp) -> Background {
        match &self.reader {
            Reader::Records { handler, .. } => handler.background(since),
            _ => Background::default(),
        }
    }

    /// Returns the status with which a task in the background, such as a sub-agent, has ended: `completed`, `killed`.
    pub(crate) fn end_of_task(&self, id: &str) -> Option<&'static str> {
        match &self.reader {
            Reader::Records { handler, .. } => handler.end_of_task(id),
            _ => None,
        }
    }

    /// Returns true if a sub-agent wrote the records, if they show it.
    pub(crate) fn is_sub_agent(&self) -> Option<bool> {
        self.writer.is_sub_agent
    }

    /// Returns true if a record has begun but not ended, because it is being written or was cut off.
    pub(crate) fn is_open(&self) -> bool {
        match &self.reader {
            Reader::Detecting(detector) => json_lines::is_begun(detector.lines.open()),
            Reader::Records { framing, .. } => framing.is_open(),
            Reader::Document(_) | Reader::Text => false,
        }
    }

    /// Returns the format, once it is known.
    pub fn format(&self) -> Option<StreamFormat> {
        self.writer.format
    }

    /// Returns the agent's status. After a start in the middle of a stream, `Unknown` means that no
    /// record has shown it; the caller must then start further ahead.
    pub fn status(&self) -> StreamStatus {
        self.writer.status
    }

    /// Returns true if the agent wrote whole messages, although an option of it makes it write the words as they
    /// come: Claude Code's `--include-partial-messages`.
    pub fn has_whole_messages(&self) -> bool {
        self.writer.has_whole_messages
    }

    /// Returns a description of the record that shows the status.
    pub fn evidence(&self) -> &str {
        &self.writer.evidence
    }

    /// Returns the names and arguments of the agent's own open tool calls.
    pub(crate) fn open_tools(&self) -> impl Iterator<Item = (&str, &str)> {
        self.writer.tools.own_open()
    }

    /// Returns the starts of the agent's own open tool calls, as they were reported, the oldest first.
    pub(crate) fn open_tool_starts(&self) -> impl Iterator<Item = AgentEvent> {
        self.open_tools()
            .map(|(name, arguments)| AgentEvent::ToolCallStarted {
                tool_name: name.to_owned(),
                tool_args_summary: summary(arguments),
            })
    }

    /// Returns the agent's last answer, truncated to the length of a result.
    pub fn answer(&self) -> &str {
        &self.writer.answer
    }
}

impl Reader {
    fn of(format: StreamFormat, bytes_max: usize) -> Self {
        let lines = |handler| Self::Records {
            framing: Framing::lines(bytes_max),
            handler,
        };
        let events = |dialect| Self::Records {
            framing: Framing::events(bytes_max),
            handler: Box::new(ApiAnswers::new(dialect)),
        };
        match format {
            StreamFormat::ClaudeStream => lines(Box::<ClaudePrint>::default()),
            StreamFormat::ClaudeTranscript => lines(Box::<ClaudeTranscript>::default()),
            StreamFormat::CodexExec => lines(Box::<CodexExec>::default()),
            StreamFormat::CodexRollout => lines(Box::<CodexRollout>::default()),
            StreamFormat::GeminiStream => lines(Box::<GeminiPrint>::default()),
            StreamFormat::GeminiSession => lines(Box::<GeminiSession>::default()),
            StreamFormat::QwenSession => lines(Box::<QwenSession>::default()),
            StreamFormat::CopilotSession => lines(Box::<CopilotEvents>::default()),
            StreamFormat::KimiSession => lines(Box::<KimiWire>::default()),
            StreamFormat::VibeJournal => lines(Box::<VibeJournal>::default()),
            StreamFormat::ClineSession => Self::Document(Document::new(Box::new(ClineMessages))),
            StreamFormat::CnSession => Self::Document(Document::new(Box::<CnHistory>::default())),
            StreamFormat::OpenCodeRun => lines(Box::<OpenCodeRun>::default()),
            StreamFormat::AiderHistory => lines(Box::<AiderHistory>::default()),
            StreamFormat::AnthropicSse => events(ApiDialect::Anthropic),
            StreamFormat::OpenAiChatSse => events(ApiDialect::Chat),
            StreamFormat::OpenAiResponsesSse => events(ApiDialect::Responses),
            StreamFormat::Json => lines(Box::new(GenericJson)),
            StreamFormat::Text => Self::Text,
        }
    }

    fn push(&mut self, bytes: &[u8], writer: &mut EventWriter) {
        match self {
            Self::Records { framing, handler } => {
                framing.push(bytes, &mut |record| take(record, &mut **handler, writer));
                handler.bytes_end(writer);
            }
            Self::Document(document) => {
                let mut all = std::mem::take(&mut writer.out);
                document.read(bytes, writer, &mut |message| all.extend(message.events));
                writer.out = all;
            }
            Self::Detecting(_) | Self::Text => {}
        }
    }

    /// Reads bytes, and gives what each record shows to `take`.
    fn read(&mut self, bytes: &[u8], writer: &mut EventWriter, take: TakeRecord<'_>) {
        match self {
            Self::Records { framing, handler } => framing.push(bytes, &mut |record| {
                take_record(record, &mut **handler, writer, &mut give_to(take));
            }),
            Self::Document(document) => document.read(bytes, writer, take),
            Self::Detecting(_) | Self::Text => {}
        }
    }

    /// Replaces the detector with the reader of the format, which processes the bytes so far.
    fn set_format(&mut self, format: StreamFormat, writer: &mut EventWriter) {
        if let Some(pending) = self.determine(format, writer) {
            self.push(&pending, writer);
        }
    }

    /// Replaces the detector with the reader of the format; returns the bytes so far, which it is to process.
    fn determine(&mut self, format: StreamFormat, writer: &mut EventWriter) -> Option<Vec<u8>> {
        let Self::Detecting(detector) = self else {
            return None;
        };
        let pending = std::mem::take(&mut detector.pending);
        writer.format = Some(format);
        *self = Self::of(format, detector.bytes_max);
        Some(pending)
    }
}

/// Returns the time of a record in a line.
pub(crate) fn record_time(line: &[u8]) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Dated<'a> {
        #[serde(borrow)]
        timestamp: Json<'a>,
    }
    // The records of Vibe have sorted fields, and no time of their own.
    if line.starts_with(br#"{"payload":{"delta":"#) {
        return vibe::time_of(&serde_json::from_slice(line).ok()?);
    }
    let dated: Dated<'_> = serde_json::from_slice(line).ok()?;
    dated.timestamp.time()
}

/// Returns the time of a record of a format.
fn time_of(record: &Json<'_>, format: Option<StreamFormat>) -> Option<Timestamp> {
    match format {
        Some(StreamFormat::VibeJournal) => vibe::time_of(record),
        // A patch has the time of what it changes.
        Some(StreamFormat::GeminiSession) if record["$set"].is_object() => {
            record["$set"]["lastUpdated"].time()
        }
        _ => record["timestamp"].time(),
    }
}

/// Called after a record, or after what stands in its place.
type AfterRecord<'a> = &'a mut dyn FnMut(Option<&Json<'_>>, &mut EventWriter);

/// Gives what each record has shown.
fn give_to(take: TakeRecord<'_>) -> impl FnMut(Option<&Json<'_>>, &mut EventWriter) {
    |record, writer| {
        let time = record.and_then(|record| time_of(record, writer.format));
        writer.give(time, take);
    }
}

fn take(record: SseEvent<'_>, handler: &mut dyn RecordHandler, writer: &mut EventWriter) {
    take_record(record, handler, writer, &mut |_, _| {});
}

fn take_record(
    record: SseEvent<'_>,
    handler: &mut dyn RecordHandler,
    writer: &mut EventWriter,
    after: AfterRecord<'_>,
) {
    match record {
        SseEvent::Data(line) if handler.is_text() => {
            handler.line(&String::from_utf8_lossy(line), writer);
            after(None, writer);
        }
        SseEvent::Data(data) => {
            let mut record = |record: &Json<'_>, writer: &mut EventWriter| {
                handler.record(record, writer);
                after(Some(record), writer);
            };
            json_lines::read(data, &mut record, writer);
        }
        SseEvent::Done => handler.done(writer),
        SseEvent::TooLong(bytes) => {
            let what = if handler.is_text() { "line" } else { "record" };
            writer.warn(format!("a {what} is too long: {bytes} bytes skipped"));
        }
        SseEvent::Stray(line) => writer.stray_line(&String::from_utf8_lossy(line)),
    }
}

// Detects the format of a stream from its first records (pure).

/// The number of lines after which the format is guessed if no record has shown it.
const LINES_MAX: usize = 64;

/// Reads the beginning of a stream until its format is known.
#[derive(Debug)]
pub(super) struct FormatDetector {
    /// The bytes so far, which the reader of the format will process.
    pending: Vec<u8>,
    bytes_max: usize,
    lines: LineSplitter,
    frames: SseFrames,
    evidence: FormatEvidence,
}

/// Counts of features, for guessing the format if no record shows it.
#[derive(Debug, Default)]
struct FormatEvidence {
    candidates: &'static [StreamFormat],
    format: Option<StreamFormat>,
    lines: usize,
    bytes: usize,
    objects: usize,
    others: usize,
}

impl FormatDetector {
    pub fn new(candidates: &'static [StreamFormat], bytes_max: usize) -> Self {
        Self {
            pending: Vec::new(),
            bytes_max,
            lines: LineSplitter::new(LineEnd::Any, bytes_max),
            frames: SseFrames::new(bytes_max),
            evidence: FormatEvidence {
                candidates,
                ..FormatEvidence::default()
            },
        }
    }

    /// Processes bytes; returns the format once it is known.
    pub fn push(&mut self, bytes: &[u8]) -> Option<StreamFormat> {
        self.pending.extend_from_slice(bytes);
        let (frames, evidence) = (&mut self.frames, &mut self.evidence);
        self.lines.push(bytes, |line| {
            evidence.add_line(&line, frames, self.bytes_max)
        });
        if self.lines.is_too_long() {
            // No known format has such long records.
            self.evidence.guess();
        }
        self.evidence.format
    }

    /// Returns the format if an unterminated line shows it.
    pub fn flush_idle(&mut self) -> Option<StreamFormat> {
        let open = self.lines.open();
        if self.evidence.format.is_none() && json_lines::is_whole(open) {
            // A trial: the line counts once it is terminated.
            let mut trial = FormatEvidence {
                candidates: self.evidence.candidates,
                ..FormatEvidence::default()
            };
            trial.add_event(SseEvent::Data(open));
            self.evidence.format = trial.format;
        }
        self.evidence.format
    }

    /// Returns the format at the end of the stream, guessed if no record has shown it.
    pub fn finish(&mut self) -> StreamFormat {
        let (frames, evidence) = (&mut self.frames, &mut self.evidence);
        self.lines
            .finish(|line| evidence.add_line(&line, frames, self.bytes_max));
        if evidence.format.is_none() {
            frames.dispatch(&mut |event| evidence.add_event(event));
        }
        evidence.guess()
    }
}

impl FormatEvidence {
    fn add_line(&mut self, line: &ByteLine<'_>, frames: &mut SseFrames, bytes_max: usize) {
        if self.format.is_some() {
            return;
        }
        match line {
            ByteLine::Whole(bytes) => {
                self.bytes += bytes.len();
                self.lines += usize::from(!bytes.is_empty());
                frames.line(line, &mut |event| self.add_event(event));
            }
            ByteLine::TooLong(_) => {
                self.guess();
            }
        }
        if self.lines >= LINES_MAX || self.bytes > bytes_max {
            self.guess();
        }
    }

    fn add_event(&mut self, event: SseEvent<'_>) {
        let SseEvent::Data(data) = event else {
            self.others += 1;
            return;
        };
        let text = String::from_utf8_lossy(data);
        let values = serde_json::Deserializer::from_str(&text).into_iter::<Json<'_>>();
        for value in values {
            let Some(record) = value.ok().filter(Json::is_object) else {
                self.others += 1;
                return;
            };
            self.objects += 1;
            let is_candidate = |format: &StreamFormat| self.candidates.contains(format);
            self.format = json_lines::format_of(&record).filter(is_candidate);
            if self.format.is_some() {
                return;
            }
        }
    }

    /// Returns the format. If no record has shown it, the most likely format becomes final.
    fn guess(&mut self) -> StreamFormat {
        let is_json = self.candidates.contains(&StreamFormat::Json)
            && self.objects > 0
            && self.objects >= self.others;
        *self.format.get_or_insert(match self.candidates.first() {
            _ if is_json => StreamFormat::Json,
            Some(first) => *first,
            None => StreamFormat::Text,
        })
    }
}
