//! The messages of programs to their terminal, other than text: a shell's marks around its commands (OSC 133),
//! titles, notifications, progress and the bell (pure).

use super::terminal::{Position, Terminal};

/// The most marks and notices that wait to be taken. Shells print four marks per command.
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

/// The marks and notices that wait to be taken.
#[derive(Debug, Default)]
pub(super) struct Marks {
    pub waiting: Vec<ShellMark>,
    pub notices: Vec<TerminalNotice>,
    /// The beginning of the command: a row, counted from the first one ever, and a column.
    input: Option<(i64, usize)>,
}

impl Marks {
    pub fn is_full(&self) -> bool {
        self.waiting.len() + self.notices.len() >= MARKS_MAX
    }

    /// Forgets where the command began.
    pub fn forget(&mut self) {
        self.input = None;
    }

    /// Takes a complete `OSC`, as its bytes after `ESC`.
    pub fn push_osc(&mut self, osc: &[u8], terminal: &Terminal) {
        let Some(mark) = osc.strip_prefix(b"]133;") else {
            if osc.len() <= OSC_BYTES_MAX {
                self.notices.extend(notice(&String::from_utf8_lossy(osc)));
            }
            return;
        };
        let mut parts = mark.split(|byte| *byte == b';');
        let mark = match parts.next() {
            Some(b"A") => ShellMark::Prompt,
            Some(b"B") => ShellMark::Input,
            Some(b"C") => ShellMark::Started {
                command: self.input.and_then(|from| command(terminal, from)),
            },
            Some(b"D") => ShellMark::Finished {
                exit_status: parts.next().and_then(exit_status),
            },
            _ => return,
        };
        let Position { x, y } = terminal.cursor;
        let row = terminal.grid.scrolled.total + y as i64;
        let begins = mark == ShellMark::Input && terminal.saved.is_none();
        self.input = begins.then_some((row, x));
        self.waiting.push(mark);
    }

    /// Notes that the bell rang. Repeated bells mean no more than one.
    pub fn push_bell(&mut self) {
        if self.notices.last() != Some(&TerminalNotice::Bell) {
            self.notices.push(TerminalNotice::Bell);
        }
    }
}

fn exit_status(digits: &[u8]) -> Option<u8> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits)
        .ok()
        .filter(|_| is_number)?
        .parse()
        .ok()
}

/// Returns the text between a position and the cursor.
fn command(terminal: &Terminal, (row, column): (i64, usize)) -> Option<String> {
    if terminal.saved.is_some() {
        return None;
    }
    let first = usize::try_from(row - terminal.grid.scrolled.total).ok()?;
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

/// The bytes of an `OSC` that are kept. Longer ones are no notices.
pub(super) const OSC_BYTES_MAX: usize = 2048;

/// A message of a program to its terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TerminalNotice {
    /// The pane's title.
    Title(String),
    /// A notification for the user.
    Notification(String),
    /// Progress has begun or continues (true), or has ended.
    Progress(bool),
    /// The bell rang.
    Bell,
}

/// Reads an `OSC`. tmux keeps titles (0, 2), and passes to its clients notifications (iTerm2: 9; urxvt:
/// `777;notify;TITLE;BODY`) and progress (ConEmu: `9;4;STATE;PERCENT`).
fn notice(osc: &str) -> Option<TerminalNotice> {
    let (code, rest) = osc.strip_prefix(']')?.split_once(';')?;
    match code {
        "0" | "2" => Some(TerminalNotice::Title(rest.to_owned())),
        "9" => match rest.strip_prefix("4;") {
            Some(progress) => {
                let state = progress.split(';').next();
                Some(TerminalNotice::Progress(!matches!(
                    state,
                    Some("0" | "") | None
                )))
            }
            // Other numbers are commands of ConEmu, not notifications.
            None if rest.split(';').next().is_some_and(is_number) => None,
            None => Some(TerminalNotice::Notification(rest.to_owned())),
        },
        "777" => {
            let text = rest.strip_prefix("notify;")?;
            Some(TerminalNotice::Notification(text.replacen(';', ": ", 1)))
        }
        _ => None,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::track::TmuxVersion;
    use crate::track::stream::input::Input;
    use proptest::prelude::*;

    fn found(pieces: &[&[u8]]) -> Vec<TerminalNotice> {
        let mut terminal = Terminal::new(80, 24, TmuxVersion::OLDEST);
        let (mut input, mut marks) = (Input::default(), Marks::default());
        for piece in pieces {
            input.feed(piece, &mut terminal, &mut marks, |_, _| false);
        }
        marks.notices
    }

    #[test]
    fn titles_notifications_progress_and_bells_are_found() {
        let bytes = b"a\x1b]0;work \xe2\xa0\x8b\x07b\x1b]2;t\x1b\\\x1b]9;Approval requested\x07\
            \x1b]9;4;3;0\x07\x1b]9;4;0;\x07\x1b]777;notify;Claude;needs you\x07\x07c\x1b]133;A\x07";
        assert_eq!(
            found(&[bytes]),
            [
                TerminalNotice::Title("work ⠋".into()),
                TerminalNotice::Title("t".into()),
                TerminalNotice::Notification("Approval requested".into()),
                TerminalNotice::Progress(true),
                TerminalNotice::Progress(false),
                TerminalNotice::Notification("Claude: needs you".into()),
                TerminalNotice::Bell,
            ]
        );
    }

    #[test]
    fn other_strings_hide_what_is_in_them() {
        assert_eq!(
            found(&[b"\x1bP\x07\x1b]0;no\x07"]),
            [TerminalNotice::Title("no".into())]
        );
        assert_eq!(found(&[b"\x1bPa\x07b\x1b\\\x07"]), [TerminalNotice::Bell]);
        assert_eq!(found(&[b"\x1b]0;never ends"]), []);
        let long = format!("\x1b]0;{}\x07\x07", "x".repeat(OSC_BYTES_MAX + 9));
        assert_eq!(found(&[long.as_bytes()]), [TerminalNotice::Bell]);
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(bytes in "[a\u{1b}\u{7}\\]P\\\\0-9;]{0,60}", cut in 0_usize..60) {
            let bytes = bytes.as_bytes();
            let cut = cut.min(bytes.len());
            prop_assert_eq!(found(&[&bytes[..cut], &bytes[cut..]]), found(&[bytes]));
        }
    }
}
