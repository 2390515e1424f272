//! The marks that shells make around their commands (OSC 133): prompt, command, output, end (pure).

use avt::parser::ShellIntegration;

use super::terminal::{Position, Terminal};

/// So many marks may wait to be taken; shells print four a command.
const MARKS_MAX: usize = 4096;

/// The longest command that is given, in bytes: it is for people to read.
const COMMAND_BYTES_MAX: usize = 16 * 1024;

/// A message of a shell about its commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellMark {
    /// A prompt begins.
    Prompt,
    /// The prompt has ended, the command is typed.
    Input,
    /// A command has been started; its output follows.
    Started {
        /// The command as the screen showed it, several lines of it with `\n` in between; `None`
        /// where its beginning is not known any more. A right prompt is part of it.
        command: Option<String>,
    },
    /// The command has ended, or a prompt was left without one.
    Finished {
        /// Its exit status, where the shell reported it.
        exit_status: Option<u8>,
    },
}

/// Notes marks as they come.
#[derive(Debug, Default)]
pub(super) struct Marks {
    waiting: Vec<ShellMark>,
    /// Where the command begins: a row counted from the first that ever was, and a column.
    input: Option<(i64, usize)>,
}

impl Marks {
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= MARKS_MAX
    }

    pub fn take(&mut self) -> Vec<ShellMark> {
        std::mem::take(&mut self.waiting)
    }

    /// Where the command began is not known any more.
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
    for (at, line) in terminal
        .grid
        .rows
        .iter()
        .enumerate()
        .take(y + 1)
        .skip(first)
    {
        let from = if at == first { column } else { 0 };
        let to = if at == y { x } else { line.cells.len() };
        for x in from..to.min(line.cells.len()) {
            terminal.grid.clusters.show(line.get(x), &mut text);
        }
        if !line.wrapped {
            let blanks = text.len() - text.trim_end_matches(' ').len();
            text.truncate(text.len() - blanks);
            text.push('\n');
        }
        if text.len() > COMMAND_BYTES_MAX {
            return None;
        }
    }
    text.truncate(text.trim_end().len());
    Some(text)
}
