//! One pane of a wait: the source of its lines, and its matcher (pure).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use super::config::Wait;
use super::matcher::{LastLines, LineMatch, MatchKind, Matcher, Numbering, PaneLines};
use crate::agent::Turn;
use crate::observe::{PaneTurns, PolledPane, StreamEnd, StreamedView, TurnRules};
use crate::tmux::{Freshness, PaneCapture, PaneRequest, PaneState};
use crate::track::{Capture, Change, GapReason, PaneNumbers, ProcessExit, Tracker};

/// A pane of a wait.
#[derive(Debug)]
pub(super) struct WaitedPane {
    pub source: LineSource,
    matcher: Matcher,
    /// Detects the ends of turns, where the wait has that condition.
    turns: Option<PaneTurns>,
    pub has_lost_lines: bool,
    /// When a pane that has just opened counts as one that is not streamed. Until then its stream may begin, which
    /// has what captures lack.
    pub stream_by: Option<Instant>,
    pub death: Option<ProcessExit>,
    /// A line of the baseline that a wanted pattern matches.
    pub already_shown: Option<String>,
    /// When the pane last showed something new.
    pub changed_at: Instant,
    /// What a streamed pane last showed, for a wait for a silence.
    shown: Option<u64>,
    /// The first match in a streamed pane.
    pub found: Option<LineMatch>,
}

/// The source of a pane's lines.
#[derive(Debug)]
pub(super) enum LineSource {
    /// The wait captures the pane.
    Polled(Box<PolledPane>),
    /// The pane's poller passes its changes on.
    Streamed,
    /// The pane is gone, and with it its stream; `is_complete` if no line is missing.
    Closed { is_complete: bool },
    /// The poller has given the pane up without a trace.
    Abandoned,
}

/// The baseline of a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BaselineMode {
    /// The present content does not match.
    Baseline,
    /// The present content matches.
    Existing,
    /// The pane has just appeared, so all its content is new.
    New,
}

impl WaitedPane {
    /// Creates a pane from its first capture, and returns a match in that capture.
    pub fn polled(
        captured: &mut PaneCapture,
        wait: &Wait,
        mode: BaselineMode,
        now: Instant,
    ) -> (Self, Option<LineMatch>) {
        let capture = &captured.capture;
        // Without a settle period: new text matches at once, settled or not; only the end of a turn must settle.
        let (tracker, changes) = match mode {
            BaselineMode::Baseline | BaselineMode::Existing => {
                (Tracker::baseline(capture), Vec::new())
            }
            BaselineMode::New => Tracker::fresh(capture),
        };
        let known = (&tracker, changes, 1);
        let (mut pane, line_match) = Self::new(known, capture, wait, mode, now);
        pane.source = LineSource::Polled(Box::new(PolledPane::new(tracker, captured)));
        (pane, line_match)
    }

    /// Creates a pane from the present state of its stream, and from the changes before it of a new pane.
    pub fn streamed(
        view: &StreamedView<'_>,
        before: Vec<Change>,
        wait: &Wait,
        mode: BaselineMode,
    ) -> Self {
        let (tracker, capture) = (&view.stream.tracker, view.stream.capture());
        // The stream may have begun long before the wait, whose first line is the cursor's.
        let first_line = match mode {
            BaselineMode::Baseline | BaselineMode::Existing => tracker.cursor_line(),
            BaselineMode::New => 1,
        };
        let known = (tracker, before, first_line);
        let (mut pane, found) = Self::new(known, &capture, wait, mode, view.now);
        pane.found = found;
        pane.shown = wait.idle.map(|_| fingerprint(tracker));
        pane
    }

    fn new(
        (tracker, mut changes, first_line): (&Tracker, Vec<Change>, i64),
        capture: &Capture,
        wait: &Wait,
        mode: BaselineMode,
        now: Instant,
    ) -> (Self, Option<LineMatch>) {
        let has_baseline = mode == BaselineMode::Baseline;
        let screen_rows = &capture.rows[capture.history_rows()..];
        let screen = screen_rows.iter().map(|row| row.text.as_str());
        let mut turns = wait.turn.clone().map(|markers| {
            let inferred_after = None;
            let rules = TurnRules {
                markers,
                inferred_after,
            };
            PaneTurns::new(&rules, capture)
        });
        if let Some(turns) = turns.as_mut().filter(|_| has_baseline) {
            turns.set_baseline(tracker.lines(), tracker.next_line(), capture);
        }
        if mode == BaselineMode::Existing && turns.is_some() {
            // The turn detector gets the settled lines as if they had just settled.
            let settled = tracker.lines();
            changes.extend(
                settled
                    .take_while(|(number, _)| *number < tracker.next_line())
                    .map(|(first_line, text)| Change::Lines {
                        first_line,
                        chunk: format!("{text}\n"),
                    }),
            );
        }
        let patterns = wait.patterns.clone();
        let mut already_shown = None;
        let matcher = if has_baseline {
            let visible: Vec<(i64, &str)> = tracker.lines().collect();
            let cursor = cursor(tracker, capture.alternate);
            let mut matcher = Matcher::with_baseline(patterns, &visible, cursor);
            if capture.alternate {
                matcher.add_baseline_screen(screen.clone());
            }
            let lines = visible.iter().map(|(_, text)| *text);
            already_shown = matcher
                .already_shown(screen.chain(lines))
                .map(str::to_owned);
            matcher
        } else {
            Matcher::new(patterns)
        }
        .sends(&wait.sent)
        .numbered_from(first_line);
        let mut pane = Self {
            source: LineSource::Streamed,
            matcher,
            turns,
            has_lost_lines: false,
            stream_by: None,
            death: capture.dead,
            already_shown,
            changed_at: now,
            shown: None,
            found: None,
        };
        let line_match = if has_baseline {
            None
        } else {
            let is_alternate = capture.alternate;
            pane.note_losses(&changes);
            pane.match_changes(tracker, &changes, (is_alternate, Some(capture)), now)
        };
        (pane, line_match)
    }

    /// Returns the request for the next reply.
    pub fn request(&self, shape: PaneNumbers) -> PaneRequest {
        match &self.source {
            LineSource::Polled(polled) => polled.request(self.turns.is_some(), false),
            _ => PaneRequest::Shape(shape),
        }
    }

    /// Returns true if the pane's stream feeds it.
    pub fn is_streamed(&self) -> bool {
        matches!(self.source, LineSource::Streamed)
    }

    /// Returns true if the last capture was too short.
    pub fn needs_full_capture(&self) -> bool {
        matches!(&self.source, LineSource::Polled(polled) if polled.needs_full_capture)
    }

    /// Applies a capture and returns a match. `is_full` states that the capture contains the full history.
    pub fn handle_capture(
        &mut self,
        captured: PaneCapture,
        is_full: bool,
        now: Instant,
    ) -> Option<LineMatch> {
        let PaneCapture {
            capture, digest, ..
        } = captured;
        self.death = capture.dead;
        let mut polled = match std::mem::replace(&mut self.source, LineSource::Streamed) {
            LineSource::Polled(polled) => polled,
            other => {
                self.source = other;
                return None;
            }
        };
        let changes = polled.apply(&capture, digest, is_full);
        let line_match = changes.and_then(|changes| {
            let is_screen = |change: &Change| matches!(change, Change::Screen { .. });
            if polled.tracker.had_changes() || changes.iter().any(is_screen) {
                self.changed_at = now;
            }
            let is_alternate = capture.alternate;
            self.note_losses(&changes);
            let shown = (is_alternate, Some(&capture));
            self.match_changes(&polled.tracker, &changes, shown, now)
        });
        self.source = LineSource::Polled(polled);
        line_match
    }

    /// Takes changes of the stream, and keeps the first match. Returns true if the wait must look.
    pub fn handle_stream(&mut self, view: &StreamedView<'_>, changes: &[Change]) -> bool {
        if self.found.is_some() {
            return false;
        }
        let had_lost_lines = self.has_lost_lines;
        let tracker = &view.stream.tracker;
        match &mut self.shown {
            Some(shown) => {
                let now_shown = fingerprint(tracker);
                if std::mem::replace(shown, now_shown) != now_shown || !changes.is_empty() {
                    self.changed_at = view.now;
                }
            }
            None => self.changed_at = view.now,
        }
        let capture = self.turns.is_some().then(|| view.stream.capture());
        let is_alternate = view.stream.position().alternate;
        let shown = (is_alternate, capture.as_ref());
        // What was erased, as for another program in the same pane, has been heard before.
        self.note_losses(changes.iter().filter(|change| !is_erasure(change)));
        self.found = self.match_changes(tracker, changes, shown, view.now);
        self.found.is_some() || self.has_lost_lines != had_lost_lines
    }

    /// Takes the end of the stream. A pane that continues is polled from here on.
    pub fn handle_stream_end(&mut self, end: StreamEnd<'_>) {
        match end {
            StreamEnd::Polled {
                tracker,
                changes,
                now,
            } => {
                self.note_losses(changes);
                if self.found.is_none() {
                    self.found = self.match_changes(tracker, changes, (false, None), now);
                }
                let polled = PolledPane::after_stream(tracker.clone());
                self.source = LineSource::Polled(Box::new(polled));
            }
            StreamEnd::Closed { is_complete } => self.source = LineSource::Closed { is_complete },
        }
    }

    /// Notes whether lines are missing among these changes.
    fn note_losses<'a>(&mut self, changes: impl IntoIterator<Item = &'a Change>) {
        let mut gaps = changes.into_iter().filter_map(gap_reason);
        self.has_lost_lines |= gaps.any(|reason| reason != GapReason::ObserverAbsent);
    }

    /// Returns the last lines of the pane.
    pub fn last_lines(&self) -> LastLines {
        self.matcher.last_lines()
    }

    fn match_changes(
        &mut self,
        tracker: &Tracker,
        changes: &[Change],
        (is_alternate, capture): (bool, Option<&Capture>),
        now: Instant,
    ) -> Option<LineMatch> {
        let gaps = || changes.iter().filter_map(gap_reason);
        let lines = PaneLines {
            changes,
            visible: tracker.lines().collect(),
            cursor: cursor(tracker, is_alternate),
            numbering: gaps()
                .find_map(numbering_after)
                .unwrap_or(Numbering::Continued),
            after_gap: gaps()
                .any(is_before_first_line)
                .then(|| tracker.first_line()),
            pieces: tracker.pieces(),
        };
        let line_match = self.matcher.update(&lines).or_else(|| {
            changes.iter().find_map(|change| match change {
                Change::Screen { rows, .. } => self.matcher.match_screen(rows),
                _ => None,
            })
        });
        let Some(turns) = &mut self.turns else {
            return line_match;
        };
        if let Some(capture) = capture {
            turns.handle_capture(capture, tracker);
        }
        let turn = turns.handle_changes(changes, now);
        let turn = turn.first().map(|turn| turn_match(turn, &self.matcher));
        LineMatch::first_of(line_match, turn)
    }

    /// Takes a time at which the pane was unchanged since its last capture: its text has settled, and with
    /// it perhaps the end of a turn.
    pub fn handle_unchanged(
        &mut self,
        state: &PaneState,
        freshness: Freshness,
        now: Instant,
    ) -> Option<LineMatch> {
        let LineSource::Polled(polled) = &mut self.source else {
            return None;
        };
        let changes = polled.unchanged(state, freshness);
        self.match_turn(&changes, freshness.at, now)
    }

    /// Handles the end of the pane: its last state is final.
    pub fn end(&mut self, now: Instant) -> Option<LineMatch> {
        if self.found.is_some() {
            return self.found.take();
        }
        let LineSource::Polled(polled) = &mut self.source else {
            return None;
        };
        let changes = polled.tracker.end();
        self.match_turn(&changes, Duration::MAX, now)
    }

    fn match_turn(&mut self, changes: &[Change], at: Duration, now: Instant) -> Option<LineMatch> {
        let turns = self.turns.as_mut()?;
        turns.handle_unchanged(at);
        let turn = turns.handle_changes(changes, now);
        turn.first().map(|turn| turn_match(turn, &self.matcher))
    }
}

fn turn_match(turn: &Turn, matcher: &Matcher) -> LineMatch {
    LineMatch {
        kind: MatchKind::Turn,
        pattern: turn.marker.clone(),
        line: turn.line.map(|line| matcher.outcome_line(line)),
        text: turn.summary.clone(),
        before: Vec::new(),
    }
}

fn gap_reason(change: &Change) -> Option<GapReason> {
    match change {
        Change::Gap { reason, .. } => Some(*reason),
        _ => None,
    }
}

fn is_erasure(change: &Change) -> bool {
    gap_reason(change) == Some(GapReason::Cleared)
}

/// Returns true for a gap before the first row of a capture.
fn is_before_first_line(reason: GapReason) -> bool {
    use GapReason::{Ambiguous, HistoryTrimmed, Truncated};
    matches!(reason, Ambiguous | HistoryTrimmed | Truncated)
}

/// Returns the effect of a gap on line numbers; `None` without an effect.
fn numbering_after(reason: GapReason) -> Option<Numbering> {
    match reason {
        // The tracker treats text that it cannot place as known.
        GapReason::Resized => Some(Numbering::Lost),
        // Some text that the tracker reports as new may have been on the screen before.
        GapReason::Cleared => Some(Numbering::Restarted),
        _ => None,
    }
}

/// Returns the number and the text of the cursor's line. The text is empty on the alternate screen.
fn cursor(tracker: &Tracker, is_alternate: bool) -> (i64, &str) {
    let number = tracker.cursor_line();
    let mut lines = tracker.lines().filter(|_| !is_alternate);
    let line = lines.find(|(line, _)| *line == number);
    (number, line.map_or("", |(_, text)| text))
}

/// Returns a number that differs when the lines of a pane do.
fn fingerprint(tracker: &Tracker) -> u64 {
    let mut hasher = DefaultHasher::new();
    tracker.cursor_line().hash(&mut hasher);
    tracker.lines().for_each(|line| line.hash(&mut hasher));
    hasher.finish()
}
