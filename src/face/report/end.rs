//! Why a row ended, or what holds it up, in words (pure).

use super::model::{End, Reason};
use super::tally::Figures;
use super::text::Texts;
use crate::agent_loop::LoopEnd;
use crate::board::{ExecutionKind, Row, RowState, is_failure};
use crate::event::AgentState;
use crate::face::LocalTime;
use crate::face::describe::{count, end_in_words};
use crate::history::{RunState, RunStatus};
use crate::timestamp::Timestamp;

/// What is known of the end of a row beyond the row itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances<'a> {
    pub run: &'a RunStatus,
    pub figures: &'a Figures,
    pub loop_success: Option<bool>,
    pub timed_out: bool,
    pub loop_end: Option<&'a LoopEnd>,
    /// True if nothing observed the row when it ended.
    pub is_unseen: bool,
    /// The row when its observation ended, if it went on then.
    pub observed: Option<&'a Row>,
    /// The summary of the turn that has just ended.
    pub conclusion: Option<&'a str>,
    /// The time since which the row is in its state.
    pub since: Timestamp,
}

/// Returns why the row ended, or what it does.
pub(super) fn end_of(
    row: &Row,
    of: Circumstances<'_>,
    texts: &Texts,
    local: &mut LocalTime,
) -> End {
    let reason = reason_of(row, of);
    let lost = matches!(reason, Reason::ObserverStopped | Reason::CutOff);
    let before = of.observed.filter(|_| lost).unwrap_or(row);
    let state = reason_of(before, of);
    let limit_until = before.limit_end().filter(|_| state == Reason::Limited);
    let mut words = match of.observed.filter(|_| lost && row.pane.is_some()) {
        Some(before) => {
            let what = last_words(state, before, of, limit_until, local);
            let when = match reason {
                Reason::CutOff => "it was last observed",
                _ => "its observer stopped",
            };
            format!("{what} when {when}")
        }
        None => words_of(reason, row, of, limit_until, local),
    };
    if of.is_unseen && row.has_ended() && !lost {
        words.push_str(", while nothing observed it: found");
    }
    let detail = match state {
        Reason::Waiting => before.asks.as_deref(),
        Reason::Error | Reason::Limited => before.asks.as_deref().or(Some(&before.last_line)),
        Reason::Done => of.conclusion,
        _ => None,
    };
    End {
        reason,
        words,
        detail: detail.and_then(|text| texts.take(text)),
        at: of.since,
        exit_status: row.exit_status,
        limit_until,
        lines: Vec::new(),
    }
}

fn is_agents(row: &Row) -> bool {
    matches!(row.state, RowState::Agent(_)) && row.agent.as_deref() != Some("shell")
}

fn reason_of(row: &Row, of: Circumstances<'_>) -> Reason {
    match &row.state {
        RowState::Agent(state) => match state.known() {
            Some(AgentState::Waiting) => Reason::Waiting,
            Some(AgentState::Error) => Reason::Error,
            Some(AgentState::Limited) => Reason::Limited,
            Some(AgentState::Suspended) => Reason::Suspended,
            Some(AgentState::Idle) => Reason::Idle,
            Some(AgentState::Done) => Reason::Done,
            Some(AgentState::Working | AgentState::Unknown) | None => Reason::Working,
        },
        // No history has the last two, which are states of hosts.
        RowState::Running | RowState::Connecting | RowState::Unreachable => Reason::Working,
        RowState::Quiet => Reason::Idle,
        RowState::NotObserved if *of.run == RunStatus::CutOff => Reason::CutOff,
        RowState::NotObserved => Reason::ObserverStopped,
        RowState::Failed => failure(row.exit_status),
        RowState::Exited if row.cut_off => Reason::CutOff,
        RowState::Exited if row.server_gone => Reason::ServerGone,
        RowState::Exited if of.timed_out || of.loop_end == Some(&LoopEnd::Timeout) => {
            Reason::TimedOut
        }
        RowState::Exited if of.loop_end == Some(&LoopEnd::Cancelled) => Reason::Ended,
        RowState::Exited => match (row.exit_status, of.run) {
            (Some(0), _) => Reason::Completed,
            (Some(status), _) if !is_failure(status) => Reason::Ended,
            (Some(status), _) => failure(Some(status)),
            (None, RunStatus::Ended(RunState::Detached)) => Reason::ObserverStopped,
            (None, _) => Reason::Ended,
        },
    }
}

fn failure(status: Option<i32>) -> Reason {
    match status {
        Some(129..=192) => Reason::Killed,
        _ => Reason::Failed,
    }
}

fn words_of(
    reason: Reason,
    row: &Row,
    of: Circumstances<'_>,
    limit_until: Option<Timestamp>,
    local: &mut LocalTime,
) -> String {
    if row.kind == ExecutionKind::Loop
        && let Some(words) = loop_in_words(reason, of)
    {
        return words;
    }
    let status = || status_in_words(row.exit_status);
    match reason {
        Reason::Waiting => "waits for an answer".to_owned(),
        Reason::Error => "stopped by an error".to_owned(),
        Reason::Limited => match limit_until {
            Some(end) => format!("limit reached until {}", time_of_day(local, end, of.since)),
            None => "limit reached".to_owned(),
        },
        Reason::Suspended => "suspended".to_owned(),
        Reason::Working if is_unknown(row) => "runs, its state is not recognised".to_owned(),
        Reason::Working if is_agents(row) => "still working".to_owned(),
        Reason::Working => "still running".to_owned(),
        Reason::Idle => "idle".to_owned(),
        Reason::Done => "turn done".to_owned(),
        Reason::Completed => "completed".to_owned(),
        Reason::Failed => format!("failed: {}", status()),
        Reason::Killed => format!("killed: {}", status()),
        Reason::TimedOut => "timed out".to_owned(),
        Reason::Ended => match row.exit_status {
            Some(_) => format!("ended: {}", status()),
            None => "ended, how is not known".to_owned(),
        },
        Reason::ServerGone => "ended with its tmux server".to_owned(),
        Reason::ObserverStopped if row.has_ended() => {
            "observer stopped; it has ended since".to_owned()
        }
        Reason::ObserverStopped => "observer stopped".to_owned(),
        Reason::CutOff => "cut off: its writer ended without closing it".to_owned(),
    }
}

/// Returns what a row did that nothing observes any more.
fn last_words(
    state: Reason,
    row: &Row,
    of: Circumstances<'_>,
    limit_until: Option<Timestamp>,
    local: &mut LocalTime,
) -> String {
    match state {
        Reason::Waiting => "waited for an answer".to_owned(),
        Reason::Working if is_unknown(row) => "ran".to_owned(),
        Reason::Working if is_agents(row) => "worked".to_owned(),
        Reason::Working => "ran".to_owned(),
        Reason::Idle => "was idle".to_owned(),
        Reason::Done => "was done".to_owned(),
        Reason::Suspended => "was suspended".to_owned(),
        Reason::Error => "was stopped by an error".to_owned(),
        Reason::Limited => match words_of(state, row, of, limit_until, local).split_once(" until ")
        {
            Some((_, end)) => format!("was at its limit until {end}"),
            None => "was at its limit".to_owned(),
        },
        Reason::Failed => format!("had failed ({})", status_in_words(row.exit_status)),
        Reason::Killed => format!("had been killed ({})", status_in_words(row.exit_status)),
        state => words_of(state, row, of, limit_until, local),
    }
}

fn is_unknown(row: &Row) -> bool {
    match &row.state {
        RowState::Agent(state) => state
            .known()
            .is_none_or(|state| state == AgentState::Unknown),
        _ => false,
    }
}

/// Returns how a loop ended: its last outcome says more than an exit status.
fn loop_in_words(reason: Reason, of: Circumstances<'_>) -> Option<String> {
    let checks = &of.figures.checks;
    match of.loop_end {
        Some(LoopEnd::Timeout) => return Some("timed out".to_owned()),
        Some(LoopEnd::Cancelled) => return Some("interrupted".to_owned()),
        _ => {}
    }
    if matches!(reason, Reason::Completed) && of.loop_success == Some(true) {
        return Some(if checks.passed > 0 {
            "all checks passed".to_owned()
        } else {
            "completed".to_owned()
        });
    }
    if !matches!(reason, Reason::Failed | Reason::Ended) {
        return None;
    }
    let last = checks.outcomes.last()?;
    let why = match last.outcome {
        "validation_failed" => match last.exit_code {
            Some(code) => format!("the check failed with exit code {code}"),
            None => "the check failed".to_owned(),
        },
        "max_turns_reached" => "the agent used up its turns".to_owned(),
        "tool_error" => "a tool failed".to_owned(),
        "llm_error" => "the model failed".to_owned(),
        _ => return None,
    };
    let iterations = count(u64::from(last.iteration), "iteration");
    Some(format!("stopped after {iterations}: {why}"))
}

fn status_in_words(status: Option<i32>) -> String {
    match status {
        Some(status @ 129..=192) => end_in_words(None, Some(status - 128)),
        status => end_in_words(status, None),
    }
}

/// Returns the time of day, with the date if it is a day or more from another time.
pub(super) fn time_of_day(local: &mut LocalTime, at: Timestamp, beside: Timestamp) -> String {
    const DAY_MICROS: u64 = 24 * 3_600_000_000;
    let is_near = at.micros().abs_diff(beside.micros()) < DAY_MICROS;
    let text = local.second(at);
    let shown = text.get(if is_near { 11..16 } else { 5..16 });
    shown.unwrap_or(text).to_owned()
}
