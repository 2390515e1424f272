//! One pane that is waited at: its tracker and its matcher, fed with looks.

use std::time::{Duration, Instant};

use super::config::Wait;
use super::matcher::{LineMatch, MatchKind, Matcher, Numbering, PaneLines, first};
use crate::agent::{RedrawDetector, Turn, TurnDetector};
use crate::tmux::{CaptureDigest, CaptureRequest, Freshness, Margin, PaneRequest};
use crate::track::{Change, Death, GapReason, Look, Outcome, Tracker};

/// A pane that is waited at.
#[derive(Debug)]
pub(super) struct WaitedPane {
    tracker: Tracker,
    matcher: Matcher,
    /// Where turns end, if that is waited for.
    turns: Option<TurnTracking>,
    seen: CaptureDigest,
    /// The last look was too short.
    pub deeper: bool,
    /// Lines were lost.
    pub has_lost: bool,
    pub dead: Option<Death>,
    /// When something new was last shown.
    pub news_at: Instant,
}

/// How a pane begins to be waited at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BaselineMode {
    /// What stands there is not new.
    Baseline,
    /// What stands there counts, too.
    Existing,
    /// It has just appeared.
    Fresh,
}

impl WaitedPane {
    /// Begins with a look; what matches at once.
    pub fn begin(
        look: &Look,
        seen: CaptureDigest,
        wait: &Wait,
        begin: BaselineMode,
        now: Instant,
    ) -> (Self, Option<LineMatch>) {
        let (tracker, changes) = match begin {
            BaselineMode::Baseline | BaselineMode::Existing => {
                (Tracker::baseline(look), Vec::new())
            }
            BaselineMode::Fresh => Tracker::fresh(look),
        };
        let patterns = wait.patterns.clone();
        let mut turns = wait.turn.clone().map(|markers| TurnTracking {
            detector: TurnDetector::new(markers),
            sights: RedrawDetector::new(look),
        });
        if let Some(turns) = turns.as_mut().filter(|_| begin == BaselineMode::Baseline) {
            let next = tracker.next_line();
            turns.detector.set_baseline(tracker.standing(), next);
            turns.detector.set_baseline_screen(look);
        }
        let mut changes = changes;
        if begin == BaselineMode::Existing && turns.is_some() {
            // As if all that has settled had just been said.
            let settled = tracker.standing();
            changes.extend(
                settled
                    .take_while(|(number, _)| *number < tracker.next_line())
                    .map(|(first_line, text)| Change::Lines {
                        first_line,
                        chunk: format!("{text}\n"),
                    }),
            );
        }
        let matcher = match begin {
            BaselineMode::Baseline => {
                let standing: Vec<(i64, &str)> = tracker.standing().collect();
                let mut matcher = Matcher::baseline(patterns, &standing, cursor(&tracker, look));
                if look.alternate {
                    let screen = &look.rows[look.history_rows()..];
                    matcher.baseline_screen(screen.iter().map(|row| row.text.as_str()));
                }
                matcher
            }
            BaselineMode::Existing | BaselineMode::Fresh => Matcher::fresh(patterns),
        };
        let mut watched = Self {
            tracker,
            matcher,
            turns,
            seen,
            deeper: false,
            has_lost: false,
            dead: look.dead,
            news_at: now,
        };
        let hit = match begin {
            BaselineMode::Baseline => None,
            BaselineMode::Existing | BaselineMode::Fresh => watched.matches(&changes, look),
        };
        (watched, hit)
    }

    /// What to ask for.
    pub fn want(&self) -> PaneRequest {
        PaneRequest::Capture(CaptureRequest {
            known: (!self.deeper).then(|| self.seen.clone()),
            margin: match self.deeper {
                true => Margin::All,
                false => Margin::Rows(self.tracker.margin()),
            },
            // What is new matches at once, settled or not; only the end of a turn has to stand.
            settles_at: self.waits_to_settle().then_some(Duration::ZERO),
            is_resting: false,
        })
    }

    /// Takes in a look; `deepest` if there is no deeper one. What matches.
    pub fn look(
        &mut self,
        look: &Look,
        seen: CaptureDigest,
        deepest: bool,
        now: Instant,
    ) -> Option<LineMatch> {
        let outcome = match deepest {
            true => Outcome::Changes(self.tracker.deepest_look(look)),
            false => self.tracker.look(look),
        };
        let Outcome::Changes(changes) = outcome else {
            self.deeper = true;
            return None;
        };
        self.deeper = look.alternate && look.saved.is_none() && !deepest;
        self.seen = seen;
        self.dead = look.dead;
        let is_screen = |change: &Change| matches!(change, Change::Screen { .. });
        if self.tracker.had_news() || changes.iter().any(is_screen) {
            self.news_at = now;
        }
        self.matches(&changes, look)
    }

    /// The last lines that it showed.
    pub fn last_lines(&self) -> Vec<String> {
        self.matcher.last_lines()
    }

    fn matches(&mut self, changes: &[Change], look: &Look) -> Option<LineMatch> {
        let lost = |change: &Change| match change {
            Change::Gap { reason, .. } => *reason != GapReason::ObserverAbsent,
            _ => false,
        };
        self.has_lost |= changes.iter().any(lost);
        let shown = PaneLines {
            changes,
            standing: self.tracker.standing().collect(),
            cursor: cursor(&self.tracker, look),
            numbers: numbers_after(changes),
            after_hole: changes
                .iter()
                .any(is_hole)
                .then(|| self.tracker.first_line()),
        };
        let mut hit = self.matcher.look(&shown).or_else(|| {
            changes.iter().find_map(|change| match change {
                Change::Screen { rows, .. } => self.matcher.screen(rows),
                _ => None,
            })
        });
        if let Some(turns) = &mut self.turns {
            let sight = turns.sights.observe(look, &self.tracker);
            first(
                &mut hit,
                turns.detector.update(changes, sight).first().map(of_turn),
            );
        }
        hit
    }

    /// At this moment nothing had changed since the last look: what stood there has settled, and
    /// with it perhaps the end of a turn.
    pub fn still(&mut self, proof: Freshness) -> Option<LineMatch> {
        let changes = self.tracker.still(proof.at, proof.server_bytes);
        let turns = self.turns.as_mut()?;
        let sight = turns.sights.unchanged(proof.at);
        turns.detector.update(&changes, sight).first().map(of_turn)
    }

    /// The pane is gone: what was seen of it last is final.
    pub fn end(&mut self) -> Option<LineMatch> {
        let changes = self.tracker.end();
        let turns = self.turns.as_mut()?;
        let sight = turns.sights.unchanged(Duration::MAX);
        turns.detector.update(&changes, sight).first().map(of_turn)
    }

    fn waits_to_settle(&self) -> bool {
        self.turns.is_some() && self.tracker.is_waiting()
    }
}

/// Where turns end in a pane.
#[derive(Debug)]
struct TurnTracking {
    detector: TurnDetector,
    sights: RedrawDetector,
}

fn of_turn(turn: &Turn) -> LineMatch {
    LineMatch {
        what: MatchKind::Turn(turn.marker.clone()),
        // A full-screen program has no lines.
        line: turn.line.unwrap_or(i64::MAX),
        text: turn.summary.clone(),
    }
}

/// Whether rows are missing before the first one that a look had.
fn is_hole(change: &Change) -> bool {
    use GapReason::{Ambiguous, HistoryTrimmed, Truncated};
    let Change::Gap { reason, .. } = change else {
        return false;
    };
    matches!(reason, Ambiguous | HistoryTrimmed | Truncated)
}

/// What became of the numbers of lines with these changes.
fn numbers_after(changes: &[Change]) -> Numbering {
    let of = |change: &Change| match change {
        // What the tracker could not place it takes for known.
        Change::Gap {
            reason: GapReason::Resized,
            ..
        } => Numbering::Lost,
        // Some of what it takes for new may have been on the screen before.
        Change::Gap {
            reason: GapReason::Cleared,
            ..
        } => Numbering::Anew,
        _ => Numbering::GoOn,
    };
    changes
        .iter()
        .map(of)
        .find(|numbers| *numbers != Numbering::GoOn)
        .unwrap_or(Numbering::GoOn)
}

/// The line of the cursor, where the cursor stands at its end: there something may be typed.
fn cursor<'a>(tracker: &'a Tracker, look: &Look) -> (i64, &'a str) {
    let number = tracker.cursor_line();
    let text = tracker
        .standing()
        .find(|(line, _)| *line == number)
        .map_or("", |(_, text)| text);
    match look.alternate {
        true => (number, ""),
        false => (number, text),
    }
}
