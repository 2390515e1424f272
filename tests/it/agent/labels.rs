//! The statuses that the label of a recording allows.

use td_observe::agent::StreamStatus;

const DONE: &[StreamStatus] = &[StreamStatus::Done];
const MAYBE: &[StreamStatus] = &[StreamStatus::MaybeDone];
const WORKING: &[StreamStatus] = &[StreamStatus::Working];
const FAILED: &[StreamStatus] = &[StreamStatus::Failed];
const INTERRUPTED: &[StreamStatus] = &[StreamStatus::Interrupted];
/// A version without stop reasons, or a format without an end marker, gives no certainty.
const COMPLETED: &[StreamStatus] = &[StreamStatus::Done, StreamStatus::MaybeDone];

/// Returns the statuses that a label allows, if it names one.
pub fn status(file: &str, label: &str) -> Option<&'static [StreamStatus]> {
    let directory = file.split('/').next().unwrap_or_default();
    if !super::DIRECTORIES.contains(&directory) {
        return None;
    }
    Some(match label {
        "completed" if directory == "gemini-sessions" => COMPLETED,
        "completed text, stop null" => MAYBE,
        // Another run, or a record without a status, follows.
        "run 1 completed, run 2 in progress"
        | "2 completed, 3rd in progress"
        | "3 completed, 4th in progress"
        | "5 cut runs"
        | "18 failed, 19th just started" => WORKING,
        // No record confirms the end of its turn.
        "interrupted earlier" | "long line; progress tail" => MAYBE,
        "main turn done while 3 background agents ran; they were then stopped" => DONE,
        "0 lost records, completed" => DONE,
        "not complete yet: working" => WORKING,
        "tool_use-ending" | "tool_use-ending, killed" | "in progress" => WORKING,
        // The broken record is a title; the turn before it is whole.
        "tail incomplete: wait" => DONE,
        "interrupted" => INTERRUPTED,
        "error" => FAILED,
        label if label.starts_with("completed") => DONE,
        label if label.starts_with("failed") => FAILED,
        _ => return None,
    })
}
