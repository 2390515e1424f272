//! Tests of resyncs with captures that differ from the stream: resized, respawned, dead panes.

use super::*;
use crate::event::Cursor;
use crate::track::{GapReason, ProcessExit};

impl Pane {
    fn resync(&mut self, sync_point: &SyncPoint) {
        let changes = self.stream.resync(sync_point, self.now);
        self.changes.extend(changes);
        assert_eq!(self.stream.difference(&sync_point.capture), None);
    }

    fn reasons(&self) -> Vec<GapReason> {
        let reasons = self.changes.iter().filter_map(|change| match change {
            Change::Gap { reason, .. } => Some(*reason),
            _ => None,
        });
        reasons.collect()
    }
}

/// Moves the cursor to the row below the last text.
fn ended(mut sync_point: SyncPoint) -> SyncPoint {
    sync_point.capture.cursor.x = 0;
    sync_point.capture.cursor.y += 1;
    sync_point
}

/// Marks the program as ended with this status. tmux keeps the pane.
fn over(status: i32, mut sync_point: SyncPoint) -> SyncPoint {
    sync_point.capture.dead = Some(ProcessExit {
        status: Some(status),
        signal: None,
    });
    sync_point
}

fn respawned(mut sync_point: SyncPoint) -> SyncPoint {
    sync_point.capture.pid += 1;
    sync_point
}

/// In the bytes, the first line of the new program continues the unfinished one of the old.
#[test]
fn the_first_line_after_a_respawn_is_corrected() {
    let mut pane = Pane::new(10, 6);
    pane.feed(b"48211\r\n48212\r\n48213");
    pane.settle();
    pane.feed(b"1\r\n2\r\n3\r\n");
    pane.settle();
    pane.resync(&respawned(ended(sync_point(
        10,
        &["1", "2", "3", "", "", ""],
        0,
    ))));
    pane.feed(b"4\r\n");
    pane.settle();
    assert_eq!(pane.lines(), ["48211", "48212", "1", "2", "3", "4"]);
    assert_eq!(pane.reasons(), [GapReason::Cleared]);
}

/// The screen may have scrolled since. Lines of the old program in the history are unchanged.
#[test]
fn a_respawned_program_may_have_scrolled() {
    let mut pane = Pane::new(10, 3);
    pane.feed(b"a\r\nb\r\nc\r\nd\r\ne");
    pane.settle();
    pane.feed(b"1\r\n2\r\n3\r\n4\r\n");
    pane.resync(&respawned(ended(sync_point(
        10,
        &["a", "b", "1", "2", "3", "4", ""],
        4,
    ))));
    pane.settle();
    assert_eq!(pane.lines(), ["a", "b", "c", "d", "1", "2", "3", "4"]);
}

/// The new program has printed and ended before a capture. All its output has arrived, and the cursor
/// does not determine its position.
#[test]
fn a_respawned_program_that_has_ended_is_not_reported_twice() {
    const NOTICE: &str = "Pane is dead (status 0)";
    let whole: &[&str] = &["1", "2", "3", "4", "", "", "", NOTICE];
    let begun = &["1", "2", "3", "4", "5", "", "", NOTICE];
    let scrolled = &["a", "1", "2", "3", "4", "", NOTICE];
    for (end, shows, history, reported) in [
        ("4\r\n", whole, 0, "a\nb\nla1\n2\n3\n4\n"),
        ("4\r\n5", begun, 0, "a\nb\nla1\n2\n3\n4\n5\n"),
        ("4\r\n", scrolled, 3, "a\nb\nla1\n2\n3\n4\n"),
    ] {
        let mut pane = Pane::new(30, (shows.len() - history) as u32);
        pane.feed(b"a\r\nb\r\nla");
        pane.settle();
        pane.feed(b"1\r\n2\r\n3\r\n");
        pane.feed(end.as_bytes());
        pane.settle();
        let dead = over(0, respawned(sync_point(30, shows, history)));
        pane.resync(&dead);
        pane.settle();
        pane.end();
        assert_eq!(pane.reported(), reported, "{:#?}", pane.changes);
        if history == 0 {
            // Its first line is corrected.
            let lines = reported.replace("la", "");
            assert_eq!(pane.lines(), lines.lines().collect::<Vec<_>>());
        }
    }
}

/// The new program has printed nothing yet, so the last line of the old one is complete.
#[test]
fn a_silent_respawned_program_begins_after_the_last_line() {
    let mut pane = Pane::new(10, 3);
    pane.feed(b"a\r\nb\r\nlast");
    pane.settle();
    pane.resync(&respawned(empty(10, 3)));
    pane.feed(b"1\r\n2\r\n3\r\n4\r\n");
    pane.settle();
    assert_eq!(pane.lines(), ["a", "b", "last", "1", "2", "3", "4"]);
    assert_eq!(pane.reported(), "a\nb\nlast\n1\n2\n3\n4\n");
}

/// The old program had ended, so no output is missing.
#[test]
fn a_dead_program_that_is_followed_by_another_leaves_no_gap() {
    let mut pane = Pane::new(30, 3);
    pane.feed(b"a\r\nb\r\n");
    pane.settle();
    let dead = over(
        0,
        sync_point(30, &["a", "b", "", "Pane is dead (status 0)"], 1),
    );
    pane.resync(&dead);
    pane.resync(&respawned(empty(30, 3)));
    pane.feed(b"1\r\n");
    pane.settle();
    assert_eq!(pane.reported(), "a\nb\n1\n");
    assert_eq!(pane.reasons(), []);
}

/// As with polling, tmux's notice is not a line, and the program's last line is reported. A similar
/// text of the program is a line.
#[test]
fn tmux_notice_in_a_dead_pane_is_not_a_line() {
    for (notice, reported) in [
        ("Pane is dead (status 1)", "a\nb\nlast\n"),
        ("over: 1", "a\nb\nlast\nover: 1\n"),
    ] {
        let mut pane = Pane::new(30, 3);
        pane.feed(b"a\r\nb\r\nlast");
        pane.settle();
        let dead = over(1, sync_point(30, &["a", "b", "last", notice], 1));
        pane.resync(&dead);
        pane.settle();
        pane.end();
        assert_eq!(pane.reported(), reported);
        assert_eq!(pane.reasons(), []);
    }
}

/// The emulation of a row differs from tmux, and the pane was resized.
#[test]
fn a_line_between_others_is_corrected_through_a_resize() {
    let mut pane = Pane::new(10, 5);
    pane.feed(b"one\r\ntwo\r\nthree\r\nfour\r\n");
    pane.settle();
    let wider = ended(sync_point(20, &["one", "2", "three", "four", ""], 0));
    pane.resync(&wider);
    assert_eq!(pane.lines(), ["one", "2", "three", "four"]);
    assert_eq!(pane.reasons(), []);
}

/// tmux drops and doubles lines when it rewraps rows.
#[test]
fn lines_damaged_by_a_resize_are_not_repeated() {
    let damaged: [&[&str]; 3] = [
        &["one", "three", "four", "five", ""],
        &["one", "two", "three", "three", "four", "five", ""],
        &["two", "three", "five", ""],
    ];
    for rows in damaged {
        let mut pane = Pane::new(10, 4);
        pane.feed(b"one\r\ntwo\r\nthree\r\nfour\r\nfive\r\n");
        pane.settle();
        let mut other = sync_point(12, rows, rows.len() - 4);
        other.capture.cursor = Cursor { x: 0, y: 3 };
        pane.resync(&other);
        pane.feed(b"six\r\nseven\r\n");
        pane.settle();
        let printed = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";
        assert_eq!(pane.reported(), printed, "{rows:?}: {:#?}", pane.changes);
        assert_eq!(pane.reasons(), []);
    }
}

/// tmux moves the cursor to the top when rewrapped rows push its line off the screen.
#[test]
fn a_line_continues_after_tmux_has_moved_the_cursor_to_the_top() {
    for begun in ["", "half a "] {
        let mut pane = Pane::new(10, 4);
        pane.feed(format!("one\r\ntwo\r\n{begun}").as_bytes());
        pane.settle();
        let mut other = sync_point(4, &["one", "two", begun, "", "", "", ""], 3);
        other
            .capture
            .rows
            .iter_mut()
            .for_each(|row| row.wrapped = false);
        other.capture.cursor = Cursor { x: 0, y: 0 };
        pane.resync(&other);
        pane.feed(b"line\r\nmore\r\n");
        pane.settle();
        assert_eq!(pane.reported(), format!("one\ntwo\n{begun}line\nmore\n"));
    }
}

/// No capture contains the saved cursor. A status below the lines is drawn there, also after a resize.
/// Another program begins without one.
#[test]
fn the_saved_cursor_survives_a_resize() {
    let status = b"\x1b8\x1b[Jstatus\r\nmore\x1b8\x1b[J";
    for (other_program, lines) in [(false, &["1", "2", "3", "4"][..]), (true, &["1", "4"])] {
        let mut pane = Pane::new(10, 6);
        pane.feed(b"1\r\n2\r\n3\r\n\x1b7");
        pane.settle();
        let wider = ended(sync_point(20, &["1", "2", "3", "", "", ""], 0));
        let wider = if other_program {
            respawned(wider)
        } else {
            wider
        };
        pane.changes.extend(pane.stream.resync(&wider, pane.now));
        let top = if other_program {
            "\r\x1b[A\x1b[A\x1b[A1\r\n\x1b7"
        } else {
            ""
        };
        pane.feed(top.as_bytes());
        pane.feed(status);
        pane.feed(b"4\r\n");
        let shown = pane.stream.terminal.shown();
        let shown: Vec<&str> = shown.iter().map(|row| row.text.trim_end()).collect();
        assert_eq!(&shown[..lines.len()], lines);
    }
}

/// A saved cursor outside of the smaller pane is restored at its edge, and so is the one of the normal
/// screen. A background continues.
#[test]
fn terminal_state_survives_a_resize() {
    let mut pane = Pane::new(10, 6);
    pane.feed(b"\x1b[6;9H\x1b7\x1b[?1049h\x1b[?1049l\x1b[H\x1b[44m");
    pane.settle();
    let mut narrow = empty(4, 3);
    narrow.capture.cursor = Cursor { x: 0, y: 0 };
    pane.resync(&narrow);
    assert!(pane.stream.terminal.pen.background);
    pane.feed(b"\x1b8x");
    assert_eq!(pane.stream.terminal.shown()[2].text, "   x");
    pane.feed(b"\x1b[H\x1b[?1049ly");
    assert_eq!(pane.stream.terminal.shown()[2].text, "   y");
    pane.resync(&respawned(empty(4, 3)));
    pane.feed(b"\x1b8z");
    assert_eq!(pane.stream.terminal.shown()[0].text, "z");
    assert!(!pane.stream.terminal.pen.background);
}

/// tmux cuts rows behind a full-screen program at the pane's width.
#[test]
fn lines_behind_a_full_screen_program_stay_whole() {
    let mut pane = Pane::new(20, 4);
    pane.feed(b"one\r\na line of some length\r\n\x1b[?1049hvim");
    pane.settle();
    let mut narrow = empty(8, 4);
    narrow.capture.alternate = true;
    narrow.capture.rows[0].text = "vim".into();
    narrow.capture.cursor = Cursor { x: 3, y: 0 };
    narrow.capture.saved = Some(crate::track::SavedScreen {
        cursor: Cursor { x: 0, y: 3 },
        rows: sync_point(20, &["one", "a line o", "th", ""], 0)
            .capture
            .rows,
    });
    pane.resync(&narrow);
    pane.feed(b"\x1b[?1049lmore\r\n");
    pane.settle();
    assert_eq!(pane.reported(), "one\na line of some length\nmore\n");
    assert_eq!(pane.lines(), ["one", "a line of some length", "more"]);
}

/// No byte shows that `send-keys -R` scrolls a screen off and moves the cursor to its top. Lines that
/// the stream has reported beyond tmux's last line are blanked.
#[test]
fn lines_that_tmux_does_not_have_are_blanked_out() {
    let mut pane = Pane::new(20, 3);
    pane.feed(b"one\r\n\n\n\n\ntwo\r\nthree");
    pane.settle();
    pane.resync(&sync_point(20, &["one", "two", "three"], 0));
    pane.settle();
    assert_eq!(
        (pane.lines(), pane.reasons()),
        (vec_of(&["one", "two", "three"]), vec![])
    );
    pane.feed(b"\r\nfour\r\n");
    pane.settle();
    assert_eq!(pane.lines(), ["one", "two", "three", "four"]);
}

/// An unknown line replaces a reported one, with a possible gap before it.
#[test]
fn lines_with_several_explanations_follow_a_gap() {
    let mut pane = Pane::new(20, 3);
    pane.feed(b"one\r\ntwo\r\nthree\r\nfour\r\nfive");
    pane.settle();
    pane.resync(&sync_point(20, &["other", "four", "five"], 0));
    pane.settle();
    assert_eq!(pane.lines(), ["one", "two", "other", "four", "five"]);
    assert_eq!(pane.reasons(), [GapReason::Cleared]);
}

/// No line of the capture was reported.
#[test]
fn unknown_lines_follow_a_gap() {
    let mut pane = Pane::new(20, 3);
    pane.feed(b"one\r\ntwo\r\nthree\r\nfour\r\nfive\r\nsix\r\nseven\r\n");
    pane.settle();
    pane.resync(&sync_point(20, &["cc a", "cc b", ""], 0));
    pane.settle();
    let lines = pane.lines();
    assert_eq!(
        lines[..7],
        ["one", "two", "three", "four", "five", "six", "seven"]
    );
    assert_eq!(lines[7..], ["cc a", "cc b"]);
    assert_eq!(pane.reasons(), [GapReason::Cleared]);
}

/// The history was cleared without a byte. The first lines in tmux have their reported texts.
#[test]
fn lines_behind_a_cleared_history_are_found_by_their_texts() {
    let mut pane = Pane::new(20, 3);
    pane.feed(b"one\r\ntwo\r\nthree\r\nfour\r\nfive\r\nsix\r\nseven\r\n\x1b[Hmixed");
    pane.settle();
    pane.resync(&sync_point(
        20,
        &["four", "five", "six", "seven", "", "mixed", ""],
        4,
    ));
    pane.settle();
    let all = [
        "one", "two", "three", "four", "five", "six", "seven", "", "mixed",
    ];
    assert_eq!((pane.lines(), pane.reasons()), (vec_of(&all), vec![]));
}

fn vec_of(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}
