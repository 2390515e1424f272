//! `td-observe wait`: waits until a line appears, an agent is in a state, a program ends, a pane falls silent
//! or a channel is signalled.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueHint;
use clap_complete::engine::ArgValueCompleter;
use crossbeam_channel::{Receiver, Sender, bounded, select_biased};
use serde_json::{Value, json};
use signal_hook::consts::SIGINT;

use super::checks::{check_socket, check_targets, check_tmux};
use super::duration::parse_duration;
use super::failure::{Failure, TIMED_OUT};
use super::known::{self, Targets};
use super::observer;
use super::options::{Options, TypedSecrets, WhichServer};
use super::output::{self, print_message};
use super::signals::Signals;
use crate::agent::{Markers, StateRules};
use crate::api::{percent_encoded, post};
use crate::bus::{Delivery, RecvTimeoutError, Subscription};
use crate::clock::Clock;
use crate::engine::{Builder, Engine};
use crate::error::Error;
use crate::event::{AgentState, TdEvent};
use crate::observe::Watch;
use crate::redact::Rules;
use crate::thread::{self, Handle, Stop, StopGuard, is_stopped, spawn, stop_pair};
use crate::tmux::{DrainProgram, Server, Target, Typing};
use crate::wait::{StateMatcher, Wait, WaitEnd, WaitMatch, WaitOutcome, WaitSpec, Waiter};

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
    let targets = typed
        .targets
        .iter()
        .map(|text| Target::parse(text))
        .collect::<Result<Vec<Target>, _>>()?;
    let wanted = match (typed.any, typed.all, targets.len()) {
        (_, true, _) => Wanted::All,
        (true, _, _) | (_, _, 0 | 1) => Wanted::Any,
        (false, false, count) => {
            return Err(usage!(
                "there are {count} targets: give --any to wait for one of them, or --all for each"
            ));
        }
    };
    let rules = typed.secrets.rules(options.data_path()?.as_deref())?;
    let states = states_of(typed)?;
    let (mut condition, mut observer) = (None, None);
    if !states.is_empty() {
        let (state_rules, own) = super::states::read(options, &typed.rules)?;
        observer = ObserverOfStates::of(options, typed, !own.is_empty())?;
        condition = Some(StateCondition {
            states,
            rules: state_rules,
            redact: rules.clone(),
            is_sent: typed.send.is_some(),
        });
    }
    let typing = typed
        .send
        .as_ref()
        .map(|text| Typing::text(text, !typed.no_enter));
    let typing = typing.transpose()?;
    let mut waits = Vec::new();
    for target in &targets {
        waits.push(TargetWait {
            target: target.clone(),
            wait: wait_of(typed, target.clone())?,
            typing: typing.clone(),
            state: condition.clone(),
            observer: observer.clone(),
            chosen: options.server.clone(),
            hints: !options.quiet && typed.send.is_none(),
        });
    }
    let signals = Signals::catch(|| {})?;
    let server = options.server.server();
    let clock = Clock::system();
    check_tmux(&server, &clock)?;
    let version = check_socket(&server, &clock)?;
    check_targets(&server, version, &targets, &clock)?;
    let waits = TargetWaits::start(waits, &server, &clock)?;
    let ended = until_done(options, typed, &waits, wanted, (&signals, &rules));
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
        WaitEnd::Matched(found) if found.exit_status.unwrap_or(0) == 0 => 0,
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
        WaitEnd::Ended(why) => format!("{} before a match", why.as_str()),
        WaitEnd::TimedOut => format!("no match within {:.1} s", outcome.elapsed.as_secs_f64()),
        WaitEnd::Lost => {
            "no match, but lines were lost, so a match may have been missed".to_owned()
        }
    };
    output::print_message(&named(&problem, ": "));
    Ok(())
}

// The arguments of `td-observe wait`.

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/wait.txt").trim_end())]
pub(super) struct TypedWait {
    /// session, session:window, session:window.pane or %pane
    #[arg(value_name = "TARGET", required = true, add = ArgValueCompleter::new(known::targets))]
    pub targets: Vec<String>,
    /// With several targets: wait for one of them
    #[arg(long, conflicts_with = "all")]
    pub any: bool,
    /// With several targets: wait for each of them
    #[arg(long)]
    pub all: bool,
    /// Type this text into the target first and press Enter; no answer is too fast to be found
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "include_existing"
    )]
    pub send: Option<String>,
    /// With --send: do not press Enter
    #[arg(long, requires = "send")]
    pub no_enter: bool,
    /// Wait for a line that contains TEXT; repeat for any of several
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub text: Vec<String>,
    /// Wait for a line that matches; repeat for any of several
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub regex: Vec<String>,
    /// Wait until the agent in the target is in this state: working, waiting, idle, done, error or
    /// limited; several: --state idle,done
    #[arg(
        long,
        value_name = "STATE",
        value_delimiter = ',',
        add = ArgValueCompleter::new(known::states)
    )]
    pub state: Vec<String>,
    /// Wait for the end of an agent's turn
    #[arg(long)]
    pub turn: bool,
    /// With --turn: the marker, alone on its line; repeat for any of several [default: "[Output
    /// Complete]"]
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        requires = "turn"
    )]
    pub marker: Vec<String>,
    /// Wait for the end of the target: its panes are gone, or their programs have ended
    #[arg(long)]
    pub exit: bool,
    /// Wait for a silence of this length
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub idle: Option<Duration>,
    /// Wait for tmux wait-for -S NAME
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
    /// End the wait with exit code 1 at a line that matches; repeat for any of several
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub stop: Vec<String>,
    /// Wait at most this long [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// The interval of polling
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_duration)]
    pub interval: Duration,
    /// Also match the text that is already on the screen
    #[arg(long)]
    pub include_existing: bool,
    /// With --state: a file or directory of rules for agents' screens; repeat for several [default:
    /// states/ in the data directory]
    #[arg(
        long = "states",
        value_name = "FILE|DIR",
        requires = "state",
        value_hint = ValueHint::AnyPath
    )]
    pub rules: Vec<PathBuf>,
    #[command(flatten)]
    pub secrets: TypedSecrets,
}

// Waits for several targets, each on its own thread `td-wait`, until one or all have matched.

/// The wait for one target.
pub(super) struct TargetWait {
    pub target: Target,
    pub wait: Wait,
    pub typing: Option<Typing>,
    pub state: Option<StateCondition>,
    /// The observer that already knows the states.
    pub observer: Option<ObserverOfStates>,
    pub chosen: WhichServer,
    /// Reports a match in text that is already on the screen.
    pub hints: bool,
}

/// The number of targets that must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Any,
    All,
}

/// The outcome of a target; `None` if its wait was stopped.
pub(super) type Outcome = Result<Option<WaitOutcome>, Failure>;

/// The running waits.
pub(super) struct TargetWaits {
    threads: Vec<Handle<()>>,
    running: StopGuard,
    outcomes: Receiver<(usize, Outcome)>,
}

impl TargetWaits {
    /// Starts all waits.
    pub fn start(waits: Vec<TargetWait>, server: &Server, clock: &Clock) -> Result<Self, Failure> {
        let waiter = Arc::new(Waiter::new(server.clone())?);
        let (running, stop) = stop_pair();
        // Room for all outcomes, so that no thread blocks.
        let (sender, outcomes) = bounded(waits.len().max(1));
        let mut threads = Vec::new();
        for (number, wait) in waits.into_iter().enumerate() {
            let (waiter, server, clock) = (Arc::clone(&waiter), server.clone(), clock.clone());
            let (stop, sender): (Stop, Sender<_>) = (stop.clone(), sender.clone());
            threads.push(spawn("td-wait", move || {
                let outcome = wait.run(&waiter, &server, &stop, &clock);
                drop(waiter);
                // The receiver may be gone at the end of the program.
                let _ = sender.send((number, outcome));
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

impl TargetWait {
    fn run(self, waiter: &Waiter, server: &Server, stop: &Stop, clock: &Clock) -> Outcome {
        let mut wait = self.wait;
        let explained = |error: Error| of_target(error, &self.chosen, self.target.as_str(), clock);
        let mut end_states: Box<dyn FnOnce()> = Box::new(|| {});
        if let Some(condition) = self.state {
            // A watch would wait for a missing target, so a missing target is refused first.
            let exit = Wait::at(self.target.clone()).exit();
            drop(waiter.start_until_stopped(&exit, stop).map_err(explained)?);
            let target = &self.target;
            if let Some(observer) = self.observer {
                let states = StatesOfObserver::start(observer, server, target, condition, clock)?;
                wait = wait.other(states.found.clone());
                end_states = Box::new(move || states.end());
            } else {
                let Some(states) = StateWatch::start(server, target, condition, stop, clock)?
                else {
                    return Ok(None);
                };
                wait = wait.other(states.found.clone());
                end_states = Box::new(move || states.end());
            }
        }
        let ended = (|| {
            let started = waiter.start_until_stopped(&wait, stop);
            let Some(started) = started.map_err(explained)? else {
                return Ok(None);
            };
            if self.hints
                && let Some((pane, line)) = started.already_shown()
            {
                message!(
                    "hint: pane {pane} already shows a match, but only new output counts (see \
                     --include-existing): {line}"
                );
            }
            if let Some(typing) = self.typing.filter(|_| !started.has_ended()) {
                let sent = typing.send(server, &started.panes(), stop, clock);
                sent.map_err(|error| {
                    if error.is_invalid_input() {
                        usage!("--send: {error}")
                    } else {
                        error.into()
                    }
                })?;
            }
            let outcome = started.finish().map_err(explained)?;
            Ok(Some(outcome).filter(|outcome| outcome.end != WaitEnd::Interrupted))
        })();
        end_states();
        ended
    }
}

// `wait --state`: observes the states of the agents in a target with a private watch that keeps no history.
//
// `td-wait-state` blocks on its subscription and ends when a state is met, or when the watch is stopped.

/// Maximum time to detect the first state, which must last for a while before it is reported.
const FIRST_STATE: Duration = Duration::from_secs(3);

/// The time that the start of the watch may take.
const START: Duration = Duration::from_secs(5);

/// The states that end a wait.
#[derive(Clone)]
pub(super) struct StateCondition {
    pub states: Vec<AgentState>,
    pub rules: StateRules,
    pub redact: Rules,
    /// A text is sent: only later events count.
    pub is_sent: bool,
}

/// A watch for states.
pub(super) struct StateWatch {
    engine: Engine,
    thread: Handle<()>,
    /// Receives the match.
    pub found: Receiver<WaitMatch>,
}

impl StateWatch {
    /// Starts the watch. If a text will be sent, waits first until the present state is known, or is unlikely
    /// to exist. Returns `None` after a stop.
    pub fn start(
        server: &Server,
        target: &Target,
        condition: StateCondition,
        stop: &Stop,
        clock: &Clock,
    ) -> Result<Option<Self>, Failure> {
        let mut engine = Builder::new().redact(condition.redact.clone()).start()?;
        let events = engine.subscribe_with(super::live::everything());
        let watch = Watch::new(server.clone())
            .target(target.clone())
            .states(condition.rules.clone())
            .stream(DrainProgram::this()?);
        engine.watch(watch)?;
        let (sender, found) = bounded(1);
        let (unready, ready) = stop_pair();
        let mut observer = StateObserver {
            matcher: StateMatcher::new(condition.states),
            is_sent: condition.is_sent,
            clock: clock.clone(),
        };
        let thread = thread::spawn("td-wait-state", move || {
            let mut events = events;
            if observer.is_sent {
                observer.until_known(&mut events);
            }
            drop(unready);
            observer.run(&mut events, &sender);
        })?;
        let started = Self {
            engine,
            thread,
            found,
        };
        select_biased! {
            recv(stop) -> _ => {
                started.end();
                Ok(None)
            }
            recv(ready) -> _ => Ok(Some(started)),
        }
    }

    /// Ends the watch, which restores the panes' pipes.
    pub fn end(self) {
        let report = self.engine.shutdown();
        super::live::report_problems(report);
        if let Err(panicked) = self.thread.join() {
            super::output::print_message(&panicked.to_string());
        }
    }
}

struct StateObserver {
    matcher: StateMatcher,
    is_sent: bool,
    clock: Clock,
}

impl StateObserver {
    /// Reads events until a state is known or the time is up.
    fn until_known(&mut self, events: &mut Subscription) {
        let mut deadline = self.clock.now() + START;
        while let Ok(Delivery::Event(event)) = events.recv_deadline(deadline) {
            if matches!(event.event, TdEvent::SessionStarted { .. }) {
                deadline = deadline.min(self.clock.now() + FIRST_STATE);
            }
            if self.matcher.note(&event.event).is_some() {
                break;
            }
        }
        self.matcher.sent();
    }

    fn run(&mut self, events: &mut Subscription, found: &Sender<WaitMatch>) {
        loop {
            let met = match events.recv_until(self.matcher.settles_at()) {
                Ok(Delivery::Event(event)) => self.matcher.handle(&event.event, self.clock.now()),
                Ok(Delivery::Lagged { .. }) => None,
                Err(RecvTimeoutError::Timeout) => self.matcher.settled(),
                Err(RecvTimeoutError::Closed) => return,
            };
            if let Some(met) = met {
                // The wait may have ended for another reason.
                let _ = found.try_send(met);
                return;
            }
        }
    }
}

// `wait --state` with the states of a running observer, so that no pane is watched twice.
//
// `td-wait-ask` requests a state from the observer's API and blocks until the API answers, for at most 100
// ms after the end of the wait. If the observer ends first, the thread watches the panes itself. The present
// state of an agent counts, so no state is missed in between.

/// The observer that provides the states.
#[derive(Clone, Debug)]
pub(super) struct ObserverOfStates {
    /// The socket of its API.
    api: PathBuf,
    /// The socket of the tmux server.
    server: PathBuf,
}

impl ObserverOfStates {
    /// Returns the observer of the server. `None` if its answers might differ from a watch by this program:
    /// with a text to send, with the user's own rules for screens, or without redaction.
    pub fn of(
        options: &Options,
        typed: &TypedWait,
        has_own_rules: bool,
    ) -> Result<Option<Self>, Failure> {
        if options.no_log || typed.send.is_some() || has_own_rules || typed.secrets.no_redact {
            return Ok(None);
        }
        let known = observer::running(&options.home()?)?;
        let server = options.server.socket_path();
        let (Some(known), Some(server)) = (known, server) else {
            return Ok(None);
        };
        Ok(known.servers.contains(&server).then_some(Self {
            api: known.socket,
            server,
        }))
    }

    /// Waits for a matching state; `None` if the observer or the wait ends first.
    fn wait(&self, target: &Target, states: &[AgentState], stop: &Stop) -> Option<WaitMatch> {
        let names: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
        let body = json!({"target": target.as_str(), "state": names});
        let server = percent_encoded(&self.server.to_string_lossy());
        let path = format!("/api/v1/wait?socket={server}");
        match post(&self.api, &path, &body, || is_stopped(stop)) {
            Ok(answer) => {
                let outcome: Value = serde_json::from_slice(&answer?.body).ok()?;
                WaitMatch::state_of_json(&outcome)
            }
            Err(error) => {
                log::info!("{error:?}");
                None
            }
        }
    }
}

/// A running request for states to an observer.
pub(super) struct StatesOfObserver {
    running: StopGuard,
    thread: Handle<()>,
    /// Receives the match.
    pub found: Receiver<WaitMatch>,
}

impl StatesOfObserver {
    /// Starts to request the states of a target.
    pub fn start(
        observer: ObserverOfStates,
        server: &Server,
        target: &Target,
        condition: StateCondition,
        clock: &Clock,
    ) -> Result<Self, Failure> {
        let (running, stop) = stop_pair();
        let (sender, found) = bounded(1);
        let (server, target, clock) = (server.clone(), target.clone(), clock.clone());
        let thread = spawn("td-wait-ask", move || {
            match observer.wait(&target, &condition.states, &stop) {
                // The wait may have ended for another reason.
                Some(met) => drop(sender.try_send(met)),
                None if is_stopped(&stop) => {}
                None => watch(&server, &target, condition, (&stop, &sender), &clock),
            }
        })?;
        Ok(Self {
            running,
            thread,
            found,
        })
    }

    /// Ends the request, even if the observer has not answered.
    pub fn end(self) {
        drop(self.running);
        if let Err(panicked) = self.thread.join() {
            print_message(&panicked.to_string());
        }
    }
}

/// Watches for states after the observer has ended.
fn watch(
    server: &Server,
    target: &Target,
    condition: StateCondition,
    (stop, sender): (&Stop, &Sender<WaitMatch>),
    clock: &Clock,
) {
    log::info!("the observer has ended: this program now watches the states itself");
    match StateWatch::start(server, target, condition, stop, clock) {
        Ok(Some(watch)) => {
            select_biased! {
                recv(stop) -> _ => {}
                recv(watch.found) -> met => if let Ok(met) = met {
                    // The wait may have ended for another reason.
                    let _ = sender.try_send(met);
                }
            }
            watch.end();
        }
        Ok(None) => {}
        Err(failure) => print_message(failure.text()),
    }
}
