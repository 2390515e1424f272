//! Where a drain finds its observer: a socket that is there only until the drain has come.
//!
//! So nothing is left behind when the observer is killed at any other time; and in that moment the
//! drain, which finds nobody, clears up.

use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// What the names of the directories begin with.
const PREFIX: &str = "td-observe-";

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
            "{PREFIX}{:016x}",
            RandomState::new().hash_one("place")
        ));
        let failed = |cause| Error::file("cannot make a place for drains at", &directory, cause);
        DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .map_err(failed)?;
        let listener = UnixListener::bind(directory.join(SOCKET))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
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
/// telling tmux of it leaves it behind.
pub(super) fn remove_abandoned() {
    let Ok(entries) = fs::read_dir(base()) else {
        return;
    };
    for entry in entries.flatten() {
        let is_place = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX));
        if !is_place {
            continue;
        }
        let socket = entry.path().join(SOCKET);
        let answer = UnixStream::connect(&socket);
        // A connection that says nothing is let go by whoever listens there.
        if answer.is_err_and(|cause| cause.kind() == io::ErrorKind::ConnectionRefused) {
            remove(&socket);
        }
    }
}

fn base() -> PathBuf {
    let base = std::env::temp_dir();
    let longest = base.as_os_str().len() + PREFIX.len() + SOCKET.len() + 18;
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
        let place = Place::new().unwrap();
        let (socket, directory) = (place.socket(), place.directory.clone());
        let mode = fs::metadata(&directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        UnixStream::connect(&socket).unwrap();
        drop(place);
        assert!(!directory.exists());
    }

    #[test]
    fn an_abandoned_place_is_removed_and_another_is_not() {
        let place = Place::new().unwrap();
        let abandoned = base().join(format!("{PREFIX}abandoned-{}", std::process::id()));
        fs::create_dir(&abandoned).unwrap();
        drop(UnixListener::bind(abandoned.join(SOCKET)).unwrap());
        remove_abandoned();
        assert!(!abandoned.exists());
        assert!(place.socket().exists());
    }
}
