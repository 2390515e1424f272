//! Claude Code: the output of `claude -p --output-format stream-json`, and session transcripts (pure).

use std::collections::VecDeque;
use std::time::Duration;

use super::api::is_success;
use super::event::{FollowUp, StreamStatus};
use super::{EventTime, EventWriter, Json, OpenMessages, RecentIds, TokenUsage, hash};
use crate::event::Background;
use crate::timestamp::Timestamp;
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
    message: &Json<'_>,
    speaker: Speaker,
    when: EventTime,
    messages: &mut OpenMessages,
    writer: &mut EventWriter,
) -> MessageParts {
    let mut parts = MessageParts::default();
    let id = message["id"].text();
    let is_synthetic = message["model"].text() == SYNTHETIC;
    if speaker.is_own && !is_synthetic {
        // Completes the previous message, whose event precedes those of this message.
        messages.open(id, true, writer);
    }
    let mut text = String::new();
    let mut take_text = |piece: &str, writer: &mut EventWriter| {
        text.push_str(piece);
        if speaker.is_own && !speaker.is_repeated {
            writer.token(piece.into());
        }
    };
    let content = &message["content"];
    if let Some(whole) = content.as_str() {
        parts.has_text = !whole.is_empty();
        take_text(whole, writer);
    }
    for block in content.list() {
        let kind = block["type"].text();
        if matches!(kind, "tool_use" | "server_tool_use" | "mcp_tool_use") {
            // A tool of the agent, of the API, or on a server that the API calls.
            parts.has_tool = true;
            let (id, name) = (block["id"].text(), block["name"].text());
            let arguments = block["input"].arguments();
            writer.tool_started(id, name, &arguments, when, speaker.is_own);
        } else if block["tool_use_id"].as_str().is_some() {
            // The message of a tool that the API runs also has the tool's result.
            report_tool_result(block, when, writer);
        } else if kind == "text"
            && let Some(piece) = block["text"].as_str()
        {
            parts.has_text = true;
            take_text(piece, writer);
        }
    }
    if speaker.is_own {
        writer.set_answer(&text);
    }
    if !is_synthetic && let Some(open) = messages.open(id, speaker.is_own, writer) {
        if !open.text.is_empty() && !text.is_empty() {
            open.text.push("\n");
        }
        open.text.push(&text);
        open.has_tool_calls |= parts.has_tool;
        let usage = &message["usage"];
        open.usage.replace(
            usage["input_tokens"].as_u64(),
            usage["output_tokens"].as_u64(),
        );
        // All records of a message state the same.
        let cached = TokenUsage::of_anthropic(usage).cached_input;
        open.usage.cached_input = open.usage.cached_input.max(cached);
    }
    parts
}

/// Returns the results of tools in the content of a message.
fn tool_results<'c, 'a>(content: &'c Json<'a>) -> impl Iterator<Item = &'c Json<'a>> {
    let is_result = |block: &&Json<'_>| {
        block["type"].text() == "tool_result" && block["tool_use_id"].as_str().is_some()
    };
    content.list().iter().filter(is_result)
}

fn report_tool_result(block: &Json<'_>, when: EventTime, writer: &mut EventWriter) {
    let (id, text) = (block["tool_use_id"].text(), block["content"].any_text());
    writer.tool_completed(id, is_success(block), text.as_str(), when);
}

/// Returns the single text of a message, or the text of its first text block.
fn text_of<'c>(content: &'c Json<'_>) -> &'c str {
    let mut blocks = content.list().iter();
    let text = blocks.find_map(|block| {
        let is_text = block["type"].text() == "text";
        block["text"].as_str().filter(|_| is_text)
    });
    content.as_str().or(text).unwrap_or_default()
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
    ["<command-name>", "<local-command-", BASH_INPUT, BASH_OUTPUT]
        .iter()
        .any(|begin| text.starts_with(begin))
}

const BASH_INPUT: &str = "<bash-input>";
const BASH_OUTPUT: &str = "<bash-stdout>";

/// Reports a command of the user's (`!make`) or its output, which are records of their own.
fn report_user_command(record: &Json<'_>, text: &str, when: EventTime, writer: &mut EventWriter) {
    if let Some(command) = text.strip_prefix(BASH_INPUT) {
        let command = command.strip_suffix("</bash-input>").unwrap_or(command);
        writer.user_command(record["uuid"].text(), command, when);
    } else if let Some(output) = text.strip_prefix(BASH_OUTPUT) {
        let parts = output.split_once("</bash-stdout><bash-stderr>");
        let (out, errors) = parts.unwrap_or((output, ""));
        let errors = errors.strip_suffix("</bash-stderr>").unwrap_or(errors);
        let output = format!("{out}{errors}");
        writer.tool_completed(record["parentUuid"].text(), true, &output, when);
    }
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

    /// Processes the `toolUseResult` of a tool, which may start or end a task, or set a wake-up at a
    /// time in milliseconds since the Unix epoch.
    pub fn tool_result(&mut self, result: &Json<'_>, time: Option<Timestamp>) {
        self.tasks.tool_result(result, time);
        let Some(scheduled_ms) = result["scheduledFor"].as_u64() else {
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
                let stated = result["clampedDelaySeconds"].as_u64();
                let stated = stated.map(Duration::from_secs);
                let after = by_time.map(Duration::from_micros).or(stated)?;
                Some(WakeUp { after, at })
            });
    }

    pub fn end_task(&mut self, notification: &Notification<'_>) {
        if let Some(status) = end_status(notification.status) {
            self.tasks.end(notification.task_id, status);
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

/// A task that has not ended.
#[derive(Clone, Copy, Debug)]
struct Task {
    /// The hash of its id.
    id: u64,
    is_shell: bool,
    begun: Option<Timestamp>,
}

/// The tasks that have not ended.
#[derive(Debug, Default)]
pub struct Tasks {
    open: Vec<Task>,
    ended: RecentIds,
    /// The last ones of those that did not complete, with their status.
    incomplete: VecDeque<(u64, &'static str)>,
    /// The number of other open tasks, which a record counts but whose start was not read.
    uncounted: usize,
    /// The time of that record.
    counted: Option<Timestamp>,
}

impl Tasks {
    pub fn len(&self) -> usize {
        self.open.len() + self.uncounted
    }

    /// Returns the numbers of tasks that were begun since this time: those of an earlier process of the agent have
    /// ended with it, without a record.
    pub fn begun_since(&self, since: Timestamp) -> Background {
        let is_new = |time: Option<Timestamp>| time.is_none_or(|time| time >= since);
        let count = |is_shell| {
            let tasks = self.open.iter();
            let tasks = tasks.filter(|task| task.is_shell == is_shell && is_new(task.begun));
            u32::try_from(tasks.count()).unwrap_or(u32::MAX)
        };
        // Records count sub-agents and their workflows, but not shells.
        let uncounted = if is_new(self.counted) {
            self.uncounted
        } else {
            0
        };
        let uncounted = u32::try_from(uncounted).unwrap_or(u32::MAX);
        Background {
            shells: count(true),
            agents: count(false).saturating_add(uncounted),
        }
    }

    fn position(&self, id: &str) -> Option<usize> {
        let id = hash(id);
        self.open.iter().position(|open| open.id == id)
    }

    fn begin(&mut self, id: &str, is_shell: bool, begun: Option<Timestamp>) {
        let is_known = self.ended.contains(id) || self.position(id).is_some();
        if !is_known && self.open.len() < TASKS_MAX {
            let id = hash(id);
            self.open.push(Task {
                id,
                is_shell,
                begun,
            });
        }
    }

    /// Returns the status with which a task has ended; `None` if no record says that it has.
    pub fn end_of(&self, id: &str) -> Option<&'static str> {
        let is_its = |(of, _): &&(u64, &'static str)| *of == hash(id);
        let incomplete = self.incomplete.iter().find(is_its);
        let status = incomplete.map_or(COMPLETED, |(_, status)| status);
        self.ended.contains(id).then_some(status)
    }

    /// Ends a task. Several records report the same end, which counts once.
    pub fn end(&mut self, id: &str, status: &'static str) {
        if !self.ended.insert(id) {
            return;
        }
        if status != COMPLETED {
            self.incomplete.push_back((hash(id), status));
            if self.incomplete.len() > TASKS_MAX {
                self.incomplete.pop_front();
            }
        }
        match self.position(id) {
            Some(at) => {
                self.open.remove(at);
            }
            None => self.uncounted = self.uncounted.saturating_sub(1),
        }
    }

    /// Processes a tool's result that precedes the first record that was read. A task that it
    /// starts may already be counted.
    pub fn earlier_tool_result(&mut self, result: &Json<'_>, time: Option<Timestamp>) {
        let known = self.open.len();
        self.tool_result(result, time);
        let begun = self.open.len().saturating_sub(known);
        self.uncounted = self.uncounted.saturating_sub(begun);
    }

    /// Sets the number of tasks that a record states.
    pub fn set_count(&mut self, count: usize, time: Option<Timestamp>) {
        self.counted = time;
        self.uncounted = count.saturating_sub(self.open.len());
    }

    /// Processes a tool's result, which may start or end a task.
    pub fn tool_result(&mut self, result: &Json<'_>, time: Option<Timestamp>) {
        let status = result["status"].text();
        let (agent, monitor) = (result["agentId"].as_str(), result["taskId"].as_str());
        let begun = [
            (agent.filter(|_| status == "async_launched"), false),
            (result["backgroundTaskId"].as_str(), true),
            // A monitor. The tools of the list of things to do have ids of the same name, and say `success`.
            (monitor.filter(|_| result["success"].is_null()), true),
        ];
        for (id, is_shell) in begun {
            if let Some(id) = id {
                self.begin(id, is_shell, time);
            }
        }
        let task = &result["task"];
        let ended = [
            (&result["shellId"], status),
            (&task["task_id"], task["status"].text()),
        ];
        for (id, status) in ended {
            if let (Some(id), Some(status)) = (id.as_str(), end_status(status)) {
                self.end(id, status);
            }
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
}

/// Returns the content of the first element with this name. Free text (a summary, a result) follows
/// the elements that are read.
fn element<'a>(body: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(begin)?;
    let (text, _) = rest.split_once(end)?;
    Some(text.trim())
}

/// The status of a task that has ended well.
const COMPLETED: &str = "completed";

/// Returns the status if it says that a task has ended.
fn end_status(status: &str) -> Option<&'static str> {
    let known = [COMPLETED, "failed", "killed", "stopped", "cancelled"];
    known.into_iter().find(|known| *known == status)
}

#[cfg(test)]
mod tests {
    mod pending {

        use super::super::*;

        const AT_MS: i64 = 1_779_137_640_000;

        fn launch(json: &str) -> Json<'_> {
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
        fn shells_and_agents_are_counted_since_the_start_of_their_process() {
            let at = |second: i64| Some(Timestamp::from_micros(second * 1_000_000));
            let launch = |json| serde_json::from_str::<Json<'_>>(json).unwrap();
            let mut tasks = Tasks::default();
            tasks.earlier_tool_result(&launch(r#"{"backgroundTaskId":"old"}"#), at(1));
            tasks.tool_result(&launch(r#"{"backgroundTaskId":"b"}"#), at(3));
            let agent = launch(r#"{"status":"async_launched","agentId":"a"}"#);
            tasks.tool_result(&agent, at(4));
            let counted = |tasks: &Tasks, since: i64| {
                let running = tasks.begun_since(Timestamp::from_micros(since * 1_000_000));
                (running.shells, running.agents)
            };
            assert_eq!(counted(&tasks, 1), (2, 1));
            assert_eq!(counted(&tasks, 2), (1, 1));
            tasks.end("b", COMPLETED);
            assert_eq!(counted(&tasks, 2), (0, 1));
            tasks.set_count(3, at(5));
            assert_eq!(counted(&tasks, 2), (0, 2));
        }

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
            let launch = |json| serde_json::from_str::<Json<'_>>(json).unwrap();
            tasks.tool_result(
                &launch(r#"{"status":"async_launched","agentId":"a"}"#),
                None,
            );
            tasks.tool_result(&launch(r#"{"backgroundTaskId":"b"}"#), None);
            tasks.tool_result(&launch(r#"{"status":"completed","agentId":"c"}"#), None);
            assert_eq!(tasks.len(), 2);
            tasks.tool_result(&launch(r#"{"shellId":"b","status":"running"}"#), None);
            tasks.end("a", COMPLETED);
            tasks.end("a", COMPLETED);
            assert_eq!(tasks.len(), 1);
            tasks.tool_result(
                &launch(r#"{"task":{"task_id":"b","status":"killed"}}"#),
                None,
            );
            assert_eq!(tasks.len(), 0);
        }

        #[test]
        fn tasks_of_earlier_results_count_once() {
            let launch = |json| serde_json::from_str::<Json<'_>>(json).unwrap();
            let mut tasks = Tasks::default();
            tasks.set_count(1, None);
            tasks.end("b", COMPLETED);
            tasks.set_count(1, None);
            tasks.earlier_tool_result(
                &launch(r#"{"status":"async_launched","agentId":"a"}"#),
                None,
            );
            tasks.earlier_tool_result(&launch(r#"{"backgroundTaskId":"b"}"#), None);
            assert_eq!(tasks.len(), 1, "the other one has ended since");
            tasks.end("a", COMPLETED);
            assert_eq!(tasks.len(), 0);
        }

        #[test]
        fn tasks_that_began_unseen_are_counted() {
            let mut tasks = Tasks::default();
            tasks.set_count(2, None);
            tasks.end("x", COMPLETED);
            tasks.end("x", COMPLETED);
            assert_eq!(tasks.len(), 1);
        }
    }
}
