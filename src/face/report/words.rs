//! The sentences of a report that its terminal view, its Markdown and its page share (pure).

use super::end::time_of_day;
use super::model::{
    ErrorReport, Gap, Job, Outcome, Question, Reason, Report, RowReport, RunReport, Source, Times,
    Turn,
};
use super::text::Text;
use crate::face::LocalTime;
use crate::face::describe::count;
use crate::timestamp::Timestamp;

/// Formats the times of a report in the local zone.
#[derive(Clone, Debug)]
pub(super) struct Words {
    local: LocalTime,
    until: Timestamp,
}

impl Words {
    pub fn new(report: &Report, local: LocalTime) -> Self {
        Self {
            local,
            until: report.until,
        }
    }

    /// Returns the time of day, with the date if it is a day or more before the end of the span.
    pub fn time(&mut self, at: Timestamp) -> String {
        time_of_day(&mut self.local, at, self.until)
    }

    /// Returns the date and the time to the minute, or to the second.
    fn date(&mut self, at: Timestamp, has_seconds: bool) -> String {
        let text = self.local.second(at);
        let end = if has_seconds { 19 } else { 16 };
        text.get(..end).unwrap_or(text).to_owned()
    }

    /// Returns the hours and minutes.
    pub fn clock(&mut self, at: Timestamp) -> String {
        let text = self.local.second(at);
        text.get(11..16).unwrap_or(text).to_owned()
    }

    /// Returns the span in words.
    pub fn span(&mut self, report: &Report) -> String {
        let length = millis(report.since, report.until);
        let is_short = length < 10 * 60_000;
        format!(
            "{} to {} ({})",
            self.date(report.since, is_short),
            self.date(report.until, is_short),
            duration(length)
        )
    }

    /// Returns how the row ended, or what it does, and since when.
    pub fn end(&mut self, row: &RowReport) -> String {
        let end = &row.end;
        let time = self.time(end.at);
        match end.reason {
            Reason::Working => end.words.clone(),
            Reason::Waiting
            | Reason::Error
            | Reason::Limited
            | Reason::Suspended
            | Reason::Idle
            | Reason::Done => {
                let age = duration(millis(end.at, self.until));
                format!("{} since {time} ({age})", end.words)
            }
            _ => format!("{} at {time}", end.words),
        }
    }

    /// Returns when a question was asked, and how long it waited.
    pub fn question(&mut self, question: &Question) -> String {
        let from = self.time(question.from);
        let until = question.until.unwrap_or(self.until);
        let waited = duration(millis(question.from, until));
        match (question.answered, question.until) {
            (true, _) => format!("{from} answered after {waited}"),
            (false, Some(_)) => format!("{from} unanswered after {waited}"),
            (false, None) => format!("{from} open for {waited}"),
        }
    }

    /// Returns when an iteration ended, and how.
    pub fn outcome(&mut self, of: &Outcome) -> (String, String) {
        let when = format!("{} iteration {}", self.time(of.at), of.iteration);
        let outcome = of.outcome.replace('_', " ");
        let mut what = format!("{outcome}{}", in_brackets(of.exit_code));
        if let Some(detail) = &of.detail {
            what.push_str(&format!(": {}", detail.as_str()));
        }
        (when, what)
    }

    /// Returns when a job failed, and which.
    pub fn job(&mut self, job: &Job) -> (String, String) {
        let command = job.command.as_ref().map_or("a job", Text::as_str);
        let what = format!("{command} failed{}", in_brackets(job.exit_status));
        (self.time(job.at), what)
    }

    /// Returns when an error was, and its words.
    pub fn error(&mut self, error: &ErrorReport) -> (String, String) {
        let what = error.text.as_ref().map_or("an error", Text::as_str);
        (self.time(error.at), what.to_owned())
    }

    /// Returns when lines were lost, how many and why.
    pub fn gap(&mut self, gap: &Gap) -> (String, String) {
        let lost = gap.lost_lines.map(|lost| count(lost, "line"));
        let lost = lost.unwrap_or_else(|| "lines".to_owned());
        let what = format!("{lost} lost: {}", gap.reason.replace('_', " "));
        (self.time(gap.at), what)
    }

    /// Returns when a turn ended, how long it took and what it called.
    pub fn turn(&mut self, turn: &Turn) -> String {
        let mut words = self.time(turn.ended);
        if let Some(began) = turn.began {
            words.push_str(&format!(", {}", duration(millis(began, turn.ended))));
        }
        if turn.tool_calls > 0 {
            words.push_str(&format!(", {}", count(turn.tool_calls, "tool call")));
        }
        if turn.source == Source::Transcript {
            words.push_str(", from the transcript");
        }
        words
    }
}

/// Returns a status as an addition: ` (2)`.
fn in_brackets(status: Option<i32>) -> String {
    status.map_or(String::new(), |status| format!(" ({status})"))
}

/// Formats a duration to the minute, or to the second if it is shorter than one.
fn duration(ms: u64) -> String {
    match ms / 1000 {
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        seconds => format!("{} days {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

fn millis(from: Timestamp, until: Timestamp) -> u64 {
    super::tally::millis_between(from, until)
}

/// Returns the name of a row, and what tells it apart.
pub(super) fn name_of(row: &RowReport) -> String {
    match &row.title {
        Some(title) => title.as_str().to_owned(),
        None => format!("{} {}", row.kind, row.id),
    }
}

/// Returns the kind of a row, and its agent or program.
pub(super) fn kind_of(row: &RowReport) -> String {
    match &row.agent {
        Some(agent) if agent.as_str() != row.kind => format!("{}, {}", row.kind, agent.as_str()),
        _ => row.kind.to_owned(),
    }
}

/// Returns the figures of all rows, the important ones first.
pub(super) fn totals(report: &Report) -> Vec<String> {
    let totals = &report.totals;
    let mut parts = Vec::from_iter(hosts(report));
    parts.push(count(totals.rows, "row"));
    let needs = match totals.needs_you {
        0 => "nothing needs you".to_owned(),
        1 => "1 needs you".to_owned(),
        more => format!("{more} need you"),
    };
    parts.push(needs);
    let mut add = |number: u64, text: String| {
        if number > 0 {
            parts.push(text);
        }
    };
    add(totals.turns, count(totals.turns, "turn"));
    add(
        totals.questions,
        questions(totals.questions, totals.unanswered),
    );
    add(
        totals.tool_calls,
        tools(totals.tool_calls, totals.tools_failed),
    );
    let checks = totals.checks_passed.saturating_add(totals.checks_failed);
    add(checks, failed(checks, "check", totals.checks_failed));
    add(totals.jobs, failed(totals.jobs, "job", totals.jobs_failed));
    add(totals.errors, count(totals.errors, "error"));
    let tokens = totals.input_tokens.saturating_add(totals.output_tokens);
    add(
        tokens,
        self::tokens(totals.input_tokens, totals.output_tokens),
    );
    add(totals.gaps, gaps(totals.gaps, totals.lost_lines));
    let dropped = totals.dropped_events;
    add(dropped, format!("{} dropped", count(dropped, "event")));
    let missing = totals.missing_events;
    add(missing, format!("{} missing", count(missing, "event")));
    parts
}

/// Returns how many hosts were asked, if others than this one were.
fn hosts(report: &Report) -> Option<String> {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let unread = report.hosts.iter().filter(|host| !host.is_read).count();
    let all = (!report.hosts.is_empty()).then(|| count(number(report.hosts.len()), "host"))?;
    Some(match unread {
        0 => all,
        unread => format!("{all}, {unread} not read"),
    })
}

fn questions(all: u64, unanswered: u64) -> String {
    let all = count(all, "question");
    match unanswered {
        0 => all,
        open => format!("{all}, {open} unanswered"),
    }
}

fn tools(calls: u64, of_them_failed: u64) -> String {
    failed(calls, "tool call", of_them_failed)
}

fn failed(all: u64, noun: &str, failed: u64) -> String {
    let all = count(all, noun);
    match failed {
        0 => all,
        failed => format!("{all}, {failed} failed"),
    }
}

fn gaps(gaps: u64, lost_lines: u64) -> String {
    let gaps = count(gaps, "gap");
    match lost_lines {
        0 => gaps,
        lost => format!("{gaps}, {} lost", count(lost, "line")),
    }
}

/// Returns a number of tokens, in thousands or millions if it is large.
fn short(number: u64) -> String {
    match number {
        ..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{}k", number / 1000),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

fn tokens(input: u64, output: u64) -> String {
    format!("{} tokens in, {} out", short(input), short(output))
}

/// Returns what a row did, as short statements: its times, its turns, its tools.
pub(super) fn figures(row: &RowReport) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(times(&row.times_ms));
    let questions = &row.questions;
    if questions.count > 0 {
        let words = self::questions(questions.count, questions.unanswered);
        let longest = duration(questions.longest_wait_ms);
        parts.push(format!("{words}, longest wait {longest}"));
    }
    if row.turns.count > 0 {
        parts.push(count(row.turns.count, "turn"));
    }
    let tools = &row.tools;
    if tools.calls > 0 {
        parts.push(self::tools(tools.calls, tools.failed));
    }
    if let Some(stated) = row.tokens {
        parts.push(tokens(stated.input, stated.output));
    }
    if let Some(beyond) = row
        .transcript
        .as_ref()
        .filter(|of| of.cached_input_tokens > 0)
    {
        parts.push(format!("{} cached", short(beyond.cached_input_tokens)));
    }
    if let Some(cost) = row.cost_usd {
        parts.push(format!("${cost:.2}"));
    }
    let checks = &row.checks;
    if checks.iterations > 0 {
        parts.push(count(checks.iterations, "iteration"));
    }
    let all = checks.passed.saturating_add(checks.failed);
    if all > 0 {
        parts.push(failed(all, "check", checks.failed));
    }
    if row.jobs.count > 0 {
        parts.push(failed(row.jobs.count, "job", row.jobs.failed));
    }
    if row.errors.count > 0 {
        parts.push(count(row.errors.count, "error"));
    }
    if row.gaps.count > 0 {
        parts.push(gaps(row.gaps.count, row.gaps.lost_lines));
    }
    parts
}

const NOT_RECOGNISED: &str = "not recognised";

fn times(times: &Times) -> Vec<String> {
    let all = [
        ("worked", times.at_work()),
        ("waited for you", times.waiting),
        ("stopped by errors", times.error),
        ("limited", times.limited),
        ("suspended", times.suspended),
        ("idle", times.at_rest()),
        (NOT_RECOGNISED, times.unknown),
        ("not observed", times.not_observed),
    ];
    // A pane is not recognised before its first screen is read.
    const SHORT_MS: u64 = 60_000;
    let is_told = |what: &str, ms: u64| ms >= SHORT_MS || ms >= 1000 && what != NOT_RECOGNISED;
    let told = all.iter().filter(|(what, ms)| is_told(what, *ms));
    told.map(|(what, ms)| format!("{what} {}", duration(*ms)))
        .collect()
}

/// Returns the tools by name: `Bash 80 (3 failed), Edit 40`.
pub(super) fn tools_by_name(row: &RowReport, max: usize) -> Option<String> {
    let tools = &row.tools.by_name;
    let shown = tools.iter().take(max).map(|tool| match tool.failed {
        0 => format!("{} {}", tool.name.as_str(), tool.calls),
        failed => format!("{} {} ({failed} failed)", tool.name.as_str(), tool.calls),
    });
    let mut shown: Vec<String> = shown.collect();
    if tools.len() > max {
        shown.push(format!("{} others", tools.len() - max));
    }
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// Returns what is wrong with a history, or notable.
fn history(run: &RunReport) -> Vec<String> {
    let mut parts = Vec::new();
    if run.foreign {
        parts.push("written by another program".to_owned());
    }
    if run.state == "cut off" {
        parts.push("cut off: its writer ended without closing it".to_owned());
    }
    if run.restarts > 0 {
        let times = match run.restarts {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        let what = if run.is_observed {
            "its observer was restarted"
        } else {
            "another process went on with it"
        };
        parts.push(format!("{what} {times}"));
    }
    let mut add = |number: u64, noun: &str, what: &str| {
        if number > 0 {
            parts.push(format!("{} {what}", count(number, noun)));
        }
    };
    add(
        run.dropped_events,
        "event",
        "dropped, because the disk did not keep up",
    );
    add(run.missing_events, "event", "missing");
    add(run.damaged_lines, "line", "damaged, and skipped");
    add(run.torn_files, "file", "torn at its end");
    parts.extend(run.problems.iter().map(|text| text.as_str().to_owned()));
    parts
}

/// Returns what is notable of histories: who, what, and if something is missing. Several of which the same is said are told
/// together.
pub(super) fn told_together(runs: &[&RunReport]) -> Vec<(String, String, bool)> {
    /// The number of histories that are named.
    const NAMED_MAX: usize = 2;
    let mut told: Vec<(Vec<&str>, String, bool)> = Vec::new();
    for run in runs {
        let what = history(run).join("; ");
        match told.iter_mut().find(|(_, known, _)| *known == what) {
            Some((who, ..)) => who.push(&run.execution_id),
            None => told.push((vec![&run.execution_id], what, run.is_damaged())),
        }
    }
    let told = told.into_iter().map(|(who, what, is_damaged)| {
        let names = who.iter().take(NAMED_MAX).copied();
        let names = names.collect::<Vec<_>>().join(", ");
        let who = match who.len().saturating_sub(NAMED_MAX) {
            0 => names,
            others => format!("{names} and {others} more"),
        };
        (who, what, is_damaged)
    });
    told.collect()
}

/// Returns how many histories are still written; `None` if none is.
pub(super) fn still_written(report: &Report) -> Option<String> {
    match report
        .runs
        .iter()
        .filter(|run| run.state == "running")
        .count()
    {
        0 => None,
        1 => Some("1 history is still being written".to_owned()),
        more => Some(format!("{more} histories are still being written")),
    }
}

/// The words of a span in which nothing happened.
pub(super) fn nothing(report: &Report, words: &mut Words) -> String {
    format!("nothing was observed from {}", words.span(report))
}
