//! Tests of the stream on literal bytes: properties, cuts, sync points, and effects in tmux.

mod dropped;
mod law;
mod numbering;
mod polling;
mod resyncs;
mod styles;
mod sync_points;
mod terminal;

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::{Capture, Change, PaneNumbers, Row, Tracker};
use super::{StreamTracker, SyncPoint};

/// Longer than any change waits to be reported.
const LONG: Duration = Duration::from_millis(500);

/// A streamed pane and its changes.
struct Pane {
    stream: StreamTracker,
    now: Duration,
    changes: Vec<Change>,
}

impl Pane {
    /// A pane that has just appeared.
    fn new(width: u32, height: u32) -> Self {
        Self::at(&empty(width, height))
    }

    /// A pane that has just appeared, with the content of a sync point.
    fn at(sync_point: &SyncPoint) -> Self {
        let (tracker, changes) = Tracker::fresh(&sync_point.capture);
        Self {
            stream: StreamTracker::new(tracker, sync_point),
            now: Duration::ZERO,
            changes,
        }
    }

    /// Feeds bytes, and takes changes when the stream is full.
    fn feed(&mut self, mut bytes: &[u8]) {
        self.stream.advance_clock(self.now);
        loop {
            let taken = self.stream.feed(bytes);
            bytes = &bytes[taken..];
            if bytes.is_empty() {
                return;
            }
            self.poll();
            self.stream.shell_marks();
        }
    }

    fn poll(&mut self) {
        self.changes.extend(self.stream.changes(self.now));
    }

    /// Takes changes until none are pending.
    fn settle(&mut self) {
        for _ in 0..3 {
            self.now += LONG;
            self.poll();
        }
    }

    fn end(&mut self) {
        self.changes.extend(self.stream.end(self.now));
    }

    /// Returns the last texts of all lines by number.
    fn replay(&self) -> BTreeMap<i64, String> {
        replay(&self.changes)
    }

    /// Returns the last texts from line 1 on, without blank lines at the end.
    fn lines(&self) -> Vec<String> {
        let replay = self.replay();
        let lines = replay.range(1..).map(|(_, text)| text);
        trimmed(lines.map(|text| text.trim_end_matches(' ').to_owned()))
    }

    /// Returns the settled lines.
    fn reported(&self) -> String {
        let chunks = self.changes.iter().filter_map(|change| match change {
            Change::Lines { chunk, .. } => Some(chunk.as_str()),
            _ => None,
        });
        chunks.collect()
    }
}

fn replay(changes: &[Change]) -> BTreeMap<i64, String> {
    let mut lines = BTreeMap::new();
    let mut next = i64::MIN;
    for change in changes {
        match change {
            Change::Lines { first_line, chunk } => {
                assert!(*first_line >= next, "numbers continue: {changes:#?}");
                assert!(chunk.ends_with('\n'), "{chunk:?}");
                lines.extend((*first_line..).zip(chunk.lines().map(str::to_owned)));
                next = first_line + chunk.lines().count() as i64;
            }
            Change::Revised { line, text } => {
                lines.insert(*line, text.clone());
            }
            Change::Gap {
                first_line,
                lost_lines,
                ..
            } => {
                assert!(*first_line >= next, "numbers continue: {changes:#?}");
                next = first_line + lost_lines.unwrap_or(0) as i64;
            }
            Change::Screen { .. } => {}
        }
    }
    lines
}

fn trimmed(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

fn empty(width: u32, height: u32) -> SyncPoint {
    sync_point(width, &vec![""; height as usize], 0)
}

/// A sync point with these rows, of which `history` are above the screen. Rows as wide as the pane
/// continue in the next one. The cursor is behind the last text.
fn sync_point(width: u32, rows: &[&str], history: usize) -> SyncPoint {
    let wraps = |row: &str| row.chars().count() == width as usize;
    let rows: Vec<Row> = rows
        .iter()
        .map(|row| Row {
            text: (*row).into(),
            wrapped: wraps(row),
        })
        .collect();
    let last = rows.iter().rposition(|row| !row.text.is_empty());
    let last = last.unwrap_or(history).max(history);
    let capture = Capture {
        numbers: PaneNumbers {
            width,
            height: (rows.len() - history) as u32,
            history_size: history as u32,
            history_limit: 2000,
            cursor: crate::event::Cursor {
                x: rows[last].text.chars().count() as u32,
                y: (last - history) as u32,
            },
            ..PaneNumbers::default()
        },
        rows,
        ..Capture::default()
    };
    SyncPoint {
        capture,
        ..SyncPoint::default()
    }
}
