//! Tests of the bounded queue to the caller.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::kernel::samples::{message, printed, status};

#[derive(Clone, Debug)]
enum Step {
    /// Text of this size.
    Print(usize),
    Status,
    Report,
    Take,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_usize..3_000).prop_map(Step::Print),
        1 => Just(Step::Status),
        1 => Just(Step::Report),
        2 => Just(Step::Take),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// Every message is passed on or counted as missed, in order, and memory is bounded.
    #[test]
    fn passed_on_plus_missed_is_sent(steps in steps(), bytes_max in 1_usize..20_000) {
        let (mut sender, receiver) = feed_of(bytes_max);
        let (mut sent, mut sent_bytes, mut reports) = (0_u64, 0_u64, 0);
        let (mut passed, mut passed_bytes, mut taken_reports) = (0_u64, 0_u64, 0);
        let mut missed = MissedOutputs::default();
        // The number of the next message. A report of missed messages precedes the message that follows them.
        let mut next = 0;
        let mut take = |incoming| match incoming {
            Incoming::Message(message) => {
                if message.msg_type == "stream" {
                    let text: serde_json::Value = message.content().unwrap();
                    let text = text["text"].as_str().unwrap();
                    let number: u64 = text.split(' ').next().unwrap().parse().unwrap();
                    assert_eq!(number, next, "in order, with each gap before what follows");
                    next += 1;
                    passed += 1;
                    passed_bytes += message.size() as u64;
                }
            }
            Incoming::Missed(more) => {
                assert!(!more.is_empty());
                next += more.messages;
                missed.add(more);
            }
            _ => taken_reports += 1,
        };
        for step in steps {
            match step {
                Step::Print(size) => {
                    let message = printed("1", &format!("{sent} {}", "x".repeat(size)));
                    sent += 1;
                    sent_bytes += message.size() as u64;
                    sender.message(message).unwrap();
                }
                Step::Status => {
                    if sender.message(status("1", "busy")).is_err() {
                        // This message has about 300 bytes.
                        prop_assert!(lock(&sender.waiting).bytes + 400 > 4 * bytes_max);
                    }
                }
                Step::Report => {
                    reports += 1;
                    sender.report(Incoming::Beating(true));
                }
                Step::Take => {
                    if let Some(incoming) = receiver.take() {
                        take(incoming);
                    }
                }
            }
            prop_assert!(lock(&sender.waiting).bytes <= (4 * bytes_max).max(4_000));
        }
        sender.report(Incoming::Connected);
        while let Some(incoming) = receiver.take() {
            take(incoming);
        }
        prop_assert_eq!(passed + missed.messages, sent);
        prop_assert_eq!(passed_bytes + missed.bytes, sent_bytes);
        prop_assert_eq!(taken_reports, reports + 1);
        prop_assert_eq!(lock(&sender.waiting).bytes, 0);
    }
}

#[test]
fn the_messages_that_end_a_cell_are_never_dropped() {
    let (mut sender, receiver) = feed_of(1_000);
    sender.message(printed("1", &"x".repeat(2_000))).unwrap();
    let shell = message(Channel::Shell, "execute_reply", "1", json!({}));
    for (message, is_kept) in [
        (status("1", "idle"), true),
        (message(Channel::Iopub, "error", "1", json!({})), true),
        (
            message(Channel::Iopub, "execute_result", "1", json!({})),
            true,
        ),
        (
            message(Channel::Iopub, "display_data", "1", json!({})),
            false,
        ),
        (shell, true),
    ] {
        let name = message.msg_type.clone();
        sender.message(message).unwrap();
        let last = lock(&receiver.waiting).missed.messages;
        assert_eq!(last, u64::from(!is_kept), "{name}");
    }
    // An unlimited number of them is an error.
    let error = (0..100).find_map(|_| sender.message(status("1", "busy")).err());
    assert!(
        error
            .unwrap()
            .to_string()
            .contains("more messages than are read")
    );
}

#[test]
fn the_bell_rings_for_reports_and_for_the_end() {
    let (mut sender, receiver) = feed();
    assert!(receiver.bell().try_recv().is_err());
    for _ in 0..3 {
        sender.report(Incoming::Connected);
    }
    assert_eq!(receiver.bell().try_recv(), Ok(()));
    drop(sender);
    assert_eq!(std::iter::from_fn(|| receiver.take()).count(), 3);
    assert!(receiver.bell().recv().is_err());
}
