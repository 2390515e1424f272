//! Where the agent of a pane stands: its screen is judged with each look, and a change is told when
//! it has stood for a while.

use std::time::{Duration, Instant};

use crate::agent::{Judged, Screen, StateRules, StateTracker};
use crate::tmux::foreground_program;
use crate::track::Look;

/// How long a state must be shown to count: agents draw their screens anew between two steps, and
/// show an empty box for a moment. Whoever waits for an agent does not notice a second.
const STANDS: Duration = Duration::from_secs(1);

/// The states of one pane.
#[derive(Debug)]
pub(super) struct States {
    rules: StateRules,
    tracker: StateTracker,
    /// What the last look said: it is shown until another one says otherwise.
    shown: Option<Judged>,
    /// The beginning of the tracker's clock.
    began: Instant,
}

impl States {
    /// Begins without knowing anything.
    pub fn new(rules: &StateRules, now: Instant) -> Self {
        Self {
            rules: rules.clone(),
            tracker: StateTracker::new(STANDS),
            shown: None,
            began: now,
        }
    }

    /// Takes in a look; a change, when it counts.
    pub fn sees(&mut self, look: &Look, now: Instant) -> Option<Judged> {
        // What the screen of a program shows that has ended is no state any more.
        self.shown = match look.dead {
            Some(_) => None,
            None => self.judge(look),
        };
        self.due(now)
    }

    /// When [`States::due`] will have something to say, if nothing happens.
    pub fn next_due(&self) -> Option<Instant> {
        self.began.checked_add(self.tracker.deadline()?)
    }

    /// What counts by now.
    pub fn due(&mut self, now: Instant) -> Option<Judged> {
        let at = now.saturating_duration_since(self.began);
        self.tracker.look(self.shown.clone(), at)
    }

    fn judge(&self, look: &Look) -> Option<Judged> {
        let screen = &look.rows[look.history_rows()..];
        let rows: Vec<&str> = screen.iter().map(|row| row.text.as_str()).collect();
        let program = foreground_program(look.pid);
        let judged = self.rules.judge(&Screen {
            rows: &rows,
            cursor: Some(look.cursor),
            program: program.as_deref(),
        });
        // Once a shell was at its prompt, the program that it runs tells that it is not any more.
        judged.or_else(|| {
            let running = self.rules.judge_program(program.as_deref()?)?;
            let told = self.tracker.current()?;
            (told.agent == running.agent).then_some(running)
        })
    }
}
