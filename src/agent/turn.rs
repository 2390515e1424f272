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

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::decoration::{BareLine, LineKind, bare_line};
use super::summary::summary;
use crate::error::{Error, Result};
use crate::event::{ScreenRow, lines_in};
use crate::text::first_chars;
use crate::track::{Capture, Change, GapReason, Row, Tracker};

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
        if self.is_single_line { REWRITE } else { REDRAW }
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
        if self.is_full_screen {
            self.full_screen.rows.summary(self.full_screen.rows.end())
        } else {
            self.lines.summary(self.next)
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

// The markers that end a turn (pure).

/// The default marker.
const DEFAULT_MARKER: &str = "[Output Complete]";

/// Returns true for the default marker alone in a line, also where an agent takes its brackets for Markdown.
pub(crate) fn is_default_marker(line: &str) -> bool {
    let brackets = ['[', ']'];
    line.trim_matches(brackets) == DEFAULT_MARKER.trim_matches(brackets)
}

/// The markers that end a turn, each alone on its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Markers(Vec<String>);

impl Markers {
    /// Replaces the default marker.
    ///
    /// # Errors
    /// `is_invalid_input()` when `markers` is empty, or a marker is empty or has a line end.
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
                "the marker {marker:?} has more than one line"
            )));
        }
        Ok(Self(markers))
    }

    /// Returns the index of the marker that is the only text of the line.
    pub(super) fn find(&self, line: &str) -> Option<usize> {
        let text = bare_line(line).text;
        let line = line.trim();
        let is_match = |marker: &String| marker == text || marker == line;
        self.0.iter().position(is_match)
    }

    /// Returns the last marker that is alone on a line of the text.
    pub(crate) fn last_in(&self, text: &str) -> Option<&str> {
        let marker = text.lines().rev().find_map(|line| self.find(line))?;
        self.0.get(marker).map(String::as_str)
    }

    pub(super) fn text(&self, marker: usize) -> String {
        self.0.get(marker).cloned().unwrap_or_default()
    }
}

impl Default for Markers {
    fn default() -> Self {
        Self(vec![DEFAULT_MARKER.to_owned()])
    }
}

// Detects the ends of turns on the screen of a full-screen program, whose rows have no line
// numbers (pure).

/// The maximum number of turns to remember, because they may be redrawn.
pub(super) const KNOWN_TURNS_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct FullScreen {
    pub rows: RecentLines,
    /// The contexts of the markers that the program has shown.
    known: VecDeque<MarkerContext>,
}

impl FullScreen {
    pub fn update(&mut self, height: u32, rows: &[ScreenRow], markers: &Markers) {
        self.rows.cut(i64::from(height));
        for row in rows {
            let marker = markers.find(&row.text);
            self.rows.set(i64::from(row.row), &row.text, marker);
        }
    }

    /// Returns the markers that were not shown before, in order. The screen shows a section of the
    /// text: its top markers are the last known ones or, after the user has scrolled back, all of
    /// its markers are known in this order.
    pub fn new_turns(&mut self) -> Vec<(i64, usize)> {
        let rows = self.rows.markers();
        let current: Vec<(i64, usize, MarkerContext)> = rows
            .filter(|(row, _)| !self.rows.is_input(*row))
            .map(|(row, marker)| (row, marker, self.rows.context(row, i64::MIN)))
            .collect();
        let known = self.known.make_contiguous();
        let is_section = |known: &[MarkerContext]| {
            let mut pairs = known.iter().zip(&current);
            pairs.all(|(known, (_, _, context))| known.is_same(context))
        };
        let mut lengths = (0..=current.len().min(known.len())).rev();
        let known = if known.windows(current.len().max(1)).any(is_section) {
            current.len()
        } else {
            let at_end = lengths.find(|length| is_section(&known[known.len() - length..]));
            at_end.unwrap_or(0)
        };
        let mut found = Vec::new();
        for (row, marker, context) in current.into_iter().skip(known) {
            found.push((row, marker));
            self.known.push_back(context);
        }
        while self.known.len() > KNOWN_TURNS_MAX {
            self.known.pop_front();
        }
        found
    }
}

// Keeps the last lines of a pane by number, to decide whether a marker among them ends a turn (pure).

/// The number of lines to keep: more than a user is likely to type in one prompt.
const LINES_MAX: usize = 400;

/// The maximum number of characters of a line.
const LINE_CHARS_MAX: usize = 1000;

/// The number of letters and digits that identify a place in the text. Answers may end alike.
const CONTEXT_CHARS: usize = 400;

/// The last lines, settled or open.
#[derive(Debug, Default)]
pub(super) struct RecentLines {
    lines: BTreeMap<i64, RecentLine>,
}

#[derive(Debug)]
struct RecentLine {
    text: String,
    /// The index of the marker, if the line consists of one.
    marker: Option<usize>,
}

/// The letters and digits before a marker, the nearest first. Blanks, edges and line breaks are
/// left out, so that a resize does not change the context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MarkerContext {
    nearest: Vec<char>,
    /// True if unknown text may precede the context.
    is_cut: bool,
}

impl MarkerContext {
    /// Returns true if the contexts may belong to the same place.
    pub fn is_same(&self, other: &Self) -> bool {
        let (own, others) = (self.nearest.len(), other.nearest.len());
        let known = if self.is_cut || other.is_cut {
            own.min(others)
        } else {
            own.max(others)
        };
        self.common_chars(other) >= known
    }

    /// Returns true if a cut context is long enough to be compared.
    pub fn is_significant(&self) -> bool {
        // The number of letters that suffice if a screen is redrawn from the middle of the text.
        self.nearest.len() >= 16
    }

    /// Returns true if the text directly before the marker is the same.
    pub fn is_near(&self, other: &Self) -> bool {
        let known = self.nearest.len().min(other.nearest.len());
        // The number of letters that suffice if a line moves because others are inserted above it.
        self.common_chars(other) >= known.min(4)
    }

    fn common_chars(&self, other: &Self) -> usize {
        let pairs = self.nearest.iter().zip(&other.nearest);
        pairs.take_while(|(a, b)| a == b).count()
    }
}

impl RecentLines {
    /// Sets a line. `marker` is the index of the marker, if the line consists of one.
    pub fn set(&mut self, number: i64, text: &str, marker: Option<usize>) {
        let text = first_chars(text, LINE_CHARS_MAX).to_owned();
        self.lines.insert(number, RecentLine { text, marker });
        while self.lines.len() > LINES_MAX {
            self.lines.pop_first();
        }
    }

    /// Returns true if a line belongs to typed input: below a prompt, with a deeper indent.
    pub fn is_input(&self, number: i64) -> bool {
        let Some(line) = self.lines.get(&number).map(|line| bare_line(&line.text)) else {
            return false;
        };
        if line.kind == LineKind::Bullet {
            return false;
        }
        let mut indent = line.indent;
        for BareLine {
            indent: own, kind, ..
        } in self.above(number).map(|line| bare_line(&line.text))
        {
            match kind {
                LineKind::Blank => {}
                LineKind::Input => return indent > own,
                LineKind::Rule | LineKind::Bullet => return false,
                LineKind::Text => indent = indent.min(own),
            }
            if indent == 0 {
                return false;
            }
        }
        false
    }

    /// Returns the context of a line, back to the previous marker or to the line `from`.
    pub fn context(&self, number: i64, from: i64) -> MarkerContext {
        let mut context = MarkerContext {
            nearest: Vec::new(),
            is_cut: true,
        };
        let near = usize::try_from(number.saturating_sub(from)).unwrap_or(0);
        for line in self.above(number).take(near) {
            if line.marker.is_some() {
                context.is_cut = false;
                break;
            }
            let text = bare_line(&line.text).text;
            let room = CONTEXT_CHARS - context.nearest.len();
            let chars = text.chars().rev().filter(|c| c.is_alphanumeric());
            context.nearest.extend(chars.take(room));
            if context.nearest.len() >= CONTEXT_CHARS {
                context.is_cut = false;
                break;
            }
        }
        context
    }

    /// Returns the last paragraph before a line, as a summary.
    pub fn summary(&self, number: i64) -> String {
        let mut paragraph: Vec<&str> = Vec::new();
        for line in self.above(number) {
            let BareLine { kind, text, .. } = bare_line(&line.text);
            match kind {
                _ if line.marker.is_some() => break,
                LineKind::Blank | LineKind::Rule if paragraph.is_empty() => {}
                LineKind::Blank | LineKind::Rule | LineKind::Input => break,
                LineKind::Bullet | LineKind::Text => paragraph.push(text),
            }
            if kind == LineKind::Bullet {
                break;
            }
        }
        paragraph.reverse();
        summary(&paragraph.join(" "))
    }

    /// Removes all lines from this number on.
    pub fn cut(&mut self, end: i64) {
        self.lines.split_off(&end);
    }

    pub fn is_marker(&self, number: i64) -> bool {
        let line = self.lines.get(&number);
        line.is_some_and(|line| line.marker.is_some())
    }

    /// Returns the number after the last line.
    pub fn end(&self) -> i64 {
        self.lines.last_key_value().map_or(0, |(last, _)| last + 1)
    }

    /// Returns the numbers of marker lines with the indexes of their markers.
    pub fn markers(&self) -> impl Iterator<Item = (i64, usize)> + '_ {
        let markers = self.lines.iter();
        markers.filter_map(|(number, line)| Some((*number, line.marker?)))
    }

    /// Returns the consecutive lines above a line, the nearest first.
    fn above(&self, number: i64) -> impl Iterator<Item = &RecentLine> {
        let mut expected = number;
        self.lines
            .range(..number)
            .rev()
            .take_while(move |(number, _)| {
                expected -= 1;
                **number == expected
            })
            .map(|(_, line)| line)
    }
}

// Detects whether a capture shows a redraw of the whole screen, after a resize or a wipe (pure).

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeContext {
    /// The time of the capture, on the clock of captures.
    pub at: Duration,
    /// The reason why the program may have redrawn its whole screen.
    pub redraw_cause: RedrawCause,
    /// True while a full-screen program is shown.
    pub alternate: bool,
}

/// A reason for programs to redraw their whole screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RedrawCause {
    #[default]
    None,
    Resized,
    /// The screen or the history was wiped.
    Wiped {
        /// The number of the line that is now at the top of the screen.
        first_line: i64,
    },
}

/// Compares each capture of a pane with the previous one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedrawDetector {
    width: u32,
    height: u32,
    history_size: u32,
    alternate: bool,
}

impl RedrawDetector {
    /// Creates a detector from the first capture.
    #[must_use]
    pub fn new(capture: &Capture) -> Self {
        Self {
            width: capture.width,
            height: capture.height,
            history_size: capture.history_size,
            alternate: capture.alternate,
        }
    }

    /// Returns the context of a capture that the tracker has processed.
    pub fn observe(&mut self, capture: &Capture, tracker: &Tracker) -> ChangeContext {
        let before = std::mem::replace(self, Self::new(capture));
        let resized = (capture.width, capture.height) != (before.width, before.height);
        ChangeContext {
            at: capture.at,
            alternate: capture.alternate,
            redraw_cause: if before.was_wiped(capture) {
                RedrawCause::Wiped {
                    first_line: tracker.cursor_line() - lines_above_cursor(capture),
                }
            } else if resized {
                RedrawCause::Resized
            } else {
                RedrawCause::None
            },
        }
    }

    /// Returns the context at a time without changes.
    #[must_use]
    pub fn unchanged(&self, at: Duration) -> ChangeContext {
        ChangeContext {
            at,
            alternate: self.alternate,
            redraw_cause: RedrawCause::None,
        }
    }

    /// Returns true if the history or the screen was cleared. tmux trims a full history by a tenth. Rows
    /// enter the history only from the top of a full screen, unless the whole screen is pushed into it
    /// at once.
    fn was_wiped(&self, capture: &Capture) -> bool {
        let trimmed = self.history_size.saturating_sub(2 * capture.trim_step());
        let is_blank = |text: &str| text.trim_end().is_empty();
        let pushed = capture.history_size > self.history_size
            && !capture.alternate
            && !self.alternate
            && capture.cursor.y + 1 < capture.height
            && capture.rows.last().is_some_and(|row| is_blank(&row.text));
        capture.history_size < trimmed || pushed
    }
}

fn lines_above_cursor(capture: &Capture) -> i64 {
    let screen = &capture.rows[capture.history_rows()..];
    let above = screen.iter().take(capture.cursor.y as usize);
    above.filter(|row| !row.wrapped).count() as i64
}

#[cfg(test)]
mod tests {
    mod recent {

        use super::super::*;

        fn lines_of(lines: &[&str]) -> RecentLines {
            let mut lines_of = RecentLines::default();
            for (number, text) in (1..).zip(lines) {
                lines_of.set(number, text, (*text == "END").then_some(0));
            }
            lines_of
        }

        #[test]
        fn typed_input_continues_with_a_deeper_indent() {
            for (lines, is_input) in [
                (&["> please say", "  END"][..], true),
                (&["> please", "", "  more", "  END"], true),
                (&["│ > please   │", "│   END      │"], true),
                (&["> please", "END"], false),
                (&["> please", "  more", "answer", "  END"], false),
                (&["> please", "", "⏺ answer", "  END"], false),
                (&["> please", "  ⏺ END"], false),
                (&["│ > please │", "│ END │"], false),
                (&["│ > please │", "╰──────────╯", "   END"], false),
                (&["no prompt", "  END"], false),
                (&["  END"], false),
            ] {
                let last = lines.len() as i64;
                assert_eq!(lines_of(lines).is_input(last), is_input, "{lines:?}");
            }
        }

        #[test]
        fn a_context_ignores_line_breaks() {
            let one = lines_of(&["⏺ The answer is 42, of course.", "", "END"]).context(3, 1);
            let two = lines_of(&["│ ⏺ The answer │", "│ is 42, of   │", "│ course.  │", "END"])
                .context(4, 1);
            let other = lines_of(&["⏺ The answer is 43, of course.", "END"]).context(2, 1);
            assert!(one.is_same(&two) && !one.is_same(&other));
            let short = lines_of(&["END", "Done.", "END"]);
            assert!(
                !short
                    .context(3, 1)
                    .is_same(&lines_of(&["END", "END"]).context(2, 1))
            );
        }

        #[test]
        fn the_summary_is_the_last_paragraph() {
            for (lines, summary) in [
                (
                    &["a", "", "⏺ I have done", "  all of it.", "", "END"][..],
                    "I have done all of it.",
                ),
                (&["END", "END"], ""),
                (&["> ask", "END"], ""),
                (&["first", "second", "END"], "first second"),
            ] {
                assert_eq!(lines_of(lines).summary(lines.len() as i64), summary);
            }
            let long = "ä ".repeat(400);
            let summary = lines_of(&[&long, "END"]).summary(2);
            assert!(summary.ends_with('…') && summary.chars().count() <= 201);
        }

        #[test]
        fn memory_is_bounded() {
            let mut lines_of = RecentLines::default();
            for number in 0..10_000 {
                lines_of.set(number, &"ä".repeat(5_000), None);
            }
            assert_eq!(lines_of.lines.len(), LINES_MAX);
            assert!(
                lines_of
                    .lines
                    .values()
                    .all(|line| line.text.chars().count() <= LINE_CHARS_MAX)
            );
        }
    }

    mod redraw {

        use super::super::*;
        use crate::event::Cursor;
        use crate::track::{PaneNumbers, Row};

        #[test]
        fn wipes_are_distinguished_from_scrolling() {
            let capture = |history_size, y, last: &str| Capture {
                numbers: PaneNumbers {
                    width: 10,
                    height: 3,
                    history_size,
                    history_limit: 100,
                    cursor: Cursor { x: 0, y },
                    ..PaneNumbers::default()
                },
                rows: vec![Row {
                    text: last.into(),
                    wrapped: false,
                }],
                ..Capture::default()
            };
            for (before, now, wiped) in [
                (5, capture(7, 2, ""), false),
                (5, capture(7, 1, "x"), false),
                (5, capture(7, 1, ""), true),
                (5, capture(5, 0, ""), false),
                (100, capture(91, 2, ""), false),
                (50, capture(0, 0, ""), true),
            ] {
                let before = RedrawDetector::new(&capture(before, 2, ""));
                assert_eq!(before.was_wiped(&now), wiped, "{before:?} {now:?}");
            }
        }
    }

    mod turns {
        //! Turns in settled lines and on screens, and text that does not end a turn.

        use super::super::*;
        use crate::event::GapEvidence;
        use proptest::prelude::*;

        const MARKER: &str = DEFAULT_MARKER;

        /// A detector whose clock advances by 0.1 s per capture.
        struct Scenario {
            detector: TurnDetector,
            at: Duration,
            next: i64,
        }

        impl Scenario {
            fn new() -> Self {
                Self {
                    detector: TurnDetector::new(Markers::default()),
                    at: Duration::ZERO,
                    next: 1,
                }
            }

            fn capture(&mut self, changes: &[Change], disturbed: bool) -> usize {
                self.at += Duration::from_millis(100);
                let context = ChangeContext {
                    at: self.at,
                    redraw_cause: if disturbed {
                        RedrawCause::Wiped {
                            first_line: self.next,
                        }
                    } else {
                        RedrawCause::None
                    },
                    alternate: changes
                        .iter()
                        .any(|change| matches!(change, Change::Screen { .. })),
                };
                self.detector.update(changes, context).len()
            }

            fn chunk(&mut self, lines: &str) -> Change {
                let chunk = Change::Lines {
                    first_line: self.next,
                    chunk: lines.to_owned(),
                };
                self.next += lines.lines().count() as i64;
                chunk
            }

            fn prints(&mut self, lines: &str) -> usize {
                let chunk = self.chunk(lines);
                self.capture(&[chunk], false)
            }

            fn revises(&mut self, lines: &[(i64, &str)]) -> usize {
                let revised: Vec<Change> = lines
                    .iter()
                    .map(|(line, text)| Change::Revised {
                        line: *line,
                        text: (*text).to_owned(),
                    })
                    .collect();
                self.capture(&revised, false)
            }

            fn draws(&mut self, rows: &[&str]) -> usize {
                let rows = (0..).zip(rows).map(|(row, text)| ScreenRow {
                    row,
                    text: (*text).to_owned(),
                });
                let screen = Change::Screen {
                    width: 40,
                    height: 8,
                    cursor: crate::event::Cursor::default(),
                    rows: rows.collect(),
                };
                self.capture(&[screen], false)
            }
        }

        const TURN: &str = "> say [Output Complete] when done\n⏺ It is done.\n[Output Complete]\n";

        #[test]
        fn a_marker_alone_on_its_line_ends_a_turn() {
            for line in [
                "[Output Complete]",
                "  [Output Complete]  ",
                "⏺ [Output Complete]",
                "│ [Output Complete]      │",
                "│ ● [Output Complete]",
            ] {
                assert_eq!(
                    Scenario::new().prints(&format!("answer\n{line}\n")),
                    1,
                    "{line}"
                );
            }
            for line in [
                "> [Output Complete]",
                "❯ [Output Complete]",
                "$ echo '[Output Complete]'",
                "say [Output Complete]",
                "[Output Complete].",
                "\"[Output Complete]\"",
                "[output complete]",
                "- [Output Complete]",
            ] {
                assert_eq!(
                    Scenario::new().prints(&format!("answer\n{line}\n")),
                    0,
                    "{line}"
                );
            }
        }

        #[test]
        fn each_question_has_one_turn_even_if_all_are_alike() {
            let mut seen = Scenario::new();
            assert_eq!(seen.prints(&TURN.repeat(3)), 3);
            assert_eq!(seen.prints(TURN), 1);
            assert_eq!(seen.prints("⏺ more of it\n"), 0);
            let typed = "> first, and then\n\n  [Output Complete]\n\n";
            assert_eq!(seen.prints(typed), 0);
            assert_eq!(seen.prints("⏺ So it is.\n  [Output Complete]\n"), 1);
        }

        #[test]
        fn baseline_turns_and_redrawn_turns_are_not_reported() {
            let mut seen = Scenario::new();
            let lines = [(-1, "⏺ It is done."), (0, MARKER), (1, "> ")];
            seen.detector.set_baseline(lines, 1);
            assert_eq!(seen.prints("> \n"), 0);
            let again = seen.chunk("⏺ It is done.\n[Output Complete]\n");
            assert_eq!(seen.capture(&[again], true), 0);
            assert_eq!(seen.prints("> next\n⏺ It is done.\n[Output Complete]\n"), 1);
        }

        #[test]
        fn a_repaint_does_not_end_a_turn_and_the_next_turn_is_reported() {
            let mut seen = Scenario::new();
            assert_eq!(seen.prints(TURN), 1);
            assert_eq!(
                seen.prints("> and more?\n⏺ A second answer.\n[Output Complete]\n"),
                1
            );
            // All lines are wiped and redrawn with other line breaks.
            let gap = Change::Gap {
                first_line: seen.next,
                lost_lines: None,
                reason: GapReason::Cleared,
                evidence: GapEvidence::Possible,
            };
            let first = seen.chunk("> say [Output Complete]\n  when done\n⏺ It is\n  done.\n");
            assert_eq!(seen.capture(&[gap, first], false), 0);
            let rest = "[Output Complete]\n> and\n  more?\n⏺ A second answer.\n[Output Complete]\n";
            assert_eq!(seen.prints(rest), 0);
            assert_eq!(
                seen.prints("> and more?\n⏺ A second answer.\n[Output Complete]\n"),
                1
            );
        }

        #[test]
        fn a_moved_marker_is_not_a_turn_but_a_later_one_in_its_place_is() {
            let mut seen = Scenario::new();
            assert_eq!(seen.prints("a header\n⏺ Done.\n[Output Complete]\n\n"), 1);
            let moved = [(2, "one more"), (3, "⏺ Done."), (4, MARKER)];
            assert_eq!(seen.revises(&moved), 0);
            // The lines are wiped in one capture and shown again in the next.
            assert_eq!(seen.revises(&[(3, ""), (4, "")]), 0);
            assert_eq!(seen.revises(&[(3, "⏺ Done."), (4, MARKER)]), 0);
            // A status line repeats the marker much later.
            assert_eq!(seen.revises(&[(4, "working")]), 0);
            seen.at += REWRITE;
            assert_eq!(seen.revises(&[(4, MARKER)]), 1);
            assert_eq!(seen.revises(&[(4, "⏺ [Output Complete]")]), 0);
        }

        #[test]
        fn open_lines_do_not_count() {
            let mut seen = Scenario::new();
            assert_eq!(seen.revises(&[(1, MARKER)]), 0);
            assert_eq!(seen.prints("[Output Complete]\n"), 1);
        }

        #[test]
        fn a_full_screen_program_has_turns_too() {
            let mut seen = Scenario::new();
            assert_eq!(seen.draws(&["title", "", "", "", "", "", "", "input"]), 0);
            assert_eq!(seen.draws(&["title", "> ask", "answer one", MARKER]), 1);
            assert_eq!(
                seen.draws(&["title", "> ask", "answer one", MARKER, "> more"]),
                0
            );
            // The screen scrolls down and back.
            let more = ["answer one", MARKER, "> more", "answer two", MARKER];
            assert_eq!(seen.draws(&more), 1);
            assert_eq!(
                seen.draws(&["title", "> ask", "answer one", MARKER, "> more"]),
                0
            );
            assert_eq!(seen.draws(&more), 0);
            assert_eq!(seen.capture(&[], false), 0, "left");
            assert_eq!(
                seen.draws(&more),
                0,
                "what it shows when it comes was there"
            );
        }

        #[test]
        fn a_scrolling_full_screen_program_reports_each_turn_at_once() {
            let mut seen = Scenario::new();
            let mut text: Vec<String> = (0..20).map(|n| format!("old {n}")).collect();
            let filler = "x".repeat(120);
            fn bottom(text: &[String]) -> Vec<&str> {
                text[text.len() - 8..].iter().map(String::as_str).collect()
            }
            assert_eq!(seen.draws(&bottom(&text)), 0);
            for turn in 0..9 {
                for line in [
                    format!("> question {turn}"),
                    format!("answer {turn} {filler}"),
                ] {
                    text.push(line);
                    assert_eq!(seen.draws(&bottom(&text)), 0);
                }
                text.push(MARKER.to_owned());
                assert_eq!(seen.draws(&bottom(&text)), 1, "turn {turn}");
                assert_eq!(seen.draws(&bottom(&text[..text.len() - 4])), 0, "back");
                assert_eq!(seen.draws(&bottom(&text)), 0, "and there again");
            }
        }

        #[test]
        fn a_resize_does_not_hide_a_turn_with_the_same_ending() {
            let mut seen = Scenario::new();
            let filler = "y".repeat(120);
            for turn in 0..4 {
                let chunk = seen.chunk(&format!("turn {turn} {filler}\n[Output Complete]\n"));
                assert_eq!(seen.capture(&[chunk], true), 1);
            }
        }

        #[test]
        fn markers_are_lines() {
            assert!(Markers::new([" DONE "]).unwrap().find("  DONE").is_some());
            assert!(Markers::new(["● over"]).unwrap().find("● over").is_some());
            for markers in [&[][..], &[""], &["a", " "], &["a\nb"]] {
                assert!(Markers::new(markers).unwrap_err().is_invalid_input());
            }
        }

        fn line() -> impl Strategy<Value = String> {
            prop_oneof![
                Just(MARKER.to_owned()),
                Just(format!("⏺ {MARKER}")),
                Just(format!("> {MARKER}")),
                Just(String::new()),
                "[│> ⏺a-c]{0,8}",
                "\\PC{0,20}",
            ]
        }

        proptest! {
            /// The same turns end, however the settled lines are split into captures.
            #[test]
            fn turns_do_not_depend_on_the_captures(
                lines in prop::collection::vec(line(), 0..60),
                cuts in prop::collection::vec(any::<bool>(), 60),
            ) {
                let text = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
                let mut at_once = Scenario::new();
                let all = at_once.prints(&text(&lines));
                let mut bit_by_bit = Scenario::new();
                let (mut sum, mut from) = (0, 0);
                for end in 1..=lines.len() {
                    if cuts[end - 1] || end == lines.len() {
                        sum += bit_by_bit.prints(&text(&lines[from..end]));
                        from = end;
                    }
                }
                prop_assert_eq!(sum, all);
            }

            /// For any changes, the detector does not panic, and no capture has more turns than lines.
            #[test]
            fn any_changes_are_accepted(
                captures in prop::collection::vec((any::<bool>(), prop::collection::vec((any::<u8>(), -9..40i64, line()), 0..8)), 0..30),
            ) {
                let mut seen = Scenario::new();
                for (disturbed, capture) in captures {
                    let changes: Vec<Change> = capture.into_iter().map(|(kind, line, text)| match kind % 4 {
                        0 => Change::Lines { first_line: line, chunk: format!("{text}\n") },
                        1 => Change::Revised { line, text },
                        2 => Change::Screen {
                            width: 9, height: 7, cursor: crate::event::Cursor::default(),
                            rows: vec![ScreenRow { row: line.unsigned_abs() as u32, text }],
                        },
                        _ => Change::Gap { first_line: line, lost_lines: None, reason: GapReason::Cleared, evidence: GapEvidence::Possible },
                    }).collect();
                    let count = changes.len();
                    prop_assert!(seen.capture(&changes, disturbed) <= count * 40);
                }
            }
        }

        #[test]
        fn a_marker_on_a_line_of_its_own_ends_a_turn() {
            let mut detector = TurnDetector::new(Markers::default());
            let chunk =
                "> then say [Output Complete]\n⏺ It is done.\n\n⏺ [Output Complete]\n".to_owned();
            let turns = detector.update(
                &[Change::Lines {
                    first_line: 1,
                    chunk,
                }],
                ChangeContext::default(),
            );
            assert_eq!(turns[0].line, Some(4));
            assert_eq!(turns[0].summary, "It is done.");
        }
    }
}
