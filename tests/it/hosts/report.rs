//! `report --host`: each host reports on its own histories, and the reports are one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use serde_json::{Value, json};

use super::world::{Place, World};
use crate::cli::{assert_code, text};
use crate::report::script::{Script, at};

/// Writes a run of a command that ended with this status.
fn write_run(data: &std::path::Path, id: &str, status: i32) {
    let mut script = Script::new(id, "process");
    let started = json!({"command": "make", "cwd": "/"});
    script.add(10.0, "ExecutionStarted", started);
    let completed = json!({"exit_code": status, "duration_ms": 10_000});
    script.add(20.0, "ExecutionCompleted", completed);
    let state = if status == 0 { "completed" } else { "failed" };
    script.ends(state, Some(status));
    script.write(data);
}

fn span() -> [String; 4] {
    let (since, until) = (at(0.0).to_string(), at(100.0).to_string());
    ["--since".to_owned(), since, "--until".to_owned(), until]
}

#[track_caller]
fn report(world: &World, more: &[&str]) -> Output {
    let span = span();
    let span: Vec<&str> = span.iter().map(String::as_str).collect();
    world.run(&[&["report"], &span[..], more].concat())
}

#[track_caller]
fn json_of(output: &Output) -> Value {
    assert_code(output, 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn texts<'a>(list: &'a Value, name: &str) -> Vec<&'a str> {
    let items = list.as_array().unwrap().iter();
    let of = |item: &'a Value| if name.is_empty() { item } else { &item[name] };
    items.filter_map(|item| of(item).as_str()).collect()
}

#[test]
fn each_host_reports_on_itself_without_an_observer_and_one_that_cannot_is_one_line() {
    let places = [
        Place::near("a"),
        Place::near("b"),
        Place::behind("c", "b"),
        Place::near("d").without_program(),
        Place::near("e").without_program(),
        Place::near("f").without_program(),
    ];
    let Some(world) = World::new(&places) else {
        return;
    };
    write_run(&world.local.data(), "build@1", 0);
    for (name, status) in [("a", 1), ("b", 0), ("c", 2)] {
        write_run(&world.host(name).data(), "build@1", status);
    }
    // A program that knows no reports, and one that prints something else.
    for (name, program) in [
        (
            "e",
            "echo \"error: unrecognized subcommand 'report'\" >&2; exit 2",
        ),
        ("f", "echo Welcome"),
    ] {
        let path = world.host(name).etc().join("bin/td-observe");
        fs::write(&path, format!("#!/bin/sh\n{program}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Its own configuration names others, and it reports on itself alone.
    let config = world.host("a").home.join(".config/td-observe");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "[hosts]\nnames = [\"b\"]\n").unwrap();

    let names = ["local", "a", "b", "c", "d", "e", "f"];
    let hosts: Vec<&str> = names.iter().flat_map(|name| ["--host", name]).collect();
    let shown = json_of(&report(&world, &[&hosts[..], &["--json"]].concat()));
    let ids = texts(&shown["rows"], "id");
    assert_eq!(
        ids,
        ["build@1", "a/build@1", "b/build@1", "c/build@1"],
        "{shown}"
    );
    assert_eq!(shown["totals"]["rows"], 4);
    let mut unread = shown["hosts"].as_array().unwrap().clone();
    unread.retain(|host| host["is_read"] == false);
    assert_eq!(texts(&json!(unread), "name"), ["d", "e", "f"]);
    let problems = texts(&shown["problems"], "");
    let remedies = ["install it there", "update it there", "start files"];
    assert_eq!(problems.len(), remedies.len(), "{problems:?}");
    for ((problem, host), remedy) in problems.iter().zip(["d", "e", "f"]).zip(remedies) {
        assert!(problem.starts_with(&format!("{host}: ")), "{problem}");
        assert!(problem.contains(remedy), "{problem}");
    }

    let terminal = text(&report(&world, &hosts).stdout);
    assert!(
        terminal.contains("7 hosts, 3 not read · 4 rows"),
        "{terminal}"
    );
    assert!(
        terminal.contains("\na/make (command, make)\n"),
        "{terminal}"
    );

    // Without texts there is no name of a host, either.
    let bare = report(
        &world,
        &[&hosts[..], &["--json", "--metadata-only"]].concat(),
    );
    assert_eq!(json_of(&bare)["rows"].as_array().unwrap().len(), 4);
    assert!(!text(&bare.stdout).contains("build"), "{bare:?}");

    // The runs of one host, and a name that a shell would obey.
    let one = json_of(&report(
        &world,
        &["--host", "a", "--host", "b", "a/build@1", "--json"],
    ));
    assert_eq!(texts(&one["rows"], "id"), ["a/build@1"]);
    let hostile = json_of(&report(&world, &["--host", "a", "$(touch x)", "--json"]));
    assert!(
        texts(&hostile["problems"], "")[0].contains("refuses the report"),
        "{hostile}"
    );
    let left = world.run_on("a", "ls x ~/x 2>/dev/null");
    assert_eq!(text(&left.stdout), "");
    let refused = report(&world, &["--host", "-oProxyCommand=touch x"]);
    assert_code(&refused, 2);

    // The standing set, and this host alone.
    let mut standing = world.command(&[
        "report",
        "--since",
        &span()[1],
        "--until",
        &span()[3],
        "--json",
    ]);
    standing.env("TD_HOSTS", "b:c");
    let standing = json_of(&crate::cli::Running::start(standing).end());
    assert_eq!(texts(&standing["rows"], "id"), ["b/build@1", "c/build@1"]);
    let local = json_of(&report(&world, &["--host", "local", "--json"]));
    assert_eq!(texts(&local["rows"], "id"), ["build@1"]);

    world.host("b").link.cut();
    let cut = json_of(&report(
        &world,
        &["--host", "local", "--host", "a", "--host", "b", "--json"],
    ));
    assert_eq!(texts(&cut["rows"], "id"), ["build@1", "a/build@1"]);
    assert_eq!(texts(&cut["problems"], "").len(), 1, "{cut}");
}
