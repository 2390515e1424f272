//! Tests the export of runs as plain text.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::face::samples::*;
use crate::face::sanitize::tests::nasty;

/// Runs both passes.
fn text_of(only: Option<&str>, log: &[Envelope]) -> String {
    let mut survey = Survey::new(only.map(PaneId::from));
    log.iter().for_each(|envelope| survey.note(envelope));
    let (mut transcript, mut out) = (TextExport::new(survey), String::new());
    for envelope in log {
        transcript.push(envelope, &mut out);
    }
    transcript.finish(&mut out);
    assert_eq!(transcript.dropped_revisions(), 0);
    out
}

fn text(events: impl IntoIterator<Item = TdEvent>) -> String {
    text_of(None, &log(events))
}

#[test]
fn lines_have_their_last_text() {
    for (events, expected) in [
        (vec![update(1, "a  \n\nb\n")], "a  \n\nb\n"),
        // An open line is not exported, unless it never settles.
        (
            vec![revised(1, "10%"), update(1, "100%\n"), revised(2, "$ ")],
            "100%\n$ \n",
        ),
        (
            vec![
                update(1, "a\nb\nc\n"),
                revised(2, "?"),
                revised(2, "B"),
                revised(3, ""),
            ],
            "a\nB\n\n",
        ),
        // Blank rows between open lines are lines; those below the last are not.
        (
            vec![
                update(1, "a\n"),
                revised(2, "Which one?"),
                revised(3, ""),
                revised(4, ""),
                revised(5, "  1. this"),
                revised(6, ""),
            ],
            "a\nWhich one?\n\n\n  1. this\n",
        ),
        // A gap ends open lines, whose blank rows are lines as well.
        (
            vec![
                revised(1, "x"),
                revised(2, ""),
                revised(3, "y"),
                gap(4, None, "cleared"),
                update(4, "a\n"),
            ],
            "x\n\ny\n[lines lost (cleared)]\na\n",
        ),
        // Only changed lines of the baseline are exported.
        (
            vec![update(1, "a\n"), revised(-3, "old"), revised(-2, "")],
            "old\na\n",
        ),
        // A line that was drawn and then lost.
        (
            vec![
                revised(1, "prompt"),
                gap(2, None, "cleared"),
                update(2, "a\n"),
            ],
            "prompt\n[lines lost (cleared)]\na\n",
        ),
        (
            vec![
                update(1, "a\n"),
                gap(2, Some(3), "history_trimmed"),
                update(5, "b\n"),
            ],
            "a\n[3 lines lost (history_trimmed)]\nb\n",
        ),
        (vec![update(1, "\u{1b}[31mred\u{7}\n")], "^[[31mred^G\n"),
    ] {
        let shown = format!("{events:?}");
        let events = [session_started("job", &["%1"]), opened("%1", 80, 24)]
            .into_iter()
            .chain(events);
        assert_eq!(text(events), expected, "{shown}");
    }
}

#[test]
fn snapshots_add_only_new_rows() {
    let snapshot = |rows: &[&str]| TdEvent::ScreenSnapshot {
        execution_id: "job".into(),
        pane: "%1".into(),
        width: 80,
        height: 24,
        rows: (0..)
            .zip(rows)
            .map(|(row, text)| crate::event::ScreenRow {
                row,
                text: (*text).to_owned(),
            })
            .collect(),
    };
    assert_eq!(
        text([
            update(1, "a\n"),
            snapshot(&["title", "working"]),
            snapshot(&["title", "Allow rm?", "1. Yes"]),
        ]),
        "a\ntitle\nworking\nAllow rm?\n1. Yes\n"
    );
}

#[test]
fn lines_of_several_panes_have_labels() {
    let events = [
        session_started("job", &["%1", "%2"]),
        update(1, "one\n"),
        update_of("%2", 1, "other\n\n", Vec::new()),
        update(2, "two\n"),
        revised(1, "ONE"),
        revised(3, "$"),
        TdEvent::LogGap {
            execution_id: "x".into(),
            first_seq: 7,
            last_seq: 9,
        },
    ];
    let log = log(events);
    let all = "job %1 | ONE\njob %2 | other\njob %2 |\njob %1 | two\njob | [events 7 to 9 are not in the log]\njob %1 | $\n";
    assert_eq!(text_of(None, &log), all);
    assert_eq!(
        text_of(Some("%2"), &log),
        "other\n\n[events 7 to 9 are not in the log]\n"
    );
    let mut survey = Survey::new(None);
    log.iter().for_each(|envelope| survey.note(envelope));
    assert_eq!((survey.panes().count(), survey.sole_pane()), (2, None));
}

#[test]
fn text_outside_of_panes_is_unchanged() {
    assert_eq!(
        text([token("he"), token("llo\nyou"), check("ok", false)]),
        "hello\nyou\nok\n"
    );
    let missing = TdEvent::LogGap {
        execution_id: "x".into(),
        first_seq: 7,
        last_seq: 9,
    };
    assert_eq!(
        text([
            output("stdout", "10%\r\u{1b}[32m100%\u{1b}[0m"),
            update(1, "pane\n"),
            output("stdout", " done\nopen"),
            missing,
            output("stdout", "no newline"),
        ]),
        "pane\n100% done\nopen\n[events 7 to 9 are not in the log]\nno newline\n"
    );
    assert_eq!(text([]), "");
}

/// Uses the recording of `asciicast/recorded/program.sh`.
#[test]
fn a_recorded_pane_reads_like_the_capture() {
    let log = include_str!("asciicast/recorded/pane.jsonl").lines();
    let log: Vec<Envelope> = log
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // The first line is the baseline; empty rows follow the last line.
    let (_, joined) = include_str!("asciicast/recorded/joined.txt")
        .split_once('\n')
        .unwrap();
    let ends = |text: &str| -> Vec<String> {
        text.trim_end()
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect()
    };
    assert_eq!(ends(&text_of(None, &log)), ends(joined));
}

proptest! {
    /// The export equals a replay of the events into a map of the last texts.
    #[test]
    fn the_export_is_the_replay(
        steps in prop::collection::vec((any::<bool>(), 1_i64..6, "[a-z]{1,4}"), 0..60),
    ) {
        let (mut next, mut lines, mut events) = (1, BTreeMap::new(), Vec::new());
        for (is_settled, number, text) in steps {
            if is_settled {
                let chunk: String = (0..number).map(|n| format!("{text}{n}\n")).collect();
                events.push(update(next, &chunk));
                for n in 0..number {
                    lines.insert(next + n, format!("{text}{n}\n"));
                }
                next += number;
            } else {
                // Up to two open lines.
                let number = next + 2 - number;
                lines.insert(number, format!("{text}\n"));
                events.push(revised(number, &text));
            }
        }
        prop_assert_eq!(text(events), lines.into_values().collect::<String>());
    }

    #[test]
    fn no_text_controls_the_terminal(line in nasty(), name in nasty()) {
        let events = [
            TdEvent::SessionStarted { execution_id: "x".into(), session: name, panes: vec!["%1".into(), "%2".into()] },
            update(1, &line), update_of("%2", 1, &line, Vec::new()), revised(1, &line), revised(99, &line), gap(99, None, &line),
            TdEvent::ExecutionOutput { execution_id: "x".into(), stream: line.as_str().into(), text: line.clone() },
        ];
        let text = text(events);
        prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{:?}", text);
    }
}
