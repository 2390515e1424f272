//! Aligns the rows of the last capture with those of the next one (pure).
//!
//! tmux has no counter of scrolled rows. The alignment relies on the size of the history, which counts
//! rows exactly until it first fills and modulo a tenth of its limit afterwards; on the text; and on
//! the bytes that the server read, an upper bound of the printed text. An alignment counts only if it
//! is the only possible one; otherwise the result is a gap, never a guess.

use super::capture::Row;
use super::change::{GapReason, Loss};
use super::lines::{BLANK, LogicalLine, fewest_bytes, fingerprint, overlaps, used_rows};

/// Rows of history that are kept for alignment. tmux trims 200 at a time with its default limit, and
/// text that repeats within 200 rows is rare.
pub(super) const KEPT_ROWS: usize = 200;

/// The rows of one capture, reduced to fingerprints.
#[derive(Clone, Debug, Default)]
pub(super) struct Footprint {
    pub height: i64,
    pub history_size: i64,
    pub cursor_row: i64,
    /// Fingerprints, history first.
    pub rows: Vec<u64>,
    /// The number of rows that are history.
    pub history_rows: i64,
    /// Rows of the screen in use.
    pub used: i64,
    /// The capture has the greatest depth.
    pub deepest: bool,
}

impl Footprint {
    pub fn new(rows: &[Row], height: usize, history_size: u32, cursor_row: u32) -> Self {
        let history_rows = rows.len().saturating_sub(height);
        Self {
            height: height as i64,
            history_size: i64::from(history_size),
            cursor_row: i64::from(cursor_row).min(height as i64 - 1),
            used: used_rows(&rows[history_rows..], cursor_row as usize) as i64,
            rows: rows.iter().map(fingerprint).collect(),
            history_rows: history_rows as i64,
            deepest: history_rows >= history_size as usize,
        }
    }

    /// Returns true if screen, cursor and size of the history are unchanged.
    pub fn shows_same_as(&self, old: &Self) -> bool {
        let screen = |footprint: &Self| footprint.rows.len().saturating_sub(self.height as usize);
        (self.height, self.history_size, self.cursor_row)
            == (old.height, old.history_size, old.cursor_row)
            && self.rows[screen(self)..] == old.rows[screen(old)..]
    }

    /// Returns how many rows of this screen, above the cursor, are in a later capture whose history
    /// grew by `grown` rows and whose screen was erased.
    pub fn scrolled_into(&self, new: &Self, grown: i64) -> i64 {
        let is_there = |&row: &i64| {
            self.at(row)
                .is_some_and(|was| new.at(row - grown) == Some(was))
        };
        (0..self.cursor_row.min(grown)).take_while(is_there).count() as i64
    }

    /// Drops all but the last [`KEPT_ROWS`] rows of the history.
    pub fn prune(&mut self) {
        let surplus = (self.history_rows as usize).saturating_sub(KEPT_ROWS);
        self.rows.drain(..surplus);
        self.history_rows -= surplus as i64;
    }

    /// Returns the fingerprint of a row, counted from the top of the screen.
    fn at(&self, row: i64) -> Option<u64> {
        usize::try_from(row + self.history_rows)
            .ok()
            .and_then(|index| self.rows.get(index))
            .copied()
    }
}

/// The position of the old rows in a new capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alignment {
    /// They scrolled up by this many rows: row `r` is row `r - n` now.
    Scrolled(i64),
    /// They scrolled up by at least this many rows: several positions match.
    AtLeast(i64),
    /// None: all rows of the capture are new.
    Lost(Loss),
    /// Unknown: the capture does not reach back far enough.
    NeedsDeeper,
}

/// The comparison of old and new rows for one number of scrolled rows.
#[derive(Clone, Copy, Debug, Default)]
struct RowComparison {
    history_same: usize,
    history_other: usize,
    screen_same: usize,
    screen_other: usize,
}

impl RowComparison {
    fn compare(old: &Footprint, new: &Footprint, scrolled: i64) -> Self {
        let mut comparison = Self::default();
        // The cursor's row and those below it may change at any time.
        for row in -old.history_rows..old.cursor_row.min(old.height) {
            let (Some(was), Some(is)) = (old.at(row), new.at(row - scrolled)) else {
                continue;
            };
            match (row < 0, was == is) {
                (true, true) => comparison.history_same += 1,
                (true, false) => comparison.history_other += 1,
                (false, true) => comparison.screen_same += usize::from(was != BLANK),
                // A blank row may have been filled since.
                (false, false) => comparison.screen_other += usize::from(was != BLANK),
            }
        }
        comparison
    }

    /// Returns true if the rows may be the same. The history never changes, the screen may.
    fn fits(self) -> bool {
        // Where the screen may have been repainted, eight rows of the history must match.
        self.history_other == 0 && (self.screen_other == 0 || self.history_same >= 8)
    }

    /// Returns true if any rows are equal.
    fn has_matches(self) -> bool {
        self.history_same + self.screen_same > 0
    }

    /// Returns true if the texts exclude an alignment that the size of the history suggests.
    fn contradicts(self) -> bool {
        self.history_other > 0 || (!self.has_matches() && self.screen_other > 0)
    }
}

/// Further facts about the two captures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Rows that tmux drops at once when the history is full.
    pub trim_step: i64,
    /// Rows that the history may hold.
    pub history_limit: i64,
    /// The limit was greater at the last capture. tmux 3.7 and newer then drops all surplus rows at
    /// once, so that the advance is not known even modulo a step.
    pub was_lowered: bool,
    /// The old rows are those of a stream, which does not know if the history was cleared before them.
    pub was_streamed: bool,
    /// The most bytes that can have been written to all panes between the captures.
    pub bytes: Option<u64>,
}

/// Aligns `old` with `new`, whose rows are `rows`. The pane must have the same width.
pub(super) fn align(old: &Footprint, new: &Footprint, rows: &[Row], facts: Facts) -> Alignment {
    let grown = new.history_size - old.history_size;
    // A higher screen takes rows back from the history.
    let taken_back = (new.height - old.height).max(0);
    let may_have_trimmed = new.history_size > facts.history_limit - facts.trim_step;

    if may_have_trimmed {
        return among_candidates(old, new, rows, facts, grown, taken_back);
    }
    if grown < -taken_back {
        return after_clearing(old, new, rows, facts);
    }
    if !reaches(old, new, grown) {
        return too_short(new);
    }
    let comparison = RowComparison::compare(old, new, grown);
    // Nothing scrolled, and there may be no history to compare. If all text changed, the cursor went
    // up and fewer rows are in use, the screen was erased; otherwise it was repainted in place.
    let in_place = grown == 0 && !(new.cursor_row < old.cursor_row && new.used < old.used);
    let repainted = comparison.history_other == 0 && in_place;
    if comparison.contradicts() && !repainted {
        return after_clearing(old, new, rows, facts);
    }
    Alignment::Scrolled(grown)
}

/// Returns true if the capture begins no later than the old screen, whose rows were not final. Of the
/// deepest capture, beginning at the old cursor suffices: no row is skipped.
fn reaches(old: &Footprint, new: &Footprint, scrolled: i64) -> bool {
    let from = if new.deepest { old.cursor_row } else { 0 };
    -new.history_rows <= from - scrolled
}

fn too_short(new: &Footprint) -> Alignment {
    if new.deepest {
        Alignment::Lost(Loss::confirmed(GapReason::Truncated))
    } else {
        Alignment::NeedsDeeper
    }
}

/// Aligns captures of a history that may have been trimmed. The advance is known modulo the trim step,
/// and the text decides.
fn among_candidates(
    old: &Footprint,
    new: &Footprint,
    rows: &[Row],
    facts: Facts,
    grown: i64,
    taken_back: i64,
) -> Alignment {
    let step = if facts.was_lowered {
        1
    } else {
        facts.trim_step
    };
    // Without a trim, the history grew by the advance. Each trim hides one step of it.
    let mut scrolled = if grown >= -taken_back {
        grown
    } else {
        (grown + taken_back).rem_euclid(step) - taken_back
    };
    let mut printed = PrintedBytes::new(old, new, rows, facts.bytes);
    let mut possible = 0_usize;
    let mut fitting: Vec<i64> = Vec::new();
    // The fitting ones with equal rows: at the edge of the capture there are none to compare.
    let mut matching: Vec<i64> = Vec::new();
    // The known rows may be above the capture, where they cannot be compared.
    let mut beyond = false;
    loop {
        if printed.exceed(scrolled) {
            break;
        }
        if !reaches(old, new, scrolled) {
            beyond = true;
            break;
        }
        possible += 1;
        let comparison = RowComparison::compare(old, new, scrolled);
        if comparison.fits() {
            fitting.push(scrolled);
            if comparison.has_matches() {
                matching.push(scrolled);
            }
        }
        scrolled += step;
    }
    if let [only] = matching[..]
        && is_unambiguous(old, new, only)
    {
        return Alignment::Scrolled(only);
    }
    match fitting[..] {
        [only] if !beyond => Alignment::Scrolled(only),
        [] if possible == 1 && !beyond => {
            // The size of the history leaves one alignment, which the text contradicts or leaves open.
            let only = scrolled - step;
            if RowComparison::compare(old, new, only).contradicts() {
                Alignment::Lost(Loss::possible(GapReason::Cleared))
            } else {
                Alignment::Scrolled(only)
            }
        }
        _ if !new.deepest => Alignment::NeedsDeeper,
        // Only rows printed since can have pushed the known ones out.
        [] if beyond => Alignment::Lost(Loss::confirmed(GapReason::HistoryTrimmed)),
        [] => Alignment::Lost(Loss::possible(GapReason::HistoryTrimmed)),
        [least, ..] => Alignment::AtLeast(least),
    }
}

/// The fewest bytes that can have printed the rows below the used ones, for a growing advance.
struct PrintedBytes<'a> {
    rows: &'a [Row],
    /// See [`Facts::bytes`].
    bytes_max: Option<u64>,
    history_rows: i64,
    /// The last row in use: rows above it need not have been printed since.
    last_used: i64,
    /// The first row, from the top of the screen, that is part of the sum.
    from: i64,
    sum: u64,
}

impl<'a> PrintedBytes<'a> {
    fn new(old: &Footprint, new: &Footprint, rows: &'a [Row], bytes_max: Option<u64>) -> Self {
        Self {
            rows,
            bytes_max,
            history_rows: new.history_rows,
            // The cursor may have been above text, as in a dead pane.
            last_used: old.cursor_row.max(old.used - 1),
            // The cursor's row may be unfinished, so it is not counted.
            from: new.used - 1,
            sum: 0,
        }
    }

    /// Returns true if printing the rows of this advance took more bytes than were written. The
    /// advance must not decrease from call to call.
    fn exceed(&mut self, scrolled: i64) -> bool {
        let Some(bytes_max) = self.bytes_max else {
            return false;
        };
        let first_new = (self.last_used - scrolled + 1).max(-self.history_rows);
        while self.from > first_new {
            self.from -= 1;
            let index = usize::try_from(self.from + self.history_rows).ok();
            self.sum += index
                .and_then(|index| self.rows.get(index))
                .map_or(0, fewest_bytes);
        }
        self.sum > bytes_max
    }
}

/// Returns true if the rows above the old cursor occur only once in both captures.
fn is_unambiguous(old: &Footprint, new: &Footprint, scrolled: i64) -> bool {
    let with_screen = RowComparison::compare(old, new, scrolled).screen_other == 0;
    let end = if with_screen { old.cursor_row } else { 0 };
    // Only rows that the new capture still has can be compared.
    // An unambiguous alignment matches 16 rows above the cursor.
    let start = (end - 16)
        .max(-old.history_rows)
        .max(scrolled - new.history_rows);
    let block: Vec<u64> = (start..end).filter_map(|row| old.at(row)).collect();
    let mut texts: Vec<u64> = block.iter().copied().filter(|&row| row != BLANK).collect();
    texts.sort_unstable();
    texts.dedup();
    // Four different texts must be among them, because a few short rows match by chance.
    if texts.len() < 4 {
        return false;
    }
    let places = |rows: &[u64]| {
        rows.windows(block.len())
            .filter(|rows| *rows == block)
            .count()
    };
    places(&new.rows) == 1 && places(&old.rows[..(end + old.history_rows) as usize]) == 1
}

/// Aligns captures after the history was cleared, by the text of the old screen alone.
fn after_clearing(old: &Footprint, new: &Footprint, rows: &[Row], facts: Facts) -> Alignment {
    if !new.deepest {
        return Alignment::NeedsDeeper;
    }
    let mut printed = PrintedBytes::new(old, new, rows, facts.bytes);
    let mut found = None;
    // All rows of the history have scrolled since. Rows that a higher screen took back from it moved
    // the others down again and cancel out. If it may have been cleared before the old rows, any of its rows may
    // be older than these.
    let least = if facts.was_streamed {
        0
    } else {
        new.history_size
    };
    for scrolled in least..=(old.cursor_row + new.history_rows) {
        if printed.exceed(scrolled) {
            break;
        }
        let comparison = RowComparison::compare(old, new, scrolled);
        let fits = comparison.history_other == 0
            && comparison.screen_other == 0
            && comparison.has_matches();
        if fits && let Some(least) = found.replace(scrolled) {
            // Most rows of the capture are those that the stream has reported.
            return if facts.was_streamed {
                Alignment::AtLeast(least)
            } else {
                Alignment::Lost(Loss::possible(GapReason::Cleared))
            };
        }
    }
    found.map_or(
        Alignment::Lost(Loss::possible(GapReason::Cleared)),
        Alignment::Scrolled,
    )
}

// Finds known lines among rewrapped lines, by their text alone (pure).

/// Finds the last of the known lines (number and text, in order) among `lines`, and returns the number
/// of the first of `lines`, which may lack its beginning. Returns `None` unless exactly one place matches.
/// `possible` may exclude a place; its argument is the index of the line after the known ones.
pub(super) fn place(
    known: &[(i64, &str)],
    lines: &[LogicalLine],
    possible: impl Fn(usize) -> bool,
) -> Option<i64> {
    // Only lines with consecutive numbers must be adjacent.
    // Twelve consecutive lines must match, if as many are known.
    let block = &known[known.len().saturating_sub(12)..];
    let start = block
        .windows(2)
        .rposition(|pair| pair[0].0 + 1 != pair[1].0)
        .map_or(0, |at| at + 1);
    let block = &block[start..];
    let same = |known: &str, at: usize| {
        let (known, shown) = (known.trim_end(), lines[at].text.trim_end());
        known == shown || at == 0 && shown.len() >= OVERLAP_MIN && known.ends_with(shown)
    };
    let last_number = block.last()?.0;
    if block.iter().all(|(_, text)| text.trim_end().is_empty()) {
        return None;
    }
    // The oldest known lines may be above the capture: a place at its top counts only if the whole
    // block has none.
    let at_end = |end: usize| {
        let seen = block.len().min(end);
        let mut pairs = block[block.len() - seen..].iter().zip(end - seen..end);
        let has_text = lines[end - seen..end]
            .iter()
            .any(|line| !line.text.trim_end().is_empty());
        has_text && pairs.all(|((_, text), at)| same(text, at)) && possible(end)
    };
    let number_of_first = |end: usize| last_number - (end as i64 - 1);
    let mut whole = (block.len()..=lines.len()).filter(|&end| at_end(end));
    match (whole.next(), whole.next()) {
        (Some(only), None) => return Some(number_of_first(only)),
        (Some(_), Some(_)) => return None,
        (None, _) => {}
    }
    let mut partial = (1..block.len().min(lines.len() + 1)).filter(|&end| at_end(end));
    // All known lines may be gone, and the first lines be equal to the last known ones by chance.
    match (partial.next(), partial.next()) {
        (Some(only), None) if (0..only).any(|at| is_distinct(at, known, lines)) => {
            Some(number_of_first(only))
        }
        _ => None,
    }
}

/// Returns true if a line is one of the known ones and like no other line. The first line may lack its beginning.
fn is_distinct(at: usize, known: &[(i64, &str)], lines: &[LogicalLine]) -> bool {
    let shown = lines[at].text.trim_end();
    let is_like = |text: &str| match at {
        0 => text.trim_end().ends_with(shown),
        _ => text.trim_end() == shown,
    };
    let mut others = lines.iter().enumerate().filter(|(other, _)| *other != at);
    !shown.is_empty()
        && known.iter().filter(|(_, text)| is_like(text)).count() == 1
        && !others.any(|(_, line)| is_like(&line.text))
}

/// The fewest bytes that show that two texts are parts of one line. Shorter ones are equal by chance.
pub(super) const OVERLAP_MIN: usize = 32;

/// The fewest bytes that are not reported again where a gap stands anyway.
pub(super) const OVERLAP_BESIDE_GAP: usize = 8;

/// Where a line is after its rows were rewrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinePlace {
    /// Its index among the lines.
    pub at: usize,
    /// The length of its beginning that tmux no longer has, in bytes.
    pub cut: usize,
    /// No other place and no other length is possible.
    pub is_certain: bool,
}

/// Finds the open line among rewrapped lines by its text alone. It may have grown, and the first line may lack
/// its beginning; if the lines are mixed, any may, because rows that are not its own precede it. Where several
/// places or lengths are possible, the result has the least new text, so that nothing is reported twice.
pub(super) fn place_open(known: &str, lines: &[LogicalLine], is_mixed: bool) -> Option<LinePlace> {
    let known = known.trim_end_matches(' ');
    if known.len() < OVERLAP_MIN {
        return None;
    }
    let cut = if is_mixed { lines.len() } else { 1 };
    let ends = (lines.iter().take(cut).enumerate())
        .map(|(at, line)| (overlaps(known, &line.text), at))
        .filter(|((longest, _), _)| *longest >= OVERLAP_BESIDE_GAP);
    // The text after the last place is the least. A short overlap may be chance.
    let end = ends.max_by_key(|((longest, _), at)| (*longest >= OVERLAP_MIN, *at));
    let is_whole = |line: &LogicalLine| line.text.starts_with(known);
    let mut whole = (lines.iter().enumerate().skip(cut)).filter(|(_, line)| is_whole(line));
    match (end, whole.next(), whole.next()) {
        (Some(((longest, next), at)), None, _) => Some(LinePlace {
            at,
            cut: known.len() - longest,
            is_certain: longest >= OVERLAP_MIN && next < OVERLAP_MIN,
        }),
        (None, Some((at, _)), None) => Some(LinePlace {
            at,
            cut: 0,
            is_certain: true,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn lines(texts: &[&str]) -> Vec<LogicalLine> {
        (0..)
            .zip(texts)
            .map(|(start, text)| LogicalLine {
                start,
                rows: 1,
                head: 0,
                text: (*text).into(),
            })
            .collect()
    }

    #[test]
    fn one_place_is_found_and_two_are_not() {
        let known = [(7, "a"), (8, "b")];
        assert_eq!(
            place(&known, &lines(&["x", "a", "b  ", "c"]), |_| true),
            Some(6)
        );
        assert_eq!(place(&known, &lines(&["a", "b", "a", "b"]), |_| true), None);
        assert_eq!(
            place(&known, &lines(&["a", "b", "a", "b"]), |end| end == 4),
            Some(5)
        );
        assert_eq!(place(&known, &lines(&["b", "c"]), |_| true), Some(8));
        assert_eq!(
            place(&[(1, ""), (2, " ")], &lines(&["", ""]), |_| true),
            None
        );
        let long: String = ('a'..='z').chain('A'..='Z').collect();
        assert_eq!(
            place(&[(3, &long), (4, "b")], &lines(&[&long[9..], "b"]), |_| {
                true
            }),
            Some(3),
            "the first line lacks its beginning"
        );
    }

    #[test]
    fn a_place_at_the_top_is_not_taken_for_a_line_that_is_like_others() {
        let text = |number: u64, filling: usize| format!("{number} {};", "x".repeat(filling));
        let known: Vec<String> = (1..30)
            .map(|number| text(number, 40 + number as usize))
            .collect();
        let known: Vec<(i64, &str)> = (1..).zip(known.iter().map(String::as_str)).collect();
        // All known lines are gone; the rest of a line ends as many of them do.
        let rest = format!("{};", "x".repeat(45));
        let later = [rest, text(90, 41), text(91, 42)];
        let shown: Vec<&str> = later.iter().map(String::as_str).collect();
        assert_eq!(place(&known, &lines(&shown), |_| true), None);
        // The last known line itself, of which no other is the rest.
        let whole = [text(29, 69), text(30, 41)];
        let shown: Vec<&str> = whole.iter().map(String::as_str).collect();
        assert_eq!(place(&known, &lines(&shown), |_| true), Some(29));
        // A line that is printed again and again.
        let known = [(6, "one"), (7, "done")];
        assert_eq!(
            place(&known, &lines(&["done", "two", "done"]), |_| true),
            None
        );
        assert_eq!(
            place(
                &[(5, "done"), (6, "one"), (7, "done")],
                &lines(&["done", "two"]),
                |_| true
            ),
            None
        );
        assert_eq!(
            place(&known, &lines(&["done", "two", "three"]), |_| true),
            Some(7)
        );
    }

    #[test]
    fn an_open_line_is_found_by_its_text() {
        let letters: String = ('a'..='z').chain('A'..='Z').collect();
        let place = |known: &str, texts: &[&str]| {
            let place = place_open(known, &lines(texts), false)?;
            Some((place.at, place.cut, place.is_certain))
        };
        let grown = format!("{letters}+more");
        assert_eq!(place(&letters, &["x", &grown, "$"]), Some((1, 0, true)));
        assert_eq!(place(&letters, &[&grown[9..], "$"]), Some((0, 9, true)));
        assert_eq!(place(&letters, &[&letters[9..]]), Some((0, 9, true)));
        assert_eq!(place(&letters, &["x", &grown[9..]]), None);
        assert_eq!(place(&letters, &[&grown, &grown]), None);
        assert_eq!(place("$ ", &["$ ls"]), None, "too short");
        assert_eq!(
            place(&letters, &["OPQRSTUVWXYZ+more"]),
            Some((0, 40, false))
        );
        assert_eq!(place(&letters, &["WXYZ+more"]), None, "by chance");
        let mixed = |texts: &[&str]| {
            let place = place_open(&letters, &lines(texts), true)?;
            Some((place.at, place.cut))
        };
        assert_eq!(mixed(&["older", &grown[9..], "$"]), Some((1, 9)));
        assert_eq!(mixed(&["older", &grown, "$"]), Some((1, 0)));
        assert_eq!(mixed(&[&grown[9..], &grown[9..]]), Some((1, 9)));
        assert_eq!(mixed(&[&grown[9..], &letters[42..]]), Some((0, 9)));
        assert_eq!(mixed(&["older", "$"]), None);
        let (some, more) = ("x".repeat(80), "x".repeat(300));
        assert_eq!(place(&some, &[&more]), Some((0, 0, false)));
        assert_eq!(place(&more, &[&some]), Some((0, 220, false)));
        // Rows of before, and the end of the line: only what is shown last can be new.
        let rest = "x".repeat(100);
        let mixed = |known: &str| {
            place_open(known, &lines(&["older", &more, &rest]), true)
                .map(|place| (place.at, place.cut))
        };
        assert_eq!(mixed(&"x".repeat(500)), Some((2, 400)));
        assert_eq!(mixed(&some), Some((2, 0)));
    }
}
