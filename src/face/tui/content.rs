//! Builds the lines of a view from the events of one row (pure).

use std::collections::HashMap;

use ratatui::style::{Color, Modifier, Style};

use super::super::lines::LineStyles;
use super::super::sanitize::Tone;
use super::line::{Position, ViewLine};
use super::painted::StyledText;
use super::view::ViewKind;
use crate::event::{Envelope, OutputStream, PaneId, ScreenRow, TdEvent, lines_in};
use crate::face::conversation::conversation_lines;
use crate::face::describe::{Description, describe, lagged};
use crate::face::local_time::LocalTime;
use crate::face::sanitize::{one_line, sanitized};
use crate::face::stream_lines::{StreamLine, StreamLines};
use crate::timestamp::Timestamp;

/// The longest line, in characters; the view cuts longer ones, which are complete in the log.
const LINE_CHARS_MAX: usize = 16 * 1024;

/// A change that an event makes to the lines of a view.
#[derive(Debug)]
pub(super) enum Change {
    /// A new line follows.
    Line(ViewLine),
    /// The line of a pane with this number has a new text.
    Revised(i64, StyledText),
}

/// The state for building the lines of one view, event by event.
#[derive(Debug)]
pub(super) struct Content {
    view: ViewKind,
    streams: StreamLines,
    styles: LineStyles,
    local: LocalTime,
    /// The rows of the last snapshot of each pane.
    screens: HashMap<PaneId, Vec<ScreenRow>>,
    /// True if the conversation of the agent is known, so that snapshots of its screen add nothing.
    has_conversation: bool,
}

impl Content {
    pub fn new(view: ViewKind, local: LocalTime) -> Self {
        Self {
            view,
            streams: StreamLines::default(),
            styles: LineStyles::default(),
            local,
            screens: HashMap::new(),
            has_conversation: false,
        }
    }

    /// Emits the lines of an event.
    pub fn push(&mut self, envelope: &Envelope, emit: &mut dyn FnMut(Change)) {
        let mut nth = 0;
        let emit = &mut |mut change: Change| {
            if let Change::Line(line) = &mut change {
                line.at.nth = nth;
                nth += 1;
            }
            emit(change);
        };
        match self.view {
            ViewKind::Output => self.output(envelope, emit),
            ViewKind::Logs => self.logs(envelope, emit),
            ViewKind::Events => pretty(envelope, &mut self.local, emit),
            ViewKind::Screen | ViewKind::Timeline => {}
        }
    }

    /// Returns a line that reports the number of missed events.
    pub fn missed(count: u64, at: Position, ts: Timestamp) -> ViewLine {
        let text = Description::missing(lagged(count)).marked();
        ViewLine {
            at,
            ts,
            text: StyledText::plain(text, style_of(Tone::Caution)),
            number: None,
        }
    }

    /// Returns the line that has begun but not ended, such as a model's answer.
    pub fn open_line(&self) -> Option<StyledText> {
        let live = self
            .streams
            .live()
            .filter(|_| self.view == ViewKind::Output)?;
        let mut text = String::new();
        live.push_open(&mut text, true);
        (!text.is_empty()).then(|| StyledText::painted(&bounded(text)))
    }

    fn output(&mut self, envelope: &Envelope, emit: &mut dyn FnMut(Change)) {
        let event = &envelope.event;
        let mut line = |text: StyledText, number: Option<i64>| {
            emit(Change::Line(view_line(envelope, text, number)));
        };
        if let Some(lines) = conversation_lines(event, false) {
            self.has_conversation = true;
            for spoken in lines {
                let text = bounded(one_line(&spoken.text));
                line(StyledText::plain(text, style_of(spoken.tone)), None);
            }
            return;
        }
        match event {
            TdEvent::OutputUpdate {
                first_line,
                chunk,
                styles,
                ..
            } => {
                let count = i64::try_from(chunk.len()).unwrap_or(i64::MAX);
                self.styles.set(*first_line, count, styles);
                for (number, text) in (*first_line..=i64::MAX).zip(lines_in(chunk)) {
                    line(pane_line(&self.styles, number, text), Some(number));
                }
                self.styles.truncate();
            }
            TdEvent::OutputRevised {
                line: number,
                text,
                styles,
                ..
            } => {
                self.styles.set(*number, 1, styles);
                let text = pane_line(&self.styles, *number, text);
                emit(Change::Revised(*number, text));
            }
            TdEvent::ScreenSnapshot { pane, rows, .. } => {
                let shown = self.screens.insert(pane.clone(), rows.clone());
                if self.has_conversation {
                    return;
                }
                let shown = shown.unwrap_or_default();
                let new = |row: &&ScreenRow| shown.iter().all(|shown| shown.text != row.text);
                for row in rows.iter().filter(new) {
                    let text = bounded(one_line(&row.text));
                    line(StyledText::plain(text, style_of(Tone::Dim)), None);
                }
            }
            // The logs show the output of checks.
            TdEvent::ValidationOutput { .. } => {}
            event
                if self.streams.push_event(event, &mut |printed| {
                    line(stream_line(printed), None);
                }) => {}
            event => {
                if let Some(description) =
                    describe(event, false).filter(|text| is_output(event, text))
                {
                    line(described(&description), None);
                }
            }
        }
    }

    fn logs(&mut self, envelope: &Envelope, emit: &mut dyn FnMut(Change)) {
        let event = &envelope.event;
        let mut before = String::new();
        self.local.push(&mut before, envelope.ts);
        let before = StyledText::plain(before, style_of(Tone::Dim));
        let mut line = |text: &StyledText| {
            let mut whole = before.clone();
            whole.extend(text);
            emit(Change::Line(view_line(envelope, whole, None)));
        };
        let is_text = match event {
            TdEvent::ValidationOutput { .. } => true,
            TdEvent::ExecutionOutput { stream, .. } => *stream == OutputStream::Stderr,
            // Other text belongs to the output view.
            TdEvent::TokenReceived { .. }
            | TdEvent::OutputUpdate { .. }
            | TdEvent::OutputRevised { .. }
            | TdEvent::ScreenUpdate { .. }
            | TdEvent::ScreenSnapshot { .. }
            | TdEvent::PromptSent { .. }
            | TdEvent::ToolCallStarted { .. }
            | TdEvent::ResponseCompleted { .. } => return,
            _ => false,
        };
        let streams = &mut self.streams;
        let needs_words = match event {
            TdEvent::ExecutionOutput { .. } if !is_text => false,
            event => !streams.push_event(event, &mut |printed| line(&stream_line(printed))),
        };
        if needs_words && let Some(description) = describe(event, true) {
            line(&described(&description));
        }
    }
}

/// Returns true if the description of an event belongs to the output view.
fn is_output(event: &TdEvent, description: &Description) -> bool {
    match event {
        TdEvent::OutputGap { .. } | TdEvent::LogGap { .. } => !description.is_detail,
        TdEvent::LoopStarted { .. }
        | TdEvent::PhaseStarted { .. }
        | TdEvent::IterationStarted { .. }
        | TdEvent::IterationCompleted { .. }
        | TdEvent::LoopCompleted { .. }
        | TdEvent::PromptSent { .. }
        | TdEvent::ResponseCompleted { .. }
        | TdEvent::ToolCallStarted { .. }
        | TdEvent::ToolCallCompleted { .. }
        | TdEvent::ValidationStarted { .. }
        | TdEvent::ValidationCompleted { .. }
        | TdEvent::AgentCompleted { .. }
        | TdEvent::AgentFailed { .. }
        | TdEvent::Error { .. }
        | TdEvent::PaneClosed { .. }
        | TdEvent::SessionEnded { .. } => true,
        TdEvent::ExecutionStarted { pane, .. } | TdEvent::ExecutionCompleted { pane, .. } => {
            pane.is_none()
        }
        _ => false,
    }
}

fn view_line(envelope: &Envelope, text: StyledText, number: Option<i64>) -> ViewLine {
    ViewLine {
        at: Position {
            seq: envelope.seq.unwrap_or(0),
            nth: 0,
        },
        ts: envelope.ts,
        text,
        number,
    }
}

/// Returns a line of a pane in its colours.
pub(super) fn pane_line(styles: &LineStyles, number: i64, text: &str) -> StyledText {
    match styles.paint(number, text) {
        Some(painted) => StyledText::painted(&painted),
        None => StyledText::plain(bounded(sanitized(text)), Style::new()),
    }
}

fn described(description: &Description) -> StyledText {
    let text = bounded(one_line(&description.marked()));
    StyledText::plain(text, style_of(description.tone))
}

/// Returns a line of a program, a check or a model, with the name of its stream.
fn stream_line(mut printed: StreamLine<'_>) -> StyledText {
    let mut painted = String::new();
    printed.push(&mut painted, true);
    let text = StyledText::painted(&bounded(painted));
    if printed.stream == OutputStream::Stdout.as_str() {
        return text;
    }
    let mut line = StyledText::default();
    line.push(
        &format!("[{}] ", one_line(printed.stream)),
        style_of(Tone::Alarm),
    );
    line.extend(&text);
    line
}

/// Emits the envelope as indented JSON below a line with its number, time and type.
fn pretty(envelope: &Envelope, local: &mut LocalTime, emit: &mut dyn FnMut(Change)) {
    let mut head = String::new();
    local.push(&mut head, envelope.ts);
    let seq = envelope.seq.map_or("-".to_owned(), |seq| seq.to_string());
    let mut first = StyledText::plain(head, style_of(Tone::Dim));
    first.push(&format!("{seq} "), style_of(Tone::Dim));
    let name = one_line(envelope.event.type_name());
    first.push(&name, Style::new().add_modifier(Modifier::BOLD));
    emit(Change::Line(view_line(envelope, first, None)));
    let json = serde_json::to_string_pretty(envelope).unwrap_or_default();
    for row in json.lines() {
        let mut text = StyledText::default();
        let row = bounded(one_line(row));
        match row.split_once("\": ") {
            Some((key, value)) if row.trim_start().starts_with('"') => {
                text.push(&format!("{key}\": "), Style::new().fg(Color::Cyan));
                text.push(value, Style::new());
            }
            _ => text.push(&row, Style::new()),
        }
        emit(Change::Line(view_line(envelope, text, None)));
    }
}

pub(super) fn style_of(tone: Tone) -> Style {
    let style = Style::new();
    match tone {
        Tone::Plain => style,
        Tone::Prompt => style.add_modifier(Modifier::BOLD),
        Tone::Dim => style.add_modifier(Modifier::DIM),
        Tone::Good => style.fg(Color::Green),
        Tone::Caution => style.fg(Color::Magenta),
        Tone::Alarm => style.fg(Color::Red).add_modifier(Modifier::BOLD),
    }
}

/// Cuts a line that is too long to draw.
fn bounded(mut text: String) -> String {
    if text.len() > LINE_CHARS_MAX
        && let Some((end, _)) = text.char_indices().nth(LINE_CHARS_MAX)
    {
        text.truncate(end);
        text.push('…');
    }
    text
}
