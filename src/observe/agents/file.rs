//! The output file of an agent: detects changes, replacement and problems of the file.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::content::{Content, TurnEnd};
use super::verdict::{Facts, HOLD, Verdict, judge};
use crate::agent::StreamStatus;
use crate::observe::file_bytes::read_at;
use crate::observe::file_version::FileVersion;
use crate::timestamp::Timestamp;

/// The size that causes a warning, because some program writes without end.
const ENORMOUS_BYTES: u64 = 1024 * 1024 * 1024;

/// The number of first bytes that identify a file's content.
const FINGERPRINT_BYTES: u64 = 1024;

#[derive(Debug, Default)]
pub(super) struct Check {
    pub verdict: Option<Verdict>,
    /// Warnings that have not been reported before.
    pub warnings: Vec<String>,
    /// Turns of a conversation with a person that have ended and are not reported yet.
    pub turns: Vec<TurnEnd>,
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
    path: PathBuf,
    seen: Option<FileVersion>,
    checked_at: Option<Instant>,
    changed_at: Option<Instant>,
    fingerprint: Vec<u8>,
    content: Content,
    has_turns: bool,
    is_compressed: bool,
    /// The time at which the file of a task was found missing.
    gone_at: Option<Instant>,
    warned: BTreeSet<&'static str>,
}

impl OutputFile {
    /// Creates a file whose turns are reported if they end from `since` on. The last turn before that
    /// is reported if the agent has ended with it.
    pub fn new(path: PathBuf, since: Timestamp) -> Self {
        Self {
            path,
            seen: None,
            checked_at: None,
            changed_at: None,
            fingerprint: Vec::new(),
            content: Content::new(since),
            has_turns: false,
            is_compressed: false,
            gone_at: None,
            warned: BTreeSet::new(),
        }
    }

    /// Returns true if more turns may follow after the agent has ended.
    pub fn is_interactive(&self) -> bool {
        self.content.is_interactive()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks the file, and reads it if it has changed. Subtracts the bytes read from `bytes_left`.
    pub fn check(&mut self, context: ReadContext, bytes_left: &mut u64) -> Check {
        let mut check = Check::default();
        if let Err(error) = self.read_and_judge(context, bytes_left, &mut check) {
            self.warn("unreadable", format!("cannot be read: {error}"), &mut check);
        }
        self.checked_at = Some(context.now);
        self.take_turns(&mut check);
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
            check.turns.extend(self.content.take_turn_before());
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
            let file = self.open()?;
            if self.seen != Some(FileVersion::of(&file.metadata()?)) {
                // The file has changed since; the next check reads the change.
                return Ok(());
            }
            let read = self.content.search(&file)?;
            *bytes_left = bytes_left.saturating_sub(read);
        }
        check.verdict = self.judge(context);
        Ok(())
    }

    fn open(&self) -> io::Result<File> {
        // The file may have become a pipe, and opening it would block.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&self.path)
    }

    /// Returns the compressed file that has replaced this one: agents' programs compress idle files.
    fn compressed(&self) -> Option<PathBuf> {
        ["zst", "gz"].into_iter().find_map(|extension| {
            let mut name = self.path.clone().into_os_string();
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
        let metadata = match fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(path) = self.compressed() {
                    let path = path.display();
                    let words = format!("was compressed to {path}: its content is not read");
                    self.warn("compressed", words, check);
                    self.content = Content::new(context.wall);
                    return Ok(self.seen.is_some());
                }
                if self.seen.is_some() && self.is_deleted_task() {
                    check.verdict = self.deleted(context);
                } else if self.seen.is_some() {
                    self.warn("gone", "is gone, and is waited for", check);
                } else if fs::symlink_metadata(&self.path).is_ok() {
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
        if metadata.len() == 0 && self.seen.is_none() {
            return Ok(false);
        }
        if self.seen == Some(FileVersion::of(&metadata)) {
            // An emptied file has no content until something is written to it.
            return Ok(metadata.len() > 0);
        }
        if *bytes_left == 0 {
            check.is_starved = true;
            return Ok(false);
        }
        let file = self.open()?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(false);
        }
        let version = FileVersion::of(&metadata);
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
            let read = self.content.read(&file, version.bytes)?;
            *bytes_left = bytes_left.saturating_sub(read);
        }
        // A change since the last check is newer than that check, whatever the file's clock shows.
        let age = version.age(context.wall).unwrap_or_default();
        let by_file = context.now.checked_sub(age).unwrap_or(context.now);
        self.changed_at = Some(match self.checked_at.filter(|_| self.seen.is_some()) {
            Some(checked_at) => by_file.max(checked_at),
            None => by_file,
        });
        self.seen = Some(version);
        Ok(version.bytes > 0)
    }

    /// Returns true if this is the deleted output of a task, `tasks/ID.output`, and not a broken link.
    fn is_deleted_task(&self) -> bool {
        let directory = self.path.parent().and_then(Path::file_name);
        directory.is_some_and(|name| name == "tasks")
            && self.path.extension().is_some_and(|end| end == "output")
            && fs::symlink_metadata(&self.path).is_err()
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
                error: match content.error() {
                    "" => content.evidence().to_owned(),
                    error => error.to_owned(),
                },
                evidence: format!("{}; {why}", content.evidence()),
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
        let head = read_at(file, 0, version.bytes.min(FINGERPRINT_BYTES))?;
        let known = self.seen.is_none_or(|before| before.is_same_file(&version));
        let why = if version.bytes < self.content.offset() {
            Some(("truncated", "has become shorter"))
        } else if !known || !head.starts_with(&self.fingerprint) {
            Some(("replaced", "was replaced by another file"))
        } else {
            None
        };
        if let Some((what, words)) = why {
            self.warn(what, format!("{words}, and is read again"), check);
            // Turns of the former content were reported before.
            self.content = Content::new(context.wall);
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
            follow_up: content.follow_up(),
            format: content.format(),
            evidence: content.evidence(),
            answer: &content.answer(),
            error: content.error(),
            is_open: content.is_open(),
            unread: content.unread(),
            quiet: self.quiet(context),
        };
        judge(&facts, context.stable)
    }

    /// Adds a warning about the file, unless its kind was reported before.
    fn warn(&mut self, what: &'static str, words: impl Display, check: &mut Check) {
        if self.warned.insert(what) {
            let message = format!("{} {words}", self.path.display());
            check.warnings.push(message);
        }
    }
}

#[cfg(test)]
#[path = "file_tests/mod.rs"]
mod tests;
