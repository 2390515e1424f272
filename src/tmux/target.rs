//! What a user means by `build:1.2`: exact names and ids, nothing by prefix or pattern (pure).

use std::fmt;
use std::str::FromStr;

use super::id::{SessionId, WindowId, decimal, pane_number};
use super::listing::Listing;
use super::state::PaneState;
use crate::error::{Error, Result};
#[cfg(feature = "cli")]
use crate::track::TmuxVersion;

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

    /// Why nothing that comes later can be meant, and what to write instead; `None` where something
    /// can. tmux reads such a text as something else than a name, too: a session that has it as its
    /// name all the same is found by that name only while it is there. `version` is the server's.
    #[cfg(feature = "cli")]
    pub(crate) fn never_comes(&self, version: Option<TmuxVersion>) -> Option<String> {
        let text = self.0.as_str();
        let session = text.split(':').next().unwrap_or_default();
        let is_id = pane_number(text).is_some()
            || WindowId::parse(text).is_some()
            || SessionId::parse(session).is_some();
        let has_no_dots = version.filter(|version| *version < TmuxVersion::new(3, 7));
        match (text.chars().next()?, has_no_dots) {
            _ if is_id => None,
            ('%', _) => Some("a pane's id is % and a number: write it as %7".to_owned()),
            ('@', _) => Some("a window's id is @ and a number: write it as @2".to_owned()),
            ('$', _) => Some("a session's id is $ and a number: write it as $3".to_owned()),
            (':', _) => Some("no session is named: write session:window".to_owned()),
            ('=', _) => {
                let name = text.trim_start_matches('=');
                Some(format!("names are exact without =: write {name:?}"))
            }
            (_, Some(version)) if session.contains('.') => Some(format!(
                "tmux {version} writes _ for each dot in a session's name: write {:?}, or \
                 session:window.pane",
                session.replace('.', "_") + &text[session.len()..]
            )),
            _ => None,
        }
    }

    /// Whether it begins with the name of one of these sessions.
    #[cfg(feature = "cli")]
    pub(crate) fn names_session_of<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> bool {
        names.any(|name| {
            let rest = self.0.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        })
    }

    /// What a target with more than one colon means, unless a session has all of it as its name.
    pub(crate) fn reading(&self) -> Option<String> {
        let (session, window) = self.0.split_once(':')?;
        let is_hard = window.contains(':');
        is_hard.then(|| format!("the window {window:?} of the session {session:?}"))
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

    /// What is meant by the target now, by ids: what stays the same when it is given another name.
    /// The session, or each window that is meant as a whole, or each pane.
    pub(crate) fn identity(&self, listing: &Listing) -> Vec<Self> {
        let text = self.0.as_str();
        let meant = self.meant(listing);
        let Some(first) = meant.first() else {
            return Vec::new();
        };
        let one = first.session_id;
        let is_whole = is_session(text, first) || is_session(text.trim_end_matches(':'), first);
        if is_whole && pane_number(text).is_none() && meant.iter().all(|it| it.session_id == one) {
            return vec![Self(one.to_string())];
        }
        let is_meant = |pane: u32| meant.iter().any(|state| state.pane_number() == pane);
        let names_pane = pane_number(text).is_some() || self.names_pane(&meant, listing);
        let mut ids: Vec<Self> = Vec::new();
        for state in &meant {
            let window = listing.panes.iter();
            let mut window = window.filter(|other| other.window_id == state.window_id);
            let id = match !names_pane && window.all(|other| is_meant(other.pane_number())) {
                true => Self(state.window_id.to_string()),
                false => Self(state.pane().to_string()),
            };
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }

    /// Whether a pane of a window is named, and not the window: `build:1.0`.
    fn names_pane(&self, meant: &[&PaneState], listing: &Listing) -> bool {
        let [state] = meant else {
            return false;
        };
        let mut places = self.0.match_indices(':');
        let place = places.find_map(|(at, _)| {
            let (session, place) = (&self.0[..at], &self.0[at + 1..]);
            is_session(session, state).then_some(place)
        });
        let windows = |place: &str| {
            let here = listing.panes_of(state.session_id);
            here.into_iter()
                .any(|other| is_index(place, other) || is_name(place, other))
        };
        place.is_some_and(|place| !windows(place))
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
    fn what_is_meant_is_known_by_ids() {
        let listing = listing(vec![
            state(1, (1, "a"), (1, 0, "sh"), 0),
            state(2, (1, "a"), (2, 1, "vi"), 0),
            state(3, (1, "a"), (2, 1, "vi"), 1),
            state(4, (2, "a:b"), (4, 0, "sh"), 0),
        ]);
        for (text, ids) in [
            ("a", &["$1"][..]),
            ("a:", &["$1"]),
            ("$1", &["$1"]),
            ("a:b", &["$2"]),
            ("a:0", &["@1"]),
            ("a:vi", &["@2"]),
            ("@2", &["@2"]),
            ("a:1.1", &["%3"]),
            // A pane of a window that has no other is the pane all the same.
            ("a:0.0", &["%1"]),
            ("%4", &["%4"]),
            ("nothing", &[]),
        ] {
            let found = Target::parse(text).unwrap().identity(&listing);
            let found: Vec<&str> = found.iter().map(Target::as_str).collect();
            assert_eq!(found, ids, "{text:?}");
        }
    }

    #[cfg(feature = "cli")]
    #[test]
    fn what_can_never_come_is_known_by_its_form() {
        let (old, new) = (TmuxVersion::new(3, 6), TmuxVersion::new(3, 7));
        for (text, on_old, on_new) in [
            ("%x", Some("as %7"), Some("as %7")),
            ("%7.1", Some("as %7"), Some("as %7")),
            ("@x", Some("as @2"), Some("as @2")),
            ("$x:1", Some("as $3"), Some("as $3")),
            ("=w", Some("write \"w\""), Some("write \"w\"")),
            ("=w:1", Some("write \"w:1\""), Some("write \"w:1\"")),
            (":1", Some("session:window"), Some("session:window")),
            ("my.app", Some("write \"my_app\""), None),
            ("my.app:1.0", Some("write \"my_app:1.0\""), None),
            ("w", None, None),
            ("%7", None, None),
            ("@2", None, None),
            ("$3:1.0", None, None),
            ("a:b:c", None, None),
            ("a:1.0", None, None),
            ("100%", None, None),
            ("a=b", None, None),
        ] {
            let target = Target::parse(text).unwrap();
            for (version, expected) in [(old, on_old), (new, on_new)] {
                let why = target.never_comes(Some(version));
                let is_expected = match (&why, expected) {
                    (Some(why), Some(part)) => why.contains(part),
                    (why, expected) => why.is_none() && expected.is_none(),
                };
                assert!(is_expected, "{text:?} {version}: {why:?}");
            }
        }
        let dotted = Target::parse("my.app").unwrap();
        assert_eq!(dotted.never_comes(None), None, "no server runs");
        let odd = Target::parse("%x:1").unwrap();
        assert!(odd.names_session_of(["a", "%x"].into_iter()));
        assert!(!odd.names_session_of(["%", "%x:"].into_iter()));
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
