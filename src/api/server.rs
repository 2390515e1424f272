//! The server of the API: accepts connections at the observer's socket and serves each in a thread.
//!
//! `td-api` accepts connections; each `td-api-N` reads and answers one request. All threads end when the server is
//! stopped.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};

use super::connections::{Connections, Service, refuse};
use super::stream::Stream;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::feed::run_hash;
use crate::history::TrustedOwner;
use crate::thread::{self, Handle, Stop, StopGuard, is_stopped, stop_pair};

/// The interval at which the server checks its socket's file and whether it must stop.
pub(super) const CHECK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};

/// A running server; it stops when it is dropped or joined.
#[derive(Debug)]
pub(crate) struct Server {
    pub(super) running: StopGuard,
    pub(super) thread: Handle<()>,
}

impl Server {
    /// Starts to listen at the path of a socket.
    pub fn start(path: &Path, service: Arc<dyn Service>, clock: &Clock) -> Result<Self> {
        let socket = Socket::listen(path)?;
        let (running, stop) = stop_pair();
        let acceptor = Acceptor {
            socket: Some(socket),
            path: path.to_owned(),
            connections: Connections::new(service, "td-api", clock, &stop),
            stop,
        };
        let thread = thread::spawn("td-api", move || acceptor.run())?;
        Ok(Self { running, thread })
    }

    /// Stops the server and waits for its threads for at most `time`.
    pub fn stop(self, clock: &Clock, time: Duration) {
        let Self { running, thread } = self;
        drop(running);
        match thread.join_deadline(clock.now() + time) {
            Ok(Ok(())) => {}
            Ok(Err(panicked)) => log::error!("{panicked}"),
            Err(_) => log::warn!("a client of the API holds its connection"),
        }
    }
}

struct Acceptor {
    /// `None` while the socket cannot be created.
    socket: Option<Socket>,
    path: PathBuf,
    connections: Connections,
    stop: Stop,
}

impl Acceptor {
    fn run(mut self) {
        while !is_stopped(&self.stop) {
            self.connections.join_finished();
            self.restore_socket();
            let Some(socket) = &self.socket else {
                thread::park(Some(Duration::from_millis(500)));
                continue;
            };
            let mut fds = [PollFd::new(&socket.listener, PollFlags::IN)];
            match poll(&mut fds, Some(&CHECK)) {
                Ok(0) | Err(_) => continue,
                Ok(_) => {}
            }
            match socket.listener.accept() {
                Ok((stream, _)) => self.serve(stream),
                Err(cause) => {
                    // The process may be out of descriptors temporarily.
                    log::warn!("the API cannot accept a connection: {cause}");
                    thread::park(Some(Duration::from_millis(100)));
                }
            }
        }
        // Streams end when the feed or the stop channel is closed.
        drop(self.socket.take());
        self.connections.join_all();
    }

    /// Recreates the socket if its file was removed.
    fn restore_socket(&mut self) {
        if self.socket.as_ref().is_some_and(Socket::is_in_place) {
            return;
        }
        self.socket = None;
        match Socket::listen(&self.path) {
            Ok(socket) => {
                log::info!("the API's socket was removed: made again");
                self.socket = Some(socket);
            }
            Err(error) => log::warn!("the API's socket was removed: {error:?}"),
        }
    }

    fn serve(&mut self, stream: UnixStream) {
        let is_own = is_own_peer(&stream);
        let stream = Stream::Unix(stream);
        if is_own {
            self.connections.take(stream);
        } else {
            refuse(&stream, 403, "this observer belongs to another user");
        }
    }
}

/// Returns the path of the socket for a data directory: below `$XDG_RUNTIME_DIR`, or else in the data
/// directory. A run-time directory that belongs to another user (for example, kept by `su`) or that others
/// can write is not used, because they could place their own socket there.
pub(crate) fn socket_path(data: &Path, runtime_dir: Option<OsString>) -> PathBuf {
    let runtime_dir = runtime_dir.map(PathBuf::from);
    match runtime_dir.filter(|path| path.is_absolute() && is_trusted(path)) {
        Some(runtime) => {
            let real = fs::canonicalize(data).unwrap_or_else(|_| data.to_owned());
            let hash = run_hash(&real.to_string_lossy());
            runtime.join("td-observe").join(format!("{hash:016x}.sock"))
        }
        None => data.join("observer.sock"),
    }
}

fn is_trusted(directory: &Path) -> bool {
    // A missing directory is created for this user.
    let checked = fs::metadata(directory).map_or(Ok(()), |metadata| {
        TrustedOwner::User.check(directory, &metadata)
    });
    if let Err(error) = &checked {
        log::warn!("XDG_RUNTIME_DIR is not used: {error}");
    }
    checked.is_ok()
}

/// A listening socket and its file.
#[derive(Debug)]
struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// The device and inode of the file.
    file: (u64, u64),
}

impl Socket {
    /// Listens at a path. Replaces the file of an ended observer. The caller holds the observer's lock, so no
    /// other observer can begin to listen there.
    ///
    /// # Errors
    /// If the directory belongs to another user or is writable by others, if another program listens at the
    /// path, or if the socket cannot be created.
    fn listen(path: &Path) -> Result<Self> {
        let failed = |cause| Error::file("cannot listen at", path, cause);
        if let Some(directory) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(failed)?;
            let metadata = fs::metadata(directory).map_err(failed)?;
            TrustedOwner::User.check(directory, &metadata)?;
        }
        match connect(path) {
            Ok(_) => {
                return Err(Error::locked(
                    "another program, or an observer that is ending, listens at",
                )
                .at(path));
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(_) => match fs::remove_file(path) {
                Ok(()) => {}
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
                Err(cause) => return Err(failed(cause)),
            },
        }
        let listener = at_address(path, UnixListener::bind).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let metadata = fs::symlink_metadata(path).map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            file: (metadata.dev(), metadata.ino()),
        })
    }

    /// Returns true if the file is still the one that was created.
    fn is_in_place(&self) -> bool {
        fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.file)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_in_place() {
            // A failure means that the file is already gone.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Connects to the socket at a path.
///
/// # Errors
/// The system's errors; `ConnectionRefused` if no observer listens.
pub(super) fn connect(path: &Path) -> io::Result<UnixStream> {
    at_address(path, UnixStream::connect)
}

/// Uses a path as a socket address. A path that is too long is replaced by one through a descriptor of its
/// directory.
fn at_address<T>(path: &Path, open: impl Fn(PathBuf) -> io::Result<T>) -> io::Result<T> {
    // The longest path that a socket's address holds on every system, without its zero byte.
    if path.as_os_str().len() <= 103 {
        return open(path.to_owned());
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = File::from(rustix::fs::open(directory, flags, Mode::empty())?);
    let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    open(short.join(name))
}

/// Returns true if the peer is a process of the same user.
fn is_own_peer(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let temp = tempfile::tempdir().unwrap();
        fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let deep = "d".repeat(120);
        for path in [
            temp.path().join("a.sock"),
            temp.path().join(deep).join("b.sock"),
        ] {
            let first = Socket::listen(&path).unwrap();
            assert!(first.is_in_place());
            assert!(Socket::listen(&path).unwrap_err().is_locked());
            let stream = connect(&path).unwrap();
            assert!(is_own_peer(&stream));
            // The process has died without removing its socket.
            let Socket { listener, .. } = &first;
            drop(listener.try_clone().unwrap());
            fs::rename(&path, path.with_extension("moved")).unwrap();
            assert!(!first.is_in_place());
            drop(first);
            fs::rename(path.with_extension("moved"), &path).unwrap();
            assert_eq!(
                connect(&path).unwrap_err().kind(),
                io::ErrorKind::ConnectionRefused
            );
            let second = Socket::listen(&path).unwrap();
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            drop(second);
            assert!(!path.exists());
        }
    }

    #[test]
    fn the_path_depends_on_the_data_directory_and_the_user() {
        let data = Path::new("/nowhere/data");
        let path = socket_path(data, Some("/run/user/7".into()));
        assert!(path.starts_with("/run/user/7/td-observe"), "{path:?}");
        assert_ne!(
            path,
            socket_path(Path::new("/nowhere/other"), Some("/run/user/7".into()))
        );
        let shared = tempfile::tempdir().unwrap();
        for (mode, is_used) in [
            (0o777, false),
            (0o770, false),
            (0o1777, false),
            (0o755, true),
        ] {
            fs::set_permissions(shared.path(), fs::Permissions::from_mode(mode)).unwrap();
            let path = socket_path(data, Some(shared.path().into()));
            assert_eq!(path.starts_with(shared.path()), is_used, "{mode:o}");
            assert_eq!(path.starts_with(data), !is_used, "{mode:o}");
        }
        assert_eq!(socket_path(data, None), data.join("observer.sock"));
        assert_eq!(
            socket_path(data, Some("".into())),
            data.join("observer.sock")
        );
    }
}
