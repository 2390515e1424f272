//! Determines the lines and the parts of lines for which a capture may speak (pure).
//!
//! A line of more than [`LINE_BYTES_MAX`] is reported in pieces, each numbered as a line, but tmux joins its
//! rows. An earlier piece has scrolled off and is final. Therefore a capture speaks only for the lines from
//! the last piece on.
//!
//! Without a history, tmux loses rows at a resize, and shows earlier ones above those that it has kept. The stream has
//! all bytes. Therefore a capture speaks only for the rows that it has kept, and not for those above.

use super::super::align::Footprint;
use super::super::capture::{Capture, Row};
use super::super::lines::{LogicalLine, group};
use super::super::tracker::NormalScreen;
use super::grid::{ALL_FOREIGN, GridRow, Head, LINE_BYTES_MAX};
use super::tracker::{Difference, StreamTracker, has_text, is_blank};

/// The lines of a capture from the last piece on, if it shows that.
#[derive(Clone, Debug)]
pub(super) struct CapturedLines {
    pub lines: Vec<LogicalLine>,
    /// The first line may lack its beginning, because tmux or the capture does. After a resize, no number
    /// shows whether tmux has trimmed its history.
    pub is_cut: bool,
    /// The number of the first line, if rows have moved although the size is the same.
    pub first: Option<i64>,
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
        if let Some(captured) = self.without_lost_rows(capture, &footprint, &lines) {
            return (footprint, captured);
        }
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
        let captured = CapturedLines {
            lines,
            is_cut,
            first: None,
        };
        (footprint, captured)
    }

    /// Returns the lines of a pane without a history in which a resize has damaged rows, or may have.
    fn without_lost_rows(
        &self,
        capture: &Capture,
        footprint: &Footprint,
        lines: &[LogicalLine],
    ) -> Option<CapturedLines> {
        let tracker = &self.tracker;
        let continues = capture.pid == tracker.pid && !self.respawn_pending && !self.has_gap;
        let is_alive = capture.dead.is_none() && !capture.alternate;
        if capture.history_limit > 0 || !continues || !is_alive {
            return None;
        }
        let from_bytes = || self.up_to_lost_rows(footprint, lines);
        let captured = |lines, first| CapturedLines {
            lines,
            is_cut: false,
            first,
        };
        let terminal = &self.terminal;
        if (terminal.width(), terminal.height())
            != (capture.width as usize, capture.height as usize)
        {
            return from_bytes().map(|(_, lines)| captured(lines, None));
        }
        if terminal.normal_rows().iter().any(|row| row.foreign > 0) {
            let as_before = self.as_the_stream(capture, footprint);
            let as_before = as_before.map(|lines| captured(lines, None));
            return as_before
                .or_else(|| from_bytes().map(|(first, lines)| captured(lines, Some(first))));
        }
        // A resize that was over before the capture has lost the beginning of a line.
        let are_rows_other = matches!(self.difference(capture), Some(Difference::Row { .. }));
        let (first, own) = are_rows_other.then(from_bytes).flatten()?;
        let shown = lines[lines.len() - own.len()].text.trim_end_matches(' ');
        let is_end = !shown.is_empty() && own[0].text.trim_end_matches(' ').ends_with(shown);
        is_end.then(|| captured(own, Some(first)))
    }

    /// Returns the captured lines, divided as those of the stream, if the rows that are no part of them are the same.
    fn as_the_stream(&self, capture: &Capture, footprint: &Footprint) -> Option<Vec<LogicalLine>> {
        let terminal = &self.terminal;
        let (clusters, width) = (&terminal.grid.clusters, terminal.width());
        let own = |(grid_row, row): (&GridRow, &Row)| {
            let foreign = grid_row.foreign_bytes(clusters, width);
            let is_same = || has_text(&row.text, &grid_row.row(clusters, width).text);
            let text = match foreign {
                0 => row.text.clone(),
                _ if !is_same() => return None,
                foreign => row.text.get(foreign..).unwrap_or_default().to_owned(),
            };
            let wrapped = row.wrapped || foreign == ALL_FOREIGN;
            Some(Row { text, wrapped })
        };
        let rows = terminal.normal_rows().iter().zip(&capture.rows);
        let rows = rows.take(usize::try_from(footprint.used).unwrap_or(0));
        let rows: Vec<Row> = rows.map(own).collect::<Option<_>>()?;
        let mut lines = group(&rows, 0);
        if let (Some((head, head_rows)), Some(first)) =
            (terminal.grid.scrolled.open(), lines.first_mut())
        {
            first.text.insert_str(0, head);
            (first.start, first.rows) = (first.start - head_rows, first.rows + head_rows);
        }
        Some(lines)
    }

    /// Returns the lines from the last one on that tmux does not have as the stream, which has the stream's text, and
    /// its number. All rows above it count as its rows.
    fn up_to_lost_rows(
        &self,
        footprint: &Footprint,
        lines: &[LogicalLine],
    ) -> Option<(i64, Vec<LogicalLine>)> {
        let mut above = lines
            .iter()
            .rposition(|line| line.start <= footprint.cursor_row);
        let mut number = self.tracker.book.cursor_line;
        loop {
            let at = above?;
            let text = self.text_of(number)?;
            above = at.checked_sub(1);
            number -= 1;
            let is_same = has_text(&lines[at].text, text);
            // A line between two equal ones is the known one.
            let is_between = || {
                let pair = above.map(|at| &*lines[at].text).zip(self.text_of(number));
                pair.is_some_and(|(shown, text)| !is_blank(text) && has_text(shown, text))
            };
            if is_same || is_between() {
                continue;
            }
            let mut lines = lines[at..].to_vec();
            let line = &mut lines[0];
            (line.start, line.rows) = (0, line.end());
            text.clone_into(&mut line.text);
            return Some((number + 1, lines));
        }
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
        let may_lack_rows = capture.history_limit == 0 && line.start == 0;
        if line.start >= 0 && !is_joined && !may_lack_rows {
            return None;
        }
        // Without a history, rows that tmux has lost may have been between rows that it does not join.
        let ends_above = |row: &Row| capture.history_limit == 0 && !row.wrapped;
        let above = screen[..end.saturating_sub(1)].iter().rposition(ends_above);
        let first = above.map_or(0, |above| above + 1);
        let shown: String = screen[first..end].iter().map(|row| &*row.text).collect();
        // A beginning keeps the blanks at its end.
        let (text, shown) = if line.text.ends_with(&*shown) {
            (&*line.text, &*shown)
        } else {
            (line.text.trim_end_matches(' '), shown.trim_end_matches(' '))
        };
        let own = common_end(text, shown);
        let beginning = &text[..text.len() - own];
        let mut foreign = vec![ALL_FOREIGN; first];
        let mut left = shown.len() - own;
        for (row, at) in screen[first..end].iter().zip(first + 1..) {
            let is_all = left >= row.text.len() && at < end;
            match left {
                0 => break,
                _ if is_all => foreign.push(ALL_FOREIGN),
                left => foreign.push(left),
            }
            left = left.saturating_sub(row.text.len());
        }
        let is_needed = line.start < 0 || !beginning.is_empty() || !foreign.is_empty();
        is_needed.then(|| Head {
            text: beginning.to_owned(),
            rows: u32::try_from(-line.start).unwrap_or(0),
            foreign,
        })
    }
}

/// Returns the number of bytes at the end that two texts have in common.
fn common_end(one: &str, other: &str) -> usize {
    let pairs = one.chars().rev().zip(other.chars().rev());
    let same = pairs.take_while(|(one, other)| one == other);
    same.map(|(one, _)| one.len_utf8()).sum()
}
