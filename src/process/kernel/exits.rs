//! How processes end that are not our children: each is held by a pidfd, and one thread waits for all.
//!
//! One thread a watched server, `td-exits`. A poller opens processes through [`ProcessWatcher`] and gives the bell
//! that is rung when one of them has ended; the thread blocks in `epoll_wait`, finds out how a process
//! ended, notes it and rings, which never waits. At rest it does not run. It ends when its [`ExitWatch`]
//! is shut down or dropped.

use std::collections::HashMap;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crossbeam_channel::Sender;

use super::pidfd::{self, Told};
use super::procfs::{self, Stat};
use super::ready::{ReadySet, is_ready};
use crate::error::{Error, Result};
use crate::thread::{self, Handle, Panicked};
use crate::track::Death;

/// So many processes are held: the panes of a very busy server and their jobs, and a quarter of the
/// files that the program may open. Of others the end is looked up in `/proc`.
const HELD_MAX: usize = 2048;

/// The number of the socket that ends the thread, among those of processes.
const WAKE: u64 = 0;

/// Holds processes open to learn how they end; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessWatcher(Option<Arc<Shared>>);

/// The thread behind [`ProcessWatcher`].
#[derive(Debug)]
pub(crate) struct ExitWatch {
    exits: ProcessWatcher,
    thread: Handle<()>,
    wake: UnixStream,
}

#[derive(Debug)]
struct Shared {
    ready: ReadySet,
    held: Mutex<HashMap<u64, Arc<Held>>>,
    next: AtomicU64,
}

/// A process that is held open.
#[derive(Debug)]
struct Held {
    pid: u32,
    started: u64,
    pidfd: OwnedFd,
    /// How it ended, once it has and all has been tried to learn it.
    end: OnceLock<Option<Death>>,
    bell: Sender<()>,
}

/// A process under observation.
#[derive(Debug)]
pub(crate) struct WatchedProcess {
    pub pid: u32,
    started: u64,
    held: Option<(u64, Arc<Held>, Arc<Shared>)>,
}

impl ExitWatch {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread or descriptor to give, or is no Linux.
    pub fn start() -> Result<Self> {
        let failed = |cause| Error::other("cannot wait for the ends of processes").because(cause);
        let (wake, woken) = UnixStream::pair().map_err(failed)?;
        let ready = ReadySet::new().map_err(failed)?;
        ready.add(&woken, WAKE).map_err(failed)?;
        let shared = Arc::new(Shared {
            ready,
            held: Mutex::default(),
            next: AtomicU64::new(WAKE + 1),
        });
        let exits = ProcessWatcher(Some(Arc::clone(&shared)));
        let thread = thread::spawn("td-exits", move || shared.run(&woken))?;
        Ok(Self {
            exits,
            thread,
            wake,
        })
    }

    /// What processes are opened through.
    pub fn exits(&self) -> ProcessWatcher {
        self.exits.clone()
    }

    /// Ends the thread.
    ///
    /// # Errors
    /// When it had panicked.
    pub fn shutdown(self) -> Result<(), Panicked> {
        let Self { thread, wake, .. } = self;
        drop(wake);
        thread.join()
    }
}

impl ProcessWatcher {
    /// Opens a process that `is_meant`, judged after it has been opened: a pid may have been given to
    /// another process meanwhile. `None` when there is no such process. The bell is rung when it
    /// ends.
    pub fn open(
        &self,
        pid: u32,
        bell: &Sender<()>,
        is_meant: impl FnOnce(&Stat) -> bool,
    ) -> Option<WatchedProcess> {
        let pidfd = match &self.0 {
            Some(shared) if shared.held().len() < HELD_MAX => pidfd::open(pid).ok(),
            _ => None,
        };
        let stat = procfs::stat(pid).filter(is_meant)?;
        let unheld = WatchedProcess {
            pid,
            started: stat.started,
            held: None,
        };
        let (Some(shared), Some(pidfd)) = (&self.0, pidfd) else {
            return Some(unheld);
        };
        // One that lives now was the one that was judged; else that may have been another one.
        if !stat.is_zombie && is_ready(&pidfd) {
            return None;
        }
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let held = Arc::new(Held {
            pid,
            started: stat.started,
            pidfd,
            end: OnceLock::new(),
            bell: bell.clone(),
        });
        shared.held().insert(number, Arc::clone(&held));
        if let Err(cause) = shared.ready.add(&held.pidfd, number) {
            log::debug!("cannot wait for the end of process {pid}: {cause}");
            shared.held().remove(&number);
            return Some(unheld);
        }
        let held = Some((number, held, Arc::clone(shared)));
        Some(WatchedProcess { held, ..unheld })
    }
}

impl WatchedProcess {
    /// Whether it has ended, and how, as far as that can be known.
    pub fn end(&self) -> Option<Option<Death>> {
        let Some((_, held, _)) = &self.held else {
            let death = procfs::zombie(self.pid, self.started);
            let is_there = death.is_none() && procfs::is_there(self.pid, self.started);
            return (!is_there).then_some(death);
        };
        held.end.get().copied()
    }

    /// The same, when it is not waited for any longer.
    pub fn end_now(&self) -> Option<Option<Death>> {
        match &self.held {
            Some((_, held, _)) => held.end.get().copied().or_else(|| held.look()),
            None => self.end(),
        }
    }

    /// Whether the bell is rung when it ends.
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Whether this is that process.
    pub fn is(&self, stat: &Stat) -> bool {
        (self.pid, self.started) == (stat.pid, stat.started)
    }
}

impl Drop for WatchedProcess {
    fn drop(&mut self) {
        if let Some((number, held, shared)) = &self.held {
            shared.ready.remove(&held.pidfd);
            shared.held().remove(number);
        }
    }
}

impl Held {
    /// How it ended; `None` while that may yet be learnt.
    fn look(&self) -> Option<Option<Death>> {
        if let Some(death) = self.told() {
            return Some(death);
        }
        // Its parent has not asked for it yet.
        if let Some(death) = procfs::zombie(self.pid, self.started) {
            return Some(Some(death));
        }
        if procfs::is_there(self.pid, self.started) {
            return None;
        }
        // By now the parent has: what is not told now never is.
        let death = self.told().flatten();
        if death.is_none() {
            say_unknown();
        }
        Some(death)
    }

    fn told(&self) -> Option<Option<Death>> {
        match pidfd::told(&self.pidfd) {
            Told::Ended(code) => Some(Some(procfs::death(code))),
            Told::NotYet | Told::Never => None,
        }
    }
}

/// A kernel that does not tell is worth a word, and one is enough.
fn say_unknown() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        log::info!(
            "this kernel does not say how programs ended that others started (Linux 6.15 and newer do): \
             exit statuses that tmux does not have stay unknown"
        );
    }
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, HashMap<u64, Arc<Held>>> {
        // Each change is one step: a panic leaves nothing half done.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, woken: &UnixStream) {
        loop {
            let numbers = match self.ready.wait() {
                Ok(numbers) => numbers,
                Err(cause) => return log::error!("cannot wait for the ends of processes: {cause}"),
            };
            for number in numbers {
                // The other end is closed: that is the only thing that it says.
                if number == WAKE && matches!((&*woken).read(&mut [0]), Ok(0) | Err(_)) {
                    return;
                }
                let held = self.held().get(&number).cloned();
                if let Some(held) = held {
                    self.ended(number, &held);
                }
            }
        }
    }

    /// A process has ended, or has been waited for.
    fn ended(&self, number: u64, held: &Held) {
        match held.look() {
            Some(end) => {
                // Only this thread sets it.
                let _ = held.end.set(end);
                // Full: it rings already. Closed: nobody wants to know any more.
                let _ = held.bell.try_send(());
            }
            // A process of another user, whose end is told when its parent has asked for it.
            None => self.ready.wait_for_last(&held.pidfd, number),
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

    fn end_of(process: &WatchedProcess) -> Option<Death> {
        process.end().expect("it has ended")
    }

    #[test]
    fn ends_are_told_of_zombies_and_of_processes_that_are_gone() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let watch = ExitWatch::start().unwrap();
        let (bell, rung) = bounded(1);
        let mut zombie = child("read x; exit 101");
        let process = watch.exits().open(zombie.id(), &bell, |_| true).unwrap();
        assert_eq!(process.end(), None, "it is there");
        drop(zombie.stdin.take());
        rung.recv_timeout(CEILING).unwrap();
        assert_eq!(end_of(&process).unwrap().status, Some(101));
        zombie.wait().unwrap();
        let mut killed = child("read x");
        let process = watch.exits().open(killed.id(), &bell, |_| true).unwrap();
        killed.kill().unwrap();
        rung.recv_timeout(CEILING).unwrap();
        assert_eq!(end_of(&process).unwrap().signal, Some(9));
        killed.wait().unwrap();
        watch.shutdown().unwrap();
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "what is skipped is said")]
    fn a_process_that_was_waited_for_tells_where_the_kernel_does() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let mut child = child("read x; exit 7");
        let pidfd = pidfd::open(child.id()).unwrap();
        assert_ne!(pidfd::told(&pidfd), Told::Ended(0), "it is there");
        drop(child.stdin.take());
        child.wait().unwrap();
        match pidfd::told(&pidfd) {
            Told::Ended(code) => assert_eq!(code, 7 << 8),
            other => println!("SKIPPED: this kernel does not tell how processes ended ({other:?})"),
        }
    }

    #[test]
    fn another_process_is_not_taken_for_the_one_that_is_meant() {
        let exits = ProcessWatcher::default();
        let (bell, _rung) = bounded(1);
        let own = std::process::id();
        assert!(exits.open(own, &bell, |_| false).is_none());
        if cfg!(target_os = "linux") {
            let process = exits.open(own, &bell, |stat| stat.pid == own).unwrap();
            assert_eq!(process.end(), None, "looked up in /proc");
        }
    }

    #[test]
    fn a_process_that_is_let_go_is_not_held() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let watch = ExitWatch::start().unwrap();
        let (bell, rung) = bounded(1);
        let exits = watch.exits();
        let process = exits.open(std::process::id(), &bell, |_| true).unwrap();
        let shared = Arc::clone(exits.0.as_ref().unwrap());
        assert_eq!(shared.held().len(), 1);
        drop(process);
        assert_eq!(shared.held().len(), 0);
        assert!(rung.try_recv().is_err());
        watch.shutdown().unwrap();
    }
}
