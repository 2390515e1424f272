//! A wait beside an observer: the observer runs it, on the lines that it streams, before they are redacted.
//!
//! `td-wait-ask` asks the observer's API and passes on what it reports, until the API answers or the wait ends. The
//! observer says twice a second that it is alive; if it falls silent or ends, the wait continues by itself, and
//! this thread watches for states.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};
use serde_json::{Value, json};

use super::args::{TypedWait, milliseconds};
use super::private::{PrivateWatch, StateCondition};
use crate::api::{SILENCE, WaitLine, WaitReport, percent_encoded, post_lines};
use crate::cli::failure::Failure;
use crate::cli::observer;
use crate::cli::options::{Options, SourceKind};
use crate::cli::output::print_message;
use crate::clock::Clock;
use crate::thread::{Handle, Stop, StopGuard, is_stopped, spawn, stop_pair};
use crate::tmux::{Server, Target};
use crate::wait::{Lead, WaitMatch};

/// The silence after which the observer is not awaited any more once the timeout of the wait has passed.
const LATE_SILENCE: Duration = Duration::from_millis(700);

/// The observer in which a wait runs.
#[derive(Clone, Debug)]
pub(super) struct LeadingObserver {
    /// The socket of its API.
    api: PathBuf,
    /// The socket of the tmux server.
    server: PathBuf,
    /// The conditions, without the target.
    conditions: Value,
    timeout: Option<Duration>,
    /// The time in which it must begin: half of the timeout is left to the wait by itself. Not before a text is
    /// typed, because the observer knows the question that the text may answer.
    begins_within: Option<Duration>,
    /// It knows the states for which the wait waits.
    pub gives_states: bool,
}

impl LeadingObserver {
    /// Returns the observer of the server. `None` if there is none, if its answers might differ from those of
    /// this program (without redaction), or if the wait needs nothing that the observer streams.
    pub fn of(
        options: &Options,
        typed: &TypedWait,
        has_own_rules: bool,
    ) -> Result<Option<Self>, Failure> {
        // With a text to send, or with the user's own rules for screens, states are observed here.
        let gives_states = !typed.state.is_empty() && typed.send.is_none() && !has_own_rules;
        let needs_lines = typed.turn
            || typed.idle.is_some()
            || ![&typed.text, &typed.regex, &typed.stop]
                .iter()
                .all(|patterns| patterns.is_empty());
        if options.no_log
            || typed.secrets.no_redact
            || typed.source == SourceKind::Poll
            || !gives_states && !needs_lines
        {
            return Ok(None);
        }
        let known = observer::running(&options.home()?)?;
        let server = options.server.socket_path();
        let (Some(known), Some(server)) = (known, server) else {
            return Ok(None);
        };
        if !known.servers.contains(&server) {
            return Ok(None);
        }
        // A channel is awaited here, because its signal reaches one of several waits only.
        let conditions = typed.conditions([
            (
                "timeout_ms",
                typed.timeout.map(|time| json!(milliseconds(time))),
            ),
            ("sent", typed.send.as_ref().map(|text| json!(text))),
            ("state", gives_states.then(|| json!(typed.state))),
        ]);
        Ok(Some(Self {
            api: known.socket,
            server,
            conditions,
            timeout: typed.timeout,
            begins_within: (typed.timeout.filter(|_| typed.send.is_none())).map(|time| time / 2),
            gives_states,
        }))
    }
}

/// A running question to the observer.
pub(super) struct Ask {
    running: StopGuard,
    thread: Handle<()>,
    /// Receives a message when the observer has begun to wait, or has refused to. Closed when it does not answer.
    begun: Receiver<()>,
    /// Receives what the observer reports. Closed when nothing more comes from it.
    pub reports: Receiver<Lead>,
}

impl Ask {
    /// Asks the observer. If it does not answer, the thread watches for states, if there is a condition.
    pub fn start(
        observer: LeadingObserver,
        (server, target): (&Server, &Target),
        states: Option<(StateCondition, Sender<WaitMatch>)>,
        clock: &Clock,
    ) -> Result<Self, Failure> {
        let (running, stop) = stop_pair();
        let (answered, begun) = bounded(1);
        // A loss and the outcome.
        let (sender, reports) = bounded(2);
        let (server, target, clock) = (server.clone(), target.clone(), clock.clone());
        let thread = spawn("td-wait-ask", move || {
            let is_over = ask(&observer, &target, (answered, sender), (&stop, &clock));
            let states = states.filter(|_| !is_over);
            if let Some((condition, found)) = states.filter(|_| !is_stopped(&stop)) {
                watch((&server, &target), condition, (&stop, &found), &clock);
            }
        })?;
        Ok(Self {
            running,
            thread,
            begun,
            reports,
        })
    }

    /// Waits until the observer has begun to wait. Returns false if it does not answer.
    pub fn begun(&self, stop: &Stop) -> bool {
        select_biased! {
            recv(self.begun) -> begun => begun.is_ok(),
            recv(stop) -> _ => true,
        }
    }

    /// Ends the question, even if the observer has not answered.
    pub fn end(self) {
        drop((self.running, self.reports));
        if let Err(panicked) = self.thread.join() {
            print_message(&panicked.to_string());
        }
    }
}

/// Asks the observer, and passes on what it reports. Returns true if the time of the wait is over.
fn ask(
    observer: &LeadingObserver,
    target: &Target,
    (begun, reports): (Sender<()>, Sender<Lead>),
    (stop, clock): (&Stop, &Clock),
) -> bool {
    let mut body = observer.conditions.clone();
    body["target"] = json!(target.as_str());
    let server = percent_encoded(&observer.server.to_string_lossy());
    let path = format!("/api/v1/wait?socket={server}");
    let asked_at = clock.now();
    let has_passed = |time: Duration, since| clock.now().saturating_duration_since(since) >= time;
    let say_begun = || {
        // Once is enough.
        let _ = begun.try_send(());
    };
    let heard_at = Cell::new(None);
    let is_over = || {
        let timeout = observer.timeout;
        timeout.is_some_and(|timeout| has_passed(timeout, asked_at))
    };
    let is_late = || match heard_at.get() {
        None => (observer.begins_within).is_some_and(|time| has_passed(time, asked_at)),
        Some(at) => is_over() && has_passed(LATE_SILENCE, at),
    };
    let on_line = |line: &[u8]| {
        heard_at.set(Some(clock.now()));
        match WaitLine::parse(line) {
            Some(WaitLine::Report(WaitReport::Begun)) => say_begun(),
            Some(WaitLine::Report(WaitReport::LostLines)) => {
                drop(reports.try_send(Lead::LostLines));
            }
            // The wait may have ended for another reason.
            Some(WaitLine::Outcome(outcome)) => drop(reports.try_send(Lead::Outcome(outcome))),
            Some(WaitLine::Refusal(why)) => log::info!("the observer refuses the wait: {why}"),
            Some(WaitLine::Report(WaitReport::Alive)) | None => {}
        }
    };
    let answered = post_lines(
        (&observer.api, &path),
        &body,
        (SILENCE, clock),
        || is_stopped(stop) || is_late(),
        on_line,
    );
    if let Err(error) = answered {
        log::info!("{error:?}");
    }
    if heard_at.get().is_some() {
        // A refusal, perhaps.
        say_begun();
    }
    is_over()
}

/// Watches for states after the observer has ended.
fn watch(
    (server, target): (&Server, &Target),
    condition: StateCondition,
    (stop, sender): (&Stop, &Sender<WaitMatch>),
    clock: &Clock,
) {
    log::info!("the observer does not answer: this program now watches the states itself");
    match PrivateWatch::start(
        (server, target, SourceKind::Auto),
        Some(condition),
        stop,
        clock,
    ) {
        Ok(Some(watch)) => {
            let found = watch.found().unwrap_or_else(crossbeam_channel::never);
            select_biased! {
                recv(stop) -> _ => {}
                recv(found) -> met => if let Ok(met) = met {
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
