//! The tmux server that `-L`, `-S` and `TMUX` choose.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::event::PaneId;
use crate::tmux::Server;

/// The tmux server that was chosen.
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

    /// The option and the value that choose this server.
    pub fn chosen(&self) -> Option<(&'static str, std::ffi::OsString)> {
        match self {
            Self::Default => None,
            Self::Named(name) => Some(("-L", name.clone())),
            Self::Socket(path) => Some(("-S", path.clone().into_os_string())),
        }
    }

    /// The absolute path of this server's socket; `None` where `TMUX` does not name it as tmux writes it.
    pub fn socket_path(&self) -> Option<PathBuf> {
        let name = match self {
            Self::Socket(path) => {
                // It fails where there is no current directory.
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

/// Returns the socket of the tmux server and the pane in which this program runs.
#[cfg(feature = "tui")]
pub(super) fn own_place() -> Option<(PathBuf, PaneId)> {
    let (tmux, pane) = (set("TMUX")?, set("TMUX_PANE")?);
    let socket = socket_of(tmux.to_str()?).to_owned();
    Some((socket, PaneId::from(pane.to_str()?)))
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
