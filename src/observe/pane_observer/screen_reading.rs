//! The screen of an agent that keeps no transcript: held until its size is known, then read (pure).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::agent::{AgentProgram, Markers, ScreenReader};
use crate::observe::conversation::AgentEventConverter;
use crate::track::Capture;

/// The time for which a screen is held before it is read. An agent draws at its pane's new size before
/// that size is known here; such screens are discarded.
const HOLD_TIME: Duration = Duration::from_millis(300);

/// The reader of one agent's screen.
#[derive(Debug)]
pub(super) struct Reading {
    pub agent: AgentProgram,
    /// The markers that end a turn, if configured.
    pub markers: Option<Markers>,
    pub reader: ScreenReader,
    /// The columns and rows of the held screens.
    pub size: (u32, u32),
    /// Screens that are not read yet, and the times of their captures.
    held: VecDeque<(Instant, Vec<String>)>,
    pub converter: AgentEventConverter,
}

impl Reading {
    pub fn of(program: &AgentProgram, markers: Option<&Markers>) -> Self {
        Self {
            agent: program.clone(),
            markers: markers.cloned(),
            reader: ScreenReader::new(program),
            size: (0, 0),
            held: VecDeque::new(),
            converter: AgentEventConverter::for_screen(),
        }
    }

    /// Returns true if the reader recognizes the ends of the agent's turns.
    pub fn has_turns(&self) -> bool {
        self.agent.known().is_some()
    }

    /// Returns when the next screen is due, or when the reader reports what has settled.
    pub fn next_due(&self) -> Option<Instant> {
        let held = self.held.front().map(|(shown, _)| *shown + HOLD_TIME);
        [self.reader.deadline(), held].into_iter().flatten().min()
    }

    pub fn hold(&mut self, capture: &Capture, now: Instant) {
        let size = (capture.width, capture.height);
        if std::mem::replace(&mut self.size, size) != size {
            self.held.clear();
        }
        let rows = capture.rows[capture.history_rows()..].iter();
        let rows = rows.map(|row| row.text.clone()).collect();
        self.held.push_back((now, rows));
    }

    pub fn take_due(&mut self, now: Instant) -> Option<Vec<String>> {
        let front = self.held.front();
        let is_due = front.is_some_and(|(shown, _)| *shown + HOLD_TIME <= now);
        is_due.then(|| self.held.pop_front())?.map(|(_, rows)| rows)
    }
}
