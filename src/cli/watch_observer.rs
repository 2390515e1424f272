//! `td-observe watch` with a running observer: shows the observer's events, and observes nothing itself.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crossbeam_channel::{bounded, select_biased};

use super::failure::Failure;
use super::live;
use super::log_follow::Absence;
use super::observer;
use super::options::Options;
use super::signals::Signals;
use super::watch_filter::EventFilter;
use crate::agent::StateRules;
use crate::api::{EventReader, EventSource, Unavailable, get, get_board, percent_encoded};
use crate::board::{ExecutionKind, Row};
use crate::bus::{Delivery, RecvTimeoutError};
use crate::clock::Clock;
use crate::event::ExecutionId;
use crate::face::Printer;
use crate::feed::Next;
use crate::history::{DataDir, parse_line};
use crate::thread::{Stop, is_stopped, park, stop_pair};
use crate::tmux::Target;

/// The pause between two attempts to reach the observer.
const RETRY: Duration = Duration::from_millis(100);

/// The interval at which the printer checks whether it must end.
const CHECK: Duration = Duration::from_millis(200);

/// The part of the observer's events to show.
pub(super) struct EventSelection {
    pub reader: EventReader,
    /// The socket of the tmux server.
    pub socket: PathBuf,
    pub targets: Vec<Target>,
    pub states: Option<StateRules>,
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
    let data = DataDir::new(options.home()?);
    let mut deliveries = ObserverEvents {
        reader: selection.reader,
        filter: EventFilter::new(
            data.clone(),
            (options.server.server(), selection.socket),
            selection.targets,
            clock.clone(),
        ),
        data,
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
        while !is_over && signals.first().is_empty() {
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
        recv(signals.first()) -> _ => interrupted = true,
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
    filter: EventFilter,
    data: DataDir,
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
        let is_open = |row: &&Row| row.kind == ExecutionKind::Pane && !row.has_ended();
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
        if let Ok(Some(known)) = observer::running(self.data.path()) {
            self.reader.socket = known.socket;
        }
        park(Some(RETRY));
    }
}
