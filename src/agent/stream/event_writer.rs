//! Writes the events of a stream and knows where its agent stands, whatever the format (pure).

use std::borrow::Cow;

use super::event::AgentEvent;
use super::format::StreamFormat;
use super::status::{FollowUp, StreamStatus};
use super::tools::{EventTime, ToolCalls};
use crate::agent::summary::{result, summary, tool_result};
use crate::timestamp::Timestamp;

/// What warnings of this room are about.
const CONTEXT: &str = "agent output";

/// Lines that are no records are each told, up to so many; the rest is counted. A program that
/// prints text where records are follow_up prints much of it.
const STRAY_MAX: u64 = 20;

/// Tokens that a message of the model took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
}

impl TokenUsage {
    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
        }
    }

    /// How much it is more, of each.
    pub fn minus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(other.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(other.output_tokens),
        }
    }
}

/// Events on their way out, and what must be remembered to write them.
#[derive(Debug, Default)]
pub(super) struct EventWriter {
    /// EventTime what is being read has arrived.
    pub now: Timestamp,
    /// The caller's list while something is read.
    pub out: Vec<AgentEvent>,
    /// Which format is read, and whose records do not count as its own.
    pub format: Option<StreamFormat>,
    /// Whose records they are, where the format tells: `true`, a sub-agent's.
    pub is_sub_agent: Option<bool>,
    tools: ToolCalls,
    status: StreamStatus,
    follow_up: FollowUp,
    evidence: Cow<'static, str>,
    /// What the agent said last, as far as a result needs it.
    answer: String,
    /// How the run ended was told.
    is_end_reported: bool,
    stray: u64,
    /// The handler knows nothing of the record that it was just given.
    is_unknown: bool,
    /// Records of another format, and which the first of them has.
    foreign: u64,
    foreign_format: Option<StreamFormat>,
}

impl EventWriter {
    /// For records of this format.
    pub fn of(format: StreamFormat) -> Self {
        Self {
            format: Some(format),
            ..Self::default()
        }
    }

    pub fn status(&self) -> StreamStatus {
        self.status
    }

    pub fn follow_up(&self) -> FollowUp {
        self.follow_up
    }

    pub fn evidence(&self) -> &str {
        &self.evidence
    }

    pub fn answer(&self) -> &str {
        &self.answer
    }

    /// The tools of the agent itself that have not answered: names and arguments.
    pub fn open_tools(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tools.waiting()
    }

    /// EventTime a record that says `recorded` happened.
    pub fn time(&self, recorded: Option<Timestamp>) -> EventTime {
        EventTime {
            arrived: self.now,
            recorded,
        }
    }

    pub fn set_status(&mut self, status: StreamStatus, evidence: impl Into<Cow<'static, str>>) {
        self.status = status;
        self.follow_up = FollowUp::Nothing;
        self.evidence = evidence.into();
    }

    /// Something may follow that changes where it stands now.
    pub fn set_follow_up(&mut self, follow_up: FollowUp) {
        self.follow_up = follow_up;
    }

    /// Sets the status to working, which voids a reported end.
    pub fn working(&mut self, evidence: &'static str) {
        self.pause(StreamStatus::Working, evidence);
    }

    /// Writes a prompt, which also confirms that an answer before it ended its turn.
    pub fn prompt_sent(&mut self, text: &str) {
        if self.status == StreamStatus::MaybeDone {
            self.turn_completed("inferred: the next prompt");
        }
        self.working("a prompt");
        self.out.push(AgentEvent::PromptSent {
            prompt_summary: summary(text),
            token_count: 0,
        });
    }

    pub fn token(&mut self, text: Cow<'_, str>) {
        if !text.is_empty() {
            self.out.push(AgentEvent::TokenReceived {
                token: text.into_owned(),
            });
        }
    }

    /// Remembers what the agent said last.
    pub fn set_answer(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.answer = result(text);
        }
    }

    pub fn response_completed(&mut self, text: &str, usage: TokenUsage, has_tool_calls: bool) {
        self.out.push(AgentEvent::ResponseCompleted {
            response_summary: summary(text),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            has_tool_calls,
        });
    }

    /// A tool begins, if it did not begin before.
    pub fn tool_started(
        &mut self,
        id: &str,
        name: &str,
        args: &str,
        when: EventTime,
        is_own: bool,
    ) {
        let tool_name = summary(name);
        let tool_args_summary = summary(args);
        if self
            .tools
            .begin(id, (&tool_name, &result(args)), when, is_own)
        {
            self.out.push(AgentEvent::ToolCallStarted {
                tool_name,
                tool_args_summary,
            });
        }
    }

    /// A tool has answered, if it did not answer before.
    pub fn tool_completed(&mut self, id: &str, success: bool, text: &str, when: EventTime) {
        if let Some(answered) = self.tools.answer(id, when) {
            self.out.push(AgentEvent::ToolCallCompleted {
                tool_name: answered.name,
                success,
                result_summary: tool_result(text),
                duration_ms: answered.duration_ms,
            });
        }
    }

    /// ToolCalls that still wait for an answer will get none: they are said.
    pub fn abandon_tools(&mut self) {
        let names = self.tools.end_turn();
        if !names.is_empty() {
            let message = format!("{} had no result: {}", tools(names.len()), list(&names));
            self.warn(message);
        }
    }

    /// ToolCalls of another run: ids begin anew.
    pub fn clear_tools(&mut self) {
        self.tools.clear();
    }

    pub fn turn_completed(&mut self, marker: &str) {
        self.abandon_tools();
        self.out.push(AgentEvent::TurnCompleted {
            marker: summary(marker),
            summary: summary(&self.answer),
        });
    }

    /// Something else than the records says that the turn is over.
    pub fn end_turn(&mut self) {
        if self.status == StreamStatus::MaybeDone {
            self.turn_completed("an answer without tools");
            self.set_status(StreamStatus::Done, "an answer without tools");
        }
    }

    /// The agent has done its work.
    pub fn completed(&mut self, evidence: impl Into<Cow<'static, str>>) {
        let evidence = evidence.into();
        self.out.push(AgentEvent::AgentCompleted {
            result: self.answer.clone(),
            evidence: evidence.clone().into_owned(),
        });
        self.is_end_reported = true;
        self.set_status(StreamStatus::Done, evidence);
    }

    /// The agent has failed.
    pub fn failed(&mut self, error: &str, evidence: impl Into<Cow<'static, str>>) {
        let evidence = evidence.into();
        self.abandon_tools();
        self.out.push(AgentEvent::AgentFailed {
            error: result(error),
            evidence: evidence.clone().into_owned(),
        });
        self.is_end_reported = true;
        self.set_status(StreamStatus::Failed, evidence);
    }

    /// Sets the status of a run that may still continue: its end is not reported yet.
    pub fn pause(&mut self, status: StreamStatus, evidence: impl Into<Cow<'static, str>>) {
        self.is_end_reported = false;
        self.set_status(status, evidence);
    }

    /// The stream has no agent that could complete, or nothing more is to be said of its end.
    pub fn mark_end_reported(&mut self) {
        self.is_end_reported = true;
    }

    /// The run ended without the record that ends a run.
    pub fn cut_off(&mut self, how: &str) {
        let pending: Vec<&str> = self.tools.pending().collect();
        let evidence = match pending.len() {
            0 => format!("{how}; last: {}", self.evidence),
            count => format!(
                "{how}; {} without a result: {}",
                tools(count),
                list(&pending)
            ),
        };
        // They are told with the cut.
        self.tools.end_turn();
        self.failed("the run was cut off before its end", evidence);
    }

    /// The stream ends: how that leaves the agent is said, if it was not said before.
    pub fn finish(&mut self) {
        if self.stray > STRAY_MAX {
            let more = self.stray - STRAY_MAX;
            self.warn(format!("{more} more lines were no records"));
        }
        if let Some(format) = self.foreign_format.take() {
            let message = format!(
                "{} records are of another format ({}), and were not read",
                self.foreign,
                format.name()
            );
            self.warn(message);
        }
        if self.is_end_reported {
            return;
        }
        match self.status {
            StreamStatus::Unknown | StreamStatus::Failed => {}
            StreamStatus::Working => self.cut_off("the stream ended"),
            StreamStatus::MaybeDone => {
                self.turn_completed("inferred: the stream ended after an answer");
                self.completed("inferred: the stream ended after an answer");
            }
            StreamStatus::Done => {
                let evidence = std::mem::take(&mut self.evidence);
                self.completed(evidence);
            }
            StreamStatus::Background { tasks } => {
                let evidence = format!("{tasks} background tasks had not ended with the stream");
                self.failed(
                    "the run was cut off before its background tasks ended",
                    evidence,
                );
            }
            StreamStatus::Interrupted => {
                let evidence = std::mem::take(&mut self.evidence);
                self.failed("interrupted", evidence.clone());
                self.set_status(StreamStatus::Interrupted, evidence);
            }
        }
    }

    pub fn warn(&mut self, message: String) {
        self.out.push(AgentEvent::Warning {
            context: CONTEXT.to_owned(),
            message,
        });
    }

    /// A human stopped the turn; more may come of the session.
    pub fn interrupted(&mut self, evidence: String) {
        self.abandon_tools();
        self.warn(format!("the turn was stopped: {evidence}"));
        self.pause(StreamStatus::Interrupted, evidence);
        self.set_follow_up(FollowUp::Prompt);
    }

    /// The record that is being told is of no kind that its format is known to have.
    pub fn mark_unknown(&mut self) {
        self.is_unknown = true;
    }

    /// Whether the last record was such a one.
    pub fn take_unknown(&mut self) -> bool {
        std::mem::take(&mut self.is_unknown)
    }

    /// A record is of this format. Those of the stream's own are of newer versions, and nobody's
    /// concern.
    pub fn count_foreign(&mut self, format: StreamFormat) {
        if self.format != Some(format) {
            self.foreign += 1;
            self.foreign_format.get_or_insert(format);
        }
    }

    /// Text where a record should be.
    pub fn stray_line(&mut self, text: &str) {
        self.stray += 1;
        if self.stray <= STRAY_MAX {
            self.warn(format!("a line is no record: {}", summary(text)));
        }
    }
}

fn tools(count: usize) -> String {
    match count {
        1 => "1 tool".to_owned(),
        count => format!("{count} tools"),
    }
}

/// The names, or the first of them.
fn list(names: &[&str]) -> String {
    const NAMES_MAX: usize = 5;
    let mut text = names[..names.len().min(NAMES_MAX)].join(", ");
    if names.len() > NAMES_MAX {
        text.push('…');
    }
    summary(&text)
}
