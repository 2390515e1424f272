//! The conversation of an agent that keeps no transcript, read off its screen.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Pane;
use crate::agent::{AgentEvent, AgentProgram, AgentState, Markers, ScreenReader};
use crate::observe::conversation::AgentEventConverter;
use crate::observe::pane_output::PaneOutput;
use crate::track::Capture;

/// Time for which a screen is held before it is read. An agent draws at its pane's new size before
/// the size is known here: what it drew then is not read.
const HELD: Duration = Duration::from_millis(300);

/// One agent's screen, as it is read.
#[derive(Debug)]
pub(super) struct Reading {
    agent: AgentProgram,
    /// The markers that end a turn, where configured.
    markers: Option<Markers>,
    reader: ScreenReader,
    /// Columns and rows of the screens that are held.
    size: (u32, u32),
    /// Screens that are not read yet, and when they were shown.
    held: VecDeque<(Instant, Vec<String>)>,
    telling: AgentEventConverter,
}

impl Reading {
    pub fn of(program: &AgentProgram, markers: Option<&Markers>) -> Self {
        Self {
            agent: program.clone(),
            markers: markers.cloned(),
            reader: ScreenReader::new(program),
            size: (0, 0),
            held: VecDeque::new(),
            telling: AgentEventConverter::for_screen(),
        }
    }

    /// Returns whether it knows where turns end.
    pub fn has_turns(&self) -> bool {
        self.agent.known().is_some()
    }

    /// When something settles, if nothing happens.
    pub fn next_due(&self) -> Option<Instant> {
        let held = self.held.front().map(|(shown, _)| *shown + HELD);
        [self.reader.deadline(), held].into_iter().flatten().min()
    }

    fn hold(&mut self, look: &Capture, now: Instant) {
        let size = (look.width, look.height);
        if std::mem::replace(&mut self.size, size) != size {
            self.held.clear();
        }
        let rows = look.rows[look.history_rows()..].iter();
        let rows = rows.map(|row| row.text.clone()).collect();
        self.held.push_back((now, rows));
    }

    fn take_due(&mut self, now: Instant) -> Option<Vec<String>> {
        let front = self.held.front();
        let is_due = front.is_some_and(|(shown, _)| *shown + HELD <= now);
        is_due.then(|| self.held.pop_front())?.map(|(_, rows)| rows)
    }
}

impl Pane {
    /// Reads the conversation from a capture. The rows of a program that is not full-screen are lines.
    pub(super) fn read_screen(&mut self, look: &Capture, out: &mut PaneOutput<'_>) {
        if !look.alternate || look.dead.is_some() {
            return;
        }
        if let Some(reading) = &mut self.reading {
            reading.hold(look, out.now);
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

    /// The agent is in this state now.
    pub(super) fn read_state(&mut self, state: AgentState, out: &mut PaneOutput<'_>) {
        // While it waits, what it asks for stands among its rows.
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
        let id = out.emitter.execution_id();
        for event in events {
            let agent = (reading.agent.name(), reading.markers.as_ref());
            if let Some(event) = reading.telling.convert(event, id, agent, &self.id) {
                out.emitter.emit(event);
            }
        }
    }
}
