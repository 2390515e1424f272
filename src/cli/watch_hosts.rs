//! `td-observe watch --host`: shows the events of the observers of several hosts.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use super::failure::Failure;
use super::observer;
use super::options::Options;
use super::signals::Signals;
use super::status::selected;
use super::watch_observer::{self, EventSelection, SelectEvents};
use crate::agent::StateRules;
use crate::api::{EventReader, get_board, position};
use crate::board::Row;
use crate::clock::Clock;
use crate::event::{Envelope, ExecutionId, PaneId, TdEvent};

/// Shows the events of all hosts until the targets have ended or a signal arrives.
pub(super) fn run(
    options: &Options,
    (targets, states): (&[String], Option<StateRules>),
    signals: &Signals,
    clock: &Clock,
) -> Result<ExitCode, Failure> {
    let known = observer::running(&options.home()?)?;
    let socket = known
        .ok_or_else(|| failure!("the hosts are not read"))?
        .socket;
    let mut reader = EventReader::new(&socket, "/api/v1/events".to_owned(), clock);
    // Taken before the board, so that nothing is missed in between.
    reader.cursor = position(&socket);
    let board = get_board(&socket, None, Duration::ZERO)?;
    let rows = board.map(|(rows, _)| rows).unwrap_or_default();
    let selection = EventSelection {
        reader,
        filter: Box::new(HostFilter::new(rows, targets)?),
        states,
    };
    watch_observer::run(options, selection, signals, clock)
}

/// Selects the events of rows.
struct HostFilter {
    /// What is left of the rows that the targets name; `None` without targets.
    places: Option<BTreeSet<(ExecutionId, Option<PaneId>)>>,
}

impl HostFilter {
    /// Selects the rows that targets name, as `status` does; without targets, all.
    fn new(rows: Vec<Row>, targets: &[String]) -> Result<Self, Failure> {
        if targets.is_empty() {
            return Ok(Self { places: None });
        }
        let rows = selected(rows, targets)?.rows.into_iter();
        let places = rows.map(|row| (row.execution_id, row.pane)).collect();
        Ok(Self {
            places: Some(places),
        })
    }

    /// Returns true if an event concerns a place.
    fn is_of(event: &TdEvent, (id, pane): &(ExecutionId, Option<PaneId>)) -> bool {
        let is_of_run = event.execution_id() == id.as_str();
        let is_of_all = event.pane().is_none();
        is_of_run && (is_of_all || pane.is_none() || event.pane() == pane.as_ref())
    }
}

impl SelectEvents for HostFilter {
    fn selects(&mut self, envelope: &Envelope) -> bool {
        let Some(places) = &mut self.places else {
            return true;
        };
        let event = &envelope.event;
        let is_selected = places.iter().any(|place| Self::is_of(event, place));
        places.retain(|place| {
            let ends = match event {
                TdEvent::PaneClosed { .. } => place.1.is_some(),
                TdEvent::SessionEnded { .. } | TdEvent::LoopCompleted { .. } => true,
                TdEvent::ExecutionCompleted { pane, .. } => pane.is_none(),
                _ => false,
            };
            !ends || !Self::is_of(event, place)
        });
        is_selected
    }

    fn keep_present(&mut self, past: &mut Vec<Envelope>) {
        // The starts before the last one are those of earlier observers.
        let is_start =
            |envelope: &Envelope| matches!(envelope.event, TdEvent::SessionStarted { .. });
        past.drain(..past.iter().rposition(is_start).unwrap_or(0));
        if let Some(places) = &self.places {
            past.retain(|envelope| {
                places
                    .iter()
                    .any(|place| Self::is_of(&envelope.event, place))
            });
        }
    }

    fn is_over(&self) -> bool {
        self.places.as_ref().is_some_and(BTreeSet::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{ExecutionKind, RowKey};
    use crate::event::SessionEndReason;
    use crate::timestamp::Timestamp;

    #[test]
    fn a_target_is_a_row_of_any_host_until_it_ends() {
        let rows: Vec<Row> = ["web/main@1", "db/main@2"]
            .map(|id| {
                let key = RowKey {
                    execution_id: id.into(),
                    part: Some("%1".to_owned()),
                };
                let at = Timestamp::default();
                let mut row = Row::new(&key, "main".to_owned(), ExecutionKind::Pane, at);
                row.host = id.split('/').next().map(str::to_owned);
                row
            })
            .into();
        let targets = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            HostFilter::new(rows.clone(), &names)
        };
        assert!(targets(&["nothing"]).is_err());
        let both = targets(&["main"]).unwrap();
        assert_eq!(both.places.unwrap().len(), 2);
        let mut one = targets(&["web/main"]).unwrap();
        let mut selects = |event: TdEvent| {
            let envelope = Envelope::new(Some(1), Timestamp::default(), event);
            (one.selects(&envelope), one.is_over())
        };
        let closed = |id: &str, pane: &str| TdEvent::PaneClosed {
            execution_id: id.into(),
            pane: pane.into(),
            reason: crate::event::PaneCloseReason::Closed.into(),
            exit_status: None,
        };
        assert_eq!(selects(closed("db/main@2", "%1")), (false, false));
        assert_eq!(selects(closed("web/main@1", "%2")), (false, false));
        let ended = TdEvent::SessionEnded {
            execution_id: "db/main@2".into(),
            session: "main".to_owned(),
            reason: SessionEndReason::Closed.into(),
            exit_status: None,
        };
        assert_eq!(selects(ended), (false, false));
        assert_eq!(selects(closed("web/main@1", "%1")), (true, true));
    }
}
