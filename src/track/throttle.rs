//! Throttles the states of changing lines and screens: the log gets one a second, viewers more (pure).
//!
//! A spinner must not fill a disk, and its last state must not be lost. Therefore each line, and the
//! screen of a full-screen program, is logged at most once a second. States in between are live only,
//! and the last one is logged when its second is over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::change::Change;
use crate::event::{Cursor, ScreenRow, line_ends_in};

/// The interval at which a line or a screen is logged.
const LOG_PERIOD: Duration = Duration::from_secs(1);

/// The interval at which viewers get a full-screen program's screen, and a stream's screen is compared with
/// the last one.
pub(super) const LIVE_PERIOD: Duration = Duration::from_millis(200);

/// A change and its recipients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Throttled {
    /// For the log and for viewers.
    Logged(Change),
    /// A transient state, for viewers only.
    Live(Change),
}

/// The throttle of one pane.
#[derive(Debug, Default)]
pub struct RevisionThrottle {
    /// Lines that were logged within the last second.
    lines: BTreeMap<i64, RevisedLine>,
    screen: ScreenThrottle,
}

#[derive(Debug)]
struct RevisedLine {
    logged_at: Instant,
    /// The present text, if it is not logged yet.
    pending: Option<String>,
}

#[derive(Debug, Default)]
struct ScreenThrottle {
    logged_at: Option<Instant>,
    shown_at: Option<Instant>,
    /// The changes since the screen was logged, and since it was shown.
    to_log: Option<Screen>,
    to_show: Option<Screen>,
}

#[derive(Clone, Debug)]
struct Screen {
    width: u32,
    height: u32,
    cursor: Cursor,
    rows: BTreeMap<u32, String>,
}

impl RevisionThrottle {
    /// Returns the changes that are due now, and holds the others back.
    pub fn throttle(&mut self, changes: Vec<Change>, now: Instant) -> Vec<Throttled> {
        let mut throttled = Vec::with_capacity(changes.len());
        let is_line =
            |change: &Change| matches!(change, Change::Lines { .. } | Change::Revised { .. });
        if changes.iter().any(is_line) {
            // The full-screen program has ended: its last screen precedes these lines.
            throttled.extend(self.screen.last(now));
        }
        for change in changes {
            match change {
                Change::Lines {
                    first_line,
                    ref chunk,
                } => {
                    // The chunk contains the last states of its lines.
                    let end = first_line.saturating_add(line_ends_in(chunk));
                    self.lines
                        .retain(|line, _| !(first_line..end).contains(line));
                    throttled.push(Throttled::Logged(change));
                }
                Change::Revised { line, text } => throttled.push(self.revised(line, text, now)),
                Change::Screen {
                    width,
                    height,
                    cursor,
                    rows,
                } => {
                    self.screen.add(width, height, cursor, rows);
                }
                Change::Gap { .. } => throttled.push(Throttled::Logged(change)),
            }
        }
        throttled.extend(self.due(now));
        throttled
    }

    /// Returns held states that are due now. Call it with every tick.
    pub fn due(&mut self, now: Instant) -> Vec<Throttled> {
        let mut throttled = Vec::new();
        self.lines.retain(|&line, revised| {
            let over = now.saturating_duration_since(revised.logged_at) >= LOG_PERIOD;
            if over && let Some(text) = revised.pending.take() {
                revised.logged_at = now;
                throttled.push(Throttled::Logged(Change::Revised { line, text }));
                return true;
            }
            !over
        });
        throttled.extend(self.screen.due(now));
        throttled
    }

    /// Returns when [`RevisionThrottle::due`] will return changes unless others come first.
    pub fn deadline(&self) -> Option<Instant> {
        let pending = self.lines.values().filter(|line| line.pending.is_some());
        let lines = pending.map(|line| line.logged_at + LOG_PERIOD).min();
        [lines, self.screen.next_due()].into_iter().flatten().min()
    }

    /// Returns all states that are not logged yet.
    pub fn finish(&mut self) -> Vec<Throttled> {
        let lines = std::mem::take(&mut self.lines).into_iter();
        let mut throttled: Vec<Throttled> = lines
            .filter_map(|(line, revised)| {
                Some(Change::Revised {
                    line,
                    text: revised.pending?,
                })
            })
            .map(Throttled::Logged)
            .collect();
        throttled.extend(
            self.screen
                .to_log
                .take()
                .map(|screen| Throttled::Logged(screen.into())),
        );
        self.screen = ScreenThrottle::default();
        throttled
    }

    fn revised(&mut self, line: i64, text: String, now: Instant) -> Throttled {
        let change = Change::Revised {
            line,
            text: text.clone(),
        };
        match self.lines.get_mut(&line) {
            Some(revised) if now.saturating_duration_since(revised.logged_at) < LOG_PERIOD => {
                revised.pending = Some(text);
                Throttled::Live(change)
            }
            _ => {
                let revised = RevisedLine {
                    logged_at: now,
                    pending: None,
                };
                self.lines.insert(line, revised);
                Throttled::Logged(change)
            }
        }
    }
}

impl ScreenThrottle {
    fn add(&mut self, width: u32, height: u32, cursor: Cursor, rows: Vec<ScreenRow>) {
        for part in [&mut self.to_log, &mut self.to_show] {
            let same_size = part
                .as_ref()
                .is_some_and(|s| (s.width, s.height) == (width, height));
            let mut screen = part.take().filter(|_| same_size).unwrap_or_else(|| Screen {
                width,
                height,
                cursor,
                rows: BTreeMap::new(),
            });
            screen.cursor = cursor;
            screen
                .rows
                .extend(rows.iter().map(|row| (row.row, row.text.clone())));
            *part = Some(screen);
        }
    }

    /// Returns the last state, if it is not logged yet.
    fn last(&mut self, now: Instant) -> Option<Throttled> {
        let screen = self.to_log.take()?;
        self.to_show = None;
        (self.logged_at, self.shown_at) = (Some(now), Some(now));
        Some(Throttled::Logged(screen.into()))
    }

    fn due(&mut self, now: Instant) -> Option<Throttled> {
        let over = |last: Option<Instant>, every| {
            last.is_none_or(|last| now.saturating_duration_since(last) >= every)
        };
        if over(self.logged_at, LOG_PERIOD) {
            self.last(now)
        } else if over(self.shown_at, LIVE_PERIOD) {
            let screen = self.to_show.take()?;
            self.shown_at = Some(now);
            Some(Throttled::Live(screen.into()))
        } else {
            None
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let after = |part: &Option<Screen>, last: Option<Instant>, every| {
            part.as_ref().and(last).map(|last| last + every)
        };
        let logged = after(&self.to_log, self.logged_at, LOG_PERIOD);
        let shown = after(&self.to_show, self.shown_at, LIVE_PERIOD);
        [logged, shown].into_iter().flatten().min()
    }
}

impl From<Screen> for Change {
    fn from(screen: Screen) -> Self {
        let rows = screen.rows.into_iter();
        Self::Screen {
            width: screen.width,
            height: screen.height,
            cursor: screen.cursor,
            rows: rows.map(|(row, text)| ScreenRow { row, text }).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn revised(line: i64, text: &str) -> Change {
        Change::Revised {
            line,
            text: text.into(),
        }
    }

    proptest! {
        /// The log gets at most one state of a line a second, and always the last one.
        #[test]
        fn once_a_second_and_the_last(steps in prop::collection::vec((0_u64..700, 0_i64..3, "[ab]"), 0..40)) {
            let mut now = Instant::now();
            let mut throttle = RevisionThrottle::default();
            let mut last = BTreeMap::new();
            let mut logged: Vec<(Instant, i64, String)> = Vec::new();
            let log = |now, throttled: Vec<Throttled>, logged: &mut Vec<_>| {
                for throttled in throttled {
                    if let Throttled::Logged(Change::Revised { line, text }) = throttled {
                        logged.push((now, line, text));
                    }
                }
            };
            for (wait, line, text) in steps {
                now += Duration::from_millis(wait);
                log(now, throttle.throttle(vec![revised(line, &text)], now), &mut logged);
                last.insert(line, text);
            }
            while let Some(due) = throttle.deadline() {
                now = now.max(due);
                let throttled = throttle.due(now);
                prop_assert!(!throttled.is_empty());
                log(now, throttled, &mut logged);
            }
            for (line, text) in last {
                let mine: Vec<_> = logged.iter().filter(|(_, other, _)| *other == line).collect();
                prop_assert_eq!(&mine.last().unwrap().2, &text);
                for pair in mine.windows(2) {
                    prop_assert!(pair[1].0 - pair[0].0 >= LOG_PERIOD);
                }
            }
            prop_assert!(throttle.finish().is_empty());
        }
    }

    #[test]
    fn a_settled_line_needs_no_last_state() {
        let now = Instant::now();
        let mut throttle = RevisionThrottle::default();
        assert_eq!(
            throttle.throttle(vec![revised(1, "10%")], now),
            [Throttled::Logged(revised(1, "10%"))]
        );
        assert_eq!(
            throttle.throttle(vec![revised(1, "20%")], now),
            [Throttled::Live(revised(1, "20%"))]
        );
        let lines = Change::Lines {
            first_line: 1,
            chunk: "100%\n".into(),
        };
        assert_eq!(
            throttle.throttle(vec![lines.clone()], now),
            [Throttled::Logged(lines)]
        );
        assert_eq!(throttle.finish(), []);
    }

    #[test]
    fn the_last_state_of_a_screen_precedes_the_lines_after_it() {
        let now = Instant::now();
        let mut throttle = RevisionThrottle::default();
        let screen = |text: &str| Change::Screen {
            width: 9,
            height: 3,
            cursor: Cursor::default(),
            rows: vec![ScreenRow {
                row: 0,
                text: text.into(),
            }],
        };
        assert_eq!(
            throttle.throttle(vec![screen("a")], now),
            [Throttled::Logged(screen("a"))]
        );
        assert_eq!(throttle.throttle(vec![screen("b")], now), []);
        assert_eq!(
            throttle.throttle(vec![revised(1, "$ ")], now),
            [
                Throttled::Logged(screen("b")),
                Throttled::Logged(revised(1, "$ "))
            ]
        );
        assert_eq!(throttle.deadline(), None);
    }

    #[test]
    fn a_screen_is_shown_five_times_a_second_and_logged_once() {
        let start = Instant::now();
        let mut throttle = RevisionThrottle::default();
        let (mut logged, mut shown) = (0, 0);
        let mut rows = BTreeMap::new();
        for tick in 0..200_u32 {
            let row = ScreenRow {
                row: tick % 3,
                text: tick.to_string(),
            };
            let change = Change::Screen {
                width: 9,
                height: 3,
                cursor: Cursor::default(),
                rows: vec![row],
            };
            for throttled in
                throttle.throttle(vec![change], start + Duration::from_millis(10) * tick)
            {
                match throttled {
                    Throttled::Logged(Change::Screen {
                        rows: logged_rows, ..
                    }) => {
                        logged += 1;
                        rows.extend(logged_rows.into_iter().map(|row| (row.row, row.text)));
                    }
                    Throttled::Live(_) => shown += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!((logged, shown), (2, 8));
        for throttled in throttle.finish() {
            let Throttled::Logged(Change::Screen { rows: last, .. }) = throttled else {
                panic!("{throttled:?}")
            };
            rows.extend(last.into_iter().map(|row| (row.row, row.text)));
        }
        assert_eq!(
            rows.into_values().collect::<Vec<_>>(),
            ["198", "199", "197"]
        );
    }
}
