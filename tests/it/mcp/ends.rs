//! The server ends with its client, however that ends, and leaves nothing.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::client::Client;
use super::{assert_none_is_left_within, channels};
use crate::cli::{assert_code, text};
use crate::observer::Home;
use crate::support::{CEILING, wait_for, within};

/// The time in which a server ends. Clients kill it after two seconds; the ceiling allows for a busy machine, and the
/// measured times are printed.
const END: Duration = Duration::from_secs(4);

const WAITS: usize = 50;

/// The memory that a server may take while its client reads nothing, in KiB.
const GROWTH_KIB_MAX: u64 = 16 << 10;

/// A home whose server keeps its temporary files in a place of their own.
fn home(has_observer: bool) -> Home {
    let home = Home::new();
    home.server.shell("web");
    fs::create_dir(home.directory().join("tmp")).unwrap();
    if has_observer {
        home.start();
    }
    home
}

fn command(home: &Home) -> Command {
    let socket = home.server.socket().display().to_string();
    let mut command = home.command(&["mcp", "-S", &socket, "--allow-input"]);
    command.env("TMPDIR", home.directory().join("tmp"));
    command
}

/// Calls waits of all kinds, and waits until they have begun.
#[track_caller]
fn start_waits(home: &Home, client: &mut Client) {
    for number in 0..WAITS {
        let condition = match number % 4 {
            2 => json!({"pane": "web", "text": "never"}),
            1 => json!({"pane": "web", "regex": "nev+er"}),
            0 => json!({"pane": "web", "channel": "never"}),
            _ => json!({"pane": "web", "exit": true}),
        };
        client.call_with_progress("wait_for", condition);
    }
    if let Err(left) = channels(home, WAITS.div_ceil(4)) {
        panic!("only {left:#?}: {:#?}", client.rest());
    }
}

/// Lists the sockets and pipes below a directory.
fn sockets(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                sockets(&entry.path())
            } else if kind.is_socket() || kind.is_fifo() {
                vec![entry.path().display().to_string()]
            } else {
                Vec::new()
            }
        })
        .collect()
}

#[track_caller]
fn assert_nothing_is_left(home: &Home) {
    assert_none_is_left_within(home, END);
    let temporary = fs::read_dir(home.directory().join("tmp")).unwrap();
    assert_eq!(temporary.count(), 0);
    if !home.data().join("observer.json").exists() {
        assert_eq!(sockets(home.directory()), Vec::<String>::new());
    }
    // The pane is as it was.
    home.server.types("web", "echo alive $((6 * 7))");
    home.server.wait_for_text("web", "alive 42");
}

#[test]
fn the_end_of_the_input_ends_fifty_waits() {
    for has_observer in [false, true] {
        let home = home(has_observer);
        let mut client = Client::of(command(&home));
        client.connect(super::official::Era::Handshake);
        start_waits(&home, &mut client);
        // A line without its end is none.
        client.send_raw(
            br#"{"jsonrpc":"2.0","id":"half","method":"tools/call","params":{"name":"send_input","#,
        );
        let began = Instant::now();
        let output = client.end_within(END);
        eprintln!("observer {has_observer}: {:?}", began.elapsed());
        assert_code(&output, 0);
        assert_nothing_is_left(&home);
    }
}

#[test]
fn a_signal_ends_fifty_waits() {
    for (signal, has_observer) in [
        (Signal::TERM, false),
        (Signal::INT, true),
        (Signal::HUP, false),
    ] {
        let home = home(has_observer);
        let mut client = Client::of(command(&home));
        client.connect(super::official::Era::Handshake);
        start_waits(&home, &mut client);
        let began = Instant::now();
        client.signal(signal);
        let output = client.exit_within(END);
        eprintln!("{signal:?}: {} after {:?}", output.status, began.elapsed());
        assert_code(&output, 0);
        assert_nothing_is_left(&home);
    }
}

/// What the system does to the pipes of a client that is killed: both ends are gone at once.
#[test]
fn the_death_of_the_client_ends_fifty_waits() {
    for has_observer in [false, true] {
        let home = home(has_observer);
        let mut server = command(&home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = server.stdin.take().unwrap();
        let mut lines = String::new();
        for id in 0..WAITS {
            let arguments = json!({"pane": "web", "text": "never"});
            let params =
                json!({"name": "wait_for", "arguments": arguments, "_meta": {"progressToken": id}});
            let wait =
                json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
            // Answers are on their way, too.
            let list = json!({"jsonrpc": "2.0", "id": id + WAITS, "method": "ping"});
            lines.push_str(&format!("{wait}\n{list}\n"));
        }
        input.write_all(lines.as_bytes()).unwrap();
        drop(server.stdout.take());
        drop(input);
        let began = Instant::now();
        let ended = within(END, || server.try_wait().unwrap().ok_or(()));
        eprintln!("observer {has_observer}: {:?}", began.elapsed());
        if ended.is_err() {
            server.kill().unwrap();
        }
        let status = server.wait().unwrap();
        assert!(ended.is_ok(), "it still ran");
        // No signal has ended it: what it had to clear away, it could.
        assert!(status.code().is_some(), "{status}");
        assert_nothing_is_left(&home);
    }
}

/// Returns the resident memory of a process in KiB.
#[track_caller]
fn memory_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Fills the pane with output, so that reading it takes a whole result.
#[track_caller]
fn fill(home: &Home) {
    let row = "x".repeat(70);
    home.server.types(
        "web",
        &format!("for i in $(seq 60); do echo $i {row}; done"),
    );
    home.server.wait_for_text("web", "\n60 x");
}

#[test]
fn a_client_that_stops_reading_holds_up_neither_the_end_nor_the_memory() {
    for has_observer in [false, true] {
        let home = home(has_observer);
        let mut client = Client::of(command(&home));
        client.connect(super::official::Era::Handshake);
        fill(&home);
        start_waits(&home, &mut client);
        client.stop_reading();
        // Less than a pipe holds, and answers of more.
        for _ in 0..300 {
            client.call("read_output", json!({"pane": "web"}));
        }
        home.server.types("web", "echo ne''ver");
        home.server.wait_for_text("web", "\nnever");
        let began = Instant::now();
        let output = client.end_within(END);
        eprintln!(
            "observer {has_observer}: {} after {:?}",
            output.status,
            began.elapsed()
        );
        assert_code(&output, 0);
        assert_nothing_is_left(&home);
    }
}

#[test]
fn answers_that_nobody_reads_do_not_fill_the_memory() {
    let home = home(false);
    let mut client = Client::of(command(&home));
    client.connect(super::official::Era::Handshake);
    fill(&home);
    // What a server allocates once, it has.
    for _ in 0..50 {
        client.tool("read_output", json!({"pane": "web"}));
    }
    let before = memory_kib(client.pid());
    client.stop_reading();
    // Answers of 40 MB.
    for _ in 0..10_000 {
        client.call("read_output", json!({"pane": "web"}));
    }
    // The memory is watched until it is the same for a second.
    let mut last = (memory_kib(client.pid()), Instant::now());
    wait_for("a steady memory", CEILING, || {
        let now = memory_kib(client.pid());
        if now > last.0 + 256 {
            last = (now, Instant::now());
        }
        if last.1.elapsed() > Duration::from_secs(1) {
            Ok(())
        } else {
            Err(now)
        }
    });
    eprintln!(
        "{before} KiB before, {} KiB with a client that does not read",
        last.0
    );
    assert!(
        last.0 < before + GROWTH_KIB_MAX,
        "{before} KiB, then {} KiB",
        last.0
    );
    // A client that reads again is answered.
    client.read_again();
    for _ in 0..500 {
        client.next_answer();
    }
    client.signal(Signal::TERM);
    assert_code(&client.exit_within(END), 0);
    assert_nothing_is_left(&home);
}

#[test]
fn the_end_of_the_input_is_an_end_at_any_time() {
    let home = home(true);
    for input in [
        "",
        "\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
    ] {
        let mut client = Client::of(command(&home));
        client.send_raw(input.as_bytes());
        let output = client.end_within(END);
        assert_code(&output, 0);
        assert!(
            text(&output.stdout).is_empty() || input.contains("ping"),
            "{output:?}"
        );
    }
    // Requests before the end are answered: a client of one line is `echo … | td-observe mcp`.
    let mut client = Client::of(command(&home));
    let id = client.request("tools/call", json!({"name": "list_panes", "arguments": {}}));
    client.close();
    let answer = client.answer(id);
    assert!(answer["result"].is_object(), "{answer}");
    assert_code(&client.end_within(END), 0);
    assert_nothing_is_left(&home);
}
