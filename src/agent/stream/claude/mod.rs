//! Claude Code: the output of `claude -p --output-format stream-json`, and session transcripts (pure).

use std::borrow::Cow;
use std::time::Duration;

use super::event::{FollowUp, StreamStatus};
use super::{
    AnyText, Count, EventTime, EventWriter, Flag, List, Maybe, OpenMessages, RecentIds, Str,
    default_visits, hash,
};
use crate::timestamp::Timestamp;
use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
pub(super) use transcript::{ClaudePrint, ClaudeTranscript};

mod transcript;

/// The model name of messages that Claude Code itself has written.
const SYNTHETIC: &str = "<synthetic>";

/// The origin of a record.
#[derive(Clone, Copy, Debug)]
struct Speaker {
    /// True for the agent itself, false for a sub-agent.
    is_own: bool,
    /// True if the text is reported elsewhere, because it arrived as deltas or is an error.
    is_repeated: bool,
}

/// The contents of an assistant's record.
#[derive(Clone, Copy, Debug, Default)]
struct MessageParts {
    has_text: bool,
    has_tool: bool,
}

/// Reports the contents of an assistant's record: text, tools, and its part of a message.
fn report_assistant(
    message: ApiMessage<'_>,
    speaker: Speaker,
    when: EventTime,
    messages: &mut OpenMessages,
    writer: &mut EventWriter,
) -> MessageParts {
    let mut parts = MessageParts::default();
    let is_synthetic = message.model.as_str() == SYNTHETIC;
    if speaker.is_own && !is_synthetic {
        // Completes the previous message, whose event precedes those of this message.
        messages.open(message.id.as_str(), true, writer);
    }
    let ApiMessage {
        id, content, usage, ..
    } = message;
    let mut text = String::new();
    match content {
        MessageContent::None => {}
        MessageContent::Text(whole) => {
            parts.has_text = !whole.is_empty();
            text.push_str(&whole);
            if speaker.is_own && !speaker.is_repeated {
                writer.token(whole);
            }
        }
        MessageContent::Blocks(blocks) => {
            for block in blocks {
                if block.is_tool_use() {
                    parts.has_tool = true;
                    writer.tool_started(
                        block.id.as_str(),
                        block.name.as_str(),
                        block.args(),
                        when,
                        speaker.is_own,
                    );
                } else if let Some(id) = block.tool_use_id.get() {
                    // The message of a tool that the API runs also has the tool's result.
                    writer.tool_completed(
                        id,
                        block.is_success(),
                        block.content.text.as_str(),
                        when,
                    );
                } else if block.kind.as_str() == "text"
                    && let Some(piece) = block.text.into_inner()
                {
                    parts.has_text = true;
                    text.push_str(&piece);
                    if speaker.is_own && !speaker.is_repeated {
                        writer.token(piece);
                    }
                }
            }
        }
    }
    if speaker.is_own {
        writer.set_answer(&text);
    }
    if !is_synthetic && let Some(open) = messages.open(id.as_str(), speaker.is_own, writer) {
        if !open.text.is_empty() && !text.is_empty() {
            open.text.push("\n");
        }
        open.text.push(&text);
        open.has_tool_calls |= parts.has_tool;
        if let Some(usage) = usage.0 {
            open.usage
                .replace(usage.input_tokens.0, usage.output_tokens.0);
        }
    }
    parts
}

/// Reports the tool results of a user's record; returns true if it has any.
fn report_tool_results(
    content: &MessageContent<'_>,
    time: EventTime,
    writer: &mut EventWriter,
) -> bool {
    for (id, block) in content.tool_results() {
        writer.tool_completed(id, block.is_success(), block.content.text.as_str(), time);
    }
    content.tool_results().next().is_some()
}

/// Returns true if the text replaces a prompt after the user has stopped the agent.
fn is_interruption(text: &str) -> bool {
    text.starts_with("[Request interrupted by user")
}

/// Returns true if the text comes from a stop hook, which makes the agent continue, instead of a prompt.
fn is_hook_feedback(text: &str) -> bool {
    let title = text.split(':').next().unwrap_or_default();
    matches!(title, "Stop hook feedback" | "SubagentStop hook feedback")
}

/// Returns true if the text is a command or its output, which is not sent to the model as a prompt.
fn is_aside(text: &str) -> bool {
    [
        "<command-name>",
        "<local-command-",
        "<bash-input>",
        "<bash-stdout>",
    ]
    .iter()
    .any(|begin| text.starts_with(begin))
}

// Tracks the work that remains after a turn of a transcript: tasks, a wake-up, a goal, a hook (pure).

/// A wake-up that the agent has requested.
#[derive(Clone, Copy, Debug)]
struct WakeUp {
    after: Duration,
    at: Timestamp,
}

/// The work that remains after a turn, so that the agent is not finished.
#[derive(Debug, Default)]
pub struct PendingWork {
    pub tasks: Tasks,
    wake_up: Option<WakeUp>,
    /// True if an unmet goal is set, so that a verdict follows the end of each turn.
    has_goal: bool,
    /// True if a hook made the agent continue, so that the next summary of hooks does not confirm
    /// the end of the turn.
    pub continues: bool,
}

impl PendingWork {
    /// Records the time of a record of the agent itself.
    pub fn record(&mut self, time: Option<Timestamp>) {
        self.continues = false;
        if let Some(wake_up) = self.wake_up
            && time.is_some_and(|time| time >= wake_up.at)
        {
            self.wake_up = None;
        }
    }

    /// Processes a tool's result, which may start or end a task, or set a wake-up.
    pub fn tool_result(&mut self, result: &Launch<'_>, time: Option<Timestamp>) {
        self.tasks.tool_result(result);
        let Some(scheduled_ms) = result.scheduled_for.0 else {
            return;
        };
        // A result without a time cancels the wake-up.
        self.wake_up = i64::try_from(scheduled_ms)
            .ok()
            .filter(|millis| *millis > 0)
            .and_then(|millis| millis.checked_mul(1_000))
            .map(Timestamp::from_micros)
            .and_then(|at| {
                let by_time = time.map(|time| at.micros().saturating_sub(time.micros()).max(0));
                let by_time = by_time.and_then(|micros| u64::try_from(micros).ok());
                let stated = result.clamped_delay_seconds.0.map(Duration::from_secs);
                let after = by_time.map(Duration::from_micros).or(stated)?;
                Some(WakeUp { after, at })
            });
    }

    pub fn end_task(&mut self, notification: &Notification<'_>) {
        if notification.has_ended() {
            self.tasks.end(notification.task_id);
        }
    }

    /// Records a verdict on the goal; returns true if the agent continues.
    pub fn goal_verdict(&mut self, is_met: bool, is_set: bool) -> bool {
        self.has_goal = !is_met;
        if is_met {
            // The wake-up belonged to the goal.
            self.wake_up = None;
        }
        let continues_now = !is_met && !is_set;
        self.continues |= continues_now;
        continues_now
    }

    /// Returns the status after a turn and the record that may follow. `is_confirmed`: the hooks of
    /// the turn have run; `may_be_confirmed`: the session has records that confirm this.
    pub fn status(&self, is_confirmed: bool, may_be_confirmed: bool) -> (StreamStatus, FollowUp) {
        let tasks = self.tasks.len();
        let background = |tasks| StreamStatus::Background { tasks };
        match (tasks, self.wake_up) {
            (0, Some(wake_up)) => (background(1), FollowUp::Wake(wake_up.after)),
            (0, None) if is_confirmed => (StreamStatus::Done, FollowUp::Nothing),
            (0, None) if self.has_goal => (StreamStatus::Done, FollowUp::Goal),
            (0, None) if may_be_confirmed => (StreamStatus::Done, FollowUp::Confirmation),
            (0, None) => (StreamStatus::Done, FollowUp::Nothing),
            (tasks, wake_up) => {
                let tasks = tasks + usize::from(wake_up.is_some());
                (background(tasks), FollowUp::Nothing)
            }
        }
    }
}

// Tracks the starts and ends of an agent's background tasks (pure).

/// The maximum number of open tasks.
const TASKS_MAX: usize = 1_024;

/// The description of a task in the result of a tool, `toolUseResult` of a transcript.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Launch<'a> {
    status: Str<'a>,
    #[serde(rename = "agentId")]
    agent_id: Str<'a>,
    #[serde(rename = "backgroundTaskId")]
    background_task_id: Str<'a>,
    #[serde(rename = "shellId")]
    shell_id: Str<'a>,
    task: Maybe<Task<'a>>,
    // The time of a wake-up in milliseconds since the Unix epoch.
    #[serde(rename = "scheduledFor")]
    pub scheduled_for: Count,
    #[serde(rename = "clampedDelaySeconds")]
    pub clamped_delay_seconds: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Task<'a> {
    task_id: Str<'a>,
    status: Str<'a>,
}

/// The tasks that have not ended.
#[derive(Debug, Default)]
pub struct Tasks {
    /// The hashes of the ids of open tasks.
    open: Vec<u64>,
    ended: RecentIds,
    /// The number of other open tasks, which a record counts but whose start was not read.
    uncounted: usize,
}

impl Tasks {
    pub fn len(&self) -> usize {
        self.open.len() + self.uncounted
    }

    fn begin(&mut self, id: &str) {
        let is_known = self.ended.contains(id) || self.open.contains(&hash(id));
        if !is_known && self.open.len() < TASKS_MAX {
            self.open.push(hash(id));
        }
    }

    /// Ends a task. Several records report the same end, which counts once.
    pub fn end(&mut self, id: &str) {
        if !self.ended.insert(id) {
            return;
        }
        match self.open.iter().position(|open| *open == hash(id)) {
            Some(at) => {
                self.open.remove(at);
            }
            None => self.uncounted = self.uncounted.saturating_sub(1),
        }
    }

    /// Processes a tool's result that precedes the first record that was read. A task that it
    /// starts may already be counted.
    pub fn earlier_tool_result(&mut self, result: &Launch<'_>) {
        let known = self.open.len();
        self.tool_result(result);
        let begun = self.open.len().saturating_sub(known);
        self.uncounted = self.uncounted.saturating_sub(begun);
    }

    /// Sets the number of tasks that a record states.
    pub fn set_count(&mut self, count: usize) {
        self.uncounted = count.saturating_sub(self.open.len());
    }

    /// Processes a tool's result, which may start or end a task.
    pub fn tool_result(&mut self, result: &Launch<'_>) {
        let status = result.status.as_str();
        if status == "async_launched"
            && let Some(id) = result.agent_id.get()
        {
            self.begin(id);
        }
        if let Some(id) = result.background_task_id.get() {
            self.begin(id);
        }
        if let Some(id) = result.shell_id.get()
            && has_ended(status)
        {
            self.end(id);
        }
        if let Some(task) = &result.task.0
            && has_ended(task.status.as_str())
            && let Some(id) = task.task_id.get()
        {
            self.end(id);
        }
    }
}

/// The end of a task, as Claude Code reports it to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification<'a> {
    pub task_id: &'a str,
    pub status: &'a str,
}

impl<'a> Notification<'a> {
    /// Parses a `<task-notification>`; returns `None` for other text.
    pub fn parse(text: &'a str) -> Option<Self> {
        let body = text.trim_start().strip_prefix("<task-notification>")?;
        Some(Self {
            task_id: element(body, "<task-id>", "</task-id>")?,
            status: element(body, "<status>", "</status>").unwrap_or_default(),
        })
    }

    pub fn has_ended(&self) -> bool {
        has_ended(self.status)
    }
}

/// Returns the content of the first element with this name. Free text (a summary, a result) follows
/// the elements that are read.
fn element<'a>(body: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(begin)?;
    let (text, _) = rest.split_once(end)?;
    Some(text.trim())
}

fn has_ended(status: &str) -> bool {
    matches!(
        status,
        "completed" | "failed" | "killed" | "stopped" | "cancelled"
    )
}

// The messages of the API, which both formats of Claude Code and the API's own stream contain (pure).

/// A message of the user or the assistant.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct ApiMessage<'a> {
    pub id: Str<'a>,
    pub model: Str<'a>,
    pub content: MessageContent<'a>,
    pub stop_reason: Str<'a>,
    pub usage: Maybe<UsageCounts>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct UsageCounts {
    pub input_tokens: Count,
    pub output_tokens: Count,
}

/// The content of a message: a single text, or blocks.
#[derive(Debug, Default)]
pub enum MessageContent<'a> {
    #[default]
    None,
    Text(Cow<'a, str>),
    Blocks(Vec<ContentBlock<'a>>),
}

impl<'a> MessageContent<'a> {
    /// Returns the single text, or the text of the first text block.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => (self.blocks())
                .filter(|block| block.kind.as_str() == "text")
                .find_map(|block| block.text.get())
                .unwrap_or_default(),
        }
    }

    /// Returns the tool results and the ids of their calls.
    pub fn tool_results(&self) -> impl Iterator<Item = (&str, &ContentBlock<'a>)> {
        self.blocks()
            .filter(|block| block.kind.as_str() == "tool_result")
            .filter_map(|block| Some((block.tool_use_id.get()?, block)))
    }

    fn blocks(&self) -> impl Iterator<Item = &ContentBlock<'a>> {
        match self {
            Self::Blocks(blocks) => blocks.iter(),
            _ => [].iter(),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for MessageContent<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;
        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = MessageContent<'de>;
            default_visits!(MessageContent::None; bool number null map);
            fn visit_borrowed_str<E: Error>(
                self,
                text: &'de str,
            ) -> Result<MessageContent<'de>, E> {
                Ok(MessageContent::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<MessageContent<'de>, E> {
                Ok(MessageContent::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(
                self,
                list: A,
            ) -> Result<MessageContent<'de>, A::Error> {
                List::deserialize(SeqAccessDeserializer::new(list))
                    .map(|blocks| MessageContent::Blocks(blocks.0))
            }
        }
        deserializer.deserialize_any(ContentVisitor)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct ContentBlock<'a> {
    #[serde(rename = "type")]
    pub kind: Str<'a>,
    pub text: Str<'a>,
    pub id: Str<'a>,
    pub name: Str<'a>,
    pub input: Option<&'a RawValue>,
    pub tool_use_id: Str<'a>,
    pub content: AnyText,
    pub is_error: Flag,
}

impl ContentBlock<'_> {
    /// Returns true if the block calls a tool: one of the agent, of the API, or on a server that
    /// the API calls.
    pub fn is_tool_use(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "tool_use" | "server_tool_use" | "mcp_tool_use"
        )
    }

    pub fn args(&self) -> &str {
        self.input.map(RawValue::get).unwrap_or_default()
    }

    /// Returns true if the result of a tool is not an error.
    pub fn is_success(&self) -> bool {
        !self.is_error.is_set() && !self.content.is_error
    }
}

#[cfg(test)]
mod tests {
    mod pending {

        use super::super::*;

        const AT_MS: i64 = 1_779_137_640_000;

        fn launch(json: &str) -> Launch<'_> {
            serde_json::from_str(json).unwrap()
        }

        #[test]
        fn a_wake_up_is_pending_until_its_time_or_a_met_goal() {
            let set = format!("{{\"scheduledFor\":{AT_MS},\"clampedDelaySeconds\":60}}");
            let at = |seconds: i64| Some(Timestamp::from_micros((AT_MS + seconds * 1_000) * 1_000));
            let woken = |after| {
                let expected = FollowUp::Wake(Duration::from_secs(after));
                (StreamStatus::Background { tasks: 1 }, expected)
            };
            let done = (StreamStatus::Done, FollowUp::Nothing);
            let mut pending = PendingWork::default();
            pending.tool_result(&launch(&set), None);
            assert_eq!(pending.status(true, true), woken(60));
            pending.tool_result(&launch(&set), at(-61));
            assert_eq!(pending.status(true, true), woken(61));
            pending.record(at(-1));
            assert_eq!(pending.status(true, true), woken(61));
            pending.record(at(1));
            assert_eq!(pending.status(true, true), done);
            pending.tool_result(&launch(&set), at(-61));
            assert!(!pending.goal_verdict(true, true));
            assert_eq!(pending.status(true, true), done);
            pending.tool_result(&launch(&set), at(-61));
            pending.tool_result(&launch("{\"scheduledFor\":0}"), at(-61));
            assert_eq!(pending.status(true, true), done);
        }

        #[test]
        fn an_unmet_goal_expects_a_verdict() {
            let mut pending = PendingWork::default();
            let expected =
                |pending: &PendingWork, is_confirmed| pending.status(is_confirmed, true).1;
            assert_eq!(expected(&pending, false), FollowUp::Confirmation);
            assert!(!pending.goal_verdict(false, true), "it was set");
            assert_eq!(expected(&pending, false), FollowUp::Goal);
            assert_eq!(expected(&pending, true), FollowUp::Nothing);
            assert!(pending.goal_verdict(false, false) && pending.continues);
            pending.record(None);
            assert!(!pending.continues);
            assert!(!pending.goal_verdict(true, true));
            assert_eq!(expected(&pending, false), FollowUp::Confirmation);
        }
    }

    mod background {

        use super::super::*;

        #[test]
        fn a_notification_is_parsed_and_a_quotation_is_not() {
            let text = "<task-notification>\n<task-id>a1</task-id>\n<status>killed</status>\n<result><task-id>b2</task-id></result>";
            let found = Notification::parse(text).unwrap();
            assert_eq!((found.task_id, found.status), ("a1", "killed"));
            assert_eq!(Notification::parse(&format!("I saw {text}")), None);
            assert_eq!(Notification::parse("<task-notification>"), None);
        }

        #[test]
        fn a_task_ends_once() {
            let mut tasks = Tasks::default();
            let launch = |json| serde_json::from_str::<Launch<'_>>(json).unwrap();
            tasks.tool_result(&launch(r#"{"status":"async_launched","agentId":"a"}"#));
            tasks.tool_result(&launch(r#"{"backgroundTaskId":"b"}"#));
            tasks.tool_result(&launch(r#"{"status":"completed","agentId":"c"}"#));
            assert_eq!(tasks.len(), 2);
            tasks.tool_result(&launch(r#"{"shellId":"b","status":"running"}"#));
            tasks.end("a");
            tasks.end("a");
            assert_eq!(tasks.len(), 1);
            tasks.tool_result(&launch(r#"{"task":{"task_id":"b","status":"killed"}}"#));
            assert_eq!(tasks.len(), 0);
        }

        #[test]
        fn tasks_of_earlier_results_count_once() {
            let launch = |json| serde_json::from_str::<Launch<'_>>(json).unwrap();
            let mut tasks = Tasks::default();
            tasks.set_count(1);
            tasks.end("b");
            tasks.set_count(1);
            tasks.earlier_tool_result(&launch(r#"{"status":"async_launched","agentId":"a"}"#));
            tasks.earlier_tool_result(&launch(r#"{"backgroundTaskId":"b"}"#));
            assert_eq!(tasks.len(), 1, "the other one has ended since");
            tasks.end("a");
            assert_eq!(tasks.len(), 0);
        }

        #[test]
        fn tasks_that_began_unseen_are_counted() {
            let mut tasks = Tasks::default();
            tasks.set_count(2);
            tasks.end("x");
            tasks.end("x");
            assert_eq!(tasks.len(), 1);
        }
    }
}
