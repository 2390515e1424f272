//! `td-observe states`: lists the rules for agents' screens, and tries them on a capture. Also selects the
//! rules for `watch`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueHint;

use super::failure::Failure;
use super::options::{self, Options};
use super::{known, live, output};
use crate::agent::{AgentScreen, DetectedState, StateRules};

/// The directory with the user's rules, in the data directory.
const RULES: &str = "states";

/// Returns the rules for screens; `None` with `--no-states`.
pub(super) fn rules(
    options: &Options,
    typed: &TypedReading,
) -> Result<Option<StateRules>, Failure> {
    if typed.no_states {
        Ok(None)
    } else {
        Ok(Some(read(options, &typed.states)?.0))
    }
}

/// Reads all rules, and returns the origins of the user's rules.
pub(super) fn read(
    options: &Options,
    named: &[PathBuf],
) -> Result<(StateRules, Vec<Origin>), Failure> {
    let mut paths = Vec::new();
    if named.is_empty() {
        let default = options.home()?.join(RULES);
        if default.is_dir() {
            paths = in_directory(&default)?;
        }
    }
    for path in named {
        if path.is_dir() {
            paths.extend(in_directory(path)?)
        } else {
            paths.push(path.clone())
        }
    }
    let mut rules = StateRules::builtin();
    let mut origins = Vec::new();
    for path in paths {
        let text = options::read_rule_file(&path)?
            .ok_or_else(|| usage!("{path:?}: there is no such file of rules"))?;
        let (with, agent) = rules
            .with_toml_of(&text)
            .map_err(|error| usage!("{path:?}: {error:?}"))?;
        rules = with;
        origins.push(Origin { agent, path, text });
    }
    Ok((rules, origins))
}

/// The file of the user's rules for an agent.
pub(super) struct Origin {
    agent: String,
    path: PathBuf,
    text: String,
}

/// Returns the `*.toml` files of a directory, by name.
fn in_directory(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |cause| usage!("cannot read {path:?}: {cause}");
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension() == Some(OsStr::new("toml")) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Lists agents, prints the rules of one, or tries them on a capture.
pub(super) fn run(options: &Options, typed: &TypedStates) -> Result<ExitCode, Failure> {
    let (rules, origins) = read(options, &typed.states)?;
    if let Some(name) = &typed.show {
        return show(&rules, &origins, name);
    }
    if let Some(path) = &typed.capture {
        // In the form of `tmux capture-pane -p`.
        // A screen has about ten thousand characters.
        let bytes = options::read_input(path, 4 << 20, "a capture of a screen")?;
        let text = String::from_utf8_lossy(&bytes);
        let rows: Vec<&str> = text.lines().collect();
        let detected = rules.detect(&AgentScreen {
            rows: &rows,
            ..AgentScreen::default()
        });
        return print_state(options, detected.as_ref());
    }
    let mut lines = String::new();
    for name in rules.agents() {
        let own = origins.iter().rfind(|origin| origin.agent == name);
        let origin = own.map_or("built in".to_owned(), |origin| {
            origin.path.display().to_string()
        });
        if options.json {
            let line = serde_json::json!({"agent": name, "rules": origin});
            lines.push_str(&output::json_lines([&line]));
        } else {
            lines.push_str(&format!("{name:<10} {}\n", crate::face::one_line(&origin)))
        }
    }
    output::print(&lines)
}

fn show(rules: &StateRules, origins: &[Origin], name: &str) -> Result<ExitCode, Failure> {
    let own = origins.iter().rfind(|origin| origin.agent == name);
    let text = match own {
        Some(origin) => origin.text.as_str(),
        None => StateRules::builtin_text(name).ok_or_else(|| {
            let names: Vec<&str> = rules.agents().collect();
            usage!(
                "--show: there are no rules for {name:?}{}",
                known::hint(name, names, "td-observe states")
            )
        })?,
    };
    output::print(text)
}

/// Prints the detected state; returns exit code 1 if there is none.
fn print_state(options: &Options, detected: Option<&DetectedState>) -> Result<ExitCode, Failure> {
    let line = match (detected, options.json) {
        (None, false) => "nothing is recognised\n".to_owned(),
        (None, true) => "{}\n".to_owned(),
        (Some(detected), false) => {
            let text = format!("{}: {}", detected.state, detected.evidence());
            let asks = (detected.asks.as_ref())
                .map(|asks| format!("asks: {}\n", crate::face::one_line(asks)));
            format!(
                "{}\n{}",
                crate::face::one_line(&text),
                asks.unwrap_or_default()
            )
        }
        (Some(detected), true) => {
            let line = serde_json::json!({
                "agent": detected.agent,
                "state": detected.state.as_str(),
                "rule": detected.rule,
                "line": detected.line,
                "inferred": detected.inferred,
                "asks": detected.asks,
            });
            output::json_lines([&line])
        }
    };
    output::print(&line)?;
    Ok(live::code(detected.is_none()))
}

// The arguments of `td-observe states`, and those of `watch` for the rules.

/// The rules that read the state of agents from screens.
#[derive(Debug, clap::Args)]
pub(super) struct TypedReading {
    /// A file or directory of rules for agents' screens; repeat for several, the last one for an
    /// agent counts [default: states/ in the data directory]
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "no_states", value_hint = ValueHint::AnyPath)]
    pub states: Vec<PathBuf>,
    /// Do not report the states of agents
    #[arg(long, conflicts_with = "on_state")]
    pub no_states: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/states.txt").trim_end())]
pub(super) struct TypedStates {
    /// A file or directory of rules; repeat for several, the last one for an agent counts [default:
    /// states/ in the data directory]
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub states: Vec<PathBuf>,
    /// Print the rules of this agent
    #[arg(long, value_name = "AGENT", conflicts_with = "capture")]
    pub show: Option<String>,
    /// Print the state that the rules find in a capture; - reads standard input
    #[arg(long = "try", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub capture: Option<PathBuf>,
}
