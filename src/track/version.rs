//! The version of a tmux server, as `#{version}` reports it (pure).

use std::fmt;

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
    use super::*;

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
