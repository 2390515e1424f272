//! The API: answers, streams that continue exactly, and clients that mean harm.

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
fn it_answers_as_promised() {
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
    let metrics = body("/metrics");
    assert!(
        metrics.contains("td_observe_rows{attention=\"working\"} 1"),
        "{metrics}"
    );
    for (head, status) in [
        (get("/api/v1/nothing"), "404"),
        (get("/api/v1/runs/none/events"), "404"),
        (get("/api/v1/events?type=Nothing"), "400"),
        (get("/api/v1/events?cursor=x"), "400"),
        (get("/api/v1/board?wait=x"), "400"),
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

/// A client that reads the stream, is cut off, and comes back with the last id that it has read.
struct Reader {
    socket: std::path::PathBuf,
    path: String,
    last_id: Option<String>,
    seen: Vec<(String, u64)>,
}

impl Reader {
    /// Reads at most so many bytes for at most so long; a frame that is cut is forgotten.
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

/// Removes the frames of chunks, as far as the text goes.
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
fn a_reader_that_is_cut_off_has_every_event_once() {
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
    // The rest, with time enough.
    for _ in 0..3 {
        reader.read(100_000_000, Duration::from_secs(2));
    }
    assert_code(&home.run(&["stop"]), 0);

    // What was read of each run is without gaps and repetitions, and what the log has.
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
fn clients_that_mean_harm_do_none() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    home.start();
    let socket = home.socket();
    // Half-open ones, slow ones that never read, and more than there is room for.
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
    // The half-open ones are dropped after their time, and there is room again.
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
fn a_socket_that_is_removed_is_made_again() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    home.start();
    let socket = home.socket();
    // With its directory, as a logout may remove it.
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
