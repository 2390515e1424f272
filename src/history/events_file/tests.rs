//! Pending lines, in all orders of events and failed writes.

use proptest::prelude::*;

use super::*;
use crate::timestamp::Timestamp;

fn envelope(seq: u64, is_text: bool, size: usize) -> Envelope {
    let execution_id = ExecutionId::from("a");
    let event = if is_text {
        TdEvent::TokenReceived {
            execution_id,
            iteration: 1,
            token: "x".repeat(size),
            pane: None,
        }
    } else {
        TdEvent::Warning {
            execution_id,
            context: "c".into(),
            message: "y".repeat(size),
        }
    };
    Envelope::new(Some(seq), Timestamp::default(), event)
}

/// Checks that the lines and their gaps account for each number once, in order.
fn accounted(lines: &[u8]) -> u64 {
    let mut next = 1;
    for line in lines
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let LogGapRange { first, last, .. } = numbers(line).unwrap();
        assert_eq!(first, next, "{}", String::from_utf8_lossy(lines));
        assert!(last >= first);
        next = last + 1;
    }
    next
}

proptest! {
    /// For all sequences of pushes and failed writes, each number is in the file once and in
    /// order, as an event or in a gap, and the pending bytes respect the limits.
    #[test]
    fn every_number_is_accounted_for(
        steps in proptest::collection::vec((0..10u8, any::<bool>(), 0..300usize), 1..120),
    ) {
        let (mut pending, mut writer) = (PendingLines::default(), LineWriter::default());
        let (id, mut file, mut seq) = (ExecutionId::from("a"), Vec::new(), 0);
        let mut limits = PendingLimits::NONE;
        for (step, is_text, size) in steps {
            match step {
                0..7 => {
                    seq += 1;
                    pending.push(&mut writer, &id, &envelope(seq, is_text, size), limits);
                    prop_assert!(pending.len() <= limits.lifecycle);
                }
                7..9 => {
                    let attempt = pending.begin_write(&mut writer, &id);
                    let lines = &pending.lines;
                    let cut = (size * lines.len() / 300).min(lines.len());
                    let kept = lines[..cut].iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
                    file.extend_from_slice(&lines[..kept]);
                    pending.write_failed(attempt, kept);
                    limits = PendingLimits { text: 1000, lifecycle: 1500 };
                    pending.drop_excess(&mut writer, &id, limits);
                    prop_assert!(pending.len() <= limits.lifecycle);
                }
                _ => {
                    let _ = pending.begin_write(&mut writer, &id);
                    file.extend_from_slice(&pending.lines);
                    pending.write_done(&mut writer);
                    prop_assert!(pending.is_empty());
                    limits = PendingLimits::NONE;
                }
            }
        }
        let _ = pending.begin_write(&mut writer, &id);
        file.extend_from_slice(&pending.lines);
        prop_assert_eq!(accounted(&file), seq + 1);
    }
}

#[test]
fn life_cycle_events_have_reserved_room() {
    let (mut pending, mut writer) = (PendingLines::default(), LineWriter::default());
    let id = ExecutionId::from("a");
    let limits = PendingLimits {
        text: 1000,
        lifecycle: 2000,
    };
    for seq in 1..=5 {
        pending.push(&mut writer, &id, &envelope(seq, true, 400), limits);
    }
    assert_eq!(pending.seq_range(), Some((1, 5)));
    pending.push(&mut writer, &id, &envelope(6, false, 10), limits);
    pending.push(&mut writer, &id, &envelope(7, true, 1), limits);
    let text = String::from_utf8(pending.lines.clone()).unwrap();
    let gap = r#"{"seq":5,"ts":"1970-01-01T00:00:00.000000Z","event":{"type":"LogGap","execution_id":"a","first_seq":2,"last_seq":5}}"#;
    assert_eq!(text.lines().nth(1), Some(gap));
    assert_eq!(text.lines().count(), 3);
    assert_eq!(pending.seq_range(), Some((1, 7)));
}
