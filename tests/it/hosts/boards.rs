//! The boards of several hosts as one: what each host has, what keeps one away, and what is left there.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::world::{Place, World};
use crate::cli::{Running, assert_code, text};
use crate::observer::signal;
use crate::support::{CEILING, wait_for};

/// The time within which a silent host is unreachable.
const SILENT: Duration = Duration::from_secs(15);

#[track_caller]
fn rows(output: &Output) -> Vec<Value> {
    let lines = text(&output.stdout);
    let rows = lines.lines().map(serde_json::from_str);
    rows.collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Returns the rows of a host; that of this machine is `None`.
fn of<'a>(rows: &'a [Value], host: Option<&str>) -> Vec<&'a Value> {
    let is_of = |row: &&Value| row["host"].as_str() == host;
    rows.iter().filter(is_of).collect()
}

/// Returns `--host a --host b` for these names, behind the first words.
fn args<'a>(first: &[&'a str], hosts: &[&'a str]) -> Vec<&'a str> {
    let hosts = hosts.iter().flat_map(|host| ["--host", host]);
    first.iter().copied().chain(hosts).collect()
}

/// Returns the one row of a host that is not read.
#[track_caller]
fn unreachable(rows: &[Value], host: &str) -> String {
    let found = of(rows, Some(host));
    let [row] = found[..] else {
        panic!("not one row of {host}: {rows:#?}")
    };
    assert_eq!(
        (&row["kind"], &row["state"], &row["attention"]),
        (&"host".into(), &"unreachable".into(), &"needs_you".into()),
        "{row}"
    );
    row["last_line"].as_str().unwrap().to_owned()
}

#[test]
fn three_hosts_are_on_one_board_beside_this_one() {
    let Some(world) = World::of_three() else {
        return;
    };
    world.start_observers();
    world.local.server.new_session("here", 80, 24, "exec cat");
    world.local.start();
    let all = ["local", "a", "b", "c"];
    let status = world.run(&args(&["status", "--json"], &all));
    assert_code(&status, 0);
    let found = rows(&status);
    assert_eq!(found.len(), 4, "{found:#?}");
    for host in ["a", "b", "c"] {
        let of_host = of(&found, Some(host));
        assert_eq!(of_host.len(), 1, "{found:#?}");
        assert_eq!(of_host[0]["name"], "work", "{found:#?}");
        let id = of_host[0]["id"].as_str().unwrap();
        assert!(id.starts_with(&format!("{host}/work@")), "{id}");
    }
    assert_eq!(of(&found, None)[0]["name"], "here", "{found:#?}");
    let table = world.run(&args(&["status"], &all));
    let table = text(&table.stdout);
    for host in ["a", "b", "c"] {
        assert!(
            table
                .lines()
                .any(|line| line.contains("work") && line.contains(host)),
            "{table}"
        );
    }
}

#[test]
fn a_silent_host_is_unreachable_in_time_and_holds_up_nobody() {
    let Some(world) = World::of_three() else {
        return;
    };
    world.start_observers();
    world.host("a").link.silence();
    let began = Instant::now();
    let status = world.run(&args(&["status", "--json"], &["a", "b", "c"]));
    let took = began.elapsed();
    eprintln!("a board with a silent host took {took:?}");
    assert!(took <= SILENT, "{took:?}");
    let found = rows(&status);
    let why = unreachable(&found, "a");
    assert!(
        why.contains("does not answer") || why.contains("timed out"),
        "{why}"
    );
    for host in ["b", "c"] {
        assert_eq!(of(&found, Some(host))[0]["name"], "work", "{found:#?}");
    }
}

#[test]
fn each_reason_why_a_host_is_not_read_is_one_row_with_its_remedy() {
    let old = "#!/bin/sh\necho \"error: unexpected argument '--print-socket' found\" >&2\nexit 2\n";
    let places = [
        Place::near("none").without_program(),
        Place::near("old").without_program(),
        Place::near("key").with_sshd("AuthorizedKeysFile none"),
        Place::near("asks")
            .with_sshd("AuthorizedKeysFile none")
            .with_sshd("PasswordAuthentication yes"),
        Place::near("idle"),
        Place::near("talks"),
        Place::near("fine"),
    ];
    let Some(world) = World::new(&places) else {
        return;
    };
    world.host("old").write_program("td-observe", old);
    fs::write(world.host("talks").home.join(".bashrc"), "echo hello").unwrap();
    world
        .host("fine")
        .server
        .new_session("work", 80, 24, "exec cat");
    world.start_observer("fine");
    world
        .host("talks")
        .server
        .new_session("work", 80, 24, "exec cat");
    world.host("talks").start_observer();
    // The same host under a name whose key nobody has checked.
    let address = world.host("fine").link.far_address();
    let stranger = format!("Host stranger\n  HostName {address}\n  HostKeyAlias stranger");
    world.prepend_ssh_config(&stranger);
    let names = [
        "none", "old", "key", "asks", "idle", "talks", "fine", "nowhere", "stranger",
    ];
    let status = world.run(&args(&["status", "--json"], &names));
    let found = rows(&status);
    for (host, words) in [
        ("none", ["not found", "command"]),
        ("old", ["too old", "update"]),
        ("key", ["Permission denied", "without a password"]),
        ("asks", ["Permission denied", "without a password"]),
        ("idle", ["no observer runs", "--start"]),
        ("nowhere", ["nowhere", ""]),
        ("stranger", ["Host key verification failed", "by hand"]),
    ] {
        let why = unreachable(&found, host);
        assert!(words.iter().all(|word| why.contains(word)), "{host}: {why}");
    }
    // What a shell prints first is no answer, and does not hide it.
    for host in ["talks", "fine"] {
        assert_eq!(of(&found, Some(host))[0]["name"], "work", "{found:#?}");
    }
    assert_eq!(found.len(), names.len(), "{found:#?}");
}

#[test]
fn a_host_with_a_full_disk_says_so() {
    let places = [
        Place::near("full").with_disk("size=1m"),
        Place::near("other"),
    ];
    let Some(world) = World::new(&places) else {
        return;
    };
    let full = world.host("full");
    world.start_observers();
    fs::write(full.data().join("filler"), vec![0; 1 << 20]).unwrap_err();
    full.server.new_session("late", 80, 24, "exec cat");
    wait_for("the report", CEILING, || {
        let status = world.run(&args(&["status"], &["full", "other"]));
        let said = text(&status.stderr);
        let is_said = said.contains("full") && said.contains("No space left");
        let shown = text(&status.stdout);
        (is_said && shown.contains("late") && shown.contains("other"))
            .then_some(())
            .ok_or(status)
    });
}

#[test]
fn a_host_that_ssh_would_take_for_an_option_is_refused() {
    let Some(world) = World::new(&[Place::near("a")]) else {
        return;
    };
    let trap = world.local.directory().join("trap");
    let host = format!("-oProxyCommand=touch {}", trap.display());
    for face in [
        &["status"][..],
        &["log", "-f"],
        &["watch"],
        &["wait", "x", "--idle", "1s"],
        &["serve"],
        &["mcp"],
        &["tui"],
    ] {
        let option = format!("--host={host}");
        let refused = world.run(&[face, &[&option]].concat());
        assert_code(&refused, 2);
        assert!(
            text(&refused.stderr).contains("begin with '-'"),
            "{refused:?}"
        );
    }
    let other = format!("a/$(touch {})", trap.display());
    assert_code(&world.run(&["status", "--host", &other]), 2);
    assert!(!trap.exists());
}

#[test]
fn names_that_shells_would_run_are_names() {
    let Some(world) = World::new(&[Place::near("a")]) else {
        return;
    };
    let host = world.host("a");
    let trap = format!("td-trap-{}", std::process::id());
    let names = [
        format!("$(touch {trap})"),
        format!("`touch {trap}`"),
        format!("a;touch {trap}"),
        format!("a' && touch {trap} && 'b"),
        "-x 'y\" z".to_owned(),
    ];
    for name in &names {
        host.server.new_session(name, 80, 24, "exec cat");
    }
    world.start_observer("a");
    // A login begins in the home directory that the system knows.
    let homes = [
        &host.home,
        world.local.directory(),
        Path::new("/root"),
        Path::new("."),
    ];
    let is_touched = || homes.iter().any(|home| home.join(&trap).exists());
    let found = rows(&world.run(&["status", "--json", "--host", "a"]));
    for name in &names {
        let row = found.iter().find(|row| row["name"] == **name);
        let row = row.unwrap_or_else(|| panic!("no {name}: {found:#?}"));
        let id = row["execution_id"].as_str().unwrap();
        let one = world.run(&["status", "--json", "--host", "a", "--", id]);
        assert_eq!(rows(&one).len(), 1, "{one:?}");
        assert!(!is_touched(), "{name}");
    }
}

#[test]
fn nothing_is_left_on_a_host_after_the_last_face() {
    let Some(world) = World::of_three() else {
        return;
    };
    world.start_observers();
    let all = || -> Vec<_> {
        world
            .hosts()
            .map(|host| (host.processes(), host.files()))
            .collect()
    };
    // A host's files change while its observer runs, but not which ones there are.
    let before = all();
    let status = world.run(&args(&["status"], &["a", "b", "c"]));
    assert_code(&status, 0);
    let is_as_before = || {
        let now = (all(), world.all_ssh_clients());
        (now.0 == before && now.1.is_empty())
            .then_some(())
            .ok_or(now)
    };
    wait_for("the hosts to be as before", CEILING, is_as_before);
    for by in [Signal::TERM, Signal::INT, Signal::HUP, Signal::KILL] {
        let mut face = world.command(&args(
            &["serve", "--listen", "127.0.0.1:0"],
            &["a", "b", "c"],
        ));
        let mut face = face
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("the connections", CEILING, || {
            let sessions = world.hosts().map(|host| host.ssh_sessions().len());
            let sessions: Vec<usize> = sessions.collect();
            let are_made =
                sessions.iter().all(|count| *count > 0) && world.ssh_clients(face.id()).len() >= 4;
            are_made.then_some(()).ok_or(sessions)
        });
        signal(face.id(), by);
        face.wait().unwrap();
        wait_for(&format!("nothing left after {by:?}"), CEILING, is_as_before);
    }
    // What the killed one has left here, the next one removes.
    assert_code(&world.run(&args(&["status"], &["a"])), 0);
    let left: Vec<_> = fs::read_dir(world.local.data().join("hosts"))
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn observers_are_started_where_none_runs() {
    let Some(world) = World::of_three() else {
        return;
    };
    for host in world.hosts() {
        // An observer without options observes the default server of the host's user.
        let started = host.command(
            "tmux",
            &[
                "-f",
                "/dev/null",
                "new-session",
                "-d",
                "-s",
                "work",
                "exec cat",
            ],
        );
        assert_code(&Running::start(started).end(), 0);
    }
    let status = world.run(&args(&["status", "--json", "--start"], &["a", "b", "c"]));
    assert_code(&status, 0);
    let found = rows(&status);
    for host in ["a", "b", "c"] {
        let named = of(&found, Some(host))
            .iter()
            .any(|row| row["name"] == "work");
        assert!(named, "{found:#?}");
        // It stays.
        assert!(world.host(host).observer() > 0);
    }
}
