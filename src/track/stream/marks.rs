//! The messages of programs to their terminal, other than text: a shell's marks around its commands (OSC 133),
//! titles, notifications, progress and the bell (pure).

use super::terminal::{Position, Terminal};
use crate::text::from_base64;

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
    /// The text of a notification whose end has not arrived.
    notification: String,
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
            let notice = self.notice(osc);
            self.notices.extend(notice);
            return;
        };
        let mut parts = mark.split(|byte| *byte == b';');
        let mark = match parts.next() {
            Some(b"A") => {
                self.notices.push(TerminalNotice::Prompt);
                ShellMark::Prompt
            }
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

    /// Takes a complete `OSC` that tmux passes on to its clients unread. Its title is not the pane's.
    pub fn push_passed(&mut self, osc: &[u8]) {
        let notice = self.notice(osc);
        let is_title = |notice: &TerminalNotice| matches!(notice, TerminalNotice::Title(_));
        self.notices
            .extend(notice.filter(|notice| !is_title(notice)));
    }

    /// Notes that the terminal is reset.
    pub fn push_reset(&mut self) {
        self.notices.push(TerminalNotice::Reset);
    }

    fn notice(&mut self, osc: &[u8]) -> Option<TerminalNotice> {
        if osc.len() > OSC_BYTES_MAX {
            return None;
        }
        let osc = String::from_utf8_lossy(osc);
        match osc.strip_prefix("]99;") {
            Some(part) => self.part_of_notification(part),
            None => notice(&osc),
        }
    }

    /// Takes a part of a notification of kitty's: `KEY=VALUE:…;TEXT`. Returns the notification with its last part.
    fn part_of_notification(&mut self, part: &str) -> Option<TerminalNotice> {
        let (about, text) = part.split_once(';')?;
        let value = |key: &str| {
            let mut pairs = about.split(':').filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
        };
        if !matches!(value("p").unwrap_or("title"), "title" | "body") {
            return None;
        }
        let decoded = match value("e") {
            Some("1") => String::from_utf8(from_base64(text)?).ok()?,
            _ => text.to_owned(),
        };
        if !self.notification.is_empty() && !decoded.is_empty() {
            self.notification.push_str(": ");
        }
        self.notification.push_str(&decoded);
        if value("d") == Some("0") && self.notification.len() <= OSC_BYTES_MAX {
            return None;
        }
        let text = std::mem::take(&mut self.notification);
        (!text.is_empty()).then_some(TerminalNotice::Notification(text))
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

/// The bytes of an `OSC` that are kept. Longer ones are no notices. A report may have 4,096 bytes, with its `ESC` and the
/// `ESC \\` at its end.
pub(super) const OSC_BYTES_MAX: usize = 4096 - 3;

/// A message of a program to its terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TerminalNotice {
    /// The pane's title.
    Title(String),
    /// A notification for the user.
    Notification(String),
    /// Progress has begun or continues (true), or has ended.
    Progress(bool),
    /// A report of the program's status (`OSC 7501`), as it was written.
    Report(String),
    /// A shell's prompt begins.
    Prompt,
    /// The terminal is reset.
    Reset,
    /// The bell rang.
    Bell,
}

/// Reads an `OSC`. tmux keeps titles (0, 2), and passes to its clients notifications (iTerm2: 9; urxvt:
/// `777;notify;TITLE;BODY`) and progress (ConEmu: `9;4;STATE;PERCENT`). It drops reports (7501).
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
        "7501" => Some(TerminalNotice::Report(rest.to_owned())),
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
                TerminalNotice::Prompt,
            ]
        );
    }

    #[test]
    fn notifications_of_kitty_are_whole() {
        let parts = b"\x1b]99;i=1:d=0;Claude\x1b\\\x1b]99;i=1:p=body;needs you\x1b\\\x1b]99;i=1:d=1:a=focus;\x1b\\\
            \x1b]99;p=icon:e=1;AAAA\x07\x1b]99;e=1;SGVsbG8=\x07\x1b]99;e=1;%\x07\x1b]99;;plain\x07";
        let expected = ["Claude: needs you", "Hello", "plain"];
        let expected = expected.map(|text| TerminalNotice::Notification(text.to_owned()));
        assert_eq!(found(&[parts]), expected);
    }

    #[test]
    fn what_tmux_passes_on_is_read() {
        let passed = |text: &str| {
            let doubled = text.replace('\x1b', "\x1b\x1b");
            found(&[format!("\x1bPtmux;{doubled}\x1b\\").as_bytes()])
        };
        let report = [TerminalNotice::Report("state=done".into())];
        assert_eq!(passed("\x1b]7501;state=done\x1b\\"), report);
        assert_eq!(passed("\x1b]7501;state=done\x07"), report);
        assert_eq!(
            passed("a\x07\x1b[1m\x1b]0;title\x07b\x1b]7501;state=done\x07c"),
            report
        );
        assert_eq!(passed("\x1b]133;A\x07"), []);
        let notification = [TerminalNotice::Notification("hi".into())];
        assert_eq!(passed("\x1b]9;hi\x07"), notification);
        // A report that has no end is none, and nor is what only resembles tmux's prefix.
        assert_eq!(passed("\x1b]7501;state=done"), []);
        assert_eq!(
            found(&[b"\x1bPtmax;\x1b\x1b]7501;state=done\x07\x1b\\"]),
            []
        );
        assert_eq!(
            found(&[b"\x1bP1tmux;\x1b\x1b]7501;state=done\x07\x1b\\"]),
            []
        );
        // Neither has the next string anything of it.
        let next = b"\x1bPtmux;\x1b\x1b]7501;\x1b\\\x1bPtmux;state=done\x07\x1b\\";
        assert_eq!(found(&[next]), []);
    }

    #[test]
    fn a_report_has_at_most_4096_bytes() {
        let report =
            |bytes: usize| format!("\x1b]7501;state=done:x={}\x1b\\", "x".repeat(bytes - 22));
        assert_eq!(report(4096).len(), 4096);
        assert_eq!(found(&[report(4096).as_bytes()]).len(), 1);
        assert_eq!(found(&[report(4097).as_bytes()]), []);
        assert_eq!(found(&[b"\x1bc"]), [TerminalNotice::Reset]);
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
        fn cuts_of_reports_change_nothing(
            parts in prop::collection::vec(prop::sample::select(vec![
                "\x1b]7501;", "state=done", ":id=a", "\x1b\\", "\x07", "\x1bPtmux;", "\x1b\x1b]7501;", "\x1b\x1b\\", "\x1b", "a",
                "\x1b]99;", "d=0;b", ";c", "\x1b]133;A", "\x1bc",
            ]), 0..12),
        ) {
            let bytes = parts.concat();
            let whole = found(&[bytes.as_bytes()]);
            let single: Vec<&[u8]> = bytes.as_bytes().chunks(1).collect();
            prop_assert_eq!(&found(&single), &whole);
        }

        #[test]
        fn cuts_change_nothing(bytes in "[a\u{1b}\u{7}\\]P\\\\0-9;]{0,60}", cut in 0_usize..60) {
            let bytes = bytes.as_bytes();
            let cut = cut.min(bytes.len());
            prop_assert_eq!(found(&[&bytes[..cut], &bytes[cut..]]), found(&[bytes]));
        }
    }
}
