//! Faces that live on while hosts fall silent, lose their links and come back.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::world::World;
use crate::cli::{Running, assert_code, text};
use crate::mcp::client::Client;
use crate::mcp::official::Era;
use crate::support::{CEILING, wait_for};

/// The time within which a silent host is unreachable.
const SILENT: Duration = Duration::from_secs(15);

/// The time within which a host is read again that answers again: the longest pause between two attempts, and one attempt.
const BACK: Duration = Duration::from_secs(30);

const THREE: [&str; 6] = ["--host", "a", "--host", "b", "--host", "c"];

/// A running `td-observe serve` that reads hosts.
struct Page {
    running: Running,
    address: String,
    token: String,
}

impl Page {
    #[track_caller]
    fn start(world: &World, more: &[&str]) -> Self {
        let args = [&["serve", "--listen", "127.0.0.1:0"], more].concat();
        let running = Running::start(world.command(&args));
        let link = running.lines.recv_timeout(CEILING);
        let link = link.unwrap_or_else(|_| panic!("{}", running.complaints()));
        let (address, token) = link.split_once("/#token=").unwrap();
        Self {
            running,
            address: address.trim_start_matches("http://").to_owned(),
            token: token.to_owned(),
        }
    }

    #[track_caller]
    fn board(&self) -> Vec<Value> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(CEILING)).unwrap();
        let head = format!(
            "GET /api/v1/board HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
            self.address, self.token
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// Waits until the row of a host satisfies the predicate; returns how long that took.
    #[track_caller]
    fn wait_for(&self, host: &str, ceiling: Duration, is_met: impl Fn(&Value) -> bool) -> Duration {
        let began = Instant::now();
        wait_for(host, ceiling, || {
            let board = self.board();
            let is_met = board.iter().any(|row| row["host"] == host && is_met(row));
            is_met.then_some(()).ok_or(board)
        });
        began.elapsed()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.running.child.kill();
        let _ = self.running.child.wait();
    }
}

fn is_unreachable(row: &Value) -> bool {
    row["kind"] == "host" && row["state"] == "unreachable" && row["attention"] == "needs_you"
}

#[test]
fn the_page_goes_on_while_a_host_is_silent_or_cut_off() {
    let Some(world) = World::of_three() else {
        return;
    };
    world.start_observers();
    let page = Page::start(&world, &THREE);
    let says = |words: &'static str| move |row: &Value| row["last_line"] == words;
    let tells = |host: &str, words: &'static str| {
        world.host(host).server.types("work", words);
        page.wait_for(host, Duration::from_secs(3), says(words))
    };
    for host in ["a", "b", "c"] {
        page.wait_for(host, CEILING, |row| row["name"] == "work");
    }
    let a = world.host("a");
    a.link.silence();
    let mut others = Vec::new();
    let silent = Instant::now();
    while !page
        .board()
        .iter()
        .any(|row| row["host"] == "a" && is_unreachable(row))
    {
        assert!(silent.elapsed() <= SILENT, "{:#?}", page.board());
        for (host, words) in [("b", "one"), ("c", "two"), ("b", "three"), ("c", "four")] {
            others.push(tells(host, words));
        }
    }
    let silent = silent.elapsed();
    world.host("a").server.types("work", "meanwhile");
    a.link.unsilence();
    let back = page.wait_for("a", BACK, says("meanwhile"));
    // A host behind another one is cut off with it.
    world.host("b").link.cut();
    let cut = Instant::now();
    for host in ["b", "c"] {
        page.wait_for(host, SILENT.saturating_sub(cut.elapsed()), is_unreachable);
    }
    let cut = cut.elapsed();
    tells("a", "alone");
    world.host("b").link.mend();
    let mended = Instant::now();
    for host in ["b", "c"] {
        page.wait_for(host, BACK, |row| row["name"] == "work");
    }
    let latest = others.iter().max();
    eprintln!(
        "silent after {silent:?}, back after {back:?}; both cut off after {cut:?}, back after {:?}; others were at most \
         {latest:?} late",
        mended.elapsed()
    );
    // An observer that ends is a host without one, and one that begins again is read.
    let b = world.host("b");
    b.kill_observer();
    page.wait_for("b", SILENT, is_unreachable);
    b.start_observer();
    page.wait_for("b", BACK, |row| row["name"] == "work");
}

#[test]
fn a_wait_outlives_a_cut_and_is_of_one_host() {
    let Some(world) = World::of_three() else {
        return;
    };
    world.start_observers();
    let c = world.host("c");
    assert_code(&c.run(&["stop"]), 0);
    c.start_observer_with(&["--allow-input"]);
    let waits = [
        "wait",
        "c/work",
        "--send",
        "begin",
        "--text",
        "done",
        "--timeout",
        "60s",
    ];
    let wait = Running::start(world.command(&[&waits[..], &THREE].concat()));
    // What is sent shows that the wait has begun.
    c.server.wait_for_text("work", "begin");
    world.host("a").server.types("work", "done");
    world.host("b").link.cut();
    c.server.types("work", "in between");
    c.server.wait_for_text("work", "in between");
    world.host("b").link.mend();
    c.server.types("work", "it is done");
    let ended = wait.end();
    assert_code(&ended, 0);
    assert_eq!(text(&ended.stdout), "it is done\n", "{ended:?}");
    // A name that three hosts have names no pane.
    let all = world.run(&[&["wait", "work", "--text", "x"], &THREE[..]].concat());
    assert_code(&all, 2);
    eprintln!("{}", text(&all.stderr));
}

#[test]
fn an_agent_lists_and_reads_the_panes_of_all_hosts() {
    let Some(world) = World::of_three() else {
        return;
    };
    world.start_observers();
    for host in world.hosts() {
        host.server.types("work", &format!("this is {}", host.name));
    }
    let mut client = Client::of(world.command(&[&["mcp"], &THREE[..]].concat()));
    client.connect(Era::Handshake);
    let listed = wait_for("all panes", CEILING, || {
        let listed = client.tool("list_panes", json!({}));
        let shown = listed.to_string();
        let has_all = ["this is a", "this is b", "this is c"];
        has_all
            .iter()
            .all(|words| shown.contains(words))
            .then_some(listed)
            .ok_or(shown)
    });
    eprintln!("{listed:#}");
    for host in ["a", "b", "c"] {
        let pane = format!("{host}/work");
        // The run of another host is copied a moment after its row is known.
        wait_for(&pane, CEILING, || {
            let id = client.call("read_output", json!({"pane": pane}));
            let read = client.result(id).to_string();
            let has_read = read.contains(&format!("this is {host}"));
            has_read.then_some(()).ok_or(read)
        });
    }
    assert_code(&client.end(), 0);
}
