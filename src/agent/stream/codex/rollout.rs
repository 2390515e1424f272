//! Codex's session rollouts: turns with a beginning and an end, and messages that stand there twice (pure).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::grammar::Grammar;
use super::super::lenient::{Count, Flag, Gist, Int, List, Maybe, Str, Time};
use super::super::scribe::{Scribe, Usage};
use super::super::standing::Standing;
use super::super::tools::When;
use super::output::judge;

/// A line: an envelope with a payload; in old versions the payload alone.
#[derive(Debug, Default, Deserialize)]
pub struct Record<'a> {
    #[serde(default, borrow)]
    timestamp: Time<'a>,
    #[serde(default, borrow)]
    payload: Maybe<Box<Record<'a>>>,
    #[serde(default, borrow, rename = "type")]
    kind: Str<'a>,
    // Of an event.
    #[serde(default, borrow)]
    turn_id: Str<'a>,
    #[serde(default, borrow)]
    reason: Str<'a>,
    #[serde(default, borrow)]
    message: Str<'a>,
    #[serde(default, borrow)]
    last_agent_message: Str<'a>,
    #[serde(default, borrow)]
    error: Maybe<Failure<'a>>,
    #[serde(default, borrow)]
    item: Maybe<Item<'a>>,
    #[serde(default)]
    info: Maybe<Info>,
    #[serde(default)]
    success: Flag,
    #[serde(default)]
    exit_code: Int,
    // Of a message or a tool.
    #[serde(default, borrow)]
    role: Str<'a>,
    #[serde(default, borrow)]
    content: List<Part<'a>>,
    #[serde(default, borrow)]
    id: Str<'a>,
    #[serde(default, borrow)]
    call_id: Str<'a>,
    #[serde(default, borrow)]
    name: Str<'a>,
    #[serde(default, borrow)]
    arguments: Str<'a>,
    #[serde(default, borrow)]
    input: Str<'a>,
    #[serde(default, borrow)]
    action: Option<&'a RawValue>,
    #[serde(default, borrow)]
    status: Str<'a>,
    #[serde(default)]
    output: Output,
}

/// Why a turn has failed.
#[derive(Debug, Default, Deserialize)]
struct Failure<'a> {
    #[serde(default, borrow)]
    message: Str<'a>,
}

/// What happened in a turn, of versions that keep items.
#[derive(Debug, Default, Deserialize)]
struct Item<'a> {
    #[serde(default, borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(default, borrow)]
    content: List<Part<'a>>,
}

#[derive(Debug, Default, Deserialize)]
struct Part<'a> {
    #[serde(default, borrow)]
    text: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Info {
    #[serde(default)]
    total_token_usage: Maybe<Tokens>,
    #[serde(default)]
    last_token_usage: Maybe<Tokens>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Tokens {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    total_tokens: Count,
}

/// A tool's output: a text, parts, or an object that says whether it succeeded.
#[derive(Debug, Default)]
struct Output {
    gist: Gist,
    success: Option<bool>,
}

impl<'de> Deserialize<'de> for Output {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        let object: Option<Maybe<super::output::Outcome>> = serde_json::from_str(raw.get()).ok();
        Ok(Self {
            gist: serde_json::from_str(raw.get()).unwrap_or_default(),
            success: object.and_then(|it| it.0).and_then(|it| it.success.0),
        })
    }
}

/// Which of the records that repeat a message are taken: the kind that comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Events,
    Items,
    /// Old versions have nothing else.
    Messages,
}

/// The meaning of a rollout.
#[derive(Debug, Default)]
pub struct Rollout {
    channel: Option<Channel>,
    turn_id: String,
    /// Text and tools since the last count of tokens.
    text: String,
    has_tool_calls: bool,
    total_tokens: Option<u64>,
    /// The turn had an error of which its end may not speak.
    error: String,
    is_compacted: bool,
}

impl Grammar for Rollout {
    type Record<'a> = Record<'a>;

    fn record(&mut self, record: Record<'_>, scribe: &mut Scribe) {
        let when = scribe.when(record.timestamp.read());
        match (record.kind.as_str(), record.payload.0) {
            ("event_msg", Some(event)) => self.event(*event, when, scribe),
            ("response_item", Some(item)) => self.item(*item, when, false, scribe),
            ("compacted", _) => self.is_compacted = true,
            (_, Some(_)) => {}
            // No envelope.
            (_, None) => {
                let record = Record {
                    payload: Maybe(None),
                    ..record
                };
                self.item(record, when, true, scribe);
            }
        }
    }

    fn end(&mut self, scribe: &mut Scribe) {
        self.flush(scribe);
        scribe.end();
    }
}

impl Rollout {
    fn takes(&mut self, channel: Channel) -> bool {
        *self.channel.get_or_insert(channel) == channel
    }

    fn event(&mut self, event: Record<'_>, when: When, scribe: &mut Scribe) {
        match event.kind.as_str() {
            "task_started" | "turn_started" => {
                let id = event.turn_id.as_str();
                let is_same = id == self.turn_id && !id.is_empty();
                if scribe.standing() == Standing::Working && !is_same {
                    self.flush(scribe);
                    scribe.cut("another turn began");
                }
                id.clone_into(&mut self.turn_id);
                self.error.clear();
                self.is_compacted = false;
                scribe.working("task_started");
            }
            "task_complete" | "turn_complete" => self.turn_complete(&event, scribe),
            "turn_aborted" => {
                self.flush(scribe);
                let reason = event.reason.get().unwrap_or("aborted").to_owned();
                scribe.interrupted(format!("turn_aborted: {reason}"));
            }
            "user_message" if self.takes(Channel::Events) => {
                self.prompt(event.message.as_str(), scribe);
            }
            "agent_message" if self.takes(Channel::Events) => {
                self.answer(event.message, scribe);
            }
            "item_completed" => {
                let Some(item) = event.item.0 else { return };
                let is_user = item.kind.as_str() == "UserMessage";
                let is_agent = item.kind.as_str() == "AgentMessage";
                if (is_user || is_agent) && self.takes(Channel::Items) {
                    self.message(item.content, is_user, scribe);
                }
            }
            "token_count" => {
                if let Some(info) = event.info.0 {
                    self.token_count(&info, scribe);
                }
            }
            "exec_command_end" | "patch_apply_end" => {
                let success = event.success.0 != Some(false) && event.exit_code.0.unwrap_or(0) == 0;
                if !success {
                    // The output that follows may not say it.
                    let id = event.call_id.as_str();
                    scribe.tool_answers(id, false, event.output.gist.text.as_str(), when);
                }
            }
            "context_compacted" => self.is_compacted = true,
            "error" => {
                event.message.as_str().clone_into(&mut self.error);
                scribe.warn(format!("codex says: {}", event.message.as_str()));
            }
            "stream_error" | "warning" => {
                scribe.warn(format!("codex says: {}", event.message.as_str()));
            }
            _ => {}
        }
    }

    fn turn_complete(&mut self, event: &Record<'_>, scribe: &mut Scribe) {
        self.flush(scribe);
        let last = event.last_agent_message.as_str();
        if let Some(failure) = &event.error.0 {
            return scribe.failed(failure.message.as_str(), "task_complete with an error");
        }
        if last.is_empty() && !self.error.is_empty() {
            let error = std::mem::take(&mut self.error);
            return scribe.failed(&error, "an error, and task_complete without an answer");
        }
        if last.is_empty() && !self.is_compacted {
            scribe.warn("a turn is complete without an answer".to_owned());
        }
        scribe.said(last);
        scribe.turn_completed("task_complete");
        scribe.stand(Standing::Done, "task_complete");
    }

    fn item(&mut self, item: Record<'_>, when: When, is_bare: bool, scribe: &mut Scribe) {
        let id = item.call_id.get().unwrap_or(item.id.as_str());
        match item.kind.as_str() {
            "message" if is_bare && self.takes(Channel::Messages) => {
                match item.role.as_str() {
                    "user" => self.message(item.content, true, scribe),
                    "assistant" => {
                        self.message(item.content, false, scribe);
                        // These versions end a turn with no record.
                        scribe.stand(Standing::MaybeDone, "inferred: an answer");
                    }
                    _ => {}
                }
            }
            "function_call" => {
                self.tool(
                    id,
                    item.name.as_str(),
                    item.arguments.as_str(),
                    when,
                    scribe,
                );
            }
            "custom_tool_call" => {
                self.tool(id, item.name.as_str(), item.input.as_str(), when, scribe);
            }
            "local_shell_call" => {
                let args = item.action.map_or("", RawValue::get);
                self.tool(id, "local_shell_call", args, when, scribe);
            }
            "web_search_call" => {
                // Run by the API, which tells only that it did. Old versions give it no id.
                let args = item.action.map_or("", RawValue::get);
                let made_up = format!("web_search {:?} {args}", when.recorded);
                let id = if id.is_empty() { &made_up } else { id };
                self.tool(id, "web_search", args, when, scribe);
                scribe.tool_answers(id, item.status.as_str() != "failed", args, when);
            }
            "function_call_output" | "custom_tool_call_output" => {
                let (is_good, text) = judge(item.output.gist.text.as_str());
                let success = item.output.success.unwrap_or(is_good);
                scribe.tool_answers(id, success, &text, when);
                self.goes_on("a tool's result", is_bare, scribe);
            }
            "reasoning" => self.goes_on("it thinks", is_bare, scribe),
            // A line that is neither in an envelope nor an item.
            _ if is_bare => scribe.unknown(),
            _ => {}
        }
    }

    /// A turn that has no beginning of its own goes on.
    fn goes_on(&self, how: &'static str, is_bare: bool, scribe: &mut Scribe) {
        if is_bare || scribe.standing() == Standing::Unknown {
            scribe.working(how);
        }
    }

    fn tool(&mut self, id: &str, name: &str, args: &str, when: When, scribe: &mut Scribe) {
        self.has_tool_calls = true;
        if matches!(scribe.standing(), Standing::Unknown | Standing::MaybeDone) {
            scribe.working("a tool is called");
        }
        scribe.tool_begins(id, name, args, when, true);
    }

    fn message(&mut self, content: List<Part<'_>>, is_user: bool, scribe: &mut Scribe) {
        for part in content.0 {
            if is_user {
                self.prompt(part.text.as_str(), scribe);
            } else {
                self.answer(part.text, scribe);
            }
        }
    }

    fn prompt(&mut self, text: &str, scribe: &mut Scribe) {
        // What Codex itself puts before the prompt, in versions that keep no events.
        let is_context = [
            "<environment_context>",
            "<user_instructions>",
            "# AGENTS.md",
        ];
        let is_context = self.channel == Some(Channel::Messages)
            && is_context.iter().any(|begin| text.starts_with(begin));
        if text.is_empty() || is_context {
            return;
        }
        if scribe.standing() == Standing::MaybeDone {
            self.flush(scribe);
            scribe.turn_completed("inferred: the next prompt");
        }
        scribe.working("a prompt");
        scribe.prompt(text);
    }

    fn answer(&mut self, text: Str<'_>, scribe: &mut Scribe) {
        if let Some(text) = text.into_inner() {
            scribe.said(&text);
            text.as_ref().clone_into(&mut self.text);
            if scribe.standing() == Standing::Unknown {
                scribe.working("an answer");
            }
            scribe.token(text);
        }
    }

    /// Usage comes again whenever a limit changes; it counts when its total has grown.
    fn token_count(&mut self, info: &Info, scribe: &mut Scribe) {
        let (Some(total), Some(last)) = (info.total_token_usage.0, info.last_token_usage.0) else {
            return;
        };
        if total.total_tokens.0 == self.total_tokens {
            return;
        }
        self.total_tokens = total.total_tokens.0;
        let usage = Usage {
            input_tokens: last.input_tokens.0.unwrap_or(0),
            output_tokens: last.output_tokens.0.unwrap_or(0),
        };
        self.response(usage, scribe);
    }

    /// An answer whose usage was not told.
    fn flush(&mut self, scribe: &mut Scribe) {
        if !self.text.is_empty() {
            self.response(Usage::default(), scribe);
        }
    }

    fn response(&mut self, usage: Usage, scribe: &mut Scribe) {
        scribe.response(&self.text, usage, self.has_tool_calls);
        self.text.clear();
        self.has_tool_calls = false;
    }
}
