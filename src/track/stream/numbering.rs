//! Compares captures above the screen with the lines reported since the last agreement (pure).
//!
//! A line that has scrolled off is in tmux's history, and a deep capture shows whether its text is the
//! reported one. Rows of the history keep their positions until it is full, cleared or rewrapped.
//! Therefore the number of one line, at the last agreement, determines the numbers of all.

use std::collections::{BTreeMap, HashMap};

use super::super::align::Footprint;
use super::super::align::place;
use super::super::book::{Line, Moved};
use super::super::capture::Capture;
use super::super::lines::LogicalLine;
use super::super::tracker::NormalScreen;
use super::agreement::Anchor;
use super::pieces::CapturedLines;
use super::tracker::{Difference, StreamTracker, has_text, is_blank, join_down, join_up, mend_cut};
use crate::event::Cursor;

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
            Some(anchor) => self.terminal.grid.scrolled.total - anchor.scrolled,
            None => 0,
        };
        // 32 rows above the newly printed lines confirm their position. Capturing 1,000 rows costs the server
        // a millisecond.
        u32::try_from((since.max(0) + 32).min(1000)).unwrap_or(0)
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
            scrolled: self.terminal.grid.scrolled.total,
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
        let (_, lines) = self.captured(capture);
        let Some(NumberedLines { first, lines, .. }) = self.numbered(capture, &lines) else {
            return false;
        };
        self.misread(first, &lines).next().is_some()
    }

    /// Numbers the lines of a capture from the last agreement, if possible. A first line that may begin
    /// above the capture is omitted.
    pub(super) fn numbered(
        &self,
        capture: &Capture,
        lines: &CapturedLines,
    ) -> Option<NumberedLines> {
        let anchor = self.agreed.anchor?;
        if capture.width != anchor.width
            || capture.pid != anchor.pid
            || capture.dead.is_some()
            || self.has_gap
        {
            return None;
        }
        let mut lines = lines.whole(capture);
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
        lines: &CapturedLines,
    ) -> Option<NumberedLines> {
        if !self.is_compared(capture) {
            return None;
        }
        let mut lines = lines.whole(capture);
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
        let grown = self.terminal.grid.scrolled.total - anchor.scrolled;
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
            // A first line without its beginning is not compared.
            None => on_screen.nth(usize::from(lines[at].start > 0)),
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

// Compares a capture's lines with those of the stream to number them (pure).

/// The numbers of the lines of a capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    /// The number of the first line.
    pub first: i64,
    /// The number of the first line that is certainly the known one of that number.
    pub known_from: i64,
    pub moved: Moved,
}

impl Placement {
    /// Gives the cursor's line this number. Lines above it are unknown.
    pub fn of_cursor(number: i64, at_cursor: i64) -> Self {
        Self {
            first: number - at_cursor,
            known_from: number,
            moved: Moved::Unknown,
        }
    }
}

/// The lines of a capture and those of the stream.
pub(super) struct LineComparison<'a> {
    stream: &'a StreamTracker,
    capture: &'a Capture,
    lines: &'a [LogicalLine],
    /// The first line may lack its beginning in the capture.
    is_cut: bool,
    /// The stream's lines, in order.
    known: Vec<(i64, &'a str)>,
    /// The index of the capture's line that contains the cursor.
    pub at_cursor: i64,
    /// Another program runs in the pane. No byte shows that tmux has erased the screen and moved the
    /// cursor to its top, so that in the stream the first line of the new program continues the last
    /// one of the old.
    pub respawned: bool,
}

impl<'a> LineComparison<'a> {
    pub fn new(
        stream: &'a StreamTracker,
        capture: &'a Capture,
        CapturedLines { lines, is_cut, .. }: &'a CapturedLines,
        footprint: &Footprint,
    ) -> Self {
        let book = &stream.tracker.book;
        let oldest = book.oldest_known();
        let older = stream.recent.iter().filter(|(number, _)| *number < oldest);
        let older = older.map(|(number, text)| (*number, text.as_str()));
        let at_cursor = match capture.dead {
            // tmux has moved the cursor, which was below the last text.
            Some(_) => lines
                .iter()
                .rposition(|line| !line.text.trim_end().is_empty())
                .map(|last| last + 1),
            None => lines
                .iter()
                .rposition(|line| line.start <= footprint.cursor_row),
        };
        Self {
            stream,
            capture,
            lines,
            is_cut: *is_cut && capture.pid == stream.tracker.pid,
            known: older.chain(book.lines()).collect(),
            at_cursor: at_cursor.unwrap_or(0) as i64,
            respawned: capture.pid != stream.tracker.pid && !stream.respawn_pending,
        }
    }

    pub fn cursor_line(&self) -> i64 {
        self.stream.tracker.book.cursor_line
    }

    /// Returns the text of the stream's cursor line.
    pub fn cursor_text(&self) -> &'a str {
        self.text(self.cursor_line()).unwrap_or_default()
    }

    pub fn has_cursor_text(&self) -> bool {
        !self.cursor_text().trim_end().is_empty()
    }

    fn text(&self, number: i64) -> Option<&'a str> {
        let at = self.known.binary_search_by_key(&number, |line| line.0);
        at.ok().map(|at| self.known[at].1)
    }

    /// Numbers the lines: unchanged, from the stream's cursor line, by the size of the history, or by
    /// the only position that matches the last known lines.
    pub fn placement(&self, difference: Option<&Difference>) -> Option<Placement> {
        let book = &self.stream.tracker.book;
        let history = self.stream.terminal.grid.scrolled.history;
        if self.stream.keeps_rows(self.capture, difference) {
            let first = book.first_number(self.lines, 0);
            return Some(Placement {
                first,
                known_from: first,
                moved: Moved::By(0),
            });
        }
        let cursor_line = self.cursor_line();
        let is_alive = self.capture.dead.is_none();
        let fits_at_cursor = |number| self.fits(number - self.at_cursor, cursor_line);
        let at_cursor = match (is_alive, self.respawned) {
            (true, _) => fits_at_cursor(cursor_line),
            // Below the last line, if that is the last known one, even if it has no end.
            (false, true) => {
                fits_at_cursor(cursor_line + i64::from(self.has_cursor_text())).filter(|at| at.1)
            }
            // tmux has moved the cursor itself, which proves nothing.
            (false, false) => None,
        };
        if let Some((place, _)) = at_cursor {
            return Some(place);
        }
        if self.respawned {
            return None;
        }
        let by_history = || {
            let grown = i64::from(self.capture.history_size) - i64::from(history.size);
            let same_width = self.capture.width as usize == self.stream.terminal.width();
            same_width.then(|| book.first_number(self.lines, grown))
        };
        let by_text = || {
            let above = self.known.iter().copied();
            let above: Vec<_> = above.filter(|line| line.0 < cursor_line).collect();
            place(&above, self.lines, |_| true)
        };
        // Without the cursor, its line may end with text that tmux wrote itself.
        let fits = |first: i64| {
            let (place, is_proved) = self.fits(first, cursor_line - 1)?;
            let goes_back = is_alive && first + self.at_cursor < cursor_line;
            (is_proved && !goes_back).then_some(place)
        };
        by_history()
            .and_then(fits)
            .or_else(|| by_text().and_then(fits))
    }

    /// Returns true if tmux has left the cursor's line in the history and moved the cursor to the top
    /// of the screen, as it does when rewrapped rows push the cursor off the screen.
    pub fn is_left_above(&self, place: Option<Placement>) -> bool {
        let at_top = self.capture.cursor == Cursor::default() && self.capture.dead.is_none();
        place.is_some_and(|place| {
            let mut below = self.cursor_line() + 1 - place.first..=self.at_cursor;
            at_top && !below.is_empty() && below.all(|at| self.is_blank(at))
        })
    }

    /// Numbers the lines from `first` on, if they equal the known ones from number `last` upwards. Also
    /// returns true if any such line is not blank.
    fn fits(&self, first: i64, last: i64) -> Option<(Placement, bool)> {
        let last = (last - first).min(self.lines.len() as i64 - 1);
        let mut known_from = first + last.max(0);
        let mut is_proved = false;
        for at in (0..=last).rev() {
            match self.is_same(first, at) {
                None => break,
                Some(true) => is_proved |= !self.is_blank(at),
                // The new program began here.
                Some(false) if self.respawned && self.ends_known(first + at, at) => {
                    (known_from, is_proved) = (first + at, true);
                    break;
                }
                Some(false) if !is_proved => return None,
                // A line between two equal lines is the known one, even if its text differs.
                Some(false) => {
                    let above = at - 1;
                    let is_between =
                        !self.is_blank(above) && self.is_same(first, above) == Some(true);
                    if self.respawned || !is_between {
                        break;
                    }
                }
            }
            known_from = first + at;
        }
        let place = Placement {
            first,
            known_from,
            moved: Moved::Unknown,
        };
        Some((place, is_proved))
    }

    /// Returns true if all known lines are equal there.
    pub fn is_whole(&self, place: Placement) -> bool {
        let last = (self.cursor_line() - place.first).min(self.lines.len() as i64 - 1);
        let mut is_proved = self
            .known
            .iter()
            .all(|(_, text)| text.trim_end().is_empty());
        for at in 0..=last {
            match self.is_same(place.first, at) {
                None => {}
                Some(true) => is_proved |= !self.is_blank(at),
                Some(false) => return false,
            }
        }
        is_proved
    }

    /// Compares a captured line with the known one. Returns `None` if either is missing.
    fn is_same(&self, first: i64, at: i64) -> Option<bool> {
        let is_same = self.text(first + at)?.trim_end() == self.line(at)?.trim_end();
        Some(is_same || at == 0 && self.is_cut && self.is_end_of(first))
    }

    /// Returns true if the first line of the capture is the end of the known one.
    fn is_end_of(&self, number: i64) -> bool {
        let (shown, known) = (self.line(0), self.text(number));
        let (Some(shown), Some(known)) = (shown, known) else {
            return false;
        };
        let (shown, known) = (shown.trim_end(), known.trim_end());
        !shown.is_empty() && known.ends_with(shown)
    }

    /// Returns the whole first line, if the capture lacks some of it and its rows do not show how much: they
    /// have moved, or the line is a piece, which may share its first row with the piece before it.
    pub fn restored(&self, place: Placement) -> Option<String> {
        let is_piece = self.stream.tracker.book.last_piece() == Some(place.first);
        let is_unclear = is_piece || !matches!(place.moved, Moved::By(_));
        let known = self
            .text(place.first)
            .filter(|_| self.is_cut && is_unclear)?;
        let is_shown = self.line(0)?.trim_end() == known.trim_end();
        (!is_shown && self.is_end_of(place.first)).then(|| known.to_owned())
    }

    /// Returns true if a line of the capture is the end of the known one.
    fn ends_known(&self, number: i64, at: i64) -> bool {
        let line = self.line(at).unwrap_or_default().trim_end();
        let known = self.text(number).unwrap_or_default().trim_end();
        !line.is_empty() && known.ends_with(line)
    }

    fn is_blank(&self, at: i64) -> bool {
        self.line(at).is_none_or(|line| line.trim_end().is_empty())
    }

    fn line(&self, at: i64) -> Option<&'a str> {
        let line = self.lines.get(usize::try_from(at).ok()?)?;
        Some(&line.text)
    }
}

/// Returns true if a capture shows another screen, or one of another size.
pub(super) fn is_another_size(difference: Option<&Difference>) -> bool {
    matches!(difference, Some(Difference::Size | Difference::Screen))
}

// Numbers a capture's lines by their texts, where neither a row nor the screen determines them (pure).
//
// Some events move every line without a byte: `send-keys -R` scrolls a screen off, and
// `clear-history` removes the rows from which others are counted. After both, the stream has
// overwritten lines that tmux still has. Up to that event the stream is right: the first of tmux's lines
// match the reported ones, which determines all numbers. If they do not match, most of the equal lines
// decide, and a possible gap marks the uncertainty.

/// The number of a line, by texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByText {
    /// The index of a line that has its reported text.
    pub at: usize,
    pub number: i64,
    /// The first lines determine it unambiguously.
    pub is_sure: bool,
}

/// Finds the position at which the greatest number of the first `lines` have their reported texts or, if
/// none of these have, the greatest number of all lines. Of several positions, it returns the last. No
/// number is less than `oldest`. If the first line `is_cut`, tmux may have only its end.
fn by_text(
    known: &BTreeMap<i64, &str>,
    oldest: i64,
    lines: &[LogicalLine],
    is_cut: bool,
) -> Option<ByText> {
    let mut places: HashMap<&str, Vec<i64>> = HashMap::new();
    for (number, text) in known {
        places.entry(text.trim_end()).or_default().push(*number);
    }
    // For each number of the first line: how many lines are equal, and the index of the first of them.
    let mut same: BTreeMap<i64, (usize, usize)> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        let text = line.text.trim_end();
        let numbers = places.get(text).filter(|numbers| {
            let is_blank = text.is_empty();
            // A text of more lines does not determine a position.
            !is_blank && numbers.len() <= 64
        });
        let numbers = numbers.into_iter().flatten();
        for number in numbers.filter(|number| *number - at as i64 >= oldest) {
            same.entry(number - at as i64).or_insert((0, at)).0 += 1;
        }
    }
    let at_top = |first: i64| same_at_top(known, first, lines, is_cut);
    let (top, _) = same
        .keys()
        .map(|first| (at_top(*first), *first))
        .max()
        // Two lines at the top must have their reported texts to determine the position.
        .filter(|(top, _)| *top >= 2)
        .unwrap_or_default();
    let candidates = same
        .iter()
        .filter(|(first, _)| top == 0 || at_top(**first) == top);
    let (&first, &(_, at)) = candidates.clone().max_by_key(|(_, (count, _))| *count)?;
    Some(ByText {
        at,
        number: first + at as i64,
        is_sure: top > 0 && candidates.count() == 1,
    })
}

/// Returns how many of the first known lines have their reported texts, without blank ones.
fn same_at_top(
    known: &BTreeMap<i64, &str>,
    first: i64,
    lines: &[LogicalLine],
    is_cut: bool,
) -> usize {
    let pairs = (first..).zip(lines).filter_map(|(number, line)| {
        let (reported, text) = (known.get(&number)?.trim_end(), line.text.trim_end());
        let is_end = is_cut && number == first && !text.is_empty() && reported.ends_with(text);
        (!reported.is_empty() || !text.is_empty()).then_some(is_end || reported == text)
    });
    pairs.take_while(|same| *same).count()
}

#[cfg(test)]
mod tests {

    use super::*;

    fn lines(texts: &[&str]) -> Vec<LogicalLine> {
        let line = |(start, text): (i64, &&str)| LogicalLine {
            start,
            rows: 1,
            head: 0,
            text: (*text).to_owned(),
        };
        (0..).zip(texts).map(line).collect()
    }

    fn known(first: i64, texts: &[&'static str]) -> BTreeMap<i64, &'static str> {
        (first..).zip(texts.iter().copied()).collect()
    }

    #[test]
    fn most_equal_texts_determine_the_place() {
        let reported = known(19, &["cc a", "mixed", "", "x", "cc b", "cc c", "-"]);
        let shown = lines(&["cc d", "", "", "cc b", "cc c", "-", "", "done"]);
        let place = ByText {
            at: 3,
            number: 23,
            is_sure: false,
        };
        assert_eq!(by_text(&reported, 1, &shown, true), Some(place));
        assert_eq!(by_text(&reported, 1, &lines(&["", "other"]), true), None);
    }

    #[test]
    fn repeated_lines_alone_do_not_determine_the_place() {
        let reported = known(1, &["ok", "ok", "ok"]);
        let place = by_text(&reported, 1, &lines(&["ok"]), false);
        let place = place.map(|place| (place.number, place.is_sure));
        assert_eq!(place, Some((3, false)));
    }

    #[test]
    fn the_first_lines_determine_the_place() {
        let reported = known(1, &["cc one", "cc b", "", "mixed", "x", "y", "z"]);
        // One line more than reported, so that most of them have moved.
        let shown = lines(&["one", "cc b", "", "right", "more", "x", "y", "z"]);
        let place = by_text(&reported, 1, &shown, true);
        let first = place.map(|place| (place.number - place.at as i64, place.is_sure));
        assert_eq!(first, Some((1, true)));
        // Not the end of the line, but another one.
        let place = by_text(&reported, 1, &shown, false);
        assert!(place.is_some_and(|place| !place.is_sure));
    }
}
