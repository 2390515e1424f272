//! The progress bar of a command that reads much history, in one line on standard error.
//!
//! The thread `td-progress` redraws the line until it is finished, so that the work neither reads the clock nor waits
//! for the terminal. It reads a counter, to which the threads of the work add. It blocks on its clock, its stop
//! channel and the terminal, and is joined when the [`Progress`] is dropped.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::select_biased;

use super::runs::size;
use crate::clock::Clock;
use crate::face::is_dumb;
use crate::thread::{self, Handle, Stop, StopGuard, stop_pair};

/// The time between two drawings: smooth for the eye, and too rare to cost the work anything.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// The time before which a rest is not estimated, because the first blocks may come from the cache.
const ESTIMATE_AFTER: Duration = Duration::from_secs(1);

/// The number of characters of the bar, so that the line fits into 80 columns.
const BAR_WIDTH: usize = 24;

/// Shows the progress of some work until it is dropped, which erases the line.
#[derive(Debug)]
pub(super) struct Progress {
    counter: Arc<AtomicU64>,
    /// Dropped to end the thread; `None` where nothing is shown.
    shown: Option<(StopGuard, Handle<()>)>,
}

impl Progress {
    /// Shows the progress of `work`, such as "exporting", over `total` bytes; shows nothing if it is quiet, and where
    /// standard error is no terminal that can erase a line.
    pub fn start(work: &'static str, total: u64, is_quiet: bool, clock: &Clock) -> Self {
        let counter = Arc::new(AtomicU64::new(0));
        let is_shown = !is_quiet && io::stderr().is_terminal() && !is_dumb();
        let shown = is_shown.then(|| {
            let (guard, stop) = stop_pair();
            let (counter, clock) = (Arc::clone(&counter), clock.clone());
            let draw = move || redraw(work, total, &counter, &clock, &stop);
            Some((guard, thread::spawn("td-progress", draw).ok()?))
        });
        Self {
            counter,
            shown: shown.flatten(),
        }
    }

    /// Returns the number of bytes that are done, to which any thread may add.
    pub fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.counter)
    }

    /// Erases the line, so that messages can be printed.
    pub fn finish(self) {}
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((guard, thread)) = self.shown.take() {
            drop(guard);
            thread.join_logged();
        }
    }
}

/// Draws the line until the guard is dropped, and then erases it.
fn redraw(work: &str, total: u64, counter: &AtomicU64, clock: &Clock, stop: &Stop) {
    let began = clock.now();
    loop {
        select_biased! {
            recv(stop) -> _ => break,
            recv(clock.after(REDRAW_INTERVAL)) -> now => {
                let passed = now.map_or(Duration::ZERO, |now| now.saturating_duration_since(began));
                let mut text = line(work, counter.load(Ordering::Relaxed), total, passed);
                // A line that wraps could not be erased.
                text.truncate(columns().saturating_sub(1));
                show(&text);
            }
        }
    }
    show("");
}

/// Replaces the line by an ASCII text.
fn show(text: &str) {
    // The progress of work whose terminal is gone is not shown.
    let _ = write!(io::stderr(), "\r\x1b[K{text}");
}

/// Returns the width of standard error, or 80 if the terminal does not report it.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    let columns = size.map(|size| usize::from(size.ws_col));
    columns.filter(|columns| *columns > 0).unwrap_or(80)
}

/// Returns the line, in ASCII. A log that grows while it is read never has more than all.
fn line(work: &str, done: u64, total: u64, passed: Duration) -> String {
    let done = done.min(total);
    let share = match total {
        0 => 1.0,
        _ => done as f64 / total as f64,
    };
    // At most the whole width.
    let filled = (share * BAR_WIDTH as f64) as usize;
    let mut text = format!(
        "{work} [{}{}] {:3.0}% of {}",
        "#".repeat(filled),
        " ".repeat(BAR_WIDTH - filled),
        (share * 100.0).floor(),
        size(total),
    );
    if passed >= ESTIMATE_AFTER && done > 0 && done < total {
        let rest = passed.as_secs_f64() * (1.0 - share) / share;
        // Writing to a text cannot fail.
        let _ = write!(text, ", {} left", whole_time(rest.ceil()));
    }
    text
}

/// Returns a time in whole seconds or minutes. An estimate is no more exact.
fn whole_time(seconds: f64) -> String {
    if seconds < 120.0 {
        format!("{seconds:.0}s")
    } else {
        format!("{:.0}min", (seconds / 60.0).ceil())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::history::{DataDir, LogReader, Query};
    use crate::timestamp::Timestamp;

    #[test]
    fn a_line_shows_the_share_and_the_rest() {
        const MIB: u64 = 1024 * 1024;
        let at = |done, total, seconds| {
            line(
                "exporting",
                done * MIB,
                total * MIB,
                Duration::from_secs(seconds),
            )
        };
        for (shown, expected) in [
            (
                at(0, 1024, 0),
                "exporting [                        ]   0% of 1.0GiB",
            ),
            (
                at(0, 1024, 5),
                "exporting [                        ]   0% of 1.0GiB",
            ),
            (
                at(256, 1024, 0),
                "exporting [######                  ]  25% of 1.0GiB",
            ),
            (
                at(256, 1024, 10),
                "exporting [######                  ]  25% of 1.0GiB, 30s left",
            ),
            (
                at(1, 1024, 1),
                "exporting [                        ]   0% of 1.0GiB, 18min left",
            ),
            (
                at(1023, 1024, 60),
                "exporting [####################### ]  99% of 1.0GiB, 1s left",
            ),
            (
                at(1024, 1024, 60),
                "exporting [########################] 100% of 1.0GiB",
            ),
            // The log has grown.
            (
                at(3, 2, 60),
                "exporting [########################] 100% of 2.0MiB",
            ),
            (
                at(0, 0, 60),
                "exporting [########################] 100% of 0B",
            ),
        ] {
            assert_eq!(shown, expected);
            assert!(shown.is_ascii() && shown.len() < 80, "{shown}");
        }
    }

    #[test]
    fn threads_count_together() {
        let progress = Progress::start("exporting", 2, true, &Clock::system());
        let counter = progress.counter();
        let adds = move || counter.fetch_add(1, Ordering::Relaxed);
        thread::spawn("td-test", adds).unwrap().join().unwrap();
        progress.counter().fetch_add(1, Ordering::Relaxed);
        assert_eq!(progress.counter().load(Ordering::Relaxed), 2);
        progress.finish();
    }

    #[test]
    fn a_reader_counts_the_bytes_on_the_disk() {
        let temp = tempfile::tempdir().unwrap();
        let run = DataDir::new(temp.path()).run(&"a".into());
        fs::create_dir_all(run.path()).unwrap();
        // More than a block of each file.
        let event =
            r#"{"ts":"2026-01-21T10:00:01Z","event":{"type":"X","execution_id":"a"}}"#.to_owned();
        let lines = (event + "\n").repeat(20_000);
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(lines.as_bytes()).unwrap();
        let closed = run.path().join("events.000001.jsonl.gz");
        fs::write(closed, packed.finish().unwrap()).unwrap();
        fs::write(run.events_path(), lines).unwrap();
        let since = Timestamp::from_micros(1_768_989_601_000_000);
        for query in [Query::all(), Query::all().since(since)] {
            let counter = Arc::new(AtomicU64::new(0));
            let log = LogReader::open(&run, query).unwrap();
            assert_eq!(log.counting_in(Arc::clone(&counter)).count(), 40_000);
            assert_eq!(counter.load(Ordering::Relaxed), run.log_bytes());
        }
    }
}
