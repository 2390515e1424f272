//! The pass over the histories: one thread for each core takes run after run, and folds it.
//!
//! The threads `td-report-N` block on the disk, and on the threads of the reader of a large log. They end when all runs
//! are read, or when the report is stopped. Memory does not grow with the size of the histories: a thread keeps the
//! blocks of one log, and the figures of each run.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::build::{BuiltRow, ReadRun, ReportBuilder};
use super::conversations::by_file;
use super::fold::{RunFold, query};
use super::last_lines::lines_before;
use super::model::{Reason, Report, RowReport};
use super::tally::Span;
use super::text::Texts;
use super::transcript::add_transcript;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::face::LocalTime;
use crate::feed::RunEnds;
use crate::history::{DataDir, LogReader, RunList, RunSummary, host};
use crate::thread::{self, Stop, is_stopped};
use crate::timestamp::Timestamp;

/// The most threads: more are limited by the disk, and each has the blocks of a log in memory.
const THREADS_MAX: usize = 4;

/// The most runs that cannot be read at all that a report names.
const PROBLEMS_MAX: usize = 100;

/// The most failures whose last lines a report has, because each is read from the middle of a log.
const LINES_OF_MAX: usize = 100;

/// The most failed jobs of a row whose last lines a report has: the last ones.
const JOBS_WITH_LINES: usize = 5;

/// Counts the bytes on the disk that are read, and says when to stop.
#[derive(Clone, Debug)]
pub(crate) struct PassProgress {
    pub counter: Arc<AtomicU64>,
    pub stop: Stop,
}

impl PassProgress {
    fn is_stopped(&self) -> bool {
        is_stopped(&self.stop)
    }
}

/// What a report covers.
#[derive(Clone, Debug)]
pub(crate) struct ReportQuery {
    pub since: Timestamp,
    pub until: Timestamp,
    pub texts: Texts,
}

/// Reads the histories of these runs, and reports on them; `None` if it was stopped.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn read_report(
    data: &DataDir,
    RunList { runs, problems }: RunList,
    query: &ReportQuery,
    clock: &Clock,
    progress: &PassProgress,
) -> Result<Option<Report>> {
    let span = Span {
        since: query.since,
        until: query.until,
    };
    let mut read = read_runs(runs, span, &query.texts, progress)?;
    if progress.is_stopped() {
        return Ok(None);
    }
    let mut ends = RunEnds::new(clock);
    for run in &mut read {
        // What happened after the span is not known yet within it.
        if run.summary.last_event < span.until {
            run.fold.states.settle(span.until.min(clock.wall()));
            run.observed = run.fold.observed();
            ends.apply(&mut run.fold.states, &run.summary);
            run.fold.end(&run.summary);
        }
    }
    let mut builder = ReportBuilder {
        span,
        texts: &query.texts,
        local: LocalTime::of_system(),
    };
    let (mut report, mut rows) = builder.build(read);
    let problems = problems.iter().take(PROBLEMS_MAX);
    let problems = problems.filter_map(|error| query.texts.take(&format!("{error:?}")));
    report.problems.extend(problems);
    let mut lines = LINES_OF_MAX;
    for row in &mut rows {
        add_lines(row, data, query, progress, &mut lines);
    }
    add_transcripts(&mut rows, &mut report, (span, query), progress);
    let rows: Vec<RowReport> = rows.into_iter().map(|row| row.report).collect();
    Ok((!progress.is_stopped()).then(|| builder.finish(report, rows)))
}

/// Adds what the agents' own files have beyond the logs, each file to the row that had its conversation last.
fn add_transcripts(
    rows: &mut [BuiltRow],
    report: &mut Report,
    (span, query): (Span, &ReportQuery),
    progress: &PassProgress,
) {
    let files = by_file(rows.iter().map(|row| row.conversations.as_slice()));
    for (owner, conversation) in files.into_values() {
        let Some(row) = rows.get_mut(owner).map(|row| &mut row.report) else {
            continue;
        };
        let is_stopped = || progress.is_stopped();
        match add_transcript(row, &conversation, (span, &query.texts), &is_stopped) {
            Ok(()) => {}
            // Agents and users remove old conversations.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let problem = format!("cannot read {:?}: {error}", conversation.file);
                report.problems.extend(query.texts.take(&problem));
            }
        }
    }
}

/// Adds the last lines of what failed in a row, while there is room in the report for them.
fn add_lines(
    row: &mut BuiltRow,
    data: &DataDir,
    query: &ReportQuery,
    progress: &PassProgress,
    room: &mut usize,
) {
    let run = data.run(&row.key.execution_id);
    let pane = row.key.part.as_deref();
    let mut lines_before = |seq: u64| {
        *room = room.checked_sub(1)?;
        let is_stopped = || progress.is_stopped();
        Some(lines_before(&run, seq, pane, &query.texts, &is_stopped))
    };
    let is_failure = matches!(
        row.report.end.reason,
        Reason::Failed | Reason::Killed | Reason::TimedOut
    );
    if let Some(seq) = row.last_seq.filter(|_| is_failure) {
        row.report.end.lines = lines_before(seq).unwrap_or_default();
    }
    let jobs = row.report.jobs.items.iter_mut().zip(&row.failed_at);
    for (job, seq) in jobs.rev().take(JOBS_WITH_LINES) {
        job.lines = lines_before(*seq).unwrap_or_default();
    }
}

fn read_runs(
    runs: Vec<RunSummary>,
    span: Span,
    texts: &Texts,
    progress: &PassProgress,
) -> Result<Vec<ReadRun>> {
    let count = thread::cores().clamp(1, THREADS_MAX).min(runs.len().max(1));
    let (runs, next) = (Arc::new(runs), Arc::new(AtomicUsize::new(0)));
    let mut threads = Vec::new();
    for number in 0..count {
        let (runs, next, texts) = (Arc::clone(&runs), Arc::clone(&next), texts.clone());
        let progress = progress.clone();
        let read_all = move || {
            let mut read = Vec::new();
            while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                if progress.is_stopped() {
                    break;
                }
                read.push(read_run(run, span, &texts, &progress));
            }
            read
        };
        threads.push(thread::spawn(format!("td-report-{number}"), read_all)?);
    }
    let mut read = Vec::new();
    for thread in threads {
        let done = thread.join();
        let failed = |panicked| Error::other("cannot read the histories").because(panicked);
        read.extend(done.map_err(failed)?);
    }
    read.sort_by(|a, b| {
        let place = |run: &ReadRun| (run.summary.started, run.summary.execution_id.to_string());
        place(a).cmp(&place(b))
    });
    Ok(read)
}

/// Reads a run. What cannot be read of it is a problem of it.
fn read_run(summary: &RunSummary, span: Span, texts: &Texts, progress: &PassProgress) -> ReadRun {
    let directory = &summary.directory;
    let mut run = ReadRun {
        summary: summary.clone(),
        fold: RunFold::new(span),
        has_metadata: directory.metadata().is_ok_and(|of| of.is_some()),
        missing_events: 0,
        damaged_lines: 0,
        torn_files: 0,
        observed: Vec::new(),
        is_local: false,
    };
    let fold = &mut run.fold;
    let mut log = match LogReader::open(directory, query(span.until)) {
        Ok(log) => log.counting_in(Arc::clone(&progress.counter)),
        Err(error) => {
            fold.problem(texts, &format!("{error:?}"));
            return run;
        }
    };
    if let Ok(Some(metadata)) = directory.metadata() {
        let board = &mut fold.states.board;
        if let Some(identity) = &metadata.identity {
            board.set_server(&summary.execution_id, &identity.socket);
        }
        fold.in_pane = metadata.in_pane();
        run.is_local = metadata.host == host();
    }
    while let Some(record) = log.next_until(&|| progress.is_stopped()) {
        // Context is read at any time.
        if record.envelope.ts >= span.until {
            continue;
        }
        let mut last_before = |seq| directory.last_before(seq);
        fold.apply(&record.envelope, texts, &mut last_before);
    }
    fold.place(&summary.execution_id);
    let report = log.into_report();
    run.missing_events = report.missing();
    // The summary does not read compressed files; a log that grows has later events.
    if let Some(last) = report.last.filter(|_| !summary.is_open()) {
        run.summary.last_event = last;
    }
    run.damaged_lines = report.invalid;
    // A partial line that is still being written is no damage.
    if !summary.is_open() {
        run.torn_files = report.torn;
    }
    for problem in &report.problems {
        run.fold.problem(texts, &format!("{problem:?}"));
    }
    run
}
