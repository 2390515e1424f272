//! The styles of the known lines by number (pure).
//!
//! Styles are stored separately from texts and requested when lines are reported. They apply only to
//! the text for which they were stored, so that no line gets the styles of another.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use super::super::lines::LogicalLine;
use super::grid::{Inked, push_inked};
use super::ink::Run;
use super::terminal::Terminal;
use crate::event::{STYLES_MAX, Style, Styles, lines_in};
use rustc_hash::FxHasher;

impl Terminal {
    /// Returns the runs in the lines of the normal screen, as [`crate::track::lines::group`] counts
    /// these. The first line includes its beginning, which may have scrolled off.
    fn inked(&self) -> Vec<Inked> {
        let rows = self.normal_rows();
        let scrolled = &self.grid.scrolled;
        let mut inked = scrolled.open_inked();
        if inked.is_empty() && rows.iter().all(|row| row.inks.0.is_empty()) {
            return inked;
        }
        let (mut line, mut before) = (0, 0);
        if let Some((head, _)) = scrolled.open() {
            before = head.chars().count();
        }
        let clusters = &self.grid.clusters;
        for row in rows {
            push_inked(row, clusters, (line, before), &mut inked);
            if row.continues() {
                before += row.own_row(clusters, self.width()).text.chars().count()
            } else {
                (line, before) = (line + 1, 0)
            }
        }
        inked
    }
}

/// The runs of a line, and a hash of its text.
#[derive(Clone, Debug)]
struct Known {
    text: u64,
    runs: Vec<Run>,
}

/// The styles of lines since the last update, by index.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    /// Lines that have scrolled off.
    gone: Vec<(usize, Known)>,
    /// Lines on the screen.
    shown: Vec<(usize, Known)>,
    /// The number of lines on the screen, styled or not.
    shown_lines: usize,
}

impl Fresh {
    /// Collects the styles of lines that have scrolled off, each ended by `\n`, and of those on the
    /// screen.
    pub fn of(gone: &str, inked: &[Inked], screen: &[LogicalLine], terminal: &Terminal) -> Self {
        let texts = screen.iter().map(|line| &*line.text);
        Self {
            // Lines without text have no styles, but count.
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
        let (own, after) = rest.split_at(rest.partition_point(|inked| inked.line <= at));
        rest = after;
        if own.is_empty() {
            continue;
        }
        // The text may lack blank rows at the end of the line.
        let chars = text.chars().count();
        let within = |inked: &Inked| Run {
            to: inked.run.to.min(chars),
            ..inked.run
        };
        let runs = own.iter().map(within).filter(|run| run.from < run.to);
        let runs = runs.collect();
        let text = hash(text);
        known.push((at, Known { text, runs }));
    }
    known
}

/// The styles of known lines.
#[derive(Debug, Default)]
pub(super) struct Styled {
    lines: BTreeMap<i64, Known>,
    runs: usize,
}

impl Styled {
    /// Stores new styles. `number` returns the number of a line that has scrolled off; `first_shown` is
    /// the number of the first line on the screen.
    pub fn take(&mut self, fresh: Fresh, number: impl Fn(usize) -> i64, first_shown: i64) {
        if self.lines.is_empty() && fresh.gone.is_empty() && fresh.shown.is_empty() {
            return;
        }
        let end = first_shown.saturating_add(fresh.shown_lines as i64);
        // Texts and styles of lines on the screen may have changed.
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
        // The runs of many screens need little memory. Beyond that, the oldest lines are reported as plain.
        while self.runs > 4 * STYLES_MAX {
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

    /// Returns the styles of lines from this number on, where `text` is unchanged.
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
        ink: run.ink,
    })
}

fn hash(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    text.hash(&mut hasher);
    hasher.finish()
}
