//! The output of the program itself: text on standard output, lines on standard error.

use std::io::Write;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use super::failure::Failure;

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
    let _ = writeln!(
        std::io::stderr(),
        "td-observe: {}",
        crate::face::one_line(text)
    );
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
