//! What goes wrong with Redis, with other programs there, with clocks and with removed runs: reported once, and nothing
//! is lost.

use std::fs;
use std::process::Command;

use super::log::{self, Log};
use super::server::{Redis, free_port, private_file};
use super::{interrupt, shipper, wait_for_number};
use crate::cli::{Running, assert_code, program, run, text};
use crate::support::{CEILING, Stopped, wait_for};

const STREAM: &str = "td:web:build";

/// Checks that a report was made once.
#[track_caller]
fn assert_once(said: &str, expected: &str) {
    assert_eq!(said.matches(expected).count(), 1, "{expected}: {said}");
}

#[test]
fn a_full_redis_is_reported_once_and_gets_everything_once_it_has_room() {
    let Some(redis) = Redis::start(&["--maxmemory", "6mb"]) else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let mut build = Log::open(data.path(), "build", 0);
    build.append(60_000);
    let running = shipper(data.path(), &redis.address(), &[]);
    running.wait_for_complaint("OOM");
    let before = redis.number(&["XLEN", STREAM]);
    assert!(before < 60_000);
    build.append(10_000);
    redis.raw(&["CONFIG", "SET", "maxmemory", "0"]);
    wait_for_number(&redis, STREAM, 70_000);
    assert_eq!(redis.lines(STREAM), log::lines(data.path(), "build"));
    running.wait_for_complaint("works again");
    let said = interrupt(running);
    assert_once(&said, "OOM");
    assert_once(&said, "raise its maxmemory");
    build.end();
}

#[test]
fn a_wrong_password_is_reported_once_and_a_right_one_needs_a_private_file() {
    let Some(redis) = Redis::start(&["--requirepass", "geheim"]) else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    log::write(data.path(), "build", 10);
    for password in [None, Some("falsch")] {
        let mut command = program(
            &["ship", "--to", &redis.address(), "--host-name", "web"],
            data.path(),
        );
        if let Some(password) = password {
            command.env("TD_REDIS_PASSWORD", password);
        }
        let running = Running::start(command);
        running.wait_for_complaint("--password-file");
        assert_once(&interrupt(running), "--password-file");
    }
    let file = private_file(data.path(), "password", "geheim\n");
    let running = shipper(
        data.path(),
        &redis.address(),
        &["--password-file", file.to_str().unwrap()],
    );
    wait_for("the events", CEILING, || {
        let commands: [&[&str]; 2] = [&["AUTH", "geheim"], &["XLEN", STREAM]];
        let answer = super::server::ask(redis.port(), &commands);
        answer.ends_with(":10\r\n").then_some(()).ok_or(answer)
    });
    interrupt(running);
    let open = data.path().join("open");
    fs::write(&open, "geheim").unwrap();
    let address = redis.address();
    for (args, expected) in [
        (
            &["--to", &address, "--password-file", open.to_str().unwrap()][..],
            "chmod 600",
        ),
        (
            &["--to", "redis://ann:geheim@localhost"],
            "list of processes",
        ),
        (&["--to", "http://localhost"], "an address is redis://"),
        (
            &["--to", &address, "--stream-prefix", "a*"],
            "--stream-prefix",
        ),
        (&["--to", &address, "--host-name=-x"], "cannot begin with"),
        (&[], "--to"),
    ] {
        let refused = run(&[&["ship"], args].concat(), data.path());
        assert_code(&refused, 2);
        let said = text(&refused.stderr);
        assert!(
            said.contains(expected) && !said.contains("geheim"),
            "{said}"
        );
    }
}

#[test]
fn a_redis_that_is_not_there_and_one_that_hangs_are_reported_once() {
    if !super::server::is_installed() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let nowhere = format!("redis://127.0.0.1:{}", free_port());
    let mut build = Log::open(data.path(), "build", 0);
    build.append(10);
    let running = shipper(data.path(), &nowhere, &[]);
    running.wait_for_complaint("start Redis there");
    wait_for("the state", CEILING, || {
        let status = run(&["ship", "--to", &nowhere, "--status"], data.path());
        let shown = text(&status.stdout);
        (shown.contains("10 events") && shown.contains("start Redis there"))
            .then_some(())
            .ok_or(shown)
    });
    assert_once(&interrupt(running), "start Redis there");

    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let running = shipper(data.path(), &redis.address(), &[]);
    wait_for_number(&redis, STREAM, 10);
    let stopped = Stopped::new(redis.pid());
    build.append(50_000);
    running.wait_for_complaint("no answer within 10 s");
    drop(stopped);
    wait_for_number(&redis, STREAM, 50_010);
    assert_eq!(redis.lines(STREAM), log::lines(data.path(), "build"));
    build.end();
    let said = interrupt(running);
    assert_once(&said, "no answer within 10 s");
    assert_once(&said, "works again");
}

#[test]
fn keys_of_others_are_reported_once_and_the_rest_is_shipped() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    log::write(data.path(), "build", 100);
    log::write(data.path(), "list", 100);
    log::write(data.path(), "mixed", 100);
    redis.raw(&["RPUSH", "td:web:list", "a"]);
    redis.raw(&["XADD", "td:web:mixed", "1-1", "mood", "good"]);
    redis.raw(&["XADD", "td:web:mixed", "*", "envelope", "no JSON"]);
    redis.raw(&["HSET", "td::runs:web", "other", "no JSON"]);
    let running = shipper(data.path(), &redis.address(), &[]);
    wait_for_number(&redis, STREAM, 100);
    wait_for_number(&redis, "td:web:mixed", 100);
    running.wait_for_complaint("td:web:list");
    redis.raw(&["XADD", "td:web:mixed", "*", "mood", "bad"]);
    log::write(data.path(), "more", 1);
    wait_for_number(&redis, "td:web:more", 1);
    let said = interrupt(running);
    assert_once(&said, "the key td:web:list has something else");
    assert_once(&said, "the key td:web:mixed has something else");
    let lines = redis.lines("td:web:mixed");
    assert_eq!(lines, log::lines(data.path(), "mixed"));
    assert_eq!(redis.number(&["LLEN", "td:web:list"]), 1);
    // An entry of another program at the end is no position.
    let again = shipper(data.path(), &redis.address(), &[]);
    again.wait_for_complaint("td:web:mixed");
    log::write(data.path(), "last", 1);
    wait_for_number(&redis, "td:web:last", 1);
    interrupt(again);
    assert_eq!(redis.lines("td:web:mixed"), lines);
}

#[test]
fn a_clock_that_went_back_is_reported_once_and_the_order_stays() {
    let Some(mut redis) = Redis::start(&[]) else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let mut build = Log::open(data.path(), "build", 0);
    build.append(3000);
    build.ts -= 3_600_000_000;
    build.append(3000);
    build.ts += 7_200_000_000;
    build.append(3000);
    let running = shipper(data.path(), &redis.address(), &[]);
    wait_for_number(&redis, STREAM, 9000);
    let said = interrupt(running);
    assert_once(&said, "went back");
    let ids = redis.ids(STREAM);
    assert!(ids.is_sorted() && ids.len() == 9000);
    // Whoever ships the end again, also from within the time that was set back, gives the same ids.
    redis.kill();
    redis.lose(1_000_000);
    redis.restart();
    let left = redis.number(&["XLEN", STREAM]);
    assert!((3100..6000).contains(&left), "{left}");
    let running = shipper(data.path(), &redis.address(), &[]);
    wait_for_number(&redis, STREAM, 9000);
    interrupt(running);
    assert_eq!(redis.ids(STREAM), ids);
    assert_eq!(redis.lines(STREAM), log::lines(data.path(), "build"));
    build.end();
}

#[test]
fn what_is_removed_before_it_is_shipped_is_counted_once() {
    let Some(mut redis) = Redis::start(&[]) else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let mut build = Log::open(data.path(), "build", 0);
    build.append(100);
    let running = shipper(data.path(), &redis.address(), &[]);
    wait_for_number(&redis, STREAM, 100);
    redis.kill();
    build.append(50);
    build.end();
    running.wait_for_complaint("start Redis there");
    // The shipper notes the end of a run before it can ship it.
    let files = fs::read_dir(data.path().join("ship")).unwrap();
    let announced = files.map(|entry| entry.unwrap().path().join("ship.json"));
    let announced = announced.last().unwrap();
    wait_for("the end of the run", CEILING, || {
        let said = fs::read_to_string(&announced).unwrap_or_default();
        said.contains("\"known\": 150").then_some(()).ok_or(said)
    });
    let pruned = run(&["runs", "prune", "--keep-runs", "0"], data.path());
    assert_code(&pruned, 0);
    redis.restart();
    running.wait_for_complaint("had not been shipped");
    // A new run with the name of one that was removed is another stream.
    log::write(data.path(), "build", 7);
    wait_for("the next run of this name", CEILING, || {
        let runs = redis.raw(&["HKEYS", "td::runs:web"]);
        runs.contains("build%@").then_some(()).ok_or(runs)
    });
    wait_for("its removal", CEILING, || {
        let about = redis.raw(&["HGET", "td::runs:web", "build"]);
        about
            .contains("\"is_removed\":true")
            .then_some(())
            .ok_or(about)
    });
    let said = interrupt(running);
    assert_once(&said, "1 run was removed");
    assert_once(&said, "with 50 events that had not been shipped");
    assert_eq!(redis.number(&["XLEN", STREAM]), 100);
}

#[test]
fn streams_are_trimmed_and_the_status_says_how_far_it_is() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let address = redis.address();
    let status = |json: bool| {
        let more: &[&str] = if json { &["--json"] } else { &[] };
        run(
            &[&["ship", "--to", &address, "--status"], more].concat(),
            data.path(),
        )
    };
    assert_code(&status(false), 3);
    let mut build = Log::open(data.path(), "build", 0);
    build.append(20_000);
    let running = shipper(data.path(), &address, &["--max-len", "1000"]);
    wait_for_number(&redis, STREAM, 20_000);
    let count = redis.number(&["XLEN", STREAM]);
    assert!((1000..1300).contains(&count), "{count}");
    wait_for("nothing to be behind", CEILING, || {
        let shown = status(false);
        assert_code(&shown, 0);
        let shown = text(&shown.stdout);
        shown
            .contains("20000 events shipped")
            .then_some(())
            .ok_or(shown)
    });
    let stopped = Stopped::new(super::pid(&running));
    build.append(500);
    let shown = text(&status(true).stdout);
    let total: serde_json::Value = serde_json::from_str(shown.lines().last().unwrap()).unwrap();
    assert_eq!(total["behind"], 500, "{shown}");
    assert_eq!(total["behind_ms"], 350, "{shown}");
    let shown = text(&status(false).stdout);
    assert!(
        shown.contains("build: 500 events and 0.35 s behind"),
        "{shown}"
    );
    drop(stopped);
    wait_for_number(&redis, STREAM, 20_500);
    interrupt(running);
    assert_code(&status(false), 3);
    build.end();
    // An empty stream remembers where it was.
    redis.raw(&["XTRIM", STREAM, "MAXLEN", "0"]);
    let mut build = Log::open(data.path(), "build", 20_500);
    build.append(3);
    let running = shipper(data.path(), &address, &[]);
    wait_for_number(&redis, STREAM, 20_503);
    assert_eq!(redis.number(&["XLEN", STREAM]), 3);
    interrupt(running);
    build.end();
}

#[test]
fn certificates_are_checked() {
    if !super::server::is_installed() {
        return;
    }
    let keys = tempfile::tempdir().unwrap();
    let file = |name: &str| keys.path().join(name).to_str().unwrap().to_owned();
    let (ca, ca_key) = (file("ca.pem"), file("ca.key"));
    let openssl = |words: &str| {
        let words = words.replace("$D", keys.path().to_str().unwrap());
        let made = Command::new("openssl").args(words.split(' ')).output();
        made.is_ok_and(|made| made.status.success())
    };
    let is_made = openssl(
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout $D/ca.key -out $D/ca.pem",
    ) && openssl(
        "req -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout $D/r.key -out $D/r.csr",
    ) && openssl(
        "x509 -req -days 2 -copy_extensions copy -in $D/r.csr -CA $D/ca.pem -CAkey $D/ca.key -out $D/r.pem",
    );
    if !is_made {
        eprintln!("!!! openssl is not installed: skipped");
        return;
    }
    assert!(fs::exists(ca_key).unwrap());
    let port = free_port();
    let (port_text, cert, key) = (port.to_string(), file("r.pem"), file("r.key"));
    let Some(redis) = Redis::start(&[
        "--tls-port",
        &port_text,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-auth-clients",
        "no",
    ]) else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    log::write(data.path(), "build", 5000);
    let address = format!("rediss://localhost:{port}");
    let start = |certificates: Option<&str>| {
        let mut command = program(
            &["ship", "--to", &address, "--host-name", "web"],
            data.path(),
        );
        if let Some(certificates) = certificates {
            command.env("SSL_CERT_FILE", certificates);
        }
        Running::start(command)
    };
    let stranger = start(None);
    stranger.wait_for_complaint("SSL_CERT_FILE");
    assert_once(&interrupt(stranger), "SSL_CERT_FILE");
    assert_eq!(redis.number(&["XLEN", STREAM]), 0);
    let known = start(Some(&ca));
    wait_for_number(&redis, STREAM, 5000);
    interrupt(known);
}

#[test]
fn events_that_have_the_numbers_of_lost_ones_are_shipped_and_copied() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let (data, face) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    log::write(data.path(), "build", 100);
    let running = shipper(data.path(), &redis.address(), &[]);
    wait_for_number(&redis, STREAM, 100);
    interrupt(running);
    // As after a power cut of the host.
    let path = data.path().join("runs/build/events.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    fs::write(&path, lines[..=80].concat()).unwrap();
    let metadata = data.path().join("runs/build/metadata.json");
    let said = fs::read_to_string(&metadata).unwrap();
    fs::write(
        &metadata,
        said.replace("\"next_seq\": 101", "\"next_seq\": 81"),
    )
    .unwrap();
    let mut build = Log::open(data.path(), "build", 80);
    build.ts += 60_000_000;
    build.append(70);
    let running = shipper(data.path(), &redis.address(), &[]);
    wait_for_number(&redis, STREAM, 150);
    build.end();
    interrupt(running);
    let shipped = redis.lines(STREAM);
    let log = log::lines(data.path(), "build");
    let before = whole
        .lines()
        .filter(|line| !line.starts_with("{\"seq\":0,"));
    assert_eq!(shipped[..100], before.collect::<Vec<_>>());
    assert_eq!(shipped[100..], log[80..]);
    assert_code(
        &run(&["status", "--from", &redis.address()], face.path()),
        0,
    );
    let copied = log::lines(&super::copies(face.path()), "web/build");
    assert_eq!(copied.len(), 170);
}
