//! The output of the program itself: text on standard output, messages and diagnostics on standard error.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use env_logger::{Builder, Target};
use log::LevelFilter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use super::failure::Failure;
#[cfg(feature = "http")]
use crate::agent_loop::SECRET_LOG_TARGETS;
#[cfg(feature = "tui")]
use crate::face::is_dumb;
use crate::face::one_line;

/// Prints one line on standard error; takes the arguments of `format!`.
macro_rules! message {
    ($($text:tt)*) => { $crate::cli::output::print_message(&format!($($text)*)) };
}

/// Prints text on standard output, and returns the exit code of success. A closed output is no error.
pub(super) fn print(text: &str) -> Result<ExitCode, Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match crate::face::unless_broken_pipe(written) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(failure!("cannot write to standard output: {error}")),
    }
}

/// Returns values as lines of JSON, without control characters.
pub(super) fn json_lines<'v, T: Serialize + 'v>(values: impl IntoIterator<Item = &'v T>) -> String {
    let mut lines = String::new();
    for value in values {
        crate::face::push_line(&mut lines, value);
    }
    lines
}

/// Returns true if a terminal shows this program, and can be drawn on.
#[cfg(feature = "tui")]
pub(super) fn has_terminal() -> bool {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    stdin.is_terminal() && stdout.is_terminal() && !is_dumb()
}

/// Returns true if standard output no longer has a reader.
pub(super) fn is_unread() -> bool {
    let stdout = std::io::stdout();
    // The system always reports errors and hang-ups, without flags.
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
        && (fds[0].revents()).intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Prints one line on standard error, without control characters.
pub(super) fn print_message(text: &str) {
    // Without standard error, the message cannot be shown elsewhere.
    let _ = writeln!(std::io::stderr(), "td-observe: {}", one_line(text));
}

/// Starts the diagnostics: warnings by default, more with `-v` or `RUST_LOG`. `out` replaces standard error.
pub(super) fn start_diagnostics(verbose: u8, out: Option<Box<dyn Write + Send>>) {
    let level = match verbose {
        0 => LevelFilter::Warn,
        1 => LevelFilter::Info,
        _ => LevelFilter::Debug,
    };
    // On a terminal that also shows events, a record erases the live line; the next event redraws it.
    let shares_terminal =
        out.is_none() && std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
    let start = if shares_terminal { "\r\x1b[K" } else { "" };
    let mut builder = Builder::new();
    builder
        .filter_level(level)
        .target(out.map_or(Target::Stderr, Target::Pipe))
        .format(move |out, record| {
            writeln!(
                out,
                "{start}td-observe: {}",
                one_line(&record.args().to_string())
            )
        });
    if let Ok(filters) = std::env::var("RUST_LOG") {
        builder.parse_filters(&filters);
    }
    // These targets log API keys. They are full module paths, so no filter in `RUST_LOG` is more specific.
    #[cfg(feature = "http")]
    for target in SECRET_LOG_TARGETS {
        builder.filter_module(target, LevelFilter::Off);
    }
    // An embedding program keeps the logger that it has already installed.
    let _ = builder.try_init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_json_have_no_control_characters() {
        let lines = json_lines(&["a\u{9b}1m\x7f", "b"]);
        assert_eq!(lines, "\"a\\u009b1m\\u007f\"\n\"b\"\n");
    }
}
