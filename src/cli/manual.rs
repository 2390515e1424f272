//! `td-observe man`: writes a manual page for each command.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

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
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    // clap_mangen's synopsis names all options, without their values.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    Roff::new()
        .control("SH", ["SYNOPSIS"])
        .text([roman(usage)])
        .to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if visible_subcommands(command).next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    if command.get_after_help().is_some() {
        man.render_extra_section(&mut page)?;
    }
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    // The text after the options begins with examples.
    let mut page = String::from_utf8_lossy(&page).into_owned();
    for title in ["Examples:", "Example:"] {
        let extra = format!("\n.SH EXTRA\n{title}\n");
        page = page.replacen(&extra, "\n.SH EXAMPLES\n", 1);
    }
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
