//! Tracks the work that remains after a turn of a transcript: tasks, a wake-up, a goal, a hook (pure).

use std::time::Duration;

use super::background::{Launch, Notification, Tasks};
use crate::agent::stream::status::{FollowUp, StreamStatus};
use crate::timestamp::Timestamp;

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

#[cfg(test)]
mod tests {
    use super::*;

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
        let expected = |pending: &PendingWork, is_confirmed| pending.status(is_confirmed, true).1;
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
