//! The lines of a view, built from the events of one row: one model for the terminal UI and the page (pure).

use std::collections::VecDeque;
use std::ops::Deref;

use super::conversation::conversation_lines;
use super::describe::{Description, describe};
use super::lines::{Snapshots, StyledLines, styled_parts, styles_of, with_links};
use super::local_time::LocalTime;
use super::sanitize::{Tone, one_line, sanitized};
use super::stream_lines::{StreamLine, StreamLines};
use super::styled_text::StyledText;
use crate::board::{ExecutionKind, Row};
use crate::event::{Envelope, Ink, OutputStream, Style, TdEvent};
use crate::timestamp::Timestamp;

/// A view that shows lines of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(any(feature = "serve", feature = "tui")), allow(dead_code))]
pub(super) enum LineView {
    Output,
    Logs,
    Events,
}

/// The position of a line, which stays the same when lines are loaded before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    /// The number of the event in its run.
    pub seq: u64,
    /// The number of the line in its event, from 0.
    pub nth: u32,
}

/// A line of a view.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ViewLine {
    pub at: Position,
    /// The time of its event.
    pub ts: Timestamp,
    pub text: StyledText,
    /// The number of a pane's line, which may be revised.
    pub number: Option<i64>,
    /// The addresses of its links, whose numbers in the text begin at 1.
    pub urls: Vec<String>,
}

/// Lines in order.
#[derive(Debug, Default)]
pub(super) struct Lines(VecDeque<ViewLine>);

impl Deref for Lines {
    type Target = VecDeque<ViewLine>;

    fn deref(&self) -> &VecDeque<ViewLine> {
        &self.0
    }
}

#[cfg_attr(not(feature = "tui"), allow(dead_code))]
impl Lines {
    /// Applies a change; returns the new line, if there is one.
    pub fn apply(&mut self, change: Change) -> Option<&ViewLine> {
        match change {
            Change::Line(line) => {
                self.push(line);
                self.0.back()
            }
            Change::Revised(number, text) => {
                // The lines of a pane have ascending numbers.
                let later = self.0.iter_mut().rev();
                let mut later = later.take_while(|line| line.number.is_none_or(|at| at >= number));
                if let Some(line) = later.find(|line| line.number == Some(number)) {
                    line.text = text;
                    line.urls.clear();
                }
                None
            }
        }
    }

    pub fn push(&mut self, line: ViewLine) {
        self.0.push_back(line);
    }

    /// Removes the first line.
    #[cfg(feature = "mcp")]
    pub fn take_first(&mut self) -> Option<ViewLine> {
        self.0.pop_front()
    }

    /// Drops the lines of the events up to this number.
    pub fn drop_until(&mut self, seq: u64) {
        let before = self.0.partition_point(|line| line.at.seq <= seq);
        self.0.drain(..before);
    }

    /// Keeps only the last `count` lines.
    pub fn keep_last(&mut self, count: usize) {
        self.0.drain(..self.0.len().saturating_sub(count));
    }

    /// Returns the index of the first line at or after a position, or of the last line.
    pub fn find(&self, at: Position) -> usize {
        let index = self.0.partition_point(|line| line.at < at);
        index.min(self.0.len().saturating_sub(1))
    }
}

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
    view: LineView,
    streams: StreamLines,
    local: LocalTime,
    snapshots: Snapshots,
    /// True if the conversation of the agent is known, so that snapshots of its screen add nothing.
    has_conversation: bool,
    /// The number of the pane's next line.
    next_line: Option<i64>,
    /// The pane's last line, with its number, if it has begun and not ended, such as a prompt or a progress bar.
    begun: Option<(i64, StyledText)>,
}

impl Content {
    pub fn new(view: LineView, local: LocalTime) -> Self {
        Self {
            view,
            streams: StreamLines::default(),
            local,
            snapshots: Snapshots::default(),
            has_conversation: false,
            next_line: None,
            begun: None,
        }
    }

    /// Returns the same view before its first event.
    #[cfg(feature = "tui")]
    pub fn restarted(&self, view: LineView) -> Self {
        Self::new(view, self.local.clone())
    }

    #[cfg(feature = "tui")]
    pub fn view(&self) -> LineView {
        self.view
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
            LineView::Output => self.output(envelope, emit),
            LineView::Logs => self.logs(envelope, emit),
            LineView::Events => pretty(envelope, &mut self.local, emit),
        }
    }

    /// Returns the line that has begun but not ended, such as a model's answer or a prompt.
    pub fn open_line(&self) -> Option<StyledText> {
        if self.view != LineView::Output {
            return None;
        }
        let Some(live) = self.streams.live() else {
            // The conversation says what its screen shows.
            let begun = self.begun.as_ref().filter(|_| !self.has_conversation);
            return begun.map(|(_, text)| text.clone());
        };
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
            for (tone, text) in lines {
                let text = bounded(one_line(&text));
                line(StyledText::plain(text, ink_of(tone)), None);
            }
            return;
        }
        match event {
            TdEvent::OutputUpdate {
                first_line,
                chunk,
                styles,
                links,
                ..
            } => {
                let lines = StyledLines::new(*first_line, chunk, styles);
                let count = chunk.matches('\n').count();
                let next = first_line.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
                self.next_line = Some(next);
                self.begun.take_if(|(number, _)| *number < next);
                for (number, text, styles) in lines.iter() {
                    let links = links.of_line(number);
                    let text = match links {
                        [] => pane_line(text, styles),
                        links => pane_line(text, &with_links(styles, links)),
                    };
                    let urls = links.iter().map(|link| link.url.clone()).collect();
                    let line = view_line(envelope, text, Some(number));
                    emit(Change::Line(ViewLine { urls, ..line }));
                }
            }
            TdEvent::OutputRevised {
                line: number,
                text,
                styles,
                ..
            } => {
                let text = pane_line(text, styles_of(styles, 0));
                let is_last = self.begun.as_ref().is_none_or(|(last, _)| last <= number);
                if is_last && self.next_line.is_none_or(|next| next <= *number) {
                    let begun = (*number, text.clone());
                    self.begun = Some(begun).filter(|(_, text)| !text.text.is_empty());
                }
                emit(Change::Revised(*number, text));
            }
            TdEvent::ScreenSnapshot { pane, rows, .. } => {
                let new = self.snapshots.new_rows(pane, rows);
                for row in new.filter(|_| !self.has_conversation) {
                    let text = bounded(one_line(row));
                    line(StyledText::plain(text, ink_of(Tone::Dim)), None);
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
        let before = StyledText::plain(before, ink_of(Tone::Dim));
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
            | TdEvent::AgentActivity { .. }
            | TdEvent::ProgressReported { .. }
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
        urls: Vec::new(),
    }
}

/// Returns a line of a pane in its colours.
pub(super) fn pane_line(text: &str, styles: &[Style]) -> StyledText {
    let Some(parts) = styled_parts(text, styles) else {
        return StyledText::plain(bounded(sanitized(text)), Ink::default());
    };
    let mut line = StyledText::default();
    for (text, ink) in parts {
        line.push(&text, ink);
    }
    line
}

fn described(description: &Description) -> StyledText {
    let text = bounded(one_line(&description.marked()));
    StyledText::plain(text, ink_of(description.tone))
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
        ink_of(Tone::Alarm),
    );
    line.extend(&text);
    line
}

/// Emits the envelope as indented JSON below a line with its number, time and type.
fn pretty(envelope: &Envelope, local: &mut LocalTime, emit: &mut dyn FnMut(Change)) {
    let mut head = String::new();
    local.push(&mut head, envelope.ts);
    let seq = envelope.seq.map_or("-".to_owned(), |seq| seq.to_string());
    let mut first = StyledText::plain(head, ink_of(Tone::Dim));
    first.push(&format!("{seq} "), ink_of(Tone::Dim));
    let name = one_line(envelope.event.type_name());
    first.push(&name, Ink::of("1"));
    emit(Change::Line(view_line(envelope, first, None)));
    let json = serde_json::to_string_pretty(envelope).unwrap_or_default();
    for row in json.lines() {
        let mut text = StyledText::default();
        let row = bounded(one_line(row));
        let key = row
            .split_once("\": ")
            .filter(|_| row.trim_start().starts_with('"'));
        let (key, value) = row.split_at(key.map_or(0, |(key, _)| key.len() + 3));
        text.push(key, Ink::of("36"));
        text.push(value, Ink::default());
        emit(Change::Line(view_line(envelope, text, None)));
    }
}

/// Returns the colours of a tone.
pub(super) fn ink_of(tone: Tone) -> Ink {
    Ink::of(match tone {
        Tone::Plain => "",
        Tone::Prompt => "1",
        Tone::Dim => "2",
        Tone::Good => "32",
        Tone::Caution => "35",
        Tone::Alarm => "1;31",
    })
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

/// Returns the approximate size of an event in memory, with its lines, in bytes.
#[cfg(any(feature = "serve", feature = "tui"))]
pub(super) fn weight(envelope: &Envelope) -> usize {
    let text = match &envelope.event {
        TdEvent::OutputUpdate {
            chunk,
            styles,
            links,
            ..
        } => {
            let urls = links.as_slice().iter().map(|link| 64 + link.url.len());
            chunk.len() + 64 * styles.as_slice().len() + urls.sum::<usize>()
        }
        TdEvent::OutputRevised { text, .. } | TdEvent::ExecutionOutput { text, .. } => text.len(),
        TdEvent::TokenReceived { token, .. } => token.len(),
        TdEvent::ValidationOutput { line, .. } => line.len(),
        TdEvent::ScreenUpdate { rows, .. } | TdEvent::ScreenSnapshot { rows, .. } => {
            rows.iter().map(|row| row.text.len() + 32).sum()
        }
        _ => 256,
    };
    // A line takes more memory than its text.
    512 + 4 * text
}

pub(super) fn belongs_to_row(row: &Row, event: &TdEvent) -> bool {
    match row.kind {
        // A row of an older run may represent all its panes.
        ExecutionKind::Pane => event.pane().is_none_or(|pane| {
            let own = row.pane.as_ref();
            own.is_none_or(|own| own == pane)
        }),
        ExecutionKind::Agent => agent_of(event).is_none_or(|agent| agent == row.name),
        _ => true,
    }
}

pub(super) fn agent_of(event: &TdEvent) -> Option<&str> {
    match event {
        TdEvent::AgentRegistered { agent_id, .. }
        | TdEvent::AgentCompleted { agent_id, .. }
        | TdEvent::AgentFailed { agent_id, .. } => Some(agent_id),
        TdEvent::AgentState { agent_id, .. } | TdEvent::TurnCompleted { agent_id, .. } => {
            agent_id.as_deref().map(String::as_str)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(seq: u64, number: i64) -> ViewLine {
        ViewLine {
            at: Position { seq, nth: 0 },
            ts: Timestamp::default(),
            text: StyledText::default(),
            number: Some(number),
            urls: Vec::new(),
        }
    }

    proptest! {
        /// A revision finds its line, regardless of the number of lines removed before it.
        #[test]
        fn revisions_find_their_lines(steps in prop::collection::vec((0_u8..4, 0_i64..40), 0..80)) {
            let (mut lines, mut naive) = (Lines::default(), Vec::<(u64, i64, String)>::new());
            let mut seq = 0;
            for (kind, number) in steps {
                match kind {
                    0 | 1 => {
                        seq += 1;
                        lines.apply(Change::Line(line(seq, seq as i64)));
                        naive.push((seq, seq as i64, String::new()));
                    }
                    2 => {
                        let text = StyledText { text: format!("{number}x"), runs: Vec::new() };
                        lines.apply(Change::Revised(number, text));
                        if let Some(line) = naive.iter_mut().rfind(|line| line.1 == number) {
                            line.2 = format!("{number}x");
                        }
                    }
                    _ => {
                        lines.keep_last(number as usize);
                        let drop = naive.len().saturating_sub(number as usize);
                        naive.drain(..drop);
                    }
                }
            }
            let held: Vec<_> = lines.iter().map(|line| (line.at.seq, line.number.unwrap(), line.text.text.clone())).collect();
            prop_assert_eq!(held, naive);
        }
    }
}
