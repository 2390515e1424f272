//! Counts the captures of a server's panes and the time that tmux took for them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts captures from any thread.
#[derive(Debug, Default)]
pub(crate) struct CaptureCounter {
    captures: AtomicU64,
    micros: AtomicU64,
}

impl CaptureCounter {
    /// Adds the captures of one tmux process, which ran for `time`.
    pub(super) fn add(&self, captures: usize, time: Duration) {
        if captures == 0 {
            return;
        }
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.captures.fetch_add(captures as u64, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the number of captures, and the time that tmux took for them.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn total(&self) -> (u64, Duration) {
        let micros = self.micros.load(Ordering::Relaxed);
        let captures = self.captures.load(Ordering::Relaxed);
        (captures, Duration::from_micros(micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_without_a_capture_do_not_count() {
        let counter = CaptureCounter::default();
        counter.add(0, Duration::from_secs(9));
        counter.add(3, Duration::from_millis(4));
        counter.add(1, Duration::from_micros(1));
        assert_eq!(counter.total(), (4, Duration::from_micros(4001)));
    }
}
