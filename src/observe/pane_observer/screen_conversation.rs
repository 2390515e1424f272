//! The conversation of an agent that keeps no transcript, read from its screen.

use super::Pane;
use crate::agent::{AgentEvent, ScreenReader};
use crate::event::AgentState;
use crate::observe::pane_observer::output::PaneOutput;
use crate::track::Capture;

impl Pane {
    /// Reads the conversation from a capture of a full-screen program; other programs print lines.
    pub(super) fn read_screen(&mut self, capture: &Capture, out: &mut PaneOutput<'_>) {
        if !capture.alternate || capture.dead.is_some() {
            return;
        }
        if let Some(reading) = &mut self.reading {
            reading.hold(capture, out.now);
        }
        self.read_due(out);
    }

    pub(super) fn read_due(&mut self, out: &mut PaneOutput<'_>) {
        let now = out.now;
        while let Some(reading) = &mut self.reading
            && let Some(rows) = reading.take_due(now)
        {
            let width = reading.size.0;
            self.read(out, |reader, events| {
                let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
                reader.update(&rows, width, now, events);
            });
        }
        self.read(out, |reader, events| reader.handle_timeout(now, events));
    }

    /// Takes a change of the agent's state, which may end its turn.
    pub(super) fn read_state(&mut self, state: AgentState, out: &mut PaneOutput<'_>) {
        // While an agent waits, its question is among the rows of its answer.
        if !matches!(state, AgentState::Working | AgentState::Waiting) {
            self.read(out, ScreenReader::end_turn);
        }
    }

    fn read(
        &mut self,
        out: &mut PaneOutput<'_>,
        how: impl FnOnce(&mut ScreenReader, &mut Vec<AgentEvent>),
    ) {
        let Some(reading) = &mut self.reading else {
            return;
        };
        let mut events = Vec::new();
        how(&mut reading.reader, &mut events);
        for event in events {
            let agent = (reading.agent.name(), reading.markers.as_ref());
            if let Some(event) = reading
                .converter
                .convert(event, out.execution_id, agent, &self.id)
            {
                out.emit(event);
            }
        }
    }
}
