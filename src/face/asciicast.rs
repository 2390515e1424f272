//! A run as a cast, asciicast v3, that a terminal's player plays (pure).
//!
//! ```text
//! pane (one pane: paper, canvas) ┐
//! merged (all, with labels)      ┴─> what is drawn ─> crate::recording (header, times, JSON)
//! ```
//!
//! Nothing of a pane's text orders the terminal: every control sequence in a cast is ours, and
//! text passes through `clean`. What is remembered is what a screen can show and a little more,
//! so that a run may be as long as it likes.

mod alternate_screen;
mod marks;
mod merged_terminal;
mod pane_terminal;
mod primary_screen;
mod wrapping;

use std::time::Duration;

use super::clean::one_line;
use crate::event::{Envelope, EventKind, PaneId};
use crate::recording::{Encoder, EventCode};
pub(super) use marks::{gap, log_gap};
use merged_terminal::Merged;
use pane_terminal::PaneView;

/// What is exported, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct AsciicastOptions {
    /// This pane only, in its own size. Without it, all that the run has, as the console shows it:
    /// for a run of one pane, name it (see [`Survey::sole_pane`](super::Survey::sole_pane)).
    pub pane: Option<PaneId>,
    /// No pause is longer than this.
    pub idle_limit: Option<Duration>,
    pub title: Option<String>,
}

/// Writes a cast, an envelope at a time.
#[derive(Debug)]
pub(crate) struct AsciicastExport {
    encoder: Encoder,
    terminal: Terminal,
}

#[derive(Debug)]
enum Terminal {
    Pane(Box<PaneView>),
    Merged(Box<Merged>),
}

impl AsciicastExport {
    pub fn new(options: AsciicastOptions) -> Self {
        let title = options.title.as_deref().map(one_line);
        Self {
            encoder: Encoder::new(title, options.idle_limit),
            terminal: match options.pane {
                Some(pane) => Terminal::Pane(Box::new(PaneView::new(pane))),
                None => Terminal::Merged(Box::new(Merged::new())),
            },
        }
    }

    /// Adds what the next envelope of the log does to the terminal: whole lines of the cast.
    pub fn push(&mut self, envelope: &Envelope, out: &mut String) {
        let event = &envelope.event;
        // The header of a log file is no part of what happened.
        if event.kind() == EventKind::LogOpened {
            return;
        }
        self.encoder.advance_to(envelope.ts);
        let is_foreign = match &self.terminal {
            Terminal::Pane(pane) => pane.is_foreign(event),
            Terminal::Merged(_) => false,
        };
        if !is_foreign && let Some(mark) = marks::mark(event) {
            self.encoder.event(EventCode::Marker, &mark, out);
        }
        match &mut self.terminal {
            Terminal::Pane(pane) => pane.push(event, &mut self.encoder, out),
            Terminal::Merged(merged) => merged.push(envelope, &mut self.encoder, out),
        }
        if self.encoder.needs_header() {
            self.encoder.write_header(self.size(), out);
        }
    }

    /// Adds the end. Nothing is to be pushed after it.
    pub fn finish(&mut self, out: &mut String) {
        self.encoder.write_header(self.size(), out);
        if let Terminal::Merged(merged) = &mut self.terminal {
            merged.finish(&mut self.encoder, out);
        }
        let exit_status = match &self.terminal {
            Terminal::Pane(pane) => pane.exit_status(),
            Terminal::Merged(merged) => merged.exit_status(),
        };
        if let Some(status) = exit_status {
            self.encoder
                .event(EventCode::Exit, &status.to_string(), out);
        } else if self.encoder.has_unwritten_time() {
            // It lasted until here, although nothing was to be seen any more.
            self.encoder.event(EventCode::Output, "", out);
        }
    }

    /// How many times a line changed that had scrolled off: a cast cannot show that.
    pub fn unreached(&self) -> u64 {
        match &self.terminal {
            Terminal::Pane(pane) => pane.unreached(),
            Terminal::Merged(_) => 0,
        }
    }

    fn size(&self) -> (usize, usize) {
        match &self.terminal {
            Terminal::Pane(pane) => pane.size(),
            Terminal::Merged(merged) => merged.size(),
        }
    }
}

#[cfg(test)]
pub(super) mod player;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
