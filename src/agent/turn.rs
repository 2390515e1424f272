//! Where an agent's turn ends: at a marker that stands alone on its line, once (pure).
//!
//! A marker is looked for in settled lines, without the decorations that agents' screens put around
//! a line. It does not count
//!
//! - with anything else on its line, as in a prompt that asks for it;
//! - in what was typed over several lines: below a line that begins with `>`, `❯`, `›` or `»`, and
//!   further in than that;
//! - when it was there before: an agent that draws its screen anew, after a resize or on its own,
//!   shows the same text before the same marker, within two seconds of what it has wiped away.
//!
//! What cannot be told: a marker typed alone on a line of its own, with no prompt before it, and a
//! turn that reads letter for letter as one that was wiped away in the two seconds before.

mod full_screen;
mod recent;
mod redraw;

use std::collections::VecDeque;
use std::time::Duration;

use full_screen::FullScreen;
use recent::{MarkerContext, RecentLines};
pub use redraw::RedrawDetector;

use super::decoration::bare_line;
use crate::error::{Error, Result};
use crate::event::{ScreenRow, lines_in};
use crate::track::{Change, GapReason, Look, Row};

/// The marker of the seed's agents.
pub const DEFAULT_MARKER: &str = "[Output Complete]";

/// How long a text that was wiped away as a whole may take to be drawn again: programs draw their
/// screens in one go, but a look may come in between.
const REDRAW: Duration = Duration::from_secs(2);

/// The same of a line that reads otherwise for a moment.
const REWRITE: Duration = Duration::from_millis(300);

/// Turns that may be drawn again.
const PAST_MAX: usize = 64;

/// Finds the ends of turns in what a tracker says.
///
/// ```
/// use std::time::Duration;
/// use td_observe::agent::{Markers, ChangeContext, TurnDetector};
/// use td_observe::track::Change;
///
/// let mut detector = TurnDetector::new(Markers::default());
/// let chunk = "> then say [Output Complete]\n⏺ It is done.\n\n⏺ [Output Complete]\n".to_owned();
/// let turns = detector.update(&[Change::Lines { first_line: 1, chunk }], ChangeContext::default());
/// assert_eq!(turns[0].line, Some(4));
/// assert_eq!(turns[0].summary, "It is done.");
/// ```
#[derive(Debug)]
pub struct TurnDetector {
    markers: Markers,
    page: RecentLines,
    /// The number behind the last settled line.
    next: i64,
    past: VecDeque<KnownTurn>,
    /// The line with which the screen began when it was wiped last.
    drawn_from: i64,
    /// The screen of a full-screen program.
    screen: FullScreen,
    /// It is shown.
    is_full_screen: bool,
}

/// What ends a turn: one of these, alone on its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Markers(Vec<String>);

impl Markers {
    /// These, instead of the default one.
    ///
    /// # Errors
    /// `is_invalid_input()` when there is none, or one is empty or has a line end.
    pub fn new<S: AsRef<str>>(markers: impl IntoIterator<Item = S>) -> Result<Self> {
        let markers: Vec<String> = markers
            .into_iter()
            .map(|marker| marker.as_ref().trim().to_owned())
            .collect();
        if markers.is_empty() || markers.iter().any(String::is_empty) {
            return Err(Error::invalid("a marker is empty"));
        }
        if let Some(marker) = markers.iter().find(|marker| marker.contains(['\n', '\r'])) {
            return Err(Error::invalid(format!(
                "the marker {marker:?} is more than one line"
            )));
        }
        Ok(Self(markers))
    }

    /// The marker that a line is, by number.
    fn find(&self, line: &str) -> Option<usize> {
        let text = bare_line(line).text;
        let line = line.trim();
        let is_it = |marker: &String| marker == text || marker == line;
        self.0.iter().position(is_it)
    }

    /// The last marker that stands alone on a line of this text.
    pub(crate) fn last_in(&self, text: &str) -> Option<&str> {
        let marker = text.lines().rev().find_map(|line| self.find(line))?;
        self.0.get(marker).map(String::as_str)
    }

    fn text(&self, marker: usize) -> String {
        self.0.get(marker).cloned().unwrap_or_default()
    }
}

impl Default for Markers {
    fn default() -> Self {
        Self(vec![DEFAULT_MARKER.to_owned()])
    }
}

/// The circumstances of a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeContext {
    /// When, on the looks' clock.
    pub at: Duration,
    /// What happened to the pane as a whole.
    pub redraw_cause: RedrawCause,
    /// A full-screen program is shown.
    pub alternate: bool,
}

/// What makes programs draw all of their screen anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedrawCause {
    /// Nothing of the kind.
    #[default]
    None,
    /// The pane has another size.
    Resized,
    /// The screen or the history was wiped: what stands there now begins with this line.
    Wiped {
        /// The number of the line at the top of the screen.
        first_line: i64,
    },
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The number of the marker's line; none on the screen of a full-screen program.
    pub line: Option<i64>,
    /// The marker.
    pub marker: String,
    /// The last paragraph before it; at most 200 characters.
    pub summary: String,
}

/// The end of a turn that was told, or stood there before.
#[derive(Debug)]
struct KnownTurn {
    line: i64,
    context: MarkerContext,
    gone: Option<Wipe>,
}

/// How the end of a turn was wiped away.
#[derive(Clone, Copy, Debug)]
struct Wipe {
    at: Duration,
    /// Its line reads otherwise; else all that stood there may be drawn anew.
    alone: bool,
}

impl Wipe {
    fn redraw(self) -> Duration {
        match self.alone {
            true => REWRITE,
            false => REDRAW,
        }
    }
}

impl TurnDetector {
    /// Looks for these.
    #[must_use]
    pub fn new(markers: Markers) -> Self {
        Self {
            markers,
            page: RecentLines::default(),
            next: 1,
            past: VecDeque::new(),
            drawn_from: i64::MIN,
            screen: FullScreen::default(),
            is_full_screen: false,
        }
    }

    /// What ends a turn.
    pub(crate) fn markers(&self) -> &Markers {
        &self.markers
    }

    /// What stood there when observation began, by number: its turns have ended before.
    pub fn set_baseline<'a>(&mut self, lines: impl IntoIterator<Item = (i64, &'a str)>, next: i64) {
        for (number, text) in lines {
            self.page.set(number, text, self.markers.find(text));
        }
        let standing: Vec<i64> = self.page.markers().map(|(number, _)| number).collect();
        for line in standing.into_iter().filter(|line| *line < next) {
            if !self.page.is_input(line) {
                self.remember(line);
            }
        }
        self.next = next;
    }

    /// What stood on the screen when observation began, if it is that of a full-screen program.
    pub fn set_baseline_screen(&mut self, look: &Look) {
        if !look.alternate {
            return;
        }
        self.is_full_screen = true;
        let screen = (0..).zip(&look.rows[look.history_rows()..]);
        let row = |(row, shown): (u32, &Row)| ScreenRow {
            row,
            text: shown.text.clone(),
        };
        let rows: Vec<ScreenRow> = screen.map(row).collect();
        self.drawn(look.height, &rows);
    }

    /// Takes in what a look brought; the turns that it ended, in order.
    pub fn update(&mut self, changes: &[Change], sight: ChangeContext) -> Vec<Turn> {
        let is_gap = |change: &Change| match change {
            Change::Gap { reason, .. } => !matches!(reason, GapReason::HistoryTrimmed),
            _ => false,
        };
        if let RedrawCause::Wiped { first_line } = sight.redraw_cause {
            self.drawn_from = first_line;
        }
        if sight.redraw_cause != RedrawCause::None || changes.iter().any(is_gap) {
            for past in &mut self.past {
                past.gone = Some(Wipe {
                    at: sight.at,
                    alone: false,
                });
            }
        }
        let (mut appeared, mut turns) = (Vec::new(), Vec::new());
        let is_new_screen = sight.alternate && !self.is_full_screen;
        self.is_full_screen = sight.alternate;
        if is_new_screen {
            self.screen.page = RecentLines::default();
        }
        for change in changes {
            match change {
                Change::Lines { first_line, chunk } => {
                    for (number, text) in (*first_line..).zip(lines_in(chunk)) {
                        self.reads(number, text, sight.at);
                        self.next = number + 1;
                        appeared.extend(self.markers.find(text).map(|marker| (number, marker)));
                    }
                }
                Change::Revised { line, text } => {
                    let was_marker = self.page.is_marker(*line);
                    self.reads(*line, text, sight.at);
                    if *line < self.next && !was_marker {
                        appeared.extend(self.markers.find(text).map(|marker| (*line, marker)));
                    }
                }
                Change::Screen { height, rows, .. } => {
                    let drawn = self.drawn(*height, rows);
                    // What a program shows when it comes, or comes back, was there before.
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
            if !self.page.is_input(line) && !self.is_drawn_again(line, sight.at) {
                self.remember(line);
                turns.push(Turn {
                    line: Some(line),
                    marker: self.markers.text(marker),
                    summary: self.page.summary(line),
                });
            }
        }
        turns
    }

    /// The last paragraph of what was said, for a turn that is over without a marker.
    #[must_use]
    pub fn summary(&self) -> String {
        match self.is_full_screen {
            true => self.screen.page.summary(self.screen.page.end()),
            false => self.page.summary(self.next),
        }
    }

    /// A line reads so now.
    fn reads(&mut self, number: i64, text: &str, at: Duration) {
        let marker = self.markers.find(text);
        if marker.is_none()
            && self.page.is_marker(number)
            && let Some(past) = self.past.iter_mut().find(|past| past.line == number)
        {
            past.gone = Some(Wipe { at, alone: true });
        }
        self.page.set(number, text, marker);
    }

    /// Whether a marker is one that was wiped away just now, and is again where it was in the text.
    fn is_drawn_again(&mut self, line: i64, at: Duration) -> bool {
        let context = self.page.context(line, i64::MIN);
        // A screen that was wiped may be drawn anew from the middle of the text on.
        let drawn = self.page.context(line, self.drawn_from);
        let is_same = |known: &MarkerContext| {
            known.is_same(&context) || drawn.is_telling() && known.is_same(&drawn)
        };
        let again = self.past.iter_mut().find(|past| match past.gone {
            // It has moved.
            Some(gone) if gone.alone && gone.at == at => past.context.is_near(&context),
            Some(gone) if at.saturating_sub(gone.at) <= gone.redraw() => is_same(&past.context),
            Some(_) | None => false,
        });
        let Some(past) = again else { return false };
        past.line = line;
        if past.gone.take().is_some_and(|gone| gone.alone) {
            past.context = context;
        }
        // Else what stood before it at first is kept: now it may be less.
        true
    }

    fn remember(&mut self, line: i64) {
        if self.past.len() >= PAST_MAX {
            self.past.pop_front();
        }
        self.past.push_back(KnownTurn {
            line,
            context: self.page.context(line, i64::MIN),
            gone: None,
        });
    }

    /// Rows of a full-screen program that have changed.
    fn drawn(&mut self, height: u32, rows: &[ScreenRow]) -> Vec<Turn> {
        self.screen.update(height, rows, &self.markers);
        let found = self.screen.new_turns();
        let turn = |(row, marker): (i64, usize)| Turn {
            line: None,
            marker: self.markers.text(marker),
            summary: self.screen.page.summary(row),
        };
        found.into_iter().map(turn).collect()
    }
}

#[cfg(test)]
mod tests;
