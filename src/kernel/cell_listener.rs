//! The listener of a running cell, and the cell's end.

use std::time::Instant;

use super::cell::{CellOutput, CellStatus};
use super::feed::MissedOutputs;

/// Receives what a cell reports.
pub(crate) trait CellListener {
    /// Receives an output.
    fn output(&mut self, output: &CellOutput);

    /// Receives the number of outputs that the caller was too slow for.
    fn missed(&mut self, missed: MissedOutputs);

    /// Returns the answer to a question of the code; `None` if there is none, or when `is_over()`: the kernel
    /// asks no more.
    fn answer(
        &mut self,
        prompt: &str,
        is_password: bool,
        is_over: &dyn Fn() -> bool,
    ) -> Option<String>;

    /// Returns true if the code may ask.
    fn allows_questions(&self) -> bool;

    /// Called at least at the returned time.
    fn tick(&mut self, now: Instant) -> Option<Instant>;
}

/// The listener of code whose outputs are of no interest.
pub(super) struct Unheard;

impl CellListener for Unheard {
    fn output(&mut self, _: &CellOutput) {}

    fn missed(&mut self, _: MissedOutputs) {}

    fn answer(&mut self, _: &str, _: bool, _: &dyn Fn() -> bool) -> Option<String> {
        None
    }

    fn allows_questions(&self) -> bool {
        false
    }

    fn tick(&mut self, _: Instant) -> Option<Instant> {
        None
    }
}

/// The end of a cell.
#[derive(Clone, Debug)]
pub(crate) struct CellEnd {
    pub status: CellStatus,
    pub count: Option<u32>,
}
