//! The observer as a user service of systemd: installs it, and sends its state, see sd_notify(3).

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crossbeam_channel::never;

use super::super::output;
use super::args::{ServiceAction, TypedService};
use super::background::MEMORY_ENV;
use crate::child::{Invocation, run as run_program};
use crate::cli::failure::Failure;
use crate::cli::options::Options;
use crate::clock::Clock;

const UNIT: &str = "td-observe.service";

/// The timeout of systemctl.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Installs, removes or shows the unit.
pub(in crate::cli) fn run(options: &Options, typed: &TypedService) -> Result<ExitCode, Failure> {
    let unit = unit(options, typed)?;
    if typed.action == ServiceAction::Show {
        return output::print(&unit);
    }
    if !std::path::Path::new("/run/systemd/system").is_dir() {
        return Err(failure!(
            "systemd is not running: start the observer with td-observe start, for example in ~/.profile"
        ));
    }
    let path = unit_path()?;
    let failed = |cause| failure!("cannot change {}: {cause}", path.display());
    if typed.action == ServiceAction::Install {
        let directory = path.parent().unwrap_or(&path);
        fs::create_dir_all(directory).map_err(failed)?;
        fs::write(&path, unit).map_err(failed)?;
        systemctl(&["daemon-reload"])?;
        systemctl(&["enable", "--now", UNIT])?;
        return output::print(&format!("installed: {}\n", path.display()));
    }
    systemctl(&["disable", "--now", UNIT])?;
    fs::remove_file(&path).map_err(failed)?;
    systemctl(&["daemon-reload"])?;
    output::print(&format!("removed: {}\n", path.display()))
}

fn unit(options: &Options, typed: &TypedService) -> Result<String, Failure> {
    let program =
        std::env::current_exe().map_err(|cause| failure!("cannot find this program: {cause}"))?;
    let mut command = format!("{} start --foreground", quoted(&program.to_string_lossy()));
    if let Some(data) = &options.data_dir {
        let data = std::path::absolute(data).unwrap_or_else(|_| data.clone());
        command.push_str(&format!(" --data-dir {}", quoted(&data.to_string_lossy())));
    }
    if let Some(config) = &options.config {
        let config = std::path::absolute(config).unwrap_or_else(|_| config.clone());
        command.push_str(&format!(" --config {}", quoted(&config.to_string_lossy())));
    }
    for (option, value) in options.servers.iter().filter_map(|server| server.chosen()) {
        command.push_str(&format!(" {option} {}", quoted(&value.to_string_lossy())));
    }
    for directory in &typed.agents {
        let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.clone());
        let directory = quoted(&absolute.to_string_lossy());
        command.push_str(&format!(" --agents {directory}"));
    }
    if typed.allow_input {
        command.push_str(" --allow-input");
    }
    let (name, value) = MEMORY_ENV;
    let environment: String = environment().collect();
    Ok(format!(
        "[Unit]\n\
         Description=td-observe: what agents and jobs in tmux do, and what they did\n\
         Documentation=man:td-observe(1)\n\
         \n\
         [Service]\n\
         Type=notify\n\
         Environment={name}={value}\n\
         {environment}\
         ExecStart={command}\n\
         Restart=on-failure\n\
         RestartSec=1\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n"
    ))
}

/// The variables that choose what the observer finds, each of which names a file or a directory. All others stay with
/// the shell: they may be secrets.
const VARIABLES: [&str; 4] = ["TD_DATA_DIR", "TD_CONFIG", "TMUX_TMPDIR", "XDG_CONFIG_HOME"];

/// Returns the lines of a unit that set these variables, as far as the environment has them.
fn environment() -> impl Iterator<Item = String> {
    VARIABLES.into_iter().filter_map(|name| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
        let value = std::path::absolute(&value).unwrap_or_else(|_| value.into());
        // Dollar signs are not special here.
        let line = quoted(&format!("{name}={}", value.to_string_lossy())).replace("$$", "$");
        Some(format!("Environment={line}\n"))
    })
}

/// Quotes an argument for a unit, in which percent and dollar signs are special.
fn quoted(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('$', "$$")
        // A line of its own would be another setting.
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}

fn unit_path() -> Result<PathBuf, Failure> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let config = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let home = set("HOME").map(|home| PathBuf::from(home).join(".config"));
    match config.or(home) {
        Some(config) => Ok(config.join("systemd/user").join(UNIT)),
        None => Err(usage!(
            "HOME is not set, so there is no directory for the unit: set HOME or XDG_CONFIG_HOME"
        )),
    }
}

fn systemctl(args: &[&str]) -> Result<(), Failure> {
    let invocation = Invocation {
        program: "systemctl".into(),
        args: std::iter::once("--user")
            .chain(args.iter().copied())
            .map(Into::into)
            .collect(),
        env: Vec::new(),
        directory: "/".into(),
        stdin: Vec::new(),
        output_bytes_max: 64 * 1024,
        timeout: TIMEOUT,
    };
    let output = run_program(&invocation, &Clock::system(), &never())?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(failure!(
        "systemctl --user {} failed: {}",
        args.join(" "),
        crate::face::one_line(&why)
    ))
}

/// Sends a state to the service manager, if one waits for it.
pub(super) fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let send = || {
        let address = match path.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&path)?,
        };
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)
    };
    if let Err(cause) = send() {
        log::warn!("cannot notify the service manager: {cause}");
    }
}
