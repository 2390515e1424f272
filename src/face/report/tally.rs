//! What one row did within a span of time, as a fold over its events and states (pure).

use std::collections::BTreeMap;

use super::conversations::Conversations;
use super::model::{
    Checks, ErrorKind, ErrorReport, Errors, Gap, Gaps, Job, Jobs, Outcome, Question, Questions,
    Said, Source, Tokens, Tool, Tools, Turn, Turns,
};
use super::recent::Recent;
use super::text::Texts;
use crate::agent_loop::LoopEnd;
use crate::board::bands::Band;
use crate::board::{Row, is_failure};
use crate::event::{AgentState, EnumOrUnknown, GapEvidence, GapReason, IterationOutcome, TdEvent};
use crate::timestamp::Timestamp;
use crate::track::ProcessExit;

/// The most tools that are told apart. Agents have some dozens.
const TOOLS_MAX: usize = 1_000;

/// A span of time; its end does not belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub since: Timestamp,
    pub until: Timestamp,
}

impl Span {
    pub fn contains(self, at: Timestamp) -> bool {
        self.since <= at && at < self.until
    }

    /// Returns the milliseconds of a time that are within the span.
    fn overlap_ms(self, from: Timestamp, until: Timestamp) -> u64 {
        millis_between(from.max(self.since), until.min(self.until))
    }
}

/// Returns the milliseconds between two times; 0 if the second is not later.
pub(super) fn millis_between(from: Timestamp, until: Timestamp) -> u64 {
    let micros = until.micros().saturating_sub(from.micros());
    u64::try_from(micros / 1000).unwrap_or(0)
}

/// The figures of one row.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    open_question: Option<Question>,
    /// The question that was open when the observation ended, until it is known whether it still is.
    left_question: Option<Question>,
    questions: Questions,
    recent_questions: Recent<Question>,
    band: Option<Band>,
    turn: OpenTurn,
    turns: Turns,
    recent_turns: Recent<Turn>,
    tools: Tools,
    by_tool: BTreeMap<String, (u64, u64, u64)>,
    tokens: Tokens,
    checks: Checks,
    outcomes: Recent<Outcome>,
    job: Option<(String, u64)>,
    jobs: Jobs,
    failed_jobs: Recent<(Job, u64)>,
    errors: Errors,
    recent_errors: Recent<ErrorReport>,
    gaps: Gaps,
    recent_gaps: Recent<Gap>,
    /// The number of the last event of the row.
    last_seq: Option<u64>,
    pub loop_success: Option<bool>,
    /// What ended a loop from outside.
    pub loop_end: Option<LoopEnd>,
    pub timed_out: bool,
    /// The conversations of its agents.
    pub conversations: Conversations,
}

/// The turn that an agent is in.
#[derive(Clone, Copy, Debug, Default)]
struct OpenTurn {
    began: Option<Timestamp>,
    /// The agent rests: the next prompt begins another turn.
    is_over: bool,
    tool_calls: u64,
    tools_failed: u64,
    tokens: Tokens,
}

/// Returns the name of a reason; a later version's may be any text.
fn known_name(reason: &EnumOrUnknown<GapReason>) -> &'static str {
    reason.known().map_or("other", |reason| reason.as_str())
}

/// The figures of a row that is complete.
#[derive(Debug)]
pub(super) struct Figures {
    pub questions: Questions,
    pub turns: Turns,
    pub tools: Tools,
    pub tokens: Option<Tokens>,
    pub checks: Checks,
    pub jobs: Jobs,
    /// The numbers of the events of the failed jobs, in their order.
    pub failed_at: Vec<u64>,
    pub errors: Errors,
    pub gaps: Gaps,
    pub summaries: Vec<Said>,
    /// The number of the row's last event that counts.
    pub last_seq: Option<u64>,
}

impl Tally {
    /// Notes that an event has changed the row at a time.
    pub fn note_row(
        &mut self,
        row: &Row,
        event: &TdEvent,
        at: Timestamp,
        (span, texts): (Span, &Texts),
    ) {
        let band = Band::of(row);
        self.note_question(row, band, at, span, texts);
        let is_new = self.band.replace(band) != Some(band);
        match band {
            Band::Ended => self.conversations.lose_observer(at),
            Band::Error | Band::Limited if is_new && span.contains(at) => {
                self.note_failure(event, at, texts);
            }
            _ => {}
        }
        self.turn.is_over |= matches!(band, Band::Idle | Band::Ended);
    }

    /// Counts an error that an agent reports as its state; other events of a failure count by themselves.
    fn note_failure(&mut self, event: &TdEvent, at: Timestamp, texts: &Texts) {
        let TdEvent::AgentState {
            asks,
            detail,
            state,
            ..
        } = event
        else {
            return;
        };
        let kind = match state.known() {
            Some(AgentState::Limited) => ErrorKind::Limit,
            Some(AgentState::Error) => ErrorKind::AgentError,
            // A failed job is still news, while its shell is idle.
            _ => return,
        };
        let words = asks.as_deref().or(detail.as_deref());
        self.add_error(at, kind, words.map_or("", String::as_str), texts);
    }

    fn note_question(&mut self, row: &Row, band: Band, at: Timestamp, span: Span, texts: &Texts) {
        let asks = row.asks.as_deref().and_then(|asks| texts.take(asks));
        let id = row.question_id.as_deref().and_then(|id| texts.take(id));
        let is_waiting = band == Band::Waiting;
        if !matches!(band, Band::Unknown | Band::NotObserved)
            && let Some(left) = self.left_question.take()
        {
            // The next observer gives the same question another id.
            if is_waiting && left.asks == asks {
                self.open_question = Some(Question {
                    until: None,
                    question_id: id,
                    ..left
                });
                return;
            }
            self.count_question(left, span);
        }
        if let Some(open) = &mut self.open_question {
            let is_same = match (&open.question_id, &id) {
                (Some(open), Some(id)) => open == id,
                _ => row.since == open.from || open.asks == asks,
            };
            if is_waiting && is_same {
                open.asks = asks.or(open.asks.take());
                return;
            }
            let answered = !matches!(band, Band::Ended | Band::NotObserved | Band::Unknown);
            self.close_question(at, answered, span);
        }
        if is_waiting {
            self.open_question = Some(Question {
                from: at,
                until: None,
                answered: false,
                asks,
                question_id: id,
            });
        }
    }

    /// Notes that nothing observes the row any more.
    pub fn lose_observer(&mut self, at: Timestamp) {
        if let Some(question) = self.open_question.take() {
            self.left_question = Some(Question {
                until: Some(at),
                ..question
            });
        }
        self.band = None;
        self.turn.is_over = true;
        self.conversations.lose_observer(at);
    }

    fn close_question(&mut self, at: Timestamp, answered: bool, span: Span) {
        let Some(mut question) = self.open_question.take() else {
            return;
        };
        // The clock may have been set back.
        question.until = Some(at.max(question.from));
        question.answered = answered;
        self.count_question(question, span);
    }

    fn count_question(&mut self, question: Question, span: Span) {
        let until = question.until.unwrap_or(span.until);
        if until < span.since || question.from >= span.until {
            return;
        }
        let questions = &mut self.questions;
        questions.count += 1;
        questions.unanswered += u64::from(!question.answered);
        let wait = span.overlap_ms(question.from, until);
        questions.longest_wait_ms = questions.longest_wait_ms.max(wait);
        self.recent_questions.push(question);
    }

    /// Counts an event within the span.
    pub fn count(&mut self, event: &TdEvent, seq: Option<u64>, at: Timestamp, texts: &Texts) {
        self.last_seq = seq.or(self.last_seq);
        match event {
            TdEvent::PromptSent { .. } => {
                self.turns.prompts += 1;
                if std::mem::take(&mut self.turn.is_over) {
                    self.turn = OpenTurn::default();
                }
                self.turn.began.get_or_insert(at);
            }
            TdEvent::ToolCallStarted { tool_name, .. } => {
                self.tools.calls += 1;
                self.turn.tool_calls += 1;
                self.tool(tool_name, |(calls, ..)| *calls += 1);
            }
            TdEvent::ToolCallCompleted {
                tool_name,
                success,
                duration_ms,
                ..
            } => {
                let failed = u64::from(!success);
                self.tools.failed += failed;
                self.turn.tools_failed += failed;
                self.tool(tool_name, |(_, all_failed, duration)| {
                    *all_failed += failed;
                    *duration = duration.saturating_add(*duration_ms);
                });
            }
            TdEvent::ResponseCompleted {
                input_tokens,
                output_tokens,
                ..
            } => {
                for tokens in [&mut self.tokens, &mut self.turn.tokens] {
                    tokens.input = tokens.input.saturating_add(*input_tokens);
                    tokens.output = tokens.output.saturating_add(*output_tokens);
                }
            }
            TdEvent::TurnCompleted { summary, .. } => {
                let turn = std::mem::take(&mut self.turn);
                self.turns.count += 1;
                self.recent_turns.push(Turn {
                    began: turn.began,
                    ended: at,
                    summary: texts.take(summary),
                    tool_calls: turn.tool_calls,
                    tools_failed: turn.tools_failed,
                    input_tokens: turn.tokens.input,
                    output_tokens: turn.tokens.output,
                    source: Source::Log,
                });
            }
            TdEvent::ValidationCompleted { exit_code, .. } => match exit_code {
                0 => self.checks.passed += 1,
                _ => self.checks.failed += 1,
            },
            TdEvent::IterationCompleted {
                iteration, outcome, ..
            } => self.note_outcome(*iteration, outcome, at, texts),
            TdEvent::OutputGap {
                lost_lines,
                reason,
                evidence,
                ..
            } => self.note_gap(*lost_lines, reason, evidence, at),
            TdEvent::AgentFailed { error, .. } => {
                self.add_error(at, ErrorKind::AgentFailed, error, texts);
            }
            TdEvent::Error {
                context, message, ..
            } => {
                let words = format!("{context}: {message}");
                self.add_error(at, ErrorKind::Error, &words, texts);
            }
            TdEvent::ExecutionCompleted {
                exit_code,
                signal,
                duration_ms,
                pane,
                cell,
                ..
            } if pane.is_some() || cell.is_some() => {
                let exit = ProcessExit {
                    status: *exit_code,
                    signal: *signal,
                };
                self.end_job(exit.exit_status(), *duration_ms, seq, at, texts);
            }
            _ => {}
        }
    }

    /// Notes what must be known of events before the span, too.
    pub fn note(&mut self, event: &TdEvent, seq: Option<u64>, at: Timestamp) {
        self.conversations.note(event, at);
        match event {
            TdEvent::ExecutionStarted { command, .. } => {
                self.job = Some((command.clone(), seq.unwrap_or(0)));
            }
            TdEvent::LoopStarted { .. } => (self.loop_success, self.loop_end) = (None, None),
            TdEvent::Warning { message, .. } => {
                let ends = [LoopEnd::Timeout, LoopEnd::Cancelled];
                let end = ends.into_iter().find(|end| *message == end.announcement());
                self.loop_end = end.or(self.loop_end.take());
            }
            TdEvent::LoopCompleted { success, .. } => self.loop_success = Some(*success),
            TdEvent::Error { context, .. } => self.timed_out |= context == "timeout",
            _ => {}
        }
    }

    fn tool(&mut self, name: &str, change: impl FnOnce(&mut (u64, u64, u64))) {
        if self.by_tool.len() < TOOLS_MAX || self.by_tool.contains_key(name) {
            change(self.by_tool.entry(name.to_owned()).or_default());
        }
    }

    fn note_outcome(
        &mut self,
        iteration: u32,
        outcome: &IterationOutcome,
        at: Timestamp,
        texts: &Texts,
    ) {
        self.checks.iterations += 1;
        let (exit_code, detail) = match outcome {
            IterationOutcome::ValidationFailed { exit_code } => (Some(*exit_code), None),
            IterationOutcome::ToolError { tool, error } => {
                (None, texts.take(&format!("{tool}: {error}")))
            }
            IterationOutcome::LlmError { error } => (None, texts.take(error)),
            IterationOutcome::ValidationPassed | IterationOutcome::MaxTurnsReached => (None, None),
        };
        self.outcomes.push(Outcome {
            at,
            iteration,
            outcome: Outcome::name(outcome),
            exit_code,
            detail,
        });
    }

    fn note_gap(
        &mut self,
        lost_lines: Option<u64>,
        reason: &EnumOrUnknown<GapReason>,
        evidence: &EnumOrUnknown<GapEvidence>,
        at: Timestamp,
    ) {
        if *evidence != GapEvidence::Confirmed {
            self.gaps.possible += 1;
            return;
        }
        self.gaps.count += 1;
        let lost = lost_lines.unwrap_or(0);
        self.gaps.lost_lines = self.gaps.lost_lines.saturating_add(lost);
        self.recent_gaps.push(Gap {
            at,
            lost_lines,
            reason: known_name(reason),
        });
    }

    fn add_error(&mut self, at: Timestamp, kind: ErrorKind, words: &str, texts: &Texts) {
        self.errors.count += 1;
        self.recent_errors.push(ErrorReport {
            at,
            kind,
            text: texts.take(words),
        });
    }

    fn end_job(
        &mut self,
        status: Option<i32>,
        duration_ms: u64,
        seq: Option<u64>,
        at: Timestamp,
        texts: &Texts,
    ) {
        let job = self.job.take();
        self.jobs.count += 1;
        if !status.is_some_and(is_failure) {
            return;
        }
        self.jobs.failed += 1;
        let command = job.as_ref().and_then(|(command, _)| texts.take(command));
        let job = Job {
            at,
            command,
            exit_status: status,
            duration_ms,
            lines: Vec::new(),
        };
        self.failed_jobs.push((job, seq.unwrap_or(0)));
    }

    /// Returns the figures, up to the end of the span.
    pub fn finish(mut self, span: Span, texts: &Texts) -> Figures {
        let open = self.left_question.take().or(self.open_question.take());
        if let Some(open) = open {
            self.count_question(open, span);
        }
        let mut by_name: Vec<Tool> = self
            .by_tool
            .iter()
            .filter_map(|(name, (calls, failed, duration_ms))| {
                Some(Tool {
                    name: texts.take(name)?,
                    calls: *calls,
                    failed: *failed,
                    duration_ms: *duration_ms,
                })
            })
            .collect();
        by_name.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.name.cmp(&b.name)));
        let (failed_jobs, failed_at) = self.failed_jobs.into_vec().into_iter().unzip();
        self.questions.items = self.recent_questions.into_vec();
        self.turns.items = self.recent_turns.into_vec();
        self.tools.by_name = by_name;
        self.checks.outcomes = self.outcomes.into_vec();
        self.jobs.items = failed_jobs;
        self.errors.items = self.recent_errors.into_vec();
        self.gaps.items = self.recent_gaps.into_vec();
        Figures {
            questions: self.questions,
            turns: self.turns,
            tools: self.tools,
            tokens: Some(self.tokens).filter(|tokens| tokens.is_stated()),
            checks: self.checks,
            jobs: self.jobs,
            failed_at,
            errors: self.errors,
            gaps: self.gaps,
            summaries: Vec::new(),
            last_seq: self.last_seq,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{ExecutionKind, RowKey, RowState};
    use crate::redact::Rules;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    const SPAN: Span = Span {
        since: Timestamp::from_micros(0),
        until: Timestamp::from_micros(1_000_000_000),
    };

    fn row(state: AgentState, asks: Option<&str>, id: &str) -> Row {
        let key = RowKey {
            execution_id: "a".into(),
            part: Some("%1".to_owned()),
        };
        let mut row = Row::new(&key, "a".to_owned(), ExecutionKind::Pane, at(0));
        row.state = RowState::Agent(state.into());
        row.asks = asks.map(str::to_owned);
        row.question_id = asks.map(|_| id.to_owned());
        row
    }

    fn questions(changes: Vec<(i64, Option<Row>)>) -> Vec<(i64, Option<i64>, bool)> {
        let texts = Texts::new(Rules::none(), false);
        let mut tally = Tally::default();
        for (second, row) in changes {
            match row {
                Some(row) => {
                    let event = TdEvent::warning("a", "x", "y");
                    tally.note_row(&row, &event, at(second), (SPAN, &texts));
                }
                None => tally.lose_observer(at(second)),
            }
        }
        let figures = tally.finish(SPAN, &texts);
        assert_eq!(
            figures.questions.count,
            figures.questions.items.len() as u64
        );
        let seconds = |at: Timestamp| at.micros() / 1_000_000;
        let items = figures.questions.items.into_iter();
        items
            .map(|of| (seconds(of.from), of.until.map(seconds), of.answered))
            .collect()
    }

    #[test]
    fn a_question_that_outlasts_its_observer_is_one() {
        let unknown = || row(AgentState::Unknown, None, "");
        let waiting = |asks: &str, id: &str| Some(row(AgentState::Waiting, Some(asks), id));
        let working = || Some(row(AgentState::Working, None, ""));
        let same = vec![
            (1, waiting("rm?", "1")),
            (5, None),
            (50, Some(unknown())),
            (51, waiting("rm?", "7")),
            (80, working()),
        ];
        assert_eq!(questions(same), [(1, Some(80), true)]);
        let other = vec![
            (1, waiting("rm?", "1")),
            (5, None),
            (51, waiting("cp?", "7")),
        ];
        assert_eq!(questions(other), [(1, Some(5), false), (51, None, false)]);
        let left = vec![(1, waiting("rm?", "1")), (5, None), (50, Some(unknown()))];
        assert_eq!(questions(left), [(1, Some(5), false)]);
    }

    #[test]
    fn a_question_with_another_id_is_another_one() {
        let waiting = |id: &str| Some(row(AgentState::Waiting, Some("rm?"), id));
        let changes = vec![(1, waiting("1")), (2, waiting("1")), (3, waiting("2"))];
        assert_eq!(questions(changes), [(1, Some(3), true), (3, None, false)]);
    }
}
