//! Reports changes of the runs in a data directory by any process (inotify).
//!
//! A writer that opens a run sets the times of the run's directory, which is reported for all runs. Watched
//! runs report more: appended lines, and the end of their writer, which closes the lock file. If the system
//! reports nothing, the caller polls at intervals.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use self::imp::Reports;
use super::dir::{DataDir, RunDirectory};
use crate::event::ExecutionId;

/// The changes of a data directory.
#[derive(Debug)]
pub(crate) struct RunChanges {
    data: DataDir,
    reports: Option<Reports>,
    /// The watch number of each watched run, and the run of each number.
    watched: HashMap<ExecutionId, i32>,
    runs: HashMap<i32, ExecutionId>,
}

/// The result of a wait.
#[derive(Debug)]
pub(crate) enum Change {
    /// Runs that were opened, and watched runs that may have changed.
    Runs(Vec<RunDirectory>),
    /// Some reports were lost, so any run may have changed.
    Any,
    /// Nothing changed before the timeout.
    Nothing,
    /// The waiting thread must end.
    Stop,
}

impl RunChanges {
    /// Starts watching a data directory.
    pub fn of(data: &DataDir) -> Self {
        let reports = Reports::of(&data.runs_path());
        let reports = reports.inspect_err(|cause| {
            log::warn!(
                "polling {} for changes, because the system does not report them: {cause}",
                data.runs_path().display()
            );
        });
        Self {
            data: data.clone(),
            reports: reports.ok(),
            watched: HashMap::new(),
            runs: HashMap::new(),
        }
    }

    /// Returns true if the system reports changes.
    pub fn are_reported(&self) -> bool {
        self.reports.is_some()
    }

    /// Watches the files of a run.
    pub fn watch(&mut self, run: &RunDirectory) {
        let Some(reports) = &self.reports else {
            return;
        };
        match reports.watch(run.path()) {
            Ok(number) => {
                let id = run.execution_id();
                self.watched.insert(id.clone(), number);
                self.runs.insert(number, id.clone());
            }
            // The caller polls the run at intervals.
            Err(cause) => log::debug!("{}: {cause}", run.path().display()),
        }
    }

    /// Stops watching a run.
    pub fn unwatch(&mut self, run: &RunDirectory) {
        if let (Some(reports), Some(number)) =
            (&self.reports, self.watched.remove(run.execution_id()))
        {
            reports.unwatch(number);
            self.runs.remove(&number);
        }
    }

    /// Waits for changes, at most for `timeout`. Closing the other end of `woken` ends the wait.
    pub fn wait(&self, woken: &UnixStream, timeout: Duration) -> Change {
        let timeout = Timespec::try_from(timeout).ok();
        let mut fds = vec![PollFd::new(woken, PollFlags::IN)];
        let reports = self.reports.as_ref();
        fds.extend(reports.map(|reports| PollFd::new(reports, PollFlags::IN)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Change::Nothing,
            Ok(_) if fds[0].revents().is_empty() => {}
            Ok(_) => return Change::Stop,
            Err(error) => {
                log::warn!("runs of other processes are no longer followed: {error}");
                return Change::Stop;
            }
        }
        match reports.map(Reports::read) {
            None => Change::Nothing,
            Some(None) => Change::Any,
            Some(Some(changed)) => {
                let opened = changed.names.iter();
                let opened = opened.filter_map(|name| self.data.run_in(name));
                let watched = changed.watches.iter();
                let watched = watched.filter_map(|number| self.runs.get(number));
                Change::Runs(opened.chain(watched.map(|id| self.data.run(id))).collect())
            }
        }
    }
}

/// What was reported: the names of runs that were opened, and the numbers of watches.
#[derive(Debug, Default)]
struct Changed {
    names: BTreeSet<String>,
    watches: BTreeSet<i32>,
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::path::Path;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

    use super::Changed;

    #[derive(Debug)]
    pub struct Reports {
        inotify: OwnedFd,
        runs: i32,
    }

    impl Reports {
        pub fn of(runs: &Path) -> io::Result<Self> {
            let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            let flags = WatchFlags::ATTRIB | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
            let runs = inotify::add_watch(&inotify, runs, flags)?;
            Ok(Self { inotify, runs })
        }

        pub fn watch(&self, run: &Path) -> io::Result<i32> {
            let flags = WatchFlags::MODIFY
                | WatchFlags::CREATE
                | WatchFlags::MOVED_TO
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::ONLYDIR
                | WatchFlags::DONT_FOLLOW;
            Ok(inotify::add_watch(&self.inotify, run, flags)?)
        }

        pub fn unwatch(&self, number: i32) {
            // The system has already removed the watch of a removed directory.
            let _ = inotify::remove_watch(&self.inotify, number);
        }

        /// Reads pending reports. Returns `None` if some reports were lost.
        pub fn read(&self) -> Option<Changed> {
            let mut changed = Changed::default();
            // The size of one read; the next read returns further reports.
            let mut reports = [MaybeUninit::uninit(); 16 * 1024];
            let mut reader = inotify::Reader::new(&self.inotify, &mut reports);
            while let Ok(report) = reader.next() {
                if report.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                    return None;
                }
                if report.wd() != self.runs {
                    changed.watches.insert(report.wd());
                } else if let Some(Ok(name)) = report.file_name().map(|name| name.to_str()) {
                    changed.names.insert(name.to_owned());
                }
            }
            Some(changed)
        }
    }

    impl AsFd for Reports {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.inotify.as_fd()
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::path::Path;

    use super::Changed;

    /// Never exists, because the system reports nothing.
    #[derive(Debug)]
    pub enum Reports {}

    impl Reports {
        pub fn of(_runs: &Path) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn watch(&self, _run: &Path) -> io::Result<i32> {
            match *self {}
        }

        pub fn unwatch(&self, _number: i32) {
            match *self {}
        }

        pub fn read(&self) -> Option<Changed> {
            match *self {}
        }
    }

    impl AsFd for Reports {
        fn as_fd(&self) -> BorrowedFd<'_> {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::history::RunInfo;
    use crate::timestamp::Timestamp;

    const CEILING: Duration = Duration::from_secs(20);

    #[test]
    fn a_run_that_is_opened_and_the_end_of_its_writer_are_reported() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::new(temp.path());
        data.prepare().unwrap();
        let (wake, woken) = UnixStream::pair().unwrap();
        let mut changes = RunChanges::of(&data);
        for id in ["a b/c".to_owned(), "x".repeat(400)] {
            for _ in 0..2 {
                let run = data.run(&id.as_str().into());
                let open = run.open(RunInfo::default(), Timestamp::default()).unwrap();
                match changes.wait(&woken, CEILING) {
                    Change::Runs(runs) => assert_eq!(*runs[0].execution_id(), *id),
                    other => panic!("{other:?}"),
                }
                changes.watch(&run);
                drop(open);
                assert!(matches!(changes.wait(&woken, CEILING), Change::Runs(_)));
                assert!(!run.is_written().unwrap());
                changes.unwatch(&run);
                // Drains the remaining reports about its files.
                while !matches!(changes.wait(&woken, Duration::ZERO), Change::Nothing) {}
            }
        }
        drop(wake);
        assert!(matches!(changes.wait(&woken, CEILING), Change::Stop));
    }
}
