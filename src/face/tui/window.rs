//! A contiguous part of the events of a row in memory, and its lines (pure).

use std::collections::VecDeque;

use crate::event::{Envelope, PaneId, TdEvent};
use crate::face::describe::{Description, lagged};
use crate::face::local_time::LocalTime;
use crate::face::sanitize::Tone;
use crate::face::styled_text::StyledText;
use crate::face::view_lines::{
    Change, Content, LineView, Lines, Position, ViewLine, ink_of, weight,
};
use crate::history::Page;
use crate::timestamp::Timestamp;

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
    pub fn new(view: LineView, local: LocalTime) -> Self {
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
    pub fn set_view(&mut self, view: LineView) {
        if view != self.content.view() {
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
        self.rebuild(self.content.view());
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
        self.rebuild(self.content.view());
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
            text: StyledText::plain(text, ink_of(Tone::Caution)),
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
            self.lines.drop_until(entry.seq());
        }
    }

    fn rebuild(&mut self, view: LineView) {
        self.content = self.content.restarted(view);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A view that follows a flood holds a bounded part of it: its end.
    #[test]
    fn a_window_is_bounded_by_events_and_by_bytes() {
        for (events, text) in [(EVENTS_FOLLOWED as u64 + 1, 10), (100, BYTES_MAX / 20)] {
            let mut window = Window::new(LineView::Output, LocalTime::of_system());
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
}
