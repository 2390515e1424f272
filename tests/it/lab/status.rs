//! The content of an agent's own status file over time: reported states must follow it.

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use td_observe::{Envelope, TdEvent};

/// The time after a change of the status file in which the state must be reported.
const WITHIN_MICROS: i64 = 500_000;

/// The poll interval of the files.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A change: its time in milliseconds since 1970, and the new status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    at_ms: i64,
    status: String,
}

/// Records the changes of the status files in a directory.
pub struct StatusRecorder {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Change>>,
}

impl StatusRecorder {
    pub fn start(directory: PathBuf) -> Self {
        let (stop, stopped) = bounded::<()>(0);
        let thread = std::thread::spawn(move || {
            let mut changes: Vec<Change> = Vec::new();
            while stopped.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let files = std::fs::read_dir(&directory)
                    .into_iter()
                    .flatten()
                    .flatten();
                for file in files {
                    let text = std::fs::read(file.path()).unwrap_or_default();
                    let json: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
                    let status = json["status"].as_str();
                    if let (Some(status), Some(at_ms)) = (status, json["statusUpdatedAt"].as_i64())
                        && changes.last().is_none_or(|last| last.at_ms < at_ms)
                    {
                        changes.push(Change {
                            at_ms,
                            status: status.to_owned(),
                        });
                    }
                }
            }
            changes
        });
        Self { stop, thread }
    }

    /// Returns the observed changes.
    pub fn stop(self) -> Vec<Change> {
        drop(self.stop);
        self.thread.join().unwrap()
    }
}

/// Checks the last reported state half a second after each change that lasts at least that long: it must
/// equal that of the file.
pub fn check(lab: &str, changes: &[Change], seen: &[Envelope], pane: &str) {
    for (at, change) in changes.iter().enumerate() {
        let due = change.at_ms * 1000 + WITHIN_MICROS;
        let is_short = (changes.get(at + 1)).is_some_and(|next| next.at_ms * 1000 <= due);
        let reported = seen.iter().filter(|envelope| envelope.ts.micros() <= due);
        let last = reported.rev().find_map(|envelope| match &envelope.event {
            TdEvent::AgentState {
                state, pane: of, ..
            } if of.as_ref().is_some_and(|of| of.as_str() == pane) => Some(state.as_str()),
            _ => None,
        });
        // Before the first state, the agent is starting.
        let Some(state) = last.filter(|_| !is_short) else {
            continue;
        };
        let expected: &[&str] = match change.status.as_str() {
            "busy" => &["working"],
            "waiting" => &["waiting"],
            "idle" => &["idle", "done", "error", "limited"],
            _ => continue,
        };
        assert!(
            expected.contains(&state),
            "{lab}: {change:?} is {state} after half a second"
        );
    }
}
