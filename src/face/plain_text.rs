//! Writes text outside of panes as complete lines: the output of programs, models and checks (pure).

use super::stream_lines::{LineEnd, Origin, StreamLine, StreamLines};
use crate::event::TdEvent;
use crate::track::cut;

/// Writes each line in its final state, without control characters.
#[derive(Debug)]
pub(super) struct PlainText {
    lines: StreamLines,
    written: WrittenLines,
}

impl PlainText {
    pub fn new(line_end: &'static str) -> Self {
        Self {
            lines: StreamLines::default(),
            written: WrittenLines {
                line_end,
                partial: None,
            },
        }
    }

    /// Appends the lines that an event completes; returns true if the event has text.
    pub fn push(&mut self, event: &TdEvent, out: &mut String) -> bool {
        if let TdEvent::LogGap { .. } = event {
            // Text after the gap does not continue these lines.
            self.finish(out);
        }
        let written = &mut self.written;
        self.lines
            .push_event(event, &mut |line| written.push(line, out))
    }

    /// Ends the line that is being written, because another writer adds a line.
    pub fn interrupt(&mut self, out: &mut String) {
        self.end(|_, origin| origin == Origin::Model, out);
        self.written.end_partial(out);
    }

    /// Appends the lines that are still open.
    pub fn finish(&mut self, out: &mut String) {
        self.end(|_, _| true, out);
        self.written.end_partial(out);
    }

    /// Returns the open line that was written last, cut to `columns`.
    pub fn live(&self, columns: usize) -> String {
        let mut text = String::new();
        if let (Some(live), None) = (self.lines.live(), self.written.partial) {
            live.push_open(&mut text, false);
        }
        cut(&text, columns).to_owned()
    }

    fn end(&mut self, is_over: impl Fn(&str, Origin) -> bool, out: &mut String) {
        let written = &mut self.written;
        self.lines.end(is_over, &mut |line| written.push(line, out));
    }
}

/// The lines written so far.
#[derive(Debug)]
struct WrittenLines {
    line_end: &'static str,
    /// The stream of the last line, if only the beginning of that line is written.
    partial: Option<u64>,
}

impl WrittenLines {
    /// Appends a line, or a part that the next part continues.
    fn push(&mut self, mut line: StreamLine<'_>, out: &mut String) {
        if !line.is_continuation || self.partial != Some(line.stream_number) {
            self.end_partial(out);
        }
        let before = out.len();
        line.push(out, false);
        let is_empty = out.len() == before && self.partial.is_none();
        if line.end == LineEnd::Continues {
            self.partial = Some(line.stream_number);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::face::samples::{self, token};

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
            let (mut plain, mut out) = (PlainText::new("\n"), String::new());
            for event in &events {
                plain.push(event, &mut out);
            }
            plain.finish(&mut out);
            assert!(out == expected, "{events:?}: {out:?}");
        }
    }
}
