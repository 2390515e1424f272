//! Performs the first pass of an export: collects the panes of a run, and the last text of revised lines
//! (pure).

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Envelope, PaneId, TdEvent};

/// The bound, in bytes, on revised text, some 500,000 lines. Only lines that were on a screen are revised, so
/// even long runs have few.
const REVISED_BYTES_MAX: usize = 64 << 20;

/// The memory of a revision in addition to its text: the map's entry.
const REVISION_BYTES: usize = 64;

/// The maximum number of panes to count: far more than a tmux server has in its lifetime.
const PANES_MAX: usize = 100_000;

/// Collects the panes and revisions of a run.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    only: Option<PaneId>,
    panes: BTreeSet<PaneId>,
    /// True if the run has the conversation of an agent in a pane.
    has_conversation: bool,
    /// The last revisions that no later `OutputUpdate` has replaced.
    revised: BTreeMap<PaneId, BTreeMap<i64, String>>,
    bytes: usize,
    dropped_revisions: u64,
}

impl Survey {
    /// Surveys the text of one pane, or of all panes. Panes are counted in either case.
    pub fn new(only: Option<PaneId>) -> Self {
        Self {
            only,
            ..Self::default()
        }
    }

    /// Records the next envelope of the log.
    pub fn note(&mut self, envelope: &Envelope) {
        let event = &envelope.event;
        if let Some(pane) = event.pane()
            && !self.panes.contains(pane)
            && self.panes.len() < PANES_MAX
        {
            self.panes.insert(pane.clone());
        }
        let is_conversation = matches!(
            event,
            TdEvent::PromptSent { .. } | TdEvent::TokenReceived { .. }
        );
        self.has_conversation |= is_conversation && event.pane().is_some();
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
                let replaced = revised.range(*first_line..end).map(|(number, _)| *number);
                for number in replaced.collect::<Vec<_>>() {
                    let text = revised.remove(&number).unwrap_or_default();
                    self.bytes -= REVISION_BYTES + text.len();
                }
            }
            TdEvent::OutputRevised {
                pane, line, text, ..
            } if self.includes(pane) => {
                let cost = REVISION_BYTES + text.len();
                let revised = self.revised.entry(pane.clone()).or_default();
                if let Some(old) = revised.remove(line) {
                    self.bytes -= REVISION_BYTES + old.len();
                }
                if self.bytes + cost > REVISED_BYTES_MAX {
                    self.dropped_revisions += 1;
                } else {
                    self.bytes += cost;
                    revised.insert(*line, text.clone());
                }
            }
            _ => {}
        }
    }

    pub fn panes(&self) -> impl Iterator<Item = &PaneId> {
        self.panes.iter()
    }

    /// Returns the run's pane, if the run has exactly one and no conversation replaces its lines.
    pub fn sole_pane(&self) -> Option<&PaneId> {
        let is_sole = self.panes.len() == 1 && !self.has_conversation;
        self.panes.first().filter(|_| is_sole)
    }

    /// Returns the number of revisions beyond the bound; these lines keep their first text.
    pub fn dropped_revisions(&self) -> u64 {
        self.dropped_revisions
    }

    /// Returns true if the survey includes this pane's text.
    pub(super) fn includes(&self, pane: &PaneId) -> bool {
        self.only.as_ref().is_none_or(|only| only == pane)
    }

    /// Returns true if the survey is limited to one pane.
    pub(super) fn is_single_pane(&self) -> bool {
        self.only.is_some()
    }

    /// Removes and returns the last text of a revised line.
    pub(super) fn take(&mut self, pane: &PaneId, line: i64) -> Option<String> {
        self.revised.get_mut(pane)?.remove(&line)
    }

    /// Removes and returns the first revised line below `end`, with its number.
    pub(super) fn take_below(&mut self, pane: &PaneId, end: i64) -> Option<(i64, String)> {
        let revised = self.revised.get_mut(pane)?;
        let first = revised.first_entry().filter(|entry| *entry.key() < end)?;
        Some(first.remove_entry())
    }

    pub(super) fn take_remaining(&mut self) -> BTreeMap<PaneId, BTreeMap<i64, String>> {
        std::mem::take(&mut self.revised)
    }
}
