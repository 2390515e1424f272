//! Hosts that cannot be read, or only in part: each is one row or one line, which says what to do.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;

use serde_json::Value;

use super::world::{Place, World};
use crate::cli::{assert_code, text};
use crate::support::{CEILING, wait_for};

/// Returns the rows of kind `host` with their words, and what was said beside the board.
fn board(world: &World, hosts: &[&str]) -> (Vec<(String, String)>, String) {
    let mut args = vec!["status", "--json"];
    args.extend(hosts.iter().flat_map(|host| ["--host", host]));
    let output = world.run(&args);
    assert_code(&output, 0);
    let rows = text(&output.stdout);
    let rows = rows
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows = rows.filter(|row| row["kind"] == "host").map(|row| {
        assert_eq!(
            (&row["state"], &row["attention"], &row["host"]),
            (&"unreachable".into(), &"needs_you".into(), &row["name"])
        );
        let word = |name: &str| row[name].as_str().unwrap().to_owned();
        (word("name"), word("last_line"))
    });
    (rows.collect(), text(&output.stderr))
}

#[test]
fn a_host_that_is_not_reached_is_one_row_with_the_remedy() {
    let places = [
        Place::near("noprog").without_program(),
        Place::near("nokey").with_sshd("AuthorizedKeysFile /nonexistent"),
        Place::near("asks").with_sshd("PasswordAuthentication yes\nAuthenticationMethods password"),
        Place::near("noobs"),
        Place::near("nofwd").with_sshd("AllowStreamLocalForwarding no"),
    ];
    let Some(world) = World::new(&places) else {
        return;
    };
    world
        .host("nofwd")
        .server
        .new_session("work", 80, 24, "exec cat");
    world.start_observer("nofwd");
    let names = ["noprog", "nokey", "asks", "noobs", "nofwd"];
    let (mut rows, said) = board(&world, &names);
    rows.sort();
    let of = |name: &str| {
        let found = rows.iter().find(|(of, _)| of == name);
        found
            .unwrap_or_else(|| panic!("{name}: {rows:?} {said}"))
            .1
            .clone()
    };
    for (name, words) in [
        ("noprog", "install it there"),
        ("nokey", "must work without a password"),
        ("asks", "must work without a password"),
        ("noobs", "--start starts it"),
        ("nofwd", "AllowStreamLocalForwarding"),
    ] {
        assert!(of(name).contains(words), "{name}: {}", of(name));
    }
    assert_eq!(rows.len(), names.len());
    assert_eq!(said, "");
    // What --start starts stays.
    let started = world.run(&["status", "--host", "noobs", "--start", "--json"]);
    assert_code(&started, 0);
    world.host("noobs").observer();
    assert_eq!(world.all_ssh_clients(), [] as [u32; 0]);
}

#[test]
fn a_name_that_would_be_an_option_of_ssh_is_refused_before_it_runs() {
    let Some(world) = World::new(&[Place::near("a")]) else {
        return;
    };
    for name in [
        "-oProxyCommand=touch x",
        "a b",
        "a;touch x",
        "$(touch x)",
        "",
    ] {
        for command in ["status", "watch", "log"] {
            let host = format!("--host={name}");
            let output = world.run(&[command, &host]);
            assert_code(&output, 2);
            let said = text(&output.stderr);
            assert!(said.contains("--host"), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
    assert!(!world.local.directory().join("x").exists());
}

#[test]
fn a_host_with_a_full_disk_is_read_and_named() {
    let Some(world) = World::new(&[Place::near("a")]) else {
        return;
    };
    let host = world.host("a");
    let data = host.data().display().to_string();
    // sshd has a mount namespace of its own.
    let mount = format!("mkdir -p {data} && mount -t tmpfs -o size=400k,mode=0700 tmpfs {data}");
    let mounted = world.run_on("a", &mount);
    if !mounted.status.success() {
        eprintln!("SKIPPED, NOT TESTED: no small disk can be mounted on a host: {mounted:?}");
        return;
    }
    let pane = host.server.new_session("work", 80, 24, "exec cat");
    let start = format!("td-observe start -S {}", host.server.socket().display());
    assert_code(&world.run_on("a", &start), 0);
    let flood = "x".repeat(2_000);
    let said = wait_for("a full disk", CEILING, || {
        for _ in 0..50 {
            host.server.tmux(&["send-keys", "-t", &pane, "-l", &flood]);
            host.server.tmux(&["send-keys", "-t", &pane, "Enter"]);
        }
        let (rows, said) = board(&world, &["a"]);
        assert_eq!(rows, []);
        said.contains("a: the history cannot be written")
            .then_some(said.clone())
            .ok_or(said)
    });
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn an_older_observer_is_named_and_read_as_far_as_its_api_goes() {
    let Some(world) = World::new(&[Place::near("a").without_program()]) else {
        return;
    };
    let host = world.host("a");
    let socket = host.home.join("old.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    host.write_program(
        "td-observe",
        &format!("#!/bin/sh\necho {}\n", socket.display()),
    );
    let row = serde_json::json!({
        "execution_id": "old@1", "name": "old", "kind": "command", "state": "running",
        "since": "2026-01-21T00:00:00.000000Z", "last_line": "", "turns": 0, "gaps": 0, "errors": 0,
    });
    // It ends with the process of the tests.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let count = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..count]).into_owned();
            let (status, body) = match head.split(' ').nth(1).unwrap_or_default() {
                "/healthz" => (
                    "200 OK",
                    r#"{"status":"ok","observer":{"version":"0.0.1"}}"#.to_owned(),
                ),
                path if path.starts_with("/api/v1/board") => ("200 OK", format!("[{row}]")),
                _ => (
                    "404 Not Found",
                    r#"{"detail":"there is nothing at this path"}"#.to_owned(),
                ),
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let shown = world.run(&["status", "--host", "a"]);
    assert_code(&shown, 0);
    assert!(text(&shown.stdout).contains("a/old"), "{shown:?}");
    let said = text(&shown.stderr);
    assert!(
        said.contains("a: its observer has the version 0.0.1"),
        "{said}"
    );
    let log = world.run(&["log", "--host", "a", "a/old"]);
    assert!(log.status.code().is_some_and(|code| code > 0), "{log:?}");
    assert!(fs::exists(&socket).unwrap());
}
