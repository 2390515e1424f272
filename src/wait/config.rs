//! What is waited for, and what came of it.

use std::time::Duration;

use super::matcher::Needles;
use super::needle::Needle;
use crate::agent::Markers;
use crate::event::PaneId;
use crate::timestamp::Timestamp;
use crate::tmux::Target;

/// How often a wait looks, unless told otherwise: four times as often as a watch on its grid.
const INTERVAL: Duration = Duration::from_millis(50);

/// What is waited for at a session, a window or a pane. Whatever comes first decides; in one line a
/// needle before a stop.
///
/// ```
/// use std::time::Duration;
/// use td_observe::tmux::Target;
/// use td_observe::wait::{Needle, Wait};
/// # fn main() -> td_observe::Result<()> {
/// let wait = Wait::at(Target::parse("build")?)
///     .needle(Needle::text("BUILD SUCCESS")?)
///     .stop(Needle::regex("^(ERROR|FAILED)")?)
///     .timeout(Duration::from_secs(600));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "give it to Waits::wait or Waits::begin"]
pub struct Wait {
    pub(super) target: Target,
    pub(super) needles: Needles,
    pub(super) turn: Option<Markers>,
    pub(super) exit: bool,
    pub(super) idle: Option<Duration>,
    pub(super) channel: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) interval: Duration,
    pub(super) include_existing: bool,
}

impl Wait {
    /// Waits at this target; for nothing yet but its end.
    pub fn at(target: Target) -> Self {
        Self {
            target,
            needles: Needles::default(),
            turn: None,
            exit: false,
            idle: None,
            channel: None,
            timeout: None,
            interval: INTERVAL,
            include_existing: false,
        }
    }

    /// For a line that has this; several: any of them.
    pub fn needle(mut self, needle: Needle) -> Self {
        self.needles.wanted.push(needle);
        self
    }

    /// A line that has this ends the wait without success.
    pub fn stop(mut self, needle: Needle) -> Self {
        self.needles.stops.push(needle);
        self
    }

    /// For the end of an agent's turn: one of these markers alone on its settled line, as
    /// [`TurnDetector`](crate::agent::TurnDetector) finds it.
    pub fn turn(mut self, markers: Markers) -> Self {
        self.turn = Some(markers);
        self
    }

    /// For the end of the target: its panes are gone, or their programs have ended.
    pub fn exit(mut self) -> Self {
        self.exit = true;
        self
    }

    /// For so long a time in which nothing new is shown.
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    /// For `tmux wait-for -S` on this channel, which loses no signal.
    pub fn channel(mut self, name: impl Into<String>) -> Self {
        self.channel = Some(name.into());
        self
    }

    /// How long at most; for ever, unless told otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How often to look; each 50 ms unless told otherwise.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// What stands on the panes already matches, too.
    pub fn include_existing(mut self) -> Self {
        self.include_existing = true;
        self
    }

    /// Whether lines are looked for.
    pub(super) fn looks_at_lines(&self) -> bool {
        !self.needles.is_empty() || self.turn.is_some()
    }

    /// Whether anything but the end of the target would end it.
    pub(crate) fn waits_for_anything(&self) -> bool {
        !self.needles.wanted.is_empty()
            || self.turn.is_some()
            || self.exit
            || self.idle.is_some()
            || self.channel.is_some()
    }
}

/// What came of a wait.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Waited {
    /// How it ended.
    pub end: WaitEnd,
    /// When it was seen.
    pub ts: Timestamp,
    /// How long was waited.
    pub elapsed: Duration,
    /// Lines were lost on the way, or a pane that is gone may have printed more than was seen of
    /// it: what was waited for may have been among them.
    pub lost_lines: bool,
    /// The last lines of the pane, oldest first; of several, of the one that decided.
    pub last_lines: Vec<String>,
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WaitEnd {
    /// What was waited for came.
    Found(Found),
    /// A stop came first.
    Stopped(Found),
    /// The target ended first; why.
    Ended(&'static str),
    /// The time was up; it had not been printed until then.
    TimedOut,
    /// The time was up, and lines were lost on the way, or tmux did not answer at the end: it may
    /// have been there.
    Lost,
}

/// What came.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// What it was: `text`, `turn`, `exit`, `idle` or `channel`.
    pub condition: &'static str,
    /// The pane where it was, where it was one.
    pub pane: Option<PaneId>,
    /// The number of the line, counted from the line of the cursor at the beginning, which is 1;
    /// of a full-screen program the row.
    pub line: Option<i64>,
    /// What the line reads; of a turn, its last paragraph.
    pub text: Option<String>,
    /// The needle, or the stop, that is in it; of a turn, its marker.
    pub needle: Option<String>,
    /// What the pane's program exited with, where that is known.
    pub exit_status: Option<i32>,
}

impl Found {
    pub(super) fn of(condition: &'static str) -> Self {
        Self {
            condition,
            pane: None,
            line: None,
            text: None,
            needle: None,
            exit_status: None,
        }
    }
}
