//! Compares captures above the screen with the lines reported since the last agreement (pure).
//!
//! A line that has scrolled off is in tmux's history, and a deep capture shows whether its text is the
//! reported one. Rows of the history keep their positions until it is full, cleared or rewrapped.
//! Therefore the number of one line, at the last agreement, determines the numbers of all.

use std::collections::BTreeMap;

use super::agreement::Anchor;
use super::broken::{has_text, is_blank, join_down, join_up, mend_cut};
use super::difference::Difference;
use super::realign::by_text;
use super::tracker::StreamTracker;
use crate::track::book::Line;
use crate::track::capture::Capture;
use crate::track::lines::LogicalLine;
use crate::track::normal::NormalScreen;

/// The most rows of the history that are compared. Capturing them costs the server a millisecond.
const ROWS_MAX: i64 = 1000;

/// The rows above the newly printed lines that a capture contains, to confirm their position.
const ROWS_ABOVE: i64 = 32;

/// The number of first lines that show whether all lines have kept their positions.
const FIRST_LINES: usize = 3;

/// The lines of a capture, numbered.
#[derive(Clone, Debug)]
pub(super) struct NumberedLines {
    pub first: i64,
    pub lines: Vec<LogicalLine>,
    /// The first lines have their reported texts, so that changes without a byte came after them.
    pub is_sure: bool,
}

impl StreamTracker {
    /// Returns how many rows above the screen a capture must contain for a comparison of all lines
    /// printed since the last agreement.
    pub fn rows_to_compare(&self) -> u32 {
        let since = match self.agreed.anchor {
            Some(anchor) => self.terminal.grid.scrolled.total() - anchor.scrolled,
            None => 0,
        };
        u32::try_from((since.max(0) + ROWS_ABOVE).min(ROWS_MAX)).unwrap_or(0)
    }

    /// Records that stream and tmux agree at this capture.
    pub fn confirm(&mut self, capture: &Capture) {
        let continues = self
            .agreed
            .anchor
            .is_some_and(|anchor| anchor.width == capture.width);
        if capture.alternate {
            // Lines hidden by a full-screen program are compared when it has ended. tmux rewraps their
            // rows then if the width has changed, and no capture shows the width of hidden rows.
            if !continues {
                self.agreed.forget();
            }
            return;
        }
        self.agreed.forget();
        let book = &self.tracker.book;
        // Reported lines on the screen may still change.
        let reported = book.on_screen().filter(|line| line.number < book.next);
        for line in reported {
            self.agreed.bytes += line.text.len() + 1;
            let text = format!("{}\n", line.text);
            self.agreed.reported.push_back((line.number, text));
        }
        // Reported lines below the last text are blank now.
        let blank = (book.next - book.last_number() - 1).min(i64::from(capture.height));
        if let Ok(blank) = usize::try_from(blank)
            && blank > 0
        {
            self.agreed.bytes += blank;
            let text = "\n".repeat(blank);
            self.agreed
                .reported
                .push_back((book.last_number() + 1, text));
        }
        // The same line may have other rows in tmux, whose position counts. In a capture, an empty row
        // at the top may be the end of the line above it.
        let (_, shown) = NormalScreen::of(capture).in_full(capture);
        let whole = shown.iter().skip(usize::from(!capture.is_complete()));
        let in_tmux: Vec<&LogicalLine> = whole.filter(|line| line.end() > 0).take(2).collect();
        let start = |line: &Line| {
            let among = if is_blank(&line.text) { 1 } else { 2 };
            let mut shown = in_tmux.iter().take(among);
            let shown = shown.find(|shown| has_text(&shown.text, &line.text));
            shown.map_or(line.start, |shown| shown.start)
        };
        let top = book.on_screen().filter(|line| !is_blank(&line.text));
        let top = top.map(|line| (line.number, line.text.clone()));
        self.agreed.top = top.take(FIRST_LINES).collect();
        self.agreed.anchor = book.on_screen().next().map(|line| Anchor {
            // A line of which tmux has only the end is at the top of the history.
            row: (i64::from(capture.history_size) + start(line)).max(0),
            number: line.number,
            scrolled: self.terminal.grid.scrolled.total(),
            history: i64::from(self.terminal.grid.scrolled.history.size),
            width: capture.width,
            pid: capture.pid,
        });
    }

    /// Returns true if the text of a captured line differs from the reported one, also above the screen.
    pub fn differs_above_screen(&self, capture: &Capture) -> bool {
        if capture.alternate {
            return false;
        }
        let (_, lines) = NormalScreen::of(capture).in_full(capture);
        let Some(NumberedLines { first, lines, .. }) = self.numbered(capture, lines) else {
            return false;
        };
        self.misread(first, &lines).next().is_some()
    }

    /// Numbers the lines of a capture from the last agreement, if possible. A first line that may begin
    /// above the capture is omitted.
    pub(super) fn numbered(
        &self,
        capture: &Capture,
        mut lines: Vec<LogicalLine>,
    ) -> Option<NumberedLines> {
        let anchor = self.agreed.anchor?;
        if capture.width != anchor.width
            || capture.pid != anchor.pid
            || capture.dead.is_some()
            || self.has_gap
        {
            return None;
        }
        if !capture.is_complete() && lines.len() > 1 {
            lines.remove(0);
        }
        let known = self.known();
        let by_screen = self.same_on_screen(capture, &lines).map(|(at, number)| {
            let mut lines = lines.clone();
            let first = join_up(&mut lines, at, number, &known, capture.width);
            (first, lines)
        });
        let by_row = self.at_agreed_row(capture, anchor, &lines).map(|first| {
            join_down(&mut lines, first, &known, capture.width);
            (first, lines)
        });
        let top: BTreeMap<i64, &str> = self.agreed.top().collect();
        let mend = |(first, mut lines): (i64, Vec<LogicalLine>)| {
            let reported = [&known, &top].map(|texts| texts.get(&first).copied());
            mend_cut(
                &mut lines,
                capture,
                &reported.map(Option::unwrap_or_default),
            );
            let is_sure = false;
            NumberedLines {
                first,
                lines,
                is_sure,
            }
        };
        let (by_row, by_screen) = (by_row.map(mend), by_screen.map(mend));
        // In a cleared history the row proves nothing, and the first lines differ.
        let begins_as = |numbered: &NumberedLines, texts: &BTreeMap<i64, &str>| {
            let (first, lines) = (numbered.first, &numbered.lines);
            let texts = texts.range(first..);
            let texts = texts.filter(|(_, text)| !is_blank(text));
            let mut pairs = texts.take(FIRST_LINES).map(|(number, text)| {
                let line = lines.get(usize::try_from(number - first).ok()?)?;
                // The first line may have been cut in two.
                let begins =
                    !is_blank(&line.text) && text.starts_with(line.text.trim_end_matches(' '));
                Some(has_text(&line.text, text) || begins)
            });
            pairs.any(|same| same == Some(true))
        };
        // Lines that `send-keys -R` scrolls off keep their positions, but the stream, which does not
        // notice, may have overwritten them.
        let begins_as_known =
            |numbered: &NumberedLines| begins_as(numbered, &known) || begins_as(numbered, &top);
        // If the screen's numbers begin before the oldest line at the agreement, tmux has more lines
        // than the stream: only `send-keys -R` adds some. Without a number by row, the comparison still
        // shows that stream and tmux differ.
        let is_too_old = |numbered: &NumberedLines| numbered.first < anchor.oldest_number();
        let has_more = by_row.is_some() && by_screen.as_ref().is_some_and(is_too_old);
        let by_screen = by_screen.filter(|_| !has_more);
        let numbered = match (by_row, by_screen) {
            (_, Some(screen)) if self.may_be_cleared(capture) => Some(screen),
            (Some(row), Some(screen)) if !begins_as_known(&row) && begins_as_known(&screen) => {
                Some(screen)
            }
            // The history may have been cleared, and `send-keys -R`, which no byte shows, may have added
            // rows since, so the row proves nothing.
            (Some(row), None) if !begins_as_known(&row) && self.may_be_cleared(capture) => None,
            (Some(row), _) => Some(row),
            (None, screen) => screen,
        };
        let is_sure = |numbered: &NumberedLines| {
            let mut texts = known.range(numbered.first..);
            has_more || begins_as_known(numbered) || texts.all(|(_, text)| is_blank(text))
        };
        numbered.map(|numbered| NumberedLines {
            is_sure: is_sure(&numbered),
            ..numbered
        })
    }

    /// Numbers the lines of a capture by their texts alone.
    pub(super) fn numbered_by_text(
        &self,
        capture: &Capture,
        mut lines: Vec<LogicalLine>,
    ) -> Option<NumberedLines> {
        if !self.is_compared(capture) {
            return None;
        }
        if !capture.is_complete() && lines.len() > 1 {
            lines.remove(0);
        }
        let known = self.known();
        let oldest = self.agreed.anchor.map_or(i64::MIN, Anchor::oldest_number);
        let found = by_text(&known, oldest, &lines, capture.is_complete())?;
        let first = join_up(&mut lines, found.at, found.number, &known, capture.width);
        join_down(&mut lines, first, &known, capture.width);
        let reported = known.get(&first).copied().unwrap_or_default();
        mend_cut(&mut lines, capture, &[reported]);
        let is_sure = found.is_sure;
        Some(NumberedLines {
            first,
            lines,
            is_sure,
        })
    }

    /// Numbers the lines of a capture after the last known line, because none has its reported text.
    pub(super) fn numbered_after_last(
        &self,
        capture: &Capture,
        lines: Vec<LogicalLine>,
    ) -> Option<NumberedLines> {
        let last = self.tracker.book.last_number();
        let is_reported = self.known().get(&last).is_some_and(|text| !is_blank(text));
        self.is_compared(capture).then_some(NumberedLines {
            first: last + i64::from(is_reported),
            lines,
            is_sure: false,
        })
    }

    /// Returns true if a capture shows the same program at the same width as the last agreement.
    fn is_compared(&self, capture: &Capture) -> bool {
        let is_same = self
            .agreed
            .anchor
            .is_some_and(|anchor| capture.width == anchor.width && capture.pid == anchor.pid);
        let is_followed = !self.has_gap && !self.respawn_pending;
        is_same && is_followed && !capture.alternate && capture.dead.is_none()
    }

    /// Returns true if tmux's history is more than a screen shorter than the stream's, so that it may
    /// have been cleared.
    fn may_be_cleared(&self, capture: &Capture) -> bool {
        let stream = self.terminal.grid.scrolled.history.size;
        capture.history_size + capture.height < stream
    }

    /// Returns the number of the first line, from the row of a line at the last agreement. `None` if the
    /// history may have been trimmed or cleared since.
    fn at_agreed_row(
        &self,
        capture: &Capture,
        anchor: Anchor,
        lines: &[LogicalLine],
    ) -> Option<i64> {
        let row = anchor.row - i64::from(capture.history_size);
        // The row may be above the capture by now.
        let at = lines.iter().position(|line| line.end() > row)?;
        let tmux = i64::from(capture.history_size);
        let room = i64::from(capture.history_limit.saturating_sub(capture.trim_step()));
        let grown = self.terminal.grid.scrolled.total() - anchor.scrolled;
        let is_trimmed = tmux.max(anchor.row + grown + i64::from(capture.height)) >= room;
        // The program or a tmux command may have cleared the history.
        let history = i64::from(self.terminal.grid.scrolled.history.size);
        let is_cleared = history != anchor.history + grown || tmux < anchor.row;
        let is_known = lines[at].start <= row && !is_trimmed && !is_cleared;
        is_known.then(|| anchor.number - at as i64)
    }

    /// Returns the index and the number of a line on the screen, if the screens are equal. It is the
    /// last line that is not blank, because a capture does not show whether empty rows belong to the
    /// line above.
    fn same_on_screen(&self, capture: &Capture, lines: &[LogicalLine]) -> Option<(usize, i64)> {
        let same = matches!(
            self.difference(capture),
            None | Some(Difference::History { .. })
        );
        let shown = lines
            .iter()
            .rposition(|line| line.end() > 0 && !is_blank(&line.text));
        let at = shown.or_else(|| lines.iter().position(|line| line.end() > 0))?;
        let mut on_screen = self.tracker.book.on_screen();
        let known = match shown {
            Some(_) => on_screen.filter(|line| !is_blank(&line.text)).last(),
            None => on_screen.next(),
        };
        let number = known?.number;
        (same && !capture.alternate).then_some((at, number))
    }

    /// Returns all held or known lines by number, with their last texts.
    fn known(&self) -> BTreeMap<i64, &str> {
        self.agreed
            .lines()
            .chain(self.tracker.book.lines())
            .collect()
    }

    /// Returns the captured lines whose text differs from the reported or known one.
    pub(super) fn misread<'a>(
        &'a self,
        first: i64,
        lines: &'a [LogicalLine],
    ) -> impl Iterator<Item = (i64, &'a str)> {
        let known = self.tracker.book.lines();
        let oldest_known = self.tracker.book.oldest_known();
        let reported = self
            .agreed
            .lines()
            .filter(move |line| line.0 < oldest_known);
        reported.chain(known).filter_map(move |(number, reported)| {
            let line = lines.get(usize::try_from(number - first).ok()?)?;
            (!has_text(&line.text, reported)).then_some((number, &*line.text))
        })
    }
}
