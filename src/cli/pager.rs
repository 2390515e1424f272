//! Shows long text on a terminal: this process becomes `$PAGER`, or `less -FR`.

use std::convert::Infallible;
use std::ffi::CString;
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::process::ExitCode;

use nix::unistd::execvp;

use super::failure::Failure;
use crate::face::terminal_size;

/// The default pager. With these options, it ends at once if the text fits on the screen, and shows colours.
const PAGER: &str = "less -FR";

/// Maximum width of text, because longer lines are hard to read.
const WIDTH_MAX: usize = 100;
/// Minimum width of text. Narrower text cannot be laid out.
const WIDTH_MIN: usize = 20;

/// Returns the width of text in columns; `None` if standard output is not a terminal.
pub(super) fn terminal_width() -> Option<usize> {
    let (columns, _) = io::stdout().is_terminal().then(terminal_size)?;
    Some(columns.clamp(WIDTH_MIN, WIDTH_MAX))
}

/// Prints the text, through a pager if standard output is a terminal.
pub(super) fn page(text: &str) -> Result<ExitCode, Failure> {
    if io::stdout().is_terminal() {
        let pager = std::env::var("PAGER").unwrap_or_else(|_| PAGER.to_owned());
        // An empty variable disables the pager, as for man and git.
        let words = shlex::split(&pager).unwrap_or_default();
        if !words.is_empty() {
            // If the pager cannot be started, the text is printed.
            let Err(error) = become_pager(&words, text);
            log::info!("cannot start the pager {pager:?}: {error}");
        }
    }
    super::output::print(text)
}

/// Replaces this process with the pager, which thereby owns the terminal and sets the exit code.
fn become_pager(words: &[String], text: &str) -> io::Result<Infallible> {
    let words = words.iter().map(|word| CString::new(word.as_str()));
    let words = words.collect::<Result<Vec<CString>, _>>()?;
    let Some(program) = words.first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // The file has no name, so it disappears with the pager.
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.seek(SeekFrom::Start(0))?;
    let kept = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    rustix::stdio::dup2_stdin(&file)?;
    let failed = execvp(program, &words);
    // The pager was not started: restores standard input.
    rustix::stdio::dup2_stdin(&kept)?;
    match failed {
        Ok(never) => match never {},
        Err(errno) => Err(errno.into()),
    }
}
