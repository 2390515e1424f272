//! `--host`: the observers of other hosts, which a face reads as one, in a data directory of their own.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap_complete::engine::ArgValueCompleter;
use tempfile::TempDir;

use super::config::{HostSettings, LOCAL};
use super::failure::Failure;
use super::known;
use super::observer::{self, HubLock};
use super::options::Options;
use crate::child::{Invocation, run};
use crate::clock::Clock;
use crate::face::one_line;
use crate::history::DataDir;
use crate::hosts::{
    Copied, CopyKind, FindSocket, HostChoice, HostName, HostOptions, Hosts, SshCommand,
};
use crate::thread::stop_pair;

/// The argument with which this program guards its connections.
pub(super) const GUARD: &str = "guard";

/// The longest directory of sockets: theirs must fit into the system's address of 107 bytes, and so must the temporary
/// names that ssh may add.
const DIRECTORY_BYTES_MAX: usize = 70;

/// The time after which a face that shows the board once does not wait for a host any more: a silent one is found before,
/// and fifty hosts take a third of it.
const KNOWN_TIME: Duration = Duration::from_secs(30);

/// The hosts to read.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TypedHosts {
    /// Read the observer of this host, over ssh; repeat for several; local is this one
    #[arg(long = "host", value_name = "HOST", help_heading = "Hosts", add = ArgValueCompleter::new(known::hosts))]
    pub hosts: Vec<String>,
    /// With --host: start the observers that do not run
    #[arg(long = "start", requires = "hosts", help_heading = "Hosts")]
    pub starts: bool,
    #[cfg(feature = "redis")]
    #[command(flatten)]
    pub from: super::from::TypedFrom,
}

impl TypedHosts {
    /// Returns true if hosts are named, so that the configuration is not asked.
    pub fn are_typed(&self) -> bool {
        #[cfg(feature = "redis")]
        if self.from.from.is_some() {
            return true;
        }
        !self.hosts.is_empty()
    }
}

/// The hosts that a face reads, until it is dropped.
#[expect(dead_code, reason = "held for their drop, which ends all connections")]
pub(super) enum HostsInUse {
    /// By their observers.
    Observers(Box<ObserversInUse>),
    /// By what they have shipped.
    #[cfg(feature = "redis")]
    Copies(super::from::CopiesInUse),
}

/// The observers that a face reads, until it is dropped.
pub(super) struct ObserversInUse {
    _hosts: Hosts,
    _lock: HubLock,
    /// The sockets, and the copies of runs.
    _sockets: TempDir,
    _data: TempDir,
}

/// How a command reads hosts.
pub(super) struct HostUse<'a> {
    pub typed: &'a TypedHosts,
    pub copies: CopyKind,
    /// What the command shows at once, so that it waits for it; `None` if it shows what comes.
    pub waits_for: Option<Copied>,
    /// Hosts that are not read have no row on what the command shows, or one that is cut: a line says why.
    pub tells: bool,
}

/// Begins to read the hosts that a command names, or that the configuration does. The options then have the data directory
/// in which they are read.
///
/// # Errors
/// If a name is no host's, or the hosts cannot be served.
pub(super) fn begin(
    host_use: HostUse<'_>,
    options: &mut Options,
) -> Result<Option<HostsInUse>, Failure> {
    let HostUse {
        typed,
        copies,
        waits_for,
        tells,
    } = host_use;
    #[cfg(feature = "redis")]
    if let Some(copies) = begin_from(&typed.from, options, waits_for.is_some())? {
        return Ok(Some(copies));
    }
    let settings = options.host_settings.clone();
    let names = if typed.hosts.is_empty() {
        &settings.standing
    } else {
        &typed.hosts
    };
    let home = options.home()?;
    if typed.starts && names.iter().any(|name| name == LOCAL) {
        start_here(&home)?;
    }
    // This host alone is read as ever.
    if names.iter().all(|name| name == LOCAL) {
        return Ok(None);
    }
    let hosts = HostOptions {
        hosts: choices(names, &settings, &home)?,
        ssh: ssh()?,
        starts: typed.starts,
        copies,
        guard: GUARD,
    };
    let clock = Clock::system();
    let sockets = sockets_directory()?;
    let data = copies_directory(&home)?;
    let lock = HubLock::take(data.path())?;
    let socket = sockets.path().join("hub");
    let places = (socket.as_path(), sockets.path(), data.path().to_owned());
    let hosts = Hosts::start(hosts, places, &clock)?;
    lock.announce((&socket, data.path()), &clock)?;
    options.hosts = Some(hosts.data().clone());
    options.are_visited = true;
    if let Some(copied) = waits_for {
        hosts.wait_until_known(copied, clock.now() + KNOWN_TIME);
    }
    for (name, why) in hosts.unread().into_iter().filter(|_| tells) {
        message!("{} is not read: {}", one_line(&name), one_line(&why));
    }
    Ok(Some(HostsInUse::Observers(Box::new(ObserversInUse {
        _hosts: hosts,
        _lock: lock,
        _sockets: sockets,
        _data: data,
    }))))
}

/// Begins to read the Redis that a command names, if it names one.
///
/// # Errors
/// If the address is none, or the copies cannot be kept.
#[cfg(feature = "redis")]
pub(super) fn begin_from(
    typed: &super::from::TypedFrom,
    options: &mut Options,
    shows_once: bool,
) -> Result<Option<HostsInUse>, Failure> {
    let Some(address) = &typed.from else {
        return Ok(None);
    };
    let from = (typed, address.as_str());
    let copies = super::from::begin(from, sockets_directory()?, options, shows_once)?;
    Ok(Some(HostsInUse::Copies(copies)))
}

/// The hosts whose reports a command asks for.
#[cfg(feature = "report")]
pub(super) struct HostsToAsk {
    /// In their order; `None` is this one.
    pub hosts: Vec<Option<(HostName, String)>>,
    pub ssh: SshCommand,
}

/// Returns the hosts that a report names, or that the configuration does; `None` if it is this one alone.
///
/// # Errors
/// If a name is no host's.
#[cfg(feature = "report")]
pub(super) fn to_ask(
    typed: &[String],
    settings: &HostSettings,
    home: &Path,
) -> Result<Option<HostsToAsk>, Failure> {
    let names = if typed.is_empty() {
        &settings.standing
    } else {
        typed
    };
    if names.iter().all(|name| name == LOCAL) {
        return Ok(None);
    }
    let hosts = choices(names, settings, home)?.into_iter();
    let hosts = hosts.map(|host| match host {
        HostChoice::Local(_) => None,
        HostChoice::Remote(name, program) => Some((name, program)),
    });
    Ok(Some(HostsToAsk {
        hosts: hosts.collect(),
        ssh: ssh()?,
    }))
}

/// Returns the ssh that is used.
fn ssh() -> Result<SshCommand, Failure> {
    SshCommand::from_variable(std::env::var_os("TD_SSH_COMMAND")).map_err(Failure::usage)
}

/// Returns the hosts, each once.
fn choices(
    names: &[String],
    settings: &HostSettings,
    home: &Path,
) -> Result<Vec<HostChoice>, Failure> {
    let mut known = Vec::new();
    let mut choices = Vec::new();
    for name in names {
        if known.contains(&name) {
            continue;
        }
        known.push(name);
        choices.push(if name == LOCAL {
            HostChoice::Local(local(home))
        } else {
            let host: HostName = name
                .parse()
                .map_err(|why| usage!("--host {name:?}: {why}"))?;
            let program = settings.programs.get(name).map(String::as_str);
            HostChoice::Remote(host, word(program.unwrap_or("td-observe"))?)
        });
    }
    Ok(choices)
}

/// Starts the observer of this host, unless it runs.
fn start_here(home: &Path) -> Result<(), Failure> {
    if observer::is_running(home)? {
        return Ok(());
    }
    let program = std::env::current_exe();
    let program = program.map_err(|cause| failure!("cannot find this program: {cause}"))?;
    let start = Invocation {
        program: program.into(),
        args: vec![
            "start".into(),
            "--quiet".into(),
            "--data-dir".into(),
            home.into(),
        ],
        env: Vec::new(),
        directory: "/".into(),
        stdin: Vec::new(),
        output_bytes_max: 4096,
        timeout: KNOWN_TIME,
    };
    let (_running, stop) = stop_pair();
    let started = run(&start, &Clock::system(), &stop)?;
    if started.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&started.stderr);
    Err(failure!("local: {}", one_line(said.trim())))
}

/// Returns what finds the observer of this host.
fn local(home: &Path) -> FindSocket {
    let home = home.to_owned();
    Arc::new(move || match observer::running(&home) {
        Ok(Some(known)) => Ok(known.socket),
        Ok(None) => Err("no observer runs here: td-observe start begins one".to_owned()),
        Err(error) => Err(format!("{error:?}")),
    })
}

/// Returns a program as one word of a remote shell. A home directory is that of the host.
fn word(program: &str) -> Result<String, Failure> {
    let (home, rest) = match program.strip_prefix("~/") {
        Some(rest) => ("~/", rest),
        None => ("", program),
    };
    let quoted = shlex::try_quote(rest)
        .map_err(|_| usage!("[hosts] command: {program:?} has a zero byte"))?;
    Ok(format!("{home}{quoted}"))
}

/// Returns the permissions of a directory that is the user's alone, whatever his umask is.
fn private() -> fs::Permissions {
    fs::Permissions::from_mode(0o700)
}

/// Creates the directory of the sockets, whose path must be short.
fn sockets_directory() -> Result<TempDir, Failure> {
    let usual = std::env::temp_dir();
    let is_short = usual.as_os_str().len() + "/td-observe-XXXXXX".len() <= DIRECTORY_BYTES_MAX;
    // ssh takes a colon for the end of the path.
    let is_usable = is_short && !usual.to_string_lossy().contains(':');
    let place = if is_usable { usual } else { "/tmp".into() };
    let made = tempfile::Builder::new()
        .prefix("td-observe-")
        .permissions(private())
        .tempdir_in(&place);
    made.map_err(|cause| failure!("cannot create a directory in {}: {cause}", place.display()))
}

/// Creates the directory of the copies, and removes those of programs that were killed.
fn copies_directory(home: &Path) -> Result<TempDir, Failure> {
    DataDir::new(home)
        .prepare()
        .map_err(|error| super::options::unusable(error, true))?;
    let parent = home.join("hosts");
    let failed = |cause| failure!("cannot create {}: {cause}", parent.display());
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&parent)
        .map_err(failed)?;
    let left = fs::read_dir(&parent).map_err(failed)?;
    for entry in left.flatten() {
        let path: PathBuf = entry.path();
        // One that is just being made has no lock yet.
        if path.join("observer.lock").exists() && observer::is_running(&path).is_ok_and(|is| !is) {
            let _ = fs::remove_dir_all(path);
        }
    }
    let made = tempfile::Builder::new()
        .prefix("read-")
        .permissions(private())
        .tempdir_in(&parent);
    made.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_one_word_of_the_remote_shell() {
        for (program, quoted) in [
            ("td-observe", "td-observe"),
            ("~/bin/td-observe", "~/bin/td-observe"),
            ("/opt/my tools/td", "'/opt/my tools/td'"),
            ("~/$(touch x)", "~/'$(touch x)'"),
            ("a;b", "'a;b'"),
        ] {
            assert_eq!(word(program).unwrap(), quoted, "{program}");
        }
    }

    #[test]
    fn hosts_are_checked_and_read_once() {
        let settings = HostSettings::default();
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            choices(&names, &settings, Path::new("/nowhere"))
        };
        assert_eq!(
            of(&["a", "local", "a"]).ok().map(|hosts| hosts.len()),
            Some(2)
        );
        let refused = of(&["-oProxyCommand=touch x"]).err().unwrap();
        assert!(
            refused.text().contains("cannot begin with '-'"),
            "{}",
            refused.text()
        );
    }
}
