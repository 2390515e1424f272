//! Renders one execution as a tree: its command, its output, and how it ended (pure).
//!
//! ```text
//!  ╭───< make@1763000000 >
//!  ├─► [command] make test
//!  │   first
//!  │   [stderr] problem
//!  ├─► [execution_status] FAILURE: exit code 7
//!  ╰──● after 1.5 s
//! ```
//!
//! Without its frame, the tree has the same rows. The open line is the live row of a terminal; elsewhere it
//! is written when it is complete, or at the end.

use unicode_width::UnicodeWidthStr;

use super::describe::{count, describe, duration, lagged};
use super::local_time::RowTime;
use super::sanitize::one_line;
use super::sanitize::{Tone, push_styled};
use super::session_labels::{live_text, push_event, push_row};
use super::stream_lines::StreamLines;
use crate::event::{EnumOrUnknown, Envelope, EventKind, TdEvent, Verification};

const TEXT: &str = " │   ";

/// The number of lines of a cell's code that are shown.
const CODE_LINES_MAX: usize = 10;

/// The appearance of the tree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TreeOptions {
    pub coloured: bool,
    /// True if the frame is drawn.
    pub framed: bool,
    /// True if each row has the local time.
    pub has_timestamps: bool,
}

/// Renders events.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    executions: StreamLines,
    /// The execution whose frame is open, and the cell of a kernel.
    open: Option<(String, Option<u32>)>,
    rows: TreeRows,
}

/// Writes rows.
#[derive(Debug, Default)]
struct TreeRows {
    options: TreeOptions,
    /// The frame before a line of text, and before an item.
    text: String,
    item: String,
    time: RowTime,
}

impl Tree {
    pub fn new(options: TreeOptions) -> Self {
        let mut rows = TreeRows {
            options,
            time: RowTime::new(options.has_timestamps),
            ..TreeRows::default()
        };
        if options.framed {
            let dim = Tone::Dim.style();
            push_styled(&mut rows.text, options.coloured, dim, TEXT.trim_end());
            rows.text.push_str("   ");
            push_styled(&mut rows.item, options.coloured, dim, " ├─►");
            rows.item.push(' ');
        }
        Self {
            rows,
            ..Self::default()
        }
    }

    /// Appends the rows of an event.
    pub fn event(&mut self, envelope: &Envelope, out: &mut String) {
        let event = &envelope.event;
        // The header of a log file is not an event of the execution.
        if event.kind() == EventKind::LogOpened {
            return;
        }
        self.rows.time.set(envelope.ts);
        let cell = match event {
            TdEvent::ExecutionStarted { cell, .. } => *cell,
            _ => None,
        };
        self.open(event.execution_id(), cell, out);
        if matches!(event, TdEvent::LogGap { .. }) {
            self.end_lines(out);
        }
        let rows = &self.rows;
        let prefix = rows.text_prefix();
        let is_text = push_event(&mut self.executions, event, &mut |text| {
            push_row(out, &prefix, text, rows.options.coloured);
        });
        let foot = match event {
            TdEvent::ExecutionCompleted {
                pane: None,
                duration_ms,
                ..
            } => Some(format!("after {}", duration(*duration_ms))),
            TdEvent::LoopCompleted { .. } => Some(String::new()),
            _ => None,
        };
        let description = describe(event, false).filter(|text| !is_text && !text.is_detail);
        if let Some(description) = description {
            let has_duration = foot.is_none() || !rows.options.framed;
            let text = if has_duration {
                description.text_with_duration()
            } else {
                description.text.clone()
            };
            // The frame has the number of its cell.
            let label = if rows.options.framed {
                description.label().map(str::to_owned)
            } else {
                description.numbered_label()
            };
            match (event, label) {
                (
                    TdEvent::ExecutionStarted {
                        command,
                        cell: Some(_),
                        verification,
                        ..
                    },
                    Some(label),
                ) => rows.code(&label, command, verification.as_ref(), out),
                (_, Some(label)) => rows.item(&label, description.tone, &text, out),
                (_, None) => rows.item(&text, description.tone, "", out),
            }
        }
        if let Some(text) = foot {
            self.rows.foot(&text, out);
            self.open = None;
        }
    }

    /// Appends a row that reports the number of missed events.
    pub fn lagged(&mut self, missed: u64, out: &mut String) {
        // Text after the gap does not continue these lines.
        self.end_lines(out);
        let text = lagged(missed);
        self.rows.item("missing", Tone::Caution, &text, out);
    }

    /// Returns the live row without a line end, cut to `columns`.
    pub fn live(&self, columns: usize) -> Option<String> {
        let options = self.rows.options;
        let frame = if options.framed { TEXT.width() } else { 0 };
        let columns = columns.checked_sub(frame)?;
        let text = live_text(self.executions.live()?, options.coloured, columns)?;
        Some([self.rows.text.as_str(), &text].concat())
    }

    /// Appends the lines that are still open, and the end of the frame.
    pub fn finish(&mut self, out: &mut String) {
        self.end_lines(out);
        if self.open.take().is_some() {
            self.rows.foot("", out);
        }
    }

    fn end_lines(&mut self, out: &mut String) {
        let rows = &self.rows;
        let prefix = rows.text_prefix();
        self.executions.end_all(&mut |line| {
            push_row(out, &prefix, line, rows.options.coloured);
        });
    }

    /// Begins the frame of an execution, or of a cell, unless it is open.
    fn open(&mut self, id: &str, cell: Option<u32>, out: &mut String) {
        let is_open =
            |(open, of): &(String, Option<u32>)| open == id && (cell.is_none() || *of == cell);
        if self.open.as_ref().is_some_and(is_open) {
            return;
        }
        if self.rows.options.framed {
            let dim = Tone::Dim.style();
            push_styled(out, self.rows.options.coloured, dim, " ╭───");
            let cell = cell.map(|cell| format!(", cell {cell}"));
            let cell = cell.unwrap_or_default();
            out.push_str(&format!("< {}{cell} >\n", one_line(id)));
        }
        self.open = Some((id.to_owned(), cell));
    }
}

impl TreeRows {
    /// Returns the prefix of a line of text.
    fn text_prefix(&self) -> String {
        [self.text.as_str(), &self.time.text].concat()
    }

    /// Appends `[label] text`.
    fn item(&self, label: &str, tone: Tone, text: &str, out: &mut String) {
        out.push_str(&self.item);
        out.push_str(&self.time.text);
        let mark = format!("[{label}]");
        push_styled(out, self.options.coloured, Tone::Dim.style(), &mark);
        let text = one_line(text);
        if !text.is_empty() {
            out.push(' ');
            push_styled(out, self.options.coloured, tone.style(), &text);
        }
        out.push('\n');
    }

    /// Appends the code of a cell, folded after some lines, and the verdict on it.
    fn code(
        &self,
        label: &str,
        code: &str,
        verification: Option<&EnumOrUnknown<Verification>>,
        out: &mut String,
    ) {
        let mut lines = code.lines().skip_while(|line| line.trim().is_empty());
        self.item(label, Tone::Plain, lines.next().unwrap_or_default(), out);
        // Below the beginning of the code.
        let indent = " ".repeat(label.len() + "[] ".len());
        let prefix = self.text_prefix() + &indent;
        for line in lines.by_ref().take(CODE_LINES_MAX - 1) {
            out.push_str((prefix.clone() + &one_line(line)).trim_end());
            out.push('\n');
        }
        let folded = lines.count();
        if folded > 0 {
            out.push_str(&prefix);
            let text = format!("… {}", count(folded as u64, "more line"));
            push_styled(out, self.options.coloured, Tone::Dim.style(), &text);
            out.push('\n');
        }
        let verdict = match verification.map(EnumOrUnknown::known) {
            Some(Some(Verification::Correct)) => (Tone::Good, "CORRECT"),
            Some(Some(Verification::Incorrect)) => (Tone::Alarm, "INCORRECT"),
            Some(None) | None => return,
        };
        self.item("verification", verdict.0, verdict.1, out);
    }

    /// Ends the frame, if there is one.
    fn foot(&self, text: &str, out: &mut String) {
        if self.options.framed {
            push_styled(out, self.options.coloured, Tone::Dim.style(), " ╰──●");
            if !text.is_empty() {
                out.push(' ');
                push_styled(out, self.options.coloured, Tone::Dim.style(), text);
            }
            out.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the tree's rows.

    use proptest::prelude::*;

    use super::*;
    use crate::face::samples::{check, checked, completed, output, started};
    use crate::face::sanitize::tests::nasty;
    use crate::timestamp::Timestamp;

    fn show(tree: &mut Tree, event: TdEvent) -> String {
        let mut out = String::new();
        tree.event(
            &Envelope::new(Some(1), Timestamp::default(), event),
            &mut out,
        );
        out
    }

    fn tree(coloured: bool, framed: bool) -> Tree {
        Tree::new(TreeOptions {
            coloured,
            framed,
            has_timestamps: false,
        })
    }

    fn shown(mut tree: Tree, events: &[TdEvent]) -> String {
        let mut text: String = events
            .iter()
            .map(|event| show(&mut tree, event.clone()))
            .collect();
        tree.finish(&mut text);
        text
    }

    #[test]
    fn an_execution_is_a_tree() {
        let events = [
            started("make test"),
            output("stdout", "first\n\n"),
            output("stderr", "prob"),
            output("stdout", "no newline"),
            output("stderr", "lem\n\n"),
            completed(Some(7), None),
        ];
        let drawn = " ╭───< make@17 >\n ├─► [command] make test\n │   first\n │\n │   [stderr] problem\n │   [stderr]\n │   no newline\n ├─► [execution_status] FAILURE: exit code 7\n ╰──● after 1.5 s\n";
        let plain = "[command] make test\nfirst\n\n[stderr] problem\n[stderr]\nno newline\n[execution_status] FAILURE: exit code 7 after 1.5 s\n";
        assert_eq!(shown(tree(false, true), &events), drawn);
        assert_eq!(shown(tree(false, false), &events), plain);
    }

    #[test]
    fn code_is_shown_with_its_verdict_and_folded() {
        let cell = |code: &str, number, verdict: Option<Verification>| {
            let mut event = started(code);
            if let TdEvent::ExecutionStarted {
                cell, verification, ..
            } = &mut event
            {
                *cell = Some(number);
                *verification = verdict.map(Into::into);
            }
            event
        };
        let long: String = (1..=12).map(|line| format!("x = {line}\n")).collect();
        let events = [
            cell("\nif a:\n    b\u{1b}[2J\n", 1, Some(Verification::Correct)),
            completed(Some(0), None),
            cell("1 +", 2, Some(Verification::Incorrect)),
            completed(Some(1), None),
            cell("a", 3, None),
        ];
        let drawn = " ╭───< make@17, cell 1 >\n ├─► [code] if a:\n │              b^[[2J\n \
                     ├─► [verification] CORRECT\n ├─► [execution_status] SUCCESS\n ╰──● after 1.5 s\n \
                     ╭───< make@17, cell 2 >\n ├─► [code] 1 +\n ├─► [verification] INCORRECT\n \
                     ├─► [execution_status] FAILURE: exit code 1\n ╰──● after 1.5 s\n \
                     ╭───< make@17, cell 3 >\n ├─► [code] a\n ╰──●\n";
        assert_eq!(shown(tree(false, true), &events), drawn);
        let plain = shown(tree(false, false), &events);
        assert!(plain.contains("[code 2] 1 +\n"), "{plain}");
        let folded = shown(tree(false, false), &[cell(&long, 7, None)]);
        let rows: Vec<&str> = folded.lines().collect();
        assert_eq!(rows[0], "[code 7] x = 1");
        assert_eq!(rows[9..], ["         x = 10", "         … 2 more lines"]);
    }

    #[test]
    fn each_event_has_its_row() {
        let warning = TdEvent::Warning {
            execution_id: "make@17".into(),
            context: "disk".into(),
            message: "full\nsoon".into(),
        };
        let error = TdEvent::Error {
            execution_id: "make@17".into(),
            context: "disk".into(),
            message: "full".into(),
        };
        let check_started = TdEvent::ValidationStarted {
            execution_id: "make@17".into(),
            iteration: 1,
            command: "cargo test".into(),
        };
        let missing = TdEvent::LogGap {
            execution_id: "make@17".into(),
            first_seq: 4,
            last_seq: 6,
        };
        let tool = TdEvent::ToolCallCompleted {
            execution_id: "make@17".into(),
            iteration: 1,
            tool_name: "Bash".into(),
            success: false,
            result_summary: "no \u{1b}[2J\nfile".into(),
            duration_ms: 30,
            pane: None,
        };
        let token = TdEvent::TokenReceived {
            execution_id: "make@17".into(),
            iteration: 1,
            token: "x".into(),
            pane: None,
        };
        for (events, expected) in [
            (
                vec![completed(Some(0), None)],
                "[execution_status] SUCCESS after 1.5 s\n",
            ),
            (
                vec![completed(None, Some(9))],
                "[execution_status] FAILURE: signal 9 (KILL) after 1.5 s\n",
            ),
            (vec![started("a\nb")], "[command] a b\n"),
            (
                vec![warning, error],
                "[warning] disk: full soon\n[error] disk: full\n",
            ),
            (
                vec![
                    check_started,
                    check("ok", false),
                    check("1%\r2%", true),
                    check("", false),
                    checked(0, 300),
                ],
                "[validation] cargo test\nok\n[stderr] 2%\n\n[validation] PASSED after 0.30 s\n",
            ),
            (
                vec![checked(1, 300)],
                "[validation] FAILED: exit code 1 after 0.30 s\n",
            ),
            // Text after a gap does not continue a line before it.
            (
                vec![output("stdout", "a"), missing, output("stdout", "b\n")],
                "a\n[missing] events 4 to 6 are not in the log\nb\n",
            ),
            // An answer arrives in pieces, and another event ends it.
            (
                vec![token.clone(), token.clone(), tool, token],
                "xx\n[tool] Bash FAILED after 0.03 s: no ^[[2J file\nx\n",
            ),
            // A line without visible text has no row.
            (
                vec![
                    output("stdout", "a\n\u{1b}[0m\u{1b}[?25h"),
                    completed(Some(0), None),
                ],
                "a\n[execution_status] SUCCESS after 1.5 s\n",
            ),
            (
                vec![output("stdout", "10%\r"), output("stdout", "100%\nend")],
                "100%\nend\n",
            ),
        ] {
            assert_eq!(shown(tree(false, false), &events), expected, "{events:?}");
        }
        let mut out = String::new();
        let mut drawn = tree(false, true);
        show(&mut drawn, output("stdout", "a"));
        drawn.lagged(7, &mut out);
        drawn.finish(&mut out);
        assert_eq!(
            out,
            " │   a\n ├─► [missing] 7 events were not shown: reading was too slow\n ╰──●\n"
        );
    }

    #[test]
    fn the_live_row_is_the_open_line() {
        let mut drawn = tree(false, true);
        assert_eq!(drawn.live(80), None);
        show(&mut drawn, output("stdout", "[####      ] 40%"));
        assert_eq!(drawn.live(80).unwrap(), " │   [####      ] 40%");
        assert_eq!(drawn.live(9).unwrap(), " │   [###");
        assert_eq!(drawn.live(4), None);
        show(&mut drawn, output("stderr", "oh"));
        assert_eq!(drawn.live(80).unwrap(), " │   [stderr] oh");
        show(&mut drawn, output("stderr", "\n"));
        assert_eq!(drawn.live(80).unwrap(), " │   [####      ] 40%");
        show(&mut drawn, output("stdout", "\rdone\n"));
        assert_eq!(drawn.live(80), None);
    }

    #[test]
    fn colours_stay_in_their_stream() {
        let mut coloured = tree(true, false);
        let mut shown = |stream: &str, text: &str| show(&mut coloured, output(stream, text));
        assert_eq!(shown("stdout", "\x1b[32mgreen\n"), "\x1b[32mgreen\x1b[0m\n");
        assert_eq!(shown("stderr", "x\n"), "\x1b[1m\x1b[31m[stderr]\x1b[0m x\n");
        assert_eq!(shown("stdout", "on\x1b[0m\n"), "\x1b[32mon\x1b[0m\n");
        assert_eq!(shown("stdout", "off\n"), "off\n");
    }

    /// Removes SGR.
    fn without_sgr(text: &str) -> String {
        let mut parts = text.split("\x1b[");
        let mut left = parts.next().unwrap().to_owned();
        for part in parts {
            left.push_str(part.split_once('m').unwrap().1);
        }
        left
    }

    proptest! {
        /// Streams, commands and lines add only SGR and line ends.
        #[test]
        fn no_control_character_reaches_the_terminal(text in nasty(), name in nasty(), drawn in any::<bool>()) {
            let id = crate::event::ExecutionId::from(name.as_str());
            for coloured in [false, true] {
                let mut tree = tree(coloured, drawn);
                let mut out = String::new();
                for event in [
                    started(&text), output(&name, &text), check(&text, true), output("stdout", &text),
                    TdEvent::TokenReceived { execution_id: id.clone(), iteration: 1, token: text.clone(), pane: None },
                    TdEvent::ToolCallStarted { execution_id: id.clone(), iteration: 1, tool_name: name.clone(), tool_args_summary: text.clone(), pane: None },
                    TdEvent::AgentFailed { execution_id: id.clone(), agent_id: name.clone(), error: text.clone(), evidence: text.clone().into(), pane: None },
                    TdEvent::Warning { execution_id: id.clone(), context: name.clone(), message: text.clone() },
                ] {
                    out.push_str(&show(&mut tree, event));
                }
                let live = tree.live(40).unwrap_or_default();
                tree.finish(&mut out);
                if !coloured {
                    prop_assert!(!out.contains('\x1b'));
                }
                let (live, out) = (without_sgr(&live), without_sgr(&out));
                prop_assert!(!live.contains(char::is_control), "{:?}", live);
                prop_assert!(!out.contains(|c: char| c.is_control() && c != '\n'), "{:?}", out);
                prop_assert!(live.width() <= 40, "{:?}", live);
            }
        }
    }
}
