//! Claude Code's session transcripts, in which no record definitely ends a turn (pure).
//!
//! One message of the API takes several lines, one for each block, and the version determines what
//! the lines show about its end. The rule was fitted to labelled transcripts of versions 1 to
//! 2.1.235: a text answer ends a turn if its stop reason shows it or later lines confirm it.

use std::borrow::Cow;

use super::super::api::{ApiDialect, ApiPart, LiveMessage};
use super::super::note::CostTotal;
use super::super::{
    EventWriter, FollowUp, Json, OpenMessages, RecordHandler, StreamStatus, TokenUsage, first,
};
use super::{
    Notification, PendingWork, SYNTHETIC, Speaker, is_aside, is_hook_feedback, is_interruption,
    report_assistant, report_tool_result, report_user_command, text_of, tool_results,
};
use crate::agent::summary::summary;
use crate::event::Background;
use crate::timestamp::Timestamp;

/// Returns true if this field of a record is true.
fn is_set(record: &Json<'_>, field: &str) -> bool {
    record[field].as_bool() == Some(true)
}

#[derive(Debug, Default)]
pub struct ClaudeTranscript {
    messages: OpenMessages,
    pending: PendingWork,
    agent_id: String,
    /// The id of the last record, which a summary of the session names.
    last_id: String,
    cost: CostTotal,
    /// True if the agent's last message has a stop reason, so that no more of it follows.
    is_whole: bool,
    /// The id of the message that ended the turn, whose other lines must not end it again.
    ended_by: String,
    /// True if a later line has confirmed the end of the turn.
    is_confirmed: bool,
    /// True if the session contains confirming lines, which follow its hooks.
    may_be_confirmed: bool,
}

impl RecordHandler for ClaudeTranscript {
    fn record(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        if let Some(id) = record["uuid"].as_str() {
            id.clone_into(&mut self.last_id);
        }
        match record["type"].text() {
            "assistant" => self.assistant(record, writer),
            "user" => self.user(record, writer),
            "system" => self.system(record, writer),
            // Other summaries are those of other sessions, which versions until 2.1.1 wrote to the file of a new one.
            "summary" if record["leafUuid"].as_str() == Some(&self.last_id) => {
                writer.note_summary(record["summary"].text());
            }
            // Claude Code 2.1.332 writes it when a session ends, and goes on with its total when it is resumed.
            "cost-state" => {
                let session = record["sessionId"].text();
                writer.note(self.cost.added(session, &record["totalCostUSD"]));
            }
            "queue-operation" => self.notification(record["content"].text(), writer),
            "attachment" => self.attachment(record, writer),
            // Written when the user leaves the session, so that a stopped turn will not continue soon.
            "last-prompt" if writer.status == StreamStatus::Interrupted => {
                writer.follow_up = FollowUp::Confirmation;
            }
            "progress" | "file-history-snapshot" | "last-prompt" | "summary" => {}
            // Titles, modes, and records of newer versions.
            _ => writer.mark_unknown(),
        }
    }

    fn earlier_record(&mut self, record: &Json<'_>, _writer: &mut EventWriter) {
        let result = &record["toolUseResult"];
        if result.is_object() && !is_set(record, "isSidechain") {
            let time = record["timestamp"].time();
            self.pending.tasks.earlier_tool_result(result, time);
        }
        let texts = [
            record["content"].text(),
            record["attachment"]["prompt"].text(),
            record["attachment"]["content"].text(),
            text_of(&record["message"]["content"]),
        ];
        for notification in texts.into_iter().filter_map(Notification::parse) {
            self.pending.end_task(&notification);
        }
    }

    fn earlier_records_end(&mut self, writer: &mut EventWriter) {
        self.update_status(writer);
    }

    fn background(&self, since: Timestamp) -> Background {
        self.pending.tasks.begun_since(since)
    }

    fn end_of_task(&self, id: &str) -> Option<&'static str> {
        self.pending.tasks.end_of(id)
    }

    fn idle(&mut self, writer: &mut EventWriter) {
        if self.is_whole {
            self.messages.complete_own(writer);
        }
    }

    fn finish(&mut self, writer: &mut EventWriter) {
        self.messages.complete_all(writer);
        writer.finish();
    }
}

impl ClaudeTranscript {
    /// Returns true if the line belongs to the agent of the transcript.
    fn is_own(&mut self, record: &Json<'_>, writer: &mut EventWriter) -> bool {
        let is_side = is_set(record, "isSidechain");
        match writer.is_sub_agent {
            None => {
                writer.is_sub_agent = Some(is_side);
                self.agent_id = record["agentId"].text().to_owned();
            }
            // The parser began within the lines of a sub-agent: version 1 mixes both agents in one file.
            Some(true) if !is_side => {
                writer.is_sub_agent = Some(false);
                writer.set_status(StreamStatus::Unknown, "");
            }
            Some(_) => {}
        }
        let is_same_agent = record["agentId"].text() == self.agent_id || self.agent_id.is_empty();
        writer.is_sub_agent == Some(is_side) && (!is_side || is_same_agent)
    }

    fn user(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        let is_own = self.is_own(record, writer);
        if !record["message"].is_object() {
            return;
        }
        let content = &record["message"]["content"];
        let when = writer.time(record["timestamp"].time());
        if is_own {
            self.pending
                .tool_result(&record["toolUseResult"], when.recorded);
        }
        let is_answered = tool_results(content).next().is_some();
        if is_own && self.is_whole && is_answered {
            // The message precedes the results of its tools. An incomplete message has more tools,
            // and its usage follows with the last of them.
            self.messages.complete_own(writer);
        }
        tool_results(content).for_each(|result| report_tool_result(result, when, writer));
        if !is_own {
            return;
        }
        if is_answered {
            self.pending.record(when.recorded);
            return writer.working("a tool's result");
        }
        let text = text_of(content);
        if is_set(record, "isMeta") && is_hook_feedback(text) {
            self.pending.continues = true;
            return writer.working("a stop hook sends it on");
        }
        if is_set(record, "isMeta") || is_set(record, "isCompactSummary") {
            return;
        }
        if is_aside(text) {
            return report_user_command(record, text, when, writer);
        }
        if is_interruption(text) {
            self.messages.complete_own(writer);
            return writer.interrupted("a human interrupted it".to_owned());
        }
        self.pending.record(when.recorded);
        let is_notification = record["origin"]["kind"].text() == "task-notification";
        let notification = Notification::parse(text);
        if is_notification || notification.is_some() {
            self.notification(text, writer);
            // The agent continues after the end of a task, unless the task was stopped.
            if notification.is_none_or(|end| end.status != "killed" && end.status != "stopped") {
                writer.working("a background task's end");
            }
            return;
        }
        self.messages.complete_own(writer);
        writer.abandon_tools();
        writer.prompt_sent(text);
    }

    fn assistant(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        let is_own = self.is_own(record, writer);
        let message = &record["message"];
        if !message.is_object() {
            return;
        }
        let is_error = is_set(record, "isApiErrorMessage");
        let speaker = Speaker {
            is_own,
            is_repeated: is_error,
        };
        let when = writer.time(record["timestamp"].time());
        let id = message["id"].text().to_owned();
        let stop = message["stop_reason"].as_str();
        let is_synthetic = message["model"].text() == SYNTHETIC;
        let parts = report_assistant(message, speaker, when, &mut self.messages, writer);
        if !is_own {
            return;
        }
        self.is_whole = stop.is_some();
        self.pending.record(when.recorded);
        // Sub-agents and sessions without a user write no such lines.
        let is_side = is_set(record, "isSidechain");
        self.may_be_confirmed = record["entrypoint"].text() == "cli" && !is_side;
        if is_error {
            self.messages.complete_own(writer);
            let kind = record["error"].as_str().unwrap_or("unknown");
            let error = first([&writer.answer, kind]).to_owned();
            return writer.failed(&error, format!("an API error message: {kind}"));
        }
        if is_synthetic {
            return;
        }
        if parts.has_tool || stop == Some("tool_use") {
            return writer.working("a tool is called");
        }
        if !parts.has_text {
            // The agent thinks, unless its message has already ended the turn.
            if self.ended_by != id || id.is_empty() {
                writer.working("it thinks");
            }
            return;
        }
        match stop {
            Some(reason @ ("end_turn" | "stop_sequence")) => {
                self.complete_turn(id, reason, true, writer);
            }
            Some(reason @ ("refusal" | "max_tokens" | "model_context_window_exceeded")) => {
                self.complete_turn(id, reason, false, writer);
            }
            Some(_) => writer.working("an answer that goes on"),
            None if writes_stop_reasons(record["version"].text()) => {
                writer.working("an answer that is not complete");
                writer.follow_up = FollowUp::Message;
            }
            None => {
                writer.pause(
                    StreamStatus::MaybeDone,
                    "inferred: an answer without a stop reason",
                );
            }
        }
    }

    /// Ends the turn with this message.
    fn complete_turn(
        &mut self,
        id: String,
        reason: &str,
        is_whole: bool,
        writer: &mut EventWriter,
    ) {
        let is_reported = self.ended_by == id && !id.is_empty();
        self.ended_by = id;
        self.is_confirmed &= is_reported;
        if !is_reported {
            self.messages.complete_own(writer);
            writer.turn_completed(reason);
            if !is_whole {
                writer.warn(format!("the answer is incomplete: {reason}"));
            }
        }
        self.done(format!("stop_reason {reason}"), writer);
    }

    /// Sets the status after the turn, which depends on pending work.
    fn done(&mut self, evidence: impl Into<Cow<'static, str>>, writer: &mut EventWriter) {
        let (status, follow_up) = self
            .pending
            .status(self.is_confirmed, self.may_be_confirmed);
        writer.pause(status, evidence);
        writer.follow_up = follow_up;
        let tasks = self.background(Timestamp::from_micros(i64::MIN));
        writer.has_agents = tasks.agents > 0;
    }

    /// Updates the status after a change of pending work.
    fn update_status(&mut self, writer: &mut EventWriter) {
        if let StreamStatus::Done | StreamStatus::Background { .. } = writer.status {
            let evidence = writer.evidence.clone();
            self.done(evidence, writer);
        }
    }

    fn attachment(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        let attachment = &record["attachment"];
        if attachment["type"].text() == "goal_status" && !is_set(record, "isSidechain") {
            let (is_met, is_begin) = (is_set(attachment, "met"), is_set(attachment, "sentinel"));
            if self.pending.goal_verdict(is_met, is_begin) {
                return writer.working("its goal is not met");
            }
            return self.update_status(writer);
        }
        self.notification(attachment["prompt"].text(), writer);
        self.notification(attachment["content"].text(), writer);
    }

    fn system(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        match record["subtype"].text() {
            "turn_duration" => {
                let agents = record["pendingBackgroundAgentCount"].as_u64();
                let workflows = record["pendingWorkflowCount"].as_u64();
                if agents.is_some() || workflows.is_some() {
                    let count = agents.unwrap_or(0).saturating_add(workflows.unwrap_or(0));
                    let count = usize::try_from(count).unwrap_or(usize::MAX);
                    let time = record["timestamp"].time();
                    self.pending.tasks.set_count(count, time);
                }
                self.confirm("turn_duration", writer);
            }
            // The hooks have run, unless one of them made the agent continue.
            "stop_hook_summary"
                if !is_set(record, "preventedContinuation") && !self.pending.continues =>
            {
                self.confirm("stop_hook_summary", writer);
            }
            "away_summary" => writer.note_summary(record["content"].text()),
            "api_error" => {
                writer.warn(format!(
                    "the API request is retried: attempt {} of {}",
                    count(record, "retryAttempt"),
                    count(record, "maxRetries"),
                ));
            }
            _ => {}
        }
    }

    /// Processes a line that is written when a turn is over, even a failed one.
    fn confirm(&mut self, by: &'static str, writer: &mut EventWriter) {
        match writer.status {
            StreamStatus::Working | StreamStatus::MaybeDone => {
                self.is_confirmed = true;
                self.messages.complete_own(writer);
                writer.turn_completed(by);
                self.done(by, writer);
            }
            StreamStatus::Done | StreamStatus::Background { .. } => {
                self.is_confirmed = true;
                self.update_status(writer);
            }
            StreamStatus::Unknown | StreamStatus::Failed | StreamStatus::Interrupted => {}
        }
    }

    /// Processes the end of a background task in any record.
    fn notification(&mut self, text: &str, writer: &mut EventWriter) {
        let Some(notification) = Notification::parse(text) else {
            return;
        };
        self.pending.end_task(&notification);
        if let StreamStatus::Background { .. } = writer.status {
            self.update_status(writer);
        }
    }
}

/// Returns true if this version writes a stop reason for every message.
fn writes_stop_reasons(version: &str) -> bool {
    let mut numbers = version
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let version = [(); 3].map(|()| numbers.next().unwrap_or(0));
    // The first version that writes a stop reason for every complete message.
    version >= [2, 1, 76]
}

// `claude -p --output-format stream-json`: runs from an init to a result (pure).

/// Returns a count as text, and `?` if it is absent.
fn count(record: &Json<'_>, field: &str) -> String {
    let count = record[field].as_u64();
    count.map_or_else(|| "?".to_owned(), |count| count.to_string())
}

#[derive(Debug, Default)]
pub struct ClaudePrint {
    messages: OpenMessages,
    /// The message whose deltas arrive, if partial messages are enabled.
    message: LiveMessage,
    is_live: bool,
    /// True once partial messages have arrived.
    has_partial: bool,
    result_index: Option<u64>,
    session_id: String,
    /// The number of running background tasks.
    tasks: usize,
    /// True if a background task has ended since the last init. The next init may then start the
    /// turn that reports the end to the agent.
    is_woken: bool,
    /// The number of turns in this run without a result.
    turns: usize,
    /// The total usage that the results of the run state.
    total_usage: TokenUsage,
    cost: CostTotal,
}

impl RecordHandler for ClaudePrint {
    fn record(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        match record["type"].text() {
            "stream_event" => self.event(record, writer),
            "assistant" => self.assistant(record, writer),
            "user" => self.user(record, writer),
            // Gemini's records of this type have neither field.
            "result" if record["subtype"].as_str().is_none() && record["is_error"].is_null() => {
                writer.mark_unknown();
            }
            "result" => self.result(record, writer),
            "system" => self.system(record, writer),
            "rate_limit_event" => {
                if record["rate_limit_info"]["status"].text() == "rejected" {
                    writer.warn("the rate limit is reached".to_owned());
                }
            }
            // A record of a newer version.
            _ => writer.mark_unknown(),
        }
    }

    fn finish(&mut self, writer: &mut EventWriter) {
        self.messages.complete_all(writer);
        writer.finish();
    }
}

impl ClaudePrint {
    fn system(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        match record["subtype"].text() {
            "init" => {
                self.messages.complete_all(writer);
                let session_id = record["session_id"].text();
                // After the second turn, the results of both turns follow.
                let is_same_run = std::mem::take(&mut self.is_woken)
                    && writer.status == StreamStatus::Working
                    && session_id == self.session_id;
                if is_same_run {
                    self.turns += 1;
                } else {
                    writer.cut_off_by("another run began");
                    session_id.clone_into(&mut self.session_id);
                    self.messages.begin_run();
                    self.total_usage = TokenUsage::default();
                    self.tasks = 0;
                    self.turns = 1;
                }
                self.is_live = false;
                writer.working("system/init");
            }
            "background_tasks_changed" => {
                let tasks = record["tasks"].list().len();
                self.is_woken |= tasks < self.tasks;
                self.tasks = tasks;
            }
            "api_retry" => {
                writer.warn(format!(
                    "the API request is retried: attempt {} of {}, in {} ms, after status {}",
                    count(record, "attempt"),
                    count(record, "max_retries"),
                    count(record, "retry_delay_ms"),
                    count(record, "error_status"),
                ));
            }
            _ => {}
        }
    }

    fn event(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        // The messages of a sub-agent are repeated in full.
        if !is_own(record) {
            return;
        }
        self.has_partial = true;
        let when = writer.time(record["timestamp"].time());
        ApiDialect::Anthropic.parts(&record["event"], &mut |part| match part {
            ApiPart::Began(id) => {
                writer.working("a message");
                self.is_live = true;
                self.message.begin(id);
            }
            // The stream began within a message, which follows in full.
            _ if !self.is_live => {}
            ApiPart::Complete => self.message_complete(writer),
            part => self.message.take(part, when, true, writer),
        });
    }

    fn message_complete(&mut self, writer: &mut EventWriter) {
        self.is_live = false;
        if let Some(open) = self.messages.open(&self.message.id, true, writer) {
            let usage = self.message.usage;
            open.usage
                .replace(Some(usage.input_tokens), Some(usage.output_tokens));
            open.has_tool_calls |= self.message.has_tool_calls;
            if open.text.is_empty() {
                open.text = std::mem::take(&mut self.message.text);
            }
        }
        self.messages.complete_own(writer);
    }

    fn assistant(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        let message = &record["message"];
        if !message.is_object() {
            return;
        }
        let speaker = Speaker {
            is_own: is_own(record),
            is_repeated: self.message.has_text && message["id"].text() == self.message.id,
        };
        if speaker.is_own {
            writer.working("an assistant's message");
            let mut blocks = message["content"].list().iter();
            let has_text = blocks.any(|block| block["type"].text() == "text");
            writer.has_whole_messages |= has_text && !self.has_partial;
        }
        let when = writer.time(record["timestamp"].time());
        report_assistant(message, speaker, when, &mut self.messages, writer);
    }

    fn user(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        let content = &record["message"]["content"];
        let when = writer.time(record["timestamp"].time());
        if tool_results(content).next().is_some() {
            tool_results(content).for_each(|result| report_tool_result(result, when, writer));
            if is_own(record) {
                writer.working("a tool's result");
            }
            return;
        }
        let text = text_of(content);
        let is_repeated = is_set(record, "isReplay") || is_set(record, "isSynthetic");
        if !is_own(record) || is_repeated || text.is_empty() || is_aside(text) {
            return;
        }
        if is_interruption(text) {
            return writer.warn("the turn was stopped: a human interrupted it".to_owned());
        }
        self.messages.complete_own(writer);
        writer.prompt_sent(text);
    }

    fn result(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        let usage = TokenUsage::of_anthropic(&record["usage"]);
        self.total_usage = self.total_usage.plus(usage);
        let session = record["session_id"].text();
        writer.note(self.cost.added(session, &record["total_cost_usd"]));
        // Messages contain the counts of their beginning; the result has the total. Totals by model
        // include sub-agents, but also earlier runs of a resumed session.
        self.messages.complete_run(self.total_usage, writer);
        self.is_live = false;
        let index = record["result_index"].as_u64();
        if let (Some(last), Some(now)) = (self.result_index, index)
            && now > last + 1
        {
            let lost = now - last - 1;
            writer.warn(format!("{lost} results were lost before this one"));
        }
        self.result_index = index.or(self.result_index);
        self.turns = self.turns.saturating_sub(1);
        let subtype = record["subtype"].text();
        let is_error = &record["is_error"];
        let mut evidence = match is_error {
            Json::Null => format!("result: subtype {subtype}, without is_error"),
            value => {
                let shown = serde_json::to_string(value).unwrap_or_default();
                format!("result: subtype {subtype}, is_error {}", summary(&shown))
            }
        };
        if let Some(reason) = record["terminal_reason"].as_str() {
            evidence.push_str(", terminal_reason ");
            evidence.push_str(reason);
        }
        // Only an explicit `false` rules out an error.
        let is_good = is_error.is_null() || is_error.as_bool() == Some(false);
        if is_good && subtype == "success" {
            writer.set_answer(record["result"].text());
            writer.turn_completed(record["stop_reason"].as_str().unwrap_or("result"));
            if self.turns > 0 {
                // The run ends with the result of its last turn, or with its stream.
                writer.pause(StreamStatus::Done, evidence);
            } else {
                writer.completed(evidence);
            }
        } else {
            let errors = record["errors"].any_text();
            let result = record["result"].text();
            let error = first([result, errors.as_str(), subtype, "an unspecified error"]);
            writer.failed(error, evidence);
        }
    }
}

/// Returns true for a record of the agent itself, not of a sub-agent.
fn is_own(record: &Json<'_>) -> bool {
    record["parent_tool_use_id"].as_str().is_none()
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (version, expected) in [
            ("2.1.76", true),
            ("2.1.235", true),
            ("3.0.0", true),
            ("2.1.9", false),
            ("1.0.98", false),
            ("", false),
        ] {
            assert_eq!(writes_stop_reasons(version), expected, "{version}");
        }
    }
}
