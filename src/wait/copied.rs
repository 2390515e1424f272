//! Waits for a run that is copied from another host: its events in, the end of the wait out (pure).
//!
//! Only events count: the copies have no screens, so neither text that is shown already nor full-screen programs match.

use std::collections::VecDeque;
use std::time::Instant;

use super::config::{TargetEnd, Wait, WaitCondition, WaitEnd, WaitMatch};
use super::matcher::Pattern;
use super::states::StateMatcher;
use crate::event::{ExecutionId, PaneId, TdEvent, lines_in};

/// The number of last lines in an outcome.
const LAST_LINES: usize = 20;

/// A wait for panes of copied runs.
pub(crate) struct CopiedWait {
    wait: Wait,
    pub states: Option<StateMatcher>,
    /// The panes of the target that have not ended.
    places: Vec<(ExecutionId, PaneId)>,
    /// The last lines, oldest first.
    pub last_lines: VecDeque<String>,
    /// When the silence is long enough.
    silent_at: Option<Instant>,
}

impl CopiedWait {
    pub fn new(
        wait: Wait,
        states: Option<StateMatcher>,
        places: Vec<(ExecutionId, PaneId)>,
        now: Instant,
    ) -> Self {
        Self {
            silent_at: wait.idle.map(|idle| now + idle),
            wait,
            states,
            places,
            last_lines: VecDeque::new(),
        }
    }

    /// Returns the time at which [`CopiedWait::silence`] must be called.
    pub fn silent_at(&self) -> Option<Instant> {
        self.silent_at
    }

    /// Returns the end of the wait if the target was silent for long enough.
    pub fn silence(&self, now: Instant) -> Option<WaitEnd> {
        let is_over = self.silent_at.is_some_and(|at| at <= now);
        is_over.then(|| WaitEnd::Matched(WaitMatch::of(WaitCondition::Idle)))
    }

    /// Returns the end of the wait, if an event ends it.
    pub fn handle(&mut self, event: &TdEvent, now: Instant) -> Option<WaitEnd> {
        let id = event.execution_id();
        let is_of = |(run, pane): &(ExecutionId, PaneId)| {
            run.as_str() == id && event.pane().is_none_or(|of| of == pane)
        };
        if !self.places.iter().any(is_of) {
            return None;
        }
        if let Some(found) = self
            .states
            .as_mut()
            .and_then(|states| states.handle(event, now))
        {
            return Some(WaitEnd::Matched(found));
        }
        match event {
            TdEvent::OutputUpdate { pane, chunk, .. } => self.output(pane, chunk, now),
            TdEvent::TurnCompleted {
                marker,
                summary,
                pane,
                ..
            } if self.wait.turn.is_some() => Some(WaitEnd::Matched(WaitMatch {
                pane: pane.clone(),
                text: Some(summary.clone()),
                pattern: Some(marker.clone()).filter(|marker| !marker.is_empty()),
                ..WaitMatch::of(WaitCondition::Turn)
            })),
            TdEvent::PaneClosed { exit_status, .. } => {
                self.places.retain(|place| !is_of(place));
                self.ended(*exit_status, TargetEnd::PaneGone)
            }
            TdEvent::SessionEnded { exit_status, .. } => {
                self.places.retain(|place| !is_of(place));
                self.ended(*exit_status, TargetEnd::SessionGone)
            }
            _ => None,
        }
    }

    fn output(&mut self, pane: &PaneId, chunk: &str, now: Instant) -> Option<WaitEnd> {
        self.silent_at = self.wait.idle.map(|idle| now + idle);
        for line in lines_in(chunk) {
            if self.last_lines.len() == LAST_LINES {
                self.last_lines.pop_front();
            }
            self.last_lines.push_back(line.to_owned());
            let of = |patterns: &[Pattern]| {
                let found = patterns.iter().find(|pattern| pattern.matches(line, 0))?;
                Some(WaitMatch {
                    pane: Some(pane.clone()),
                    text: Some(line.to_owned()),
                    pattern: Some(found.to_string()),
                    ..WaitMatch::of(WaitCondition::Text)
                })
            };
            let patterns = &self.wait.patterns;
            let wanted = of(&patterns.wanted).map(WaitEnd::Matched);
            let end = wanted.or_else(|| of(&patterns.stops).map(WaitEnd::Stopped));
            if end.is_some() {
                return end;
            }
        }
        None
    }

    /// Returns the end of the wait if nothing is left of the target.
    fn ended(&self, exit_status: Option<i32>, why: TargetEnd) -> Option<WaitEnd> {
        if !self.places.is_empty() {
            return None;
        }
        Some(if self.wait.exit {
            WaitEnd::Matched(WaitMatch {
                exit_status,
                ..WaitMatch::of(WaitCondition::Exit)
            })
        } else {
            WaitEnd::Ended(why)
        })
    }
}
