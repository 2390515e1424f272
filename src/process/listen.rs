//! Running a command to its end for somebody who wants its bytes as they are read, and makes of
//! them what he likes.

use std::time::Duration;

use super::command::Command;
use super::outcome::Outcome;
use super::run::{LINGER, fed_with};
use super::start::{Started, start};
use crate::child::{Attendance, Bounds, Listener};
use crate::error::{Error, Result};
use crate::thread::Stop;

/// Runs it to its end, in this thread. When `stop` is closed its group is asked to end, and killed
/// after `stop_grace`; the stop is seen within 100 ms.
///
/// Of the command's own hearers, its format, its limits of lines and bytes nothing is used; nor a
/// terminal, given or its own.
pub(crate) fn listen(
    command: &Command,
    stop: &Stop,
    stop_grace: Duration,
    listener: &mut impl Listener,
) -> Result<Outcome> {
    let began = command.clock.now();
    let Started {
        mut group,
        outlets,
        fed,
        ..
    } = start(command)?;
    let name = command.name();
    let inlet = fed_with(fed, &command.stdin, &name)?;
    let bounds = Bounds {
        deadline: command
            .timeout
            .and_then(|timeout| began.checked_add(timeout)),
        grace: command.grace,
        stop_grace,
        linger: LINGER,
    };
    let attended = Attendance {
        group: &mut group,
        inlet,
        outlets,
        bounds,
        orders: &command.control.orders,
        stop,
        clock: &command.clock,
    }
    .run(listener);
    let attended = attended.map_err(|cause| {
        group.kill_and_reap(&command.clock);
        Error::other(format!("cannot attend {name}")).because(cause)
    })?;
    let duration = command.clock.now().saturating_duration_since(began);
    Ok(Outcome::new(&attended, duration, 0))
}
