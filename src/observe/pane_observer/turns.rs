//! The turns of a pane in AI mode: their ends, and when the pane may rest (pure).

use std::time::{Duration, Instant};

use crate::agent::{ChangeContext, Markers, RedrawDetector, Turn, TurnDetector};
use crate::track::{Capture, Change, Tracker};

/// A pane rests after this much quiet at the end of a turn. Output within this time, such as a new
/// prompt, belongs to the end of the turn.
const REST_AFTER: Duration = Duration::from_secs(2);

/// The rules by which AI mode finds the ends of turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnRules {
    pub markers: Markers,
    /// The silence after which a turn counts as completed without its marker.
    pub inferred_after: Option<Duration>,
}

#[derive(Debug)]
pub(crate) struct PaneTurns {
    detector: TurnDetector,
    inferred_after: Option<Duration>,
    redraws: RedrawDetector,
    /// The context of the next changes.
    context: ChangeContext,
    /// The next changes contain new output.
    has_output: bool,
    /// The end of the last turn, until new output follows.
    done_at: Option<Instant>,
    /// The time of the last output or of the last wake-up.
    busy_at: Option<Instant>,
    /// Output has followed the last turn.
    is_in_turn: bool,
    is_resting: bool,
}

impl PaneTurns {
    /// Begins with the first capture.
    pub fn new(rules: &TurnRules, capture: &Capture) -> Self {
        Self {
            detector: TurnDetector::new(rules.markers.clone()),
            inferred_after: rules.inferred_after,
            redraws: RedrawDetector::new(capture),
            context: ChangeContext::default(),
            has_output: false,
            done_at: None,
            busy_at: None,
            is_in_turn: false,
            is_resting: false,
        }
    }

    /// Returns the markers that end a turn.
    pub fn markers(&self) -> &Markers {
        self.detector.markers()
    }

    /// Sets the baseline, as lines and as the capture.
    pub fn set_baseline<'a>(
        &mut self,
        lines: impl IntoIterator<Item = (i64, &'a str)>,
        next: i64,
        capture: &Capture,
    ) {
        self.detector.set_baseline(lines, next);
        self.detector.set_baseline_screen(capture);
    }

    /// Takes the context of the next changes from a capture that the tracker has applied.
    pub fn handle_capture(&mut self, capture: &Capture, tracker: &Tracker) {
        self.has_output = tracker.had_changes();
        self.context = self.redraws.observe(capture, tracker);
    }

    /// Notes that the next changes contain new output.
    pub fn note_output(&mut self) {
        self.has_output = true;
    }

    /// Notes that the pane was unchanged at this time.
    pub fn handle_unchanged(&mut self, at: Duration) {
        self.has_output = false;
        self.context = self.redraws.unchanged(at);
    }

    /// Takes changes, and returns the turns that they end.
    pub fn handle_changes(&mut self, changes: &[Change], now: Instant) -> Vec<Turn> {
        let turns = self.detector.update(changes, self.context);
        // A full-screen program changes neither lines nor the tracker's changes.
        let is_screen = |change: &Change| matches!(change, Change::Screen { .. });
        if self.has_output || changes.iter().any(is_screen) {
            self.busy_at = Some(now);
            self.is_resting = false;
            self.is_in_turn = true;
            if !self.done_at.is_some_and(|done| is_short(done, now)) {
                self.done_at = None;
            }
        }
        if !turns.is_empty() {
            self.complete_turn(now);
        }
        turns
    }

    /// Returns true if the pane needs no capture until the listing shows a change.
    pub fn is_resting(&self) -> bool {
        self.is_resting
    }

    /// Ends the rest, because the user requests a poll.
    pub fn wake(&mut self, now: Instant) {
        self.is_resting = false;
        self.busy_at = Some(now);
    }

    /// Returns when [`PaneTurns::handle_timeout`] is due if no changes arrive.
    pub fn deadline(&self) -> Option<Instant> {
        let rest = self.rest_at().filter(|_| !self.is_resting);
        [rest, self.inferred_at()].into_iter().flatten().min()
    }

    /// Returns the result of the time that has passed.
    pub fn handle_timeout(&mut self, now: Instant) -> TurnTimeout {
        if self.inferred_at().is_some_and(|at| at <= now) {
            self.complete_turn(now);
            return TurnTimeout::Inferred(self.detector.summary());
        }
        if !self.is_resting && self.rest_at().is_some_and(|at| at <= now) {
            self.is_resting = true;
            return TurnTimeout::Rests;
        }
        TurnTimeout::None
    }

    fn complete_turn(&mut self, now: Instant) {
        self.done_at = Some(now);
        self.is_in_turn = false;
    }

    fn rest_at(&self) -> Option<Instant> {
        let done = self.done_at?;
        done.max(self.busy_at.unwrap_or(done))
            .checked_add(REST_AFTER)
    }

    fn inferred_at(&self) -> Option<Instant> {
        let after = self.inferred_after.filter(|_| self.is_in_turn)?;
        self.busy_at?.checked_add(after)
    }
}

/// The result of a timeout.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TurnTimeout {
    None,
    /// A turn counts as completed; its summary.
    Inferred(String),
    /// The pane rests from now on.
    Rests,
}

fn is_short(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < REST_AFTER
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn turns(inferred_after: Option<Duration>) -> (PaneTurns, Instant) {
        let rules = TurnRules {
            markers: Markers::new(["END"]).unwrap(),
            inferred_after,
        };
        (PaneTurns::new(&rules, &Capture::default()), Instant::now())
    }

    impl PaneTurns {
        /// Handles changes with new output.
        fn output(&mut self, changes: &[Change], now: Instant) -> Vec<Turn> {
            self.has_output = true;
            self.handle_changes(changes, now)
        }
    }

    fn line(first_line: i64, text: &str) -> Vec<Change> {
        vec![Change::Lines {
            first_line,
            chunk: format!("{text}\n"),
        }]
    }

    #[test]
    fn a_pane_rests_after_a_turn_until_output_or_a_request() {
        let (mut turns, now) = turns(None);
        assert_eq!(turns.output(&line(1, "an answer"), now), []);
        assert_eq!(turns.deadline(), None, "never, without a marker");
        assert_eq!(turns.output(&line(2, "END"), now).len(), 1);
        // A prompt that follows soon belongs to the end of the turn.
        turns.output(&[], now + S);
        assert_eq!(turns.deadline(), Some(now + 3 * S));
        assert_eq!(turns.handle_timeout(now + 2 * S), TurnTimeout::None);
        assert!(!turns.is_resting());
        assert_eq!(turns.handle_timeout(now + 3 * S), TurnTimeout::Rests);
        assert!(turns.is_resting() && turns.deadline().is_none());
        turns.wake(now + 4 * S);
        assert!(!turns.is_resting());
        assert_eq!(turns.handle_timeout(now + 6 * S), TurnTimeout::Rests);
        turns.output(&line(3, "a question"), now + 7 * S);
        assert!(!turns.is_resting() && turns.deadline().is_none());
    }

    #[test]
    fn a_full_screen_program_wakes_its_pane() {
        let (mut turns, now) = turns(None);
        assert_eq!(turns.output(&line(1, "END"), now).len(), 1);
        assert_eq!(turns.handle_timeout(now + 2 * S), TurnTimeout::Rests);
        let drawn = Change::Screen {
            width: 9,
            height: 3,
            cursor: crate::event::Cursor::default(),
            rows: Vec::new(),
        };
        assert_eq!(turns.handle_changes(&[drawn], now + 3 * S), []);
        assert!(!turns.is_resting() && turns.deadline().is_none());
    }

    #[test]
    fn silence_ends_a_turn_once_if_configured() {
        let (mut turns, now) = turns(Some(5 * S));
        assert_eq!(turns.deadline(), None, "no output");
        turns.output(&line(1, "It is done."), now);
        turns.output(&line(2, ""), now + S);
        assert_eq!(turns.deadline(), Some(now + 6 * S));
        assert_eq!(
            turns.handle_timeout(now + 6 * S),
            TurnTimeout::Inferred("It is done.".into())
        );
        assert_eq!(turns.handle_timeout(now + 7 * S), TurnTimeout::None);
        assert_eq!(turns.handle_timeout(now + 8 * S), TurnTimeout::Rests);
        turns.output(&line(3, "END"), now + 9 * S);
        assert_eq!(
            turns.handle_timeout(now + 10 * S),
            TurnTimeout::None,
            "the turn has ended"
        );
    }
}
