//! `td-observe watch` with a running observer: shows the events of the observer that belong to the targets, and
//! observes nothing itself.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crossbeam_channel::{bounded, select_biased};

use super::checks::ANSWER_TIMEOUT;
use super::failure::Failure;
use super::log::Absence;
use super::options::Options;
use super::signals::Signals;
use super::{live, observer};
use crate::agent::StateRules;
use crate::api::{EventReader, EventSource, Unavailable, get, get_board, percent_encoded};
use crate::board::{ExecutionKind, Row};
use crate::bus::{Delivery, RecvTimeoutError};
use crate::clock::Clock;
use crate::event::{Envelope, ExecutionId, PaneId, TdEvent};
use crate::face::Printer;
use crate::feed::Next;
use crate::history::{DataDir, parse_line};
use crate::thread::{Stop, is_stopped, park, stop_pair};
use crate::tmux::{Listing, Server, Target};

/// The pause between two attempts to reach the observer.
const RETRY: Duration = Duration::from_millis(100);

/// The interval at which the printer checks whether it must end.
const CHECK: Duration = Duration::from_millis(200);

/// The part of the observer's events to show.
pub(super) struct EventSelection {
    pub reader: EventReader,
    pub filter: Box<dyn SelectEvents>,
    pub states: Option<StateRules>,
}

/// Selects the events of targets.
pub(super) trait SelectEvents: Send {
    /// Returns true if the event belongs to a target.
    fn selects(&mut self, envelope: &Envelope) -> bool;

    /// Keeps the events of a session's past that belong to a target and name what is there now.
    fn keep_present(&mut self, past: &mut Vec<Envelope>);

    /// Returns true if all targets have ended.
    fn is_over(&self) -> bool;
}

/// Shows the events of an observer until the targets have ended or a signal arrives.
pub(super) fn run(
    options: &Options,
    selection: EventSelection,
    signals: &Signals,
    clock: &Clock,
) -> Result<ExitCode, Failure> {
    let (running, stop) = stop_pair();
    let (end, ended) = bounded(1);
    let mut deliveries = ObserverEvents {
        reader: selection.reader,
        filter: selection.filter,
        data: options.home()?,
        pending: VecDeque::new(),
        context: None,
        absence: Absence::default(),
        stop,
        _end: end,
        clock: clock.clone(),
    };
    if options.quiet {
        // The command shows nothing, but ends with its targets, too.
        let mut is_over = false;
        while !is_over && signals.first.is_empty() {
            let next = deliveries.next(Some(clock.now() + CHECK));
            is_over = matches!(next, Err(RecvTimeoutError::Closed));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let renderer = live::renderer(options, selection.states);
    let next = move |deadline| deliveries.next(deadline);
    let printing = Printer::start(next, renderer, clock.clone())?;
    let mut interrupted = false;
    select_biased! {
        recv(signals.first) -> _ => interrupted = true,
        recv(printing.ended()) -> _ => {}
        recv(ended) -> _ => {}
    }
    drop(running);
    let failed = live::finish_printing(printing, interrupted, signals, clock);
    Ok(live::code(failed))
}

/// Reads the observer's events as deliveries for the printer.
struct ObserverEvents {
    reader: EventReader,
    filter: Box<dyn SelectEvents>,
    data: PathBuf,
    pending: VecDeque<Delivery>,
    /// The runs and numbers of the queued events that name the existing sessions and panes, once they are known.
    context: Option<HashSet<(ExecutionId, Option<u64>)>>,
    absence: Absence,
    stop: Stop,
    /// Closed with the printer.
    _end: crossbeam_channel::Sender<()>,
    clock: Clock,
}

impl ObserverEvents {
    fn next(&mut self, deadline: Option<Instant>) -> Result<Delivery, RecvTimeoutError> {
        loop {
            if let Some(delivery) = self.pending.pop_front() {
                return Ok(delivery);
            }
            if is_stopped(&self.stop) || self.filter.is_over() {
                return Err(RecvTimeoutError::Closed);
            }
            if self.context.is_none() && self.queue_context() {
                continue;
            }
            let now = self.clock.now();
            let until = deadline.unwrap_or(now + CHECK).min(now + CHECK);
            match self.reader.next(until) {
                Ok(Next::Missed(missed)) => return Ok(Delivery::Lagged { missed }),
                Ok(Next::Event(envelope)) => {
                    self.absence.end();
                    let is_queued = self.context.as_ref().is_some_and(|context| {
                        context.contains(&(envelope.event.execution_id().into(), envelope.seq))
                    });
                    if self.filter.selects(&envelope) && !is_queued {
                        return Ok(Delivery::Event(envelope));
                    }
                }
                Ok(Next::End) => return Err(RecvTimeoutError::Closed),
                Ok(Next::Timeout) => {
                    self.absence.end();
                    if deadline.is_some_and(|deadline| self.clock.now() >= deadline) {
                        return Err(RecvTimeoutError::Timeout);
                    }
                }
                Err(Unavailable::Refused(why)) => {
                    message!("the observer refuses the request: {why}");
                    return Err(RecvTimeoutError::Closed);
                }
                Err(Unavailable::Broken(cause)) => {
                    log::debug!("the observer is gone: {cause}");
                    self.find_another();
                }
            }
        }
    }

    /// Queues the events that name the existing sessions and panes, once the observer answers.
    fn queue_context(&mut self) -> bool {
        let board = get_board(&self.reader.socket, None, Duration::ZERO);
        let Ok(Some((rows, _))) = board else {
            return false;
        };
        let is_open = |row: &&Row| row.kind == ExecutionKind::Pane && row.is_observed();
        let open = rows.iter().filter(is_open);
        let executions: BTreeSet<&ExecutionId> = open.map(|row| &row.execution_id).collect();
        let context = self.context.get_or_insert_default();
        for execution in executions {
            let path = format!(
                "/api/v1/runs/{}/events?type=SessionStarted,SessionRenamed,PaneOpened",
                percent_encoded(execution)
            );
            let Ok(answer) = get(&self.reader.socket, &path, None, Duration::ZERO) else {
                continue;
            };
            let lines = answer.body.split(|byte| *byte == b'\n');
            let mut past = lines.filter_map(|line| parse_line(line).ok()).collect();
            self.filter.keep_present(&mut past);
            for envelope in past {
                context.insert((execution.clone(), envelope.seq));
                self.pending.push_back(Delivery::Event(envelope.into()));
            }
        }
        true
    }

    /// Searches for the next observer after the previous one has ended.
    fn find_another(&mut self) {
        self.absence.begin(self.clock.now());
        if let Ok(Some(known)) = observer::running(&self.data) {
            self.reader.socket = known.socket;
        }
        park(Some(RETRY));
    }
}

/// Selects the events of the targets.
pub(super) struct EventFilter {
    data: DataDir,
    server: Server,
    /// The socket of the tmux server.
    socket: String,
    targets: Vec<WantedTarget>,
    /// The pane whose events are not shown.
    left_out: Option<PaneId>,
    /// The name of the session of each execution; `None` if it is not a session of this server.
    executions: HashMap<String, Option<String>>,
    clock: Clock,
}

/// A target and its panes when it was found.
struct WantedTarget {
    target: Target,
    panes: TargetPanes,
}

/// The panes of a target.
#[derive(Debug, PartialEq, Eq)]
enum TargetPanes {
    /// A target that may name a part of a session and does not exist yet.
    Unknown,
    /// All panes of the session with this name.
    Session(String),
    /// These panes, until they are closed. As without an observer, later panes of the same window are not
    /// included.
    Fixed(Vec<PaneId>),
    Ended,
}

impl EventFilter {
    pub fn new(
        data: DataDir,
        (server, socket): (Server, PathBuf),
        targets: Vec<Target>,
        clock: Clock,
    ) -> Self {
        let targets = targets.into_iter().map(|target| {
            let panes = match target.pane() {
                Some(pane) => TargetPanes::Fixed(vec![pane]),
                None if target.as_str().contains([':', '@', '$', '.']) => TargetPanes::Unknown,
                None => TargetPanes::Session(target.as_str().to_owned()),
            };
            WantedTarget { target, panes }
        });
        let mut filter = Self {
            data,
            server: server.with_timeout(ANSWER_TIMEOUT),
            socket: socket.to_string_lossy().into_owned(),
            targets: targets.collect(),
            left_out: None,
            executions: HashMap::new(),
            clock,
        };
        filter.find();
        filter
    }

    /// Leaves out the events of a pane.
    pub fn without(mut self, pane: Option<PaneId>) -> Self {
        self.left_out = pane;
        self
    }

    /// Finds the panes of targets that did not exist before.
    fn find(&mut self) {
        let is_unknown = |wanted: &WantedTarget| wanted.panes == TargetPanes::Unknown;
        if !self.targets.iter().any(is_unknown) {
            return;
        }
        match Listing::fetch(&self.server, &self.clock) {
            Ok(listing) => {
                for wanted in self.targets.iter_mut().filter(|wanted| is_unknown(wanted)) {
                    wanted.find(&listing);
                }
            }
            // Retried at the next session or pane.
            Err(error) => log::debug!("{error}"),
        }
    }

    /// Returns the name of the event's session, which is its new one after a rename; `None` if the session is
    /// not one of this server.
    fn session_after(&mut self, event: &TdEvent) -> Option<String> {
        let execution = event.execution_id();
        if !self.executions.contains_key(execution) {
            let session = self.session_of(execution);
            self.executions.insert(execution.to_owned(), session);
        }
        let session = self.executions.get_mut(execution)?.as_mut()?;
        match event {
            TdEvent::SessionStarted { session: name, .. } => session.clone_from(name),
            TdEvent::SessionRenamed { to, .. } => session.clone_from(to),
            _ => {}
        }
        Some(session.clone())
    }

    /// Returns true if an event of this session belongs to a target.
    fn takes(&mut self, event: &TdEvent, session: &str) -> bool {
        let mut is_taken = false;
        for wanted in &mut self.targets {
            is_taken |= wanted.takes(event, session);
        }
        is_taken
    }

    fn session_of(&self, execution: &str) -> Option<String> {
        let metadata = self.data.run(&execution.into()).metadata().ok().flatten()?;
        let identity = metadata.identity?;
        (identity.socket == self.socket).then_some(metadata.label)
    }
}

impl SelectEvents for EventFilter {
    fn selects(&mut self, envelope: &Envelope) -> bool {
        let event = &envelope.event;
        let Some(session) = self.session_after(event) else {
            return false;
        };
        let is_left_out = self.left_out.is_some() && event.pane() == self.left_out.as_ref();
        if self.targets.is_empty() {
            return !is_left_out;
        }
        if matches!(
            event,
            TdEvent::SessionStarted { .. } | TdEvent::PaneOpened { .. }
        ) {
            self.find();
        }
        self.takes(event, &session) && !is_left_out
    }

    /// A target names the session by its present name.
    fn keep_present(&mut self, past: &mut Vec<Envelope>) {
        // The starts before the last one are those of earlier observers.
        let is_start =
            |envelope: &Envelope| matches!(envelope.event, TdEvent::SessionStarted { .. });
        past.drain(..past.iter().rposition(is_start).unwrap_or(0));
        let mut session = None;
        for envelope in past.iter() {
            session = self.session_after(&envelope.event);
        }
        let Some(session) = session else {
            past.clear();
            return;
        };
        if self.targets.is_empty() {
            return;
        }
        // A target that is a former name does not follow a past rename.
        let is_rename = |event: &TdEvent| matches!(event, TdEvent::SessionRenamed { .. });
        let has_target = (past.iter())
            .any(|Envelope { event, .. }| !is_rename(event) && self.takes(event, &session));
        // These two name the session, also of a pane that was opened later.
        past.retain(|Envelope { event, .. }| match event {
            TdEvent::SessionStarted { .. } | TdEvent::SessionRenamed { .. } => has_target,
            _ => self.takes(event, &session),
        });
    }

    fn is_over(&self) -> bool {
        let has_ended = |wanted: &WantedTarget| wanted.panes == TargetPanes::Ended;
        !self.targets.is_empty() && self.targets.iter().all(has_ended)
    }
}

impl WantedTarget {
    /// Updates the panes from a listing, if the target exists.
    fn find(&mut self, listing: &Listing) {
        let found = self.target.resolve(listing);
        let Some(first) = found.first() else { return };
        self.panes = if self.target.may_be_part(listing) {
            TargetPanes::Fixed(found.into_iter().map(|state| state.pane()).collect())
        } else {
            TargetPanes::Session(first.session_name.clone())
        };
    }

    /// Returns true if an event of this session belongs to the target. Also records the target's end.
    fn takes(&mut self, event: &TdEvent, session: &str) -> bool {
        match &mut self.panes {
            TargetPanes::Unknown | TargetPanes::Ended => false,
            TargetPanes::Session(name) => {
                if let TdEvent::SessionRenamed { from, to, .. } = event
                    && name == from
                {
                    name.clone_from(to);
                }
                let is_taken = name == session;
                if is_taken && matches!(event, TdEvent::SessionEnded { .. }) {
                    self.panes = TargetPanes::Ended;
                }
                is_taken
            }
            TargetPanes::Fixed(panes) => {
                if let TdEvent::SessionStarted { panes: of, .. } = event {
                    return panes.iter().any(|pane| of.contains(pane));
                }
                let Some(at) = panes.iter().position(|pane| Some(pane) == event.pane()) else {
                    return false;
                };
                if matches!(event, TdEvent::PaneClosed { .. }) {
                    panes.swap_remove(at);
                    if panes.is_empty() {
                        self.panes = TargetPanes::Ended;
                    }
                }
                true
            }
        }
    }
}
