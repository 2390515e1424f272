//! Types a text or keys into a pane, as a person would.

use std::time::Duration;

use crossbeam_channel::select_biased;

use super::server::Server;
use super::state::decimal;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::text::first_bytes;
use crate::thread::Stop;

/// The time between a text and Enter. Programs that draw their own input, such as agents, treat input that is
/// faster than typing as a paste, in which Enter is a line end.
const TYPING: Duration = Duration::from_millis(300);

/// The maximum size of one command; tmux rejects arguments beyond 16 KiB.
const BYTES_MAX: usize = 4 * 1024;

/// The maximum number of keys per request, which fit into one command.
const KEYS_MAX: usize = 256;

/// The key names of tmux, without its mouse and user keys.
const KEYS: [&str; 38] = [
    "Up", "Down", "Left", "Right", "Enter", "Escape", "Space", "Tab", "BTab", "BSpace", "Delete",
    "DC", "Insert", "IC", "Home", "End", "PageUp", "PgUp", "PPage", "PageDown", "PgDn", "NPage",
    "KPEnter", "KP/", "KP*", "KP-", "KP+", "KP.", "KP0", "KP1", "KP2", "KP3", "KP4", "KP5", "KP6",
    "KP7", "KP8", "KP9",
];

/// The input to type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typing {
    /// A text, typed unchanged, and optionally Enter after it.
    Text { text: String, presses_enter: bool },
    /// Keys by their names.
    Keys(Vec<String>),
}

impl Typing {
    /// Validates a text.
    ///
    /// # Errors
    /// `is_invalid_input()` if it contains a zero byte.
    pub fn text(text: &str, presses_enter: bool) -> Result<Self> {
        if text.contains('\0') {
            Err(Error::invalid("a text with a zero byte cannot be typed"))
        } else {
            Ok(Self::Text {
                text: text.to_owned(),
                presses_enter,
            })
        }
    }

    /// Validates key names. tmux would type an unknown name as text.
    ///
    /// # Errors
    /// `is_invalid_input()` if a name is unknown, or if there are none or too many.
    pub fn keys(names: Vec<String>) -> Result<Self> {
        if names.is_empty() || names.len() > KEYS_MAX {
            return Err(Error::invalid(format!(
                "there are {} keys: give 1 to {KEYS_MAX}",
                names.len()
            )));
        }
        match names.iter().find(|name| !is_key(name)) {
            Some(name) => Err(Error::invalid(format!(
                "{name:?} is no key of tmux: give names such as Up, Enter, F5, C-c, M-x or single characters"
            ))),
            None => Ok(Self::Keys(names)),
        }
    }

    /// Types into one of a target's panes: the active one, or otherwise the first. Returns that pane.
    ///
    /// # Errors
    /// `is_invalid_input()` if the pane is in copy mode or its program has ended; otherwise those of
    /// [`Server::run`].
    pub fn send(
        &self,
        server: &Server,
        panes: &[PaneId],
        stop: &Stop,
        clock: &Clock,
    ) -> Result<PaneId> {
        let state =
            "#{window_active}#{pane_active} #{pane_in_mode} #{pane_dead} #{pane_current_command}";
        let mut chosen: Option<(&PaneId, String)> = None;
        for pane in panes {
            let about = server.run(["display-message", "-p", "-t", pane, state], clock)?;
            if chosen.is_none() || about.starts_with("11") {
                chosen = Some((pane, about));
            }
        }
        let Some((pane, about)) = chosen else {
            return Err(Error::invalid("there is no pane to type into"));
        };
        let program = check(pane, &about)?;
        match self {
            Self::Keys(names) => {
                let keys = names.iter().map(String::as_str);
                let args = ["send-keys", "-t", pane, "--"].into_iter().chain(keys);
                server.run(args, clock)?;
            }
            Self::Text {
                text,
                presses_enter,
            } => {
                for part in parts(text) {
                    server.run(["send-keys", "-t", pane, "-l", "--", part], clock)?;
                }
                if *presses_enter {
                    // Shells accept Enter at once.
                    let shells = ["ash", "bash", "dash", "fish", "ksh", "mksh", "sh", "zsh"];
                    if !text.is_empty() && !shells.contains(&program) {
                        select_biased! {
                            recv(stop) -> _ => return Ok(pane.clone()),
                            recv(clock.after(TYPING)) -> _ => {}
                        }
                    }
                    server.run(["send-keys", "-t", pane, "Enter"], clock)?;
                }
            }
        }
        Ok(pane.clone())
    }
}

/// Checks the state of a pane; returns the program in it.
fn check<'a>(pane: &PaneId, about: &'a str) -> Result<&'a str> {
    let mut fields = about.trim_end().splitn(4, ' ').skip(1);
    let mut next = || fields.next().unwrap_or_default();
    let (modes, is_dead, program) = (next(), next(), next());
    let refused = |why: &str| Err(Error::invalid(format!("pane {pane} {why}")));
    if !matches!(modes, "" | "0") {
        return refused("is in copy mode, which would take the text for its keys: leave it first");
    }
    if is_dead == "1" {
        return refused("has no program any more that could read the text");
    }
    Ok(program)
}

/// Returns true for the name of a key: modifiers, then a name or one printable character.
fn is_key(name: &str) -> bool {
    let mut rest = name;
    while let Some(after) = ["C-", "M-", "S-"]
        .iter()
        .find_map(|modifier| rest.strip_prefix(modifier))
        .filter(|after| !after.is_empty())
    {
        rest = after;
    }
    let function = rest.strip_prefix('F').and_then(decimal);
    let mut chars = rest.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) => !c.is_control(),
        (Some('^'), Some(c)) if chars.next().is_none() => c.is_ascii_graphic(),
        _ => {
            function.is_some_and(|number| (1..=12).contains(&number))
                || KEYS.iter().any(|key| key.eq_ignore_ascii_case(rest))
        }
    }
}

/// Splits a text into parts that are short enough for one command.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let part = first_bytes(rest, BYTES_MAX);
        rest = &rest[part.len()..];
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_are_short_and_whole() {
        let text = "é".repeat(BYTES_MAX);
        let all: Vec<&str> = parts(&text).collect();
        assert_eq!(all.concat(), text);
        assert!(all.iter().all(|part| part.len() <= BYTES_MAX));
        assert_eq!(parts("").count(), 0);
    }

    #[test]
    fn keys_are_checked() {
        for name in [
            "Up", "enter", "F1", "F12", "C-c", "C-M-x", "M-Enter", "S-Up", "y", "é", ";", "-",
            "^C", "KP7", "C--", "Space", "BTab",
        ] {
            assert!(is_key(name), "{name:?}");
        }
        for name in [
            "",
            "Entr",
            "rm -rf",
            "F0",
            "F13",
            "F+1",
            "C-",
            "C-nothing",
            "\u{1b}",
            "yy",
            "M-",
        ] {
            assert!(!is_key(name), "{name:?}");
        }
        let error = Typing::keys(vec!["Up".into(), "Dwon".into()]).unwrap_err();
        assert!(error.is_invalid_input() && error.to_string().contains("Dwon"));
        assert!(Typing::keys(Vec::new()).is_err());
        assert!(Typing::keys(vec!["y".into(); KEYS_MAX + 1]).is_err());
        assert!(Typing::text("a\0b", true).is_err());
    }

    #[test]
    fn panes_that_cannot_read_are_refused() {
        let pane = PaneId::from("%1");
        assert_eq!(check(&pane, "11 0 0 my prog\n").unwrap(), "my prog");
        for (about, why) in [("11 1 0 sh", "copy mode"), ("11 0 1 ", "no program")] {
            let error = check(&pane, about).unwrap_err();
            assert!(error.is_invalid_input() && error.to_string().contains(why));
        }
    }

    proptest! {
        #[test]
        fn any_name_is_judged(name in "\\PC{0,8}|[CMS^F-]{0,5}.{0,2}") {
            let _ = is_key(&name);
        }
    }
}
