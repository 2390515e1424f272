//! Builds a report of what the folds over the runs have found (pure).

use std::collections::{BTreeMap, HashSet};

use super::conversations::Conversation;
use super::end::{Circumstances, end_of};
use super::fold::RunFold;
use super::model::{COLUMN, Report, RowReport, RunReport, SCHEMA, Times, Totals};
use super::tally::{Figures, Span, Tally, millis_between};
use super::text::{Text, Texts};
use crate::board::bands::{Band, Timeline};
use crate::board::{Attention, Board, Row, RowKey, RowState, listed};
use crate::face::{LocalTime, row_names};
use crate::history::{RunKind, RunState, RunStatus, RunSummary};

/// A run that was read.
#[derive(Debug)]
pub(super) struct ReadRun {
    pub summary: RunSummary,
    pub fold: RunFold,
    pub has_metadata: bool,
    pub missing_events: u64,
    pub damaged_lines: u64,
    pub torn_files: u64,
    /// The rows as they were last observed.
    pub observed: Vec<Row>,
    /// True if it was written on this host, so that its paths lead to the files that it means.
    pub is_local: bool,
}

/// A row, before those that tell the same are found.
struct Found {
    row: Row,
    tally: Tally,
    timeline: Timeline,
    run: RunStatus,
    observed: Option<Row>,
}

/// The numbers that stand for ids where texts are left out.
#[derive(Debug, Default)]
struct Numbers(BTreeMap<String, usize>);

impl Numbers {
    fn of(&mut self, id: &str) -> String {
        let next = self.0.len() + 1;
        self.0.entry(id.to_owned()).or_insert(next).to_string()
    }
}

/// Builds reports.
#[derive(Debug)]
pub(super) struct ReportBuilder<'a> {
    pub span: Span,
    pub texts: &'a Texts,
    pub local: LocalTime,
}

/// A row of a report, with what the report's reader still looks up.
#[derive(Debug)]
pub(super) struct BuiltRow {
    pub report: RowReport,
    pub key: RowKey,
    /// The conversations of its agents, if their files are on this host.
    pub conversations: Vec<Conversation>,
    /// The numbers of the events with which its failed jobs ended, in their order, and of its own last event.
    pub failed_at: Vec<u64>,
    pub last_seq: Option<u64>,
    rank: (Attention, usize),
}

impl ReportBuilder<'_> {
    /// Returns the report without what logs do not have.
    pub fn build(&mut self, runs: Vec<ReadRun>) -> (Report, Vec<BuiltRow>) {
        let mut report = Report {
            schema: SCHEMA,
            since: self.span.since,
            until: self.span.until,
            metadata_only: self.texts.is_left_out(),
            needs_you: Vec::new(),
            totals: Totals::default(),
            rows: Vec::new(),
            runs: Vec::new(),
            problems: Vec::new(),
            hosts: Vec::new(),
        };
        let mut ids = (Numbers::default(), Numbers::default());
        let mut found = Vec::new();
        for run in runs {
            let history = self.history(&run, &mut ids.1);
            if run.fold.events > 0 || history.is_damaged() {
                report.runs.push(history);
            }
            found.extend(rows_of(run));
        }
        let rows = self.rows(found, &mut ids);
        (report, rows)
    }

    /// Builds the report of one run, without what is known of its history.
    #[cfg(feature = "internals")]
    pub fn build_one(&mut self, fold: RunFold) -> (Report, Vec<BuiltRow>) {
        let (report, _) = self.build(Vec::new());
        let found = rows_of_fold(fold, &RunStatus::Running, &[], true);
        let rows = self.rows(found, &mut Default::default());
        (report, rows)
    }

    fn rows(&mut self, found: Vec<Found>, ids: &mut (Numbers, Numbers)) -> Vec<BuiltRow> {
        // One board for all, in which a pane tells how the command ended that ran in it.
        let mut board = Board::default();
        let mut tallies = BTreeMap::new();
        for of in found {
            let rest = (of.tally, of.timeline, of.run, of.observed);
            tallies.insert(of.row.key(), rest);
            board.restore(of.row);
        }
        board.tell_ends();
        let rows: Vec<Row> = board.rows().cloned().collect();
        let shown: HashSet<RowKey> = listed(rows.clone(), |_| false)
            .iter()
            .map(Row::key)
            .collect();
        let named: Vec<Row> = rows.iter().map(|row| self.named(row)).collect();
        let titles = row_names(&named, usize::MAX);
        let columns = row_names(&named, COLUMN);
        let mut built = Vec::new();
        for (place, row) in rows.into_iter().enumerate() {
            let key = row.key();
            let Some(of) = tallies.remove(&key) else {
                continue;
            };
            if let Some(mut row) = self.row(&row, of, ids) {
                row.report.title = titles.get(place).and_then(|title| self.texts.take(title));
                row.report.column = columns.get(place).and_then(|name| self.texts.take(name));
                row.report.told_elsewhere = !shown.contains(&key);
                row.report.needs_you &= !row.report.told_elsewhere;
                row.rank.1 = place;
                built.push(row);
            }
        }
        built.sort_by_key(|row| (!row.report.needs_you, row.report.told_elsewhere, row.rank));
        built
    }

    /// Returns a row whose name can be cut: no part of a secret remains.
    fn named(&self, row: &Row) -> Row {
        let text = |text: &str| self.texts.take(text);
        let mut row = row.clone();
        row.name = text(&row.name).map_or_else(String::new, |name| name.as_str().to_owned());
        // Names that are equal are told apart by it.
        if let Some(id) = text(&row.execution_id) {
            row.execution_id = id.as_str().into();
        }
        let label = row.label.as_deref().and_then(text);
        row.label = label.map(|label| label.as_str().to_owned());
        row
    }

    fn history(&self, run: &ReadRun, ids: &mut Numbers) -> RunReport {
        let summary = &run.summary;
        let fold = &run.fold;
        RunReport {
            host: None,
            execution_id: self.id(&summary.execution_id, ids),
            state: state_of(&summary.state),
            foreign: !run.has_metadata || !fold.has_numbers && fold.events > 0,
            is_observed: summary.kind == RunKind::Tmux,
            started: summary.started,
            last_event: summary.last_event,
            restarts: fold.restarts,
            dropped_events: fold.dropped_events,
            missing_events: run.missing_events,
            damaged_lines: run.damaged_lines,
            torn_files: run.torn_files,
            problems: fold.problems.clone(),
        }
    }

    /// Returns an id; where texts are left out, a number, because an id has the name of a session in it.
    fn id(&self, id: &str, numbers: &mut Numbers) -> String {
        match self.texts.take(id) {
            Some(text) => text.as_str().to_owned(),
            None => numbers.of(id),
        }
    }

    fn row(
        &mut self,
        row: &Row,
        (mut tally, timeline, run, observed): (Tally, Timeline, RunStatus, Option<Row>),
        ids: &mut (Numbers, Numbers),
    ) -> Option<BuiltRow> {
        let Span { since, until } = self.span;
        let bands = timeline.spans(since, until);
        let (at, state) = timeline.last_before(until)?;
        if bands.is_empty() && (state == Band::Ended && at < since || at >= until) {
            return None;
        }
        let from = bands.first().map_or(at, |band| band.from);
        let ended = (state == Band::Ended).then_some(at);
        // A pane that is found again has no state before its end is.
        let mut before = bands.iter().rev().map(|band| band.band);
        let is_unseen = before.find(|band| *band != Band::Unknown) == Some(Band::NotObserved);
        let mut times = Times::default();
        for band in &bands {
            times.add(band.band, millis_between(band.from, band.until));
        }
        let (loop_success, timed_out) = (tally.loop_success, tally.timed_out);
        let loop_end = tally.loop_end.take();
        let conversations = std::mem::take(&mut tally.conversations).found;
        let figures = tally.finish(self.span, self.texts);
        let end = {
            let of = Circumstances {
                run: &run,
                figures: &figures,
                loop_success,
                timed_out,
                loop_end: loop_end.as_ref(),
                is_unseen,
                conclusion: conclusion(&figures, row),
                observed: observed.as_ref(),
                since: row.since,
            };
            end_of(row, of, self.texts, &mut self.local)
        };
        // What needed the user when its observation ended still does, if it goes on.
        let attention_before = observed.as_ref().map(Row::attention);
        let is_left =
            row.state == RowState::NotObserved && attention_before == Some(Attention::NeedsYou);
        let key = row.key();
        let attention = row.attention();
        let Figures {
            questions,
            turns,
            tools,
            tokens,
            checks,
            jobs,
            failed_at,
            errors,
            gaps,
            summaries,
            last_seq,
        } = figures;
        let text = |text: &str| self.texts.take(text);
        let report = RowReport {
            host: None,
            id: self.id(&key.to_string(), &mut ids.0),
            execution_id: self.id(&key.execution_id, &mut ids.1),
            name: text(&row.name),
            title: None,
            column: None,
            label: row.label.as_deref().and_then(text),
            pane: row.pane.as_ref().and_then(|pane| text(pane.as_str())),
            kind: row.kind.as_str(),
            agent: row.agent.as_deref().and_then(text),
            state,
            needs_you: attention == Attention::NeedsYou || is_left,
            told_elsewhere: false,
            from,
            until: ended.unwrap_or(until),
            end,
            bands,
            times_ms: times,
            questions,
            turns,
            tools,
            tokens,
            cost_usd: None,
            summaries,
            checks,
            jobs,
            errors,
            gaps,
            transcript: None,
        };
        Some(BuiltRow {
            report,
            key,
            conversations,
            failed_at,
            last_seq,
            rank: (attention, 0),
        })
    }

    /// Completes the report with its rows.
    pub fn finish(&self, mut report: Report, rows: Vec<RowReport>) -> Report {
        report.rows = rows;
        complete(&mut report);
        report
    }
}

/// Adds what a report says of all its rows together.
pub(super) fn complete(report: &mut Report) {
    let needs = report.rows.iter().filter(|row| row.needs_you);
    report.needs_you = needs.map(|row| row.id.clone()).collect();
    report.totals = totals(&report.rows, &report.runs);
}

/// Returns the rows of a run, with the end of their observation.
fn rows_of(run: ReadRun) -> Vec<Found> {
    rows_of_fold(run.fold, &run.summary.state, &run.observed, run.is_local)
}

fn rows_of_fold(
    mut fold: RunFold,
    run: &RunStatus,
    observed: &[Row],
    is_local: bool,
) -> Vec<Found> {
    // The log of another program may name several executions.
    let rows: Vec<Row> = fold.states.board.rows().cloned().collect();
    let found = rows.into_iter().map(|row| {
        let key = row.key();
        let mut tally = fold.tallies.remove(&key).unwrap_or_default();
        if !is_local {
            tally.conversations.found.clear();
        }
        Found {
            tally,
            timeline: fold.states.timelines.remove(&key).unwrap_or_default(),
            run: run.clone(),
            observed: observed.iter().find(|of| of.key() == key).cloned(),
            row,
        }
    });
    found.collect()
}

/// Returns the summary of the turn that has just ended, if the row shows it.
fn conclusion<'a>(figures: &'a Figures, row: &Row) -> Option<&'a str> {
    /// The time between a turn's end and the state that shows it.
    const NOTICED_WITHIN_MS: u64 = 5_000;
    let turn = figures.turns.items.last()?;
    let is_its =
        turn.ended >= row.since || millis_between(turn.ended, row.since) <= NOTICED_WITHIN_MS;
    turn.summary.as_ref().filter(|_| is_its).map(Text::as_str)
}

fn state_of(status: &RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "running",
        RunStatus::CutOff => "cut off",
        RunStatus::Ended(RunState::Completed) => "completed",
        RunStatus::Ended(RunState::Failed) => "failed",
        RunStatus::Ended(RunState::Detached) => "detached",
        RunStatus::Ended(RunState::Running) => "running",
        RunStatus::Ended(RunState::Other(_)) => "unknown",
    }
}

fn totals(rows: &[RowReport], runs: &[RunReport]) -> Totals {
    let mut totals = Totals::default();
    for row in rows.iter().filter(|row| !row.told_elsewhere) {
        let tokens = row.tokens.unwrap_or_default();
        let add = |sum: &mut u64, number: u64| *sum = sum.saturating_add(number);
        add(&mut totals.rows, 1);
        add(&mut totals.needs_you, u64::from(row.needs_you));
        add(&mut totals.turns, row.turns.count);
        add(&mut totals.questions, row.questions.count);
        add(&mut totals.unanswered, row.questions.unanswered);
        add(&mut totals.tool_calls, row.tools.calls);
        add(&mut totals.tools_failed, row.tools.failed);
        add(&mut totals.input_tokens, tokens.input);
        add(&mut totals.output_tokens, tokens.output);
        add(&mut totals.checks_passed, row.checks.passed);
        add(&mut totals.checks_failed, row.checks.failed);
        add(&mut totals.jobs, row.jobs.count);
        add(&mut totals.jobs_failed, row.jobs.failed);
        add(&mut totals.errors, row.errors.count);
        add(&mut totals.gaps, row.gaps.count);
        add(&mut totals.lost_lines, row.gaps.lost_lines);
    }
    for run in runs {
        let sum = &mut totals.dropped_events;
        *sum = sum.saturating_add(run.dropped_events);
        let sum = &mut totals.missing_events;
        *sum = sum.saturating_add(run.missing_events);
    }
    totals
}
