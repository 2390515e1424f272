//! Tracks the starts and ends of an agent's background tasks (pure).

use serde::Deserialize;

use crate::agent::stream::{Count, Maybe, RecentIds, Str, hash};

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

#[cfg(test)]
mod tests {
    use super::*;

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
