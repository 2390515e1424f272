//! One pane of a watched session: followed by looks or by its bytes, its changes turned into events.

mod agent;
pub(super) mod agent_states;
mod ends;
mod pipe_policy;
mod screen_conversation;
mod snapshots;
mod streamed;
pub(super) mod streamed_pane;
pub(super) mod turns;

use agent::Joining;
use pipe_policy::{PipeNews, Piping};
use screen_conversation::Reading;
use snapshots::Snapshots;
pub(in crate::observe) use streamed::seam_of;

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::agent::{StateRules, Turn};
use crate::event::{PaneId, Styles, TurnEvidence};
use crate::observe::conversation::Conversations;
use crate::observe::pane_observer::agent_states::AgentStates;
use crate::observe::pane_observer::streamed_pane::StreamedPane;
use crate::observe::pane_observer::turns::{PaneTurns, TurnRules, TurnTimeout};
use crate::observe::resume_point::ResumePoint;
use crate::observe::say::{Completion, Out};
use crate::tmux::{
    CaptureDigest, CaptureRequest, Freshness, Margin, PaneRequest, PaneShape, PaneState,
    PollSchedule,
};
use crate::track::{
    Capture, Change, ProcessExit, RevisionThrottle, Throttled, Tracker, TrackerOutput,
};

/// How long a line must have stood to be said, where looks come as they may: a fraction of what
/// anybody notices, and longer than most programs take to rewrite what they have just written.
const SETTLE: Duration = Duration::from_millis(100);

/// How long a line must have stood, between looks in this rhythm: on a grid, for one tick.
pub(in crate::observe) fn settle_time(rhythm: &PollSchedule) -> Duration {
    match rhythm {
        PollSchedule::Fixed(_) => Duration::ZERO,
        PollSchedule::Adaptive(_) => SETTLE,
    }
}

/// How a pane comes under observation.
pub(in crate::observe) enum Begin<'a> {
    /// It stood there: its screen is the baseline.
    Baseline,
    /// It has just appeared: it is said from its first line.
    Fresh,
    /// It was observed before.
    Resume(&'a ResumePoint),
}

/// A pane under observation.
#[derive(Debug)]
pub(in crate::observe) struct Pane {
    id: PaneId,
    follow: Follow,
    pace: RevisionThrottle,
    /// Its size and its program, as far as that has been told.
    shape: PaneShape,
    /// The last look; `None` where it does not tell what has changed since.
    seen: Option<CaptureDigest>,
    /// When the last look was taken, on the looks' clock, and how long what it showed must stand.
    looked_at: Duration,
    settle: Duration,
    /// The last look was too short.
    pub deeper: bool,
    dead: Option<ProcessExit>,
    /// How its program ended, as the kernel has it; tmux comes first.
    ended: Option<ProcessExit>,
    /// When its pane was found gone, and what the server had read by then.
    gone: Option<(Instant, Option<u64>)>,
    /// Since when it is known that its program has ended, and not how.
    dying: Option<Instant>,
    last_news: Option<Instant>,
    /// Bytes that the server had read when the pane was last known to show what was seen.
    bytes_after: Option<u64>,
    /// The server read bytes while this pane was last known to have stood still: other panes print.
    others_print: bool,
    /// In AI mode.
    turns: Option<PaneTurns>,
    /// Where its agent stands, where that is wanted.
    states: Option<AgentStates>,
    conversations: Conversations,
    /// When turns and states are to be looked for in what the bytes have made.
    glance_at: Option<Instant>,
    /// Its screen when it was judged last; none where agents are not looked for.
    shown: Option<Capture>,
    /// The pane's title, as far as it is known.
    title: String,
    joining: Joining,
    /// The conversation on its screen, where its agent keeps no transcript.
    reading: Option<Box<Reading>>,
    /// Its rows are reported though its agent's conversation is.
    shows_screen: bool,
    snapshots: Snapshots,
    /// When its agent was looked for last.
    looked_for_agent: Cell<Option<Instant>>,
    /// Its program has ended, and another one's bytes have come.
    has_begun_anew: bool,
    /// Whether its pipe may be opened.
    piping: Piping,
    /// It is followed by its bytes where its pipe is free.
    streams: bool,
}

/// By what a pane is followed.
#[derive(Debug)]
enum Follow {
    Looks(Box<Tracker>),
    Bytes(Box<StreamedPane>),
}

impl Default for Follow {
    fn default() -> Self {
        Self::Looks(Box::new(Tracker::baseline(&Capture::default())))
    }
}

/// How a pane is observed.
pub(in crate::observe) struct Manner<'a> {
    /// How that begins.
    pub begin: &'a Begin<'a>,
    /// How long a line must have stood to be said.
    pub settle: Duration,
    /// Where turns end, in AI mode.
    pub turns: Option<&'a TurnRules>,
    /// How agents' screens are read, where that is wanted.
    pub states: Option<&'a StateRules>,
    /// Where the conversations of agents are read.
    pub conversations: &'a Conversations,
    /// Rows are reported though an agent's conversation is.
    pub shows_screen: bool,
    /// It is followed by its bytes where its pipe is free.
    pub streams: bool,
}

impl Pane {
    /// Begins, and says so.
    pub fn open(
        state: &PaneState,
        look: &Capture,
        seen: CaptureDigest,
        manner: Manner<'_>,
        out: &mut Out<'_>,
    ) -> Self {
        let begin = manner.begin;
        let (mut tracker, changes) = match begin {
            Begin::Baseline => (Tracker::baseline(look), Vec::new()),
            Begin::Fresh => Tracker::fresh(look),
            Begin::Resume(recall) => Tracker::resume(look, &recall.lines(), recall.next_line()),
        };
        tracker.set_settle_period(manner.settle);
        let mut turns = manner.turns.map(|rules| PaneTurns::new(rules, look));
        if let Some(turns) = &mut turns {
            turns.handle_capture(look, &tracker);
            match begin {
                Begin::Baseline => turns.set_baseline(tracker.lines(), tracker.next_line(), look),
                Begin::Fresh => {}
                Begin::Resume(recall) => {
                    let lines = recall.lines();
                    let lines = lines.iter().map(|(number, text)| (*number, text.as_str()));
                    turns.set_baseline(lines, recall.next_line(), look);
                }
            }
        }
        let mut pane = Self {
            id: state.pane(),
            follow: Follow::Looks(Box::new(tracker)),
            pace: RevisionThrottle::default(),
            shape: state.shape(),
            seen: Some(seen),
            looked_at: look.at,
            settle: manner.settle,
            deeper: false,
            dead: None,
            ended: None,
            gone: None,
            dying: None,
            last_news: None,
            bytes_after: look.bytes_after,
            others_print: false,
            turns,
            states: manner.states.map(|rules| AgentStates::new(rules, out.now)),
            conversations: manner.conversations.clone(),
            glance_at: None,
            shown: None,
            title: state.title.clone(),
            joining: Joining::None,
            reading: None,
            shows_screen: manner.shows_screen,
            snapshots: Snapshots::default(),
            looked_for_agent: Cell::new(None),
            has_begun_anew: false,
            piping: Piping::default(),
            streams: manner.streams,
        };
        pane.opened(state, out);
        pane.say(changes, out);
        pane.judge(look, out);
        pane.note_death(look.dead, out);
        pane
    }

    /// What to ask for, until there is something to tell.
    pub fn want(&self) -> PaneRequest {
        let tracker = match &self.follow {
            Follow::Looks(tracker) => tracker,
            Follow::Bytes(_) => return PaneRequest::Shape(self.shape),
        };
        let settles = self.looked_at + self.settle;
        PaneRequest::Capture(CaptureRequest {
            // A look that was too short has to be taken again, whether anything changed or not.
            known: self.seen.clone().filter(|_| !self.deeper),
            margin: self.margin(tracker),
            settles_at: tracker.is_settling().then_some(settles),
            is_resting: self.turns.as_ref().is_some_and(PaneTurns::is_resting),
        })
    }

    fn margin(&self, tracker: &Tracker) -> Margin {
        // Without the numbers of the last look, the growth of the history is not known.
        match self.deeper || self.seen.is_none() {
            true => Margin::All,
            false => Margin::Rows(tracker.margin()),
        }
    }

    /// When something that was held back is to be said.
    pub fn next_due(&self) -> Option<Instant> {
        let turns = self.turns.as_ref().and_then(PaneTurns::deadline);
        let states = self.states.as_ref().and_then(AgentStates::deadline);
        let stream = self.stream().and_then(StreamedPane::deadline);
        let pipe = self.piping.deadline().filter(|_| self.stream().is_none());
        let pace = self.pace.deadline();
        let (glance, death) = (self.glance_at, self.death_due());
        let snapshot = self.snapshots.next_due();
        let joining = match self.joining {
            Joining::Looked(until) => until,
            Joining::None | Joining::Joined => None,
        };
        let reading = self.reading.as_ref().and_then(|reading| reading.next_due());
        let due = [
            pace, turns, states, stream, glance, pipe, death, snapshot, joining, reading,
        ];
        due.into_iter().flatten().min()
    }

    /// When it is to be compared with what its bytes have made.
    pub fn next_check(&self) -> Option<Instant> {
        self.stream().and_then(StreamedPane::check_at)
    }

    /// Says what was held back and is due. Whether something else is to be asked for.
    pub fn say_due(&mut self, out: &mut Out<'_>) -> bool {
        for paced in self.pace.due(out.now) {
            self.say_one(paced, out);
        }
        let streamed = self.say_streamed(out);
        self.say_death(out);
        self.piping.passed(out.now);
        let due = self
            .turns
            .as_mut()
            .map(|turns| turns.handle_timeout(out.now));
        if let Some(TurnTimeout::Inferred(summary)) = &due
            && !self.reads_conversation()
        {
            self.finish(out);
            let update = (self.tracker().next_line(), "");
            let styles = self.styles(update.0, update.1);
            out.complete(&self.id, update, styles, Completion::Inferred);
            out.turn_completed(&self.id, "", summary, Some(TurnEvidence::Inferred));
        }
        let state = self
            .states
            .as_mut()
            .and_then(|states| states.handle_timeout(out.now));
        self.say_state(state, out);
        self.read_due(out);
        self.say_snapshot(out);
        self.stop_looking(out);
        streamed || due == Some(TurnTimeout::Rests)
    }

    /// Somebody wants it to be looked at: it does not rest.
    pub fn wake(&mut self, now: Instant) {
        if let Some(turns) = &mut self.turns {
            turns.wake(now);
        }
    }

    /// Takes in a look; `deepest` if there is no deeper one.
    pub fn look(
        &mut self,
        state: &PaneState,
        look: &Capture,
        seen: CaptureDigest,
        deepest: bool,
        out: &mut Out<'_>,
    ) {
        self.follow_looks(out);
        let Follow::Looks(tracker) = &mut self.follow else {
            return;
        };
        let respawned = look.pid != self.shape.pid;
        let goes_on = look.dead.is_none() && !respawned;
        let closed = self.piping.captured(state.piped, goes_on, out.now);
        let outcome = if deepest {
            TrackerOutput::Changes(tracker.apply_deepest(look))
        } else {
            tracker.apply(look)
        };
        let had_changes = tracker.had_changes();
        self.report_pipe(closed, out);
        self.piped(state.piped, out);
        self.titled(&state.title, out);
        self.shaped(state.shape(), out);
        let TrackerOutput::Changes(changes) = outcome else {
            self.deeper = true;
            return;
        };
        self.looked_at = look.at;
        // A full-screen program came after the listing: what is behind it was not looked at.
        self.deeper = look.alternate && look.saved.is_none() && !deepest;
        if had_changes {
            self.last_news = Some(out.now);
        }
        if self.dead.is_some() && respawned {
            self.opened(state, out);
        }
        self.sees(look);
        self.say(changes, out);
        self.judge(look, out);
        self.bytes_after = look.bytes_after;
        self.seen = Some(seen);
        self.note_death(look.dead, out);
    }

    /// What the listing has of it, or a look.
    pub fn shaped(&mut self, shape: PaneShape, out: &mut Out<'_>) {
        let old = std::mem::replace(&mut self.shape, shape);
        if old.pid != shape.pid && shape.dead.is_none() {
            self.ended = None;
        }
        if (old.width, old.height) != (shape.width, shape.height) {
            out.emitter
                .pane_resized(&self.id, shape.width, shape.height);
        }
        self.reshaped(old);
    }

    /// At this moment nothing had changed since the last look.
    pub fn still(&mut self, state: &PaneState, proof: Freshness, out: &mut Out<'_>) {
        let grew = proof.server_bytes.zip(self.bytes_after);
        self.others_print = grew.is_some_and(|(now, then)| now > then);
        self.proved(proof);
        self.piped(state.piped, out);
        self.titled(&state.title, out);
        let Follow::Looks(tracker) = &mut self.follow else {
            return;
        };
        if let Some(seen) = &mut self.seen {
            seen.confirm(state, proof);
        }
        if let Some(turns) = &mut self.turns {
            turns.handle_unchanged(proof.at);
        }
        let changes = tracker.unchanged(proof.at, proof.server_bytes);
        self.say(changes, out);
    }

    /// The same of a pane that is gone now.
    pub fn proved(&mut self, proof: Freshness) {
        if proof.at >= self.looked_at {
            self.bytes_after = proof.server_bytes.max(self.bytes_after);
        }
    }

    fn sees(&mut self, look: &Capture) {
        if let Some(turns) = &mut self.turns {
            let tracker = match &self.follow {
                Follow::Looks(tracker) => tracker,
                Follow::Bytes(stream) => stream.tracker(),
            };
            turns.handle_capture(look, tracker);
        }
    }

    fn finish(&mut self, out: &mut Out<'_>) {
        for paced in self.pace.finish() {
            self.say_one(paced, out);
        }
    }

    fn say(&mut self, changes: Vec<Change>, out: &mut Out<'_>) {
        for change in &changes {
            out.recall.note_change(change);
        }
        let turns = self.turns.as_mut();
        let mut turns =
            turns.map_or_else(Vec::new, |turns| turns.handle_changes(&changes, out.now));
        if self.reads_conversation() {
            // Its agent reports them.
            turns.clear();
        }
        if turns.is_empty() {
            return self.say_paced(changes, out);
        }
        for change in changes {
            let Change::Lines { first_line, chunk } = change else {
                self.say_paced(vec![change], out);
                continue;
            };
            let (mut line, mut rest) = (first_line, chunk.as_str());
            let end = first_line
                .saturating_add(memchr::memchr_iter(b'\n', chunk.as_bytes()).count() as i64);
            let is_here = |turn: &Turn| turn.line.is_some_and(|at| (first_line..end).contains(&at));
            let (here, elsewhere): (Vec<_>, Vec<_>) = turns.into_iter().partition(is_here);
            turns = elsewhere;
            for turn in here {
                let next = turn.line.map_or(end, |number| number + 1);
                let (lines, later) = split_lines(rest, next.abs_diff(line));
                self.say_turn((line, lines), &turn, out);
                (line, rest) = (next, later);
            }
            if !rest.is_empty() {
                let chunk = rest.to_owned();
                let first_line = line;
                self.say_paced(vec![Change::Lines { first_line, chunk }], out);
            }
        }
        // Those whose markers are not among the new lines.
        for turn in turns {
            self.say_turn((self.tracker().next_line(), ""), &turn, out);
        }
    }

    /// The lines up to the end of a turn, and that it has ended.
    fn say_turn(&mut self, update: (i64, &str), turn: &Turn, out: &mut Out<'_>) {
        self.finish(out);
        let styles = self.styles(update.0, update.1);
        out.complete(&self.id, update, styles, Completion::Turn);
        out.turn_completed(&self.id, &turn.marker, &turn.summary, None);
    }

    fn say_paced(&mut self, changes: Vec<Change>, out: &mut Out<'_>) {
        for paced in self.pace.throttle(changes, out.now) {
            self.say_one(paced, out);
        }
    }

    fn say_one(&self, paced: Throttled, out: &mut Out<'_>) {
        let (Throttled::Logged(change) | Throttled::Live(change)) = &paced;
        if self.hides(change) {
            return;
        }
        let styles = match change {
            Change::Lines { first_line, chunk } => self.styles(*first_line, chunk),
            Change::Revised { line, text } => self.styles(*line, text),
            Change::Screen { .. } | Change::Gap { .. } => Styles::default(),
        };
        out.change(&self.id, paced, styles);
    }

    /// Styles of lines of a streamed pane, looked up when the lines are emitted. A line that has changed
    /// since has none.
    fn styles(&self, first_line: i64, text: &str) -> Styles {
        match &self.follow {
            Follow::Looks(_) => Styles::default(),
            Follow::Bytes(stream) => stream.styles(first_line, text),
        }
    }

    fn tracker(&self) -> &Tracker {
        match &self.follow {
            Follow::Looks(tracker) => tracker,
            Follow::Bytes(stream) => stream.tracker(),
        }
    }
}

/// So many lines, and those behind them.
fn split_lines(chunk: &str, count: u64) -> (&str, &str) {
    let last = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_sub(1));
    let end = last.and_then(|last| chunk.match_indices('\n').nth(last));
    chunk.split_at(end.map_or(0, |(at, _)| at + 1))
}
