//! Hosts whose answers are not those of an observer: what they say is bounded, sanitized, and no file's name here.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::world::{Host, Place, World};
use crate::cli::{assert_code, text};
use crate::resources::peak_kb;
use crate::support::{CEILING, wait_for};

/// The time within which a face that shows a board once has ended, whatever a host does.
const ENDED: Duration = Duration::from_secs(20);

/// What listens in the place of an observer: answers each request with this expression of Python, again and again if it
/// is told to.
const LISTENER: &str = r#"
import os, socket, sys, threading
path, times, evil = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode().decode("unicode_escape").encode()
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(50)
print("ready", flush=True)
def serve(client):
    try:
        request = client.recv(65536)
        body = evil if b"healthz" not in request or times > 1 else b'{"status":"ok","problems":["\\u001b]0;evil\\u0007"],"observer":{"version":"9\\u001b[31m"}}'
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nETag: \"1\"\r\n")
        client.sendall(b"" if times > 1 else b"Content-Length: %d\r\n" % len(body))
        client.sendall(b"Connection: close\r\n\r\n")
        for _ in range(times):
            client.sendall(body)
        client.close()
    except OSError:
        pass
while True:
    client, _ = listener.accept()
    threading.Thread(target=serve, args=(client,), daemon=True).start()
"#;

/// A running listener. Dropping it ends the process.
struct Listener(Child);

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a listener on a host, whose program says that it is the observer.
#[track_caller]
fn listener(host: &Host, times: u64, body: &str) -> Listener {
    let socket = host.home.join("evil.sock").display().to_string();
    host.write_program("td-observe", &format!("#!/bin/sh\necho '{socket}'\n"));
    let mut command = host.command(
        "python3",
        &["-c", LISTENER, &socket, &times.to_string(), body],
    );
    let listener = Listener(command.stdout(Stdio::null()).spawn().unwrap());
    wait_for("the listener", CEILING, || std::fs::metadata(&socket));
    listener
}

#[track_caller]
fn rows(world: &World, host: &str) -> (Vec<Value>, Duration) {
    let began = Instant::now();
    let status = world.run(&["status", "--json", "--host", host]);
    let lines = text(&status.stdout);
    let rows = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    (rows.collect(), began.elapsed())
}

#[test]
fn a_program_that_prints_no_socket_is_one_row() {
    let Some(world) = World::new(&[Place::near("a").without_program()]) else {
        return;
    };
    let host = world.host("a");
    for (number, prints) in [
        "yes /a/long/path",
        "printf '\\033]0;evil\\007/tmp/x\\n'",
        "echo /tmp/x:/etc/passwd",
        "echo relative",
        "echo",
        "head -c 300 /dev/zero | tr '\\0' /",
        "echo '-oProxyCommand=touch trap'",
        "printf '\\033[2Jevil' >&2; exit 1",
        "exec sleep 1000",
        "kill -9 $$",
    ]
    .iter()
    .enumerate()
    {
        host.write_program("td-observe", &format!("#!/bin/sh\n{prints}\n"));
        let (rows, took) = rows(&world, "a");
        assert!(took < ENDED, "{prints}: {took:?}");
        let [row] = &rows[..] else {
            panic!("{prints}: {rows:#?}")
        };
        assert_eq!(row["state"], "unreachable", "{number}: {row}");
        let said = row["last_line"].as_str().unwrap();
        assert!(!said.is_empty() && said.len() < 1000, "{prints}: {said:?}");
        assert!(!said.contains(char::is_control), "{prints}: {said:?}");
        eprintln!("{prints}: {said} ({took:?})");
    }
}

#[test]
fn an_endless_answer_is_cut_off() {
    let Some(world) = World::new(&[Place::near("a").without_program()]) else {
        return;
    };
    let _listener = listener(world.host("a"), u64::MAX / 4, &"x".repeat(60_000));
    let began = Instant::now();
    let face = world
        .command(&["status", "--json", "--host", "a"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = face.id();
    let mut peak = 0;
    let mut face = face;
    wait_for("the face's end", ENDED, || {
        peak = peak.max(peak_kb(pid).unwrap_or(0));
        face.try_wait().unwrap().ok_or("it runs")
    });
    eprintln!("an endless answer took {:?} and {peak} kB", began.elapsed());
    assert!(peak < 300_000, "{peak} kB");
}

#[test]
fn names_and_texts_of_a_hostile_board_are_harmless() {
    let Some(world) = World::new(&[Place::near("a").without_program(), Place::near("b")]) else {
        return;
    };
    // The rows of an observer, with another name, id and text.
    let b = world.host("b");
    b.server.new_session("work", 80, 24, "exec cat");
    world.start_observer("b");
    let shown = text(&b.run(&["status", "--json"]).stdout);
    let mut row: Value = serde_json::from_str(shown.trim()).unwrap();
    let evil = "\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}[2J\u{202e}evil";
    for field in ["name", "last_line", "agent", "label", "asks"] {
        row[field] = evil.into();
    }
    row["id"] = "../../../../tmp/td-evil@1:%0".into();
    row["execution_id"] = "../../../../tmp/td-evil@1".into();
    let body = format!("[{row}]").replace('\\', "\\\\");
    let _listener = listener(world.host("a"), 1, &body);
    for args in [
        &["status"][..],
        &["status", "-v"],
        &["status", "--format", "{needs_you} {total}"],
    ] {
        let status = world.run(&[args, &["--host", "a", "--host", "b"]].concat());
        let shown = text(&status.stdout) + &text(&status.stderr);
        assert!(
            !shown.contains('\u{1b}') && !shown.contains('\u{7}'),
            "{shown:?}"
        );
        eprintln!("{shown}");
    }
    let (rows, _) = rows(&world, "a");
    eprintln!("{rows:#?}");
    assert_code(&world.run(&["status", "--json", "--host", "b"]), 0);
    assert!(!std::path::Path::new("/tmp/td-evil@1").exists());
}
