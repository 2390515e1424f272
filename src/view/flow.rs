//! Text that is not a pane's: what programs, models and checks wrote, piece by piece (pure).

use super::clean::push_clean;
use crate::event::{EventKind, TdEvent};

/// Writes pieces one after another, as they came, without control characters.
#[derive(Debug)]
pub(super) struct Flow {
    line_end: &'static str,
    /// The kind of the text whose last line is not ended.
    open: Option<EventKind>,
    /// The last piece ended with a carriage return: perhaps half a line end.
    has_return: bool,
}

impl Flow {
    pub fn new(line_end: &'static str) -> Self {
        Self {
            line_end,
            open: None,
            has_return: false,
        }
    }

    /// Adds the text of an event that has some; others may end the line.
    pub fn push(&mut self, event: &TdEvent, out: &mut String) {
        let kind = event.kind();
        if self
            .open
            .is_some_and(|open| kind != open && !is_aside(kind))
        {
            self.end_line(out);
        }
        match event {
            TdEvent::ExecutionOutput { text, .. } | TdEvent::TokenReceived { token: text, .. } => {
                self.text(kind, text, out);
            }
            TdEvent::ValidationOutput { line, .. } => {
                self.text(kind, line, out);
                // An empty line is one, too.
                self.open = Some(kind);
                self.end_line(out);
            }
            _ => {}
        }
    }

    /// Ends the line, if there is one.
    pub fn end_line(&mut self, out: &mut String) {
        if self.open.take().is_some() {
            self.has_return = false;
            out.push_str(self.line_end);
        }
    }

    fn text(&mut self, kind: EventKind, text: &str, out: &mut String) {
        if text.is_empty() {
            return;
        }
        if std::mem::take(&mut self.has_return) && !text.starts_with('\n') {
            push_clean(out, "\r");
        }
        for piece in text.split_inclusive('\n') {
            let line = piece.strip_suffix('\n');
            let (shown, has_return) = match line.unwrap_or(piece).strip_suffix('\r') {
                Some(shown) => (shown, true),
                None => (line.unwrap_or(piece), false),
            };
            push_clean(out, shown);
            if line.is_some() {
                out.push_str(self.line_end);
            }
            self.open = line.is_none().then_some(kind);
            self.has_return = line.is_none() && has_return;
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

    fn output(text: &str) -> TdEvent {
        TdEvent::ExecutionOutput {
            execution_id: "x".into(),
            stream: "stdout".into(),
            text: text.into(),
        }
    }

    fn token(token: &str) -> TdEvent {
        TdEvent::TokenReceived {
            execution_id: "x".into(),
            iteration: 1,
            token: token.into(),
        }
    }

    fn check(line: &str) -> TdEvent {
        TdEvent::ValidationOutput {
            execution_id: "x".into(),
            iteration: 1,
            line: line.into(),
            is_stderr: false,
        }
    }

    #[test]
    fn pieces_become_lines() {
        for (events, expected) in [
            (vec![output("a"), output("b\nc"), output("\n")], "ab\nc\n"),
            (
                vec![output("a\r\nb\r"), output("\nc\rd\r"), output("e")],
                "a\nb\nc^Md^Me\n",
            ),
            (
                vec![token("he"), token("llo"), check("ok"), check("")],
                "hello\nok\n\n",
            ),
            (vec![output("\u{1b}[31mred\n")], "^[[31mred\n"),
        ] {
            let (mut flow, mut out) = (Flow::new("\n"), String::new());
            for event in &events {
                flow.push(event, &mut out);
            }
            flow.end_line(&mut out);
            assert_eq!(out, expected, "{events:?}");
        }
    }
}
