//! Exports a run as plain text: the final lines of its panes, and all other text (pure).
//!
//! The export takes two passes, because a line may change after its first report: a [`Survey`] collects the
//! last text of such lines, then the lines are written in the order of their events.

use std::fmt::Write;

use super::conversation::conversation_lines;
use super::describe::describe;
use super::lines::{Snapshots, Survey};
use super::sanitize::push_sanitized;
use super::session_labels::SessionLabels;
use super::stream_lines::{LineEnd, Origin, StreamLine, StreamLines};
use crate::event::{Envelope, PaneId, TdEvent, lines_in};

/// Writes the text, one envelope at a time.
#[derive(Debug)]
pub(crate) struct TextExport {
    pub survey: Survey,
    labels: SessionLabels,
    /// True if lines name their pane.
    is_labelled: bool,
    plain: PlainText,
    /// The execution of the last event.
    execution_id: String,
    snapshots: Snapshots,
}

impl TextExport {
    /// Exports the surveyed run or pane.
    pub fn new(survey: Survey) -> Self {
        Self {
            labels: SessionLabels::default(),
            is_labelled: survey.only.is_none() && survey.panes.len() > 1,
            plain: PlainText::default(),
            execution_id: String::new(),
            snapshots: Snapshots::default(),
            survey,
        }
    }

    /// Appends the text of the next envelope of the surveyed log.
    pub fn push(&mut self, envelope: &Envelope, out: &mut String) {
        let event = &envelope.event;
        self.labels.note(event);
        let id = event.execution_id();
        if self.execution_id != id {
            id.clone_into(&mut self.execution_id);
        }
        let is_included = event.pane().is_none_or(|pane| self.survey.includes(pane));
        if let Some(lines) = conversation_lines(event, false) {
            for (_, text) in lines.iter().filter(|_| is_included) {
                self.push_line(id, event.pane(), text, out);
            }
            return;
        }
        match event {
            TdEvent::OutputUpdate {
                pane,
                first_line,
                chunk,
                ..
            } if is_included => {
                let below = self.survey.take_below(id, pane, *first_line);
                self.push_unsettled(id, pane, &below, out);
                for (number, line) in (*first_line..=i64::MAX).zip(lines_in(chunk)) {
                    let last = self.survey.take(id, pane, number);
                    self.push_line(id, Some(pane), last.as_deref().unwrap_or(line), out);
                }
            }
            TdEvent::OutputGap {
                pane, first_line, ..
            } if is_included => {
                let below = self.survey.take_below(id, pane, *first_line);
                self.push_unsettled(id, pane, &below, out);
                self.push_gap(event, out);
            }
            TdEvent::ScreenSnapshot { pane, rows, .. } if is_included => {
                for row in self.snapshots.new_rows(pane, rows) {
                    self.push_line(id, Some(pane), row, out);
                }
            }
            TdEvent::LogGap { .. } => {
                // Text after the gap does not continue open lines.
                self.plain.finish(out);
                self.push_gap(event, out);
            }
            event if self.survey.only.is_none() => {
                self.plain.push(event, out);
            }
            _ => {}
        }
    }

    /// Appends the lines that have not settled, and those that are still open.
    pub fn finish(&mut self, out: &mut String) {
        self.plain.finish(out);
        let id = std::mem::take(&mut self.execution_id);
        let remaining: Vec<_> = self.survey.take_remaining().collect();
        for (pane, lines) in remaining {
            self.push_unsettled(&id, &pane, &lines, out);
        }
    }

    /// Appends lines that are in no `OutputUpdate`: lines of the baseline, and lines that never settled. A
    /// blank row between lines with text is a line; any other blank row was erased.
    fn push_unsettled(
        &mut self,
        id: &str,
        pane: &PaneId,
        lines: &[(i64, String)],
        out: &mut String,
    ) {
        // The last line with text, and the blank rows after it.
        let (mut last, mut blanks) = (None, 0);
        for (number, text) in lines {
            if text.is_empty() {
                blanks += 1;
                continue;
            }
            let blanks = std::mem::take(&mut blanks);
            if last
                .replace(*number)
                .is_some_and(|last| number - last - 1 == blanks)
            {
                (0..blanks).for_each(|_| self.push_line(id, Some(pane), "", out));
            }
            self.push_line(id, Some(pane), text, out);
        }
    }

    fn push_gap(&mut self, event: &TdEvent, out: &mut String) {
        if let Some(gap) = describe(event, false).filter(|gap| !gap.is_detail) {
            let gap = format!("[{}]", gap.text);
            self.push_line(event.execution_id(), event.pane(), &gap, out);
        }
    }

    fn push_line(&mut self, id: &str, pane: Option<&PaneId>, text: &str, out: &mut String) {
        self.plain.interrupt(out);
        if self.is_labelled {
            // As on the console, but without padding. Writing to a string does not fail.
            let _ = write!(out, "{} |", self.labels.label(id, pane).text);
            if !text.is_empty() {
                out.push(' ');
            }
        }
        push_sanitized(out, text);
        out.push('\n');
    }
}

// Writes text outside of panes as complete lines: the output of programs, models and checks (pure).

/// Writes each line in its final state, without control characters.
#[derive(Debug, Default)]
pub(super) struct PlainText {
    lines: StreamLines,
    /// The stream of the last line, if only the beginning of that line is written.
    partial: Option<u64>,
}

impl PlainText {
    /// Appends the lines that an event completes; returns true if the event has text.
    pub fn push(&mut self, event: &TdEvent, out: &mut String) -> bool {
        if let TdEvent::LogGap { .. } = event {
            // Text after the gap does not continue these lines.
            self.finish(out);
        }
        let partial = &mut self.partial;
        let lines = &mut self.lines;
        lines.push_event(event, &mut |line| push_plain(line, partial, out))
    }

    /// Ends the line that is being written, because another writer adds a line.
    pub fn interrupt(&mut self, out: &mut String) {
        self.end(|_, origin| origin == Origin::Model, out);
        end_partial(&mut self.partial, out);
    }

    /// Appends the lines that are still open.
    pub fn finish(&mut self, out: &mut String) {
        self.end(|_, _| true, out);
        end_partial(&mut self.partial, out);
    }

    fn end(&mut self, is_over: impl Fn(&str, Origin) -> bool, out: &mut String) {
        let partial = &mut self.partial;
        let lines = &mut self.lines;
        lines.end(is_over, &mut |line| push_plain(line, partial, out));
    }
}

/// Appends a line, or a part that the next part continues.
fn push_plain(mut line: StreamLine<'_>, partial: &mut Option<u64>, out: &mut String) {
    if !line.is_continuation || *partial != Some(line.stream_number) {
        end_partial(partial, out);
    }
    let before = out.len();
    line.push(out, false);
    let is_empty = out.len() == before && partial.is_none();
    if line.end == LineEnd::Continues {
        *partial = Some(line.stream_number);
    } else if !(is_empty && line.is_optional()) {
        *partial = None;
        out.push('\n');
    }
}

fn end_partial(partial: &mut Option<u64>, out: &mut String) {
    if partial.take().is_some() {
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    //! Tests the export of runs as plain text.
    mod text_export {
        use std::collections::BTreeMap;

        use super::super::*;
        use crate::face::samples::*;
        use crate::face::sanitize::tests::nasty;
        use proptest::prelude::*;

        /// Runs both passes.
        fn text_of(only: Option<&str>, log: &[Envelope]) -> String {
            let mut survey = Survey::new(only.map(PaneId::from));
            log.iter().for_each(|envelope| survey.note(envelope));
            let (mut transcript, mut out) = (TextExport::new(survey), String::new());
            for envelope in log {
                transcript.push(envelope, &mut out);
            }
            transcript.finish(&mut out);
            assert_eq!(transcript.survey.dropped_revisions(), 0);
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
            assert_eq!((survey.panes.len(), survey.sole_pane()), (2, None));
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
    }

    mod plain_text {

        use super::super::*;
        use crate::face::samples;
        use crate::face::samples::token;

        fn output(text: &str) -> TdEvent {
            samples::output("stdout", text)
        }

        fn check(line: &str) -> TdEvent {
            samples::check(line, false)
        }

        #[test]
        fn pieces_become_complete_lines() {
            // A line longer than the bound is not split, unless another stream interrupts it.
            let long = "0123456789".repeat(10_000);
            let long_lines = format!("{long}{long}\nx\n");
            let (begin, end) = long.split_at(64 * 1024);
            let long_and_other = format!("{begin}\nok\n{end}\n");
            for (events, expected) in [
                (vec![output("a"), output("b\nc"), output("\n")], "ab\nc\n"),
                // A line is written in its final state.
                (
                    vec![output("a\r\nb\r"), output("\nc\rd\r"), output("e")],
                    "a\nb\ne\n",
                ),
                (
                    vec![token("he"), token("llo"), check("ok"), check("")],
                    "hello\nok\n\n",
                ),
                // Another stream splits only lines of models.
                (
                    vec![
                        output("Compi"),
                        check("ok"),
                        token("h"),
                        output("ling\n"),
                        token("i"),
                    ],
                    "ok\nh\nCompiling\ni\n",
                ),
                (
                    vec![output("\u{1b}[31mred\u{1b}[0m\u{7}\n\u{1b}[?25h")],
                    "red^G\n",
                ),
                (
                    vec![output(&long), output(&long), output("\nx")],
                    &long_lines,
                ),
                (
                    vec![output(&long), check("ok"), output("\n")],
                    &long_and_other,
                ),
            ] {
                let (mut plain, mut out) = (PlainText::default(), String::new());
                for event in &events {
                    plain.push(event, &mut out);
                }
                plain.finish(&mut out);
                assert!(out == expected, "{events:?}: {out:?}");
            }
        }
    }
}
