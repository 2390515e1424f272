//! The meaning of the global options.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use clap::{Parser, ValueHint};

use super::duration::{Limit, parse_age_limit, parse_duration, parse_rotation, parse_size_limit};
use super::failure::Failure;
use crate::clock::Clock;
use crate::engine::{Builder, Engine};
use crate::event::PaneId;
use crate::feed::real;
use crate::history::{DataDir, Retention, Rotation, SyncPolicy, read_trusted_file};
use crate::observe::Watch;
use crate::redact::Rules;
use crate::tmux::{DrainProgram, Server};

/// The global options.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub server: WhichServer,
    /// All chosen servers; only the observer supports several.
    pub servers: Vec<WhichServer>,
    /// The directory given with `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// What the configuration says of hosts.
    #[cfg(feature = "hosts")]
    pub host_settings: super::config::HostSettings,
    /// The directory in which the observers of several hosts are read as one.
    #[cfg(feature = "hosts")]
    pub hosts: Option<DataDir>,
    /// They are reached by ssh, also on a terminal.
    #[cfg(feature = "hosts")]
    pub are_visited: bool,
    /// The file of the configuration: the one that was read, else that of `--config`.
    pub config: Option<PathBuf>,
    /// The rules and channels of the configuration.
    #[cfg(feature = "notify")]
    pub notifications: crate::notify::Settings,
    pub no_log: bool,
    pub json: bool,
    pub coloured: bool,
    pub quiet: bool,
    pub verbose: u8,
}

impl Options {
    pub fn from_typed(typed: TypedOptions) -> Result<Self, Failure> {
        let is_empty = |path: &PathBuf| path.as_os_str().is_empty();
        for (is_empty, problem) in [
            (
                typed.server_name.iter().any(|name| name.is_empty()),
                "-L: the name of the tmux server is empty",
            ),
            (
                typed.server_socket.iter().any(is_empty),
                "-S: the path of the tmux socket is empty",
            ),
            (
                typed.data_dir.iter().any(is_empty),
                "--data-dir: the path is empty; --no-log keeps nothing",
            ),
        ] {
            if is_empty {
                return Err(Failure::usage(problem));
            }
        }
        let named = typed.server_name.into_iter().map(WhichServer::Named);
        let sockets = typed.server_socket.into_iter().map(WhichServer::Socket);
        let mut servers: Vec<WhichServer> = named.chain(sockets).collect();
        if servers.is_empty() {
            servers.push(WhichServer::Default);
        }
        Ok(Self {
            server: servers.first().cloned().unwrap_or(WhichServer::Default),
            servers,
            data_dir: typed.data_dir,
            #[cfg(feature = "hosts")]
            host_settings: Default::default(),
            #[cfg(feature = "hosts")]
            hosts: None,
            #[cfg(feature = "hosts")]
            are_visited: false,
            config: typed.config,
            #[cfg(feature = "notify")]
            notifications: crate::notify::Settings::default(),
            no_log: typed.no_log,
            json: typed.json,
            coloured: match typed.color {
                When::Always => true,
                When::Never => false,
                When::Auto => AutoStream::choice(&io::stdout()) != ColorChoice::Never,
            },
            quiet: typed.quiet,
            verbose: typed.verbose,
        })
    }

    /// Returns the directory in which runs are kept; `None` without a log.
    pub fn data_path(&self) -> Result<Option<PathBuf>, Failure> {
        if self.no_log {
            return Ok(None);
        }
        self.home().map(Some)
    }

    /// Returns the data directory, also without a log. The path is absolute, because the background observer
    /// and faces may run in other directories.
    pub fn home(&self) -> Result<PathBuf, Failure> {
        #[cfg(feature = "hosts")]
        if let Some(hosts) = &self.hosts {
            return Ok(hosts.path().to_owned());
        }
        self.own_home()
    }

    /// Returns the data directory as [`Options::home`] does, but this host's own if several hosts are read.
    pub fn own_home(&self) -> Result<PathBuf, Failure> {
        let path = match &self.data_dir {
            Some(path) => path.clone(),
            None => {
                let (from_env, home) = (std::env::var_os("TD_DATA_DIR"), std::env::var_os("HOME"));
                DataDir::default_path(from_env, home)?
            }
        };
        // Fails without a current directory.
        Ok(std::path::absolute(&path).unwrap_or(path))
    }

    /// Returns the data directory, in which copies of other hosts' runs are brought up to date when they are read.
    pub fn data(&self) -> Result<DataDir, Failure> {
        #[cfg(feature = "hosts")]
        if let Some(hosts) = &self.hosts {
            return Ok(hosts.clone());
        }
        self.home().map(DataDir::new)
    }

    /// Returns true if the observers of several hosts are read as one.
    pub fn reads_hosts(&self) -> bool {
        #[cfg(feature = "hosts")]
        return self.hosts.is_some();
        #[cfg(not(feature = "hosts"))]
        false
    }
}

// The tmux server that `-L`, `-S` and `TMUX` choose.

/// The chosen tmux server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WhichServer {
    Default,
    Named(OsString),
    Socket(PathBuf),
}

impl WhichServer {
    pub fn server(&self) -> Server {
        match self {
            Self::Default => Server::default(),
            Self::Named(name) => Server::named(name.clone()),
            Self::Socket(path) => Server::socket(path),
        }
    }

    /// Returns the option and the value that choose this server.
    pub fn chosen(&self) -> Option<(&'static str, OsString)> {
        match self {
            Self::Default => None,
            Self::Named(name) => Some(("-L", name.clone())),
            Self::Socket(path) => Some(("-S", path.clone().into_os_string())),
        }
    }

    /// Returns the absolute path of this server's socket; `None` if `TMUX` is not UTF-8.
    pub fn socket_path(&self) -> Option<PathBuf> {
        let name = match self {
            Self::Socket(path) => {
                // Fails without a current directory.
                return Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()));
            }
            Self::Named(name) => name.clone(),
            Self::Default => match set("TMUX") {
                Some(tmux) => return tmux.to_str().map(|tmux| socket_of(tmux).to_owned()),
                None => "default".into(),
            },
        };
        let directory = set("TMUX_TMPDIR").unwrap_or_else(|| "/tmp".into());
        let uid = rustix::process::getuid().as_raw();
        Some(Path::new(&directory).join(format!("tmux-{uid}")).join(name))
    }

    /// Returns the pane in which this program runs, if it belongs to this server.
    pub fn own_pane(&self) -> Option<PaneId> {
        let (socket, pane) = own_place()?;
        match self {
            // By default, tmux uses the server that `TMUX` names.
            Self::Default => Some(pane),
            _ => (real(&socket) == real(&self.socket_path()?)).then_some(pane),
        }
    }
}

/// Returns the socket of the tmux server and the pane in which this program runs.
pub(super) fn own_place() -> Option<(PathBuf, PaneId)> {
    let pane = set("TMUX_PANE")?;
    Some((own_server()?, PaneId::from(pane.to_str()?)))
}

/// Returns the socket of the tmux server in which this program runs: in a pane, a popup, or as a command of the server.
pub(super) fn own_server() -> Option<PathBuf> {
    let tmux = set("TMUX")?;
    Some(socket_of(tmux.to_str()?).to_owned())
}

/// Returns the value of an environment variable, if it is not empty.
fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the socket in the value of `TMUX`, which consists of a path, a pid and a session. The path may
/// contain commas.
pub(super) fn socket_of(tmux: &str) -> &Path {
    Path::new(tmux.rsplitn(3, ',').last().unwrap_or(tmux))
}

// Configures the history: rotation, retention, and the rules for secrets.

/// The file with the user's rules, in the data directory.
const RULES: &str = "redact.toml";

/// Returns the builder of an engine with this configuration, and the rules for secrets.
pub(super) fn builder(
    options: &Options,
    keeping: &TypedKeeping,
    clock: &Clock,
) -> Result<(Builder, Rules), Failure> {
    let data_path = options.data_path()?;
    // The user's rules also apply without a log.
    let home = options.home().ok();
    let rules = keeping
        .secrets
        .rules(data_path.as_deref().or(home.as_deref()))?;
    let mut builder = Builder::new()
        .sync(keeping.sync)
        .rotation(Rotation {
            bytes_max: keeping.rotate_size.0.unwrap_or(u64::MAX),
            age_max: keeping.rotate_age.0,
        })
        .retention(Retention {
            age_max: keeping.keep_age,
            runs_max: keeping.keep_runs,
            bytes_max: keeping.keep_size.0,
        })
        .redact(rules.clone())
        .clock(clock.clone());
    if let Some(path) = data_path {
        builder = builder.data_dir(path);
    }
    Ok((builder, rules))
}

/// Returns the failure for an engine that cannot be started. An unusable data directory is bad input. `needs_log`
/// states that the command needs the directory.
pub(super) fn unusable(error: crate::Error, needs_log: bool) -> Failure {
    let alternative = if needs_log { "" } else { ", or --no-log" };
    if error.path().is_some() {
        usage!("{error:?}; choose another with --data-dir{alternative}")
    } else {
        error.into()
    }
}

/// Starts an engine with this configuration, for an execution with this id, and returns the rules for secrets.
pub(super) fn start(
    options: &Options,
    keeping: &TypedKeeping,
    id: Option<&str>,
    clock: &Clock,
) -> Result<(Engine, Rules), Failure> {
    let (builder, rules) = builder(options, keeping, clock)?;
    // The id is the name of a directory and part of every event.
    if let Some(id) = id
        && let redacted = rules.text(id)
        && redacted != id
    {
        return Err(usage!(
            "--execution-id: the id contains a secret ({redacted}); choose another one"
        ));
    }
    let engine = builder.start().map_err(|error| unusable(error, false))?;
    Ok((engine, rules))
}

impl TypedSecrets {
    pub(super) fn rules(&self, data_dir: Option<&Path>) -> Result<Rules, Failure> {
        if self.no_redact {
            return Ok(Rules::none());
        }
        let rules = self.rules_of_files(data_dir)?;
        if self.redact_env.is_empty() && self.redact_env_file.is_empty() {
            return Ok(rules);
        }
        let mut files = Vec::new();
        for path in &self.redact_env_file {
            let text =
                read_rule_file(path)?.ok_or_else(|| usage!("{path:?}: there is no such file"))?;
            files.push(text);
        }
        // Observed text cannot contain a value that is not text.
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let (rules, short) = rules
            .with_variables(&self.redact_env, environment, &files)
            .map_err(|error| usage!("--redact-env: {error}"))?;
        if !short.is_empty() {
            message!(
                "too short to be redacted: the value of {}",
                crate::face::one_line(&short.join(", "))
            );
        }
        Ok(rules)
    }

    /// Returns the built-in rules and those of the user's file.
    fn rules_of_files(&self, data_dir: Option<&Path>) -> Result<Rules, Failure> {
        let default = data_dir.map(|path| path.join(RULES));
        let (path, is_required) = match (&self.redact, &default) {
            (Some(path), _) => (path, true),
            (None, Some(path)) => (path, false),
            (None, None) => return Ok(Rules::builtin()),
        };
        let text = match read_rule_file(path)? {
            Some(text) => text,
            None if is_required => {
                return Err(usage!("{path:?}: there is no such file"));
            }
            None => return Ok(Rules::builtin()),
        };
        Rules::builtin()
            .with_toml(&text)
            .map_err(|error| usage!("{path:?}: {error:?}"))
    }
}

// The arguments that all writers of runs share.

/// Parses the name of a new run.
pub(super) fn parse_execution_id(text: &str) -> Result<String, String> {
    match text {
        "" => Err("the id is empty".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// Rotation, retention and redaction, for every command that writes runs.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "History options")]
pub(super) struct TypedKeeping {
    /// Sync the log to the disk: none, interval (once a second) or always
    #[arg(long, value_name = "WHEN", default_value = "interval", value_parser = parse_sync)]
    pub sync: SyncPolicy,
    /// Continue a log in a new file at this size; closed files are compressed
    #[arg(long, value_name = "SIZE|none", default_value = "64MiB", value_parser = parse_rotation)]
    pub rotate_size: Limit<u64>,
    /// Continue a log in a new file at this age
    #[arg(long, value_name = "TIME|none", default_value = "1d", value_parser = parse_age_limit)]
    pub rotate_age: Limit<Duration>,
    /// Remove the oldest ended runs beyond this total size
    #[arg(long, value_name = "SIZE|none", default_value = "10GiB", value_parser = parse_size_limit)]
    pub keep_size: Limit<u64>,
    /// Remove runs that ended longer ago than this [default: none]
    #[arg(long, value_name = "TIME")]
    #[arg(value_parser = parse_duration)]
    pub keep_age: Option<Duration>,
    /// Keep at most N runs [default: none]
    #[arg(long, value_name = "N")]
    pub keep_runs: Option<usize>,
    #[command(flatten)]
    pub secrets: TypedSecrets,
}

/// The options of an empty command line.
#[derive(Debug, clap::Parser)]
struct Defaults {
    #[command(flatten)]
    keeping: TypedKeeping,
}

impl TypedKeeping {
    /// Returns the first option that differs from its default.
    pub fn first_given(&self) -> Option<&'static str> {
        self.given().first().map(|(option, _)| *option)
    }

    /// Returns the options that differ from their defaults, each with its value.
    pub fn given(&self) -> Vec<(&'static str, String)> {
        let Ok(Defaults { keeping: default }) = Defaults::try_parse_from(["td-observe"]) else {
            return Vec::new();
        };
        let values = |of: &Self| {
            let secrets = &of.secrets;
            [
                ("--sync", format!("{:?}", of.sync)),
                ("--rotate-size", format!("{:?}", of.rotate_size)),
                ("--rotate-age", format!("{:?}", of.rotate_age)),
                ("--keep-size", format!("{:?}", of.keep_size)),
                ("--keep-age", format!("{:?}", of.keep_age)),
                ("--keep-runs", format!("{:?}", of.keep_runs)),
                ("--redact", format!("{:?}", secrets.redact)),
                ("--redact-env", format!("{:?}", secrets.redact_env)),
                (
                    "--redact-env-file",
                    format!("{:?}", secrets.redact_env_file),
                ),
                ("--no-redact", format!("{:?}", secrets.no_redact)),
            ]
        };
        let pairs = values(self).into_iter().zip(values(&default));
        let given = pairs.filter(|(value, default)| value != default);
        given.map(|(value, _)| value).collect()
    }
}

/// The options for secrets.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Secrets")]
pub(super) struct TypedSecrets {
    /// A file with more rules for secrets [default: redact.toml in the data directory]
    #[arg(long, value_name = "FILE", conflicts_with = "no_redact", value_hint = ValueHint::FilePath)]
    pub redact: Option<PathBuf>,
    /// Redact the value of this environment variable wherever it appears; repeat for several, or use
    /// '*_TOKEN' for all names with this ending
    #[arg(long, value_name = "NAME", conflicts_with = "no_redact")]
    pub redact_env: Vec<String>,
    /// Redact the values of the variables in this file of NAME=VALUE lines
    #[arg(long, value_name = "FILE", conflicts_with = "no_redact", value_hint = ValueHint::FilePath)]
    pub redact_env_file: Vec<PathBuf>,
    /// Show and keep secrets in clear
    #[arg(long)]
    pub no_redact: bool,
}

fn parse_sync(text: &str) -> Result<SyncPolicy, String> {
    match text {
        "none" => Ok(SyncPolicy::Never),
        "interval" => Ok(SyncPolicy::default()),
        "always" => Ok(SyncPolicy::Always),
        _ => Err("use none, interval or always".to_owned()),
    }
}

// Reads the user's files of rules.

/// Maximum size of a file of rules, in bytes; far larger than any file written by hand.
const BYTES_MAX: u64 = 16 << 20;

/// Returns the text of a file; `None` if it does not exist.
pub(super) fn read_rule_file(path: &Path) -> Result<Option<String>, Failure> {
    // An unusable file is bad input.
    read_trusted_file(path, BYTES_MAX).map_err(|error| usage!("{error:?}"))
}

// Reads the files that the user names as input, within a bound; `-` is standard input.

/// Reads a file of at most `bytes_max` bytes, which are enough for `content`.
pub(super) fn read_input(path: &Path, bytes_max: u64, content: &str) -> Result<Vec<u8>, Failure> {
    let name = name(path);
    let unreadable = |cause| usage!("cannot read {name}: {cause}");
    let source: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(unreadable)?)
    };
    let mut bytes = Vec::new();
    // The byte beyond the bound shows that there are more.
    let read = source.take(bytes_max + 1).read_to_end(&mut bytes);
    if read.map_err(unreadable)? as u64 > bytes_max {
        return Err(usage!(
            "{name} is larger than {} MiB, which is too large for {content}",
            bytes_max >> 20
        ));
    }
    Ok(bytes)
}

/// Reads a file as [`read_input`] does, and refuses invalid UTF-8.
#[cfg(feature = "kernel")]
pub(super) fn read_input_text(
    path: &Path,
    bytes_max: u64,
    content: &str,
) -> Result<String, Failure> {
    String::from_utf8(read_input(path, bytes_max, content)?).map_err(|_| {
        usage!(
            "cannot read {}: stream did not contain valid UTF-8",
            name(path)
        )
    })
}

fn name(path: &Path) -> String {
    if path.as_os_str() == "-" {
        "standard input".to_owned()
    } else {
        format!("{path:?}")
    }
}

/// The heading of [`TypedOptions`].
pub(super) const GLOBAL: &str = "Global options";

/// Options of several subcommands, which may precede or follow the subcommand. The table in `command_line`
/// names the options that do not apply to a subcommand.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = GLOBAL)]
pub(super) struct TypedOptions {
    /// Use the tmux server of this name, as tmux -L does
    #[arg(short = 'L', value_name = "NAME", global = true, action = clap::ArgAction::Append)]
    pub server_name: Vec<OsString>,
    /// Use the tmux server at this socket, as tmux -S does
    #[arg(short = 'S', value_name = "PATH", global = true, value_hint = ValueHint::AnyPath, action = clap::ArgAction::Append)]
    pub server_socket: Vec<PathBuf>,
    /// Keep runs and your own rules here [default: $TD_DATA_DIR, else ~/.taskdaemon]
    #[arg(long, value_name = "DIR", global = true, value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
    /// Read the configuration in this file [default: $TD_CONFIG, else
    /// ~/.config/td-observe/config.toml]
    #[arg(long, value_name = "FILE", global = true, value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Keep no history
    #[arg(long, global = true)]
    pub no_log: bool,
    /// Print JSON, one object per line, and nothing else
    #[arg(long, global = true)]
    pub json: bool,
    /// Use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        global = true
    )]
    pub color: When,
    /// Print nothing but problems
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Show more detail (repeat for more)
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum When {
    Auto,
    Always,
    Never,
}

/// The ways to observe panes. Documentation of the values would make clap print a paragraph for each option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SourceKind {
    // Streams the panes whose pipe is free and polls the others.
    Auto,
    // Polls all panes.
    Poll,
    // The same as auto.
    Stream,
}

impl SourceKind {
    /// Sets how a watch observes panes.
    pub fn applied_to(self, watch: Watch) -> Result<Watch, Failure> {
        if self == Self::Poll {
            return Ok(watch.poll());
        }
        Ok(watch.stream(DrainProgram::this()?))
    }
}

#[cfg(test)]
mod tests {
    mod which_server {

        use super::super::*;

        #[test]
        fn the_path_of_the_socket_may_contain_commas() {
            assert_eq!(
                socket_of("/tmp/tmux-0/default,123,4"),
                Path::new("/tmp/tmux-0/default")
            );
            assert_eq!(socket_of("/tmp/a,b/s,123,4"), Path::new("/tmp/a,b/s"));
        }
    }

    mod input_file {

        use super::super::*;

        #[test]
        fn a_file_beyond_the_bound_is_refused_and_not_cut() {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("code.py");
            std::fs::write(&path, "12345").unwrap();
            assert_eq!(read_input(&path, 5, "code").unwrap(), b"12345");
            let refused = read_input(&path, 4, "code").unwrap_err();
            assert!(
                refused.text().contains("is larger than"),
                "{}",
                refused.text()
            );
        }
    }
}
