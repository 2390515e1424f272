//! The pane observer on scripted captures, without tmux: a model of tmux's grid, a simulated clock,
//! and the law of pane output on the events.

mod streamed;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::event::{GapEvidence, PaneCloseReason, TdEvent};
use crate::observe::pane_observer::output::PaneEmission;
use crate::tmux::{Margin, PaneRequest};
use crate::track::sim::Sim;

/// A pane and its observer, which captures whenever the pane requests it.
struct Script {
    sim: Sim,
    pid: u32,
    pane: Pane,
    seen_history: usize,
    resume_point: ResumePoint,
    start: Instant,
    /// The time since the start.
    at: Duration,
    events: Vec<TdEvent>,
}

fn capture(sim: &Sim, pid: u32, at: Duration, depth: usize) -> PaneCapture {
    let mut capture = sim.capture(depth);
    (capture.at, capture.pid) = (at, pid);
    let mut captured = PaneCapture::default();
    captured.state.numbers = capture.numbers;
    captured.digest.numbers = capture.numbers;
    captured.capture = capture;
    captured
}

impl Script {
    fn open(sim: Sim, begin: &Begin<'_>, settle: Duration, baseline_lines: usize) -> Self {
        let rules = PaneRules {
            baseline_lines,
            settle,
            ..PaneRules::default()
        };
        let options = PaneOptions {
            begin,
            rules: &rules,
            front: None,
            streams: false,
            pipe_after: None,
            listeners: Vec::new(),
        };
        Self::with_options(sim, options)
    }

    fn with_options(sim: Sim, options: PaneOptions<'_>) -> Self {
        let begin = options.begin;
        let (start, pid) = (Instant::now(), 1);
        let resume_point = match begin {
            Begin::Resume(point) => (*point).clone(),
            Begin::Baseline | Begin::Fresh => ResumePoint::default(),
        };
        let execution_id = "job".into();
        let mut out = PaneOutput::new(&execution_id, start);
        let mut first = capture(&sim, pid, Duration::ZERO, usize::MAX);
        let pane = Pane::open(&mut first, options, &mut out);
        let seen_history = sim.history_size();
        let mut script = Self {
            sim,
            pid,
            pane,
            seen_history,
            resume_point,
            start,
            at: Duration::ZERO,
            events: Vec::new(),
        };
        script.take(out.emissions);
        script
    }

    /// Opens a new pane of 20 columns and 5 rows whose lines are reported at once.
    fn fresh() -> Self {
        Self::open(Sim::new(20, 5, 50), &Begin::Fresh, Duration::ZERO, 0)
    }

    fn with<T>(&mut self, step: impl FnOnce(&mut Pane, &mut PaneOutput<'_>) -> T) -> T {
        let execution_id = "job".into();
        let mut out = PaneOutput::new(&execution_id, self.start + self.at);
        let done = step(&mut self.pane, &mut out);
        self.take(out.emissions);
        done
    }

    fn take(&mut self, emissions: Vec<PaneEmission>) {
        let events = emissions.into_iter().filter_map(|emission| match emission {
            PaneEmission::Event(event) | PaneEmission::Lines(event) | PaneEmission::Live(event) => {
                Some(event)
            }
            PaneEmission::Hidden(_) | PaneEmission::TurnOver => None,
        });
        for event in events {
            self.resume_point.note_event(&event);
            self.events.push(event);
        }
    }

    /// Advances the clock and captures until the pane requests no deeper capture.
    fn poll(&mut self, after: Duration) {
        self.at += after;
        loop {
            let PaneRequest::Capture(request) = self.pane.next_request() else {
                panic!("a polled pane wants captures");
            };
            let grown = self.grown();
            let depth = match request.margin {
                Margin::All => usize::MAX,
                Margin::Rows(rows) => grown + rows as usize,
            };
            self.seen_history = self.sim.history_size();
            let mut captured = capture(&self.sim, self.pid, self.at, depth);
            self.with(|pane, out| pane.handle_capture(&mut captured, depth == usize::MAX, out));
            if !self.pane.needs_full_capture() {
                break;
            }
            assert!(depth < usize::MAX, "a complete capture is never too short");
        }
        self.with(|pane, out| pane.handle_timeout(out));
    }

    /// Polls until the printed lines have settled.
    fn poll_twice(&mut self) {
        self.poll(TICK);
        self.poll(TICK);
    }

    /// Returns the growth of the history as the gateway computes it from the last numbers.
    fn grown(&self) -> usize {
        let (now, seen) = (self.sim.history_size(), self.seen_history);
        let step = (self.sim.limit / 10).max(1);
        match now.checked_sub(seen) {
            Some(grown) => grown,
            None if now + step > self.sim.limit => (now + step - seen % step) % step,
            None => now,
        }
    }

    /// Returns the reasons of the possible gaps.
    fn possible_gaps(&self) -> Vec<GapReason> {
        let reason = |event: &TdEvent| match event {
            TdEvent::OutputGap {
                reason, evidence, ..
            } if *evidence == GapEvidence::Possible => reason.known(),
            _ => None,
        };
        self.events.iter().filter_map(reason).collect()
    }

    /// Returns the reported lines by number.
    fn lines(&self) -> BTreeMap<i64, String> {
        let (mut lines, mut reported) = (BTreeMap::new(), BTreeSet::new());
        for event in &self.events {
            match event {
                TdEvent::OutputUpdate {
                    first_line, chunk, ..
                } => {
                    for (number, text) in (*first_line..).zip(chunk.lines()) {
                        lines.insert(number, text.trim_end().to_owned());
                        assert!(reported.insert(number), "line {number} is reported twice");
                    }
                }
                TdEvent::OutputRevised { line, text, .. } => {
                    lines.insert(*line, text.trim_end().to_owned());
                }
                _ => {}
            }
        }
        lines
    }

    fn texts(&self) -> Vec<String> {
        self.lines().into_values().collect()
    }

    fn names(&self) -> Vec<&str> {
        self.events.iter().map(TdEvent::type_name).collect()
    }

    fn has_confirmed_gap(&self) -> bool {
        self.events.iter().any(|event| {
            matches!(event, TdEvent::OutputGap { evidence, .. } if *evidence == GapEvidence::Confirmed)
        })
    }
}

const TICK: Duration = Duration::from_millis(200);

proptest! {
    /// Each line of a program that only prints is reported once and in order, whenever polls happen.
    #[test]
    fn printed_lines_are_reported_once(
        polls in prop::collection::vec(prop::collection::vec("[a-c ]{0,30}", 0..4), 1..12),
        settle in prop::sample::select(vec![Duration::ZERO, SETTLE]),
    ) {
        let mut script = Script::open(Sim::new(12, 5, 1_000), &Begin::Fresh, settle, 0);
        let mut number = 0;
        for lines in &polls {
            for line in lines {
                // Lines are unique, because the loss of one of two equal lines cannot be detected.
                number += 1;
                script.sim.print(&format!("{number} {line}\n"));
            }
            script.poll(TICK);
        }
        script.poll_twice();
        script.with(|pane, out| pane.detach(out));
        let (lines, mut want) = (script.lines(), script.sim.text());
        // The row of the cursor is empty.
        if want.last().is_some_and(String::is_empty) {
            want.pop();
        }
        prop_assert_eq!(script.texts(), want);
        prop_assert!(lines.keys().copied().eq(1..=i64::from(number)));
        prop_assert!(!script.has_confirmed_gap());
    }

    /// Rewritten lines end as the screen shows them.
    #[test]
    fn a_replay_is_what_the_screen_shows(
        polls in prop::collection::vec(prop::collection::vec(("[a-z]{1,8}", 0_usize..4), 0..5), 1..12),
    ) {
        let mut script = Script::fresh();
        for steps in &polls {
            for (text, kind) in steps {
                match kind {
                    0 => script.sim.print(&format!("\r{text}")),
                    1 => { script.sim.up(1); script.sim.erase_line(); script.sim.print(text); script.sim.down(1); }
                    _ => script.sim.print(&format!("{text}\n")),
                }
            }
            script.poll(TICK);
        }
        // Revisions of a line are limited to one per second.
        for _ in 0..12 {
            script.poll(TICK);
        }
        script.with(|pane, out| pane.detach(out));
        let screen = script.sim.text();
        let texts = script.texts();
        let strip = |lines: &[String]| lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        let (want, have) = (&screen[..strip(&screen)], &texts[..strip(&texts)]);
        prop_assert!(have.ends_with(want) || script.has_confirmed_gap(), "{:?} {:?}", have, want);
    }
}

#[test]
fn a_line_is_reported_after_it_was_unchanged() {
    let mut script = Script::open(Sim::new(20, 5, 50), &Begin::Fresh, SETTLE, 0);
    script.sim.print("10%\n");
    script.poll(TICK);
    assert_eq!(script.texts(), [""; 0]);
    let PaneRequest::Capture(request) = script.pane.next_request() else {
        panic!("a polled pane wants captures");
    };
    assert_eq!(request.again_at, Some(TICK + SETTLE));
    script.poll(SETTLE);
    assert_eq!(script.texts(), ["10%"]);
}

#[test]
fn the_last_lines_of_the_baseline_have_the_numbers_before_1() {
    let mut sim = Sim::new(20, 5, 50);
    sim.print("a\nb\nc\n$ ");
    let mut script = Script::open(sim, &Begin::Baseline, Duration::ZERO, 2);
    script.sim.print("ls\nfile\n");
    script.poll_twice();
    let lines: Vec<(i64, String)> = script.lines().into_iter().collect();
    let text = |text: &str| text.to_owned();
    let want = [
        (-1, text("b")),
        (0, text("c")),
        (1, text("$ ls")),
        (2, text("file")),
    ];
    assert_eq!(lines, want);
}

#[test]
fn a_returning_observer_continues_where_the_last_one_was() {
    let mut first = Script::fresh();
    first.sim.print("one\ntwo\n");
    first.poll_twice();
    first.with(|pane, out| pane.detach(out));
    assert_eq!(first.texts(), ["one", "two"]);
    let (mut sim, point) = (first.sim, first.resume_point);
    sim.print("three\n");
    let mut second = Script::open(sim, &Begin::Resume(&point), Duration::ZERO, 0);
    second.sim.print("four\n");
    second.poll_twice();
    let lines: Vec<(i64, String)> = second.lines().into_iter().collect();
    assert_eq!(lines, [(3, "three".to_owned()), (4, "four".to_owned())]);
    assert!(!second.has_confirmed_gap());
}

#[test]
fn the_end_of_a_program_and_another_one_in_its_place() {
    let mut script = Script::fresh();
    script.sim.print("last words");
    script.sim.die(false);
    script.poll_twice();
    let is_end = |event: &TdEvent| {
        matches!(
            event,
            TdEvent::OutputUpdate {
                is_complete: true,
                exit_status: Some(0),
                ..
            }
        )
    };
    assert_eq!(script.texts(), ["last words"]);
    assert_eq!(
        script.events.iter().filter(|event| is_end(event)).count(),
        1
    );
    assert!(script.pane.is_respawned(2));
    // tmux starts the new program on a cleared screen.
    let before = script.events.len();
    (script.sim, script.pid, script.seen_history) = (Sim::new(20, 5, 50), 2, 0);
    script.sim.print("again\n");
    script.poll_twice();
    let after: Vec<&str> = script.names().split_off(before);
    assert!(after.contains(&"PaneOpened"), "{after:?}");
    assert_eq!(script.texts().last().unwrap(), "again");
    let next = script.lines().into_keys().next_back().unwrap();
    assert!(next > 1, "its numbers continue");
}

#[test]
fn a_pane_that_vanishes_has_lost_something_only_if_its_server_has_read_more() {
    for (read_more, is_lost) in [(0, false), (100, true)] {
        let mut script = Script::fresh();
        script.sim.print("text\n");
        script.poll_twice();
        let server_bytes = Some(script.sim.bytes + read_more);
        script.with(|pane, out| {
            pane.mark_gone(server_bytes, out.now);
            pane.close(false, out);
        });
        let expected = is_lost.then_some(GapReason::Closed);
        assert_eq!(
            script.possible_gaps(),
            Vec::from_iter(expected),
            "{read_more}"
        );
        let Some(TdEvent::PaneClosed { reason, .. }) = script.events.last() else {
            panic!("{:?}", script.events);
        };
        assert_eq!(*reason, PaneCloseReason::Closed);
        assert_eq!(script.texts(), ["text"]);
    }
}

#[test]
fn a_pane_that_ends_as_expected_is_not_shown_to_lack_lines() {
    const HUNG_UP: ProcessExit = ProcessExit {
        status: None,
        signal: Some(1),
    };
    // What people see: the pane was at a prompt, its program was hung up, it printed just before.
    for (at_prompt, hung_up, active, is_shown) in [
        (false, false, false, true),
        (true, false, true, false),
        (false, true, false, false),
        (false, true, true, true),
    ] {
        let mut script = Script::fresh();
        script.sim.print("text\n");
        script.poll_twice();
        if !active {
            script.poll(Duration::from_secs(5));
            script.poll(Duration::from_secs(5));
        }
        let server_bytes = Some(script.sim.bytes + 100);
        script.with(|pane, out| {
            if hung_up {
                pane.program_ended(HUNG_UP, out);
            }
            pane.mark_gone(server_bytes, out.now);
            pane.close(at_prompt, out);
        });
        let expected = if is_shown {
            GapReason::Closed
        } else {
            GapReason::Ambiguous
        };
        let case = (at_prompt, hung_up, active);
        assert_eq!(script.possible_gaps(), [expected], "{case:?}");
    }
}

#[test]
fn a_resize_is_reported_and_numbers_stay() {
    let mut script = Script::fresh();
    script.sim.print("one\ntwo\n");
    script.poll_twice();
    script.sim.set_height(3);
    script.poll_twice();
    script.sim.print("three\n");
    script.poll_twice();
    let resized = script.events.iter().find_map(|event| match event {
        TdEvent::PaneResized { width, height, .. } => Some((*width, *height)),
        _ => None,
    });
    assert_eq!(resized, Some((20, 3)));
    assert_eq!(script.texts(), ["one", "two", "three"]);
    assert!(!script.has_confirmed_gap());
}

#[test]
fn a_moved_pane_is_reported_where_it_was() {
    let mut script = Script::fresh();
    script.sim.print("before\n");
    script.poll_twice();
    script.with(|pane, out| pane.leave(out));
    script.sim.print("while it moved\n");
    let state = capture(&script.sim, script.pid, script.at, 0).state;
    script.with(|pane, out| pane.arrive(&state, out));
    script.poll_twice();
    assert_eq!(script.texts(), ["before", "while it moved"]);
    let names = script.names();
    let is_move = |name: &&str| ["PaneOpened", "PaneClosed"].contains(name);
    let moves: Vec<&str> = names.into_iter().filter(is_move).collect();
    assert_eq!(moves, ["PaneOpened", "PaneClosed", "PaneOpened"]);
}
