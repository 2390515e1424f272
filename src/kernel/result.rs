//! Running code with a callback, and the whole result at the end.

use std::time::{Duration, Instant};

use super::batcher::TextBatcher;
use super::cell::{CellOutput, CellStatus};
use super::cell_listener::CellListener;
use super::client::Kernel;
use super::feed::MissedOutputs;
use crate::clock::Clock;
use crate::error::Result;
use crate::event::OutputStream;

/// The end of code that a kernel ran, and everything that it printed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ExecutionResult {
    /// The end of the code.
    pub status: CellStatus,
    /// The kernel's number of the execution, if it counted it.
    pub execution_count: Option<u32>,
    /// The text printed on standard output, with values as text.
    pub stdout: String,
    /// The text printed on standard error, with tracebacks.
    pub stderr: String,
    /// The bytes beyond [`Kernel::collect_at_most`]; the callback got them.
    pub lost_bytes: u64,
    /// Outputs that came faster than the callback took them.
    pub missed: MissedOutputs,
    /// The time from the request to the end.
    pub duration: Duration,
}

impl Kernel {
    /// Runs code, calls `on_output` as each text comes, and returns the whole result. The texts of a stream
    /// together are what the result has of it.
    ///
    /// Tracebacks keep their colours (ANSI). Code that asks (`input()`) gets an error: there is no user.
    ///
    /// # Errors
    /// `is_gone()` if the kernel ended, was restarted, or has not answered its heartbeat for 3 s;
    /// `is_timeout()` if it does not answer its first request. Code that raises an exception is no error: see
    /// [`ExecutionResult::status`].
    pub fn execute(
        &mut self,
        code: &str,
        on_output: impl FnMut(OutputStream, &str),
    ) -> Result<ExecutionResult> {
        let began = self.clock().now();
        let mut collector = Collector {
            on_output,
            batcher: TextBatcher::new(self.interval),
            clock: self.clock().clone(),
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

    /// Sets how often the callback is called while text keeps coming, such as 100 ms. Defaults to zero: as
    /// each text comes. Text after a pause is passed on at once.
    pub fn batch_outputs(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// Sets how many bytes of each stream a result keeps; defaults to 256 MiB.
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
        let up_to = (0..=room.min(text.len())).rev();
        let kept = up_to
            .into_iter()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        collected.push_str(&text[..kept]);
        self.result.lost_bytes += (text.len() - kept) as u64;
        self.batcher
            .push(stream, &text, self.clock.now(), &mut self.on_output);
    }

    fn missed(&mut self, missed: MissedOutputs) {
        self.result.missed.add(missed);
    }

    fn answer(&mut self, _: &str, _: bool, _: &dyn Fn() -> bool) -> Option<String> {
        None
    }

    fn allows_questions(&self) -> bool {
        false
    }

    fn tick(&mut self, now: Instant) -> Option<Instant> {
        if self.batcher.due().is_some_and(|due| now >= due) {
            self.batcher.flush(now, &mut self.on_output);
        }
        self.batcher.due()
    }
}
