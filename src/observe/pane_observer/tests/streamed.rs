//! Streamed panes: pipes that open, end, are lost or are another program's, and screens that are compared.

use super::*;
use crate::agent::Markers;
use crate::tmux::{DroppedBytes, PipeToken, ResyncData};

const SECOND: Duration = Duration::from_secs(1);

impl Script {
    /// A pane of 20 columns and 5 rows that has just appeared and may be streamed.
    fn streamable(turns: Option<&TurnRules>) -> Self {
        let rules = PaneRules {
            turns: turns.cloned(),
            ..PaneRules::default()
        };
        let options = PaneOptions {
            begin: &Begin::Fresh,
            rules: &rules,
            front: None,
            streams: true,
            pipe_after: None,
            listeners: Vec::new(),
        };
        Self::with_options(Sim::new(20, 5, 50), options)
    }

    /// The same, with an open pipe and a connected drain.
    fn streamed(turns: Option<&TurnRules>) -> Self {
        let mut script = Self::streamable(turns);
        script.open_pipe();
        script.pane.drain_connected();
        script
    }

    fn now(&self) -> Instant {
        self.start + self.at
    }

    fn urgent_request(&mut self) -> Option<PaneRequest> {
        let now = self.now();
        self.pane.urgent_request(now, || Some("open".into()))
    }

    /// Answers the request for a pipe with the present screen.
    fn open_pipe(&mut self) {
        let Some(PaneRequest::Resync(request)) = self.urgent_request() else {
            panic!("a pipe is requested");
        };
        assert_eq!(request.spec.open_pipe.as_deref(), Some("open"));
        let captured = self.capture();
        let times = (self.start, self.now());
        let point = sync_point(captured.capture, ResyncData::default());
        self.pane
            .follow_bytes(&point, PipeToken::for_tests(), times);
    }

    /// Takes a complete capture.
    fn capture(&mut self) -> PaneCapture {
        let mut captured = capture(&self.sim, self.pid, self.at, usize::MAX);
        self.with(|pane, out| pane.handle_capture(&mut captured, true, out));
        captured
    }

    /// Prints on the pane, and passes the bytes to its observer.
    fn print(&mut self, text: &str) {
        self.sim.print(text);
        self.feed(text);
    }

    fn feed(&mut self, text: &str) {
        let bytes = text.replace('\n', "\r\n");
        self.with(|pane, out| pane.feed(bytes.as_bytes(), out));
    }

    /// Compares the stream with the present screen, if a comparison is due.
    fn compare(&mut self) -> Option<bool> {
        match self.urgent_request()? {
            PaneRequest::Resync(request) => assert_eq!(request.spec.open_pipe, None),
            other => panic!("{other:?}"),
        }
        let captured = capture(&self.sim, self.pid, self.at, usize::MAX);
        let asks = self.with(|pane, out| pane.compare(captured, out));
        assert!(asks, "the drain is asked for a mark");
        let compared = self.with(|pane, out| pane.handle_mark(out));
        compared.map(|(_, differed)| differed)
    }

    fn pass(&mut self, time: Duration) -> bool {
        self.at += time;
        self.with(|pane, out| pane.handle_timeout(out))
    }

    fn pass_to_deadline(&mut self) -> bool {
        let deadline = self.pane.deadline(true).unwrap();
        self.pass(deadline.duration_since(self.now()))
    }

    fn warnings(&self) -> Vec<&str> {
        let warnings = self.events.iter().filter_map(|event| match event {
            TdEvent::Warning { message, .. } => Some(message.as_str()),
            _ => None,
        });
        warnings.collect()
    }

    /// Returns the reasons and counts of all gaps.
    fn gaps(&self) -> Vec<(String, Option<u64>)> {
        let gaps = self.events.iter().filter_map(|event| match event {
            TdEvent::OutputGap {
                reason, lost_lines, ..
            } => Some((reason.as_str().to_owned(), *lost_lines)),
            _ => None,
        });
        gaps.collect()
    }
}

proptest! {
    /// Each line is reported once and in order, however its bytes are cut and whenever the screen is
    /// compared.
    #[test]
    fn streamed_lines_are_reported_once(
        steps in prop::collection::vec(("[a-c ]{0,30}", any::<bool>(), any::<bool>()), 1..20),
    ) {
        let mut script = Script::streamed(None);
        for (number, (line, ends, compares)) in steps.iter().enumerate() {
            let end = if *ends { "\n" } else { "" };
            script.print(&format!("{number} {line}{end}"));
            script.pass(SECOND);
            if *compares {
                prop_assert!(script.compare() != Some(true), "the screen is what the bytes have drawn");
            }
        }
        script.with(|pane, out| pane.detach(out));
        let mut want = script.sim.text();
        if want.last().is_some_and(String::is_empty) {
            want.pop();
        }
        prop_assert_eq!(script.texts(), want);
        prop_assert_eq!(script.gaps(), []);
    }
}

#[test]
fn lines_before_the_pipe_and_after_it_are_reported_once() {
    let mut script = Script::streamable(None);
    script.sim.print("polled\nunfini");
    script.open_pipe();
    assert!(matches!(script.pane.next_request(), PaneRequest::Shape(_)));
    script.pane.drain_connected();
    script.print("shed\nstreamed\n");
    assert_eq!(script.texts(), ["polled", "unfinished", "streamed"]);
    assert_eq!(script.gaps(), []);
}

#[test]
fn dropped_bytes_are_a_gap_with_their_lines() {
    let mut script = Script::streamed(None);
    script.print("one\n");
    script.sim.print("two\nthree\n");
    let dropped = DroppedBytes {
        bytes: 12,
        line_ends: 2,
    };
    script.with(|pane, out| pane.bytes_dropped(dropped, out));
    script.print("four\n");
    script.pass(SECOND);
    script.compare();
    script.pass(SECOND);
    assert_eq!(script.gaps().len(), 1, "{:?}", script.events);
    assert_eq!(script.gaps(), [("dropped".to_owned(), Some(2))]);
    assert_eq!(script.texts()[0], "one");
    assert_eq!(script.texts().last().unwrap(), "four");
}

#[test]
fn a_pane_whose_drain_does_not_connect_is_polled_and_reported_once() {
    let mut script = Script::streamable(None);
    script.open_pipe();
    // The drain of a busy machine gets some more time, once.
    let connects_late = script.pass_to_deadline();
    assert!(
        !connects_late && script.pass_to_deadline(),
        "the stream is over"
    );
    assert!(
        script.warnings()[0].contains("polling it instead"),
        "{:?}",
        script.warnings()
    );
    script.sim.print("one\n");
    script.capture();
    script.poll_twice();
    assert_eq!(script.texts(), ["one"]);
    assert!(
        script.urgent_request().is_none(),
        "the pipe is left alone for a while"
    );
    script.pass_to_deadline();
    script.open_pipe();
    script.print("two\n");
    assert_eq!(script.texts(), ["one", "two"]);
    assert_eq!(script.warnings().len(), 1);
}

#[test]
fn another_programs_pipe_is_reported_once_and_rechecked() {
    let mut script = Script::streamable(None);
    assert!(script.urgent_request().is_some());
    script.with(|pane, out| pane.pipe_not_opened(true, out));
    script.with(|pane, out| pane.pipe_not_opened(true, out));
    assert_eq!(script.warnings().len(), 1);
    assert!(script.urgent_request().is_none());
    script.pass(5 * SECOND);
    assert!(matches!(
        script.urgent_request(),
        Some(PaneRequest::Presence)
    ));
}

#[test]
fn a_pipe_that_ends_in_order_loses_nothing() {
    let mut script = Script::streamed(None);
    script.print("one\n");
    script.with(|pane, out| pane.pipe_ended(true, out));
    script.sim.print("two\n");
    assert!(
        script.urgent_request().is_some(),
        "a capture follows the stream"
    );
    script.capture();
    script.poll_twice();
    assert_eq!(script.texts(), ["one", "two"]);
    assert_eq!(script.gaps(), []);
    assert!(
        script.warnings()[0].contains("closed our pipe"),
        "{:?}",
        script.warnings()
    );
}

#[test]
fn a_pane_that_moves_to_another_session_is_streamed_there_at_once() {
    let mut script = Script::streamed(None);
    script.print("one\n");
    // The session that it leaves closes its pipe.
    script.with(|pane, out| pane.pipe_ended(true, out));
    script.with(|pane, out| pane.leave(out));
    script.sim.print("two\n");
    let state = capture(&script.sim, script.pid, script.at, 0).state;
    script.with(|pane, out| pane.arrive(&state, out));
    script.capture();
    script.open_pipe();
    script.print("three\n");
    assert_eq!(script.texts(), ["one", "two", "three"]);
    assert_eq!(script.warnings(), [] as [&str; 0]);
}

#[test]
fn a_lost_drain_is_reported_and_what_it_had_is_found_on_the_screen() {
    let mut script = Script::streamed(None);
    script.print("one\n");
    script.sim.print("two\n");
    script.with(|pane, out| pane.pipe_ended(false, out));
    assert!(
        script.warnings()[0].contains("drain"),
        "{:?}",
        script.warnings()
    );
    script.capture();
    script.poll_twice();
    assert_eq!(script.texts(), ["one", "two"]);
}

#[test]
fn a_screen_that_differs_is_resynced() {
    let mut script = Script::streamed(None);
    script.print("one\n");
    // The bytes of this line never arrive.
    script.sim.print("two\n");
    let mut differed = false;
    for _ in 0..100 {
        script.pass(SECOND);
        differed |= script.compare() == Some(true);
    }
    assert!(differed);
    assert_eq!(script.texts().last().unwrap(), "two");
}

#[test]
fn a_turn_ends_with_its_marker_in_a_stream() {
    let rules = TurnRules {
        markers: Markers::new(["END"]).unwrap(),
        inferred_after: None,
    };
    let mut script = Script::streamed(Some(&rules));
    script.print("an answer\nEND\nmore\n");
    script.pass(SECOND);
    let names = script.names();
    assert_eq!(
        names[names.len() - 3..],
        ["OutputUpdate", "TurnCompleted", "OutputUpdate"],
        "{names:?}"
    );
    let complete: Vec<&str> = script
        .events
        .iter()
        .filter_map(|event| match event {
            TdEvent::OutputUpdate {
                is_complete: true,
                chunk,
                ..
            } => Some(chunk.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(complete, ["an answer\nEND\n"]);
}

#[test]
fn a_pane_that_closes_after_its_stream_has_no_gap() {
    let mut script = Script::streamed(None);
    script.print("the end\n");
    script.with(|pane, out| pane.pipe_ended(true, out));
    let now = script.now();
    script.pane.mark_gone(Some(100), now);
    script.with(|pane, out| pane.close(false, out));
    assert_eq!(script.gaps(), []);
    assert_eq!(script.names().last(), Some(&"PaneClosed"));
}

/// tmux does not wait for what the kernel still holds of a program that has ended.
#[test]
fn a_pane_that_closes_in_a_flood_may_lack_its_end() {
    let gaps_after = |lines: usize, pause: Duration| {
        let mut script = Script::streamed(None);
        script.print(&"more than a few\n".repeat(lines));
        script.pass(pause);
        script.with(|pane, out| pane.pipe_ended(true, out));
        let now = script.now();
        script.pane.mark_gone(Some(100), now);
        script.with(|pane, out| pane.close(false, out));
        script.possible_gaps()
    };
    assert_eq!(gaps_after(1000, Duration::ZERO), [GapReason::Closed]);
    assert_eq!(gaps_after(1000, SECOND), []);
    assert_eq!(gaps_after(100, Duration::ZERO), []);
}

/// After a long rest, the pane is compared before it is listed.
#[test]
fn another_program_is_found_by_a_comparison() {
    let mut script = Script::streamed(None);
    script.print("one\n");
    script.sim.die(false);
    script.pane.check_soon();
    script.pass(SECOND);
    script.compare();
    let opened = |script: &Script| {
        let names = script.names();
        names.iter().filter(|name| **name == "PaneOpened").count()
    };
    assert_eq!(opened(&script), 1);
    (script.sim, script.pid) = (Sim::new(20, 5, 50), 2);
    script.print("again\n");
    script.pane.check_soon();
    script.pass(20 * SECOND);
    script.compare();
    assert_eq!(opened(&script), 2, "{:?}", script.events);
    let state = captured_state(&script);
    script.with(|pane, out| pane.handle_listed(&state, out));
    assert_eq!(opened(&script), 2, "once");
    assert_eq!(script.texts(), ["one", "again"]);
}

fn captured_state(script: &Script) -> PaneState {
    capture(&script.sim, script.pid, script.at, usize::MAX).state
}
