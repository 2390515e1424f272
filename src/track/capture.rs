//! One capture of a pane: its state and its rows at one instant.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::event::Cursor;

/// One physical row of a pane, as tmux keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Row {
    /// Its text, with trailing blanks that the program wrote.
    pub text: String,
    /// True if the line continues in the next row.
    pub wrapped: bool,
}

/// The end of a program whose pane tmux keeps (`remain-on-exit`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessExit {
    /// Its exit status.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl ProcessExit {
    /// The exit status of a program that tmux has hung up with its pane (128 + SIGHUP), which is no failure.
    pub(crate) const HUNG_UP: i32 = 129;

    pub(crate) const SUCCESS: Self = Self {
        status: Some(0),
        signal: None,
    };

    /// Returns the exit status as shells report it: 128 plus the signal, if a signal ended the program.
    pub fn exit_status(self) -> Option<i32> {
        self.status
            .or(self.signal.map(|signal| signal.saturating_add(128)))
    }

    /// Returns true if a signal ended the program that neither a closed terminal nor Ctrl-C sends. A program
    /// that another one has started may exit with such a status in its place.
    pub(crate) fn is_killed(self) -> bool {
        // All but SIGHUP and SIGINT.
        let killed = 128 + 3..=128 + 64;
        self.exit_status()
            .is_some_and(|status| killed.contains(&status))
    }

    /// Converts a status of wait(2).
    pub(crate) fn from_wait_status(status: i32) -> Self {
        let signal = Some(status & 0x7f).filter(|&signal| signal != 0);
        Self {
            status: signal.is_none().then_some(status >> 8 & 0xff),
            signal,
        }
    }
}

/// The normal screen behind a full-screen program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedScreen {
    /// The position of its cursor.
    pub cursor: Cursor,
    /// Its rows, top first.
    pub rows: Vec<Row>,
}

/// The state of a pane that listings and captures contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PaneNumbers {
    /// Columns.
    pub width: u32,
    /// Rows of the screen.
    pub height: u32,
    /// The process that tmux started in the pane. It changes with a respawn.
    pub pid: u32,
    /// The end of that process, if it has ended and tmux keeps the pane.
    pub dead: Option<ProcessExit>,
    /// Rows in the history, above the screen.
    pub history_size: u32,
    /// The limit of the history, in rows. When it is full, tmux drops the oldest tenth.
    pub history_limit: u32,
    /// The cursor on the screen.
    pub cursor: Cursor,
    /// True if a full-screen program shows the alternate screen.
    pub alternate: bool,
}

impl PaneNumbers {
    /// Returns how many rows tmux drops at a time when the history is full.
    pub fn trim_step(&self) -> u32 {
        (self.history_limit / 10).max(1)
    }

    /// Returns true if tmux may have trimmed the history already.
    pub fn may_be_trimmed(&self) -> bool {
        self.history_size > self.history_limit.saturating_sub(self.trim_step())
    }

    /// Returns true if size and process are equal. The pane's bytes do not contain these.
    pub fn has_shape_of(&self, other: &Self) -> bool {
        let shape = |of: &Self| (of.width, of.height, of.pid, of.dead);
        shape(self) == shape(other)
    }
}

/// The numbers and rows of a pane at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// The numbers, which [`Deref`] makes fields of the capture.
    pub numbers: PaneNumbers,
    /// The last rows of the history, then all rows of the shown screen, oldest first: at least `height`,
    /// at most `history_size + height` (then the capture is complete).
    pub rows: Vec<Row>,
    /// The normal screen, if the alternate one is shown and the request included it.
    pub saved: Option<SavedScreen>,
    /// True if the capture is from within a synchronized update of a program that runs: its screen is a mixture of two.
    pub is_updating: bool,
    /// The time of the capture, on a clock that all captures of a pane share.
    pub at: Duration,
    /// Bytes that the tmux server had read from all its panes just before the capture.
    pub bytes_before: Option<u64>,
    /// Bytes that it had read just after the capture.
    pub bytes_after: Option<u64>,
}

impl Deref for Capture {
    type Target = PaneNumbers;

    fn deref(&self) -> &PaneNumbers {
        &self.numbers
    }
}

impl DerefMut for Capture {
    fn deref_mut(&mut self) -> &mut PaneNumbers {
        &mut self.numbers
    }
}

impl Capture {
    /// Returns how many rows of the history the capture holds.
    pub fn history_rows(&self) -> usize {
        self.rows.len().saturating_sub(self.height as usize)
    }

    /// Returns the capture without rows above the screen that do not precede it. Without a history, tmux keeps
    /// rows there that a change of width has pushed off, and loses those that scroll off later.
    pub(super) fn connected(&self) -> Cow<'_, Self> {
        let mut capture = Cow::Borrowed(self);
        if self.history_limit == 0 && self.history_rows() > 0 {
            let above = self.history_rows();
            let bare = capture.to_mut();
            bare.rows.drain(..above);
            bare.history_size = 0;
        }
        capture
    }

    /// Returns true if the capture holds all that tmux has of the pane.
    pub fn is_complete(&self) -> bool {
        self.history_rows() >= self.history_size as usize
    }
}

// The version of a tmux server, as `#{version}` reports it (pure).

/// A version of tmux. Later releases are greater.
///
/// ```
/// use td_observe::internals::track::TmuxVersion;
/// let server = TmuxVersion::parse("3.3a");
/// assert!(server < TmuxVersion::new(3, 4) && server >= TmuxVersion::OLDEST);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TmuxVersion {
    major: u16,
    minor: u16,
    /// 0 without a letter, 1 for `a`.
    letter: u8,
}

impl TmuxVersion {
    /// The oldest supported version. An older server crashes when a listing asks for times of a pane
    /// that has just vanished.
    pub const OLDEST: Self = Self::new(3, 3);

    /// The version assumed if tmux reports none: a build of the newest source.
    const NEWEST: Self = Self::new(u16::MAX, 0);

    /// Creates a release without a letter.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self {
            major,
            minor,
            letter: 0,
        }
    }

    /// Parses `#{version}`. Development versions (`next-3.8`, `3.8-rc`) count as that release, and
    /// versions without a release (`master`, `openbsd-7.6`) as the newest.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        let text = text.strip_prefix("tmux ").unwrap_or(text);
        let text = text.strip_prefix("next-").unwrap_or(text);
        Self::release(text).unwrap_or(Self::NEWEST)
    }

    fn release(text: &str) -> Option<Self> {
        let (major, rest) = text.split_once('.')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (minor, rest) = rest.split_at(digits);
        let letter = rest.bytes().next().filter(u8::is_ascii_lowercase);
        Some(Self {
            letter: letter.map_or(0, |letter| letter - b'a' + 1),
            ..Self::new(major.parse().ok()?, minor.parse().ok()?)
        })
    }

    /// Returns true if captures with `-N` pad each row with blanks to the pane's width unless `-T` is
    /// given. Older versions do not know `-T`.
    pub fn pads_captures(self) -> bool {
        self >= Self::new(3, 4)
    }

    /// Returns true if panes of this version can be observed.
    pub fn is_supported(self) -> bool {
        self >= Self::OLDEST
    }
}

/// Defaults to [`TmuxVersion::OLDEST`].
impl Default for TmuxVersion {
    fn default() -> Self {
        Self::OLDEST
    }
}

impl fmt::Display for TmuxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEWEST {
            return f.write_str("master");
        }
        write!(f, "{}.{}", self.major, self.minor)?;
        match self.letter.checked_sub(1) {
            Some(letter) => write!(f, "{}", char::from(b'a' + letter)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    mod capture {

        use super::super::*;

        #[test]
        fn an_exit_is_a_status_or_a_signal() {
            let exit = ProcessExit::from_wait_status;
            assert_eq!(exit(101 << 8).exit_status(), Some(101));
            assert_eq!(exit(255 << 8).exit_status(), Some(255));
            assert_eq!(exit(0).exit_status(), Some(0));
            assert_eq!(exit(9).exit_status(), Some(137));
            assert_eq!(exit(0x80 | 11).signal, Some(11), "with a core");
        }
    }

    mod version {

        use super::super::*;

        #[test]
        fn versions_are_read_as_tmux_writes_them() {
            for (text, expected) in [
                ("3.3a", "3.3a"),
                ("3.8", "3.8"),
                ("3.6b", "3.6b"),
                ("next-3.8", "3.8"),
                ("3.7-rc", "3.7"),
                ("3.7-rc2", "3.7"),
                ("tmux 3.2a", "3.2a"),
                ("3.10c", "3.10c"),
                (" 3.5a\n", "3.5a"),
                ("master", "master"),
                ("openbsd-7.6", "master"),
                ("", "master"),
                ("3", "master"),
                ("3.", "master"),
                ("3.x", "master"),
                ("99999999999.1", "master"),
            ] {
                assert_eq!(TmuxVersion::parse(text).to_string(), expected, "{text:?}");
            }
        }

        #[test]
        fn later_releases_are_greater() {
            let order = [
                "1.8", "2.9a", "3.2", "3.2a", "3.3", "3.3a", "3.4", "3.9", "3.10", "3.10a", "4.0",
                "master",
            ];
            let versions = order.map(TmuxVersion::parse);
            assert!(
                versions.is_sorted_by(|older, newer| older < newer),
                "{versions:?}"
            );
        }

        #[test]
        fn features_depend_on_the_version() {
            let is_supported = |text| TmuxVersion::parse(text).is_supported();
            assert_eq!(
                ["3.1c", "3.2", "3.2a", "3.3", "next-3.3", "3.3a", "master"].map(is_supported),
                [false, false, false, true, true, true, true]
            );
            let pads = |text| TmuxVersion::parse(text).pads_captures();
            assert_eq!(
                ["3.3", "3.3a", "next-3.4", "3.4", "3.8", "master"].map(pads),
                [false, false, true, true, true, true]
            );
        }
    }
}
