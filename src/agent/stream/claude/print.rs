//! `claude -p --output-format stream-json`: runs that begin with an init and end with a result (pure).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::grammar::Grammar;
use super::super::lenient::{Count, Flag, List, Maybe, Str, Time};
use super::super::messages::Messages;
use super::super::scribe::{Scribe, Usage as Tokens};
use super::super::standing::Standing;
use super::wire::{Event, Live, Message, Streamed, Usage};
use super::{Speaker, answers, assistant, is_aside, is_interruption};
use crate::agent::summary::summary;

/// A line of the stream.
#[derive(Debug, Default, Deserialize)]
pub struct Record<'a> {
    #[serde(default, borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(default, borrow)]
    subtype: Str<'a>,
    #[serde(default, borrow)]
    event: Maybe<Box<Event<'a>>>,
    #[serde(default, borrow)]
    message: Maybe<Box<Message<'a>>>,
    #[serde(default, borrow)]
    parent_tool_use_id: Str<'a>,
    #[serde(default, borrow)]
    timestamp: Time<'a>,
    #[serde(default, rename = "isReplay")]
    is_replay: Flag,
    #[serde(default, rename = "isSynthetic")]
    is_synthetic: Flag,
    // Of a result.
    #[serde(default, borrow)]
    is_error: Option<&'a RawValue>,
    #[serde(default, borrow)]
    result: Str<'a>,
    #[serde(default)]
    errors: super::super::lenient::Gist,
    #[serde(default, borrow)]
    stop_reason: Str<'a>,
    #[serde(default, borrow)]
    terminal_reason: Str<'a>,
    #[serde(default)]
    result_index: Count,
    #[serde(default)]
    usage: Maybe<Usage>,
    // Of a retry.
    #[serde(default)]
    attempt: Count,
    #[serde(default)]
    max_retries: Count,
    #[serde(default)]
    retry_delay_ms: Count,
    #[serde(default)]
    error_status: Count,
    // Of an init.
    #[serde(default, borrow)]
    session_id: Str<'a>,
    /// The background tasks that are under way, after one began or ended.
    #[serde(default)]
    tasks: List<Task>,
    // Of a limit.
    #[serde(default, borrow)]
    rate_limit_info: Maybe<Box<RateLimit<'a>>>,
}

/// A background task; only how many there are matters.
#[derive(Debug, Default, Deserialize)]
struct Task {}

#[derive(Debug, Default, Deserialize)]
struct RateLimit<'a> {
    #[serde(default, borrow)]
    status: Str<'a>,
}

/// The meaning of stream-json.
#[derive(Debug, Default)]
pub struct Print {
    messages: Messages,
    /// The message whose deltas come; only with partial messages.
    live: Live,
    is_live: bool,
    result_index: Option<u64>,
    /// The session of the run.
    session_id: String,
    /// Background tasks that are under way.
    tasks: usize,
    /// A background task has ended since the last init: the next init may be the turn in which the
    /// agent hears of it.
    is_woken: bool,
    /// Turns of the run that began and have no result yet.
    turns: usize,
    /// What the results of the run say that it took.
    taken: Tokens,
}

impl Grammar for Print {
    type Record<'a> = Record<'a>;

    fn record(&mut self, record: Record<'_>, scribe: &mut Scribe) {
        match record.kind.as_str() {
            "stream_event" => self.event(record, scribe),
            "assistant" => self.assistant(record, scribe),
            "user" => self.user(record, scribe),
            // Gemini's records of this type have neither.
            "result" if record.subtype.is_absent() && record.is_error.is_none() => scribe.unknown(),
            "result" => self.result(&record, scribe),
            "system" => self.system(&record, scribe),
            "rate_limit_event" => {
                let limit = record.rate_limit_info.0.unwrap_or_default();
                if limit.status.as_str() == "rejected" {
                    scribe.warn("the rate limit is reached".to_owned());
                }
            }
            // Of a newer version.
            _ => scribe.unknown(),
        }
    }

    fn end(&mut self, scribe: &mut Scribe) {
        self.messages.tell_all(scribe);
        scribe.end();
    }
}

impl Print {
    fn system(&mut self, record: &Record<'_>, scribe: &mut Scribe) {
        match record.subtype.as_str() {
            "init" => {
                self.messages.tell_all(scribe);
                let session_id = record.session_id.as_str();
                // The results of both turns follow the second.
                let is_same_run = std::mem::take(&mut self.is_woken)
                    && scribe.standing() == Standing::Working
                    && session_id == self.session_id;
                if is_same_run {
                    self.turns += 1;
                } else {
                    if scribe.standing() == Standing::Working {
                        scribe.cut("another run began");
                    }
                    session_id.clone_into(&mut self.session_id);
                    self.messages.begin_run();
                    self.taken = Tokens::default();
                    self.tasks = 0;
                    self.turns = 1;
                }
                self.is_live = false;
                scribe.working("system/init");
            }
            "background_tasks_changed" => {
                let tasks = record.tasks.0.len();
                self.is_woken |= tasks < self.tasks;
                self.tasks = tasks;
            }
            "api_retry" => {
                let number = |count: Count| count.0.map_or("?".to_owned(), |n| n.to_string());
                scribe.warn(format!(
                    "the API is asked again: attempt {} of {}, in {} ms, after status {}",
                    number(record.attempt),
                    number(record.max_retries),
                    number(record.retry_delay_ms),
                    number(record.error_status),
                ));
            }
            _ => {}
        }
    }

    fn event(&mut self, record: Record<'_>, scribe: &mut Scribe) {
        // What a sub-agent streams comes again as its whole messages.
        let (Some(event), true) = (record.event.0, record.parent_tool_use_id.is_absent()) else {
            return;
        };
        if event.kind.as_str() == "message_start" {
            scribe.working("a message");
            self.is_live = true;
        } else if !self.is_live {
            // Begun in the middle: the whole message follows.
            return;
        }
        let when = scribe.when(record.timestamp.read());
        if self.live.event(*event, when, true, scribe) == Streamed::Stopped {
            self.is_live = false;
            let id = std::mem::take(&mut self.live.id);
            if let Some(open) = self.messages.open(&id, true, scribe) {
                open.usage = self.live.usage;
                open.has_tool_calls |= self.live.has_tool_calls;
                if open.text.is_empty() {
                    open.text = std::mem::take(&mut self.live.text);
                }
            }
            self.live.id = id;
            self.messages.tell_own(scribe);
        }
    }

    fn assistant(&mut self, record: Record<'_>, scribe: &mut Scribe) {
        let Some(message) = record.message.0 else {
            return;
        };
        let is_own = record.parent_tool_use_id.is_absent();
        let speaker = Speaker {
            is_own,
            is_repeated: self.live.has_deltas && message.id.as_str() == self.live.id,
        };
        if is_own {
            scribe.working("an assistant's message");
        }
        let when = scribe.when(record.timestamp.read());
        assistant(*message, speaker, when, &mut self.messages, scribe);
    }

    fn user(&mut self, record: Record<'_>, scribe: &mut Scribe) {
        let Some(message) = record.message.0 else {
            return;
        };
        let is_own = record.parent_tool_use_id.is_absent();
        let when = scribe.when(record.timestamp.read());
        if answers(&message.content, when, scribe) {
            if is_own {
                scribe.working("a tool's result");
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
            return scribe.warn("the turn was stopped: a human interrupted it".to_owned());
        }
        self.messages.tell_own(scribe);
        scribe.working("a prompt");
        scribe.prompt(text);
    }

    fn result(&mut self, record: &Record<'_>, scribe: &mut Scribe) {
        if let Some(usage) = record.usage.0 {
            let mut tokens = Tokens::default();
            usage.replace(&mut tokens);
            self.taken = self.taken.plus(tokens);
        }
        // Each message carries the counts of its beginning; what the whole took stands here. The
        // totals by model have sub-agents, too, but also earlier runs of a resumed session.
        self.messages.tell_run(self.taken, scribe);
        self.is_live = false;
        if let (Some(last), Some(now)) = (self.result_index, record.result_index.0)
            && now > last + 1
        {
            let lost = now - last - 1;
            scribe.warn(format!("{lost} results were lost before this one"));
        }
        self.result_index = record.result_index.0.or(self.result_index);
        self.turns = self.turns.saturating_sub(1);
        let subtype = record.subtype.as_str();
        // No error is what says so; what says something else is one.
        let is_error = record.is_error.map(RawValue::get);
        let mut evidence = match is_error {
            Some(said) => format!("result: subtype {subtype}, is_error {}", summary(said)),
            None => format!("result: subtype {subtype}, without is_error"),
        };
        if let Some(reason) = record.terminal_reason.get() {
            evidence.push_str(", terminal_reason ");
            evidence.push_str(reason);
        }
        if is_error.is_none_or(|said| said == "false") && subtype == "success" {
            scribe.said(record.result.as_str());
            scribe.turn_completed(record.stop_reason.get().unwrap_or("result"));
            if self.turns > 0 {
                // The run ends with the result of its last turn, or with its stream.
                scribe.told_anew();
                scribe.stand(Standing::Done, evidence);
            } else {
                scribe.completed(evidence);
            }
        } else {
            let error = [record.result.as_str(), record.errors.text.as_str(), subtype]
                .into_iter()
                .find(|text| !text.trim().is_empty());
            scribe.failed(error.unwrap_or("an error that says nothing"), evidence);
        }
    }
}
