//! Listening to a kernel: the cells that its clients run, from what it publishes to all.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use super::cell::{Cell, CellOutput, CellStatus, CellStep};
use super::cell_listener::CellEnd;
use super::client::Kernel;
use super::content::ShutdownContent;
use super::feed::{Incoming, MissedOutputs};
use super::wire::{Channel, Message};
use crate::error::Result;

/// The most cells of other clients that are followed at the same time. A kernel runs one, and some in
/// subshells.
const CELLS_MAX: usize = 256;

/// The most ended cells whose late outputs are passed on.
const ENDED_MAX: usize = 64;

/// An act of a kernel's clients, as one that only listens sees it.
#[derive(Debug)]
pub(crate) enum Heard<'a> {
    /// A client runs code; empty if it began before.
    Begins {
        cell: &'a str,
        code: &'a str,
        count: Option<u32>,
    },
    Output {
        output: CellOutput,
    },
    Ends {
        cell: &'a str,
        end: CellEnd,
    },
    Missed(MissedOutputs),
    /// The kernel has not answered its heartbeat, or answers again.
    Beating(bool),
    /// The kernel has closed its connections: it has ended, or restarts.
    Disconnected,
    /// The kernel was restarted.
    Restarted,
    Nothing,
}

/// The cells that the clients of a kernel run.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    cells: HashMap<String, Cell>,
    /// The last cells that have ended: a thread of theirs may still print.
    ended: VecDeque<String>,
    was_disconnected: bool,
}

impl Listening {
    /// Waits for the next report of a kernel, at most until the deadline, and passes it on.
    ///
    /// # Errors
    /// `is_gone()` when the kernel has ended, or the caller is to stop; `Ok(false)` if the kernel was shut down
    /// in order.
    pub fn next(
        &mut self,
        kernel: &Kernel,
        deadline: Option<Instant>,
        hear: &mut dyn FnMut(Heard<'_>),
    ) -> Result<bool> {
        match kernel.receive(deadline)? {
            None | Some(Incoming::Restarting) => hear(Heard::Nothing),
            Some(Incoming::Connected) => {
                if std::mem::take(&mut self.was_disconnected) {
                    hear(Heard::Restarted);
                } else {
                    hear(Heard::Nothing);
                }
            }
            Some(Incoming::Message(message)) => return Ok(self.message(&message, hear)),
            Some(Incoming::Missed(missed)) => hear(Heard::Missed(missed)),
            Some(Incoming::Beating(is_beating)) => hear(Heard::Beating(is_beating)),
            Some(Incoming::Disconnected) => {
                self.was_disconnected = true;
                hear(Heard::Disconnected);
                // Their ends do not come any more.
                for (id, cell) in self.cells.drain() {
                    let end = CellEnd {
                        status: CellStatus::Aborted,
                        count: cell.count,
                    };
                    hear(Heard::Ends { cell: &id, end });
                }
            }
            Some(Incoming::Gone(error)) => return Err(error),
        }
        Ok(true)
    }

    /// Returns false if the kernel was shut down.
    fn message(&mut self, message: &Message, hear: &mut dyn FnMut(Heard<'_>)) -> bool {
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
                hear(Heard::Output { output });
            }
            return true;
        }
        let is_new = !self.cells.contains_key(id);
        // `busy` precedes the code.
        if is_new && (message.msg_type == "status" || self.cells.len() >= CELLS_MAX) {
            return true;
        }
        let cell = self.cells.entry(id.to_owned()).or_default();
        match cell.take(message) {
            CellStep::Begins { code, count } => hear(Heard::Begins {
                cell: id,
                code: &code,
                count,
            }),
            CellStep::Output(output) => {
                if is_new {
                    hear(Heard::Begins {
                        cell: id,
                        code: "",
                        count: None,
                    });
                }
                hear(Heard::Output { output });
            }
            CellStep::Question(_) | CellStep::Nothing => {}
        }
        if cell.is_idle() {
            let end = CellEnd {
                status: cell.status().clone(),
                count: cell.count,
            };
            self.cells.remove(id);
            self.ended.push_back(id.to_owned());
            if self.ended.len() > ENDED_MAX {
                self.ended.pop_front();
            }
            hear(Heard::Ends { cell: id, end });
        }
        true
    }
}

#[cfg(test)]
#[path = "listening_tests.rs"]
mod tests;
