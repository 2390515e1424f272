//! Any sequence of captures: the tracker does not panic, and its line numbers never decrease.

use std::time::{Duration, Instant};

use td_observe::event::Cursor;
use td_observe::internals::track::{
    Capture, Change, PaneNumbers, ProcessExit, RevisionThrottle, Row, SavedScreen, Throttled,
    Tracker,
};

/// More captures slow a case down without covering more.
const CAPTURES_MAX: usize = 64;

pub fn run(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let mut capture = any_capture(&mut bytes);
    let mut next = i64::MIN;
    let mut known: Vec<(i64, String)> = Vec::new();
    let mut tracker = match bytes.below(2) {
        0 => Tracker::baseline(&capture),
        _ => {
            let (tracker, changes) = Tracker::fresh(&capture);
            check(&changes, &mut next, &mut known);
            tracker
        }
    };
    let (mut throttle, mut now) = (RevisionThrottle::default(), Instant::now());
    for _ in 0..CAPTURES_MAX {
        if bytes.0.is_empty() {
            break;
        }
        let was = tracker.next_line();
        let changes = match bytes.below(16) {
            0 => tracker.unchanged(std::time::Duration::ZERO, None),
            1 => tracker.detach(),
            2 => {
                // Another observer continues from the reports of this one.
                let keep = bytes.below(known.len() + 1);
                let (resumed, changes) =
                    Tracker::resume(&capture, &known[known.len() - keep..], tracker.next_line());
                tracker = resumed;
                changes
            }
            3 => {
                capture = any_capture(&mut bytes);
                apply(&mut tracker, &capture)
            }
            _ => {
                change_pane(&mut capture, &mut bytes);
                apply(&mut tracker, &capture)
            }
        };
        check(&changes, &mut next, &mut known);
        assert!(
            tracker.next_line() >= was,
            "{} after {was}",
            tracker.next_line()
        );
        assert!(
            tracker.next_line() >= next,
            "{} after {next}",
            tracker.next_line()
        );
        let _ = tracker.margin();
        now += Duration::from_millis(bytes.below(700) as u64);
        let whole = changes.iter().filter(|change| is_kept(change)).count();
        let throttled = throttle.throttle(changes, now);
        let kept = |throttled: &&Throttled| matches!(throttled, Throttled::Logged(change) if is_kept(change));
        assert_eq!(
            throttled.iter().filter(kept).count(),
            whole,
            "lines and gaps are all kept"
        );
    }
    check(&tracker.end(), &mut next, &mut known);
    let _ = throttle.finish();
}

fn is_kept(change: &Change) -> bool {
    matches!(change, Change::Lines { .. } | Change::Gap { .. })
}

/// Applies a capture, and a deeper one if the tracker requests it.
fn apply(tracker: &mut Tracker, capture: &Capture) -> Vec<Change> {
    match tracker.apply(capture, false) {
        Some(changes) => changes,
        None => {
            // The deepest capture always contains what a full-screen program hides.
            let is_hidden = capture.alternate && capture.saved.is_none();
            assert!(
                is_hidden || !capture.is_complete(),
                "nothing is deeper than {capture:#?}"
            );
            let deeper = Capture {
                numbers: PaneNumbers {
                    history_size: capture.history_rows() as u32,
                    ..capture.clone().numbers
                },
                ..capture.clone()
            };
            tracker.apply(&deeper, true).unwrap()
        }
    }
}

fn check(changes: &[Change], next: &mut i64, known: &mut Vec<(i64, String)>) {
    for change in changes {
        match change {
            Change::Lines { first_line, chunk } => {
                assert!(
                    *first_line >= *next,
                    "line {first_line} after {next}: {changes:#?}"
                );
                assert!(chunk.ends_with('\n'), "{change:?}");
                known.extend((*first_line..).zip(chunk.lines().map(str::to_owned)));
                *next = first_line + chunk.matches('\n').count() as i64;
            }
            Change::Gap {
                first_line,
                lost_lines,
                ..
            } => {
                assert!(
                    *first_line >= *next,
                    "gap at {first_line} after {next}: {changes:#?}"
                );
                *next = first_line + lost_lines.unwrap_or(0) as i64;
            }
            Change::Revised { text, .. } => assert!(!text.contains('\n'), "{change:?}"),
            Change::Screen { .. } => {}
        }
    }
}

/// Bytes that decide choices; after the last one, each is zero.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn below(&mut self, end: usize) -> usize {
        let wide = if end > 256 {
            usize::from(self.byte()) << 8
        } else {
            0
        };
        (wide + usize::from(self.byte())) % end.max(1)
    }

    /// Returns a small number, or sometimes the largest one of a type.
    fn number(&mut self) -> u32 {
        match self.byte() {
            255 => u32::MAX,
            254 => i32::MAX as u32,
            small => u32::from(small % 40),
        }
    }

    fn row(&mut self) -> Row {
        const TEXTS: [&str; 12] = [
            "",
            " ",
            "a",
            "b",
            "ab",
            "abcdefgh",
            "$ ",
            "漢字",
            "e\u{301}",
            "Pane is dead",
            "\t",
            "~",
        ];
        let choice = self.byte();
        let text = match choice % 16 {
            text @ 0..12 => TEXTS[usize::from(text)].to_owned(),
            _ => format!("line {}", self.byte()),
        };
        Row {
            text,
            wrapped: choice >= 224,
        }
    }

    fn rows(&mut self, count: usize) -> Vec<Row> {
        (0..count).map(|_| self.row()).collect()
    }

    fn maybe_number(&mut self) -> Option<u64> {
        if self.byte() % 2 == 1 {
            Some(u64::from(self.number()))
        } else {
            None
        }
    }
}

/// An arbitrary capture, including ones that tmux would never return.
fn any_capture(bytes: &mut Bytes) -> Capture {
    let height = bytes.number().min(2000);
    let is_sane = bytes.below(4) > 0;
    let history = bytes.below(40);
    let count = if is_sane {
        height.min(12) as usize + history
    } else {
        bytes.below(40)
    };
    let mut capture = Capture {
        numbers: PaneNumbers {
            width: bytes.number(),
            height: if is_sane { height.min(12) } else { height },
            history_size: if is_sane {
                history as u32
            } else {
                bytes.number()
            },
            history_limit: bytes.number(),
            cursor: Cursor {
                x: bytes.number(),
                y: bytes.number(),
            },
            ..PaneNumbers::default()
        },
        rows: bytes.rows(count),
        ..Capture::default()
    };
    odds(&mut capture, bytes);
    capture
}

fn odds(capture: &mut Capture, bytes: &mut Bytes) {
    let flags = bytes.byte();
    capture.alternate = flags & 0b11 == 0b11;
    capture.saved = (flags & 0b111 == 0b111).then(|| {
        let height = bytes.below(14);
        SavedScreen {
            cursor: Cursor {
                x: 0,
                y: bytes.number(),
            },
            rows: bytes.rows(height),
        }
    });
    capture.dead = (flags >> 3 == 31).then_some(ProcessExit {
        status: Some(1),
        signal: None,
    });
    capture.bytes_before = bytes.maybe_number();
    capture.bytes_after = bytes.maybe_number();
}

/// Turns a capture into a possible next one: other rows, another cursor, depth, size or program.
fn change_pane(capture: &mut Capture, bytes: &mut Bytes) {
    let height = capture.height as usize;
    match bytes.below(12) {
        0..=5 => {
            let printed = bytes.below(12);
            capture.rows.extend(bytes.rows(printed));
            capture.history_size = capture.history_size.saturating_add(printed as u32);
            if capture.history_size > capture.history_limit.max(1) {
                capture.history_size -= capture.trim_step().min(capture.history_size);
            }
            let most = (capture.history_size as usize).saturating_add(height);
            let surplus = capture.rows.len().saturating_sub(most);
            capture.rows.drain(..surplus);
        }
        6 | 7 => {
            let (at, row) = (bytes.below(capture.rows.len()), bytes.row());
            if let Some(old) = capture.rows.get_mut(at) {
                *old = row;
            }
        }
        8 => {
            capture.cursor = Cursor {
                x: bytes.number(),
                y: bytes.number(),
            }
        }
        // A capture of fewer rows of history.
        9 => {
            let most = capture.history_rows();
            capture.rows.drain(..bytes.below(most + 1));
        }
        10 => {
            capture.width = bytes.number();
            capture.height = bytes.number().min(capture.rows.len() as u32);
        }
        _ => {
            odds(capture, bytes);
            capture.pid = u32::from(bytes.byte() / 128);
        }
    }
}
