//! What a tmux server holds: one question, one list of formats, every session and pane at once.

use std::fmt::Write;
use std::path::PathBuf;

use super::frame::{Frame, Nonce};
use super::id::{SessionId, pane_number};
use super::server::Server;
use super::state::{CHANGING, NUMBERS, PaneState, number};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::track::TmuxVersion;

/// Which server it is: a restarted one at the same socket is another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerIdentity {
    /// Its process.
    pub pid: u32,
    /// When it started, in seconds since 1970.
    pub start_time: i64,
    /// Its socket.
    pub socket: PathBuf,
    /// Its version, as it writes it: `3.3a`, `next-3.8`, `master`.
    pub version: String,
}

impl ServerIdentity {
    /// Its version, as one that can be compared.
    pub fn tmux_version(&self) -> TmuxVersion {
        TmuxVersion::parse(&self.version)
    }
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
    /// `is_gone()` without a server, `is_timeout()` when it does not answer, `is_invalid_input()` when
    /// it is older than what is supported.
    pub fn take(server: &Server, clock: &Clock) -> Result<Self> {
        Self::ask(server, clock, true)
    }

    /// The same without [`PaneState::command`] unless it is wanted.
    pub(super) fn ask(server: &Server, clock: &Clock, commands: bool) -> Result<Self> {
        let nonce = Nonce::fresh();
        let answer = server.batch(question(&nonce, commands), clock)?;
        if let Some(listing) = read(&nonce, &answer.text) {
            server.accept(listing.server.tmux_version(), &listing.server.version)?;
            return Ok(listing);
        }
        let is_whole = answer.text.ends_with(&end(&nonce));
        if answer.is_silent() && !is_whole {
            return Err(server.ended());
        }
        let complaint = match answer.complaints.trim() {
            "" => "the answer is not of the form that was asked for",
            complaint => complaint,
        };
        Err(Error::other(format!(
            "cannot read the list of panes of {server}: {complaint}"
        )))
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

    /// Gives dead panes the processes that they had in an earlier listing.
    pub(super) fn keep_pids(&mut self, before: &Self) {
        if self.server != before.server {
            return;
        }
        let dead = self.panes.iter_mut().filter(|state| state.dead.is_some());
        for state in dead.filter(|state| state.pid == 0) {
            let mut known = before.panes.iter();
            if let Some(known) = known.find(|known| known.pane == state.pane) {
                state.keep_pid(known.pid);
            }
        }
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
         {mark}c{command}{mark}t#{{pane_title}}{mark}e'"
    );
    let _ = writeln!(lines, "display-message -p '{mark}z'");
    lines
}

/// How an answer ends that was not cut off.
fn end(nonce: &Nonce) -> String {
    format!("{}z\n", nonce.as_str())
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
        Frame {
            tag: b't',
            body: title,
        },
        Frame { tag: b'e', .. },
        rest @ ..,
    ] = frames
    {
        let mut state = PaneState::read(body)?;
        state.session_name = (*session).to_owned();
        state.window_name = (*window).to_owned();
        state.command = (*command).to_owned();
        state.title = (*title).to_owned();
        listing.panes.push(state);
        frames = rest;
    }
    listing.put_in_order();
    matches!(frames, [Frame { tag: b'z', .. }]).then_some(listing)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::state::tests::state;
    use super::*;
    use crate::track::Death;

    /// A listing of such states.
    pub(in crate::tmux) fn listing(panes: Vec<PaneState>) -> Listing {
        let mut listing = Listing {
            panes,
            ..Listing::default()
        };
        listing.put_in_order();
        listing
    }

    /// A listing of panes, each with the name of its session, in order.
    pub(crate) fn listing_of(panes: &[(u32, &str)]) -> Listing {
        let states = panes.iter().map(|&(pane, name)| {
            let session = u32::from(name.as_bytes()[0]);
            state(pane, (session, name), (pane, pane, "w"), 0)
        });
        listing(states.collect())
    }

    #[test]
    fn a_refreshed_listing_has_new_numbers_and_the_same_panes() {
        let mut known = listing(vec![
            state(2, (1, "b"), (1, 0, "w"), 0),
            state(1, (10, "a"), (2, 0, "w"), 0),
            state(3, (10, "a"), (2, 0, "w"), 1),
        ]);
        known.server.pid = 42;
        let line = |pane, session| format!("%{pane} ${session} 90 24 7 1 2 0 1 3  11 6 a title\n");
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
            answer.replacen(" 11 6 a title\n", " 11\n", 1),
            String::new(),
        ] {
            assert_eq!(known.refreshed(&other), None, "{other}");
        }
    }

    #[test]
    fn dead_panes_have_the_processes_of_the_listing_before() {
        let dead = |pane| PaneState {
            pid: 0,
            dead: Some(Death::default()),
            ..state(pane, (1, "a"), (1, 0, "w"), pane)
        };
        let mut before = listing(vec![state(1, (1, "a"), (1, 0, "w"), 1), dead(2)]);
        before.panes[0].pid = 4711;
        let mut now = listing(vec![dead(1), dead(2), dead(3)]);
        now.keep_pids(&before);
        let pids = |listing: &Listing| -> Vec<u32> {
            listing.panes.iter().map(|state| state.pid).collect()
        };
        assert_eq!(pids(&now), [4711, 0, 0]);
        let mut other = listing(vec![dead(1)]);
        other.server.pid = 5;
        other.keep_pids(&before);
        assert_eq!(pids(&other), [0], "another server");
    }

    #[test]
    fn hostile_names_stay_whole() {
        let nonce = Nonce::fixed("NN");
        let numbers = "%1 $0 @0 9 0 0 1 1 80 24 0 2000 0 0 0   0 0   1 0 5";
        let answer = format!(
            "NNs1 2 3.3aNNk/tmp/a b\n/sockNNe\nNNp{numbers}NNna: b\t.cNNwNMe\nNNcx\nNMp%2\nNNtat work\nNNe\nNNz\n"
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
