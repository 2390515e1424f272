//! Runs a program that the user sees on the terminal of this one, until it ends.

use std::convert::Infallible;
use std::process::{Command, ExitStatus};

use crossbeam_channel::{Receiver, bounded, select_biased};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::group::cannot_start;
use crate::error::{Error, Result};
use crate::thread;

/// A program that the user is about to see on the terminal of this one.
#[derive(Debug)]
pub(crate) struct TerminalProgram(pub Command);

impl TerminalProgram {
    /// Runs the program as [`run_on_terminal`] does.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(mut self, signals: &Receiver<i32>) -> Result<Option<ExitStatus>> {
        run_on_terminal(&mut self.0, signals)
    }
}

/// Runs a command, which shares the terminal with this program, and therefore its process group. If a signal ends this
/// program, it also ends the command, and no status is returned.
///
/// # Errors
/// If the command cannot be started.
pub(crate) fn run_on_terminal(
    command: &mut Command,
    signals: &Receiver<i32>,
) -> Result<Option<ExitStatus>> {
    let started = command.spawn();
    let mut client = started.map_err(|cause| cannot_start(command.get_program(), None, cause))?;
    let pid = Pid::from_child(&client);
    let (done, ended) = bounded::<Infallible>(0);
    // Does not reap the process, so that until then the process id remains the client's.
    let waiting = thread::spawn("td-visit", move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // Whatever it returns, reaping determines the exit.
        let _ = retry_on_intr(|| waitid(WaitId::Pid(pid), options));
        drop(done);
    });
    let mut is_interrupted = false;
    if waiting.is_ok() {
        select_biased! {
            recv(signals) -> _ => {
                is_interrupted = true;
                // The client restores the terminal and ends.
                let _ = kill_process(pid, Signal::TERM);
            }
            recv(ended) -> _ => {}
        }
    }
    let status = client
        .wait()
        .map_err(|cause| Error::other("cannot wait for the program").because(cause))?;
    waiting?.join_logged();
    Ok((!is_interrupted).then_some(status))
}
