//! Claude Code's session transcripts: turns that no record ends for certain (pure).
//!
//! One message of the API is several lines, one a block, and what they say of its end depends on
//! the version that wrote them. The rule was fitted on labelled transcripts of versions 1 to
//! 2.1.235: an answer in text ends a turn, where its stop reason says so or later lines confirm it.

use std::borrow::Cow;

use serde::Deserialize;

use super::super::grammar::Grammar;
use super::super::lenient::{Count, Flag, Maybe, Str, Time};
use super::super::messages::Messages;
use super::super::scribe::Scribe;
use super::super::standing::{Expected, Standing};
use super::background::{Launch, Notification};
use super::beyond::Beyond;
use super::wire::Message;
use super::{SYNTHETIC, Speaker, answers, assistant, has_answers};
use super::{is_aside, is_hook_feedback, is_interruption};

/// From this version on every message that is complete has a stop reason.
const STOP_REASON_SINCE: [u32; 3] = [2, 1, 76];

/// A line of a transcript.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record<'a> {
    #[serde(default, borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(default, borrow)]
    subtype: Str<'a>,
    #[serde(default, borrow)]
    message: Maybe<Box<Message<'a>>>,
    #[serde(default, borrow)]
    timestamp: Time<'a>,
    #[serde(default, borrow)]
    version: Str<'a>,
    #[serde(default, borrow)]
    entrypoint: Str<'a>,
    #[serde(default)]
    is_sidechain: Flag,
    #[serde(default, borrow)]
    agent_id: Str<'a>,
    #[serde(default)]
    is_meta: Flag,
    #[serde(default)]
    is_compact_summary: Flag,
    #[serde(default)]
    is_api_error_message: Flag,
    #[serde(default, borrow)]
    error: Str<'a>,
    #[serde(default, borrow)]
    tool_use_result: Maybe<Box<Launch<'a>>>,
    #[serde(default, borrow)]
    origin: Maybe<Origin<'a>>,
    // Of a system line.
    #[serde(default)]
    prevented_continuation: Flag,
    #[serde(default)]
    pending_background_agent_count: Count,
    #[serde(default)]
    pending_workflow_count: Count,
    #[serde(default)]
    retry_attempt: Count,
    #[serde(default)]
    max_retries: Count,
    // Of a queue-operation, and of an attachment.
    #[serde(default, borrow)]
    content: Str<'a>,
    #[serde(default, borrow)]
    attachment: Maybe<Box<Attachment<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
struct Origin<'a> {
    #[serde(default, borrow)]
    kind: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Attachment<'a> {
    #[serde(default, borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(default, borrow)]
    prompt: Str<'a>,
    #[serde(default, borrow)]
    content: Str<'a>,
    // Of a goal.
    #[serde(default)]
    met: Flag,
    #[serde(default)]
    sentinel: Flag,
}

/// The meaning of a transcript.
#[derive(Debug, Default)]
pub struct Transcript {
    messages: Messages,
    beyond: Beyond,
    agent_id: String,
    /// The last message of the agent itself has a stop reason: no more of it is generated.
    is_whole: bool,
    /// The message that ended the turn, so that its other lines do not end it again.
    ended_by: String,
    /// A line behind the end of the turn said that it is over.
    is_confirmed: bool,
    /// In this session such lines are written, and hooks are run before them.
    may_be_confirmed: bool,
}

impl Grammar for Transcript {
    type Record<'a> = Record<'a>;

    fn record(&mut self, record: Record<'_>, scribe: &mut Scribe) {
        match record.kind.as_str() {
            "assistant" => self.assistant(record, scribe),
            "user" => self.user(record, scribe),
            "system" => self.system(&record, scribe),
            "queue-operation" => self.notification(record.content.as_str(), scribe),
            "attachment" => self.attachment(record, scribe),
            // Written when the session is left: who stopped it will not go on with it soon.
            "last-prompt" if scribe.standing() == Standing::Interrupted => {
                scribe.expect(Expected::Confirmation);
            }
            "progress" | "file-history-snapshot" | "last-prompt" | "summary" => {}
            // Titles, modes, and what newer versions have.
            _ => scribe.unknown(),
        }
    }

    fn recall(&mut self, record: Record<'_>, _scribe: &mut Scribe) {
        if let Some(result) = &record.tool_use_result.0
            && !record.is_sidechain.is_set()
        {
            self.beyond.recall(result);
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
            self.beyond.notified(&notification);
        }
    }

    fn recalled(&mut self, scribe: &mut Scribe) {
        self.reconsider(scribe);
    }

    fn settled(&mut self, scribe: &mut Scribe) {
        if self.is_whole {
            self.messages.tell_own(scribe);
        }
    }

    fn end(&mut self, scribe: &mut Scribe) {
        self.messages.tell_all(scribe);
        scribe.end();
    }
}

impl Transcript {
    /// Whether the line is one of the agent whose transcript this is.
    fn is_own(&mut self, record: &Record<'_>, scribe: &mut Scribe) -> bool {
        let is_side = record.is_sidechain.is_set();
        match scribe.side {
            None => {
                scribe.side = Some(is_side);
                self.agent_id = record.agent_id.as_str().to_owned();
            }
            // Begun in the middle, where a sub-agent wrote: version 1 has them in one file.
            Some(true) if !is_side => {
                scribe.side = Some(false);
                scribe.stand(Standing::Unknown, "");
            }
            Some(_) => {}
        }
        let is_agents = record.agent_id.as_str() == self.agent_id || self.agent_id.is_empty();
        scribe.side == Some(is_side) && (!is_side || is_agents)
    }

    fn user(&mut self, record: Record<'_>, scribe: &mut Scribe) {
        let is_own = self.is_own(&record, scribe);
        let Some(message) = record.message.0 else {
            return;
        };
        let when = scribe.when(record.timestamp.read());
        if let Some(result) = &record.tool_use_result.0
            && is_own
        {
            self.beyond.tool_result(result, when.recorded);
        }
        if is_own && self.is_whole && has_answers(&message.content) {
            // What called the tools was said before they answered. One that is still generated has
            // more tools, and its usage comes with the last of them.
            self.messages.tell_own(scribe);
        }
        let is_answered = answers(&message.content, when, scribe);
        if !is_own {
            return;
        }
        if is_answered {
            self.beyond.record(when.recorded);
            return scribe.working("a tool's result");
        }
        let text = message.content.text();
        if record.is_meta.is_set() && is_hook_feedback(text) {
            self.beyond.sent_on();
            return scribe.working("a stop hook sends it on");
        }
        if record.is_meta.is_set() || record.is_compact_summary.is_set() || is_aside(text) {
            return;
        }
        if is_interruption(text) {
            self.messages.tell_own(scribe);
            return scribe.interrupted("a human interrupted it".to_owned());
        }
        self.beyond.record(when.recorded);
        let is_notification = record
            .origin
            .0
            .is_some_and(|origin| origin.kind.as_str() == "task-notification");
        let notification = Notification::parse(text);
        if is_notification || notification.is_some() {
            self.notification(text, scribe);
            // A task that was stopped is no news to the agent's work; any other end is.
            if notification.is_none_or(|it| it.status != "killed" && it.status != "stopped") {
                scribe.working("a background task's end");
            }
            return;
        }
        self.messages.tell_own(scribe);
        if scribe.standing() == Standing::MaybeDone {
            // Who writes the next prompt has seen the answer.
            scribe.turn_completed("inferred: the next prompt");
        } else {
            scribe.tools_over();
        }
        scribe.working("a prompt");
        scribe.prompt(text);
    }

    fn assistant(&mut self, record: Record<'_>, scribe: &mut Scribe) {
        let is_own = self.is_own(&record, scribe);
        let Some(message) = record.message.0 else {
            return;
        };
        let speaker = Speaker {
            is_own,
            is_repeated: record.is_api_error_message.is_set(),
        };
        let when = scribe.when(record.timestamp.read());
        let id = message.id.as_str().to_owned();
        let stop = message.stop_reason.get().map(str::to_owned);
        let is_synthetic = message.model.as_str() == SYNTHETIC;
        let said = assistant(*message, speaker, when, &mut self.messages, scribe);
        if !is_own {
            return;
        }
        self.is_whole = stop.is_some();
        self.beyond.record(when.recorded);
        // A sub-agent's has no such lines, and neither has one that no human sees.
        let is_side = record.is_sidechain.is_set();
        self.may_be_confirmed = record.entrypoint.as_str() == "cli" && !is_side;
        if record.is_api_error_message.is_set() {
            self.messages.tell_own(scribe);
            let kind = record.error.get().unwrap_or("unknown");
            let error = match scribe.answer() {
                "" => kind.to_owned(),
                text => text.to_owned(),
            };
            return scribe.failed(&error, format!("an API error message: {kind}"));
        }
        if is_synthetic {
            return;
        }
        let stop = stop.as_deref();
        if said.has_tool || stop == Some("tool_use") {
            return scribe.working("a tool is called");
        }
        if !said.has_text {
            // It thinks; a message that ended the turn has no more to think.
            if self.ended_by != id || id.is_empty() {
                scribe.working("it thinks");
            }
            return;
        }
        match stop {
            Some("end_turn" | "stop_sequence") => self.ends(id, stop, None, scribe),
            Some("refusal" | "max_tokens" | "model_context_window_exceeded") => {
                self.ends(id, stop, stop, scribe);
            }
            Some(_) => scribe.working("an answer that goes on"),
            None if writes_stop_reasons(record.version.as_str()) => {
                scribe.working("an answer that is not complete");
            }
            None => {
                scribe.told_anew();
                scribe.stand(
                    Standing::MaybeDone,
                    "inferred: an answer without a stop reason",
                );
            }
        }
    }

    /// The turn ends with this message.
    fn ends(&mut self, id: String, stop: Option<&str>, short: Option<&str>, scribe: &mut Scribe) {
        let is_told = self.ended_by == id && !id.is_empty();
        self.ended_by = id;
        self.is_confirmed &= is_told;
        let reason = stop.unwrap_or_default();
        if !is_told {
            self.messages.tell_own(scribe);
            scribe.turn_completed(reason);
            if let Some(short) = short {
                scribe.warn(format!("the answer is not whole: {short}"));
            }
        }
        self.done(format!("stop_reason {reason}"), scribe);
    }

    /// The turn is over, and the agent finished where nothing of it runs.
    fn done(&mut self, evidence: impl Into<Cow<'static, str>>, scribe: &mut Scribe) {
        scribe.told_anew();
        let (standing, expected) = self
            .beyond
            .standing(self.is_confirmed, self.may_be_confirmed);
        scribe.stand(standing, evidence);
        scribe.expect(expected);
    }

    /// What runs beyond the turn has changed.
    fn reconsider(&mut self, scribe: &mut Scribe) {
        if let Standing::Done | Standing::Background { .. } = scribe.standing() {
            let evidence = scribe.evidence().to_owned();
            self.done(evidence, scribe);
        }
    }

    fn attachment(&mut self, record: Record<'_>, scribe: &mut Scribe) {
        let attachment = record.attachment.0.unwrap_or_default();
        if attachment.kind.as_str() == "goal_status" && !record.is_sidechain.is_set() {
            if self
                .beyond
                .goal(attachment.met.is_set(), attachment.sentinel.is_set())
            {
                return scribe.working("its goal is not met");
            }
            return self.reconsider(scribe);
        }
        self.notification(attachment.prompt.as_str(), scribe);
        self.notification(attachment.content.as_str(), scribe);
    }

    fn system(&mut self, record: &Record<'_>, scribe: &mut Scribe) {
        match record.subtype.as_str() {
            "turn_duration" => {
                let agents = record.pending_background_agent_count.0;
                let workflows = record.pending_workflow_count.0;
                if agents.is_some() || workflows.is_some() {
                    let count = agents.unwrap_or(0).saturating_add(workflows.unwrap_or(0));
                    self.beyond
                        .counted(usize::try_from(count).unwrap_or(usize::MAX));
                }
                self.confirm("turn_duration", scribe);
            }
            // Hooks are through, unless one of them sent the agent on.
            "stop_hook_summary"
                if !record.prevented_continuation.is_set() && !self.beyond.goes_on() =>
            {
                self.confirm("stop_hook_summary", scribe);
            }
            "api_error" => {
                let number = |count: Count| count.0.map_or("?".to_owned(), |n| n.to_string());
                scribe.warn(format!(
                    "the API is asked again: attempt {} of {}",
                    number(record.retry_attempt),
                    number(record.max_retries),
                ));
            }
            _ => {}
        }
    }

    /// A line that is written when a turn is over, also when it failed.
    fn confirm(&mut self, by: &'static str, scribe: &mut Scribe) {
        match scribe.standing() {
            Standing::Working | Standing::MaybeDone => {
                self.is_confirmed = true;
                self.messages.tell_own(scribe);
                scribe.turn_completed(by);
                self.done(by, scribe);
            }
            Standing::Done | Standing::Background { .. } => {
                self.is_confirmed = true;
                self.reconsider(scribe);
            }
            Standing::Unknown | Standing::Failed | Standing::Interrupted => {}
        }
    }

    /// The end of a background task, wherever it stands.
    fn notification(&mut self, text: &str, scribe: &mut Scribe) {
        let Some(notification) = Notification::parse(text) else {
            return;
        };
        self.beyond.notified(&notification);
        if let Standing::Background { .. } = scribe.standing() {
            self.reconsider(scribe);
        }
    }
}

/// Whether this version writes the stop reason of every message.
fn writes_stop_reasons(version: &str) -> bool {
    let mut numbers = version
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let version = [(); 3].map(|()| numbers.next().unwrap_or(0));
    version >= STOP_REASON_SINCE
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
