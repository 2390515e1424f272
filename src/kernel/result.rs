//! Runs code with an output callback, and returns the complete result at the end.

use std::time::{Duration, Instant};

use super::batcher::TextBatcher;
use super::cell::{CellListener, CellOutput, CellStatus};
use super::client::Kernel;
use super::feed::MissedOutputs;
use crate::clock::Clock;
use crate::error::Result;
use crate::event::OutputStream;
use crate::text::first_bytes;

/// The outcome of code that a kernel ran, with everything that it printed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ExecutionResult {
    /// The outcome of the code.
    pub status: CellStatus,
    /// The kernel's execution counter, if it sent one.
    pub execution_count: Option<u32>,
    /// The text printed on standard output, including displayed values.
    pub stdout: String,
    /// The text printed on standard error, including tracebacks.
    pub stderr: String,
    /// The number of bytes beyond [`Kernel::collect_at_most`]. Only the callback received them.
    pub lost_bytes: u64,
    /// Outputs that were dropped because the callback was too slow.
    pub missed: MissedOutputs,
    /// The time from the request to the end of the code.
    pub duration: Duration,
}

impl Kernel {
    /// Runs code, calls `on_output` with each text as it arrives, and returns the complete result. The texts
    /// of a stream add up to its text in the result.
    ///
    /// Tracebacks keep their ANSI colours. Code that asks for input (`input()`) gets an error, because there
    /// is no user.
    ///
    /// # Errors
    /// `is_gone()` if the kernel ended, was restarted, or has not answered its heartbeat for 3 s;
    /// `is_timeout()` if it does not answer its first request. An exception of the code is reported in
    /// [`ExecutionResult::status`], not as an error.
    pub fn execute(
        &mut self,
        code: &str,
        on_output: impl FnMut(OutputStream, &str),
    ) -> Result<ExecutionResult> {
        let began = self.clock.now();
        let mut collector = Collector {
            on_output,
            batcher: TextBatcher::new(self.interval),
            clock: self.clock.clone(),
            bytes_max: self.collected_bytes,
            result: ExecutionResult::default(),
        };
        let end = self.run(code, &mut collector)?;
        let now = collector.clock.now();
        collector.batcher.flush(now, &mut collector.on_output);
        Ok(ExecutionResult {
            status: end.status,
            execution_count: end.count,
            duration: now.saturating_duration_since(began),
            ..collector.result
        })
    }

    /// Sets the shortest interval between two calls of the callback, such as 100 ms. Defaults to zero, which
    /// passes on each text as it arrives. Text after a pause is passed on immediately.
    pub fn batch_outputs(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// Sets the number of bytes of each stream that a result keeps. Defaults to 256 MiB.
    pub fn collect_at_most(&mut self, bytes: usize) {
        self.collected_bytes = bytes;
    }
}

struct Collector<F> {
    on_output: F,
    batcher: TextBatcher,
    clock: Clock,
    bytes_max: usize,
    result: ExecutionResult,
}

impl<F: FnMut(OutputStream, &str)> CellListener for Collector<F> {
    fn output(&mut self, output: &CellOutput) {
        let Some((stream, text)) = output.text() else {
            return;
        };
        let collected = match stream {
            OutputStream::Stdout => &mut self.result.stdout,
            OutputStream::Stderr => &mut self.result.stderr,
        };
        let room = self.bytes_max.saturating_sub(collected.len());
        let kept = first_bytes(&text, room);
        collected.push_str(kept);
        self.result.lost_bytes += (text.len() - kept.len()) as u64;
        self.batcher
            .push(stream, &text, self.clock.now(), &mut self.on_output);
    }

    fn missed(&mut self, missed: MissedOutputs) {
        self.result.missed.add(missed);
    }

    fn tick(&mut self, now: Instant) -> Option<Instant> {
        if self.batcher.due().is_some_and(|due| now >= due) {
            self.batcher.flush(now, &mut self.on_output);
        }
        self.batcher.due()
    }
}
