//! What the board does not know: panes that are not read yet, and what nothing observes any more.

use rustix::process::Signal;
use serde_json::Value;

use super::{Home, lives, signal};
use crate::cli::{assert_code, text};
use crate::support::{CEILING, TmuxServer, wait_for};

const ASKS: &str = "printf 'Do you want to proceed?\\n❯ 1. Yes\\n  2. No, and tell Claude what to do differently (esc)\\n'; exec sleep 1000";

fn row(home: &Home, name: &str) -> Value {
    let rows = home.rows();
    let found = rows.iter().find(|row| row["name"] == name);
    found.cloned().unwrap_or_else(|| panic!("{rows:#?}"))
}

#[test]
fn panes_are_unknown_until_they_are_read() {
    let home = Home::new();
    home.server.new_session("asks", 80, 24, ASKS);
    home.server.new_session("cat", 80, 24, "exec cat");
    // The machine may be busy for longer than a pane is read.
    wait_for("panes that are read", CEILING, || {
        home.start();
        let status = home.run(&["status"]);
        let check = home.run(&["status", "--check"]);
        home.wait_for_row("cat", |row| row["state"] == "running");
        home.run(&["stop"]);
        assert_code(&check, 4);
        let (table, stderr) = (text(&status.stdout), text(&status.stderr));
        let is_reading = table.contains("unknown") && stderr.contains("still reading ");
        is_reading.then_some(()).ok_or((table, stderr))
    });
}

#[test]
fn status_says_first_that_nothing_observes() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    let pid = home.start();
    let format = ["status", "--format", "{observer}"];
    assert_eq!(text(&home.run(&format).stdout), "observing\n");
    assert_code(&home.run(&["status", "--check"]), 0);
    for is_killed in [true, false] {
        if is_killed {
            signal(pid, Signal::KILL);
            lives::wait_for_end(&home);
        } else {
            home.start();
            assert_code(&home.run(&["stop"]), 0);
        }
        let status = home.run(&["status", "--check"]);
        assert_code(&status, 3);
        let stderr = text(&status.stderr);
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains("nothing observes"), "{stderr}");
        let names_dead = stderr.contains(&format!("pid {pid} has died"));
        assert_eq!(names_dead, is_killed, "{stderr}");
        assert_eq!(text(&home.run(&format).stdout), "nothing observes\n");
        assert!(text(&status.stdout).contains("not observed"), "{status:?}");
    }
}

#[test]
fn panes_that_go_on_without_an_observer_are_not_observed() {
    let (home, other) = (Home::new(), TmuxServer::new());
    home.server.new_session("build", 80, 24, "exec cat");
    home.server.new_session("short", 80, 24, "exec cat");
    other.new_session("keeper", 80, 24, "exec cat");
    home.start();
    let is_read = |row: &Value| row["state"] == "running";
    home.wait_for_row("short", is_read);
    let since = home.wait_for_row("build", is_read)["since"].clone();
    assert_code(&home.run(&["stop"]), 0);
    home.server.tmux(&["kill-session", "-t", "=short"]);
    let unobserved = |home: &Home| {
        let row = row(home, "build");
        assert_eq!(
            (&row["state"], &row["attention"]),
            (&"not_observed".into(), &"quiet".into())
        );
    };
    unobserved(&home);
    assert_eq!(row(&home, "short")["state"], "exited");
    // An observer of another server does not observe it, either.
    let socket = other.socket().display().to_string();
    assert_code(&home.run(&["start", "-S", &socket]), 0);
    unobserved(&home);
    assert_eq!(row(&home, "short")["state"], "exited");
    assert_code(&home.run(&["stop"]), 0);
    home.start();
    let row = home.wait_for_row("build", is_read);
    assert_eq!(row["since"], since);
    assert_code(&home.run(&["stop"]), 0);
    home.server.will_be_killed();
    home.server.kill();
    assert_eq!(self::row(&home, "build")["state"], "exited");
}

#[test]
fn commands_use_the_server_of_the_observer() {
    let home = Home::new();
    let other = TmuxServer::new();
    home.server.new_session("build", 80, 24, "exec cat");
    home.start();
    // A later session of this name, of another server.
    other.new_session("build", 80, 24, "exec cat");
    let socket = other.socket().display().to_string();
    let mut later = crate::cli::Running::start(home.command(&["watch", "-S", &socket]));
    later.wait_for("watching 1 pane");
    home.server
        .tmux(&["send-keys", "-t", "=build:", "mine", "Enter"]);
    home.wait_for_row("build", |row| row["last_line"] == "mine");
    let log = text(&home.run(&["log", "build"]).stdout);
    assert!(log.contains("mine"), "{log}");
    later.signal(Signal::INT);
    assert_code(&later.end(), 0);
    // The default server is not running.
    let wait = home.run(&["wait", "build", "--idle", "100ms", "--timeout", "20s"]);
    assert_code(&wait, 0);
    let mut watch = crate::cli::Running::start(home.command(&["watch", "build"]));
    watch.wait_for("watching 1 pane");
    home.server.tmux(&["kill-session", "-t", "=build"]);
    assert_code(&watch.end(), 0);
}

#[test]
fn a_command_is_run_at_changes_only_unless_the_present_states_are_asked_for() {
    let home = Home::new();
    home.server.new_session("asks", 80, 24, ASKS);
    let later = "read line; sleep 1.5; ".to_owned() + ASKS;
    home.server.new_session("later", 80, 24, &later);
    let pid = home.start();
    home.wait_for_row("asks", |row| row["state"] == "waiting");
    for is_now in [false, true] {
        let file = home.directory().join(format!("told{is_now}"));
        let on_state = format!("waiting=echo \"$TD_SESSION\" >> {}", file.display());
        let mut args = vec!["watch", "-v", "--on-state", &on_state];
        args.extend(is_now.then_some("--now"));
        let mut watch = crate::cli::Running::start(home.command(&args));
        watch.wait_for("asks | [claude waits");
        let told = |expected: &[&str]| {
            wait_for("the commands", CEILING, || {
                let told = std::fs::read_to_string(&file).unwrap_or_default();
                let told: Vec<String> = told.lines().map(str::to_owned).collect();
                (told == expected).then_some(()).ok_or(told)
            });
        };
        if is_now {
            // The agent has asked in both.
            wait_for("the commands", CEILING, || {
                let told = std::fs::read_to_string(&file).unwrap_or_default();
                (told.lines().count() == 2).then_some(()).ok_or(told)
            });
        } else {
            home.server
                .tmux(&["send-keys", "-t", "=later:", "", "Enter"]);
            told(&["later"]);
        }
        watch.signal(Signal::INT);
        let output = watch.end();
        assert_code(&output, 0);
        let stderr = text(&output.stderr);
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains(&format!("(pid {pid})")), "{stderr}");
    }
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn the_service_has_the_variables_that_choose_its_files() {
    let home = Home::new();
    let mut show = home.command(&["service", "show"]);
    show.env("TD_CONFIG", "/srv/100%/a b.toml")
        .env("XDG_CONFIG_HOME", "")
        .env("TD_TOKEN", "secret");
    let unit = text(&crate::cli::Running::start(show).end().stdout);
    let set = unit.lines().filter(|line| line.starts_with("Environment="));
    let set: Vec<&str> = set.collect();
    let expected = [
        "Environment=MALLOC_ARENA_MAX=2".to_owned(),
        format!("Environment=\"TD_DATA_DIR={}\"", home.data().display()),
        "Environment=\"TD_CONFIG=/srv/100%%/a b.toml\"".to_owned(),
        format!(
            "Environment=\"TMUX_TMPDIR={}\"",
            home.server.directory().display()
        ),
    ];
    assert_eq!(set, expected, "{unit}");
}

#[test]
fn the_end_of_an_observation_is_shown_once_after_restarts() {
    let home = Home::new();
    home.server.new_session("work", 80, 24, "exec cat");
    for _ in 0..3 {
        home.start();
        home.wait_for_row("work", |row| row["state"] == "running");
        assert_code(&home.run(&["stop"]), 0);
    }
    let log = home.run(&["log", "work"]);
    let shown = text(&log.stdout);
    let end = "[ended: it is no longer observed]";
    assert_eq!(shown.matches(end).count(), 1, "{shown}");
    assert!(shown.trim_end().ends_with(end), "{shown}");
}
