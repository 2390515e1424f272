//! `td-observe loop`: runs an agent until a check passes.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ValueHint;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use crossbeam_channel::never;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::duration::parse_duration;
use super::failure::{Failure, INTERRUPTED, TIMED_OUT};
use super::history::Which;
use super::live::JunitFile;
#[cfg(feature = "notify")]
use super::notifying::Notifying;
use super::options::{self, Options, TypedKeeping, parse_execution_id};
use super::own_reports::{End, OwnReports};
use super::signals::Signals;
use super::{known, live};
use crate::agent::Format;
use crate::agent_loop::{CommandClient, LoopEnd, LoopEngine, Progress, Spec};
use crate::clock::Clock;
use crate::event::ExecutionId;
use crate::face::JunitReport;
use crate::history::{DataDir, RunDirectory};
use crate::process::Command;

/// The time after a Ctrl-C in which an agent can save its state and end.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// Maximum size of a task or spec, in bytes.
const SPEC_BYTES_MAX: u64 = 1 << 20;

/// The name of the settings in the metadata of a run.
const SETTINGS: &str = "loop";

/// The settings of a loop in its run's metadata, with which it can be resumed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Settings {
    agent: String,
    #[serde(rename = "as")]
    format: Format,
    spec: Spec,
    max_iterations: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_turns: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent_timeout: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check_timeout: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_lines: Option<u64>,
    directory: PathBuf,
}

/// The configuration of `loop`.
#[derive(Debug)]
pub(super) struct Config {
    settings: Settings,
    id: Option<ExecutionId>,
    progress: Progress,
    junit: Option<PathBuf>,
    keeping: TypedKeeping,
}

impl Config {
    pub fn from_typed(typed: TypedLoop, options: &Options) -> Result<Self, Failure> {
        for (option, command) in [("--agent", &typed.agent), ("--check", &typed.check)] {
            if command.as_ref().is_some_and(|text| text.trim().is_empty()) {
                return Err(usage!("{option}: the command is empty"));
            }
        }
        let (settings, id, progress) = match &typed.resume {
            Some(run) => {
                let (run, settings) = kept(run, options)?;
                let progress = Progress::of_run(&run)?;
                let settings = resumed(settings, &typed)?;
                (settings, Some(run.execution_id().clone()), progress)
            }
            None => {
                let id = typed.execution_id.as_deref().map(ExecutionId::from);
                if let Some(id) = &id {
                    refuse_existing(id, options)?;
                }
                (new_settings(&typed)?, id, Progress::default())
            }
        };
        if progress.iteration >= settings.max_iterations {
            return Err(usage!(
                "the loop has had all of its {} iterations: allow more with --max-iterations",
                progress.iteration
            ));
        }
        let unchecked = settings
            .spec
            .phases
            .iter()
            .find(|phase| phase.check.is_none());
        if let Some(phase) = unchecked {
            return Err(usage!(
                "phase {:?} has no check: give --check CMD, or a check in the spec",
                phase.name
            ));
        }
        if !settings.directory.is_dir() {
            return Err(usage!(
                "--directory: {:?} is not a directory",
                settings.directory
            ));
        }
        Ok(Self {
            settings,
            id,
            progress,
            junit: typed.junit,
            keeping: typed.keeping,
        })
    }
}

/// Refuses the name of an existing loop, whose iterations a new loop must not continue.
fn refuse_existing(id: &ExecutionId, options: &Options) -> Result<(), Failure> {
    let Some(path) = options.data_path()? else {
        return Ok(());
    };
    let run = DataDir::new(path).run(id);
    match run.metadata() {
        Ok(Some(metadata)) if metadata.extra.contains_key(SETTINGS) => Err(usage!(
            "the loop {id} already exists: continue it with --resume, or choose another name"
        )),
        _ => Ok(()),
    }
}

/// Returns the settings of a new loop.
fn new_settings(typed: &TypedLoop) -> Result<Settings, Failure> {
    let spec = match (&typed.task, &typed.spec) {
        (Some(task), _) => Spec::of_task(task_of(task)?),
        (None, Some(path)) => read_spec(path)?,
        (None, None) => {
            return Err(usage!(
                "the loop has no task: give --task TEXT or --spec FILE"
            ));
        }
    };
    let Some(agent) = typed.agent.clone() else {
        return Err(usage!("the loop has no agent: give --agent CMD"));
    };
    let directory = typed.directory.as_deref().unwrap_or(Path::new("."));
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    Ok(Settings {
        agent,
        format: typed.format.unwrap_or(Format::Auto),
        spec: match &typed.check {
            Some(check) => spec.check(check),
            None => spec,
        },
        max_iterations: typed.max_iterations.unwrap_or(10),
        max_turns: typed.max_turns,
        timeout: typed.timeout,
        agent_timeout: typed.agent_timeout,
        check_timeout: typed.check_timeout,
        max_lines: typed.max_lines,
        directory,
    })
}

/// Returns the settings of a resumed loop: the kept settings, replaced by the options given now.
fn resumed(was: Settings, typed: &TypedLoop) -> Result<Settings, Failure> {
    let mut spec = was.spec;
    if let Some(task) = &typed.task {
        spec = match spec.phases.as_slice() {
            // The only phase is the task itself.
            [phase] if phase.task.is_empty() => {
                let check = phase.check.clone();
                let spec = Spec::of_task(task_of(task)?);
                check.map_or(spec.clone(), |check| spec.check(&check))
            }
            _ => Spec {
                task: task_of(task)?,
                ..spec
            },
        };
    }
    if let Some(check) = &typed.check {
        for phase in &mut spec.phases {
            phase.check = None;
        }
        spec = spec.check(check);
    }
    let settings = Settings {
        agent: typed.agent.clone().unwrap_or(was.agent),
        format: typed.format.unwrap_or(was.format),
        spec,
        max_iterations: typed.max_iterations.unwrap_or(was.max_iterations),
        max_turns: typed.max_turns.or(was.max_turns),
        timeout: typed.timeout.or(was.timeout),
        agent_timeout: typed.agent_timeout.or(was.agent_timeout),
        check_timeout: typed.check_timeout.or(was.check_timeout),
        max_lines: typed.max_lines.or(was.max_lines),
        directory: typed.directory.clone().unwrap_or(was.directory),
    };
    let checks = settings.spec.phases.iter().flat_map(|phase| &phase.check);
    // The beginning of the marker that replaces a secret. A command with this marker cannot be run.
    let is_redacted = |text: &String| text.contains("[redacted:");
    let tasks = settings.spec.phases.iter().map(|phase| &phase.task);
    let is_task_redacted = tasks.chain([&settings.spec.task]).any(is_redacted);
    for (option, is_redacted) in [
        ("--agent", is_redacted(&settings.agent)),
        ("--check", checks.into_iter().any(is_redacted)),
        ("--task", is_task_redacted),
    ] {
        if is_redacted {
            return Err(usage!(
                "--resume: {option} contained a secret, which is not kept: give {option} again"
            ));
        }
    }
    Ok(settings)
}

/// Returns a resumable run and its settings.
fn kept(run: &Path, options: &Options) -> Result<(RunDirectory, Settings), Failure> {
    let run = match Which::typed(run, options)? {
        Which::Run(run) => run,
        Which::File(path) => {
            return Err(usage!(
                "--resume: {path:?} is a file: give a run; td-observe runs lists them"
            ));
        }
    };
    let name = run.execution_id();
    if options.no_log {
        return Err(usage!(
            "--resume continues the log of the loop: leave out --no-log"
        ));
    }
    if run.is_written()? {
        return Err(usage!(
            "the run {name} is still running: wait for its end, or stop it"
        ));
    }
    let metadata = run.metadata()?;
    let settings = metadata.and_then(|mut metadata| metadata.extra.remove(SETTINGS));
    let Some(settings) = settings else {
        return Err(usage!("there is no loop to resume in the run {name}"));
    };
    let settings = serde_json::from_value(settings)
        .map_err(|error| usage!("the settings of the run {name} cannot be read: {error}"))?;
    Ok((run, settings))
}

fn task_of(typed: &str) -> Result<String, Failure> {
    let task = match typed {
        "-" => text_of(io::stdin().lock(), "--task -")?,
        task => task.to_owned(),
    };
    if task.trim().is_empty() {
        Err(usage!("--task: the task is empty"))
    } else {
        Ok(task)
    }
}

fn read_spec(path: &Path) -> Result<Spec, Failure> {
    let unreadable = |cause| usage!("cannot read {path:?}: {cause}");
    // Opening a directory succeeds, but reading it fails with a less helpful error.
    if path.metadata().map_err(unreadable)?.is_dir() {
        return Err(usage!("--spec: {path:?} is a directory"));
    }
    let shown = format!("--spec {path:?}");
    let text = text_of(fs::File::open(path).map_err(unreadable)?, &shown)?;
    let extension = path.extension().unwrap_or_default();
    let is_toml = extension.eq_ignore_ascii_case("toml");
    let spec = if is_toml {
        Spec::from_toml(&text)
    } else {
        Spec::from_markdown(&text)
    };
    spec.map_err(|error| usage!("{path:?}: {error:?}"))
}

fn text_of(from: impl Read, option: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = from.take(SPEC_BYTES_MAX + 1).read_to_string(&mut text);
    let read = read.map_err(|cause| usage!("{option}: cannot read: {cause}"))?;
    if read as u64 > SPEC_BYTES_MAX {
        Err(usage!("{option}: longer than {} KiB", SPEC_BYTES_MAX >> 10))
    } else {
        Ok(text)
    }
}

/// Runs the loop to its end.
pub(super) fn run(options: &Options, config: Config) -> Result<ExitCode, Failure> {
    let (settings, id) = (config.settings, config.id);
    let mut command = Command::shell(&settings.agent).format(settings.format);
    if let Some(timeout) = settings.agent_timeout {
        command = command.timeout(timeout);
    }
    let agent = CommandClient::new(command).cancel_grace(CANCEL_GRACE);
    let mut looping = LoopEngine::of_command(settings.spec.clone(), agent)
        .directory(&settings.directory)
        .max_iterations(settings.max_iterations)
        .resume(config.progress);
    if let Some(turns) = settings.max_turns {
        looping = looping.max_turns(turns);
    }
    if let Some(timeout) = settings.timeout {
        looping = looping.timeout(timeout);
    }
    if let Some(timeout) = settings.check_timeout {
        looping = looping.check_timeout(timeout);
    }
    if let Some(lines) = settings.max_lines {
        looping = looping.check_line_limit(lines);
    }
    if let Ok(Some(path)) = options.data_path() {
        looping = looping.ignore_changes_in(path);
    }
    let signals = Signals::catch(looping.killer())?;
    let clock = Clock::system();
    let (mut engine, rules) = options::start(options, &config.keeping, id.as_deref(), &clock)?;
    #[cfg(feature = "notify")]
    let notifying = Notifying::start_alone(options, &engine, rules, &clock)?;
    #[cfg(not(feature = "notify"))]
    drop(rules);
    // After what may be refused: an earlier report stays then.
    let junit = config.junit.as_deref().map(|path| {
        let suite = id.as_deref().unwrap_or("loop").to_owned();
        let report = JunitReport::new(suite, "start".to_owned(), clock.wall());
        JunitFile::collect(path, &engine, report)
    });
    let junit = junit.transpose()?;
    let reports = OwnReports::begin(options, "loop".to_owned());
    let printing = live::print_one(&engine, options, false, &clock)?;
    let looping = engine.run_loop(id, looping, metadata(&settings)?)?;
    let ended = live::until_done(engine, printing, &signals, &never::<Instant>(), &clock);
    #[cfg(feature = "notify")]
    if let Some(notifying) = notifying {
        if ended.interrupted {
            notifying.stop();
        } else {
            notifying.finish();
        }
    }
    let outcome = looping.wait();
    let problem = outcome.as_ref().err().map(ToString::to_string);
    let is_reported = junit.is_none_or(|junit| junit.finish(problem.as_deref()));
    let outcome = outcome?;
    reports.end(&match outcome.end {
        _ if outcome.success => End::Done,
        _ if ended.interrupted => End::Stopped,
        LoopEnd::Timeout => End::Failed("the time is up".to_owned()),
        _ => End::Failed("the check has not passed".to_owned()),
    });
    live::print_lost_lines(outcome.lost_lines);
    live::print_streaming_hint(outcome.has_whole_messages, options);
    Ok(match outcome.end {
        // Success would state that the checks have passed.
        _ if ended.interrupted && !outcome.success => ExitCode::from(INTERRUPTED),
        LoopEnd::Timeout => ExitCode::from(TIMED_OUT),
        // Problems of the history and the display are reported, but only the checks and their report set the exit
        // code.
        _ => live::code(!outcome.success || !is_reported),
    })
}

/// Returns the settings as metadata of the run.
fn metadata(settings: &Settings) -> Result<Map<String, Value>, Failure> {
    let value = serde_json::to_value(settings)
        .map_err(|error| failure!("the settings cannot be kept: {error}"))?;
    Ok(Map::from_iter([(SETTINGS.to_owned(), value)]))
}

// The arguments of `td-observe loop`.

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/loop.txt").trim_end())]
pub(super) struct TypedLoop {
    /// The command of the agent, run in each iteration
    #[arg(long, value_name = "CMD")]
    pub agent: Option<String>,
    /// The check, run after the agent: exit code 0 ends the phase
    #[arg(long, value_name = "CMD")]
    pub check: Option<String>,
    /// The task; - reads it from standard input
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "spec",
        allow_hyphen_values = true
    )]
    pub task: Option<String>,
    /// A task in phases: a TOML or Markdown file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub spec: Option<PathBuf>,
    /// The output of the agent: text, or the records of claude, codex, gemini, opencode, sse, json;
    /// auto detects them
    #[arg(
        long = "as",
        value_name = "FORMAT",
        value_parser = known::parse_format,
        add = ArgValueCandidates::new(known::formats)
    )]
    pub format: Option<Format>,
    /// At most N iterations in all [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iterations: Option<u32>,
    /// End the agent after N answers of its model in an iteration, if its records show them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_turns: Option<u32>,
    /// End the loop after this time: exit code 124
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// End the agent after this time in an iteration
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub agent_timeout: Option<Duration>,
    /// End a check after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub check_timeout: Option<Duration>,
    /// Show and keep at most N lines of each check, and the last lines of standard error if it fails; a
    /// warning marks the cut
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_lines: Option<u64>,
    /// Run the agent and the checks in this directory [default: the current one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
    /// Resume this loop at its next iteration; options that are not given keep their values
    #[arg(
        long,
        value_name = "RUN",
        conflicts_with_all = ["spec", "execution_id"],
        add = ArgValueCompleter::new(known::loops)
    )]
    pub resume: Option<PathBuf>,
    /// The name of the run [default: loop@SECONDS]
    #[arg(long, value_name = "ID", value_parser = parse_execution_id)]
    pub execution_id: Option<String>,
    /// Write the outcome of each check to this file as JUnit XML, for CI
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub junit: Option<PathBuf>,
    #[command(flatten)]
    pub keeping: TypedKeeping,
}
