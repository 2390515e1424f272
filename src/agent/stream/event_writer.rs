//! Writes the events of a stream and tracks the status of its agent, for all formats (pure).

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::super::summary::{TextPrefix, result, summary, tool_result};
use super::event::{AgentEvent, FollowUp, StreamFormat, StreamStatus};
use super::json::Json;
use super::note::RecordNote;
use super::usage::TokenUsage;
use crate::event::Background;
use crate::timestamp::Timestamp;

/// The number of lines of other text that are reported; further ones are only counted, because a
/// program that prints text instead of records prints much of it.
const STRAY_MAX: u64 = 20;

/// What one record shows, or one message of a document.
#[derive(Debug)]
pub(crate) struct RecordContent {
    /// The time of the record, if it has one.
    pub time: Option<Timestamp>,
    pub events: Vec<AgentEvent>,
    /// What it states beside events, if the parser keeps it, each with the number of events before it.
    #[cfg(feature = "cli")]
    pub notes: Vec<(usize, RecordNote)>,
    /// The status of the agent after the record.
    pub status: StreamStatus,
    /// True if its turn is over, but agents run in the background, which will send it on.
    #[cfg(feature = "cli")]
    pub has_agents: bool,
}

pub(crate) type TakeRecord<'a> = &'a mut dyn FnMut(RecordContent);

/// The pending events and the state that determines them.
#[derive(Debug, Default)]
pub(super) struct EventWriter {
    /// The arrival time of the bytes that are being read.
    pub now: Timestamp,
    /// The caller's list, while bytes are read.
    pub out: Vec<AgentEvent>,
    /// What the records state beside events, until the caller takes it, each with the number of events before it; `None`
    /// if no caller takes it.
    pub notes: Option<Vec<(usize, RecordNote)>>,
    /// The format of the stream, which distinguishes foreign records.
    pub format: Option<StreamFormat>,
    /// True if a sub-agent wrote the records; `None` if the format does not show it.
    pub is_sub_agent: Option<bool>,
    pub tools: ToolCalls,
    pub status: StreamStatus,
    /// True if agents run in the background, which was so when the status was set last after a turn.
    pub has_agents: bool,
    pub follow_up: FollowUp,
    pub evidence: Cow<'static, str>,
    /// The agent's last answer, truncated to the length of a result.
    pub answer: String,
    /// True if the agent wrote a whole message, because it was not asked to write the words as they come.
    pub has_whole_messages: bool,
    /// True if the end of the run was reported.
    is_end_reported: bool,
    stray: u64,
    /// True if the handler did not recognise its last record.
    is_unknown: bool,
    /// The number of foreign records and the format of the first.
    foreign: u64,
    foreign_format: Option<StreamFormat>,
}

/// The name of the tool that runs the user's own commands.
const USER_SHELL: &str = "user shell";

impl EventWriter {
    /// Creates a writer for records of this format.
    pub fn of(format: StreamFormat) -> Self {
        Self {
            format: Some(format),
            ..Self::default()
        }
    }

    /// Returns the time of a record with the timestamp `recorded`.
    pub fn time(&self, recorded: Option<Timestamp>) -> EventTime {
        EventTime {
            arrived: self.now,
            recorded,
        }
    }

    pub fn set_status(&mut self, status: StreamStatus, evidence: impl Into<Cow<'static, str>>) {
        self.status = status;
        self.follow_up = FollowUp::Nothing;
        self.evidence = evidence.into();
    }

    /// Sets the status to working, so that the end of the run can be reported again.
    pub fn working(&mut self, evidence: &'static str) {
        self.pause(StreamStatus::Working, evidence);
    }

    /// Reports a prompt, which also confirms that the answer before it ended its turn.
    pub fn prompt_sent(&mut self, text: &str) {
        if self.status == StreamStatus::MaybeDone {
            self.turn_completed("inferred: the next prompt");
        }
        self.working("a prompt");
        self.out.push(AgentEvent::PromptSent {
            prompt_summary: summary(text),
            token_count: None,
        });
    }

    pub fn token(&mut self, text: Cow<'_, str>) {
        if !text.is_empty() {
            self.out.push(AgentEvent::TokenReceived {
                token: text.into_owned(),
            });
        }
    }

    pub fn set_answer(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.answer = result(text);
        }
    }

    /// Sets the status after an answer, of whose turn no record marks the end.
    pub fn answered(&mut self, text: &str, has_tool_calls: bool) {
        if has_tool_calls {
            self.working("tools are called");
        } else if text.trim().is_empty() {
            self.working("it thinks");
        } else {
            let evidence = "inferred: an answer without tools";
            self.pause(StreamStatus::MaybeDone, evidence);
        }
    }

    pub fn response_completed(&mut self, text: &str, usage: TokenUsage, has_tool_calls: bool) {
        self.out.push(AgentEvent::ResponseCompleted {
            response_summary: summary(text),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            has_tool_calls,
        });
        self.note_more_tokens(usage);
    }

    /// Notes the tokens that are not in the event of a response.
    fn note_more_tokens(&mut self, usage: TokenUsage) {
        let (cached_input, thoughts) = (usage.cached_input, usage.thoughts);
        if cached_input > 0 || thoughts > 0 {
            self.note(RecordNote::MoreTokens {
                cached_input,
                thoughts,
            });
        }
    }

    /// Hands out what a record of this time has shown, or what else stands before the next record.
    pub fn give(&mut self, time: Option<Timestamp>, take: TakeRecord<'_>) {
        take(RecordContent {
            time,
            events: std::mem::take(&mut self.out),
            #[cfg(feature = "cli")]
            notes: self.notes.as_mut().map(std::mem::take).unwrap_or_default(),
            status: self.status,
            #[cfg(feature = "cli")]
            has_agents: matches!(self.status, StreamStatus::Background { .. }) && self.has_agents,
        });
    }

    /// Notes what a record states beside events.
    pub fn note(&mut self, note: impl Into<Option<RecordNote>>) {
        if let Some(notes) = &mut self.notes {
            let before = self.out.len();
            notes.extend(note.into().map(|note| (before, note)));
        }
    }

    pub fn has_notes(&self) -> bool {
        self.notes.as_ref().is_some_and(|notes| !notes.is_empty())
    }

    /// Notes a summary of the session that the agent has written.
    pub fn note_summary(&mut self, text: &str) {
        if self.notes.is_some() && !text.trim().is_empty() {
            self.note(RecordNote::Summary { text: result(text) });
        }
    }

    /// Reports the start of a tool, once for each id.
    pub fn tool_started(
        &mut self,
        id: &str,
        name: &str,
        args: &str,
        when: EventTime,
        is_own: bool,
    ) {
        let tool_name = summary(name);
        let tool_args_summary = summary(args);
        if self
            .tools
            .open(id, (&tool_name, &result(args)), when, is_own)
        {
            self.out.push(AgentEvent::ToolCallStarted {
                tool_name,
                tool_args_summary,
            });
        }
    }

    /// Reports a command that the user has run in the agent's own shell (`!make`).
    pub fn user_command(&mut self, id: &str, command: &str, when: EventTime) {
        self.tool_started(id, USER_SHELL, command.trim(), when, false);
    }

    /// Reports the result of a tool, once for each id.
    pub fn tool_completed(&mut self, id: &str, success: bool, text: &str, when: EventTime) {
        if let Some((tool_name, duration_ms)) = self.tools.close(id, when) {
            self.out.push(AgentEvent::ToolCallCompleted {
                tool_name,
                success,
                result_summary: tool_result(text),
                duration_ms,
            });
        }
    }

    /// Warns about tools without a result, and stops waiting for them.
    pub fn abandon_tools(&mut self) {
        let names = self.tools.end_turn();
        if !names.is_empty() {
            let message = format!("{} had no result: {}", tools(names.len()), list(&names));
            self.warn(message);
        }
    }

    pub fn turn_completed(&mut self, marker: &str) {
        self.abandon_tools();
        self.out.push(AgentEvent::TurnCompleted {
            marker: summary(marker),
            summary: summary(&self.answer),
        });
    }

    /// Ends the turn because another source reports its end.
    pub fn end_turn(&mut self) {
        if self.status == StreamStatus::MaybeDone {
            self.turn_completed("an answer without tools");
            self.set_status(StreamStatus::Done, "inferred: an answer without tools");
        }
    }

    /// Reports that the agent has completed its work.
    pub fn completed(&mut self, evidence: impl Into<Cow<'static, str>>) {
        let evidence = evidence.into();
        self.out.push(AgentEvent::AgentCompleted {
            result: self.answer.clone(),
            evidence: evidence.clone().into_owned(),
        });
        self.is_end_reported = true;
        self.set_status(StreamStatus::Done, evidence);
    }

    pub fn failed(&mut self, error: &str, evidence: impl Into<Cow<'static, str>>) {
        let evidence = evidence.into();
        self.abandon_tools();
        self.out.push(AgentEvent::AgentFailed {
            error: result(error),
            evidence: evidence.clone().into_owned(),
        });
        self.is_end_reported = true;
        self.set_status(StreamStatus::Failed, evidence);
    }

    /// Sets the status of a run that may still continue, so that its end is not reported yet.
    pub fn pause(&mut self, status: StreamStatus, evidence: impl Into<Cow<'static, str>>) {
        self.is_end_reported = false;
        self.set_status(status, evidence);
    }

    /// Reports the complete answer of an API's stream, which has no agent that completes.
    pub fn api_answer(&mut self, text: &str, usage: TokenUsage, has_tool_calls: bool) {
        self.set_answer(text);
        self.response_completed(text, usage, has_tool_calls);
        self.is_end_reported = true;
    }

    /// Ends the turn with the answer of an API, which may be incomplete for this reason.
    pub fn end_api_turn(
        &mut self,
        reason: &str,
        is_whole: bool,
        evidence: impl Into<Cow<'static, str>>,
    ) {
        self.turn_completed(reason);
        if !is_whole {
            self.warn(format!("the answer is incomplete: {reason}"));
        }
        self.set_status(StreamStatus::Done, evidence);
    }

    /// Reports a run that ended without its last record.
    pub fn cut_off(&mut self, how: &str) {
        let pending: Vec<&str> = self.tools.open_names().collect();
        let evidence = match pending.len() {
            0 => format!("{how}; last: {}", self.evidence),
            count => format!(
                "{how}; {} without a result: {}",
                tools(count),
                list(&pending)
            ),
        };
        // The failure names the open tools, so no warning is needed.
        self.tools.end_turn();
        self.failed("the run was cut off before its end", evidence);
    }

    /// Reports a run that has not ended before another one began.
    pub fn cut_off_by(&mut self, other: &str) {
        if self.status == StreamStatus::Working {
            self.cut_off(other);
        }
    }

    /// Ends the stream, and reports the end of the run unless it was reported before.
    pub fn finish(&mut self) {
        if self.stray > STRAY_MAX {
            let more = self.stray - STRAY_MAX;
            self.warn(format!("{more} more lines were not records"));
        }
        if let Some(format) = self.foreign_format.take() {
            let message = format!(
                "{} records of another format ({}) were ignored",
                self.foreign,
                format.name()
            );
            self.warn(message);
        }
        if self.is_end_reported {
            return;
        }
        match self.status {
            StreamStatus::Unknown | StreamStatus::Failed => {}
            StreamStatus::Working => self.cut_off("the stream ended"),
            StreamStatus::MaybeDone => {
                self.turn_completed("inferred: the stream ended after an answer");
                self.completed("inferred: the stream ended after an answer");
            }
            StreamStatus::Done => {
                let evidence = std::mem::take(&mut self.evidence);
                self.completed(evidence);
            }
            StreamStatus::Background { tasks } => {
                let evidence = format!("{tasks} background tasks had not ended with the stream");
                self.failed(
                    "the run was cut off before its background tasks ended",
                    evidence,
                );
            }
            StreamStatus::Interrupted => {
                let evidence = std::mem::take(&mut self.evidence);
                self.failed("interrupted", evidence.clone());
                self.set_status(StreamStatus::Interrupted, evidence);
            }
        }
    }

    pub fn warn(&mut self, message: String) {
        self.out.push(AgentEvent::Warning {
            context: "agent output".to_owned(),
            message,
        });
    }

    /// Reports that the user has stopped the turn; the session may continue.
    pub fn interrupted(&mut self, evidence: String) {
        self.abandon_tools();
        self.warn(format!("the turn was stopped: {evidence}"));
        self.pause(StreamStatus::Interrupted, evidence);
        self.follow_up = FollowUp::Prompt;
    }

    /// Marks the current record as unknown to its format.
    pub fn mark_unknown(&mut self) {
        self.is_unknown = true;
    }

    /// Returns true if the last record was unknown, and resets the mark.
    pub fn take_unknown(&mut self) -> bool {
        std::mem::take(&mut self.is_unknown)
    }

    /// Counts a record of another format. Unknown records of the stream's own format come from
    /// newer versions and are ignored.
    pub fn count_foreign(&mut self, format: StreamFormat) {
        if self.format != Some(format) {
            self.foreign += 1;
            self.foreign_format.get_or_insert(format);
        }
    }

    /// Reports text instead of a record.
    pub fn stray_line(&mut self, text: &str) {
        self.stray += 1;
        if self.stray <= STRAY_MAX {
            self.warn(format!("a line is not a record: {}", summary(text)));
        }
    }
}

fn tools(count: usize) -> String {
    match count {
        1 => "1 tool".to_owned(),
        count => format!("{count} tools"),
    }
}

/// Joins the first names to one text.
fn list(names: &[&str]) -> String {
    const NAMES_MAX: usize = 5;
    let mut text = names[..names.len().min(NAMES_MAX)].join(", ");
    if names.len() > NAMES_MAX {
        text.push('…');
    }
    summary(&text)
}

// Tracks open tool calls by id (pure).

/// The maximum number of open calls. The result of an older call is that of an unknown tool.
const TOOLS_MAX: usize = 1_024;

/// The time of a record: its arrival and its timestamp.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventTime {
    pub arrived: Timestamp,
    pub recorded: Option<Timestamp>,
}

impl EventTime {
    /// Returns the milliseconds until `later`: between the timestamps if both records have one, and
    /// otherwise between the arrivals. Records may be out of order, so the minimum is 0.
    fn millis_to(self, later: Self) -> u64 {
        let (from, to) = match (self.recorded, later.recorded) {
            (Some(from), Some(to)) => (from, to),
            _ => (self.arrived, later.arrived),
        };
        u64::try_from(to.micros().saturating_sub(from.micros()) / 1_000).unwrap_or(0)
    }
}

#[derive(Debug)]
struct OpenTool {
    id: u64,
    name: Box<str>,
    arguments: Box<str>,
    begun: EventTime,
    /// True for a tool of the agent itself, false for one of a sub-agent.
    is_own: bool,
    /// True if the turn in which the call started has ended.
    is_stale: bool,
}

/// The open calls, oldest first.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    open: Vec<OpenTool>,
    seen: RecentIds,
}

impl ToolCalls {
    /// Opens a call; returns true if it is new.
    pub fn open(
        &mut self,
        id: &str,
        (name, arguments): (&str, &str),
        begun: EventTime,
        is_own: bool,
    ) -> bool {
        if !self.seen.insert(id) {
            return false;
        }
        if self.open.len() >= TOOLS_MAX {
            self.open.remove(0);
        }
        self.open.push(OpenTool {
            id: hash(id),
            name: name.into(),
            arguments: arguments.into(),
            begun,
            is_own,
            is_stale: false,
        });
        true
    }

    /// Closes a call; returns its name and its duration in milliseconds, or `None` if it was closed before.
    pub fn close(&mut self, id: &str, when: EventTime) -> Option<(String, u64)> {
        let hashed = hash(id);
        if let Some(at) = self.open.iter().rposition(|open| open.id == hashed) {
            let open = self.open.remove(at);
            return Some((open.name.into(), open.begun.millis_to(when)));
        }
        // The name of a tool whose start was not read.
        self.seen.insert(id).then(|| ("unknown".to_owned(), 0))
    }

    /// Ends the agent's turn; returns its open tools once. They may still return a result.
    pub fn end_turn(&mut self) -> Vec<&str> {
        let open = self.open.iter_mut();
        open.filter_map(|open| {
            let is_new = open.is_own && !std::mem::replace(&mut open.is_stale, true);
            is_new.then_some(&*open.name)
        })
        .collect()
    }

    /// Returns the names of the open calls of the current turn.
    pub fn open_names(&self) -> impl Iterator<Item = &str> {
        let open = self.open.iter();
        open.filter(|open| !open.is_stale).map(|open| &*open.name)
    }

    /// Returns the names and arguments of the agent's own open calls of the current turn.
    pub fn own_open(&self) -> impl Iterator<Item = (&str, &str)> {
        let open = self.open.iter();
        let waiting = open.filter(|open| open.is_own && !open.is_stale);
        waiting.map(|open| (&*open.name, &*open.arguments))
    }

    /// Removes all calls, because another run may use the same ids.
    pub fn clear(&mut self) {
        self.open.clear();
        self.seen.clear();
    }
}

// Assembles a model's messages from several records. Each message is reported once, with its last
// usage (pure).

/// The maximum number of open messages of sub-agents, which run concurrently.
const MESSAGES_MAX: usize = 32;

/// A message that may be incomplete.
#[derive(Debug, Default)]
pub(super) struct OpenMessage {
    id: Box<str>,
    is_own: bool,
    pub text: TextPrefix,
    pub usage: TokenUsage,
    pub has_tool_calls: bool,
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
        if self.open.len() >= MESSAGES_MAX
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
            if message.is_own {
                self.complete(&message, writer)
            } else {
                self.open.push_back(message)
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
        } else if missing.is_uncounted() {
            self.own = self.own.plus(missing);
            writer.note_more_tokens(missing);
        } else {
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

// Remembers recent ids, so that repeated records count once (pure).

/// The number of ids to remember, which exceeds the number of tools in any session. Copies of a
/// record are close to it or in a resumed file.
const IDS_MAX: usize = 65_536;

/// The hashes of recent ids, which take at most half a megabyte for ids of any length.
#[derive(Debug, Default)]
pub(super) struct RecentIds {
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

/// Returns the hash that represents an id.
pub(super) fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

impl RecentIds {
    /// Adds an id; returns true if it is new.
    pub fn insert(&mut self, id: &str) -> bool {
        let id = hash(id);
        if !self.known.insert(id) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > IDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }

    pub fn contains(&self, id: &str) -> bool {
        self.known.contains(&hash(id))
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub fn clear(&mut self) {
        self.known.clear();
        self.order.clear();
    }
}

/// Interprets the records of one format.
pub(super) trait RecordHandler: Send {
    fn record(&mut self, record: &Json<'_>, writer: &mut EventWriter);

    /// Interprets a record that precedes the first one, for a parser that starts in the middle of a stream.
    fn earlier_record(&mut self, _record: &Json<'_>, _writer: &mut EventWriter) {}

    /// Ends the records that precede the first one.
    fn earlier_records_end(&mut self, _writer: &mut EventWriter) {}

    /// Interprets a line of a format without records.
    fn line(&mut self, _line: &str, _writer: &mut EventWriter) {}

    /// Returns what runs in the background and was begun since this time.
    fn background(&self, _since: Timestamp) -> Background {
        Background::default()
    }

    /// Returns the status with which a task in the background has ended, as the records say.
    fn end_of_task(&self, _id: &str) -> Option<&'static str> {
        None
    }

    /// Returns true if the format has no records, but lines.
    fn is_text(&self) -> bool {
        false
    }

    /// Ends the bytes that were written at once.
    fn bytes_end(&mut self, _writer: &mut EventWriter) {}

    /// Ends the turn because another source reports its end: the last answer, which might have
    /// continued, is final.
    fn end_turn(&mut self, writer: &mut EventWriter) {
        writer.end_turn();
    }

    /// Reports events that need no further record, after no bytes have arrived for a while.
    fn idle(&mut self, _writer: &mut EventWriter) {}

    /// Handles the API's announcement of the end of the stream (`[DONE]`).
    fn done(&mut self, _writer: &mut EventWriter) {}

    /// Ends the stream, and reports pending events.
    fn finish(&mut self, writer: &mut EventWriter) {
        writer.finish();
    }
}

#[cfg(test)]
mod tests {
    mod tools {

        use super::super::*;

        fn when(arrived: i64, recorded: Option<i64>) -> EventTime {
            EventTime {
                arrived: Timestamp::from_micros(arrived * 1_000),
                recorded: recorded.map(|millis| Timestamp::from_micros(millis * 1_000)),
            }
        }

        #[test]
        fn durations_are_by_records_where_both_have_a_time() {
            for (begun, ended, millis) in [
                (when(10, None), when(25, None), 15),
                (when(10, Some(100)), when(25, Some(107)), 7),
                (when(10, Some(100)), when(25, None), 15),
                (when(10, Some(100)), when(25, Some(90)), 0),
            ] {
                let mut tools = ToolCalls::default();
                assert!(tools.open("a", ("Bash", ""), begun, true));
                assert!(!tools.open("a", ("Bash", ""), begun, true), "told twice");
                assert_eq!(tools.close("a", ended).unwrap().1, millis);
                assert!(tools.close("a", ended).is_none(), "answered twice");
            }
        }

        #[test]
        fn open_calls_are_bounded() {
            let mut tools = ToolCalls::default();
            for number in 0..=TOOLS_MAX {
                tools.open(&number.to_string(), ("Bash", ""), when(0, None), true);
            }
            assert_eq!(tools.open_names().count(), TOOLS_MAX);
            assert_eq!(tools.end_turn().len(), TOOLS_MAX);
            assert_eq!(tools.end_turn().len(), 0, "said once");
            assert_eq!(tools.close("1", when(0, None)).unwrap().0, "Bash");
        }
    }

    mod recent_ids {

        use super::super::*;

        #[test]
        fn the_oldest_is_forgotten_first() {
            let mut recent = RecentIds::default();
            for number in 0..=IDS_MAX {
                assert!(recent.insert(&number.to_string()));
            }
            assert!(!recent.insert("1"));
            assert!(!recent.contains("0"));
            assert_eq!(recent.known.len(), IDS_MAX);
        }
    }
}
