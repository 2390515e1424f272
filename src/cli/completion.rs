//! `td-observe completions`: prints the script for a shell, and answers its requests at run time. An answer
//! is read-only, takes at most a second, and never contains an error.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap_complete::aot::Shell;
use clap_complete::env::Shells;

use super::command_line;
use super::completers::ASKS;
use super::failure::Failure;

/// The script for bash, which splits words at colons; this script joins them again.
const BASH: &str = include_str!("completion.bash");

pub(super) fn run(shell: Shell) -> Result<ExitCode, Failure> {
    let failed = |error| failure!("cannot create the script: {error}");
    let program = program().map_err(failed)?;
    if shell == Shell::Bash {
        // Only a path with a NUL cannot be quoted, and no argument contains one.
        let quoted = shlex::try_quote(&program).unwrap_or("td-observe".into());
        return super::output::print(&BASH.replace("PROGRAM", &quoted));
    }
    let mut script = Vec::new();
    if let Some(completer) = Shells::builtins().completer(&shell.to_string()) {
        completer
            .write_registration(ASKS, "td-observe", "td-observe", &program, &mut script)
            .map_err(failed)?;
    }
    super::output::print(&String::from_utf8_lossy(&script))
}

/// Returns the program as the script starts it: by name if it was found in `PATH`, else by its absolute path.
fn program() -> std::io::Result<String> {
    let name = std::env::args_os().next().map(PathBuf::from);
    let name = name.filter(|name| !name.as_os_str().is_empty());
    let name = name.unwrap_or_else(|| PathBuf::from("td-observe"));
    let path = match name.components().count() {
        1 => name,
        _ => std::path::absolute(name)?,
    };
    Ok(path.to_string_lossy().into_owned())
}

/// Answers a request of a completion script, if this process was started for one.
pub(super) fn answer() -> Option<ExitCode> {
    let shell = std::env::var(ASKS).ok()?;
    let completer = Shells::builtins();
    let completer = completer.completer(&shell)?;
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let words: Vec<OsString> = words.collect();
    let directory = std::env::current_dir().ok();
    let mut out = Vec::new();
    // A shell cannot show an error, so a failure answers with no candidates.
    if !words.is_empty()
        && completer
            .write_complete(
                &mut command_line::command(),
                words,
                directory.as_deref(),
                &mut out,
            )
            .is_ok()
    {
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(&out).and_then(|()| stdout.flush());
    }
    Some(ExitCode::SUCCESS)
}
