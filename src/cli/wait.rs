//! `td-observe wait`: waits until a line appears, an agent is in a state, a program ends, a pane falls silent
//! or a channel is signalled.

mod args;
mod ask;
#[cfg(feature = "hosts")]
mod hosts;
mod private;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};
use serde_json::json;
use signal_hook::consts::SIGINT;

use super::checks::{check_socket, check_targets, check_tmux};
use super::failure::{Failure, TIMED_OUT};
use super::known::{self, Targets};
use super::observer;
use super::options::{Options, SourceKind, WhichServer};
use super::output;
use super::signals::Signals;
use super::status::pane_named;
use crate::agent::Markers;
use crate::api::{Input, SILENCE, get_rows};
use crate::board::Row;
use crate::clock::Clock;
use crate::error::Error;
use crate::event::{AgentState, PaneId};
use crate::redact::Rules;
use crate::thread::{Handle, Stop, StopGuard, spawn, stop_pair};
use crate::tmux::{Server, Target, Typing};
use crate::track::ProcessExit;
use crate::wait::{Wait, WaitEnd, WaitOutcome, WaitSpec, Waiter};

pub(super) use args::TypedWait;
use ask::{Ask, LeadingObserver};
use private::{PrivateWatch, StateCondition};

/// The target failed, or ended before a condition was met.
const NOT_FOUND: u8 = 1;
/// The timeout passed, and lines were lost.
const LOST: u8 = 3;

fn wait_of(typed: &TypedWait, target: Target) -> Result<Wait, Failure> {
    let spec = WaitSpec {
        target: target.as_str().to_owned(),
        text: typed.text.clone(),
        regex: typed.regex.clone(),
        stop: typed.stop.clone(),
        state: typed.state.clone(),
        turn: typed.turn,
        marker: typed.marker.clone(),
        exit: typed.exit,
        idle: typed.idle,
        channel: typed.channel.clone(),
        timeout: typed.timeout,
        interval: Some(typed.interval),
        include_existing: typed.include_existing,
        send: typed.send.clone(),
        enter: None,
        answers: typed.answers.clone(),
        sent: None,
    };
    let wait = spec.wait(target, "--");
    wait.map_err(|error| Failure::usage(error.to_string()))
}

fn states_of(typed: &TypedWait) -> Result<Vec<AgentState>, Failure> {
    let states = typed.state.iter().map(|name| {
        AgentState::from_name(name).ok_or_else(|| {
            let names = AgentState::ALL.map(AgentState::as_str);
            let hint = known::suggestion(name, names);
            usage!(
                "--state: there is no agent state {name:?}{hint} there are {}",
                names.join(", ")
            )
        })
    });
    states.collect()
}

/// Returns the typed markers, or the default marker.
pub(super) fn markers(typed: &[String]) -> Result<Markers, Failure> {
    match typed {
        [] => Ok(Markers::default()),
        typed => Markers::new(typed).map_err(|error| usage!("--marker: {error}")),
    }
}

/// Waits, prints the outcomes and returns the exit code.
pub(super) fn run(options: &Options, typed: &TypedWait) -> Result<ExitCode, Failure> {
    let clock = Clock::system();
    #[cfg(feature = "hosts")]
    if options.reads_hosts() {
        return on_hosts(options, typed, &clock);
    }
    let targets = typed.targets.iter().map(|text| {
        let pane = pane_named(options, text, &clock);
        Target::parse(pane.as_deref().unwrap_or(text))
    });
    let targets = targets.collect::<Result<Vec<Target>, _>>()?;
    let wanted = Wanted::of(typed)?;
    let rules = typed.secrets.rules(options.data_path()?.as_deref())?;
    let states = states_of(typed)?;
    let (mut condition, mut has_own_states) = (None, false);
    if !states.is_empty() {
        let (state_rules, own) = super::states::read(options, &typed.rules)?;
        has_own_states = !own.is_empty();
        condition = Some(StateCondition {
            states,
            rules: state_rules,
            redact: rules.clone(),
            is_sent: typed.send.is_some(),
        });
    }
    let observer = LeadingObserver::of(options, typed, has_own_states)?;
    let typing = typed
        .send
        .as_ref()
        .map(|text| Typing::text(text, !typed.no_enter));
    let typing = typing.transpose()?;
    let board = BoardRows::of(options, typed)?;
    let mut waits = Vec::new();
    for target in &targets {
        waits.push(TargetWait {
            target: target.clone(),
            wait: wait_of(typed, target.clone())?,
            typing: typing.clone(),
            answers: typed.answers.clone(),
            board: board.clone(),
            state: condition.clone(),
            observer: observer.clone(),
            source: typed.source,
            chosen: options.server.clone(),
            hints: (!options.quiet && typed.send.is_none()).then(|| rules.clone()),
        });
    }
    let signals = Signals::catch(|| {})?;
    let server = options.server.server();
    check_tmux(&server, &clock)?;
    let version = check_socket(&server, &clock)?;
    check_targets(&server, version, &targets, &clock)?;
    let waits = TargetWaits::start(waits, &server, &clock)?;
    let ended = until_done(options, typed, &waits, wanted, (&signals, &rules));
    waits.stop()?;
    ended.map(ExitCode::from)
}

/// Waits for targets on other hosts, prints the outcomes and returns the exit code.
#[cfg(feature = "hosts")]
fn on_hosts(options: &Options, typed: &TypedWait, clock: &Clock) -> Result<ExitCode, Failure> {
    let wanted = Wanted::of(typed)?;
    states_of(typed)?;
    let target = Target::parse("%0")?;
    // Tells what is wrong with the conditions before a host is asked.
    drop(wait_of(typed, target)?);
    let waits = hosts::HostWait::of(options, typed, clock)?;
    let signals = Signals::catch(|| {})?;
    let jobs = waits.into_iter().map(|wait| {
        let job: WaitJob = Box::new(move |stop: &Stop| (wait.run(stop), None));
        job
    });
    let waits = TargetWaits::begin(jobs.collect())?;
    let ended = until_done(
        options,
        typed,
        &waits,
        wanted,
        (&signals, &Rules::builtin()),
    );
    waits.stop()?;
    ended.map(ExitCode::from)
}

/// Prints outcomes as they arrive until the wait is decided; returns the exit code.
fn until_done(
    options: &Options,
    typed: &TypedWait,
    waits: &TargetWaits,
    wanted: Wanted,
    (signals, rules): (&Signals, &Rules),
) -> Result<u8, Failure> {
    // The exit codes of targets without a match. Lost lines take precedence over a timeout, and a timeout over
    // an end.
    let mut missed = Vec::new();
    while let Some(next) = waits.next(signals) {
        let (number, outcome) = match next {
            Ok((number, outcome)) => (number, outcome),
            Err(signal) => {
                // Nothing matched: a command after `&&` must not run.
                if options.json {
                    let interrupted = json!({"outcome": "interrupted"});
                    output::print(&output::json_lines([&interrupted]))?;
                }
                return Ok(u8::try_from(128 + signal).unwrap_or(NOT_FOUND));
            }
        };
        let target = typed.targets.get(number).map_or("", String::as_str);
        let Some(mut outcome) = outcome? else {
            return Ok(u8::try_from(128 + SIGINT).unwrap_or(NOT_FOUND));
        };
        outcome.redact(rules);
        let several = (typed.targets.len() > 1).then_some(target);
        print_outcome(options, several, &outcome)?;
        let code = code(&outcome.end);
        match (&outcome.end, wanted) {
            (WaitEnd::Stopped(_), _) => return Ok(code),
            (WaitEnd::Matched(_), Wanted::Any) => return Ok(code),
            (WaitEnd::Matched(_), Wanted::All) if code == 0 => {}
            (WaitEnd::TimedOut | WaitEnd::Lost, _) | (_, Wanted::Any) => missed.push(code),
            // This target can no longer match.
            (_, Wanted::All) => return Ok(code),
        }
    }
    let worst = [LOST, TIMED_OUT, NOT_FOUND]
        .into_iter()
        .find(|code| missed.contains(code));
    Ok(worst.unwrap_or(0))
}

/// Returns the failure for a target. A missing server or target is bad input for a wait.
fn of_target(error: Error, server: &WhichServer, target: &str, clock: &Clock) -> Failure {
    if error.is_gone() {
        return usage!("{error}: there is nothing to wait for");
    }
    if error.is_invalid_input() {
        let hint = Targets::of(server, clock).hint(target);
        return usage!("{error:?}{hint}");
    }
    error.into()
}

fn code(end: &WaitEnd) -> u8 {
    match end {
        WaitEnd::Matched(found)
            if matches!(found.exit_status, None | Some(0 | ProcessExit::HUNG_UP)) =>
        {
            0
        }
        WaitEnd::Matched(_) | WaitEnd::Stopped(_) | WaitEnd::Ended(_) | WaitEnd::Interrupted => {
            NOT_FOUND
        }
        WaitEnd::TimedOut => TIMED_OUT,
        WaitEnd::Lost => LOST,
    }
}

/// Prints an outcome. `target` names its target if there are several.
fn print_outcome(
    options: &Options,
    target: Option<&str>,
    outcome: &WaitOutcome,
) -> Result<(), Failure> {
    let named = |text: &str, separator: &str| {
        let target = target.map(|target| format!("{}{separator}", crate::face::one_line(target)));
        target.unwrap_or_default() + text
    };
    let print = |text: &str| output::print(text).map(|_| ());
    if options.json {
        return print(&output::json_lines([&outcome.to_json(target)]));
    }
    if options.quiet {
        return Ok(());
    }
    let problem = match &outcome.end {
        // Printed on standard output, so that a script can use the match.
        WaitEnd::Matched(found) | WaitEnd::Stopped(found) => match &found.text {
            Some(text) => return print(&(named(&crate::face::one_line(text), " | ") + "\n")),
            None => return Ok(()),
        },
        WaitEnd::Interrupted => return Ok(()),
        WaitEnd::Ended(why) if outcome.lost_lines => {
            let why = why.as_str();
            format!("{why} before a match, and its last lines may be missing")
        }
        WaitEnd::Ended(why) => format!("{} before a match", why.as_str()),
        WaitEnd::TimedOut => format!("no match within {:.1} s", outcome.elapsed.as_secs_f64()),
        WaitEnd::Lost => {
            "no match, but lines were lost, so a match may have been missed".to_owned()
        }
    };
    output::print_message(&named(&problem, ": "));
    Ok(())
}

/// The board of an observer, for the panes of one tmux server.
#[derive(Clone)]
struct BoardRows {
    /// The socket of its API.
    api: PathBuf,
    /// The socket of the tmux server.
    server: PathBuf,
}

impl BoardRows {
    /// Returns the board of the observer of the server, if a text will be typed and there is one.
    pub fn of(options: &Options, typed: &TypedWait) -> Result<Option<Self>, Failure> {
        if typed.send.is_none() {
            return Ok(None);
        }
        let known = observer::running(&options.home()?)?;
        Ok(known
            .zip(options.server.socket_path())
            .and_then(|(known, server)| {
                known.servers.contains(&server).then_some(Self {
                    api: known.socket,
                    server,
                })
            }))
    }

    /// Returns the present row of a pane.
    fn row_of(&self, pane: &PaneId) -> Result<Option<Row>, Error> {
        let rows = get_rows(&self.api, SILENCE)?;
        let is_of_pane = |row: &Row| {
            let server = row.server.as_deref().map(Path::new);
            row.pane.as_ref() == Some(pane) && server == Some(&self.server) && !row.has_ended()
        };
        Ok(rows.into_iter().find(is_of_pane))
    }
}

// Waits for several targets, each on its own thread `td-wait`, until one or all have matched.

/// The wait for one target.
struct TargetWait {
    pub target: Target,
    pub wait: Wait,
    pub typing: Option<Typing>,
    /// The id of the question that the text answers.
    pub answers: Option<String>,
    /// The board of the observer of the server, if there is one.
    pub board: Option<BoardRows>,
    pub state: Option<StateCondition>,
    /// The observer in which the wait runs, if there is one.
    pub observer: Option<LeadingObserver>,
    pub source: SourceKind,
    pub chosen: WhichServer,
    /// Redacts the report of a match in text that is already on the screen; `None` reports none.
    pub hints: Option<Rules>,
}

/// The number of targets that must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Any,
    All,
}

impl Wanted {
    /// Returns how many of the typed targets must match.
    fn of(typed: &TypedWait) -> Result<Self, Failure> {
        match (typed.any, typed.all, typed.targets.len()) {
            (_, true, _) => Ok(Self::All),
            (true, _, _) | (_, _, 0 | 1) => Ok(Self::Any),
            (false, false, count) => Err(usage!(
                "there are {count} targets: give --any to wait for one of them, or --all for each"
            )),
        }
    }
}

/// The outcome of a target; `None` if its wait was stopped.
type Outcome = Result<Option<WaitOutcome>, Failure>;

/// A wait on its own thread: its outcome, and the private watch that its caller ends.
type WaitJob = Box<dyn FnOnce(&Stop) -> (Outcome, Option<PrivateWatch>) + Send>;

/// The running waits.
struct TargetWaits {
    threads: Vec<Handle<()>>,
    running: StopGuard,
    outcomes: Receiver<(usize, Outcome)>,
}

impl TargetWaits {
    /// Starts all waits.
    pub fn start(waits: Vec<TargetWait>, server: &Server, clock: &Clock) -> Result<Self, Failure> {
        let waiter = Arc::new(Waiter::new(server.clone())?);
        let jobs = waits.into_iter().map(|wait| {
            let (waiter, server, clock) = (Arc::clone(&waiter), server.clone(), clock.clone());
            let job: WaitJob =
                Box::new(move |stop: &Stop| wait.run(&waiter, &server, stop, &clock));
            job
        });
        Self::begin(jobs.collect())
    }

    /// Starts a thread for each wait.
    fn begin(jobs: Vec<WaitJob>) -> Result<Self, Failure> {
        let (running, stop) = stop_pair();
        // Room for all outcomes, so that no thread blocks.
        let (sender, outcomes) = bounded(jobs.len().max(1));
        let mut threads = Vec::new();
        for (number, job) in jobs.into_iter().enumerate() {
            let (stop, sender): (Stop, Sender<_>) = (stop.clone(), sender.clone());
            threads.push(spawn("td-wait", move || {
                let (outcome, watch) = job(&stop);
                // The receiver may be gone at the end of the program.
                let _ = sender.send((number, outcome));
                if let Some(watch) = watch {
                    watch.end();
                }
            })?);
        }
        Ok(Self {
            threads,
            running,
            outcomes,
        })
    }

    /// Returns the next outcome; the number of a signal if one arrives; `None` after all outcomes.
    pub fn next(&self, signals: &Signals) -> Option<Result<(usize, Outcome), i32>> {
        select_biased! {
            recv(self.outcomes) -> outcome => outcome.ok().map(Ok),
            recv(signals.first) -> signal => signal.ok().map(Err),
        }
    }

    /// Stops the remaining waits.
    pub fn stop(self) -> Result<(), Failure> {
        drop(self.running);
        for thread in self.threads {
            thread
                .join()
                .map_err(|panicked| Failure::other(panicked.to_string()))?;
        }
        Ok(())
    }
}

/// Who watches the panes of a wait.
enum Watching {
    Private(Box<PrivateWatch>),
    /// The observer, or the wait by itself.
    Others,
    /// The wait was stopped before the watch had begun.
    Stopped,
}

impl TargetWait {
    /// Waits. The caller ends the private watch, if there is one, once it has passed the outcome on.
    fn run(
        self,
        waiter: &Waiter,
        server: &Server,
        stop: &Stop,
        clock: &Clock,
    ) -> (Outcome, Option<PrivateWatch>) {
        let watch = match self.watch(waiter, server, stop, clock) {
            Ok(Watching::Private(watch)) => Some(*watch),
            Ok(Watching::Others) => None,
            Ok(Watching::Stopped) => return (Ok(None), None),
            Err(failure) => return (Err(failure), None),
        };
        let outcome = self.finish(waiter, watch.as_ref(), server, (stop, clock));
        (outcome, watch)
    }

    /// Starts a private watch if the wait needs one.
    fn watch(
        &self,
        waiter: &Waiter,
        server: &Server,
        stop: &Stop,
        clock: &Clock,
    ) -> Result<Watching, Failure> {
        let explained = |error: Error| of_target(error, &self.chosen, self.target.as_str(), clock);
        let gives_states = self.observer.as_ref().is_some_and(|of| of.gives_states);
        let own_states = self.state.clone().filter(|_| !gives_states);
        let streams =
            self.observer.is_none() && self.source != SourceKind::Poll && self.wait.matches_lines();
        if own_states.is_none() && !streams {
            return Ok(Watching::Others);
        }
        // A watch would wait for a missing target, so a missing target is refused first.
        let exit = Wait::at(self.target.clone()).exit();
        drop(waiter.start_until_stopped(&exit, stop).map_err(explained)?);
        let target = (server, &self.target, self.source);
        let started = PrivateWatch::start(target, own_states, stop, clock)?;
        Ok(started.map_or(Watching::Stopped, |watch| {
            Watching::Private(Box::new(watch))
        }))
    }

    fn finish(
        self,
        waiter: &Waiter,
        watch: Option<&PrivateWatch>,
        server: &Server,
        (stop, clock): (&Stop, &Clock),
    ) -> Outcome {
        let explained = |error: Error| of_target(error, &self.chosen, self.target.as_str(), clock);
        let own_waiter = watch.map(|watch| watch.waiter(server)).transpose()?;
        let waiter = own_waiter.as_ref().unwrap_or(waiter);
        let mut wait = self.wait;
        let (state_sender, state_found) = bounded(1);
        if let Some(found) = watch.and_then(PrivateWatch::found) {
            wait = wait.other(found);
        } else if self.state.is_some() {
            wait = wait.other(state_found);
        }
        let started = waiter.start_until_stopped(&wait, stop);
        let Some(started) = started.map_err(explained)? else {
            return Ok(None);
        };
        if let Some(rules) = &self.hints
            && let Some((pane, line)) = started.already_shown()
        {
            let line = rules.text(line);
            message!(
                "hint: pane {pane} already shows a match, but only new output counts (see \
                 --include-existing): {line}"
            );
        }
        let (mut lead, mut answers) = (None, true);
        if let Some(observer) = self.observer.filter(|_| !started.has_ended()) {
            // The observer has its own view of the panes, so the text is typed only once it has begun.
            let state = self.state.filter(|_| observer.gives_states);
            let condition = state.map(|condition| (condition, state_sender));
            let ask = Ask::start(observer, (server, &self.target), condition, clock)?;
            answers = ask.begun(stop);
            lead = Some(ask);
        }
        if let Some(typing) = self.typing.filter(|_| !started.has_ended()) {
            let typed = Input {
                may_leave_enter: true,
                typing,
                answers: self.answers.as_deref(),
            };
            // An observer that does not answer is asked once.
            let board = Cell::new(self.board.as_ref().filter(|_| answers));
            let row_of = |pane: &PaneId| {
                let row = board.get().map(|board| board.row_of(pane)).transpose();
                Ok(row.map(Option::flatten).unwrap_or_else(|error| {
                    log::info!("{error:?}");
                    board.set(None);
                    None
                }))
            };
            let sent = typed.send((server, &started.panes()), &row_of, (stop, clock));
            sent.map_err(|error| {
                if error.is_invalid_input() {
                    usage!("--send: {error}")
                } else {
                    error.into()
                }
            })?;
        }
        let target = self.target.as_str();
        let report_loss = || {
            message!("{target}: lines were lost, perhaps with a match; the wait continues");
        };
        let outcome = match &lead {
            Some(ask) => started.finish_led(&ask.reports, report_loss),
            None => started.finish_reporting(report_loss),
        };
        if let Some(ask) = lead {
            ask.end();
        }
        let outcome = outcome.map_err(explained)?;
        Ok(Some(outcome).filter(|outcome| outcome.end != WaitEnd::Interrupted))
    }
}
