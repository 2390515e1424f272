//! Where a drain finds its observer: a socket that is there only until the drain has come.
//!
//! So nothing is left behind when the observer is killed at any other time; and in that moment the
//! drain, which finds nobody, clears up.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Resource, geteuid, getrlimit};

use crate::error::{Error, Result};
use crate::timestamp::Timestamp;

/// What the names of the directories begin with.
const PREFIX: &str = "td-observe-";

/// Digits of what follows, in base 16.
const NONCE_DIGITS: usize = 16;

/// A place that is younger than this may be about to be listened at.
const OLD_SECONDS: i64 = 10;

/// Descriptors that are left to the rest of the program: tmux is asked, and sessions that are polled have
/// their logs.
const LEFT: u64 = 256;

/// The socket's name in its directory.
const SOCKET: &str = "drain";

/// The longest path that a socket has everywhere: `sockaddr_un` of macOS has 104 bytes, Linux 108.
const PATH_BYTES_MAX: usize = 100;

/// Where to look for places when the system's own directory for such things has too long a name.
const SHORT: &str = "/tmp";

/// A place; dropped, it is gone.
#[derive(Debug)]
pub(super) struct Place {
    directory: PathBuf,
    pub listener: UnixListener,
}

impl Place {
    /// A new one.
    ///
    /// # Errors
    /// When the directory or the socket cannot be made.
    pub fn new() -> Result<Self> {
        Self::below(&base()).or_else(|error| {
            // A directory for such things may be named that is not there, or not ours.
            Self::below(Path::new(SHORT)).map_err(|_| error)
        })
    }

    fn below(base: &Path) -> Result<Self> {
        let directory = base.join(format!(
            "{PREFIX}{:0NONCE_DIGITS$x}",
            RandomState::new().hash_one("place")
        ));
        let failed = |cause| Error::file("cannot make a place for drains at", &directory, cause);
        DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .map_err(failed)?;
        let listener = UnixListener::bind(directory.join(SOCKET))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        let listener = listener.and_then(|listener| match leaves_some(&listener) {
            true => Ok(listener),
            false => Err(io::Error::other("too few more files may be open")),
        });
        match listener {
            Ok(listener) => Ok(Self {
                listener,
                directory,
            }),
            Err(cause) => {
                remove(&directory.join(SOCKET));
                Err(failed(cause))
            }
        }
    }

    /// The path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.join(SOCKET)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        remove(&self.socket());
    }
}

/// Removes a place: its socket and, when nothing else is in it, its directory.
pub(super) fn remove(socket: &Path) {
    // What cannot be removed is not there, or is not ours.
    let _ = fs::remove_file(socket);
    if let Some(directory) = socket.parent() {
        let _ = fs::remove_dir(directory);
    }
}

/// Removes the places of observers that are gone: one that was killed between making a place and
/// telling tmux of it leaves it behind. The directory is everybody's: what does not look like a place of
/// ours in each respect is none.
pub(super) fn remove_abandoned(now: Timestamp) {
    let Ok(entries) = fs::read_dir(base()) else {
        return;
    };
    for entry in entries.flatten() {
        let directory = entry.path();
        let socket = directory.join(SOCKET);
        if is_name(&entry.file_name()) && is_old(&directory, now) && is_deserted(&socket) {
            remove(&socket);
        }
    }
}

fn is_name(name: &OsStr) -> bool {
    let nonce = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    nonce.is_some_and(|nonce| {
        nonce.len() == NONCE_DIGITS && nonce.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Whether it is a directory of ours, and was made some time ago.
fn is_old(directory: &Path, now: Timestamp) -> bool {
    let second = now.micros() / 1_000_000;
    fs::symlink_metadata(directory).is_ok_and(|made| {
        made.is_dir()
            && made.uid() == geteuid().as_raw()
            && made.mode() & 0o777 == 0o700
            && second.saturating_sub(made.mtime()) >= OLD_SECONDS
    })
}

/// Whether there is a socket at which nobody listens, or no socket any more.
fn is_deserted(socket: &Path) -> bool {
    match fs::symlink_metadata(socket) {
        Ok(made) if made.file_type().is_socket() => {
            // A connection that says nothing is let go by whoever listens there. It is not waited for
            // one who is too busy to take it.
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

/// Whether the rest of the program has enough descriptors besides this one, which is the lowest that was
/// free: without any, sessions would not even be polled.
fn leaves_some(listener: &UnixListener) -> bool {
    let limit = getrlimit(Resource::Nofile).current;
    let number = u64::try_from(listener.as_raw_fd()).unwrap_or(u64::MAX);
    limit.is_none_or(|limit| number < limit.saturating_sub(LEFT.min(limit / 2)))
}

fn base() -> PathBuf {
    let base = std::env::temp_dir();
    let longest = base.as_os_str().len() + PREFIX.len() + NONCE_DIGITS + SOCKET.len() + 2;
    if base.is_absolute() && longest <= PATH_BYTES_MAX {
        base
    } else {
        SHORT.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_there_as_long_as_it_is_held() {
        use std::os::unix::fs::PermissionsExt;
        use std::os::unix::net::UnixStream;
        let place = Place::new().unwrap();
        let (socket, directory) = (place.socket(), place.directory.clone());
        let mode = fs::metadata(&directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        UnixStream::connect(&socket).unwrap();
        drop(place);
        assert!(!directory.exists());
    }

    #[test]
    fn an_abandoned_place_is_removed_and_what_is_none_is_not() {
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
        // Those that somebody listens at, in whatever way, those that are new, and those of others.
        let held = Place::new().unwrap();
        let busy = make(format!("{PREFIX}{:016x}", nonce + (1 << 40)));
        let _listener = UnixListener::bind(busy.join(SOCKET)).unwrap();
        let young = make(format!("{PREFIX}{:016x}", nonce + (2 << 40)));
        drop(UnixListener::bind(young.join(SOCKET)).unwrap());
        let notes = make(format!("{PREFIX}notes-{nonce}"));
        fs::write(notes.join(SOCKET), "precious").unwrap();
        let file = make(format!("{PREFIX}{:016x}", nonce + (3 << 40)));
        fs::write(file.join(SOCKET), "precious").unwrap();
        for directory in [&abandoned, &busy, &notes, &file] {
            age(directory, 10);
        }
        age(&young, 9);
        remove_abandoned(now);
        assert!(!abandoned.exists());
        for place in [&held.directory, &busy, &young, &notes, &file] {
            assert!(place.join(SOCKET).exists(), "{}", place.display());
        }
        for directory in [&busy, &young, &notes, &file] {
            remove(&directory.join(SOCKET));
        }
    }
}
