//! What is waited for, and what came of it.

use std::time::Duration;

use super::matcher::Patterns;
use super::pattern::Pattern;
use crate::agent::Markers;
use crate::event::PaneId;
use crate::timestamp::Timestamp;
use crate::tmux::Target;

/// How often a wait looks, unless told otherwise: four times as often as a watch on its grid.
const INTERVAL: Duration = Duration::from_millis(50);

/// What is waited for at a session, a window or a pane. Whatever comes first decides; in one line a
/// pattern before a stop.
///
/// ```
/// use std::time::Duration;
/// use td_observe::tmux::Target;
/// use td_observe::wait::{Pattern, Wait};
/// # fn main() -> td_observe::Result<()> {
/// let wait = Wait::at(Target::parse("build")?)
///     .pattern(Pattern::text("BUILD SUCCESS")?)
///     .stop(Pattern::regex("^(ERROR|FAILED)")?)
///     .timeout(Duration::from_secs(600));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "give it to Waiter::wait or Waiter::begin"]
pub struct Wait {
    pub(super) target: Target,
    pub(super) patterns: Patterns,
    pub(super) turn: Option<Markers>,
    pub(super) exit: bool,
    pub(super) idle: Option<Duration>,
    pub(super) channel: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) interval: Duration,
    pub(super) include_existing: bool,
}

impl Wait {
    /// Waiter at this target; for nothing yet but its end.
    pub fn at(target: Target) -> Self {
        Self {
            target,
            patterns: Patterns::default(),
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
    pub fn pattern(mut self, pattern: Pattern) -> Self {
        self.patterns.wanted.push(pattern);
        self
    }

    /// A line that has this ends the wait without success.
    pub fn stop(mut self, pattern: Pattern) -> Self {
        self.patterns.stops.push(pattern);
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
        !self.patterns.is_empty() || self.turn.is_some()
    }

    /// Whether anything but the end of the target would end it.
    pub(crate) fn waits_for_anything(&self) -> bool {
        !self.patterns.wanted.is_empty()
            || self.turn.is_some()
            || self.exit
            || self.idle.is_some()
            || self.channel.is_some()
    }
}

/// What came of a wait.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WaitOutcome {
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
    Matched(WaitMatch),
    /// A stop came first.
    Stopped(WaitMatch),
    /// The target ended first.
    Ended(TargetEnd),
    /// The time was up; it had not been printed until then.
    TimedOut,
    /// The time was up, and lines were lost on the way, or tmux did not answer at the end: it may
    /// have been there.
    Lost,
}

/// How a target ended before it could match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetEnd {
    /// The tmux server has ended.
    ServerGone,
    /// The session was closed.
    SessionGone,
    /// The pane, or the last one of the target, was closed.
    PaneGone,
    /// The programs of all panes have ended.
    ProgramEnded,
}

impl TargetEnd {
    /// Returns the end in words: `the pane is gone`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServerGone => "the tmux server is gone",
            Self::SessionGone => "the session is gone",
            Self::PaneGone => "the pane is gone",
            Self::ProgramEnded => "the program has ended",
        }
    }
}

/// A condition that a wait can end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitCondition {
    /// A line matched a pattern.
    Text,
    /// An agent's turn ended.
    Turn,
    /// The target ended.
    Exit,
    /// Nothing new was shown for the required time.
    Idle,
    /// The tmux channel was signalled.
    Channel,
}

impl WaitCondition {
    /// Returns the name that `td-observe wait --json` prints: `text`, `turn`, `exit`, `idle` or `channel`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Turn => "turn",
            Self::Exit => "exit",
            Self::Idle => "idle",
            Self::Channel => "channel",
        }
    }
}

/// What came.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WaitMatch {
    /// The condition that was met.
    pub condition: WaitCondition,
    /// The pane where it was, where it was one.
    pub pane: Option<PaneId>,
    /// The number of the line, counted from the line of the cursor at the beginning, which is 1;
    /// of a full-screen program the row.
    pub line: Option<i64>,
    /// What the line reads; of a turn, its last paragraph.
    pub text: Option<String>,
    /// The pattern, or the stop, that is in it; of a turn, its marker.
    pub pattern: Option<String>,
    /// What the pane's program exited with, where that is known.
    pub exit_status: Option<i32>,
}

impl WaitMatch {
    pub(super) fn of(condition: WaitCondition) -> Self {
        Self {
            condition,
            pane: None,
            line: None,
            text: None,
            pattern: None,
            exit_status: None,
        }
    }
}
