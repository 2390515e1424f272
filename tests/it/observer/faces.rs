//! Faces beside an observer, also when it ends: `status`, `log`, `watch`, `service`.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::Home;
use crate::cli::{Running, assert_code, text};
use crate::support::{CEILING, TmuxServer, wait_for};

#[test]
fn the_observer_ends_when_its_data_directory_is_removed() {
    for is_replaced in [false, true] {
        let home = Home::new();
        home.server.new_session("build", 80, 24, "exec cat");
        let socket = home.server.socket().display().to_string();
        let start = home.command(&["start", "--foreground", "-S", &socket]);
        let mut observer = Running::start(start);
        observer.wait_for("observing");
        if is_replaced {
            std::fs::rename(home.data(), home.data().with_extension("moved")).unwrap();
            std::fs::create_dir(home.data()).unwrap();
            std::fs::write(home.data().join("observer.json"), "another's").unwrap();
        } else {
            std::fs::remove_dir_all(home.data()).unwrap()
        }
        let ended = observer.end();
        assert_code(&ended, 1);
        let stderr = text(&ended.stderr);
        let lines = stderr
            .lines()
            .filter(|line| line.contains("removed or replaced"));
        assert_eq!(lines.count(), 1, "{stderr}");
        assert_eq!(home.data().join("observer.json").exists(), is_replaced);
        if is_replaced {
            std::fs::remove_file(home.data().join("observer.json")).unwrap();
        }
        // The next observer works.
        home.start();
        home.wait_for_row("build", |row| row["state"] == "running");
        assert_code(&home.run(&["stop"]), 0);
    }
}

#[test]
fn a_watched_board_ends_with_its_reader() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    for is_observed in [true, false] {
        if is_observed {
            home.start();
        } else {
            assert_code(&home.run(&["stop"]), 0);
        }
        let mut status = home.command(&["status", "--watch"]);
        let mut status = status
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut shown = BufReader::new(status.stdout.take().unwrap());
        shown.read_line(&mut line).unwrap();
        assert!(line.starts_with("NAME"), "{line}");
        drop(shown);
        // Nothing changes on the board.
        let ended = wait_for("its end", CEILING, || {
            status.try_wait().unwrap().ok_or("it still runs")
        });
        assert!(ended.success(), "{ended}");
    }
}

#[test]
fn a_quiet_watch_of_the_board_prints_nothing() {
    let home = Home::new();
    let mut status = home.command(&["status", "--watch", "-q"]);
    status.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut status = status.spawn().unwrap();
    let mut messages = BufReader::new(status.stderr.take().unwrap());
    let mut message = String::new();
    // The table would follow this message, before the next check for a signal.
    messages.read_line(&mut message).unwrap();
    assert!(message.contains("no observer runs"), "{message}");
    kill_process(Pid::from_child(&status), Signal::INT).unwrap();
    let ended = status.wait_with_output().unwrap();
    assert_code(&ended, 0);
    assert_eq!(text(&ended.stdout), "");
}

#[test]
fn panes_of_several_servers_are_shown_with_their_servers() {
    let (home, other) = (Home::new(), TmuxServer::new());
    home.server.new_session("build", 80, 24, "exec cat");
    other.new_session("build", 80, 24, "exec cat");
    let sockets = [&home.server, &other].map(|server| server.socket().display().to_string());
    home.start();
    let table = text(&home.run(&["status"]).stdout);
    assert!(table.contains("\nbuild  "), "{table}");
    assert_code(&home.run(&["stop"]), 0);

    home.start_with(&["-S", &sockets[1]]);
    for is_observed in [true, false] {
        let rows = home.rows();
        let mut servers: Vec<&str> = rows
            .iter()
            .filter_map(|row| row["server"].as_str())
            .collect();
        servers.sort_unstable();
        let mut expected: Vec<&str> = sockets.iter().map(String::as_str).collect();
        expected.sort_unstable();
        assert_eq!(servers, expected, "{rows:#?}");
        let table = text(&home.run(&["status"]).stdout);
        for socket in &sockets {
            let name = socket.rsplit('/').next().unwrap();
            // The width of the column is limited.
            let shown: String = format!("{name}:build").chars().take(20).collect();
            assert!(table.contains(&shown), "{shown}: {table}");
            let target = format!("{name}:build");
            let one = text(&home.run(&["status", "--json", &target]).stdout);
            assert_eq!(one.lines().count(), 1, "{one}");
            assert!(one.contains(socket.as_str()), "{one}");
        }
        let both = text(&home.run(&["status", "--json", "build"]).stdout);
        assert_eq!(both.lines().count(), 2, "{both}");
        if is_observed {
            assert_code(&home.run(&["stop"]), 0);
        }
    }
}

#[test]
fn a_log_is_followed_across_observers() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    home.server.new_session("short", 80, 24, "exec cat");
    home.server.new_session("keeper", 80, 24, "exec cat");
    home.start();
    let mut build = Running::start(home.command(&["log", "-f", "build"]));
    let short = Running::start(home.command(&["log", "-f", "short"]));
    home.server
        .tmux(&["send-keys", "-t", "build", "before", "Enter"]);
    build.wait_for("before");
    assert_code(&home.run(&["stop"]), 0);
    // A session that ends while no observer runs is not continued.
    home.server.tmux(&["kill-session", "-t", "short"]);
    home.start();
    assert_code(&short.end(), 0);
    home.server
        .tmux(&["send-keys", "-t", "build", "after", "Enter"]);
    build.wait_for("after");
    // A kill of the observer does not end the follower, but the session's end does.
    super::signal(home.pid(), Signal::KILL);
    super::lives::wait_for_end(&home);
    home.start();
    home.server
        .tmux(&["send-keys", "-t", "build", "at last", "Enter"]);
    build.wait_for("at last");
    home.server.tmux(&["kill-session", "-t", "build"]);
    let output = build.end();
    assert_code(&output, 0);
    let shown = text(&output.stdout);
    for line in ["before", "after"] {
        // The echo and the program's output.
        assert_eq!(shown.matches(line).count(), 2, "{shown}");
    }
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_run_is_found_by_the_new_name_of_its_session() {
    let home = Home::new();
    home.server.new_session("old", 80, 24, "exec cat");
    home.start();
    home.server
        .tmux(&["send-keys", "-t", "old", "hello", "Enter"]);
    home.wait_for_row("old", |row| row["last_line"] == "hello");
    home.server.tmux(&["rename-session", "-t", "old", "new"]);
    home.wait_for_row("new", |_| true);
    for name in ["new", "old", "ne*"] {
        let log = wait_for(name, CEILING, || {
            let log = home.run(&["log", name]);
            (log.status.success())
                .then_some(text(&log.stdout))
                .ok_or(log)
        });
        assert!(log.contains("hello"), "{name}: {log}");
    }
    assert_code(&home.run(&["stop"]), 0);
    assert_code(&home.run(&["log", "new"]), 0);
    // A new session with the old name is another run.
    home.server.new_session("old", 80, 24, "exec cat");
    home.start();
    home.wait_for_row("old", |row| row["state"] == "running");
    let log = home.run(&["log", "old"]);
    assert_code(&log, 0);
    assert!(!text(&log.stdout).contains("hello"), "{log:?}");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn options_that_have_no_effect_beside_an_observer_are_named() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    home.start();
    let socket = home.server.socket().display().to_string();
    let mut watch = Running::start(home.command(&["watch", "--no-log", "-S", &socket]));
    watch.wait_for("watching");
    watch.signal(Signal::INT);
    let output = watch.end();
    assert_code(&output, 0);
    let stderr = text(&output.stderr);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.contains("--no-log") && stderr.contains(&home.pid().to_string()),
        "{stderr}"
    );
    assert_code(&home.run(&["stop"]), 0);
    let unit = text(
        &home
            .run(&["service", "show", "--agents", "/srv/a b", "--agents", "/c"])
            .stdout,
    );
    assert!(
        unit.contains(" --agents \"/srv/a b\" --agents \"/c\""),
        "{unit}"
    );
}

#[test]
fn status_reads_a_directory_that_it_cannot_write() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    home.start();
    let data = home.data();
    let set_mode = |directory: u32, file: u32| {
        for name in ["observer.lock", "observer.json"] {
            let mode = PermissionsExt::from_mode(file);
            // The announcement exists while an observer runs.
            let _ = std::fs::set_permissions(data.join(name), mode);
        }
        std::fs::set_permissions(&data, PermissionsExt::from_mode(directory)).unwrap();
    };
    for is_observed in [true, false] {
        set_mode(0o500, 0o400);
        let status = home.command(&["status", "--json"]);
        // The superuser can write everywhere unless the capability is dropped.
        let mut limited = Command::new("setpriv");
        limited.args(["--bounding-set=-dac_override", "--inh-caps=-dac_override"]);
        let mut status = if rustix::process::geteuid().is_root() {
            limited.arg(status.get_program()).args(status.get_args());
            for (name, value) in status.get_envs() {
                match value {
                    Some(value) => limited.env(name, value),
                    None => limited.env_remove(name),
                };
            }
            limited
        } else {
            status
        };
        let output = status.output().unwrap();
        set_mode(0o700, 0o600);
        assert_code(&output, 0);
        assert!(text(&output.stdout).contains("build"), "{output:?}");
        if is_observed {
            assert_code(&home.run(&["stop"]), 0);
        }
    }
}

#[test]
fn a_table_in_a_pipe_is_as_wide_as_columns_says() {
    let home = Home::new();
    home.server.new_session("keeper", 80, 24, "exec cat");
    home.start();
    let words = "printf 'word %.0s' $(seq 60); echo; exec cat";
    home.server.new_session("build", 80, 24, words);
    home.wait_for_row("build", |row| row["last_line"] != "");
    for (columns, width) in [
        (Some("60"), 60),
        (Some("0"), 20),
        (Some("?"), 120),
        (None, 120),
    ] {
        let mut status = home.command(&["status"]);
        match columns {
            Some(columns) => status.env("COLUMNS", columns),
            None => status.env_remove("COLUMNS"),
        };
        let shown = text(&status.output().unwrap().stdout);
        let longest = shown.lines().map(|line| line.chars().count()).max();
        assert!(
            longest.is_some_and(|it| it <= width && it + 8 > width),
            "{columns:?}: {shown}"
        );
    }
    assert_code(&home.run(&["stop"]), 0);
}
