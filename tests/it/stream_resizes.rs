//! A pane that is streamed and resized, on real tmux: each printed line arrives once.
//!
//! The tests do what the source does: they take a sync point and open the pipe in one command list, read
//! bytes as they arrive, and capture the pane after a resize while nothing arrives. tmux damages text
//! when it rebuilds rows: it drops, repeats and breaks lines. Since each printed line contains its own
//! number, the tests tell damage from mistakes without a second pane: text in tmux that was never printed
//! is damage, and printed text must have been reported, whatever tmux did with it.
//!
//! `TD_RESIZE_FIRST` and `TD_RESIZE_SEEDS` select the random numbers; a failure names its seed.

mod observed;

use observed::brief;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use td_observe::event::Cursor;
use td_observe::internals::track::{
    Capture, Change, GapReason, PaneNumbers, Row, SavedScreen, StreamTracker, SyncPoint,
    TerminalModes, Tracker, unescape,
};

use crate::support::{CEILING, Dice, TmuxServer, wait_for, within};

const RESIZES: usize = 60;

fn seeds(default: u64) -> impl Iterator<Item = u64> {
    let number = |name, or| {
        let text = std::env::var(name).ok();
        text.and_then(|text| text.parse().ok()).unwrap_or(or)
    };
    let first: u64 = number("TD_RESIZE_FIRST", 1);
    first..first + number("TD_RESIZE_SEEDS", default)
}

/// A pane whose bytes are read.
struct Streamed<'a> {
    server: &'a TmuxServer,
    pane: String,
    bytes: File,
    stream: StreamTracker,
    began: Instant,
    changes: Vec<Change>,
    /// The screen of the pane when the stream began.
    first: Capture,
    /// The number of written marks.
    marks: usize,
    /// The number of captures that seemed to be later than the last byte.
    false_alarms: usize,
    /// The captures used for a resync, for failure messages.
    story: Vec<String>,
}

/// The requested format; `M` marks the end of a reply.
const STATE: &str = "#{pane_width} #{pane_height} #{history_size} #{history_limit} #{cursor_x} \
    #{cursor_y} #{alternate_on} #{alternate_saved_x} #{alternate_saved_y} #{pane_pid}";

/// Takes a sync point, and runs further commands in the same command list.
fn sync_point(server: &TmuxServer, pane: &str, depth: u32, more: &str) -> SyncPoint {
    // No program of these tests prints this.
    let mark = "=:sync:=";
    let end = format!("display-message -p '{mark}'");
    let answer = server.answer(&format!(
        "display-message -p -t '{pane}' '{STATE}'; {end}; \
         display-message -p -t '{pane}' '{}'; {end}; \
         {rows} -S -{depth} -t '{pane}'; {end}; \
         capture-pane -p -J -S -{depth} -t '{pane}'; {end}; \
         {rows} -q -a -t '{pane}'; {end}; \
         capture-pane -p -q -a -J -t '{pane}'; {end}; \
         capture-pane -p -P -C -t '{pane}'; {end}{more}\n",
        TerminalModes::FORMAT,
        rows = server.capture_rows(),
    ));
    let parts: Vec<&str> = answer.split(&format!("{mark}\n")).collect();
    let [state, modes, rows, joined, saved, saved_joined, pending, _] = parts[..] else {
        panic!("{answer}")
    };
    let numbers: Vec<u32> = state
        .split_whitespace()
        .map(|word| word.parse().unwrap_or(0))
        .collect();
    let alternate = numbers[6] == 1;
    // tmux prints a number without a meaning if no cursor was saved.
    let saved_cursor = Cursor {
        x: numbers[7],
        y: numbers[8],
    };
    let capture = Capture {
        numbers: PaneNumbers {
            width: numbers[0],
            height: numbers[1],
            history_size: numbers[2],
            history_limit: numbers[3],
            cursor: Cursor {
                x: numbers[4],
                y: numbers[5],
            },
            alternate,
            pid: numbers[9],
            ..PaneNumbers::default()
        },
        rows: rows_of(rows, joined),
        saved: alternate.then(|| SavedScreen {
            cursor: saved_cursor,
            rows: rows_of(saved, saved_joined),
        }),
        ..Capture::default()
    };
    SyncPoint {
        capture,
        modes: TerminalModes::read(modes),
        pending: unescape(pending),
        version: server.version(),
    }
}

/// Returns the rows, with a flag for those that continue in the next.
fn rows_of(rows: &str, joined: &str) -> Vec<Row> {
    let mut lines = joined.lines();
    let mut rest = "";
    let mut is_open = false;
    rows.lines()
        .map(|text| {
            if !is_open {
                rest = lines.next().unwrap_or_default();
            }
            rest = rest.strip_prefix(text).unwrap_or_default();
            is_open = !rest.is_empty();
            Row {
                text: text.to_owned(),
                wrapped: is_open,
            }
        })
        .collect()
}

impl<'a> Streamed<'a> {
    /// Opens the pipe at a sync point.
    fn open(server: &'a TmuxServer, pane: &str) -> Self {
        let file = server.directory().join("bytes");
        File::create(&file).unwrap();
        let pipe = format!("; pipe-pane -O -t '{pane}' \"cat >> '{}'\"", file.display());
        let sync_point = sync_point(server, pane, 300, &pipe);
        let tracker = Tracker::baseline(&sync_point.capture);
        Self {
            server,
            pane: pane.to_owned(),
            bytes: File::open(&file).unwrap(),
            stream: StreamTracker::new(tracker, &sync_point),
            began: Instant::now(),
            changes: Vec::new(),
            first: sync_point.capture,
            marks: 0,
            false_alarms: 0,
            story: Vec::new(),
        }
    }

    /// Reads the bytes that have arrived.
    fn take(&mut self) -> Vec<u8> {
        let mut some = vec![0; 256 * 1024];
        let count = self.bytes.read(&mut some).unwrap();
        some.truncate(count);
        let mut rest = &some[..];
        while !rest.is_empty() {
            rest = &rest[self.stream.feed(rest)..];
            let now = self.began.elapsed();
            self.changes.extend(self.stream.changes(now));
        }
        self.changes
            .extend(self.stream.changes(self.began.elapsed()));
        some
    }

    /// Returns true if nothing arrives except a mark that is written to the pane's terminal now: then all
    /// earlier output has been read. The source cannot write there and waits for some time instead, which
    /// depends on the load of the machine; this does not.
    fn is_quiet(&mut self) -> bool {
        self.marks += 1;
        let mark = format!("\x1b]2;mark {}\x07", self.marks).into_bytes();
        let mut terminal = self.server.terminal(&self.pane);
        terminal.write_all(&mark).unwrap();
        let (mut count, mut last) = (0, Vec::new());
        wait_for("the mark", CEILING, || {
            let bytes = self.take();
            count += bytes.len();
            last.extend(bytes);
            let has_arrived = last.windows(mark.len()).any(|some| some == mark);
            last.drain(..last.len().saturating_sub(mark.len()));
            if has_arrived { Ok(()) } else { Err(count) }
        });
        count == mark.len()
    }

    fn size(&self) -> (u32, u32) {
        let size = [
            "display-message",
            "-p",
            "-t",
            &self.pane,
            "#{pane_width} #{pane_height}",
        ];
        let size = self.server.tmux(&size);
        let (width, height) = size.split_once(' ').unwrap();
        (width.parse().unwrap(), height.parse().unwrap())
    }

    /// Captures the pane and continues from there, if nothing arrived meanwhile.
    fn resync(&mut self) -> bool {
        self.take();
        let depth = self.stream.tracker.margin() + 100;
        let sync_point = sync_point(self.server, &self.pane, depth, "");
        if !self.is_quiet() {
            return false;
        }
        let now = self.began.elapsed();
        let cursor_line = self.stream.tracker.cursor_line();
        let alarm = self.stream.is_behind(&sync_point.capture);
        self.false_alarms += usize::from(alarm);
        let changes = self.stream.resync(&sync_point, now);
        let capture = &sync_point.capture;
        self.story.push(format!(
            "{}x{} cursor {:?} history {}: line {cursor_line} is {} now, {alarm}: {}",
            capture.width,
            capture.height,
            capture.cursor,
            capture.history_size,
            self.stream.tracker.cursor_line(),
            brief(&changes)
        ));
        assert_eq!(
            self.stream.difference(&sync_point.capture),
            None,
            "{}",
            self.describe()
        );
        self.changes.extend(changes);
        true
    }

    /// Continues for a while, and resyncs as the source does after a resize.
    fn go_on(&mut self, time: Duration) {
        let began = Instant::now();
        let _ = within(time, || {
            self.take();
            // The listing notices a resize later; sometimes only the next one.
            if began.elapsed() > time / 3 && self.size_of_stream() != self.size() {
                self.resync();
            }
            Err::<(), ()>(())
        });
    }

    fn size_of_stream(&self) -> (u32, u32) {
        let capture = self.stream.capture();
        (capture.width, capture.height)
    }

    fn resize(&self, (width, height): (u32, u32)) {
        let (width, height) = (width.to_string(), height.to_string());
        self.server.tmux(&[
            "resize-window",
            "-t",
            &self.pane,
            "-x",
            &width,
            "-y",
            &height,
        ]);
    }

    /// Reads bytes until the program prints its end, and resyncs once more.
    fn finish(&mut self) {
        let done = || self.server.tmux(&["show-options", "-gqv", "@done"]) == "1";
        wait_for("the program", 3 * CEILING, || {
            if done() { Ok(()) } else { Err(()) }
        });
        wait_for("rest", CEILING, || {
            if self.resync() {
                Ok(())
            } else {
                Err(self.size_of_stream())
            }
        });
        wait_for("the last line to settle", CEILING, || {
            self.take();
            match self.stream.deadline() {
                None => Ok(()),
                other => Err(other),
            }
        });
        self.changes.extend(self.stream.end(self.began.elapsed()));
    }

    fn describe(&self) -> String {
        self.story.join("\n")
    }

    /// Checks that each line printed from the initial cursor line on was reported once, in order, and
    /// that every reported line had been printed. Returns the number of gaps.
    #[track_caller]
    fn check_lines(&self, seed: u64, printed: &[String]) -> usize {
        let top = self.first.rows.len() - self.first.height as usize;
        let at_cursor = &self.first.rows[..top + self.first.cursor.y as usize];
        let before = at_cursor.iter().filter(|row| !row.wrapped).count();
        let shown: Vec<&str> = at_cursor.iter().map(|row| &*row.text).collect();
        let mut lines = Vec::new();
        let mut gaps = 0;
        for change in &self.changes {
            match change {
                Change::Lines { chunk, .. } => lines.extend(chunk.lines()),
                Change::Gap { reason, .. } => {
                    assert_eq!(
                        *reason,
                        GapReason::Resized,
                        "seed {seed}\n{}",
                        self.describe()
                    );
                    gaps += 1;
                }
                Change::Revised { .. } | Change::Screen { .. } => {}
            }
        }
        let first = lines.first().copied().unwrap_or_default();
        let start = printed.iter().position(|line| line == first);
        let start = start.unwrap_or_else(|| {
            panic!("seed {seed}: {first:?} was not printed, {before} before: {shown:#?}")
        });
        let mut expected = printed[start..].iter();
        for (at, line) in lines.iter().enumerate() {
            let wanted = expected.next();
            if wanted.is_some_and(|wanted| wanted.trim_end() == line.trim_end()) {
                continue;
            }
            panic!(
                "seed {seed}: line {at} of {}: {line:?} for {wanted:?}, after {:?}, before {:?}, {gaps} gaps\n{}",
                lines.len(),
                &lines[at.saturating_sub(3)..at],
                &lines[at + 1..lines.len().min(at + 4)],
                self.describe()
            );
        }
        assert_eq!(expected.next(), None, "seed {seed}\n{}", self.describe());
        gaps
    }

    /// Compares the text of a reader of the changes with tmux's: they differ only where tmux shows text that
    /// no program printed. Returns the number of such lines.
    #[track_caller]
    fn check_text(&self, seed: u64, printed: &[String]) -> usize {
        let mut replay: BTreeMap<i64, &str> = BTreeMap::new();
        for change in &self.changes {
            match change {
                Change::Lines { first_line, chunk } => {
                    replay.extend((*first_line..).zip(chunk.lines()));
                }
                Change::Revised { line, text } => drop(replay.insert(*line, text)),
                Change::Gap { .. } | Change::Screen { .. } => {}
            }
        }
        let replayed: BTreeSet<&str> = replay.values().map(|text| text.trim_end()).collect();
        let printed: BTreeSet<&str> = printed.iter().map(|text| text.trim_end()).collect();
        let joined = ["capture-pane", "-p", "-J", "-S", "-", "-t", &self.pane];
        let joined = self.server.tmux(&joined);
        let shown: BTreeSet<&str> = joined.lines().map(str::trim_end).collect();
        for text in &replayed {
            assert!(
                printed.contains(text) || shown.contains(text),
                "seed {seed}: {text:?} was neither printed nor is it shown\n{}",
                self.describe()
            );
        }
        let damaged = shown.iter().filter(|text| !printed.contains(*text)).count();
        for text in &printed {
            // Lines that existed before the stream began do not count.
            let was_there = self
                .first
                .rows
                .iter()
                .any(|row| text.starts_with(row.text.trim_end()));
            assert!(
                !shown.contains(text) || replayed.contains(text) || was_there,
                "seed {seed}: {text:?} is shown and was not said\n{}",
                self.describe()
            );
        }
        damaged
    }
}
