//! The content of an agent's file: the added part, or its end, and the part before that.

use std::fs::File;
use std::io;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::last_line::LastLine;
use crate::agent::{AgentEvent, FollowUp, Format, StreamFormat, StreamParser, StreamStatus};
use crate::observe::conversation::first_line;
use crate::observe::file_bytes::read_at;
use crate::timestamp::Timestamp;

/// The bytes of a file's end that are read: first the least, then more if these do not suffice,
/// because a record with an image may have a megabyte.
pub(super) const TAILS: [u64; 3] = [256 * 1024, 1024 * 1024, FILE_BYTES_MAX];

/// The most bytes that are read of a file at once.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The part of a transcript, from its end, that is searched once for running tasks before its agent is
/// reported as completed. Nearly all transcripts are smaller.
const EARLIER_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The bytes of a transcript's beginning that identify the session.
const HEAD_BYTES: u64 = 64 * 1024;

/// The most turns that one check reports; no person causes more.
const TURNS_MAX: usize = 1_000;

/// The end of a turn in the records of a conversation with a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TurnEnd {
    Completed {
        marker: String,
        summary: String,
        is_inferred: bool,
    },
    Failed {
        error: String,
    },
}

/// The content that has been read.
#[derive(Debug)]
pub(super) struct Content {
    parser: StreamParser,
    /// Turns that ended earlier are not reported.
    since: Timestamp,
    /// Turns that are not reported yet.
    turns: Vec<TurnEnd>,
    /// The last turn that ended before `since`, until anything follows it.
    turn_before: Option<TurnEnd>,
    /// The range of the file that was read.
    start: u64,
    offset: u64,
    /// The position from which the content before `start` was searched.
    searched_from: Option<u64>,
    /// True if the file begins with records of the main agent, not of a sub-agent.
    is_main: bool,
    error: String,
    last_line: LastLine,
}

impl Content {
    /// Begins with no content. Of the records from before `since`, only the state after them matters.
    pub fn new(since: Timestamp) -> Self {
        Self {
            parser: parser(Format::Auto),
            since,
            turns: Vec::new(),
            turn_before: None,
            start: 0,
            offset: 0,
            searched_from: None,
            is_main: false,
            error: String::new(),
            last_line: LastLine::default(),
        }
    }

    /// Returns the position up to which the file was read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn format(&self) -> Option<StreamFormat> {
        self.parser.format()
    }

    pub fn status(&self) -> StreamStatus {
        match self.ends_with_sub_agent() {
            // It waits for the sub-agent whose records end the file.
            true => StreamStatus::Working,
            false => self.parser.status(),
        }
    }

    pub fn follow_up(&self) -> FollowUp {
        self.parser.follow_up()
    }

    pub fn evidence(&self) -> &str {
        self.parser.evidence()
    }

    /// Returns true if the file is a conversation with a person, which may continue after any end.
    pub fn is_interactive(&self) -> bool {
        match self.format() {
            Some(StreamFormat::ClaudeTranscript) => !self.is_sub_agent(),
            Some(
                StreamFormat::CodexRollout
                | StreamFormat::GeminiSession
                | StreamFormat::QwenSession,
            ) => true,
            _ => false,
        }
    }

    fn is_sub_agent(&self) -> bool {
        !self.is_main && self.parser.is_sub_agent() == Some(true)
    }

    /// Returns the turns that have ended since the last call.
    pub fn take_turns(&mut self) -> Vec<TurnEnd> {
        let turns = std::mem::take(&mut self.turns);
        match self.is_interactive() {
            true => turns,
            false => Vec::new(),
        }
    }

    /// Ends the turn of the agent, if its records leave that open.
    pub fn end_turn(&mut self) {
        let mut events = Vec::new();
        self.parser.end_turn(Timestamp::default(), &mut events);
        self.note(events, true, true);
    }

    /// Returns the last turn, if it ended before it was observed.
    pub fn take_turn_before(&mut self) -> Option<TurnEnd> {
        self.turn_before.take().filter(|_| self.is_interactive())
    }

    /// Returns the error that the agent reported; empty without one.
    pub fn error(&self) -> &str {
        &self.error
    }

    /// Returns the agent's last answer, or the last line of an unknown format.
    pub fn answer(&self) -> String {
        match self.parser.answer() {
            "" if !is_known(self.format()) => self.last_line.text(),
            answer => answer.to_owned(),
        }
    }

    /// Returns true if the last record is incomplete.
    pub fn is_open(&self) -> bool {
        self.parser.is_open()
    }

    /// Returns the number of bytes at the beginning that were not searched for running tasks.
    pub fn unread(&self) -> u64 {
        match self.format() {
            // No other format has such tasks.
            Some(StreamFormat::ClaudeTranscript) => self.searched_from.unwrap_or(self.start),
            _ => 0,
        }
    }

    /// Returns true if these bytes must be searched before the agent counts as done.
    pub fn needs_search(&self) -> bool {
        let is_done = self.status() == StreamStatus::Done;
        is_done && self.searched_from.is_none() && self.unread() > 0
    }

    /// Returns true if only a sub-agent's records were read, from the file of a main agent.
    fn ends_with_sub_agent(&self) -> bool {
        self.is_main && self.parser.is_sub_agent() == Some(true)
    }

    /// Reads the added part, or the end if the added part is unknown or too large. Returns the bytes
    /// read.
    pub fn read(&mut self, file: &File, bytes: u64) -> io::Result<u64> {
        let added = bytes - self.offset.min(bytes);
        // Until the format is known, all of its evidence is read together.
        if self.offset == 0 || added > FILE_BYTES_MAX || self.parser.format().is_none() {
            return self.read_end(file, bytes);
        }
        let piece = read_at(file, self.offset, added)?;
        self.offset += piece.len() as u64;
        self.parse(&piece, true);
        Ok(added)
    }

    fn read_end(&mut self, file: &File, bytes: u64) -> io::Result<u64> {
        let mut read = 0;
        let mut is_sub_agent = None;
        for tail in TAILS {
            let start = bytes.saturating_sub(tail);
            let piece = read_at(file, start, bytes - start)?;
            read += bytes - start;
            let is_last = start == 0 || tail == FILE_BYTES_MAX;
            // Skip to the start of a line, or of a word.
            let line = match memchr::memchr(b'\n', &piece) {
                _ if start == 0 => 0,
                Some(at) => at + 1,
                None if is_last => piece.iter().take_while(|byte| **byte != b' ').count(),
                None => continue,
            };
            let end = start + piece.len() as u64;
            let piece = &piece[line..];
            self.begin(parser(Format::Auto), end - piece.len() as u64);
            let since = self.since;
            let new = first_line(piece, |time| time >= since);
            self.parse(&piece[..new], false);
            self.parse(&piece[new..], true);
            if self.parser.format().is_none() && piece.trim_ascii_start().starts_with(b"{") {
                // So few records do not reveal the format: the evidence of any format counts.
                let known = std::mem::replace(&mut self.parser, parser(Format::Json));
                self.take_evidence(piece, false);
                if !matches!(
                    self.parser.status(),
                    StreamStatus::Done | StreamStatus::Failed
                ) {
                    self.parser = known;
                }
            }
            self.offset = end;
            if self.start > 0 && self.parser.is_sub_agent() == Some(true) {
                let is_known = match is_sub_agent {
                    Some(known) => known,
                    None => begins_with_sub_agent(file)?,
                };
                is_sub_agent = Some(is_known);
                self.is_main = !is_known;
            }
            let has_evidence = self.parser.status() != StreamStatus::Unknown
                || self.parser.format() == Some(StreamFormat::Text);
            if is_last || (has_evidence && !self.ends_with_sub_agent()) {
                break;
            }
        }
        Ok(read)
    }

    fn begin(&mut self, parser: StreamParser, start: u64) {
        *self = Self {
            parser,
            start,
            ..Self::new(self.since)
        };
    }

    /// Searches the part before the end for tasks that were started there. Returns the bytes read.
    pub fn search(&mut self, file: &File) -> io::Result<u64> {
        let from = self.start.saturating_sub(EARLIER_BYTES_MAX);
        let earlier = read_at(file, from, self.start - from)?;
        self.searched_from = Some(from);
        let mut done = match memchr::memchr(b'\n', &earlier) {
            Some(at) if from > 0 => at + 1,
            _ => 0,
        };
        // Only lines with such a field must be parsed.
        for found in TASKS.iter().flat_map(|regex| regex.find_iter(&earlier)) {
            if found.start() < done {
                continue;
            }
            let begin = memchr::memrchr(b'\n', &earlier[..found.start()]).map_or(0, |at| at + 1);
            let end = memchr::memchr(b'\n', &earlier[found.end()..]);
            let end = end.map_or(earlier.len(), |at| found.end() + at);
            self.parser.read_earlier(&earlier[begin.max(done)..end]);
            done = end;
        }
        Ok(self.start - from)
    }

    fn parse(&mut self, piece: &[u8], is_new: bool) {
        self.take_evidence(piece, is_new);
        if !is_known(self.format()) {
            self.last_line.push(piece);
        }
    }

    fn take_evidence(&mut self, piece: &[u8], is_new: bool) {
        let mut events = Vec::new();
        // The times of records are not used here.
        let now = Timestamp::default();
        self.parser.push(piece, now, &mut events);
        self.parser.flush_idle(now, &mut events);
        self.note(events, is_new, false);
    }

    fn note(&mut self, events: Vec<AgentEvent>, is_new: bool, is_inferred: bool) {
        for event in events {
            let turn = match event {
                AgentEvent::AgentFailed { error, .. } => {
                    self.error.clone_from(&error);
                    TurnEnd::Failed { error }
                }
                AgentEvent::TurnCompleted { marker, summary } => TurnEnd::Completed {
                    is_inferred: is_inferred || marker.starts_with("inferred"),
                    marker,
                    summary,
                },
                AgentEvent::PromptSent { .. } => {
                    self.turn_before = None;
                    continue;
                }
                _ => continue,
            };
            if !is_new {
                self.turn_before = Some(turn);
            } else if self.turns.len() < TURNS_MAX {
                self.turns.push(turn);
            }
        }
    }
}

/// Matches every record about a task.
static TASKS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let fields = "async_launched|backgroundTaskId|shellId|task_id|task-notification";
    Regex::new(&format!("(?-u){fields}")).ok()
});

/// Returns true if a format's records contain the state of an agent.
pub(super) fn is_known(format: Option<StreamFormat>) -> bool {
    !matches!(
        format,
        None | Some(StreamFormat::Json) | Some(StreamFormat::Text)
    )
}

fn begins_with_sub_agent(file: &File) -> io::Result<bool> {
    let head = read_at(file, 0, HEAD_BYTES)?;
    let mut parser = StreamParser::of(StreamFormat::ClaudeTranscript);
    parser.push(&head, Timestamp::default(), &mut Vec::new());
    Ok(parser.is_sub_agent() == Some(true))
}

fn parser(format: Format) -> StreamParser {
    let bytes_max = usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX);
    StreamParser::with_record_bytes_max(format, bytes_max)
}
