//! The display of panes for people: on a terminal, on a pipe, and in the log afterwards.

use std::io::Write;
use std::path::Path;

use rustix::process::Signal;

use crate::cli::{Running, assert_code, on, program, run, text};
use crate::support::{CEILING, TmuxServer, wait_for};

/// A pane that shows what is written to its terminal.
const BLANK: &str = "stty -echo; echo ready; exec cat > /dev/null";

fn pane(server: &TmuxServer, name: &str) -> (String, std::fs::File) {
    let pane = server.new_session(name, 80, 24, BLANK);
    server.wait_for_text(&pane, "ready");
    let terminal = server.terminal(&pane);
    (pane, terminal)
}

/// Runs `watch` in its own terminal; returns the pane that shows it.
fn watch_on_terminal(server: &TmuxServer, data: &Path, columns: u32, more: &str) -> String {
    let (program, data) = (env!("CARGO_BIN_EXE_td-observe"), data.display());
    let command = format!(
        "TD_DATA_DIR={data} TERM=screen {program} -S {} watch {more}; sleep 60",
        server.socket().display()
    );
    let watcher = server.new_session("watcher", columns, 24, &command);
    server.wait_for_text(&watcher, "[watching");
    watcher
}

#[track_caller]
fn until_screen(server: &TmuxServer, pane: &str, what: &str, is: impl Fn(&str) -> bool) -> String {
    wait_for(what, CEILING, || {
        let screen = server.screen(pane);
        if is(&screen) { Ok(screen) } else { Err(screen) }
    })
}

fn a_full_screen_program_is_reported_once_after_its_command(source: &str) {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let (_, mut terminal) = pane(&server, "job");
    let socket = server.socket().display().to_string();
    let args = on(&socket, &["watch", "job", "--source", source]);
    let mut watch = Running::start(program(&args, data.path()));
    watch.wait_for("watching");
    for round in 1..=2 {
        write!(terminal, "$ editor {round}\r\n\x1b[?1049h\x1b[Hits screen").unwrap();
        server.wait_for_text("job", "its screen");
        for row in 2..6 {
            write!(terminal, "\x1b[{row};1Hrow {row}").unwrap();
            server.wait_for_text("job", &format!("row {row}"));
        }
        // The line is shown before the program has ended.
        let announced = |seen: &[String]| {
            let announced = seen.iter().filter(|line| line.contains("[full-screen"));
            announced.count() == round
        };
        watch.until("the program", announced);
        write!(terminal, "\x1b[?1049lback {round}\r\n").unwrap();
        watch.wait_for(&format!("back {round}"));
    }
    server.tmux(&["kill-session", "-t", "job"]);
    let shown = text(&watch.end().stdout);
    // A polled pane that is killed while it prints may lack its last lines.
    let others = ["[watching", "[ended", "possibly the last lines"];
    let lines: Vec<&str> = shown
        .lines()
        .filter(|line| !others.iter().any(|other| line.contains(other)))
        .collect();
    assert_eq!(
        lines,
        [
            "job | $ editor 1",
            "job | [full-screen program]",
            "job | back 1",
            "job | $ editor 2",
            "job | [full-screen program]",
            "job | back 2",
        ],
        "{source}"
    );
}

#[test]
fn a_full_screen_program_is_reported_once_after_its_command_by_captures() {
    a_full_screen_program_is_reported_once_after_its_command("poll");
}

#[test]
fn a_full_screen_program_is_reported_once_after_its_command_by_bytes() {
    a_full_screen_program_is_reported_once_after_its_command("stream");
}

const ROWS: [&str; 3] = ["a1b2", "c3d4", "e5f6"];

/// Three rows that are rewritten in place, as `docker pull` does.
fn downloads(terminal: &mut std::fs::File, percent: u32) {
    write!(terminal, "\x1b[3A").unwrap();
    for row in ROWS {
        write!(terminal, "\x1b[K{row}: {percent} %\r\n").unwrap();
    }
}

#[test]
fn a_progress_display_of_several_lines_is_rewritten_on_a_terminal() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let (job, mut terminal) = pane(&server, "job");
    let watcher = watch_on_terminal(&server, data.path(), 80, "job");
    for row in ROWS {
        write!(terminal, "{row}: waiting\r\n").unwrap();
    }
    until_screen(&server, &watcher, "the first state", |screen| {
        ROWS.iter()
            .all(|row| screen.contains(&format!("job | {row}: waiting")))
    });
    for percent in (10..=100).step_by(10) {
        downloads(&mut terminal, percent);
        let state = format!("e5f6: {percent} %");
        server.wait_for_text(&job, &state);
        let screen = until_screen(&server, &watcher, &state, |screen| screen.contains(&state));
        // Each row shows its current state only.
        for row in ROWS {
            assert_eq!(screen.matches(row).count(), 1, "{screen}");
        }
    }
    write!(terminal, "done\r\n").unwrap();
    let screen = until_screen(&server, &watcher, "the end", |screen| {
        screen.contains("job | done")
    });
    let lines: Vec<&str> = screen.lines().filter(|line| !line.is_empty()).collect();
    let rows = ROWS.map(|row| format!("job | {row}: 100 %"));
    let (last, rows) = (String::from("job | done"), rows.into_iter());
    assert_eq!(lines[1..], rows.chain([last]).collect::<Vec<_>>());
}

const LAYERS: [&str; 4] = ["a1b2", "c3d4", "e5f6", "a7b8"];

/// Waits for Enter, then draws four rows, rewrites them as `docker pull` does 20 times in two seconds,
/// and prints a line.
const DISPLAY: &str = "stty -echo; echo ready; read go; n=0; while [ $n -le 20 ]; do \
    [ $n -gt 0 ] && printf '\\033[4A'; for row in a1b2 c3d4 e5f6 a7b8; do \
    printf '%s: %s of 20\\033[K\\n' $row $n; done; n=$((n+1)); sleep 0.1; done; \
    echo done; exec cat > /dev/null";

fn display(server: &TmuxServer, name: &str) {
    let pane = server.new_session(name, 80, 24, DISPLAY);
    server.wait_for_text(&pane, "ready");
}

fn begin(server: &TmuxServer, name: &str) {
    server.tmux(&["send-keys", "-t", &format!("={name}:"), "Enter"]);
}

/// Returns the lines that remain of the display.
fn last_state(label: &str) -> Vec<String> {
    let rows = LAYERS.map(|row| format!("{label}{row}: 20 of 20"));
    rows.into_iter().chain([format!("{label}done")]).collect()
}

#[test]
fn displays_in_two_panes_at_once_are_rewritten_in_place() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    display(&server, "one");
    display(&server, "two");
    let watcher = watch_on_terminal(&server, data.path(), 80, "one two");
    until_screen(&server, &watcher, "both", |screen| {
        screen.contains("one | [watching") && screen.contains("two | [watching")
    });
    begin(&server, "one");
    begin(&server, "two");
    let screen = until_screen(&server, &watcher, "both ends", |screen| {
        for row in LAYERS {
            assert!(screen.matches(row).count() <= 2, "{screen}");
        }
        screen.contains("one | done") && screen.contains("two | done")
    });
    for name in ["one", "two"] {
        let label = format!("{name} | ");
        let lines = screen.lines().filter(|line| line.starts_with(&label));
        let lines: Vec<&str> = lines.filter(|line| !line.contains('[')).collect();
        // Enter ended the line of the cursor.
        assert_eq!(lines, last_state(&label), "{screen}");
    }
    assert!(!screen.contains('~'), "{screen}");
}

#[test]
fn without_a_terminal_a_display_is_shown_once_in_its_last_state() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    display(&server, "job");
    let (_, mut other) = pane(&server, "other");
    let socket = server.socket().display().to_string();
    let args = on(&socket, &["watch", "job", "other"]);
    let mut watch = Running::start(program(&args, data.path()));
    watch.wait_for("job | [watching");
    watch.wait_for("other | [watching");
    begin(&server, "job");
    server.wait_for_text("job", "a7b8: 5 of 20");
    // The display delays no other pane.
    write!(other, "hello\r\n").unwrap();
    watch.wait_for("other | hello");
    watch.wait_for("job | done");
    server.tmux(&["kill-session", "-t", "=job"]);
    server.tmux(&["kill-session", "-t", "=other"]);
    let shown = text(&watch.end().stdout);
    let is_line = |line: &&str| !line.contains('[');
    let lines: Vec<&str> = shown.lines().filter(is_line).collect();
    let mut wanted = last_state("job | ");
    wanted.insert(0, "other | hello".to_owned());
    assert_eq!(lines, wanted, "{shown}");
    for args in [
        &["log", "job"][..],
        &["export", "job", "--format", "text"],
        &["log", "job", "--follow"],
    ] {
        let label = if args[0] == "log" { "job | " } else { "" };
        let read = run(args, data.path());
        assert_code(&read, 0);
        let shown = text(&read.stdout);
        let lines: Vec<&str> = shown.lines().filter(is_line).collect();
        assert_eq!(lines, last_state(label), "{args:?}\n{shown}");
    }
    // A search also finds intermediate states.
    let found = run(&["log", "job", "--grep", "c3d4: 0 of"], data.path());
    assert_eq!(text(&found.stdout), "job | c3d4: 0 of 20\n");
}

#[test]
fn a_display_whose_first_state_was_shown_is_shown_again_when_it_has_settled() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let (job, mut terminal) = pane(&server, "job");
    let socket = server.socket().display().to_string();
    let mut watch = Running::start(program(&on(&socket, &["watch", "job"]), data.path()));
    watch.wait_for("watching");
    for row in ROWS {
        write!(terminal, "{row}: waiting\r\n").unwrap();
    }
    watch.wait_for("e5f6: waiting");
    for percent in 1..=10 {
        downloads(&mut terminal, percent * 10);
        server.wait_for_text(&job, &format!("e5f6: {} %", percent * 10));
    }
    write!(terminal, "done\r\n").unwrap();
    watch.wait_for("job | done");
    server.tmux(&["kill-session", "-t", "job"]);
    let shown = text(&watch.end().stdout);
    let lines: Vec<&str> = shown.lines().filter(|line| !line.contains('[')).collect();
    let wanted: Vec<String> = [("|", "waiting"), ("~", "100 %")]
        .iter()
        .flat_map(|(mark, state)| ROWS.map(|row| format!("job {mark} {row}: {state}")))
        .chain(["job | done".to_owned()])
        .collect();
    assert_eq!(lines, wanted, "{shown}");
}

#[test]
fn open_lines_below_the_cursor_survive_a_detach() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let (_, mut terminal) = pane(&server, "job");
    let socket = server.socket().display().to_string();
    let mut watch = Running::start(program(&on(&socket, &["watch", "job"]), data.path()));
    watch.wait_for("watching");
    write!(terminal, "Which one?\r\n\r\n  1. this\r\n  2. that\x1b[3A").unwrap();
    server.wait_for_text("job", "2. that");
    wait_for("the first of them in the log", CEILING, || {
        let shown = text(&run(&["log", "--json", "job"], data.path()).stdout);
        if shown.contains("Which one?") {
            Ok(())
        } else {
            Err(shown)
        }
    });
    watch.signal(Signal::INT);
    let watched = watch.end();
    assert_code(&watched, 0);
    let lines = "job | Which one?\njob |\njob |   1. this\njob |   2. that\n";
    let shown = text(&watched.stdout);
    assert!(shown.contains(lines), "{shown}");
    let shown = text(&run(&["log", "job"], data.path()).stdout);
    assert!(shown.contains(lines), "{shown}");
    let exported = run(&["export", "job", "--format", "text"], data.path());
    let shown = text(&exported.stdout);
    assert!(
        shown.contains("Which one?\n\n  1. this\n  2. that\n"),
        "{shown}"
    );
}

#[test]
fn a_watch_follows_its_session_through_a_rename() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let (_, mut terminal) = pane(&server, "old");
    pane(&server, "keeper");
    let socket = server.socket().display().to_string();
    let mut watch = Running::start(program(&on(&socket, &["watch", "old"]), data.path()));
    watch.wait_for("watching");
    server.tmux(&["rename-session", "-t", "=old", "new"]);
    watch.wait_for("[was called old]");
    write!(terminal, "after\r\n").unwrap();
    watch.wait_for("new | after");
    // Another session that takes the name is watched, too.
    let (_, mut other) = pane(&server, "old");
    watch.wait_for("old | [watching 1 pane]");
    write!(other, "another\r\n").unwrap();
    watch.wait_for("old | another");
    write!(terminal, "both\r\n").unwrap();
    watch.wait_for("new | both");
    server.tmux(&["kill-session", "-t", "=old"]);
    watch.wait_for("old | [ended: the session was closed]");
    write!(terminal, "still\r\n").unwrap();
    watch.wait_for("new | still");
    server.tmux(&["kill-session", "-t", "=new"]);
    let output = watch.end();
    assert_code(&output, 0);
    assert!(!text(&output.stdout).contains("keeper"));
}

#[test]
fn long_lines_are_wrapped_with_their_label() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let (_, mut terminal) = pane(&server, "job");
    let watcher = watch_on_terminal(&server, data.path(), 40, "job --color always");
    write!(terminal, "{}end\r\n", "0123456789".repeat(7)).unwrap();
    let screen = until_screen(&server, &watcher, "the line", |screen| {
        screen.contains("end")
    });
    let lines: Vec<&str> = screen.lines().skip(1).take(3).collect();
    assert_eq!(
        lines,
        [
            "job | 012345678901234567890123456789012",
            "job ┆ 345678901234567890123456789012345",
            "job ┆ 6789end",
        ],
        "{screen}"
    );
    let coloured = server.tmux(&["capture-pane", "-p", "-e", "-t", &watcher]);
    let starts: Vec<&str> = coloured
        .lines()
        .filter_map(|line| line.split_once("job").map(|(start, _)| start))
        .collect();
    assert!(starts.len() >= 4 && !starts[0].is_empty(), "{coloured:?}");
    assert!(
        starts.iter().all(|start| start.contains(starts[0])),
        "{coloured:?}"
    );
}
