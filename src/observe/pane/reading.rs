//! The conversation of an agent that keeps no transcript, read off its screen.

use std::time::Instant;

use super::super::conversation::Telling;
use super::super::say::Out;
use super::Pane;
use crate::agent::{AgentEvent, AgentProgram, AgentState, Markers, ScreenReader};
use crate::track::Look;

/// One agent's screen, as it is read.
#[derive(Debug)]
pub(super) struct Reading {
    agent: AgentProgram,
    /// What ends a turn, where that is asked for.
    markers: Option<Markers>,
    reader: ScreenReader,
    telling: Telling,
}

impl Reading {
    pub fn of(program: &AgentProgram, markers: Option<&Markers>) -> Self {
        Self {
            agent: program.clone(),
            markers: markers.cloned(),
            reader: ScreenReader::new(program),
            telling: Telling::of_screen(),
        }
    }

    /// Whether it knows where turns end.
    pub fn has_turns(&self) -> bool {
        self.agent.known().is_some()
    }

    /// When something settles, if nothing happens.
    pub fn next_due(&self) -> Option<Instant> {
        self.reader.deadline()
    }
}

impl Pane {
    /// What a look says of the conversation. The rows of a program that is not full-screen are lines.
    pub(super) fn read_screen(&mut self, look: &Look, out: &mut Out<'_>) {
        if !look.alternate || look.dead.is_some() {
            return;
        }
        let rows = look.rows[look.history_rows()..].iter();
        let rows: Vec<&str> = rows.map(|row| row.text.as_str()).collect();
        let now = out.now;
        self.read(out, |reader, events| {
            reader.update(&rows, look.width, now, events)
        });
    }

    pub(super) fn read_due(&mut self, out: &mut Out<'_>) {
        let now = out.now;
        self.read(out, |reader, events| reader.handle_timeout(now, events));
    }

    /// The agent is in this state now.
    pub(super) fn read_state(&mut self, state: AgentState, out: &mut Out<'_>) {
        // While it waits, what it asks for stands among its rows.
        if !matches!(state, AgentState::Working | AgentState::Waiting) {
            self.read(out, ScreenReader::end_turn);
        }
    }

    fn read(
        &mut self,
        out: &mut Out<'_>,
        how: impl FnOnce(&mut ScreenReader, &mut Vec<AgentEvent>),
    ) {
        let Some(reading) = &mut self.reading else {
            return;
        };
        let mut events = Vec::new();
        how(&mut reading.reader, &mut events);
        let id = out.emitter.execution_id();
        for event in events {
            let agent = (reading.agent.name(), reading.markers.as_ref());
            if let Some(event) = reading.telling.event(event, id, agent, &self.id) {
                out.emitter.emit(event);
            }
        }
    }
}
