//! The tracker of one pane: keeps its lines by number and says what each look brings (pure).

use super::align::{Facts, Footprint, KEPT_ROWS, Place, place};
use super::change::{Change, GapReason};
use super::lines::{Logical, first_rows, group};
use super::look::{Look, Row};
use super::reflow;
use super::screen::ScreenDiff;

/// Settled lines are said in chunks of about this many bytes: enough to be cheap, little enough to
/// show and to queue.
const CHUNK_BYTES: usize = 64 * 1024;

/// Rows of history that a look should hold beyond what is new, to recognise the place by.
const MARGIN_ROWS: u32 = 32;

/// What a look came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What it brought, in order; often nothing.
    Changes(Vec<Change>),
    /// The look does not reach back far enough: look again, at all that tmux has. Nothing changed.
    Deeper,
}

/// A line that is known, on the screen or just above it.
#[derive(Clone, Debug)]
struct Line {
    number: i64,
    /// Its first row, counted from the top of the screen.
    start: i64,
    rows: i64,
    text: String,
    said: Said,
    /// It read the same in the look before.
    stood: bool,
    /// It read something else in the look before, and in the one before that too.
    restless: bool,
}

/// Where the known lines stand in a look.
#[derive(Clone, Copy, Debug)]
enum Moved {
    /// So many rows higher.
    By(i64),
    /// At least so many rows higher, perhaps gone.
    AtLeast(i64),
    /// In rows that have been made anew.
    Anew,
}

/// What the outside has been told that a line reads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    AsItIs,
    Otherwise(String),
}

impl Line {
    fn said_text(&self) -> &str {
        match &self.said {
            Said::Nothing => "",
            Said::AsItIs => &self.text,
            Said::Otherwise(text) => text,
        }
    }
}

/// Follows one pane from look to look.
///
/// Lines are numbered by their order: the line of the cursor in the first look is 1, what stood
/// above it 0 and below. A line is said once in [`Change::Lines`] when it has settled, in order; what
/// it reads before that (a prompt) or afterwards (a repaint) comes as [`Change::Revised`].
///
/// ```
/// use td_observe::track::{Change, Look, Outcome, Row, Tracker};
/// let row = |text: &str| Row { text: text.into(), wrapped: false };
/// let mut look = Look { width: 20, height: 3, history_limit: 100, ..Look::default() };
/// look.rows = vec![row("$ make"), row(""), row("")];
/// look.cursor.y = 1;
/// let mut tracker = Tracker::baseline(&look);
/// look.rows = vec![row("$ make"), row("cc a.c"), row("")];
/// look.cursor.y = 2;
/// assert_eq!(tracker.look(&look), Outcome::Changes(vec![]));
/// // It stood for one tick: settled.
/// let line = Change::Lines { first_line: 1, chunk: "cc a.c\n".into() };
/// assert_eq!(tracker.look(&look), Outcome::Changes(vec![line]));
/// ```
#[derive(Debug)]
pub struct Tracker {
    /// The known lines, with consecutive numbers: some history, and the screen as far as it is used.
    lines: Vec<Line>,
    /// The number of the next line to be said; all before it were said, or stood there before.
    next: i64,
    old: Footprint,
    width: u32,
    pid: u32,
    died: bool,
    bytes_before: Option<u64>,
    /// The number of the line that the cursor is in.
    cursor_line: i64,
    /// The last look showed something new.
    news: bool,
    screen: ScreenDiff,
}

/// The normal screen of a look, also while a full-screen program hides it.
struct Normal<'a> {
    rows: std::borrow::Cow<'a, [Row]>,
    height: usize,
    cursor_row: u32,
}

impl<'a> Normal<'a> {
    fn of(look: &'a Look) -> Self {
        match &look.saved {
            Some(saved) if look.alternate => {
                let mut rows = look.rows[..look.history_rows()].to_vec();
                rows.extend_from_slice(&saved.rows);
                Self { rows: rows.into(), height: saved.rows.len(), cursor_row: saved.cursor.y }
            }
            _ => {
                let mut rows = std::borrow::Cow::Borrowed(&look.rows[..]);
                if look.dead.is_some() && rows.last().is_some_and(is_death_notice) {
                    // tmux writes it into the pane; the program did not.
                    if let Some(notice) = rows.to_mut().last_mut() {
                        *notice = Row::default();
                    }
                }
                Self {
                    height: (look.height as usize).min(rows.len()),
                    rows,
                    // tmux moves the cursor of a dead pane: only the text counts.
                    cursor_row: if look.dead.is_some() { 0 } else { look.cursor.y },
                }
            }
        }
    }

    fn footprint(&self, look: &Look) -> Footprint {
        Footprint::new(&self.rows, self.height, look.history_size, self.cursor_row)
    }

    /// The lines, as far as the screen is used.
    fn lines(&self, footprint: &Footprint) -> Vec<Logical> {
        let unused = (footprint.height - footprint.used).max(0) as usize;
        group(&self.rows[..self.rows.len() - unused], -footprint.history_rows)
    }
}

/// Whether a row is what tmux writes at the bottom of a pane that it keeps after its program ended.
fn is_death_notice(row: &Row) -> bool {
    row.text.starts_with("Pane is dead")
}

/// The lines that a look shows, as far as the screen is used: what a baseline is made of.
pub fn text_of(look: &Look) -> Vec<String> {
    let normal = Normal::of(look);
    let lines = normal.lines(&normal.footprint(look));
    lines.into_iter().map(|line| line.text).collect()
}

impl Tracker {
    /// Begins with a pane that has been there: what stands on its screen is known, not said.
    pub fn baseline(look: &Look) -> Self {
        let mut tracker = Self::empty(look);
        let normal = Normal::of(look);
        let footprint = normal.footprint(look);
        let lines = normal.lines(&footprint);
        let at_cursor = line_of_row(&lines, footprint.cursor_row);
        let first = 1 - at_cursor as i64;
        tracker.take(lines, first, Moved::Anew, footprint);
        for line in &mut tracker.lines {
            (line.said, line.stood) = (Said::AsItIs, true);
        }
        tracker
    }

    /// Begins with a pane that has just appeared: all that it shows is new, from line 1 on.
    pub fn fresh(look: &Look) -> (Self, Vec<Change>) {
        let mut tracker = Self::empty(look);
        let normal = Normal::of(look);
        let footprint = normal.footprint(look);
        let lines = normal.lines(&footprint);
        let mut changes = Vec::new();
        if !look.is_complete() {
            changes.push(tracker.gap(GapReason::Truncated));
        } else if look.history_size > look.history_limit.saturating_sub(look.trim_step()) {
            // So much was printed before the first look that the history may have been trimmed.
            changes.push(tracker.gap(GapReason::Ambiguous));
        }
        tracker.take(lines, 1, Moved::Anew, footprint);
        tracker.settle(&mut changes, false);
        tracker.show_screen(look, &mut changes);
        (tracker, changes)
    }

    /// Goes on where an earlier observer of the same pane stopped. `known` are the last lines that
    /// it said, with their numbers in order, and `next` the number of the first that it did not.
    /// Where their place in the pane is not the only possible one, a gap is said and what stands
    /// there now is known, not said.
    pub fn resume(look: &Look, known: &[(i64, String)], next: i64) -> (Self, Vec<Change>) {
        let mut tracker = Self::empty(look);
        tracker.next = next;
        let normal = Normal::of(look);
        let footprint = normal.footprint(look);
        let lines = normal.lines(&footprint);
        let settled: Vec<(i64, &str)> = known
            .iter()
            .filter(|(number, _)| *number < next)
            .map(|(number, text)| (*number, text.as_str()))
            .collect();
        let mut changes = Vec::new();
        if let Some(first) = reflow::place(&settled, &lines, |_| true) {
            tracker.take(lines, first, Moved::Anew, footprint);
            for line in &mut tracker.lines {
                let said = known.iter().find(|(number, _)| *number == line.number);
                line.said = match said {
                    Some((_, text)) if *text == line.text => Said::AsItIs,
                    Some((_, text)) => Said::Otherwise(text.clone()),
                    None if line.number < next => Said::AsItIs,
                    None => Said::Nothing,
                };
            }
            tracker.settle(&mut changes, false);
        } else {
            changes.push(tracker.gap(GapReason::ObserverAbsent));
            let at_cursor = line_of_row(&lines, footprint.cursor_row);
            // The line of the cursor takes the next number; what is above it stays unsaid.
            let first = next - at_cursor as i64;
            tracker.take(lines, first, Moved::Anew, footprint);
            for line in &mut tracker.lines {
                line.said = Said::AsItIs;
            }
        }
        tracker.show_screen(look, &mut changes);
        (tracker, changes)
    }

    fn empty(look: &Look) -> Self {
        Self {
            lines: Vec::new(),
            next: 1,
            old: Footprint::default(),
            width: look.width,
            pid: look.pid,
            died: look.dead.is_some(),
            bytes_before: look.bytes_before,
            cursor_line: 1,
            news: false,
            screen: ScreenDiff::default(),
        }
    }

    /// How many rows of history the next look should hold beyond those that have come since.
    pub fn margin(&self) -> u32 {
        // A line that reaches into the screen is looked at from its beginning.
        let unfinished = self.lines.iter().find(|line| line.start + line.rows > 0);
        let above = unfinished.map_or(0, |line| (-line.start).max(0));
        let kept = self.old.history_rows.min(i64::from(MARGIN_ROWS));
        u32::try_from(above + kept).unwrap_or(u32::MAX)
    }

    /// The number of the next line to be said.
    pub fn next_line(&self) -> i64 {
        self.next
    }

    /// Whether the last look showed anything that the one before did not.
    pub fn had_news(&self) -> bool {
        self.news
    }

    /// Takes a look in.
    pub fn look(&mut self, look: &Look) -> Outcome {
        self.look_as(look, look.is_complete())
    }

    /// Takes a look in that is as deep as looks can be: what it does not reach is lost.
    pub fn deepest_look(&mut self, look: &Look) -> Vec<Change> {
        match self.look_as(look, true) {
            Outcome::Changes(changes) => changes,
            // Not to be had from the deepest look.
            Outcome::Deeper => Vec::new(),
        }
    }

    fn look_as(&mut self, look: &Look, deepest: bool) -> Outcome {
        let mut changes = Vec::new();
        if look.alternate && look.saved.is_none() {
            // The lines behind the full-screen program were not looked at: they wait.
            self.show_screen(look, &mut changes);
            return Outcome::Changes(changes);
        }
        let normal = Normal::of(look);
        let mut footprint = normal.footprint(look);
        footprint.deepest = deepest;
        self.news = !footprint.shows_as(&self.old);
        let lines = normal.lines(&footprint);
        let respawned = look.pid != self.pid;
        let (first, moved) = if respawned {
            // A new program in the pane: tmux has erased the screen, what was last printed on it
            // may not have been seen, unless the program had been seen to be over.
            if !deepest {
                return Outcome::Deeper;
            }
            let lost = self.died.then_some(0);
            self.flush(&mut changes);
            changes.push(Change::Gap {
                first_line: self.next,
                lost_lines: lost,
                reason: GapReason::Cleared,
            });
            (self.first_after_respawn(&lines, &footprint), Moved::Anew)
        } else if look.width != self.width && !look.alternate {
            match self.after_reflow(&lines, look, deepest) {
                Ok(first) => (first, Moved::Anew),
                Err(None) => return Outcome::Deeper,
                Err(Some(reason)) => (self.lose(reason, &mut changes), Moved::Anew),
            }
        } else {
            let facts = Facts {
                trim_step: i64::from(look.trim_step()),
                history_limit: i64::from(look.history_limit),
                bytes: self.bytes_since(look),
            };
            match place(&self.old, &footprint, &normal.rows, facts) {
                Place::Deeper => return Outcome::Deeper,
                Place::Scrolled(rows) => (self.first_number(&lines, rows), Moved::By(rows)),
                Place::AtLeast(rows) => {
                    self.flush(&mut changes);
                    changes.push(self.gap(GapReason::Ambiguous));
                    (self.first_number(&lines, rows), Moved::AtLeast(rows))
                }
                Place::Lost(reason) => (self.lose(reason, &mut changes), Moved::Anew),
            }
        };
        if !look.alternate {
            self.width = look.width;
        }
        self.pid = look.pid;
        self.died = look.dead.is_some();
        self.bytes_before = look.bytes_before;
        // What the look no longer holds was complete when it was seen.
        self.say(&mut changes, first - 1);
        self.take(lines, first, moved, footprint);
        self.settle(&mut changes, look.dead.is_some());
        self.show_screen(look, &mut changes);
        Outcome::Changes(changes)
    }

    /// Nothing changed since the last look: what stood there has settled.
    pub fn still(&mut self) -> Vec<Change> {
        for line in &mut self.lines {
            line.stood = true;
        }
        let mut changes = Vec::new();
        self.settle(&mut changes, self.died);
        changes
    }

    /// The pane is gone: what was seen of it last is final.
    pub fn end(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        self.settle(&mut changes, true);
        changes
    }

    /// The observer stops and the pane goes on: all but the line of the cursor is said, and that
    /// one as it stands.
    pub fn detach(&mut self) -> Vec<Change> {
        self.still()
    }

    fn bytes_since(&self, look: &Look) -> Option<u64> {
        Some(look.bytes_after?.saturating_sub(self.bytes_before?))
    }

    fn gap(&self, reason: GapReason) -> Change {
        Change::Gap { first_line: self.next, lost_lines: None, reason }
    }

    /// The known lines above the cursor were complete when they were seen: they are said now.
    fn flush(&mut self, changes: &mut Vec<Change>) {
        self.say(changes, self.cursor_line - 1);
    }

    /// No known line is left: what comes takes numbers that none had. Returns the first.
    fn lose(&mut self, reason: GapReason, changes: &mut Vec<Change>) -> i64 {
        self.flush(changes);
        // The cursor's line was unfinished, and perhaps shown: its number is spent then.
        let spent = self.lines.iter().rev().find(|line| line.said != Said::Nothing);
        self.next = self.next.max(spent.map_or(i64::MIN, |line| line.number + 1));
        changes.push(self.gap(reason));
        self.lines.clear();
        self.next
    }

    /// The number of the first line of a pane with a new program: its history is known as far as
    /// it is old, its screen is new.
    fn first_after_respawn(&mut self, lines: &[Logical], footprint: &Footprint) -> i64 {
        let spent = self.lines.iter().rev().find(|line| line.said != Said::Nothing);
        self.next = self.next.max(spent.map_or(i64::MIN, |line| line.number + 1));
        self.lines.clear();
        // Rows that have scrolled off since belong to the new program only as far as the history
        // grew; the rest was there before.
        let grown = (footprint.history_size - self.old.history_size).max(0);
        let old = lines.iter().take_while(|line| line.start < -grown).count();
        self.next - old as i64
    }

    /// The number of the first line of a look in which the known rows scrolled so far.
    fn first_number(&self, lines: &[Logical], scrolled: i64) -> i64 {
        let (Some(first), Some(oldest)) = (lines.first(), self.lines.first()) else {
            return self.next;
        };
        // The look goes further back than what is known: older lines count down from there.
        let older = lines.iter().take_while(|line| line.start + scrolled < oldest.start).count();
        if older > 0 {
            return oldest.number - older as i64;
        }
        // It begins in a known line, or right after the last.
        let start = first.start + scrolled;
        let known = self.lines.iter().rev().find(|known| known.start <= start).unwrap_or(oldest);
        if start < known.start + known.rows { known.number } else { known.number + 1 }
    }

    /// The number of the first line after the width changed: rows have been made anew, lines stand.
    fn after_reflow(
        &self,
        lines: &[Logical],
        look: &Look,
        deepest: bool,
    ) -> Result<i64, Option<GapReason>> {
        if !deepest {
            return Err(None);
        }
        let settled: Vec<(i64, &str)> = self
            .lines
            .iter()
            .filter(|line| line.number < self.cursor_line)
            .map(|line| (line.number, line.text.as_str()))
            .collect();
        let bytes = self.bytes_since(look);
        let printable = |new_lines: &[Logical]| {
            let least: usize = new_lines.iter().map(|line| line.text.trim_end().len()).sum();
            bytes.is_none_or(|bytes| least as u64 <= bytes)
        };
        reflow::place(&settled, lines, |after: usize| {
            // Beyond the line that the cursor was in, all was printed since.
            lines.get(after + 1..).is_none_or(&printable)
        })
        .ok_or(Some(GapReason::Resized))
    }

    /// Makes the lines of a look the known ones, numbered from `first` on.
    fn take(&mut self, lines: Vec<Logical>, first: i64, moved: Moved, mut footprint: Footprint) {
        let old = std::mem::take(&mut self.lines);
        let old_first = old.first().map_or(0, |line| line.number);
        let mut old: Vec<Option<Line>> = old.into_iter().map(Some).collect();
        let mut was = |number: i64| {
            usize::try_from(number - old_first).ok().and_then(|at| old.get_mut(at)?.take())
        };
        let mut end = 0;
        let mut last = first - 1;
        for (number, mut line) in (first..).zip(lines) {
            (end, last) = (line.end(), number);
            let (said, stood, restless) = match was(number) {
                Some(old) => {
                    // A line of which tmux has only the end begins as it did.
                    let cut_rows = match moved {
                        Moved::By(rows) => line.start - (old.start - rows),
                        // Only a line that was finished is the same one for sure.
                        Moved::AtLeast(rows) if number < self.cursor_line => {
                            line.start - (old.start - rows)
                        }
                        Moved::AtLeast(_) | Moved::Anew => 0,
                    };
                    if number == first && cut_rows > 0 {
                        let begin = old.text.strip_suffix(&line.text);
                        let begin =
                            begin.unwrap_or_else(|| first_rows(&old.text, self.width, cut_rows));
                        line.text.insert_str(0, begin);
                        line.start -= cut_rows;
                        line.rows += cut_rows;
                    }
                    let stood = old.text == line.text;
                    let restless = !stood && !old.stood && old.said != Said::Nothing;
                    (old.said.carried_over(old.text, &line.text), stood, restless)
                }
                // Said long ago, and blank since then, below the text.
                None if number < self.next => (Said::Otherwise(String::new()), false, false),
                None => (Said::Nothing, false, false),
            };
            let Logical { start, rows, text } = line;
            self.lines.push(Line { number, start, rows, text, said, stood, restless });
        }
        // What vanished below the text is blank now, and keeps its number while there is room.
        let mut vanished: Vec<Line> = (last + 1..).map_while(&mut was).collect();
        let room = (footprint.height - end).max(0) as usize;
        let kept = vanished.iter().enumerate().rposition(|(row, line)| {
            !line.said_text().is_empty() || line.number < self.next && row < room
        });
        vanished.truncate(kept.map_or(0, |last| last + 1));
        for (start, line) in (end..).zip(vanished) {
            self.lines.push(Line {
                start,
                rows: 1,
                stood: line.text.is_empty(),
                restless: false,
                said: line.said.carried_over(line.text, ""),
                text: String::new(),
                number: line.number,
            });
        }
        footprint.forget();
        self.cursor_line = self
            .lines
            .iter()
            .rev()
            .find(|line| line.start <= footprint.cursor_row)
            .map_or(first, |line| line.number);
        self.old = footprint;
    }

    /// Says what has settled, and what of the rest is worth showing.
    fn settle(&mut self, changes: &mut Vec<Change>, all: bool) {
        // What was said before and reads differently now.
        let next = self.next;
        for line in self.lines.iter_mut().filter(|line| line.number < next) {
            revise(line, changes);
        }
        let last = if all {
            // Blank rows at the very end are not lines that the program ended.
            self.lines
                .iter()
                .rev()
                .find(|line| !line.text.trim_end().is_empty())
                .map(|line| line.number)
        } else {
            let cursor_line = self.cursor_line;
            let settled = |line: &&Line| {
                let scrolled_off = line.start + line.rows <= 0;
                scrolled_off || line.stood && line.number < cursor_line
            };
            let unsaid = self.lines.iter().filter(|line| line.number >= next);
            unsaid.take_while(settled).last().map(|line| line.number)
        };
        if let Some(last) = last {
            self.say(changes, last);
        }
        // Prompts and progress, and lines that wait for one of those before them. A line that is
        // new, or that the cursor has just left, will be said with the next tick.
        let (next, cursor_line) = (self.next, self.cursor_line);
        for line in self.lines.iter_mut().filter(|line| line.number >= next) {
            let shown = line.said != Said::Nothing;
            if line.stood || line.restless || shown && line.number >= cursor_line {
                revise(line, changes);
            }
        }
        self.forget();
    }

    /// Says the lines from the next one to `last`.
    fn say(&mut self, changes: &mut Vec<Change>, last: i64) {
        let mut chunk = String::new();
        let mut first_line = self.next;
        let next = self.next;
        for line in self.lines.iter_mut().filter(|line| (next..=last).contains(&line.number)) {
            if !chunk.is_empty() && chunk.len() + line.text.len() >= CHUNK_BYTES {
                let chunk = std::mem::take(&mut chunk);
                changes.push(Change::Lines { first_line, chunk });
                first_line = line.number;
            }
            chunk.push_str(&line.text);
            chunk.push('\n');
            line.said = Said::AsItIs;
            self.next = line.number + 1;
        }
        if !chunk.is_empty() {
            changes.push(Change::Lines { first_line, chunk });
        }
    }

    /// Forgets lines that can neither change nor help to find the place.
    fn forget(&mut self) {
        let oldest = -(KEPT_ROWS as i64);
        let next = self.next;
        let keep = self
            .lines
            .iter()
            .position(|line| line.start + line.rows > oldest || line.number >= next)
            .unwrap_or(self.lines.len());
        self.lines.drain(..keep);
    }

    fn show_screen(&mut self, look: &Look, changes: &mut Vec<Change>) {
        if look.alternate {
            let screen = &look.rows[look.history_rows()..];
            changes.extend(self.screen.update(look.width, look.height, look.cursor, screen));
        } else {
            self.screen.leave();
        }
    }
}

impl Said {
    /// What was said of a line that read `old` and reads `new` now.
    fn carried_over(self, old: String, new: &str) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::AsItIs if old == new => Self::AsItIs,
            Self::AsItIs => Self::Otherwise(old),
            Self::Otherwise(said) if said == new => Self::AsItIs,
            Self::Otherwise(said) => Self::Otherwise(said),
        }
    }
}

/// Says what a line reads now, if that was not said.
fn revise(line: &mut Line, changes: &mut Vec<Change>) {
    if line.said_text() == line.text {
        return;
    }
    line.said = Said::AsItIs;
    changes.push(Change::Revised { line: line.number, text: line.text.clone() });
}

fn line_of_row(lines: &[Logical], row: i64) -> usize {
    lines.iter().rposition(|line| line.start <= row).unwrap_or(0)
}
