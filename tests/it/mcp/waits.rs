//! Waits by MCP: bursts, histories that roll over, wrapped text, prompts, rewritten lines, ends and channels. None is
//! missed, and none is found that was there before.
//!
//! `TD_MCP_WAITS=2000 cargo test --test it mcp::waits` sets the number of waits.

use std::fs::File;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::Client;
use crate::observer::Home;
use crate::support::Dice;

/// The default number of waits.
const WAITS: u64 = 80;

/// The time of a wait that must find nothing.
const ABSENT_MS: u64 = 120;

/// A pane that prints what the test writes to its terminal.
struct Stage {
    name: String,
    width: u64,
    terminal: File,
}

fn stage(home: &Home, name: &str, (width, history): (u32, u32)) -> Stage {
    Stage {
        name: name.to_owned(),
        width: width.into(),
        terminal: home.server.silent_pane(name, (width, 20), history),
    }
}

/// What is written for a mark, and what is waited for.
fn printed(dice: &mut Dice, (mark, width): (&str, u64)) -> (String, Value) {
    let lines = |count: u64| {
        (0..count)
            .map(|n| format!("filler {n}\r\n"))
            .collect::<String>()
    };
    let text = json!({"text": mark});
    match dice.roll(8) {
        // The last line of a program without a line end.
        0 => (
            format!("Continue {mark}? [y/N] "),
            json!({"regex": format!("Continue {mark}\\?")}),
        ),
        1 => (
            format!("\rworking {mark} 1 \rworking {mark} 2 "),
            json!({"text": format!("{mark} 2")}),
        ),
        // The mark goes over the edge.
        2 => (
            format!("{}{mark}\r\nmore\r\n", "x".repeat(width as usize - 5)),
            text,
        ),
        // A burst that rolls the history over.
        3 => (
            lines(dice.roll(400)) + mark + "\r\n" + &lines(dice.roll(400)),
            text,
        ),
        // The line is erased at once.
        4 => (format!("{mark}\r\n\x1b[2J\x1b[H"), text),
        5 => (
            format!("\r\n\x1b[31m{mark}\x1b[0m\r\n"),
            json!({"regex": format!("^{mark}$")}),
        ),
        6 => (format!("\r\n\r\n{mark} trailing\r\nmore"), text),
        _ => (format!("{mark}\r\n"), text),
    }
}

/// A shell that prints in many ways what it is told.
const TELLER: &str = r#"
while IFS=' ' read -r how mark; do
  case $how in
    prompt) printf 'Continue MARK-%s? ' "$mark";;
    rewrite) printf '\rworking 1\rMARK-%s ' "$mark";;
    burst) awk -v m="MARK-$mark" 'BEGIN { for (i = 0; i < 900; i++) print (i == 400 ? m : "filler " i) }';;
    erase) printf 'MARK-%s\n\033[2J\033[H' "$mark";;
    late) (sleep 0.05; echo "MARK-$mark") & wait;;
    *) echo "MARK-$mark";;
  esac
done"#;

/// Waits in the panes of a home, and returns what was wrong.
fn waits(home: &Home, seed: u64, count: u64) -> Vec<String> {
    let mut dice = Dice(seed);
    let sizes = [(80, 50), (41, 200), (80, 2000)];
    let mut stages: Vec<Stage> = (0..)
        .zip(sizes)
        .map(|(number, size)| stage(home, &format!("stage-{number}"), size))
        .collect();
    home.server.new_session("teller", 80, 20, TELLER);
    let mut client = Client::connected(home, &["--allow-input"]);
    let mut wrong = Vec::new();
    for number in 0..count {
        let mark = format!("MARK-{seed}x{number}");
        let stage = &mut stages[dice.roll(3) as usize];
        let problem = match dice.roll(5) {
            0 => absent(&mut client, stage, &mut dice, &mark),
            1 => told(&mut client, &mut dice, &format!("{seed}y{number}")),
            _ => present(&mut client, stage, &mut dice, &mark),
        };
        wrong.extend(problem);
    }
    assert_eq!(client.end().status.code(), Some(0));
    wrong
}

/// Text that is printed around the beginning of a wait is found.
fn present(client: &mut Client, stage: &mut Stage, dice: &mut Dice, mark: &str) -> Option<String> {
    let before = client.tool("read_output", json!({"pane": stage.name}));
    let (text, mut wait) = printed(dice, (mark, stage.width));
    wait["pane"] = json!(stage.name);
    wait["cursor"] = before["cursor"].clone();
    wait["timeout_ms"] = json!(9_000);
    let delay = Duration::from_micros(dice.roll(40_000));
    let (is_early, is_twice) = (dice.roll(2) == 0, dice.roll(4) == 0);
    let mut terminal = stage.terminal.try_clone().unwrap();
    let mut write = move || terminal.write_all(text.as_bytes()).unwrap();
    let writing = if is_early {
        write();
        thread::sleep(delay);
        None
    } else {
        Some(thread::spawn(move || {
            thread::sleep(delay);
            write();
        }))
    };
    let found = client.tool("wait_for", wait.clone());
    if let Some(writing) = writing {
        writing.join().unwrap();
    }
    if found["outcome"] != "found" || !found["line"].as_str().unwrap_or("").contains(mark) {
        return Some(format!("missed: {wait}: {found}"));
    }
    if is_twice {
        // The same line does not match again from behind it.
        wait["cursor"] = found["cursor"].clone();
        wait["timeout_ms"] = json!(ABSENT_MS);
        let again = client.tool("wait_for", wait.clone());
        let repeats = wait["text"]
            .as_str()
            .is_some_and(|text| text.ends_with(" 2"));
        if again["outcome"] != "timed_out" && !repeats {
            return Some(format!("again: {wait}: {again}"));
        }
    }
    None
}

/// Text that was there before does not match.
fn absent(client: &mut Client, stage: &mut Stage, dice: &mut Dice, mark: &str) -> Option<String> {
    let text = match dice.roll(3) {
        // A program has left it below the cursor.
        0 => format!("\x1b[2J\x1b[Hfirst\r\n{mark}\x1b[H"),
        1 => format!("{mark}? "),
        _ => format!("{mark}\r\n"),
    };
    let seen = client.tool("read_output", json!({"pane": stage.name}));
    let wait =
        json!({"pane": stage.name, "text": mark, "cursor": seen["cursor"], "timeout_ms": 9_000});
    stage.terminal.write_all(text.as_bytes()).unwrap();
    let found = client.tool("wait_for", wait);
    if found["outcome"] != "found" {
        return Some(format!("missed before: {text:?}: {found}"));
    }
    let wait = json!({"pane": stage.name, "text": mark, "timeout_ms": ABSENT_MS});
    let again = client.tool("wait_for", wait);
    let is_right = again["outcome"] == "timed_out" && again["may_have_missed"].is_null();
    (!is_right).then(|| format!("false: {text:?}: {again}"))
}

/// What follows a text that is typed is found, and its echo is not.
fn told(client: &mut Client, dice: &mut Dice, mark: &str) -> Option<String> {
    let ways = ["prompt", "rewrite", "burst", "erase", "late", "line"];
    let how = ways[dice.roll(6) as usize];
    let wait = json!({
        "pane": "teller",
        "text": format!("{how} {mark}"),
        "regex": format!("(^|[^ ] |^Continue )MARK-{mark}"),
        "timeout_ms": 9_000,
    });
    let found = client.tool("send_and_wait", wait.clone());
    (found["outcome"] != "found").then(|| format!("missed: {wait}: {found}"))
}

#[test]
fn no_wait_of_a_model_misses_a_line_or_finds_an_old_one() {
    let count = std::env::var("TD_MCP_WAITS").ok();
    let count = count.map_or(WAITS, |count| count.parse().unwrap());
    let homes = [true, false].map(|is_observed| {
        let home = Home::new();
        home.server.new_session("keep", 80, 20, "exec cat");
        if is_observed {
            home.start();
        }
        home
    });
    let began = Instant::now();
    let wrong: Vec<String> = thread::scope(|scope| {
        let lanes = (1..).zip(&homes);
        let lanes = lanes.map(|(seed, home)| scope.spawn(move || waits(home, seed, count / 2)));
        let lanes: Vec<_> = lanes.collect();
        lanes
            .into_iter()
            .flat_map(|lane| lane.join().unwrap())
            .collect()
    });
    eprintln!("{count} waits in {:.1?}", began.elapsed());
    assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
}

#[test]
fn no_wait_tells_what_is_redacted() {
    let home = Home::new();
    let pane = home.server.new_session("keys", 100, 20, "exec cat");
    // Put together here, so that this file has no key.
    let key = ["gh", "p_", "R7kQ2mZx9LpW4vTn8YcB3dFs6HjG1aUe5oKi"].concat();
    let mut client = Client::connected(&home, &[]);
    let cursor = client.tool("read_output", json!({"pane": "keys"}))["cursor"].clone();
    let line = format!("token {key} end\r\n");
    home.server
        .terminal(&pane)
        .write_all(line.as_bytes())
        .unwrap();
    for (text, outcome) in [(&key[..12], "timed_out"), ("token", "found")] {
        let wait = json!({"pane": "keys", "text": text, "cursor": cursor, "timeout_ms": 700});
        let answer = client.tool("wait_for", wait);
        assert_eq!(answer["outcome"], outcome, "{answer}");
        assert!(!answer.to_string().contains(&key[..12]), "{answer}");
    }
    // A line that surely follows the beginning of the wait.
    let file = home.directory().join("line");
    std::fs::write(&file, &line).unwrap();
    let teller = format!("while read -r _; do cat {}; done", file.display());
    home.server.new_session("teller", 100, 20, &teller);
    let mut client = Client::connected(&home, &["--allow-input"]);
    for (text, outcome, ceiling) in [(&key[..12], "timed_out", 700), ("token", "found", 9_000)] {
        let wait = json!({"pane": "teller", "text": "go", "contains": text, "timeout_ms": ceiling});
        assert_eq!(client.tool("send_and_wait", wait)["outcome"], outcome);
    }
}

#[test]
fn ends_and_channels_end_a_wait() {
    let home = Home::new();
    let server = &home.server;
    let keep = server.new_session("keep", 80, 20, "exec cat");
    let mut client = Client::connected(&home, &[]);
    // A pane that is kept after its program.
    server.tmux(&["set-option", "-g", "remain-on-exit", "on"]);
    server.new_session("dead", 80, 20, "echo last words; exit 3");
    let dead = client.tool("wait_for", json!({"pane": "dead", "exit": true}));
    assert_eq!(
        (&dead["outcome"], &dead["exit_status"]),
        (&json!("found"), &json!(3))
    );
    let listed = client.tool("list_panes", json!({"pane": "dead"}));
    assert_eq!(listed["panes"][0]["exit_status"], 3, "{listed}");
    let dead = client.tool("wait_for", json!({"pane": "dead", "text": "more"}));
    assert_eq!(dead["outcome"], "ended", "{dead}");
    server.tmux(&["set-option", "-g", "remain-on-exit", "off"]);
    // A program that ends while it is awaited.
    server.new_session("job", 80, 20, "sleep 0.3; echo over");
    let job = client.tool("wait_for", json!({"pane": "job", "text": "never"}));
    assert_eq!(job["outcome"], "ended", "{job}");
    // The first of several.
    let slow = server.new_session("slow", 80, 20, "exec cat");
    let mut terminal = server.terminal(&slow);
    let cursor = client.tool("read_output", json!({"pane": "slow"}))["cursor"].clone();
    let wait = json!({"panes": ["keep", "slow"], "text": "now", "cursor": cursor});
    let call = client.call("wait_for", wait);
    terminal.write_all(b"now\r\n").unwrap();
    let first = client.outcome(call);
    assert_eq!(
        (&first["outcome"], &first["pane"]),
        (&json!("found"), &json!(slow))
    );
    // What is printed between two waits in several panes, in either of them.
    let both = json!({"panes": ["keep", "slow"], "text": "between", "timeout_ms": 100});
    let nothing = client.tool("wait_for", both.clone());
    assert_eq!(nothing["outcome"], "timed_out");
    for (name, pane) in [("keep", &keep), ("slow", &slow)] {
        let line = format!("between {name}\r\n");
        server.terminal(pane).write_all(line.as_bytes()).unwrap();
        let mut again = both.clone();
        again["text"] = json!(line.trim_end());
        again["cursor"] = nothing["cursor"].clone();
        again["timeout_ms"] = json!(9_000);
        let found = client.tool("wait_for", again);
        assert_eq!(
            (&found["outcome"], &found["pane"]),
            (&json!("found"), &json!(pane))
        );
    }
    // A stop.
    let wait = json!({"pane": "slow", "text": "good", "stop": "^bad$", "cursor": cursor});
    let call = client.call("wait_for", wait);
    terminal.write_all(b"bad\r\n").unwrap();
    assert_eq!(client.outcome(call)["outcome"], "stopped");
    // A channel: signalled before, and during the wait, with and without a pane.
    server.tmux(&["wait-for", "-S", "early"]);
    for channel in [
        json!({"channel": "early"}),
        json!({"channel": "late", "pane": "keep"}),
    ] {
        let name = channel["channel"].as_str().unwrap().to_owned();
        let call = client.call("wait_for", channel);
        if name == "late" {
            server.tmux(&["wait-for", "-S", "late"]);
        }
        let signalled = client.outcome(call);
        assert_eq!(signalled["condition"], "channel", "{signalled}");
    }
    let silent = client.tool("wait_for", json!({"channel": "never", "timeout_ms": 200}));
    assert_eq!(silent["outcome"], "timed_out");
    assert_eq!(client.end().status.code(), Some(0));
}
