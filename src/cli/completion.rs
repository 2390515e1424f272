//! `td-observe completions`: the script for a shell, and the answers to what the script asks at run
//! time. An answer is read-only, takes at most a second, and never holds a complaint.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap_complete::env::Shells;

use super::command_line;
use super::completers::{ASKS, Shell};
use super::failure::Failure;

/// Our own script for bash, which splits words at colons and joins them again for us.
const BASH: &str = include_str!("completion.bash");

/// Prints the script.
pub(super) fn run(shell: Shell) -> Result<ExitCode, Failure> {
    let failed = |error| Failure::other(format!("cannot create the script: {error}"));
    let program = program().map_err(failed)?;
    if shell == Shell::Bash {
        // A quoted path has no line ends; anything else can be quoted.
        let quoted = shlex::try_quote(&program).unwrap_or("td-observe".into());
        super::output::print(&BASH.replace("PROGRAM", &quoted))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut script = Vec::new();
    if let Some(completer) = Shells::builtins().completer(shell.name()) {
        completer
            .write_registration(ASKS, "td-observe", "td-observe", &program, &mut script)
            .map_err(failed)?;
    }
    super::output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// The program as the script starts it: by its name where it was found in `PATH`.
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

/// Answers a script's question, if this process was started for one.
pub(super) fn answer() -> Option<ExitCode> {
    let shell = std::env::var(ASKS).ok()?;
    let completer = Shells::builtins();
    let completer = completer.completer(&shell)?;
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let words: Vec<OsString> = words.collect();
    let directory = std::env::current_dir().ok();
    let mut out = Vec::new();
    // A shell has no place for a complaint: without candidates there is no answer.
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
