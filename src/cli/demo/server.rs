//! The demo's tmux server: it has its own name and sockets, no configuration, and leaves nothing behind.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::never;
use tempfile::TempDir;

use crate::child::{self, Invocation};
use crate::cli::failure::Failure;
use crate::cli::options::Options;
use crate::clock::Clock;
use crate::tmux::Server;

/// Maximum length of the parent directory. The path of a socket has at most 107 bytes, of which the names
/// below the parent take up to 64.
const DIRECTORY_BYTES_MAX: usize = 40;

/// The time within which tmux must start.
const START: Duration = Duration::from_secs(5);

/// A directory that only this user can enter, and the name of a server in it. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct DemoDirectory {
    directory: Arc<TempDir>,
    name: String,
}

impl DemoDirectory {
    /// Creates the directory, which is removed when the last clone is dropped.
    pub fn make() -> Result<Self, Failure> {
        let usual = std::env::temp_dir();
        let parent = if usual.as_os_str().len() <= DIRECTORY_BYTES_MAX {
            &usual
        } else {
            Path::new("/tmp")
        };
        // tempfile creates directories with mode 0700.
        let directory = tempfile::Builder::new()
            .prefix("td-demo-")
            .tempdir_in(parent);
        let directory = directory.map_err(|error| {
            let parent = parent.display();
            failure!("cannot create a directory in {parent}: {error}; set TMPDIR")
        })?;
        Ok(Self {
            directory: Arc::new(directory),
            name: format!("td-demo-{}", std::process::id()),
        })
    }

    /// Returns the path of the demo's log: that of `--data-dir`, or one that is removed at the end.
    pub fn data_path(&self, options: &Options) -> PathBuf {
        let path = options.data_dir.clone();
        path.unwrap_or_else(|| self.directory.path().join("data"))
    }

    /// Returns the server of the directory, which need not run.
    pub fn server(&self) -> Server {
        Server::named(self.name.as_str()).with_env("TMUX_TMPDIR", self.directory.path())
    }

    /// Ends the server and removes the directory.
    pub fn clear(&self) {
        match self.server().run(["kill-server"], &Clock::system()) {
            Ok(_) => {}
            // The server has ended with its last session, or was never started.
            Err(error) if error.is_gone() || error.is_missing_program() => {}
            Err(error) => log::warn!("the demo's tmux server may still run: {error:?}"),
        }
        if let Err(error) = fs::remove_dir_all(self.directory.path())
            && error.kind() != std::io::ErrorKind::NotFound
        {
            log::warn!("cannot remove {}: {error}", self.directory.path().display());
        }
    }
}

/// A running server. Dropping it ends the server.
#[derive(Debug)]
pub(super) struct PrivateServer(DemoDirectory);

impl PrivateServer {
    /// Starts the server with these sessions, each a name and a script for `sh`.
    pub fn start(
        directory: DemoDirectory,
        sessions: &[(&str, &str)],
        clock: &Clock,
    ) -> Result<Self, Failure> {
        // The guard comes first, because a server may run even if a later session fails to start.
        let server = Self(directory);
        for (name, script) in sessions {
            server.start_session(name, script, clock)?;
        }
        Ok(server)
    }

    pub fn server(&self) -> Server {
        self.0.server()
    }

    fn start_session(&self, name: &str, script: &str, clock: &Clock) -> Result<(), Failure> {
        let server = ["-u", "-L", &self.0.name, "-f", "/dev/null"];
        let session = ["new-session", "-d", "-s", name, "-x", "100", "-y", "30"];
        // Given several words, tmux starts `sh` directly, without the user's shell.
        let args = [&server[..], &session, &["sh", "-c", script]].concat();
        let invocation = Invocation {
            program: "tmux".into(),
            args: args.into_iter().map(OsString::from).collect(),
            env: vec![("TMUX_TMPDIR".into(), self.0.directory.path().into())],
            directory: "/".into(),
            stdin: Vec::new(),
            output_bytes_max: 64 * 1024,
            timeout: START,
        };
        let finished = child::run(&invocation, clock, &never())?;
        if finished.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&finished.stderr).into_owned();
        Err(failure!(
            "cannot start a tmux server for the demo: {stderr}"
        ))
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        self.0.clear();
    }
}
