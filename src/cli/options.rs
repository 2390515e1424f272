//! The meaning of the options that every subcommand has.

use std::io;
use std::path::PathBuf;

use anstream::{AutoStream, ColorChoice};

use super::args::{TypedOptions, When};
use super::failure::Failure;
use super::which_server::WhichServer;
use crate::history::DataDir;

/// Options that every subcommand has.
#[derive(Debug)]
pub(super) struct Options {
    pub server: WhichServer,
    /// As it was typed, and nowhere else.
    pub data_dir: Option<PathBuf>,
    pub no_log: bool,
    pub json: bool,
    pub coloured: bool,
    pub quiet: bool,
    pub verbose: u8,
}

impl Options {
    pub fn from_typed(typed: TypedOptions) -> Result<Self, Failure> {
        let server = match (typed.server_name, typed.server_socket) {
            (None, None) => WhichServer::Default,
            (Some(name), None) if name.is_empty() => {
                return Err(Failure::usage("-L: the name of the tmux server is empty"));
            }
            (None, Some(path)) if path.as_os_str().is_empty() => {
                return Err(Failure::usage("-S: the path of the tmux socket is empty"));
            }
            (Some(name), None) => WhichServer::Named(name),
            (None, Some(path)) => WhichServer::Socket(path),
            (Some(_), Some(_)) => {
                return Err(Failure::usage(
                    "-L and -S both choose a tmux server: give one",
                ));
            }
        };
        if typed
            .data_dir
            .as_ref()
            .is_some_and(|path| path.as_os_str().is_empty())
        {
            return Err(Failure::usage(
                "--data-dir: the path is empty; --no-log keeps nothing",
            ));
        }
        Ok(Self {
            server,
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

    /// Where runs are kept, if they are.
    pub fn data_path(&self) -> Result<Option<PathBuf>, Failure> {
        if self.no_log {
            return Ok(None);
        }
        self.home().map(Some)
    }

    /// The data directory, whether anything is kept or not.
    pub fn home(&self) -> Result<PathBuf, Failure> {
        match &self.data_dir {
            Some(path) => Ok(path.clone()),
            None => {
                let (from_env, home) = (std::env::var_os("TD_DATA_DIR"), std::env::var_os("HOME"));
                Ok(DataDir::default_path(from_env, home)?)
            }
        }
    }
}
