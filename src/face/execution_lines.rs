//! Renders the output of executions, checks and models for console and tree (pure).

use super::ansi::{cut_painted, end_of_painted};
use super::describe::HUNG_UP;
use super::sanitize::sanitized;
use super::stream_lines::{LineEnd, OpenStream, Origin, StreamLine, StreamLines};
use super::tone::{Tone, push_styled};
use crate::event::{OutputStream, TdEvent};
use crate::track::cut;

/// The widest name of a stream: a longer name would leave no room for the text.
const NAME_COLUMNS_MAX: usize = 20;

/// Output of an execution.
#[derive(Debug)]
pub(super) enum ExecutionText<'a> {
    Line(StreamLine<'a>),
    /// Several lines of a stream that need no processing.
    PlainLines {
        stream: &'a str,
        lines: &'a str,
    },
}

/// Emits the text of an event, and the open lines that the event ends. Returns true if the event needs no
/// description.
pub(super) fn push_event(
    lines: &mut StreamLines,
    event: &TdEvent,
    emit: &mut dyn FnMut(ExecutionText<'_>),
) -> bool {
    let id = event.execution_id();
    if let TdEvent::ExecutionOutput { stream, text, .. } = event
        && let Some(plain) = lines.plain_lines(id, Origin::Child, stream.as_str(), text)
    {
        lines.end_origin(id, Origin::Model, &mut |line| {
            emit(ExecutionText::Line(line))
        });
        let (stream, rest) = (stream.as_str(), &text[plain.len()..]);
        emit(ExecutionText::PlainLines {
            stream,
            lines: plain,
        });
        lines.push(id, Origin::Child, stream, rest, &mut |line| {
            emit(ExecutionText::Line(line));
        });
        return true;
    }
    lines.push_event(event, &mut |line| emit(ExecutionText::Line(line))) || is_silent_job(event)
}

/// Returns true if the event belongs to a job in a pane and is not reported. The shell's prompt shows the
/// job, so only failures are reported.
fn is_silent_job(event: &TdEvent) -> bool {
    matches!(
        event,
        TdEvent::ExecutionStarted { pane: Some(_), .. }
            | TdEvent::ExecutionCompleted {
                pane: Some(_),
                exit_code: None | Some(0 | HUNG_UP),
                ..
            }
    )
}

impl ExecutionText<'_> {
    /// Appends the rows, each after `prefix`. An empty line has no trailing blanks, and an optional line
    /// without visible text has no row.
    pub fn push(self, out: &mut String, prefix: &str, coloured: bool) {
        match self {
            Self::Line(line) => push_row(out, prefix, line, coloured),
            Self::PlainLines { stream, lines } => push_rows(out, prefix, stream, lines, coloured),
        }
    }
}

fn push_row(out: &mut String, prefix: &str, mut line: StreamLine<'_>, coloured: bool) {
    let start = out.len();
    out.push_str(prefix);
    push_stream_name(out, line.stream, coloured);
    let text = out.len();
    line.push(out, coloured);
    if out.len() == text {
        if line.is_optional() {
            return out.truncate(start);
        }
        out.truncate(out.trim_end_matches(' ').len().max(start));
    }
    if line.end == LineEnd::Continues {
        out.push('…');
    }
    out.push('\n');
}

fn push_rows(out: &mut String, prefix: &str, stream: &str, lines: &str, coloured: bool) {
    let mut begin = prefix.to_owned();
    push_stream_name(&mut begin, stream, coloured);
    if begin.is_empty() {
        return out.push_str(lines);
    }
    for line in lines.split_inclusive('\n') {
        out.push_str(match line {
            "\n" => begin.trim_end_matches(' '),
            _ => &begin,
        });
        out.push_str(line);
    }
}

/// Returns the text of a live line with the name of its stream, cut to `columns`; `None` without visible
/// text. A model's answer grows at its end, so its end is shown.
pub(super) fn live_text(live: &OpenStream, coloured: bool, columns: usize) -> Option<String> {
    let (mut name, mut text) = (String::new(), String::new());
    live.push_open(&mut text, coloured);
    if text.is_empty() {
        return None;
    }
    push_stream_name(&mut name, &live.name, coloured);
    let text = name + &text;
    let shown = match live.origin {
        Origin::Model => end_of_painted(&text, columns),
        Origin::Child | Origin::Check => cut_painted(&text, columns),
    };
    Some(shown.into_owned())
}

/// Appends the name of a stream other than standard output.
fn push_stream_name(out: &mut String, stream: &str, coloured: bool) {
    if stream == OutputStream::Stdout.as_str() {
        return;
    }
    let name = format!("[{}", sanitized(stream));
    let name = format!("{}]", cut(&name, NAME_COLUMNS_MAX));
    push_styled(out, coloured, Tone::Alarm.style(), &name);
    out.push(' ');
}
