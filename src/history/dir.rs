//! The data directory and its run directories: finds, creates and opens them.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::fs::{Access, FlockOperation, OFlags, flock};

use crate::error::{Error, Result, if_exists};
use crate::event::ExecutionId;
#[cfg(feature = "hosts")]
use crate::history::copy_source::SharedCopySource;
use crate::history::dir_handle::{
    DirHandle, EVENTS, FileId, LOCK, METADATA, TrustedOwner, closed_files, sync_directory,
};
#[cfg(feature = "cli")]
use crate::history::dir_handle::{RunFiles, open_closed};
use crate::history::metadata::RunMetadata;
use crate::history::name::{decode_name, encode_name};
use crate::thread;

/// The maximum number of open runs: each holds a lock, and each lock needs a file descriptor. See the budget
/// in the module's documentation.
pub const RUNS_MAX: usize = 236;

/// The highest suffix that is tried for a label in use.
pub(super) const LABELS_MAX: u32 = 10_000;

/// The directory that holds all runs, `~/.taskdaemon` by default. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DataDir {
    root: Arc<Path>,
    /// The number of runs that are open through this value and its clones.
    open_runs: Arc<AtomicUsize>,
    /// What brings the runs up to date that are copies.
    #[cfg(feature = "hosts")]
    copies: Option<SharedCopySource>,
}

impl DataDir {
    /// Creates a data directory value for a path. Does not access the file system.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into().into(),
            open_runs: Arc::default(),
            #[cfg(feature = "hosts")]
            copies: None,
        }
    }

    /// Brings copies of runs up to date whenever they are read through this value and its clones.
    #[cfg(feature = "hosts")]
    pub(crate) fn with_copies(self, source: SharedCopySource) -> Self {
        Self {
            copies: Some(source),
            ..self
        }
    }

    /// Returns the default path: the value of `TD_DATA_DIR`, or `.taskdaemon` in the home
    /// directory.
    ///
    /// ```
    /// use std::path::Path;
    /// use td_observe::history::DataDir;
    /// let path = DataDir::default_path(None, Some("/home/ann".into())).unwrap();
    /// assert_eq!(path, Path::new("/home/ann/.taskdaemon"));
    /// ```
    ///
    /// # Errors
    /// If neither is set; an empty value counts as not set.
    pub fn default_path(td_data_dir: Option<OsString>, home: Option<OsString>) -> Result<PathBuf> {
        let set = |value: Option<OsString>| value.filter(|value| !value.is_empty());
        match (set(td_data_dir), set(home)) {
            (Some(path), _) => Ok(path.into()),
            (None, Some(home)) => Ok(Path::new(&home).join(".taskdaemon")),
            (None, None) => Err(Error::invalid(
                "no data directory: neither TD_DATA_DIR nor HOME is set; use --data-dir",
            )),
        }
    }

    /// Returns the path of the data directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns the directory that contains the run directories.
    pub fn runs_path(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// Checks that no other user owns the directory or can write to it.
    pub(crate) fn check_owner(&self) -> Result<()> {
        TrustedOwner::User.check_directory(self.path())?;
        TrustedOwner::User.check_directory(&self.runs_path())
    }

    /// Creates the directory and checks that runs can be written to it.
    ///
    /// # Errors
    /// If the directory cannot be created or is not writable, or if another user owns it or can write
    /// to it.
    pub fn prepare(&self) -> Result<()> {
        let runs = self.runs_path();
        self.check_owner()?;
        let is_new = !runs.is_dir();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&runs)
            .map_err(|cause| Error::file("cannot create the data directory", &runs, cause))?;
        if is_new {
            // The new names should survive a power cut. If a directory cannot be synced, it is still usable.
            for directory in [Some(self.path()), self.path().parent()]
                .into_iter()
                .flatten()
            {
                if let Err(cause) = sync_directory(directory) {
                    log::debug!("cannot sync {directory:?}: {cause}");
                }
            }
        }
        rustix::fs::access(&runs, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|cause| Error::file("cannot write to the data directory", &runs, cause.into()))
    }

    /// Returns the run directory of an execution. Does not access the file system.
    pub fn run(&self, execution_id: &ExecutionId) -> RunDirectory {
        RunDirectory {
            path: self.runs_path().join(encode_name(execution_id)).into(),
            execution_id: execution_id.clone(),
            data: self.clone(),
        }
    }

    /// Returns the directories that may be runs.
    pub(crate) fn run_directories(&self) -> Result<Vec<RunDirectory>> {
        let path = self.runs_path();
        self.check_owner()?;
        let failed = |cause| Error::file("cannot list", &path, cause);
        let mut found = Vec::new();
        let entries = if_exists(fs::read_dir(&path)).map_err(failed)?;
        for entry in entries.into_iter().flatten() {
            let entry = entry.map_err(failed)?;
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if let (true, Some(name)) = (is_directory, entry.file_name().to_str()) {
                found.extend(self.run_in(name));
            }
        }
        Ok(found)
    }

    /// Returns the run in the directory with this name, if it is one. A shortened name does not contain the
    /// id, so the metadata provide it.
    pub(super) fn run_in(&self, name: &str) -> Option<RunDirectory> {
        if let Some(id) = decode_name(name) {
            return Some(self.run(&id.into()));
        }
        let metadata =
            RunMetadata::read_in(&DirHandle::open(&self.runs_path().join(name)).ok()?).ok()??;
        (encode_name(&metadata.execution_id) == name).then(|| self.run(&metadata.execution_id))
    }

    /// Reserves a slot for an open run. Dropping the slot frees it.
    pub(super) fn take_slot(&self) -> Result<RunSlot> {
        let taken = self
            .open_runs
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
                (open < RUNS_MAX).then_some(open + 1)
            });
        match taken {
            Ok(_) => Ok(RunSlot(Arc::clone(&self.open_runs))),
            Err(_) => Err(Error::other(format!("{RUNS_MAX} runs are open already"))),
        }
    }
}

/// Returns the `n`th name for a label.
pub(crate) fn numbered(label: &str, n: u32) -> ExecutionId {
    if n <= 1 {
        label.into()
    } else {
        format!("{label}-{n}").into()
    }
}

/// A slot for an open run.
#[derive(Debug)]
pub(super) struct RunSlot(Arc<AtomicUsize>);

impl Drop for RunSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The directory of one execution: `runs/{execution_id}`, with the id encoded.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    path: Arc<Path>,
    execution_id: ExecutionId,
    data: DataDir,
}

impl RunDirectory {
    /// Returns the run in a directory at any path, such as a copy. The execution's id comes from the
    /// metadata, or otherwise from the directory's name.
    ///
    /// # Errors
    /// If the path is not a directory, or its metadata are unusable.
    pub fn at(path: &Path) -> Result<Self> {
        let dir = DirHandle::open(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let execution_id = match RunMetadata::read_in(&dir)? {
            Some(metadata) => metadata.execution_id,
            None => decode_name(&name)
                .unwrap_or_else(|| name.into_owned())
                .into(),
        };
        // The data directory, if the path is inside one; nothing else uses it.
        let root = path.parent().and_then(Path::parent).unwrap_or(path);
        Ok(Self {
            path: path.into(),
            execution_id,
            data: DataDir::new(root),
        })
    }

    /// Returns `true` if the directory contains metadata or events.
    pub(crate) fn has_history(&self) -> bool {
        self.open_dir().is_ok_and(|dir| {
            let is_there = |name| !matches!(dir.identity(name), Ok(None));
            is_there(METADATA)
                || is_there(EVENTS)
                || closed_files(&dir).is_ok_and(|files| !files.is_empty())
        })
    }

    /// Returns `true` if the directory exists and cannot be read, or is not trusted.
    pub(super) fn is_refused(&self) -> bool {
        self.open_dir().is_err() && self.exists()
    }

    /// Reads the run's metadata; `None` if there are none.
    ///
    /// # Errors
    /// If the metadata are unreadable, malformed, too large, or a symbolic link. A run is usable without
    /// them, so callers report the error as a warning.
    pub fn metadata(&self) -> Result<Option<RunMetadata>> {
        match self.open_dir() {
            Ok(dir) => RunMetadata::read_in(&dir),
            Err(_) if !self.exists() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the execution's id.
    pub fn execution_id(&self) -> &ExecutionId {
        &self.execution_id
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of `events.jsonl`, the newest event file.
    pub fn events_path(&self) -> PathBuf {
        self.path.join(EVENTS)
    }

    /// Returns the path of the metadata.
    pub fn metadata_path(&self) -> PathBuf {
        self.path.join(METADATA)
    }

    /// Returns the directory of one iteration of a loop: `iterations/{n}`.
    pub fn iteration_path(&self, iteration: u32) -> PathBuf {
        self.path.join("iterations").join(iteration.to_string())
    }

    /// Returns the size of all event files on the disk, in bytes; unreadable files count as empty.
    #[cfg(feature = "cli")]
    #[cfg_attr(
        not(feature = "sqlite"),
        allow(dead_code, reason = "the export as a database uses it")
    )]
    pub(crate) fn log_bytes(&self) -> u64 {
        let Ok(dir) = self.open_dir() else { return 0 };
        let Ok(files) = RunFiles::list(&dir) else {
            return 0;
        };
        let closed = files.closed.iter().filter_map(|closed| {
            let (file, _) = open_closed(&dir, closed.number).ok()?;
            Some(file)
        });
        let sizes = closed
            .chain(files.newest)
            .map(|file| file.metadata().map_or(0, |about| about.len()));
        sizes.sum()
    }

    /// Returns `true` if the path exists.
    pub fn exists(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok()
    }

    pub(super) fn data(&self) -> &DataDir {
        &self.data
    }

    /// Creates the directory and its parents, and opens it.
    pub(super) fn create(&self) -> Result<DirHandle> {
        self.data.check_owner()?;
        // Usually the directory or its parent already exists.
        let create = || DirBuilder::new().mode(0o700).create(&self.path);
        let mut made = create();
        if matches!(&made, Err(cause) if cause.kind() == io::ErrorKind::NotFound) {
            self.data.prepare()?;
            made = create();
        }
        match made {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
                let failed = "cannot create the run directory";
                Err(Error::file(failed, &self.path, cause))
            }
            _ => self.open_dir(),
        }
    }

    /// Brings the log up to date, if the run is a copy.
    pub(crate) fn refresh(&self) {
        #[cfg(feature = "hosts")]
        if let Some(SharedCopySource(source)) = &self.data.copies {
            source.refresh(&self.execution_id);
        }
    }

    /// Opens the directory. Refuses a symbolic link, which could lead anywhere.
    pub(crate) fn open_dir(&self) -> Result<DirHandle> {
        DirHandle::open(&self.path)
    }
}

/// The pause while other programs probe the lock, which they hold for microseconds.
const PROBE_PAUSE: Duration = Duration::from_millis(1);
/// The right to write a run, held until it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct RunLock {
    file: File,
    /// Accounts for this lock's file descriptor.
    #[expect(
        dead_code,
        reason = "held for its drop, which frees the slot for another run"
    )]
    slot: RunSlot,
}

impl RunLock {
    /// Takes the lock of a run.
    ///
    /// # Errors
    /// [`Error::is_locked`] if another process, or another part of this process, holds it.
    pub(super) fn take(run: &RunDirectory, dir: &DirHandle) -> Result<Self> {
        let slot = run.data().take_slot()?;
        let file = lock_file(dir)?;
        Ok(Self { file, slot })
    }

    /// Takes the lock again if its file was removed, so that no other writer treats the run as free.
    pub(super) fn retake(&mut self, dir: &DirHandle) -> Result<()> {
        if !self.is_in_place(dir) {
            self.file = lock_file(dir)?;
        }
        Ok(())
    }

    /// Returns `true` if the locked file is still the one that another writer would lock.
    pub(super) fn is_in_place(&self, dir: &DirHandle) -> bool {
        is_at(&self.file, dir).unwrap_or(false)
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // Closing alone is not enough: a child that another thread is starting holds a copy of the descriptor
        // until it executes its program. If unlocking fails, closing must suffice.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

fn lock_file(dir: &DirHandle) -> Result<File> {
    let path = dir.join(LOCK);
    let failed = |cause: io::Error| Error::file("cannot lock the run with", &path, cause);
    // The number of attempts to lock a file that is removed between opening and locking, or that another program
    // probes at the same time.
    for _ in 0..100 {
        let file = dir
            .file(LOCK, OFlags::RDWR | OFlags::CREATE)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) if !is_held(&file).map_err(failed)? => {
                thread::park(Some(PROBE_PAUSE));
                continue;
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let holder = pid_in(&file)
                    .map_or("another process".to_owned(), |pid| format!("process {pid}"));
                return Err(
                    Error::locked(format!("{holder} is writing this run, it holds")).at(path),
                );
            }
            Err(cause) => return Err(failed(cause.into())),
        }
        if is_at(&file, dir).map_err(failed)? {
            // The text is only informative; the lock works without it.
            let _ = file.set_len(0);
            let _ = file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0);
            return Ok(file);
        }
        // The file was removed between opening and locking it, so the lock protects nothing.
    }
    Err(failed(io::Error::other(
        "another program keeps removing the lock file",
    )))
}

impl RunDirectory {
    /// Returns `true` if a writer has the run open.
    ///
    /// # Errors
    /// If there is no such run, or its lock cannot be probed.
    pub fn is_written(&self) -> Result<bool> {
        is_written(&self.open_dir()?)
            .map_err(|cause| Error::file("cannot check the lock of the run in", self.path(), cause))
    }
}

/// Returns `true` if a writer has the run of a directory open.
pub(super) fn is_written(dir: &DirHandle) -> io::Result<bool> {
    dir.existing_file(LOCK)?
        .map_or(Ok(false), |file| is_held(&file))
}

/// Returns `true` if a writer holds the lock. The only way to find out is to take a shared lock and release
/// it immediately.
fn is_held(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            flock(file, FlockOperation::Unlock)?;
            Ok(false)
        }
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(cause) => Err(cause.into()),
    }
}

/// Returns `true` if `file` is the lock file in the directory.
fn is_at(file: &File, dir: &DirHandle) -> io::Result<bool> {
    Ok(dir.identity(LOCK)? == Some(FileId::of(file)?))
}

fn pid_in(file: &File) -> Option<u32> {
    // The maximum size of a process id and a line feed; longer text is not from this program.
    let mut text = [0; 16];
    let read = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(text.get(..read)?)
        .ok()?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    mod dir {
        use super::super::*;

        #[test]
        fn default_paths_of_the_data_directory() {
            let path = |env: Option<&str>, home: Option<&str>| {
                DataDir::default_path(env.map(Into::into), home.map(Into::into)).ok()
            };
            assert_eq!(path(Some("/data"), Some("/home/ann")), Some("/data".into()));
            assert_eq!(
                path(Some(""), Some("/home/ann")),
                Some("/home/ann/.taskdaemon".into())
            );
            assert_eq!(path(None, None), None);
        }

        #[test]
        fn dropped_slots_are_free() {
            let data = DataDir::new("/nowhere");
            let slots: Vec<_> = (0..RUNS_MAX).map(|_| data.take_slot().unwrap()).collect();
            assert!(data.clone().take_slot().is_err());
            drop(slots);
            assert!(data.take_slot().is_ok());
        }
    }

    mod lock {
        use super::super::*;
        use crate::history::dir::DataDir;

        #[test]
        fn a_refused_writer_learns_the_pid_of_the_holder() {
            let temp = tempfile::tempdir().unwrap();
            let run = DataDir::new(temp.path()).run(&"a".into());
            let dir = run.create().unwrap();
            let first = RunLock::take(&run, &dir).unwrap();
            let error = RunLock::take(&run, &dir).unwrap_err();
            assert!(error.is_locked());
            assert!(
                error
                    .to_string()
                    .contains(&format!("process {} is", std::process::id()))
            );
            drop(first);
            assert!(RunLock::take(&run, &dir).is_ok());
        }

        #[test]
        fn probing_the_lock_does_not_refuse_writers() {
            let temp = tempfile::tempdir().unwrap();
            let run = DataDir::new(temp.path()).run(&"a".into());
            let dir = run.create().unwrap();
            assert!(!is_written(&dir).unwrap());
            let (guard, stop) = thread::stop_pair();
            let probed = run.open_dir().unwrap();
            let prober = thread::spawn("td-test", move || {
                while !thread::is_stopped(&stop) {
                    is_written(&probed).unwrap();
                }
            })
            .unwrap();
            for _ in 0..200 {
                let lock = RunLock::take(&run, &dir).unwrap();
                assert!(is_written(&dir).unwrap());
                drop(lock);
            }
            drop(guard);
            prober.join().unwrap();
            assert!(!is_written(&dir).unwrap());
        }

        #[test]
        fn a_removed_lock_is_taken_again() {
            let temp = tempfile::tempdir().unwrap();
            let run = DataDir::new(temp.path()).run(&"a".into());
            let dir = run.create().unwrap();
            let mut lock = RunLock::take(&run, &dir).unwrap();
            dir.remove(LOCK).unwrap();
            assert!(!lock.is_in_place(&dir));
            lock.retake(&dir).unwrap();
            assert!(RunLock::take(&run, &dir).unwrap_err().is_locked());
        }
    }
}
