//! One pane of a wait: a polled pane, as the pane observer has it, and its matcher (pure).

use std::time::{Duration, Instant};

use super::config::Wait;
use super::matcher::{LastLines, LineMatch, MatchKind, Matcher, Numbering, PaneLines};
use crate::agent::Turn;
use crate::observe::{PaneTurns, PolledPane, TurnRules};
use crate::tmux::{Freshness, PaneCapture, PaneRequest, PaneState};
use crate::track::{Capture, Change, GapReason, ProcessExit, Tracker};

/// A pane of a wait.
#[derive(Debug)]
pub(super) struct WaitedPane {
    pub polled: PolledPane,
    matcher: Matcher,
    /// Detects the ends of turns, where the wait has that condition.
    turns: Option<PaneTurns>,
    pub has_lost_lines: bool,
    pub death: Option<ProcessExit>,
    /// A line of the baseline that a wanted pattern matches.
    pub already_shown: Option<String>,
    /// When the pane last showed something new.
    pub changed_at: Instant,
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
    pub fn new(
        captured: &mut PaneCapture,
        wait: &Wait,
        mode: BaselineMode,
        now: Instant,
    ) -> (Self, Option<LineMatch>) {
        let capture = &captured.capture;
        let has_baseline = mode == BaselineMode::Baseline;
        let screen_rows = &capture.rows[capture.history_rows()..];
        let screen = screen_rows.iter().map(|row| row.text.as_str());
        // Without a settle period: new text matches at once, settled or not; only the end of a turn must settle.
        let (tracker, mut changes) = match mode {
            BaselineMode::Baseline | BaselineMode::Existing => {
                (Tracker::baseline(capture), Vec::new())
            }
            BaselineMode::New => Tracker::fresh(capture),
        };
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
            let cursor = cursor(&tracker, capture);
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
        .sends(&wait.sent);
        let polled = PolledPane::new(tracker, captured);
        let capture = &captured.capture;
        let mut pane = Self {
            polled,
            matcher,
            turns,
            has_lost_lines: false,
            death: capture.dead,
            already_shown,
            changed_at: now,
        };
        let line_match = if has_baseline {
            None
        } else {
            pane.match_changes(&changes, capture, now)
        };
        (pane, line_match)
    }

    /// Returns the request for the next capture.
    pub fn request(&self) -> PaneRequest {
        self.polled.request(self.turns.is_some(), false)
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
        let changes = self.polled.apply(&capture, digest, is_full)?;
        self.death = capture.dead;
        let is_screen = |change: &Change| matches!(change, Change::Screen { .. });
        if self.polled.tracker.had_changes() || changes.iter().any(is_screen) {
            self.changed_at = now;
        }
        self.match_changes(&changes, &capture, now)
    }

    /// Returns the last lines of the pane.
    pub fn last_lines(&self) -> LastLines {
        self.matcher.last_lines()
    }

    fn match_changes(
        &mut self,
        changes: &[Change],
        capture: &Capture,
        now: Instant,
    ) -> Option<LineMatch> {
        let tracker = &self.polled.tracker;
        let gaps = || changes.iter().filter_map(gap_reason);
        self.has_lost_lines |= gaps().any(|reason| reason != GapReason::ObserverAbsent);
        let lines = PaneLines {
            changes,
            visible: tracker.lines().collect(),
            cursor: cursor(tracker, capture),
            numbering: gaps()
                .find_map(numbering_after)
                .unwrap_or(Numbering::Continued),
            after_gap: gaps()
                .any(is_before_first_line)
                .then(|| tracker.first_line()),
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
        turns.handle_capture(capture, tracker);
        let turn = turns.handle_changes(changes, now);
        LineMatch::first_of(line_match, turn.first().map(turn_match))
    }

    /// Takes a time at which the pane was unchanged since its last capture: its text has settled, and with
    /// it perhaps the end of a turn.
    pub fn handle_unchanged(
        &mut self,
        state: &PaneState,
        freshness: Freshness,
        now: Instant,
    ) -> Option<LineMatch> {
        let changes = self.polled.unchanged(state, freshness);
        self.match_turn(&changes, freshness.at, now)
    }

    /// Handles the end of the pane: its last state is final.
    pub fn end(&mut self, now: Instant) -> Option<LineMatch> {
        let changes = self.polled.tracker.end();
        self.match_turn(&changes, Duration::MAX, now)
    }

    fn match_turn(&mut self, changes: &[Change], at: Duration, now: Instant) -> Option<LineMatch> {
        let turns = self.turns.as_mut()?;
        turns.handle_unchanged(at);
        let turn = turns.handle_changes(changes, now);
        turn.first().map(turn_match)
    }
}

fn turn_match(turn: &Turn) -> LineMatch {
    LineMatch {
        kind: MatchKind::Turn,
        pattern: turn.marker.clone(),
        line: turn.line,
        text: turn.summary.clone(),
    }
}

fn gap_reason(change: &Change) -> Option<GapReason> {
    match change {
        Change::Gap { reason, .. } => Some(*reason),
        _ => None,
    }
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
fn cursor<'a>(tracker: &'a Tracker, capture: &Capture) -> (i64, &'a str) {
    let number = tracker.cursor_line();
    let mut lines = tracker.lines().filter(|_| !capture.alternate);
    let line = lines.find(|(line, _)| *line == number);
    (number, line.map_or("", |(_, text)| text))
}
