//! The link to one host: finds its observer, connects to it, and reads its board, again and again.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::select_biased;
use serde::Deserialize;

use super::board::{HostBoard, Status};
use super::limit::Limit;
use super::name::HostName;
use super::problem::Problem;
use super::rewrite::Rewriter;
use super::ssh::{AskLimits, SshCommand, Tunnel};
use crate::api::{get_board_within, get_within};
use crate::child::Guard;
use crate::clock::Clock;
use crate::thread::{Stop, is_stopped, lock};
use crate::timestamp::Timestamp;

/// The time for which an observer holds a request while its board does not change.
const HOLD: Duration = Duration::from_secs(6);

/// The time by which an answer may be late: together with [`HOLD`], a silent host is found within 10 s.
const LATE: Duration = Duration::from_secs(4);

/// The time that a new connection has until the observer answers through it.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// The pause between two looks at a connection that is being made.
const CONNECT_PAUSE: Duration = Duration::from_millis(20);

/// The time in which ssh says why it does not reach the other end.
const WORDS_TIME: Duration = Duration::from_millis(300);

/// The pause between two boards while many rows change.
const BOARD_PAUSE: Duration = Duration::from_millis(100);

/// The first and the longest pause before another attempt to connect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

/// The time after which a connection counts as one that has worked.
const WORKED: Duration = Duration::from_secs(5);

/// The interval at which the observer is asked for its problems and its clock.
const HEALTH_INTERVAL: Duration = Duration::from_secs(30);

/// Finds the socket of the observer of this host; the error is the reason why there is none.
pub(crate) type FindSocket = Arc<dyn Fn() -> Result<PathBuf, String> + Send + Sync>;

/// Where an observer is.
#[derive(Clone)]
pub(super) enum Place {
    /// On this host.
    Local(FindSocket),
    Remote(RemotePlace),
}

/// An observer on another host.
#[derive(Clone, Debug)]
pub(super) struct RemotePlace {
    pub name: HostName,
    /// The program there, as a word of the remote shell.
    pub program: String,
    /// The observer is started if none runs.
    pub starts: bool,
    pub ssh: SshCommand,
    /// The end of the tunnel here.
    pub socket: PathBuf,
    pub guard: Arc<Guard>,
    /// How many connections are made at once.
    pub limit: Arc<Limit>,
}

/// The link to one host.
pub(super) struct Link {
    pub number: usize,
    pub place: Place,
    pub rewriter: Rewriter,
    pub board: Arc<HostBoard>,
    /// The socket at which the observer answers, as long as it does.
    pub socket: Mutex<Option<PathBuf>>,
    /// The connection on which the board is awaited.
    pub open: Mutex<Option<UnixStream>>,
    pub clock: Clock,
}

/// A connection through which the observer answers.
struct Connection {
    socket: PathBuf,
    /// `None` on this host.
    tunnel: Option<Tunnel>,
}

/// The status of an observer.
#[derive(Debug, Default, Deserialize)]
struct Health {
    #[serde(default)]
    problems: Vec<String>,
    #[serde(default)]
    observer: About,
    /// The time of the host.
    #[serde(default)]
    time: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
struct About {
    #[serde(default)]
    version: String,
    #[serde(default)]
    allow_input: bool,
}

impl Link {
    /// Returns the socket at which the observer answers.
    ///
    /// # Errors
    /// The reason why it does not, in words.
    pub fn socket(&self) -> Result<PathBuf, String> {
        if let Some(socket) = lock(&self.socket).clone() {
            return Ok(socket);
        }
        Err(self.board.with(|hosts| {
            let of = hosts.get(self.number);
            match of.map(|of| (of.name(), &of.status)) {
                Some((_, Status::Unreachable(_, why))) => why.to_string(),
                Some((name, _)) => format!("{name} is being connected"),
                None => "there is no such host".to_owned(),
            }
        }))
    }

    /// Ends the wait for the board, after a stop.
    pub fn wake(&self) {
        if let Some(stream) = lock(&self.open).take() {
            // An error means that it is closed.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn note_open(&self, stream: &UnixStream, stop: &Stop) {
        // Without a copy, the wait ends by itself.
        *lock(&self.open) = stream.try_clone().ok();
        if is_stopped(stop) {
            self.wake();
        }
    }

    /// Reads the board of the host until a stop.
    pub fn run(&self, stop: &Stop) {
        let (first, longest) = PAUSES;
        let mut pause = first;
        while !is_stopped(stop) {
            let begun = self.clock.now();
            match self.connect(stop) {
                Ok(connection) => {
                    *lock(&self.socket) = Some(connection.socket.clone());
                    let end = self.read(&connection, stop);
                    *lock(&self.socket) = None;
                    let worked = self.clock.now().saturating_duration_since(begun) >= WORKED;
                    match end {
                        // A connection that has worked is made again, before anybody hears of its end.
                        Some(_) if worked => {
                            pause = first;
                            continue;
                        }
                        Some(why) => self.board.set_unreachable(self.number, why),
                        None => return,
                    }
                }
                Err(why) => self.board.set_unreachable(self.number, why),
            }
            select_biased! {
                recv(stop) -> _ => return,
                recv(self.clock.after(pause)) -> _ => {}
            }
            pause = (pause * 2).min(longest);
        }
    }

    fn connect(&self, stop: &Stop) -> Result<Connection, Problem> {
        match &self.place {
            Place::Local(find) => {
                let socket = find().map_err(Problem::new)?;
                self.note_health(&socket, LATE)?;
                let tunnel = None;
                Ok(Connection { socket, tunnel })
            }
            Place::Remote(place) => {
                let _slot = place.limit.take(stop);
                let remote = place.find_socket((stop, &self.clock))?;
                let addresses = (place.socket.as_path(), remote.as_str());
                let tunnel = place.ssh.forward(&place.name, addresses, &place.guard)?;
                self.wait_for(place, tunnel, stop)
            }
        }
    }

    /// Waits until the observer answers through a tunnel.
    fn wait_for(
        &self,
        place: &RemotePlace,
        mut tunnel: Tunnel,
        stop: &Stop,
    ) -> Result<Connection, Problem> {
        let deadline = self.clock.now() + CONNECT_TIME;
        loop {
            // ssh makes the file a little before it listens.
            let is_there = UnixStream::connect(&place.socket).is_ok();
            let why = match self.note_health(&place.socket, LATE) {
                Ok(()) => {
                    return Ok(Connection {
                        socket: place.socket.clone(),
                        tunnel: Some(tunnel),
                    });
                }
                Err(why) => why,
            };
            if tunnel.has_ended() {
                return Err(Problem::of_ssh(&place.name, &tunnel.words()));
            }
            if is_there {
                // The tunnel is there, but its other end is not. ssh says why a little later.
                select_biased! {
                    recv(stop) -> _ => {}
                    recv(self.clock.after(WORDS_TIME)) -> _ => {}
                }
                return Err(match tunnel.words() {
                    said if said.contains("open failed") => Problem::new(format!(
                        "the observer on {} is not reached: {}; sshd there must allow stream forwarding \
                         (AllowStreamLocalForwarding)",
                        place.name,
                        super::problem::last_words(&said)
                    )),
                    _ => why,
                });
            }
            if is_stopped(stop) || self.clock.now() >= deadline {
                return Err(Problem::silent(place.name.as_str()));
            }
            select_biased! {
                recv(stop) -> _ => {}
                recv(self.clock.after(CONNECT_PAUSE)) -> _ => {}
            }
        }
    }

    /// Reads what the observer says of itself.
    fn note_health(&self, socket: &Path, within: Duration) -> Result<(), Problem> {
        let asked = self.clock.wall();
        let answer = get_within(socket, "/healthz", None, within)
            .map_err(|error| Problem::new(format!("the observer does not answer: {error}")))?;
        let answered = self.clock.wall();
        let health: Health = serde_json::from_slice(&answer.body)
            .map_err(|_| Problem::new("what answers is no observer"))?;
        // The host has told its time about in the middle.
        let between = asked.micros() / 2 + answered.micros() / 2;
        let clock = health.time.map(|time| time.micros() - between);
        self.board.note(self.number, |of| {
            of.clock = clock;
            of.problems = health.problems;
            of.version = health.observer.version;
            of.allows_input = health.observer.allow_input;
        });
        Ok(())
    }

    /// Reads the board through a connection until it breaks; returns the reason, or `None` after a stop.
    fn read(&self, connection: &Connection, stop: &Stop) -> Option<Problem> {
        let mut etag: Option<String> = None;
        let mut health_at = self.clock.now() + HEALTH_INTERVAL;
        while !is_stopped(stop) {
            let asked = self.clock.now();
            let within = HOLD + LATE;
            let known = etag.as_deref();
            let opened = |stream: &UnixStream| self.note_open(stream, stop);
            match get_board_within(&connection.socket, known, (HOLD, within), &opened) {
                Ok(changed) => {
                    if let Some((rows, version)) = changed {
                        etag = version;
                        self.board.set_rows(self.number, rows);
                        select_biased! {
                            recv(stop) -> _ => {}
                            recv(self.clock.after(BOARD_PAUSE)) -> _ => {}
                        }
                    }
                }
                Err(error) => {
                    let is_silent = self.clock.now().saturating_duration_since(asked) >= within;
                    let ended = connection.tunnel.as_ref().is_some_and(Tunnel::has_ended);
                    log::debug!("{error:?}, ssh has ended: {ended}");
                    let name = self
                        .board
                        .with(|hosts| hosts[self.number].name().to_owned());
                    let why = if is_silent && !ended {
                        Problem::silent(&name)
                    } else {
                        Problem::new(format!("the connection to {name} is broken: {error}"))
                    };
                    if is_silent {
                        self.board.set_unreachable(self.number, why.clone());
                    }
                    return Some(why);
                }
            }
            if self.clock.now() >= health_at {
                health_at = self.clock.now() + HEALTH_INTERVAL;
                // The board tells whether it answers.
                let _ = self.note_health(&connection.socket, LATE);
            }
        }
        None
    }
}

impl RemotePlace {
    /// Asks the host where its observer listens.
    fn find_socket(&self, (stop, clock): (&Stop, &Clock)) -> Result<String, Problem> {
        let subcommand = if self.starts { "start" } else { "status" };
        let command = format!("{} {subcommand} --print-socket", self.program);
        let answer = self
            .ssh
            .ask(&self.name, &command, AskLimits::SHORT, (stop, clock));
        let answer = answer.map_err(|error| Problem::of_asking(&self.name, &error))?;
        if !answer.status.success() {
            return Err(Problem::of_answer(&self.name, &answer));
        }
        let said = String::from_utf8_lossy(&answer.stdout);
        let path = said.lines().last().unwrap_or_default();
        // A colon would end the path in the argument of ssh.
        let is_path = path.starts_with('/') && !path.contains(|c: char| c == ':' || c.is_control());
        if answer.truncated || !is_path || path.len() > PATH_MAX {
            return Err(Problem::new(format!(
                "td-observe on {} did not print the path of a socket: is something printed by its shell's start files?",
                self.name
            )));
        }
        Ok(path.to_owned())
    }
}

/// The longest path of a socket, as the system has it.
const PATH_MAX: usize = 107;
