//! Follows the file of a conversation: added records become events, once and in order.
//!
//! Of a file that existed before, the end is read without reporting it, to find the agent's state; a
//! file of a gigabyte is not read completely.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::agent::{AgentEvent, StreamFormat, StreamParser, StreamStatus};
use crate::observe::file_bytes::{after_partial_line, read_at};
use crate::timestamp::Timestamp;

/// The most bytes of a file that are read at once.
const PIECE_BYTES_MAX: u64 = 1024 * 1024;

/// The bytes before the first reported line that are read to find the agent's state.
const BEFORE_BYTES_MAX: u64 = 1024 * 1024;

/// Distance from the end within which the first reported line is searched.
const TAIL_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The quiet after which the last record counts as complete: agents write a message's parts together.
const QUIET_MICROS: i64 = 300_000;

#[derive(Debug)]
pub(super) struct Transcript {
    path: PathBuf,
    /// The identity of the file (device and inode), and the position up to which it was read.
    identity: Option<(u64, u64)>,
    offset: u64,
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
}

impl Transcript {
    /// Creates a transcript whose records are reported if they were written from `since` on.
    pub fn new(path: PathBuf, format: StreamFormat, since: Timestamp) -> Self {
        Self {
            path,
            identity: None,
            offset: 0,
            format,
            parser: StreamParser::of(format),
            since,
            read_at: None,
            latest: None,
            rewritten: None,
            is_reported: false,
            has_old_turn: false,
        }
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

    /// Reads the added records, at most [`PIECE_BYTES_MAX`] of them; the next call reads on.
    pub fn read(&mut self, now: Timestamp, events: &mut Vec<AgentEvent>) -> io::Result<()> {
        let metadata = std::fs::metadata(&self.path)?;
        let identity = (metadata.dev(), metadata.ino());
        let is_known = self.identity == Some(identity) && metadata.len() >= self.offset;
        if is_known && metadata.len() == self.offset {
            let is_quiet = |at: &mut Timestamp| now.micros() - at.micros() >= QUIET_MICROS;
            if self.read_at.take_if(is_quiet).is_some() {
                // The rewritten content is complete.
                self.rewritten = None;
                self.parser.flush_idle(now, events);
            }
            return Ok(());
        }
        let file = File::open(&self.path)?;
        if !is_known {
            let is_first = self.identity.replace(identity).is_none();
            self.rewritten = (!is_first && self.latest.is_some()).then(|| self.status());
            self.parser = StreamParser::of(self.format);
            self.offset = metadata.len().saturating_sub(TAIL_BYTES_MAX);
            if self.rewritten.is_none() {
                self.begin(&file, metadata.len())?;
            }
        }
        let left = metadata.len().saturating_sub(self.offset);
        let mut piece = read_at(&file, self.offset, left.min(PIECE_BYTES_MAX))?;
        let mut new = 0;
        if self.rewritten.is_some() {
            // Records that are not later than those read before are skipped, in whole lines.
            if let Some(end) = memchr::memrchr(b'\n', &piece) {
                piece.truncate(end + 1);
            }
            new = first_line(&piece, |time| {
                self.latest.is_none_or(|latest| time > latest)
            });
            self.parser.push(&piece[..new], now, &mut Vec::new());
            if new < piece.len() {
                self.rewritten = None;
            }
        }
        self.offset += piece.len() as u64;
        let before = events.len();
        self.parser.push(&piece[new..], now, events);
        // A prompt implies the end of the turn before it, which began before `since`.
        if events.len() > before && std::mem::take(&mut self.has_old_turn) {
            let is_prompt = |event: &AgentEvent| matches!(event, AgentEvent::PromptSent { .. });
            let old = events[before..].iter().position(is_prompt).unwrap_or(0);
            events.drain(before..before + old);
        }
        self.is_reported |= events.len() > before;
        self.latest = self.latest.max(last_time(&piece));
        self.read_at = Some(now);
        Ok(())
    }

    /// Reads the records before the first new line without reporting them.
    fn begin(&mut self, file: &File, bytes: u64) -> io::Result<()> {
        let start = bytes.saturating_sub(TAIL_BYTES_MAX);
        let tail = read_at(file, start, bytes - start)?;
        let skipped = match start {
            0 => 0,
            _ => after_partial_line(&tail),
        };
        let since = self.since;
        let new = skipped + first_line(&tail[skipped..], |time| time >= since);
        let new = start + new as u64;
        let from = new.saturating_sub(BEFORE_BYTES_MAX).max(start);
        let before = &tail[(from - start) as usize..(new - start) as usize];
        let cut = match from {
            0 => 0,
            _ => after_partial_line(before),
        };
        self.parser
            .push(&before[cut..], self.since, &mut Vec::new());
        self.has_old_turn = self.parser.status() == StreamStatus::MaybeDone;
        self.latest = last_time(before);
        self.offset = new;
        Ok(())
    }
}

#[derive(Deserialize)]
struct Dated<'a> {
    #[serde(borrow)]
    timestamp: Option<&'a str>,
}

/// Returns the position of the first new line. Lines without a time belong to their predecessor.
pub(in crate::observe) fn first_line(text: &[u8], is_new: impl Fn(Timestamp) -> bool) -> usize {
    let mut at = 0;
    while at < text.len() {
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end + 1);
        if time(&text[at..end]).is_some_and(&is_new) {
            return at;
        }
        at = end;
    }
    text.len()
}

fn last_time(text: &[u8]) -> Option<Timestamp> {
    let mut lines = text.rsplit(|byte| *byte == b'\n');
    lines.find_map(time)
}

fn time(line: &[u8]) -> Option<Timestamp> {
    let dated: Dated<'_> = serde_json::from_slice(line).ok()?;
    dated.timestamp?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    const SECOND: &str =
        r#"{"id":"2","timestamp":"2026-11-23T19:00:01.000Z","type":"gemini","content":"It is."}"#;
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

    fn append(transcript: &Transcript, text: &str) {
        use std::io::Write;
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.append(true).open(transcript.path()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
}
