//! Starts and ends of the observer: signals, kills, two starts at once, and faces that outlive it.

use std::os::unix::net::UnixListener;

use rustix::process::Signal;

use super::{Home, request, signal};
use crate::cli::{Running, assert_code, text};
use crate::support::{CEILING, TmuxServer, wait_for};

#[track_caller]
pub fn wait_for_end(home: &Home) {
    wait_for("the end of the observer", CEILING, || {
        let status = home.run(&["status", "-q"]);
        let is_over = text(&status.stderr).contains("no observer runs");
        is_over.then_some(()).ok_or(status)
    });
}

#[track_caller]
fn states_of_runs(home: &Home) -> Vec<String> {
    let runs = text(&home.run(&["runs", "--json"]).stdout);
    let runs = runs.lines().map(|line| {
        let run: serde_json::Value = serde_json::from_str(line).unwrap();
        run["state"].as_str().unwrap().to_owned()
    });
    runs.collect()
}

#[test]
fn each_signal_ends_the_observer_cleanly() {
    for signals in [
        &[Signal::TERM][..],
        &[Signal::INT],
        &[Signal::HUP],
        &[Signal::HUP, Signal::HUP],
        &[Signal::TERM, Signal::HUP, Signal::TERM],
        &[Signal::INT, Signal::INT],
    ] {
        let home = Home::new();
        home.server.new_session("build", 80, 24, "exec cat");
        let pid = home.start();
        for of in signals {
            signal(pid, *of);
        }
        wait_for_end(&home);
        wait_for("the end of its run", CEILING, || {
            let states = states_of_runs(&home);
            (states == ["detached"]).then_some(()).ok_or(states)
        });
        assert!(!home.data().join("observer.json").exists(), "{signals:?}");
    }
}

#[test]
fn an_observer_that_was_killed_and_still_has_its_lock_does_not_run() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    let killed = home.start();
    let announced = home.data().join("observer.json");
    let announcement = std::fs::read_to_string(&announced).unwrap();
    assert_code(&home.run(&["stop"]), 0);

    // What the kernel leaves of a process that is killed, until it is taken apart.
    std::fs::write(&announced, &announcement).unwrap();
    let lock = std::fs::File::open(home.data().join("observer.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let known: serde_json::Value = serde_json::from_str(&announcement).unwrap();
    let socket = UnixListener::bind(known["socket"].as_str().unwrap()).unwrap();
    let ends = std::thread::spawn(move || {
        let asked = socket.accept().unwrap();
        drop((asked, socket, lock));
    });
    let started = home.start();
    assert_ne!(started, killed);
    ends.join().unwrap();
    assert_code(&home.run(&["status"]), 0);
}

#[test]
fn the_observer_outlives_the_terminal_that_started_it() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    let others = TmuxServer::new();
    let command = home.command(&["start", "-S", &home.server.socket().display().to_string()]);
    let mut line = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            line.push_str(&format!(
                "export {}='{}'; ",
                name.display(),
                value.display()
            ));
        }
    }
    line.push_str("unset TMUX TMUX_PANE; ");
    line.push_str(&format!("'{}'", command.get_program().display()));
    for arg in command.get_args() {
        line.push_str(&format!(" '{}'", arg.display()));
    }
    others.new_session("terminal", 80, 24, &format!("{line}; exec cat"));
    wait_for("the observer", CEILING, || {
        home.data()
            .join("observer.json")
            .exists()
            .then_some(())
            .ok_or(())
    });
    others.tmux(&["kill-server"]);
    home.server
        .tmux(&["send-keys", "-t", "build", "after", "Enter"]);
    home.wait_for_row("build", |row| row["last_line"] == "after");
    assert_code(&home.run(&["stop"]), 0);
    assert_eq!(states_of_runs(&home), ["detached"]);
}

#[test]
fn relative_paths_are_relative_to_the_directory_of_the_start() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    let socket = home.server.socket();
    let name = socket.file_name().unwrap().to_str().unwrap();
    let mut start = home.command(&["start", "-S", &format!("./{name}"), "--data-dir", "kept"]);
    start.current_dir(socket.parent().unwrap());
    assert_code(&Running::start(start).end(), 0);
    let data = socket.parent().unwrap().join("kept");
    let data = data.display().to_string();
    let status = home.run(&["status", "--json", "--data-dir", &data]);
    assert!(text(&status.stdout).contains("build"), "{status:#?}");
    assert_code(&home.run(&["stop", "--data-dir", &data]), 0);
}

#[test]
fn the_observer_runs_although_its_terminal_closes_during_the_start() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    let socket = home.server.socket().display().to_string();
    // Writing to it fails, as to a closed terminal.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = home.command(&["start", "--foreground", "-S", &socket]);
    let mut observer = command.stdout(writer).spawn().unwrap();
    drop(command);
    home.wait_for_row("build", |row| row["state"] == "running");
    home.server
        .tmux(&["send-keys", "-t", "build", "after", "Enter"]);
    home.wait_for_row("build", |row| row["last_line"] == "after");
    // Not HUP, which is ignored if the tests run under nohup.
    signal(observer.id(), Signal::TERM);
    let status = wait_for("the end of the observer", CEILING, || {
        observer.try_wait().unwrap().ok_or(())
    });
    assert!(status.success(), "{status}");
    assert_eq!(states_of_runs(&home), ["detached"]);
}

#[test]
fn only_one_of_two_simultaneous_starts_observes() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    let socket = home.server.socket().display().to_string();
    let starts = [0; 4].map(|_| Running::start(home.command(&["start", "-S", &socket])));
    let pids: Vec<String> = starts
        .into_iter()
        .map(|start| {
            let output = start.end();
            assert_code(&output, 0);
            let line = text(&output.stdout);
            line.split("pid ")
                .nth(1)
                .unwrap()
                .split(',')
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    assert_eq!(home.rows().len(), 1);
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn after_a_kill_the_next_observer_continues_and_faces_reconnect() {
    let home = Home::new();
    // Ends by itself, so that a watch that misses its text ends, too.
    let counts = "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); echo line-$i; sleep 0.02; done";
    home.server.new_session("count", 80, 24, counts);
    let pid = home.start();
    let socket = home.server.socket().display().to_string();
    let mut watch = Running::start(home.command(&["watch", "--json", "-S", &socket]));
    watch.wait_for("line-");
    signal(pid, Signal::KILL);
    wait_for_end(&home);
    assert_ne!(home.start(), pid);
    home.wait_for_row("count", |row| row["state"] == "running");
    // Later output reaches the watch that was started before.
    home.server
        .new_session("later", 80, 24, "read go; echo after-the-kill; exec cat");
    home.wait_for_row("later", |row| row["state"] == "running");
    home.server.tmux(&["send-keys", "-t", "later", "Enter"]);
    watch.wait_for("after-the-kill");
    watch.signal(Signal::INT);
    let output = watch.end();
    assert_code(&output, 0);

    // Each line once and in order, except where a gap is reported.
    let mut last = 0;
    let mut gaps = 0;
    for line in text(&output.stdout).lines() {
        let envelope: serde_json::Value = serde_json::from_str(line).unwrap();
        gaps += i32::from(envelope["event"]["type"] == "OutputGap");
        let chunk = envelope["event"]["chunk"].as_str().unwrap_or_default();
        for number in chunk.lines().filter_map(|line| line.strip_prefix("line-")) {
            let number: i64 = number.parse().unwrap();
            assert!(
                number == last + 1 || last == 0 || gaps > 0,
                "{last} {number}"
            );
            assert!(number > last, "{last} {number}");
            last = number;
        }
    }
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn watch_shows_the_events_of_the_observer() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    home.server.new_session("other", 80, 24, "exec cat");
    home.start();
    let socket = home.server.socket().display().to_string();
    let refused = home.run(&["watch", "-S", &socket, "--interval", "1s"]);
    assert_code(&refused, 2);
    assert!(text(&refused.stderr).contains("--interval"), "{refused:?}");
    let mut watch = Running::start(home.command(&["watch", "-S", &socket, "build"]));
    watch.wait_for("build");
    home.server
        .tmux(&["send-keys", "-t", "other", "not this", "Enter"]);
    home.server
        .tmux(&["send-keys", "-t", "build", "but this", "Enter"]);
    watch.wait_for("but this");
    // The watch ends with its target.
    home.server.tmux(&["kill-session", "-t", "build"]);
    let output = watch.end();
    assert_code(&output, 0);
    assert!(!text(&output.stdout).contains("not this"), "{output:?}");
    // There is one writer, the observer.
    wait_for("the end of the run", CEILING, || {
        let runs = states_of_runs(&home);
        let running = runs.iter().filter(|state| *state == "running").count();
        (runs.len() == 2 && running == 1).then_some(()).ok_or(runs)
    });
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn watch_beside_the_observer_takes_windows_and_follows_a_rename() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    home.server
        .tmux(&["new-window", "-d", "-t", "=build:7", "exec cat"]);
    home.start();
    let socket = home.server.socket().display().to_string();
    let watch = |target: &str| {
        let mut watch = Running::start(home.command(&["watch", "-S", &socket, target]));
        watch.wait_for("build");
        watch
    };
    let mut window = watch("build:7");
    let mut session = watch("build");
    // A window that does not exist yet is awaited, from the moment at which the observer has a third stream.
    let mut later = Running::start(home.command(&["watch", "-S", &socket, "build:9"]));
    wait_for("the third stream", CEILING, || {
        let head = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let metrics = request(&home.socket(), head);
        let has_three = metrics.contains("\ntd_observe_streams 3\n");
        has_three.then_some(()).ok_or(metrics)
    });
    home.server
        .tmux(&["send-keys", "-t", "=build:0", "not this", "Enter"]);
    home.server
        .tmux(&["send-keys", "-t", "=build:7", "but this", "Enter"]);
    window.wait_for("but this");
    home.server
        .tmux(&["new-window", "-d", "-t", "=build:9", "exec cat"]);
    home.server
        .tmux(&["send-keys", "-t", "=build:9", "a late one", "Enter"]);
    later.wait_for("a late one");
    home.server
        .tmux(&["rename-session", "-t", "=build", "made"]);
    home.server
        .tmux(&["send-keys", "-t", "=made:0", "after the rename", "Enter"]);
    session.wait_for("after the rename");
    // Each watch ends with its target.
    for (ending, watch) in [("=made:7", window), ("=made:9", later)] {
        home.server.tmux(&["kill-window", "-t", ending]);
        let output = watch.end();
        assert_code(&output, 0);
        let shown = text(&output.stdout);
        assert!(
            !shown.contains("not this") && !shown.contains("rename"),
            "{shown}"
        );
    }
    home.server.tmux(&["kill-session", "-t", "=made"]);
    assert_code(&session.end(), 0);
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_watch_takes_over_the_runs_of_an_observer_that_ends() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    let socket = home.server.socket().display().to_string();
    // With hooks, a watch observes by itself.
    let mut watch = Running::start(home.command(&["watch", "-S", &socket, "--on-end", "true"]));
    watch.wait_for("build");
    home.start();
    let owner = || {
        let path = home
            .data()
            .join("runs")
            .read_dir()
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let text = std::fs::read(path.join("metadata.json")).unwrap();
        let metadata: serde_json::Value = serde_json::from_slice(&text).unwrap();
        metadata["pid"].as_u64().unwrap()
    };
    assert_ne!(owner(), u64::from(home.pid()));
    home.server
        .tmux(&["send-keys", "-t", "build", "kept before", "Enter"]);
    watch.wait_for("kept before");
    watch.signal(Signal::INT);
    assert_code(&watch.end(), 0);
    wait_for("the new owner", CEILING, || {
        (owner() == u64::from(home.pid()))
            .then_some(())
            .ok_or(owner())
    });
    home.server
        .tmux(&["send-keys", "-t", "build", "kept now", "Enter"]);
    home.wait_for_row("build", |row| row["last_line"] == "kept now");
    assert_code(&home.run(&["stop"]), 0);
    let log = text(&home.run(&["log", "build"]).stdout);
    // The echo and the program's output.
    assert_eq!(log.matches("kept now").count(), 2, "{log}");
}
