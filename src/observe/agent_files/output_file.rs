//! The output file of an agent: detects changes, replacement and problems of the file.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use std::{fs, io};

use super::file::{FileVersion, Followed, first_line, open, read_at};
use super::title::{TITLE_BYTES_MAX, title_of};
use super::verdict::{Facts, HOLD, LastLine, Verdict, is_known, judge};
use crate::agent::{AgentEvent, Format, StreamFormat, StreamParser, StreamStatus};
use crate::timestamp::Timestamp;
use regex::bytes::Regex;

/// The size that causes a warning, because some program writes without end.
const ENORMOUS_BYTES: u64 = 1024 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Check {
    pub verdict: Option<Verdict>,
    /// Warnings that have not been reported before.
    pub warnings: Vec<String>,
    /// Turns of a conversation with a person that have ended and are not reported yet.
    pub turns: Vec<TurnEnd>,
    /// The agent's project and first prompt, once they are known.
    pub title: Option<String>,
    /// True if the file has changed, but no more bytes may be read in this tick.
    pub is_starved: bool,
}

/// The time of a check, and the period after which a file counts as unchanged.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadContext {
    pub now: Instant,
    pub wall: Timestamp,
    pub stable: Duration,
}

/// A file that is checked repeatedly.
#[derive(Debug)]
pub(super) struct OutputFile {
    file: Followed,
    checked_at: Option<Instant>,
    changed_at: Option<Instant>,
    fingerprint: Vec<u8>,
    content: Content,
    has_turns: bool,
    is_compressed: bool,
    /// The time at which the file of a task was found missing.
    gone_at: Option<Instant>,
    warned: BTreeSet<&'static str>,
    /// False once the agent's title is known, or the beginning of the file has none.
    needs_title: bool,
    /// The size of the file when its title was last looked for.
    titled: Option<u64>,
}

impl OutputFile {
    /// Creates a file whose turns are reported if they end from `since` on. The last turn before that
    /// is reported if the agent has ended with it.
    pub fn new(path: PathBuf, since: Timestamp) -> Self {
        Self {
            file: Followed::new(path),
            checked_at: None,
            changed_at: None,
            fingerprint: Vec::new(),
            content: Content::new(since),
            has_turns: false,
            is_compressed: false,
            gone_at: None,
            warned: BTreeSet::new(),
            needs_title: true,
            titled: None,
        }
    }

    /// Returns true if more turns may follow after the agent has ended.
    pub fn is_interactive(&self) -> bool {
        self.content.is_interactive()
    }

    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Returns how a sub-agent with this file, which has been checked, has ended, if this is the file of its session and
    /// says so. The sub-agent's own file need not show it: it may have been killed.
    pub fn end_of_sub_agent(&self, agent: &Self) -> Option<Verdict> {
        agent.checked_at?;
        // `SESSION.jsonl` and `SESSION/subagents/agent-ID.jsonl`
        let file = agent.path();
        if file.parent()?.parent()? != self.file.path.with_extension("") {
            return None;
        }
        let id = file.file_stem()?.to_str()?.strip_prefix("agent-")?;
        let status = self.content.parser.end_of_task(id)?;
        let evidence = format!("its session reports: {status}");
        Some(if status == "completed" {
            let result = agent.content.answer();
            Verdict::Completed { result, evidence }
        } else {
            let error = status.to_owned();
            Verdict::Failed { error, evidence }
        })
    }

    /// Checks the file, and reads it if it has changed. Subtracts the bytes read from `bytes_left`.
    pub fn check(&mut self, context: ReadContext, bytes_left: &mut u64) -> Check {
        let mut check = Check::default();
        if let Err(error) = self.read_and_judge(context, bytes_left, &mut check) {
            self.warn("unreadable", format!("cannot be read: {error}"), &mut check);
        }
        self.checked_at = Some(context.now);
        self.take_turns(&mut check);
        let version = self
            .file
            .seen
            .filter(|_| self.needs_title && !self.is_compressed);
        if let Some(version) = version.filter(|version| self.titled != Some(version.bytes)) {
            self.titled = Some(version.bytes);
            check.title = title_of(&self.file.path);
            self.needs_title = check.title.is_none() && version.bytes <= TITLE_BYTES_MAX;
        }
        check
    }

    /// Takes the turns to report: each end once, and at least one with the end of the agent.
    fn take_turns(&mut self, check: &mut Check) {
        let is_over = matches!(check.verdict, Some(Verdict::Completed { .. }));
        if is_over {
            self.content.end_turn();
        }
        check.turns = self.content.take_turns();
        if is_over && check.turns.is_empty() && !self.has_turns {
            let before = self.content.turn_before.take();
            check
                .turns
                .extend(before.filter(|_| self.content.is_interactive()));
        }
        self.has_turns |= !check.turns.is_empty();
    }

    fn read_and_judge(
        &mut self,
        context: ReadContext,
        bytes_left: &mut u64,
        check: &mut Check,
    ) -> io::Result<()> {
        if !self.read_changes(context, bytes_left, check)? {
            return Ok(());
        }
        if self.content.needs_search() && self.quiet(context) >= HOLD {
            if *bytes_left == 0 {
                check.is_starved = true;
                return Ok(());
            }
            let file = open(&self.file.path)?;
            if self.file.seen != Some(FileVersion::of(&file.metadata()?)) {
                // The file has changed since; the next check reads the change.
                return Ok(());
            }
            let read = self.content.search(&file)?;
            *bytes_left = bytes_left.saturating_sub(read);
        }
        check.verdict = self.judge(context);
        Ok(())
    }

    /// Returns the compressed file that has replaced this one: agents' programs compress idle files.
    fn compressed(&self) -> Option<PathBuf> {
        ["zst", "gz"].into_iter().find_map(|extension| {
            let mut name = self.file.path.clone().into_os_string();
            name.push(".");
            name.push(extension);
            Some(PathBuf::from(name)).filter(|path| path.is_file())
        })
    }

    /// Reads the changes, and returns true if there is content to judge.
    fn read_changes(
        &mut self,
        context: ReadContext,
        bytes_left: &mut u64,
        check: &mut Check,
    ) -> io::Result<bool> {
        let metadata = match fs::metadata(&self.file.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(path) = self.compressed() {
                    let path = path.display();
                    let words = format!("was compressed to {path}: its content is not read");
                    self.warn("compressed", words, check);
                    self.begin_again(context.wall);
                    return Ok(self.file.seen.is_some());
                }
                if self.file.seen.is_some() && self.is_deleted_task() {
                    check.verdict = self.deleted(context);
                } else if self.file.seen.is_some() {
                    self.warn("gone", "is gone, and is waited for", check);
                } else if fs::symlink_metadata(&self.file.path).is_ok() {
                    self.warn("link", "is a symbolic link to nothing", check);
                }
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.gone_at = None;
        if !metadata.is_file() {
            self.warn("kind", "is no regular file, and is not read", check);
            return Ok(false);
        }
        if metadata.len() == 0 && self.file.seen.is_none() {
            return Ok(false);
        }
        if self.file.seen == Some(FileVersion::of(&metadata)) {
            // An emptied file has no content until something is written to it.
            return Ok(metadata.len() > 0);
        }
        if *bytes_left == 0 {
            check.is_starved = true;
            return Ok(false);
        }
        let file = open(&self.file.path)?;
        let version = FileVersion::of(&file.metadata()?);
        self.recognise(&file, version, context, check)?;
        if version.bytes > ENORMOUS_BYTES {
            let words = format!("has {} bytes: only its end is read", version.bytes);
            self.warn("enormous", words, check);
        }
        if self.is_compressed {
            self.warn(
                "compressed",
                "is compressed: its content is not read",
                check,
            );
        } else {
            let read = self.read(&file, version.bytes)?;
            *bytes_left = bytes_left.saturating_sub(read);
        }
        // A change since the last check is newer than that check, whatever the file's clock shows.
        let age = version.age(context.wall).unwrap_or_default();
        let by_file = context.now.checked_sub(age).unwrap_or(context.now);
        self.changed_at = Some(match self.checked_at.filter(|_| self.file.seen.is_some()) {
            Some(checked_at) => by_file.max(checked_at),
            None => by_file,
        });
        self.file.seen = Some(version);
        Ok(version.bytes > 0)
    }

    /// Reads the added part, or the end if the added part is unknown or too large. Returns the bytes
    /// read.
    fn read(&mut self, file: &File, bytes: u64) -> io::Result<u64> {
        let added = bytes - self.file.offset.min(bytes);
        // Until the format is known, all of its evidence is read together.
        if self.file.offset == 0 || added > FILE_BYTES_MAX || self.content.parser.format().is_none()
        {
            let (end, read) = self.content.read_end(file, bytes)?;
            self.file.offset = end;
            return Ok(read);
        }
        let piece = self.file.read(file, bytes, added)?;
        self.content.parse(&piece, true);
        Ok(added)
    }

    /// Discards the content, which another one has replaced. Its turns were reported before.
    fn begin_again(&mut self, wall: Timestamp) {
        self.content = Content::new(wall);
        self.file.offset = 0;
    }

    /// Returns true if this is the deleted output of a task, `tasks/ID.output`, and not a broken link.
    fn is_deleted_task(&self) -> bool {
        let directory = self.file.path.parent().and_then(Path::file_name);
        directory.is_some_and(|name| name == "tasks")
            && self
                .file
                .path
                .extension()
                .is_some_and(|end| end == "output")
            && fs::symlink_metadata(&self.file.path).is_err()
    }

    /// Returns the end of a task whose file was deleted: Claude Code deletes it when the task ends. A
    /// file that is being replaced is missing only briefly.
    fn deleted(&mut self, context: ReadContext) -> Option<Verdict> {
        let gone_at = *self.gone_at.get_or_insert(context.now);
        if context.now.saturating_duration_since(gone_at) < HOLD {
            return None;
        }
        let why = "its output file was deleted, as it is when a task ends";
        let content = &self.content;
        Some(match content.status() {
            StreamStatus::Failed => Verdict::Failed {
                error: match content.error.as_str() {
                    "" => content.parser.evidence().to_owned(),
                    error => error.to_owned(),
                },
                evidence: format!("{}; {why}", content.parser.evidence()),
            },
            _ => Verdict::Completed {
                result: content.answer(),
                evidence: why.to_owned(),
            },
        })
    }

    /// Discards the content if the file was replaced.
    fn recognise(
        &mut self,
        file: &File,
        version: FileVersion,
        context: ReadContext,
        check: &mut Check,
    ) -> io::Result<()> {
        // The number of first bytes that identify a file's content.
        let head = read_at(file, 0, version.bytes.min(1024))?;
        let why = if version.bytes < self.file.offset {
            Some(("truncated", "has become shorter"))
        } else if self.file.is_replaced(&version) || !head.starts_with(&self.fingerprint) {
            Some(("replaced", "was replaced by another file"))
        } else {
            None
        };
        if let Some((what, words)) = why {
            self.warn(what, format!("{words}, and is read again"), check);
            self.begin_again(context.wall);
        }
        let magics: [&[u8]; 2] = [b"\x28\xb5\x2f\xfd", b"\x1f\x8b"];
        self.is_compressed = magics.iter().any(|magic| head.starts_with(magic));
        self.fingerprint = head;
        Ok(())
    }

    /// Returns the time since the last write.
    fn quiet(&self, context: ReadContext) -> Duration {
        let changed_at = self.changed_at.unwrap_or(context.now);
        context.now.saturating_duration_since(changed_at)
    }

    fn judge(&self, context: ReadContext) -> Option<Verdict> {
        let content = &self.content;
        let facts = Facts {
            status: content.status(),
            follow_up: content.parser.follow_up(),
            format: content.parser.format(),
            evidence: content.parser.evidence(),
            answer: &content.answer(),
            error: &content.error,
            is_open: content.parser.is_open(),
            has_tool: content.ends_with_sub_agent() || content.parser.open_tools().next().is_some(),
            unread: content.unread(),
            quiet: self.quiet(context),
        };
        judge(&facts, context.stable)
    }

    /// Adds a warning about the file, unless its kind was reported before.
    fn warn(&mut self, what: &'static str, words: impl Display, check: &mut Check) {
        if self.warned.insert(what) {
            let message = format!("{} {words}", self.file.path.display());
            check.warnings.push(message);
        }
    }
}

// The content of an agent's file: the added part, or its end, and the part before that.

/// The bytes of a file's end that are read: first the least, then more if these do not suffice,
/// because a record with an image may have a megabyte.
pub(super) const TAILS: [u64; 3] = [256 * 1024, 1024 * 1024, FILE_BYTES_MAX];

/// The most bytes that are read of a file at once.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

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
    /// The position from which the file was read.
    start: u64,
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
            searched_from: None,
            is_main: false,
            error: String::new(),
            last_line: LastLine::default(),
        }
    }

    pub fn status(&self) -> StreamStatus {
        if self.ends_with_sub_agent() {
            // It waits for the sub-agent whose records end the file.
            StreamStatus::Working
        } else {
            self.parser.status()
        }
    }

    /// Returns true if the file is a conversation with a person, which may continue after any end.
    pub fn is_interactive(&self) -> bool {
        match self.parser.format() {
            Some(StreamFormat::ClaudeTranscript) => !self.is_sub_agent(),
            Some(
                StreamFormat::CodexRollout
                | StreamFormat::GeminiSession
                | StreamFormat::QwenSession
                | StreamFormat::KimiSession,
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
        if self.is_interactive() {
            turns
        } else {
            Vec::new()
        }
    }

    /// Ends the turn of the agent, if its records leave that open.
    pub fn end_turn(&mut self) {
        let mut events = Vec::new();
        self.parser.end_turn(Timestamp::default(), &mut events);
        self.note(events, true, true);
    }

    /// Returns the agent's last answer, or the last line of an unknown format.
    pub fn answer(&self) -> String {
        match self.parser.answer() {
            "" if !is_known(self.parser.format()) => self.last_line.text(),
            answer => answer.to_owned(),
        }
    }

    /// Returns the number of bytes at the beginning that were not searched for running tasks.
    pub fn unread(&self) -> u64 {
        match self.parser.format() {
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

    /// Reads the end of a file. Returns the position of its end, and the number of bytes read.
    fn read_end(&mut self, file: &File, bytes: u64) -> io::Result<(u64, u64)> {
        let (mut read, mut offset) = (0, 0);
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
            offset = end;
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
        Ok((offset, read))
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
        // The part of a transcript, from its end, that is searched once for running tasks before its agent is
        // reported as completed. Nearly all transcripts are smaller.
        let from = self.start.saturating_sub(16 * 1024 * 1024);
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
        if !is_known(self.parser.format()) {
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

fn begins_with_sub_agent(file: &File) -> io::Result<bool> {
    // The bytes of a transcript's beginning that identify the session.
    let head = read_at(file, 0, 64 * 1024)?;
    let mut parser = StreamParser::of(StreamFormat::ClaudeTranscript);
    parser.push(&head, Timestamp::default(), &mut Vec::new());
    Ok(parser.is_sub_agent() == Some(true))
}

fn parser(format: Format) -> StreamParser {
    let bytes_max = usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX);
    StreamParser::with_record_bytes_max(format, bytes_max)
}

#[cfg(test)]
mod tests {
    mod file {
        //! Results of checks of a file, and warnings about files.

        use std::fs::OpenOptions;
        use std::io::Write;

        use super::super::*;
        use crate::clock::Clock;

        mod transcripts {
            //! Ends and turns in the transcripts of agents.

            use super::*;

            /// A line of a transcript, with the fields that all lines have.
            fn line(kind: &str, more: &str) -> String {
                format!(
                    "{{\"type\":\"{kind}\",\"sessionId\":\"s\",\"version\":\"2.1.143\",{more}}}\n"
                )
            }

            fn prompt(side: bool) -> String {
                line(
                    "user",
                    &format!("\"isSidechain\":{side},\"message\":{{\"content\":\"go\"}}"),
                )
            }

            fn answer(side: bool, stop: &str) -> String {
                let message = format!(
                    "{{\"id\":\"m\",\"content\":[{{\"type\":\"text\",\"text\":\"yes\"}}],\"stop_reason\":{stop}}}"
                );
                line(
                    "assistant",
                    &format!("\"isSidechain\":{side},\"message\":{message}"),
                )
            }

            fn filler(side: bool, bytes: usize) -> String {
                let text = "x".repeat(2_000);
                let one = line(
                    "user",
                    &format!(
                        "\"isSidechain\":{side},\"message\":{{\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"{text}\"}}]}}"
                    ),
                );
                one.repeat(bytes / one.len() + 1)
            }

            /// Returns the verdict of the second of two reads, which are `seconds` apart.
            #[track_caller]
            fn judged(case: &mut Case, seconds: u64) -> Option<Verdict> {
                case.check(0);
                case.check(seconds).0.verdict
            }

            #[test]
            fn an_emptied_file_has_no_end() {
                let mut case = Case::new();
                case.append([WORKS, DONE].concat());
                case.check(0);
                std::fs::write(case.path(), "").unwrap();
                case.warned("shorter");
                assert_eq!(case.check(1_000).0.verdict, None);
                case.append([WORKS, DONE].concat());
                let end = judged(&mut case, 5);
                assert_eq!(end, completed("All green.", "turn.completed"));
            }

            #[test]
            fn a_task_from_far_before_the_end_is_found() {
                let launch = line(
                    "user",
                    "\"isSidechain\":false,\"message\":{\"content\":[]},\"toolUseResult\":{\"status\":\"async_launched\",\"agentId\":\"a1\"}",
                );
                let ended = line(
                    "queue-operation",
                    "\"content\":\"<task-notification>\\n<task-id>a1</task-id>\\n<status>killed</status>\"",
                );
                let end = answer(false, "\"end_turn\"");
                let filler = filler(false, 400_000);
                let begun = [prompt(false), launch, filler.clone()].concat();
                let mut case = Case::new();
                case.append([&*begun, &*end].concat());
                assert_eq!(judged(&mut case, 1_000), None, "its task still runs");
                let read = case.check(5).1;
                assert_eq!(read, 0, "it is searched once");
                case.append(&ended);
                assert_eq!(
                    judged(&mut case, 5),
                    completed("yes", "stop_reason end_turn")
                );
                let mut case = Case::new();
                case.append([&*begun, &*ended, &*filler, &*end].concat());
                assert_eq!(
                    judged(&mut case, 5),
                    completed("yes", "stop_reason end_turn")
                );
            }

            #[test]
            fn unread_bytes_make_an_end_inferred() {
                let mut case = Case::new();
                case.append(prompt(false));
                let file = OpenOptions::new().write(true).open(case.path()).unwrap();
                file.set_len(20 * 1024 * 1024).unwrap();
                let end = answer(false, "\"end_turn\"");
                case.append(["\n", &*filler(false, 300_000), &*end].concat());
                assert_eq!(judged(&mut case, 5), None);
                let Some(Verdict::Completed { evidence, .. }) = case.check(10).0.verdict else {
                    panic!("it has not ended");
                };
                assert!(evidence.starts_with("inferred: stop_reason end_turn; the first "));
            }

            #[test]
            fn a_sub_agents_end_is_not_that_of_a_transcript_that_holds_it() {
                let end = answer(true, "\"end_turn\"");
                let beside = [filler(true, 400_000), end].concat();
                let mut case = Case::new();
                case.append([&*prompt(false), &*beside].concat());
                assert_eq!(judged(&mut case, 1_000), None);
                case.append([filler(false, 1), answer(false, "\"end_turn\"")].concat());
                assert!(judged(&mut case, 5).is_some());
                let mut case = Case::new();
                case.append([&*prompt(true), &*beside].concat());
                assert!(judged(&mut case, 5).is_some(), "its own file");
            }

            #[test]
            fn a_record_that_is_being_written_is_waited_for() {
                let text = prompt(false).replace("2.1.143", "2.1.12")
                    + &answer(false, "null").replace("2.1.143", "2.1.12");
                let mut case = Case::new();
                case.append(&text);
                case.append("{\"type\":\"assis");
                assert_eq!(judged(&mut case, 30), None);
                assert!(case.check(30).0.verdict.is_some());
                let mut case = Case::new();
                case.append(&text);
                assert!(judged(&mut case, 10).is_some());
            }

            #[test]
            fn a_human_who_stopped_an_agent_is_waited_for() {
                let stopped = line(
                    "user",
                    "\"isSidechain\":false,\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"[Request interrupted by user]\"}]}",
                );
                let mut case = Case::new();
                case.append([prompt(false), stopped].concat());
                assert_eq!(judged(&mut case, 29), None);
                case.append([prompt(false), answer(false, "\"end_turn\"")].concat());
                assert_eq!(
                    judged(&mut case, 5),
                    completed("yes", "stop_reason end_turn")
                );
            }

            #[test]
            fn a_stream_of_events_ends_without_its_last_lines() {
                let mut case = Case::new();
                case.append("data: {\"type\":\"response.created\",\"response\":{}}\n\ndata: {\"type\":\"response.completed\",\"response\":{}}");
                assert!(judged(&mut case, 5).is_some());
            }

            #[test]
            fn a_result_is_no_record() {
                let mut case = Case::new();
                case.append("{\"type\":\"init\",\"session_id\":\"x\",\"model\":\"g\"}\n{\"type\":\"result\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"status\":\"success\"}\n");
                assert_eq!(
                    judged(&mut case, 5),
                    completed("", "result: status success")
                );
                let mut case = Case::new();
                case.append([0; 10_000]);
                let Some(Verdict::Completed { result, .. }) = judged(&mut case, 10) else {
                    panic!("it has not ended");
                };
                assert_eq!(result, "");
            }

            #[test]
            fn a_file_that_was_compressed_is_no_longer_waited_for() {
                let mut case = Case::new();
                case.append(WORKS);
                case.check(0);
                let mut name = case.path().into_os_string();
                name.push(".zst");
                std::fs::rename(case.path(), name).unwrap();
                case.warned("was compressed to");
                assert!(case.check(5).0.verdict.is_some());
            }

            /// A transcript of Codex: its turns, each with its times.
            fn rollout(minute: u32, answer: &str) -> String {
                let record = |second: u32, payload: String| {
                    format!(
                        "{{\"timestamp\":\"2026-11-23T19:{minute:02}:{second:02}.000Z\",\"type\":\"event_msg\",\"payload\":{payload}}}\n"
                    )
                };
                let prompt = r#"{"type":"user_message","message":"go on"}"#;
                let done = format!(
                    r#"{{"type":"task_complete","turn_id":"t","last_agent_message":"{answer}"}}"#
                );
                [
                    record(0, r#"{"type":"task_started","turn_id":"t"}"#.to_owned()),
                    record(1, prompt.to_owned()),
                    record(2, done),
                ]
                .concat()
            }

            fn summaries(check: &Check) -> Vec<&str> {
                let turns = check.turns.iter().map(|turn| match turn {
                    TurnEnd::Completed { summary, .. } => summary.as_str(),
                    TurnEnd::Failed { error } => error.as_str(),
                });
                turns.collect()
            }

            #[test]
            fn each_turn_of_a_session_is_reported_once() {
                let mut case = Case::new();
                let since: Timestamp = "2026-11-23T19:10:00Z".parse().unwrap();
                case.file = OutputFile::new(case.path(), since);
                case.append([rollout(1, "one"), rollout(2, "two")].concat());
                let (check, _) = case.check(5);
                assert_eq!(summaries(&check), [""; 0], "they ended before");
                let (check, _) = case.check(5);
                assert!(check.verdict.is_some(), "{check:?}");
                assert_eq!(summaries(&check), ["two"], "the end of the agent is one");
                case.append([rollout(11, "three"), rollout(12, "four")].concat());
                assert_eq!(summaries(&case.check(5).0), ["three", "four"]);
                assert!(case.check(5).0.turns.is_empty());
                assert!(case.file.is_interactive());
                // A conversation that began after `since` is reported completely.
                case.file = OutputFile::new(case.path(), since);
                assert_eq!(summaries(&case.check(5).0), ["three", "four"]);
                assert!(case.check(5).0.turns.is_empty());
            }

            #[test]
            fn a_stream_has_an_end_and_no_turns() {
                let mut case = Case::new();
                case.append([WORKS, DONE].concat());
                case.check(5);
                let (check, _) = case.check(5);
                assert!(check.verdict.is_some() && check.turns.is_empty());
                assert!(!case.file.is_interactive());
            }
        }

        const STABLE: Duration = Duration::from_secs(10);
        const WORKS: &str = "{\"type\":\"thread.started\"}\n{\"type\":\"turn.started\"}\n";
        const DONE: &str = "{\"type\":\"item.completed\",\"item\":{\"id\":\"1\",\"type\":\"agent_message\",\"text\":\"All green.\"}}\n{\"type\":\"turn.completed\",\"usage\":{}}\n";

        /// A file in a directory of its own, with a simulated clock. Its wall clock makes files appear to be
        /// from the future, so that only changes between checks give them an age.
        struct Case {
            directory: tempfile::TempDir,
            file: OutputFile,
            now: Instant,
        }

        impl Case {
            fn new() -> Self {
                let directory = tempfile::tempdir().unwrap();
                let file =
                    OutputFile::new(directory.path().join("agent.jsonl"), Timestamp::default());
                let now = Clock::system().now();
                Self {
                    directory,
                    file,
                    now,
                }
            }

            fn path(&self) -> PathBuf {
                self.directory.path().join("agent.jsonl")
            }

            fn append(&self, text: impl AsRef<[u8]>) {
                let mut options = OpenOptions::new();
                let mut file = options.append(true).create(true).open(self.path()).unwrap();
                file.write_all(text.as_ref()).unwrap();
            }

            /// Reads the file `seconds` later; returns the result and the number of bytes read.
            fn check(&mut self, seconds: u64) -> (Check, u64) {
                self.now += Duration::from_secs(seconds);
                let context = ReadContext {
                    now: self.now,
                    wall: Timestamp::from_micros(0),
                    stable: STABLE,
                };
                let mut left = u64::MAX;
                let check = self.file.check(context, &mut left);
                (check, u64::MAX - left)
            }

            #[track_caller]
            fn warned(&mut self, word: &str) {
                let (check, _) = self.check(5);
                assert!(check.warnings.len() == 1, "{check:?}");
                assert!(check.warnings[0].contains(word), "{check:?}");
                assert_eq!(self.check(5).0.warnings.len(), 0, "reported again");
            }
        }

        fn completed(result: &str, evidence: &str) -> Option<Verdict> {
            Some(Verdict::Completed {
                result: result.to_owned(),
                evidence: evidence.to_owned(),
            })
        }

        #[test]
        fn an_end_in_the_records_is_found() {
            let mut case = Case::new();
            assert_eq!(case.check(5).0.verdict, None);
            case.append("");
            assert_eq!(case.check(5).0.verdict, None);
            case.append(WORKS);
            for _ in 0..5 {
                assert_eq!(case.check(100).0.verdict, None, "however long");
            }
            let (cut, end) = DONE.split_at(DONE.len() - 9);
            case.append(cut);
            assert_eq!(case.check(5).0.verdict, None);
            // The last line without its end.
            case.append(end.trim_end());
            assert_eq!(case.check(5).0.verdict, None, "not held yet");
            let (check, read) = case.check(5);
            assert_eq!(check.verdict, completed("All green.", "turn.completed"));
            assert_eq!(read, 0, "nothing had changed");
            assert!(check.warnings.is_empty());
        }

        #[test]
        fn only_what_was_added_is_read() {
            let mut case = Case::new();
            let filler = "{\"type\":\"item.updated\"}\n".repeat(100_000);
            case.append([WORKS, &filler, WORKS].concat());
            let (_, read) = case.check(5);
            assert_eq!(read, TAILS[0]);
            case.append(DONE);
            assert_eq!(case.check(5).1, DONE.len() as u64);
            assert!(case.check(5).0.verdict.is_some());
        }

        #[test]
        fn a_file_of_a_gigabyte_costs_what_its_end_costs() {
            let mut case = Case::new();
            case.append(WORKS);
            let file = OpenOptions::new().write(true).open(case.path()).unwrap();
            file.set_len(ENORMOUS_BYTES + 1).unwrap();
            case.append(["\n", WORKS, &"x".repeat(300_000), "\n", DONE].concat());
            let (check, read) = case.check(5);
            assert!(read <= TAILS.iter().sum(), "{read} bytes were read");
            assert!(check.warnings[0].contains("only its end"), "{check:?}");
            assert!(case.check(5).0.verdict.is_some());
        }

        #[test]
        fn changes_of_files_are_reported_once() {
            let mut case = Case::new();
            case.append(WORKS);
            assert!(case.check(5).0.warnings.is_empty());
            // Kept, so that its inode is not assigned to the next file.
            let aside = case.directory.path().join("aside");
            std::fs::rename(case.path(), aside).unwrap();
            case.warned("gone");
            // Larger, and with the same beginning: only the inode differs.
            case.append([WORKS, WORKS].concat());
            case.warned("replaced");
            std::fs::write(case.path(), &WORKS[..20]).unwrap();
            case.warned("shorter");
            let mut case = Case::new();
            case.append(b"\x28\xb5\x2f\xfdrest");
            case.warned("compressed");
            let mut case = Case::new();
            std::os::unix::fs::symlink("nowhere", case.path()).unwrap();
            case.warned("link to nothing");
            let mut case = Case::new();
            std::fs::create_dir(case.path()).unwrap();
            case.warned("no regular file");
            // Its name cannot be looked up; a missing permission is the same to the program.
            let mut case = Case::new();
            case.append(WORKS);
            case.file = OutputFile::new(case.path().join("below"), Timestamp::default());
            case.warned("cannot be read");
        }

        #[test]
        fn a_task_has_ended_when_its_file_is_deleted() {
            for (directory, name, is_task) in [
                ("tasks", "b1.output", true),
                ("tasks", "b1.jsonl", false),
                ("logs", "b1.output", false),
            ] {
                let mut case = Case::new();
                let directory = case.directory.path().join(directory);
                std::fs::create_dir(&directory).unwrap();
                let path = directory.join(name);
                case.file = OutputFile::new(path.clone(), Timestamp::default());
                std::fs::write(&path, "test 1 ok\ntest 2 ok\n").unwrap();
                assert_eq!(case.check(5).0.verdict, None);
                // Replaced, and missing during one check only.
                std::fs::remove_file(&path).unwrap();
                assert_eq!(case.check(0).0.verdict, None);
                std::fs::write(&path, "test 1 ok\ntest 2 ok\ntest 3 ok\n").unwrap();
                assert_eq!(case.check(5).0.verdict, None, "it is there again");
                std::fs::remove_file(&path).unwrap();
                let (check, _) = case.check(0);
                assert_eq!(check.verdict, None, "not held yet");
                if !is_task {
                    assert_eq!(case.check(100).0.verdict, None, "{path:?}");
                    continue;
                }
                assert!(check.warnings.is_empty(), "{check:?}");
                let (check, _) = case.check(1);
                let why = "its output file was deleted, as it is when a task ends";
                assert_eq!(check.verdict, completed("test 3 ok", why));
                assert!(check.warnings.is_empty(), "{check:?}");
            }
        }

        #[test]
        fn a_deleted_file_hides_no_failure() {
            let mut case = Case::new();
            let directory = case.directory.path().join("tasks");
            std::fs::create_dir(&directory).unwrap();
            let path = directory.join("a1.output");
            case.file = OutputFile::new(path.clone(), Timestamp::default());
            let failed = "{\"type\":\"turn.failed\",\"error\":{\"message\":\"limit\"}}\n";
            std::fs::write(&path, [WORKS, failed].concat()).unwrap();
            assert_eq!(case.check(0).0.verdict, None);
            std::fs::remove_file(&path).unwrap();
            assert_eq!(case.check(0).0.verdict, None);
            let Some(Verdict::Failed { error, evidence }) = case.check(1).0.verdict else {
                panic!("it has failed");
            };
            assert_eq!(error, "limit");
            assert!(evidence.contains("deleted"), "{evidence}");
        }

        #[test]
        fn an_overwritten_file_is_read_again() {
            let mut case = Case::new();
            case.append([WORKS, DONE].concat());
            assert_eq!(case.check(0).0.verdict, None);
            // The same inode, larger, and other bytes.
            let other = [
                "{\"type\":\"thread.started\",\"thread_id\":\"2\"}\n{\"type\":\"turn.started\"}\n",
                &" ".repeat(400),
                "\n",
            ]
            .concat();
            std::fs::write(case.path(), other).unwrap();
            case.warned("replaced");
            assert_eq!(case.check(60).0.verdict, None);
        }

        #[test]
        fn a_link_is_followed() {
            let mut case = Case::new();
            let target = case.directory.path().join("target");
            std::fs::write(&target, [WORKS, DONE].concat()).unwrap();
            std::os::unix::fs::symlink(&target, case.path()).unwrap();
            assert!(case.check(5).0.warnings.is_empty());
            assert!(case.check(5).0.verdict.is_some());
        }

        #[test]
        fn silence_ends_output_of_unknown_formats() {
            for (text, result, evidence) in [
                ("compiling\nall done\n\n", "all done", "inferred"),
                ("{\"who\":1}\n", "{\"who\":1}", "inferred"),
                (
                    "{\"message\":{\"stop_reason\":\"end_turn\"}}\n",
                    "",
                    "stop_reason end_turn",
                ),
                (
                    "{\"note\":\"\\\"type\\\":\\\"result\\\"\"}\n",
                    "",
                    "inferred",
                ),
                (
                    "{\"type\":\"result\",\"result\":\"ok\"}\n",
                    "",
                    "a record of type result",
                ),
            ] {
                let mut case = Case::new();
                case.append(text);
                assert_eq!(case.check(5).0.verdict, None, "{text}");
                let first = case.check(9).0.verdict;
                let Some(Verdict::Completed {
                    result: found,
                    evidence: why,
                }) = first.or_else(|| case.check(2).0.verdict)
                else {
                    panic!("{text}: it has not ended");
                };
                assert!(why.starts_with(evidence), "{text}: {why}");
                assert!(found.contains(result), "{text}: {found}");
            }
        }
    }
}
