//! The effects of a pane's bytes, as measured on tmux 3.3a.

use super::super::ShellMark;
use super::*;

/// Asserts the final rows of the screen, and the number of rows that have scrolled off.
#[track_caller]
fn shows(width: u32, height: u32, bytes: &str, rows: &[&str], scrolled: i64) {
    let mut pane = Pane::new(width, height);
    pane.feed(bytes.as_bytes());
    let shown = pane.stream.terminal.shown();
    let shown: Vec<&str> = shown.iter().map(|row| row.text.trim_end()).collect();
    assert_eq!(shown, rows, "{bytes:?}");
    assert_eq!(
        pane.stream.terminal.grid.scrolled.total(),
        scrolled,
        "{bytes:?}"
    );
}

#[test]
fn erasing_the_screen_keeps_its_rows_in_the_history() {
    for erases in [
        "\x1b[H\x1b[J",
        "\x1b[2J\x1b[H",
        "\x1bc",
        "\x1b[?3h",
        "\x1b[?3;4l",
        "\x1b[?25;03h",
    ] {
        shows(9, 4, &format!("a\r\nb{erases}c"), &["c", "", "", ""], 2);
    }
    shows(9, 3, "a\r\nb\x1b[1;2H\x1b[J", &["a", "", ""], 0);
    shows(9, 3, "\x1b[?1049ha\r\nb\x1b[H\x1b[J", &["", "", ""], 0);
}

#[test]
fn a_region_scrolls_into_the_history_wherever_it_begins() {
    shows(
        9,
        4,
        "a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[3;1H\nx",
        &["a", "c", "x", "d"],
        1,
    );
    shows(
        9,
        4,
        "a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[2S",
        &["a", "", "", "d"],
        2,
    );
    shows(
        9,
        4,
        "\x1b[?47ha\r\nb\r\nc\r\nd\x1b[2;3r\x1b[3;1H\nx",
        &["a", "c", "x", "d"],
        0,
    );
    // Deleted rows do not go to the history.
    shows(9, 3, "a\r\nb\r\nc\x1b[H\x1b[2M", &["c", "", ""], 0);
}

#[test]
fn wide_characters_and_marks_are_in_their_places() {
    shows(4, 3, "abc漢d", &["abc", "漢d", ""], 0);
    shows(6, 2, "漢字字\x1b[1;4Hx", &["漢 x字", ""], 0);
    // A wide character in the first column stays whole.
    shows(6, 2, "漢字\x1b[1;2Hx", &["漢x字", ""], 0);
    shows(
        9,
        2,
        "e\u{301}x\u{301}\u{302}y",
        &["e\u{301}x\u{301}\u{302}y", ""],
        0,
    );
    shows(9, 2, "👩\u{200d}💻x", &["👩\u{200d}💻x", ""], 0);
    shows(1, 2, "漢a", &["a", ""], 0);
}

/// Before 3.4, tmux writes plain text in runs, and forgets a joiner at the end of the bytes that it has
/// read together.
#[test]
fn a_joiner_waits_for_what_is_not_plain_text() {
    shows(9, 2, "ab\u{200d}\r\ncd💻e", &["ab", "cd\u{200d}💻e"], 0);
    shows(9, 1, "ab\u{200d}\x1b[?7lcd", &["ab\u{200d}cd"], 0);
    shows(9, 1, "ab\u{200d}\r💻c", &["cb"], 0);
    for (pause, shown) in [(0, "abcd\u{200d}💻"), (100, "abcd💻")] {
        let mut pane = Pane::new(9, 1);
        pane.feed("ab\u{200d}cd".as_bytes());
        pane.now += Duration::from_millis(pause);
        pane.feed("💻".as_bytes());
        assert_eq!(pane.stream.terminal.shown()[0].text, shown);
    }
}

#[test]
fn strings_that_are_not_text_are_not_printed() {
    shows(30, 1, "\x1bktitle\x1b\\a", &["a"], 0);
    shows(30, 1, "\x1bPtmux;\x1b\x1b]0;b\x07c\x1b\\a", &["a"], 0);
    shows(
        30,
        1,
        "\x1b]8;;https://é.example\x1b\\a\x1b]8;;\x07",
        &["a"],
        0,
    );
    shows(30, 1, "a\u{85}b\u{9b}c\0\x7f", &["abc"], 0);
    // Letters, as captures have them.
    shows(30, 1, "\x1b(0lqk\x1b(B", &["lqk"], 0);
}

/// tmux waits for five seconds from the beginning of the string.
#[test]
fn a_string_without_an_end_is_abandoned() {
    for begins in [
        "\x1bk", "\x1bP", "\x1bPq", "\x1b]0;", "\x1b_", "\x1b^", "\x1bX",
    ] {
        let mut pane = Pane::new(9, 2);
        let shown = |pane: &Pane| pane.stream.terminal.shown()[0].text.trim_end().to_owned();
        pane.feed(format!("a\x1b[1;4H\x1b7\x1b[7;42m{begins}foo").as_bytes());
        pane.now += Duration::from_millis(4999);
        pane.feed(b"bar");
        assert_eq!(shown(&pane), "a", "{begins:?}");
        pane.now += Duration::from_millis(1);
        pane.feed(b"b");
        assert_eq!(shown(&pane), "a  b", "{begins:?}");
        // Saved cursor and background are reset.
        pane.feed(b"\x1b8c\x1b[K");
        assert_eq!(shown(&pane), "c", "{begins:?}");
        // A string that has ended does not count.
        pane.feed(b"\x1bkname\x1b\\");
        pane.now += Duration::from_secs(9);
        pane.feed(b"\x1bkna");
        pane.now += Duration::from_secs(1);
        pane.feed(b"me\x1b\\d");
        assert_eq!(shown(&pane), "cd", "{begins:?}");
    }
}

#[test]
fn bytes_that_are_not_text_are_dropped() {
    let mut pane = Pane::new(20, 1);
    pane.feed(b"a\xffb\xc3(c\xe6\xbcd\x80e");
    assert_eq!(pane.stream.terminal.shown()[0].text, "ab(cde");
}

#[test]
fn sequences_unknown_to_tmux_do_nothing() {
    shows(9, 2, "ab\x1b[2aC\x1b[!p\x1b[5Wd", &["abCd", ""], 0);
    shows(9, 2, "x\x1b[3bz", &["xxxxz", ""], 0);
    shows(4, 2, "x\x1b[99b", &["xxxx", ""], 0);
    // Unknown sequences keep the character that REP repeats, too.
    for unknown in ["[?9z", "[3 z", "[!p", "#9", "##8", "[2147483648D"] {
        shows(9, 1, &format!("x\x1b{unknown}\x1b[3by"), &["xxxxy"], 0);
    }
    for known in ["[c", "[>1;2q", "[m", "[2 q", "(B", "=", "[?2004h"] {
        shows(9, 1, &format!("x\x1b{known}\x1b[3by"), &["xy"], 0);
    }
    shows(9, 1, "a\x1b##8b", &["ab"], 0);
}

#[test]
fn a_control_within_a_sequence_ends_a_character() {
    let mut pane = Pane::new(20, 1);
    pane.feed(b"ab\xe2\x82\x1b[1\0m\xacX");
    assert_eq!(pane.stream.terminal.shown()[0].text, "abX");
    shows(9, 2, "ab\x1b[1\nC\x1b[4\rCx", &["ab", "    x"], 0);
}

#[test]
fn numbers_are_taken_as_tmux_takes_them() {
    shows(9, 1, "a\x1b[65537Cb", &["a       b"], 0);
    shows(9, 1, "abcdef\x1b[5:3Dx", &["abcdefx"], 0);
    shows(9, 1, "abc\x1b[1;2:3Hx", &["abcx"], 0);
    // Parameters of sequences that have none are ignored.
    shows(9, 1, "ab\x1b[1:2scd\x1b[3:4ux", &["abxd"], 0);
    shows(9, 1, "abc\x1b[2147483648Dx", &["abcx"], 0);
    shows(9, 1, "abc\x1b[65536Jx", &["abcx"], 0);
    shows(9, 1, &format!("abc\x1b[{}Hx", ";".repeat(23)), &["abcx"], 0);
    shows(9, 1, &format!("abc\x1b[{}Hx", ";".repeat(22)), &["xbc"], 0);
    shows(9, 1, &format!("abc\x1b[{:064}Dx", 2), &["abcx"], 0);
    shows(9, 1, &format!("abc\x1b[{:063}Dx", 2), &["axc"], 0);
}

/// A region's end may be left out; zero is the first row.
#[test]
fn a_region_that_ends_in_row_zero_is_none() {
    shows(
        20,
        3,
        "one\r\ntwo\x1b[0;0rthree",
        &["one", "twothree", ""],
        0,
    );
    shows(
        20,
        5,
        "\x1b[2;4r\x1b[1;0rab\x1b[5;1H\ncd\r\nef",
        &["ab", "", "", "", "ef"],
        0,
    );
    shows(9, 3, "a\x1b[2rb\x1b[;2rc", &["c", "", ""], 0);
}

#[test]
fn lines_end_where_tmux_ends_them() {
    let wrapped = |bytes: &str| {
        let mut pane = Pane::new(4, 3);
        pane.feed(bytes.as_bytes());
        pane.stream.terminal.shown()[0].wrapped
    };
    assert!(wrapped("abcdef"));
    assert!(wrapped("abcdef\r\n"));
    assert!(wrapped("abcdef\x1b[2;2H\x1b[K"));
    assert!(!wrapped("abcdef\r\x1b[K"));
    assert!(!wrapped("abcdef\x1b[H\x1b[2K"));
    // Deleting all cells of a row ends the line, too; deleting some does not.
    assert!(!wrapped("abcdef\x1b[2;1H\x1b[4P"));
    assert!(!wrapped("abcdef\x1b[H\x1b[9P"));
    assert!(wrapped("abcdef\x1b[H\x1b[3P"));
    assert!(!wrapped("abcd"));
}

#[test]
fn shell_marks_delimit_commands() {
    let mut pane = Pane::new(12, 5);
    pane.feed(b"\x1b]133;A\x07$ \x1b]133;B\x07echo one two\r\n\x1b]133;C\x1b\\one two\r\n\x1b]133;D;3\x07");
    pane.feed(
        b"\x1b]133;A\x07$ \x1b]133;B\x07for a in b\r\n> do x\r\n\x1b]133;C\x07\x1b]133;D\x07",
    );
    pane.feed(b"\x1b]133;B\x07long gone\x1b[2J\x1b[H\x1b]133;C\x07\x1b]133;Z\x07");
    let started = |command: Option<&str>| ShellMark::Started {
        command: command.map(str::to_owned),
    };
    let finished = |exit_status| ShellMark::Finished { exit_status };
    let marks = [
        ShellMark::Prompt,
        ShellMark::Input,
        started(Some("echo one two")),
        finished(Some(3)),
        ShellMark::Prompt,
        ShellMark::Input,
        started(Some("for a in b\n> do x")),
        finished(None),
        ShellMark::Input,
        started(None),
    ];
    assert_eq!(pane.stream.shell_marks(), marks);
    assert_eq!(pane.stream.shell_marks(), []);
}

#[test]
fn only_an_ed_3_without_another_parameter_clears_the_history() {
    for (order, left) in [("\x1b[3J", 0), ("\x1b[3;0J", 0), ("\x1b[3;7J", 1)] {
        let mut pane = Pane::new(4, 2);
        pane.feed(format!("a\r\nb\r\nc{order}").as_bytes());
        let history = &pane.stream.terminal.grid.scrolled.history;
        assert_eq!(history.size, left, "{order:?}");
    }
}
