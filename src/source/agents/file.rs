//! The output file of an agent: whether it changed, what its end says, and what is wrong with it.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::verdict::{Facts, Verdict, judge};
use crate::agent::{AgentEvent, Format, Standing, StreamFormat, StreamParser};
use crate::stamp::Timestamp;

/// How much of the end of a file is read at first, and how much where that does not tell: a record
/// may be a megabyte long, an image.
const TAILS: [u64; 3] = [256 * 1024, 1024 * 1024, FILE_BYTES_MAX];

/// The most that is read of a file at once.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A file of this size is worth a word: something writes without end.
const ENORMOUS_BYTES: u64 = 1024 * 1024 * 1024;

/// By so many of its first bytes a file is known again.
const FINGERPRINT_BYTES: u64 = 1024;

/// How much of a text's end may hold its last line.
const LAST_LINE_BYTES: usize = 512;

/// What a look has found.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub verdict: Option<Verdict>,
    /// What was not said before.
    pub warnings: Vec<String>,
    /// It has changed, but nothing more may be read in this tick.
    pub is_starved: bool,
}

/// When a file is looked at, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub now: Instant,
    pub wall: Timestamp,
    pub stable: Duration,
}

/// A file that is looked at again and again.
#[derive(Debug)]
pub(super) struct OutputFile {
    path: PathBuf,
    seen: Option<Seen>,
    looked_at: Option<Instant>,
    changed_at: Option<Instant>,
    fingerprint: Vec<u8>,
    parser: StreamParser,
    /// Up to where it was read.
    offset: u64,
    is_compressed: bool,
    error: String,
    last_line: String,
    told: BTreeSet<&'static str>,
}

/// By this it is seen whether a file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Seen {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// How long ago it was written to, where both clocks agree that this is the past.
    fn age(&self, wall: Timestamp) -> Option<Duration> {
        let (seconds, nanos) = self.modified;
        let modified = seconds.checked_mul(1_000_000)?.checked_add(nanos / 1_000)?;
        let age = wall.micros().checked_sub(modified)?;
        u64::try_from(age).ok().map(Duration::from_micros)
    }
}

impl OutputFile {
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: None,
            looked_at: None,
            changed_at: None,
            fingerprint: Vec::new(),
            parser: parser(),
            offset: 0,
            is_compressed: false,
            error: String::new(),
            last_line: String::new(),
            told: BTreeSet::new(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at it. Of a file that has not changed nothing is read; what is read is taken from
    /// `bytes_left`.
    pub fn look(&mut self, moment: Moment, bytes_left: &mut u64) -> Looked {
        let mut looked = Looked::default();
        match self.read_changes(moment, bytes_left, &mut looked) {
            Ok(true) => looked.verdict = self.judge(moment),
            Ok(false) => {}
            Err(error) => {
                let message = format!("{} cannot be read: {error}", self.path.display());
                self.warn("unreadable", message, &mut looked);
            }
        }
        self.looked_at = Some(moment.now);
        looked
    }

    /// Whether there is something to judge.
    fn read_changes(
        &mut self,
        moment: Moment,
        bytes_left: &mut u64,
        looked: &mut Looked,
    ) -> io::Result<bool> {
        let shown = self.path.display().to_string();
        let metadata = match fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.seen.is_some() {
                    let message = format!("{shown} is gone, and is waited for");
                    self.warn("gone", message, looked);
                } else if fs::symlink_metadata(&self.path).is_ok() {
                    let message = format!("{shown} is a symbolic link to nothing");
                    self.warn("link", message, looked);
                }
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        if !metadata.is_file() {
            let message = format!("{shown} is no regular file, and is not read");
            self.warn("kind", message, looked);
            return Ok(false);
        }
        if metadata.len() == 0 && self.seen.is_none() {
            return Ok(false);
        }
        if self.seen == Some(Seen::of(&metadata)) {
            return Ok(true);
        }
        if *bytes_left == 0 {
            looked.is_starved = true;
            return Ok(false);
        }
        // It may have become a pipe since, which would be waited for.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&self.path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(false);
        }
        let seen = Seen::of(&metadata);
        self.recognise(&file, seen, looked)?;
        if seen.bytes > ENORMOUS_BYTES {
            let message = format!("{shown} has {} bytes: only its end is read", seen.bytes);
            self.warn("enormous", message, looked);
        }
        if self.is_compressed {
            let message = format!("{shown} is compressed: what it says is not read");
            self.warn("compressed", message, looked);
        } else {
            self.read(&file, seen.bytes, bytes_left)?;
        }
        // What has changed since the last look did so after it, whatever the clock of the file says.
        let age = seen.age(moment.wall).unwrap_or_default();
        let by_file = moment.now.checked_sub(age).unwrap_or(moment.now);
        self.changed_at = Some(match self.looked_at.filter(|_| self.seen.is_some()) {
            Some(looked_at) => by_file.max(looked_at),
            None => by_file,
        });
        self.seen = Some(seen);
        Ok(seen.bytes > 0)
    }

    /// Begins anew where it is not the file that it was.
    fn recognise(&mut self, file: &File, seen: Seen, looked: &mut Looked) -> io::Result<()> {
        let head = read_at(file, 0, seen.bytes.min(FINGERPRINT_BYTES))?;
        let known = self.seen.is_none_or(|before| before.is_same_file(&seen));
        let why = if seen.bytes < self.offset {
            Some(("truncated", "has become shorter"))
        } else if !known || !head.starts_with(&self.fingerprint) {
            Some(("replaced", "was replaced by another file"))
        } else {
            None
        };
        if let Some((what, words)) = why {
            let message = format!("{} {words}, and is read anew", self.path.display());
            self.warn(what, message, looked);
            self.parser = parser();
            self.offset = 0;
            self.error.clear();
        }
        let magics: [&[u8]; 2] = [b"\x28\xb5\x2f\xfd", b"\x1f\x8b"];
        self.is_compressed = magics.iter().any(|magic| head.starts_with(magic));
        self.fingerprint = head;
        Ok(())
    }

    /// Reads what was added; or the end, where that is too much or nothing was read before.
    fn read(&mut self, file: &File, bytes: u64, bytes_left: &mut u64) -> io::Result<()> {
        let added = bytes - self.offset.min(bytes);
        // While the format is not known, all that tells is read together.
        if self.offset == 0 || added > FILE_BYTES_MAX || self.parser.format().is_none() {
            return self.read_end(file, bytes, bytes_left);
        }
        let piece = read_at(file, self.offset, added)?;
        *bytes_left = bytes_left.saturating_sub(added);
        self.offset += piece.len() as u64;
        self.parse(&piece);
        Ok(())
    }

    fn read_end(&mut self, file: &File, bytes: u64, bytes_left: &mut u64) -> io::Result<()> {
        for tail in TAILS {
            let start = bytes.saturating_sub(tail);
            let piece = read_at(file, start, bytes - start)?;
            *bytes_left = bytes_left.saturating_sub(bytes - start);
            self.offset = start + piece.len() as u64;
            let is_last = start == 0 || tail == FILE_BYTES_MAX;
            // Back to the start of a line.
            let line = match memchr::memchr(b'\n', &piece) {
                _ if start == 0 => 0,
                Some(at) => at + 1,
                None if is_last => 0,
                None => continue,
            };
            let piece = &piece[line..];
            self.parser = parser();
            self.parse(piece);
            if self.parser.format().is_none() && piece.trim_ascii_start().starts_with(b"{") {
                // So few records that none tells whose they are: what any of them may say counts.
                let known = std::mem::replace(&mut self.parser, json_parser());
                self.parse(piece);
                if !matches!(self.parser.standing(), Standing::Done | Standing::Failed) {
                    self.parser = known;
                }
            }
            let tells = self.parser.standing() != Standing::Unknown
                || self.parser.format() == Some(StreamFormat::Text);
            if is_last || tells {
                break;
            }
        }
        Ok(())
    }

    fn parse(&mut self, piece: &[u8]) {
        let mut events = Vec::new();
        // The times of records are nobody's concern here.
        let now = Timestamp::default();
        self.parser.push(piece, now, &mut events);
        self.parser.settle(now, &mut events);
        for event in events {
            if let AgentEvent::AgentFailed { error, .. } = event {
                self.error = error;
            }
        }
        self.last_line = last_line(piece);
    }

    fn judge(&self, moment: Moment) -> Option<Verdict> {
        let changed_at = self.changed_at?;
        let answer = match self.parser.answer() {
            "" if !self.is_compressed => self.last_line.as_str(),
            answer => answer,
        };
        let facts = Facts {
            standing: self.parser.standing(),
            format: self.parser.format(),
            evidence: self.parser.evidence(),
            answer,
            error: &self.error,
            quiet: moment.now.saturating_duration_since(changed_at),
        };
        judge(&facts, moment.stable)
    }

    /// Says something that was not said before.
    fn warn(&mut self, what: &'static str, message: String, looked: &mut Looked) {
        if self.told.insert(what) {
            looked.warnings.push(message);
        }
    }
}

fn parser() -> StreamParser {
    let bytes_max = usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX);
    StreamParser::with_record_bytes_max(Format::Auto, bytes_max)
}

fn json_parser() -> StreamParser {
    let bytes_max = usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX);
    StreamParser::with_record_bytes_max(Format::Json, bytes_max)
}

/// So many bytes from there, or fewer where the file ends before.
fn read_at(file: &File, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(read);
    Ok(buffer)
}

/// The last line that is not empty, as far as the end holds it.
fn last_line(text: &[u8]) -> String {
    let end = &text[text.len().saturating_sub(LAST_LINE_BYTES)..];
    let end = String::from_utf8_lossy(end);
    let line = end.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
