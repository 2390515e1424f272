//! The observers of other hosts, read as one: each row, run and pane of a host bears its name.
//!
//! ```text
//! observer of a host ─ its API ═ ssh ═ socket here ─> td-host-N: Link ─> HostBoard ─┐
//!                                          ├────────> td-host-runs-N: Copies        ├─> Hub: one API ─> a face
//!                                          └────────> td-host-events: HostEvents ───┘
//! ```
//!
//! A face reads the hub as it reads any observer: at a socket, in a data directory of its own.

#[cfg(feature = "report")]
mod ask;
mod board;
mod copies;
mod events;
#[cfg(feature = "internals")]
pub(crate) mod fuzzed;
mod hub;
mod limit;
mod link;
mod name;
mod problem;
mod rewrite;
mod ssh;
#[cfg(feature = "tui")]
mod visit;

#[cfg(feature = "redis")]
pub(crate) mod redis;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::api::{Server, Slots};
use crate::child::Guard;
use crate::clock::Clock;
use crate::error::Result;
use crate::history::{DataDir, SharedCopySource};
use crate::thread::{Handle, StopGuard, spawn, stop_pair};
use board::HostBoard;
use copies::Copies;
use hub::Hub;
use limit::Limit;
use link::{Link, Place, RemotePlace};
use rewrite::Rewriter;

#[cfg(feature = "report")]
pub(crate) use ask::{ReportQuestion, ask_for_reports};
pub(crate) use board::Copied;
pub(crate) use copies::CopyKind;
pub(crate) use link::FindSocket;
pub(crate) use name::HostName;
pub(crate) use ssh::SshCommand;

/// The most connections that are made at once: sshd refuses some of more than ten (MaxStartups).
const CONNECTS_MAX: usize = 6;

/// The time in which the hub's clients read the last answers.
const END: Duration = Duration::from_secs(1);

/// A host to read.
#[derive(Clone)]
pub(crate) enum HostChoice {
    /// This one, whose observer is found anew when it ends.
    Local(FindSocket),
    /// Another one, and the program there as a word of its shell.
    Remote(HostName, String),
}

/// How hosts are read.
pub(crate) struct HostOptions {
    pub hosts: Vec<HostChoice>,
    pub ssh: SshCommand,
    /// Observers that do not run are started.
    pub starts: bool,
    pub copies: CopyKind,
    /// The argument with which this program guards its children.
    pub guard: &'static str,
}

/// The observers of several hosts, served as one. Dropping it ends all connections.
pub(crate) struct Hosts {
    board: Arc<HostBoard>,
    links: Arc<[Arc<Link>]>,
    data: DataDir,
    running: Option<StopGuard>,
    threads: Vec<Handle<()>>,
    server: Option<Server>,
    clock: Clock,
}

impl Hosts {
    /// Begins to connect to all hosts, and serves them at a socket. The tunnels end in `sockets`, whose path is short;
    /// the copies of runs are in `data`.
    ///
    /// # Errors
    /// If the socket cannot be served, or a thread cannot be started.
    pub fn start(
        options: HostOptions,
        (socket, sockets, data): (&Path, &Path, PathBuf),
        clock: &Clock,
    ) -> Result<Self> {
        let (running, stop) = stop_pair();
        let guard = Arc::new(Guard::start(OsStr::new(options.guard))?);
        guard.remove_at_end(sockets);
        let limit = Arc::new(Limit::of(CONNECTS_MAX));
        let names = options.hosts.iter().map(|host| match host {
            HostChoice::Local(_) => Rewriter(None),
            HostChoice::Remote(name, _) => Rewriter(Some(name.clone())),
        });
        let rewriters: Vec<Rewriter> = names.collect();
        let board = Arc::new(HostBoard::new(rewriters.iter().cloned(), clock));
        let places = options.hosts.into_iter().zip(rewriters).enumerate();
        let links = places.map(|(number, (host, rewriter))| {
            let place = match host {
                HostChoice::Local(find) => Place::Local(find),
                HostChoice::Remote(name, program) => Place::Remote(RemotePlace {
                    name,
                    program,
                    starts: options.starts,
                    ssh: options.ssh.clone(),
                    socket: sockets.join(format!("{number}.sock")),
                    guard: Arc::clone(&guard),
                    limit: Arc::clone(&limit),
                }),
            };
            Arc::new(Link {
                number,
                place,
                rewriter,
                board: Arc::clone(&board),
                socket: Mutex::new(None),
                open: Mutex::new(None),
                clock: clock.clone(),
            })
        });
        let links: Arc<[Arc<Link>]> = links.collect();
        let plain = DataDir::new(data);
        let are_copied = options.copies != CopyKind::None;
        let shared = (Arc::clone(&links), Arc::clone(&board));
        let copies = Copies::new(&plain, shared, options.copies, (&stop, clock));
        let copies = Arc::new(copies);
        let hub = Hub {
            links: Arc::clone(&links),
            board: Arc::clone(&board),
            slots: Slots::default(),
            clock: clock.clone(),
        };
        let mut hosts = Self {
            board,
            links: Arc::clone(&links),
            data: plain.with_copies(SharedCopySource(Arc::clone(&copies) as _)),
            running: Some(running),
            threads: Vec::new(),
            server: Some(Server::start(socket, Arc::new(hub), clock)?),
            clock: clock.clone(),
        };
        for (number, link) in links.iter().enumerate() {
            let (link, of) = (Arc::clone(link), stop.clone());
            let thread = spawn(format!("td-host-{number}"), move || link.run(&of))?;
            hosts.threads.push(thread);
            if are_copied {
                let copies = Arc::clone(&copies);
                let name = format!("td-host-runs-{number}");
                hosts
                    .threads
                    .push(spawn(name, move || copies.keep(number))?);
            }
        }
        Ok(hosts)
    }

    /// Returns the directory of the copies.
    pub fn data(&self) -> &DataDir {
        &self.data
    }

    /// Returns the hosts that are not read, and why.
    pub fn unread(&self) -> Vec<(String, String)> {
        self.board.unread()
    }

    /// Waits until each host is known not to be read, or is read and copied so far, or the deadline.
    pub fn wait_until_known(&self, copied: Copied, deadline: Instant) {
        self.board.wait_until_known(copied, deadline);
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        drop(self.running.take());
        self.board.end();
        self.links.iter().for_each(|link| link.wake());
        if let Some(server) = self.server.take() {
            server.stop(&self.clock, END);
        }
        self.threads.drain(..).for_each(Handle::join_logged);
    }
}
