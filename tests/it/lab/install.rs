//! The installed lab: its program, its directory, and an environment for each run.

use std::ffi::OsStr;
use std::path::PathBuf;

pub(super) fn lab() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/agents-lab/lab")
}

/// Returns the lab's directory; a relative path without agents if the variable is not set.
pub(super) fn lab_directory() -> PathBuf {
    PathBuf::from(std::env::var_os("TD_LAB").unwrap_or_default())
}

/// Copies the installed agents with unused homes, so that no run sees files of a previous one.
pub(super) fn fresh_lab() -> tempfile::TempDir {
    let fresh = tempfile::tempdir().unwrap();
    for part in ["node_modules", "venv"] {
        std::os::unix::fs::symlink(lab_directory().join(part), fresh.path().join(part)).unwrap();
    }
    fresh
}

/// Returns true if a variable of the environment reaches the tests with agents.
pub(super) fn is_kept(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    ["PATH", "HOME", "TMPDIR", "RUST_BACKTRACE"].contains(&&*name) || name.starts_with("TD_LAB_")
}
