//! Targets as users write them, such as `build:1.2`: exact names and ids, without prefixes or patterns
//! (pure).

use std::fmt;
use std::str::FromStr;

use super::listing::Listing;
use super::state::PaneState;
use super::state::{SessionId, WindowId, decimal, pane_number};
use crate::error::{Error, Result};
#[cfg(feature = "cli")]
use crate::event::PaneId;
#[cfg(feature = "cli")]
use crate::track::TmuxVersion;

/// A session, a window or a pane of a tmux server, as a user names it: `build`, `build:1`,
/// `build:editor.0`, `$3`, `@2`, `%7`.
///
/// Names are exact: `job-1` never means `job-10`. A name may contain colons, dots and blanks, because the
/// whole text is tried as the name of a session before it is split. Text in the form of an id is an id. While
/// a session has it as its name, it means nothing: such a session is named by its own id.
///
/// ```
/// use td_observe::tmux::Target;
/// let target: Target = "build:1".parse()?;
/// assert_eq!(target.to_string(), "build:1");
/// assert!("".parse::<Target>().unwrap_err().is_invalid_input());
/// # Ok::<(), td_observe::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    text: String,
    /// The text is certainly an id, whatever the names of the sessions.
    is_id: bool,
}

/// The kind of object that a target names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetKind {
    Session,
    Window,
    Pane,
}

impl Target {
    /// Parses a target.
    ///
    /// # Errors
    /// `is_invalid_input()` when it is empty or contains control characters.
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
        Ok(Self {
            text: text.to_owned(),
            is_id: false,
        })
    }

    fn of_id(id: impl fmt::Display) -> Self {
        Self {
            text: id.to_string(),
            is_id: true,
        }
    }

    /// Returns true if the target may be less than a whole session. Its present panes are then watched
    /// individually, and later ones are not. tmux 3.7 and newer allows colons and dots in session names.
    pub(crate) fn may_be_part(&self, listing: &Listing) -> bool {
        let text = self.text.as_str();
        let is_id = pane_number(text).is_some() || WindowId::parse(text).is_some();
        let is_session = || listing.panes.iter().any(|state| is_session(text, state));
        text.contains(['%', ':', '@', '.']) && (is_id || !is_session())
    }

    /// Explains why the target can never match a later session, window or pane, and what to write instead;
    /// `None` if it can. tmux interprets such a text differently, but an existing session with this name is
    /// still found. `version` is the server's.
    #[cfg(feature = "cli")]
    pub(crate) fn never_matches(&self, version: Option<TmuxVersion>) -> Option<String> {
        let text = self.text.as_str();
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

    /// Explains that the target is the id of one object and the name of a session, and what to write instead.
    /// `sessions` are the ids and names of the present ones.
    pub(crate) fn conflict<'a>(
        &self,
        mut sessions: impl Iterator<Item = (SessionId, &'a str)>,
    ) -> Option<String> {
        let text = self.text.as_str();
        let session = text.split(':').next().unwrap_or_default();
        let is_whole = pane_number(text).is_some() || WindowId::parse(text).is_some();
        let id = SessionId::parse(session);
        if self.is_id || !is_whole && id.is_none() {
            return None;
        }
        let (named, name) = sessions
            .find(|(named, name)| (*name == text || *name == session) && id != Some(*named))?;
        Some(format!(
            "{text:?} is an id, and a session has the name {name:?}: name that session by its id, {named}"
        ))
    }

    fn has_conflict(&self, listing: &Listing) -> bool {
        let panes = listing.panes.iter();
        let sessions = panes.map(|state| (state.session_id, &*state.session_name));
        self.conflict(sessions).is_some()
    }

    /// Returns true if the target begins with the name of one of these sessions.
    #[cfg(feature = "cli")]
    pub(crate) fn names_session_of<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> bool {
        names.any(|name| {
            let rest = self.text.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        })
    }

    /// Explains how a target with more than one colon is read, unless a session has the whole text as its
    /// name.
    pub(crate) fn reading(&self) -> Option<String> {
        let (session, window) = self.text.split_once(':')?;
        let is_ambiguous = window.contains(':');
        is_ambiguous.then(|| format!("the window {window:?} of the session {session:?}"))
    }

    /// Returns the target as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the pane if the target is the id of one.
    #[cfg(feature = "cli")]
    pub(crate) fn pane(&self) -> Option<PaneId> {
        pane_number(&self.text).map(|number| PaneId::from(format!("%{number}")))
    }

    /// Finds the panes of the target, each once and in its owner's state. Empty while nothing matches.
    pub(crate) fn resolve(&self, listing: &Listing) -> Vec<PaneState> {
        let mut panes: Vec<PaneState> = Vec::new();
        for state in self.find(listing).1 {
            if panes.iter().all(|known| known.pane != state.pane) {
                let mut all = listing.panes.iter();
                let owner = all.find(|other| other.owned && other.pane == state.pane);
                panes.push(owner.unwrap_or(state).clone());
            }
        }
        panes
    }

    /// Returns the ids of the target's present objects, which survive a rename: of the session, of each
    /// window whose panes all match, or of each pane.
    pub(crate) fn identity(&self, listing: &Listing) -> Vec<Self> {
        let (kind, found) = self.find(listing);
        let Some(first) = found.first() else {
            return Vec::new();
        };
        let session_id = first.session_id;
        if kind == TargetKind::Session && found.iter().all(|state| state.session_id == session_id) {
            return vec![Self::of_id(session_id)];
        }
        let names_pane =
            kind == TargetKind::Pane && (found.len() == 1 || pane_number(&self.text).is_some());
        let is_found = |other: &PaneState| found.iter().any(|state| state.pane == other.pane);
        let mut ids: Vec<Self> = Vec::new();
        for state in &found {
            let mut window = listing.panes.iter();
            let mut is_whole =
                || window.all(|other| other.window_id != state.window_id || is_found(other));
            let id = if !names_pane && is_whole() {
                Self::of_id(state.window_id)
            } else {
                Self::of_id(state.pane())
            };
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }

    fn find<'a>(&self, listing: &'a Listing) -> (TargetKind, Vec<&'a PaneState>) {
        let text = self.text.as_str();
        if self.has_conflict(listing) {
            return (TargetKind::Pane, Vec::new());
        }
        let all = |test: &dyn Fn(&PaneState) -> bool| -> Vec<&'a PaneState> {
            listing.panes.iter().filter(|state| test(state)).collect()
        };
        if let Some(pane) = pane_number(text) {
            return (TargetKind::Pane, all(&|state| state.pane == pane));
        }
        if let Some(window) = WindowId::parse(text) {
            return (TargetKind::Window, all(&|state| state.window_id == window));
        }
        let session = all(&|state| is_session(text, state));
        if !session.is_empty() {
            return (TargetKind::Session, session);
        }
        // A session's name may contain colons, so the first split that matches is used.
        text.match_indices(':')
            .map(|(at, _)| {
                find_in(
                    &all(&|state| is_session(&text[..at], state)),
                    &text[at + 1..],
                )
            })
            .find(|(_, panes)| !panes.is_empty())
            .unwrap_or((TargetKind::Pane, Vec::new()))
    }
}

/// Finds the panes of a session that match the text after its colon: nothing (all panes), a window, or a
/// window, a dot and a pane.
fn find_in<'a>(session: &[&'a PaneState], text: &str) -> (TargetKind, Vec<&'a PaneState>) {
    if text.is_empty() {
        return (TargetKind::Session, session.to_vec());
    }
    // An index takes precedence over a window with that name.
    let window = |text: &str| -> Vec<&'a PaneState> {
        let matching = |test: fn(&str, &PaneState) -> bool| -> Vec<&'a PaneState> {
            let panes = session.iter().copied();
            panes.filter(|state| test(text, state)).collect()
        };
        let by_index = matching(is_index);
        if by_index.is_empty() {
            matching(|text, state| text == state.window_name)
        } else {
            by_index
        }
    };
    let panes = window(text);
    if !panes.is_empty() {
        return (TargetKind::Window, panes);
    }
    let Some((window_text, pane)) = text.rsplit_once('.') else {
        return (TargetKind::Pane, Vec::new());
    };
    let mut panes = window(window_text);
    panes.retain(|state| match pane_number(pane) {
        Some(number) => state.pane == number,
        None => decimal(pane) == Some(state.pane_index),
    });
    (TargetKind::Pane, panes)
}

fn is_session(text: &str, state: &PaneState) -> bool {
    // As in tmux, text in the form of an id is an id.
    SessionId::parse(text).map_or(text == state.session_name, |id| id == state.session_id)
}

fn is_index(text: &str, state: &PaneState) -> bool {
    decimal(text) == Some(state.window_index) || WindowId::parse(text) == Some(state.window_id)
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
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
        for (text, expected) in [
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
            let found: Vec<u32> = found.iter().map(|state| state.pane).collect();
            assert_eq!(found, expected, "{text:?}");
        }
        let linked = Target::parse("linked").unwrap().resolve(&listing);
        assert!(
            linked.iter().all(|state| state.session_name == "build"),
            "{linked:?}"
        );
    }

    #[test]
    fn an_id_that_is_also_a_name_is_nothing() {
        let listing = listing(vec![
            state(1, (1, "@2"), (1, 0, "sh"), 0),
            state(2, (2, "%1"), (2, 0, "sh"), 0),
            state(3, (3, "$1"), (3, 0, "sh"), 0),
            state(4, (4, "$4"), (4, 0, "sh"), 0),
        ]);
        for (text, panes, instead) in [
            ("@2", &[][..], Some("$1")),
            ("%1", &[], Some("$2")),
            ("$1", &[], Some("$3")),
            ("$1:0", &[], Some("$3")),
            ("$4", &[4], None),
            ("$2", &[2], None),
            ("@1", &[1], None),
        ] {
            let target = Target::parse(text).unwrap();
            let found = target.resolve(&listing);
            let found: Vec<u32> = found.iter().map(|state| state.pane).collect();
            assert_eq!(found, panes, "{text:?}");
            let sessions = listing.panes.iter();
            let sessions = sessions.map(|state| (state.session_id, &*state.session_name));
            let why = target.conflict(sessions).unwrap_or_default();
            assert!(
                instead.is_none_or(|id| why.ends_with(id)),
                "{text:?}: {why}"
            );
            assert_eq!(why.is_empty(), instead.is_none());
        }
        // A target that is followed by its id stays what it was.
        let window = Target::parse("%1:0").unwrap().identity(&listing);
        assert_eq!(window[0].as_str(), "@2");
        assert_eq!(window[0].resolve(&listing)[0].pane, 2);
    }

    #[test]
    fn targets_have_ids_that_survive_a_rename() {
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
            // The only pane of a window is still identified as a pane.
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
    fn targets_that_can_never_match_are_explained() {
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
                let why = target.never_matches(Some(version));
                let is_expected = match (&why, expected) {
                    (Some(why), Some(part)) => why.contains(part),
                    (why, expected) => why.is_none() && expected.is_none(),
                };
                assert!(is_expected, "{text:?} {version}: {why:?}");
            }
        }
        let dotted = Target::parse("my.app").unwrap();
        assert_eq!(dotted.never_matches(None), None, "no server runs");
        let odd = Target::parse("%x:1").unwrap();
        assert!(odd.names_session_of(["a", "%x"].into_iter()));
        assert!(!odd.names_session_of(["%", "%x:"].into_iter()));
    }

    #[test]
    fn invalid_names_are_refused_in_one_line() {
        for text in ["", "a\nb", "\u{1b}[31m", "\u{85}"] {
            let error = Target::parse(text).unwrap_err();
            assert!(error.is_invalid_input());
            assert!(!error.to_string().contains(char::is_control), "{error}");
        }
    }
}
