//! What child processes, checks and agents say, from their events, for the console and the tree alike (pure).

use super::agents::{self, Row};
use super::clean::{cut, push_clean};
use super::loops;
use super::sgr::{cut_painted, end_of_painted};
use super::stream_lines::{End, Line, Live, OpenLines, Origin};
use super::tone::{Tone, push_styled};
use super::words::{HUNG_UP, Outcome};
use crate::event::TdEvent;

/// The name of a stream may be anything; more of it would leave no room for the text.
const NAME_COLUMNS_MAX: usize = 20;

/// Something that is to be shown.
#[derive(Debug)]
pub(super) enum Said<'a> {
    Started(&'a str),
    CheckStarted(&'a str),
    Line(Line<'a>),
    /// Many lines of a stream that may be shown as they are.
    Plain {
        stream: &'a str,
        lines: &'a str,
    },
    Completed(Outcome, u64),
    CheckCompleted(Outcome, u64),
    Agent(Row),
}

/// Executions that are under way.
#[derive(Debug, Default)]
pub(super) struct Executions {
    lines: OpenLines,
}

impl Executions {
    /// Says what an event of an execution, a check or an agent has to say; false for other events.
    pub fn take(&mut self, event: &TdEvent, say: &mut dyn FnMut(Said<'_>)) -> bool {
        let id = event.execution_id();
        if agents::ends_answer(event) {
            self.end(id, Origin::Model, say);
        }
        match event {
            TdEvent::TokenReceived { token, .. } => {
                let lines = &mut self.lines;
                lines.push(id, Origin::Model, "stdout", token, &mut |line| {
                    say(Said::Line(line));
                });
            }
            // A shell's prompt shows what it runs; only what failed is worth a word.
            TdEvent::ExecutionStarted { pane: Some(_), .. }
            | TdEvent::ExecutionCompleted {
                pane: Some(_),
                exit_code: None | Some(0 | HUNG_UP),
                ..
            } => {}
            TdEvent::ExecutionStarted { command, .. } => {
                self.end(id, Origin::Child, say);
                say(Said::Started(command));
            }
            TdEvent::ExecutionOutput { stream, text, .. } => {
                let lines = &mut self.lines;
                let mut text = text.as_str();
                if let Some(plain) = lines.plain(id, Origin::Child, stream, text) {
                    text = &text[plain.len()..];
                    say(Said::Plain {
                        stream,
                        lines: plain,
                    });
                }
                lines.push(id, Origin::Child, stream, text, &mut |line| {
                    say(Said::Line(line));
                });
            }
            TdEvent::ExecutionCompleted {
                exit_code,
                signal,
                duration_ms,
                ..
            } => {
                self.end(id, Origin::Child, say);
                let outcome = Outcome {
                    exit_code: *exit_code,
                    signal: *signal,
                };
                say(Said::Completed(outcome, *duration_ms));
            }
            TdEvent::ValidationStarted { command, .. } => {
                self.end(id, Origin::Check, say);
                say(Said::CheckStarted(command));
            }
            TdEvent::ValidationOutput {
                line, is_stderr, ..
            } => {
                let stream = if *is_stderr { "stderr" } else { "stdout" };
                // Its line end is not written, but meant.
                for text in [line.as_str(), "\n"] {
                    let lines = &mut self.lines;
                    lines.push(id, Origin::Check, stream, text, &mut |line| {
                        say(Said::Line(line));
                    });
                }
            }
            TdEvent::ValidationCompleted {
                exit_code,
                duration_ms,
                ..
            } => {
                self.end(id, Origin::Check, say);
                let outcome = Outcome {
                    exit_code: Some(*exit_code),
                    signal: None,
                };
                say(Said::CheckCompleted(outcome, *duration_ms));
            }
            _ => match agents::row(event).or_else(|| loops::row(event)) {
                Some(row) => say(Said::Agent(row)),
                None => return false,
            },
        }
        true
    }

    /// Ends all open lines: nothing more is to come, or what comes does not go on with them.
    pub fn break_off(&mut self, say: &mut dyn FnMut(Said<'_>)) {
        self.lines
            .end(|_, _| true, &mut |line| say(Said::Line(line)));
    }

    /// The open line that was written to last.
    pub fn live(&self) -> Option<Live<'_>> {
        self.lines.live()
    }

    fn end(&mut self, id: &str, origin: Origin, say: &mut dyn FnMut(Said<'_>)) {
        let is_over = |of: &str, other| of == id && other == origin;
        self.lines.end(is_over, &mut |line| say(Said::Line(line)));
    }
}

/// Adds a row: what stands before the text, then the line with the name of its stream and its line
/// end. An empty line has no blanks; a line that is none is no row.
pub(super) fn push_row(out: &mut String, before: &str, mut line: Line<'_>, coloured: bool) {
    let start = out.len();
    out.push_str(before);
    push_mark(out, line.stream, coloured);
    let text = out.len();
    line.push(out, coloured);
    if out.len() == text {
        if line.is_optional() {
            return out.truncate(start);
        }
        out.truncate(out.trim_end_matches(' ').len().max(start));
    }
    if line.end == End::GoesOn {
        out.push('…');
    }
    out.push('\n');
}

/// Adds many rows, of lines that may be shown as they are.
pub(super) fn push_rows(out: &mut String, before: &str, stream: &str, lines: &str, coloured: bool) {
    let mut begin = before.to_owned();
    push_mark(&mut begin, stream, coloured);
    if begin.is_empty() {
        return out.push_str(lines);
    }
    for line in lines.split_inclusive('\n') {
        let before = if line == "\n" {
            begin.trim_end_matches(' ')
        } else {
            &begin
        };
        out.push_str(before);
        out.push_str(line);
    }
}

/// The text of a live line with the name of its stream, within so many columns; none where nothing is
/// to be seen. What a model says grows at its end: that is what is shown of it.
pub(super) fn live_text(live: Live<'_>, coloured: bool, columns: usize) -> Option<String> {
    let (mut mark, mut text) = (String::new(), String::new());
    live.push(&mut text, coloured);
    if text.is_empty() {
        return None;
    }
    push_mark(&mut mark, live.stream(), coloured);
    let text = mark + &text;
    Some(match live.is_models() {
        true => end_of_painted(&text, columns).into_owned(),
        false => cut_painted(&text, columns).into_owned(),
    })
}

fn push_mark(out: &mut String, stream: &str, coloured: bool) {
    if stream == "stdout" {
        return;
    }
    let mut name = String::from("[");
    push_clean(&mut name, stream);
    let mut mark = cut(&name, NAME_COLUMNS_MAX).to_owned();
    mark.push(']');
    push_styled(out, coloured, Tone::Alarm.style(), &mark);
    out.push(' ');
}
