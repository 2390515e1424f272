//! The meaning of the global options.

use std::io;
use std::path::PathBuf;

use anstream::{AutoStream, ColorChoice};

use super::args::{TypedOptions, When};
use super::failure::Failure;
use super::which_server::WhichServer;
use crate::history::DataDir;

/// The global options.
#[derive(Debug)]
pub(super) struct Options {
    pub server: WhichServer,
    /// All chosen servers; only the observer supports several.
    pub servers: Vec<WhichServer>,
    /// The directory given with `--data-dir`.
    pub data_dir: Option<PathBuf>,
    pub no_log: bool,
    pub json: bool,
    pub coloured: bool,
    pub quiet: bool,
    pub verbose: u8,
}

impl Options {
    pub fn from_typed(typed: TypedOptions) -> Result<Self, Failure> {
        let is_empty = |path: &PathBuf| path.as_os_str().is_empty();
        for (is_empty, problem) in [
            (
                typed.server_name.iter().any(|name| name.is_empty()),
                "-L: the name of the tmux server is empty",
            ),
            (
                typed.server_socket.iter().any(is_empty),
                "-S: the path of the tmux socket is empty",
            ),
            (
                typed.data_dir.iter().any(is_empty),
                "--data-dir: the path is empty; --no-log keeps nothing",
            ),
        ] {
            if is_empty {
                return Err(Failure::usage(problem));
            }
        }
        let named = typed.server_name.into_iter().map(WhichServer::Named);
        let sockets = typed.server_socket.into_iter().map(WhichServer::Socket);
        let mut servers: Vec<WhichServer> = named.chain(sockets).collect();
        if servers.is_empty() {
            servers.push(WhichServer::Default);
        }
        Ok(Self {
            server: servers.first().cloned().unwrap_or(WhichServer::Default),
            servers,
            data_dir: typed.data_dir,
            no_log: typed.no_log,
            json: typed.json,
            coloured: match typed.color {
                When::Always => true,
                When::Never => false,
                When::Auto => AutoStream::choice(&io::stdout()) != ColorChoice::Never,
            },
            quiet: typed.quiet,
            verbose: typed.verbose,
        })
    }

    /// Returns the directory in which runs are kept; `None` without a log.
    pub fn data_path(&self) -> Result<Option<PathBuf>, Failure> {
        if self.no_log {
            return Ok(None);
        }
        self.home().map(Some)
    }

    /// Returns the data directory, also without a log. The path is absolute, because the background observer
    /// and faces may run in other directories.
    pub fn home(&self) -> Result<PathBuf, Failure> {
        let path = match &self.data_dir {
            Some(path) => path.clone(),
            None => {
                let (from_env, home) = (std::env::var_os("TD_DATA_DIR"), std::env::var_os("HOME"));
                DataDir::default_path(from_env, home)?
            }
        };
        // Fails without a current directory.
        Ok(std::path::absolute(&path).unwrap_or(path))
    }
}
