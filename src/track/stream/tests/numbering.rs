//! Tests of captures compared with the lines reported since the last agreement.

use super::*;
use crate::track::GapReason;

fn gaps(pane: &Pane) -> Vec<GapReason> {
    let reasons = pane.changes.iter().filter_map(|change| match change {
        Change::Gap { reason, .. } => Some(*reason),
        _ => None,
    });
    reasons.collect()
}

fn resync(pane: &mut Pane, sync_point: &SyncPoint) {
    let changes = pane.stream.resync(sync_point, pane.now);
    pane.changes.extend(changes);
    assert_eq!(pane.stream.difference(&sync_point.capture), None);
    pane.settle();
}

/// After a line feed behind the last column, the line begins with an empty row. In a capture, that row
/// is the end of the line above.
#[test]
fn an_empty_row_at_the_top_moves_no_line() {
    let mut pane = Pane::new(4, 2);
    pane.feed(b"one\r\nabcd\nwxyz");
    pane.settle();
    let mut capture = sync_point(4, &["one", "abcd", "", "wxyz"], 2).capture;
    assert_eq!(pane.stream.difference(&capture), None);
    assert!(!pane.stream.differs_above_screen(&capture));
    pane.stream.confirm(&capture);
    pane.feed(b"\x1b[H");
    pane.settle();
    capture.cursor = crate::event::Cursor::default();
    assert_eq!(pane.stream.difference(&capture), None);
    assert!(!pane.stream.differs_above_screen(&capture));
    assert_eq!(pane.lines(), ["one", "abcd", "wxyz"]);
}

/// No byte shows that `send-keys -R` scrolls the screen off: the stream overwrites lines that tmux still
/// has. tmux then has more lines than were printed.
#[test]
fn more_lines_than_were_printed_keep_their_places() {
    let mut pane = Pane::new(10, 3);
    pane.feed(b"x\r\ny\r\nz\x1b[H");
    pane.feed(b"0\r\n1\r\n2\r\n3\r\n4");
    pane.settle();
    let rows = ["x", "y", "z", "0", "1", "2", "3", "4"];
    resync(&mut pane, &sync_point(10, &rows, 5));
    assert_eq!(pane.lines(), rows);
    assert_eq!(gaps(&pane), []);
}

/// `send-keys -R` after the history was cleared, so that tmux has only the end of the first line.
#[test]
fn the_end_of_a_line_determines_the_place() {
    let mut pane = Pane::new(4, 2);
    pane.feed(b"abcdefghij");
    pane.settle();
    resync(&mut pane, &sync_point(4, &["efgh", "ij"], 0));
    pane.feed(b"k\r\nl\r\nm");
    pane.settle();
    assert_eq!(pane.lines(), ["abcdefghijk", "l", "m"]);
    resync(&mut pane, &sync_point(4, &["efgh", "ij", "k", "l", "m"], 3));
    assert_eq!(pane.lines(), ["abcdefghij", "k", "l", "m"]);
    assert_eq!(gaps(&pane), []);
}
