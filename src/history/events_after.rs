//! Reads the events of a run after a given number, which a summary of the run does not include yet.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::error::{Error, Result};
use crate::event::{Envelope, LogGapRange};
use crate::history::dir::RunDirectory;
use crate::history::dir_handle::{EVENTS, RunFiles};
use crate::history::line::seq_of;
use crate::history::read::{Follower, Query, line_end};
use crate::history::tail::line_start;

impl RunDirectory {
    /// Returns the offset in the newest file after the last event with at most this number.
    ///
    /// # Errors
    /// If the run or the file cannot be read.
    pub(crate) fn offset_after(&self, seq: u64) -> Result<u64> {
        let failed = |cause| Error::file("cannot read", &self.events_path(), cause);
        let dir = self.open_dir()?;
        match dir.existing_file(EVENTS).map_err(failed)? {
            Some(file) => offset_after(&file, seq).map_err(failed),
            None => Ok(0),
        }
    }

    /// Follows the log after a number. Events with lower or equal numbers may come first if files were closed
    /// in the meantime. `offset` is the start of the events in the newest file; if it is no longer valid, they
    /// are searched.
    ///
    /// # Errors
    /// If there is no such run, or it cannot be read.
    pub(crate) fn follow_after(&self, seq: u64, offset: Option<u64>) -> Result<Follower> {
        let dir = self.open_dir()?;
        let follow = || {
            let files = RunFiles::list(&dir)?;
            let start = match (&files.newest, offset) {
                (Some(newest), _) if !has_all_after(&files, newest, seq)? => None,
                (Some(newest), Some(offset)) if is_start_after(newest, offset, seq)? => {
                    Some(offset)
                }
                (Some(newest), _) => Some(offset_after(newest, seq)?),
                (None, _) => None,
            };
            Follower::of_files(self, dir, files, Query::all(), start)
        };
        follow().map_err(|cause| Error::file("cannot read the log in", self.path(), cause))
    }

    /// Passes the events after a number to `each`, in order; see [`RunDirectory::follow_after`].
    ///
    /// # Errors
    /// If the run cannot be read.
    pub(crate) fn for_each_after(
        &self,
        seq: u64,
        offset: Option<u64>,
        each: &mut dyn FnMut(&Envelope),
    ) -> Result<()> {
        let mut log = self.follow_after(seq, offset)?;
        while let Some(record) = log.next()? {
            if LogGapRange::of(&record.envelope).is_some_and(|numbers| numbers.last > seq) {
                each(&record.envelope);
            }
        }
        Ok(())
    }
}

/// Returns true if the newest file has all events after a number.
fn has_all_after(files: &RunFiles, newest: &File, seq: u64) -> io::Result<bool> {
    if files.closed.is_empty() {
        return Ok(true);
    }
    // The number of the first event follows the header's.
    let mut start = [0; 4096];
    let read = newest.read_at(&mut start, 0)?;
    let lines = start[..read].split(|byte| *byte == b'\n');
    let first = lines.filter_map(seq_of).filter(|found| *found > 0).min();
    Ok(first.is_some_and(|first| first <= seq.saturating_add(1)))
}

/// Returns the offset after the last line with at most this number, by bisection, because numbers only grow.
fn offset_after(file: &File, seq: u64) -> io::Result<u64> {
    // The last line may be incomplete.
    let (mut after, mut until) = (0, line_start(file, file.metadata()?.len())?);
    while after < until {
        let middle = after + (until - after) / 2;
        let start = line_start(file, middle)?.max(after);
        match seq_at(file, start)? {
            Some(found) if found > seq => until = start,
            _ => after = line_end(file, start, until)?.unwrap_or(until),
        }
    }
    Ok(after)
}

/// Returns true if a line with a number after `seq` begins at the offset and the previous line has at most
/// that number.
fn is_start_after(file: &File, offset: u64, seq: u64) -> io::Result<bool> {
    let len = file.metadata()?.len();
    if offset == 0 || offset > len {
        return Ok(false);
    }
    let before = line_start(file, offset - 1)?;
    let mut end = [0];
    file.read_exact_at(&mut end, offset - 1)?;
    let is_next = offset == len || seq_at(file, offset)?.is_none_or(|found| found > seq);
    Ok(end == *b"\n" && is_next && seq_at(file, before)?.is_none_or(|found| found <= seq))
}

fn seq_at(file: &File, offset: u64) -> io::Result<Option<u64>> {
    // The start of a line contains its number.
    let mut start = [0; 64];
    let read = file.read_at(&mut start, offset)?;
    Ok(seq_of(&start[..read]))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_offset_is_that_of_a_naive_scan(
            steps in proptest::collection::vec((1_u64..4, 0_usize..200), 0..60), seq in 0_u64..200, torn: bool,
        ) {
            let mut file = tempfile::tempfile().unwrap();
            let mut text = String::from("{\"seq\":0,\"header\":1}\n");
            let (mut number, mut expected) = (0, None);
            for (step, length) in steps {
                number += step;
                if number > seq && expected.is_none() {
                    expected = Some(text.len());
                }
                text.push_str(&format!("{{\"seq\":{number},\"x\":\"{}\"}}\n", "x".repeat(length)));
            }
            let expected = expected.unwrap_or(text.len()) as u64;
            if torn {
                text.push_str("{\"se");
            }
            file.write_all(text.as_bytes()).unwrap();
            prop_assert_eq!(offset_after(&file, seq).unwrap(), expected);
            prop_assert!(is_start_after(&file, expected, seq).unwrap());
        }
    }
}
