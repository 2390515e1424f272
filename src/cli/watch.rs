//! `td-observe watch`: shows the output of tmux panes as it is printed.

use std::collections::HashSet;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use clap_complete::engine::ArgValueCompleter;
use crossbeam_channel::never;

use super::checks::{self, ANSWER_TIMEOUT, PaneTitles, check_socket, check_targets, check_tmux};
use super::duration::{parse_duration, parse_schedule, parse_share};
use super::failure::Failure;
use super::hooks::{self, Hooks, OnState};
use super::known::Targets;
#[cfg(feature = "notify")]
use super::notifying::Notifying;
use super::options::{self, Options, SourceKind, TypedKeeping, parse_execution_id};
use super::signals::Signals;
use super::states::TypedReading;
use super::watch_observer::{self, EventFilter, EventSelection};
use super::{known, live, observer};
use crate::agent::Markers;
use crate::api::{EventReader, position};
use crate::clock::Clock;
use crate::event::PaneId;
use crate::history::DataDir;
use crate::observe::{self, Watch};
use crate::tmux::{AdaptivePolling, Listing, PaneState, PollSchedule, Server, Target};

/// The configuration of `watch`.
#[derive(Debug)]
pub(super) struct Config {
    targets: Vec<Target>,
    turns: Option<(Markers, Option<Duration>)>,
    hooks: hooks::Config,
    typed: TypedWatch,
}

impl Config {
    pub fn from_typed(mut typed: TypedWatch) -> Result<Self, Failure> {
        let targets = typed
            .targets
            .iter()
            .map(|text| Target::parse(text))
            .collect::<Result<_, _>>();
        let is_ai = typed.mode == Mode::Ai;
        for (option, is_given) in [
            ("--marker", !typed.marker.is_empty()),
            ("--infer-after", typed.infer_after.is_some()),
        ] {
            if is_given && !is_ai {
                return Err(usage!("{option} needs --mode ai"));
            }
        }
        if typed.raw && typed.source == SourceKind::Poll {
            return Err(usage!(
                "--raw keeps the bytes of streamed panes: leave out --source poll"
            ));
        }
        let turns = if is_ai {
            Some((super::wait::markers(&typed.marker)?, typed.infer_after))
        } else {
            None
        };
        Ok(Self {
            targets: targets?,
            turns,
            hooks: hooks::Config {
                on_turn: typed.on_turn.take(),
                on_state: std::mem::take(&mut typed.on_state),
                on_end: typed.on_end.take(),
                timeout: typed.on_timeout,
                present: HashSet::new(),
            },
            typed,
        })
    }
}

/// Returns the first given option that controls how panes are observed or how events are kept. Such an option
/// has no effect if an observer runs.
fn observing_option(typed: &TypedWatch) -> Option<&'static str> {
    let options = [
        ("--interval", typed.interval != PollSchedule::default()),
        (
            "--budget",
            typed.budget != AdaptivePolling::default().server_share,
        ),
        ("--source", typed.source != SourceKind::Auto),
        ("--raw", typed.raw),
        ("--mode", typed.mode != Mode::Human),
        ("--execution-id", typed.execution_id.is_some()),
        ("--states", !typed.reading.states.is_empty()),
        ("--no-states", typed.reading.no_states),
        ("--include-self", typed.include_self),
        ("--no-conversation", typed.no_conversation),
        ("--screen", typed.screen),
        ("--lines", typed.lines > 0),
    ];
    let given = options
        .iter()
        .find(|(_, is_given)| *is_given)
        .map(|(option, _)| *option);
    given.or_else(|| typed.keeping.first_given())
}

/// Watches until the targets have ended, or a signal stops the command.
pub(super) fn run(options: &Options, config: Config) -> Result<ExitCode, Failure> {
    if config.typed.raw && options.data_path()?.is_none() {
        return Err(usage!(
            "--raw keeps its recordings beside the log: leave out --no-log"
        ));
    }
    // Signals are caught before anything is started that must be cleaned up.
    let signals = Signals::catch(|| {})?;
    let clock = Clock::system();
    #[cfg(feature = "hosts")]
    if options.reads_hosts() {
        return of_hosts(options, &config, &signals, &clock);
    }
    let server = options.server.server();
    let version = check_socket(&server, &clock)?;
    check_targets(&server, version, &config.targets, &clock)?;
    let own = match beside_observer(options, &config, &signals, &clock)? {
        Beside::Over(code) => return Ok(code),
        Beside::NoObserver => options.clone(),
        // The observer writes the runs of these sessions.
        Beside::KeepsNoLog => Options {
            no_log: true,
            ..options.clone()
        },
    };
    let options = &own;
    check_tmux(&server, &clock)?;
    let listing = listing(&server, &clock).ok();
    let reported = suggest_targets(options, &config.targets, listing.as_ref(), &clock);
    let states = super::states::rules(options, &config.typed.reading)?;
    let id = config.typed.execution_id.as_deref();
    let (mut engine, rules) = options::start(options, &config.typed.keeping, id, &clock)?;
    let printing = live::print(&engine, options, states.clone(), &clock)?;
    let titles = PaneTitles::new(&server, &rules);
    #[cfg(feature = "notify")]
    let notifying = Notifying::start(options, &engine, rules, &clock)?;
    let mut on_events = config.hooks.clone();
    if let Some(listing) = listing.filter(|_| !config.typed.now) {
        on_events.present = listing.panes.iter().map(PaneState::pane).collect();
    }
    let hooks = Hooks::start(&engine, on_events, titles, &clock)?;
    let source = config.typed.source;
    let watch = watch(options, config, server).reported_absent(reported);
    if source != SourceKind::Poll {
        checks::raise_descriptors();
    }
    let mut watch = source.applied_to(watch)?;
    if let Some(states) = states {
        watch = watch.states(states);
    }
    #[cfg(feature = "notify")]
    if notifying.is_some() {
        watch = watch.views();
    }
    engine.watch(watch)?;
    let ended = live::until_done(engine, printing, &signals, &never::<Instant>(), &clock);
    #[cfg(feature = "notify")]
    if let Some(notifying) = notifying {
        notifying.stop();
    }
    if let Some(hooks) = hooks {
        hooks.finish(ended.interrupted, &signals, &clock);
    }
    Ok(live::code(ended.failed))
}

/// Shows the events of the observers of other hosts.
#[cfg(feature = "hosts")]
fn of_hosts(
    options: &Options,
    config: &Config,
    signals: &Signals,
    clock: &Clock,
) -> Result<ExitCode, Failure> {
    if !config.hooks.is_empty() {
        return Err(usage!(
            "--on-turn, --on-state and --on-end run where the panes are: leave out --host, and run this watch on the host"
        ));
    }
    if let Some(option) = observing_option(&config.typed) {
        return Err(usage!(
            "the observer of each host observes already, so {option} has no effect here: leave out {option} or --host"
        ));
    }
    let states = super::states::rules(options, &config.typed.reading)?;
    super::watch_hosts::run(options, (&config.typed.targets, states), signals, clock)
}

/// What the observer of a server leaves to a watch.
enum Beside {
    /// The watch has shown the observer's events, and is over.
    Over(ExitCode),
    /// No observer is concerned.
    NoObserver,
    /// The watch observes the sessions by itself, while the observer keeps their history.
    KeepsNoLog,
}

/// Shows the events of the observer of this server, if one runs.
fn beside_observer(
    options: &Options,
    config: &Config,
    signals: &Signals,
    clock: &Clock,
) -> Result<Beside, Failure> {
    let known = match options.home().map(|home| observer::running(&home)) {
        Ok(Ok(Some(known))) => known,
        Ok(Err(error)) if !options.no_log => return Err(error.into()),
        Err(failure) if !options.no_log => return Err(failure),
        // Without a log, the command needs no data directory.
        _ => return Ok(Beside::NoObserver),
    };
    let Some(socket) = options.server.socket_path() else {
        return Ok(Beside::NoObserver);
    };
    if !known.servers.contains(&socket) {
        return Ok(Beside::NoObserver);
    }
    if options.no_log {
        if !options.quiet {
            message!(
                "an observer (pid {}) already observes this server and keeps its history: --no-log affects only this watch",
                known.pid
            );
        }
        return Ok(Beside::NoObserver);
    }
    if !config.hooks.is_empty() {
        if !options.quiet {
            message!(
                "an observer (pid {}) observes this server, too: this watch observes by itself to run its commands, and keeps no history of its own",
                known.pid
            );
        }
        let has_own_run = config.typed.execution_id.is_some() || config.typed.raw;
        return Ok(if has_own_run {
            Beside::NoObserver
        } else {
            Beside::KeepsNoLog
        });
    }
    if let Some(option) = observing_option(&config.typed) {
        return Err(usage!(
            "an observer (pid {}) observes this server, so {option} has no effect here: end the observer with td-observe stop first",
            known.pid
        ));
    }
    if options.verbose > 0 {
        message!("an observer runs (pid {}): these are its events", known.pid);
    }
    let mut reader = EventReader::new(&known.socket, "/api/v1/events".to_owned(), clock);
    // Taken before targets are reported as missing, so that their first output is shown.
    reader.cursor = position(&known.socket);
    let data = DataDir::new(options.home()?);
    let server = (options.server.server(), socket);
    let filter = EventFilter::new(data, server, config.targets.clone(), clock.clone());
    let selection = EventSelection {
        reader,
        filter: Box::new(filter.without(shown_in(options))),
        states: super::states::rules(options, &config.typed.reading)?,
    };
    report_absent(options, &config.targets, clock);
    watch_observer::run(options, selection, signals, clock).map(Beside::Over)
}

fn listing(server: &Server, clock: &Clock) -> crate::Result<Listing> {
    Listing::fetch(&server.clone().with_timeout(ANSWER_TIMEOUT), clock)
}

/// Reports targets, or a server, that do not exist yet, in the words of a watch that observes by itself.
fn report_absent(options: &Options, targets: &[Target], clock: &Clock) {
    let server = options.server.server();
    let listing = match listing(&server, clock) {
        Ok(listing) => Some(listing),
        Err(error) if error.is_gone() => None,
        // The server does not answer, so its targets are unknown.
        Err(_) => return,
    };
    let reported = suggest_targets(options, targets, listing.as_ref(), clock);
    let watch = targets
        .iter()
        .cloned()
        .fold(Watch::new(server), Watch::target);
    observe::report_absent(&watch.reported_absent(reported), listing.as_ref());
}

/// Suggests an existing target for each missing one that resembles it, and returns these missing ones. The
/// watch waits for all missing ones.
fn suggest_targets(
    options: &Options,
    targets: &[Target],
    listing: Option<&Listing>,
    clock: &Clock,
) -> Vec<Target> {
    let Some(listing) = listing.filter(|_| !options.quiet) else {
        return Vec::new();
    };
    let mut missing: Vec<Target> = targets.to_vec();
    missing.retain(|target| target.resolve(listing).is_empty());
    if missing.is_empty() {
        return missing;
    }
    let known = Targets::of(&options.server, clock);
    missing.retain(|target| known.meant(target.as_str()).is_some());
    for target in &missing {
        let name = target.as_str();
        let hint = known.hint(name);
        message!("the target {name:?} does not exist{hint}");
    }
    missing
}

/// Returns the pane that shows the output of this program, which must not show itself, also in the background.
fn shown_in(options: &Options) -> Option<PaneId> {
    let is_shown = std::io::stdout().is_terminal();
    options.server.own_pane().filter(|_| is_shown)
}

fn watch(options: &Options, config: Config, server: Server) -> Watch {
    let typed = config.typed;
    let mut schedule = typed.interval;
    // The budget limits adaptive polling only.
    if let PollSchedule::Adaptive(adaptive) = &mut schedule {
        adaptive.server_share = typed.budget;
    }
    let mut watch = Watch::new(server).schedule(schedule).raw(typed.raw);
    if typed.screen {
        watch = watch.screens();
    }
    if typed.no_conversation {
        watch = watch.no_conversations();
    }
    for target in config.targets {
        watch = watch.target(target);
    }
    if let Some(id) = typed.execution_id {
        watch = watch.execution_id(id);
    }
    if let Some((markers, inferred_after)) = config.turns {
        watch = watch.turns(markers);
        if let Some(silence) = inferred_after {
            watch = watch.infer_turns_after(silence);
        }
    }
    if typed.include_self {
        watch = watch.include_observers();
    } else if let Some(own) = shown_in(options) {
        watch = watch.leave_out(own);
    }
    watch.baseline_lines(typed.lines)
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/watch.txt").trim_end())]
pub(super) struct TypedWatch {
    /// session, session:window, session:window.pane or %pane [default: all sessions, including new
    /// ones]
    #[arg(value_name = "TARGET", add = ArgValueCompleter::new(known::targets))]
    pub targets: Vec<String>,
    /// The interval of polling: a fixed time such as 200ms, or the shortest and the longest one
    #[arg(long, value_name = "TIME[..TIME]", default_value = "20ms..1s", value_parser = parse_schedule)]
    pub interval: PollSchedule,
    /// The share of the tmux server's time that polling may take, unless the interval is fixed
    #[arg(long, value_name = "SHARE", default_value = "20%", value_parser = parse_share)]
    pub budget: f64,
    /// auto (and stream): stream the panes whose pipe is free, poll the others; poll: poll all panes
    /// and change nothing in tmux
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    pub source: SourceKind,
    /// Also keep every byte of each streamed pane with its time, in raw/PANE.cast of the run
    #[arg(long)]
    pub raw: bool,
    /// ai: report the end of an agent's turn at its marker, then leave the pane alone until it changes
    #[arg(long, value_name = "MODE", value_enum, default_value = "human")]
    pub mode: Mode,
    /// With --mode ai: the marker, alone on its line; repeat for several [default: "[Output
    /// Complete]"]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub marker: Vec<String>,
    /// With --mode ai: infer the end of a turn without a marker from a silence of this length
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub infer_after: Option<Duration>,
    /// Run CMD with sh -c at the end of each turn of an agent
    #[arg(long, value_name = "CMD")]
    pub on_turn: Option<String>,
    /// Run CMD with sh -c when a session, or the program of a pane, has ended
    #[arg(long, value_name = "CMD")]
    pub on_end: Option<String>,
    /// Run CMD with sh -c when an agent enters a state: working, waiting, idle, done, error, limited
    /// or any; repeat for several
    #[arg(long, value_name = "STATE=CMD", value_parser = OnState::parse)]
    pub on_state: Vec<OnState>,
    /// With --on-state: also run CMD for the states in which agents are at the start
    #[arg(long, requires = "on_state")]
    pub now: bool,
    #[command(flatten)]
    pub reading: TypedReading,
    /// Kill a command of --on-turn, --on-state or --on-end after this time
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_duration)]
    pub on_timeout: Duration,
    /// Show and keep the last N lines of each pane at the start
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub lines: usize,
    /// Keep everything as one run of this name
    #[arg(long, value_name = "ID", value_parser = parse_execution_id)]
    pub execution_id: Option<String>,
    /// Also watch the pane of this program, and panes whose foreground td-observe shows events or the board
    #[arg(long)]
    pub include_self: bool,
    /// Also show the screen rows of an agent whose conversation is shown
    #[arg(long)]
    pub screen: bool,
    /// Do not read the files of agents
    #[arg(long)]
    pub no_conversation: bool,
    #[command(flatten)]
    pub keeping: TypedKeeping,
    #[cfg(feature = "hosts")]
    #[command(flatten)]
    pub hosts: super::hosts::TypedHosts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    Human,
    Ai,
}
