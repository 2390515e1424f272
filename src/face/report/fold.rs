//! Folds the events of one run into what its rows did within a span of time (pure).

use std::collections::BTreeMap;

use super::tally::{Span, Tally};
use super::text::{Text, Texts};
use crate::board::{Row, RowKey};
use crate::event::{Envelope, EventKind, ExecutionId, PaneId, TdEvent};
use crate::feed::RunStates;
use crate::history::{Query, RunSummary};
use crate::timestamp::Timestamp;

/// The events that a report reads. Others, most of all what programs print, are skipped by their bytes.
const KINDS: [EventKind; 32] = [
    EventKind::LoopStarted,
    EventKind::PhaseStarted,
    EventKind::IterationCompleted,
    EventKind::LoopCompleted,
    EventKind::PromptSent,
    EventKind::ResponseCompleted,
    EventKind::ToolCallStarted,
    EventKind::ToolCallCompleted,
    EventKind::ValidationCompleted,
    EventKind::Warning,
    EventKind::Error,
    EventKind::SessionStarted,
    EventKind::SessionRenamed,
    EventKind::SessionEnded,
    EventKind::PaneOpened,
    EventKind::PaneClosed,
    EventKind::PaneSeen,
    EventKind::RowRenamed,
    EventKind::RowDismissed,
    EventKind::OutputGap,
    EventKind::LogGap,
    EventKind::ExecutionStarted,
    EventKind::ExecutionCompleted,
    EventKind::TurnCompleted,
    EventKind::AgentRegistered,
    EventKind::AgentCompleted,
    EventKind::AgentFailed,
    EventKind::AgentState,
    EventKind::BackgroundWork,
    EventKind::ProgressReported,
    EventKind::ConversationFound,
    EventKind::PollerRestarted,
];

/// The most problems of a run that a report lists.
const PROBLEMS_MAX: usize = 20;

/// Returns the query for the events that a report reads of a run: from its beginning, because what a row does at the
/// start of the span was reported before it.
pub(super) fn query(until: Timestamp) -> Query {
    let add = |query: Query, kind: EventKind| query.kind(kind.as_str());
    let query = KINDS.into_iter().fold(Query::all().until(until), add);
    query.headers().ends_of_output()
}

/// The fold over one run.
#[derive(Debug)]
pub(super) struct RunFold {
    span: Span,
    pub states: RunStates,
    pub tallies: BTreeMap<RowKey, Tally>,
    /// How many processes went on with the log within the span.
    pub restarts: u64,
    /// The events that the log had to drop within the span.
    pub dropped_events: u64,
    pub problems: Vec<Text>,
    /// True if an event has a number.
    pub has_numbers: bool,
    pub events: u64,
    /// The pane in whose foreground the command or the loop ran.
    pub in_pane: Option<(String, PaneId)>,
}

impl RunFold {
    pub fn new(span: Span) -> Self {
        Self {
            span,
            states: RunStates::default(),
            tallies: BTreeMap::new(),
            restarts: 0,
            dropped_events: 0,
            problems: Vec::new(),
            has_numbers: false,
            events: 0,
            in_pane: None,
        }
    }

    /// Applies the next event, or the header of a file; see [`RunStates::apply`].
    pub fn apply(
        &mut self,
        envelope: &Envelope,
        texts: &Texts,
        last_before: &mut dyn FnMut(u64) -> Option<Timestamp>,
    ) {
        let (at, event) = (envelope.ts, &envelope.event);
        let changes = self.states.apply(envelope, last_before);
        let is_header = matches!(event, TdEvent::LogOpened { .. });
        if let Some(at) = changes.lost_at {
            self.restarts += u64::from(is_header && self.span.contains(envelope.ts));
            for tally in self.tallies.values_mut() {
                tally.lose_observer(at);
            }
        }
        if is_header {
            return;
        }
        self.events += 1;
        self.has_numbers |= envelope.seq.is_some();
        for key in &changes.rows {
            if let Some(row) = self.states.board.row(key) {
                let tally = self.tallies.entry(key.clone()).or_default();
                tally.note_row(row, event, at, (self.span, texts));
            }
        }
        self.count(envelope, texts);
    }

    fn count(&mut self, envelope: &Envelope, texts: &Texts) {
        let (at, event) = (envelope.ts, &envelope.event);
        let is_within = self.span.contains(at);
        match event {
            TdEvent::LogGap {
                first_seq,
                last_seq,
                ..
            } if is_within => {
                let dropped = last_seq.saturating_sub(*first_seq).saturating_add(1);
                self.dropped_events = self.dropped_events.saturating_add(dropped);
            }
            TdEvent::PollerRestarted { source, cause, .. } if is_within => {
                self.problem(texts, &format!("{source} crashed and ran again: {cause}"));
            }
            _ => {}
        }
        let Some(key) = self.states.board.owner(event) else {
            return;
        };
        let tally = self.tallies.entry(key).or_default();
        if is_within {
            tally.count(event, envelope.seq, at, texts);
        }
        tally.note(event, envelope.seq, at);
    }

    /// Returns the rows that have not ended.
    pub fn observed(&self) -> Vec<Row> {
        let rows = self.states.board.rows();
        rows.filter(|row| !row.has_ended()).cloned().collect()
    }

    /// Ends the observation with the last event of a run that nothing writes any more.
    pub fn end(&mut self, run: &RunSummary) {
        if !run.is_open() {
            for tally in self.tallies.values_mut() {
                tally.lose_observer(run.last_event);
            }
        }
    }

    /// Places the command or the loop in the pane in which it ran.
    pub fn place(&mut self, id: &ExecutionId) {
        self.states.board.set_place(id, self.in_pane.take());
    }

    /// Adds a problem of the history.
    pub fn problem(&mut self, texts: &Texts, problem: &str) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.extend(texts.take(problem));
        }
    }
}
