//! Faces that read a Redis: the board, the logs, and what they say.

use serde_json::Value;
use td_observe::history::{DataDir, LogReader, Query};

use super::log::{self, Log};
use super::server::Redis;
use super::{copies, interrupt, kill, shipper, shipper_of, wait_for_number};
use crate::cli::{Running, assert_code, program, run, text};
use crate::observer::Home;
use crate::support::{CEILING, wait_for};

/// Returns the rows of a printed board.
fn rows(output: &str) -> Vec<Value> {
    output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn the_board_and_the_logs_of_two_hosts_are_read() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let (web, db, face) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let ran = run(
        &[
            "run",
            "--execution-id",
            "make",
            "--",
            "sh",
            "-c",
            "echo one; exit 3",
        ],
        web.path(),
    );
    assert_code(&ran, 3);
    let mut build = Log::open(db.path(), "build", 0);
    build.append(2000);
    let shippers = [
        shipper_of("web", web.path(), &redis.address(), &[]),
        shipper_of("db", db.path(), &redis.address(), &[]),
    ];
    wait_for_number(&redis, "td:db:build", 2000);
    wait_for("the end of make", CEILING, || {
        let about = redis.raw(&["HGET", "td::runs:web", "make"]);
        about.contains("\"last\"").then_some(()).ok_or(about)
    });
    let address = redis.address();
    let from = |args: &[&str]| run(&[args, &["--from", &address]].concat(), face.path());
    let status = from(&["status", "--all", "--json"]);
    assert_code(&status, 0);
    let shown = rows(&text(&status.stdout));
    let make = shown.iter().find(|row| row["name"] == "make").unwrap();
    assert_eq!(make["execution_id"], "web/make");
    assert_eq!(make["host"], "web");
    assert_eq!(make["exit_status"], 3);
    let report = from(&["report", "--since", "1h", "--json"]);
    assert_code(&report, 0);
    let report = text(&report.stdout);
    assert!(report.contains("web/make"), "{report}");
    let shown = from(&["log", "web/make"]);
    assert_code(&shown, 0);
    assert!(
        text(&shown.stdout).contains("one"),
        "{}",
        text(&shown.stdout)
    );
    // The log of one that is still written is followed.
    let mut follower = Running::start(program(
        &["log", "-f", "db/build", "--json", "--from", &address],
        face.path(),
    ));
    follower.wait_for("line 2000 of");
    // A second face reads what the first one serves.
    let status = from(&["status", "--all", "--json"]);
    assert_eq!(text(&status.stderr), "");
    assert!(text(&status.stdout).contains("web/make"));
    build.append(10);
    follower.wait_for("line 2010 of");
    build.end();
    assert_code(&follower.end(), 0);
    for running in shippers {
        interrupt(running);
    }
    // The board of what was copied is not read from the logs again.
    let metadata = |id: &str| {
        let run = DataDir::new(copies(face.path())).run(&id.into());
        let path = run.metadata_path();
        serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    assert_eq!(metadata("web/make")["extra"]["board"]["seq"], 3);
    assert_eq!(
        metadata("db/build")["extra"]["board"]["rows"][0]["host"],
        "db"
    );
    // What was copied is there without Redis.
    drop(redis);
    let status = from(&["status", "--all", "--json"]);
    assert_code(&status, 0);
    assert!(
        text(&status.stderr).contains("what was copied before is shown"),
        "{}",
        text(&status.stderr)
    );
    assert!(text(&status.stdout).contains("web/make"));
}

#[test]
fn what_was_trimmed_before_it_was_read_is_missing_and_counted() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let (data, face) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    log::write(data.path(), "build", 20_000);
    let running = shipper(data.path(), &redis.address(), &["--max-len", "1000"]);
    wait_for_number(&redis, "td:web:build", 20_000);
    let trimmed = 20_000 - redis.number(&["XLEN", "td:web:build"]);
    interrupt(running);
    let status = run(&["status", "--from", &redis.address()], face.path());
    let expected = format!("{trimmed} events of web/build were trimmed before they were read");
    assert!(
        text(&status.stderr).contains(&expected),
        "{}",
        text(&status.stderr)
    );
    let copied = DataDir::new(copies(face.path())).run(&"web/build".into());
    let mut reader = LogReader::open(&copied, Query::all()).unwrap();
    let first = reader.next().unwrap().envelope.seq.unwrap();
    assert_eq!(first, trimmed + 1);
    assert_eq!(reader.by_ref().count() as u64, 20_000 - first);
    assert_eq!(reader.into_report().missing(), trimmed);
}

#[test]
fn what_others_write_under_the_prefix_is_reported_once_and_left_out() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let (data, face) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    log::write(data.path(), "build", 100);
    log::write(data.path(), "other", 100);
    let running = shipper(data.path(), &redis.address(), &[]);
    wait_for_number(&redis, "td:web:build", 100);
    wait_for_number(&redis, "td:web:other", 100);
    interrupt(running);
    redis.raw(&["XADD", "td:web:build", "*", "mood", "good"]);
    redis.raw(&["XADD", "td:web:build", "*", "envelope", "no JSON"]);
    redis.raw(&["DEL", "td:web:other"]);
    redis.raw(&["SET", "td:web:other", "x"]);
    redis.raw(&["SADD", "td::hosts", "$(touch x)"]);
    redis.raw(&["HSET", "td::runs:web", "a", "no JSON"]);
    let status = run(
        &["status", "--all", "--from", &redis.address()],
        face.path(),
    );
    assert_code(&status, 0);
    let said = text(&status.stderr);
    for (key, what) in [
        ("td:web:build", "no event of the run"),
        ("td:web:other", "string"),
        ("td::hosts", "a name"),
        ("td::runs:web", "nothing can be read"),
    ] {
        assert_eq!(
            said.matches(&format!("the key {key} has something else"))
                .count(),
            1,
            "{said}"
        );
        assert!(said.contains(what), "{said}");
    }
    let copied = DataDir::new(copies(face.path())).run(&"web/build".into());
    assert_eq!(LogReader::open(&copied, Query::all()).unwrap().count(), 100);
}

#[test]
fn a_run_with_the_name_of_an_earlier_one_is_another_copy() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let (data, face) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for events in [30, 20] {
        log::write(data.path(), "build", events);
        let running = shipper(data.path(), &redis.address(), &[]);
        wait_for("the run", CEILING, || {
            let said = redis.raw(&["HVALS", "td::runs:web"]);
            said.contains(&format!("\"last\":{events}"))
                .then_some(())
                .ok_or(said)
        });
        interrupt(running);
        assert_code(&run(&["runs", "prune", "--keep-runs", "0"], data.path()), 0);
    }
    assert_code(
        &run(&["status", "--from", &redis.address()], face.path()),
        0,
    );
    let copied = DataDir::new(copies(face.path()));
    for (id, events) in [("web/build", 30), ("web/build-2", 20)] {
        let log = LogReader::open(&copied.run(&id.into()), Query::all()).unwrap();
        assert_eq!(log.count(), events, "{id}");
    }
}

#[test]
fn a_clock_that_went_back_gives_nothing_twice_to_a_reader_that_was_killed() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let (data, face) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut build = Log::open(data.path(), "build", 0);
    build.append(3000);
    build.ts -= 3_600_000_000;
    build.append(1000);
    let running = shipper(data.path(), &redis.address(), &[]);
    wait_for_number(&redis, "td:web:build", 4000);
    let address = redis.address();
    let read = || {
        Running::start(program(
            &["status", "--watch", "--from", &address],
            face.path(),
        ))
    };
    let count = |expected: usize| {
        wait_for("the copy", CEILING, || {
            let run = DataDir::new(face.path().join("from")).path().exists();
            let found = run.then(|| {
                let copied = DataDir::new(copies(face.path())).run(&"web/build".into());
                LogReader::open(&copied, Query::all()).map_or(0, Iterator::count)
            });
            (found == Some(expected)).then_some(()).ok_or(found)
        });
    };
    let first = read();
    count(4000);
    kill(first);
    build.append(1000);
    let mut second = read();
    second.wait_for("build");
    count(5000);
    interrupt(second);
    interrupt(running);
    build.end();
}

#[test]
fn panes_of_other_hosts_are_watched_and_waited_for_but_have_no_screens_here() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let home = Home::new();
    let shell = home.server.shell("work");
    home.start();
    let shipping = shipper(&home.data(), &redis.address(), &[]);
    let face = tempfile::tempdir().unwrap();
    let address = redis.address();
    let from = |args: &[&str]| program(&[args, &["--from", &address]].concat(), face.path());
    wait_for("the row", CEILING, || {
        let shown = Running::start(from(&["status", "--json"])).end();
        let shown = text(&shown.stdout);
        shown
            .contains("\"host\":\"web\"")
            .then_some(())
            .ok_or(shown)
    });
    let mut watching = Running::start(from(&["watch", "web/work"]));
    watching.wait_for("watching");
    let mut waiting = Running::start(from(&[
        "wait",
        "work",
        "--regex",
        "^answer 4[0-9]",
        "--timeout",
        "20s",
    ]));
    let mut followed = Running::start(from(&["log", "-f", "web/work", "--json"]));
    let mut number = 0;
    wait_for("the line", CEILING, || {
        number += 1;
        home.server
            .types(&shell, &format!("echo an''swer 42 {number}"));
        let printed = watching
            .lines
            .try_iter()
            .any(|line| line.contains("answer 42"));
        (printed && waiting.child.try_wait().unwrap().is_some())
            .then_some(())
            .ok_or(number)
    });
    let found = waiting.end();
    assert_code(&found, 0);
    assert!(
        text(&found.stdout).starts_with("answer 42"),
        "{}",
        text(&found.stdout)
    );
    followed.wait_for("answer 42");
    let refused = Running::start(from(&["wait", "work", "--send", "x", "--text", "y"])).end();
    assert_code(&refused, 2);
    let said = text(&refused.stderr);
    assert!(
        said.contains("way of Redis") && said.lines().count() == 1,
        "{said}"
    );
    for face in [watching, followed] {
        interrupt(face);
    }
    interrupt(shipping);
}
