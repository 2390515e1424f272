//! What a run has, before it is exported: its panes, and what its lines read at last (pure).

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Envelope, PaneId, TdEvent};

/// Revised text that is kept. A revision is of a line that was on a screen, so that even long runs
/// have few that last: this is some 500,000 of them.
const REVISED_BYTES_MAX: usize = 64 << 20;

/// What a revision costs beside its text: the map's entry.
const REVISION_BYTES: usize = 64;

/// Panes that are told apart: far more than a tmux server has in its life.
const PANES_MAX: usize = 100_000;

/// The first pass over a run.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    only: Option<PaneId>,
    panes: BTreeSet<PaneId>,
    /// An agent's conversation is reported.
    has_conversation: bool,
    /// What was said of lines beside `OutputUpdate`, as far as that did not say otherwise later.
    revised: BTreeMap<PaneId, BTreeMap<i64, String>>,
    bytes: usize,
    unkept: u64,
}

impl Survey {
    /// Of one pane's text, or all panes'. The panes are listed in any case.
    pub fn new(only: Option<PaneId>) -> Self {
        Self {
            only,
            ..Self::default()
        }
    }

    /// Takes the next envelope of the log in.
    pub fn note(&mut self, envelope: &Envelope) {
        let event = &envelope.event;
        if let Some(pane) = event.pane()
            && !self.panes.contains(pane)
            && self.panes.len() < PANES_MAX
        {
            self.panes.insert(pane.clone());
        }
        self.has_conversation |= matches!(
            event,
            TdEvent::PromptSent { .. } | TdEvent::TokenReceived { .. }
        ) && event.pane().is_some();
        match event {
            TdEvent::OutputUpdate {
                pane,
                first_line,
                chunk,
                ..
            } => {
                let Some(revised) = self.revised.get_mut(pane) else {
                    return;
                };
                let lines = chunk.bytes().filter(|byte| *byte == b'\n').count();
                let end = first_line.saturating_add_unsigned(lines as u64);
                let said = revised.range(*first_line..end).map(|(number, _)| *number);
                for number in said.collect::<Vec<_>>() {
                    let text = revised.remove(&number).unwrap_or_default();
                    self.bytes -= REVISION_BYTES + text.len();
                }
            }
            TdEvent::OutputRevised {
                pane, line, text, ..
            } if self.is_wanted(pane) => {
                let cost = REVISION_BYTES + text.len();
                let revised = self.revised.entry(pane.clone()).or_default();
                if let Some(old) = revised.remove(line) {
                    self.bytes -= REVISION_BYTES + old.len();
                }
                if self.bytes + cost > REVISED_BYTES_MAX {
                    self.unkept += 1;
                } else {
                    self.bytes += cost;
                    revised.insert(*line, text.clone());
                }
            }
            _ => {}
        }
    }

    /// The run's panes.
    pub fn panes(&self) -> impl Iterator<Item = &PaneId> {
        self.panes.iter()
    }

    /// The run's pane, if it has just one, and is shown by its lines: not by its agent's conversation.
    pub fn sole_pane(&self) -> Option<&PaneId> {
        let is_sole = self.panes.len() == 1 && !self.has_conversation;
        self.panes.first().filter(|_| is_sole)
    }

    /// How many revisions found no room: these lines read as they were said first.
    pub fn unkept(&self) -> u64 {
        self.unkept
    }

    /// Whether the survey is of this pane's text.
    pub(super) fn is_wanted(&self, pane: &PaneId) -> bool {
        self.only.as_ref().is_none_or(|only| only == pane)
    }

    /// Whether it is of one pane's text only.
    pub(super) fn is_of_one(&self) -> bool {
        self.only.is_some()
    }

    /// What a line reads at last, where that was said beside `OutputUpdate`. Told once.
    pub(super) fn take(&mut self, pane: &PaneId, line: i64) -> Option<String> {
        self.revised.get_mut(pane)?.remove(&line)
    }

    /// The next line below a number that was said beside `OutputUpdate` only, and its number. Told
    /// once.
    pub(super) fn take_below(&mut self, pane: &PaneId, end: i64) -> Option<(i64, String)> {
        let revised = self.revised.get_mut(pane)?;
        let first = revised.first_entry().filter(|entry| *entry.key() < end)?;
        Some(first.remove_entry())
    }

    /// The same for all panes and lines that are left.
    pub(super) fn take_rest(&mut self) -> BTreeMap<PaneId, BTreeMap<i64, String>> {
        std::mem::take(&mut self.revised)
    }
}
