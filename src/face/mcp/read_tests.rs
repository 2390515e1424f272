//! Tests of reading: each line once, whatever the sizes of the parts and the state of the log.

use proptest::prelude::*;

use super::cursor::Cursor;
use super::read::{Losses, Output, OutputReader, ReadRequest, end, read_output};
use super::test_logs::{COMMAND, Logs, PANE, START, events_from, events_of, pane_row, row_of};
use crate::board::Row;
use crate::event::{GapEvidence, TdEvent};
use crate::face::samples;

fn read(
    logs: &Logs,
    row: &Row,
    cursor: Option<&Cursor>,
    (limit, budget): (usize, usize),
) -> Output {
    let request = ReadRequest {
        cursor,
        limit: Some(limit),
        budget,
    };
    let output = read_output(&logs.data, row, &request, &|| false).unwrap();
    let open = output.open_line.as_deref().unwrap_or_default();
    let json = |text: &str| serde_json::to_string(text).unwrap().len() - 2;
    assert!(
        json(&output.output) + json(open) <= budget.max(16),
        "{output:?}"
    );
    assert!(
        !output
            .output
            .contains(|c: char| c.is_control() && c != '\n')
    );
    output
}

/// Reads from a cursor to the end, in parts of these sizes.
fn read_on(
    logs: &Logs,
    row: &Row,
    cursor: &mut Cursor,
    sizes: &[(usize, usize)],
    (lines, losses): (&mut Vec<String>, &mut Losses),
) {
    for turn in 0.. {
        assert!(turn < 2_000, "no end: {cursor}");
        let output = read(logs, row, Some(cursor), sizes[turn % sizes.len()]);
        // Clients keep the text.
        *cursor = output.cursor.to_string().parse().unwrap();
        lines.extend(
            output
                .output
                .split('\n')
                .filter(|line| !line.is_empty())
                .map(str::to_owned),
        );
        *losses += output.losses;
        if !output.more {
            return;
        }
    }
}

/// Checks that the lines are the expected ones, of which long ones are cut.
#[track_caller]
fn check(lines: &[String], expected: &[String]) {
    let is_same = |line: &str, expected: &String| {
        let cut = line.strip_suffix('…');
        line == expected || cut.is_some_and(|cut| cut.len() >= 16 && expected.starts_with(cut))
    };
    for (line, expected) in lines.iter().zip(expected) {
        assert!(is_same(line, expected), "{line:?} is not {expected:?}");
    }
    assert_eq!(lines.len(), expected.len());
}

fn losses_of(events: &[TdEvent]) -> Losses {
    let mut losses = Losses::default();
    for event in events {
        match event {
            TdEvent::OutputGap {
                lost_lines: Some(lost),
                ..
            } => losses.lost_lines += lost,
            TdEvent::OutputGap { evidence, .. } if *evidence == GapEvidence::Confirmed => {
                losses.unknown_losses += 1;
            }
            TdEvent::LogGap { .. } => losses.unknown_losses += 1,
            _ => {}
        }
    }
    losses
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Parts of any sizes have each line of a written history once, and each loss once.
    #[test]
    fn parts_have_each_line_once(
        kinds in prop::collection::vec(0_u8..24, 0..150), is_pane: bool,
        sizes in prop::collection::vec((1_usize..20, 60_usize..400), 1..5),
    ) {
        let mut logs = Logs::new(4_000);
        let mut events = events_of(&kinds, is_pane);
        if is_pane {
            // Later revisions of lines that were settled long before.
            events.extend((1..20).map(|line| samples::revised(line, &format!("revised {line}"))));
        } else {
            events.insert(0, samples::started("make"));
        }
        logs.log(events.clone());
        let row = row_of(is_pane);
        let mut cursor = Cursor::new(&row.execution_id, START);
        let (mut lines, mut losses) = (Vec::new(), Losses::default());
        read_on(&logs, &row, &mut cursor, &sizes, (&mut lines, &mut losses));
        check(&lines, &logs.texts(&row));
        prop_assert_eq!(losses, losses_of(&events));
        prop_assert_eq!(cursor, end(&logs.data, &row).unwrap());
        // The last lines are those of one part.
        let (limit, budget) = sizes[0];
        let last = read(&logs, &row, None, (limit, budget));
        prop_assert!(!last.more);
        prop_assert!(lines.join("\n").ends_with(&last.output));
        prop_assert!(last.output.split('\n').count() <= limit);
        prop_assert_eq!(last.output.is_empty(), lines.is_empty());
    }

    /// The same while the log grows, continues in other files and is compressed between two calls; a reader that goes
    /// on has the same lines.
    #[test]
    fn a_growing_log_is_read_once(
        rounds in prop::collection::vec((prop::collection::vec(0_u8..24, 0..40), 1_usize..30, 60_usize..2_000, any::<bool>()), 1..8),
        is_pane: bool,
    ) {
        let mut logs = Logs::new(3_000);
        let row = row_of(is_pane);
        logs.log([if is_pane { samples::session_started("s", &["%1"]) } else { samples::started("make") }]);
        let mut cursor = Cursor::new(&row.execution_id, START);
        let mut reader = OutputReader::new(&logs.data, &row, &cursor, &|| false).unwrap();
        let (mut lines, mut losses) = (Vec::new(), Losses::default());
        let (mut followed, mut begin) = (Vec::new(), 0);
        for (kinds, limit, budget, is_whole) in rounds {
            let id = if is_pane { PANE.0 } else { COMMAND };
            logs.log(events_from(begin, &kinds, is_pane));
            begin += 2 * kinds.len() as i64;
            if is_whole {
                read_on(&logs, &row, &mut cursor, &[(limit, budget)], (&mut lines, &mut losses));
                logs.compressed(id);
            } else {
                let output = read(&logs, &row, Some(&cursor), (limit, budget));
                cursor = output.cursor;
                lines.extend(output.output.split('\n').filter(|line| !line.is_empty()).map(str::to_owned));
            }
            while let Some(line) = reader.next_line().unwrap() {
                followed.push(line.text.text);
            }
        }
        read_on(&logs, &row, &mut cursor, &[(5, 300)], (&mut lines, &mut losses));
        let expected = logs.texts(&row);
        check(&lines, &expected);
        prop_assert_eq!(&followed, &expected);
        prop_assert_eq!(reader.cursor(), end(&logs.data, &row).unwrap());
    }
}

#[test]
fn a_log_of_many_files_is_read_from_any_line() {
    let mut logs = Logs::new(2_000);
    logs.log((1..=400).map(|line| samples::update(line, &format!("line {line}\n"))));
    let row = pane_row();
    assert!(logs.compressed(PANE.0) > 10);
    let last = read(&logs, &row, None, (50, 4_000));
    let expected: Vec<String> = (351..=400).map(|line| format!("line {line}")).collect();
    assert_eq!(last.output, expected.join("\n"));
    let first = logs.lines(&row)[100].at;
    let cursor = Cursor::new(&row.execution_id, first);
    let next = read(&logs, &row, Some(&cursor), (2, 4_000));
    assert_eq!(
        (next.output.as_str(), next.more),
        ("line 101\nline 102", true)
    );
    let rest = ReadRequest {
        cursor: Some(&next.cursor),
        limit: None,
        budget: 4_000,
    };
    let rest = read_output(&logs.data, &row, &rest, &|| false).unwrap();
    assert_eq!(rest.output.split('\n').count(), 50);
}

#[test]
fn a_line_that_is_too_long_is_cut_and_counts_as_read() {
    let mut logs = Logs::new(1 << 20);
    logs.log([samples::update(
        1,
        &format!("{}\nnext\n", "\"é".repeat(500)),
    )]);
    let row = pane_row();
    let cursor = Cursor::new(&row.execution_id, START);
    let cut = read(&logs, &row, Some(&cursor), (9, 100));
    assert!(
        cut.output.starts_with("\"é\"é") && cut.output.ends_with('…'),
        "{cut:?}"
    );
    assert!(cut.more);
    let next = read(&logs, &row, Some(&cut.cursor), (9, 100));
    assert_eq!((next.output.as_str(), next.more), ("next", false));
    let last = read(&logs, &row, None, (1, 100));
    assert_eq!(last.output, "next");
}

#[test]
fn a_line_that_has_begun_is_open_only_at_the_end() {
    let mut logs = Logs::new(1 << 20);
    logs.log([
        samples::started("make"),
        samples::output("stdout", "one\ntwo\n50%\r60%"),
    ]);
    let row = row_of(false);
    let cursor = Cursor::new(&row.execution_id, START);
    let first = read(&logs, &row, Some(&cursor), (1, 400));
    assert_eq!((first.more, first.open_line), (true, None));
    let rest = read(&logs, &row, Some(&first.cursor), (9, 400));
    assert_eq!(rest.open_line.as_deref(), Some("60%"));
    let again = read(&logs, &row, Some(&rest.cursor), (9, 400));
    assert_eq!(
        (again.output.as_str(), again.open_line.as_deref()),
        ("", Some("60%"))
    );
    logs.log([samples::output("stdout", "\r70%\n")]);
    let done = read(&logs, &row, Some(&again.cursor), (9, 400));
    assert_eq!((done.output.as_str(), done.open_line), ("70%", None));
}

#[test]
fn missing_numbers_are_losses_of_unknown_size() {
    let mut logs = Logs::new(1 << 20);
    logs.log([samples::update(1, "one\n")]);
    logs.skip(PANE.0, 5);
    logs.log([samples::update(2, "two\n"), samples::update(3, "three\n")]);
    let row = pane_row();
    for limit in 1..4 {
        let mut cursor = Cursor::new(&row.execution_id, START);
        let (mut lines, mut losses) = (Vec::new(), Losses::default());
        read_on(
            &logs,
            &row,
            &mut cursor,
            &[(limit, 400)],
            (&mut lines, &mut losses),
        );
        assert_eq!(lines, ["one", "two", "three"]);
        assert_eq!(
            (losses.lost_lines, losses.unknown_losses),
            (0, 1),
            "{limit}"
        );
    }
}

#[test]
fn what_was_removed_from_the_front_since_the_cursor_is_a_loss() {
    let mut logs = Logs::new(2_000);
    logs.log((1..=100).map(|line| samples::update(line, &format!("line {line}\n"))));
    let row = pane_row();
    assert!(logs.compressed(PANE.0) > 2);
    let cursor = Cursor::new(&row.execution_id, logs.lines(&row)[2].at);
    let run = logs.data.run(&PANE.0.into());
    std::fs::remove_file(run.path().join("events.000001.jsonl.gz")).unwrap();
    let output = read(&logs, &row, Some(&cursor), (3, 400));
    assert!(!output.output.contains("line 3\n"), "{output:?}");
    assert_eq!(output.losses.unknown_losses, 1);
    let output = read(&logs, &row, Some(&output.cursor), (3, 400));
    assert_eq!(output.losses, Losses::default());
}

#[test]
fn the_end_of_a_log_is_before_what_comes_next() {
    let mut logs = Logs::new(1 << 20);
    let row = pane_row();
    assert!(end(&logs.data, &row).is_err());
    logs.log([samples::update(1, "one\n")]);
    let before = end(&logs.data, &row).unwrap();
    logs.log([
        samples::update(2, "two\n"),
        samples::update_of("%2", 1, "other\n", Vec::new()),
    ]);
    let mut reader = OutputReader::new(&logs.data, &row, &before, &|| false).unwrap();
    assert_eq!(reader.next_line().unwrap().unwrap().text.text, "two");
    assert_eq!(reader.next_line().unwrap(), None);
    assert_eq!(reader.cursor(), end(&logs.data, &row).unwrap());
    logs.log([samples::update(3, "three\n")]);
    assert_eq!(reader.next_line().unwrap().unwrap().text.text, "three");
}

#[test]
fn reading_stops_when_it_is_over() {
    let mut logs = Logs::new(1 << 20);
    logs.log([samples::update(1, "one\n")]);
    let row = pane_row();
    let cursor = Cursor::new(&row.execution_id, START);
    let request = ReadRequest {
        cursor: Some(&cursor),
        limit: None,
        budget: 400,
    };
    let output = read_output(&logs.data, &row, &request, &|| true).unwrap();
    assert_eq!((output.output.as_str(), output.more), ("", true));
    assert_eq!(output.cursor, cursor);
}
