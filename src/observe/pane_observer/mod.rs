//! Observes one pane through captures or its bytes, and turns its changes into events.

mod agent;
pub(super) mod agent_states;
mod ends;
mod joining;
mod pipe_policy;
mod reporting;
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
use pipe_policy::{PipeNews, Piping};
use screen_reading::Reading;
use snapshots::Snapshots;
pub(in crate::observe) use streamed::sync_point;
use views::Views;

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::agent::StateRules;
use crate::event::{PaneId, PaneViewer, TurnEvidence};
use crate::observe::conversation::Conversations;
use crate::observe::pane_observer::agent_states::AgentStates;
use crate::observe::pane_observer::streamed_pane::StreamedPane;
use crate::observe::pane_observer::turns::{PaneTurns, TurnRules, TurnTimeout};
use crate::observe::pane_output::{Completion, PaneOutput};
use crate::observe::resume_point::ResumePoint;
use crate::tmux::{
    CaptureDigest, CaptureRequest, Freshness, Margin, PaneCapture, PaneRequest, PollSchedule,
};
use crate::track::{Capture, PaneNumbers, ProcessExit, RevisionThrottle, Tracker};

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
    /// The digest of the last capture; `None` if changes since then cannot be derived from it.
    seen: Option<CaptureDigest>,
    /// The time of the last capture, on the captures' clock, and the period after which lines settle.
    captured_at: Duration,
    settle: Duration,
    /// The last capture was too short.
    pub deeper: bool,
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
    conversations: Conversations,
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
    Captures(Box<Tracker>),
    Bytes(Box<StreamedPane>),
}

impl Default for Follow {
    fn default() -> Self {
        Self::Captures(Box::new(Tracker::baseline(&Capture::default())))
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
    /// Reads the conversations of agents.
    pub conversations: &'a Conversations,
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
        let digest = std::mem::take(&mut captured.digest);
        let PaneCapture { state, capture, .. } = &*captured;
        let begin = options.begin;
        let (mut tracker, changes) = match begin {
            Begin::Baseline => (Tracker::baseline(capture), Vec::new()),
            Begin::Fresh => Tracker::fresh(capture),
            Begin::Resume(resume_point) => {
                Tracker::resume(capture, &resume_point.lines(), resume_point.next_line())
            }
        };
        tracker.set_settle_period(options.settle);
        let baseline = match begin {
            Begin::Baseline => last_baseline_lines(&tracker, options.baseline_lines),
            Begin::Fresh | Begin::Resume(_) => None,
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
        let mut pane = Self {
            id: state.pane(),
            follow: Follow::Captures(Box::new(tracker)),
            throttle: RevisionThrottle::default(),
            shape: state.numbers,
            seen: Some(digest),
            captured_at: capture.at,
            settle: options.settle,
            deeper: false,
            dead: None,
            ended: None,
            gone: None,
            dying: None,
            last_news: None,
            bytes_after: capture.bytes_after,
            others_print: false,
            turns,
            states: options.states.map(|rules| AgentStates::new(rules, out.now)),
            conversations: options.conversations.clone(),
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
        if let Some((first_line, chunk)) = baseline {
            out.emitter.output_update(&pane.id, first_line, &chunk);
        }
        pane.emit(changes, out);
        pane.judge(capture, out);
        pane.note_death(capture.dead, out);
        pane
    }

    /// Returns the request for a regular poll.
    pub fn request(&self) -> PaneRequest {
        let tracker = match &self.follow {
            Follow::Captures(tracker) => tracker,
            Follow::Bytes(_) => return PaneRequest::Shape(self.shape),
        };
        let settles = self.captured_at + self.settle;
        PaneRequest::Capture(CaptureRequest {
            // A capture that was too short is repeated even if nothing has changed.
            known: self.seen.clone().filter(|_| !self.deeper),
            margin: match self.requests_all() {
                true => Margin::All,
                false => Margin::Rows(tracker.margin()),
            },
            settles_at: tracker.is_settling().then_some(settles),
            is_resting: self.turns.as_ref().is_some_and(PaneTurns::is_resting),
        })
    }

    /// Returns when delayed output is due.
    pub fn next_due(&self) -> Option<Instant> {
        let turns = self.turns.as_ref().and_then(PaneTurns::deadline);
        let states = self.states.as_ref().and_then(AgentStates::deadline);
        let stream = self.stream().and_then(StreamedPane::deadline);
        let pipe = self.piping.deadline().filter(|_| self.stream().is_none());
        let throttle = self.throttle.deadline();
        let (judging, death) = (self.judge_at, self.death_due());
        let snapshot = self.snapshots.next_due();
        let joining = match self.joining {
            Joining::Searching(until) => until,
            Joining::None | Joining::Joined => None,
        };
        let reading = self.reading.as_ref().and_then(|reading| reading.next_due());
        let view = self.views.next_due(self.last_news);
        let due = [
            throttle, turns, states, stream, judging, pipe, death, snapshot, joining, reading, view,
        ];
        due.into_iter().flatten().min()
    }

    /// Returns when the stream must be compared with a capture.
    pub fn next_check(&self) -> Option<Instant> {
        self.stream().and_then(StreamedPane::check_at)
    }

    /// Emits delayed output that is due. Returns whether the pane's request has changed.
    pub fn emit_due(&mut self, out: &mut PaneOutput<'_>) -> bool {
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
            out.emitter.pane_seen(&self.id, PaneViewer::Client);
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
            out.emitter
                .pane_resized(&self.id, shape.width, shape.height);
        }
        self.handle_reshape(old);
    }

    /// Takes a time at which the pane still showed the last capture.
    pub fn confirm_unchanged(&mut self, proof: Freshness) {
        if proof.at >= self.captured_at {
            self.bytes_after = proof.server_bytes.max(self.bytes_after);
        }
    }

    fn tracker(&self) -> &Tracker {
        match &self.follow {
            Follow::Captures(tracker) => tracker,
            Follow::Bytes(stream) => stream.tracker(),
        }
    }
}
/// Returns the last lines above the cursor's line, and the number of the first of them.
fn last_baseline_lines(tracker: &Tracker, count: usize) -> Option<(i64, String)> {
    let before: Vec<(i64, &str)> = tracker.lines().filter(|(number, _)| *number <= 0).collect();
    let last = &before[before.len().saturating_sub(count)..];
    let (first_line, _) = last.first()?;
    let chunk = last.iter().map(|(_, text)| format!("{text}\n")).collect();
    Some((*first_line, chunk))
}
