//! `td-observe replay`: shows a run as it happened, at its original speed or another.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crossbeam_channel::select_biased;

use super::duration::TimePoint;
use super::failure::Failure;
use super::history::{EarlyEnd, Which, report_problems, until_stopped};
use super::history_args::TypedReplay;
use super::keys::{Keys, TerminalMode};
use super::live;
use super::log_show::{PageOptions, page_options};
use super::options::Options;
use super::signals::Signals;
use crate::clock::Clock;
use crate::history::{Query, ReplayPace};
use crate::thread::{Stop, is_stopped};
use crate::timestamp::Timestamp;

/// Replays the events of a run.
pub(super) fn run(options: &Options, typed: TypedReplay) -> Result<ExitCode, Failure> {
    let terminal = TerminalMode::default();
    let saved_terminal = terminal.clone();
    let signals = Signals::catch(move || saved_terminal.restore())?;
    let clock = Clock::system();
    let which = Which::typed(&typed.run, options)?;
    let query = query(&typed, &which)?;
    let mut pace = ReplayPace::new().speed(typed.speed);
    if let Some(idle_limit) = typed.idle_limit {
        pace = pace.idle_limit(idle_limit);
    }
    let page = page_options(options, false, None, false, &clock);
    let time = clock.clone();
    until_stopped(&signals, &clock, move |stop| {
        play(&which, query, pace, page, terminal, &time, stop)
    })
}

/// Returns the query for the selected part of the run.
fn query(typed: &TypedReplay, which: &Which) -> Result<Query, Failure> {
    let mut query = Query::all();
    let is_off = |point: &Option<TimePoint>| matches!(point, Some(TimePoint::Off(_)));
    let start = match is_off(&typed.from) || is_off(&typed.to) {
        true => which
            .read(Query::all())?
            .next()
            .map(|record| record.envelope.ts),
        false => None,
    };
    let after = |point: TimePoint| match point {
        TimePoint::At(ts) => ts,
        TimePoint::Off(off) => {
            let micros = i64::try_from(off.as_micros()).unwrap_or(i64::MAX);
            let start = start.unwrap_or_default().micros();
            Timestamp::from_micros(start.saturating_add(micros))
        }
    };
    if let Some(from) = typed.from {
        query = super::log::with_context(query.since(after(from)));
    }
    if let Some(to) = typed.to {
        query = query.until(after(to));
    }
    if query.is_empty_span() {
        return Err(usage!("--from is not before --to: the time span is empty"));
    }
    Ok(query)
}

fn play(
    which: &Which,
    query: Query,
    mut pace: ReplayPace,
    page: PageOptions,
    terminal: TerminalMode,
    clock: &Clock,
    stop: &Stop,
) -> Result<ExitCode, EarlyEnd> {
    let mut log = which.read(query)?;
    let is_quiet = page.quiet;
    let mut page = page.open();
    if let Some(session) = which.session() {
        page.note_context(&session);
    }
    let keys = Keys::start(terminal);
    let mut player = Player {
        began: None,
        paused: None,
    };
    for record in &mut log {
        if !record.is_wanted {
            page.note_context(&record.envelope.event);
            continue;
        }
        let due = pace.due(record.envelope.ts);
        if is_stopped(stop) {
            break;
        }
        if player.is_early(due, clock) {
            page.flush()?;
            if !player.wait(due, &keys, clock, stop) {
                break;
            }
        }
        if !is_quiet {
            page.write_record(&record.envelope, record.line())?;
        }
    }
    page.finish()?;
    drop(keys);
    Ok(live::code(report_problems(which, log.report())))
}

/// The position in a replay.
struct Player {
    /// The time at which the replay would have begun without pauses.
    began: Option<Instant>,
    /// The start of the current pause.
    paused: Option<Instant>,
}

impl Player {
    /// Returns true if an event is not due yet.
    fn is_early(&mut self, due: Duration, clock: &Clock) -> bool {
        let began = *self.began.get_or_insert_with(|| clock.now());
        self.paused.is_some() || began.checked_add(due).is_none_or(|at| at > clock.now())
    }

    /// Waits until the event is due. Returns false if the replay must end.
    fn wait(&mut self, due: Duration, keys: &Keys, clock: &Clock, stop: &Stop) -> bool {
        loop {
            let now = clock.now();
            let began = *self.began.get_or_insert(now);
            // `None` for a time beyond the range of the clock, which is never reached.
            let at = began.checked_add(due);
            let timer = match at {
                Some(at) if self.paused.is_none() && at <= now => return true,
                Some(at) if self.paused.is_none() => clock.at(at),
                _ => crossbeam_channel::never(),
            };
            select_biased! {
                recv(stop) -> _ => return false,
                recv(keys.pressed()) -> key => match key {
                    Ok(b' ' | b'p') => {
                        let now = clock.now();
                        self.paused = match self.paused {
                            None => Some(now),
                            // The replay continues at the position of the pause.
                            Some(since) => {
                                self.began = began.checked_add(now - since);
                                None
                            }
                        };
                    }
                    Ok(b'.' | b'n') if self.paused.is_some() => {
                        // Moves the position to this event.
                        let now = clock.now();
                        self.paused = Some(now);
                        self.began = now.checked_sub(due).or(self.began);
                        return true;
                    }
                    Ok(b'q') | Err(_) => return false,
                    Ok(_) => {}
                },
                recv(timer) -> _ => {}
            }
        }
    }
}
