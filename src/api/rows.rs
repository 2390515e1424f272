//! Dismissal of rows of the board: an event in the row's run, which is opened for it if it has ended.

use serde::Deserialize;

use super::http::Response;
use super::panes::{ApiContext, parsed};
use crate::board::Row;
use crate::event::{Envelope, PaneViewer, TdEvent};
use crate::history::{IN_PANE, RunInfo, RunState};
use crate::observe::RunName;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dismissal {
    dismissed: bool,
}

/// Dismisses a row, or brings it back, as the body says.
pub(super) fn dismiss(context: &ApiContext, id: &str, body: &[u8]) -> Response {
    let answer = || -> Result<Response, Response> {
        let Dismissal { dismissed } = parsed(body)?;
        context.dismiss(id, dismissed)?;
        Ok(Response::json(
            &serde_json::json!({"id": id, "dismissed": dismissed}),
        ))
    };
    answer().unwrap_or_else(|response| response)
}

impl ApiContext {
    /// Dismisses the row with an id, or brings it back.
    ///
    /// # Errors
    /// The response to send instead: 404 if there is no such row.
    pub fn dismiss(&self, id: &str, is_dismissed: bool) -> Result<(), Response> {
        let rows = self.feed.rows();
        let row = rows.iter().find(|row| row.key().to_string() == id);
        let row = row.ok_or_else(|| {
            let why = format!("the board has no row {id:?}: see /api/v1/board");
            Response::problem(404, &why)
        })?;
        if row.dismissed == is_dismissed {
            return Ok(());
        }
        let event = dismissal(row, is_dismissed);
        // The run of another process has its own numbers.
        let now = Envelope::new(None, self.clock.wall(), event.clone());
        if !self.feed.take_others(vec![now]).is_empty() {
            self.emit_into_run(row, event)
                .map_err(|error| Response::problem(500, &error.to_string()))?;
        }
        Ok(())
    }

    /// Emits an event into the run of a row. A run that has ended is opened, and ends again as before.
    fn emit_into_run(&self, row: &Row, event: TdEvent) -> crate::Result<()> {
        let id = &row.execution_id;
        let Some(runs) = &self.runs else {
            self.bus.emitter_for(id).emit(event);
            return Ok(());
        };
        let before = self.feed.data().run(id).metadata()?;
        let (info, state, exit_status) = match before {
            Some(before) => {
                let place = before.extra.into_iter().filter(|(key, _)| key == IN_PANE);
                let info = RunInfo {
                    kind: before.kind,
                    label: before.label,
                    identity: before.identity,
                    extra: place.collect(),
                };
                (info, before.state, before.exit_status)
            }
            None => (RunInfo::default(), RunState::Detached, None),
        };
        let run = runs.open(RunName::Exact(id.clone()), info)?;
        run.emitter.emit(event);
        // A run that its observer left open, or that its source closes now, is not known to have ended.
        let state = match state {
            RunState::Running => RunState::Detached,
            ended => ended,
        };
        runs.close(id, state, exit_status);
        Ok(())
    }
}

fn dismissal(row: &Row, dismissed: bool) -> TdEvent {
    let agent_id = row.key().part.filter(|_| row.pane.is_none());
    TdEvent::RowDismissed {
        execution_id: row.execution_id.clone(),
        pane: row.pane.clone(),
        agent_id,
        dismissed,
        by: PaneViewer::Face.into(),
    }
}
