//! Where stream and tmux were last found to agree, and what was said since: what a look is compared
//! with beyond the screen (pure).
//!
//! A line that has scrolled off stands in tmux's history, and a look that reaches back as far shows
//! whether it reads as it was said. Rows of the history keep their places until it is full, cleared
//! or made anew: so the number of one line, at the last agreement, is the number of all.

use std::collections::{BTreeMap, VecDeque};

use super::broken::{is_blank, join_down, join_up, mend_cut, reads};
use super::difference::Difference;
use super::realign::by_text;
use super::tracker::StreamTracker;
use crate::track::book::Line;
use crate::track::capture::Capture;
use crate::track::change::Change;
use crate::track::lines::Logical;
use crate::track::normal::Normal;

/// So many bytes of lines are held for comparing: more than a few screens, little for each of a
/// hundred panes.
const HELD_BYTES: usize = 96 * 1024;

/// So many rows of the history are compared at most: a look at them costs the server a millisecond.
const ROWS_MAX: i64 = 1000;

/// A look reaches so far above what was printed since, to recognise the place.
const ROWS_ABOVE: i64 = 32;

/// So many lines tell whether lines stand where they stood.
const FIRST_LINES: usize = 3;

/// Where tmux had a line when the two agreed last.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Its first row, counted from the top of the history.
    row: i64,
    number: i64,
    /// All rows that had scrolled off the stream's screen, and how many of them were in its history.
    scrolled: i64,
    history: i64,
    width: u32,
    pid: u32,
}

impl Place {
    /// No line of the history had a smaller number: each has at least a row.
    fn oldest_number(self) -> i64 {
        self.number - self.row
    }
}

/// The changes reported since stream and tmux agreed, and the place where they did.
#[derive(Debug, Default)]
pub(super) struct Agreed {
    place: Option<Place>,
    /// The first lines of the screen that were not blank, as they read then.
    top: Vec<(i64, String)>,
    /// Chunks of lines, each with the number of its first.
    said: VecDeque<(i64, String)>,
    /// The revisions among them.
    revised: BTreeMap<i64, String>,
    bytes: usize,
}

impl Agreed {
    /// Notes what is said.
    pub fn note(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Lines { first_line, chunk } => {
                    // What was said of them while they were unfinished is said again now.
                    let unfinished = self.revised.split_off(first_line);
                    self.bytes -= unfinished.values().map(String::len).sum::<usize>();
                    let (first, held) = last_lines(*first_line, chunk);
                    self.bytes += held.len();
                    self.said.push_back((first, held.to_owned()));
                }
                Change::Revised { line, text } => {
                    let is_held = self.said.front().is_some_and(|(first, _)| first <= line);
                    if is_held {
                        self.bytes += text.len();
                        let before = self.revised.insert(*line, text.clone());
                        self.bytes -= before.map_or(0, |text| text.len());
                    }
                }
                Change::Gap { .. } | Change::Screen { .. } => {}
            }
        }
        while self.bytes > HELD_BYTES
            && let Some((_, chunk)) = self.said.pop_front()
        {
            self.bytes -= chunk.len();
            let first = self.said.front().map_or(i64::MAX, |(first, _)| *first);
            let kept = self.revised.split_off(&first);
            self.bytes -= self.revised.values().map(String::len).sum::<usize>();
            self.revised = kept;
        }
    }

    /// Returns the held lines in order, as last reported.
    pub fn lines(&self) -> impl Iterator<Item = (i64, &str)> {
        let chunks = self.said.iter();
        let lines = chunks.flat_map(|(first, chunk)| (*first..).zip(chunk.lines()));
        lines.map(|(number, text)| {
            let revised = self.revised.get(&number).map(String::as_str);
            (number, revised.unwrap_or(text))
        })
    }

    fn top(&self) -> impl Iterator<Item = (i64, &str)> {
        self.top
            .iter()
            .map(|(number, text)| (*number, text.as_str()))
    }

    fn forget(&mut self) {
        *self = Self::default();
    }
}

/// The lines of a look, numbered.
#[derive(Clone, Debug)]
pub(super) struct Numbered {
    /// The number of the first.
    pub first: i64,
    pub lines: Vec<Logical>,
    /// The first lines read as they were said: what bytes do not tell came behind them.
    pub is_sure: bool,
}

impl StreamTracker {
    /// Returns how far above the screen a look must reach to be compared with all that was printed
    /// since the last one.
    pub fn rows_to_compare(&self) -> u32 {
        let since = match self.agreed.place {
            Some(place) => self.terminal.grid.scrolled.total() - place.scrolled,
            None => 0,
        };
        u32::try_from((since.max(0) + ROWS_ABOVE).min(ROWS_MAX)).unwrap_or(0)
    }

    /// Stream and tmux agree at this look.
    pub fn confirm(&mut self, capture: &Capture) {
        let goes_on = self
            .agreed
            .place
            .is_some_and(|place| place.width == capture.width);
        if capture.alternate && goes_on {
            // What a full-screen program hides is compared when that has ended.
            return;
        }
        self.agreed.forget();
        let book = &self.tracker.book;
        // What stands on the screen was said, and may still change.
        let on_screen = book.lines_with_rows();
        let on_screen = on_screen.filter(|line| line.start + line.rows > 0);
        let said = on_screen.filter(|line| line.number < book.next());
        for line in said {
            self.agreed.bytes += line.text.len() + 1;
            let text = format!("{}\n", line.text);
            self.agreed.said.push_back((line.number, text));
        }
        // Lines that were said, and are blank now below the text.
        let blank = (book.next() - book.last_number() - 1).min(i64::from(capture.height));
        if let Ok(blank) = usize::try_from(blank)
            && blank > 0
        {
            self.agreed.bytes += blank;
            let text = "\n".repeat(blank);
            self.agreed.said.push_back((book.last_number() + 1, text));
        }
        let at_top = book
            .lines_with_rows()
            .find(|line| line.start + line.rows > 0);
        // Bytes may have broken a line that reads the same into other rows: tmux's count then. An
        // empty row at the top may be the end of the line above it in a look, and not in the stream.
        let (_, shown) = Normal::of(capture).in_full(capture);
        let whole = shown.iter().skip(usize::from(!capture.is_complete()));
        let in_tmux: Vec<&Logical> = whole.filter(|line| line.end() > 0).take(2).collect();
        let start = |line: &Line| {
            let among = if is_blank(&line.text) { 1 } else { 2 };
            let mut shown = in_tmux.iter().take(among);
            let shown = shown.find(|shown| reads(&shown.text, &line.text));
            shown.map_or(line.start, |shown| shown.start)
        };
        let top = book.lines_with_rows().filter(|line| {
            let is_on_screen = line.start + line.rows > 0;
            is_on_screen && !is_blank(&line.text)
        });
        let top = top.map(|line| (line.number, line.text.clone()));
        self.agreed.top = top.take(FIRST_LINES).collect();
        self.agreed.place = at_top.map(|line| Place {
            // Where tmux has the end of a line only, it stands at the top of the history.
            row: (i64::from(capture.history_size) + start(line)).max(0),
            number: line.number,
            scrolled: self.terminal.grid.scrolled.total(),
            history: i64::from(self.terminal.grid.scrolled.history.size),
            width: capture.width,
            pid: capture.pid,
        });
    }

    /// Returns whether a line reads otherwise in a look than it was said, also above the screen.
    pub fn differs_above_screen(&self, capture: &Capture) -> bool {
        if capture.alternate {
            return false;
        }
        let (_, lines) = Normal::of(capture).in_full(capture);
        let Some(Numbered { first, lines, .. }) = self.numbered(capture, lines) else {
            return false;
        };
        self.misread(first, &lines).next().is_some()
    }

    /// The lines of a look and the number of the first of them, where those can be known from the last
    /// agreement. A line that may begin above the look is left out.
    pub(super) fn numbered(&self, capture: &Capture, mut lines: Vec<Logical>) -> Option<Numbered> {
        let place = self.agreed.place?;
        if capture.width != place.width
            || capture.pid != place.pid
            || capture.dead.is_some()
            || self.is_holed
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
        let by_row = self.at_agreed_row(capture, place, &lines).map(|first| {
            join_down(&mut lines, first, &known, capture.width);
            (first, lines)
        });
        let top: BTreeMap<i64, &str> = self.agreed.top().collect();
        let mend = |(first, mut lines): (i64, Vec<Logical>)| {
            let said = [&known, &top].map(|texts| texts.get(&first).copied());
            mend_cut(&mut lines, capture, &said.map(Option::unwrap_or_default));
            let is_sure = false;
            Numbered {
                first,
                lines,
                is_sure,
            }
        };
        let (by_row, by_screen) = (by_row.map(mend), by_screen.map(mend));
        // Where the history was cleared the row tells nothing: then the first lines there are others.
        let begins_as = |numbered: &Numbered, texts: &BTreeMap<i64, &str>| {
            let (first, lines) = (numbered.first, &numbered.lines);
            let texts = texts.range(first..);
            let texts = texts.filter(|(_, text)| !is_blank(text));
            let mut pairs = texts.take(FIRST_LINES).map(|(number, text)| {
                let line = lines.get(usize::try_from(number - first).ok()?)?;
                // The first of them may have been cut in two.
                let begins =
                    !is_blank(&line.text) && text.starts_with(line.text.trim_end_matches(' '));
                Some(reads(&line.text, text) || begins)
            });
            pairs.any(|same| same == Some(true))
        };
        // What `send-keys -R` scrolls off stands where it stood. The stream, which does not know of
        // that, may have written over it.
        let begins_so =
            |numbered: &Numbered| begins_as(numbered, &known) || begins_as(numbered, &top);
        // No line is older than those that tmux had at the agreement, so there are more now than the
        // stream knows of: only `send-keys -R` makes some. Where no row tells the place, the screen
        // still shows that the two differ.
        let is_too_old = |numbered: &Numbered| numbered.first < place.oldest_number();
        let has_more = by_row.is_some() && by_screen.as_ref().is_some_and(is_too_old);
        let by_screen = by_screen.filter(|_| !has_more);
        let numbered = match (by_row, by_screen) {
            (_, Some(screen)) if self.has_less(capture) => Some(screen),
            (Some(row), Some(screen)) if !begins_so(&row) && begins_so(&screen) => Some(screen),
            // `send-keys -R` scrolls a screen off, which no byte tells: tmux may have more.
            (Some(row), None) if !begins_so(&row) && self.has_less(capture) => None,
            (Some(row), _) => Some(row),
            (None, screen) => screen,
        };
        let is_sure = |numbered: &Numbered| {
            let mut texts = known.range(numbered.first..);
            has_more || begins_so(numbered) || texts.all(|(_, text)| is_blank(text))
        };
        numbered.map(|numbered| Numbered {
            is_sure: is_sure(&numbered),
            ..numbered
        })
    }

    /// The same by the texts of the lines alone.
    pub(super) fn numbered_by_text(
        &self,
        capture: &Capture,
        mut lines: Vec<Logical>,
    ) -> Option<Numbered> {
        if !self.is_compared(capture) {
            return None;
        }
        if !capture.is_complete() && lines.len() > 1 {
            lines.remove(0);
        }
        let known = self.known();
        let oldest = self.agreed.place.map_or(i64::MIN, Place::oldest_number);
        let found = by_text(&known, oldest, &lines, capture.is_complete())?;
        let first = join_up(&mut lines, found.at, found.number, &known, capture.width);
        join_down(&mut lines, first, &known, capture.width);
        let said = known.get(&first).copied().unwrap_or_default();
        mend_cut(&mut lines, capture, &[said]);
        let is_sure = found.is_sure;
        Some(Numbered {
            first,
            lines,
            is_sure,
        })
    }

    /// The same where all lines are others than were said.
    pub(super) fn numbered_anew(&self, capture: &Capture, lines: Vec<Logical>) -> Option<Numbered> {
        let last = self.tracker.book.last_number();
        let is_said = self.known().get(&last).is_some_and(|text| !is_blank(text));
        self.is_compared(capture).then_some(Numbered {
            first: last + i64::from(is_said),
            lines,
            is_sure: false,
        })
    }

    /// Returns whether a look continues from the last agreement, whatever else has come between.
    fn is_compared(&self, capture: &Capture) -> bool {
        let is_same = self
            .agreed
            .place
            .is_some_and(|place| capture.width == place.width && capture.pid == place.pid);
        let is_followed = !self.is_holed && !self.begun_anew;
        is_same && is_followed && !capture.alternate && capture.dead.is_none()
    }

    /// Returns whether tmux has so much less history than the stream that it may have been cleared.
    fn has_less(&self, capture: &Capture) -> bool {
        let stream = self.terminal.grid.scrolled.history.size;
        capture.history_size + capture.height < stream
    }

    /// The number of the first line, by the row where a line stood at the last agreement. `None` where
    /// the history may have been trimmed since, or cleared.
    fn at_agreed_row(&self, capture: &Capture, place: Place, lines: &[Logical]) -> Option<i64> {
        let row = place.row - i64::from(capture.history_size);
        // What was printed since has pushed it up, beyond the look perhaps.
        let at = lines.iter().position(|line| line.end() > row)?;
        let tmux = i64::from(capture.history_size);
        let room = i64::from(capture.history_limit.saturating_sub(capture.trim_step()));
        let grown = self.terminal.grid.scrolled.total() - place.scrolled;
        let is_trimmed = tmux.max(place.row + grown + i64::from(capture.height)) >= room;
        // Cleared by the program, or by a command.
        let history = i64::from(self.terminal.grid.scrolled.history.size);
        let is_cleared = history != place.history + grown || tmux < place.row;
        let is_known = lines[at].start <= row && !is_trimmed && !is_cleared;
        is_known.then(|| place.number - at as i64)
    }

    /// One of the lines on the screen and its number, where the screens are the same, whatever the
    /// history is. It is the last that is not blank: of empty rows a look does not tell whether they
    /// belong to the line above.
    fn same_on_screen(&self, capture: &Capture, lines: &[Logical]) -> Option<(usize, i64)> {
        let same = matches!(
            self.difference(capture),
            None | Some(Difference::History { .. })
        );
        let shown = lines
            .iter()
            .rposition(|line| line.end() > 0 && !is_blank(&line.text));
        let at = shown.or_else(|| lines.iter().position(|line| line.end() > 0))?;
        let on_screen = self.tracker.book.lines_with_rows();
        let mut on_screen = on_screen.filter(|line| line.start + line.rows > 0);
        let known = match shown {
            Some(_) => on_screen.filter(|line| !is_blank(&line.text)).last(),
            None => on_screen.next(),
        };
        let number = known?.number;
        (same && !capture.alternate).then_some((at, number))
    }

    /// Returns all held or known lines by number, as last reported.
    fn known(&self) -> BTreeMap<i64, &str> {
        self.agreed
            .lines()
            .chain(self.tracker.book.lines())
            .collect()
    }

    /// The lines that were said otherwise, and have scrolled off: those that are known are looked at
    /// elsewhere.
    pub(super) fn misread<'a>(
        &'a self,
        first: i64,
        lines: &'a [Logical],
    ) -> impl Iterator<Item = (i64, &'a str)> {
        let known = self.tracker.book.lines();
        let oldest_known = self.tracker.book.oldest_known();
        let said = self
            .agreed
            .lines()
            .filter(move |line| line.0 < oldest_known);
        said.chain(known).filter_map(move |(number, said)| {
            let line = lines.get(usize::try_from(number - first).ok()?)?;
            (!reads(&line.text, said)).then_some((number, &*line.text))
        })
    }
}

/// The last lines of a chunk, as many as are held at all, and the number of the first.
fn last_lines(first_line: i64, chunk: &str) -> (i64, &str) {
    let Some(surplus) = chunk.len().checked_sub(HELD_BYTES) else {
        return (first_line, chunk);
    };
    let bytes = chunk.as_bytes();
    let at = memchr::memchr(b'\n', &bytes[surplus..]).map_or(bytes.len(), |end| surplus + end + 1);
    let before = memchr::memchr_iter(b'\n', &bytes[..at]).count();
    (first_line + before as i64, &chunk[at..])
}
