//! The output of the program itself: text on standard output, lines on standard error.

use std::io::Write;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::failure::Failure;

/// Text on standard output. A reader that has gone away has read enough.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    crate::face::unless_broken_pipe(written)
        .map_err(|error| Failure::other(format!("cannot write to standard output: {error}")))
}

/// Returns true if nothing reads standard output any more.
pub(super) fn is_unread() -> bool {
    let stdout = std::io::stdout();
    // Errors and hang-ups are reported without being asked for.
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
        && (fds[0].revents()).intersects(PollFlags::ERR | PollFlags::HUP)
}

/// One line on standard error, which holds no control characters of others.
pub(super) fn print_message(text: &str) {
    // Where standard error is closed, there is no other place for the message.
    let _ = writeln!(
        std::io::stderr(),
        "td-observe: {}",
        crate::face::one_line(text)
    );
}
