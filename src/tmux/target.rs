//! What a user means by `build:1.2`: exact names and ids, nothing by prefix or pattern (pure).

use std::fmt;
use std::str::FromStr;

use super::id::{SessionId, WindowId, pane_number};
use super::listing::Listing;
use super::state::PaneState;
use crate::error::{Error, Result};

/// A session, a window or a pane of a tmux server, as a user names it: `build`, `build:1`,
/// `build:editor.0`, `$3`, `@2`, `%7`.
///
/// Names are exact: `job-1` never means `job-10`. A name may hold colons, dots and blanks: the
/// whole text is tried as a session's name before it is split.
///
/// ```
/// use td_observe::tmux::Target;
/// let target: Target = "build:1".parse()?;
/// assert_eq!(target.to_string(), "build:1");
/// assert!("".parse::<Target>().unwrap_err().is_invalid_input());
/// # Ok::<(), td_observe::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target(String);

impl Target {
    /// Reads a target.
    ///
    /// # Errors
    /// `is_invalid_input()` when it is empty or has control characters.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::invalid(
                "the target is empty: give a session, session:window, session:window.pane or %pane",
            ));
        }
        if text.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the target {text:?} has control characters, which no name in tmux has"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether it may mean less than a session, whose panes are then meant one by one: those that
    /// come later are not. tmux 3.7 and newer lets names of sessions have colons and dots.
    pub(crate) fn may_be_part(&self, listing: &Listing) -> bool {
        let text = self.0.as_str();
        let is_id = pane_number(text).is_some() || WindowId::parse(text).is_some();
        let is_whole = || listing.panes.iter().any(|state| is_session(text, state));
        text.contains(['%', ':', '@', '.']) && (is_id || !is_whole())
    }

    /// The target as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The panes that are meant, each once and as its owner has it; none when there is no such
    /// thing (yet).
    pub fn resolve(&self, listing: &Listing) -> Vec<PaneState> {
        let mut panes: Vec<PaneState> = Vec::new();
        for state in self.meant(listing) {
            if !panes
                .iter()
                .any(|known| known.pane_number() == state.pane_number())
            {
                let owner = listing
                    .panes
                    .iter()
                    .find(|other| other.owned && other.pane_number() == state.pane_number());
                panes.push(owner.unwrap_or(state).clone());
            }
        }
        panes
    }

    fn meant<'a>(&self, listing: &'a Listing) -> Vec<&'a PaneState> {
        let text = self.0.as_str();
        let those = |test: &dyn Fn(&PaneState) -> bool| -> Vec<&'a PaneState> {
            listing.panes.iter().filter(|state| test(state)).collect()
        };
        if let Some(pane) = pane_number(text) {
            return those(&|state| state.pane_number() == pane);
        }
        if let Some(window) = WindowId::parse(text) {
            return those(&|state| state.window_id == window);
        }
        let whole = those(&|state| is_session(text, state));
        if !whole.is_empty() {
            return whole;
        }
        // A session's name may hold colons: the first split that means something counts.
        text.match_indices(':')
            .map(|(at, _)| {
                let (session, place) = (&text[..at], &text[at + 1..]);
                those(&|state| is_session(session, state) && is_place(place, state, listing))
            })
            .find(|panes| !panes.is_empty())
            .unwrap_or_default()
    }
}

fn is_session(text: &str, state: &PaneState) -> bool {
    // What looks like an id is one, as in tmux.
    SessionId::parse(text).map_or(text == state.session_name, |id| id == state.session_id)
}

/// Whether a pane is what stands behind the session's colon: nothing (all of it), a window, or a
/// window, a dot and a pane.
fn is_place(place: &str, state: &PaneState, listing: &Listing) -> bool {
    if place.is_empty() {
        return true;
    }
    let windows = |text: &str| {
        let there = |by: fn(&str, &PaneState) -> bool| {
            listing
                .panes
                .iter()
                .any(|other| other.session_id == state.session_id && by(text, other))
        };
        // An index means that window even where another one is called so.
        if there(is_index) {
            Some(is_index(text, state))
        } else if there(is_name) {
            Some(is_name(text, state))
        } else {
            None
        }
    };
    if let Some(meant) = windows(place) {
        return meant;
    }
    let Some((window, pane)) = place.rsplit_once('.') else {
        return false;
    };
    let is_pane = match pane_number(pane) {
        Some(number) => state.pane_number() == number,
        None => decimal(pane) == Some(state.pane_index),
    };
    is_pane && windows(window).unwrap_or(false)
}

fn is_index(text: &str, state: &PaneState) -> bool {
    decimal(text) == Some(state.window_index) || WindowId::parse(text) == Some(state.window_id)
}

fn is_name(text: &str, state: &PaneState) -> bool {
    text == state.window_name
}

fn decimal(text: &str) -> Option<u32> {
    // `parse` alone would also take `+7`.
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::listing::tests::listing;
    use super::super::state::tests::state;
    use super::*;

    #[test]
    fn targets_are_exact() {
        let listing = listing(vec![
            state(1, (1, "job-10"), (1, 0, "sh"), 0),
            state(2, (2, "build"), (2, 0, "1"), 0),
            state(3, (2, "build"), (3, 1, "my:win.2"), 0),
            state(4, (2, "build"), (3, 1, "my:win.2"), 1),
            state(5, (3, "a:b.c d"), (4, 0, "sh"), 0),
            state(6, (3, "a:b.c d"), (5, 2, "sh"), 0),
            state(7, (4, "a"), (6, 0, "b.c d"), 0),
            state(3, (5, "linked"), (3, 9, "my:win.2"), 0),
            state(4, (5, "linked"), (3, 9, "my:win.2"), 1),
        ]);
        for (text, meant) in [
            ("job-1", &[][..]),
            ("job-10", &[1]),
            ("job*", &[]),
            ("=job-10", &[]),
            ("build", &[2, 3, 4]),
            ("build:", &[2, 3, 4]),
            ("$2", &[2, 3, 4]),
            ("$2:1.1", &[4]),
            ("build:0", &[2]),
            ("build:1", &[3, 4]),
            ("build:1.0", &[3]),
            ("build:1.%4", &[4]),
            ("build:1.7", &[]),
            ("build:my", &[]),
            ("build:my:win.2", &[3, 4]),
            ("build:my:win.2.1", &[4]),
            ("build:@3", &[3, 4]),
            ("build:+1", &[]),
            ("build:.1", &[]),
            ("build:1.", &[]),
            ("a:b.c d", &[5, 6]),
            ("a:b.c d:2", &[6]),
            ("a:0", &[7]),
            ("linked", &[3, 4]),
            ("linked:9.1", &[4]),
            ("%7", &[7]),
            ("@5", &[6]),
            ("%70", &[]),
            (":", &[]),
            (".", &[]),
        ] {
            let found = Target::parse(text).unwrap().resolve(&listing);
            let found: Vec<u32> = found.iter().map(PaneState::pane_number).collect();
            assert_eq!(found, meant, "{text:?}");
        }
        let linked = Target::parse("linked").unwrap().resolve(&listing);
        assert!(
            linked.iter().all(|state| state.session_name == "build"),
            "{linked:?}"
        );
    }

    #[test]
    fn what_cannot_be_a_name_is_refused_in_one_line() {
        for text in ["", "a\nb", "\u{1b}[31m", "\u{85}"] {
            let error = Target::parse(text).unwrap_err();
            assert!(error.is_invalid_input());
            assert!(!error.to_string().contains(char::is_control), "{error}");
        }
    }
}
