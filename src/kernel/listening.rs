//! Listens to a kernel: follows the cells that other clients run, from the kernel's published messages.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use super::cell::{Cell, CellOutput, CellStatus, CellStep};
use super::client::Kernel;
use super::content::ShutdownContent;
use super::feed::{Incoming, MissedOutputs};
use super::wire::{Channel, Message};
use crate::error::Result;

/// The most cells that are followed at the same time. A kernel runs one cell, and a few more in subshells.
const CELLS_MAX: usize = 256;

/// The number of ended cells whose late outputs are still reported.
const ENDED_MAX: usize = 64;

/// An observed activity of a kernel's clients.
#[derive(Debug)]
pub(crate) enum Activity<'a> {
    /// A client runs code. The code is empty if it began before the observation.
    Begins {
        cell: &'a str,
        code: &'a str,
        count: Option<u32>,
    },
    Output(CellOutput),
    Ends {
        cell: &'a str,
        status: CellStatus,
    },
    Missed(MissedOutputs),
    /// The state of the kernel or of its connection has changed, in words.
    Warning(&'static str),
}

/// Follows the cells that the clients of a kernel run.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    cells: HashMap<String, Cell>,
    /// The cells that ended last. Their threads may still print.
    ended: VecDeque<String>,
    was_disconnected: bool,
}

impl Listening {
    /// Waits for the next report of a kernel, at most until the deadline, and passes the resulting activity
    /// on. Returns `Ok(false)` if the kernel was shut down in order.
    ///
    /// # Errors
    /// `is_gone()` when the kernel has ended, or the caller must stop.
    pub fn next(
        &mut self,
        kernel: &Kernel,
        deadline: Option<Instant>,
        on_activity: &mut dyn FnMut(Activity<'_>),
    ) -> Result<bool> {
        match kernel.receive(deadline)? {
            None | Some(Incoming::Restarting) => {}
            Some(Incoming::Connected) => {
                if std::mem::take(&mut self.was_disconnected) {
                    on_activity(Activity::Warning("the kernel was restarted"));
                }
            }
            Some(Incoming::Message(message)) => return Ok(self.message(&message, on_activity)),
            Some(Incoming::Missed(missed)) => on_activity(Activity::Missed(missed)),
            Some(Incoming::Beating(is_beating)) => {
                on_activity(Activity::Warning(match is_beating {
                    true => "the kernel answers its heartbeat again",
                    false => "the kernel has not answered its heartbeat for 3 s",
                }))
            }
            Some(Incoming::Disconnected) => {
                self.was_disconnected = true;
                on_activity(Activity::Warning("the kernel has closed its connections"));
                // The kernel will not report the end of these cells.
                for (id, _) in self.cells.drain() {
                    let status = CellStatus::Aborted;
                    on_activity(Activity::Ends { cell: &id, status });
                }
            }
            Some(Incoming::Gone(error)) => return Err(error),
        }
        Ok(true)
    }

    /// Handles a message; returns false if the kernel was shut down.
    fn message(&mut self, message: &Message, on_activity: &mut dyn FnMut(Activity<'_>)) -> bool {
        if message.channel != Channel::Iopub {
            return true;
        }
        if message.msg_type == "shutdown_reply" {
            let content: ShutdownContent = message.content().unwrap_or_default();
            return content.restart;
        }
        let id = message.parent_id.as_str();
        if message.parent_type != "execute_request" {
            return true;
        }
        if self.ended.iter().any(|ended| ended == id) {
            if let CellStep::Output(output) = Cell::default().take(message) {
                on_activity(Activity::Output(output));
            }
            return true;
        }
        let is_new = !self.cells.contains_key(id);
        // The state `busy` arrives before the code.
        if is_new && (message.msg_type == "status" || self.cells.len() >= CELLS_MAX) {
            return true;
        }
        let cell = self.cells.entry(id.to_owned()).or_default();
        match cell.take(message) {
            CellStep::Begins { code, count } => on_activity(Activity::Begins {
                cell: id,
                code: &code,
                count,
            }),
            CellStep::Output(output) => {
                if is_new {
                    on_activity(Activity::Begins {
                        cell: id,
                        code: "",
                        count: None,
                    });
                }
                on_activity(Activity::Output(output));
            }
            CellStep::Question(_) | CellStep::Nothing => {}
        }
        if cell.is_idle {
            let status = cell.status.clone();
            self.cells.remove(id);
            self.ended.push_back(id.to_owned());
            if self.ended.len() > ENDED_MAX {
                self.ended.pop_front();
            }
            on_activity(Activity::Ends { cell: id, status });
        }
        true
    }
}

#[cfg(test)]
#[path = "listening_tests.rs"]
mod tests;
