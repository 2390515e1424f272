//! A run as a recording in the format asciicast v3 (pure).
//!
//! ```text
//! pane_terminal (one pane: primary_screen, alternate_screen) ┐
//! merged_terminal (everything, with labels)                  ┴─> crate::recording (header, times, JSON)
//! ```
//!
//! Every control sequence in the recording is written here: text passes through `clean`. Memory is
//! bounded by what a screen shows and a little more, however long the run is.

mod terminal;
mod wrapping;

mod alternate_screen;
mod primary_screen;

mod pane_terminal;

mod merged_terminal;

use std::time::Duration;

use super::clean::{cut, one_line};
use super::describe::describe;
use crate::event::{Envelope, EventKind, PaneId, TdEvent};
use crate::recording::{Encoder, EventCode};
use merged_terminal::MergedTerminal;
use pane_terminal::PaneTerminal;
use terminal::ExportTerminal;

/// Players show markers in a list or on the time line.
const MARKER_COLUMNS_MAX: usize = 80;

/// Options of the export.
#[derive(Clone, Debug, Default)]
pub(crate) struct AsciicastOptions {
    /// Exports this pane in its own size. Defaults to all text of the run as the console shows it; for
    /// a run of one pane, see [`Survey::sole_pane`](super::Survey::sole_pane).
    pub pane: Option<PaneId>,
    /// The longest pause.
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

    /// Adds what the next envelope of the log changes on the terminal, as whole lines of the format.
    pub fn push(&mut self, envelope: &Envelope, out: &mut String) {
        let event = &envelope.event;
        // The header of a log file is no event of the run.
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

    /// Adds the end of the recording.
    pub fn finish(&mut self, out: &mut String) {
        self.encoder.write_header(self.terminal.size(), out);
        self.terminal.finish(&mut self.encoder, out);
        if let Some(status) = self.terminal.exit_status() {
            self.encoder
                .event(EventCode::Exit, &status.to_string(), out);
        } else if self.encoder.has_unwritten_time() {
            // The recording lasts as long as the run, although nothing more was printed.
            self.encoder.event(EventCode::Output, "", out);
        }
    }

    /// The number of changes to lines that had left the screen: a recording cannot show these.
    pub fn unreached(&self) -> u64 {
        self.terminal.unreached()
    }
}

/// The marker of an event; `None` for text, and for a resize, which is an event of the format.
fn marker(event: &TdEvent) -> Option<String> {
    let text = match event {
        TdEvent::OutputUpdate { .. } | TdEvent::PaneResized { .. } => return None,
        TdEvent::ScreenSnapshot { .. } => "screen snapshot".to_owned(),
        _ => describe(event, false)
            .filter(|it| !it.is_possible_gap())?
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
