//! The first pass of an export: the panes of a run, and the last text of revised lines (pure).

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Envelope, PaneId, TdEvent};

/// The revised text that is kept, some 500,000 lines. A revision concerns a line that was on a screen,
/// so that even long runs have few final ones.
const REVISED_BYTES_MAX: usize = 64 << 20;

/// The memory of a revision beside its text: the map's entry.
const REVISION_BYTES: usize = 64;

/// The panes that are counted: far more than a tmux server has in its life.
const PANES_MAX: usize = 100_000;

/// Collects the panes and revisions of a run.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    only: Option<PaneId>,
    panes: BTreeSet<PaneId>,
    /// The run has the conversation of an agent in a pane.
    has_conversation: bool,
    /// The last revisions that no later `OutputUpdate` replaced.
    revised: BTreeMap<PaneId, BTreeMap<i64, String>>,
    bytes: usize,
    unkept: u64,
}

impl Survey {
    /// Surveys the text of one pane, or of all. Panes are counted in either case.
    pub fn new(only: Option<PaneId>) -> Self {
        Self {
            only,
            ..Self::default()
        }
    }

    /// Notes the next envelope of the log.
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

    /// The run's pane, if it has exactly one that is shown by its lines, not by a conversation.
    pub fn sole_pane(&self) -> Option<&PaneId> {
        let is_sole = self.panes.len() == 1 && !self.has_conversation;
        self.panes.first().filter(|_| is_sole)
    }

    /// The number of revisions beyond the bound: these lines keep their first text.
    pub fn unkept(&self) -> u64 {
        self.unkept
    }

    /// Returns whether the survey includes this pane's text.
    pub(super) fn includes(&self, pane: &PaneId) -> bool {
        self.only.as_ref().is_none_or(|only| only == pane)
    }

    /// Returns whether the survey is limited to one pane.
    pub(super) fn is_of_one_pane(&self) -> bool {
        self.only.is_some()
    }

    /// Takes the last text of a revised line.
    pub(super) fn take(&mut self, pane: &PaneId, line: i64) -> Option<String> {
        self.revised.get_mut(pane)?.remove(&line)
    }

    /// Takes the first revised line below `end`, with its number.
    pub(super) fn take_below(&mut self, pane: &PaneId, end: i64) -> Option<(i64, String)> {
        let revised = self.revised.get_mut(pane)?;
        let first = revised.first_entry().filter(|entry| *entry.key() < end)?;
        Some(first.remove_entry())
    }

    /// Takes all remaining lines.
    pub(super) fn take_rest(&mut self) -> BTreeMap<PaneId, BTreeMap<i64, String>> {
        std::mem::take(&mut self.revised)
    }
}
