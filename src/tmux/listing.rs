//! What a tmux server holds: one question, one list of formats, every session and pane at once.

use std::fmt::Write;
use std::path::PathBuf;

use super::frame::{Frame, Nonce};
use super::id::{SessionId, WindowId, pane_number};
use super::server::Server;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{Cursor, PaneId};
use crate::track::Death;

/// The numbers that are asked of a pane, in the order in which [`PaneState::read`] takes them.
/// A tmux that does not know one of them expands it to nothing.
pub(super) const NUMBERS: &str = "#{pane_id} #{session_id} #{window_id} #{session_created} \
    #{window_index} #{pane_index} #{window_active} #{pane_active} #{pane_width} #{pane_height} \
    #{history_size} #{history_limit} #{cursor_x} #{cursor_y} #{alternate_on} \
    #{alternate_saved_x} #{alternate_saved_y} #{pane_in_mode} #{pane_dead} #{pane_dead_status} \
    #{pane_dead_signal} #{pane_pid} #{pane_pipe} #{window_activity}";

/// What tmux knows of a pane, seen through one window of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaneState {
    /// The number in the pane's id; see [`PaneState::pane`].
    pub(crate) pane: u32,
    /// The session.
    pub session_id: SessionId,
    /// The session's name now.
    pub session_name: String,
    /// When the session was made, in seconds since 1970.
    pub session_created: i64,
    /// The window.
    pub window_id: WindowId,
    /// The window's place in the session.
    pub window_index: u32,
    /// The window's name now.
    pub window_name: String,
    /// The pane's place in the window.
    pub pane_index: u32,
    /// Whether the window is the current one of its session.
    pub window_active: bool,
    /// Whether the pane is the current one of its window.
    pub pane_active: bool,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Rows in the history.
    pub history_size: u32,
    /// Rows that the history may hold.
    pub history_limit: u32,
    /// The cursor.
    pub cursor: Cursor,
    /// Whether the alternate screen is shown.
    pub alternate: bool,
    /// The cursor of the normal screen behind the alternate one.
    pub saved_cursor: Cursor,
    /// Whether the pane is in copy mode or the like; its program goes on behind it.
    pub in_mode: bool,
    /// The program has ended and tmux keeps the pane.
    pub dead: Option<Death>,
    /// The process that tmux started in the pane.
    pub pid: u32,
    /// Whether a `pipe-pane` is open.
    pub piped: bool,
    /// When something was last printed in the window, in seconds since 1970.
    pub window_activity: i64,
    /// The program in the foreground; empty where it was not asked for, because to answer it the
    /// server reads files, and the bytes that it reads are a measure of what panes print.
    pub command: String,
    /// Whether this is the pane's one owner: a pane of a window that is linked several times
    /// belongs to the lowest session.
    pub owned: bool,
}

/// The numbers that change while a pane is only printed to, in the order in which
/// [`PaneState::refresh`] takes them: half of [`NUMBERS`], which is half of the server's time.
const CHANGING: &str = "#{pane_id} #{session_id} #{pane_width} #{pane_height} #{history_size} \
    #{cursor_x} #{cursor_y} #{alternate_on} #{pane_dead} #{pane_dead_status} #{pane_dead_signal} \
    #{pane_pid} #{window_activity}";

impl PaneState {
    /// The pane's id, `%7`.
    pub fn pane(&self) -> PaneId {
        PaneId::from(format!("%{}", self.pane))
    }

    pub(super) fn pane_number(&self) -> u32 {
        self.pane
    }

    /// Reads the expansion of [`NUMBERS`]; `None` when there is no such pane (then tmux expands
    /// all of it to nothing) or it is not an answer.
    pub(super) fn read(numbers: &str) -> Option<Self> {
        let mut fields = numbers.trim_end_matches('\n').split(' ');
        let mut next = || fields.next();
        let state = Self {
            pane: pane_number(next()?)?,
            session_id: SessionId::parse(next()?)?,
            window_id: WindowId::parse(next()?)?,
            session_created: number(next()?),
            window_index: number(next()?),
            pane_index: number(next()?),
            window_active: flag(next()?),
            pane_active: flag(next()?),
            width: number(next()?),
            height: number(next()?),
            history_size: number(next()?),
            history_limit: number(next()?),
            cursor: Cursor {
                x: number(next()?),
                y: number(next()?),
            },
            alternate: flag(next()?),
            saved_cursor: Cursor {
                x: coordinate(next()?),
                y: coordinate(next()?),
            },
            in_mode: flag(next()?),
            dead: {
                let (dead, status, signal) = (flag(next()?), next()?, next()?);
                dead.then(|| Death {
                    status: status.parse().ok(),
                    signal: signal.parse().ok(),
                })
            },
            pid: number(next()?),
            piped: flag(next()?),
            window_activity: number(next()?),
            ..Self::default()
        };
        fields.next().is_none().then_some(state)
    }
}

impl PaneState {
    /// Reads the expansion of [`CHANGING`] into a state that was known; `None` when it is about
    /// another pane or session, or not an answer.
    fn refresh(&mut self, numbers: &str) -> Option<()> {
        let mut fields = numbers.split(' ');
        let mut next = || fields.next();
        if pane_number(next()?)? != self.pane || SessionId::parse(next()?)? != self.session_id {
            return None;
        }
        (self.width, self.height) = (number(next()?), number(next()?));
        self.history_size = number(next()?);
        self.cursor = Cursor {
            x: number(next()?),
            y: number(next()?),
        };
        self.alternate = flag(next()?);
        let (dead, status, signal) = (flag(next()?), next()?, next()?);
        self.dead = dead.then(|| Death {
            status: status.parse().ok(),
            signal: signal.parse().ok(),
        });
        (self.pid, self.window_activity) = (number(next()?), number(next()?));
        fields.next().is_none().then_some(())
    }
}

/// A number, or 0 where this tmux has none to give.
fn number<T: std::str::FromStr + Default>(text: &str) -> T {
    text.parse().unwrap_or_default()
}

/// A flag; some of them count (`pane_in_mode`).
fn flag(text: &str) -> bool {
    !matches!(text, "" | "0")
}

/// A coordinate, where tmux writes the largest number for "none".
fn coordinate(text: &str) -> u32 {
    text.parse()
        .ok()
        .filter(|&at| at != u32::MAX)
        .unwrap_or_default()
}

/// Which server it is: a restarted one at the same socket is another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerIdentity {
    /// Its process.
    pub pid: u32,
    /// When it started, in seconds since 1970.
    pub start_time: i64,
    /// Its socket.
    pub socket: PathBuf,
    /// Its version, as `3.3a`.
    pub version: String,
}

/// A session of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session<'a> {
    /// Its id.
    pub id: SessionId,
    /// Its name now.
    pub name: &'a str,
    /// When it was made, in seconds since 1970.
    pub created: i64,
}

/// All sessions and panes of a server at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The panes by session, window and place; one that is linked several times stands here as
    /// often, and is owned once.
    pub panes: Vec<PaneState>,
    /// The server.
    pub server: ServerIdentity,
    /// In which second, since 1970, this was so, by the clock that activity is dated with.
    pub(crate) second: Option<i64>,
}

impl Listing {
    /// Asks a server for everything, the programs in the foreground included.
    ///
    /// # Errors
    /// `is_gone()` without a server, `is_timeout()` when it does not answer.
    pub fn take(server: &Server, clock: &Clock) -> Result<Self> {
        Self::ask(server, clock, true)
    }

    /// The same without [`PaneState::command`] unless it is wanted.
    pub(super) fn ask(server: &Server, clock: &Clock, commands: bool) -> Result<Self> {
        let nonce = Nonce::fresh();
        let answer = server.batch(question(&nonce, commands), clock)?;
        read(&nonce, &answer.text).ok_or_else(|| {
            let complaint = answer.complaints.trim();
            Error::other(format!(
                "cannot read the list of panes of {server}: {complaint}"
            ))
        })
    }

    /// What is known, with the numbers that have changed since. `None` when there are other panes
    /// or another server now, so that all must be asked again.
    pub(super) fn refreshed(&self, answer: &str) -> Option<Self> {
        let (server, panes) = answer.split_once('\n')?;
        let (pid, rest) = server.split_once(' ')?;
        let (started, second) = rest.split_once(' ')?;
        if pid.parse() != Ok(self.server.pid) || started.parse() != Ok(self.server.start_time) {
            return None;
        }
        // By session, in the order of each: the known ones have been put in another.
        let mut lines: Vec<(SessionId, u32, &str)> = panes
            .lines()
            .map(|line| {
                let mut words = line.split(' ');
                let pane = pane_number(words.next()?)?;
                Some((SessionId::parse(words.next()?)?, pane, line))
            })
            .collect::<Option<_>>()?;
        lines.sort_by_key(|&(session, pane, _)| (session, pane));
        if lines.len() != self.panes.len() {
            return None;
        }
        let mut listing = self.clone();
        listing.second = told_second(second);
        let mut states: Vec<&mut PaneState> = listing.panes.iter_mut().collect();
        states.sort_by_key(|state| (state.session_id, state.pane));
        for (state, (_, _, line)) in states.into_iter().zip(lines) {
            state.refresh(line)?;
        }
        Some(listing)
    }

    /// The sessions, oldest first.
    pub fn sessions(&self) -> impl Iterator<Item = Session<'_>> {
        let sessions = self
            .panes
            .chunk_by(|one, next| one.session_id == next.session_id);
        sessions
            .filter_map(|panes| panes.first())
            .map(|state| Session {
                id: state.session_id,
                name: &state.session_name,
                created: state.session_created,
            })
    }

    /// One session.
    pub fn session(&self, id: SessionId) -> Option<Session<'_>> {
        self.sessions().find(|session| session.id == id)
    }

    /// The panes that a session owns.
    pub fn panes_of(&self, id: SessionId) -> impl Iterator<Item = &PaneState> {
        self.panes
            .iter()
            .filter(move |state| state.owned && state.session_id == id)
    }

    /// A pane, as its owner has it.
    pub fn pane(&self, pane: &str) -> Option<&PaneState> {
        let number = pane_number(pane)?;
        self.panes
            .iter()
            .find(|state| state.owned && state.pane == number)
    }

    /// Sorts the panes and gives each its one owner.
    pub(super) fn put_in_order(&mut self) {
        self.panes.sort_by_key(|state| {
            (
                state.session_id,
                state.window_index,
                state.pane_index,
                state.pane,
            )
        });
        let mut taken = rustc_hash::FxHashSet::default();
        for state in &mut self.panes {
            state.owned = taken.insert(state.pane);
        }
    }
}

/// Asks for what [`Listing::refreshed`] reads. No text of panes and no name is in the answer.
pub(super) fn changing() -> String {
    format!("display-message -p '#{{pid}} #{{start_time}} %s'\nlist-panes -a -F '{CHANGING}'\n")
}

/// What `%s` came to; what is no number is a `%s` that this tmux does not expand.
pub(super) fn told_second(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn question(nonce: &Nonce, commands: bool) -> String {
    let mark = nonce.as_str();
    let mut lines = String::new();
    // Writing to a string cannot fail; the same below.
    let _ = writeln!(
        lines,
        "display-message -p '{mark}s#{{pid}} #{{start_time}} #{{version}} %s{mark}k#{{socket_path}}\
         {mark}e'"
    );
    let command = if commands {
        "#{pane_current_command}"
    } else {
        ""
    };
    let _ = writeln!(
        lines,
        "list-panes -a -F '{mark}p{NUMBERS}{mark}n#{{session_name}}{mark}w#{{window_name}}\
         {mark}c{command}{mark}e'"
    );
    let _ = writeln!(lines, "display-message -p '{mark}z'");
    lines
}

fn read(nonce: &Nonce, answer: &str) -> Option<Listing> {
    let frames = nonce.frames(answer)?;
    let mut frames = frames.as_slice();
    let mut listing = Listing::default();
    match *frames {
        [
            Frame { tag: b's', body },
            Frame {
                tag: b'k',
                body: socket,
            },
            Frame { tag: b'e', .. },
            ref rest @ ..,
        ] => {
            let mut words = body.split(' ');
            listing.server = ServerIdentity {
                pid: words.next()?.parse().ok()?,
                start_time: number(words.next()?),
                version: words.next()?.to_owned(),
                socket: socket.into(),
            };
            listing.second = words.next().and_then(told_second);
            frames = rest;
        }
        _ => return None,
    }
    while let [
        Frame { tag: b'p', body },
        Frame {
            tag: b'n',
            body: session,
        },
        Frame {
            tag: b'w',
            body: window,
        },
        Frame {
            tag: b'c',
            body: command,
        },
        Frame { tag: b'e', .. },
        rest @ ..,
    ] = frames
    {
        let mut state = PaneState::read(body)?;
        state.session_name = (*session).to_owned();
        state.window_name = (*window).to_owned();
        state.command = (*command).to_owned();
        listing.panes.push(state);
        frames = rest;
    }
    listing.put_in_order();
    matches!(frames, [Frame { tag: b'z', .. }]).then_some(listing)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A state as a listing has it: pane, session and its name, window, its index and name, place.
    pub(in crate::tmux) fn state(
        pane: u32,
        (session, name): (u32, &str),
        (window, index, window_name): (u32, u32, &str),
        pane_index: u32,
    ) -> PaneState {
        PaneState {
            session_name: name.into(),
            window_name: window_name.into(),
            ..PaneState::read(&format!(
                "%{pane} ${session} @{window} 9 {index} {pane_index} 1 1 80 24 0 2000 0 0 0 \
                 4294967295 4294967295 0 0   1 0 5"
            ))
            .unwrap()
        }
    }

    /// A listing of such states.
    pub(in crate::tmux) fn listing(panes: Vec<PaneState>) -> Listing {
        let mut listing = Listing {
            panes,
            ..Listing::default()
        };
        listing.put_in_order();
        listing
    }

    #[test]
    fn reads_what_is_there_and_zero_for_what_is_not() {
        let state = PaneState::read(
            "%7 $3 @2 1795303463 0 1 1 0 80 24 100 2000 5 6 1 4294967295 7 2 1  9 4711 1 12\n",
        );
        let state = state.unwrap();
        assert_eq!(state.pane(), "%7");
        assert_eq!(state.cursor, Cursor { x: 5, y: 6 });
        assert_eq!(state.saved_cursor, Cursor { x: 0, y: 7 });
        assert_eq!(
            state.dead,
            Some(Death {
                status: None,
                signal: Some(9)
            })
        );
        assert!(state.in_mode && state.alternate && state.piped);
        assert_eq!((state.pid, state.window_activity), (4711, 12));
        assert_eq!(
            PaneState::read(&" ".repeat(23)),
            None,
            "a pane that is not there"
        );
        assert_eq!(PaneState::read("%7 $3 @2"), None);
    }

    #[test]
    fn a_refreshed_listing_has_new_numbers_and_the_same_panes() {
        let mut known = listing(vec![
            state(2, (1, "b"), (1, 0, "w"), 0),
            state(1, (10, "a"), (2, 0, "w"), 0),
            state(3, (10, "a"), (2, 0, "w"), 1),
        ]);
        known.server.pid = 42;
        let line = |pane, session| format!("%{pane} ${session} 90 24 7 1 2 0 1 3  11 6\n");
        let answer = format!("42 0 77\n{}{}{}", line(3, 10), line(1, 10), line(2, 1));
        let now = known.refreshed(&answer).unwrap();
        let ids = |listing: &Listing| -> Vec<_> {
            let panes = listing.panes.iter();
            panes
                .map(|state| (state.pane, state.session_name.clone(), state.owned))
                .collect()
        };
        assert_eq!(ids(&now), ids(&known));
        assert_eq!(now.second, Some(77));
        for state in &now.panes {
            assert_eq!((state.width, state.history_size, state.pid), (90, 7, 11));
            let status = Some(3);
            assert_eq!(
                state.dead,
                Some(Death {
                    status,
                    signal: None
                })
            );
        }
        for other in [
            answer.replace("42 0", "43 0"),
            answer.replace("%3", "%4"),
            answer.replace("$1 ", "$2 "),
            format!("{answer}{}", line(4, 10)),
            answer.replacen(" 11 6\n", " 11\n", 1),
            String::new(),
        ] {
            assert_eq!(known.refreshed(&other), None, "{other}");
        }
    }

    #[test]
    fn hostile_names_stay_whole() {
        let nonce = Nonce::fixed("NN");
        let numbers = "%1 $0 @0 9 0 0 1 1 80 24 0 2000 0 0 0   0 0   1 0 5";
        let answer = format!(
            "NNs1 2 3.3aNNk/tmp/a b\n/sockNNe\nNNp{numbers}NNna: b\t.cNNwNMe\nNNcx\nNMp%2\nNNe\nNNz\n"
        );
        let listing = read(&nonce, &answer).unwrap();
        assert_eq!(listing.server.socket, PathBuf::from("/tmp/a b\n/sock"));
        let [state] = listing.panes.as_slice() else {
            panic!("{listing:?}")
        };
        assert_eq!(state.session_name, "a: b\t.c");
        assert_eq!(state.window_name, "NMe\n");
        assert_eq!(state.command, "x\nNMp%2\n");
        assert_eq!(
            read(&nonce, answer.strip_suffix("NNz\n").unwrap()),
            None,
            "cut off"
        );
    }

    #[test]
    fn a_linked_pane_is_owned_by_the_lowest_session() {
        let listing = listing(vec![
            state(1, (10, "b"), (1, 0, "w"), 0),
            state(2, (10, "b"), (2, 1, "w"), 0),
            state(1, (9, "a"), (1, 4, "w"), 0),
            state(1, (9, "a"), (1, 7, "w"), 0),
        ]);
        let names: Vec<_> = listing.sessions().map(|session| session.name).collect();
        assert_eq!(names, ["a", "b"]);
        let owned = |id: &str| -> Vec<u32> {
            listing
                .panes_of(SessionId::parse(id).unwrap())
                .map(|state| state.pane)
                .collect()
        };
        assert_eq!((owned("$9"), owned("$10")), (vec![1], vec![2]));
        assert_eq!(listing.pane("%1").unwrap().window_index, 4);
    }
}
