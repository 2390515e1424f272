//! What AI mode adds to a pane: where its turns end, and when it may rest (pure).

use std::time::{Duration, Instant};

use crate::agent::{ChangeContext, Markers, RedrawDetector, Turn, TurnDetector};
use crate::track::{Capture, Change, Tracker};

/// How long a pane must be quiet after a turn before it rests. What comes within this time, such as
/// a new prompt, belongs to the end of the turn.
const REST_AFTER: Duration = Duration::from_secs(2);

/// How AI mode finds the ends of turns.
#[derive(Clone, Debug, Default)]
pub(in crate::observe) struct TurnRules {
    pub markers: Markers,
    /// After so long a silence a turn is taken to be over without its marker.
    pub inferred_after: Option<Duration>,
}

/// The turns of one pane.
#[derive(Debug)]
pub(in crate::observe) struct Turns {
    detector: TurnDetector,
    inferred_after: Option<Duration>,
    sights: RedrawDetector,
    sight: ChangeContext,
    /// The changes that come next are of something new.
    news: bool,
    /// When the last turn ended, as long as nothing new has been shown.
    done_at: Option<Instant>,
    /// When something new was shown last, or was asked for.
    busy_at: Option<Instant>,
    /// Something was shown since the last turn.
    has_more: bool,
    rests: bool,
}

impl Turns {
    /// Begins with the first look.
    pub fn new(rules: &TurnRules, look: &Capture) -> Self {
        Self {
            detector: TurnDetector::new(rules.markers.clone()),
            inferred_after: rules.inferred_after,
            sights: RedrawDetector::new(look),
            sight: ChangeContext::default(),
            news: false,
            done_at: None,
            busy_at: None,
            has_more: false,
            rests: false,
        }
    }

    /// What ends a turn.
    pub fn markers(&self) -> &Markers {
        self.detector.markers()
    }

    /// What stood there when observation began: the lines, and the look.
    pub fn stood<'a>(
        &mut self,
        lines: impl IntoIterator<Item = (i64, &'a str)>,
        next: i64,
        look: &Capture,
    ) {
        self.detector.set_baseline(lines, next);
        self.detector.set_baseline_screen(look);
    }

    /// The circumstances of the changes that come next: of a look that the tracker has taken in.
    pub fn sees(&mut self, look: &Capture, tracker: &Tracker) {
        self.news = tracker.had_changes();
        self.sight = self.sights.observe(look, tracker);
    }

    /// The changes that come next are of something that was printed.
    pub fn hears(&mut self) {
        self.news = true;
    }

    /// The same of a moment at which nothing had changed.
    pub fn still(&mut self, at: Duration) {
        self.news = false;
        self.sight = self.sights.unchanged(at);
    }

    /// Takes in changes; the turns that they end.
    pub fn take(&mut self, changes: &[Change], now: Instant) -> Vec<Turn> {
        let turns = self.detector.update(changes, self.sight);
        // A full-screen program changes nothing of the screen that lines are told of.
        let is_screen = |change: &Change| matches!(change, Change::Screen { .. });
        if self.news || changes.iter().any(is_screen) {
            self.busy_at = Some(now);
            self.rests = false;
            self.has_more = true;
            if !self.done_at.is_some_and(|done| is_short(done, now)) {
                self.done_at = None;
            }
        }
        if !turns.is_empty() {
            self.done(now);
        }
        turns
    }

    /// Whether the pane is to be left alone until the listing shows that it has changed.
    pub fn rests(&self) -> bool {
        self.rests
    }

    /// Somebody wants it to be looked at.
    pub fn wake(&mut self, now: Instant) {
        self.rests = false;
        self.busy_at = Some(now);
    }

    /// When [`Turns::due`] will have something to say, if nothing happens.
    pub fn next_due(&self) -> Option<Instant> {
        let rest = self.rest_at().filter(|_| !self.rests);
        [rest, self.inferred_at()].into_iter().flatten().min()
    }

    /// What has come due.
    pub fn due(&mut self, now: Instant) -> Due {
        if self.inferred_at().is_some_and(|at| at <= now) {
            self.done(now);
            return Due::Inferred(self.detector.summary());
        }
        if !self.rests && self.rest_at().is_some_and(|at| at <= now) {
            self.rests = true;
            return Due::Rests;
        }
        Due::Nothing
    }

    fn done(&mut self, now: Instant) {
        self.done_at = Some(now);
        self.has_more = false;
    }

    fn rest_at(&self) -> Option<Instant> {
        let done = self.done_at?;
        done.max(self.busy_at.unwrap_or(done))
            .checked_add(REST_AFTER)
    }

    fn inferred_at(&self) -> Option<Instant> {
        let after = self.inferred_after.filter(|_| self.has_more)?;
        self.busy_at?.checked_add(after)
    }
}

/// What time has brought.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::observe) enum Due {
    Nothing,
    /// A turn seems to be over; its summary.
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

    fn turns(inferred_after: Option<Duration>) -> (Turns, Instant) {
        let rules = TurnRules {
            markers: Markers::new(["END"]).unwrap(),
            inferred_after,
        };
        (Turns::new(&rules, &Capture::default()), Instant::now())
    }

    impl Turns {
        /// Something new.
        fn shows(&mut self, changes: &[Change], now: Instant) -> Vec<Turn> {
            self.news = true;
            self.take(changes, now)
        }
    }

    fn line(first_line: i64, text: &str) -> Vec<Change> {
        vec![Change::Lines {
            first_line,
            chunk: format!("{text}\n"),
        }]
    }

    #[test]
    fn a_pane_rests_after_a_turn_until_something_new_is_shown_or_wanted() {
        let (mut turns, now) = turns(None);
        assert_eq!(turns.shows(&line(1, "an answer"), now), []);
        assert_eq!(turns.next_due(), None, "never, without a marker");
        assert_eq!(turns.shows(&line(2, "END"), now).len(), 1);
        // A prompt that comes a moment later belongs to the end.
        turns.shows(&[], now + S);
        assert_eq!(turns.next_due(), Some(now + 3 * S));
        assert_eq!(turns.due(now + 2 * S), Due::Nothing);
        assert!(!turns.rests());
        assert_eq!(turns.due(now + 3 * S), Due::Rests);
        assert!(turns.rests() && turns.next_due().is_none());
        turns.wake(now + 4 * S);
        assert!(!turns.rests());
        assert_eq!(turns.due(now + 6 * S), Due::Rests);
        turns.shows(&line(3, "a question"), now + 7 * S);
        assert!(!turns.rests() && turns.next_due().is_none());
    }

    #[test]
    fn a_full_screen_program_wakes_its_pane() {
        let (mut turns, now) = turns(None);
        assert_eq!(turns.shows(&line(1, "END"), now).len(), 1);
        assert_eq!(turns.due(now + 2 * S), Due::Rests);
        let drawn = Change::Screen {
            width: 9,
            height: 3,
            cursor: crate::event::Cursor::default(),
            rows: Vec::new(),
        };
        assert_eq!(turns.take(&[drawn], now + 3 * S), []);
        assert!(!turns.rests() && turns.next_due().is_none());
    }

    #[test]
    fn silence_ends_a_turn_once_if_that_is_wanted() {
        let (mut turns, now) = turns(Some(5 * S));
        assert_eq!(turns.next_due(), None, "nothing was shown");
        turns.shows(&line(1, "It is done."), now);
        turns.shows(&line(2, ""), now + S);
        assert_eq!(turns.next_due(), Some(now + 6 * S));
        assert_eq!(turns.due(now + 6 * S), Due::Inferred("It is done.".into()));
        assert_eq!(turns.due(now + 7 * S), Due::Nothing);
        assert_eq!(turns.due(now + 8 * S), Due::Rests);
        turns.shows(&line(3, "END"), now + 9 * S);
        assert_eq!(turns.due(now + 10 * S), Due::Nothing, "it has ended");
    }
}
