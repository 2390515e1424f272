//! Divides captured lines where the stream has cut them, so that only their last piece is compared (pure).
//!
//! A line of more than [`LINE_BYTES_MAX`] is reported in pieces, each numbered as a line, but tmux joins its
//! rows. An earlier piece has scrolled off and is final. Therefore a capture speaks only for the lines from
//! the last piece on.

use super::super::align::Footprint;
use super::super::capture::Capture;
use super::super::lines::LogicalLine;
use super::super::tracker::NormalScreen;
use super::grid::{Foreign, Head, LINE_BYTES_MAX};
use super::tracker::StreamTracker;

/// The lines of a capture from the last piece on, if it shows that.
#[derive(Clone, Debug)]
pub(super) struct CapturedLines {
    pub lines: Vec<LogicalLine>,
    /// The first line may lack its beginning, because tmux or the capture does. After a resize, no number
    /// shows whether tmux has trimmed its history.
    pub is_cut: bool,
}

impl CapturedLines {
    /// Returns the lines without a first one of which the capture lacks the beginning. What tmux itself
    /// lacks is restored later.
    pub fn whole(&self, capture: &Capture) -> Vec<LogicalLine> {
        let without = usize::from(self.without_beginning(capture).is_some());
        self.lines[without..].to_vec()
    }

    /// Returns the first line if the capture lacks its beginning.
    pub fn without_beginning(&self, capture: &Capture) -> Option<&LogicalLine> {
        let is_short = self.is_cut && !capture.is_complete();
        self.lines.first().filter(|_| is_short)
    }
}

impl StreamTracker {
    /// Returns the lines of a capture that can be compared with those of the stream.
    pub(super) fn captured(&self, capture: &Capture) -> (Footprint, CapturedLines) {
        let capture = &*capture.connected();
        let normal = NormalScreen::of(capture);
        let (footprint, mut lines) = normal.in_full(capture);
        let row = |row: i64| {
            let at = usize::try_from(row + footprint.history_rows).ok()?;
            normal.rows.get(at)
        };
        let is_divided = self.divide(capture, &footprint, &mut lines, |line, bytes| {
            // The last rows with this number of bytes.
            let mut rest = bytes;
            let mut start = line.end();
            while rest > 0 && start > line.start {
                start -= 1;
                rest = rest.saturating_sub(row(start).map_or(0, |row| row.text.len()));
            }
            start
        });
        let is_cut = !is_divided;
        (footprint, CapturedLines { lines, is_cut })
    }

    /// Removes what tmux shows of earlier pieces, and returns true if it shows some. `start_of` returns
    /// the row in which the last bytes of a line begin.
    fn divide(
        &self,
        capture: &Capture,
        footprint: &Footprint,
        lines: &mut Vec<LogicalLine>,
        start_of: impl Fn(&LogicalLine, usize) -> i64,
    ) -> bool {
        let Some(number) = self.tracker.book.last_piece() else {
            return false;
        };
        // A shorter line has no earlier piece, unless its beginning is missing.
        let is_long =
            |(at, line): &(usize, &LogicalLine)| *at == 0 || line.text.len() >= LINE_BYTES_MAX;
        let long: Vec<usize> = (lines.iter().enumerate().rev())
            .filter(is_long)
            .map(|(at, _)| at)
            .collect();
        let Some(text) = self.text_of(number) else {
            // The last piece is above all known lines.
            let last = long
                .iter()
                .find(|at| lines[**at].text.len() >= LINE_BYTES_MAX);
            lines.drain(..last.map_or(0, |last| last + 1));
            return last.is_some();
        };
        let ends_so = |at: &&usize| {
            let line = lines[**at].text.trim_end_matches(' ');
            let text = text.trim_end_matches(' ');
            !text.is_empty() && line.len() > text.len() && line.ends_with(text)
        };
        if let Some(&at) = long.iter().find(ends_so) {
            let line = &mut lines[at];
            let shown = line.text.trim_end_matches(' ').len();
            line.text.drain(..shown - text.trim_end_matches(' ').len());
            let start = start_of(line, line.text.len());
            let known = self.tracker.book.line(number);
            let same_width = capture.width as usize == self.terminal.width();
            // The stream counts rows that it shares with the earlier piece, too.
            let start = match known {
                Some(known) if same_width => start.min(known.start),
                _ => start,
            };
            (line.start, line.rows) = (start, line.end() - start);
            lines.drain(..at);
            return true;
        }
        // tmux has another text, as after a resize that damaged rows. The stream has all bytes.
        let at_cursor = lines
            .iter()
            .rposition(|line| line.start <= footprint.cursor_row);
        let at = at_cursor.and_then(|at| {
            let below = usize::try_from(self.tracker.book.cursor_line - number).ok()?;
            at.checked_sub(below)
        });
        let Some(at) = at.filter(|at| long.contains(at) && lines[*at].text.len() > text.len())
        else {
            return false;
        };
        let line = &mut lines[at];
        let start = start_of(line, text.len());
        (line.start, line.rows) = (start, line.end() - start);
        text.clone_into(&mut line.text);
        lines.drain(..at);
        true
    }

    /// Returns the text of a known line.
    fn text_of(&self, number: i64) -> Option<&str> {
        let known = self.tracker.book.line(number);
        let recent = || self.recent.iter().rfind(|(recent, _)| *recent == number);
        known
            .map(|line| &*line.text)
            .or_else(|| recent().map(|(_, text)| &**text))
    }

    /// Returns what the rows of a screen do not show of its topmost line, and what they show besides it.
    pub(super) fn head_at(&self, capture: &Capture) -> Option<Head> {
        if capture.alternate {
            return None;
        }
        let book = &self.tracker.book;
        let line = book.on_screen().next()?;
        let screen = &capture.rows[capture.history_rows()..];
        let end = usize::try_from(line.end()).ok()?.min(screen.len());
        let before = usize::try_from(line.start).unwrap_or(0).min(end);
        let is_piece = book.last_piece() == Some(line.number);
        // Rows of an earlier piece may be on the screen again, above or in the first row of this one.
        let is_joined = is_piece && screen[..before].iter().all(|row| row.wrapped);
        if line.start >= 0 && !is_joined {
            return None;
        }
        let shown: String = screen[..end].iter().map(|row| &*row.text).collect();
        // A beginning keeps the blanks at its end.
        let (text, shown) = if line.text.ends_with(&*shown) {
            (&*line.text, &*shown)
        } else {
            (line.text.trim_end_matches(' '), shown.trim_end_matches(' '))
        };
        let own = common_end(text, shown);
        let (beginning, foreign) = (&text[..text.len() - own], &shown[..shown.len() - own]);
        let is_needed = line.start < 0 || !beginning.is_empty() || !foreign.is_empty();
        is_needed.then(|| Head {
            text: beginning.to_owned(),
            rows: u32::try_from(-line.start).unwrap_or(0),
            foreign: Foreign::between(beginning, foreign),
        })
    }
}

/// Returns the number of bytes at the end that two texts have in common.
fn common_end(one: &str, other: &str) -> usize {
    let pairs = one.chars().rev().zip(other.chars().rev());
    let same = pairs.take_while(|(one, other)| one == other);
    same.map(|(one, _)| one.len_utf8()).sum()
}
