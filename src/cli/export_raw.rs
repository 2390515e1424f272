//! A pane's raw recordings as one asciicast file: selects them, and writes them one after the other.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use super::history::Ended;
use crate::event::PaneId;
use crate::face::{AsciicastOptions, one_line};
use crate::history::RunDirectory;
use crate::recording::{RecordingFile, RecordingJoiner};
use crate::thread::{Stop, is_stopped};

/// The longest line that is read: our own are well below, and whatever a broken disk has made of one
/// must not fill the memory.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The recordings of one pane of a run, if they are to be exported.
#[derive(Debug)]
pub(super) struct RawRecordings {
    run: RunDirectory,
    files: Vec<RecordingFile>,
}

/// Input that an export skips, to be reported.
#[derive(Debug, Default, PartialEq, Eq)]
struct SkippedInput {
    lines: u64,
    files: u64,
}

impl RawRecordings {
    /// Returns the recordings of this pane; without one, those of the only pane that has any.
    ///
    /// # Errors
    /// The warning, if any, with which the log is exported in their place.
    pub fn of(run: &RunDirectory, pane: Option<&PaneId>) -> Result<Self, Option<String>> {
        let all = run
            .recordings()
            .map_err(|error| Some(format!("exported from the log: {error:?}")))?;
        let panes: BTreeSet<&PaneId> = all.iter().map(|file| &file.pane).collect();
        let chosen = match pane.or(panes.first().copied()) {
            None => return Err(None),
            Some(_) if pane.is_none() && panes.len() > 1 => {
                let names: Vec<String> = panes.iter().map(|pane| one_line(pane)).collect();
                return Err(Some(format!(
                    "exported from the log; there are raw recordings of single panes: --pane {}",
                    names.join(", --pane ")
                )));
            }
            Some(pane) if !panes.contains(pane) => {
                let why = "exported from the log: there is no raw recording of this pane";
                return Err((!panes.is_empty()).then(|| why.to_owned()));
            }
            Some(pane) => pane.clone(),
        };
        let of_pane = |file: &RecordingFile| file.pane == chosen;
        let files = all.into_iter().filter(of_pane).collect();
        let run = run.clone();
        Ok(Self { run, files })
    }

    /// Writes the recordings in blocks of lines, and reports the problems of the export.
    pub fn export(
        &self,
        options: &AsciicastOptions,
        stop: &Stop,
        mut write: impl FnMut(&mut String) -> Result<(), Ended>,
    ) -> Result<(), Ended> {
        let title = options.title.as_deref().map(one_line);
        let mut joiner = RecordingJoiner::new(title, options.idle_limit);
        let (mut out, mut skipped) = (String::new(), SkippedInput::default());
        for file in &self.files {
            let recording = BufReader::new(self.run.open_recording(file)?);
            let read = each_line(recording, &mut |number, line| {
                match number {
                    0 if !joiner.header(line) => {
                        skipped.files += 1;
                        return Ok(false);
                    }
                    0 => {}
                    _ if !joiner.line(line, &mut out) => skipped.lines += 1,
                    _ => write(&mut out)?,
                }
                Ok(!is_stopped(stop))
            });
            match read {
                Ok(()) => {}
                Err(Trouble::Read(cause)) => {
                    super::output::print_message(&format!(
                        "{:?} is read no further: {cause}",
                        file.path
                    ));
                }
                Err(Trouble::Ended(ended)) => return Err(ended),
            }
        }
        joiner.finish(&mut out);
        write(&mut out)?;
        self.print_summary(&skipped);
        Ok(())
    }

    fn print_summary(&self, skipped: &SkippedInput) {
        let pane = self.files.first().map(|file| one_line(&file.pane));
        let files = match self.files.len() {
            1 => "one file".to_owned(),
            files => format!("{files} files"),
        };
        super::output::print_message(&format!(
            "exported from the raw recording of {} ({files}); --from-log makes it of the log",
            pane.unwrap_or_default()
        ));
        if skipped.lines > 0 {
            super::output::print_message(&format!(
                "{} lines of it cannot be read, and were passed over",
                skipped.lines
            ));
        }
        if skipped.files > 0 {
            super::output::print_message(&format!(
                "{} files of it are no recordings, and were passed over",
                skipped.files
            ));
        }
    }
}

enum Trouble {
    Read(io::Error),
    Ended(Ended),
}

/// Whole lines, until `take` has had enough. Half a line at the end is one whose writer was stopped
/// in the middle of it, or that is being written.
fn each_line(
    mut recording: BufReader<File>,
    take: &mut impl FnMut(u64, &[u8]) -> Result<bool, Ended>,
) -> Result<(), Trouble> {
    let mut line = Vec::new();
    for number in 0.. {
        line.clear();
        let mut limited = recording.by_ref().take(LINE_BYTES_MAX);
        limited
            .read_until(b'\n', &mut line)
            .map_err(Trouble::Read)?;
        if line.pop() != Some(b'\n') {
            if line.len() as u64 + 1 >= LINE_BYTES_MAX {
                return Err(Trouble::Read(io::Error::other("a line is too long")));
            }
            return Ok(());
        }
        if !take(number, &line).map_err(Trouble::Ended)? {
            return Ok(());
        }
    }
    Ok(())
}
