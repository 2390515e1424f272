//! `td-observe ship`: ships the history to Redis, and says how far behind it is.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crossbeam_channel::{bounded, select_biased};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::announced::{Announced, ProcessLock};
use super::failure::Failure;
use super::options::{self, Options};
use super::output;
use super::redis_args::TypedRedis;
use super::signals::Signals;
use crate::clock::Clock;
use crate::event::ExecutionId;
use crate::face::{one_line, time_in_words};
use crate::history::{DataDir, host};
use crate::hosts::HostName;
use crate::hosts::redis::{Address, Keys, Progress, Shipper, ShipperOptions};
use crate::thread;

/// The exit code of `--status` if no shipper runs.
const UNSHIPPED: u8 = 3;

/// The shipper of a data directory to an address, in whose directory its files are.
const SHIPPER: Announced = Announced {
    name: "ship",
    runs_already: "a shipper to this address runs already, with its files in",
};

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/ship.txt").trim_end())]
pub(super) struct TypedShip {
    /// The Redis: redis://[USER@]HOST[:PORT][/DB], or rediss:// with TLS
    #[arg(long, value_name = "ADDRESS")]
    pub to: String,
    #[command(flatten)]
    pub redis: TypedRedis,
    /// The name of this host in Redis [default: this machine's]
    #[arg(long, value_name = "NAME")]
    pub host_name: Option<HostName>,
    /// Keep about the last N events of each run in Redis [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_len: Option<u64>,
    /// Show how far behind the shipper is, and end; exits with 3 if none runs
    #[arg(long, conflicts_with_all = ["host_name", "max_len"])]
    pub status: bool,
}

/// What a shipper says of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Announcement {
    pid: u32,
    to: String,
    #[serde(flatten)]
    progress: Progress,
}

/// Ships until a signal arrives.
pub(super) fn run(options: &Options, typed: &TypedShip) -> Result<ExitCode, Failure> {
    let data = options.home()?;
    let address = typed.redis.address("--to", &typed.to)?;
    let keys = typed.redis.keys()?;
    let place = place(&data, &address, &keys);
    if typed.status {
        return print_status(options, &data, &place);
    }
    let host = host_name(typed)?;
    let data = DataDir::new(data);
    data.prepare()
        .map_err(|error| options::unusable(error, true))?;
    let created = DirBuilder::new().recursive(true).mode(0o700).create(&place);
    created.map_err(|cause| failure!("ship: cannot create {}: {cause}", place.display()))?;
    let lock = SHIPPER.take(&place).map_err(|error| {
        if error.is_locked() {
            failure!("ship: {error}: td-observe ship --status shows how far it is")
        } else {
            failure!("ship: {error:?}")
        }
    })?;
    let signals = Signals::catch(|| {})?;
    super::checks::raise_descriptors();
    if !options.quiet {
        message!(
            "ships {} to {} as {host}",
            data.path().display(),
            address.shown()
        );
    }
    ship(lock, (address, keys), (host, data), typed.max_len, &signals)
}

fn ship(
    lock: ProcessLock,
    (address, keys): (Address, Keys),
    (host, data): (HostName, DataDir),
    max_len: Option<u64>,
    signals: &Signals,
) -> Result<ExitCode, Failure> {
    let pair = UnixStream::pair();
    let (wake, woken) = pair.map_err(|cause| failure!("ship: {cause}"))?;
    let to = address.shown().to_owned();
    let announce = move |progress: &Progress| {
        let announced = lock.announce(&Announcement {
            pid: std::process::id(),
            to: to.clone(),
            progress: progress.clone(),
        });
        if let Err(error) = announced {
            log::debug!("{error:?}");
        }
    };
    let shipper = Shipper::new(ShipperOptions {
        address,
        keys,
        host,
        data,
        max_len,
        clock: Clock::system(),
        report: Box::new(output::print_message),
        announce: Box::new(announce),
    });
    let (alive, ended) = bounded::<()>(0);
    let thread = thread::spawn("td-ship", move || {
        let _alive = alive;
        shipper.run(&woken);
    })?;
    select_biased! {
        recv(signals.first) -> _ => {}
        recv(ended) -> _ => {}
    }
    drop(wake);
    match thread.join() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(panicked) => Err(Failure::other(panicked.to_string())),
    }
}

fn host_name(typed: &TypedShip) -> Result<HostName, Failure> {
    match &typed.host_name {
        Some(name) => Ok(name.clone()),
        None => host().parse().map_err(|why| {
            usage!(
                "ship: this machine is called {:?}, and {why}: name it with --host-name",
                host()
            )
        }),
    }
}

/// Returns the directory of a shipper's files.
fn place(data: &Path, address: &Address, keys: &Keys) -> PathBuf {
    data.join("ship").join(address.file_name(keys.prefix()))
}

/// How far behind a run is.
#[derive(Debug, Serialize)]
struct Behind {
    execution_id: ExecutionId,
    /// The number of the last event.
    last: u64,
    /// The number of the last event that Redis has.
    shipped: u64,
    /// The number of events that it lacks.
    behind: u64,
    /// The time between the last event and the last one that Redis has.
    behind_ms: u64,
}

/// Prints how far behind the shipper is.
fn print_status(options: &Options, data: &Path, place: &Path) -> Result<ExitCode, Failure> {
    let Some(known) = SHIPPER.running::<Announcement>(place)? else {
        if SHIPPER.is_running(place)? {
            message!("the shipper is starting");
            return Ok(ExitCode::SUCCESS);
        }
        message!(
            "no shipper runs for {} and this address: td-observe ship begins to",
            data.display()
        );
        return Ok(ExitCode::from(UNSHIPPED));
    };
    let runs = DataDir::new(data).runs(Clock::system().wall())?;
    let mut behind = Vec::new();
    let (mut shipped, mut time) = (0, 0);
    for run in runs.runs {
        let progress = known.progress.runs.get(&run.execution_id);
        let (number, at) = progress.map_or((0, run.started), |at| (at.shipped, at.at));
        let lacks = run.events.saturating_sub(number);
        let micros = run.last_event.micros().saturating_sub(at.micros()).max(0);
        let behind_ms = if lacks == 0 {
            0
        } else {
            micros.cast_unsigned() / 1000
        };
        shipped += number;
        time = time.max(behind_ms);
        behind.push(Behind {
            execution_id: run.execution_id,
            last: run.events,
            shipped: number,
            behind: lacks,
            behind_ms,
        });
    }
    let total: u64 = behind.iter().map(|run| run.behind).sum();
    if options.json {
        let mut lines = output::json_lines(behind.iter());
        let total = json!({
            "to": known.to,
            "pid": known.pid,
            "runs": behind.len(),
            "shipped": shipped,
            "behind": total,
            "behind_ms": time,
            "trouble": known.progress.trouble,
        });
        lines.push_str(&output::json_lines([&total]));
        output::print(&lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for run in behind.iter().filter(|run| run.behind > 0) {
        let name = one_line(&run.execution_id);
        text += &format!("{name}: {}\n", lag(run.behind, run.behind_ms));
    }
    text += &format!(
        "{} runs, {shipped} events shipped to {}: {}\n",
        behind.len(),
        known.to,
        lag(total, time)
    );
    if let Some(trouble) = &known.progress.trouble {
        text += &format!("{}\n", one_line(trouble));
    }
    output::print(&text)
}

/// Returns a lag in words.
fn lag(events: u64, ms: u64) -> String {
    let time = time_in_words(ms);
    match events {
        0 => "nothing is behind".to_owned(),
        1 => format!("1 event and {time} behind"),
        events => format!("{events} events and {time} behind"),
    }
}
