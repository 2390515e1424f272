//! Events: streams by execution and name; every text in every event type.

use proptest::prelude::*;

use super::super::{Redactor, Rules};
use super::{Case, assert_redacted, case, pieces};
use crate::event::{Envelope, EventKind, IterationOutcome, OutputStream, TdEvent};

fn redactor() -> Redactor {
    Redactor::new(Rules::builtin())
}

/// Returns all texts of an event.
fn texts_of(event: &TdEvent) -> String {
    let mut all = String::new();
    event.clone().for_each_text(&mut |text| {
        all.push_str(text);
        all.push('\n');
    });
    all
}

fn token(iteration: u32, token: &str) -> TdEvent {
    TdEvent::TokenReceived {
        execution_id: "e".into(),
        iteration,
        token: token.into(),
        pane: None,
    }
}

fn output(stream: &str, text: &str) -> TdEvent {
    TdEvent::ExecutionOutput {
        execution_id: "e".into(),
        stream: stream.into(),
        text: text.into(),
    }
}

fn key() -> Case {
    let dice: Vec<u16> = (0..200).map(|n: u16| n.wrapping_mul(7919) >> 3).collect();
    super::make(&super::FORMS[0], &dice, 7, "", "")
}

#[test]
fn every_text_of_every_type_is_redacted() {
    let secret = key();
    let mut seen = 0;
    for kind in EventKind::ALL {
        // Every field is a text at first; for fields of other types, the error names the type.
        let mut fields = serde_json::Map::new();
        fields.insert("type".into(), kind.as_str().into());
        fields.insert("execution_id".into(), "e".into());
        let event = loop {
            match serde_json::from_value::<TdEvent>(fields.clone().into()) {
                Ok(event) => break event,
                Err(error) => {
                    let error = error.to_string();
                    let field = error
                        .split('`')
                        .nth(1)
                        .expect("it names the field")
                        .to_owned();
                    let value = match field.as_str() {
                        "pane" => "%1".into(),
                        "outcome" => serde_json::json!({"LlmError": {"error": secret.text}}),
                        "panes" => serde_json::json!(["%1"]),
                        "cursor" => serde_json::json!({"x": 0, "y": 0}),
                        "rows" => serde_json::json!([{"row": 0, "text": secret.text}]),
                        _ => secret.text.as_str().into(),
                    };
                    let good = |value: &serde_json::Value| {
                        let mut fields = fields.clone();
                        fields.insert(field.clone(), value.clone());
                        let read = serde_json::from_value::<TdEvent>(fields.into());
                        read.is_ok()
                            || read
                                .is_err_and(|error| error.to_string().starts_with("missing field"))
                    };
                    let values = [value, 1.into(), true.into()];
                    let value = values
                        .iter()
                        .find(|value| good(value))
                        .expect("some value is good");
                    fields.insert(field, value.clone());
                }
            }
        };
        let mut masked = event.clone();
        let found = redactor().event(&mut masked);
        assert_eq!(found, texts_of(&event) != texts_of(&masked), "{event:?}");
        // The name of the stream is not a text.
        if let TdEvent::ExecutionOutput { stream, .. } = &mut masked {
            *stream = OutputStream::Stdout.into();
        }
        assert_redacted(&secret, &format!("{masked:?}"));
        seen += usize::from(found);
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn unknown_events_and_outcomes_are_redacted_except_ids() {
    let secret = key();
    let line = format!(
        r#"{{"seq":1,"ts":"2026-01-21T10:00:01Z","event":{{"type":"New","execution_id":"{0}","a":[{{"b":"x {0}"}}],"n":1}}}}"#,
        secret.key
    );
    let mut event = serde_json::from_str::<Envelope>(&line).unwrap().event;
    assert!(redactor().event(&mut event));
    assert_eq!(event.execution_id(), secret.key);
    assert_redacted(&secret, &texts_of(&event));
    let mut event = TdEvent::IterationCompleted {
        execution_id: "e".into(),
        iteration: 1,
        outcome: IterationOutcome::ToolError {
            tool: "curl".into(),
            error: secret.text.clone(),
        },
    };
    assert!(redactor().event(&mut event));
    assert_redacted(&secret, &format!("{event:?}"));
}

#[test]
fn streams_do_not_mix() {
    let secret = key();
    let (one, two) = secret.text.split_at(10);
    let mut redactor = redactor();
    redactor.event(&mut token(1, one));
    // Each iteration is a separate stream, so the rest of a key does not continue there.
    for mut other in [token(2, two), output("stdout", two), output("stderr", two)] {
        let same = other.clone();
        assert!(!redactor.event(&mut other));
        assert_eq!(other, same);
    }
    let mut rest = token(1, two);
    assert!(redactor.event(&mut rest));
    assert_eq!(rest, token(1, "[redacted:anthropic-key]"));
}

#[test]
fn the_remembered_state_is_bounded() {
    let mut redactor = redactor();
    for number in 0..20_000 {
        let id = format!("e{number}");
        redactor.event(&mut TdEvent::TokenReceived {
            execution_id: id.as_str().into(),
            iteration: 1,
            token: "password=".into(),
            pane: None,
        });
        redactor.event(&mut token(number, "password="));
        redactor.event(&mut TdEvent::PaneOpened {
            execution_id: "e".into(),
            pane: id.as_str().into(),
            width: 80,
            height: 24,
            command: "sh".into(),
        });
    }
    let (executions, panes, streams) = redactor.remembered();
    assert!(executions <= 4_096 && panes <= 256 && streams <= 16);
}

proptest! {
    #[test]
    fn a_key_is_redacted_in_tokens_and_outputs(case in case(|_| true), cuts in proptest::collection::vec(any::<u16>(), 0..30)) {
        let mut redactor = redactor();
        let mut shown = [String::new(), String::new(), String::new()];
        for piece in pieces(&case.text, &cuts) {
            let events = [token(1, piece), output("stdout", piece), output("stderr", piece)];
            for (shown, mut event) in shown.iter_mut().zip(events) {
                redactor.event(&mut event);
                match event {
                    TdEvent::TokenReceived { token: text, .. } | TdEvent::ExecutionOutput { text, .. } => shown.push_str(&text),
                    _ => unreachable!(),
                }
            }
        }
        for shown in shown {
            assert_redacted(&case, &shown);
        }
    }
}
