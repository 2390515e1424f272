//! Batches the text of a cell for a callback: in order, by stream (pure).

use std::time::{Duration, Instant};

use crate::event::OutputStream;

/// Text of this size is passed on without waiting for the interval.
const BATCH_BYTES: usize = 64 * 1024;

/// Holds text for at most an interval.
#[derive(Debug)]
pub(super) struct TextBatcher {
    interval: Duration,
    stream: OutputStream,
    text: String,
    /// The time at which the held text is passed on.
    due: Option<Instant>,
    passed_at: Option<Instant>,
}

impl TextBatcher {
    /// Creates a batcher. With an interval of zero, all text is passed on immediately.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            stream: OutputStream::Stdout,
            text: String::new(),
            due: None,
            passed_at: None,
        }
    }

    /// Adds text. The held text of the other stream is passed on first.
    pub fn push(
        &mut self,
        stream: OutputStream,
        text: &str,
        now: Instant,
        pass: &mut dyn FnMut(OutputStream, &str),
    ) {
        if stream != self.stream {
            self.flush(now, pass);
            self.stream = stream;
        }
        self.text.push_str(text);
        // Text after a pause is passed on immediately.
        let due = self.passed_at.map_or(now, |at| at + self.interval);
        if now >= due || self.text.len() >= BATCH_BYTES {
            self.flush(now, pass);
        } else {
            self.due = Some(due);
        }
    }

    /// Returns the time at which the caller must call [`TextBatcher::flush`].
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Passes on the held text.
    pub fn flush(&mut self, now: Instant, pass: &mut dyn FnMut(OutputStream, &str)) {
        self.due = None;
        if !self.text.is_empty() {
            self.passed_at = Some(now);
            pass(self.stream, &std::mem::take(&mut self.text));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use OutputStream::{Stderr, Stdout};

    proptest! {
        /// All text is passed on in order and by stream, and is held no longer than the interval.
        #[test]
        fn nothing_is_lost(
            interval in 0_u64..200,
            steps in prop::collection::vec((any::<bool>(), "[ab\n]{0,5}", 0_u64..150), 0..40),
        ) {
            let mut now = Instant::now();
            let interval = Duration::from_millis(interval);
            let mut batcher = TextBatcher::new(interval);
            let mut passed: Vec<(OutputStream, String)> = Vec::new();
            let mut pass = |stream, text: &str| match passed.last_mut() {
                Some((last, all)) if *last == stream => all.push_str(text),
                _ => passed.push((stream, text.to_owned())),
            };
            let mut pushed: Vec<(OutputStream, String)> = Vec::new();
            for (is_error, text, pause) in steps {
                let stream = if is_error { Stderr } else { Stdout };
                batcher.push(stream, &text, now, &mut pass);
                prop_assert!(batcher.due().is_none_or(|due| due <= now + interval));
                if !text.is_empty() {
                    match pushed.last_mut() {
                        Some((last, all)) if *last == stream => all.push_str(&text),
                        _ => pushed.push((stream, text)),
                    }
                }
                now += Duration::from_millis(pause);
                if batcher.due().is_some_and(|due| now >= due) {
                    batcher.flush(now, &mut pass);
                }
            }
            batcher.flush(now, &mut pass);
            prop_assert_eq!(passed, pushed);
        }
    }
}
