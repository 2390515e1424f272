//! Holds a contiguous part of the selected row's events in memory, and their lines in a view (pure).

use std::collections::VecDeque;

use super::content::{Change, Content};
use super::line::{Position, ViewLine};
use super::lines::Lines;
use super::painted::StyledText;
use super::view::ViewKind;
use crate::board::{ExecutionKind, Row};
use crate::event::{Envelope, PaneId, TdEvent};
use crate::face::local_time::LocalTime;
use crate::history::Page;
use crate::timestamp::Timestamp;

/// The maximum number of events that a view holds while it follows.
pub(super) const EVENTS_FOLLOWED: usize = 1_000;

/// The maximum number of events that a view holds while the reader moves through older ones.
const EVENTS_MAX: usize = 3_000;

/// The maximum number of bytes of their text. A chunk of a flood has up to 64 KiB.
pub(super) const BYTES_MAX: usize = 6 * 1024 * 1024;

/// The result of adding a live event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The event is in the window.
    Taken,
    /// The window has the event already, or does not reach it.
    Skipped,
    /// The events between the window and this one are only in the log.
    AfterGap,
}

#[derive(Debug)]
enum Entry {
    Event(Box<Envelope>),
    /// A line in place of events that were dropped.
    Missed(ViewLine),
}

/// The events in memory and their lines.
#[derive(Debug)]
pub(super) struct Window {
    view: ViewKind,
    local: LocalTime,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// True if no event precedes the first one.
    pub is_start: bool,
    /// True if the window accepts live events.
    pub is_end: bool,
    /// The number and time of the last event of the run that was added or skipped.
    last: Option<(u64, Timestamp)>,
    content: Content,
    lines: Lines,
}

impl Window {
    pub fn new(view: ViewKind, local: LocalTime) -> Self {
        Self {
            view,
            content: Content::new(view, local.clone()),
            local,
            entries: VecDeque::new(),
            bytes: 0,
            is_start: false,
            is_end: true,
            last: None,
            lines: Lines::default(),
        }
    }

    pub fn lines(&self) -> &Lines {
        &self.lines
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
        let first = self.entries.front().filter(|_| self.is_start)?;
        match first {
            Entry::Event(envelope) => match &envelope.event {
                TdEvent::SessionStarted { panes, .. } if panes.contains(pane) => Some(envelope.ts),
                _ => None,
            },
            Entry::Missed(_) => None,
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
        if view != self.view && view.has_lines() {
            self.view = view;
            self.rebuild();
        }
    }

    pub fn replace(&mut self, page: Page) {
        self.entries.clear();
        self.bytes = 0;
        self.is_start = page.is_first;
        self.is_end = page.is_last;
        self.last = None;
        self.append(page);
        self.rebuild();
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
        self.rebuild();
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

    /// Adds a live event of the run; `belongs_to_row` is true if it is an event of the row. A full window
    /// does not move while the reader is elsewhere.
    pub fn live(
        &mut self,
        envelope: Envelope,
        belongs_to_row: bool,
        is_following: bool,
        on_line: &mut dyn FnMut(&ViewLine),
    ) -> Arrival {
        if !self.is_end {
            return Arrival::Skipped;
        }
        if let (Some(seq), Some((last, last_ts))) = (envelope.seq, self.last) {
            // A lower number at a later time follows a crash, after which numbers are assigned again.
            if seq <= last && envelope.ts <= last_ts {
                return Arrival::Skipped;
            }
            if seq.saturating_sub(envelope.n) > last {
                return Arrival::AfterGap;
            }
        }
        if !belongs_to_row {
            self.last = envelope.seq.map(|seq| (seq, envelope.ts)).or(self.last);
            return Arrival::Taken;
        }
        if !is_following && self.is_too_large(EVENTS_MAX - 1) {
            self.is_end = false;
            return Arrival::Skipped;
        }
        self.take(envelope, on_line);
        if is_following {
            self.shrink(EVENTS_FOLLOWED);
        }
        Arrival::Taken
    }

    /// Continues after a gap of `count` dropped events, before the event with the number `next`.
    pub fn missed(&mut self, count: u64, next: u64, ts: Timestamp) {
        let at = Position {
            seq: next.saturating_sub(1),
            nth: u32::MAX,
        };
        let line = Content::missed(count, at, ts);
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
            self.lines.forget_until(entry.seq());
        }
    }

    fn rebuild(&mut self) {
        self.content = Content::new(self.view, self.local.clone());
        self.lines.clear();
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
        TdEvent::OutputUpdate { chunk, styles, .. } => chunk.len() + 64 * styles.as_slice().len(),
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

/// Returns true if an event of a row's run belongs to the row.
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
        TdEvent::AgentState { agent_id, .. } => agent_id.as_deref(),
        TdEvent::TurnCompleted { agent_id, .. } => agent_id.as_deref().map(String::as_str),
        _ => None,
    }
}
