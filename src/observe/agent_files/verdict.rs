//! Decides whether an agent has ended, from its state and the time since its last output (pure).

use std::time::Duration;

use crate::agent::summary::result;
use crate::agent::{FollowUp, StreamFormat, StreamStatus};

/// The time for which the record that ends a turn must be the last: the next one may show that
/// background tasks still run.
pub(super) const HOLD: Duration = Duration::from_secs(1);

/// The factor of the wait for records that a living agent certainly writes: the rest of a record, or
/// the verdict on a goal.
const CERTAIN_TIMES: u32 = 6;

/// The factor of the wait for the rest of a message: the arguments of a tool, such as a long file, take minutes.
const MESSAGE_TIMES: u32 = 30;

/// The factor of the wait for the answer to a prompt or to a tool's result. A model may think for a quarter of an hour,
/// and then nothing is written.
const ANSWER_TIMES: u32 = 180;

/// The facts about an agent's output.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub status: StreamStatus,
    /// The records that the agent is expected to write in this state.
    pub follow_up: FollowUp,
    pub format: Option<StreamFormat>,
    /// The part of the records that shows the state.
    pub evidence: &'a str,
    pub answer: &'a str,
    /// The error that the agent reported; empty without one.
    pub error: &'a str,
    /// True if the last record is incomplete.
    pub is_open: bool,
    /// True while a tool runs, which may take any time.
    pub has_tool: bool,
    /// The number of bytes that were not read, and may contain tasks that still run.
    pub unread: u64,
    /// The time since the last write.
    pub quiet: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Completed { result: String, evidence: String },
    Failed { error: String, evidence: String },
}

/// Returns how the agent ended, if it has. `stable` is the time for which a file must be unchanged if
/// its records do not show an end.
pub(super) fn judge(facts: &Facts<'_>, stable: Duration) -> Option<Verdict> {
    let evidence = facts.evidence;
    let times = |times: u32| stable.saturating_mul(times);
    let is_quiet = |needed: Duration| facts.quiet >= needed;
    let completed = |evidence: String| Verdict::Completed {
        result: facts.answer.to_owned(),
        evidence,
    };
    let failed = |error: &str, evidence: String| Verdict::Failed {
        error: error.to_owned(),
        evidence,
    };
    let inferred = |what: &str, needed: Duration| {
        let evidence = || format!("inferred: {what} for {needed:?}");
        is_quiet(needed).then(|| completed(evidence()))
    };
    match facts.status {
        StreamStatus::Done => {
            let is_stable = is_quiet(stable.max(HOLD));
            match facts.follow_up {
                FollowUp::Goal => inferred(
                    &format!("{evidence}, and no verdict on its goal"),
                    times(CERTAIN_TIMES).max(HOLD),
                ),
                _ if facts.unread > 0 && is_stable => Some(completed(format!(
                    "inferred: {evidence}; the first {} bytes were not read",
                    facts.unread
                ))),
                _ if facts.unread > 0 => None,
                FollowUp::Confirmation if !is_stable => None,
                _ if facts.is_open && !is_stable => None,
                _ => is_quiet(HOLD).then(|| completed(evidence.to_owned())),
            }
        }
        StreamStatus::Interrupted => {
            let needed = match facts.follow_up {
                // The factor of the wait for the next prompt after a person stopped the agent. Nine in ten pauses in
                // recordings are shorter than 30 s.
                FollowUp::Prompt => times(3),
                _ => stable,
            };
            let needed = needed.max(HOLD);
            let evidence = || format!("{evidence}, and nothing followed for {needed:?}");
            is_quiet(needed).then(|| failed("interrupted", evidence()))
        }
        StreamStatus::Failed if is_quiet(HOLD) => {
            let error = match facts.error {
                "" => evidence,
                error => error,
            };
            Some(failed(error, evidence.to_owned()))
        }
        StreamStatus::MaybeDone => {
            let needed = if facts.is_open {
                times(CERTAIN_TIMES)
            } else {
                stable
            };
            inferred("it has answered, and nothing was written", needed)
        }
        StreamStatus::Background { .. } => match facts.follow_up {
            FollowUp::Wake(after) if is_quiet(after.saturating_add(stable)) => Some(completed(
                format!("inferred: {evidence}; it was to be woken after {after:?}, and was not"),
            )),
            // A background task may run for any time.
            _ => None,
        },
        // A record of an unknown format proves nothing, and neither does text.
        StreamStatus::Working | StreamStatus::Unknown if !is_known(facts.format) => {
            let is_being_written = facts.is_open && facts.format == Some(StreamFormat::Json);
            let needed = if is_being_written {
                times(CERTAIN_TIMES)
            } else {
                stable
            };
            inferred("nothing was written", needed)
        }
        StreamStatus::Working if !facts.has_tool => {
            let needed = match facts.follow_up {
                FollowUp::Message => times(MESSAGE_TIMES),
                _ => times(ANSWER_TIMES),
            };
            inferred(&format!("{evidence}, and nothing was written"), needed)
        }
        _ => None,
    }
}

/// Returns true if a format's records contain the state of an agent.
pub(super) fn is_known(format: Option<StreamFormat>) -> bool {
    !matches!(
        format,
        None | Some(StreamFormat::Json) | Some(StreamFormat::Text)
    )
}

// The last line of a text that is not blank, independent of how the text is cut (pure).

/// The bytes of a line that are kept, from its beginning: more than a result needs.
const LINE_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(super) struct LastLine {
    ended: Vec<u8>,
    /// The last line, which has no end yet.
    open: Vec<u8>,
}

impl LastLine {
    /// Takes the next piece of the text.
    pub fn push(&mut self, piece: &[u8]) {
        let Some(end) = memchr::memrchr(b'\n', piece) else {
            return keep(&mut self.open, piece);
        };
        let lines = &piece[..end];
        let mut lines = lines.rsplit(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            let is_first = lines.peek().is_none();
            if is_first {
                // The first part continues the open line.
                keep(&mut self.open, line);
            }
            let line = if is_first { self.open.as_slice() } else { line };
            if !is_blank(line) {
                self.ended.clear();
                keep(&mut self.ended, line);
                break;
            }
        }
        self.open.clear();
        keep(&mut self.open, &piece[end + 1..]);
    }

    /// Returns the line, cut to the length of a result.
    pub fn text(&self) -> String {
        let line = if is_blank(&self.open) {
            &self.ended
        } else {
            &self.open
        };
        let line = String::from_utf8_lossy(line);
        result(line.trim_matches(|c: char| c == '\0' || c.is_whitespace()))
    }
}

/// Appends as much as fits.
fn keep(line: &mut Vec<u8>, more: &[u8]) {
    let room = LINE_BYTES_MAX.saturating_sub(line.len());
    line.extend_from_slice(&more[..more.len().min(room)]);
}

/// Returns true if a line consists of blanks, or of the NUL bytes that a crash leaves.
fn is_blank(line: &[u8]) -> bool {
    line.iter()
        .all(|byte| *byte == 0 || byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    mod verdict {

        use super::super::*;

        fn facts(status: StreamStatus, format: Option<StreamFormat>) -> Facts<'static> {
            Facts {
                status,
                follow_up: FollowUp::Nothing,
                format,
                evidence: "end_turn",
                answer: "yes",
                error: "",
                is_open: false,
                has_tool: false,
                unread: 0,
                quiet: Duration::ZERO,
            }
        }

        #[test]
        fn expected_records_are_waited_for() {
            use FollowUp::{Confirmation, Goal, Message, Nothing, Prompt, Wake};
            use StreamStatus::{Background, Done, Interrupted, MaybeDone, Working};
            let wake = Wake(Duration::from_secs(61));
            let wakes = Background { tasks: 1 };
            for (status, follow_up, is_open, unread, seconds, word) in [
                (Done, Nothing, false, 0, 1, "end_turn"),
                (Done, Confirmation, false, 0, 10, "end_turn"),
                (
                    Done,
                    Goal,
                    false,
                    0,
                    60,
                    "inferred: end_turn, and no verdict",
                ),
                (Done, Nothing, true, 0, 10, "end_turn"),
                (
                    Done,
                    Nothing,
                    false,
                    7,
                    10,
                    "inferred: end_turn; the first 7",
                ),
                (Interrupted, Prompt, false, 0, 30, "end_turn, and nothing"),
                (
                    Interrupted,
                    Confirmation,
                    false,
                    0,
                    10,
                    "end_turn, and nothing",
                ),
                (MaybeDone, Nothing, true, 0, 60, "inferred: it has answered"),
                (
                    Working,
                    Message,
                    false,
                    0,
                    300,
                    "inferred: end_turn, and nothing",
                ),
                (
                    wakes,
                    wake,
                    false,
                    0,
                    71,
                    "inferred: end_turn; it was to be",
                ),
            ] {
                let mut facts = Facts {
                    follow_up,
                    is_open,
                    unread,
                    quiet: Duration::from_millis(seconds * 1_000 - 1),
                    ..facts(status, Some(StreamFormat::ClaudeTranscript))
                };
                let stable = Duration::from_secs(10);
                assert_eq!(judge(&facts, stable), None, "{facts:?}");
                facts.quiet = Duration::from_secs(seconds);
                let (Some(Verdict::Completed { evidence, .. })
                | Some(Verdict::Failed { evidence, .. })) = judge(&facts, stable)
                else {
                    panic!("{facts:?} has no end");
                };
                assert!(evidence.starts_with(word), "{facts:?}: {evidence}");
            }
        }

        #[test]
        fn silence_is_evidence_where_records_show_no_end() {
            use StreamStatus::{Background, Done, Failed, MaybeDone, Unknown, Working};
            let claude = Some(StreamFormat::ClaudeTranscript);
            for (status, format, quiet, word) in [
                (Done, claude, 0, ""),
                (Done, claude, 2, "end_turn"),
                (Failed, claude, 2, "end_turn"),
                (MaybeDone, claude, 9, ""),
                (MaybeDone, claude, 10, "inferred: it has answered"),
                (Working, claude, 1_799, ""),
                (Working, claude, 1_800, "inferred: end_turn, and nothing"),
                (Background { tasks: 1 }, claude, 1_000_000, ""),
                (Unknown, claude, 1_000_000, ""),
                (Working, Some(StreamFormat::Json), 9, ""),
                (Working, Some(StreamFormat::Json), 10, "inferred: nothing"),
                (Unknown, Some(StreamFormat::Text), 10, "inferred: nothing"),
                (Unknown, None, 10, "inferred: nothing"),
            ] {
                let facts = Facts {
                    quiet: Duration::from_secs(quiet),
                    ..facts(status, format)
                };
                let verdict = judge(&facts, Duration::from_secs(10));
                let found = match &verdict {
                    Some(
                        Verdict::Completed { evidence, .. } | Verdict::Failed { evidence, .. },
                    ) => evidence.as_str(),
                    None => "",
                };
                assert!(
                    found.starts_with(word) && found.is_empty() == word.is_empty(),
                    "{facts:?}: {verdict:?}"
                );
            }
        }
    }

    mod last_line {

        use super::super::*;

        #[test]
        fn pieces_change_nothing() {
            for (text, expected) in [
                ("", ""),
                ("one", "one"),
                ("one\n\n \n", "one"),
                ("one\ntwo\n", "two"),
                ("one\ntwo\n\0\0\0", "two"),
                ("\0\0\0\n\0", ""),
                ("one\n\ntwo and a half", "two and a half"),
            ] {
                for size in 1..=text.len().max(1) {
                    let mut line = LastLine::default();
                    for piece in text.as_bytes().chunks(size) {
                        line.push(piece);
                    }
                    assert_eq!(line.text(), expected, "{text:?} in pieces of {size}");
                }
            }
        }

        #[test]
        fn the_line_is_bounded() {
            let mut line = LastLine::default();
            for _ in 0..100 {
                line.push(&[b'a'; 1_000]);
            }
            assert!(line.open.len() == LINE_BYTES_MAX && line.ended.is_empty());
        }
    }
}
