//! The styles and links of the known lines by number (pure).
//!
//! Styles are stored separately from texts and requested when lines are reported. They apply only to
//! the text for which they were stored, so that no line gets the styles of another.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::super::lines::LogicalLine;
use super::grid::{Inked, push_inked};
use super::ink::Run;
use super::links::Addresses;
use super::terminal::Terminal;
use crate::event::{Link, Links, STYLES_MAX, Style, Styles, lines_in};
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

/// The runs and links of a line, and a hash of its text.
#[derive(Clone, Debug, Default)]
struct Known {
    text: u64,
    runs: Vec<Run>,
    links: Vec<KnownLink>,
}

/// A run of characters with a link.
#[derive(Clone, Debug)]
struct KnownLink {
    from: usize,
    to: usize,
    address: Arc<str>,
}

impl Known {
    /// Adds a run, whose style and link are separate from now on.
    fn push(&mut self, mut run: Run, addresses: &Addresses) {
        let Run { from, to, .. } = run;
        if let Some(address) = addresses.get(std::mem::take(&mut run.ink.link)) {
            match self.links.last_mut() {
                Some(last) if last.to == from && last.address == *address => last.to = to,
                _ => self.links.push(KnownLink {
                    from,
                    to,
                    address: address.clone(),
                }),
            }
        }
        match self.runs.last_mut() {
            _ if run.ink.is_plain() => {}
            Some(last) if last.to == from && last.ink == run.ink => last.to = to,
            _ => self.runs.push(run),
        }
    }

    /// Returns the size in memory, in runs.
    fn size(&self) -> usize {
        let links = self.links.iter();
        let links = links.map(|link| 1 + link.address.len().div_ceil(size_of::<Run>()));
        self.runs.len() + links.sum::<usize>()
    }
}

/// The styles and links of lines since the last update, by index.
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
            gone: known(gone.split('\n'), inked, &terminal.addresses),
            shown: known(texts, &terminal.inked(), &terminal.addresses),
            shown_lines: screen.len(),
        }
    }
}

fn known<'t>(
    texts: impl Iterator<Item = &'t str>,
    inked: &[Inked],
    addresses: &Addresses,
) -> Vec<(usize, Known)> {
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
        let mut line = Known {
            text: hash(text),
            ..Known::default()
        };
        let runs = own.iter().map(within).filter(|run| run.from < run.to);
        runs.for_each(|run| line.push(run, addresses));
        if line.size() > 0 {
            known.push((at, line));
        }
    }
    known
}

/// The most runs of lines that have been reported and have left the screen. Only a revision, which may be held back for
/// a second, still needs them; all others would fill the memory of each pane with colours for hours.
const REPORTED_RUNS: usize = 256;

/// The styles and links of known lines.
#[derive(Debug, Default)]
pub(super) struct Styled {
    lines: BTreeMap<i64, Known>,
    /// The sum of the sizes of the lines.
    size: usize,
    /// The first line on the screen at the last update, which has reported those before it.
    first_shown: i64,
}

impl Styled {
    /// Stores new styles. `number` returns the number of a line that has scrolled off; `first_shown` is
    /// the number of the first line on the screen.
    pub fn take(&mut self, fresh: Fresh, number: impl Fn(usize) -> i64, first_shown: i64) {
        let reported = std::mem::replace(&mut self.first_shown, first_shown);
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
        self.forget(REPORTED_RUNS, reported);
        for (at, known) in fresh.gone {
            self.insert(number(at), known);
        }
        for (at, known) in fresh.shown {
            self.insert(first_shown + at as i64, known);
        }
        // The runs of many screens need little memory. Beyond that, the oldest lines are reported as plain.
        self.forget(4 * STYLES_MAX, i64::MAX);
    }

    /// Forgets the oldest lines before `end` while there are more runs than this.
    fn forget(&mut self, runs_max: usize, end: i64) {
        while self.size > runs_max
            && let Some(oldest) = self.lines.first_entry()
            && *oldest.key() < end
        {
            self.size -= oldest.remove().size();
        }
    }

    fn insert(&mut self, number: i64, known: Known) {
        self.remove(number);
        self.size += known.size();
        self.lines.insert(number, known);
    }

    fn remove(&mut self, number: i64) {
        if let Some(known) = self.lines.remove(&number) {
            self.size -= known.size();
        }
    }

    /// Returns the styles and links of lines from this number on, where `text` is unchanged.
    pub fn styles(&self, first_line: i64, text: &str) -> (Styles, Links) {
        let mut lines = self.lines.range(first_line..).peekable();
        let (mut styles, mut links) = (Vec::new(), Vec::new());
        for (line, text) in (0_u32..).zip(lines_in(text)) {
            let number = first_line.saturating_add(i64::from(line));
            while lines.next_if(|(known, _)| **known < number).is_some() {}
            let Some((at, known)) = lines.peek() else {
                break;
            };
            if **at == number && known.text == hash(text) {
                styles.extend(known.runs.iter().filter_map(|run| style(line, run)));
                links.extend(known.links.iter().filter_map(|run| link(number, run)));
            }
        }
        (Styles::new(styles), Links::new(links))
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

fn link(line: i64, run: &KnownLink) -> Option<Link> {
    Some(Link {
        line,
        start: u32::try_from(run.from).ok()?,
        end: u32::try_from(run.to).ok()?,
        url: (*run.address).to_owned(),
    })
}

fn hash(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    text.hash(&mut hasher);
    hasher.finish()
}
