//! The lines of a view: built from the events of one row, and held with a contiguous part of them (pure).

use std::collections::VecDeque;
use std::ops::Deref;

use ratatui::style::{Color, Modifier, Style};

use super::cells::{StyledText, style_of_ink};
use super::layout::ViewKind;
use crate::board::{ExecutionKind, Row};
use crate::event::{self, Envelope, OutputStream, PaneId, TdEvent};
use crate::face::conversation::conversation_lines;
use crate::face::describe::{Description, describe, lagged};
use crate::face::lines::{Snapshots, StyledLines, styled_parts, styles_of, with_links};
use crate::face::local_time::LocalTime;
use crate::face::sanitize::{Tone, one_line, sanitized};
use crate::face::stream_lines::{StreamLine, StreamLines};
use crate::history::Page;
use crate::timestamp::Timestamp;

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
    /// The addresses of its links.
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
    view: ViewKind,
    streams: StreamLines,
    local: LocalTime,
    snapshots: Snapshots,
    /// True if the conversation of the agent is known, so that snapshots of its screen add nothing.
    has_conversation: bool,
}

impl Content {
    pub fn new(view: ViewKind, local: LocalTime) -> Self {
        Self {
            view,
            streams: StreamLines::default(),
            local,
            snapshots: Snapshots::default(),
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
            for (tone, text) in lines {
                let text = bounded(one_line(&text));
                line(StyledText::plain(text, style_of(tone)), None);
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
                emit(Change::Revised(*number, text));
            }
            TdEvent::ScreenSnapshot { pane, rows, .. } => {
                let new = self.snapshots.new_rows(pane, rows);
                for row in new.filter(|_| !self.has_conversation) {
                    let text = bounded(one_line(row));
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
pub(super) fn pane_line(text: &str, styles: &[event::Style]) -> StyledText {
    let Some(parts) = styled_parts(text, styles) else {
        return StyledText::plain(bounded(sanitized(text)), Style::new());
    };
    let mut line = StyledText::default();
    for (text, ink) in parts {
        line.push(&text, style_of_ink(ink));
    }
    line
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
        let key = row
            .split_once("\": ")
            .filter(|_| row.trim_start().starts_with('"'));
        let (key, value) = row.split_at(key.map_or(0, |(key, _)| key.len() + 3));
        text.push(key, Style::new().fg(Color::Cyan));
        text.push(value, Style::new());
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

/// The maximum number of events that a view holds while it follows.
pub(super) const EVENTS_FOLLOWED: usize = 1_000;

/// The maximum number of events that a view holds while the reader moves through older ones.
const EVENTS_MAX: usize = 3_000;

/// The maximum number of bytes of their text. A chunk of a flood has up to 64 KiB.
pub(super) const BYTES_MAX: usize = 6 * 1024 * 1024;

#[derive(Debug)]
enum Entry {
    Event(Box<Envelope>),
    /// A line in place of events that were dropped.
    Missed(ViewLine),
}

/// The events in memory and their lines.
#[derive(Debug)]
pub(super) struct Window {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// True if no event precedes the first one.
    pub is_start: bool,
    /// True if the window accepts live events.
    pub is_end: bool,
    /// The number and time of the last event of the run that was added or skipped.
    last: Option<(u64, Timestamp)>,
    content: Content,
    pub lines: Lines,
}

impl Window {
    pub fn new(view: ViewKind, local: LocalTime) -> Self {
        Self {
            content: Content::new(view, local),
            entries: VecDeque::new(),
            bytes: 0,
            is_start: false,
            is_end: true,
            last: None,
            lines: Lines::default(),
        }
    }

    /// Returns the line that has begun but not ended.
    pub fn open_line(&self) -> Option<StyledText> {
        self.content.open_line().filter(|_| self.is_end)
    }

    /// Returns the number of the last known event of the run.
    pub fn last_seq(&self) -> u64 {
        self.last.map_or(0, |(seq, _)| seq)
    }

    pub fn first_seq(&self) -> Option<u64> {
        self.entries.front().map(Entry::seq)
    }

    /// Returns the time since which an existing pane is observed, if that is the first event of the run.
    pub fn observed_since(&self, pane: &PaneId) -> Option<Timestamp> {
        let Entry::Event(first) = self.entries.front().filter(|_| self.is_start)? else {
            return None;
        };
        match &first.event {
            TdEvent::SessionStarted { panes, .. } if panes.contains(pane) => Some(first.ts),
            _ => None,
        }
    }

    /// Returns the events after a number.
    pub fn events_after(&self, seq: u64) -> impl Iterator<Item = &Envelope> {
        let events = self.entries.iter().filter_map(|entry| match entry {
            Entry::Event(envelope) => Some(&**envelope),
            Entry::Missed(_) => None,
        });
        events.filter(move |envelope| envelope.seq.is_none_or(|number| number > seq))
    }

    /// Returns the number of the first event after the last gap at or before a position.
    pub fn gap_before(&self, at: Position) -> Option<u64> {
        self.entries.iter().rev().find_map(|entry| match entry {
            Entry::Missed(line) if line.at <= at => Some(line.at.seq + 1),
            _ => None,
        })
    }

    /// Switches to another view of the same events.
    pub fn set_view(&mut self, view: ViewKind) {
        if view != self.content.view && view.has_lines() {
            self.rebuild(view);
        }
    }

    pub fn replace(&mut self, page: Page) {
        self.entries.clear();
        self.bytes = 0;
        self.is_start = page.is_first;
        self.is_end = page.is_last;
        self.last = None;
        self.append(page);
        self.rebuild(self.content.view);
    }

    /// Adds a page before the first event. Beyond the limits, the last events are dropped.
    pub fn prepend(&mut self, page: Page) {
        self.is_start = page.is_first;
        for envelope in page.events.into_iter().rev() {
            self.bytes += weight(&envelope);
            self.entries.push_front(Entry::Event(Box::new(envelope)));
        }
        while self.is_too_large(EVENTS_MAX)
            && let Some(entry) = self.entries.pop_back()
        {
            self.bytes -= entry.weight();
            self.is_end = false;
            self.last = self.entries.back().map(|entry| (entry.seq(), entry.ts()));
        }
        self.rebuild(self.content.view);
    }

    /// Drops the events before a gap that a page will fill.
    pub fn forget_until_gap(&mut self, next: u64) {
        let before = self
            .entries
            .iter()
            .take_while(|entry| entry.seq() < next)
            .count();
        for entry in self.entries.drain(..before) {
            self.bytes -= entry.weight();
        }
        self.is_start = false;
    }

    /// Adds a page after the last event. Beyond the limits, the first events are dropped.
    pub fn append(&mut self, page: Page) {
        for envelope in page.events {
            let is_new = envelope.seq.is_none_or(|seq| seq > self.last_seq());
            if is_new || self.last.is_none() {
                self.take(envelope, &mut |_| {});
            }
        }
        if let Some(seq) = page.last_seq
            && seq >= self.last_seq()
        {
            let ts = self.last.map_or_else(Timestamp::default, |(_, ts)| ts);
            self.last = Some((seq, ts));
        }
        self.is_end = page.is_last;
        self.shrink(EVENTS_MAX);
    }

    /// Adds the next event of the run; `belongs_to_row` is true if it is an event of the row. Returns false if
    /// the window does not reach it, because a full window does not move while the reader is elsewhere.
    pub fn live(
        &mut self,
        envelope: Envelope,
        belongs_to_row: bool,
        is_following: bool,
        on_line: &mut dyn FnMut(&ViewLine),
    ) -> bool {
        if !self.is_end {
            return false;
        }
        if !belongs_to_row {
            self.last = envelope.seq.map(|seq| (seq, envelope.ts)).or(self.last);
            return true;
        }
        if !is_following && self.is_too_large(EVENTS_MAX - 1) {
            self.is_end = false;
            return false;
        }
        self.take(envelope, on_line);
        if is_following {
            self.shrink(EVENTS_FOLLOWED);
        }
        true
    }

    /// Continues after a gap of `count` dropped events, before the event with the number `next`.
    pub fn missed(&mut self, count: u64, next: u64, ts: Timestamp) {
        let at = Position {
            seq: next.saturating_sub(1),
            nth: u32::MAX,
        };
        let text = Description::missing(lagged(count)).marked();
        let line = ViewLine {
            at,
            ts,
            text: StyledText::plain(text, style_of(Tone::Caution)),
            number: None,
            urls: Vec::new(),
        };
        self.lines.push(line.clone());
        self.entries.push_back(Entry::Missed(line));
        self.last = Some((at.seq, ts));
    }

    fn take(&mut self, envelope: Envelope, on_line: &mut dyn FnMut(&ViewLine)) {
        let lines = &mut self.lines;
        self.content.push(&envelope, &mut |change: Change| {
            if let Some(line) = lines.apply(change) {
                on_line(line);
            }
        });
        self.last = envelope.seq.map(|seq| (seq, envelope.ts)).or(self.last);
        self.bytes += weight(&envelope);
        self.entries.push_back(Entry::Event(Box::new(envelope)));
    }

    fn is_too_large(&self, events: usize) -> bool {
        self.entries.len() > 1 && (self.entries.len() > events || self.bytes > BYTES_MAX)
    }

    /// Drops the first events beyond a limit, and their lines.
    fn shrink(&mut self, events: usize) {
        while self.is_too_large(events)
            && let Some(entry) = self.entries.pop_front()
        {
            self.bytes -= entry.weight();
            self.is_start = false;
            let before = self
                .lines
                .partition_point(|line| line.at.seq <= entry.seq());
            self.lines.0.drain(..before);
        }
    }

    fn rebuild(&mut self, view: ViewKind) {
        self.content = Content::new(view, self.content.local.clone());
        self.lines = Lines::default();
        for entry in &self.entries {
            match entry {
                Entry::Event(envelope) => {
                    let lines = &mut self.lines;
                    self.content.push(envelope, &mut |change| {
                        lines.apply(change);
                    });
                }
                Entry::Missed(line) => self.lines.push(line.clone()),
            }
        }
    }
}

impl Entry {
    fn seq(&self) -> u64 {
        match self {
            Self::Event(envelope) => envelope.seq.unwrap_or(0),
            Self::Missed(line) => line.at.seq,
        }
    }

    fn ts(&self) -> Timestamp {
        match self {
            Self::Event(envelope) => envelope.ts,
            Self::Missed(line) => line.ts,
        }
    }

    fn weight(&self) -> usize {
        match self {
            Self::Event(envelope) => weight(envelope),
            Self::Missed(_) => 0,
        }
    }
}

/// Returns the approximate size of an event in memory, with its lines, in bytes.
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

fn agent_of(event: &TdEvent) -> Option<&str> {
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

    use crate::timestamp::Timestamp;

    fn line(seq: u64, number: i64) -> ViewLine {
        ViewLine {
            at: Position { seq, nth: 0 },
            ts: Timestamp::default(),
            text: StyledText::default(),
            number: Some(number),
            urls: Vec::new(),
        }
    }

    /// A view that follows a flood holds a bounded part of it: its end.
    #[test]
    fn a_window_is_bounded_by_events_and_by_bytes() {
        for (events, text) in [(EVENTS_FOLLOWED as u64 + 1, 10), (100, BYTES_MAX / 20)] {
            let mut window = Window::new(ViewKind::Output, LocalTime::of_system());
            for seq in 1..=events {
                let event = TdEvent::ExecutionOutput {
                    execution_id: "e".into(),
                    stream: crate::event::OutputStream::Stdout.into(),
                    text: format!("{seq} {}\n", "x".repeat(text)),
                };
                let envelope = Envelope::new(Some(seq), Timestamp::default(), event);
                assert!(window.live(envelope, true, true, &mut |_| {}));
            }
            assert!(window.entries.len() <= EVENTS_FOLLOWED && window.bytes <= BYTES_MAX);
            assert_eq!(window.last_seq(), events);
            assert!(window.first_seq().is_some_and(|first| first > 1) && !window.is_start);
            // A long text is several lines of the view.
            let last = format!("{events} x");
            assert!(
                window
                    .lines
                    .iter()
                    .any(|line| line.text.text.starts_with(&last))
            );
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
