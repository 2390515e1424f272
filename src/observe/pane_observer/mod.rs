//! Observes one pane through captures or its bytes, and turns its changes into events.

mod agent;
pub(super) mod agent_states;
mod ends;
mod joining;
mod output;
mod pipe_policy;
mod reporting;
mod requests;
mod screen_conversation;
mod screen_reading;
mod snapshots;
mod streamed;
pub(super) mod streamed_pane;
#[cfg(test)]
mod tests;
pub(super) mod turns;
mod views;

use joining::Joining;
#[cfg(feature = "cli")]
pub(crate) use output::PIPE_CONTEXT;
pub(in crate::observe) use output::{Completion, PaneEmission, PaneOutput};
use pipe_policy::{PipeNews, Piping};
use screen_reading::Reading;
use snapshots::Snapshots;
pub(in crate::observe) use streamed::sync_point;
use views::Views;

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::agent::StateRules;
use crate::event::{PaneId, PaneViewer, TdEvent, TurnEvidence};
use crate::observe::next_capture::NextCapture;
use crate::observe::pane_observer::agent_states::AgentStates;
use crate::observe::pane_observer::streamed_pane::StreamedPane;
use crate::observe::pane_observer::turns::{PaneTurns, TurnRules, TurnTimeout};
use crate::observe::resume_point::ResumePoint;
use crate::tmux::{Freshness, PaneCapture, PollSchedule};
use crate::track::{
    Capture, Change, PaneNumbers, ProcessExit, RevisionThrottle, Throttled, Tracker,
};

/// The time for which a line must be unchanged to settle if captures are irregular: shorter than
/// people notice, and longer than most programs take to rewrite what they have just written.
const SETTLE: Duration = Duration::from_millis(100);

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
    dead: Option<ProcessExit>,
    /// The exit that the kernel reported; the one from tmux takes precedence.
    ended: Option<ProcessExit>,
    /// When the pane was found gone, and the bytes that the server had read by then.
    gone: Option<(Instant, Option<u64>)>,
    /// When the program was found to have ended, while its exit status is unknown.
    dying: Option<Instant>,
    last_news: Option<Instant>,
    /// The bytes that the server had read when the pane was last known to be unchanged.
    bytes_after: Option<u64>,
    /// The server has read bytes while this pane was unchanged: other panes print.
    others_print: bool,
    /// The turns, in AI mode.
    turns: Option<PaneTurns>,
    /// The states of the agent, if configured.
    states: Option<AgentStates>,
    /// When the stream's screen is next searched for turns and states.
    judge_at: Option<Instant>,
    /// The screen at the last such search; `None` if agents are not recognized.
    shown: Option<Capture>,
    /// The last known title of the pane.
    title: String,
    joining: Joining,
    /// Reads the conversation from the screen of an agent that keeps no transcript.
    reading: Option<Box<Reading>>,
    /// Rows are reported even if the agent's conversation is.
    shows_screen: bool,
    snapshots: Snapshots,
    pub views: Views,
    /// The last search for an agent.
    agent_searched_at: Cell<Option<Instant>>,
    /// The program has ended, and bytes of another one have arrived.
    has_new_program: bool,
    /// Decides whether its pipe may be opened.
    piping: Piping,
    /// The pane is streamed when its pipe is free.
    streams: bool,
}

/// The source of a pane's lines.
#[derive(Debug)]
enum Follow {
    Captures(Box<PolledPane>),
    Bytes(Box<StreamedPane>),
}

/// A pane that is polled.
#[derive(Debug)]
struct PolledPane {
    tracker: Tracker,
    next_capture: NextCapture,
}

impl Default for Follow {
    fn default() -> Self {
        Self::Captures(Box::new(PolledPane {
            tracker: Tracker::baseline(&Capture::default()),
            next_capture: NextCapture::after_stream(),
        }))
    }
}

pub(in crate::observe) struct PaneOptions<'a> {
    /// The beginning of the observation.
    pub begin: &'a Begin<'a>,
    /// The number of lines of the baseline that are reported.
    pub baseline_lines: usize,
    /// The time for which a line must be unchanged to be reported.
    pub settle: Duration,
    /// The rules for the ends of turns, in AI mode.
    pub turns: Option<&'a TurnRules>,
    /// The rules that recognize agents' screens, if configured.
    pub states: Option<&'a StateRules>,
    /// Rows are reported even if the agent's conversation is.
    pub shows_screen: bool,
    /// The pane is streamed when its pipe is free.
    pub streams: bool,
    /// The time before which its pipe is not opened.
    pub pipe_after: Option<Instant>,
}

impl Pane {
    /// Opens a pane with its first capture, and emits its first events.
    pub fn open(
        captured: &mut PaneCapture,
        options: PaneOptions<'_>,
        out: &mut PaneOutput<'_>,
    ) -> Self {
        let begin = options.begin;
        let capture = &captured.capture;
        let (mut tracker, changes) = match begin {
            Begin::Baseline => (Tracker::baseline(capture), Vec::new()),
            Begin::Fresh => Tracker::fresh(capture),
            Begin::Resume(resume_point) => {
                Tracker::resume(capture, &resume_point.lines(), resume_point.next_line())
            }
        };
        let earlier = match begin {
            Begin::Baseline => last_lines_before(1, &tracker, options.baseline_lines),
            Begin::Resume(resume_point) => {
                last_lines_before(resume_point.next_line(), &tracker, options.baseline_lines)
            }
            Begin::Fresh => None,
        };
        let mut turns = options.turns.map(|rules| PaneTurns::new(rules, capture));
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
        tracker.set_settle_period(options.settle);
        let next_capture = NextCapture::after(captured);
        let polled = PolledPane {
            tracker,
            next_capture,
        };
        let PaneCapture { state, capture, .. } = &*captured;
        let mut pane = Self {
            id: state.pane(),
            follow: Follow::Captures(Box::new(polled)),
            throttle: RevisionThrottle::default(),
            shape: state.numbers,
            settle: options.settle,
            dead: None,
            ended: None,
            gone: None,
            dying: None,
            last_news: None,
            bytes_after: capture.bytes_after,
            others_print: false,
            turns,
            states: options.states.map(|rules| AgentStates::new(rules, out.now)),
            judge_at: None,
            shown: None,
            title: state.title.clone(),
            joining: Joining::None,
            reading: None,
            shows_screen: options.shows_screen,
            snapshots: Snapshots::default(),
            views: Views::default(),
            agent_searched_at: Cell::new(None),
            has_new_program: false,
            piping: Piping::default(),
            streams: options.streams,
        };
        if let Some(at) = options.pipe_after {
            pane.piping.wait_until(at);
        }
        pane.opened(state, out);
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
        self.emit_death(out);
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
        self.read_due(out);
        self.emit_snapshot(out);
        self.give_up_joining(out);
        if self.views.take_due(self.last_news, out.now) {
            out.emit(TdEvent::PaneSeen {
                execution_id: out.execution_id.clone(),
                pane: self.id.clone(),
                by: PaneViewer::Client.into(),
            });
        }
        streamed || due == Some(TurnTimeout::Rests)
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
        if old.pid != shape.pid && shape.dead.is_none() {
            self.ended = None;
        }
        if (old.width, old.height) != (shape.width, shape.height) {
            out.emit(TdEvent::PaneResized {
                execution_id: out.execution_id.clone(),
                pane: self.id.clone(),
                width: shape.width,
                height: shape.height,
            });
        }
        self.handle_reshape(old);
    }

    /// Takes a time at which the pane still showed the last capture.
    pub fn confirm_unchanged(&mut self, proof: Freshness) {
        let is_newer = match &self.follow {
            Follow::Captures(polled) => polled.next_capture.was_captured_by(proof.at),
            Follow::Bytes(_) => true,
        };
        if is_newer {
            self.bytes_after = proof.server_bytes.max(self.bytes_after);
        }
    }

    fn tracker(&self) -> &Tracker {
        match &self.follow {
            Follow::Captures(polled) => &polled.tracker,
            Follow::Bytes(stream) => stream.tracker(),
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
