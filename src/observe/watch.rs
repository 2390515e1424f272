//! The description of what to watch on a tmux server: built by the user, read by the coordinator.

use std::time::Duration;

use crate::agent::{Markers, StateRules};
use crate::event::{ExecutionId, PaneId};
use crate::observe::pane_observer::turns::TurnRules;
use crate::tmux::{DrainProgram, PollSchedule, Server, Target};

/// Describes which panes of a tmux server to watch, and how.
///
/// A pane whose pipe is free is streamed: tmux passes all its bytes to a drain, a small process of this
/// program, so that nothing is missed at any speed and lines arrive within a millisecond. Every other
/// pane is polled. [`Watch::poll`] polls all panes.
///
/// ```
/// use std::time::Duration;
/// use td_observe::Watch;
/// use td_observe::tmux::{Server, Target};
/// # fn main() -> td_observe::Result<()> {
/// let watch = Watch::new(Server::named("work"))
///     .target(Target::parse("build")?)
///     .interval(Duration::from_millis(100)); // Applies to polled panes.
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "pass it to Engine::watch"]
pub struct Watch {
    pub(super) server: Server,
    pub(super) targets: Vec<Target>,
    pub(super) reported_absent: Vec<Target>,
    pub(super) schedule: PollSchedule,
    pub(super) turns: Option<TurnRules>,
    pub(super) states: Option<StateRules>,
    pub(super) execution_id: Option<ExecutionId>,
    pub(super) leave_out: Vec<PaneId>,
    pub(super) include_observers: bool,
    pub(super) raw: bool,
    pub(super) baseline_lines: usize,
    pub(super) source: PaneSource,
    pub(super) conversations: bool,
    pub(super) screens: bool,
    pub(super) views: bool,
}

/// The way in which panes are observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PaneSource {
    /// Panes with a free pipe are streamed into this drain, or into the one that
    /// [`DrainProgram::find`] finds; all others are polled.
    Auto(Option<DrainProgram>),
    /// All panes are polled.
    Poll,
}

impl Watch {
    /// Watches all sessions of a server, including future ones.
    pub fn new(server: Server) -> Self {
        Self {
            server,
            targets: Vec::new(),
            reported_absent: Vec::new(),
            schedule: PollSchedule::default(),
            turns: None,
            states: None,
            execution_id: None,
            leave_out: Vec::new(),
            include_observers: false,
            raw: false,
            baseline_lines: 0,
            source: PaneSource::Auto(None),
            conversations: true,
            screens: false,
            views: false,
        }
    }

    /// Watches only this target, and those of other calls. A target may appear later.
    pub fn target(mut self, target: Target) -> Self {
        self.targets.push(target);
        self
    }

    /// Does not log that these targets do not exist yet, because the caller has reported it.
    #[cfg(feature = "cli")]
    pub(crate) fn reported_absent(mut self, targets: Vec<Target>) -> Self {
        self.reported_absent = targets;
        self
    }

    /// Polls at a fixed interval, instead of adapting to the output of the panes.
    pub fn interval(self, interval: Duration) -> Self {
        self.schedule(PollSchedule::Fixed(interval))
    }

    /// Sets the schedule of polls. Defaults to [`PollSchedule::default`].
    pub fn schedule(mut self, schedule: PollSchedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// Streams panes into this drain, instead of into the `td-observe` that [`DrainProgram::find`]
    /// finds. A pane that another program has piped is polled. After that program closes its pipe or
    /// replaces the drain's, the pane's pipe is not opened for a minute.
    pub fn stream(mut self, drain: DrainProgram) -> Self {
        self.source = PaneSource::Auto(Some(drain));
        self
    }

    /// Polls all panes: opens no pipe and changes nothing in the tmux server. The last lines of a
    /// program that prints and ends at once are then lost.
    pub fn poll(mut self) -> Self {
        self.source = PaneSource::Poll;
        self
    }

    /// Enables AI mode: a line that consists of one of these markers ends an agent's turn. The end of
    /// a turn emits a complete [`OutputUpdate`](crate::TdEvent::OutputUpdate) and a
    /// [`TurnCompleted`](crate::TdEvent::TurnCompleted). Then the pane rests: it is not polled until
    /// it changes, or until [`Engine::poll_now`](crate::Engine::poll_now) is called.
    pub fn turns(mut self, markers: Markers) -> Self {
        self.turns.get_or_insert_default().markers = markers;
        self
    }

    /// Enables AI mode for agents that may omit the marker: after this silence, a turn counts as
    /// completed, with the evidence `inferred`.
    pub fn infer_turns_after(mut self, silence: Duration) -> Self {
        self.turns.get_or_insert_default().inferred_after = Some(silence);
        self
    }

    /// Reports the states of the agents in the panes, as far as these rules recognize their screens:
    /// an [`AgentState`](crate::TdEvent::AgentState) for the first state and for each change that
    /// lasts: 0.3 s; a second for an idle screen after a finished turn.
    pub fn states(mut self, rules: StateRules) -> Self {
        self.states = Some(rules);
        self
    }

    /// Ignores the files of the agents in the panes. By default, if [`Watch::states`] is set, their
    /// status files and transcripts are read, and their conversations reported.
    pub fn no_conversations(mut self) -> Self {
        self.conversations = false;
        self
    }

    /// Reports the rows of a pane even if its agent's conversation is reported. By default, such rows
    /// are kept as snapshots only.
    pub fn screens(mut self) -> Self {
        self.screens = true;
        self
    }

    /// Reports views of panes by attached clients: a [`PaneSeen`](crate::TdEvent::PaneSeen) when a pane
    /// comes into view, then at most once a minute, and only if it shows something new.
    pub fn views(mut self) -> Self {
        self.views = true;
        self
    }

    pub(super) fn reads_conversations(&self) -> bool {
        self.conversations && self.states.is_some()
    }

    /// Records everything in one run with this id.
    pub fn execution_id(mut self, id: impl Into<ExecutionId>) -> Self {
        self.execution_id = Some(id.into());
        self
    }

    /// Excludes a pane, such as the one in which the observer shows its events.
    pub fn leave_out(mut self, pane: impl Into<PaneId>) -> Self {
        self.leave_out.push(pane.into());
        self
    }

    /// Includes panes that run `td-observe`. By default they are excluded, since two observers that
    /// show each other's output never stop printing.
    pub fn include_observers(mut self) -> Self {
        self.include_observers = true;
        self
    }

    /// Records all bytes of the panes with their times: as `raw/{pane}.cast` in the run's directory,
    /// in the format asciicast v3. Requires a history and streamed panes; a polled pane is not
    /// recorded.
    pub fn raw(mut self, raw: bool) -> Self {
        self.raw = raw;
        self
    }

    /// Emits the last lines of each pane's baseline, too: they have the numbers 0 and below.
    /// Defaults to none. An observer that resumes a run emits the last lines that its history has
    /// for live subscribers only.
    pub fn baseline_lines(mut self, lines: usize) -> Self {
        self.baseline_lines = lines;
        self
    }
}
