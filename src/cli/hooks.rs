//! Commands that a watch runs at events, such as the end of a turn or of a session.
//!
//! `td-hooks` blocks on its own subscription and sends commands to a few `td-hook` threads, each of which
//! blocks on one command at a time. Only the end of the program waits for them. They end when the bus is
//! closed and the last command has ended, or when they are stopped.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::Write;
use std::time::{Duration, Instant};

use super::checks::PaneTitles;
use super::failure::Failure;
use super::live;
use super::signals::Signals;
use crate::bus::{Delivery, Filter, RecvTimeoutError, SubscribeOptions, Subscription};
use crate::child::{self, Invocation, event_variables};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::event::{
    AgentState, CompletionReason, Dialogue, Envelope, EventKind, ExecutionId, PaneId,
    SessionEndReason, TdEvent,
};
use crate::thread::{self, Handle, Stop, StopGuard, stop_pair};
use crate::timestamp::Timestamp;
use crossbeam_channel::{Receiver, Sender, bounded, select_biased};

/// Maximum number of waiting commands; further ones are not run, with a warning.
const WAITING_MAX: usize = 256;

/// The delay of a report that a program has ended. If its session ends in this time, one report covers both.
const HOLD: Duration = Duration::from_millis(500);

/// The time within which the present state of a pane is reported: the settle times of screens and titles, and the
/// search for an agent's files.
const READING_TIME: Duration = Duration::from_secs(1);

/// The time that commands may still take after the user has requested the end.
const LAST_SECOND: Duration = Duration::from_secs(1);

/// The fields that the input of `--on-state` commands has in addition to those of the event.
const SESSION: &str = "session";
const TITLE: &str = "title";

/// The commands to run, and their events.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub on_turn: Option<String>,
    pub on_state: Vec<OnState>,
    pub on_end: Option<String>,
    pub timeout: Duration,
    /// The panes that exist at the start. The states in which they are then are no changes.
    pub present: HashSet<PaneId>,
}

impl Config {
    pub fn is_empty(&self) -> bool {
        self.on_turn.is_none() && self.on_state.is_empty() && self.on_end.is_none()
    }
}

/// The commands of one watch.
pub(super) struct Hooks {
    dispatcher: Handle<()>,
    workers: Vec<Handle<()>>,
    running: StopGuard,
    /// The waiting commands.
    queue: Receiver<Invocation>,
    /// Closed when the last command has ended.
    done: Stop,
}

impl Hooks {
    /// Starts the threads if commands are configured. Call it before sources are attached. `titles` contains
    /// the titles of the watched panes.
    pub fn start(
        engine: &Engine,
        config: Config,
        titles: PaneTitles,
        clock: &Clock,
    ) -> Result<Option<Self>, Failure> {
        if config.is_empty() {
            return Ok(None);
        }
        let mut kinds = vec![
            EventKind::SessionStarted,
            EventKind::SessionRenamed,
            EventKind::TurnCompleted,
        ];
        if !config.on_state.is_empty() {
            kinds.extend([EventKind::AgentState, EventKind::PaneOpened]);
        }
        if config.on_end.is_some() {
            kinds.extend([EventKind::SessionEnded, EventKind::OutputUpdate]);
        }
        let events = engine.subscribe_with(SubscribeOptions {
            filter: Filter::all().kinds(kinds),
            ..live::everything()
        });
        let (running, stop) = stop_pair();
        let (alive, done) = stop_pair();
        let (jobs, queue) = bounded(WAITING_MAX);
        let alive = std::sync::Arc::new(alive);
        let mut workers = Vec::new();
        // The number of commands that run at the same time.
        for _ in 0..4 {
            let (queue, clock, stop) = (queue.clone(), clock.clone(), stop.clone());
            let alive = std::sync::Arc::clone(&alive);
            workers.push(thread::spawn("td-hook", move || {
                let _alive = alive;
                work(&queue, &clock, &stop);
            })?);
        }
        let mut dispatcher = Dispatcher {
            config,
            clock: clock.clone(),
            titles,
            jobs,
            names: HashMap::new(),
            panes: HashMap::new(),
            unread: HashMap::new(),
            held: Vec::new(),
        };
        let dispatcher = thread::spawn("td-hooks", move || dispatcher.run(events))?;
        Ok(Some(Self {
            dispatcher,
            workers,
            running,
            queue,
            done,
        }))
    }

    /// Waits for the commands, after the engine's end. After an interrupt, the wait is short.
    pub fn finish(self, interrupted: bool, signals: &Signals, clock: &Clock) {
        if interrupted {
            select_biased! {
                recv(self.done) -> _ => {}
                recv(clock.after(LAST_SECOND)) -> _ => {}
            }
        } else {
            select_biased! {
                recv(self.done) -> _ => {}
                recv(signals.first) -> _ => {}
            }
        }
        drop(self.running);
        for handle in self.workers.into_iter().chain([self.dispatcher]) {
            if let Err(panicked) = handle.join() {
                super::output::print_message(&panicked.to_string());
            }
        }
        match self.queue.len() {
            0 => {}
            1 => message!("--on-turn, --on-state, --on-end: one waiting command was not run"),
            count => {
                message!("--on-turn, --on-state, --on-end: {count} waiting commands were not run")
            }
        }
    }
}

/// Selects the commands to run for each event.
struct Dispatcher {
    config: Config,
    clock: Clock,
    titles: PaneTitles,
    jobs: Sender<Invocation>,
    /// The names of sessions by run and by pane.
    names: HashMap<ExecutionId, String>,
    panes: HashMap<PaneId, String>,
    /// The panes whose present state is not reported yet, with the time at which they came under observation.
    unread: HashMap<PaneId, Timestamp>,
    /// The ends of programs, each with the time at which to report it.
    held: Vec<(Instant, Envelope)>,
}

impl Dispatcher {
    fn run(&mut self, mut events: Subscription) {
        loop {
            let due = self.held.iter().map(|(at, _)| *at).min();
            match events.recv_until(due) {
                Ok(Delivery::Event(event)) => self.handle(event.into_envelope()),
                Ok(Delivery::Lagged { missed }) => {
                    message!("--on-turn, --on-state, --on-end: {missed} events were missed");
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Closed) => break,
            }
            let now = self.clock.now();
            self.report_held(|at| at <= now);
        }
        self.report_held(|_| true);
    }

    fn handle(&mut self, envelope: Envelope) {
        let id = ExecutionId::from(envelope.event.execution_id());
        match &envelope.event {
            TdEvent::SessionStarted { session, panes, .. } => {
                let named = panes.iter().map(|pane| (pane.clone(), session.clone()));
                self.panes.extend(named);
                self.names.insert(id, session.clone());
            }
            TdEvent::SessionRenamed { from, to, .. } => {
                let names = self.names.values_mut().chain(self.panes.values_mut());
                names
                    .filter(|name| *name == from)
                    .for_each(|name| name.clone_from(to));
            }
            TdEvent::TurnCompleted { .. } => {
                if let Some(command) = self.config.on_turn.clone() {
                    self.start("--on-turn", &command, &envelope);
                }
            }
            TdEvent::PaneOpened { pane, .. } if self.config.present.remove(pane) => {
                self.unread.insert(pane.clone(), envelope.ts);
            }
            TdEvent::AgentState { .. } if self.is_present_state(&envelope) => {}
            TdEvent::AgentState { dialogue, .. } if Dialogue::is_again(dialogue.as_deref()) => {}
            TdEvent::AgentState { state, .. } => {
                let is_wanted = |on: &&OnState| on.state.is_none_or(|wanted| *state == wanted);
                let wanted = self.config.on_state.iter().filter(is_wanted);
                let commands: Vec<String> = wanted.map(|on| on.command.clone()).collect();
                if !commands.is_empty() {
                    let named = self.named(envelope);
                    for command in commands {
                        self.start("--on-state", &command, &named);
                    }
                }
            }
            TdEvent::OutputUpdate {
                is_complete: true,
                reason: Some(reason),
                ..
            } if *reason == CompletionReason::Exit => {
                self.held.push((self.clock.now() + HOLD, envelope));
            }
            TdEvent::SessionEnded { reason, .. } if *reason != SessionEndReason::Detached => {
                self.held
                    .retain(|(_, held)| held.event.execution_id() != envelope.event.execution_id());
                self.ended(&envelope);
                self.names.remove(&id);
            }
            _ => {}
        }
    }

    /// Reports the ends of programs whose sessions continue.
    fn report_held(&mut self, is_due: impl Fn(Instant) -> bool) {
        let due: Vec<_> = self.held.extract_if(.., |(at, _)| is_due(*at)).collect();
        for (_, envelope) in due {
            self.ended(&envelope);
        }
    }

    fn ended(&self, envelope: &Envelope) {
        if let Some(command) = &self.config.on_end {
            self.start("--on-end", command, envelope);
        }
    }

    /// Adds the name of the agent's session and the title of its pane, by which users recognize the agent.
    fn named(&self, mut envelope: Envelope) -> Envelope {
        let pane = envelope.event.pane();
        let title = pane.map(|pane| self.titles.of(pane, &self.clock));
        let names = [
            (SESSION, self.session(&envelope.event).cloned()),
            (TITLE, title.filter(|title| !title.is_empty())),
        ];
        for (name, value) in names {
            if let Some(value) = value {
                let extra = envelope.extra.get_or_insert_default();
                extra.event.insert(name.to_owned(), value.into());
            }
        }
        envelope
    }

    /// Returns true for the state in which a pane already was at the start.
    fn is_present_state(&mut self, envelope: &Envelope) -> bool {
        let pane = envelope.event.pane();
        let opened = pane.and_then(|pane| self.unread.remove(pane));
        opened.is_some_and(|opened| {
            let age = envelope.ts.micros().saturating_sub(opened.micros());
            u128::try_from(age).is_ok_and(|age| age <= READING_TIME.as_micros())
        })
    }

    fn session(&self, event: &TdEvent) -> Option<&String> {
        let of_pane = event.pane().and_then(|pane| self.panes.get(pane));
        of_pane.or_else(|| self.names.get(event.execution_id()))
    }

    fn start(&self, option: &str, command: &str, envelope: &Envelope) {
        let mut stdin = match serde_json::to_vec(envelope) {
            Ok(line) => line,
            Err(error) => return message!("{option}: {error}"),
        };
        stdin.push(b'\n');
        let invocation = Invocation {
            program: "sh".into(),
            args: vec!["-c".into(), command.into(), option.into()],
            env: self.variables(envelope),
            directory: ".".into(),
            stdin,
            output_bytes_max: 64 * 1024,
            timeout: self.config.timeout,
        };
        if self.jobs.try_send(invocation).is_err() {
            message!("{option}: {WAITING_MAX} commands are already waiting; this one is not run");
        }
    }

    fn variables(&self, envelope: &Envelope) -> Vec<(OsString, OsString)> {
        let event = &envelope.event;
        let mut fields = serde_json::to_value(event).unwrap_or_default();
        if fields[SESSION].is_null() {
            fields[SESSION] = self.session(event).cloned().into();
        }
        let extra = envelope.extra.as_ref();
        fields[TITLE] = extra
            .and_then(|extra| extra.event.get(TITLE).cloned())
            .into();
        event_variables(&fields)
    }
}

/// Runs waiting commands, one at a time.
fn work(queue: &Receiver<Invocation>, clock: &Clock, stop: &Stop) {
    while !thread::is_stopped(stop)
        && let Ok(invocation) = queue.recv()
    {
        let option = invocation.args[2].to_string_lossy();
        match child::run(&invocation, clock, stop) {
            Ok(finished) => {
                for line in [&finished.stdout, &finished.stderr]
                    .into_iter()
                    .flat_map(|text| text.split(|byte| *byte == b'\n'))
                    .filter(|line| !line.is_empty())
                {
                    show(&option, &String::from_utf8_lossy(line));
                }
                if !finished.status.success() {
                    message!("{option}: the command failed: {}", finished.status);
                }
            }
            Err(error) if error.is_gone() => {
                message!("{option}: the command was stopped");
            }
            Err(error) => message!("{option}: {error}"),
        }
    }
}

/// Prints a line of a command's output on standard error, without control characters.
fn show(option: &str, line: &str) {
    // Without standard error, the line cannot be shown elsewhere.
    let _ = writeln!(
        std::io::stderr(),
        "[{}] {}",
        option.trim_start_matches('-'),
        crate::face::one_line(line)
    );
}

// Parses `--on-state`: a command, and the state of an agent in which it runs.

/// A command given with `--on-state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OnState {
    /// The state in which the command runs; `None` for any state.
    pub state: Option<AgentState>,
    pub command: String,
}

impl OnState {
    pub fn parse(text: &str) -> Result<Self, String> {
        let names = || {
            let names = AgentState::ALL.map(AgentState::as_str);
            format!("write STATE=CMD, STATE one of {}, any", names.join(", "))
        };
        let (state, command) = text.split_once('=').ok_or_else(names)?;
        let state = match state.trim() {
            "any" => None,
            name => Some(AgentState::from_name(name).ok_or_else(names)?),
        };
        if command.trim().is_empty() {
            return Err("the command is empty".to_owned());
        }
        Ok(Self {
            state,
            command: command.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_command_is_run_in_one_state_or_in_any() {
        let parsed = OnState::parse("waiting=notify-send a=b").unwrap();
        assert_eq!(parsed.state, Some(AgentState::Waiting));
        assert_eq!(parsed.command, "notify-send a=b");
        assert_eq!(OnState::parse("any=true").unwrap().state, None);
        for wrong in ["waiting", "asleep=true", "=true", "waiting= "] {
            assert!(OnState::parse(wrong).is_err(), "{wrong}");
        }
    }
}
