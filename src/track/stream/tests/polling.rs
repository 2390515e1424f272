//! Tests of switches between streaming and polling, on a model of tmux's grid.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::event::GapEvidence;
use crate::track::GapReason;
use crate::track::sim::Sim;

/// The way in which the pane is observed.
#[derive(Debug)]
enum Follow {
    Stream(Box<StreamTracker>),
    Captures(Box<Tracker>),
}

/// A pane of the model that is streamed and polled in turn.
struct SwitchingPane {
    sim: Sim,
    follow: Follow,
    changes: Vec<Change>,
    now: Duration,
    printed: Vec<String>,
}

impl SwitchingPane {
    fn new(sim: Sim) -> Self {
        let (tracker, changes) = Tracker::fresh(&sim.capture(usize::MAX));
        Self {
            sim,
            follow: Follow::Captures(Box::new(tracker)),
            changes,
            now: Duration::ZERO,
            printed: vec![],
        }
    }

    fn print(&mut self, lines: &[String]) {
        for line in lines {
            self.sim.print(line);
            self.sim.print("\n");
            if let Follow::Stream(stream) = &mut self.follow {
                let bytes = format!("{line}\r\n");
                assert_eq!(stream.feed(bytes.as_bytes()), bytes.len());
            }
        }
        self.printed.extend_from_slice(lines);
    }

    /// Applies a capture, and a deeper one if that is too shallow.
    fn capture(&mut self, depth: usize) -> Capture {
        let Follow::Captures(tracker) = &mut self.follow else {
            panic!("a stream needs no captures")
        };
        for depth in [depth, usize::MAX] {
            let mut capture = self.sim.capture(depth);
            capture.at = self.now;
            if let Some(changes) = tracker.apply(&capture, false) {
                self.changes.extend(changes);
                return capture;
            }
        }
        panic!("a complete capture is never too shallow")
    }

    fn poll(&mut self) {
        self.now += LONG;
        match &mut self.follow {
            Follow::Stream(stream) => self.changes.extend(stream.changes(self.now)),
            Follow::Captures(_) => drop(self.capture(5)),
        }
    }

    /// Opens or closes the pipe.
    fn switch(&mut self) {
        self.now += LONG;
        let capture = match self.follow {
            Follow::Captures(_) => Some(self.capture(20)),
            Follow::Stream(_) => None,
        };
        let other = Tracker::baseline(&self.sim.capture(0));
        let other = Follow::Captures(Box::new(other));
        self.follow = match (std::mem::replace(&mut self.follow, other), capture) {
            (Follow::Captures(tracker), Some(capture)) => {
                let sync_point = SyncPoint {
                    capture,
                    ..SyncPoint::default()
                };
                let stream = StreamTracker::new(*tracker, &sync_point);
                assert_eq!(stream.difference(&sync_point.capture), None);
                Follow::Stream(Box::new(stream))
            }
            (Follow::Stream(stream), _) => {
                let (tracker, changes) = stream.into_polling(self.now);
                self.changes.extend(changes);
                Follow::Captures(Box::new(tracker))
            }
            (follow, None) => follow,
        };
    }

    fn end(&mut self) {
        if matches!(self.follow, Follow::Stream(_)) {
            self.switch();
        }
        for _ in 0..3 {
            self.poll();
        }
        let Follow::Captures(tracker) = &mut self.follow else {
            return;
        };
        self.changes.extend(tracker.end());
    }

    fn gaps(&self) -> Vec<&Change> {
        let gap = |change: &&Change| matches!(change, Change::Gap { .. });
        self.changes.iter().filter(gap).collect()
    }

    fn reported(&self) -> Vec<&str> {
        let chunks = self.changes.iter().filter_map(|change| match change {
            Change::Lines { chunk, .. } => Some(chunk.lines()),
            _ => None,
        });
        chunks.flatten().collect()
    }
}

/// Printed lines; whether the pane is polled then; whether it switches between stream and polling then.
type Step = (Vec<String>, bool, bool);

fn steps(longest: usize) -> impl Strategy<Value = Vec<Step>> {
    let line = prop_oneof![3 => "[a-c]{1,3}", 2 => "[a-z]{4,12}", 1 => "[x-z]{15,70}"];
    let step = (vec(line, 0..longest), any::<bool>(), any::<bool>());
    vec(step, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// As long as the history never filled, every line is reported once, with consecutive numbers.
    #[test]
    fn every_line_once_polled_or_streamed(
        width in 2_usize..20, height in 1_usize..8, steps in steps(30),
    ) {
        let mut pane = SwitchingPane::new(Sim::new(width, height, 100_000));
        for (lines, polls, switches) in &steps {
            pane.print(lines);
            if *polls {
                pane.poll();
            }
            if *switches {
                pane.switch();
            }
        }
        pane.end();
        prop_assert!(pane.gaps().is_empty(), "{:#?}", pane.changes);
        prop_assert_eq!(pane.reported(), pane.printed.iter().map(String::as_str).collect::<Vec<_>>());
        let replay = replay(&pane.changes);
        let expected = (1..).zip(pane.printed.iter().cloned());
        prop_assert!(replay.into_iter().eq(expected), "{:#?}", pane.changes);
    }

    /// With a history that fills, every gap is reported, and no line twice.
    #[test]
    fn every_gap_is_reported_polled_or_streamed(
        width in 8_usize..20, height in 2_usize..8, limit in 0_usize..60,
        steps in vec((0_usize..120, any::<bool>(), any::<bool>()), 0..12),
    ) {
        let mut pane = SwitchingPane::new(Sim::new(width, height, limit));
        let mut count = 0;
        for (lines, polls, switches) in &steps {
            let lines: Vec<String> = (count + 1..=count + lines).map(|n| format!("n{n}")).collect();
            count += lines.len();
            pane.print(&lines);
            if *polls {
                pane.poll();
            }
            if *switches {
                pane.switch();
            }
        }
        pane.end();
        replay(&pane.changes);
        let (mut last, mut gap) = (0, false);
        for change in &pane.changes {
            match change {
                Change::Gap { .. } => gap = true,
                Change::Lines { chunk, .. } => for line in chunk.lines() {
                    let number: usize = line[1..].parse().unwrap();
                    prop_assert!(number == last + 1 || gap && number > last, "{:#?}", pane.changes);
                    (last, gap) = (number, false);
                },
                _ => {}
            }
        }
        prop_assert!(last == count || gap, "{last} of {count}: {:#?}", pane.changes);
    }
}

#[test]
fn a_capture_of_a_stream_equals_one_of_tmux() {
    let mut pane = Pane::new(9, 3);
    pane.feed(b"one\r\ntwo\r\nthree\r\nfour");
    let capture = pane.stream.capture();
    let expected = sync_point(9, &["one", "two", "three", "four"], 1).capture;
    assert_eq!(capture.rows, expected.rows[1..]);
    assert_eq!(
        (
            capture.width,
            capture.height,
            capture.cursor,
            capture.history_size
        ),
        (9, 3, expected.cursor, 1)
    );
    pane.feed(b"\x1b[?1049hvim");
    let capture = pane.stream.capture();
    assert!(capture.alternate);
    assert_eq!(capture.saved.unwrap().rows, expected.rows[1..]);
}

/// After a drop without a capture, the position of the lines is unknown.
#[test]
fn polling_after_a_drop_begins_with_a_gap() {
    let mut pane = Pane::new(9, 3);
    pane.feed(b"one\r\ntwo\r\n");
    pane.changes.extend(pane.stream.bytes_dropped(3, pane.now));
    pane.feed(b"six\r\n");
    let (mut tracker, changes) = pane.stream.into_polling(pane.now + LONG);
    pane.changes.extend(changes);
    let later = sync_point(9, &["five", "six", "seven", ""], 1).capture;
    assert_eq!(
        tracker.apply(&later, false),
        Some(vec![
            Change::Lines {
                first_line: 6,
                chunk: "six\n".into()
            },
            Change::Gap {
                first_line: 7,
                lost_lines: None,
                reason: GapReason::Dropped,
                evidence: GapEvidence::Possible,
            },
        ])
    );
    assert_eq!(tracker.next_line(), 7);
}
