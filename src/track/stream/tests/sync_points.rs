//! Tests of sync points: where a stream begins, and where it is resynced.

use super::*;
use crate::event::Cursor;
use crate::track::TerminalModes;
use crate::track::stream::difference::Difference;

#[test]
fn a_stream_continues_within_lines_and_sequences() {
    // A line whose beginning has scrolled off, a pending wrap, and an unfinished sequence.
    let mut sync_point = sync_point(4, &["old", "abcd", "efgh", "ijkl"], 2);
    sync_point.capture.rows[3].wrapped = false;
    sync_point.pending = b"\x1b[3".to_vec();
    let mut pane = Pane {
        stream: StreamTracker::new(Tracker::baseline(&sync_point.capture), &sync_point),
        now: Duration::ZERO,
        changes: vec![],
    };
    // The rest of the sequence, and of a character whose beginning tmux had.
    pane.feed(b"1m\xa2m\r\nnext\r\n");
    pane.settle();
    assert_eq!(pane.reported(), "abcdefghijklm\nnext\n");
    assert_eq!(pane.lines()[0], "abcdefghijklm");
}

/// tmux reports an abandoned string as pending until the next sequence.
#[test]
fn an_abandoned_string_stays_so_through_a_resync() {
    let mut pane = Pane::new(9, 3);
    pane.feed(b"one\r\n\x1bkfoo");
    pane.now += Duration::from_secs(4);
    let mut other = sync_point(20, &["one", "", ""], 0);
    other.capture.cursor = crate::event::Cursor { x: 0, y: 1 };
    other.pending = b"\x1bkfoo".to_vec();
    pane.changes.extend(pane.stream.resync(&other, pane.now));
    // The five seconds count from the beginning of the string.
    pane.now += Duration::from_secs(1);
    pane.feed(b"two");
    let mut other = sync_point(9, &["one", "two", ""], 0);
    other.pending = b"\x1bkfoo".to_vec();
    pane.changes.extend(pane.stream.resync(&other, pane.now));
    pane.feed(b" three\r\n");
    pane.settle();
    assert_eq!(pane.lines(), ["one", "two three"]);
}

#[test]
fn modes_and_screens_are_those_of_the_sync_point() {
    let mut sync_point = sync_point(9, &["a", "b", "c", "d"], 0);
    sync_point.modes = TerminalModes {
        region: (1, 2),
        tabs: Some(vec![3]),
        ..TerminalModes::default()
    };
    sync_point.capture.cursor = crate::event::Cursor { x: 0, y: 2 };
    let mut pane = Pane::at(&sync_point);
    pane.feed(b"\n\tx");
    let shown = pane.stream.terminal.shown();
    let shown: Vec<&str> = shown.iter().map(|row| row.text.trim_end()).collect();
    assert_eq!(shown, ["a", "c", "   x", "d"]);

    let mut full = empty(9, 3);
    full.capture.alternate = true;
    full.capture.rows[0].text = "vim".into();
    full.capture.saved = Some(crate::track::SavedScreen {
        cursor: crate::event::Cursor { x: 2, y: 1 },
        rows: super::sync_point(9, &["$ vim", "$ ", ""], 0).capture.rows,
    });
    let mut pane = Pane::at(&full);
    pane.feed(b"\x1b[?1049lexit\r\n");
    pane.settle();
    assert_eq!(pane.lines(), ["$ vim", "$ exit"]);
}

/// With the option `alternate-screen` off, lines of a full-screen program are ordinary lines.
#[test]
fn without_an_alternate_screen_all_lines_are_reported() {
    let mut sync_point = empty(20, 5);
    sync_point.modes.alternates = false;
    let mut pane = Pane::at(&sync_point);
    pane.feed(b"before\r\n\x1b[?1049h");
    let lines: Vec<String> = (1..=30).map(|line| format!("line {line}")).collect();
    pane.feed(
        lines
            .iter()
            .map(|line| format!("{line}\r\n"))
            .collect::<String>()
            .as_bytes(),
    );
    pane.feed(b"\x1b[?1049lafter\r\n");
    pane.settle();
    let before = std::iter::once("before".to_owned());
    let all = before.chain(lines).chain(["after".to_owned()]);
    assert_eq!(pane.lines(), all.collect::<Vec<_>>());
}

#[test]
fn a_resync_that_agrees_reports_nothing() {
    let mut pane = Pane::new(9, 4);
    pane.feed(b"one\r\ntwo\r\nthree");
    pane.settle();
    let same = sync_point(9, &["one", "two", "three", ""], 0);
    assert_eq!(pane.stream.difference(&same.capture), None);
    let before = pane.changes.clone();
    let now = pane.now;
    let changes = pane.stream.resync(&same, now);
    pane.changes.extend(changes);
    pane.settle();
    assert_eq!(pane.changes, before);
}

#[test]
fn tmux_wins_where_screens_differ() {
    let mut pane = Pane::new(9, 4);
    pane.feed(b"one\r\ntwo\r\nthree");
    pane.settle();
    let other = sync_point(9, &["one", "2", "three", ""], 0);
    let difference = Difference::Row {
        row: 1,
        stream: "two".into(),
        tmux: "2".into(),
    };
    assert_eq!(pane.stream.difference(&other.capture), Some(difference));
    let changes = pane.stream.resync(&other, pane.now);
    assert_eq!(
        changes,
        [Change::Revised {
            line: 2,
            text: "2".into()
        }]
    );
    assert_eq!(pane.stream.difference(&other.capture), None);
}

/// No byte shows that `send-keys -R` scrolls the screen off and moves the cursor to its top.
#[test]
fn a_line_that_was_cut_from_outside_is_two_lines() {
    let mut pane = Pane::new(9, 4);
    pane.feed(b"one\r\ntwo\r\nthree");
    pane.settle();
    pane.feed(b"four\r\nfive\r\n");
    pane.settle();
    assert_eq!(pane.lines(), ["one", "two", "threefour", "five"]);
    let mut reset = sync_point(9, &["one", "two", "three", "four", "five", "", ""], 3);
    reset.capture.cursor = Cursor { x: 0, y: 2 };
    let changes = pane.stream.resync(&reset, pane.now);
    pane.changes.extend(changes);
    pane.settle();
    assert_eq!(pane.lines(), ["one", "two", "three", "four", "five"]);
    assert_eq!(pane.stream.difference(&reset.capture), None);
}

/// A line that was reset, and that was reported while it was unfinished, is corrected after it has
/// scrolled off, too.
#[test]
fn lines_that_have_scrolled_off_are_corrected() {
    let mut pane = Pane::new(9, 3);
    pane.feed(b"one\r\ntwo");
    pane.settle();
    pane.feed(b"three\r\n");
    let numbers: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    pane.feed((numbers.join("\r\n") + "\r\n").as_bytes());
    pane.settle();
    let numbers = numbers.iter().map(String::as_str);
    let lines: Vec<&str> = ["one", "two", "three"].into_iter().chain(numbers).collect();
    let mut rows = lines.clone();
    rows.push("");
    let mut reset = sync_point(9, &rows, rows.len() - 3);
    reset.capture.cursor = Cursor { x: 0, y: 2 };
    assert!(pane.stream.rows_to_compare() as usize >= rows.len() - 3);
    assert!(pane.stream.differs_above_screen(&reset.capture));
    let changes = pane.stream.resync(&reset, pane.now);
    pane.changes.extend(changes);
    pane.settle();
    assert_eq!(pane.lines(), lines);
}

/// Equal lines are found again in rewrapped rows.
#[test]
fn a_resize_loses_and_repeats_nothing() {
    let mut pane = Pane::new(10, 4);
    let line = "same text in each line";
    for _ in 0..20 {
        pane.feed(format!("{line}\r\n").as_bytes());
    }
    pane.poll();
    // Twenty columns: two rows a line.
    let mut rows = Vec::new();
    for _ in 0..20 {
        rows.extend(["same text in each li", "ne"]);
    }
    rows.push("");
    let mut wider = sync_point(20, &rows, rows.len() - 4);
    wider.capture.cursor = crate::event::Cursor { x: 0, y: 3 };
    let changes = pane.stream.resync(&wider, pane.now);
    pane.changes.extend(changes);
    pane.feed(b"after\r\n");
    pane.settle();
    assert_eq!(pane.reported(), format!("{line}\n").repeat(20) + "after\n");
}

/// tmux damages text when it rewraps rows. The stream has all lines, so unknown ones are not reported,
/// and numbers continue at the cursor.
#[test]
fn lines_not_found_after_a_resize_are_no_gap() {
    let mut pane = Pane::new(10, 3);
    pane.feed(b"one\r\ntwo\r\nthree\r\n");
    pane.settle();
    let other = sync_point(20, &["something", "else", "entirely", ""], 1);
    let changes = pane.stream.resync(&other, pane.now);
    assert_eq!(changes, []);
    pane.feed(b"\r\nfour\r\n");
    pane.settle();
    assert_eq!(pane.reported(), "one\ntwo\nthree\nentirely\nfour\n");
}

/// Dropped lines are counted and later ones are known, so there is no other gap.
#[test]
fn lines_on_the_screen_after_a_drop_are_known() {
    let mut pane = Pane::new(10, 3);
    pane.feed(b"one\r\ntwo");
    pane.settle();
    let changes = pane.stream.bytes_dropped(5, pane.now);
    pane.changes.extend(changes);
    pane.feed(b"six\r\nseven");
    pane.settle();
    let other = sync_point(10, &["something", "else", "entirely"], 1);
    let changes = pane.stream.resync(&other, pane.now);
    // Line 8 was unfinished, and reported.
    assert_eq!(pane.stream.tracker().cursor_line(), 9);
    assert!(
        !changes
            .iter()
            .any(|change| matches!(change, Change::Gap { .. })),
        "{changes:?}"
    );
}

/// Lines that the stream missed are reported, because their position is unambiguous.
#[test]
fn missed_lines_are_reported() {
    let mut pane = Pane::new(10, 3);
    pane.feed(b"one\r\ntwo\r\nthree\r\n");
    pane.settle();
    let more = sync_point(12, &["one", "two", "three", "four", "five", "six"], 3);
    let changes = pane.stream.resync(&more, pane.now);
    pane.changes.extend(changes);
    pane.feed(b"\r\n");
    pane.settle();
    assert_eq!(pane.reported(), "one\ntwo\nthree\nfour\nfive\nsix\n");
}

/// Every printed line is reported, or counted as lost.
#[test]
fn dropped_lines_are_counted() {
    let printed: String = (1..=500).map(|n| format!("line {n}\r\n")).collect();
    for (from, to) in [(100, 100), (1003, 1005), (1003, 1014), (7, 2000), (0, 5)] {
        let mut pane = Pane::new(30, 5);
        pane.feed(&printed.as_bytes()[..from]);
        pane.poll();
        let lost = printed[from..to].matches('\n').count() as u64;
        let changes = pane.stream.bytes_dropped(lost, pane.now);
        pane.changes.extend(changes);
        pane.feed(&printed.as_bytes()[to..]);
        pane.settle();
        let reported = pane.reported().lines().count() as u64;
        assert_eq!(reported + lost, 500, "{from}..{to}");
        let last = pane.replay().into_iter().next_back().unwrap();
        assert_eq!(last, (500, "line 500".to_owned()), "{from}..{to}");
    }
}

/// Polling continues where the stream ended.
#[test]
fn polling_continues_with_the_same_numbers() {
    let mut pane = Pane::new(9, 3);
    pane.feed(b"one\r\ntwo\r\nthree\r\nfour");
    pane.settle();
    let capture = sync_point(9, &["one", "two", "three", "four"], 1).capture;
    assert_eq!(pane.stream.difference(&capture), None);
    let (mut tracker, changes) = pane.stream.into_polling(pane.now);
    assert_eq!(changes, []);
    let later = sync_point(9, &["one", "two", "three", "four", "five", ""], 3).capture;
    let mut reported = Vec::new();
    for _ in 0..2 {
        match tracker.apply(&later, false) {
            Some(changes) => reported.extend(changes),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        reported.first(),
        Some(&Change::Lines {
            first_line: 4,
            chunk: "four\n".into()
        })
    );
}
