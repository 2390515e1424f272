//! Long text on a terminal: this process becomes `$PAGER`, or `less -FR`.

use std::convert::Infallible;
use std::ffi::CString;
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};

use nix::unistd::execvp;

use super::failure::Failure;

/// The pager where `$PAGER` names none: it ends at once where the text fits the screen, and shows
/// colours.
const PAGER: &str = "less -FR";

/// Lines that are longer are hard to read.
const WIDTH_MAX: usize = 100;
/// Below this no text can be laid out.
const WIDTH_MIN: usize = 20;

/// The columns that text may fill; `None` where standard output is no terminal.
pub(super) fn terminal_width() -> Option<usize> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    // A terminal without a size is as wide as most are.
    let columns = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| size.ws_col);
    match usize::from(columns) {
        0 => Some(80),
        columns => Some(columns.clamp(WIDTH_MIN, WIDTH_MAX)),
    }
}

/// Prints the text: through a pager where standard output is a terminal, else as it is.
pub(super) fn page(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        let typed = std::env::var("PAGER").unwrap_or_else(|_| PAGER.to_owned());
        // A variable that is set and empty wants no pager, as man and git read it.
        let words = shlex::split(&typed).unwrap_or_default();
        if !words.is_empty() {
            // Where it cannot be started, the text is printed.
            let Err(error) = become_pager(&words, text);
            log::info!("cannot start the pager {typed:?}: {error}");
        }
    }
    super::output::print(text)
}

/// Replaces this process by the pager, so that it owns the terminal, the keys and the exit code.
fn become_pager(words: &[String], text: &str) -> io::Result<Infallible> {
    let words = words.iter().map(|word| CString::new(word.as_str()));
    let words = words.collect::<Result<Vec<CString>, _>>()?;
    let Some(program) = words.first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // A file without a name: it goes with the pager.
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.seek(SeekFrom::Start(0))?;
    let kept = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    rustix::stdio::dup2_stdin(&file)?;
    let failed = execvp(program, &words);
    // Still here: standard input is as it was.
    rustix::stdio::dup2_stdin(&kept)?;
    match failed {
        Ok(never) => match never {},
        Err(errno) => Err(errno.into()),
    }
}
