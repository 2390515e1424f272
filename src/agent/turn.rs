//! Detects the end of an agent's turn: a marker alone on its line, which is reported once (pure).
//!
//! The detector searches settled lines for markers and ignores the decoration of agents' screens. A
//! marker does not end a turn
//!
//! - if its line has other text, such as a prompt that requests the marker;
//! - in typed input of several lines: below a line that begins with `>`, `❯`, `›` or `»`, with a
//!   deeper indent;
//! - in a redraw: an agent that redraws its screen, after a resize or on its own, shows the same
//!   text before the same marker within two seconds of the wipe.
//!
//! Two cases cannot be distinguished: a marker typed alone on a line without a prompt before it,
//! and a turn that repeats, letter for letter, a turn that was wiped in the preceding two seconds.

mod markers;
mod recent;
mod redraw;

mod full_screen;

use std::collections::VecDeque;
use std::time::Duration;

use full_screen::{FullScreen, KNOWN_TURNS_MAX};
pub use markers::Markers;
use recent::{MarkerContext, RecentLines};
pub(crate) use redraw::{ChangeContext, RedrawCause, RedrawDetector};

use crate::event::{ScreenRow, lines_in};
use crate::track::{Capture, Change, GapReason, Row};

/// The maximum time of a redraw of the whole screen. Programs redraw in one go, but a capture may
/// show a part of it.
const REDRAW: Duration = Duration::from_secs(2);

/// The maximum time in which a single line is rewritten.
const REWRITE: Duration = Duration::from_millis(300);

/// Detects the ends of turns in a tracker's changes.
#[derive(Debug)]
pub(crate) struct TurnDetector {
    markers: Markers,
    lines: RecentLines,
    /// The number after the last settled line.
    next: i64,
    known_turns: VecDeque<KnownTurn>,
    /// The first line of the screen after its last wipe.
    redrawn_from: i64,
    full_screen: FullScreen,
    /// True while a full-screen program is shown.
    is_full_screen: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The number of the marker's line; `None` on the screen of a full-screen program.
    pub line: Option<i64>,
    pub marker: String,
    /// The last paragraph before the marker; at most 200 characters.
    pub summary: String,
}

/// The end of a turn that was reported or that precedes observation.
#[derive(Debug)]
struct KnownTurn {
    line: i64,
    context: MarkerContext,
    wipe: Option<Wipe>,
}

#[derive(Clone, Copy, Debug)]
struct Wipe {
    at: Duration,
    /// True if only the line of the marker was rewritten; false if the whole screen may be redrawn.
    is_single_line: bool,
}

impl Wipe {
    fn redraw(self) -> Duration {
        match self.is_single_line {
            true => REWRITE,
            false => REDRAW,
        }
    }
}

impl TurnDetector {
    #[must_use]
    pub fn new(markers: Markers) -> Self {
        Self {
            markers,
            lines: RecentLines::default(),
            next: 1,
            known_turns: VecDeque::new(),
            redrawn_from: i64::MIN,
            full_screen: FullScreen::default(),
            is_full_screen: false,
        }
    }

    pub(crate) fn markers(&self) -> &Markers {
        &self.markers
    }

    /// Sets the baseline: numbered lines that precede observation, whose turns are not reported.
    pub fn set_baseline<'a>(&mut self, lines: impl IntoIterator<Item = (i64, &'a str)>, next: i64) {
        for (number, text) in lines {
            self.lines.set(number, text, self.markers.find(text));
        }
        let known_markers: Vec<i64> = self.lines.markers().map(|(number, _)| number).collect();
        for line in known_markers.into_iter().filter(|line| *line < next) {
            if !self.lines.is_input(line) {
                self.add_known(line);
            }
        }
        self.next = next;
    }

    /// Sets the baseline of a full-screen program: the screen that precedes observation.
    pub fn set_baseline_screen(&mut self, capture: &Capture) {
        if !capture.alternate {
            return;
        }
        self.is_full_screen = true;
        let screen = (0..).zip(&capture.rows[capture.history_rows()..]);
        let row = |(row, shown): (u32, &Row)| ScreenRow {
            row,
            text: shown.text.clone(),
        };
        let rows: Vec<ScreenRow> = screen.map(row).collect();
        self.update_full_screen(capture.height, &rows);
    }

    /// Processes the changes of a tracker; returns the turns that they end, in order.
    pub fn update(&mut self, changes: &[Change], context: ChangeContext) -> Vec<Turn> {
        let is_gap = |change: &Change| match change {
            Change::Gap { reason, .. } => !matches!(reason, GapReason::HistoryTrimmed),
            _ => false,
        };
        if let RedrawCause::Wiped { first_line } = context.redraw_cause {
            self.redrawn_from = first_line;
        }
        if context.redraw_cause != RedrawCause::None || changes.iter().any(is_gap) {
            for turn in &mut self.known_turns {
                turn.wipe = Some(Wipe {
                    at: context.at,
                    is_single_line: false,
                });
            }
        }
        let (mut appeared, mut turns) = (Vec::new(), Vec::new());
        let is_new_screen = context.alternate && !self.is_full_screen;
        self.is_full_screen = context.alternate;
        if is_new_screen {
            self.full_screen.rows = RecentLines::default();
        }
        for change in changes {
            match change {
                Change::Lines { first_line, chunk } => {
                    for (number, text) in (*first_line..).zip(lines_in(chunk)) {
                        self.set_line(number, text, context.at);
                        self.next = number + 1;
                        appeared.extend(self.markers.find(text).map(|marker| (number, marker)));
                    }
                }
                Change::Revised { line, text } => {
                    let was_marker = self.lines.is_marker(*line);
                    self.set_line(*line, text, context.at);
                    if *line < self.next && !was_marker {
                        appeared.extend(self.markers.find(text).map(|marker| (*line, marker)));
                    }
                }
                Change::Screen { height, rows, .. } => {
                    let drawn = self.update_full_screen(*height, rows);
                    // The first screen after a full-screen program starts may show turns of its
                    // previous run.
                    if !is_new_screen {
                        turns.extend(drawn);
                    }
                }
                Change::Gap { .. } => {}
            }
        }
        appeared.sort_unstable();
        appeared.dedup();
        for (line, marker) in appeared {
            if !self.lines.is_input(line) && !self.is_redrawn(line, context.at) {
                self.add_known(line);
                turns.push(Turn {
                    line: Some(line),
                    marker: self.markers.text(marker),
                    summary: self.lines.summary(line),
                });
            }
        }
        turns
    }

    /// Returns the last paragraph, which summarises a turn that ends without a marker.
    #[must_use]
    pub fn summary(&self) -> String {
        match self.is_full_screen {
            true => self.full_screen.rows.summary(self.full_screen.rows.end()),
            false => self.lines.summary(self.next),
        }
    }

    fn set_line(&mut self, number: i64, text: &str, at: Duration) {
        let marker = self.markers.find(text);
        if marker.is_none()
            && self.lines.is_marker(number)
            && let Some(turn) = (self.known_turns.iter_mut()).find(|turn| turn.line == number)
        {
            turn.wipe = Some(Wipe {
                at,
                is_single_line: true,
            });
        }
        self.lines.set(number, text, marker);
    }

    /// Returns true if a recently wiped marker is back at the same place of the text.
    fn is_redrawn(&mut self, line: i64, at: Duration) -> bool {
        let context = self.lines.context(line, i64::MIN);
        // A wiped screen may be redrawn from the middle of the text.
        let drawn = self.lines.context(line, self.redrawn_from);
        let is_same = |known: &MarkerContext| {
            known.is_same(&context) || drawn.is_significant() && known.is_same(&drawn)
        };
        let again = self.known_turns.iter_mut().find(|turn| match turn.wipe {
            // The line has moved.
            Some(wipe) if wipe.is_single_line && wipe.at == at => turn.context.is_near(&context),
            Some(wipe) if at.saturating_sub(wipe.at) <= wipe.redraw() => is_same(&turn.context),
            Some(_) | None => false,
        });
        let Some(turn) = again else {
            return false;
        };
        turn.line = line;
        if turn.wipe.take().is_some_and(|wipe| wipe.is_single_line) {
            turn.context = context;
        }
        // After a redraw of the screen, the original context is kept, because the new one may be shorter.
        true
    }

    fn add_known(&mut self, line: i64) {
        if self.known_turns.len() >= KNOWN_TURNS_MAX {
            self.known_turns.pop_front();
        }
        self.known_turns.push_back(KnownTurn {
            line,
            context: self.lines.context(line, i64::MIN),
            wipe: None,
        });
    }

    /// Updates the rows of a full-screen program; returns the turns that they end.
    fn update_full_screen(&mut self, height: u32, rows: &[ScreenRow]) -> Vec<Turn> {
        self.full_screen.update(height, rows, &self.markers);
        let found = self.full_screen.new_turns();
        let turn = |(row, marker): (i64, usize)| Turn {
            line: None,
            marker: self.markers.text(marker),
            summary: self.full_screen.rows.summary(row),
        };
        found.into_iter().map(turn).collect()
    }
}

#[cfg(test)]
mod tests;
