//! The progress of a loop, which the log of an interrupted one shows, and its outcome.

use std::collections::VecDeque;
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::spec::PreviousFailure;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{IterationOutcome, TdEvent};
use crate::history::{LogReader, Query, RunDirectory};
use rustc_hash::FxHasher;

/// Maximum number of lines of a check to keep. A prompt has at most half of them.
const LINES_MAX: usize = 200;

/// The progress of a loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The current phase, from 0.
    pub(crate) phase: usize,
    /// The number of iterations that have begun.
    pub(crate) iteration: u32,
    /// The number of iterations that have begun in this phase.
    pub(crate) in_phase: u32,
    /// The failure of the previous iteration, which the next prompt describes.
    pub(crate) previous_failure: Option<PreviousFailure>,
    /// True if the previous iteration changed no file.
    pub(crate) unchanged: bool,
    /// True if the log already contains the `LoopStarted` of this loop.
    pub(crate) is_resumed: bool,
}

impl Progress {
    /// Returns the progress at the beginning of the next phase.
    pub(super) fn next_phase(&self) -> Self {
        Self {
            phase: self.phase + 1,
            iteration: self.iteration,
            ..Self::default()
        }
    }
}

/// The outcome of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopOutcome {
    /// True if all checks have passed.
    pub success: bool,
    /// The number of iterations.
    pub iterations: u32,
    /// The number of lines of checks beyond the limit, which were only counted.
    pub lost_lines: u64,
    /// True if the loop's agent wrote whole messages: see
    /// [`StreamParser::has_whole_messages`](crate::agent::StreamParser::has_whole_messages).
    pub has_whole_messages: bool,
    /// The reason why the loop ended.
    pub end: LoopEnd,
}

/// The reason why a loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoopEnd {
    /// All checks have passed.
    Passed,
    /// The maximum number of iterations was reached.
    MaxIterations,
    /// The loop's timeout passed.
    Timeout,
    /// The loop was cancelled.
    Cancelled,
    /// The loop cannot continue, for this reason.
    Failed(String),
}

impl LoopEnd {
    /// Returns the reason in words, for people.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Passed => "all checks have passed",
            Self::MaxIterations => "the maximum number of iterations is reached",
            Self::Timeout => "the time limit is reached",
            Self::Cancelled => "cancelled",
            Self::Failed(why) => why,
        }
    }

    /// Returns the warning that announces the end.
    pub(crate) fn announcement(&self) -> String {
        format!("the loop ends: {}", self.words())
    }
}

impl Progress {
    /// Reads the progress of a run, which continues after the last iteration that began.
    ///
    /// # Errors
    /// `is_invalid_input()` when the run is not a loop, all its checks have passed, or its log cannot
    /// be read.
    pub fn of_run(run: &RunDirectory) -> Result<Self> {
        let mut reader = ProgressReader::default();
        for record in LogReader::open(run, Query::all())? {
            reader.event(record.envelope.event);
        }
        if !reader.is_loop {
            return Err(Error::invalid("the run is not a loop:").at(run.path()));
        }
        if reader.has_succeeded {
            return Err(
                Error::invalid("all checks of the loop have passed already:").at(run.path()),
            );
        }
        Ok(reader.progress())
    }
}

#[derive(Default)]
struct ProgressReader {
    is_loop: bool,
    has_ended: bool,
    has_succeeded: bool,
    progress: Progress,
    /// True if the last iteration has not ended.
    is_open: bool,
    check: Option<LastCheck>,
}

#[derive(Default)]
struct LastCheck {
    command: String,
    exit_code: Option<i32>,
    outputs: [VecDeque<String>; 2],
}

impl ProgressReader {
    fn event(&mut self, event: TdEvent) {
        match event {
            TdEvent::LoopStarted { .. } => {
                self.is_loop = true;
                self.has_ended = false;
            }
            TdEvent::LoopCompleted { success, .. } => {
                self.has_ended = true;
                self.has_succeeded = success;
            }
            TdEvent::PhaseStarted { phase_index, .. } => {
                if self.progress.phase != phase_index {
                    self.progress.previous_failure = None;
                    self.progress.in_phase = 0;
                }
                self.progress.phase = phase_index;
            }
            TdEvent::IterationStarted { iteration, .. } => {
                self.progress.iteration = iteration;
                self.progress.in_phase += 1;
                self.is_open = true;
                self.check = None;
            }
            TdEvent::ValidationStarted { command, .. } => {
                self.check = Some(LastCheck {
                    command,
                    ..LastCheck::default()
                });
            }
            TdEvent::ValidationOutput {
                line, is_stderr, ..
            } => {
                if let Some(check) = &mut self.check {
                    let lines = &mut check.outputs[usize::from(is_stderr)];
                    if lines.len() == LINES_MAX {
                        lines.pop_front();
                    }
                    lines.push_back(line);
                }
            }
            TdEvent::ValidationCompleted { exit_code, .. } => {
                if let Some(check) = &mut self.check {
                    check.exit_code = Some(exit_code);
                }
            }
            TdEvent::IterationCompleted { outcome, .. } => {
                self.is_open = false;
                self.completed(&outcome);
            }
            _ => {}
        }
    }

    fn completed(&mut self, outcome: &IterationOutcome) {
        let failed_check = match outcome {
            IterationOutcome::ValidationPassed => {
                // The next phase may not have begun.
                self.progress = self.progress.next_phase();
                return;
            }
            IterationOutcome::ValidationFailed { .. } | IterationOutcome::MaxTurnsReached => {
                self.check.take().and_then(LastCheck::failure)
            }
            IterationOutcome::ToolError { .. } | IterationOutcome::LlmError { .. } => None,
        };
        let failure = failed_check.unwrap_or_else(|| PreviousFailure::of_outcome(outcome));
        self.progress.previous_failure = Some(failure);
    }

    fn progress(mut self) -> Progress {
        if self.is_open {
            // The failure reason of an iteration that was interrupted together with the loop.
            self.progress.previous_failure = Some(PreviousFailure::Agent(
                "the loop was interrupted during it".to_owned(),
            ));
        }
        self.progress.is_resumed = !self.has_ended;
        self.progress
    }
}

impl LastCheck {
    fn failure(self) -> Option<PreviousFailure> {
        let [stdout, stderr] = self.outputs.map(|lines| {
            let lines: Vec<String> = lines.into();
            lines.join("\n")
        });
        Some(PreviousFailure::Check {
            command: self.command,
            exit_code: self.exit_code?,
            stdout,
            stderr,
        })
    }
}

// A fingerprint of a working directory, which changes with the names, sizes and times of its files.

/// Limits of the walk, which takes about 2 µs per file. Larger directories have no fingerprint.
const ENTRIES_MAX: usize = 500_000;
const TIME_MAX: Duration = Duration::from_secs(5);
const DEPTH_MAX: usize = 200;

/// Returns a hash of the names, kinds, sizes, times and inodes of all files below a directory, except
/// those of version control and in `ignored`. Symbolic links are not followed. Returns `None` if the
/// directory is too large or unreadable.
pub(super) fn fingerprint(root: &Path, ignored: Option<&Path>, clock: &Clock) -> Option<u64> {
    let root = fs::canonicalize(root).ok()?;
    let ignored = ignored.and_then(|path| fs::canonicalize(path).ok());
    let mut walk = DirectoryWalk {
        ignored,
        entries: 0,
        deadline: clock.now() + TIME_MAX,
        clock,
        sum: 0,
    };
    walk.directory(&root, 0)?;
    Some(walk.sum)
}

struct DirectoryWalk<'a> {
    ignored: Option<PathBuf>,
    entries: usize,
    deadline: Instant,
    clock: &'a Clock,
    /// The sum of the entries' hashes, which does not depend on their order.
    sum: u64,
}

impl DirectoryWalk<'_> {
    fn directory(&mut self, path: &Path, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX || self.clock.now() >= self.deadline {
            return None;
        }
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            // Removed in the meantime, or unreadable, so that the agent cannot change it either.
            Err(_) if depth > 0 => return Some(()),
            Err(_) => return None,
        };
        for entry in entries.flatten() {
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return None;
            }
            let path: PathBuf = entry.path();
            let name = entry.file_name();
            // Directories of version control systems, which change without any work: `git status` writes its index.
            let is_ignored = [".git", ".hg", ".jj", ".svn"]
                .iter()
                .any(|ignored| name == *ignored);
            if is_ignored || self.ignored.as_ref() == Some(&path) {
                continue;
            }
            let Ok(metadata) = fs::symlink_metadata(&path) else {
                continue;
            };
            let mut hasher = FxHasher::default();
            (&path, metadata.mode(), metadata.ino()).hash(&mut hasher);
            if !metadata.is_dir() {
                let modified = (metadata.mtime(), metadata.mtime_nsec());
                // Programs cannot set this time.
                let changed = (metadata.ctime(), metadata.ctime_nsec());
                (metadata.size(), modified, changed).hash(&mut hasher);
            }
            self.sum = self.sum.wrapping_add(hasher.finish());
            if metadata.is_dir() {
                self.directory(&path, depth + 1)?;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn writes_creations_removals_and_renames_are_changes() {
        let temp = tempfile::tempdir().unwrap();
        let (root, clock) = (temp.path(), Clock::system());
        let sub = root.join("sub");
        fs::create_dir(&sub).unwrap();
        fs::create_dir(root.join(".git")).unwrap();
        fs::write(sub.join("a"), "1").unwrap();
        let ignored = root.join("data");
        let current = || fingerprint(root, Some(&ignored), &clock);
        let mut before = current();
        assert!(before.is_some());
        let check = |before: &mut Option<u64>, what: &str, is_same: bool| {
            let after = current();
            assert_eq!(after == *before, is_same, "{what}");
            *before = after;
        };
        check(&mut before, "nothing", true);
        fs::write(sub.join("a"), "22").unwrap();
        check(&mut before, "written", false);
        fs::write(sub.join("b"), "").unwrap();
        check(&mut before, "created", false);
        fs::rename(sub.join("b"), sub.join("c")).unwrap();
        check(&mut before, "renamed", false);
        fs::remove_file(sub.join("c")).unwrap();
        check(&mut before, "removed", false);
        std::os::unix::fs::symlink("/", root.join("all")).unwrap();
        check(&mut before, "a link, which is not followed", false);
        fs::write(root.join(".git/index"), "x").unwrap();
        fs::create_dir(&ignored).unwrap();
        fs::write(ignored.join("log"), "x").unwrap();
        check(&mut before, "ignored files", true);
        assert_eq!(fingerprint(&root.join("none"), None, &clock), None);
    }
}
