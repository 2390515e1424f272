//! The rows at the foot of a terminal: what needs a person, then what is open or changes (pure).
//!
//! They take half of the terminal at most. Each pane has a row before one has two, the panes stand in
//! the order in which they came, and their rows in the order of their lines: nothing jumps about.

use super::alerts::{Need, Urgency};
use super::pane_display::{Pane, Reading};
use super::row_writer::Rows;
use crate::face::session_labels::Names;
use crate::face::tone::Tone;

/// Rows of what needs a person, under their heading.
const NEEDS_MAX: usize = 6;

/// Rows beyond this number are more than an eye follows.
const ROWS_MAX: usize = 12;

/// A pane that rests for so long, in microseconds, at a bare prompt has nothing to show.
const PROMPT_RESTS: i64 = 3_000_000;

/// A line that is open or changes: its number, what it reads, when it changed.
type Open<'a> = (i64, &'a str, i64);

/// The rows at the foot, as they are put together.
pub(super) struct Foot<'a> {
    pub rows: &'a Rows,
    pub names: &'a Names,
    pub columns: usize,
    pub rows_max: usize,
}

/// A pane, and what it is called.
pub(super) type Named<'a> = (&'a str, &'a crate::event::PaneId, &'a Pane);

impl Foot<'_> {
    /// How many rows of a terminal with so many may be used.
    pub fn rows_of(terminal_rows: usize) -> usize {
        (terminal_rows / 2).clamp(1, ROWS_MAX)
    }

    /// What needs a person.
    pub fn needs(&self, needs: &[&Need], out: &mut Vec<String>) {
        let room = self.rows_max.saturating_sub(out.len() + 1).min(NEEDS_MAX);
        if needs.is_empty() || room == 0 {
            return;
        }
        let heading = match needs.len() {
            1 => "── 1 needs you ".to_owned(),
            count => format!("── {count} need you "),
        };
        out.push(self.rows.heading(&heading, self.columns));
        for need in needs.iter().take(room) {
            let label = self.names.label(&need.execution_id, need.pane.as_ref());
            let tone = match need.urgency {
                Urgency::Waits => Tone::Caution,
                _ => Tone::Alarm,
            };
            out.extend(
                self.rows
                    .fitting(&label, '!', tone, &need.text, self.columns),
            );
        }
    }

    /// What is open or changes in panes, which stand in their order.
    pub fn panes(&self, panes: &[Named<'_>], at: i64, reading: Reading<'_>, out: &mut Vec<String>) {
        let room = self.rows_max.saturating_sub(out.len());
        let newest = panes.iter().map(|(_, _, pane)| pane.changed).max();
        let mut shown: Vec<(usize, Vec<Open<'_>>)> = Vec::new();
        for (place, (_, _, pane)) in panes.iter().enumerate() {
            let lines: Vec<_> = pane.live(reading).collect();
            let rests = pane.changed.saturating_add(PROMPT_RESTS) <= at;
            let is_newest = Some(pane.changed) == newest;
            let is_prompt = matches!(&lines[..], [(_, text, _)] if is_prompt(text));
            let is_idle = is_prompt && rests && !is_newest;
            if !lines.is_empty() && !is_idle {
                shown.push((place, lines));
            }
        }
        // Where there is no room for all, the panes that changed last have it.
        shown.sort_by_key(|(place, _)| std::cmp::Reverse(panes[*place].2.changed));
        shown.truncate(room);
        shown.sort_by_key(|(place, _)| *place);
        let mut given = vec![0; shown.len()];
        let mut left = room;
        while left > 0 {
            let before = left;
            for (rows, (_, lines)) in given.iter_mut().zip(&shown) {
                if left > 0 && *rows < lines.len() {
                    *rows += 1;
                    left -= 1;
                }
            }
            if left == before {
                break;
            }
        }
        for (rows, (place, lines)) in given.iter().zip(&mut shown) {
            let (id, pane, known) = panes[*place];
            let label = self.names.label(id, Some(pane));
            // Of more lines than rows, those that changed last.
            lines.sort_by_key(|(number, _, changed)| std::cmp::Reverse((*changed, *number)));
            lines.truncate(*rows);
            lines.sort_by_key(|(number, _, _)| *number);
            for (number, text, _) in lines.iter() {
                let row = match known.paints.paint(*number, text) {
                    Some(painted) => self.rows.fitting_painted(&label, &painted, self.columns),
                    None => self
                        .rows
                        .fitting(&label, '|', Tone::Plain, text, self.columns),
                };
                out.extend(row);
            }
        }
    }
}

/// A shell's prompt with nothing typed, by how it ends.
fn is_prompt(text: &str) -> bool {
    let ends = ['$', '#', '%', '>', '❯', '➜'];
    text.trim_end().ends_with(ends) && text.len() < 200
}
