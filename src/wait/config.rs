//! The conditions of a wait, and its outcome.

use std::time::Duration;

use crossbeam_channel::Receiver;

use super::matcher::Pattern;
use super::matcher::Patterns;
use crate::agent::Markers;
use crate::agent_loop::Cancel;
use crate::event::{AgentState, PaneId};
use crate::timestamp::Timestamp;
use crate::tmux::Target;

/// The default poll interval of a wait: a quarter of that of a watch.
const INTERVAL: Duration = Duration::from_millis(50);

/// The conditions of a wait for a session, a window or a pane. The first condition that is met ends the
/// wait; a line that matches both a pattern and a stop pattern counts for the pattern.
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
#[must_use = "pass it to Waiter::wait or Waiter::start"]
pub struct Wait {
    pub(super) target: Target,
    pub(super) patterns: Patterns,
    pub(super) turn: Option<Markers>,
    pub(super) exit: bool,
    pub(super) idle: Option<Duration>,
    pub(super) channel: Option<String>,
    /// The agent states that end the wait.
    pub(super) states: Vec<AgentState>,
    pub(super) cancel: Option<Cancel>,
    pub(super) timeout: Option<Duration>,
    pub(super) interval: Duration,
    pub(super) include_existing: bool,
    /// The lines of the text that is typed after the wait has begun.
    pub(super) sent: Vec<String>,
    /// Receives a match of a condition that the wait does not observe itself.
    pub(super) other: Option<Receiver<WaitMatch>>,
}

impl Wait {
    /// Creates a wait for a target, without conditions.
    pub fn at(target: Target) -> Self {
        Self {
            target,
            patterns: Patterns::default(),
            turn: None,
            exit: false,
            idle: None,
            channel: None,
            states: Vec::new(),
            cancel: None,
            timeout: None,
            interval: INTERVAL,
            include_existing: false,
            sent: Vec::new(),
            other: None,
        }
    }

    /// Waits for a line that matches this pattern. Any one of several patterns is sufficient.
    pub fn pattern(mut self, pattern: Pattern) -> Self {
        self.patterns.wanted.push(pattern);
        self
    }

    /// Ends the wait without success when a line matches this pattern.
    pub fn stop(mut self, pattern: Pattern) -> Self {
        self.patterns.stops.push(pattern);
        self
    }

    /// Waits for the end of an agent's turn: one of these markers alone on its settled line.
    pub fn turn(mut self, markers: Markers) -> Self {
        self.turn = Some(markers);
        self
    }

    /// Waits for the end of the target: its panes are closed, or their programs have ended.
    pub fn exit(mut self) -> Self {
        self.exit = true;
        self
    }

    /// Waits until nothing new was shown for this time.
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    /// Waits for `tmux wait-for -S` on this channel. A signal sent before the wait also counts.
    pub fn channel(mut self, name: impl Into<String>) -> Self {
        self.channel = Some(name.into());
        self
    }

    /// Waits until an agent in the target is in this state. Any one of several states is sufficient. The state at
    /// the beginning counts, unless the wait [sends](Self::sends) a text: then only a later report counts.
    ///
    /// Only a waiter of an engine knows states, of panes that it watches with
    /// [`Watch::states`](crate::Watch::states); see [`Engine::waiter`](crate::Engine::waiter).
    pub fn state(mut self, state: AgentState) -> Self {
        self.states.push(state);
        self
    }

    /// Ends the wait with [`WaitEnd::Interrupted`] when this handle, or a clone of it, is cancelled from any thread.
    /// A wait that is cancelled before it has begun is an error ([`Error::is_gone`](crate::Error::is_gone)).
    ///
    /// ```no_run
    /// use td_observe::agent_loop::Cancel;
    /// use td_observe::tmux::{Server, Target};
    /// use td_observe::wait::{Pattern, Wait, WaitEnd, Waiter};
    ///
    /// # fn main() -> td_observe::Result<()> {
    /// let cancel = Cancel::new();
    /// let ready = Wait::at(Target::parse("build")?)
    ///     .pattern(Pattern::text("ready")?)
    ///     .cancelled_by(&cancel);
    /// let waiting = std::thread::spawn(move || Waiter::new(Server::default())?.wait(&ready));
    /// cancel.cancel();
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }

    /// Limits the duration of the wait. Defaults to no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the poll interval. Defaults to 50 ms.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Also matches the present content of the panes.
    pub fn include_existing(mut self) -> Self {
        self.include_existing = true;
        self
    }

    /// Names the text that the caller types into the target between
    /// [`Waiter::start`](super::Waiter::start) and [`StartedWait::finish`](super::StartedWait::finish): its
    /// echo does not match.
    pub fn sends(mut self, text: &str) -> Self {
        let lines = text.lines().map(str::trim);
        self.sent = lines
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect();
        self
    }

    /// Also ends the wait with a match that this channel receives. A closed channel is ignored.
    #[cfg(feature = "cli")]
    pub(crate) fn other(mut self, found: Receiver<WaitMatch>) -> Self {
        self.other = Some(found);
        self
    }

    /// Returns true if the wait matches lines.
    pub(crate) fn matches_lines(&self) -> bool {
        !self.patterns.is_empty() || self.turn.is_some()
    }

    /// Returns true if the wait reads what panes print.
    pub(super) fn needs_lines(&self) -> bool {
        self.matches_lines() || self.idle.is_some()
    }

    /// Returns true if the wait has a condition for success.
    pub(crate) fn has_condition(&self) -> bool {
        !self.patterns.wanted.is_empty()
            || self.turn.is_some()
            || self.exit
            || self.idle.is_some()
            || self.channel.is_some()
            || !self.states.is_empty()
            || self.other.is_some()
    }
}

/// The outcome of a wait.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WaitOutcome {
    /// The end of the wait.
    pub end: WaitEnd,
    /// The time of the end.
    pub ts: Timestamp,
    /// The duration of the wait.
    pub elapsed: Duration,
    /// True when lines were lost, or a closed pane may have printed lines that were not captured: they may
    /// have contained a match.
    pub lost_lines: bool,
    /// The last lines of the pane, oldest first; with several panes, the lines of the pane that ended the wait.
    pub last_lines: Vec<String>,
    /// The lines before them, in which a secret of the last lines may begin.
    pub(crate) lines_before: Vec<String>,
}

impl WaitOutcome {
    /// Creates the outcome of a wait for a copied run.
    #[cfg(feature = "redis")]
    pub(crate) fn of_copy(
        end: WaitEnd,
        (ts, elapsed): (Timestamp, Duration),
        lost_lines: bool,
        last_lines: Vec<String>,
    ) -> Self {
        Self {
            end,
            ts,
            elapsed,
            lost_lines,
            last_lines,
            lines_before: Vec::new(),
        }
    }

    /// Returns the pane in which the wait has ended.
    #[cfg(feature = "mcp")]
    pub(crate) fn pane(&self) -> Option<&PaneId> {
        match &self.end {
            WaitEnd::Matched(found) | WaitEnd::Stopped(found) => found.pane.as_ref(),
            _ => None,
        }
    }

    /// Returns true if a line has ended the wait.
    #[cfg(feature = "mcp")]
    pub(crate) fn has_line(&self) -> bool {
        match &self.end {
            WaitEnd::Matched(found) | WaitEnd::Stopped(found) => {
                found.text.is_some() && found.state().is_none()
            }
            _ => false,
        }
    }
}

/// The end of a wait.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WaitEnd {
    /// A condition was met.
    Matched(WaitMatch),
    /// A line matched a stop pattern.
    Stopped(WaitMatch),
    /// The target ended first.
    Ended(TargetEnd),
    /// The timeout passed without a match.
    TimedOut,
    /// The timeout passed, and lines were lost or tmux did not reply at the end: a match may have been missed.
    Lost,
    /// The caller stopped the wait. The end of an engine does not.
    Interrupted,
}

/// The end of a target without a match.
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

    /// Returns the end with these words.
    #[cfg(feature = "cli")]
    pub(super) fn from_words(words: &str) -> Option<Self> {
        let mut all = [
            Self::ServerGone,
            Self::SessionGone,
            Self::PaneGone,
            Self::ProgramEnded,
        ]
        .into_iter();
        all.find(|end| end.as_str() == words)
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
    /// An agent is in the state.
    State,
}

impl WaitCondition {
    /// Returns the name that `td-observe wait --json` prints: `text`, `turn`, `exit`, `idle`,
    /// `channel` or `state`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Turn => "turn",
            Self::Exit => "exit",
            Self::Idle => "idle",
            Self::Channel => "channel",
            Self::State => "state",
        }
    }

    /// Returns the condition with this name.
    #[cfg(feature = "cli")]
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let mut all = [
            Self::Text,
            Self::Turn,
            Self::Exit,
            Self::Idle,
            Self::Channel,
            Self::State,
        ]
        .into_iter();
        all.find(|condition| condition.as_str() == name)
    }
}

/// The condition that was met, and where.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WaitMatch {
    /// The condition that was met.
    pub condition: WaitCondition,
    /// The pane, for conditions of a pane.
    pub pane: Option<PaneId>,
    /// The number of the line. Line 1 is the line of the cursor when the wait began. For full-screen programs,
    /// the row.
    pub line: Option<i64>,
    /// The text of the line; for a turn, its last paragraph.
    pub text: Option<String>,
    /// The pattern that matched, as a message shows it: a text is in quotes; for a turn, its marker; for a state, its name.
    pub pattern: Option<String>,
    /// The exit status of the pane's program, if it is known.
    pub exit_status: Option<i32>,
    /// For a state after a sent text: what the agent has answered in its turn.
    pub answer: Option<String>,
    /// The lines before the text, in which a secret of the text may begin.
    pub(crate) lines_before: Vec<String>,
}

impl WaitMatch {
    /// Returns the match of an agent's state; its text is the agent's question, or the state.
    pub(crate) fn of_state(pane: &PaneId, state: AgentState, asks: &str) -> Self {
        let text = match asks {
            "" => state.as_str(),
            asks => asks,
        };
        Self {
            pane: Some(pane.clone()),
            text: Some(text.to_owned()),
            pattern: Some(state.as_str().to_owned()),
            ..Self::of(WaitCondition::State)
        }
    }

    /// Returns the name of the agent's state, for a state.
    #[cfg(feature = "mcp")]
    pub(crate) fn state(&self) -> Option<&str> {
        let state = self.pattern.as_deref();
        state.filter(|_| self.condition == WaitCondition::State)
    }

    pub(crate) fn of(condition: WaitCondition) -> Self {
        Self {
            condition,
            pane: None,
            line: None,
            text: None,
            pattern: None,
            exit_status: None,
            answer: None,
            lines_before: Vec::new(),
        }
    }
}
