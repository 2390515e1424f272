//! The point from which a pane's observation resumes: read from the history, updated while observing.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::Timestamp;
use crate::error::Result;
use crate::event::{Envelope, PaneId, TdEvent};
use crate::history::{LogReader, Query, RunDirectory, read_tail};
use crate::redact::MARKER;

/// The number of lines that are kept: enough to match in one place only.
const LINES: usize = 64;

/// The most bytes that are read from the end of a history: a screen of lines takes some kilobytes, and a run that many
/// panes share needs more.
const TAIL_BYTES: u64 = 4 * 1024 * 1024;

/// A newest file of fewer bytes may have begun after a pane has left: some seconds of output.
const NEW_FILE_BYTES: u64 = 512 * 1024;

/// The bound of line numbers: 2^53, up to which every JSON reader keeps integers exactly.
const LINE_NUMBERS_MAX: u64 = 1 << 53;

/// What an earlier observer has reported of an agent's conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportedConversation {
    /// The time of its last event; if there is none, that of the last event of any kind. A conversation is written before
    /// it is reported, so other events do not prove that the conversation up to their time is reported.
    pub until: Timestamp,
    /// True if any of it was reported.
    pub has_begun: bool,
}

impl ReportedConversation {
    fn new(conversation_at: Option<Timestamp>, event_at: Option<Timestamp>) -> Option<Self> {
        Some(Self {
            until: conversation_at.or(event_at)?,
            has_begun: conversation_at.is_some(),
        })
    }
}

/// The lines of a pane that were reported last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResumePoint {
    /// The last reported lines by number, settled or open.
    lines: BTreeMap<i64, String>,
    /// The number of the next line.
    next_line: i64,
    /// The time of the last event of the agent's conversation, and of any event.
    conversation_at: Option<Timestamp>,
    event_at: Option<Timestamp>,
    /// The pane was open when its last observer ended.
    is_open: bool,
}

impl Default for ResumePoint {
    fn default() -> Self {
        Self {
            lines: BTreeMap::new(),
            next_line: 1,
            conversation_at: None,
            event_at: None,
            is_open: false,
        }
    }
}

impl ResumePoint {
    /// Reads the resume points of these panes from a run: from the end of its history, and from more of
    /// it only if a pane is missing there or has few lines.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn read(run: &RunDirectory, panes: &[PaneId]) -> Result<HashMap<PaneId, Self>> {
        let mut points = Self::read_end(run)?;
        // The last two files, because the newest one may just have begun; all files only for a pane
        // without any event in these two.
        for (files, lines) in [(2, LINES), (usize::MAX, 0)] {
            let is_known = |pane| {
                let point: Option<&Self> = points.get(pane);
                point.is_some_and(|point| point.lines.len() >= lines)
            };
            if panes.iter().all(is_known) {
                break;
            }
            points.clear();
            for record in LogReader::open_last(run, files, Query::all())? {
                Self::take(&mut points, &record.envelope);
            }
        }
        Ok(points)
    }

    /// Returns the points of those of these panes that runs of other sessions have reached, the furthest one of each
    /// pane. A pane keeps its line numbers when it moves from session to session, so that the run that knows the most of
    /// it has the highest ones.
    pub fn read_elsewhere(runs: &[RunDirectory], panes: &HashSet<PaneId>) -> HashMap<PaneId, Self> {
        let mut furthest = HashMap::new();
        for run in runs {
            let points = Self::read_newest(run, panes).unwrap_or_else(|error| {
                log::warn!("{error:?}");
                HashMap::new()
            });
            for (pane, mut point) in points {
                if panes.contains(&pane) {
                    // It is not open in the session that it has moved to.
                    point.is_open = false;
                    point.replace_nearer(&mut furthest, pane);
                }
            }
        }
        furthest
    }

    /// Replaces a point of the pane that is not as far as this one.
    pub fn replace_nearer(self, points: &mut HashMap<PaneId, Self>, pane: PaneId) {
        let is_further = points.get(&pane).is_none_or(|known| {
            (known.next_line, known.event_at) < (self.next_line, self.event_at)
        });
        if is_further {
            points.insert(pane, self);
        }
    }

    /// Returns true if another session may have observed the pane after the one of this point: it has left that one, or
    /// no line of it is known there.
    pub fn may_be_elsewhere(&self) -> bool {
        !self.is_open || self.next_line == Self::default().next_line
    }

    /// Returns the point without its lines, for a pane whose lines others have reported since.
    pub fn without_lines(mut self) -> Self {
        self.lines.clear();
        self
    }

    /// Reads the points of all panes that occur in the last events of a run.
    fn read_end(run: &RunDirectory) -> Result<HashMap<PaneId, Self>> {
        let mut points = HashMap::new();
        read_tail(&run.events_path(), TAIL_BYTES)?
            .iter()
            .for_each(|envelope| Self::take(&mut points, envelope));
        Ok(points)
    }

    /// Reads the points of all panes that occur in the last events of a run, and if none of `panes` does, in those of the
    /// file before a new one.
    fn read_newest(run: &RunDirectory, panes: &HashSet<PaneId>) -> Result<HashMap<PaneId, Self>> {
        let mut points = Self::read_end(run)?;
        let bytes = std::fs::metadata(run.events_path()).map_or(0, |file| file.len());
        if bytes >= NEW_FILE_BYTES || points.keys().any(|pane| panes.contains(pane)) {
            return Ok(points);
        }
        points.clear();
        for record in LogReader::open_last(run, 2, Query::all())? {
            Self::take(&mut points, &record.envelope);
        }
        Ok(points)
    }

    /// Applies an event of the history. A pane with events but without lines is known, too: the lines
    /// that it has printed since are missing.
    fn take(points: &mut HashMap<PaneId, Self>, envelope: &Envelope) {
        let event = &envelope.event;
        let Some(pane) = event.pane() else {
            return;
        };
        let point = points.entry(pane.clone()).or_default();
        point.event_at = Some(envelope.ts);
        match event {
            TdEvent::PaneOpened { .. } => point.is_open = true,
            TdEvent::PaneClosed { .. } => point.is_open = false,
            _ => {}
        }
        if is_of_conversation(event) {
            point.conversation_at = point.event_at;
        }
        // Other programs may write to the file. Numbers that no pane reaches indicate damage.
        if has_sound_numbers(event) {
            point.note_event(event);
            point.forget_redacted();
        }
    }

    /// Removes the points of panes that were open when their last observer ended and are not present; returns these panes.
    pub fn take_lost(points: &mut HashMap<PaneId, Self>, present: &[PaneId]) -> Vec<PaneId> {
        let is_lost = |(pane, point): &(&PaneId, &Self)| point.is_open && !present.contains(pane);
        let lost: Vec<PaneId> = (points.iter().filter(is_lost))
            .map(|(pane, _)| pane.clone())
            .collect();
        points.retain(|pane, _| !lost.contains(pane));
        lost
    }

    /// Returns what was reported of the pane's conversation; `None` if there was no observer.
    pub fn reported_conversation(&self) -> Option<ReportedConversation> {
        ReportedConversation::new(self.conversation_at, self.event_at)
    }

    /// Notes an emitted event, if it changes lines.
    pub fn note_event(&mut self, event: &TdEvent) {
        match event {
            TdEvent::OutputUpdate {
                first_line, chunk, ..
            } => self.note_lines(*first_line, chunk),
            TdEvent::OutputRevised { line, text, .. } => {
                self.lines.insert(*line, text.clone());
                self.forget_oldest();
            }
            TdEvent::OutputGap {
                first_line,
                lost_lines,
                ..
            } => {
                let end = first_line.saturating_add_unsigned(lost_lines.unwrap_or(0));
                self.next_line = self.next_line.max(end);
                // The lines before a gap do not adjoin those after it.
                self.lines.clear();
            }
            _ => {}
        }
    }

    /// Returns the last lines, ordered by their numbers.
    pub fn lines(&self) -> Vec<(i64, String)> {
        self.lines
            .iter()
            .map(|(number, text)| (*number, text.clone()))
            .collect()
    }

    /// Returns the number of the next line.
    pub fn next_line(&self) -> i64 {
        self.next_line
    }

    fn note_lines(&mut self, first_line: i64, chunk: &str) {
        let chunk = chunk.as_bytes();
        let count = memchr::memchr_iter(b'\n', chunk).count();
        self.next_line = self.next_line.max(first_line.saturating_add(count as i64));
        // Only the end of a long chunk is kept.
        let last = memchr::memrchr_iter(b'\n', chunk).nth(LINES);
        let chunk = &chunk[last.map_or(0, |end| end + 1)..];
        let skipped = count.saturating_sub(LINES) as i64;
        let lines = (first_line.saturating_add(skipped)..).zip(chunk.split(|byte| *byte == b'\n'));
        // The last part is empty, or a line without an end.
        let lines = lines.take(count.min(LINES));
        // A text that is split at line ends is valid UTF-8.
        let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
        self.lines
            .extend(lines.map(|(number, line)| (number, text(line))));
        self.forget_oldest();
    }

    /// Drops the lines up to the last redacted one: it differs from the line on the pane, so that
    /// neither it nor its predecessors can be found there.
    fn forget_redacted(&mut self) {
        let is_redacted = |(_, text): &(&i64, &String)| text.contains(MARKER);
        if let Some((&last, _)) = self.lines.iter().rfind(is_redacted) {
            self.lines = self.lines.split_off(&(last.saturating_add(1)));
        }
    }

    fn forget_oldest(&mut self) {
        while self.lines.len() > LINES {
            self.lines.pop_first();
        }
    }
}

/// Returns true if an event changes lines, with numbers that a pane can reach.
fn has_sound_numbers(event: &TdEvent) -> bool {
    let is_sound = |number: &i64| number.unsigned_abs() < LINE_NUMBERS_MAX;
    match event {
        TdEvent::OutputUpdate { first_line, .. } => is_sound(first_line),
        TdEvent::OutputRevised { line, .. } => is_sound(line),
        TdEvent::OutputGap {
            first_line,
            lost_lines,
            ..
        } => is_sound(first_line) && lost_lines.is_none_or(|lost| lost < LINE_NUMBERS_MAX),
        _ => false,
    }
}

/// Returns what was reported of the conversation of a run that is one agent; `None` if its history has no events or cannot
/// be read.
#[cfg(feature = "cli")]
pub(crate) fn reported_conversation(run: &RunDirectory) -> Option<ReportedConversation> {
    // Whatever the bytes of one event, the last events are among these.
    let tail = read_tail(&run.events_path(), 4 * 1024 * 1024).ok()?;
    let mut events = tail.iter().rev();
    let found = events.find(|envelope| is_of_conversation(&envelope.event));
    ReportedConversation::new(found.map(|found| found.ts), tail.last().map(|last| last.ts))
}

/// Returns true if an event comes from the files of an agent.
fn is_of_conversation(event: &TdEvent) -> bool {
    matches!(
        event,
        TdEvent::PromptSent { .. }
            | TdEvent::TokenReceived { .. }
            | TdEvent::ResponseCompleted { .. }
            | TdEvent::ToolCallStarted { .. }
            | TdEvent::ToolCallCompleted { .. }
            | TdEvent::TurnCompleted { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Styles;
    use crate::timestamp::Timestamp;

    #[test]
    fn resume_points_are_read_from_the_history() {
        let update = |pane: &str, first_line, chunk: &str| TdEvent::OutputUpdate {
            execution_id: "e".into(),
            pane: pane.into(),
            first_line,
            chunk: chunk.into(),
            is_complete: false,
            reason: None,
            exit_status: None,
            styles: Styles::default(),
            links: Default::default(),
        };
        let revised = TdEvent::OutputRevised {
            execution_id: "e".into(),
            pane: "%1".into(),
            line: 4,
            text: "$ ".into(),
            styles: Styles::default(),
        };
        let events = [
            update("%1", 1, "a\n\n"),
            update("%2", 7, "x\n"),
            update("%1", 3, "b\n"),
            revised,
        ]
        .map(|event| Envelope::new(Some(1), Timestamp::default(), event));
        let mut panes = HashMap::new();
        events
            .iter()
            .for_each(|envelope| ResumePoint::take(&mut panes, envelope));
        let pane = &panes["%1"];
        assert_eq!(pane.next_line(), 4);
        let lines = [(1, "a"), (2, ""), (3, "b"), (4, "$ ")];
        assert_eq!(
            pane.lines(),
            lines.map(|(number, text)| (number, text.to_owned()))
        );
        assert_eq!(panes["%2"].next_line(), 8);
        assert!(pane.may_be_elsewhere(), "it was not opened");
    }

    #[test]
    fn the_furthest_point_of_a_pane_is_kept() {
        let at = |next_line, seconds: i64| ResumePoint {
            next_line,
            event_at: Some(Timestamp::from_micros(seconds * 1_000_000)),
            ..ResumePoint::default()
        };
        let mut points = HashMap::new();
        for (point, kept) in [
            (at(7, 1), at(7, 1)),
            // A run that goes on without the pane.
            (at(5, 9), at(7, 1)),
            (at(7, 2), at(7, 2)),
            (at(8, 1), at(8, 1)),
        ] {
            point.replace_nearer(&mut points, "%1".into());
            assert_eq!(points["%1"], kept);
        }
    }
}
