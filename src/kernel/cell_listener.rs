//! The listener of a running cell, and the cell's end.

use std::time::Instant;

use super::cell::{CellOutput, CellStatus};
use super::feed::MissedOutputs;

/// Receives the outputs and questions of a cell.
pub(crate) trait CellListener {
    /// Receives an output.
    fn output(&mut self, output: &CellOutput);

    /// Receives the number of outputs that were dropped because the caller was too slow.
    fn missed(&mut self, missed: MissedOutputs);

    /// Returns the answer to a question of the code; `None` if there is no answer, or once `is_over()`
    /// returns true because the question is void.
    fn answer(
        &mut self,
        prompt: &str,
        is_password: bool,
        is_over: &dyn Fn() -> bool,
    ) -> Option<String> {
        let _ = (prompt, is_password, is_over);
        None
    }

    /// Returns true if the code may ask for input.
    fn allows_questions(&self) -> bool {
        false
    }

    /// Called no later than the time that the previous call returned.
    fn tick(&mut self, now: Instant) -> Option<Instant> {
        let _ = now;
        None
    }
}

/// A listener that ignores all outputs.
pub(super) struct DiscardedOutput;

impl CellListener for DiscardedOutput {
    fn output(&mut self, _: &CellOutput) {}

    fn missed(&mut self, _: MissedOutputs) {}
}

/// The end of a cell.
#[derive(Clone, Debug)]
pub(crate) struct CellEnd {
    pub status: CellStatus,
    pub count: Option<u32>,
}
