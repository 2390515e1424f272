//! Exports a run as an asciicast v3 recording (pure).
//!
//! ```text
//! pane_terminal (one pane: primary_screen, alternate_screen) ┐
//! merged_terminal (everything, with labels)                  ┴─> crate::recording (header, times, JSON)
//! ```
//!
//! This module writes every control sequence in the recording; all text passes through `sanitize`. Memory is
//! bounded by the rows of a screen and a fixed number of rows above it, regardless of the length of the run.

mod terminal;
mod wrapping;

mod alternate_screen;
mod primary_screen;

mod pane_terminal;

mod merged_terminal;

use std::time::Duration;

use super::describe::describe;
use super::sanitize::one_line;
use crate::event::{Envelope, EventKind, PaneId, TdEvent};
use crate::recording::{Encoder, EventCode};
use crate::track::cut;
use merged_terminal::MergedTerminal;
use pane_terminal::PaneTerminal;
use terminal::ExportTerminal;

/// The longest marker, in columns: players show markers in a list or on a timeline.
const MARKER_COLUMNS_MAX: usize = 80;

/// Options of the export.
#[derive(Clone, Debug, Default)]
pub(crate) struct AsciicastOptions {
    /// The pane to export, at its own size. Defaults to all text of the run as the console shows it; for a
    /// run with one pane, see [`Survey::sole_pane`](super::Survey::sole_pane).
    pub pane: Option<PaneId>,
    /// The longest pause; longer ones are shortened. Defaults to no limit.
    pub idle_limit: Option<Duration>,
    pub title: Option<String>,
}

/// Writes the recording, one envelope at a time.
#[derive(Debug)]
pub(crate) struct AsciicastExport {
    encoder: Encoder,
    terminal: Box<dyn ExportTerminal>,
}

impl AsciicastExport {
    pub fn new(options: AsciicastOptions) -> Self {
        let title = options.title.as_deref().map(one_line);
        Self {
            encoder: Encoder::new(title, options.idle_limit),
            terminal: match options.pane {
                Some(pane) => Box::new(PaneTerminal::new(pane)),
                None => Box::new(MergedTerminal::new()),
            },
        }
    }

    /// Appends the changes that the next envelope of the log makes on the terminal, as complete lines of the
    /// format.
    pub fn push(&mut self, envelope: &Envelope, out: &mut String) {
        let event = &envelope.event;
        // The header of a log file is not an event of the run.
        if event.kind() == EventKind::LogOpened {
            return;
        }
        self.encoder.advance_to(envelope.ts);
        if self.terminal.includes(event) {
            if let Some(marker) = marker(event) {
                self.encoder.event(EventCode::Marker, &marker, out);
            }
            self.terminal.push(envelope, &mut self.encoder, out);
        }
        if self.encoder.needs_header() {
            self.encoder.write_header(self.terminal.size(), out);
        }
    }

    /// Appends the end of the recording.
    pub fn finish(&mut self, out: &mut String) {
        self.encoder.write_header(self.terminal.size(), out);
        self.terminal.finish(&mut self.encoder, out);
        if let Some(status) = self.terminal.exit_status() {
            self.encoder
                .event(EventCode::Exit, &status.to_string(), out);
        } else if self.encoder.has_unwritten_time() {
            // An empty event extends the recording to the end of the run.
            self.encoder.event(EventCode::Output, "", out);
        }
    }

    /// Returns the number of changes to lines that had scrolled off, which a recording cannot show.
    pub fn unreached(&self) -> u64 {
        self.terminal.unreached()
    }
}

/// Returns the marker of an event; `None` for text, and for resizes, which are events of the format.
fn marker(event: &TdEvent) -> Option<String> {
    let text = match event {
        TdEvent::OutputUpdate { .. } | TdEvent::PaneResized { .. } => return None,
        TdEvent::ScreenSnapshot { .. } => "screen snapshot".to_owned(),
        _ => describe(event, false)
            .filter(|description| !description.is_possible_gap())?
            .plain(),
    };
    Some(cut(&one_line(&text), MARKER_COLUMNS_MAX).to_owned())
}

#[cfg(test)]
mod player;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
