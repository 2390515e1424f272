//! `td-observe man`: writes a manual page for each command.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;

use super::args::visible_subcommands;
use super::command_line;
use super::failure::Failure;

/// Writes the pages into a directory.
pub(super) fn run(directory: &Path) -> Result<ExitCode, Failure> {
    if directory.as_os_str().is_empty() {
        return Err(usage!("man: the path of the directory is empty"));
    }
    let mut command = command_line::command();
    command.build();
    fs::create_dir_all(directory)
        .and_then(|()| write(&command, directory))
        .map_err(|error| usage!("cannot write manual pages to {directory:?}: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and of its subcommands.
fn write(command: &Command, directory: &Path) -> io::Result<()> {
    let man = Man::new(command.clone())
        .source(concat!("td-observe ", env!("CARGO_PKG_VERSION")))
        .manual("td-observe");
    let mut page = Vec::new();
    man.render(&mut page)?;
    // clap_mangen puts the text after the options into a section EXTRA.
    let page = String::from_utf8_lossy(&page).replacen("\n.SH EXTRA\n", "\n.SH EXAMPLES\n", 1);
    fs::write(directory.join(man.get_filename()), page)?;
    let subcommands = visible_subcommands(command);
    for subcommand in subcommands.filter(|subcommand| is_ours(command, subcommand)) {
        write(subcommand, directory)?;
    }
    Ok(())
}

/// Returns true if a subcommand is not the `help` that clap adds below each command with subcommands.
fn is_ours(command: &Command, subcommand: &Command) -> bool {
    subcommand.get_name() != "help" || command.get_name() == "td-observe"
}
