//! What the options mean that every subcommand has.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anstream::{AutoStream, ColorChoice};

use super::args::{TypedOptions, When};
use super::failure::Failure;
use crate::event::PaneId;
use crate::history::DataDir;
use crate::tmux::Server;

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

/// The tmux server that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WhichServer {
    Default,
    Named(OsString),
    Socket(PathBuf),
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

impl WhichServer {
    pub fn server(&self) -> Server {
        match self {
            Self::Default => Server::default(),
            Self::Named(name) => Server::named(name.clone()),
            Self::Socket(path) => Server::socket(path),
        }
    }

    /// The socket of this server; `None` where `TMUX` does not name it as tmux writes it.
    pub fn socket_path(&self) -> Option<PathBuf> {
        let name = match self {
            Self::Socket(path) => return Some(path.clone()),
            Self::Named(name) => name.clone(),
            Self::Default => match set("TMUX") {
                Some(tmux) => return tmux.to_str().map(|tmux| socket_of(tmux).to_owned()),
                None => "default".into(),
            },
        };
        let directory = set("TMUX_TMPDIR").unwrap_or_else(|| "/tmp".into());
        let uid = rustix::process::getuid().as_raw();
        Some(Path::new(&directory).join(format!("tmux-{uid}")).join(name))
    }

    /// The pane that this program runs in, if it is one of this server.
    pub fn own_pane(&self) -> Option<PaneId> {
        let (tmux, pane) = (set("TMUX")?, set("TMUX_PANE")?);
        let pane = PaneId::from(pane.to_str()?);
        let own = socket_of(tmux.to_str()?);
        match self {
            // tmux itself takes the server that `TMUX` names.
            Self::Default => Some(pane),
            _ => is_same(own, &self.socket_path()?).then_some(pane),
        }
    }
}

/// The value of an environment variable that is not empty.
fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The socket in the value of `TMUX`: a path, which may hold commas, a pid and a session.
fn socket_of(tmux: &str) -> &Path {
    Path::new(tmux.rsplitn(3, ',').last().unwrap_or(tmux))
}

fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let about = std::fs::metadata(path).ok()?;
        Some((about.dev(), about.ino()))
    };
    one == other || identity(one).is_some_and(|found| identity(other) == Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_may_hold_commas() {
        assert_eq!(
            socket_of("/tmp/tmux-0/default,123,4"),
            Path::new("/tmp/tmux-0/default")
        );
        assert_eq!(socket_of("/tmp/a,b/s,123,4"), Path::new("/tmp/a,b/s"));
    }
}
