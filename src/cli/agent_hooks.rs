//! `td-observe hooks`: prints the settings with which an agent reports to td-observe, and runs its hooks.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use clap_complete::engine::ArgValueCandidates;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Map, Value, json};

use super::failure::Failure;
use crate::clock::Clock;
use crate::observe::HookFiles;

/// Maximum time to wait for the input of a hook.
const INPUT_WAIT: Duration = Duration::from_secs(2);

/// The events that show a state; true for events of tools, which the settings match by the tool's name.
const EVENTS: [(&str, bool); 11] = [
    ("SessionStart", false),
    ("UserPromptSubmit", false),
    ("PreToolUse", true),
    ("PermissionRequest", true),
    ("PostToolUse", true),
    ("PostToolUseFailure", true),
    ("Notification", false),
    ("Stop", false),
    ("SubagentStop", false),
    ("StopFailure", false),
    ("SessionEnd", false),
];

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/hooks.txt").trim_end())]
pub(super) struct TypedHooks {
    #[command(subcommand)]
    pub command: TypedHook,
}

#[derive(Debug, Subcommand)]
pub(super) enum TypedHook {
    /// Print the settings that let an agent report its state to td-observe
    #[command(after_help = "\
Example:
  td-observe hooks show claude    what to add to ~/.claude/settings.json")]
    Show {
        /// The agent: claude
        #[arg(add = ArgValueCandidates::new(|| vec!["claude".into()]))]
        agent: OsString,
    },
    /// Reads the input of a hook; run by the hooks themselves
    #[command(hide = true)]
    Report,
}

/// Prints settings, or handles the report of a hook.
pub(super) fn run(typed: &TypedHooks) -> Result<ExitCode, Failure> {
    match &typed.command {
        TypedHook::Show { agent } if agent == "claude" => {
            let program = std::env::current_exe()
                .map_err(|error| failure!("cannot find this program: {error}"))?;
            super::output::print(&settings(&program)?)
        }
        TypedHook::Show { agent } => Err(usage!(
            "hooks show {}: there are hooks for claude only",
            crate::face::one_line(&agent.to_string_lossy())
        )),
        TypedHook::Report => {
            report();
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the settings to add to `~/.claude/settings.json`.
fn settings(program: &Path) -> Result<String, Failure> {
    let command = command(program.as_os_str())?;
    let hook = json!({"type": "command", "command": command, "timeout": 5});
    let mut hooks = Map::new();
    for (event, is_tools) in EVENTS {
        let mut group = json!({"hooks": [hook]});
        if is_tools {
            group["matcher"] = Value::from("*");
        }
        hooks.insert(event.to_owned(), Value::Array(vec![group]));
    }
    let text = serde_json::to_string_pretty(&json!({"hooks": hooks}))
        .map_err(|error| Failure::other(error.to_string()))?;
    Ok(text + "\n")
}

/// Returns the hook's command, which never fails and prints nothing. Claude Code treats exit code 2 as a veto,
/// and the program may have been removed, or replaced by a version without this subcommand.
fn command(program: &OsStr) -> Result<String, Failure> {
    let path = program
        .to_str()
        .ok_or_else(|| failure!("the path {program:?} is not UTF-8"))?;
    let quoted = path.replace('\'', r"'\''");
    Ok(format!("'{quoted}' hooks report >/dev/null 2>&1 || true"))
}

/// Stores the hook's input and prints nothing, because a hook must never disturb the agent.
fn report() {
    let clock = Clock::system();
    let now = clock.wall();
    let input = match input(&clock) {
        Ok(input) => input,
        Err(error) => return log::debug!("the hook's input cannot be read: {error}"),
    };
    let files = HookFiles::of(|name| std::env::var_os(name));
    if let Err(error) = files.report(&input, now) {
        log::debug!("the hook's report cannot be stored: {error}");
    }
}

/// Reads standard input to its end, for at most [`INPUT_WAIT`].
fn input(clock: &Clock) -> std::io::Result<Vec<u8>> {
    let mut stdin = std::io::stdin();
    let (mut input, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    if stdin.is_terminal() {
        return Ok(input);
    }
    let deadline = clock.now() + INPUT_WAIT;
    loop {
        let left = deadline.saturating_duration_since(clock.now());
        let timeout = left.try_into().map_err(std::io::Error::other)?;
        let mut fds = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => return Ok(input),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match stdin.read(&mut chunk)? {
            0 => return Ok(input),
            count => {
                // Maximum size of a hook's input, which may contain a tool's result of megabytes. Further input
                // is read and ignored.
                let room = 16 * 1024 * 1024 - input.len();
                input.extend_from_slice(&chunk[..count.min(room)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_each_event_and_the_program() {
        let text = settings(Path::new("/opt/it's/td-observe")).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        for (event, is_tools) in EVENTS {
            let group = &value["hooks"][event][0];
            assert_eq!(group["matcher"].is_null(), !is_tools, "{event}");
            assert_eq!(
                group["hooks"][0]["command"],
                r"'/opt/it'\''s/td-observe' hooks report >/dev/null 2>&1 || true"
            );
        }
    }
}
