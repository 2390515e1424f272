//! The shipper: each event once, in order, whatever ends in between; and what it reports.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::log::{self, Log};
use super::server::Redis;
use super::{interrupt, kill, shipper, wait_for_number};
use crate::cli::{assert_code, run, text};
use crate::support::{CEILING, wait_for};

const STREAM: &str = "td:web:build";

/// Checks that a stream has the whole log, each line once and unchanged, under the ids of its times and numbers.
#[track_caller]
fn assert_shipped(redis: &Redis, data: &Path, id: &str, stream: &str) {
    let expected = log::lines(data, id);
    assert!(redis.lines(stream) == expected, "{stream} is not the log");
    let mut before = 0;
    let ids = expected.iter().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        let ts: td_observe::Timestamp = event["ts"].as_str().unwrap().parse().unwrap();
        before = before.max(u64::try_from(ts.micros() / 1000).unwrap());
        (before, event["seq"].as_u64().unwrap())
    });
    assert_eq!(redis.ids(stream), ids.collect::<Vec<_>>());
}

#[test]
fn ended_and_growing_runs_are_shipped_with_what_is_said_of_them() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    log::write(data.path(), "a/b:c", 10);
    let mut build = Log::open(data.path(), "build", 0);
    build.append(3000);
    let running = shipper(data.path(), &redis.address(), &[]);
    wait_for_number(&redis, STREAM, 3000);
    wait_for_number(&redis, "td:web:a%2Fb:c", 10);
    build.append(500);
    wait_for_number(&redis, STREAM, 3500);
    let about = |run: &str| redis.raw(&["HGET", "td::runs:web", run]);
    assert!(!about("build").contains("\"last\""), "{}", about("build"));
    build.end();
    wait_for("the end", CEILING, || {
        let about = about("build");
        (about.contains("\"last\":3500") && about.contains("\"completed\""))
            .then_some(())
            .ok_or(about)
    });
    assert_shipped(&redis, data.path(), "build", STREAM);
    assert_shipped(&redis, data.path(), "a/b:c", "td:web:a%2Fb:c");
    assert_eq!(redis.number(&["SCARD", "td::hosts"]), 1);
    assert!(redis.number(&["XLEN", "td::changes"]) >= 3);
    let said = interrupt(running);
    assert_eq!(said.lines().count(), 1, "{said}");
    // A run that is complete is neither read nor said anything of again.
    let changes = redis.number(&["XLEN", "td::changes"]);
    let again = shipper(data.path(), &redis.address(), &[]);
    log::write(data.path(), "later", 1);
    wait_for_number(&redis, "td:web:later", 1);
    interrupt(again);
    assert!(redis.number(&["XLEN", "td::changes"]) <= changes + 2);
}

#[test]
fn a_shipper_that_is_killed_and_a_redis_that_loses_its_last_second_lose_nothing() {
    let Some(mut redis) = Redis::start(&[]) else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let mut build = Log::open(data.path(), "build", 0);
    for round in 1..=3_u64 {
        let running = shipper(data.path(), &redis.address(), &[]);
        let before = (round - 1) * 20_000;
        build.append(20_000);
        wait_for("some events", CEILING, || {
            let count = redis.number(&["XLEN", STREAM]);
            (count > before).then_some(()).ok_or(count)
        });
        kill(running);
        redis.kill();
        redis.lose(100_000 * round);
        redis.restart();
    }
    let running = shipper(data.path(), &redis.address(), &[]);
    wait_for_number(&redis, STREAM, 60_000);
    // While nothing happens, too.
    redis.kill();
    redis.lose(500_000);
    redis.restart();
    wait_for_number(&redis, STREAM, 60_000);
    assert_shipped(&redis, data.path(), "build", STREAM);
    build.end();
    let said = interrupt(running);
    assert_eq!(
        said.matches("the log keeps what is not shipped").count(),
        1,
        "{said}"
    );
    assert_eq!(said.matches("works again").count(), 1, "{said}");
}

#[test]
fn two_shippers_at_once_harm_nothing() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let (data, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    log::write(data.path(), "build", 50_000);
    fs::create_dir(copy.path().join("runs")).unwrap();
    let runs = [data.path(), copy.path()].map(|data| data.join("runs/build"));
    copy_directory(&runs[0], &runs[1]);
    let first = shipper(data.path(), &redis.address(), &[]);
    let second = shipper(copy.path(), &redis.address(), &[]);
    wait_for_number(&redis, STREAM, 50_000);
    assert_shipped(&redis, data.path(), "build", STREAM);
    interrupt(first);
    interrupt(second);
    // One data directory has one shipper to an address.
    let only = shipper(data.path(), &redis.address(), &[]);
    only.wait_for_complaint("ships");
    let refused = run(
        &["ship", "--to", &redis.address(), "--host-name", "x"],
        data.path(),
    );
    assert_code(&refused, 1);
    assert!(
        text(&refused.stderr).contains("--status"),
        "{}",
        text(&refused.stderr)
    );
    interrupt(only);
}

fn copy_directory(from: &Path, to: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
