//! The conversation of an agent that keeps no transcript, read off its screen.

use std::time::{Duration, Instant};

use super::super::conversation::Telling;
use super::super::say::Out;
use super::Pane;
use crate::agent::{AgentEvent, AgentProgram, Markers, ScreenReader, ScreenState};
use crate::track::Look;

/// How long after a change of size a screen is not read: tmux has cut or moved its rows, and the agent
/// draws them anew.
const REDRAWS: Duration = Duration::from_millis(300);

/// One agent's screen, as it is read.
#[derive(Debug)]
pub(super) struct Reading {
    agent: AgentProgram,
    /// What ends a turn, where that is asked for.
    markers: Option<Markers>,
    reader: ScreenReader,
    size: (u32, u32),
    /// When the screen is read that was not read since its size had changed.
    redrawn_at: Option<Instant>,
    telling: Telling,
}

impl Reading {
    pub fn of(program: &AgentProgram, markers: Option<&Markers>) -> Self {
        Self {
            agent: program.clone(),
            markers: markers.cloned(),
            reader: ScreenReader::new(program),
            size: (0, 0),
            redrawn_at: None,
            telling: Telling::of_screen(),
        }
    }

    /// Whether it knows where turns end.
    pub fn has_turns(&self) -> bool {
        self.agent.known().is_some()
    }

    /// When something settles, if nothing happens.
    pub fn next_due(&self) -> Option<Instant> {
        let due = [self.reader.next_due(), self.redrawn_at];
        due.into_iter().flatten().min()
    }

    /// Whether a screen of this size is to be read now.
    fn is_drawn(&mut self, size: (u32, u32), now: Instant) -> bool {
        let before = std::mem::replace(&mut self.size, size);
        if before != size && before != (0, 0) {
            self.redrawn_at = Some(now + REDRAWS);
        }
        self.redrawn_at.take_if(|at| *at <= now);
        self.redrawn_at.is_none()
    }
}

impl Pane {
    /// What a look says of the conversation. The rows of a program that is not full-screen are lines.
    pub(super) fn read_screen(&mut self, look: &Look, out: &mut Out<'_>) {
        if !look.alternate || look.dead.is_some() {
            return;
        }
        let (size, now) = ((look.width, look.height), out.now);
        let reading = self.reading.as_mut();
        if !reading.is_some_and(|reading| reading.is_drawn(size, now)) {
            return;
        }
        let rows = look.rows[look.history_rows()..].iter();
        let rows: Vec<&str> = rows.map(|row| row.text.as_str()).collect();
        self.read(out, |reader, events| {
            reader.see(&rows, look.width, now, events)
        });
    }

    pub(super) fn read_due(&mut self, out: &mut Out<'_>) {
        let now = out.now;
        let redrawn = self.reading.as_ref().and_then(|reading| reading.redrawn_at);
        if redrawn.is_some_and(|at| at <= now)
            && let Some(look) = self.shown()
        {
            self.read_screen(&look, out);
        }
        self.read(out, |reader, events| reader.due(now, events));
    }

    /// The agent is in this state now.
    pub(super) fn read_state(&mut self, state: ScreenState, out: &mut Out<'_>) {
        // While it waits, what it asks for stands among its rows.
        if !matches!(state, ScreenState::Working | ScreenState::Waiting) {
            self.read(out, ScreenReader::over);
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
