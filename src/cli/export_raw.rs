//! Exports the raw recordings of a pane as one asciicast file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use super::history::EarlyEnd;
use crate::event::PaneId;
use crate::face::{AsciicastOptions, one_line};
use crate::history::RunDirectory;
use crate::recording::{RecordingFile, RecordingJoiner};
use crate::thread::{Stop, is_stopped};

/// Maximum length of a line. Recorded lines are much shorter; a line that a broken disk has corrupted must not
/// exhaust the memory.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The recordings of one pane of a run.
#[derive(Debug)]
pub(super) struct RawRecordings {
    run: RunDirectory,
    files: Vec<RecordingFile>,
}

/// The input that an export has skipped.
#[derive(Debug, Default, PartialEq, Eq)]
struct SkippedInput {
    lines: u64,
    files: u64,
}

impl RawRecordings {
    /// Returns the recordings of this pane; without a pane, those of the only recorded pane.
    ///
    /// # Errors
    /// If the caller must export the log instead, with a message for the user, if any.
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
        mut write: impl FnMut(&mut String) -> Result<(), EarlyEnd>,
    ) -> Result<(), EarlyEnd> {
        let title = options.title.as_deref().map(one_line);
        let mut joiner = RecordingJoiner::new(title, options.idle_limit);
        let (mut out, mut line, mut skipped) = (String::new(), Vec::new(), SkippedInput::default());
        for file in &self.files {
            let mut recording = BufReader::new(self.run.open_recording(file)?);
            for number in 0.. {
                match next_line(&mut recording, &mut line) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(cause) => {
                        message!("the rest of {:?} cannot be read: {cause}", file.path);
                        break;
                    }
                }
                match number {
                    0 if !joiner.header(&line) => {
                        skipped.files += 1;
                        break;
                    }
                    0 => {}
                    _ if !joiner.line(&line, &mut out) => skipped.lines += 1,
                    _ => write(&mut out)?,
                }
                if is_stopped(stop) {
                    break;
                }
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
        message!(
            "exported from the raw recording of {} ({files}); use --from-log to export the log",
            pane.unwrap_or_default()
        );
        if skipped.lines > 0 {
            message!(
                "{} unreadable lines of the recording were skipped",
                skipped.lines
            );
        }
        if skipped.files > 0 {
            message!(
                "{} files that are not recordings were skipped",
                skipped.files
            );
        }
    }
}

/// Reads the next complete line; returns false at the end. A partial line at the end is ignored: its writer was
/// interrupted, or is still writing it.
fn next_line(recording: &mut BufReader<File>, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    recording.take(LINE_BYTES_MAX).read_until(b'\n', line)?;
    match line.pop() {
        Some(b'\n') => Ok(true),
        Some(_) if line.len() as u64 + 1 >= LINE_BYTES_MAX => {
            Err(io::Error::other("a line is too long"))
        }
        _ => Ok(false),
    }
}
