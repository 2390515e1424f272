//! Running a command to its end for somebody who wants its bytes as they are read, and makes of
//! them what he likes.

use std::time::Duration;

use super::attending::{Attending, fed};
use super::command::Command;
use super::outcome::CommandOutcome;
use super::start::{Started, start};
use crate::child::ChildListener;
use crate::error::Result;
use crate::thread::Stop;

/// Runs it to its end, in this thread. When `stop` is closed its group is asked to end, and killed
/// after `stop_grace`; the stop is seen within 100 ms.
///
/// Of the command's own hearers, its format, its limits of lines and bytes nothing is used; nor a
/// terminal, given or its own.
pub(crate) fn run_with_listener(
    command: &Command,
    stop: &Stop,
    stop_grace: Duration,
    listener: &mut impl ChildListener,
) -> Result<CommandOutcome> {
    let began = command.clock.now();
    let Started {
        mut group,
        outlets,
        fed: pipe,
        ..
    } = start(command)?;
    let attended = Attending {
        command,
        began,
        inlet: fed(pipe, command)?,
        group: &mut group,
        outlets,
        stop,
        stop_grace,
    }
    .run(listener)?;
    let duration = command.clock.now().saturating_duration_since(began);
    Ok(CommandOutcome::new(&attended, duration, 0))
}
