//! Claude Code's session transcripts, in which no record definitely ends a turn (pure).
//!
//! One message of the API takes several lines, one for each block, and the version determines what
//! the lines show about its end. The rule was fitted to labelled transcripts of versions 1 to
//! 2.1.235: a text answer ends a turn if its stop reason shows it or later lines confirm it.

use std::borrow::Cow;

use super::super::api::{ApiDialect, ApiPart, LiveMessage};
use super::super::{
    AnyText, Count, EventWriter, Flag, FollowUp, List, Maybe, OpenMessages, RecordHandler, Str,
    StreamStatus, Time, TokenUsage,
};
use super::{
    ApiMessage, Launch, Notification, PendingWork, SYNTHETIC, Speaker, UsageCounts, is_aside,
    is_hook_feedback, is_interruption, report_assistant, report_tool_results,
};
use crate::agent::summary::summary;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

/// The first version that writes a stop reason for every complete message.
const STOP_REASON_SINCE: [u32; 3] = [2, 1, 76];

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub struct TranscriptRecord<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    subtype: Str<'a>,
    message: Maybe<Box<ApiMessage<'a>>>,
    timestamp: Time<'a>,
    version: Str<'a>,
    entrypoint: Str<'a>,
    is_sidechain: Flag,
    agent_id: Str<'a>,
    is_meta: Flag,
    is_compact_summary: Flag,
    is_api_error_message: Flag,
    error: Str<'a>,
    tool_use_result: Maybe<Box<Launch<'a>>>,
    origin: Maybe<PromptOrigin<'a>>,
    // Fields of a system line.
    prevented_continuation: Flag,
    pending_background_agent_count: Count,
    pending_workflow_count: Count,
    retry_attempt: Count,
    max_retries: Count,
    // Fields of a queue-operation, and of an attachment.
    content: Str<'a>,
    attachment: Maybe<Box<Attachment<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct PromptOrigin<'a> {
    kind: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Attachment<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    prompt: Str<'a>,
    content: Str<'a>,
    // Fields of a goal.
    met: Flag,
    sentinel: Flag,
}

#[derive(Debug, Default)]
pub struct ClaudeTranscript {
    messages: OpenMessages,
    pending: PendingWork,
    agent_id: String,
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
    type Record<'a> = TranscriptRecord<'a>;

    fn record(&mut self, record: TranscriptRecord<'_>, writer: &mut EventWriter) {
        match record.kind.as_str() {
            "assistant" => self.assistant(record, writer),
            "user" => self.user(record, writer),
            "system" => self.system(&record, writer),
            "queue-operation" => self.notification(record.content.as_str(), writer),
            "attachment" => self.attachment(record, writer),
            // Written when the user leaves the session, so that a stopped turn will not continue soon.
            "last-prompt" if writer.status() == StreamStatus::Interrupted => {
                writer.set_follow_up(FollowUp::Confirmation);
            }
            "progress" | "file-history-snapshot" | "last-prompt" | "summary" => {}
            // Titles, modes, and records of newer versions.
            _ => writer.mark_unknown(),
        }
    }

    fn earlier_record(&mut self, record: TranscriptRecord<'_>, _writer: &mut EventWriter) {
        if let Some(result) = &record.tool_use_result.0
            && !record.is_sidechain.is_set()
        {
            self.pending.tasks.earlier_tool_result(result);
        }
        let attachment = record.attachment.0.unwrap_or_default();
        let message = record.message.0.unwrap_or_default();
        let texts = [
            record.content.as_str(),
            attachment.prompt.as_str(),
            attachment.content.as_str(),
            message.content.text(),
        ];
        for notification in texts.into_iter().filter_map(Notification::parse) {
            self.pending.end_task(&notification);
        }
    }

    fn earlier_records_end(&mut self, writer: &mut EventWriter) {
        self.update_status(writer);
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
    fn is_own(&mut self, record: &TranscriptRecord<'_>, writer: &mut EventWriter) -> bool {
        let is_side = record.is_sidechain.is_set();
        match writer.is_sub_agent {
            None => {
                writer.is_sub_agent = Some(is_side);
                self.agent_id = record.agent_id.as_str().to_owned();
            }
            // The parser began within the lines of a sub-agent: version 1 mixes both agents in one file.
            Some(true) if !is_side => {
                writer.is_sub_agent = Some(false);
                writer.set_status(StreamStatus::Unknown, "");
            }
            Some(_) => {}
        }
        let is_same_agent = record.agent_id.as_str() == self.agent_id || self.agent_id.is_empty();
        writer.is_sub_agent == Some(is_side) && (!is_side || is_same_agent)
    }

    fn user(&mut self, record: TranscriptRecord<'_>, writer: &mut EventWriter) {
        let is_own = self.is_own(&record, writer);
        let Some(message) = record.message.0 else {
            return;
        };
        let when = writer.time(record.timestamp.read());
        if let Some(result) = &record.tool_use_result.0
            && is_own
        {
            self.pending.tool_result(result, when.recorded);
        }
        if is_own && self.is_whole && message.content.tool_results().next().is_some() {
            // The message precedes the results of its tools. An incomplete message has more tools,
            // and its usage follows with the last of them.
            self.messages.complete_own(writer);
        }
        let is_answered = report_tool_results(&message.content, when, writer);
        if !is_own {
            return;
        }
        if is_answered {
            self.pending.record(when.recorded);
            return writer.working("a tool's result");
        }
        let text = message.content.text();
        if record.is_meta.is_set() && is_hook_feedback(text) {
            self.pending.continues = true;
            return writer.working("a stop hook sends it on");
        }
        if record.is_meta.is_set() || record.is_compact_summary.is_set() || is_aside(text) {
            return;
        }
        if is_interruption(text) {
            self.messages.complete_own(writer);
            return writer.interrupted("a human interrupted it".to_owned());
        }
        self.pending.record(when.recorded);
        let is_notification = record
            .origin
            .0
            .is_some_and(|origin| origin.kind.as_str() == "task-notification");
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

    fn assistant(&mut self, record: TranscriptRecord<'_>, writer: &mut EventWriter) {
        let is_own = self.is_own(&record, writer);
        let Some(message) = record.message.0 else {
            return;
        };
        let speaker = Speaker {
            is_own,
            is_repeated: record.is_api_error_message.is_set(),
        };
        let when = writer.time(record.timestamp.read());
        let id = message.id.as_str().to_owned();
        let stop = message.stop_reason.get().map(str::to_owned);
        let is_synthetic = message.model.as_str() == SYNTHETIC;
        let parts = report_assistant(*message, speaker, when, &mut self.messages, writer);
        if !is_own {
            return;
        }
        self.is_whole = stop.is_some();
        self.pending.record(when.recorded);
        // Sub-agents and sessions without a user write no such lines.
        let is_side = record.is_sidechain.is_set();
        self.may_be_confirmed = record.entrypoint.as_str() == "cli" && !is_side;
        if record.is_api_error_message.is_set() {
            self.messages.complete_own(writer);
            let kind = record.error.get().unwrap_or("unknown");
            let error = match writer.answer() {
                "" => kind.to_owned(),
                text => text.to_owned(),
            };
            return writer.failed(&error, format!("an API error message: {kind}"));
        }
        if is_synthetic {
            return;
        }
        let stop = stop.as_deref();
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
            None if writes_stop_reasons(record.version.as_str()) => {
                writer.working("an answer that is not complete");
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
        writer.set_follow_up(follow_up);
    }

    /// Updates the status after a change of pending work.
    fn update_status(&mut self, writer: &mut EventWriter) {
        if let StreamStatus::Done | StreamStatus::Background { .. } = writer.status() {
            let evidence = writer.evidence().to_owned();
            self.done(evidence, writer);
        }
    }

    fn attachment(&mut self, record: TranscriptRecord<'_>, writer: &mut EventWriter) {
        let attachment = record.attachment.0.unwrap_or_default();
        if attachment.kind.as_str() == "goal_status" && !record.is_sidechain.is_set() {
            if self
                .pending
                .goal_verdict(attachment.met.is_set(), attachment.sentinel.is_set())
            {
                return writer.working("its goal is not met");
            }
            return self.update_status(writer);
        }
        self.notification(attachment.prompt.as_str(), writer);
        self.notification(attachment.content.as_str(), writer);
    }

    fn system(&mut self, record: &TranscriptRecord<'_>, writer: &mut EventWriter) {
        match record.subtype.as_str() {
            "turn_duration" => {
                let agents = record.pending_background_agent_count.0;
                let workflows = record.pending_workflow_count.0;
                if agents.is_some() || workflows.is_some() {
                    let count = agents.unwrap_or(0).saturating_add(workflows.unwrap_or(0));
                    let count = usize::try_from(count).unwrap_or(usize::MAX);
                    self.pending.tasks.set_count(count);
                }
                self.confirm("turn_duration", writer);
            }
            // The hooks have run, unless one of them made the agent continue.
            "stop_hook_summary"
                if !record.prevented_continuation.is_set() && !self.pending.continues =>
            {
                self.confirm("stop_hook_summary", writer);
            }
            "api_error" => {
                writer.warn(format!(
                    "the API request is retried: attempt {} of {}",
                    record.retry_attempt, record.max_retries,
                ));
            }
            _ => {}
        }
    }

    /// Processes a line that is written when a turn is over, even a failed one.
    fn confirm(&mut self, by: &'static str, writer: &mut EventWriter) {
        match writer.status() {
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
        if let StreamStatus::Background { .. } = writer.status() {
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
    version >= STOP_REASON_SINCE
}

// `claude -p --output-format stream-json`: runs from an init to a result (pure).

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct ClaudePrintRecord<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    subtype: Str<'a>,
    event: Maybe<Value>,
    message: Maybe<Box<ApiMessage<'a>>>,
    parent_tool_use_id: Str<'a>,
    timestamp: Time<'a>,
    #[serde(rename = "isReplay")]
    is_replay: Flag,
    #[serde(rename = "isSynthetic")]
    is_synthetic: Flag,
    // Fields of a result.
    is_error: Option<&'a RawValue>,
    result: Str<'a>,
    errors: AnyText,
    stop_reason: Str<'a>,
    terminal_reason: Str<'a>,
    result_index: Count,
    usage: Maybe<UsageCounts>,
    // Fields of a retry.
    attempt: Count,
    max_retries: Count,
    retry_delay_ms: Count,
    error_status: Count,
    // Fields of an init.
    session_id: Str<'a>,
    /// The running background tasks, written when a task starts or ends.
    tasks: List<IgnoredAny>,
    // Fields of a limit.
    rate_limit_info: Maybe<Box<RateLimit<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct RateLimit<'a> {
    status: Str<'a>,
}

#[derive(Debug, Default)]
pub struct ClaudePrint {
    messages: OpenMessages,
    /// The message whose deltas arrive, if partial messages are enabled.
    message: LiveMessage,
    is_live: bool,
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
}

impl RecordHandler for ClaudePrint {
    type Record<'a> = ClaudePrintRecord<'a>;

    fn record(&mut self, record: ClaudePrintRecord<'_>, writer: &mut EventWriter) {
        match record.kind.as_str() {
            "stream_event" => self.event(record, writer),
            "assistant" => self.assistant(record, writer),
            "user" => self.user(record, writer),
            // Gemini's records of this type have neither field.
            "result" if record.subtype.is_absent() && record.is_error.is_none() => {
                writer.mark_unknown()
            }
            "result" => self.result(&record, writer),
            "system" => self.system(&record, writer),
            "rate_limit_event" => {
                let limit = record.rate_limit_info.0.unwrap_or_default();
                if limit.status.as_str() == "rejected" {
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
    fn system(&mut self, record: &ClaudePrintRecord<'_>, writer: &mut EventWriter) {
        match record.subtype.as_str() {
            "init" => {
                self.messages.complete_all(writer);
                let session_id = record.session_id.as_str();
                // After the second turn, the results of both turns follow.
                let is_same_run = std::mem::take(&mut self.is_woken)
                    && writer.status() == StreamStatus::Working
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
                let tasks = record.tasks.0.len();
                self.is_woken |= tasks < self.tasks;
                self.tasks = tasks;
            }
            "api_retry" => {
                writer.warn(format!(
                    "the API request is retried: attempt {} of {}, in {} ms, after status {}",
                    record.attempt, record.max_retries, record.retry_delay_ms, record.error_status,
                ));
            }
            _ => {}
        }
    }

    fn event(&mut self, record: ClaudePrintRecord<'_>, writer: &mut EventWriter) {
        // The messages of a sub-agent are repeated in full.
        let (Some(event), true) = (record.event.0, record.parent_tool_use_id.is_absent()) else {
            return;
        };
        let when = writer.time(record.timestamp.read());
        ApiDialect::Anthropic.parts(&event, &mut |part| match part {
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
            open.usage = self.message.usage;
            open.has_tool_calls |= self.message.has_tool_calls;
            if open.text.is_empty() {
                open.text = std::mem::take(&mut self.message.text);
            }
        }
        self.messages.complete_own(writer);
    }

    fn assistant(&mut self, record: ClaudePrintRecord<'_>, writer: &mut EventWriter) {
        let Some(message) = record.message.0 else {
            return;
        };
        let is_own = record.parent_tool_use_id.is_absent();
        let speaker = Speaker {
            is_own,
            is_repeated: self.message.has_text && message.id.as_str() == self.message.id,
        };
        if is_own {
            writer.working("an assistant's message");
        }
        let when = writer.time(record.timestamp.read());
        report_assistant(*message, speaker, when, &mut self.messages, writer);
    }

    fn user(&mut self, record: ClaudePrintRecord<'_>, writer: &mut EventWriter) {
        let Some(message) = record.message.0 else {
            return;
        };
        let is_own = record.parent_tool_use_id.is_absent();
        let when = writer.time(record.timestamp.read());
        if report_tool_results(&message.content, when, writer) {
            if is_own {
                writer.working("a tool's result");
            }
            return;
        }
        let text = message.content.text();
        if !is_own
            || record.is_replay.is_set()
            || record.is_synthetic.is_set()
            || text.is_empty()
            || is_aside(text)
        {
            return;
        }
        if is_interruption(text) {
            return writer.warn("the turn was stopped: a human interrupted it".to_owned());
        }
        self.messages.complete_own(writer);
        writer.prompt_sent(text);
    }

    fn result(&mut self, record: &ClaudePrintRecord<'_>, writer: &mut EventWriter) {
        if let Some(usage) = record.usage.0 {
            let mut tokens = TokenUsage::default();
            tokens.replace(usage.input_tokens.0, usage.output_tokens.0);
            self.total_usage = self.total_usage.plus(tokens);
        }
        // Messages contain the counts of their beginning; the result has the total. Totals by model
        // include sub-agents, but also earlier runs of a resumed session.
        self.messages.complete_run(self.total_usage, writer);
        self.is_live = false;
        if let (Some(last), Some(now)) = (self.result_index, record.result_index.0)
            && now > last + 1
        {
            let lost = now - last - 1;
            writer.warn(format!("{lost} results were lost before this one"));
        }
        self.result_index = record.result_index.0.or(self.result_index);
        self.turns = self.turns.saturating_sub(1);
        let subtype = record.subtype.as_str();
        // Only an explicit `false` rules out an error.
        let is_error = record.is_error.map(RawValue::get);
        let mut evidence = match is_error {
            Some(value) => format!("result: subtype {subtype}, is_error {}", summary(value)),
            None => format!("result: subtype {subtype}, without is_error"),
        };
        if let Some(reason) = record.terminal_reason.get() {
            evidence.push_str(", terminal_reason ");
            evidence.push_str(reason);
        }
        if is_error.is_none_or(|value| value == "false") && subtype == "success" {
            writer.set_answer(record.result.as_str());
            writer.turn_completed(record.stop_reason.get().unwrap_or("result"));
            if self.turns > 0 {
                // The run ends with the result of its last turn, or with its stream.
                writer.pause(StreamStatus::Done, evidence);
            } else {
                writer.completed(evidence);
            }
        } else {
            let error = [record.result.as_str(), record.errors.text.as_str(), subtype]
                .into_iter()
                .find(|text| !text.trim().is_empty());
            writer.failed(error.unwrap_or("an unspecified error"), evidence);
        }
    }
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
