//! The ends of the UI: the terminal is restored, and nothing is left behind.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;

use super::Stage;
use crate::cli::PROGRAM;
use crate::observer::{Home, signal};
use crate::process::pane::Typed;
use crate::support::{CEILING, TmuxServer, wait_for};

/// Starts the UI with its own observer of one session.
#[track_caller]
fn shown() -> Stage {
    shows_session("exec cat")
}

#[track_caller]
fn shows_session(program: &str) -> Stage {
    let mut stage = Stage::new();
    stage.home.server.new_session("job", 80, 24, program);
    stage.start((120, 30), "");
    stage.shows("output job %0");
    stage
}

#[test]
fn keys_and_signals_end_the_ui_cleanly() {
    let stage = shown();
    stage.keys(&["C-c"]);
    stage.ended(0);
    stage.left_nothing();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let stage = shown();
        stage.signal(signal);
        stage.ended(0);
        stage.left_nothing();
    }
}

#[test]
fn a_closed_terminal_ends_the_ui() {
    let stage = shown();
    stage.host.kill();
    stage.left_nothing();
}

#[test]
fn the_ui_can_be_suspended() {
    let mut typed = Typed::new(120, 30);
    let observed = TmuxServer::new();
    observed.new_session("job", 80, 24, "exec cat");
    let socket = observed.socket().display().to_string();
    // The whole job stops, also a script around the program.
    typed.line(&format!(
        "sh -c 'td-observe tui -S {socket}; echo over'; echo code=$?"
    ));
    for _ in 0..5 {
        typed.shows("output job %0");
        typed.key("C-z");
        typed.shows("Stopped");
        typed.is_at_the_prompt();
        assert_eq!(typed.format("#{alternate_on} #{cursor_flag}"), "0 1");
        typed.line("fg; echo end=$?");
    }
    typed.shows("output job %0");
    typed.key("l");
    typed.shows("logs job %0");
    typed.key("q");
    typed.shows("\nover\nend=0");
    typed.is_at_the_prompt();
    assert_eq!(typed.format("#{alternate_on} #{cursor_flag}"), "0 1");
}

#[test]
fn a_suspended_ui_ends_by_a_signal_and_leaves_the_terminal_to_the_shell() {
    let mut typed = Typed::new(120, 30);
    let observed = TmuxServer::new();
    observed.new_session("job", 80, 24, "exec cat");
    let socket = observed.socket().display().to_string();
    typed.line(&format!("td-observe tui -S {socket}"));
    typed.shows("output job %0");
    typed.key("C-z");
    typed.shows("Stopped");
    // In the background it waits until it is in the foreground again.
    typed.line("bg; echo code=$?");
    typed.shows("code=0");
    typed.line("kill %1; wait %1; echo over=$?");
    typed.shows("over=0");
    typed.is_at_the_prompt();
    assert_eq!(typed.format("#{alternate_on} #{cursor_flag}"), "0 1");
    typed.line("jobs; echo jobs=$?");
    typed.shows("jobs=0");
}

#[test]
fn the_ui_ends_although_its_pane_stays_attached() {
    let stage = shown();
    stage.keys(&["Enter"]);
    stage.until("the pane of job", |screen| {
        screen.contains("comes back") && !screen.contains("output job")
    });
    stage.signal(Signal::TERM);
    wait_for("the end of the client", CEILING, || {
        let clients = stage.home.server.tmux(&["list-clients"]);
        clients.is_empty().then_some(()).ok_or(clients)
    });
    stage.ended(0);
    stage.left_nothing();
}

#[test]
fn a_signal_during_a_long_jump_ends_the_ui_cleanly() {
    for signal in [Signal::TERM, Signal::HUP] {
        // Longer than the interval of the UI's checks of its threads, which is one second.
        let stage = shows_session("while read text; do sleep 1.2; echo slept $text; done");
        stage.keys(&["Enter"]);
        stage.until("the pane of job", |screen| {
            screen.contains("comes back") && !screen.contains("output job")
        });
        stage.types("well");
        stage.keys(&["Enter"]);
        stage.shows("slept well");
        stage.signal(signal);
        stage.ended(0);
        stage.left_nothing();
    }
}

/// A terminal that is not read, as after a lost connection.
#[test]
fn a_blocked_terminal_does_not_delay_the_end() {
    let home = Home::new();
    // Each frame is different, so that the terminal fills.
    let prints = "i=0; while :; do i=$((i+1)); echo $i $i $i $i $i $i $i $i $i; done";
    home.server.new_session("job", 80, 24, prints);
    let (pty, child_end) = pty_process::blocking::open().unwrap();
    pty.resize(pty_process::Size::new(50, 200)).unwrap();
    let socket = home.server.socket().display().to_string();
    let data = home.data().display().to_string();
    let mut ui = pty_process::blocking::Command::new(PROGRAM)
        .args(["tui", "-S", &socket])
        .env("TD_DATA_DIR", &data)
        .env("HOME", home.directory())
        .env("TERM", "xterm")
        .env_remove("TMUX")
        .spawn(child_end)
        .unwrap();
    let pid = ui.id();
    wait_for("a full terminal", CEILING, || {
        let path = format!("/proc/{pid}/fd/1");
        let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(path, flags, Mode::empty()).map_err(|_| "no terminal")?;
        let mut polled = [PollFd::new(&terminal, PollFlags::OUT)];
        let now = Timespec::default();
        match rustix::event::poll(&mut polled, Some(&now)) {
            Ok(0) => Ok(()),
            _ => Err("it takes more"),
        }
    });
    signal(pid, Signal::TERM);
    let status = wait_for("the end", CEILING, || {
        ui.try_wait().unwrap().ok_or("it still runs")
    });
    assert!(status.success(), "{status}");
}
