//! The program that drains panes: given by the caller, or found automatically.

use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::error::{Error, Result};

/// The default program.
const PROGRAM: &str = "td-observe";

/// The program that drains panes: `td-observe`, or another program that passes its second and third argument
/// to [`drain`](super::drain) if the first one is `drain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainProgram(PathBuf);

impl DrainProgram {
    /// Returns the program of this process, which must be able to drain panes. On Linux, this works even
    /// after its file has been replaced or removed.
    ///
    /// # Errors
    /// When the path of the program is unknown.
    pub fn this() -> Result<Self> {
        let running = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
        if running.exists() {
            return Ok(Self(running));
        }
        let path = std::env::current_exe().map_err(|cause| {
            Error::other("cannot find the program of this process").because(cause)
        })?;
        Ok(Self(path))
    }

    /// Finds `td-observe`: the program of this process, one in the same directory, or one in `PATH`.
    ///
    /// # Errors
    /// When none is found.
    pub fn find() -> Result<Self> {
        let own = std::env::current_exe().ok();
        let is_named = |path: &PathBuf| path.file_name().is_some_and(|name| name == PROGRAM);
        if own.as_ref().is_some_and(is_named) {
            return Self::this();
        }
        let beside = own.and_then(|own| own.parent().map(Path::to_owned));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut directories = beside.into_iter().chain(std::env::split_paths(&path));
        let found = directories.find_map(|directory| {
            let program = directory.join(PROGRAM);
            let may_run = rustix::fs::access(&program, Access::EXEC_OK).is_ok();
            (program.is_absolute() && may_run && program.is_file()).then_some(program)
        });
        found.map(Self).ok_or_else(|| {
            Error::other(format!(
                "no {PROGRAM}, which drains panes, is installed beside this program or in PATH"
            ))
        })
    }

    /// Returns the program at a path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}
