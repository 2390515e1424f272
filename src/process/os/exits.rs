//! Exits of processes that are not children. Each process has a pidfd, and one thread waits for all of them.
//!
//! Each watched tmux server has one thread, `td-exits`. A poller watches processes through a
//! [`ProcessWatcher`], with a channel for notifications. The thread blocks in `epoll_wait`, stores the exit
//! of a process and sends a message without blocking. It ends when its [`ExitWatch`] is shut down or dropped.

use std::collections::HashMap;
use std::io;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use crossbeam_channel::Sender;
pub(super) use imp::EpollSet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::{pidfd, procfs};
use crate::child::{Stat, stat};
use crate::error::{Error, Result};
use crate::thread::{self, Handle, Panicked, lock};
use crate::track::ProcessExit;

/// The number of the socket that ends the thread.
const WAKE: u64 = 0;

/// Watches processes for their exits. Clones share the thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessWatcher(Option<Arc<ExitWatchState>>);

/// The thread behind a [`ProcessWatcher`].
#[derive(Debug)]
pub(crate) struct ExitWatch {
    pub watcher: ProcessWatcher,
    thread: Handle<()>,
    wake: UnixStream,
}

#[derive(Debug)]
struct ExitWatchState {
    epoll: EpollSet,
    entries: Mutex<HashMap<u64, Arc<PidfdEntry>>>,
    next_number: AtomicU64,
}

#[derive(Debug)]
struct PidfdEntry {
    pid: u32,
    started: u64,
    pidfd: OwnedFd,
    /// The exit, set once the process has ended and all sources of its status were tried.
    exit: OnceLock<Option<ProcessExit>>,
    exited: Sender<()>,
}

#[derive(Debug)]
pub(crate) struct WatchedProcess {
    pub pid: u32,
    started: u64,
    /// `None` without a pidfd. The exit is polled in `/proc` then.
    entry: Option<(u64, Arc<PidfdEntry>, Arc<ExitWatchState>)>,
}

impl ExitWatch {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread or descriptor left, or is not Linux.
    pub fn start() -> Result<Self> {
        let failed = |cause| Error::other("cannot wait for the exits of processes").because(cause);
        let (wake, woken) = UnixStream::pair().map_err(failed)?;
        let epoll = EpollSet::new().map_err(failed)?;
        epoll.add(&woken, WAKE).map_err(failed)?;
        let shared = Arc::new(ExitWatchState {
            epoll,
            entries: Mutex::default(),
            next_number: AtomicU64::new(WAKE + 1),
        });
        let watcher = ProcessWatcher(Some(Arc::clone(&shared)));
        let thread = thread::spawn("td-exits", move || shared.run(&woken))?;
        Ok(Self {
            watcher,
            thread,
            wake,
        })
    }

    /// Ends the thread.
    ///
    /// # Errors
    /// When the thread has panicked.
    pub fn shutdown(self) -> Result<(), Panicked> {
        let Self { thread, wake, .. } = self;
        drop(wake);
        thread.join()
    }
}

impl ProcessWatcher {
    /// Watches a process that satisfies `is_expected`. The check follows the opening of the process, because
    /// its pid may have been reused. Returns `None` if no such process exists. `exited` gets a message when
    /// the process has ended.
    pub fn watch(
        &self,
        pid: u32,
        exited: &Sender<()>,
        is_expected: impl FnOnce(&Stat) -> bool,
    ) -> Option<WatchedProcess> {
        let pidfd = match &self.0 {
            // Enough for the panes of a very busy server and their jobs, and a quarter of the files that the
            // program may open. Further processes are looked up in `/proc`.
            Some(shared) if shared.entries().len() < 2048 => pidfd::open(pid).ok(),
            _ => None,
        };
        let stat = stat(pid).filter(is_expected)?;
        let polled = WatchedProcess {
            pid,
            started: stat.started,
            entry: None,
        };
        let (Some(shared), Some(pidfd)) = (&self.0, pidfd) else {
            return Some(polled);
        };
        // A process that is alive now is the one that was checked. A dead one may be another process.
        if !stat.is_zombie && is_ready(&pidfd) {
            return None;
        }
        let number = shared.next_number.fetch_add(1, Ordering::Relaxed);
        let entry = Arc::new(PidfdEntry {
            pid,
            started: stat.started,
            pidfd,
            exit: OnceLock::new(),
            exited: exited.clone(),
        });
        shared.entries().insert(number, Arc::clone(&entry));
        if let Err(cause) = shared.epoll.add(&entry.pidfd, number) {
            log::debug!("cannot wait for the exit of process {pid}: {cause}");
            shared.entries().remove(&number);
            return Some(polled);
        }
        let entry = Some((number, entry, Arc::clone(shared)));
        Some(WatchedProcess { entry, ..polled })
    }
}

impl WatchedProcess {
    /// Returns the exit of the process once it has ended: `Some(None)` if its status is unknown.
    pub fn exit(&self) -> Option<Option<ProcessExit>> {
        match &self.entry {
            Some((_, entry, _)) => entry.exit.get().copied(),
            None => {
                let exit = procfs::zombie_exit(self.pid, self.started);
                let exists = exit.is_none() && procfs::exists(self.pid, self.started);
                (!exists).then_some(exit)
            }
        }
    }

    /// Queries the exit now, without waiting for the thread.
    pub fn query_exit(&self) -> Option<Option<ProcessExit>> {
        let entry = self.entry.as_ref();
        self.exit()
            .or_else(|| entry.and_then(|(_, entry, _)| entry.query()))
    }

    /// Returns true if the exit is reported with a message.
    pub fn reports_exit(&self) -> bool {
        self.entry.is_some()
    }

    /// Returns true if `stat` belongs to this process.
    pub fn matches(&self, stat: &Stat) -> bool {
        (self.pid, self.started) == (stat.pid, stat.started)
    }
}

impl Drop for WatchedProcess {
    fn drop(&mut self) {
        if let Some((number, entry, shared)) = &self.entry {
            shared.epoll.remove(&entry.pidfd);
            shared.entries().remove(number);
        }
    }
}

impl PidfdEntry {
    /// Queries the exit of the process; `None` while it may become known later.
    fn query(&self) -> Option<Option<ProcessExit>> {
        // A zombie has not been reaped by its parent yet.
        let known = || {
            let zombie = || procfs::zombie_exit(self.pid, self.started);
            self.reaped().or_else(zombie)
        };
        if let Some(exit) = known() {
            return Some(Some(exit));
        }
        if procfs::exists(self.pid, self.started) {
            return None;
        }
        // The process is reaped by now, so this answer is final.
        let exit = self.reaped();
        if exit.is_none() {
            log_unknown_exits();
        }
        Some(exit)
    }

    fn reaped(&self) -> Option<ProcessExit> {
        pidfd::exit_status(&self.pidfd).map(ProcessExit::from_wait_status)
    }
}

/// Logs once that the kernel does not report exits.
fn log_unknown_exits() {
    static LOGGED: AtomicBool = AtomicBool::new(false);
    if !LOGGED.swap(true, Ordering::Relaxed) {
        log::info!(
            "this kernel does not report how programs ended that other programs started (Linux 6.15 and \
             newer do): exit statuses that tmux does not have stay unknown"
        );
    }
}

impl ExitWatchState {
    fn entries(&self) -> MutexGuard<'_, HashMap<u64, Arc<PidfdEntry>>> {
        lock(&self.entries)
    }

    fn run(&self, woken: &UnixStream) {
        loop {
            let numbers = match self.epoll.wait() {
                Ok(numbers) => numbers,
                Err(cause) => {
                    return log::error!("cannot wait for the exits of processes: {cause}");
                }
            };
            for number in numbers {
                // The socket never gets data; it is only closed.
                if number == WAKE && matches!((&*woken).read(&mut [0]), Ok(0) | Err(_)) {
                    return;
                }
                let entry = self.entries().get(&number).cloned();
                if let Some(entry) = entry {
                    self.process_exited(number, &entry);
                }
            }
        }
    }

    /// Handles a process that has ended or was reaped.
    fn process_exited(&self, number: u64, entry: &PidfdEntry) {
        match entry.query() {
            Some(exit) => {
                // Only this thread sets it.
                let _ = entry.exit.set(exit);
                // A full channel already has a message, and a closed one has no reader.
                let _ = entry.exited.try_send(());
            }
            // The exit of another user's process becomes visible when its parent has reaped it.
            None => self.epoll.wait_for_reaping(&entry.pidfd, number),
        }
    }
}

/// Returns true if a descriptor is ready now. A pidfd is ready when its process has ended.
pub(super) fn is_ready(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
}

#[cfg(target_os = "linux")]
mod imp {
    use std::os::fd::OwnedFd;

    use rustix::buffer::spare_capacity;
    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use rustix::io::Errno;

    use super::{AsFd, io};

    /// Descriptors and their numbers.
    #[derive(Debug)]
    pub struct EpollSet(OwnedFd);

    impl EpollSet {
        /// # Errors
        /// When the system has no descriptor left, or is not Linux.
        pub fn new() -> io::Result<Self> {
            Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
        }

        /// Adds a descriptor.
        ///
        /// # Errors
        /// When the system has no room for it.
        pub fn add(&self, fd: &impl AsFd, number: u64) -> io::Result<()> {
            let once = EventFlags::IN | EventFlags::ONESHOT;
            Ok(epoll::add(&self.0, fd, EventData::new_u64(number), once)?)
        }

        /// Waits once more for a pidfd that was ready, until its process has been reaped.
        pub fn wait_for_reaping(&self, fd: &impl AsFd, number: u64) {
            // Reaping is reported as a hang-up, which needs no flag. The call fails if the descriptor was
            // just removed from the set.
            let data = EventData::new_u64(number);
            let _ = epoll::modify(&self.0, fd, data, EventFlags::ONESHOT);
        }

        pub fn remove(&self, fd: &impl AsFd) {
            // The descriptor is in the set, because it was added and is removed only once.
            let _ = epoll::delete(&self.0, fd);
        }

        /// Blocks until a descriptor is ready; returns the numbers of all ready ones.
        ///
        /// # Errors
        /// The error of the system.
        pub fn wait(&self) -> io::Result<Vec<u64>> {
            // The next wait reports further descriptors.
            let mut events = Vec::with_capacity(64);
            loop {
                match epoll::wait(&self.0, spare_capacity(&mut events), None) {
                    Ok(_) => return Ok(events.iter().map(|event| event.data.u64()).collect()),
                    Err(Errno::INTR) => {}
                    Err(cause) => return Err(cause.into()),
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use super::{AsFd, io};

    #[derive(Debug)]
    pub struct EpollSet;

    impl EpollSet {
        pub fn new() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn add(&self, _fd: &impl AsFd, _number: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn wait_for_reaping(&self, _fd: &impl AsFd, _number: u64) {}

        pub fn remove(&self, _fd: &impl AsFd) {}

        pub fn wait(&self) -> io::Result<Vec<u64>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use crossbeam_channel::bounded;

    use super::*;

    const CEILING: Duration = Duration::from_secs(20);

    fn child(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped());
        command.spawn().unwrap()
    }

    fn exit_of(process: &WatchedProcess) -> Option<ProcessExit> {
        process.exit().expect("it has ended")
    }

    #[test]
    fn exits_of_zombies_and_of_reaped_processes_are_reported() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let watch = ExitWatch::start().unwrap();
        let (exited, exits) = bounded(1);
        let mut zombie = child("read x; exit 101");
        let process = watch.watcher.watch(zombie.id(), &exited, |_| true).unwrap();
        assert_eq!(process.exit(), None, "it runs");
        drop(zombie.stdin.take());
        exits.recv_timeout(CEILING).unwrap();
        assert_eq!(exit_of(&process).unwrap().status, Some(101));
        zombie.wait().unwrap();
        let mut killed = child("read x");
        let process = watch.watcher.watch(killed.id(), &exited, |_| true).unwrap();
        killed.kill().unwrap();
        exits.recv_timeout(CEILING).unwrap();
        assert_eq!(exit_of(&process).unwrap().signal, Some(9));
        killed.wait().unwrap();
        watch.shutdown().unwrap();
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "reports a skipped test")]
    fn a_reaped_process_has_a_status_where_the_kernel_has_it() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let mut child = child("read x; exit 7");
        let pidfd = pidfd::open(child.id()).unwrap();
        assert_ne!(pidfd::exit_status(&pidfd), Some(0), "it runs");
        drop(child.stdin.take());
        child.wait().unwrap();
        match pidfd::exit_status(&pidfd) {
            Some(code) => assert_eq!(code, 7 << 8),
            None => println!("SKIPPED: this kernel does not report how processes ended"),
        }
    }

    #[test]
    fn a_process_that_is_not_meant_is_not_watched() {
        let watcher = ProcessWatcher::default();
        let (exited, _exits) = bounded(1);
        let own = std::process::id();
        assert!(watcher.watch(own, &exited, |_| false).is_none());
        if cfg!(target_os = "linux") {
            let process = watcher.watch(own, &exited, |stat| stat.pid == own).unwrap();
            assert_eq!(process.exit(), None, "polled in /proc");
        }
    }

    #[test]
    fn a_dropped_process_has_no_entry() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let watch = ExitWatch::start().unwrap();
        let (exited, exits) = bounded(1);
        let watcher = watch.watcher.clone();
        let process = watcher
            .watch(std::process::id(), &exited, |_| true)
            .unwrap();
        let shared = Arc::clone(watcher.0.as_ref().unwrap());
        assert_eq!(shared.entries().len(), 1);
        drop(process);
        assert_eq!(shared.entries().len(), 0);
        assert!(exits.try_recv().is_err());
        watch.shutdown().unwrap();
    }
}
