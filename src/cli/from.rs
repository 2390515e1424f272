//! `--from`: the runs of many hosts in a Redis, which a face reads as copies in a data directory of their own.
//!
//! The face that comes first keeps the copies and serves them on the thread `td-from`; others read what it serves, and one
//! of them goes on when it ends.

use std::convert::Infallible;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

use crossbeam_channel::Receiver;
use tempfile::TempDir;

use super::failure::Failure;
use super::observer::{HubLock, ReplicaObserver};
use super::options::Options;
use super::redis_args::TypedRedis;
use crate::clock::Clock;
use crate::history::DataDir;
use crate::hosts::redis::{Address, Keys, Replica, ReplicaOptions};
use crate::thread::{self, Handle, Stop, StopGuard, is_stopped, stop_pair};

/// The interval at which a face looks if the one that keeps the copies has ended.
const TAKEOVER: Duration = Duration::from_millis(500);

/// The time after which a face that shows the copies once does not wait for more of them.
const KNOWN_TIME: Duration = Duration::from_secs(60);

/// The time after which a face shows the runs of which it knows.
const LISTED_TIME: Duration = Duration::from_secs(5);

/// The interval at which summaries of runs are kept, so that the next board needs only what came later.
const SUMMARIES: Duration = Duration::from_secs(10);

/// The Redis to read.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TypedFrom {
    /// Read the runs that hosts ship to this Redis: redis://[USER@]HOST[:PORT][/DB], or rediss:// with TLS
    #[arg(long, value_name = "ADDRESS", conflicts_with = "hosts")]
    pub from: Option<String>,
    #[command(flatten)]
    pub redis: TypedRedis,
}

/// The copies that a face reads, until it is dropped.
pub(super) struct CopiesInUse {
    running: Option<StopGuard>,
    thread: Option<Handle<()>>,
    _sockets: TempDir,
}

impl Drop for CopiesInUse {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            thread.join_logged();
        }
    }
}

/// Begins to read a Redis. The options then have the data directory of the copies.
///
/// # Errors
/// If the address is none, or the copies cannot be kept.
pub(super) fn begin(
    (typed, address): (&TypedFrom, &str),
    sockets: TempDir,
    options: &mut Options,
    shows_once: bool,
) -> Result<CopiesInUse, Failure> {
    let address = typed.redis.address("--from", address)?;
    let keys = typed.redis.keys()?;
    let path = options.own_home()?.join("from");
    let path = path.join(address.file_name(keys.prefix()));
    let created = DirBuilder::new().recursive(true).mode(0o700).create(&path);
    created.map_err(|cause| failure!("--from: cannot create {}: {cause}", path.display()))?;
    let data = DataDir::new(path);
    data.prepare()
        .map_err(|error| super::options::unusable(error, true))?;
    options.hosts = Some(data.clone());
    let (running, stop) = stop_pair();
    let (begun, is_served) = stop_pair();
    let keeper = Keeper {
        address,
        keys,
        data,
        socket: sockets.path().join("copies"),
        waits: shows_once,
        clock: Clock::system(),
    };
    let thread = thread::spawn("td-from", move || keeper.run(&stop, begun))?;
    let copies = CopiesInUse {
        running: Some(running),
        thread: Some(thread),
        _sockets: sockets,
    };
    wait(&is_served);
    Ok(copies)
}

/// Waits until the copies are served, by whoever, or cannot be.
fn wait(is_served: &Receiver<Infallible>) {
    // Nothing is ever sent.
    let _ = is_served.recv();
}

/// Keeps the copies and serves them, if no other face does.
struct Keeper {
    address: Address,
    keys: Keys,
    data: DataDir,
    socket: PathBuf,
    /// The face shows the copies once, so that they must be there before.
    waits: bool,
    clock: Clock,
}

impl Keeper {
    fn run(&self, stop: &Stop, begun: StopGuard) {
        let mut begun = Some(begun);
        while !is_stopped(stop) {
            match HubLock::take(self.data.path()) {
                Ok(lock) => {
                    if let Err(failure) = self.keep(lock, stop, &mut begun) {
                        log::error!("{}", failure.text());
                        return;
                    }
                }
                Err(error) if error.is_locked() => {
                    begun = None;
                    // The end of the stop's channel ends the pause.
                    let _ = stop.recv_deadline(self.clock.now() + TAKEOVER);
                }
                Err(error) => return log::error!("{error:?}"),
            }
        }
    }

    fn keep(
        &self,
        lock: HubLock,
        stop: &Stop,
        begun: &mut Option<StopGuard>,
    ) -> Result<(), Failure> {
        let replica = Replica::start(ReplicaOptions {
            address: self.address.clone(),
            keys: self.keys.clone(),
            data: self.data.clone(),
            clock: self.clock.clone(),
        })?;
        if self.waits && begun.is_some() {
            replica.wait_until_known(self.clock.now() + KNOWN_TIME);
        } else {
            replica.wait_until_listed(self.clock.now() + LISTED_TIME);
        }
        let mut observer = ReplicaObserver::start(lock, &self.data, &self.socket, &self.clock)?;
        *begun = None;
        while !is_stopped(stop) {
            // The end of the stop's channel ends the pause.
            let _ = stop.recv_deadline(self.clock.now() + SUMMARIES);
            replica.keep_summaries(observer.summaries());
        }
        observer.stop_following();
        replica.keep_summaries(observer.summaries());
        drop(replica);
        observer.end();
        Ok(())
    }
}
