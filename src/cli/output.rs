//! What the program itself prints: text on standard output, lines on standard error.

use std::io::Write;

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

/// One line on standard error, which holds no control characters of others.
pub(super) fn say(text: &str) {
    // Nobody is left to be told where standard error is gone.
    let _ = writeln!(
        std::io::stderr(),
        "td-observe: {}",
        crate::face::one_line(text)
    );
}
