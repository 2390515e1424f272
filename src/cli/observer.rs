//! `td-observe start`, `stop` and `service`: the observer in the background.

mod announcement;
mod args;
mod background;
mod foreground;
#[cfg(feature = "tui")]
mod private;
mod service;

use std::io::Write;
use std::process::ExitCode;

use super::failure::Failure;
use super::options::Options;

pub(super) use announcement::running;
pub(super) use args::{STOP_EXAMPLES, TypedService, TypedStart};
pub(super) use background::stop;
#[cfg(feature = "tui")]
pub(super) use private::PrivateObserver;
pub(super) use service::run as service;

pub(super) fn start(options: &Options, typed: &TypedStart) -> Result<ExitCode, Failure> {
    if typed.foreground {
        foreground::run(options, typed)
    } else {
        background::start(options, typed)
    }
}

/// Returns the destination of the observer's diagnostics; `None` for standard error.
pub(super) fn log(
    options: &Options,
    typed: &TypedStart,
) -> Result<Option<Box<dyn Write + Send>>, Failure> {
    if !typed.detached {
        return Ok(None);
    }
    let log = background::RotatedLog::new(&options.home()?);
    Ok(Some(Box::new(log)))
}
