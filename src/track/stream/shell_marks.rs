//! The marks of shells around their commands (OSC 133): prompt, command, output, end (pure).

use avt::parser::ShellIntegration;

use super::terminal::{Position, Terminal};

/// The most marks that wait to be taken. Shells print four per command.
const MARKS_MAX: usize = 4096;

/// The longest command that is reported, in bytes. Commands are for people to read.
const COMMAND_BYTES_MAX: usize = 16 * 1024;

/// A message of a shell about its commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellMark {
    /// A prompt begins.
    Prompt,
    /// The prompt has ended and input begins.
    Input,
    /// A command has started, and its output follows.
    Started {
        /// The command as shown on the screen, with `\n` between its lines; `None` if its beginning is
        /// not known any more. It includes a right prompt.
        command: Option<String>,
    },
    /// The command has ended, or the user has left a prompt without one.
    Finished {
        /// Its exit status, if the shell reported it.
        exit_status: Option<u8>,
    },
}

/// The marks that wait to be taken.
#[derive(Debug, Default)]
pub(super) struct Marks {
    waiting: Vec<ShellMark>,
    /// The beginning of the command: a row, counted from the first one ever, and a column.
    input: Option<(i64, usize)>,
}

impl Marks {
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= MARKS_MAX
    }

    pub fn take(&mut self) -> Vec<ShellMark> {
        std::mem::take(&mut self.waiting)
    }

    /// Forgets where the command began.
    pub fn forget(&mut self) {
        self.input = None;
    }

    pub fn push(&mut self, mark: ShellIntegration, terminal: &Terminal) {
        let Position { x, y } = terminal.cursor;
        let top = terminal.grid.scrolled.total();
        self.waiting.push(match mark {
            ShellIntegration::PromptStart => {
                self.input = None;
                ShellMark::Prompt
            }
            ShellIntegration::CommandStart => {
                self.input = terminal.saved.is_none().then_some((top + y as i64, x));
                ShellMark::Input
            }
            ShellIntegration::CommandExecuted => ShellMark::Started {
                command: self.input.take().and_then(|from| command(terminal, from)),
            },
            ShellIntegration::CommandFinished { exit_status } => {
                self.input = None;
                ShellMark::Finished { exit_status }
            }
        });
    }
}

/// Returns the text between a position and the cursor.
fn command(terminal: &Terminal, (row, column): (i64, usize)) -> Option<String> {
    if terminal.saved.is_some() {
        return None;
    }
    let first = usize::try_from(row - terminal.grid.scrolled.total()).ok()?;
    let Position { x, y } = terminal.cursor;
    let mut text = String::new();
    for (at, grid_row) in terminal
        .grid
        .rows
        .iter()
        .enumerate()
        .take(y + 1)
        .skip(first)
    {
        let from = if at == first { column } else { 0 };
        let to = if at == y { x } else { grid_row.cells.len() };
        for x in from..to.min(grid_row.cells.len()) {
            terminal.grid.clusters.show(grid_row.get(x), &mut text);
        }
        if !grid_row.wrapped {
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        if text.len() > COMMAND_BYTES_MAX {
            return None;
        }
    }
    text.truncate(text.trim_end().len());
    Some(text)
}
