//! The listing of a tmux server: all its sessions and panes, from one query.

use std::fmt::Write;
use std::path::PathBuf;

use super::server::Nonce;
use super::server::Server;
use super::state::{ATTACH_SECONDS, SessionId, VIEW_SECONDS, WindowId, pane_number};
use super::state::{FORMAT, PaneState, number};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::track::TmuxVersion;

/// The identity of a server; a restarted server at the same socket differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The process of the server.
    pub pid: u32,
    /// The time of its start, in seconds since 1970.
    pub start_time: i64,
    /// The path of its socket.
    pub socket: PathBuf,
    /// Its version as text: `3.3a`, `next-3.8`, `master`.
    pub version: String,
}

impl ServerIdentity {
    /// Parses the version.
    pub fn tmux_version(&self) -> TmuxVersion {
        TmuxVersion::parse(&self.version)
    }
}

/// A session of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedSession<'a> {
    /// The id of the session.
    pub id: SessionId,
    /// The session's current name.
    pub name: &'a str,
    /// The time of its creation, in seconds since 1970.
    pub created: i64,
}

/// An attached client, with its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedClient {
    /// Its process.
    pub pid: u32,
    /// The session that it shows.
    pub session: SessionId,
    /// The current window of that session.
    pub window: WindowId,
}

/// All sessions and panes of a server at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The panes, ordered by session, window and index. A pane that is linked several times is listed for
    /// each link and owned once.
    pub panes: Vec<PaneState>,
    /// The server.
    pub server: ServerIdentity,
    /// The clients that draw in terminals.
    pub(crate) clients: Vec<ListedClient>,
    /// The second of the listing, since 1970, by the clock that dates activity.
    pub(crate) second: Option<i64>,
}

impl Listing {
    /// Queries a server for all of its sessions and panes, with the programs in the foreground.
    ///
    /// # Errors
    /// `is_gone()` without a server, `is_timeout()` if it does not reply, `is_invalid_input()` if its version
    /// is not supported.
    #[cfg(any(feature = "cli", feature = "internals"))]
    pub fn fetch(server: &Server, clock: &Clock) -> Result<Self> {
        Self::query(server, clock, true)
    }

    /// Queries a server. [`PaneState::command`] is filled only with `commands`.
    pub(super) fn query(server: &Server, clock: &Clock, commands: bool) -> Result<Self> {
        let nonce = Nonce::fresh();
        let output = server.batch(query(&nonce, commands), clock)?;
        if let Some(listing) = parse(&nonce, &output.text) {
            server.accept(listing.server.tmux_version(), &listing.server.version)?;
            return Ok(listing);
        }
        let is_complete = output.text.ends_with(&end(&nonce));
        if output.is_silent() && !is_complete {
            return Err(server.ended());
        }
        let error = match output.errors.trim() {
            "" => "its output has an unexpected form",
            error => error,
        };
        Err(Error::other(format!(
            "cannot list the panes of {server}: {error}"
        )))
    }

    /// Returns the sessions, oldest first.
    pub fn sessions(&self) -> impl Iterator<Item = ListedSession<'_>> {
        let sessions = self
            .panes
            .chunk_by(|pane, next| pane.session_id == next.session_id);
        sessions
            .filter_map(|panes| panes.first())
            .map(|state| ListedSession {
                id: state.session_id,
                name: &state.session_name,
                created: state.session_created,
            })
    }

    /// Returns one session.
    pub fn session(&self, id: SessionId) -> Option<ListedSession<'_>> {
        self.sessions().find(|session| session.id == id)
    }

    /// Returns the name by which a session is known to its user: its own, or if it is not attached, that of the first
    /// attached session of its group.
    pub fn shown_name<'a>(&'a self, session: &ListedSession<'a>) -> &'a str {
        let is_attached = |id: SessionId| self.clients.iter().any(|client| client.session == id);
        let group = |id: SessionId| {
            let state = self.panes.iter().find(|state| state.session_id == id)?;
            Some(state.session_group.as_str()).filter(|group| !group.is_empty())
        };
        let own = group(session.id).filter(|_| !is_attached(session.id));
        let shown = own.and_then(|own| {
            let mut others = self.sessions();
            others.find(|other| group(other.id) == Some(own) && is_attached(other.id))
        });
        shown.map_or(session.name, |shown| shown.name)
    }

    /// Returns the panes that a session owns.
    pub fn panes_of(&self, id: SessionId) -> impl Iterator<Item = &PaneState> {
        self.panes
            .iter()
            .filter(move |state| state.owned && state.session_id == id)
    }

    /// Returns a pane in the state that its owner has.
    pub fn pane(&self, pane: &str) -> Option<&PaneState> {
        let number = pane_number(pane)?;
        self.panes
            .iter()
            .find(|state| state.owned && state.pane == number)
    }

    /// Copies the processes of dead panes from an earlier listing.
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

    /// Sorts the panes and determines the owner of each.
    pub(super) fn sort(&mut self) {
        self.panes.sort_by_key(|state| {
            (
                state.session_id,
                state.window_index,
                state.pane_index,
                state.pane,
            )
        });
        let mut seen = rustc_hash::FxHashSet::default();
        for state in &mut self.panes {
            state.owned = seen.insert(state.pane);
        }
    }

    /// Marks the panes of windows that clients show. `clients` has each client's current window, and the second in
    /// which it was last touched.
    fn set_views(&mut self, clients: &[(WindowId, i64)]) {
        for state in &mut self.panes {
            let of_window = clients
                .iter()
                .filter(|(window, _)| *window == state.window_id);
            state.touched = of_window.map(|(_, touched)| *touched).max().unwrap_or(0);
            let second = self.second.unwrap_or(state.touched);
            state.viewed = state.touched != 0 && second - state.touched < VIEW_SECONDS;
        }
    }
}

/// Returns the last second in which somebody touched a client. Who attaches it looks at what it shows then; what it
/// shows later, nobody has looked at before he has touched it.
fn last_look(touched: i64, created: i64) -> i64 {
    if touched > created {
        touched
    } else {
        created.saturating_sub(VIEW_SECONDS - ATTACH_SECONDS)
    }
}

/// Parses the expansion of `%s`. A tmux that does not expand it prints no number.
pub(super) fn parse_second(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// The most characters of a declared agent's name. Longer ones are none.
const NAME_CHARS_MAX: usize = 64;

fn query(nonce: &Nonce, commands: bool) -> String {
    let mark = nonce.as_str();
    let mut lines = String::new();
    // Writing to a string cannot fail, here and below.
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
        "list-panes -a -F '{mark}p{FORMAT}{mark}n#{{session_name}}{mark}g#{{session_group}}{mark}w#{{?automatic-rename,a,n}}#{{window_name}}\
         {mark}c{command}{mark}t#{{pane_title}}{mark}a#{{={NAME_CHARS_MAX}:@td_agent}}{mark}e'"
    );
    let _ = writeln!(
        lines,
        "list-clients -F '{mark}v#{{window_id}} #{{client_activity}} #{{client_created}} #{{session_id}} \
         #{{?client_control_mode,0,#{{client_pid}}}}{mark}e'"
    );
    let _ = writeln!(lines, "display-message -p '{mark}z'");
    lines
}

/// Returns the end mark of complete output.
fn end(nonce: &Nonce) -> String {
    format!("{}z\n", nonce.as_str())
}

pub(crate) fn parse(nonce: &Nonce, output: &str) -> Option<Listing> {
    let sections = nonce.sections(output)?;
    let mut sections = sections.as_slice();
    let mut listing = Listing::default();
    let [(b's', server), (b'k', socket), (b'e', _), rest @ ..] = sections else {
        return None;
    };
    sections = rest;
    let mut words = server.split(' ');
    listing.server = ServerIdentity {
        pid: words.next()?.parse().ok()?,
        start_time: number(words.next()?),
        version: words.next()?.to_owned(),
        socket: socket.into(),
    };
    listing.second = words.next().and_then(parse_second);
    while let [
        (b'p', numbers),
        (b'n', session),
        (b'g', group),
        (b'w', window),
        (b'c', command),
        (b't', title),
        (b'a', declared_agent),
        (b'e', _),
        rest @ ..,
    ] = sections
    {
        let (naming, window) = window.split_at_checked(1)?;
        listing.panes.push(PaneState {
            session_name: (*session).to_owned(),
            session_group: (*group).to_owned(),
            window_name: window.to_owned(),
            is_window_named: naming == "n",
            command: (*command).to_owned(),
            title: (*title).to_owned(),
            declared_agent: (*declared_agent).to_owned(),
            ..PaneState::parse(numbers)?
        });
        sections = rest;
    }
    let mut clients = Vec::new();
    while let [(b'v', client), (b'e', _), rest @ ..] = sections {
        let mut words = client.split(' ');
        let (window, touched) = (words.next()?, number(words.next()?));
        let created = number(words.next()?);
        // A client that is about to detach has no window.
        if let Some(window) = WindowId::parse(window) {
            clients.push((window, last_look(touched, created)));
            let pid = number(words.next_back()?);
            let session = words.next().and_then(SessionId::parse);
            if let Some(session) = session.filter(|_| pid != 0) {
                listing.clients.push(ListedClient {
                    pid,
                    session,
                    window,
                });
            }
        }
        sections = rest;
    }
    listing.sort();
    listing.set_views(&clients);
    matches!(sections, [(b'z', _)]).then_some(listing)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::state::tests::state;
    use super::*;
    use crate::track::PaneNumbers;
    use crate::track::ProcessExit;

    /// Builds a listing of these states.
    pub(in crate::tmux) fn listing(panes: Vec<PaneState>) -> Listing {
        let mut listing = Listing {
            panes,
            ..Listing::default()
        };
        listing.sort();
        listing
    }

    /// Builds a listing of panes, each with the name of its session.
    pub(crate) fn listing_of(panes: &[(u32, &str)]) -> Listing {
        let states = panes.iter().map(|&(pane, name)| {
            let session = u32::from(name.as_bytes()[0]);
            state(pane, (session, name), (pane, pane, "w"), 0)
        });
        listing(states.collect())
    }

    #[test]
    fn dead_panes_keep_the_processes_of_the_last_listing() {
        let dead = |pane| PaneState {
            numbers: PaneNumbers {
                pid: 0,
                dead: Some(ProcessExit::default()),
                ..state(pane, (1, "a"), (1, 0, "w"), pane).numbers
            },
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
    fn hostile_names_are_kept() {
        let nonce = Nonce::fixed("NN");
        let numbers = "%1 $0 @0 9 0 0 1 1 80 24 0 2000 0 0 0   0 0   1 0 5 ";
        let output = format!(
            "NNs1 2 3.3aNNk/tmp/a b\n/sockNNe\nNNp{numbers}NNna: b\t.cNNgbase\nNNwnNMe\nNNcx\nNMp%2\nNNtat work\nNNa#{{x}}\nNNe\nNNz\n"
        );
        let listing = parse(&nonce, &output).unwrap();
        assert_eq!(listing.server.socket, PathBuf::from("/tmp/a b\n/sock"));
        let [state] = listing.panes.as_slice() else {
            panic!("{listing:?}")
        };
        assert_eq!(state.session_name, "a: b\t.c");
        assert_eq!(state.window_name, "NMe\n");
        assert_eq!(state.declared_agent, "#{x}\n");
        assert_eq!(state.command, "x\nNMp%2\n");
        assert_eq!(
            parse(&nonce, output.strip_suffix("NNz\n").unwrap()),
            None,
            "truncated"
        );
    }

    #[test]
    fn a_client_that_nobody_touches_views_nothing() {
        let nonce = Nonce::fixed("NN");
        let pane = |pane: u32, window: u32| {
            format!(
                "NNp%{pane} $0 @{window} 9 0 0 1 1 80 24 0 2000 0 0 0   0 0   1 0 5 NNnaNNgNNwawNNcNNtNNaNNe\n"
            )
        };
        let viewed = |clients: &str| -> Vec<u32> {
            let output = format!(
                "NNs1 2 3.3a 1000NNk/sockNNe\n{}{}{clients}NNz\n",
                pane(1, 7),
                pane(2, 8)
            );
            let listing = parse(&nonce, &output).unwrap();
            let viewed = listing.panes.iter().filter(|state| state.viewed);
            viewed.map(|state| state.pane).collect()
        };
        assert_eq!(viewed(""), [0; 0]);
        assert_eq!(viewed("NNv@7 940 99 $0 5NNe\n"), [0; 0], "a minute ago");
        assert_eq!(viewed("NNv@7 941 99 $0 5NNe\n"), [1]);
        assert_eq!(
            viewed("NNv@7 100 99 $0 5NNe\nNNv@8 999 99 $0 0NNe\nNNv 999 99  6NNe\n"),
            [2]
        );
        assert_eq!(viewed("NNv@7 100 99 $0 5NNe\nNNv@7 1000 99 $0 6NNe\n"), [1]);
        // Nobody has touched it since it was attached.
        assert_eq!(viewed("NNv@7 996 996 $0 5NNe\n"), [1]);
        assert_eq!(viewed("NNv@7 995 995 $0 5NNe\n"), [0; 0]);
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
