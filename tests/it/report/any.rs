//! Any events make a report.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::script::at;
use crate::fuzz::report::run;
use crate::wire::{all_samples, line_of};

/// Returns every sample as the value of a line.
fn samples() -> Vec<Value> {
    let lines = all_samples().map(|event| line_of(Some(1), &event));
    lines
        .map(|line| serde_json::from_str(&line).unwrap())
        .collect()
}

/// Returns one line with an event of one of two panes, or of none, at a second.
fn line(mut value: Value, seq: usize, second: f64, pane: usize) -> String {
    (value["seq"], value["ts"]) = (json!(seq), json!(at(second)));
    let event = &mut value["event"];
    event["execution_id"] = json!("any@1");
    if event.get("pane").is_some() {
        event["pane"] = [json!("%1"), json!("%2"), Value::Null][pane].clone();
    }
    value.to_string() + "\n"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_events_make_a_report(
        steps in prop::collection::vec((any::<prop::sample::Index>(), -5.0..600.0, 0usize..3), 1..80),
    ) {
        let samples = samples();
        let (mut log, mut now) = (String::new(), 0.0);
        for (seq, (sample, step, pane)) in steps.into_iter().enumerate() {
            now += step;
            log.push_str(&line(samples[sample.index(samples.len())].clone(), seq + 1, now, pane));
        }
        run(log.as_bytes());
    }
}
