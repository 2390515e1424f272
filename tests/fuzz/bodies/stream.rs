//! Any bytes of a pane, cut anywhere: numbers continue, counts are exact, and the last words are the same.
//!
//! The first bytes say how wide and high the pane is and how the bytes are cut.

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

/// Without the blanks at the ends of rows: how many of them are written where cells are erased, depends on
/// how much tmux has read at a time.
fn shown(mut look: Capture) -> Capture {
    for row in &mut look.rows {
        row.text.truncate(row.text.trim_end_matches(' ').len());
    }
    look
}

/// Returns the text that a reader has in the end, and the text of the pane.
fn replay((width, height): (u32, u32), pieces: &[&[u8]]) -> (BTreeMap<i64, String>, Capture) {
    let look = Capture {
        numbers: PaneNumbers {
            width,
            height,
            history_limit: 50,
            ..PaneNumbers::default()
        },
        rows: vec![Row::default(); height as usize],
        ..Capture::default()
    };
    let seam = SyncPoint {
        capture: look,
        ..SyncPoint::default()
    };
    let (tracker, mut changes) = Tracker::fresh(&seam.capture);
    let mut pane = StreamTracker::new(tracker, &seam);
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
    let look = Capture {
        at: Duration::ZERO,
        ..pane.capture()
    };
    assert_eq!(pane.difference(&look), None, "it shows what it shows");
    changes.extend(pane.end(now));
    (lines(&changes), look)
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
