//! Tests of cells of other clients.

use serde_json::{Value, json};

use super::*;
use crate::kernel::samples::{answer, message, printed, status};

fn input(id: &str, code: &str) -> Message {
    let content = json!({ "code": code, "execution_count": 1 });
    message(Channel::Iopub, "execute_input", id, content)
}

/// Returns short descriptions of the activity in these messages.
fn activity(listening: &mut Listening, messages: &[Message]) -> Vec<String> {
    let mut words = Vec::new();
    for message in messages {
        let is_open = listening.message(message, &mut |activity| {
            words.push(match activity {
                Activity::Begins { cell, code, .. } => format!("{cell} begins {code}"),
                Activity::Output(output) => {
                    output.text().map_or_else(String::new, |(_, text)| text)
                }
                Activity::Ends { cell, status } => format!("{cell} ends {}", status.is_ok()),
                other => format!("{other:?}"),
            });
        });
        if !is_open {
            words.push("shut down".to_owned());
        }
    }
    words
}

#[test]
fn a_cell_of_another_client_is_followed_to_its_end() {
    let mut listening = Listening::default();
    let failed = message(
        Channel::Iopub,
        "error",
        "2",
        json!({ "ename": "E", "evalue": "v" }),
    );
    let words = activity(
        &mut listening,
        &[
            status("1", "busy"),
            input("1", "code"),
            printed("1", "text"),
            // A cell in a subshell, at the same time.
            input("2", "other"),
            failed,
            status("2", "idle"),
            status("1", "idle"),
            // A thread of the ended cell still prints.
            printed("1", "late"),
            status("1", "idle"),
        ],
    );
    let expected = [
        "1 begins code",
        "text",
        "2 begins other",
        "E: v\n",
        "2 ends false",
        "1 ends true",
        "late",
    ];
    assert_eq!(words, expected);
    assert!(listening.cells.is_empty());
}

#[test]
fn a_cell_that_began_before_begins_with_its_first_output() {
    let mut listening = Listening::default();
    let words = activity(
        &mut listening,
        &[printed("1", "a"), printed("1", "b"), status("1", "idle")],
    );
    assert_eq!(words, ["1 begins ", "a", "b", "1 ends true"]);
    // Nothing is known about a cell of which only the end arrives.
    assert!(activity(&mut listening, &[status("2", "idle")]).is_empty());
}

#[test]
fn other_requests_and_other_sockets_are_left_out() {
    let mut listening = Listening::default();
    let content = json!({ "name": "stdout", "text": "x" });
    let words = activity(
        &mut listening,
        &[
            answer(
                Channel::Iopub,
                "stream",
                ("1", "complete_request"),
                content.clone(),
            ),
            message(Channel::Shell, "stream", "1", content.clone()),
            answer(
                Channel::Iopub,
                "status",
                ("", ""),
                json!({ "execution_state": "starting" }),
            ),
        ],
    );
    assert!(words.is_empty(), "{words:?}");
}

#[test]
fn a_shutdown_ends_and_a_restart_does_not() {
    let mut listening = Listening::default();
    let shutdown = |content: Value| {
        answer(
            Channel::Iopub,
            "shutdown_reply",
            ("1", "shutdown_request"),
            content,
        )
    };
    assert!(activity(&mut listening, &[shutdown(json!({ "restart": true }))]).is_empty());
    assert_eq!(
        activity(&mut listening, &[shutdown(json!({ "restart": false }))]),
        ["shut down"]
    );
}

/// Memory is bounded even if a kernel never reports the idle state.
#[test]
fn cells_are_bounded() {
    let mut listening = Listening::default();
    for number in 0..2 * CELLS_MAX {
        activity(&mut listening, &[input(&number.to_string(), "code")]);
    }
    assert_eq!(listening.cells.len(), CELLS_MAX);
    for number in 0..CELLS_MAX {
        activity(&mut listening, &[status(&number.to_string(), "idle")]);
    }
    assert!(listening.cells.is_empty());
    assert_eq!(listening.ended.len(), ENDED_MAX);
    assert_eq!(
        activity(&mut listening, &[input("new", "code")]),
        ["new begins code"]
    );
}
