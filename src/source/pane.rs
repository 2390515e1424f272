//! One pane of a watched session: its tracker, and its changes turned into events.

use std::time::{Duration, Instant};

use super::recall::Recall;
use super::states::States;
use super::turns::{Due, TurnRules, Turns};
use crate::agent::{Judged, StateRules, Turn};
use crate::bus::EventEmitter;
use crate::event::{PaneId, TdEvent};
use crate::tmux::{Margin, PaneState, Proof, Rhythm, Seen, Want, Wish};
use crate::track::{Change, Death, Look, Outcome, Pace, Paced, Tracker};

/// A pane that showed something new within this time before it vanished may have printed more:
/// programs print their last lines right before they end.
const JUST_ACTIVE: Duration = Duration::from_millis(500);

/// How long a line must have stood to be said, where looks come as they may: a fraction of what
/// anybody notices, and longer than most programs take to rewrite what they have just written.
const SETTLE: Duration = Duration::from_millis(100);

/// How long a line must have stood, between looks in this rhythm: on a grid, for one tick.
pub(super) fn settle_time(rhythm: &Rhythm) -> Duration {
    match rhythm {
        Rhythm::Fixed(_) => Duration::ZERO,
        Rhythm::Adaptive(_) => SETTLE,
    }
}

/// How a pane comes under observation.
pub(super) enum Begin<'a> {
    /// It stood there: its screen is the baseline.
    Baseline,
    /// It has just appeared: it is said from its first line.
    Fresh,
    /// It was observed before.
    Resume(&'a Recall),
}

/// A pane under observation.
#[derive(Debug)]
pub(super) struct Pane {
    id: PaneId,
    tracker: Tracker,
    pace: Pace,
    seen: Seen,
    /// When the last look was taken, on the looks' clock, and how long what it showed must stand.
    looked_at: Duration,
    settle: Duration,
    /// The last look was too short.
    pub deeper: bool,
    dead: Option<Death>,
    last_news: Option<Instant>,
    /// Bytes that the server had read when the pane was last known to show what was seen.
    bytes_after: Option<u64>,
    /// In AI mode.
    turns: Option<Turns>,
    /// Where its agent stands, where that is wanted.
    states: Option<States>,
}

/// How a pane is observed.
pub(super) struct Manner<'a> {
    /// How that begins.
    pub begin: &'a Begin<'a>,
    /// How long a line must have stood to be said.
    pub settle: Duration,
    /// Where turns end, in AI mode.
    pub turns: Option<&'a TurnRules>,
    /// How agents' screens are read, where that is wanted.
    pub states: Option<&'a StateRules>,
}

impl Pane {
    /// Begins, and says so.
    pub fn open(
        state: &PaneState,
        look: &Look,
        seen: Seen,
        manner: Manner<'_>,
        out: &mut Out<'_>,
    ) -> Self {
        let begin = manner.begin;
        let (mut tracker, changes) = match begin {
            Begin::Baseline => (Tracker::baseline(look), Vec::new()),
            Begin::Fresh => Tracker::fresh(look),
            Begin::Resume(recall) => Tracker::resume(look, &recall.lines(), recall.next()),
        };
        tracker.settle_after(manner.settle);
        let mut turns = manner.turns.map(|rules| Turns::new(rules, look));
        if let Some(turns) = &mut turns {
            turns.sees(look, &tracker);
            match begin {
                Begin::Baseline => turns.stood(tracker.standing(), tracker.next_line(), look),
                Begin::Fresh => {}
                Begin::Resume(recall) => {
                    let lines = recall.lines();
                    let lines = lines.iter().map(|(number, text)| (*number, text.as_str()));
                    turns.stood(lines, recall.next(), look);
                }
            }
        }
        let mut pane = Self {
            id: state.pane(),
            tracker,
            pace: Pace::default(),
            seen,
            looked_at: look.at,
            settle: manner.settle,
            deeper: false,
            dead: None,
            last_news: None,
            bytes_after: look.bytes_after,
            turns,
            states: manner.states.map(|rules| States::new(rules, out.now)),
        };
        pane.opened(state, out);
        pane.say(changes, out);
        pane.judge(look, out);
        pane.note_death(look.dead, out);
        pane
    }

    /// What to ask for.
    pub fn want(&self) -> Want {
        let margin = if self.deeper {
            Margin::All
        } else {
            Margin::Rows(self.tracker.margin())
        };
        let settles = self.looked_at + self.settle;
        Want::Look(Wish {
            // A look that was too short has to be taken again, whether anything changed or not.
            seen: (!self.deeper).then(|| self.seen.clone()),
            margin,
            settles: self.tracker.is_waiting().then_some(settles),
            rests: self.turns.as_ref().is_some_and(Turns::rests),
        })
    }

    /// When something that was held back is to be said.
    pub fn next_due(&self) -> Option<Instant> {
        let turns = self.turns.as_ref().and_then(Turns::next_due);
        let states = self.states.as_ref().and_then(States::next_due);
        let due = [self.pace.next_due(), turns, states];
        due.into_iter().flatten().min()
    }

    /// Says what was held back and is due. Whether something else is to be asked for.
    pub fn say_due(&mut self, out: &mut Out<'_>) -> bool {
        for paced in self.pace.due(out.now) {
            self.emit(paced, out);
        }
        let due = self.turns.as_mut().map(|turns| turns.due(out.now));
        if let Some(Due::Inferred(summary)) = &due {
            self.finish(out);
            let update = self.tracker.next_line();
            self.complete((update, ""), Completion::Inferred, out);
            out.emitter.turn_completed(
                "",
                summary,
                Some(self.id.clone()),
                Some("inferred".to_owned()),
            );
        }
        let state = self.states.as_mut().and_then(|states| states.due(out.now));
        self.say_state(state, out);
        due == Some(Due::Rests)
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
        look: &Look,
        seen: Seen,
        deepest: bool,
        out: &mut Out<'_>,
    ) {
        if (look.width, look.height) != (self.seen.width, self.seen.height) {
            out.emitter.pane_resized(&self.id, look.width, look.height);
        }
        let respawned = look.pid != self.seen.pid;
        let outcome = if deepest {
            Outcome::Changes(self.tracker.deepest_look(look))
        } else {
            self.tracker.look(look)
        };
        let Outcome::Changes(changes) = outcome else {
            self.deeper = true;
            return;
        };
        self.looked_at = look.at;
        // A full-screen program came after the listing: what is behind it was not looked at.
        self.deeper = look.alternate && look.saved.is_none() && !deepest;
        if self.tracker.had_news() {
            self.last_news = Some(out.now);
        }
        if self.dead.is_some() && respawned {
            self.opened(state, out);
        }
        if let Some(turns) = &mut self.turns {
            turns.sees(look, &self.tracker);
        }
        self.say(changes, out);
        self.judge(look, out);
        self.bytes_after = look.bytes_after;
        self.seen = seen;
        self.note_death(look.dead, out);
    }

    /// At this moment nothing had changed since the last look.
    pub fn still(&mut self, state: &PaneState, proof: Proof, out: &mut Out<'_>) {
        self.proved(proof);
        self.seen.renew(state, proof);
        if let Some(turns) = &mut self.turns {
            turns.still(proof.at);
        }
        let changes = self.tracker.still(proof.at, proof.bytes);
        self.say(changes, out);
    }

    /// The same of a pane that is gone now.
    pub fn proved(&mut self, proof: Proof) {
        if proof.at >= self.looked_at {
            self.bytes_after = proof.bytes.max(self.bytes_after);
        }
    }

    /// The pane is gone. `server_bytes` is what its server has read by now.
    pub fn close(&mut self, server_bytes: Option<u64>, out: &mut Out<'_>) {
        let active = self
            .last_news
            .is_some_and(|at| out.now.saturating_duration_since(at) < JUST_ACTIVE);
        let changes = self.tracker.end();
        self.say(changes, out);
        self.finish(out);
        if self.dead.is_none() {
            let more = match (self.bytes_after, server_bytes) {
                // The server is there: it has read something since, or it has not.
                (Some(then), Some(now)) => then != now,
                _ => active,
            };
            if more {
                // The pane took with it what it printed after the last look, if it did.
                let next = self.tracker.next_line();
                out.emitter.output_gap(&self.id, next, None, "ambiguous");
            }
            self.complete((self.tracker.next_line(), ""), Completion::Exit(None), out);
        }
        out.emitter
            .pane_closed(&self.id, "closed", self.dead.and_then(Death::exit_status));
    }

    /// The pane is another session's from now on, and is said there from where it was.
    pub fn leave(&mut self, out: &mut Out<'_>) {
        self.finish(out);
        out.emitter.pane_closed(&self.id, "moved", None);
    }

    /// The pane was another session's.
    pub fn arrive(&mut self, state: &PaneState, out: &mut Out<'_>) {
        let dead = self.dead;
        self.opened(state, out);
        self.dead = dead;
    }

    /// The observer stops and the pane goes on.
    pub fn detach(&mut self, out: &mut Out<'_>) {
        let changes = self.tracker.detach();
        self.say(changes, out);
        self.finish(out);
    }

    /// What its program exited with, if it has and tmux knows it.
    pub fn exit_status(&self) -> Option<i32> {
        self.dead.and_then(Death::exit_status)
    }

    fn opened(&mut self, state: &PaneState, out: &mut Out<'_>) {
        self.dead = None;
        out.emitter
            .pane_opened(&self.id, state.width, state.height, &state.command);
    }

    /// The program has ended and tmux keeps the pane: its output is complete.
    fn note_death(&mut self, dead: Option<Death>, out: &mut Out<'_>) {
        if dead.is_some() && self.dead.is_none() {
            self.dead = dead;
            self.finish(out);
            let status = dead.and_then(Death::exit_status);
            self.complete(
                (self.tracker.next_line(), ""),
                Completion::Exit(status),
                out,
            );
        } else if dead.is_none() {
            self.dead = None;
        }
    }

    /// The output up to here is complete: an agent's turn, or a program's life.
    fn complete(&self, (line, chunk): (i64, &str), why: Completion, out: &mut Out<'_>) {
        let (reason, exit_status) = match why {
            Completion::Turn => ("turn", None),
            Completion::Inferred => ("inferred", None),
            Completion::Exit(status) => ("exit", status),
        };
        let reason = Some(reason.to_owned());
        out.emitter
            .output_update(&self.id, line, chunk, true, reason, exit_status);
    }

    /// What a look says of the agent.
    fn judge(&mut self, look: &Look, out: &mut Out<'_>) {
        let states = self.states.as_mut();
        let state = states.and_then(|states| states.sees(look, out.now));
        self.say_state(state, out);
    }

    fn say_state(&self, state: Option<Judged>, out: &mut Out<'_>) {
        if let Some(judged) = state {
            let pane = Some(self.id.clone());
            let evidence = judged.evidence();
            out.emitter
                .agent_state(None, pane, judged.state.as_str(), &evidence);
        }
    }

    fn finish(&mut self, out: &mut Out<'_>) {
        for paced in self.pace.finish() {
            self.emit(paced, out);
        }
    }

    fn say(&mut self, changes: Vec<Change>, out: &mut Out<'_>) {
        for change in &changes {
            out.recall.note(change);
        }
        let turns = self.turns.as_mut();
        let mut turns = turns.map_or_else(Vec::new, |turns| turns.take(&changes, out.now));
        if turns.is_empty() {
            return self.say_paced(changes, out);
        }
        for change in changes {
            let Change::Lines { first_line, chunk } = change else {
                self.say_paced(vec![change], out);
                continue;
            };
            let (mut line, mut rest) = (first_line, chunk.as_str());
            let end = first_line.saturating_add(chunk.matches('\n').count() as i64);
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
            self.say_turn((self.tracker.next_line(), ""), &turn, out);
        }
    }

    /// The lines up to the end of a turn, and that it has ended.
    fn say_turn(&mut self, update: (i64, &str), turn: &Turn, out: &mut Out<'_>) {
        self.finish(out);
        self.complete(update, Completion::Turn, out);
        let pane = Some(self.id.clone());
        out.emitter
            .turn_completed(&turn.marker, &turn.summary, pane, None);
    }

    fn say_paced(&mut self, changes: Vec<Change>, out: &mut Out<'_>) {
        for paced in self.pace.take(changes, out.now) {
            self.emit(paced, out);
        }
    }

    fn emit(&self, paced: Paced, out: &mut Out<'_>) {
        let (change, keep) = match paced {
            Paced::Keep(change) => (change, true),
            Paced::Show(change) => (change, false),
        };
        let (execution_id, pane) = (out.emitter.execution_id().clone(), self.id.clone());
        let event = match change {
            Change::Lines { first_line, chunk } => TdEvent::OutputUpdate {
                execution_id,
                pane,
                first_line,
                chunk,
                is_complete: false,
                reason: None,
                exit_status: None,
            },
            Change::Revised { line, text } => TdEvent::OutputRevised {
                execution_id,
                pane,
                line,
                text,
            },
            Change::Screen {
                width,
                height,
                cursor,
                rows,
            } => TdEvent::ScreenUpdate {
                execution_id,
                pane,
                width,
                height,
                cursor,
                rows,
            },
            Change::Gap {
                first_line,
                lost_lines,
                reason,
            } => TdEvent::OutputGap {
                execution_id,
                pane,
                first_line,
                lost_lines,
                reason: reason.as_str().to_owned(),
            },
        };
        // A closed bus means that the engine is at its end: nobody is left to be told.
        let _ = if keep {
            out.emitter.emit(event)
        } else {
            out.emitter.emit_live(event)
        };
    }
}

/// Why output is complete.
#[derive(Clone, Copy)]
enum Completion {
    /// An agent's turn has ended.
    Turn,
    /// The same, as far as silence tells.
    Inferred,
    /// The program has ended, with this status where it is known.
    Exit(Option<i32>),
}

/// So many lines, and those behind them.
fn split_lines(chunk: &str, count: u64) -> (&str, &str) {
    let last = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_sub(1));
    let end = last.and_then(|last| chunk.match_indices('\n').nth(last));
    chunk.split_at(end.map_or(0, |(at, _)| at + 1))
}

/// Where a pane's events go, and what of them is remembered.
pub(super) struct Out<'a> {
    pub emitter: &'a EventEmitter,
    pub recall: &'a mut Recall,
    pub now: Instant,
}
