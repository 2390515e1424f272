//! `td-observe man`: a manual page for each command.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use super::command_line;
use super::failure::Failure;

/// Writes the pages into a directory.
pub(super) fn run(directory: &Path) -> Result<ExitCode, Failure> {
    if directory.as_os_str().is_empty() {
        return Err(Failure::usage("man: the path of the directory is empty"));
    }
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(command_line::command(), directory))
        .map_err(|error| {
            Failure::usage(format!(
                "cannot write manual pages to {directory:?}: {error}"
            ))
        })?;
    Ok(ExitCode::SUCCESS)
}
