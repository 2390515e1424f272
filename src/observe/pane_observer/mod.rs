//! Observes one pane through captures or its bytes, and turns its changes into events.

mod agent;
pub(super) mod agent_states;
pub(super) mod listener;
mod output;
mod pipe_policy;
mod reporting;
pub(super) mod streamed_pane;
#[cfg(test)]
mod tests;
pub(super) mod turns;
mod views;

use std::time::{Duration, Instant};

#[cfg(feature = "cli")]
pub(crate) use output::PIPE_CONTEXT;
pub(in crate::observe) use output::{PaneEmission, PaneOutput};
use pipe_policy::{PipeNews, Piping};
pub(in crate::observe) use reporting::sync_point;
#[cfg(all(test, feature = "notify"))]
pub(crate) use views::Views as PaneViews;
use views::{Activity, Snapshots, Views};

use super::polled_pane::PolledPane;
use super::resume_point::ResumePoint;
use crate::agent::{Questions, StateRules};
use crate::event::{
    GapEvidence, GapReason, PaneCloseReason, PaneId, PaneViewer, TdEvent, TurnEvidence,
};
use crate::process::Front;
use crate::tmux::{
    BASELINE_ROWS, Freshness, Margin, PaneCapture, PaneRequest, PaneState, PollSchedule,
    ResyncRequest, ResyncSpec,
};
use crate::track::{
    Capture, Change, PaneNumbers, ProcessExit, RevisionThrottle, Throttled, Tracker,
};
use agent_states::{AgentStates, Joining, Reading};
use listener::{Listeners, OpenedListeners, StreamEnd};
use output::Completion;
use streamed_pane::{SETTLE, StreamedPane};
use turns::{PaneTurns, TurnRules, TurnTimeout};

/// Returns how long a line must be unchanged to settle: one tick at a fixed interval.
pub(in crate::observe) fn settle_time(schedule: &PollSchedule) -> Duration {
    match schedule {
        PollSchedule::Fixed(_) => Duration::ZERO,
        PollSchedule::Adaptive(_) => SETTLE,
    }
}

/// The beginning of a pane's observation.
pub(in crate::observe) enum Begin<'a> {
    /// The pane existed before: its screen is the baseline.
    Baseline,
    /// The pane has just appeared: it is reported from its first line.
    Fresh,
    /// The pane was observed before.
    Resume(&'a ResumePoint),
}

/// A pane under observation.
#[derive(Debug)]
pub(in crate::observe) struct Pane {
    id: PaneId,
    follow: Follow,
    throttle: RevisionThrottle,
    /// The pane's size and program, as last reported.
    shape: PaneNumbers,
    /// The time for which a line must be unchanged to settle while the pane is polled.
    settle: Duration,
    life: ProgramLife,
    activity: PaneActivity,
    /// The turns, in AI mode.
    turns: Option<PaneTurns>,
    agent: PaneAgent,
    pub views: Views,
    /// Decides whether its pipe may be opened.
    piping: Piping,
    /// The pane is streamed when its pipe is free.
    streams: bool,
    listeners: Listeners,
}

/// The end of a pane's program, as far as it is known.
#[derive(Debug, Default)]
struct ProgramLife {
    dead: Option<ProcessExit>,
    /// The pid of the program that has ended, which tells it from its successor.
    dead_pid: u32,
    /// The exit that the kernel reported; the one from tmux takes precedence.
    ended: Option<ProcessExit>,
    /// When the program was found to have ended, while its exit status is unknown.
    dying: Option<Instant>,
    /// The program has ended, and bytes of another one have arrived.
    has_new_program: bool,
}

/// The last signs of output, which show if a pane that is gone may have printed more.
#[derive(Debug, Default)]
struct PaneActivity {
    /// When the pane was found gone, and the bytes that the server had read by then.
    gone: Option<(Instant, Option<u64>)>,
    last_news: Option<Instant>,
    /// The bytes that the server had read when the pane was last known to be unchanged.
    bytes_after: Option<u64>,
    /// The server has read bytes while this pane was unchanged: other panes print.
    others_print: bool,
}

/// The agent in a pane, if any.
#[derive(Debug, Default)]
struct PaneAgent {
    /// The states of the agent, if configured.
    states: Option<AgentStates>,
    /// When the stream's screen is next searched for turns and states.
    judge_at: Option<Instant>,
    /// The screen at the last such search; `None` if agents are not recognized.
    shown: Option<Capture>,
    /// The last known title of the pane.
    title: String,
    questions: Questions,
    joining: Joining,
    /// Reads the conversation from the screen of an agent that keeps no transcript.
    reading: Option<Box<Reading>>,
    /// Rows are reported even if the agent's conversation is.
    shows_screen: bool,
    snapshots: Snapshots,
    activity: Activity,
    /// The stream shows the screen of a program that was killed for another one, until it is compared.
    is_screen_stale: bool,
    /// The last search for an agent.
    searched_at: Option<Instant>,
}

/// The source of a pane's lines.
#[derive(Debug)]
enum Follow {
    Captures(Box<PolledPane>),
    Bytes(Box<StreamedPane>),
}

impl Default for Follow {
    fn default() -> Self {
        let tracker = Tracker::baseline(&Capture::default());
        Self::Captures(Box::new(PolledPane::after_stream(tracker)))
    }
}

/// What applies to all panes of a watch.
#[derive(Debug, Default)]
pub(in crate::observe) struct PaneRules {
    /// The time for which a line must be unchanged to be reported.
    pub settle: Duration,
    /// The rules for the ends of turns, in AI mode.
    pub turns: Option<TurnRules>,
    /// The rules that recognize agents' screens, if configured.
    pub states: Option<StateRules>,
    /// The name of the machine, which is tmux's default title.
    pub host: String,
    /// The number of lines of the baseline that are reported.
    pub baseline_lines: usize,
    /// Rows are reported even if the agent's conversation is.
    pub shows_screens: bool,
}

pub(in crate::observe) struct PaneOptions<'a> {
    /// The beginning of the observation.
    pub begin: &'a Begin<'a>,
    pub rules: &'a PaneRules,
    /// What is in the pane's foreground, if it is known.
    pub front: Option<Front>,
    /// The pane is streamed when its pipe is free.
    pub streams: bool,
    /// The time before which its pipe is not opened.
    pub pipe_after: Option<Instant>,
    /// Those who listen to it from its first line on, if it is streamed, and to its states.
    pub listeners: Vec<OpenedListeners>,
}

impl Pane {
    /// Opens a pane with its first capture, and emits its first events.
    pub fn open(
        captured: &mut PaneCapture,
        options: PaneOptions<'_>,
        out: &mut PaneOutput<'_>,
    ) -> Self {
        let PaneOptions { begin, rules, .. } = options;
        let capture = &captured.capture;
        let (mut tracker, changes) = match begin {
            Begin::Baseline => (Tracker::baseline(capture), Vec::new()),
            Begin::Fresh => Tracker::fresh(capture),
            Begin::Resume(resume_point) => {
                Tracker::resume(capture, &resume_point.lines(), resume_point.next_line())
            }
        };
        let earlier = match begin {
            Begin::Baseline => last_lines_before(1, &tracker, rules.baseline_lines),
            Begin::Resume(resume_point) => {
                last_lines_before(resume_point.next_line(), &tracker, rules.baseline_lines)
            }
            Begin::Fresh => None,
        };
        let mut turns = rules
            .turns
            .as_ref()
            .map(|rules| PaneTurns::new(rules, capture));
        if let Some(turns) = &mut turns {
            turns.handle_capture(capture, &tracker);
            match begin {
                Begin::Baseline => {
                    turns.set_baseline(tracker.lines(), tracker.next_line(), capture)
                }
                Begin::Fresh => {}
                Begin::Resume(resume_point) => {
                    let lines = resume_point.lines();
                    let lines = lines.iter().map(|(number, text)| (*number, text.as_str()));
                    turns.set_baseline(lines, resume_point.next_line(), capture);
                }
            }
        }
        let states = rules.states.as_ref().map(|states| {
            let mut states = AgentStates::new(states, &rules.host);
            states.set_front(options.front, out.now);
            states
        });
        tracker.set_settle_period(rules.settle);
        let polled = PolledPane::new(tracker, captured);
        let PaneCapture { state, capture, .. } = &*captured;
        let mut pane = Self {
            id: state.pane(),
            follow: Follow::Captures(Box::new(polled)),
            throttle: RevisionThrottle::default(),
            shape: state.numbers,
            settle: rules.settle,
            life: ProgramLife::default(),
            activity: PaneActivity {
                bytes_after: capture.bytes_after,
                ..PaneActivity::default()
            },
            turns,
            agent: PaneAgent {
                states,
                title: state.title.clone(),
                shows_screen: rules.shows_screens,
                ..PaneAgent::default()
            },
            views: Views::default(),
            piping: Piping::default(),
            streams: options.streams,
            listeners: Listeners::default(),
        };
        if let Some(at) = options.pipe_after {
            pane.piping.wait_until(at);
        }
        for listeners in options.listeners {
            if let Some(listener) = listeners.lines {
                pane.listen(listener, out.now);
            }
            if let Some(listener) = listeners.states {
                pane.listen_to_states(listener);
            }
        }
        pane.opened(state, matches!(begin, Begin::Fresh), out);
        if let Some(lines) = earlier {
            let lines = match begin {
                // The history of a resumed run has these lines already.
                Begin::Resume(_) => Throttled::Live(lines),
                Begin::Baseline | Begin::Fresh => Throttled::Logged(lines),
            };
            pane.emit_one(lines, out);
        }
        pane.emit(changes, out);
        pane.judge(capture, out);
        pane.note_death(capture.dead, out);
        pane
    }

    /// Emits what is due. Returns true if the pane needs another request.
    pub fn handle_timeout(&mut self, out: &mut PaneOutput<'_>) -> bool {
        for throttled in self.throttle.due(out.now) {
            self.emit_one(throttled, out);
        }
        let streamed = self.emit_streamed(out);
        self.judge_due(out);
        if self.death_due().is_some_and(|due| due <= out.now) {
            self.died(self.life.ended.unwrap_or_default(), out);
        }
        self.piping.handle_timeout(out.now);
        let due = self
            .turns
            .as_mut()
            .map(|turns| turns.handle_timeout(out.now));
        if let Some(TurnTimeout::Inferred(summary)) = &due
            && !self.reads_conversation()
        {
            self.finish(out);
            self.complete(Completion::Inferred, out);
            out.turn_completed(&self.id, "", summary, Some(TurnEvidence::Inferred));
        }
        self.emit_due_state(out);
        self.emit_progress(out);
        self.read_due(out);
        self.emit_snapshot(out);
        self.emit_activity(out);
        self.give_up_joining(out);
        if self.views.take_due(self.activity.last_news, out.now) {
            out.emit(TdEvent::PaneSeen {
                execution_id: out.execution_id.clone(),
                pane: self.id.clone(),
                by: PaneViewer::Client.into(),
            });
        }
        streamed || due == Some(TurnTimeout::Rests)
    }

    /// Returns the pid of the pane's program.
    pub fn pid(&self) -> u32 {
        self.shape.pid
    }

    /// Returns true if the pane's screens are searched for agents' states, which depend on its foreground.
    pub fn is_judged(&self) -> bool {
        self.agent.states.is_some()
    }

    /// Returns the pid of the pane's program if its screen is searched now.
    pub fn judged_pid(&self, now: Instant) -> Option<u32> {
        let is_due = self.agent.judge_at.is_some_and(|at| at <= now);
        (self.is_judged() && is_due).then_some(self.shape.pid)
    }

    /// Ends the pane's rest, because the user requests a poll.
    pub fn wake(&mut self, now: Instant) {
        if let Some(turns) = &mut self.turns {
            turns.wake(now);
        }
    }

    /// Takes the pane's numbers from a listing or a capture.
    pub fn update_shape(&mut self, shape: PaneNumbers, out: &mut PaneOutput<'_>) {
        let old = std::mem::replace(&mut self.shape, shape);
        if (old.width, old.height) != (shape.width, shape.height) {
            out.emit(TdEvent::PaneResized {
                execution_id: out.execution_id.clone(),
                pane: self.id.clone(),
                width: shape.width,
                height: shape.height,
            });
        }
        if let Some(stream) = self.stream_mut()
            && !old.has_shape_of(&shape)
        {
            // A change of size or program redraws the screen.
            stream.check.check_soon();
        }
    }

    /// Takes a time at which the pane still showed the last capture.
    pub fn confirm_unchanged(&mut self, proof: Freshness) {
        let is_newer = match &self.follow {
            Follow::Captures(polled) => polled.captured_at <= proof.at,
            Follow::Bytes(_) => true,
        };
        if is_newer {
            self.activity.bytes_after = proof.server_bytes.max(self.activity.bytes_after);
        }
    }

    fn tracker(&self) -> &Tracker {
        match &self.follow {
            Follow::Captures(polled) => &polled.tracker,
            Follow::Bytes(stream) => &stream.tracker.tracker,
        }
    }
}

/// Returns the last `count` known lines before the line `next`.
fn last_lines_before(next: i64, tracker: &Tracker, count: usize) -> Option<Change> {
    let lines = tracker.lines().filter(|(number, _)| *number < next);
    let before: Vec<(i64, &str)> = lines.collect();
    let last = &before[before.len().saturating_sub(count)..];
    let (first_line, _) = last.first()?;
    let chunk = last.iter().map(|(_, text)| format!("{text}\n")).collect();
    Some(Change::Lines {
        first_line: *first_line,
        chunk,
    })
}

/// A pane with output within this time before it vanished may have printed more: programs print their
/// last lines right before they end.
const JUST_ACTIVE: Duration = Duration::from_millis(500);

/// The wait for an exit status. tmux reports the exit of a program within a second after the end of
/// its terminal. A program that closes its terminal and continues has no status.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

impl Pane {
    fn opened(&mut self, state: &PaneState, is_new: bool, out: &mut PaneOutput<'_>) {
        (self.life.dead, self.life.dying, self.life.has_new_program) = (None, None, false);
        self.life.ended = None;
        self.agent.searched_at = None;
        if let Some(states) = &mut self.agent.states {
            states.begin(out.now);
        }
        out.emit(TdEvent::PaneOpened {
            execution_id: out.execution_id.clone(),
            pane: self.id.clone(),
            width: state.width,
            height: state.height,
            command: state.command.clone(),
            is_new: Some(is_new),
        });
    }

    /// Returns true if `pid` is the successor of the known program, which tmux may have killed for it.
    pub fn is_respawned(&self, pid: u32) -> bool {
        let known = if self.life.dead.is_some() {
            self.life.dead_pid
        } else {
            self.shape.pid
        };
        ![0, known].contains(&pid) && known != 0
    }

    /// Opens the pane again if another program runs in it than the known one.
    fn open_successor(&mut self, state: &PaneState, out: &mut PaneOutput<'_>) {
        if self.is_respawned(state.pid) {
            if self.life.dead.is_none() {
                self.agent_ended(None, out);
                self.agent.is_screen_stale = self.stream().is_some();
                self.check_soon();
            }
            self.respawned(out);
            self.shape.pid = state.pid;
            self.opened(state, false, out);
        }
    }

    /// Notes that the pane is gone. `server_bytes` is the number of bytes that its server has read by
    /// now. The exit status and the last bytes may still arrive.
    pub fn mark_gone(&mut self, server_bytes: Option<u64>, now: Instant) {
        self.activity.gone.get_or_insert((now, server_bytes));
    }

    /// Closes a pane that is gone, after everything about it has arrived. `was_at_prompt` states that a shell
    /// waited for input when it was last seen.
    pub fn close(&mut self, was_at_prompt: bool, out: &mut PaneOutput<'_>) {
        let (gone_at, server_bytes) = self.activity.gone.unwrap_or((out.now, None));
        let was_active = self
            .activity
            .last_news
            .is_some_and(|at| gone_at.saturating_duration_since(at) < JUST_ACTIVE);
        let (changes, is_complete) = match &mut self.follow {
            Follow::Captures(polled) => (polled.tracker.end(), false),
            Follow::Bytes(stream) => (stream.end(out.now), stream.is_complete()),
        };
        self.emit(changes, out);
        if self.life.dying.is_some() {
            self.died(self.life.ended.unwrap_or_default(), out);
        }
        self.finish(out);
        let mut has_all = true;
        if self.life.dead.is_none() {
            let may_lack_output = match (self.activity.bytes_after, server_bytes) {
                // The drain has read everything that tmux has passed on.
                _ if self.stream().is_some() => !is_complete,
                // The server has read nothing since, from any pane.
                (Some(then), Some(now)) if then == now => false,
                // It has, perhaps from this pane, unless this one was idle while others printed.
                (Some(_), Some(_)) => was_active || !self.activity.others_print,
                _ => was_active,
            };
            if may_lack_output {
                // Output after the last capture may be lost. The counts of the server contain what its ended
                // children have read, so that they prove nothing. A shell that exits prints little more than the
                // name of that command, a full-screen program restores the screen, and a pane that was killed
                // while it rested prints nothing.
                let was_hung_up = self.exit_status() == Some(ProcessExit::HUNG_UP);
                let is_expected =
                    was_at_prompt || self.shape.alternate || was_hung_up && !was_active;
                let reason = if is_expected {
                    GapReason::Ambiguous
                } else {
                    GapReason::Closed
                };
                out.emit(TdEvent::OutputGap {
                    execution_id: out.execution_id.clone(),
                    pane: self.id.clone(),
                    first_line: self.tracker().next_line(),
                    lost_lines: None,
                    reason: reason.into(),
                    evidence: GapEvidence::Possible.into(),
                });
            }
            self.complete(Completion::Exit(self.exit_status()), out);
            has_all = !may_lack_output;
        }
        self.listeners.end(StreamEnd::Closed {
            is_complete: has_all,
        });
        self.emit_closed(PaneCloseReason::Closed, self.exit_status(), out);
    }

    /// Notes that all output of the pane is missing.
    pub fn mark_output_missing(&mut self, now: Instant) {
        // Makes `close` assume that the server has read bytes after the capture.
        (self.activity.bytes_after, self.activity.last_news) = (Some(0), Some(now));
    }

    /// Ends the observation in this session; another session resumes it.
    pub fn leave(&mut self, out: &mut PaneOutput<'_>) {
        if self.stream().is_some() {
            self.piping.released(out.now);
        }
        self.follow_captures(out);
        self.finish(out);
        self.emit_closed(PaneCloseReason::Moved, None, out);
    }

    fn emit_closed(
        &self,
        reason: PaneCloseReason,
        exit_status: Option<i32>,
        out: &mut PaneOutput<'_>,
    ) {
        out.emit(TdEvent::PaneClosed {
            execution_id: out.execution_id.clone(),
            pane: self.id.clone(),
            reason: reason.into(),
            exit_status,
        });
    }

    /// Resumes the observation in this session.
    pub fn arrive(&mut self, state: &PaneState, out: &mut PaneOutput<'_>) {
        let dead = self.life.dead;
        self.views = Views::default();
        self.opened(state, false, out);
        self.life.dead = dead;
        self.activity.gone = None;
    }

    /// Emits what is pending. The pane continues without an observer.
    pub fn detach(&mut self, out: &mut PaneOutput<'_>) {
        let changes = match &mut self.follow {
            Follow::Captures(polled) => polled.tracker.detach(),
            Follow::Bytes(stream) => stream.detach(out.now),
        };
        self.emit(changes, out);
        self.finish(out);
        self.end_listening(&[], out.now);
    }

    /// Emits what stands on the screen, without waiting for lines to settle.
    pub fn settle_now(&mut self, out: &mut PaneOutput<'_>) {
        let changes = match &mut self.follow {
            Follow::Captures(polled) => polled.tracker.settle_now(),
            Follow::Bytes(stream) => stream.settle_now(out.now),
        };
        self.emit(changes, out);
        self.finish(out);
    }

    /// Returns the exit status of the program, if it has ended and the status is known.
    pub fn exit_status(&self) -> Option<i32> {
        self.death().and_then(ProcessExit::exit_status)
    }

    /// Returns how the program ended, according to tmux, else to the kernel.
    pub fn death(&self) -> Option<ProcessExit> {
        let known = self.life.dead.filter(|dead| dead.exit_status().is_some());
        known.or(self.life.ended)
    }

    /// Takes the program's exit as the kernel reports it.
    pub fn program_ended(&mut self, death: ProcessExit, out: &mut PaneOutput<'_>) {
        if self.life.ended.replace(death).is_none() {
            self.agent_ended(Some(death), out);
        }
        if self.life.dying.is_some() {
            self.died(death, out);
        }
    }

    /// Returns true if the pane has changed at this time.
    pub fn has_news_of(&self, now: Instant) -> bool {
        self.activity.last_news == Some(now)
    }

    /// Handles that the program has ended and tmux keeps the pane: its output is complete. tmux may
    /// learn the exit status later than the end of the terminal.
    fn note_death(&mut self, dead: Option<ProcessExit>, out: &mut PaneOutput<'_>) {
        let Some(mut death) = dead else {
            self.life.dying = None;
            return;
        };
        if self.life.dead.is_some() {
            return;
        }
        if death.exit_status().is_none() {
            death = self.life.ended.unwrap_or(death);
        }
        let since = *self.life.dying.get_or_insert(out.now);
        let waits = out.now.saturating_duration_since(since) < STATUS_TIMEOUT;
        if death.exit_status().is_some() || !waits {
            self.died(death, out);
        }
    }

    /// Returns when the wait for an exit status ends.
    fn death_due(&self) -> Option<Instant> {
        Some(self.life.dying? + STATUS_TIMEOUT)
    }

    fn died(&mut self, death: ProcessExit, out: &mut PaneOutput<'_>) {
        (self.life.dead, self.life.dying) = (Some(death), None);
        self.life.dead_pid = self.shape.pid;
        if self.life.ended.is_none() {
            self.agent_ended(Some(death), out);
        }
        self.finish(out);
        self.complete(Completion::Exit(death.exit_status()), out);
    }

    /// Emits that the output is complete up to here.
    fn complete(&self, why: Completion, out: &mut PaneOutput<'_>) {
        let next = self.tracker().next_line();
        out.complete(&self.id, (next, ""), Default::default(), why);
    }
}

/// The reason for a request that cannot wait for the next poll.
enum UrgentNeed {
    /// The listing shows whether another program still has the pipe.
    Recheck,
    /// A pipe is opened with a capture that its bytes follow.
    OpenPipe,
    /// No more bytes come through the pipe.
    Capture,
    /// The screen is compared with what the bytes have drawn.
    Check,
}

impl Pane {
    /// Returns the request for the next poll: the reply comes when something has changed.
    pub fn next_request(&self) -> PaneRequest {
        let is_resting = self.turns.as_ref().is_some_and(PaneTurns::is_resting);
        match &self.follow {
            Follow::Captures(polled) => polled.request(true, is_resting),
            Follow::Bytes(_) => PaneRequest::Shape(self.shape),
        }
    }

    /// Returns true if [`Pane::urgent_request`] has a request.
    pub fn has_urgent_request(&self, now: Instant) -> bool {
        self.urgent_need(now).is_some()
    }

    /// Returns the request of a streamed pane that cannot wait for the next poll. `open_pipe` returns the
    /// command that opens a pipe, or `None` where none can be opened.
    pub fn urgent_request(
        &mut self,
        now: Instant,
        open_pipe: impl FnOnce() -> Option<String>,
    ) -> Option<PaneRequest> {
        Some(match self.urgent_need(now)? {
            UrgentNeed::Recheck => PaneRequest::Presence,
            UrgentNeed::OpenPipe => {
                let open_pipe = open_pipe();
                if open_pipe.is_none() {
                    self.piping.cannot_open(now);
                }
                self.resync_request(open_pipe)
            }
            UrgentNeed::Capture => self.resync_request(None),
            UrgentNeed::Check => {
                if let Some(stream) = self.stream_mut() {
                    stream.check.requested();
                }
                self.resync_request(None)
            }
        })
    }

    fn urgent_need(&self, now: Instant) -> Option<UrgentNeed> {
        let is_over = self.stream().is_some_and(StreamedPane::is_over);
        let may_open = self.piping.may_open(now)
            && (is_over || self.stream().is_none())
            && self.shape.dead.is_none();
        if self.piping.needs_recheck(now) {
            Some(UrgentNeed::Recheck)
        } else if may_open {
            Some(UrgentNeed::OpenPipe)
        } else if is_over {
            Some(UrgentNeed::Capture)
        } else if self.needs_check(now) {
            Some(UrgentNeed::Check)
        } else {
            None
        }
    }

    fn needs_check(&self, now: Instant) -> bool {
        self.stream().is_some_and(|stream| stream.needs_check(now))
    }

    /// Returns the request for a sync point, or for a comparison with the stream.
    fn resync_request(&self, open_pipe: Option<String>) -> PaneRequest {
        let (margin, known) = match &self.follow {
            Follow::Captures(polled) => (polled.tracker.margin(), polled.known()),
            // The stream itself knows by how much the history has grown.
            Follow::Bytes(stream) => (stream.tracker.rows_to_compare(), None),
        };
        PaneRequest::Resync(ResyncRequest {
            margin: if self.requests_all() {
                Margin::All
            } else {
                Margin::Rows(BASELINE_ROWS.max(margin))
            },
            known,
            spec: ResyncSpec { open_pipe },
        })
    }

    /// Returns true if the last capture was too short.
    pub fn needs_full_capture(&self) -> bool {
        matches!(&self.follow, Follow::Captures(polled) if polled.needs_full_capture)
    }

    /// Returns true if the next capture must have the whole history: the last one was too short, or the
    /// growth of the history since is unknown.
    pub fn requests_all(&self) -> bool {
        match &self.follow {
            Follow::Captures(polled) => polled.requests_all(),
            Follow::Bytes(stream) => stream.is_over(),
        }
    }

    /// Returns when [`Pane::handle_timeout`] is due if nothing arrives; with `may_request`, also when the
    /// pane needs another request.
    pub fn deadline(&self, may_request: bool) -> Option<Instant> {
        let stream = self.stream();
        let joining = match self.agent.joining {
            Joining::Searching(until) => until,
            Joining::None | Joining::Joined => None,
        };
        let deadlines = [
            self.throttle.deadline(),
            self.turns.as_ref().and_then(PaneTurns::deadline),
            self.agent.states.as_ref().and_then(AgentStates::deadline),
            stream.and_then(StreamedPane::deadline),
            stream
                .and_then(StreamedPane::check_at)
                .filter(|_| may_request),
            self.agent.judge_at,
            self.piping.deadline().filter(|_| stream.is_none()),
            self.death_due(),
            self.agent.snapshots.next_due(),
            self.agent.activity.next_due(),
            joining,
            self.agent
                .reading
                .as_ref()
                .and_then(|reading| reading.next_due()),
            self.views.next_due(self.activity.last_news),
        ];
        deadlines.into_iter().flatten().min()
    }
}
