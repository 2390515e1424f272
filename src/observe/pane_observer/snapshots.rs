//! Decides when the screen of an agent is kept as text: soon after each change of the agent's state,
//! and at intervals while the screen changes (pure).

use std::time::{Duration, Instant};

use crate::event::ScreenRow;

/// The delay after a change of state, in which the agent draws its screen.
const DRAW_DELAY: Duration = Duration::from_millis(300);

/// The interval of snapshots while the screen changes.
const INTERVAL: Duration = Duration::from_secs(10);

/// The snapshots of one pane.
#[derive(Debug, Default)]
pub(in crate::observe) struct Snapshots {
    due: Option<Instant>,
    taken_at: Option<Instant>,
    last: String,
}

impl Snapshots {
    /// Notes a change of the agent's state.
    pub fn state_changed(&mut self, now: Instant) {
        self.due_at(now + DRAW_DELAY);
    }

    pub fn shows(&mut self, screen: &str, now: Instant) {
        if screen != self.last {
            self.due_at(
                self.taken_at
                    .map_or(now + DRAW_DELAY, |at| (at + INTERVAL).max(now)),
            );
        }
    }

    /// Returns when a snapshot is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the rows to keep, if a snapshot is due and the screen differs from the last one.
    pub fn take(&mut self, screen: String, now: Instant) -> Option<Vec<ScreenRow>> {
        self.due.take_if(|due| *due <= now)?;
        if screen == self.last {
            return None;
        }
        self.taken_at = Some(now);
        let rows = (0..).zip(screen.lines());
        let rows = rows.filter(|(_, text)| !text.trim().is_empty());
        let rows = rows.map(|(row, text)| ScreenRow {
            row,
            text: text.trim_end().to_owned(),
        });
        let rows = rows.collect();
        self.last = screen;
        Some(rows)
    }

    fn due_at(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_kept_after_a_change_of_state_and_every_ten_seconds() {
        let (mut snapshots, start) = (Snapshots::default(), Instant::now());
        let s = Duration::from_secs(1);
        snapshots.state_changed(start);
        assert_eq!(snapshots.take("a".into(), start), None, "not drawn yet");
        let rows = snapshots.take("a\n\n  b ".into(), start + s).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[1].row, rows[1].text.as_str()), (2, "  b"));
        snapshots.shows("c", start + 2 * s);
        assert_eq!(snapshots.next_due(), Some(start + 11 * s));
        assert_eq!(snapshots.take("c".into(), start + 5 * s), None);
        snapshots.state_changed(start + 6 * s);
        assert!(snapshots.take("c".into(), start + 7 * s).is_some());
        snapshots.state_changed(start + 8 * s);
        assert_eq!(snapshots.take("c".into(), start + 9 * s), None, "the same");
    }
}
