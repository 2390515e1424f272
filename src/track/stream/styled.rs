//! The colours of the known lines, by number, looked up when lines are reported (pure).
//!
//! They do not take the way of the lines from the screen to the report. They are looked up
//! by number, and count only where the line reads as it did when it was written: no line has
//! another's colours.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use super::ink::Run;
use super::line::{Inked, push_inked};
use super::terminal::Terminal;
use crate::event::{STYLES_MAX, Style, Styles, lines_in};
use crate::track::lines::Logical;

/// So many runs are remembered of a pane: those of many screens, and little memory. Beyond, those of
/// the lines that came first are forgotten; they are plain if they are reported later.
const RUNS_MAX: usize = 4 * STYLES_MAX;

impl Terminal {
    /// The runs of the lines of the normal screen, counted as [`crate::track::lines::group`] groups
    /// them, with those of the beginning that has scrolled off.
    fn inked(&self) -> Vec<Inked> {
        let rows = match &self.saved {
            Some(saved) => &saved.rows,
            None => &self.grid.rows,
        };
        let scrolled = &self.grid.scrolled;
        let mut inked = scrolled.open_inked();
        if inked.is_empty() && rows.iter().all(|row| row.inks.is_empty()) {
            return inked;
        }
        let (mut line, mut before) = (0, 0);
        if let Some((head, _)) = scrolled.open() {
            before = head.chars().count();
        }
        let clusters = &self.grid.clusters;
        for row in rows {
            push_inked(row, clusters, (line, before), &mut inked);
            match row.wrapped {
                true => before += row.row(clusters, self.width()).text.chars().count(),
                false => (line, before) = (line + 1, 0),
            }
        }
        inked
    }
}

/// The runs of a line, and a hash of what it reads.
#[derive(Clone, Debug)]
struct Known {
    text: u64,
    runs: Vec<Run>,
}

/// Lines that have colours, by their places.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    gone: Vec<(usize, Known)>,
    shown: Vec<(usize, Known)>,
    /// Number of lines are on the screen.
    shown_lines: usize,
}

impl Fresh {
    /// Of lines that have gone, each ended by `\n`, and of those on the screen.
    pub fn of(gone: &str, inked: &[Inked], screen: &[Logical], terminal: &Terminal) -> Self {
        let texts = screen.iter().map(|line| &*line.text);
        Self {
            // A line without text has no colours, but counts.
            gone: known(gone.split('\n'), inked),
            shown: known(texts, &terminal.inked()),
            shown_lines: screen.len(),
        }
    }
}

fn known<'t>(texts: impl Iterator<Item = &'t str>, inked: &[Inked]) -> Vec<(usize, Known)> {
    let mut known = Vec::new();
    let mut rest = inked;
    for (at, text) in texts.enumerate() {
        if rest.is_empty() {
            break;
        }
        let (own, after) = rest.split_at(rest.partition_point(|one| one.line <= at));
        rest = after;
        if own.is_empty() {
            continue;
        }
        // Blank rows at its end are not of it where nothing follows them.
        let chars = text.chars().count();
        let within = |one: &Inked| Run {
            to: one.run.to.min(chars),
            ..one.run
        };
        let runs = own.iter().map(within).filter(|run| run.from < run.to);
        let runs = runs.collect();
        let text = hash(text);
        known.push((at, Known { text, runs }));
    }
    known
}

/// The colours of known lines.
#[derive(Debug, Default)]
pub(super) struct Styled {
    lines: BTreeMap<i64, Known>,
    runs: usize,
}

impl Styled {
    /// Takes the written cells. `number` returns the number of a line that has gone; `first_shown` is
    /// that of the first on the screen.
    pub fn take(&mut self, fresh: Fresh, number: impl Fn(usize) -> i64, first_shown: i64) {
        if self.lines.is_empty() && fresh.gone.is_empty() && fresh.shown.is_empty() {
            return;
        }
        let end = first_shown.saturating_add(fresh.shown_lines as i64);
        // Its text or its style has changed.
        let old: Vec<i64> = self
            .lines
            .range(first_shown..end)
            .map(|(number, _)| *number)
            .collect();
        old.iter().for_each(|number| self.remove(*number));
        for (at, known) in fresh.gone {
            self.insert(number(at), known);
        }
        for (at, known) in fresh.shown {
            self.insert(first_shown + at as i64, known);
        }
        while self.runs > RUNS_MAX {
            let Some((_, known)) = self.lines.pop_first() else {
                return;
            };
            self.runs -= known.runs.len();
        }
    }

    fn insert(&mut self, number: i64, known: Known) {
        self.remove(number);
        self.runs += known.runs.len();
        self.lines.insert(number, known);
    }

    fn remove(&mut self, number: i64) {
        if let Some(known) = self.lines.remove(&number) {
            self.runs -= known.runs.len();
        }
    }

    /// The styles of lines from this number on, as far as they read as they were written.
    pub fn styles(&self, first_line: i64, text: &str) -> Styles {
        let mut lines = self.lines.range(first_line..).peekable();
        let mut styles = Vec::new();
        for (line, text) in (0_u32..).zip(lines_in(text)) {
            let number = first_line.saturating_add(i64::from(line));
            while lines.next_if(|(known, _)| **known < number).is_some() {}
            let Some((at, known)) = lines.peek() else {
                break;
            };
            if **at == number && known.text == hash(text) {
                styles.extend(known.runs.iter().filter_map(|run| style(line, run)));
            }
            if styles.len() >= STYLES_MAX {
                break;
            }
        }
        Styles::new(styles)
    }
}

/// Returns the style of a run in a line.
pub(super) fn style(line: u32, run: &Run) -> Option<Style> {
    Some(Style {
        line,
        from: u32::try_from(run.from).ok()?,
        to: u32::try_from(run.to).ok()?,
        sgr: run.ink.sgr(),
    })
}

fn hash(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    text.hash(&mut hasher);
    hasher.finish()
}
