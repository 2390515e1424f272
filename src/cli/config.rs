//! The configuration: a file, and variables, that give options their values where the command line does not.

mod args;
mod file;
mod keys;
mod places;
mod reader;

#[cfg(feature = "notify")]
mod channels;
#[cfg(feature = "hosts")]
mod host_settings;
#[cfg(feature = "hosts")]
mod hosts;
#[cfg(any(feature = "hosts", feature = "notify"))]
mod names;
#[cfg(any(feature = "hosts", feature = "notify"))]
mod section;
#[cfg(any(feature = "hosts", feature = "notify"))]
mod table;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use super::failure::Failure;
use super::options::{Options, WhichServer};
use super::output;
use crate::face::one_line;
#[cfg(feature = "notify")]
use crate::notify::Settings;
pub(super) use args::TypedConfig;
use args::{ConfigAction, TypedShow};
use file::read;
#[cfg(feature = "hosts")]
pub(super) use host_settings::{HostSettings, LOCAL};
use keys::{Entry, KEYS, Key, Kind, Origin};
#[cfg(feature = "notify")]
pub(super) use names::channel_names;
#[cfg(feature = "hosts")]
pub(super) use names::host_names;
use places::Place;
use reader::Problem;
#[cfg(any(feature = "hosts", feature = "notify"))]
use section::Section;

/// The values that the configuration gives, and where they come from.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    /// The file, whether or not it exists; `None` if no place for it is known.
    pub path: Option<PathBuf>,
    entries: Vec<Entry>,
    #[cfg(feature = "hosts")]
    pub hosts: HostSettings,
    /// The rules and the channels of notifications.
    #[cfg(feature = "notify")]
    pub notifications: Settings,
    /// The tables as the file gives them.
    #[cfg(any(feature = "hosts", feature = "notify"))]
    sections: Vec<Section>,
}

impl Config {
    /// Reads the file that the option or `TD_CONFIG` names, or the user's own if there is one, and the variables. The
    /// options of `command` check the values.
    ///
    /// # Errors
    /// The first problem, and the number of others.
    pub fn load(named: Option<&Path>, command: &clap::Command) -> Result<Self, Failure> {
        let (config, problems) = Self::load_all(named, command)?;
        let Some(first) = problems.first() else {
            return Ok(config);
        };
        Err(match problems.len() {
            1 => usage!("{first}"),
            count => usage!(
                "{first}; and {} more: td-observe config check lists all",
                count - 1
            ),
        })
    }

    /// Reads the configuration, and returns all that is wrong in it.
    fn load_all(
        named: Option<&Path>,
        command: &clap::Command,
    ) -> Result<(Self, Vec<Problem>), Failure> {
        let place = Place::find(named, |name| std::env::var_os(name))?;
        let mut config = Self {
            path: place.as_ref().map(|place| place.path.clone()),
            ..Self::default()
        };
        let mut problems = Vec::new();
        if let Some(place) = &place
            && let Some(text) = place.read()?
        {
            let reader = read(&text, &place.path, command);
            (config.entries, problems) = (reader.entries, reader.problems);
            #[cfg(feature = "notify")]
            {
                config.notifications = reader.notifications;
            }
            #[cfg(feature = "hosts")]
            {
                config.hosts = reader.hosts;
            }
            #[cfg(any(feature = "hosts", feature = "notify"))]
            {
                config.sections = reader.sections;
            }
        }
        for key in KEYS {
            let Some(value) = std::env::var_os(key.variable()).filter(|value| !value.is_empty())
            else {
                continue;
            };
            let origin = Origin::Variable(key.variable());
            match key.of_variable(&value, command) {
                Ok(values) => {
                    config.entries.retain(|entry| entry.key.name != key.name);
                    config.entries.push(Entry {
                        key,
                        values,
                        origin,
                    });
                }
                Err(text) => problems.push(Problem::new(key.variable(), &text)),
            }
        }
        #[cfg(feature = "hosts")]
        problems.extend(config.read_hosts_variable());
        Ok((config, problems))
    }

    /// Takes the hosts of the variable, if it is set; returns what is wrong in it.
    #[cfg(feature = "hosts")]
    fn read_hosts_variable(&mut self) -> Option<Problem> {
        let (names, section) = match hosts::of_variable() {
            Ok(set) => set?,
            Err(problem) => return Some(problem),
        };
        let mut sections = self.sections.iter();
        let place = sections.position(|section| section.name.starts_with(keys::HOSTS));
        let place = place.unwrap_or(self.sections.len());
        self.sections.retain(|known| known.name != section.name);
        self.sections.insert(place, section);
        self.hosts.standing = names;
        None
    }

    /// Makes the values the defaults of the options that have the names of their keys.
    pub fn applied_to(&self, command: clap::Command) -> clap::Command {
        command.mut_subcommands(|subcommand| {
            self.entries.iter().fold(subcommand, |subcommand, entry| {
                let is_its = |arg: &clap::Arg| {
                    arg.get_id() == entry.key.name && arg.get_long() == Some(&entry.key.option())
                };
                if !subcommand.get_arguments().any(is_its) {
                    return subcommand;
                }
                subcommand.mut_arg(entry.key.name, |arg| arg.default_values(&entry.values))
            })
        })
    }

    /// Returns true if it gives any option a default.
    pub fn has_defaults(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Returns true if this is the name of a channel's table.
    fn has_section(&self, _name: &str) -> bool {
        #[cfg(any(feature = "hosts", feature = "notify"))]
        return self.sections.iter().any(|section| section.name == _name);
        #[cfg(not(any(feature = "hosts", feature = "notify")))]
        false
    }

    /// Observes the configured servers, if the command line names none.
    pub fn choose_servers(&self, options: &mut Options) {
        let entry = self
            .entries
            .iter()
            .find(|entry| entry.key.name == keys::SERVERS);
        if options.server.chosen().is_some() {
            return;
        }
        let servers = entry.map_or(&[][..], |entry| &entry.values);
        let servers: Vec<WhichServer> = servers.iter().map(|value| which(value)).collect();
        if let Some(first) = servers.first() {
            options.server = first.clone();
            options.servers = servers;
        }
    }
}

/// Returns the server with this name or at this path.
fn which(value: &str) -> WhichServer {
    if value.contains('/') {
        WhichServer::Socket(value.into())
    } else {
        WhichServer::Named(OsString::from(value))
    }
}

/// Runs a subcommand of `config`.
pub(super) fn run(
    options: &Options,
    typed: &TypedConfig,
    command: &clap::Command,
) -> Result<ExitCode, Failure> {
    let named = options.config.as_deref();
    match &typed.action {
        ConfigAction::Show(show) => show_all(options, named, show, command),
        ConfigAction::Check => check(options, command),
        ConfigAction::Path => {
            let place = Place::required(named)?;
            tell(options, Some(&place.path), |path| path.to_owned())
        }
        ConfigAction::Init => {
            let place = Place::required(named)?;
            place.create(&keys::commented_file())?;
            tell(options, Some(&place.path), |path| {
                format!("written: {path}")
            })
        }
    }
}

/// Prints a line about the file, or for machines where it is and whether it exists.
fn tell(
    options: &Options,
    path: Option<&Path>,
    line: impl Fn(&str) -> String,
) -> Result<ExitCode, Failure> {
    let exists = path.is_some_and(Path::exists);
    let path = path.map(|path| path.display().to_string());
    let line = if options.json {
        json!({ "path": path, "exists": exists }).to_string()
    } else {
        line(path.as_deref().unwrap_or_default())
    };
    output::print(&format!("{line}\n"))
}

/// Prints all problems, each in a line, or that there are none.
fn check(options: &Options, command: &clap::Command) -> Result<ExitCode, Failure> {
    let (config, problems) = Config::load_all(options.config.as_deref(), command)?;
    if let Some((last, others)) = problems.split_last() {
        for problem in others {
            output::print_message(&problem.to_string());
        }
        return Err(usage!("{last}"));
    }
    let path = config.path.as_deref();
    tell(options, path, |shown| match path {
        Some(path) if path.exists() => format!("{shown}: all is well"),
        Some(_) => format!("{shown}: there is no such file, so the defaults hold"),
        None => "no file: HOME is not set, so the defaults hold".to_owned(),
    })
}

/// Prints the values of some keys, or of all.
fn show_all(
    options: &Options,
    named: Option<&Path>,
    typed: &TypedShow,
    command: &clap::Command,
) -> Result<ExitCode, Failure> {
    let config = Config::load(named, command)?;
    for name in &typed.keys {
        if keys::names().all(|key| key != name) && !config.has_section(name) {
            return Err(usage!("{}", keys::unknown(name)));
        }
    }
    let is_wanted =
        |key: &&Key| typed.keys.is_empty() || typed.keys.iter().any(|name| name == key.name);
    let mut text = Vec::new();
    for key in KEYS.iter().filter(is_wanted) {
        let entry = config
            .entries
            .iter()
            .find(|entry| entry.key.name == key.name);
        let default = key.default_values(command);
        let values = entry.map_or(&default, |entry| &entry.values);
        let (origin, line) = match entry.map(|entry| &entry.origin) {
            None => ("default".to_owned(), None),
            Some(Origin::Variable(name)) => (name.clone(), None),
            Some(Origin::File(line)) => {
                let path = config.path.as_deref().unwrap_or(Path::new(""));
                (path.display().to_string(), Some(*line))
            }
        };
        let written = if options.json {
            let value = match key.kind {
                Kind::Flag => json!(values.first().is_some_and(|value| value == "true")),
                Kind::Number => json!(values.first().and_then(|value| value.parse::<u64>().ok())),
                Kind::One => json!(values.first()),
                Kind::Several => json!(values),
            };
            let about = json!({ "key": key.name, "value": value, "origin": origin, "line": line });
            writeln!(text, "{about}")
        } else {
            let line = line.map(|line| format!(":{line}")).unwrap_or_default();
            let assignment = key.assignment(values);
            if typed.origin {
                writeln!(text, "{assignment:<32} # {}{line}", one_line(&origin))
            } else {
                writeln!(text, "{assignment}")
            }
        };
        written?;
    }
    #[cfg(any(feature = "hosts", feature = "notify"))]
    for section in &config.sections {
        let names = |key: &String| {
            let rest = section.name.strip_prefix(key.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if typed.keys.is_empty() || typed.keys.iter().any(names) {
            let path = config.path.as_deref().unwrap_or(Path::new(""));
            text.extend(section.shown(path, options.json, typed.origin).into_bytes());
        }
    }
    output::print(&String::from_utf8_lossy(&text))
}
