//! Writes the events of a stream and tracks the status of its agent, for all formats (pure).

use std::borrow::Cow;

use super::event::AgentEvent;
use super::format::StreamFormat;
use super::status::{FollowUp, StreamStatus};
use super::tools::{EventTime, ToolCalls};
use crate::agent::summary::{result, summary, tool_result};
use crate::timestamp::Timestamp;

const CONTEXT: &str = "agent output";

/// The number of lines of other text that are reported; further ones are only counted, because a
/// program that prints text instead of records prints much of it.
const STRAY_MAX: u64 = 20;

/// The token usage of one message of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
}

impl TokenUsage {
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
        }
    }

    /// Returns the difference to `other`, at least 0.
    pub fn minus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(other.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(other.output_tokens),
        }
    }
}

/// The pending events and the state that determines them.
#[derive(Debug, Default)]
pub(super) struct EventWriter {
    /// The arrival time of the bytes that are being read.
    pub now: Timestamp,
    /// The caller's list, while bytes are read.
    pub out: Vec<AgentEvent>,
    /// The format of the stream, which distinguishes foreign records.
    pub format: Option<StreamFormat>,
    /// True if a sub-agent wrote the records; `None` if the format does not show it.
    pub is_sub_agent: Option<bool>,
    tools: ToolCalls,
    status: StreamStatus,
    follow_up: FollowUp,
    evidence: Cow<'static, str>,
    /// The agent's last answer, truncated to the length of a result.
    answer: String,
    /// True if the end of the run was reported.
    is_end_reported: bool,
    stray: u64,
    /// True if the handler did not recognise its last record.
    is_unknown: bool,
    /// The number of foreign records and the format of the first.
    foreign: u64,
    foreign_format: Option<StreamFormat>,
}

impl EventWriter {
    /// Creates a writer for records of this format.
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

    /// Returns the names and arguments of the agent's own open tools.
    pub fn open_tools(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tools.own_open()
    }

    /// Returns the time of a record with the timestamp `recorded`.
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

    /// Sets the record that may follow and change the status.
    pub fn set_follow_up(&mut self, follow_up: FollowUp) {
        self.follow_up = follow_up;
    }

    /// Sets the status to working, so that the end of the run can be reported again.
    pub fn working(&mut self, evidence: &'static str) {
        self.pause(StreamStatus::Working, evidence);
    }

    /// Reports a prompt, which also confirms that the answer before it ended its turn.
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

    pub fn set_answer(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.answer = result(text);
        }
    }

    /// Sets the status after an answer, of whose turn no record marks the end.
    pub fn answered(&mut self, text: &str, has_tool_calls: bool) {
        if has_tool_calls {
            self.working("tools are called");
        } else if text.trim().is_empty() {
            self.working("it thinks");
        } else {
            let evidence = "inferred: an answer without tools";
            self.pause(StreamStatus::MaybeDone, evidence);
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

    /// Reports the start of a tool, once for each id.
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
            .open(id, (&tool_name, &result(args)), when, is_own)
        {
            self.out.push(AgentEvent::ToolCallStarted {
                tool_name,
                tool_args_summary,
            });
        }
    }

    /// Reports the result of a tool, once for each id.
    pub fn tool_completed(&mut self, id: &str, success: bool, text: &str, when: EventTime) {
        if let Some((tool_name, duration_ms)) = self.tools.close(id, when) {
            self.out.push(AgentEvent::ToolCallCompleted {
                tool_name,
                success,
                result_summary: tool_result(text),
                duration_ms,
            });
        }
    }

    /// Warns about tools without a result, and stops waiting for them.
    pub fn abandon_tools(&mut self) {
        let names = self.tools.end_turn();
        if !names.is_empty() {
            let message = format!("{} had no result: {}", tools(names.len()), list(&names));
            self.warn(message);
        }
    }

    /// Removes the tools of another run, whose ids may repeat.
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

    /// Ends the turn because another source reports its end.
    pub fn end_turn(&mut self) {
        if self.status == StreamStatus::MaybeDone {
            self.turn_completed("an answer without tools");
            self.set_status(StreamStatus::Done, "an answer without tools");
        }
    }

    /// Reports that the agent has completed its work.
    pub fn completed(&mut self, evidence: impl Into<Cow<'static, str>>) {
        let evidence = evidence.into();
        self.out.push(AgentEvent::AgentCompleted {
            result: self.answer.clone(),
            evidence: evidence.clone().into_owned(),
        });
        self.is_end_reported = true;
        self.set_status(StreamStatus::Done, evidence);
    }

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

    /// Sets the status of a run that may still continue, so that its end is not reported yet.
    pub fn pause(&mut self, status: StreamStatus, evidence: impl Into<Cow<'static, str>>) {
        self.is_end_reported = false;
        self.set_status(status, evidence);
    }

    /// Reports the complete answer of an API's stream, which has no agent that completes.
    pub fn api_answer(&mut self, text: &str, usage: TokenUsage, has_tool_calls: bool) {
        self.set_answer(text);
        self.response_completed(text, usage, has_tool_calls);
        self.is_end_reported = true;
    }

    /// Ends the turn with the answer of an API, which may be incomplete for this reason.
    pub fn end_api_turn(
        &mut self,
        reason: &str,
        is_whole: bool,
        evidence: impl Into<Cow<'static, str>>,
    ) {
        self.turn_completed(reason);
        if !is_whole {
            self.warn(format!("the answer is incomplete: {reason}"));
        }
        self.set_status(StreamStatus::Done, evidence);
    }

    /// Reports a run that ended without its last record.
    pub fn cut_off(&mut self, how: &str) {
        let pending: Vec<&str> = self.tools.open_names().collect();
        let evidence = match pending.len() {
            0 => format!("{how}; last: {}", self.evidence),
            count => format!(
                "{how}; {} without a result: {}",
                tools(count),
                list(&pending)
            ),
        };
        // The failure names the open tools, so no warning is needed.
        self.tools.end_turn();
        self.failed("the run was cut off before its end", evidence);
    }

    /// Reports a run that has not ended before another one began.
    pub fn cut_off_by(&mut self, other: &str) {
        if self.status == StreamStatus::Working {
            self.cut_off(other);
        }
    }

    /// Ends the stream, and reports the end of the run unless it was reported before.
    pub fn finish(&mut self) {
        if self.stray > STRAY_MAX {
            let more = self.stray - STRAY_MAX;
            self.warn(format!("{more} more lines were not records"));
        }
        if let Some(format) = self.foreign_format.take() {
            let message = format!(
                "{} records of another format ({}) were ignored",
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

    /// Reports that the user has stopped the turn; the session may continue.
    pub fn interrupted(&mut self, evidence: String) {
        self.abandon_tools();
        self.warn(format!("the turn was stopped: {evidence}"));
        self.pause(StreamStatus::Interrupted, evidence);
        self.set_follow_up(FollowUp::Prompt);
    }

    /// Marks the current record as unknown to its format.
    pub fn mark_unknown(&mut self) {
        self.is_unknown = true;
    }

    /// Returns true if the last record was unknown, and resets the mark.
    pub fn take_unknown(&mut self) -> bool {
        std::mem::take(&mut self.is_unknown)
    }

    /// Counts a record of another format. Unknown records of the stream's own format come from
    /// newer versions and are ignored.
    pub fn count_foreign(&mut self, format: StreamFormat) {
        if self.format != Some(format) {
            self.foreign += 1;
            self.foreign_format.get_or_insert(format);
        }
    }

    /// Reports text instead of a record.
    pub fn stray_line(&mut self, text: &str) {
        self.stray += 1;
        if self.stray <= STRAY_MAX {
            self.warn(format!("a line is not a record: {}", summary(text)));
        }
    }
}

fn tools(count: usize) -> String {
    match count {
        1 => "1 tool".to_owned(),
        count => format!("{count} tools"),
    }
}

/// Joins the first names to one text.
fn list(names: &[&str]) -> String {
    const NAMES_MAX: usize = 5;
    let mut text = names[..names.len().min(NAMES_MAX)].join(", ");
    if names.len() > NAMES_MAX {
        text.push('…');
    }
    summary(&text)
}
