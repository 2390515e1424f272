//! `claude -p --output-format stream-json`: runs from an init to a result (pure).

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::wire::{ApiEvent, ApiMessage, LiveMessage, StreamStep, UsageCounts};
use super::{Speaker, is_aside, is_interruption, report_assistant, report_tool_results};
use crate::agent::stream::{
    AnyText, Count, EventWriter, Flag, List, Maybe, OpenMessages, RecordHandler, Str, StreamStatus,
    Time, TokenUsage,
};
use crate::agent::summary::summary;

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct ClaudePrintRecord<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    subtype: Str<'a>,
    event: Maybe<Box<ApiEvent<'a>>>,
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
        if event.kind.as_str() == "message_start" {
            writer.working("a message");
            self.is_live = true;
        } else if !self.is_live {
            // The stream began within a message, which follows in full.
            return;
        }
        let when = writer.time(record.timestamp.read());
        if self.message.event(*event, when, true, writer) == StreamStep::Stopped {
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
    }

    fn assistant(&mut self, record: ClaudePrintRecord<'_>, writer: &mut EventWriter) {
        let Some(message) = record.message.0 else {
            return;
        };
        let is_own = record.parent_tool_use_id.is_absent();
        let speaker = Speaker {
            is_own,
            is_repeated: self.message.has_deltas && message.id.as_str() == self.message.id,
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
            usage.replace(&mut tokens);
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
