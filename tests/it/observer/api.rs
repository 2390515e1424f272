//! The API: answers, streams that continue exactly, and malicious clients.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

use super::{Home, request};
use crate::cli::{assert_code, text};
use crate::support::{CEILING, Dice, wait_for};

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

#[test]
fn answers_are_as_documented() {
    let home = Home::new();
    let program = r"read go; printf 'one\ntwo\nthree\n'; exec cat";
    home.server.new_session("build", 80, 24, program);
    home.start();
    home.server.tmux(&["send-keys", "-t", "build", "Enter"]);
    home.wait_for_row("build", |row| row["last_line"] == "three");
    let socket = home.socket();
    let body = |path: &str| {
        let answer = request(&socket, &get(path));
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n"),
            "{path}: {answer}"
        );
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let json = |path: &str| serde_json::from_str::<Value>(&body(path)).unwrap();
    assert_eq!(json("/healthz")["status"], "ok");
    assert_eq!(json("/api/v1/board")[0]["name"], "build");
    let runs = json("/api/v1/runs");
    let id = runs[0]["execution_id"].as_str().unwrap().to_owned();
    let encoded = id.replace('@', "%40");
    assert_eq!(
        json(&format!("/api/v1/runs/{encoded}"))["execution_id"],
        id.as_str()
    );
    let lines = body(&format!(
        "/api/v1/runs/{encoded}/events?type=OutputUpdate&grep=two"
    ));
    assert!(lines.contains("two\\n"), "{lines}");
    let first = body("/api/v1/runs/build/events?limit=1&from_seq=2");
    assert!(
        first.contains("\"seq\":2") && !first.contains("\"seq\":3"),
        "{first}"
    );
    let refused = request(&socket, &get("/api/v1/events?types=Error"));
    assert!(
        refused.contains("\\\"types\\\"; there are execution, type, since, cursor"),
        "{refused}"
    );
    body("/api/v1/panes/build/screen");
    let _stream = {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(get("/api/v1/events").as_bytes()).unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        stream
    };
    let metrics = body("/metrics");
    let number = |name: &str| {
        let mut lines = metrics.lines();
        let found = lines.find_map(|line| line.strip_prefix(name));
        found.and_then(|value| value.trim().parse::<f64>().ok())
    };
    assert_eq!(number("td_observe_streams"), Some(1.0), "{metrics}");
    let of_stream = "{stream=\"1\"}";
    let missed = format!("td_observe_stream_events_missed_total{of_stream}");
    assert_eq!(number(&missed), Some(0.0), "{metrics}");
    let lag = format!("td_observe_stream_lag_events{of_stream}");
    assert!(number(&lag).is_some(), "{metrics}");
    let server = format!("{{server=\"{}\"}}", home.server.socket().display());
    let captures = number(&format!("td_observe_captures_total{server}"));
    assert!(captures >= Some(1.0), "{metrics}");
    let seconds = number(&format!("td_observe_capture_seconds_total{server}"));
    assert!(seconds > Some(0.0), "{metrics}");
    assert!(
        metrics.contains("td_observe_rows{attention=\"working\"} 1"),
        "{metrics}"
    );
    for (head, status) in [
        (get("/api/v1/nothing"), "404"),
        (get("/api/v1/runs/none/events"), "404"),
        (get("/api/v1/events?cursor=x"), "400"),
        (get("/api/v1/board?wait=x"), "400"),
        (get("/api/v1/board?wiat=1"), "400"),
        (get("/api/v1/events?types=Error"), "400"),
        (get("/api/v1/runs/build/events?seq=1"), "400"),
        (get("/api/v1/panes/build/screen?colour=1"), "400"),
        (get("/healthz?x=1"), "400"),
        ("POST /api/v1/board HTTP/1.1\r\n\r\n".to_owned(), "405"),
        ("nonsense\r\n\r\n".to_owned(), "400"),
        (
            format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(20_000)),
            "431",
        ),
        (
            "POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n".to_owned(),
            "413",
        ),
    ] {
        let answer = request(&socket, &head);
        let is_right = answer.starts_with(&format!("HTTP/1.1 {status} "));
        assert!(
            is_right && answer.contains("application/problem+json"),
            "{status}: {answer}"
        );
    }
    assert_code(&home.run(&["stop"]), 0);
}

/// A client that reads the stream, is cut off, and reconnects with the last id that it has read.
struct Reader {
    socket: std::path::PathBuf,
    path: String,
    last_id: Option<String>,
    seen: Vec<(String, u64)>,
}

impl Reader {
    /// Reads at most this many bytes for at most this time; discards an incomplete frame.
    fn read(&mut self, bytes: usize, time: Duration) {
        let began = std::time::Instant::now();
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let id = self
            .last_id
            .iter()
            .map(|id| format!("Last-Event-ID: {id}\r\n"));
        let head = format!(
            "GET {} HTTP/1.1\r\n{}\r\n",
            self.path,
            id.collect::<String>()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut raw = vec![0; bytes];
        let mut length = 0;
        while length < bytes && began.elapsed() < time {
            match stream.read(&mut raw[length..]) {
                Ok(0) | Err(_) => break,
                Ok(count) => length += count,
            }
        }
        let text = unchunked(&raw[..length]);
        let Some((_, frames)) = text.split_once("\r\n\r\n") else {
            return;
        };
        let whole = frames.rfind("\n\n").map_or("", |end| &frames[..end]);
        for frame in whole.split("\n\n") {
            let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
            assert!(!frame.contains("\"type\":\"Lagged\""), "{frame}");
            let (Some(id), Some(data)) = (field("id: "), field("data: ")) else {
                continue;
            };
            self.last_id = Some(id.to_owned());
            let envelope: Value = serde_json::from_str(data).unwrap();
            if let Some(seq) = envelope["seq"].as_u64() {
                let execution = envelope["event"]["execution_id"].as_str().unwrap();
                self.seen.push((execution.to_owned(), seq));
            }
        }
    }
}

/// Removes the chunk framing, as far as the text reaches.
fn unchunked(raw: &[u8]) -> String {
    let Some(end) = raw.windows(4).position(|four| four == b"\r\n\r\n") else {
        return String::new();
    };
    let (head, mut rest) = raw.split_at(end + 4);
    let mut body = head.to_vec();
    while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(&String::from_utf8_lossy(&rest[..line]), 16).unwrap_or(0);
        let from = line + 2;
        let until = (from + size).min(rest.len());
        body.extend_from_slice(&rest[from..until]);
        rest = &rest[(until + 2).min(rest.len())..];
        if size == 0 {
            break;
        }
    }
    text(&body)
}

#[test]
fn a_reader_that_reconnects_gets_every_event_once() {
    let home = Home::new();
    let flood =
        "sleep 1; for i in 1 2 3 4 5 6 7 8; do seq 1 20000; sleep 0.2; done; echo over; exec cat";
    home.server.new_session("flood", 80, 24, flood);
    home.server
        .new_session("trickle", 80, 24, "while :; do date; sleep 0.05; done");
    home.start();
    let mut reader = Reader {
        socket: home.socket(),
        path: "/api/v1/events?since=1h".to_owned(),
        last_id: None,
        seen: Vec::new(),
    };
    let mut dice = Dice(20);
    for _ in 0..200 {
        let time = Duration::from_millis(dice.roll(100));
        reader.read(200 + dice.roll(400_000) as usize, time);
    }
    home.wait_for_row("flood", |row| row["last_line"] == "over");
    // Read the rest, with enough time.
    for _ in 0..3 {
        reader.read(100_000_000, Duration::from_secs(2));
    }
    assert_code(&home.run(&["stop"]), 0);

    // The events of each run have no gaps and no repetitions, and equal the log.
    let mut numbers: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (execution, seq) in &reader.seen {
        numbers.entry(execution).or_default().push(*seq);
    }
    assert_eq!(numbers.len(), 2, "{:?}", numbers.keys());
    for (execution, numbers) in numbers {
        let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
        assert_eq!(numbers, expected, "{execution}");
    }
    assert!(reader.seen.len() > 200, "{}", reader.seen.len());
}

#[test]
fn the_id_of_the_first_frame_is_the_beginning_of_the_stream() {
    let home = Home::new();
    home.server
        .new_session("build", 80, 24, "read go; seq 1 30; exec cat");
    home.start();
    home.server.tmux(&["send-keys", "-t", "build", "Enter"]);
    home.wait_for_row("build", |row| row["last_line"] == "30");
    let mut reader = Reader {
        socket: home.socket(),
        path: "/api/v1/events?since=1h".to_owned(),
        last_id: None,
        seen: Vec::new(),
    };
    // Cut off after the first frame.
    let mut bytes = 100;
    while reader.last_id.is_none() {
        reader.read(bytes, CEILING);
        bytes += 20;
        assert!(bytes < 5_000);
    }
    assert_eq!(reader.seen, []);
    // `since` counts from the first request, not from the second.
    reader.path = "/api/v1/events?since=0s".to_owned();
    reader.read(1_000_000, Duration::from_secs(1));
    let numbers: Vec<u64> = reader.seen.iter().map(|(_, seq)| *seq).collect();
    let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert!(numbers.len() > 2, "{numbers:?}");
    assert_eq!(numbers, expected);
}

#[test]
fn a_stream_begins_at_a_number_in_the_log_or_in_memory() {
    let home = Home::new();
    // More than an observer keeps in memory.
    let flood = "read go; for i in 1 2 3 4 5 6 7 8 9 10; do seq 1000000 1060000; sleep 0.1; done; \
                 echo over; exec cat";
    home.server.new_session("flood", 80, 24, flood);
    home.start();
    home.server.tmux(&["send-keys", "-t", "flood", "Enter"]);
    let row = home.wait_for_row("flood", |row| row["last_line"] == "over");
    let id = row["execution_id"].as_str().unwrap();
    let numbers_from = |from: u64| {
        let mut reader = Reader {
            socket: home.socket(),
            path: format!("/api/v1/events?execution={id}&from_seq={from}"),
            last_id: None,
            seen: Vec::new(),
        };
        reader.read(100_000_000, Duration::from_secs(2));
        let numbers = reader.seen.iter().map(|(_, seq)| *seq);
        numbers.collect::<Vec<u64>>()
    };
    let last = *numbers_from(1).last().unwrap();
    for from in [1, 2, last / 2, last] {
        let numbers = numbers_from(from);
        let expected: Vec<u64> = (from..).take(numbers.len()).collect();
        assert_eq!(numbers, expected, "from {from}");
        assert!(numbers.last() >= Some(&last), "{last}");
    }
    assert!(numbers_from(last + 100).is_empty());
    // A reader that is cut off while the log is read continues there.
    let mut reader = Reader {
        socket: home.socket(),
        path: format!("/api/v1/events?execution={id}&from_seq=3"),
        last_id: None,
        seen: Vec::new(),
    };
    // Already the first frame, which is no event, names the place.
    for bytes in [600, 5_000, 100_000, 1_000_000, 100_000_000] {
        reader.read(bytes, Duration::from_secs(2));
        assert!(reader.last_id.is_some());
    }
    let numbers: Vec<u64> = reader.seen.iter().map(|(_, seq)| *seq).collect();
    let expected: Vec<u64> = (3..).take(numbers.len()).collect();
    assert_eq!(numbers, expected);
    assert!(numbers.last() >= Some(&last), "{last}");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_stream_accepts_the_labels_and_patterns_of_log() {
    let home = Home::new();
    for name in ["build", "builder", "other"] {
        home.server.new_session(name, 80, 24, "exec cat");
    }
    home.start();
    let mut ids = BTreeMap::new();
    for name in ["build", "builder", "other"] {
        let row = home.wait_for_row(name, |_| true);
        ids.insert(name, row["execution_id"].as_str().unwrap().to_owned());
    }
    for (typed, expected) in [
        ("build".to_owned(), vec!["build"]),
        ("build*".to_owned(), vec!["build", "builder"]),
        ("?ther,build".to_owned(), vec!["build", "other"]),
        (ids["other"].clone(), vec!["other"]),
        ("none".to_owned(), vec![]),
    ] {
        let typed = typed.replace('@', "%40").replace('?', "%3F");
        let mut reader = Reader {
            socket: home.socket(),
            path: format!("/api/v1/events?since=1h&execution={typed}"),
            last_id: None,
            seen: Vec::new(),
        };
        reader.read(1_000_000, Duration::from_millis(700));
        // Live events, too.
        for name in ids.keys() {
            home.server
                .tmux(&["send-keys", "-t", &format!("={name}:"), "x", "Enter"]);
        }
        reader.read(1_000_000, Duration::from_millis(700));
        let seen: std::collections::BTreeSet<&str> =
            reader.seen.iter().map(|(id, _)| id.as_str()).collect();
        let expected: std::collections::BTreeSet<&str> =
            expected.iter().map(|name| ids[name].as_str()).collect();
        assert_eq!(seen, expected, "{typed}");
    }
}

#[test]
fn malicious_clients_do_no_harm() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    home.start();
    let socket = home.socket();
    // Half-open clients, slow clients that never read, and more clients than the limit.
    let mut clients = Vec::new();
    for number in 0..100 {
        let Ok(mut client) = UnixStream::connect(&socket) else {
            continue;
        };
        let head = match number % 3 {
            0 => "GET /api/v1/eve".to_owned(),
            1 => get("/api/v1/events?since=1h"),
            _ => String::new(),
        };
        let _ = client.write_all(head.as_bytes());
        clients.push(client);
    }
    // Half-open clients are dropped after a timeout, which makes room again.
    wait_for("room", CEILING, || {
        let answer = request(&socket, &get("/healthz"));
        answer
            .starts_with("HTTP/1.1 200 ")
            .then_some(())
            .ok_or(answer)
    });
    home.server
        .tmux(&["send-keys", "-t", "build", "still here", "Enter"]);
    drop(clients);
    home.wait_for_row("build", |row| row["last_line"] == "still here");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_removed_socket_is_created_again() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    home.start();
    let socket = home.socket();
    // Together with its directory, as a logout may remove it.
    std::fs::remove_dir_all(socket.parent().unwrap()).unwrap();
    wait_for("the socket", CEILING, || {
        match UnixStream::connect(&socket) {
            Ok(_) => Ok(()),
            Err(cause) => Err(cause),
        }
    });
    assert_eq!(home.rows().len(), 1);
    assert_code(&home.run(&["stop"]), 0);
}
