//! Fifty waits at once, of which some are cancelled: each other one is answered once.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::client::{Client, Id};
use super::official::Era;
use super::{assert_none_is_left_within, wait_for_channels};
use crate::cli::assert_code;
use crate::observer::Home;
use crate::support::{CEILING, Dice, wait_for};

const WAITS: u64 = 50;

/// Starts waits, each for a line of its own; every second one reports its progress. What is printed from now on counts,
/// even if a wait begins later.
#[track_caller]
fn start_waits(client: &mut Client, round: u64, count: u64) -> BTreeMap<u64, Id> {
    let cursor = client.tool("read_output", json!({"pane": "web"}))["cursor"].clone();
    let start = |number: u64| {
        let tag = format!("round {round} tag {number};");
        let condition = if number.is_multiple_of(3) {
            "regex"
        } else {
            "text"
        };
        let arguments =
            json!({"pane": "web", condition: tag, "cursor": cursor, "timeout_ms": 60_000});
        let id = if number.is_multiple_of(2) {
            client.call_with_progress("wait_for", arguments)
        } else {
            client.call("wait_for", arguments)
        };
        (number, id)
    };
    (0..count).map(start).collect()
}

/// Prints the lines that all waits of a round wait for.
fn print_all(home: &Home, round: u64, count: u64) {
    let line = format!(
        "for i in $(seq 0 {}); do echo \"round {round} tag $i;\"; done",
        count - 1
    );
    home.server.types("web", &line);
}

#[track_caller]
fn assert_found(client: &mut Client, round: u64, number: u64, id: Id) {
    let found = client.outcome(id);
    assert_eq!(found["outcome"], "found", "{number}: {found}");
    assert_eq!(
        found["line"],
        format!("round {round} tag {number};"),
        "{found}"
    );
}

/// Nothing else has come but progress.
#[track_caller]
fn assert_nothing_else(client: &mut Client) {
    let mut rest = client.rest();
    rest.retain(|message| message["method"] != "notifications/progress");
    assert_eq!(rest, Vec::<Value>::new());
}

#[test]
fn of_fifty_waits_those_that_are_not_cancelled_are_answered_once() {
    for (has_observer, era) in [(true, Era::Handshake), (false, Era::PerRequest)] {
        let home = Home::new();
        home.server.shell("web");
        if has_observer {
            home.start();
        }
        let mut client = Client::connected_in(era, &home, &[]);
        let mut dice = Dice(WAITS);

        // All are cancelled before anything is printed: none of those is answered.
        let waits = start_waits(&mut client, 0, WAITS);
        let mut cancelled: Vec<u64> = waits.keys().copied().collect();
        cancelled.retain(|_| dice.roll(2) == 0);
        for number in &cancelled {
            client.cancel(waits[number]);
        }
        // The cancellations are read before this is answered.
        client.ask("tools/list", json!({}));
        print_all(&home, 0, WAITS);
        home.server
            .wait_for_text("web", &format!("\nround 0 tag {};", WAITS - 1));
        for (number, id) in &waits {
            if !cancelled.contains(number) {
                assert_found(&mut client, 0, *number, *id);
            }
        }
        assert_nothing_else(&mut client);
        for number in &cancelled {
            assert_eq!(client.answers(waits[number]), 0, "{number}");
        }

        // They are cancelled while the lines come: those may be answered, and at most once.
        let waits = start_waits(&mut client, 1, WAITS);
        client.ask("tools/list", json!({}));
        print_all(&home, 1, WAITS);
        let mut left: Vec<u64> = waits.keys().copied().collect();
        let mut kept = Vec::new();
        while !left.is_empty() {
            let at = dice.roll(left.len() as u64);
            let number = left.swap_remove(usize::try_from(at).unwrap());
            if dice.roll(2) == 0 {
                client.cancel(waits[&number]);
                client.cancel(waits[&number]);
            } else {
                kept.push(number);
            }
        }
        home.server
            .wait_for_text("web", &format!("\nround 1 tag {};", WAITS - 1));
        for number in kept {
            assert_found(&mut client, 1, number, waits[&number]);
        }
        client.rest();
        assert!(waits.values().all(|id| client.answers(*id) <= 1));
        assert_code(&client.end(), 0);
        assert_none_is_left_within(&home, CEILING);
    }
}

#[test]
fn a_cancelled_wait_of_any_kind_leaves_nothing() {
    let home = Home::new();
    home.server.shell("web");
    let mut client = Client::connected(&home, &[]);
    let kinds = [
        json!({"text": "never"}),
        json!({"regex": "never+"}),
        json!({"exit": true}),
        json!({"channel": "never"}),
        json!({"idle_ms": 600_000}),
        json!({"state": ["waiting"]}),
    ];
    let waits: Vec<Id> = (0..48)
        .map(|number| {
            let mut arguments = kinds[number % kinds.len()].clone();
            arguments["pane"] = json!("web");
            client.call("wait_for", arguments)
        })
        .collect();
    wait_for_channels(&home, 8);
    for id in waits {
        client.cancel(id);
    }
    wait_for_channels(&home, 0);
    let threads = || {
        let tasks = format!("/proc/{}/task", client.pid());
        let names = std::fs::read_dir(tasks).unwrap().flatten();
        let names = names.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.collect::<Vec<String>>()
    };
    // A server without calls has some ten threads.
    wait_for("the end of their threads", CEILING, || {
        let left = threads();
        if left.len() < 30 { Ok(()) } else { Err(left) }
    });
    assert_nothing_else(&mut client);
    assert_code(&client.end(), 0);
    assert_none_is_left_within(&home, CEILING);
}
