//! Any bytes of a pane, in any pieces: line numbers increase, and each division into pieces ends with the
//! same screen.
//!
//! The first three bytes select the width and the height of the pane, and the division into pieces.

use std::collections::BTreeMap;
use std::time::Duration;

use td_observe::internals::track::{
    Capture, Change, PaneNumbers, Row, StreamTracker, SyncPoint, Tracker,
};

use super::cut::cut;

pub fn run(bytes: &[u8]) {
    let Some((&[width, height, cuts], stream)) = bytes.split_first_chunk() else {
        return;
    };
    let size = (1 + u32::from(width) % 100, 1 + u32::from(height) % 40);
    let whole = replay(size, &[stream]);
    let pieces = cut(stream, cuts);
    let cut = replay(size, &pieces);
    assert_eq!(shown(cut.1), shown(whole.1), "the screen, cut otherwise");
}

/// Removes the blanks at the ends of rows: their number after an erased cell depends on the division.
fn shown(mut capture: Capture) -> Capture {
    for row in &mut capture.rows {
        row.text.truncate(row.text.trim_end_matches(' ').len());
    }
    capture
}

/// Returns the final lines of a reader, and the final screen of the pane.
fn replay((width, height): (u32, u32), pieces: &[&[u8]]) -> (BTreeMap<i64, String>, Capture) {
    let initial = Capture {
        numbers: PaneNumbers {
            width,
            height,
            history_limit: 50,
            ..PaneNumbers::default()
        },
        rows: vec![Row::default(); height as usize],
        ..Capture::default()
    };
    let sync_point = SyncPoint {
        capture: initial,
        ..SyncPoint::default()
    };
    let (tracker, mut changes) = Tracker::fresh(&sync_point.capture);
    let mut pane = StreamTracker::new(tracker, &sync_point);
    let mut now = Duration::ZERO;
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let taken = pane.feed(rest);
            rest = &rest[taken..];
            changes.extend(pane.changes(now));
            pane.shell_marks();
        }
        now += Duration::from_millis(30);
    }
    let capture = Capture {
        at: Duration::ZERO,
        ..pane.capture()
    };
    assert_eq!(pane.difference(&capture), None, "it shows what it shows");
    changes.extend(pane.end(now));
    (lines(&changes), capture)
}

fn lines(changes: &[Change]) -> BTreeMap<i64, String> {
    let (mut lines, mut next) = (BTreeMap::new(), i64::MIN);
    for change in changes {
        match change {
            Change::Lines { first_line, chunk } => {
                assert!(*first_line >= next && chunk.ends_with('\n'), "{change:?}");
                for line in chunk.lines() {
                    next = next.max(*first_line);
                    lines.insert(next, line.to_owned());
                    next += 1;
                }
            }
            Change::Revised { line, text } => {
                assert!(!text.contains('\n'), "{change:?}");
                lines.insert(*line, text.clone());
            }
            Change::Gap { first_line, .. } => {
                assert!(*first_line >= next, "{change:?}");
                next = *first_line;
            }
            Change::Screen { .. } => {}
        }
    }
    lines
}
