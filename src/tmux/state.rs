//! The state of one pane: its format variables, and their parser.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::child::stat;
use crate::event::{Cursor, PaneId};
use crate::track::{PaneNumbers, ProcessExit};

/// The format variables of a pane, in the order in which [`PaneState::parse`] reads them. tmux expands
/// unknown variables to nothing.
pub(super) const FORMAT: &str = "#{pane_id} #{session_id} #{window_id} #{session_created} \
    #{window_index} #{pane_index} #{window_active} #{pane_active} #{pane_width} #{pane_height} \
    #{history_size} #{history_limit} #{cursor_x} #{cursor_y} #{alternate_on} \
    #{alternate_saved_x} #{alternate_saved_y} #{pane_in_mode} #{pane_dead} #{pane_dead_status} \
    #{pane_dead_signal} #{pane_pid} #{pane_pipe} #{window_activity} #{synchronized_output_flag}";

/// The seconds for which a client counts as looked at after somebody touched it. A client that nobody touches shows
/// its panes to nobody.
pub(super) const VIEW_SECONDS: i64 = 60;

/// The seconds for which a client counts as looked at after it was attached, until somebody touches it.
pub(super) const ATTACH_SECONDS: i64 = 5;

/// The state of a pane, seen through one window of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaneState {
    /// The number in the pane's id; see [`PaneState::pane`].
    pub(crate) pane: u32,
    /// The session.
    pub session_id: SessionId,
    /// The session's current name.
    pub session_name: String,
    /// The name of the session's group, whose sessions share their windows; empty without one.
    pub(crate) session_group: String,
    /// The time of the session's creation, in seconds since 1970.
    pub session_created: i64,
    /// The window.
    pub window_id: WindowId,
    /// The window's index in the session.
    pub window_index: u32,
    /// The window's current name.
    pub window_name: String,
    /// True if the user, or a program, has named the window: tmux does not name it after its program.
    pub is_window_named: bool,
    /// The pane's index in the window.
    pub pane_index: u32,
    /// True if the window is the current one of its session.
    pub window_active: bool,
    /// True if the pane is the current one of its window.
    pub pane_active: bool,
    /// The numbers, which are also accessible as fields of the state through [`Deref`].
    pub numbers: PaneNumbers,
    /// The cursor of the normal screen behind the alternate one.
    pub saved_cursor: Cursor,
    /// True if the pane is in copy mode or a similar mode; its program continues behind it.
    pub in_mode: bool,
    /// True if the pane has an open `pipe-pane`.
    pub piped: bool,
    /// The last second, since 1970, in which something was printed in the window.
    pub window_activity: i64,
    /// True within a synchronized update (mode 2026), in which the screen is a mixture of two. tmux 3.7 and newer say
    /// so, for a second at most.
    pub is_updating: bool,
    /// True if the window is the current one of an attached client, in any session that it is linked to, and a person
    /// has touched that client within the last minute.
    pub viewed: bool,
    /// The last second, since 1970, in which such a client was touched; 0 if there is none.
    pub(crate) touched: i64,
    /// The program in the foreground. Empty if it was not requested: the server would read files to answer,
    /// and the bytes that it reads must measure the panes' output only.
    pub command: String,
    pub(crate) title: String,
    /// The value of the pane's option `@td_agent`, cut.
    pub(crate) declared_agent: String,
    /// True if this session owns the pane. A pane of a window that is linked several times belongs to the
    /// session with the lowest id.
    pub owned: bool,
}

/// The names that users and programs have given to a pane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenNames<S> {
    /// The name of its window.
    pub window: Option<S>,
    /// The name of the agent in it, which the pane's option `@td_agent` declares.
    pub agent: Option<S>,
}

impl GivenNames<String> {
    /// Returns the names as slices.
    pub(crate) fn as_deref(&self) -> GivenNames<&str> {
        GivenNames {
            window: self.window.as_deref(),
            agent: self.agent.as_deref(),
        }
    }
}

impl Deref for PaneState {
    type Target = PaneNumbers;

    fn deref(&self) -> &PaneNumbers {
        &self.numbers
    }
}

impl DerefMut for PaneState {
    fn deref_mut(&mut self) -> &mut PaneNumbers {
        &mut self.numbers
    }
}

impl PaneState {
    /// Returns the pane's id, `%7`.
    pub fn pane(&self) -> PaneId {
        PaneId::from(format!("%{}", self.pane))
    }

    /// Returns the name that the user has given to the window.
    pub(crate) fn given_name(&self) -> Option<&str> {
        self.is_window_named.then_some(self.window_name.as_str())
    }

    /// Returns what has been given a name: the window, and the agent in the pane.
    pub(crate) fn given_names(&self) -> GivenNames<&str> {
        GivenNames {
            window: self.given_name(),
            agent: Some(self.declared_agent.as_str()).filter(|name| !name.is_empty()),
        }
    }

    /// Returns how long from a second on a viewed pane counts as viewed; `None` if it is not viewed.
    pub(crate) fn viewed_for(&self, second: i64) -> Option<Duration> {
        let left = self.touched.saturating_add(VIEW_SECONDS) - second;
        let left = Duration::from_secs(left.clamp(0, VIEW_SECONDS).unsigned_abs());
        self.viewed.then_some(left)
    }

    /// Adopts names and positions from the listed state of the same pane.
    pub(super) fn adopt_owner(&mut self, listed: Self) {
        self.session_id = listed.session_id;
        self.session_name = listed.session_name;
        self.session_group = listed.session_group;
        self.session_created = listed.session_created;
        self.window_id = listed.window_id;
        self.window_index = listed.window_index;
        self.window_name = listed.window_name;
        self.is_window_named = listed.is_window_named;
        self.window_active = listed.window_active;
        self.viewed = listed.viewed;
        self.touched = listed.touched;
        self.command = listed.command;
        self.title = listed.title;
        self.declared_agent = listed.declared_agent;
        self.owned = true;
    }

    /// Parses the expansion of [`FORMAT`]. `None` if there is no such pane (tmux then expands all variables
    /// to nothing) or the text is not such an expansion.
    pub(super) fn parse(numbers: &str) -> Option<Self> {
        let mut fields = numbers.trim_end_matches('\n').split(' ');
        let mut next = || fields.next();
        let mut state = Self {
            pane: pane_number(next()?)?,
            session_id: SessionId::parse(next()?)?,
            window_id: WindowId::parse(next()?)?,
            session_created: number(next()?),
            window_index: number(next()?),
            pane_index: number(next()?),
            window_active: flag(next()?),
            pane_active: flag(next()?),
            numbers: PaneNumbers {
                width: number(next()?),
                height: number(next()?),
                history_size: number(next()?),
                history_limit: number(next()?),
                cursor: Cursor {
                    x: number(next()?),
                    y: number(next()?),
                },
                alternate: flag(next()?),
                ..PaneNumbers::default()
            },
            saved_cursor: Cursor {
                x: coordinate(next()?),
                y: coordinate(next()?),
            },
            in_mode: flag(next()?),
            ..Self::default()
        };
        state.dead = death(&[next()?, next()?, next()?]);
        state.pid = number(next()?);
        state.piped = flag(next()?);
        state.window_activity = number(next()?);
        state.is_updating = flag(next()?);
        state.complete_exit();
        fields.next().is_none().then_some(state)
    }

    /// Keeps the known process id of a program that has ended, which tmux 3.8 and newer forgets.
    pub(super) fn keep_pid(&mut self, known: u32) {
        if self.pid == 0 && self.dead.is_some() && known != 0 {
            self.pid = known;
            self.complete_exit();
        }
    }

    /// Queries the kernel for the exit status if tmux only knows that the program has ended.
    ///
    /// tmux notices that a program's terminal is closed before it notices the program's exit, and on a busy
    /// machine it may miss the exit altogether (tmux 3.3a: one in ten exits of programs that print until they
    /// end, on an otherwise idle server). Such a process remains a zombie until another child of tmux ends.
    fn complete_exit(&mut self) {
        let pid = self.pid;
        let dead = self.dead.as_mut();
        if let Some(dead) = dead.filter(|dead| dead.exit_status().is_none()) {
            let status = stat(pid).and_then(|stat| stat.zombie_status());
            *dead = status.map_or_else(ProcessExit::default, ProcessExit::from_wait_status);
        }
    }
}

/// Parses the exit of a program: its end, status and signal.
fn death(&[dead, status, signal]: &[&str; 3]) -> Option<ProcessExit> {
    flag(dead).then(|| ProcessExit {
        status: status.parse().ok(),
        signal: signal.parse().ok(),
    })
}

/// Parses a number; 0 if this tmux does not have the variable.
pub(super) fn number<T: std::str::FromStr + Default>(text: &str) -> T {
    text.parse().unwrap_or_default()
}

/// Parses a flag. Some flags are counts (`pane_in_mode`).
fn flag(text: &str) -> bool {
    !matches!(text, "" | "0")
}

/// Parses a coordinate, for which tmux writes the largest number instead of "none".
fn coordinate(text: &str) -> u32 {
    text.parse()
        .ok()
        .filter(|&at| at != u32::MAX)
        .unwrap_or_default()
}

macro_rules! numbered_id {
    ($(#[$doc:meta])* $name:ident, $sign:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// Parses an id as tmux writes it.
            pub fn parse(text: &str) -> Option<Self> {
                number_after($sign, text).map(Self)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $sign, self.0)
            }
        }
    };
}

numbered_id! {
    /// The id of a session, which a rename does not change.
    SessionId, '$'
}
numbered_id! {
    /// The id of a window, the same in all sessions that it is linked to.
    WindowId, '@'
}

/// Returns the number of a pane id such as `%7`.
pub(super) fn pane_number(text: &str) -> Option<u32> {
    number_after('%', text)
}

fn number_after(sign: char, text: &str) -> Option<u32> {
    decimal(text.strip_prefix(sign)?)
}

/// Parses a decimal number without a sign; `parse` alone would accept one.
pub(super) fn decimal(text: &str) -> Option<u32> {
    let digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
    digits_only.then(|| text.parse().ok())?
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Builds a listed state: pane, session and its name, window, its index and name, the pane's index.
    pub(in crate::tmux) fn state(
        pane: u32,
        (session, name): (u32, &str),
        (window, index, window_name): (u32, u32, &str),
        pane_index: u32,
    ) -> PaneState {
        PaneState {
            session_name: name.into(),
            window_name: window_name.into(),
            ..PaneState::parse(&format!(
                "%{pane} ${session} @{window} 9 {index} {pane_index} 1 1 80 24 0 2000 0 0 0 \
             4294967295 4294967295 0 0   1 0 5 "
            ))
            .unwrap()
        }
    }

    #[test]
    fn a_dead_pane_keeps_its_process() {
        let mut pane = state(1, (1, "a"), (1, 0, "w"), 0);
        (pane.pid, pane.dead) = (0, Some(ProcessExit::default()));
        pane.keep_pid(4711);
        assert_eq!(pane.pid, 4711);
        (pane.pid, pane.dead) = (4712, None);
        pane.keep_pid(4711);
        assert_eq!(pane.pid, 4712, "it lives");
    }

    #[test]
    fn missing_variables_are_zero() {
        let state = PaneState::parse(
            "%7 $3 @2 1795303463 0 1 1 0 80 24 100 2000 5 6 1 4294967295 7 2 1  9 4711 1 12 1\n",
        );
        let state = state.unwrap();
        assert_eq!(state.pane(), "%7");
        assert_eq!(state.cursor, Cursor { x: 5, y: 6 });
        assert_eq!(state.saved_cursor, Cursor { x: 0, y: 7 });
        assert_eq!(
            state.dead,
            Some(ProcessExit {
                status: None,
                signal: Some(9)
            })
        );
        assert!(state.in_mode && state.alternate && state.piped && state.is_updating);
        assert_eq!((state.pid, state.window_activity), (4711, 12));
        assert_eq!(
            PaneState::parse(&" ".repeat(24)),
            None,
            "a pane that is not there"
        );
        assert_eq!(PaneState::parse("%7 $3 @2"), None);
    }

    #[test]
    fn ids_parse_only_as_tmux_writes_them() {
        assert_eq!(
            SessionId::parse("$3").map(|id| id.to_string()).as_deref(),
            Some("$3")
        );
        for text in ["", "$", "$x", "$+3", "3", "@3", "$3 ", "$99999999999"] {
            assert_eq!(SessionId::parse(text), None, "{text:?}");
        }
        assert_eq!(pane_number("%12"), Some(12));
    }
}
