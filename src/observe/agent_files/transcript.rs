//! Follows the file of a conversation: added records become events, once and in order.
//!
//! Of a file that existed before, the end is read without reporting it, to find the agent's state; a
//! file of a gigabyte is not read completely. A conversation may also be one document, each version of which is read
//! as a whole, or a directory of files that continue each other.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::OFlags;

use super::earlier::{EarlierTurn, LastTurn};
use super::file::{
    FileVersion, Followed, created, first_line, last_time, open, read_small, read_tail,
};
use super::homes::modified;
use crate::agent::{AgentEvent, RecordContent, StreamFormat, StreamParser, StreamStatus};
use crate::event::Background;
use crate::timestamp::Timestamp;

/// The most bytes of a file that are read at once.
pub(super) const PIECE_BYTES_MAX: u64 = 1024 * 1024;

/// Distance from the end within which the first reported line is searched.
const TAIL_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The quiet after which the last record counts as complete: agents write a message's parts together.
const QUIET_MICROS: i64 = 300_000;

/// The most bytes of a document: it is parsed again after each message.
pub(super) const DOCUMENT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The most open tools that are reported of a turn that began before its observation. Agents run some ten at once.
const OPEN_TOOLS_MAX: usize = 32;

/// The most files of a conversation that are read at once. Vibe keeps two.
const CONTINUED_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Transcript {
    path: PathBuf,
    file: Followed,
    format: StreamFormat,
    parser: StreamParser,
    /// Older lines are not reported.
    since: Timestamp,
    /// The time of the last read, until an open record is settled.
    read_at: Option<Timestamp>,
    /// The time of the latest record, if records have times.
    latest: Option<Timestamp>,
    /// The state from before the file was replaced, while its former content is written again.
    rewritten: Option<StreamStatus>,
    /// True once an event was reported since the file was opened.
    is_reported: bool,
    /// True while the turn that may have ended began before `since`, so its end is not reported.
    has_old_turn: bool,
    /// The last turn, until the records that are older than the observation are read, if it is wanted.
    last_turn: Option<LastTurn>,
    /// The start of the agent's process, while it is not known if a turn of the process goes on whose beginning is to be
    /// reported.
    reports_turn_of: Option<Timestamp>,
}

impl Transcript {
    /// Creates a transcript whose records are reported if they were written from `since` on.
    pub fn new(path: PathBuf, format: StreamFormat, since: Timestamp) -> Self {
        Self {
            file: Followed::new(path.clone()),
            path,
            format,
            parser: StreamParser::of(format),
            since,
            read_at: None,
            latest: None,
            rewritten: None,
            is_reported: false,
            has_old_turn: false,
            last_turn: None,
            reports_turn_of: None,
        }
    }

    /// Collects the last turn of the records that are there already, for [`Transcript::take_earlier_turn`]. If it goes on,
    /// and an agent that was started at the given time works on it, its prompt and its open tools are reported, too.
    pub fn collect_last_turn(&mut self, reports_turn_of: Option<Timestamp>) {
        self.last_turn = Some(LastTurn::default());
        self.reports_turn_of = reports_turn_of;
    }

    /// Returns true once all records are read that were there, or if there are none yet.
    pub fn is_read(&self) -> bool {
        (self.file.seen).is_none_or(|seen| self.file.offset >= seen.bytes)
    }

    /// Returns the last turn that was collected, if the agent is in its present state since before `observed`. Its
    /// process works on the conversation since `started`. Also returns the failure of the turn.
    pub fn take_earlier_turn(
        &mut self,
        observed: Timestamp,
        started: Timestamp,
    ) -> Option<(EarlierTurn, Option<String>)> {
        let turn = self.last_turn.take()?;
        let written = self.undated()?;
        let earlier = turn.before(observed, started, self.parser.status(), written)?;
        Some((earlier, turn.failure().map(str::to_owned)))
    }

    /// Returns the time of the last change of a file whose records have no times; `None` if there is no file.
    fn undated(&self) -> Option<Option<Timestamp>> {
        let written = self.file.seen?.modified();
        Some(written.filter(|_| self.latest.is_none()))
    }

    /// Puts the prompt and the open tools of the turn that goes on before the first events that are reported of it.
    fn report_begun_turn(&mut self, first: usize, events: &mut Vec<AgentEvent>) {
        let status = self.status();
        if status == StreamStatus::Unknown {
            return;
        }
        let written = self.undated().flatten();
        let (Some(started), Some(turn)) = (self.reports_turn_of.take(), &self.last_turn) else {
            return;
        };
        if status != StreamStatus::Working || turn.acted(written) < Some(started) {
            return;
        }
        let begun = turn.prompt().cloned().into_iter();
        let begun = begun.chain(self.parser.open_tool_starts().take(OPEN_TOOLS_MAX));
        let begun: Vec<_> = begun
            .filter(|event| !events[first..].contains(event))
            .collect();
        self.is_reported |= !begun.is_empty();
        events.splice(first..first, begun);
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the time of the latest record, if records have times.
    pub fn latest(&self) -> Option<Timestamp> {
        self.latest
    }

    /// Returns the state of the agent after its last record.
    pub fn status(&self) -> StreamStatus {
        let read = || self.parser.status();
        self.rewritten.unwrap_or_else(read)
    }

    /// Returns what runs in the background and was begun since this time.
    pub fn background(&self, since: Timestamp) -> Background {
        self.parser.background(since)
    }

    pub fn evidence(&self) -> &str {
        self.parser.evidence()
    }

    /// Returns the names and arguments of the tools that wait for their results.
    pub fn open_tools(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parser.open_tools()
    }

    /// Ends the conversation, because nothing more is written.
    pub fn finish(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) {
        self.parser.finish(now, events);
    }

    /// Ends the turn, which another source has found to be over.
    pub fn end_turn(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) {
        // The end of a turn is not reported if nothing else of it was.
        if self.is_reported && self.rewritten.is_none() {
            self.parser.end_turn(now, events);
        }
    }

    /// Reads what was added, at most [`PIECE_BYTES_MAX`] of a file; the next call reads on.
    pub fn read(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) -> io::Result<()> {
        let first = events.len();
        let result = self.read_files(now, events);
        self.report_begun_turn(first, events);
        result
    }

    fn read_files(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) -> io::Result<()> {
        if self.format.is_document() {
            return self.read_document(now, events);
        }
        for _ in 1..CONTINUED_MAX {
            let result = self.read_file(now, events);
            // A file that is gone, or read to its end, is continued by the next one.
            match self.next_file() {
                Some(next) if result.is_err() || self.is_read() => self.file = Followed::new(next),
                _ => return result,
            }
        }
        self.read_file(now, events)
    }

    /// Returns the file that continues the one that is read, once it has content.
    fn next_file(&self) -> Option<PathBuf> {
        let is_journal = self.format == StreamFormat::VibeJournal;
        let files = is_journal.then(|| journal_files(&self.path))?;
        files.filter(|path| *path > self.file.path).min()
    }

    /// Reads the document if it has changed.
    fn read_document(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) -> io::Result<()> {
        let metadata = fs::metadata(&self.path)?;
        let version = FileVersion::of(&metadata);
        let before = self.file.seen.replace(version);
        self.file.offset = version.bytes;
        // A version that is incomplete, because it is being written, is followed by another one.
        if before == Some(version) {
            return Ok(());
        }
        if version.bytes > DOCUMENT_BYTES_MAX {
            return Err(io::Error::other("the document is too long"));
        }
        let bytes = read_small(&self.path, OFlags::empty(), DOCUMENT_BYTES_MAX);
        // Messages without a time that are there at first are as old as the document.
        let undated = match before {
            Some(_) => now,
            None => created(&metadata).unwrap_or_default(),
        };
        let Self {
            since,
            latest,
            last_turn,
            has_old_turn,
            ..
        } = self;
        let first = events.len();
        let mut take = |message: RecordContent| {
            let (time, own) = (message.time, message.events);
            if let Some(last_turn) = last_turn {
                last_turn.add(&own, time);
            }
            *latest = (*latest).max(time);
            if time.unwrap_or(undated) >= *since {
                events.extend(own);
            } else {
                *has_old_turn = message.status == StreamStatus::MaybeDone;
            }
        };
        self.parser
            .read_records(&bytes.unwrap_or_default(), now, &mut take);
        self.report_from(first, events);
        Ok(())
    }

    /// Notes that events from this position on are reported.
    fn report_from(&mut self, first: usize, events: &mut Vec<AgentEvent>) {
        // A prompt implies the end of the turn before it, which began before `since`.
        if events.len() > first && std::mem::take(&mut self.has_old_turn) {
            let is_prompt = |event: &AgentEvent| matches!(event, AgentEvent::PromptSent { .. });
            let old = events[first..].iter().position(is_prompt).unwrap_or(0);
            events.drain(first..first + old);
        }
        self.is_reported |= events.len() > first;
    }

    fn read_file(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) -> io::Result<()> {
        let version = FileVersion::of(&fs::metadata(&self.file.path)?);
        let is_known = self.file.seen.is_some()
            && !self.file.is_replaced(&version)
            && version.bytes >= self.file.offset;
        if is_known && version.bytes == self.file.offset {
            let is_quiet = |at: &mut Timestamp| now.micros() - at.micros() >= QUIET_MICROS;
            if self.read_at.take_if(is_quiet).is_some() {
                // The rewritten content is complete.
                self.rewritten = None;
                self.parser.flush_idle(now, events);
            }
            return Ok(());
        }
        let file = open(&self.file.path)?;
        let is_first = self.file.seen.replace(version).is_none();
        if !is_known {
            self.rewritten = (!is_first && self.latest.is_some()).then(|| self.status());
            if !is_first {
                self.parser = StreamParser::of(self.format);
            }
            self.file.offset = version.bytes.saturating_sub(TAIL_BYTES_MAX);
            if self.rewritten.is_none() {
                self.begin(&file, version.bytes)?;
            }
        }
        let from = self.file.offset;
        let mut piece = self.file.read(&file, version.bytes, PIECE_BYTES_MAX)?;
        let mut new = 0;
        if self.rewritten.is_some() {
            // Records that are not later than those read before are skipped, in whole lines.
            if let Some(end) = memchr::memrchr(b'\n', &piece) {
                piece.truncate(end + 1);
                self.file.offset = from + piece.len() as u64;
            }
            new = first_line(&piece, |time| {
                self.latest.is_none_or(|latest| time > latest)
            });
            self.parser.push(&piece[..new], now, &mut Vec::new());
            if new < piece.len() {
                self.rewritten = None;
            }
        }
        let before = events.len();
        self.push(&piece[new..], now, events);
        self.report_from(before, events);
        self.latest = self.latest.max(last_time(&piece));
        self.read_at = Some(now);
        Ok(())
    }

    /// Reads the records before the first new line without reporting them.
    fn begin(&mut self, file: &File, bytes: u64) -> io::Result<()> {
        let (start, tail) = read_tail(file, bytes, TAIL_BYTES_MAX)?;
        let since = self.since;
        let new = first_line(&tail, |time| time >= since);
        self.file.offset = start + new as u64;
        // The bytes before the first reported line that are read to find the agent's state.
        let (_, before) = read_tail(file, self.file.offset, 1024 * 1024)?;
        self.push(&before, since, &mut Vec::new());
        // A message that is complete is older, too.
        self.parser.flush_idle(since, &mut Vec::new());
        self.has_old_turn = self.parser.status() == StreamStatus::MaybeDone;
        self.latest = self.latest.max(last_time(&before));
        Ok(())
    }

    /// Lets the parser read bytes.
    fn push(&mut self, bytes: &[u8], now: Timestamp, events: &mut Vec<AgentEvent>) {
        let Some(last_turn) = &mut self.last_turn else {
            return self.parser.push(bytes, now, events);
        };
        // Records of text have no times, and belong together as they were written.
        let is_text = self.format == StreamFormat::AiderHistory;
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest).filter(|_| !is_text);
            let (record, more) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
            let before = events.len();
            self.parser.push(record, now, events);
            if self.parser.status() == StreamStatus::Unknown {
                // Another session begins in the same file.
                *last_turn = LastTurn::default();
            } else if events.len() > before {
                last_turn.add(&events[before..], last_time(record));
            }
            rest = more;
        }
    }
}

/// Returns the files of a journal, which continue each other in the order of their names, as far as they have content.
pub(super) fn journal_files(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let paths = entries.take(FILES_MAX).flatten().map(|entry| entry.path());
    paths.filter(|path| fs::metadata(path).is_ok_and(|of| of.len() > 0))
}

// The sub-agents of an agent in a pane: each has a transcript of its own, which shows its end.
//
// Claude Code 2.1.330 writes them to `SESSION/subagents/agent-ID.jsonl`, beside `SESSION.jsonl`.

/// The most sub-agents that are followed at once; others follow when some of these have ended.
const FOLLOWED_MAX: usize = 64;

/// The most files of a directory that are examined.
const FILES_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct SubAgents {
    /// Transcripts by id; `None` for a sub-agent that has ended.
    known: HashMap<String, Option<Transcript>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SubAgentEvent {
    /// A sub-agent was started, with this output file.
    Registered { id: String, file: String },
    /// A sub-agent has ended: [`AgentEvent::AgentCompleted`] or [`AgentEvent::AgentFailed`].
    Ended { id: String, how: AgentEvent },
}

impl SubAgents {
    /// Finds new sub-agents beside a conversation's file. Those from before `since` are not reported.
    pub fn find(&mut self, conversation: &Path, since: Timestamp, events: &mut Vec<SubAgentEvent>) {
        for (id, path) in sub_agent_files(conversation) {
            if self.known.contains_key(&id) || self.followed() >= FOLLOWED_MAX {
                continue;
            }
            let file = path.display().to_string();
            let is_old = modified(&path).is_none_or(|at| at < since);
            if is_old {
                self.known.insert(id, None);
                continue;
            }
            // The records may be older than the file's last change, but all of them are new.
            let transcript =
                Transcript::new(path, StreamFormat::ClaudeTranscript, Timestamp::default());
            self.known.insert(id.clone(), Some(transcript));
            events.push(SubAgentEvent::Registered { id, file });
        }
    }

    /// Reads the new records of all sub-agents.
    pub fn read(&mut self, now: Timestamp, events: &mut Vec<SubAgentEvent>) {
        for (id, known) in &mut self.known {
            let Some(transcript) = known else { continue };
            let mut own_events = Vec::new();
            if transcript.read(now, &mut own_events).is_err() {
                continue;
            }
            if !matches!(
                transcript.status(),
                StreamStatus::Done | StreamStatus::Failed | StreamStatus::Interrupted
            ) {
                continue;
            }
            transcript.finish(now, &mut own_events);
            let end = own_events.into_iter().rev().find(|event| {
                matches!(
                    event,
                    AgentEvent::AgentCompleted { .. } | AgentEvent::AgentFailed { .. }
                )
            });
            *known = None;
            events.extend(end.map(|how| SubAgentEvent::Ended {
                id: id.clone(),
                how,
            }));
        }
    }

    /// Returns the names and arguments of the sub-agents' tools that wait for their results.
    pub fn open_tools(&self) -> impl Iterator<Item = (&str, &str)> {
        let followed = self.known.values().flatten();
        followed.flat_map(Transcript::open_tools)
    }

    fn followed(&self) -> usize {
        self.known.values().flatten().count()
    }
}

/// Returns the ids of the sub-agents of a conversation, and their transcripts.
pub(super) fn sub_agent_files(conversation: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    let directory = conversation.with_extension("").join("subagents");
    let entries = fs::read_dir(directory).into_iter().flatten();
    let paths = entries.take(FILES_MAX).flatten().map(|entry| entry.path());
    paths.filter_map(|path| {
        let id = path.file_name()?.to_str().and_then(id_of)?.to_owned();
        Some((id, path))
    })
}

/// Returns the id of the sub-agent whose transcript has this name.
fn id_of(name: &str) -> Option<&str> {
    let id = name.strip_prefix("agent-")?.strip_suffix(".jsonl")?;
    (!id.is_empty()).then_some(id)
}

// Chooses among several files the conversation that a screen shows.

/// The letters and digits of a message that are compared; fewer than the minimum prove little.
const LETTERS: usize = 40;
const LETTERS_MIN: usize = 4;

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    is_prompt: bool,
    /// Its letters and digits.
    letters: String,
}

/// Returns the file with the lowest prompt on the screen that no other file has, else with the lowest answer: an agent
/// may show its answer before it writes it, when another one has written the same words. An agent that
/// was started at a time may change the file of an earlier session, as Gemini does at its start, which adds no
/// dated record; such files count only if no file has a later record.
pub(super) fn choose(
    files: &[PathBuf],
    format: StreamFormat,
    screen: &str,
    started: Timestamp,
) -> Option<PathBuf> {
    let ends: Vec<_> = files.iter().map(|file| end_of(file, format)).collect();
    let is_own = |at: Option<Timestamp>| at.is_some_and(|at| at >= started);
    let has_own = ends.iter().any(|(at, _)| is_own(*at));
    let messages = |(at, events): &(_, Vec<AgentEvent>)| match (is_own(*at), has_own) {
        (true, _) => last_messages(events, true),
        (false, true) => Vec::new(),
        // The user may give the prompt of an earlier conversation again.
        (false, false) => last_messages(events, false),
    };
    let messages: Vec<Vec<Message>> = ends.iter().map(messages).collect();
    lowest(&messages, &letters(screen)).map(|at| files[at].clone())
}

/// Returns the conversation with the lowest prompt on the screen that no other conversation has, else with the lowest
/// answer.
fn lowest(conversations: &[Vec<Message>], screen: &str) -> Option<usize> {
    let places = conversations.iter().enumerate().filter_map(|(at, own)| {
        let others = conversations.iter().enumerate();
        let shown = own.iter().filter_map(|message| {
            let place = place(&message.letters, screen)?;
            let is_shared = |(other, messages): (usize, &Vec<Message>)| {
                other != at && messages.iter().any(|of| of.letters == message.letters)
            };
            (!others.clone().any(is_shared)).then_some((message.is_prompt, place))
        });
        Some((shown.max()?, at))
    });
    places.max().map(|(_, at)| at)
}

/// Returns the position of a message on the screen, or of the visible end or beginning of a long one.
fn place(message: &str, screen: &str) -> Option<usize> {
    let count = message.chars().count();
    if count < LETTERS_MIN {
        return None;
    }
    let begin: String = message.chars().take(LETTERS).collect();
    let end: String = message
        .chars()
        .skip(count.saturating_sub(LETTERS))
        .collect();
    screen.rfind(&end).or_else(|| screen.rfind(&begin))
}

/// Returns the letters and digits of a text, which a screen does not change.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Returns the events at the end of a file, and the time of the last one; nothing if it cannot be read.
fn end_of(file: &Path, format: StreamFormat) -> (Option<Timestamp>, Vec<AgentEvent>) {
    let (mut parser, mut events) = (StreamParser::of(format), Vec::new());
    if format.is_document() {
        let mut latest = fs::metadata(file).ok().and_then(|of| created(&of));
        let bytes = read_small(file, OFlags::empty(), DOCUMENT_BYTES_MAX).unwrap_or_default();
        parser.read_records(&bytes, Timestamp::default(), &mut |message| {
            latest = latest.max(message.time);
            events.extend(message.events);
        });
        return (latest, events);
    }
    // The bytes of a file's end that are read for its last messages.
    let read = open(file).and_then(|file| read_tail(&file, file.metadata()?.len(), 256 * 1024));
    let end = read.map_or_else(|_| Vec::new(), |(_, bytes)| bytes);
    parser.push(&end, Timestamp::default(), &mut events);
    (last_time(&end), events)
}

/// Returns the last messages of a conversation: its longer answers and, `with_prompts`, what the user has sent.
fn last_messages(events: &[AgentEvent], with_prompts: bool) -> Vec<Message> {
    let messages = events.iter().rev().filter_map(|event| {
        let (is_prompt, text) = match event {
            AgentEvent::PromptSent { prompt_summary, .. } => (true, prompt_summary),
            AgentEvent::TokenReceived { token } => (false, token),
            _ => return None,
        };
        let letters = letters(text);
        // Short answers occur in many conversations, of which not all are known.
        let is_compared = if is_prompt {
            with_prompts
        } else {
            letters.chars().count() >= LETTERS
        };
        is_compared.then_some(Message { is_prompt, letters })
    });
    // The most messages of a file that are searched on the screen.
    messages.take(16).collect()
}

#[cfg(test)]
mod tests {
    mod transcript {

        use super::super::*;

        const LINES: &str = "{\"timestamp\":\"2026-11-23T19:00:00.000Z\"}\n{\"mode\":1}\n\
        {\"timestamp\":\"2026-11-23T19:00:02.000Z\"}\n{\"x\":1}\n";

        fn at(text: &str) -> Timestamp {
            text.parse().unwrap()
        }

        #[test]
        fn the_first_line_that_is_new_is_found_by_its_time() {
            let find = |since: &str| {
                let since = at(since);
                &LINES[first_line(LINES.as_bytes(), |time| time >= since)..]
            };
            assert_eq!(find("2026-11-23T18:00:00Z"), LINES);
            let third = LINES.find("{\"timestamp\":\"2026-11-23T19:00:02").unwrap();
            assert_eq!(find("2026-11-23T19:00:01Z"), &LINES[third..]);
            assert_eq!(find("2026-11-23T20:00:00Z"), "");
            assert_eq!(
                last_time(LINES.as_bytes()),
                Some(at("2026-11-23T19:00:02.000Z"))
            );
            assert_eq!(last_time(b"cut in the mid"), None);
        }

        const FIRST: &str = r#"{"id":"1","timestamp":"2026-11-23T19:00:00.000Z","type":"user","content":[{"text":"one"}]}"#;
        const SECOND: &str = r#"{"id":"2","timestamp":"2026-11-23T19:00:01.000Z","type":"gemini","content":"It is."}"#;
        const THIRD: &str = r#"{"id":"3","timestamp":"2026-11-23T19:00:02.000Z","type":"user","content":[{"text":"two"}]}"#;

        fn prompts(events: &[AgentEvent]) -> Vec<&str> {
            let prompts = events.iter().filter_map(|event| match event {
                AgentEvent::PromptSent { prompt_summary, .. } => Some(prompt_summary.as_str()),
                _ => None,
            });
            prompts.collect()
        }

        #[test]
        fn rewritten_records_are_not_reported_again() {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("session.jsonl");
            let since = at("2026-11-23T18:59:00Z");
            let mut transcript = Transcript::new(path.clone(), StreamFormat::GeminiSession, since);
            let (mut events, mut now) = (Vec::new(), since);
            let mut read = |transcript: &mut Transcript, text: &str| {
                // Replaces the file, as some programs do instead of appending.
                let temporary = directory.path().join("new");
                std::fs::write(&temporary, text).unwrap();
                std::fs::rename(&temporary, &path).unwrap();
                now = Timestamp::from_micros(now.micros() + 1_000);
                transcript.read(now, &mut events).unwrap();
                events.split_off(0)
            };
            let all = read(&mut transcript, &format!("{FIRST}\n{SECOND}\n"));
            assert_eq!(prompts(&all), ["one"]);
            assert_eq!(transcript.status(), StreamStatus::MaybeDone);
            assert_eq!(read(&mut transcript, &format!("{FIRST}\n")), []);
            assert_eq!(
                transcript.status(),
                StreamStatus::MaybeDone,
                "not all of it is written"
            );
            let all = read(&mut transcript, &format!("{FIRST}\n{SECOND}\n{THIRD}\n"));
            assert_eq!(prompts(&all), ["two"]);
            assert_eq!(transcript.status(), StreamStatus::Working);
        }

        #[test]
        fn a_file_of_an_earlier_session_that_is_touched_is_not_the_agent_s() {
            let directory = tempfile::tempdir().unwrap();
            let write = |name: &str, text: String| {
                let path = directory.path().join(name);
                std::fs::write(&path, text).unwrap();
                path
            };
            let later = FIRST.replace("19:00:00", "21:00:00");
            let old = write(
                "old",
                format!("{FIRST}\n{{\"$set\":{{\"summary\":\"x\"}}}}\n").replace("one", "make it"),
            );
            let new = write("new", format!("{later}\n").replace("one", "make it"));
            let files = [old.clone(), new.clone()];
            let of = |started: &str| {
                choose(
                    &files,
                    StreamFormat::GeminiSession,
                    "> make it",
                    at(started),
                )
            };
            assert_eq!(of("2026-11-23T20:00:00Z"), Some(new));
            assert_eq!(of("2026-11-23T22:00:00Z"), None, "both are resumed ones");
            assert_eq!(of("2026-11-23T18:00:00Z"), None, "both are new ones");
            // A conversation that has ended before, and is resumed or only touched.
            let answer = "I have looked at all of the files here, and they are well.";
            let ended = SECOND.replace("It is.", answer);
            let old = write(
                "ended",
                format!("{FIRST}\n{ended}\n").replace("one", "make it"),
            );
            for (screen, expected) in [("> make it", None), (answer, Some(&old))] {
                let files = std::slice::from_ref(&old);
                let started = at("2026-11-23T20:00:00Z");
                let chosen = choose(files, StreamFormat::GeminiSession, screen, started);
                assert_eq!(chosen.as_ref(), expected, "{screen}");
            }
        }

        #[test]
        fn the_end_of_a_turn_that_was_there_before_is_not_reported() {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("session.jsonl");
            std::fs::write(&path, format!("{FIRST}\n{SECOND}\n")).unwrap();
            let since = at("2026-11-23T20:00:00Z");
            let mut transcript = Transcript::new(path, StreamFormat::GeminiSession, since);
            let mut events = Vec::new();
            transcript.read(since, &mut events).unwrap();
            assert_eq!(transcript.status(), StreamStatus::MaybeDone);
            transcript.end_turn(since, &mut events);
            assert_eq!(events, []);
            let later = at("2026-11-23T20:00:01Z");
            transcript.read(later, &mut events).unwrap();
            assert_eq!(events, [], "it has settled");
            let prompt = r#"{"id":"9","timestamp":"2026-11-23T20:00:02Z","type":"user","content":[{"text":"next"}]}"#;
            append(&transcript, &format!("{prompt}\n"));
            transcript.read(later, &mut events).unwrap();
            assert!(
                matches!(&events[..], [AgentEvent::PromptSent { .. }]),
                "{events:?}"
            );
        }

        /// Reads a conversation until nothing is new; returns its prompts.
        fn new_prompts(transcript: &mut Transcript, now: Timestamp) -> Vec<String> {
            let mut events = Vec::new();
            transcript.read(now, &mut events).unwrap();
            prompts(&events).into_iter().map(str::to_owned).collect()
        }

        #[test]
        fn a_document_is_reported_from_a_time_on_and_each_message_once() {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("s.messages.json");
            let message = |number: u32| {
                let ts = i64::from(number) * 1_000 + 1_764_000_000_000;
                format!(
                    r#"{{"id":"{number}","role":"user","content":"prompt {number}","ts":{ts}}}"#
                )
            };
            let write = |numbers: std::ops::Range<u32>| {
                let messages: Vec<String> = numbers.map(message).collect();
                let text = format!("{{\"messages\":[{}]}}", messages.join(","));
                std::fs::write(&path, &text).unwrap();
                text
            };
            let text = write(0..3);
            let since = Timestamp::from_micros(1_764_000_002_000_000);
            let mut transcript = Transcript::new(path.clone(), StreamFormat::ClineSession, since);
            assert_eq!(new_prompts(&mut transcript, since), ["prompt 2"]);
            assert_eq!(transcript.latest(), Some(since));
            std::fs::write(&path, &text[..50]).unwrap();
            assert_eq!(
                new_prompts(&mut transcript, since),
                [""; 0],
                "it is being written"
            );
            write(0..5);
            assert_eq!(
                new_prompts(&mut transcript, since),
                ["prompt 3", "prompt 4"]
            );
            assert_eq!(new_prompts(&mut transcript, since), [""; 0]);
        }

        #[test]
        fn messages_without_times_are_as_old_as_their_document() {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("s.json");
            let write = |prompts: &[&str]| {
                let message =
                    |text: &&str| format!(r#"{{"message":{{"role":"user","content":"{text}"}}}}"#);
                let messages: Vec<String> = prompts.iter().map(message).collect();
                std::fs::write(&path, format!("{{\"history\":[{}]}}", messages.join(","))).unwrap();
            };
            write(&["one"]);
            let created = created(&fs::metadata(&path).unwrap()).unwrap();
            let later = Timestamp::from_micros(created.micros() + 60_000_000);
            let of = |since| Transcript::new(path.clone(), StreamFormat::CnSession, since);
            let (mut first, mut second) = (of(created), of(later));
            assert_eq!(new_prompts(&mut first, created), ["one"]);
            assert_eq!(new_prompts(&mut second, later), [""; 0]);
            write(&["one", "two"]);
            assert_eq!(new_prompts(&mut first, created), ["two"]);
            assert_eq!(new_prompts(&mut second, later), ["two"]);
        }

        #[test]
        fn a_journal_goes_on_in_its_next_file() {
            let directory = tempfile::tempdir().unwrap();
            let prompt = |second: u32| {
                let time = i64::from(second) * 1_000 + 1_764_000_000_000;
                let entry = format!(
                    r#"{{"content":"prompt {second}","role":"user","type":"message","updatedAt":{time}}}"#
                );
                let change = format!(r#"{{"entry":{entry},"op":"append_entry"}}"#);
                format!(r#"{{"payload":{{"delta":[{change}]}},"type":"projection_delta"}}"#) + "\n"
            };
            let write = |name: &str, text: &str| {
                std::fs::write(directory.path().join(name), text).unwrap();
            };
            write("01.jsonl", &prompt(1));
            write("07.jsonl", &(prompt(2) + &prompt(3)));
            write("09.jsonl", "");
            let since = Timestamp::from_micros(1_764_000_003_000_000);
            let journal = directory.path().to_owned();
            let mut transcript = Transcript::new(journal, StreamFormat::VibeJournal, since);
            assert_eq!(new_prompts(&mut transcript, since), ["prompt 3"]);
            assert!(transcript.is_read());
            assert_eq!(new_prompts(&mut transcript, since), [""; 0]);
            // Vibe writes the last records of a file after it has begun the next one, and removes old ones.
            std::fs::remove_file(directory.path().join("01.jsonl")).unwrap();
            write("07.jsonl", &(prompt(2) + &prompt(3) + &prompt(4)));
            assert_eq!(new_prompts(&mut transcript, since), ["prompt 4"]);
            write("09.jsonl", &prompt(5));
            assert_eq!(new_prompts(&mut transcript, since), ["prompt 5"]);
            std::fs::remove_file(directory.path().join("09.jsonl")).unwrap();
            write("11.jsonl", &prompt(6));
            assert_eq!(new_prompts(&mut transcript, since), ["prompt 6"]);
            assert_eq!(transcript.path(), directory.path());
        }

        fn append(transcript: &Transcript, text: &str) {
            use std::io::Write;
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.append(true).open(transcript.path()).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }
    }

    mod begun_turns {

        use super::super::*;

        /// The prompt `look`, the open tool `Bash`, and a record that ends the turn.
        const TURNS: [(StreamFormat, [&str; 3]); 8] = [
            (
                StreamFormat::ClaudeTranscript,
                [
                    r#"{"type":"user","uuid":"u","message":{"role":"user","content":"look"},"timestamp":"2026-11-23T19:00:00Z"}"#,
                    r#"{"type":"assistant","uuid":"a","message":{"id":"m","role":"assistant","stop_reason":"tool_use","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]},"timestamp":"2026-11-23T19:00:01Z"}"#,
                    r#"{"type":"assistant","uuid":"b","message":{"id":"n","role":"assistant","stop_reason":"end_turn","content":[{"type":"text","text":"Bye."}]},"timestamp":"2026-11-23T19:00:02Z"}"#,
                ],
            ),
            (
                StreamFormat::CodexRollout,
                [
                    r#"{"timestamp":"2026-11-23T19:00:00Z","type":"event_msg","payload":{"type":"user_message","message":"look"}}"#,
                    r#"{"timestamp":"2026-11-23T19:00:01Z","type":"response_item","payload":{"type":"function_call","name":"Bash","arguments":"{}","call_id":"t"}}"#,
                    r#"{"timestamp":"2026-11-23T19:00:02Z","type":"event_msg","payload":{"type":"task_complete","last_agent_message":"Bye."}}"#,
                ],
            ),
            (
                StreamFormat::QwenSession,
                [
                    r#"{"timestamp":"2026-11-23T19:00:00Z","type":"user","message":{"role":"user","parts":[{"text":"look"}]}}"#,
                    r#"{"timestamp":"2026-11-23T19:00:01Z","type":"assistant","message":{"role":"model","parts":[{"functionCall":{"id":"t","name":"Bash","args":{}}}]},"usageMetadata":{}}"#,
                    r#"{"timestamp":"2026-11-23T19:00:02Z","type":"assistant","message":{"role":"model","parts":[{"text":"Bye."}]},"usageMetadata":{}}"#,
                ],
            ),
            (
                StreamFormat::CopilotSession,
                [
                    r#"{"timestamp":"2026-11-23T19:00:00Z","type":"user.message","data":{"content":"look"}}"#,
                    r#"{"timestamp":"2026-11-23T19:00:01Z","type":"tool.execution_start","data":{"toolCallId":"t","toolName":"Bash","arguments":{}}}"#,
                    r#"{"timestamp":"2026-11-23T19:00:02Z","type":"session.error","data":{"message":"Bye."}}"#,
                ],
            ),
            (
                StreamFormat::KimiSession,
                [
                    r#"{"timestamp":1795460400.0,"message":{"type":"TurnBegin","payload":{"user_input":[{"type":"text","text":"look"}]}}}"#,
                    r#"{"timestamp":1795460401.0,"message":{"type":"ToolCall","payload":{"type":"function","id":"t","function":{"name":"Bash","arguments":"{}"}}}}"#,
                    r#"{"timestamp":1795460402.0,"message":{"type":"TurnEnd","payload":{}}}"#,
                ],
            ),
            (
                StreamFormat::VibeJournal,
                [
                    r#"{"payload":{"delta":[{"entry":{"content":"look","id":"u","role":"user","type":"message","updatedAt":1795460400000},"op":"append_entry"}]},"type":"projection_delta"}"#,
                    r#"{"payload":{"delta":[{"entry":{"createdAt":1795460401000,"detail":{"input":{},"toolName":"Bash"},"generationStatus":"in_progress","id":"t","state":{"status":"running"},"type":"effect","updatedAt":1795460401000},"op":"append_entry"},{"op":"set_envelope","state":{"latestTurn":{"id":"x","status":"in_progress"}}}]},"type":"projection_delta"}"#,
                    r#"{"payload":{"delta":[{"op":"set_envelope","state":{"latestTurn":{"id":"x","status":"completed"}}}]},"type":"projection_delta"}"#,
                ],
            ),
            (
                StreamFormat::ClineSession,
                [
                    r#"{"id":"u","role":"user","content":"look","ts":1795460400000}"#,
                    r#"{"id":"m","role":"assistant","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}],"ts":1795460401000}"#,
                    r#"{"id":"n","role":"assistant","content":[{"type":"text","text":"Bye."}],"ts":1795460402000}"#,
                ],
            ),
            (
                StreamFormat::CnSession,
                [
                    r#"{"message":{"role":"user","content":"look"}}"#,
                    r#"{"message":{"role":"assistant","content":"","toolCalls":[{"id":"t"}]},"toolCallStates":[{"toolCallId":"t","toolCall":{"function":{"name":"Bash","arguments":"{}"}},"status":"calling"}]}"#,
                    r#"{"message":{"role":"assistant","content":"Bye."}}"#,
                ],
            ),
        ];

        /// Writes a conversation, whose last record may be in another file; returns its path.
        fn write(directory: &Path, format: StreamFormat, records: &[&str]) -> PathBuf {
            let path = directory.join("01.jsonl");
            let text = match format {
                StreamFormat::ClineSession => {
                    format!("{{\"messages\":[{}]}}", records.join(","))
                }
                StreamFormat::CnSession => format!("{{\"history\":[{}]}}", records.join(",")),
                StreamFormat::VibeJournal => {
                    let (last, first) = records.split_last().unwrap();
                    fs::write(directory.join("02.jsonl"), format!("{last}\n")).unwrap();
                    first.join("\n") + "\n"
                }
                _ => records.join("\n") + "\n",
            };
            fs::write(&path, text).unwrap();
            match format {
                StreamFormat::VibeJournal => directory.to_owned(),
                _ => path,
            }
        }

        /// Returns the prompts and the tools that an observation has which begins `since` a time, and then nothing more of
        /// what was there.
        fn begun(
            (format, records): (StreamFormat, &[&str]),
            since: &str,
            agent_started: Option<&str>,
        ) -> Vec<String> {
            let directory = tempfile::tempdir().unwrap();
            let path = write(directory.path(), format, records);
            let since = since.parse().unwrap();
            let mut transcript = Transcript::new(path, format, since);
            transcript.collect_last_turn(agent_started.map(|started| started.parse().unwrap()));
            let mut events = Vec::new();
            transcript.read(since, &mut events).unwrap();
            let first = events.len();
            transcript.read(since, &mut events).unwrap();
            assert_eq!(events[first..], [], "{format:?}");
            let words = |event| match event {
                AgentEvent::PromptSent { prompt_summary, .. } => Some(prompt_summary),
                AgentEvent::ToolCallStarted { tool_name, .. } => Some(tool_name),
                AgentEvent::TokenReceived { .. } | AgentEvent::ResponseCompleted { .. } => None,
                other => panic!("{format:?}: {other:?}"),
            };
            events.into_iter().filter_map(words).collect()
        }

        /// Files are written now, and records at seven o'clock in the evening.
        const BEFORE: &str = "2026-11-23T18:00:00Z";
        const AFTER: &str = "2100-01-01T00:00:00Z";

        #[test]
        fn a_turn_that_goes_on_has_its_prompt_and_its_open_tools_in_each_format() {
            for (format, records) in TURNS {
                let open = (format, &records[..2]);
                assert_eq!(
                    begun(open, AFTER, Some(BEFORE)),
                    ["look", "Bash"],
                    "{format:?}"
                );
                // Reported before, or of an earlier process.
                assert_eq!(begun(open, AFTER, None), [""; 0], "{format:?}");
                assert_eq!(begun(open, AFTER, Some(AFTER)), [""; 0], "{format:?}");
                let ended = (format, &records[..]);
                assert_eq!(begun(ended, AFTER, Some(BEFORE)), [""; 0], "{format:?}");
            }
        }

        #[test]
        fn what_is_reported_of_a_turn_anyway_is_not_reported_twice() {
            for (format, records) in TURNS {
                if format == StreamFormat::CnSession {
                    continue;
                }
                // The observation begins before the turn, and between the prompt and the tool.
                for since in [BEFORE, "2026-11-23T19:00:00.5Z"] {
                    let open = begun((format, &records[..2]), since, Some(BEFORE));
                    assert_eq!(open, ["look", "Bash"], "{format:?} {since}");
                }
            }
        }

        #[test]
        fn few_of_many_open_tools_are_reported() {
            let (format, [prompt, call, _]) = TURNS[0];
            let call = |number: usize| call.replace(r#""t""#, &format!("\"{number}\""));
            let calls: Vec<String> = (0..100).map(call).collect();
            let records: Vec<&str> = std::iter::once(prompt)
                .chain(calls.iter().map(String::as_str))
                .collect();
            let open = begun((format, &records), AFTER, Some(BEFORE));
            assert_eq!(open.len(), 1 + OPEN_TOOLS_MAX);
        }
    }

    mod sub_agents {

        use super::super::*;

        const PROMPT: &str = r#"{"type":"user","isSidechain":true,"agentId":"a1","message":{"role":"user","content":"look"},"timestamp":"2026-11-23T22:43:03.002Z"}"#;
        const CALL: &str = r#"{"type":"assistant","isSidechain":true,"agentId":"a1","version":"2.1.330","message":{"id":"m1","role":"assistant","stop_reason":"tool_use","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]},"timestamp":"2026-11-23T22:43:03.905Z"}"#;
        const RESULT: &str = r#"{"type":"user","isSidechain":true,"agentId":"a1","message":{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result","content":"a"}]},"timestamp":"2026-11-23T22:43:07.971Z"}"#;
        const ANSWER: &str = r#"{"type":"assistant","isSidechain":true,"agentId":"a1","version":"2.1.330","message":{"id":"m2","role":"assistant","stop_reason":"end_turn","content":[{"type":"text","text":"There are files."}]},"timestamp":"2026-11-23T22:43:10.013Z"}"#;

        #[test]
        fn a_sub_agent_is_registered_and_ends_once() {
            let home = tempfile::tempdir().unwrap();
            let conversation = home.path().join("S.jsonl");
            let directory = home.path().join("S/subagents");
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("agent-a1.meta.json"), "{}").unwrap();
            let file = directory.join("agent-a1.jsonl");
            fs::write(&file, format!("{PROMPT}\n{CALL}\n")).unwrap();

            let (mut agents, mut events) = (SubAgents::default(), Vec::new());
            let (since, now) = (Timestamp::default(), Timestamp::from_micros(1));
            agents.find(&conversation, since, &mut events);
            agents.read(now, &mut events);
            let registered = SubAgentEvent::Registered {
                id: "a1".into(),
                file: file.display().to_string(),
            };
            assert_eq!(events, [registered]);
            let open: Vec<_> = agents.open_tools().collect();
            assert_eq!(open, [("Bash", r#"{"command":"ls"}"#)]);

            fs::write(&file, format!("{PROMPT}\n{CALL}\n{RESULT}\n{ANSWER}\n")).unwrap();
            events.clear();
            agents.read(now, &mut events);
            agents.find(&conversation, since, &mut events);
            agents.read(now, &mut events);
            assert!(
                matches!(
                    &events[..],
                    [SubAgentEvent::Ended { id, how: AgentEvent::AgentCompleted { result, .. } }]
                        if id == "a1" && result == "There are files."
                ),
                "{events:?}"
            );
        }

        #[test]
        fn a_sub_agent_that_was_there_before_is_not_reported() {
            let home = tempfile::tempdir().unwrap();
            let directory = home.path().join("S/subagents");
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("agent-a1.jsonl"), format!("{PROMPT}\n")).unwrap();
            let (mut agents, mut events) = (SubAgents::default(), Vec::new());
            let later = Timestamp::from_micros(i64::MAX);
            agents.find(&home.path().join("S.jsonl"), later, &mut events);
            agents.read(later, &mut events);
            assert_eq!(events, []);
        }
    }

    mod screens {

        use super::super::*;

        /// Prompts begin with `> `.
        fn conversations(of: &[&[&str]]) -> Vec<Vec<Message>> {
            let message = |text: &&str| Message {
                is_prompt: text.starts_with("> "),
                letters: letters(text),
            };
            let messages = |messages: &&[&str]| messages.iter().map(message).collect();
            of.iter().map(messages).collect()
        }

        #[test]
        fn the_messages_that_a_screen_shows_count() {
            let screen = letters("│ > fix the te\n│ sts please │\n● All tests are fixed now.");
            let shown: &[&str] = &["fix the tests please", "All **tests** are fixed now."];
            let others: &[&str] = &["something else", "a"];
            let of = |of: &[&[&str]]| lowest(&conversations(of), &screen);
            assert_eq!(of(&[others, shown]), Some(1));
            assert_eq!(of(&[others]), None, "not shown, or too short to prove it");
        }

        #[test]
        fn shared_messages_are_ignored_and_the_lowest_other_one_decides() {
            let screen = letters("> before b\nDone, that was short.");
            let a: &[&str] = &["unique a", "Done, that was short.", "before a"];
            let b: &[&str] = &["before b", "Done, that was short."];
            assert_eq!(lowest(&conversations(&[a, b]), &screen), Some(1));
            assert_eq!(lowest(&conversations(&[a, a]), &screen), None);
            let screen = letters("> old words\nyes\n> new words\nyes");
            let (old, new): (&[&str], &[&str]) = (&["old words", "yes"], &["new words", "yes"]);
            assert_eq!(lowest(&conversations(&[old, new]), &screen), Some(1));
            assert_eq!(lowest(&conversations(&[new, old]), &screen), Some(0));
        }

        #[test]
        fn an_answer_that_only_another_agent_has_written_yet_does_not_outweigh_the_prompt() {
            let screen = letters("> look at two\nAll is well with the tests.");
            let one: &[&str] = &["All is well with the tests.", "> look at one"];
            let two: &[&str] = &["> look at two"];
            assert_eq!(lowest(&conversations(&[one, two]), &screen), Some(1));
            assert_eq!(lowest(&conversations(&[two, one]), &screen), Some(0));
            // The prompt has left the screen.
            let screen = letters("All is well with the tests.");
            assert_eq!(lowest(&conversations(&[one, two]), &screen), Some(0));
        }
    }
}
