//! The socket at which a drain finds its observer. It exists only until the drain has connected, so that an
//! observer that is killed later leaves nothing behind. If the observer is killed earlier, the drain, which
//! then finds no observer, removes the socket. If it is killed before it has started a drain, the next
//! observer does: a lock on the directory shows if its observer still runs.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Resource, geteuid, getrlimit};
use rustix::time::Timespec;

use crate::error::{Error, Result};
use crate::timestamp::Timestamp;

/// The prefix of the names of the directories.
const PREFIX: &str = "td-observe-";

/// The hexadecimal digits after the prefix.
const NONCE_DIGITS: usize = 16;

/// The name of the socket in its directory.
const SOCKET: &str = "drain";

/// The directory that is used if the path of the system's temporary directory is too long.
const SHORT_BASE: &str = "/tmp";

/// A listening socket in its own directory. Dropping it removes both.
#[derive(Debug)]
pub(super) struct DrainSocket {
    directory: PathBuf,
    pub listener: UnixListener,
    /// Locks the directory.
    _lock: File,
}

impl DrainSocket {
    /// Creates a socket.
    ///
    /// # Errors
    /// When the directory or the socket cannot be created.
    pub fn new() -> Result<Self> {
        Self::below(&base()).or_else(|error| {
            // `TMPDIR` may name a missing directory or one of another user.
            Self::below(Path::new(SHORT_BASE)).map_err(|_| error)
        })
    }

    fn below(base: &Path) -> Result<Self> {
        let directory = base.join(format!(
            "{PREFIX}{:0NONCE_DIGITS$x}",
            RandomState::new().hash_one("drain")
        ));
        let failed = |cause| Error::file("cannot create a socket for drains at", &directory, cause);
        DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .map_err(failed)?;
        // The lock is taken before the socket exists, because a socket without a lock counts as abandoned.
        let locked = lock(&directory).map_err(io::Error::from);
        let listener = locked.and_then(|lock| {
            let listener = UnixListener::bind(directory.join(SOCKET))?;
            listener.set_nonblocking(true)?;
            if leaves_reserve(&listener) {
                Ok((listener, lock))
            } else {
                Err(io::Error::other("too few file descriptors are left"))
            }
        });
        match listener {
            Ok((listener, _lock)) => Ok(Self {
                listener,
                directory,
                _lock,
            }),
            Err(cause) => {
                remove(&directory.join(SOCKET));
                Err(failed(cause))
            }
        }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.join(SOCKET)
    }
}

impl Drop for DrainSocket {
    fn drop(&mut self) {
        remove(&self.path());
    }
}

/// Removes a socket, and its directory if that is then empty.
pub(super) fn remove(socket: &Path) {
    // An error means that it does not exist or belongs to another user.
    let _ = fs::remove_file(socket);
    if let Some(directory) = socket.parent() {
        let _ = fs::remove_dir(directory);
    }
}

/// Removes the sockets of observers that were killed between creating the socket and starting the drain. All
/// users share the directory, so an entry must match in every respect.
pub(super) fn remove_abandoned(now: Timestamp) {
    let Ok(entries) = fs::read_dir(base()) else {
        return;
    };
    for entry in entries.flatten() {
        let directory = entry.path();
        let socket = directory.join(SOCKET);
        if has_name(&entry.file_name()) && is_own(&directory) && is_abandoned(&directory, now) {
            remove(&socket);
        }
    }
}

fn has_name(name: &OsStr) -> bool {
    let nonce = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    nonce.is_some_and(|nonce| {
        nonce.len() == NONCE_DIGITS && nonce.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Locks a directory until the file is dropped. Fails if another process holds the lock.
fn lock(directory: &Path) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(directory, flags, Mode::empty())?);
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Returns true if this user created the directory.
fn is_own(directory: &Path) -> bool {
    fs::symlink_metadata(directory).is_ok_and(|made| {
        made.is_dir() && made.uid() == geteuid().as_raw() && made.mode() & 0o777 == 0o700
    })
}

/// Returns true if no observer uses the directory: its socket is not locked, or it has been without a socket
/// for some time.
fn is_abandoned(directory: &Path, now: Timestamp) -> bool {
    let socket = directory.join(SOCKET);
    if !is_unused(&socket) || lock(directory).is_err() {
        return false;
    }
    let second = now.micros() / 1_000_000;
    // An unlocked directory without a socket may be in use for its first ten seconds.
    socket.exists()
        || fs::symlink_metadata(directory)
            .is_ok_and(|made| second.saturating_sub(made.mtime()) >= 10)
}

/// Returns true if no process listens at the socket, or if it does not exist.
fn is_unused(socket: &Path) -> bool {
    match fs::symlink_metadata(socket) {
        Ok(made) if made.file_type().is_socket() => {
            // A listening observer drops a connection without a token. Connecting does not wait for an
            // observer that is too busy to accept it.
            matches!(connect_now(socket), Err(Errno::CONNREFUSED))
        }
        Ok(_) => false,
        Err(cause) => cause.kind() == io::ErrorKind::NotFound,
    }
}

fn connect_now(path: &Path) -> rustix::io::Result<()> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)
}

/// Returns true if enough descriptors remain above this one, which was the lowest free one. Without free
/// descriptors, sessions could not even be polled.
fn leaves_reserve(listener: &UnixListener) -> bool {
    let limit = getrlimit(Resource::Nofile).current;
    let number = u64::try_from(listener.as_raw_fd()).unwrap_or(u64::MAX);
    // The rest of the program needs some for tmux processes and for the history of polled sessions.
    limit.is_none_or(|limit| number < limit.saturating_sub((limit / 2).min(256)))
}

fn base() -> PathBuf {
    let base = std::env::temp_dir();
    let longest = base.as_os_str().len() + PREFIX.len() + NONCE_DIGITS + SOCKET.len() + 2;
    // `sockaddr_un` has 104 bytes on macOS and 108 on Linux.
    if base.is_absolute() && longest <= 100 {
        base
    } else {
        SHORT_BASE.into()
    }
}

/// Returns a poll entry that waits until the descriptor is readable.
pub(super) fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

/// Waits until a descriptor is ready or the timeout has passed. Returns the number of ready descriptors. A
/// signal does not end the wait.
pub(super) fn wait(fds: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<usize> {
    loop {
        match poll(fds, timeout) {
            Ok(ready) => return Ok(ready),
            Err(Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_exists_until_it_is_dropped() {
        use std::os::unix::fs::PermissionsExt;
        use std::os::unix::net::UnixStream;
        let listening = DrainSocket::new().unwrap();
        let (socket, directory) = (listening.path(), listening.directory.clone());
        let mode = fs::metadata(&directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        UnixStream::connect(&socket).unwrap();
        drop(listening);
        assert!(!directory.exists());
    }

    #[test]
    fn an_abandoned_socket_is_removed_and_nothing_else() {
        use std::fs::File;
        use std::time::{Duration, UNIX_EPOCH};
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let make = |name: String| {
            let directory = base().join(name);
            DirBuilder::new().mode(0o700).create(&directory).unwrap();
            directory
        };
        let age = |directory: &Path, seconds: u64| {
            let made = UNIX_EPOCH + Duration::from_secs(1_800_000_000 - seconds);
            File::open(directory).unwrap().set_modified(made).unwrap();
        };
        let nonce = u64::from(std::process::id());
        let abandoned = make(format!("{PREFIX}{nonce:016x}"));
        drop(UnixListener::bind(abandoned.join(SOCKET)).unwrap());
        // Listening sockets, new ones, and files of other programs.
        let held = DrainSocket::new().unwrap();
        let busy = make(format!("{PREFIX}{:016x}", nonce + (1 << 40)));
        let _listener = UnixListener::bind(busy.join(SOCKET)).unwrap();
        let locked = make(format!("{PREFIX}{:016x}", nonce + (2 << 40)));
        let _lock = lock(&locked).unwrap();
        drop(UnixListener::bind(locked.join(SOCKET)).unwrap());
        let [young, old] = [4, 5].map(|n| make(format!("{PREFIX}{:016x}", nonce + (n << 40))));
        let notes = make(format!("{PREFIX}notes-{nonce}"));
        fs::write(notes.join(SOCKET), "precious").unwrap();
        let file = make(format!("{PREFIX}{:016x}", nonce + (3 << 40)));
        fs::write(file.join(SOCKET), "precious").unwrap();
        for directory in [&busy, &locked, &old, &notes, &file] {
            age(directory, 10);
        }
        for directory in [&abandoned, &young] {
            age(directory, 9);
        }
        remove_abandoned(now);
        assert!(!abandoned.exists() && !old.exists());
        assert!(young.exists());
        for other in [&held.directory, &busy, &locked, &notes, &file] {
            assert!(other.join(SOCKET).exists(), "{}", other.display());
        }
        for directory in [&busy, &locked, &young, &notes, &file] {
            remove(&directory.join(SOCKET));
        }
    }
}
