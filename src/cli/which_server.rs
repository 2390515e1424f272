//! The tmux server that `-L`, `-S` and `TMUX` choose.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::api::real;
use crate::event::PaneId;
use crate::tmux::Server;

/// The chosen tmux server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WhichServer {
    Default,
    Named(OsString),
    Socket(PathBuf),
}

impl WhichServer {
    pub fn server(&self) -> Server {
        match self {
            Self::Default => Server::default(),
            Self::Named(name) => Server::named(name.clone()),
            Self::Socket(path) => Server::socket(path),
        }
    }

    /// Returns the option and the value that choose this server.
    pub fn chosen(&self) -> Option<(&'static str, OsString)> {
        match self {
            Self::Default => None,
            Self::Named(name) => Some(("-L", name.clone())),
            Self::Socket(path) => Some(("-S", path.clone().into_os_string())),
        }
    }

    /// Returns the absolute path of this server's socket; `None` if `TMUX` is not UTF-8.
    pub fn socket_path(&self) -> Option<PathBuf> {
        let name = match self {
            Self::Socket(path) => {
                // Fails without a current directory.
                return Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()));
            }
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

    /// Returns the pane in which this program runs, if it belongs to this server.
    pub fn own_pane(&self) -> Option<PaneId> {
        let (socket, pane) = own_place()?;
        match self {
            // By default, tmux uses the server that `TMUX` names.
            Self::Default => Some(pane),
            _ => (real(&socket) == real(&self.socket_path()?)).then_some(pane),
        }
    }
}

/// Returns the socket of the tmux server and the pane in which this program runs.
pub(super) fn own_place() -> Option<(PathBuf, PaneId)> {
    let (tmux, pane) = (set("TMUX")?, set("TMUX_PANE")?);
    let socket = socket_of(tmux.to_str()?).to_owned();
    Some((socket, PaneId::from(pane.to_str()?)))
}

/// Returns the value of an environment variable, if it is not empty.
fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the socket in the value of `TMUX`, which consists of a path, a pid and a session. The path may
/// contain commas.
fn socket_of(tmux: &str) -> &Path {
    Path::new(tmux.rsplitn(3, ',').last().unwrap_or(tmux))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_socket_may_contain_commas() {
        assert_eq!(
            socket_of("/tmp/tmux-0/default,123,4"),
            Path::new("/tmp/tmux-0/default")
        );
        assert_eq!(socket_of("/tmp/a,b/s,123,4"), Path::new("/tmp/a,b/s"));
    }
}
