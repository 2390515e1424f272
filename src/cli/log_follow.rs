//! `log --follow`: shows logs and everything that is appended to them, until their writers end. A run that a
//! background observer leaves is followed further when the next observer continues it.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossbeam_channel::select_biased;

use super::history::{EarlyEnd, Which, report_problems};
use super::log_observers::Observers;
use super::log_show::{Selection, Show};
use crate::clock::Clock;
use crate::history::{DataDir, Follower, LogRecord, Query, RunState};
use crate::thread::{Stop, is_stopped};

/// The poll interval of a followed log: fast enough for a reader, and cheap for the disk.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);

/// The interval of the search for new runs.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of records of several runs that are sorted at a time.
const SORTED_MAX: usize = 10_000;

/// The logs to follow.
pub(super) struct Following {
    /// The data directory, whose observer may continue runs.
    pub data: PathBuf,
    pub whiches: Vec<Which>,
    /// The directory and the selection for runs that begin later.
    pub later: Option<(DataDir, Selection)>,
    pub query: Query,
}

/// A run that is followed.
struct Followed {
    which: Which,
    log: Follower,
    /// The number of the last event shown.
    seq: u64,
    /// The run's observer has ended, and the next one may continue the run.
    was_left: bool,
}

/// Follows logs to their ends; returns true if a part cannot be read.
pub(super) fn follow(
    following: Following,
    show: &mut Show,
    clock: &Clock,
    stop: &Stop,
) -> Result<bool, EarlyEnd> {
    let Following {
        data,
        whiches,
        later,
        query,
    } = following;
    let mut observers = Observers::of(data);
    observers.check(false, clock.now());
    show.open_stream()?;
    let mut has_failed = false;
    let mut known: HashSet<PathBuf> = whiches.iter().map(|which| which.path().into()).collect();
    let is_single = whiches.len() == 1 && later.is_none();
    let mut followed = match is_single {
        true => begin_all(
            whiches.into_iter().map(|which| (which, 0)),
            &query,
            show,
            stop,
        )?,
        false => {
            // Checked before reading, so that a run that ends meanwhile is also read to its end.
            let written: Vec<bool> = whiches.iter().map(Which::is_written).collect();
            let mut seqs = vec![0; whiches.len()];
            let mut note = |number: usize, record: &LogRecord| {
                seqs[number] = record.envelope.seq.unwrap_or(0).max(seqs[number]);
            };
            has_failed = show.merged(&whiches, query.clone(), stop, &mut note)?;
            let numbered = whiches.into_iter().zip(seqs).zip(written);
            let written = numbered.filter(|(_, is_written)| *is_written);
            begin_all(written.map(|(numbered, _)| numbered), &query, show, stop)?
        }
    };
    let mut searched_at = clock.now();
    let mut is_first = true;
    loop {
        let unwritten = read_on(&mut followed, show, stop)?;
        observers.check(unwritten.iter().any(|run| run.was_left), clock.now());
        for mut ended in unwritten {
            ended.was_left = match &ended.which {
                Which::Run(run) => observers.may_continue(run, clock.now()),
                Which::File(_) => false,
            };
            if ended.was_left {
                followed.push(ended);
                continue;
            }
            if is_single {
                report_cut_off(&ended.which, stop);
            }
            has_failed |= report_problems(&ended.which, ended.log.report());
        }
        match std::mem::take(&mut is_first) {
            true => show.page().flushed()?.release()?,
            false => show.page().flush()?,
        }
        if is_stopped(stop) || followed.is_empty() && later.is_none() {
            break;
        }
        if let Some((data, selection)) = &later
            && is_due(&mut searched_at, clock)
        {
            let runs = selection.runs_in(data)?;
            let new = runs
                .into_iter()
                .filter(|run| known.insert(run.path().into()));
            let new = new.map(|run| (Which::Run(run), 0));
            followed.extend(begin_all(new, &query, show, stop)?);
        }
        select_biased! {
            recv(stop) -> _ => break,
            recv(clock.after(FOLLOW_INTERVAL)) -> _ => {}
        }
    }
    show.finish()?;
    Ok(has_failed)
}

fn is_due(searched_at: &mut Instant, clock: &Clock) -> bool {
    let now = clock.now();
    let is_due = now.saturating_duration_since(*searched_at) >= SEARCH_INTERVAL;
    if is_due {
        *searched_at = now;
    }
    is_due
}

/// Starts to follow runs, each after the event with this number.
fn begin_all(
    numbered: impl Iterator<Item = (Which, u64)>,
    query: &Query,
    show: &mut Show,
    stop: &Stop,
) -> Result<Vec<Followed>, EarlyEnd> {
    let mut followed = Vec::new();
    for (which, seq) in numbered {
        let Which::Run(run) = &which else {
            continue;
        };
        let log = Follower::open(run, query.clone())?;
        show.begin(&which, stop)?;
        followed.push(Followed {
            which,
            log,
            seq,
            was_left: false,
        });
    }
    Ok(followed)
}

/// Shows appended events, and returns the runs without a writer.
fn read_on(
    followed: &mut Vec<Followed>,
    show: &mut Show,
    stop: &Stop,
) -> Result<Vec<Followed>, EarlyEnd> {
    // Checked before reading, so that everything that an ended writer wrote is read.
    let mut written = Vec::new();
    for run in followed.iter() {
        written.push(run.log.is_written()?);
    }
    let is_single = followed.len() == 1;
    let mut is_unread = true;
    while is_unread && !is_stopped(stop) {
        is_unread = false;
        let mut records: Vec<LogRecord> = Vec::new();
        for run in followed.iter_mut() {
            while let Some(record) = run.log.next()? {
                if is_stopped(stop) {
                    break;
                }
                let is_shown = record.envelope.seq.is_some_and(|seq| seq <= run.seq);
                if is_shown && run.seq > 0 {
                    continue;
                }
                if is_single {
                    show.record(&record)?;
                    continue;
                }
                records.push(record);
                if records.len() >= SORTED_MAX {
                    is_unread = true;
                    break;
                }
            }
        }
        // A stable sort: the events of a run keep their order.
        records.sort_by_key(|record| record.envelope.ts);
        for record in &records {
            show.record(record)?;
        }
    }
    let mut written = written.into_iter();
    let is_over = |_: &mut Followed| written.next() == Some(false);
    Ok(followed.extract_if(.., is_over).collect())
}

fn report_cut_off(which: &Which, stop: &Stop) {
    let Which::Run(run) = which else {
        return;
    };
    let state = run.metadata().ok().flatten().map(|known| known.state);
    if state == Some(RunState::Running) && !is_stopped(stop) {
        message!("the run is cut off here: its writer has died");
    }
}
