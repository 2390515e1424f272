//! The state of a pane in tmux just before the first byte of a stream (pure).

use crate::track::capture::Capture;
use crate::track::version::TmuxVersion;

/// A capture of a pane, and the state that a stream needs to continue from it.
///
/// One tmux command list must take the capture and open the pipe. tmux executes it between two reads of
/// the pane, so that the first byte in the pipe is the one after the capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncPoint {
    /// The screen, some of the history above it, and the normal screen if the alternate one is shown.
    pub capture: Capture,
    /// The modes of the terminal.
    pub modes: TerminalModes,
    /// The beginning of an unfinished escape sequence: the output of `capture-pane -p -P -C`, through
    /// [`unescape`]. The stream begins with its rest.
    pub pending: Vec<u8>,
    /// The server's version, on which the emulation depends.
    pub version: TmuxVersion,
}

/// The modes of a pane's terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalModes {
    /// Text continues in the next row (`#{wrap_flag}`).
    pub wrap: bool,
    /// Text moves the characters behind it (`#{insert_flag}`).
    pub insert: bool,
    /// Rows count from the top of the scroll region (`#{origin_flag}`).
    pub origin: bool,
    /// The first and the last row of the scroll region, from 0
    /// (`#{scroll_region_upper}`, `#{scroll_region_lower}`); an invalid one means the whole screen.
    pub region: (u32, u32),
    /// The columns of the tab stops, from 0 (`#{pane_tabs}`); `None` means every eighth.
    pub tabs: Option<Vec<u32>>,
    /// The alternate screen is enabled (`#{alternate-screen}`, an option).
    pub alternates: bool,
}

impl Default for TerminalModes {
    fn default() -> Self {
        Self {
            wrap: true,
            insert: false,
            origin: false,
            region: (0, 0),
            tabs: None,
            alternates: true,
        }
    }
}

impl TerminalModes {
    /// The format whose expansion [`TerminalModes::read`] parses.
    pub const FORMAT: &str = "#{wrap_flag} #{insert_flag} #{origin_flag} \
        #{scroll_region_upper} #{scroll_region_lower} #{pane_tabs} #{alternate-screen}";

    /// Parses the expansion of [`TerminalModes::FORMAT`]. Invalid values are replaced by defaults.
    pub fn read(answer: &str) -> Self {
        let mut words = answer.trim_end_matches('\n').split(' ');
        let mut next = || words.next().unwrap_or_default();
        let default = Self::default();
        let flag = |word: &str, default: bool| match word {
            "0" => false,
            "1" => true,
            _ => default,
        };
        Self {
            wrap: flag(next(), default.wrap),
            insert: flag(next(), default.insert),
            origin: flag(next(), default.origin),
            region: (next().parse().unwrap_or(0), next().parse().unwrap_or(0)),
            tabs: match next() {
                "" => None,
                list => Some(list.split(',').filter_map(|tab| tab.parse().ok()).collect()),
            },
            alternates: flag(next(), default.alternates),
        }
    }
}

/// Decodes the output of `capture-pane -P -C`, which has `\ooo` for bytes that are not printable.
pub fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.trim_end_matches('\n').as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let octal = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (first, octal, after.first()) {
            (b'\\', Some(byte), _) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            (b'\\', None, Some(b'\\')) => {
                bytes.push(b'\\');
                rest = &after[1..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_bytes_are_read_as_tmux_writes_them() {
        assert_eq!(unescape("\\033[3;1\n"), b"\x1b[3;1");
        assert_eq!(unescape("\\033]0;a\\\\b\\134"), b"\x1b]0;a\\b\\");
        assert_eq!(unescape("\n"), b"");
        assert_eq!(unescape("\\9"), b"\\9");
    }

    #[test]
    fn modes_are_read_as_far_as_tmux_knows_them() {
        let modes = TerminalModes::read("1 0 1 2 9 8,16\n");
        assert_eq!(
            (modes.wrap, modes.insert, modes.origin),
            (true, false, true)
        );
        assert_eq!((modes.region, modes.tabs), ((2, 9), Some(vec![8, 16])));
        assert!(modes.alternates);
        assert!(!TerminalModes::read("1 0 0 0 9  0\n").alternates);
        assert!(TerminalModes::read("1 0 0 0 9  1").alternates);
        assert_eq!(TerminalModes::read(""), TerminalModes::default());
    }
}
