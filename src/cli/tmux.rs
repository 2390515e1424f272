//! `td-observe tmux`: prints the lines of tmux's configuration that bind keys and show the counts in the status line.

use std::fmt::Write as _;
use std::process::ExitCode;

use super::failure::Failure;
use super::output;

/// The option of tmux that holds the counts. A user can put it elsewhere: `#{E:@td-observe-counts}`.
const COUNTS: &str = "@td-observe-counts";

/// The option of tmux by which the plugin remembers that it has started the observer.
const STARTED: &str = "@td-observe-started";

/// The width of the right part of the status line, which tmux limits to 40 by default: less than the counts and
/// what it has already.
const WIDTH: u32 = 80;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/tmux.txt").trim_end())]
pub(super) struct TypedTmux {
    /// The key, after the prefix, that opens the terminal UI in a popup; none binds none
    #[arg(long, value_name = "KEY", default_value = "B", value_parser = word)]
    pub key: String,
    /// The key, after the prefix, that goes to the pane that has needed you longest; none binds none
    #[arg(long, value_name = "KEY", default_value = "N", value_parser = word)]
    pub next_key: String,
    /// The counts in the status line, as for status --format
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "{needs_you} need you, {working} working",
        value_parser = plain
    )]
    pub format: String,
    /// Leave the status line alone
    #[arg(long)]
    pub no_status: bool,
    /// The program that tmux runs
    #[arg(long, value_name = "PATH", default_value = "td-observe", value_parser = word)]
    pub program: String,
    /// Take the keys and the counts back when this file is gone, as a plugin's is after it is uninstalled
    #[arg(long, value_name = "FILE", value_parser = word)]
    pub while_exists: Option<String>,
    /// Print the lines that take the keys and the counts back
    #[arg(long)]
    pub remove: bool,
}

/// Accepts a key, a program or a path that tmux and the shell read as one word without quotes.
fn word(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./@+%,:=^".contains(c);
    if text.chars().all(is_plain) && !text.is_empty() {
        Ok(text.to_owned())
    } else {
        Err("use letters, digits and -_./@+%,:=^ only".to_owned())
    }
}

/// Accepts a text that neither tmux nor the shell changes within quotes.
fn plain(text: &str) -> Result<String, String> {
    let is_changed = |c: char| "'\"\\`$#()%".contains(c) || c.is_control();
    if text.chars().any(is_changed) {
        Err(
            "quotes, control characters and any of \\`$#()% are not possible in the status line"
                .to_owned(),
        )
    } else {
        Ok(text.to_owned())
    }
}

/// Prints the lines.
pub(super) fn run(typed: &TypedTmux) -> Result<ExitCode, Failure> {
    let lines = if typed.remove {
        removal(typed)
    } else {
        lines(typed)
    };
    output::print(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the keys that are bound, and the command of each.
fn keys(typed: &TypedTmux) -> impl Iterator<Item = (&str, &'static str, String)> {
    let program = &typed.program;
    let ui = format!("display-popup -E -w 90% -h 90% '{program} tui'");
    let next = format!("run-shell -b \"{program} next --client '#{{client_name}}'\"");
    [
        (typed.key.as_str(), "who needs you", ui),
        (
            &typed.next_key,
            "the pane that has needed you longest",
            next,
        ),
    ]
    .into_iter()
    .filter(|(key, ..)| *key != "none")
}

fn lines(typed: &TypedTmux) -> String {
    let mut lines = String::new();
    for (key, note, command) in keys(typed) {
        // Writing to a string does not fail.
        let _ = writeln!(lines, "bind-key -N 'td-observe: {note}' {key} {command}");
    }
    if typed.no_status {
        return lines;
    }
    let program = &typed.program;
    let mut counts = format!("{program} status --format \"{}\"", typed.format);
    if let Some(file) = &typed.while_exists {
        let (key, next) = (&typed.key, &typed.next_key);
        counts = format!(
            "if [ -e {file} ]; then {counts}; else \
             {program} tmux --remove --key {key} --next-key {next} --program {program} | tmux source-file -; fi"
        );
    }
    lines
        + &format!(
            "set-option -g {COUNTS} '#({counts})'\n\
             if-shell -F '#{{m:*{COUNTS}*,#{{status-left}} #{{status-right}}}}' '' {{\n    \
                 set-option -gF status-right '##{{E:{COUNTS}}} #{{status-right}}'\n    \
                 if-shell -F '#{{==:#{{status-right-length}},40}}' 'set-option -g status-right-length {WIDTH}'\n\
             }}\n"
        )
}

fn removal(typed: &TypedTmux) -> String {
    let mut lines = String::new();
    for (key, ..) in keys(typed) {
        // A key that was bound to something else since is the user's.
        let _ = writeln!(
            lines,
            "if-shell \"tmux list-keys -T prefix | grep -E '^bind-key +(-[rN] +)?-T prefix +{key} .*{} (tui|next)'\" 'unbind-key {key}'",
            typed.program
        );
    }
    // Dots stand for the braces and the colon, which would end the pattern.
    lines
        + &format!(
            "set-option -gF status-right '#{{s/..E.{COUNTS}. //:status-right}}'\n\
             if-shell -F '#{{==:#{{status-right-length}},{WIDTH}}}' 'set-option -gu status-right-length'\n\
             set-option -gu {COUNTS}\n\
             if-shell -F '#{{{STARTED}}}' 'run-shell -b \"{} stop --quiet\"'\n\
             set-option -gu {STARTED}\n",
            typed.program
        )
}
