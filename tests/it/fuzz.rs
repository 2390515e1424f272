//! The fuzz targets' bodies (`tests/fuzz`) on random bytes, so that they are run by every test.

use proptest::collection::vec;
use proptest::prelude::*;

#[path = "../fuzz/bodies/envelope.rs"]
mod envelope;
#[path = "../fuzz/bodies/log_tail.rs"]
mod log_tail;
#[path = "../fuzz/bodies/target.rs"]
mod target;
#[path = "../fuzz/bodies/tracker.rs"]
mod tracker;

/// Lines to begin with: random bytes alone never make JSON.
const LINES: &str = r#"{"seq":0,"ts":"2026-01-21T10:00:00.000000Z","event":{"type":"LogOpened","execution_id":"a","schema":1,"version":"0","host":"h","pid":1,"first_seq":1}}
{"seq":1,"ts":"2026-01-21T10:00:01.000001Z","event":{"type":"OutputUpdate","execution_id":"a","pane":"%1","first_line":-3,"chunk":"one\n\u001b[0mtwo\n","is_complete":false}}
{"seq":2,"ts":"2026-01-21T10:00:01.5Z","n":2,"event":{"execution_id":"a","type":"OutputGap","pane":"%1","first_line":1,"lost_lines":18446744073709551615,"reason":"cleared"},"more":[1.5,{}]}
{"seq":9,"ts":"2026-01-21T10:00:02Z","event":{"type":"LogGap","execution_id":"a","first_seq":3,"last_seq":9}}
{"ts":"2026-01-21T10:00:03Z","event":{"type":"LoopStarted","execution_id":"a","loop_type":"Phase","task":"x","new":null}}
{"seq":10,"ts":"2026-01-21T10:00:04Z","event":{"type":"Unheard","execution_id":"a","deep":[[[]]]}}
{"seq":11,"ts":"2026-01-21T10:00:05Z","event":{"type":"IterationCompleted","execution_id":"a","iteration":1,"outcome":{"ValidationFailed":{"exit_code":1}}}}
"#;

/// Those lines, or some of them, with a few bytes written over, taken out, put in, cut off or doubled.
fn damaged(lines_max: usize) -> impl Strategy<Value = Vec<u8>> {
    let lines: Vec<&str> = LINES.split_inclusive('\n').collect();
    let chosen = vec(any::<prop::sample::Index>(), 1..=lines_max);
    let byte = prop_oneof![
        any::<u8>(),
        proptest::sample::select(b"{}[]\",:\\0-9.e\nu \0".to_vec())
    ];
    let hurt = (0..6u8, any::<prop::sample::Index>(), byte, 0..40usize);
    (chosen, vec(hurt, 0..4)).prop_map(move |(chosen, hurts)| {
        let mut bytes: Vec<u8> = chosen
            .iter()
            .flat_map(|at| at.get(&lines).bytes())
            .collect();
        for (kind, at, byte, count) in hurts {
            let at = at.index(bytes.len().max(1)).min(bytes.len());
            let end = (at + count).min(bytes.len());
            match kind {
                0 if at < bytes.len() => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.drain(at..end)),
                3 => bytes.truncate(at),
                4 => {
                    let doubled = bytes[at..end].to_vec();
                    bytes.splice(at..at, doubled);
                }
                _ => {}
            }
        }
        bytes
    })
}

/// Failures are printed as the bytes to feed; no files are kept beside the tests.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn tracker_on_any_looks(bytes in vec(any::<u8>(), 0..500)) {
        tracker::run(&bytes);
    }

    #[test]
    fn envelope_on_damaged_lines(bytes in damaged(1)) {
        envelope::run(bytes.trim_ascii_end());
    }

    #[test]
    fn envelope_on_any_bytes(bytes in any::<Vec<u8>>()) {
        envelope::run(&bytes);
    }

    #[test]
    fn target_on_any_text(text in any::<String>(), bytes in any::<Vec<u8>>()) {
        target::run(text.as_bytes());
        target::run(&bytes);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn log_tail_on_damaged_files(bytes in damaged(12)) {
        log_tail::run(&bytes);
    }

    #[test]
    fn log_tail_on_any_bytes(bytes in any::<Vec<u8>>()) {
        log_tail::run(&bytes);
    }
}
