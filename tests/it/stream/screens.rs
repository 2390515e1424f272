//! Changes that no byte shows, and bytes that tmux interprets in its own way: the lines become those of
//! the pane, screen and history, within the repair time.
//!
//! The server itself defines the right result, whatever its version.

use std::io::Write;
use std::time::{Duration, Instant};

use super::{streamed, wait_until_streamed};
use crate::observed::Observed;
use crate::support::{CEILING, Dice, TmuxServer, within};

/// A difference is repaired within 5 s of rest; a busy machine may take longer.
const REPAIRED: Duration = Duration::from_secs(10);

/// An action in a pane.
enum Act {
    /// The program prints these bytes.
    Prints(&'static [u8]),
    /// The program prints a text this many times.
    Repeats(&'static str, usize),
    /// The program prints this many lines.
    Lines(usize),
    /// A tmux command for the pane.
    Tmux(&'static [&'static str]),
    /// All previous output has been observed.
    Rests,
}

use Act::{Lines, Prints, Repeats, Rests, Tmux};

const RESET: Act = Tmux(&["send-keys", "-R"]);

/// Performs the actions and waits until the observer's lines equal those of tmux.
#[track_caller]
fn shows(acts: &[Act]) {
    let server = TmuxServer::new();
    let pane = server.new_session("screen", 60, 8, "stty raw -echo; exec cat >/dev/null");
    let mut observed = streamed(&server);
    observed.until_started(1);
    wait_until_streamed(&server, 1);
    let mut terminal = server.terminal(&pane);
    let mut same = |what: &str| {
        let began = Instant::now();
        let end = within(CEILING.max(REPAIRED), || {
            observed.take_ready();
            let replay = observed.replay(&pane);
            let shown = server.joined(&pane, &["-S", "-"]);
            let (replay, shown) = (trimmed(&replay.text()), trimmed(&shown));
            if replay == shown {
                Ok(())
            } else {
                Err((replay, shown))
            }
        });
        if let Err((replay, shown)) = end {
            panic!("{what}: {replay:#?} for {shown:#?}");
        }
        assert!(began.elapsed() < REPAIRED, "{what}: {:?}", began.elapsed());
    };
    for (number, act) in acts.iter().enumerate() {
        match act {
            Prints(bytes) => terminal.write_all(bytes).unwrap(),
            Repeats(text, count) => terminal.write_all(text.repeat(*count).as_bytes()).unwrap(),
            Lines(count) => {
                for line in 0..*count {
                    write!(terminal, "line {line}\r\n").unwrap();
                }
            }
            Tmux(command) => {
                let (name, rest) = command.split_first().unwrap();
                let command = [&[*name, "-t", &pane], rest].concat();
                server.tmux(&command);
            }
            Rests => same(&format!("act {number}")),
        }
    }
    same("the end");
    observed.stop();
}

/// Returns the text without trailing blanks in its lines and without blank lines at its end.
fn trimmed(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .map(|line| line.trim_end_matches(' ').to_owned());
    let mut lines: Vec<String> = lines.collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[test]
fn a_screen_without_an_alternate_one() {
    shows(&[
        Prints(b"before\r\n"),
        Rests,
        Tmux(&["set-option", "-p", "alternate-screen", "off"]),
        Prints(b"\x1b[?1049hdrawn\r\nby a program\r\n\x1b[?1049l"),
        Lines(3),
    ]);
}

#[test]
fn characters_with_and_without_a_known_width() {
    shows(&[
        Prints("unassigned \u{378}|\u{1fac7}| none \u{fdd0}|\u{fffe}|\u{10ffff}|\r\n".as_bytes()),
        Prints("ends of lines \u{2028}|\u{2029}| soft \u{ad}| own \u{e000}|\r\n".as_bytes()),
        Prints("new \u{1fae8}|\u{1fae9}|\u{1facd}|\u{1fac6}| marks \u{85}e\u{301}\r\n".as_bytes()),
        // Beyond the edge of the screen, where each width determines the rows.
        Prints("\u{378}\u{1fae9}\u{2028}漢\u{1facd}".as_bytes()),
        Repeats("\u{378}\u{1fae9}\u{2028}漢\u{1facd}x\u{fdd0}", 30),
        Lines(40),
    ]);
}

#[test]
fn widths_are_those_of_the_server_version() {
    shows(&[
        Prints("❤\u{fe0f}| ☎\u{fe0f}| 👍🏽| ☝🏿| 🏽| 👨🏻| x\u{fe0f}|\r\n".as_bytes()),
        Prints(
            "👩\u{200d}👩\u{200d}👧\u{200d}👦| 🏳\u{fe0f}\u{200d}🌈| 🇩🇪| 🇩🇪🇫🇷| 🇩|\r\n".as_bytes(),
        ),
        Prints(
            "\u{3164}| \u{ffa0}| \u{115f}| \u{1112}\u{1161}\u{11ab}| \u{1161}| 한글|\r\n"
                .as_bytes(),
        ),
        Prints("a\tb\t|漢\t|\x1b[3G\t|\r\n".as_bytes()),
        Repeats("👍🏽❤\u{fe0f}🇩🇪\u{3164}", 40),
        Lines(20),
    ]);
}

#[test]
fn invalid_utf_8() {
    shows(&[
        Prints(b"a\xffb\xc0\xafc\xe2\x82d\xf0\x9f\x98e\xed\xa0\x80f\r\n"),
        // Not bytes beyond Unicode (f4 90): tmux 3.8 prints them in `capture-pane`, which is invalid
        // UTF-8 then.
        Prints(b"\xf5\x80\x80\x80|\xe2\x28\xa1|\xc3\n|\xe0\x80\xaf|\r\n"),
        Prints(b"C1: \x9b31m|\x85|\x90q\x9c| \xc2\x9b31m|\xc2\x85|\r\n"),
        Lines(20),
    ]);
}

#[test]
fn a_terminal_that_is_reset_from_outside() {
    shows(&[
        Prints(b"one\r\ntwo\r\nthree"),
        Rests,
        RESET,
        Prints(b"four\r\n"),
        Lines(2),
        Rests,
        // Nothing is printed afterwards: the listing shows the reset.
        RESET,
    ]);
}

#[test]
fn a_terminal_that_is_reset_twice_between_lines() {
    shows(&[
        Lines(30),
        Rests,
        Prints(b"more\r\n"),
        RESET,
        Prints(b"after\r\n"),
        RESET,
        Lines(12),
    ]);
}

#[test]
fn a_difference_that_has_scrolled_off() {
    shows(&[
        Prints(b"one\r\ntwo"),
        RESET,
        Prints(b"three\r\n"),
        Lines(300),
    ]);
}

/// A program draws two screens in turns, each within a synchronized update that pauses anywhere: no screen is kept that
/// is a mixture of two. `TD_SCREENS=500` draws more of them.
#[test]
fn a_screen_of_a_synchronized_update_is_never_a_mixture() {
    never_a_mixture(true);
}

/// Captures show a synchronized update since tmux 3.7.
#[test]
fn a_polled_screen_of_a_synchronized_update_is_never_a_mixture() {
    let server = TmuxServer::new();
    let pane = server.new_session("any", 20, 5, "exec cat");
    let flag = "#{synchronized_output_flag}";
    if server
        .tmux(&["display-message", "-p", "-t", &pane, flag])
        .trim()
        .is_empty()
    {
        eprintln!("SKIPPED, NOT TESTED: this tmux does not report synchronized updates");
        return;
    }
    never_a_mixture(false);
}

#[track_caller]
fn never_a_mixture(is_streamed: bool) {
    let screens = std::env::var("TD_SCREENS").map_or(60, |count| count.parse().unwrap());
    let server = TmuxServer::new();
    let rows = 12;
    let mut dice = Dice(2026);
    let mut script = String::from("printf '\\033[?1049h'\n");
    for screen in 1..=screens {
        let lines: String = (1..=rows)
            .map(|row| format!("\x1b[{row};1Hscreen {screen} row {row}\x1b[K"))
            .collect();
        let drawn = format!("\x1b[?2026h{lines}\x1b[?2026l");
        let mut rest = drawn.as_str();
        while !rest.is_empty() {
            let cut = (1 + dice.roll(200) as usize).min(rest.len());
            let (piece, later) = rest.split_at(cut);
            script += &format!("printf '{}'\n", piece.replace('\x1b', "\\033"));
            if dice.roll(3) == 0 {
                script += &format!("sleep 0.0{:02}\n", dice.roll(60));
            }
            rest = later;
        }
        script += &format!("sleep 0.0{:02}\n", dice.roll(40));
    }
    script += "printf '\\033[?1049lTHE END\\n'\nexec cat\n";
    let file = server.directory().join("draws");
    std::fs::write(&file, script).unwrap();
    let run = format!("read begin; . {}", file.display());
    let pane = server.new_session("drawn", 60, rows, &format!("sh -c '{run}'"));
    let mut observed = if is_streamed {
        streamed(&server)
    } else {
        Observed::start(&server, |watch| watch.interval(Duration::from_millis(20)))
    };
    observed.until_started(1);
    if is_streamed {
        wait_until_streamed(&server, 1);
    }
    server.tmux(&["send-keys", "-t", &pane, "Enter"]);
    within(CEILING * 6, || match server.screen(&pane) {
        screen if screen.contains("THE END") => Ok(()),
        screen => Err(screen),
    })
    .unwrap();
    observed.until_line("THE END");
    observed.stop();
    let mut shown = std::collections::BTreeMap::new();
    let mut kept = 0;
    for envelope in observed.logs().values().flatten() {
        let td_observe::TdEvent::ScreenUpdate { rows: changed, .. } = &envelope.event else {
            continue;
        };
        for row in changed {
            shown.insert(row.row, row.text.trim_end().to_owned());
        }
        let drawn: std::collections::BTreeSet<_> = shown
            .values()
            .map(|text| text.split(" row ").next())
            .collect();
        assert!(drawn.len() <= 1, "a mixture: {shown:#?}");
        kept += 1;
    }
    eprintln!("{kept} of {screens} screens were kept");
    assert!(kept > 3, "{kept}");
}
