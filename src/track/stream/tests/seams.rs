//! Where a stream begins, and where it is taken up anew.

use super::*;
use crate::event::Cursor;
use crate::track::{Difference, TerminalModes};

#[test]
fn a_stream_goes_on_in_the_middle_of_everything() {
    // A line whose beginning has scrolled off, a wrap that is due, a sequence that has begun.
    let mut seam = seam(4, &["old", "abcd", "efgh", "ijkl"], 2);
    seam.capture.rows[3].wrapped = false;
    seam.pending = b"\x1b[3".to_vec();
    let mut pane = Pane {
        stream: StreamTracker::new(Tracker::baseline(&seam.capture), &seam),
        now: Duration::ZERO,
        changes: vec![],
    };
    // The rest of a character whose beginning tmux had.
    pane.feed(b"1m\xa2m\r\nnext\r\n");
    pane.rest();
    assert_eq!(pane.said(), "abcdefghijklm\nnext\n");
    assert_eq!(pane.lines()[0], "abcdefghijklm");
}

/// tmux calls a string pending that it has given up, until the next sequence.
#[test]
fn a_string_that_was_given_up_stays_so_through_a_reseat() {
    let mut pane = Pane::new(9, 3);
    pane.feed(b"one\r\n\x1bkfoo");
    pane.now += Duration::from_secs(4);
    let mut other = seam(20, &["one", "", ""], 0);
    other.capture.cursor = crate::event::Cursor { x: 0, y: 1 };
    other.pending = b"\x1bkfoo".to_vec();
    pane.changes.extend(pane.stream.resync(&other, pane.now));
    // It counts from where it began.
    pane.now += Duration::from_secs(1);
    pane.feed(b"two");
    let mut other = seam(9, &["one", "two", ""], 0);
    other.pending = b"\x1bkfoo".to_vec();
    pane.changes.extend(pane.stream.resync(&other, pane.now));
    pane.feed(b" three\r\n");
    pane.rest();
    assert_eq!(pane.lines(), ["one", "two three"]);
}

#[test]
fn modes_and_screens_are_those_of_the_seam() {
    let mut seam = seam(9, &["a", "b", "c", "d"], 0);
    seam.modes = TerminalModes {
        region: (1, 2),
        tabs: Some(vec![3]),
        ..TerminalModes::default()
    };
    seam.capture.cursor = crate::event::Cursor { x: 0, y: 2 };
    let mut pane = Pane::at(&seam);
    pane.feed(b"\n\tx");
    let shown = pane.stream.terminal.shown();
    let shown: Vec<&str> = shown.iter().map(|row| row.text.trim_end()).collect();
    assert_eq!(shown, ["a", "c", "   x", "d"]);

    let mut full = empty(9, 3);
    full.capture.alternate = true;
    full.capture.rows[0].text = "vim".into();
    full.capture.saved = Some(crate::track::SavedScreen {
        cursor: crate::event::Cursor { x: 2, y: 1 },
        rows: super::seam(9, &["$ vim", "$ ", ""], 0).capture.rows,
    });
    let mut pane = Pane::at(&full);
    pane.feed(b"\x1b[?1049lexit\r\n");
    pane.rest();
    assert_eq!(pane.lines(), ["$ vim", "$ exit"]);
}

/// Where the option `alternate-screen` is off, lines of a full-screen program are lines like others.
#[test]
fn there_may_be_no_alternate_screen() {
    let mut seam = empty(20, 5);
    seam.modes.alternates = false;
    let mut pane = Pane::at(&seam);
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
    pane.rest();
    let before = std::iter::once("before".to_owned());
    let all = before.chain(lines).chain(["after".to_owned()]);
    assert_eq!(pane.lines(), all.collect::<Vec<_>>());
}

#[test]
fn a_stream_that_agrees_says_nothing_when_it_is_taken_up_anew() {
    let mut pane = Pane::new(9, 4);
    pane.feed(b"one\r\ntwo\r\nthree");
    pane.rest();
    let same = seam(9, &["one", "two", "three", ""], 0);
    assert_eq!(pane.stream.difference(&same.capture), None);
    let before = pane.changes.clone();
    let now = pane.now;
    let changes = pane.stream.resync(&same, now);
    pane.changes.extend(changes);
    pane.rest();
    assert_eq!(pane.changes, before);
}

#[test]
fn tmux_is_right_about_its_screen() {
    let mut pane = Pane::new(9, 4);
    pane.feed(b"one\r\ntwo\r\nthree");
    pane.rest();
    let other = seam(9, &["one", "2", "three", ""], 0);
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

/// `send-keys -R` scrolls the screen off and goes to its top, which no byte tells.
#[test]
fn a_line_that_was_cut_from_outside_is_two_lines() {
    let mut pane = Pane::new(9, 4);
    pane.feed(b"one\r\ntwo\r\nthree");
    pane.rest();
    pane.feed(b"four\r\nfive\r\n");
    pane.rest();
    assert_eq!(pane.lines(), ["one", "two", "threefour", "five"]);
    let mut reset = seam(9, &["one", "two", "three", "four", "five", "", ""], 3);
    reset.capture.cursor = Cursor { x: 0, y: 2 };
    let changes = pane.stream.resync(&reset, pane.now);
    pane.changes.extend(changes);
    pane.rest();
    assert_eq!(pane.lines(), ["one", "two", "three", "four", "five"]);
    assert_eq!(pane.stream.difference(&reset.capture), None);
}

/// The same after it has scrolled off; the line was shown while it was unfinished, too.
#[test]
fn what_has_scrolled_off_is_put_right() {
    let mut pane = Pane::new(9, 3);
    pane.feed(b"one\r\ntwo");
    pane.rest();
    pane.feed(b"three\r\n");
    let numbers: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    pane.feed((numbers.join("\r\n") + "\r\n").as_bytes());
    pane.rest();
    let numbers = numbers.iter().map(String::as_str);
    let lines: Vec<&str> = ["one", "two", "three"].into_iter().chain(numbers).collect();
    let mut rows = lines.clone();
    rows.push("");
    let mut reset = seam(9, &rows, rows.len() - 3);
    reset.capture.cursor = Cursor { x: 0, y: 2 };
    assert!(pane.stream.rows_to_compare() as usize >= rows.len() - 3);
    assert!(pane.stream.differs_above_screen(&reset.capture));
    let changes = pane.stream.resync(&reset, pane.now);
    pane.changes.extend(changes);
    pane.rest();
    assert_eq!(pane.lines(), lines);
}

/// The lines are found again in rows that were made anew, although they look alike.
#[test]
fn a_resize_loses_nothing_and_says_nothing_twice() {
    let mut pane = Pane::new(10, 4);
    let line = "same text in each line";
    for _ in 0..20 {
        pane.feed(format!("{line}\r\n").as_bytes());
    }
    pane.ask();
    // Twenty columns: two rows a line.
    let mut rows = Vec::new();
    for _ in 0..20 {
        rows.extend(["same text in each li", "ne"]);
    }
    rows.push("");
    let mut wider = seam(20, &rows, rows.len() - 4);
    wider.capture.cursor = crate::event::Cursor { x: 0, y: 3 };
    let changes = pane.stream.resync(&wider, pane.now);
    pane.changes.extend(changes);
    pane.feed(b"after\r\n");
    pane.rest();
    assert_eq!(pane.said(), format!("{line}\n").repeat(20) + "after\n");
}

/// tmux damages text when it makes rows anew. The stream has all lines: what cannot be found is known,
/// not said, and numbers continue at the cursor.
#[test]
fn what_cannot_be_found_is_no_gap() {
    let mut pane = Pane::new(10, 3);
    pane.feed(b"one\r\ntwo\r\nthree\r\n");
    pane.rest();
    let other = seam(20, &["something", "else", "entirely", ""], 1);
    let changes = pane.stream.resync(&other, pane.now);
    assert_eq!(changes, []);
    pane.feed(b"\r\nfour\r\n");
    pane.rest();
    assert_eq!(pane.said(), "one\ntwo\nthree\nentirely\nfour\n");
}

/// Dropped lines have a count, and those that came since are known: nothing else is missing.
#[test]
fn what_stands_there_after_a_drop_is_known() {
    let mut pane = Pane::new(10, 3);
    pane.feed(b"one\r\ntwo");
    pane.rest();
    let changes = pane.stream.bytes_dropped(5, pane.now);
    pane.changes.extend(changes);
    pane.feed(b"six\r\nseven");
    pane.rest();
    let other = seam(10, &["something", "else", "entirely"], 1);
    let changes = pane.stream.resync(&other, pane.now);
    // Line 8 was begun, and shown.
    assert_eq!(pane.stream.tracker().cursor_line(), 9);
    assert!(
        !changes
            .iter()
            .any(|change| matches!(change, Change::Gap { .. })),
        "{changes:?}"
    );
}

/// Lines that are there and were not seen are said: the place is the only one.
#[test]
fn lines_that_were_missed_are_said() {
    let mut pane = Pane::new(10, 3);
    pane.feed(b"one\r\ntwo\r\nthree\r\n");
    pane.rest();
    let more = seam(12, &["one", "two", "three", "four", "five", "six"], 3);
    let changes = pane.stream.resync(&more, pane.now);
    pane.changes.extend(changes);
    pane.feed(b"\r\n");
    pane.rest();
    assert_eq!(pane.said(), "one\ntwo\nthree\nfour\nfive\nsix\n");
}

/// All that was printed was said, or is counted.
#[test]
fn what_was_dropped_is_counted() {
    let printed: String = (1..=500).map(|n| format!("line {n}\r\n")).collect();
    for (from, to) in [(100, 100), (1003, 1005), (1003, 1014), (7, 2000), (0, 5)] {
        let mut pane = Pane::new(30, 5);
        pane.feed(&printed.as_bytes()[..from]);
        pane.ask();
        let lost = printed[from..to].matches('\n').count() as u64;
        let changes = pane.stream.bytes_dropped(lost, pane.now);
        pane.changes.extend(changes);
        pane.feed(&printed.as_bytes()[to..]);
        pane.rest();
        let said = pane.said().lines().count() as u64;
        assert_eq!(said + lost, 500, "{from}..{to}");
        let last = pane.replay().into_iter().next_back().unwrap();
        assert_eq!(last, (500, "line 500".to_owned()), "{from}..{to}");
    }
}

/// Polling continues where the stream ended.
#[test]
fn polling_goes_on_with_the_same_numbers() {
    let mut pane = Pane::new(9, 3);
    pane.feed(b"one\r\ntwo\r\nthree\r\nfour");
    pane.rest();
    let capture = seam(9, &["one", "two", "three", "four"], 1).capture;
    assert_eq!(pane.stream.difference(&capture), None);
    let (mut tracker, changes) = pane.stream.into_polling(pane.now);
    assert_eq!(changes, []);
    let later = seam(9, &["one", "two", "three", "four", "five", ""], 3).capture;
    let mut said = Vec::new();
    for _ in 0..2 {
        match tracker.apply(&later) {
            crate::track::TrackerOutput::Changes(changes) => said.extend(changes),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        said.first(),
        Some(&Change::Lines {
            first_line: 4,
            chunk: "four\n".into()
        })
    );
}
