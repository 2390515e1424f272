//! Tests of a cell from its messages.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::kernel::samples::{message, printed, status};

fn reply(content: Value) -> Message {
    message(Channel::Shell, "execute_reply", "1", content)
}

fn failure() -> Value {
    json!({ "status": "error", "ename": "E", "evalue": "v", "traceback": ["E: v"], "execution_count": 4 })
}

fn is_ended(cell: &Cell) -> bool {
    cell.has_reply && cell.is_idle
}

proptest! {
    /// The messages of one socket keep their order; those of different sockets arrive in any order.
    #[test]
    fn a_cell_ends_when_both_have_come(
        texts in prop::collection::vec("[a-z]{1,3}", 0..5),
        reply_at in any::<prop::sample::Index>(),
        is_published in any::<bool>(),
    ) {
        let mut messages = vec![status("1", "busy")];
        messages.extend(texts.iter().map(|text| printed("1", text)));
        if is_published {
            messages.push(message(Channel::Iopub, "error", "1", failure()));
        }
        messages.push(status("1", "idle"));
        let reply_at = reply_at.index(messages.len() + 1);
        messages.insert(reply_at, reply(failure()));
        let mut cell = Cell::default();
        let (mut printed, mut errors) = (Vec::new(), 0);
        for (index, message) in messages.iter().enumerate() {
            prop_assert!(!is_ended(&cell));
            match cell.take(message) {
                CellStep::Output(CellOutput::Text { text, .. }) => printed.push(text),
                CellStep::Output(CellOutput::Error(error)) => {
                    prop_assert_eq!(printed.len(), texts.len(), "the exception follows the texts");
                    prop_assert_eq!(error.traceback, ["E: v"]);
                    errors += 1;
                }
                CellStep::Nothing => {}
                other => prop_assert!(false, "{:?}", other),
            }
            prop_assert_eq!(cell.has_reply, index >= reply_at);
        }
        prop_assert!(is_ended(&cell));
        prop_assert_eq!(printed, texts);
        prop_assert_eq!(errors, 1, "the exception is shown once");
        prop_assert_eq!(cell.count, Some(4));
        prop_assert_eq!(&cell.status, &CellStatus::Error { name: "E".into(), message: "v".into() });
    }
}

#[test]
fn messages_become_steps() {
    let mut cell = Cell::default();
    let mut take =
        |channel, msg_type, content| cell.take(&message(channel, msg_type, "1", content));
    let iopub = Channel::Iopub;
    let begins = take(
        iopub,
        "execute_input",
        json!({ "code": "1", "execution_count": 7 }),
    );
    assert!(matches!(begins, CellStep::Begins { code, count: Some(7) } if code == "1"));
    let question = json!({ "prompt": "name: ", "password": true });
    let question = take(Channel::Stdin, "input_request", question);
    assert!(matches!(question, CellStep::Question(question) if question.is_password));
    let value = json!({ "data": { "text/plain": ["a\n", "b"], "text/html": "<b>" } });
    for (msg_type, content, expected) in [
        (
            "stream",
            json!({ "name": "stderr", "text": "x" }),
            Some((OutputStream::Stderr, "x")),
        ),
        (
            "stream",
            json!({ "name": "new", "text": "x" }),
            Some((OutputStream::Stdout, "x")),
        ),
        (
            "execute_result",
            value.clone(),
            Some((OutputStream::Stdout, "a\nb\n")),
        ),
        (
            "display_data",
            value.clone(),
            Some((OutputStream::Stdout, "a\nb\n")),
        ),
        (
            "update_display_data",
            value,
            Some((OutputStream::Stdout, "a\nb\n")),
        ),
        (
            "display_data",
            json!({ "data": { "image/png": "iVBO" } }),
            None,
        ),
        ("display_data", json!([]), None),
        (
            "error",
            json!({ "ename": "E", "evalue": "v" }),
            Some((OutputStream::Stderr, "E: v\n")),
        ),
        (
            "clear_output",
            json!({ "wait": true }),
            Some((OutputStream::Stdout, "\r")),
        ),
    ] {
        let CellStep::Output(output) = take(iopub, msg_type, content) else {
            panic!("{msg_type} is no output");
        };
        let text = output.text();
        let text = text.as_ref().map(|(stream, text)| (*stream, text.as_str()));
        assert_eq!(text, expected, "{msg_type}");
    }
    for (channel, msg_type) in [
        (iopub, "comm_open"),
        (iopub, ""),
        (Channel::Shell, "stream"),
        (Channel::Control, "execute_reply"),
    ] {
        let step = take(channel, msg_type, json!({ "text": "x", "status": "ok" }));
        assert!(matches!(step, CellStep::Nothing), "{msg_type}: {step:?}");
    }
    assert!(!cell.has_reply && !cell.is_idle);
}

/// IPython prints errors of its own commands and does not publish them.
#[test]
fn an_exception_that_was_printed_is_not_shown_again() {
    for (text, is_shown) in [("E: v\n", false), ("E: w\n", true)] {
        let mut cell = Cell::default();
        let content = json!({ "name": "stderr", "text": text });
        cell.take(&message(Channel::Iopub, "stream", "1", content));
        cell.take(&reply(failure()));
        let step = cell.take(&status("1", "idle"));
        assert_eq!(
            matches!(step, CellStep::Output(CellOutput::Error(_))),
            is_shown,
            "{step:?}"
        );
        assert!(matches!(cell.status, CellStatus::Error { .. }));
    }
}

#[test]
fn replies_have_a_status() {
    for (content, expected) in [
        (json!({ "status": "ok" }), CellStatus::Ok),
        (json!({ "status": "aborted" }), CellStatus::Aborted),
        (json!({ "status": "abort" }), CellStatus::Aborted),
        (json!(null), CellStatus::Ok),
    ] {
        let mut cell = Cell::default();
        assert!(matches!(cell.take(&reply(content)), CellStep::Nothing));
        assert!(cell.has_reply);
        assert_eq!(&cell.status, &expected);
    }
    let mut cell = Cell::default();
    cell.take(&reply(failure()));
    assert!(matches!(
        cell.give_up(),
        CellStep::Output(CellOutput::Error(_))
    ));
    assert!(matches!(cell.give_up(), CellStep::Nothing));
    assert!(matches!(cell.status, CellStatus::Error { .. }));
    // Without a reply, it is unknown whether the code ran to its end.
    let mut cell = Cell::default();
    assert!(matches!(cell.give_up(), CellStep::Nothing));
    assert_eq!(&cell.status, &CellStatus::Aborted);
}

#[test]
fn lines_of_a_log_are_read_from_their_type() {
    let display = |data: Value| {
        let content = json!({ "data": data });
        match Cell::default().take(&message(Channel::Iopub, "display_data", "1", content)) {
            CellStep::Output(output) => output,
            other => panic!("{other:?}"),
        }
    };
    let line = json!({ "level": "warning", "message": "m" });
    let line = display(json!({ LOG_TYPE: line, "text/plain": "t" })).log_line();
    assert_eq!(
        line.unwrap(),
        LogLine {
            level: "warning".into(),
            message: "m".into()
        }
    );
    assert_eq!(display(json!({ LOG_TYPE: "m" })).log_line(), None);
    assert_eq!(display(json!({ "text/plain": "t" })).log_line(), None);
}
