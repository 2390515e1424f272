//! An observer within the process of a face, which only this face uses.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use crossbeam_channel::{Sender, bounded};
use tempfile::TempDir;

use super::args::TypedStart;
use super::foreground::observe;
use crate::cli::failure::Failure;
use crate::cli::options::Options;
use crate::thread::{self, Handle};

/// A running observer on the thread `td-observer`. Its API listens in a private directory.
#[derive(Debug)]
pub(in crate::cli) struct PrivateObserver {
    directory: TempDir,
    end: Sender<i32>,
    thread: Handle<Result<ExitCode, Failure>>,
}

impl PrivateObserver {
    /// Starts the observer. Its API answers shortly afterwards.
    pub fn start(options: Arc<Options>, typed: TypedStart) -> Result<Self, Failure> {
        // tempfile creates directories with mode 0700.
        let directory = tempfile::Builder::new().prefix("td-observe-").tempdir();
        let directory = directory.map_err(|cause| {
            failure!("cannot create a directory for the API's socket: {cause}; set TMPDIR")
        })?;
        let socket = socket_in(directory.path());
        let (end, ended) = bounded(1);
        let thread = thread::spawn("td-observer", move || {
            observe(&options, &typed, false, &socket, &ended)
        })?;
        Ok(Self {
            directory,
            end,
            thread,
        })
    }

    pub fn socket(&self) -> PathBuf {
        socket_in(self.directory.path())
    }

    /// Ends the observer, and waits until its runs are written.
    pub fn end(self) -> Result<ExitCode, Failure> {
        drop(self.end);
        match self.thread.join() {
            Ok(ended) => ended,
            Err(panicked) => Err(Failure::other(panicked.to_string())),
        }
    }
}

fn socket_in(directory: &Path) -> PathBuf {
    directory.join("observer.sock")
}
