//! What of a tmux server is watched, and how: set up by the user, read by the coordinator.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::{Markers, StateRules};
use crate::event::{ExecutionId, PaneId};
use crate::observe::pane_observer::turns::TurnRules;
use crate::tmux::{DrainProgram, PollSchedule, Server, Target};

/// What of a tmux server is watched, and how.
///
/// A pane whose pipe is free is streamed: tmux passes every byte of it to a drain, a small process of
/// ours, so that nothing is missed at any speed and lines come within a millisecond. Every other pane
/// is polled. [`Watch::poll`] polls all of them.
///
/// ```
/// use std::time::Duration;
/// use td_observe::Watch;
/// use td_observe::tmux::{Server, Target};
/// # fn main() -> td_observe::Result<()> {
/// let watch = Watch::new(Server::named("work"))
///     .target(Target::parse("build")?)
///     .interval(Duration::from_millis(100)); // Of panes that are polled.
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "give it to Engine::watch"]
pub struct Watch {
    pub(super) server: Server,
    pub(super) targets: Vec<Target>,
    pub(super) rhythm: PollSchedule,
    pub(super) turns: Option<TurnRules>,
    pub(super) states: Option<StateRules>,
    pub(super) execution_id: Option<ExecutionId>,
    pub(super) leave_out: Vec<PaneId>,
    pub(super) include_observers: bool,
    pub(super) raw: bool,
    pub(super) baseline: Option<Baseline>,
    pub(super) source: PaneSource,
    pub(super) conversations: bool,
    pub(super) screens: bool,
}

/// How panes are observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PaneSource {
    /// A pane whose pipe is free is streamed, into this program, or into the one that is found; all
    /// others are polled.
    Auto(Option<DrainProgram>),
    /// All are polled.
    Poll,
}

impl Watch {
    /// All sessions of a server, those that will come included.
    pub fn new(server: Server) -> Self {
        Self {
            server,
            targets: Vec::new(),
            rhythm: PollSchedule::default(),
            turns: None,
            states: None,
            execution_id: None,
            leave_out: Vec::new(),
            include_observers: false,
            raw: false,
            baseline: None,
            source: PaneSource::Auto(None),
            conversations: true,
            screens: false,
        }
    }

    /// Only this, and what other calls name. A target that is not there yet is waited for.
    pub fn target(mut self, target: Target) -> Self {
        self.targets.push(target);
        self
    }

    /// Polls once in an interval, instead of sooner and later as the panes print.
    pub fn interval(self, interval: Duration) -> Self {
        self.rhythm(PollSchedule::Fixed(interval))
    }

    /// In what rhythm to look; as [`PollSchedule::default`] unless told otherwise.
    pub fn rhythm(mut self, rhythm: PollSchedule) -> Self {
        self.rhythm = rhythm;
        self
    }

    /// Streams panes into this drain, instead of into the `td-observe` that [`DrainProgram::find`]
    /// finds. A pane whose pipe another program has is polled, in the rhythm that was given; after
    /// that program has closed the pipe, or has closed ours, the pipe is left alone for a minute.
    pub fn stream(mut self, drain: DrainProgram) -> Self {
        self.source = PaneSource::Auto(Some(drain));
        self
    }

    /// Polls all panes: no pipe is opened, and nothing in the tmux server changes. The last lines of a
    /// program that prints and ends at once are lost then.
    pub fn poll(mut self) -> Self {
        self.source = PaneSource::Poll;
        self
    }

    /// AI mode: an agent's turn ends where one of these markers stands alone on its line. It is told
    /// by an [`OutputUpdate`](crate::TdEvent::OutputUpdate) that is complete, and by a
    /// [`TurnCompleted`](crate::TdEvent::TurnCompleted). Then the pane rests: it is not looked at
    /// before it changes, or [`Engine::poll_now`](crate::Engine::poll_now) is called.
    pub fn turns(mut self, markers: Markers) -> Self {
        self.turns.get_or_insert_default().markers = markers;
        self
    }

    /// AI mode, where a marker may be missing: after so long a silence a turn is taken to be over,
    /// and told with the evidence `inferred`.
    pub fn infer_turns_after(mut self, silence: Duration) -> Self {
        self.turns.get_or_insert_default().inferred_after = Some(silence);
        self
    }

    /// Tells where the agents stand that the panes show, as far as these rules can read their
    /// screens: an [`AgentState`](crate::TdEvent::AgentState) for each change, when it has stood for
    /// a second, the first state included.
    pub fn states(mut self, rules: StateRules) -> Self {
        self.states = Some(rules);
        self
    }

    /// Leaves the files of agents alone that run in the panes; by default, their status files and
    /// transcripts are read where [`Watch::states`] is set, and their conversations reported.
    pub fn no_conversations(mut self) -> Self {
        self.conversations = false;
        self
    }

    /// Reports the rows of panes in which an agent runs, too, though its conversation is reported. By
    /// default, they are kept as snapshots only.
    pub fn screens(mut self) -> Self {
        self.screens = true;
        self
    }

    pub(super) fn reads_conversations(&self) -> bool {
        self.conversations && self.states.is_some()
    }

    /// One run for everything, under this id.
    pub fn execution_id(mut self, id: impl Into<ExecutionId>) -> Self {
        self.execution_id = Some(id.into());
        self
    }

    /// Never this pane: the one that the observer itself shows its events in.
    pub fn leave_out(mut self, pane: impl Into<PaneId>) -> Self {
        self.leave_out.push(pane.into());
        self
    }

    /// Panes that run `td-observe` too. They are left out otherwise, since two that show each other
    /// never come to an end.
    pub fn include_observers(mut self) -> Self {
        self.include_observers = true;
        self
    }

    /// Keeps every byte of the panes, with its time, beside the log: `raw/{pane}.cast` in the run's
    /// directory, asciicast v3. Needs a log, and a source that gets bytes: one that looks has none,
    /// and records nothing.
    pub fn raw(mut self, raw: bool) -> Self {
        self.raw = raw;
        self
    }

    /// Calls `show` with a session's name, a pane and what stood on it when observation began, on
    /// the poller's thread: do not keep it waiting.
    pub fn baseline(
        mut self,
        show: impl Fn(&str, &PaneId, &[String]) + Send + Sync + 'static,
    ) -> Self {
        self.baseline = Some(Baseline(Arc::new(show)));
        self
    }
}

/// Called with the session's name, the pane and its lines.
type ShowBaseline = dyn Fn(&str, &PaneId, &[String]) + Send + Sync;

/// Gets what stood on a pane when observation began.
#[derive(Clone)]
pub struct Baseline(Arc<ShowBaseline>);

impl Baseline {
    pub(super) fn show(&self, session: &str, pane: &PaneId, lines: &[String]) {
        (self.0)(session, pane, lines);
    }
}

impl fmt::Debug for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Baseline(..)")
    }
}
