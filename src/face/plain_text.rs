//! Text that is not a pane's, as lines one under the other: what programs, models and checks wrote (pure).

use super::clean::cut;
use super::stream_lines::{End, Line, OpenLines, Origin};
use crate::event::{EventKind, TdEvent};

/// Writes lines as they read when they are whole, without control characters.
#[derive(Debug)]
pub(super) struct Flow {
    lines: OpenLines,
    sheet: Sheet,
}

impl Flow {
    pub fn new(line_end: &'static str) -> Self {
        Self {
            lines: OpenLines::default(),
            sheet: Sheet {
                line_end,
                partial: None,
            },
        }
    }

    /// Adds the lines that an event makes whole; some that have no text end lines.
    pub fn push(&mut self, event: &TdEvent, out: &mut String) {
        let kind = event.kind();
        // A model's answer is over when something else happens; nothing else says so.
        if kind != EventKind::TokenReceived && !is_aside(kind) {
            self.end(|_, origin| origin == Origin::Model, out);
        }
        let id = event.execution_id();
        let (lines, sheet) = (&mut self.lines, &mut self.sheet);
        let mut say = |line: Line<'_>| sheet.line(line, out);
        match event {
            TdEvent::ExecutionOutput { stream, text, .. } => {
                lines.push(id, Origin::Child, stream, text, &mut say);
            }
            TdEvent::TokenReceived { token, .. } => {
                lines.push(id, Origin::Model, "", token, &mut say);
            }
            TdEvent::ValidationOutput {
                line, is_stderr, ..
            } => {
                let stream = if *is_stderr { "stderr" } else { "stdout" };
                // Its line end is not written, but meant.
                lines.push(id, Origin::Check, stream, line, &mut say);
                lines.push(id, Origin::Check, stream, "\n", &mut say);
            }
            TdEvent::ExecutionStarted { pane: None, .. }
            | TdEvent::ExecutionCompleted { pane: None, .. } => {
                lines.end(|of, origin| of == id && origin == Origin::Child, &mut say);
            }
            // What comes next need not go on with these lines.
            TdEvent::LogGap { .. } => self.finish(out),
            _ => {}
        }
    }

    /// Others write a line.
    pub fn make_way(&mut self, out: &mut String) {
        self.end(|_, origin| origin == Origin::Model, out);
        self.sheet.end_partial(out);
    }

    /// Adds what is left: lines that were never ended.
    pub fn finish(&mut self, out: &mut String) {
        self.end(|_, _| true, out);
        self.sheet.end_partial(out);
    }

    /// The open line that was written to last, within so many columns.
    pub fn live(&self, columns: usize) -> String {
        let mut text = String::new();
        if let (Some(live), None) = (self.lines.live(), self.sheet.partial) {
            live.push(&mut text, false);
        }
        cut(&text, columns).to_owned()
    }

    fn end(&mut self, is_over: impl Fn(&str, Origin) -> bool, out: &mut String) {
        let sheet = &mut self.sheet;
        self.lines.end(is_over, &mut |line| sheet.line(line, out));
    }
}

/// Where lines are written.
#[derive(Debug)]
struct Sheet {
    line_end: &'static str,
    /// The stream whose line is so long that its beginning had to be written, which stands last.
    partial: Option<u64>,
}

impl Sheet {
    /// Adds a line, or a part of one, which the next part is written behind.
    fn line(&mut self, mut line: Line<'_>, out: &mut String) {
        if !line.is_rest || self.partial != Some(line.number) {
            self.end_partial(out);
        }
        let before = out.len();
        line.push(out, false);
        let is_empty = out.len() == before && self.partial.is_none();
        if line.end == End::GoesOn {
            self.partial = Some(line.number);
        } else if !(is_empty && line.is_optional()) {
            self.partial = None;
            out.push_str(self.line_end);
        }
    }

    fn end_partial(&mut self, out: &mut String) {
        if self.partial.take().is_some() {
            out.push_str(self.line_end);
        }
    }
}

/// What is said beside the text, and leaves its line open.
fn is_aside(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::Warning | EventKind::AgentState | EventKind::LogOpened | EventKind::Unknown
    )
}

/// Whether the event has text that is not a pane's.
pub(super) fn has_text(event: &TdEvent) -> bool {
    matches!(
        event,
        TdEvent::ExecutionOutput { .. }
            | TdEvent::TokenReceived { .. }
            | TdEvent::ValidationOutput { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::face::samples;

    fn output(text: &str) -> TdEvent {
        samples::output("stdout", text)
    }

    fn token(token: &str) -> TdEvent {
        TdEvent::TokenReceived {
            execution_id: "x".into(),
            iteration: 1,
            token: token.into(),
            pane: None,
        }
    }

    fn check(line: &str) -> TdEvent {
        samples::check(line, false)
    }

    #[test]
    fn pieces_become_lines() {
        // Longer than what is held, and whole all the same; another's line ends it.
        let long = "0123456789".repeat(10_000);
        let long_lines = format!("{long}{long}\nx\n");
        let (begin, end) = long.split_at(64 * 1024);
        let long_and_other = format!("{begin}\nok\n{end}\n");
        for (events, expected) in [
            (vec![output("a"), output("b\nc"), output("\n")], "ab\nc\n"),
            // A line reads as it did at last.
            (
                vec![output("a\r\nb\r"), output("\nc\rd\r"), output("e")],
                "a\nb\ne\n",
            ),
            (
                vec![token("he"), token("llo"), check("ok"), check("")],
                "hello\nok\n\n",
            ),
            // What goes on beside it takes no line apart but a model's.
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
            let (mut flow, mut out) = (Flow::new("\n"), String::new());
            for event in &events {
                flow.push(event, &mut out);
            }
            flow.finish(&mut out);
            assert!(out == expected, "{events:?}: {out:?}");
        }
    }
}
