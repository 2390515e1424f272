//! Throttles content that changes all the time: the history gets one state a second, viewers more
//! (pure).
//!
//! A spinner must not fill a disk, and its last state must not be lost. So a revision of a line, or
//! of a full-screen program's screen, is kept at most once a second; what comes between is shown
//! live only, and the last state follows when its second is over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::change::Change;
use crate::event::{Cursor, ScreenRow};

/// The log takes a line's, or a screen's, state once in this time.
const KEEP_EVERY: Duration = Duration::from_secs(1);

/// Viewers get a full-screen program's screen once in this time.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// A change, and whether it is for the log too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Throttled {
    /// For the log and for viewers.
    Logged(Change),
    /// A passing state, for viewers only.
    Live(Change),
}

/// The pace of one pane.
#[derive(Debug, Default)]
pub struct RevisionThrottle {
    /// Lines that were kept within the last second, at most a screen and what it scrolled.
    lines: BTreeMap<i64, Mark>,
    screen: ScreenThrottle,
}

#[derive(Debug)]
struct Mark {
    kept: Instant,
    /// The present text, if it was only shown.
    shown: Option<String>,
}

#[derive(Debug, Default)]
struct ScreenThrottle {
    kept: Option<Instant>,
    shown: Option<Instant>,
    /// The changes since the screen was kept, and since it was shown.
    to_keep: Option<Screen>,
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
    /// Sorts what a capture brought.
    pub fn throttle(&mut self, changes: Vec<Change>, now: Instant) -> Vec<Throttled> {
        let mut throttled = Vec::with_capacity(changes.len());
        let is_line =
            |change: &Change| matches!(change, Change::Lines { .. } | Change::Revised { .. });
        if changes.iter().any(is_line) {
            // Lines come when a full-screen program has left: what it showed last stands before them.
            throttled.extend(self.screen.last(now));
        }
        for change in changes {
            match change {
                Change::Lines {
                    first_line,
                    ref chunk,
                } => {
                    // What the lines read stands in the chunk.
                    let end =
                        first_line.saturating_add(
                            memchr::memchr_iter(b'\n', chunk.as_bytes()).count() as i64,
                        );
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

    /// Returns what has come due since: last states whose second is over. Call it with every tick.
    pub fn due(&mut self, now: Instant) -> Vec<Throttled> {
        let mut throttled = Vec::new();
        self.lines.retain(|&line, mark| {
            let over = now.saturating_duration_since(mark.kept) >= KEEP_EVERY;
            if over && let Some(text) = mark.shown.take() {
                mark.kept = now;
                throttled.push(Throttled::Logged(Change::Revised { line, text }));
                return true;
            }
            !over
        });
        throttled.extend(self.screen.due(now));
        throttled
    }

    /// When [`RevisionThrottle::due`] will have something to say, if nothing else happens.
    pub fn deadline(&self) -> Option<Instant> {
        let held = self.lines.values().filter(|mark| mark.shown.is_some());
        let lines = held.map(|mark| mark.kept + KEEP_EVERY).min();
        [lines, self.screen.next_due()].into_iter().flatten().min()
    }

    /// The end: all last states that were only shown.
    pub fn finish(&mut self) -> Vec<Throttled> {
        let lines = std::mem::take(&mut self.lines).into_iter();
        let mut throttled: Vec<Throttled> = lines
            .filter_map(|(line, mark)| {
                Some(Change::Revised {
                    line,
                    text: mark.shown?,
                })
            })
            .map(Throttled::Logged)
            .collect();
        throttled.extend(
            self.screen
                .to_keep
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
            Some(mark) if now.saturating_duration_since(mark.kept) < KEEP_EVERY => {
                mark.shown = Some(text);
                Throttled::Live(change)
            }
            _ => {
                self.lines.insert(
                    line,
                    Mark {
                        kept: now,
                        shown: None,
                    },
                );
                Throttled::Logged(change)
            }
        }
    }
}

impl ScreenThrottle {
    fn add(&mut self, width: u32, height: u32, cursor: Cursor, rows: Vec<ScreenRow>) {
        for part in [&mut self.to_keep, &mut self.to_show] {
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

    /// The last state, if that was not kept.
    fn last(&mut self, now: Instant) -> Option<Throttled> {
        let screen = self.to_keep.take()?;
        self.to_show = None;
        (self.kept, self.shown) = (Some(now), Some(now));
        Some(Throttled::Logged(screen.into()))
    }

    fn due(&mut self, now: Instant) -> Option<Throttled> {
        let over = |last: Option<Instant>, every| {
            last.is_none_or(|last| now.saturating_duration_since(last) >= every)
        };
        if over(self.kept, KEEP_EVERY) {
            self.last(now)
        } else if over(self.shown, SHOW_EVERY) {
            let screen = self.to_show.take()?;
            self.shown = Some(now);
            Some(Throttled::Live(screen.into()))
        } else {
            None
        }
    }
}

impl ScreenThrottle {
    fn next_due(&self) -> Option<Instant> {
        let after = |part: &Option<Screen>, last: Option<Instant>, every| {
            part.as_ref().and(last).map(|last| last + every)
        };
        let kept = after(&self.to_keep, self.kept, KEEP_EVERY);
        let shown = after(&self.to_show, self.shown, SHOW_EVERY);
        [kept, shown].into_iter().flatten().min()
    }
}

impl From<Screen> for Change {
    fn from(screen: Screen) -> Self {
        let Screen {
            width,
            height,
            cursor,
            rows,
        } = screen;
        let rows = rows
            .into_iter()
            .map(|(row, text)| ScreenRow { row, text })
            .collect();
        Self::Screen {
            width,
            height,
            cursor,
            rows,
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
        /// Whatever comes, the log has at most one state a second of a line, and the last one.
        #[test]
        fn once_a_second_and_the_last(steps in prop::collection::vec((0_u64..700, 0_i64..3, "[ab]"), 0..40)) {
            let mut now = Instant::now();
            let mut throttle = RevisionThrottle::default();
            let mut last = BTreeMap::new();
            let mut kept: Vec<(Instant, i64, String)> = Vec::new();
            let keep = |now, throttled: Vec<Throttled>, kept: &mut Vec<_>| {
                for throttled in throttled {
                    if let Throttled::Logged(Change::Revised { line, text }) = throttled {
                        kept.push((now, line, text));
                    }
                }
            };
            for (wait, line, text) in steps {
                now += Duration::from_millis(wait);
                keep(now, throttle.throttle(vec![revised(line, &text)], now), &mut kept);
                last.insert(line, text);
            }
            while let Some(due) = throttle.deadline() {
                now = now.max(due);
                let throttled = throttle.due(now);
                prop_assert!(!throttled.is_empty());
                keep(now, throttled, &mut kept);
            }
            for (line, text) in last {
                let mine: Vec<_> = kept.iter().filter(|(_, other, _)| *other == line).collect();
                prop_assert_eq!(&mine.last().unwrap().2, &text);
                for pair in mine.windows(2) {
                    prop_assert!(pair[1].0 - pair[0].0 >= KEEP_EVERY);
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
    fn a_screen_is_shown_five_times_a_second_and_kept_once() {
        let start = Instant::now();
        let mut throttle = RevisionThrottle::default();
        let (mut kept, mut shown) = (0, 0);
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
                        rows: kept_rows, ..
                    }) => {
                        kept += 1;
                        rows.extend(kept_rows.into_iter().map(|row| (row.row, row.text)));
                    }
                    Throttled::Live(_) => shown += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!((kept, shown), (2, 8));
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
