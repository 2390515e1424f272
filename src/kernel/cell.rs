//! One execution request, from its messages to its outputs and its end (pure).
//!
//! A cell has ended when the kernel has replied and is idle again. The two messages arrive on different
//! sockets, in any order.

use std::time::Instant;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::protocol::{Channel, Message};
use super::queues::MissedOutputs;
use crate::event::OutputStream;

/// The MIME type of display data that contain a log line.
const LOG_TYPE: &str = "application/vnd.td-observe.log+json";

#[derive(Clone, Debug)]
pub(crate) enum CellOutput {
    /// Printed text.
    Text {
        stream: OutputStream,
        text: String,
    },
    /// A displayed value.
    Display(DisplayContent),
    /// The value of the last expression.
    Result(DisplayContent),
    /// The new form of a value that was displayed before.
    Update(DisplayContent),
    Error(ErrorContent),
    /// The output so far is removed, now or when the next output arrives.
    Clear {
        wait: bool,
    },
}

/// The effect of a message on a cell.
#[derive(Debug)]
pub(crate) enum CellStep {
    /// The kernel runs this code.
    Begins {
        code: String,
        count: Option<u32>,
    },
    Output(CellOutput),
    /// The code asks the user for input.
    Question(Question),
    /// The message has no output.
    Nothing,
}

/// The end of a cell's code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CellStatus {
    /// The code ran to its end.
    #[default]
    Ok,
    /// The code raised an exception.
    Error {
        /// The name of the exception, such as `ValueError`.
        name: String,
        /// The exception's message.
        message: String,
    },
    /// The kernel did not finish the code, because it was interrupted or earlier code had failed.
    Aborted,
}

impl CellStatus {
    /// Returns the status as a kernel names it.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error { .. } => "error",
            Self::Aborted => "aborted",
        }
    }

    /// Returns true if the code ran to its end.
    pub fn is_ok(&self) -> bool {
        *self == Self::Ok
    }
}

#[derive(Debug, Default)]
pub(crate) struct Cell {
    pub count: Option<u32>,
    pub status: CellStatus,
    /// True once the kernel has published an exception, which the reply repeats.
    has_error: bool,
    /// The last text on standard error: some exceptions are printed instead of published.
    last_stderr: String,
    /// The exception of the reply. It is held until the kernel is idle, because it may still be published.
    replied_error: Option<ErrorContent>,
    /// True once the kernel has replied to the request.
    pub has_reply: bool,
    /// True once the kernel is idle: all outputs of the cell have arrived.
    pub is_idle: bool,
}

impl Cell {
    /// Handles a message that belongs to this request.
    pub fn take(&mut self, message: &Message) -> CellStep {
        match (message.channel, message.msg_type.as_str()) {
            (Channel::Iopub, _) => self.published(message),
            (Channel::Shell, "execute_reply") => {
                self.has_reply = true;
                self.replied(message.content().unwrap_or_default())
            }
            (Channel::Stdin, "input_request") => {
                CellStep::Question(message.content().unwrap_or_default())
            }
            _ => CellStep::Nothing,
        }
    }

    pub fn missing(&self) -> &'static str {
        if self.has_reply {
            "has replied and did not report that it is idle"
        } else {
            // Python's kernel does this when an interrupt arrives between the code's end and the reply.
            "is idle and has not replied"
        }
    }

    /// Stops waiting for the missing message. Returns the exception that was held for it.
    pub fn give_up(&mut self) -> CellStep {
        self.is_idle = true;
        if !self.has_reply && self.status.is_ok() {
            self.status = CellStatus::Aborted;
        }
        self.unpublished_error()
    }

    fn published(&mut self, message: &Message) -> CellStep {
        let content = || message.content::<PublishedContent>().unwrap_or_default();
        let output = match message.msg_type.as_str() {
            "status" => {
                self.is_idle |= content().execution_state == "idle";
                return self.unpublished_error();
            }
            "execute_input" => {
                let input = content();
                self.count = input.execution_count.or(self.count);
                return CellStep::Begins {
                    code: input.code,
                    count: self.count,
                };
            }
            "stream" => {
                let content = content();
                let stream = match content.name.as_str() {
                    "stderr" => OutputStream::Stderr,
                    _ => OutputStream::Stdout,
                };
                // The largest printed exception that is recognized when the reply repeats it.
                if stream == OutputStream::Stderr && content.text.len() <= 16 * 1024 {
                    self.last_stderr.clone_from(&content.text);
                }
                CellOutput::Text {
                    stream,
                    text: content.text,
                }
            }
            "display_data" => CellOutput::Display(message.content().unwrap_or_default()),
            "update_display_data" => CellOutput::Update(message.content().unwrap_or_default()),
            "execute_result" => CellOutput::Result(message.content().unwrap_or_default()),
            "clear_output" => CellOutput::Clear {
                wait: content().wait,
            },
            "error" => {
                let content: ErrorContent = message.content().unwrap_or_default();
                self.failed(&content);
                self.has_error = true;
                CellOutput::Error(content)
            }
            _ => return CellStep::Nothing,
        };
        CellStep::Output(output)
    }

    fn replied(&mut self, reply: ReplyContent) -> CellStep {
        self.count = reply.execution_count.or(self.count);
        match reply.status.as_str() {
            "error" => {
                let error = ErrorContent {
                    ename: reply.ename,
                    evalue: reply.evalue,
                    traceback: reply.traceback,
                };
                self.failed(&error);
                if !(error.ename.is_empty() && error.traceback.is_empty()) {
                    self.replied_error = Some(error);
                }
                self.unpublished_error()
            }
            "aborted" | "abort" => {
                self.status = CellStatus::Aborted;
                CellStep::Nothing
            }
            _ => CellStep::Nothing,
        }
    }

    /// Returns the exception of the reply if the kernel is idle and has not published or printed it.
    fn unpublished_error(&mut self) -> CellStep {
        let error = self.replied_error.take_if(|_| self.is_idle);
        let is_shown =
            |error: &ErrorContent| self.has_error || self.last_stderr.ends_with(&error_text(error));
        match error.filter(|error| !is_shown(error)) {
            Some(error) => CellStep::Output(CellOutput::Error(error)),
            None => CellStep::Nothing,
        }
    }

    fn failed(&mut self, error: &ErrorContent) {
        self.status = CellStatus::Error {
            name: error.ename.clone(),
            message: error.evalue.clone(),
        };
    }
}

impl CellOutput {
    pub fn log_line(&self) -> Option<LogLine> {
        let (Self::Display(content) | Self::Update(content)) = self else {
            return None;
        };
        serde_json::from_value(content.data.get(LOG_TYPE)?.clone()).ok()
    }

    /// Returns the output as text of a stream; `None` if it has no text form.
    pub fn text(&self) -> Option<(OutputStream, String)> {
        match self {
            Self::Text { stream, text } => Some((*stream, text.clone())),
            Self::Display(content) | Self::Result(content) | Self::Update(content) => {
                Some((OutputStream::Stdout, plain_text(content)?))
            }
            Self::Error(error) => Some((OutputStream::Stderr, error_text(error))),
            // The next text overwrites a line that has not ended.
            Self::Clear { .. } => Some((OutputStream::Stdout, "\r".to_owned())),
        }
    }

    /// Returns the approximate size of the output in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Text { text, .. } => text.len(),
            Self::Display(content) | Self::Result(content) | Self::Update(content) => content
                .data
                .values()
                .map(|value| value.as_str().map_or(64, str::len))
                .sum(),
            Self::Error(error) => error.traceback.iter().map(String::len).sum(),
            Self::Clear { .. } => 0,
        }
    }
}

fn plain_text(content: &DisplayContent) -> Option<String> {
    joined(content.data.get("text/plain")?).map(with_line_end)
}

fn error_text(error: &ErrorContent) -> String {
    with_line_end(match error.traceback.as_slice() {
        [] => format!("{}: {}", error.ename, error.evalue),
        lines => lines.join("\n"),
    })
}

fn with_line_end(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Receives the outputs and questions of a cell.
pub(crate) trait CellListener {
    fn output(&mut self, output: &CellOutput);

    /// Receives the number of outputs that were dropped because the caller was too slow.
    fn missed(&mut self, missed: MissedOutputs);

    /// Returns the answer to a question of the code; `None` if there is no answer, or once `is_over()`
    /// returns true because the question is void.
    fn answer(&mut self, _question: &Question, _is_over: &dyn Fn() -> bool) -> Option<String> {
        None
    }

    /// Returns true if the code may ask for input.
    fn allows_questions(&self) -> bool {
        false
    }

    /// Does what is due now; returns the time by which the next call is due.
    fn tick(&mut self, _now: Instant) -> Option<Instant> {
        None
    }
}

pub(super) struct DiscardedOutput;

impl CellListener for DiscardedOutput {
    fn output(&mut self, _: &CellOutput) {}

    fn missed(&mut self, _: MissedOutputs) {}
}

/// The other published messages, each of which has some of these fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PublishedContent {
    /// `stream`: the name of the stream.
    name: String,
    /// `stream`: the printed text.
    text: String,
    /// `status`: `busy`, `idle` or `starting`.
    execution_state: String,
    /// `execute_input`: the code that a client has sent.
    code: String,
    execution_count: Option<u32>,
    /// `clear_output`: the output stays until the next output replaces it.
    wait: bool,
    /// `shutdown_reply`: the kernel is about to end, and is started again.
    pub restart: bool,
}

/// `display_data`, `update_display_data` and `execute_result`: a value in several forms.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DisplayContent {
    pub data: Map<String, Value>,
    pub metadata: Map<String, Value>,
    pub transient: Map<String, Value>,
    pub execution_count: Option<u32>,
}

impl DisplayContent {
    /// Returns the id with which a later message updates this output.
    pub fn display_id(&self) -> Option<&str> {
        self.transient.get("display_id")?.as_str()
    }
}

/// Returns a text, which notebooks store as one string or as a list of lines; `None` for other values.
pub(super) fn joined(text: &Value) -> Option<String> {
    match text {
        Value::String(text) => Some(text.clone()),
        Value::Array(lines) => Some(lines.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

/// `error`: an exception.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ErrorContent {
    pub ename: String,
    pub evalue: String,
    /// Lines with ANSI colours.
    pub traceback: Vec<String>,
}

/// `execute_reply`: the end of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReplyContent {
    /// `ok`, `error` or `aborted`.
    pub status: String,
    pub execution_count: Option<u32>,
    // Not flattened: serde would keep all unknown fields, however large, to look for these.
    pub ename: String,
    pub evalue: String,
    pub traceback: Vec<String>,
}

/// A question of the code to the user, such as that of `input("name: ")`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Question {
    /// The text of the question.
    pub prompt: String,
    /// True if the answer is a secret.
    #[serde(rename = "password")]
    pub is_password: bool,
}

/// `is_complete_reply`: the verdict on code.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CompletenessContent {
    /// `complete`, `incomplete`, `invalid` or `unknown`.
    pub status: String,
}

/// `kernel_info_reply`: the kernel's name, version and language.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct KernelInfoContent {
    pub implementation: String,
    pub implementation_version: String,
    pub protocol_version: String,
    pub language_info: LanguageInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LanguageInfo {
    pub name: String,
    pub version: String,
}

/// Display data of type `application/vnd.td-observe.log+json`: a log line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct LogLine {
    pub level: String,
    pub message: String,
}

#[cfg(test)]
mod tests {
    mod cell {
        use super::super::*;
        use crate::kernel::protocol::samples::{message, printed, status};
        use proptest::prelude::*;
        use serde_json::{Value, json};

        fn reply(content: Value) -> Message {
            message(Channel::Shell, "execute_reply", "1", content)
        }

        fn failure() -> Value {
            json!({ "status": "error", "ename": "E", "evalue": "v", "traceback": ["E: v"], "execution_count": 4 })
        }

        fn is_ended(cell: &Cell) -> bool {
            cell.has_reply && cell.is_idle
        }

        proptest! {
            /// The messages of one socket keep their order; those of different sockets arrive in any order.
            #[test]
            fn a_cell_ends_when_both_have_come(
                texts in prop::collection::vec("[a-z]{1,3}", 0..5),
                reply_at in any::<prop::sample::Index>(),
                is_published in any::<bool>(),
            ) {
                let mut messages = vec![status("1", "busy")];
                messages.extend(texts.iter().map(|text| printed("1", text)));
                if is_published {
                    messages.push(message(Channel::Iopub, "error", "1", failure()));
                }
                messages.push(status("1", "idle"));
                let reply_at = reply_at.index(messages.len() + 1);
                messages.insert(reply_at, reply(failure()));
                let mut cell = Cell::default();
                let (mut printed, mut errors) = (Vec::new(), 0);
                for (index, message) in messages.iter().enumerate() {
                    prop_assert!(!is_ended(&cell));
                    match cell.take(message) {
                        CellStep::Output(CellOutput::Text { text, .. }) => printed.push(text),
                        CellStep::Output(CellOutput::Error(error)) => {
                            prop_assert_eq!(printed.len(), texts.len(), "the exception follows the texts");
                            prop_assert_eq!(error.traceback, ["E: v"]);
                            errors += 1;
                        }
                        CellStep::Nothing => {}
                        other => prop_assert!(false, "{:?}", other),
                    }
                    prop_assert_eq!(cell.has_reply, index >= reply_at);
                }
                prop_assert!(is_ended(&cell));
                prop_assert_eq!(printed, texts);
                prop_assert_eq!(errors, 1, "the exception is shown once");
                prop_assert_eq!(cell.count, Some(4));
                prop_assert_eq!(&cell.status, &CellStatus::Error { name: "E".into(), message: "v".into() });
            }
        }

        #[test]
        fn messages_become_steps() {
            let mut cell = Cell::default();
            let mut take =
                |channel, msg_type, content| cell.take(&message(channel, msg_type, "1", content));
            let iopub = Channel::Iopub;
            let begins = take(
                iopub,
                "execute_input",
                json!({ "code": "1", "execution_count": 7 }),
            );
            assert!(matches!(begins, CellStep::Begins { code, count: Some(7) } if code == "1"));
            let question = json!({ "prompt": "name: ", "password": true });
            let question = take(Channel::Stdin, "input_request", question);
            assert!(matches!(question, CellStep::Question(question) if question.is_password));
            let value = json!({ "data": { "text/plain": ["a\n", "b"], "text/html": "<b>" } });
            for (msg_type, content, expected) in [
                (
                    "stream",
                    json!({ "name": "stderr", "text": "x" }),
                    Some((OutputStream::Stderr, "x")),
                ),
                (
                    "stream",
                    json!({ "name": "new", "text": "x" }),
                    Some((OutputStream::Stdout, "x")),
                ),
                (
                    "execute_result",
                    value.clone(),
                    Some((OutputStream::Stdout, "a\nb\n")),
                ),
                (
                    "display_data",
                    value.clone(),
                    Some((OutputStream::Stdout, "a\nb\n")),
                ),
                (
                    "update_display_data",
                    value,
                    Some((OutputStream::Stdout, "a\nb\n")),
                ),
                (
                    "display_data",
                    json!({ "data": { "image/png": "iVBO" } }),
                    None,
                ),
                ("display_data", json!([]), None),
                (
                    "error",
                    json!({ "ename": "E", "evalue": "v" }),
                    Some((OutputStream::Stderr, "E: v\n")),
                ),
                (
                    "clear_output",
                    json!({ "wait": true }),
                    Some((OutputStream::Stdout, "\r")),
                ),
            ] {
                let CellStep::Output(output) = take(iopub, msg_type, content) else {
                    panic!("{msg_type} is no output");
                };
                let text = output.text();
                let text = text.as_ref().map(|(stream, text)| (*stream, text.as_str()));
                assert_eq!(text, expected, "{msg_type}");
            }
            for (channel, msg_type) in [
                (iopub, "comm_open"),
                (iopub, ""),
                (Channel::Shell, "stream"),
                (Channel::Control, "execute_reply"),
            ] {
                let step = take(channel, msg_type, json!({ "text": "x", "status": "ok" }));
                assert!(matches!(step, CellStep::Nothing), "{msg_type}: {step:?}");
            }
            assert!(!cell.has_reply && !cell.is_idle);
        }

        /// IPython prints errors of its own commands and does not publish them.
        #[test]
        fn an_exception_that_was_printed_is_not_shown_again() {
            for (text, is_shown) in [("E: v\n", false), ("E: w\n", true)] {
                let mut cell = Cell::default();
                let content = json!({ "name": "stderr", "text": text });
                cell.take(&message(Channel::Iopub, "stream", "1", content));
                cell.take(&reply(failure()));
                let step = cell.take(&status("1", "idle"));
                assert_eq!(
                    matches!(step, CellStep::Output(CellOutput::Error(_))),
                    is_shown,
                    "{step:?}"
                );
                assert!(matches!(cell.status, CellStatus::Error { .. }));
            }
        }

        #[test]
        fn replies_have_a_status() {
            for (content, expected) in [
                (json!({ "status": "ok" }), CellStatus::Ok),
                (json!({ "status": "aborted" }), CellStatus::Aborted),
                (json!({ "status": "abort" }), CellStatus::Aborted),
                (json!(null), CellStatus::Ok),
            ] {
                let mut cell = Cell::default();
                assert!(matches!(cell.take(&reply(content)), CellStep::Nothing));
                assert!(cell.has_reply);
                assert_eq!(&cell.status, &expected);
            }
            let mut cell = Cell::default();
            cell.take(&reply(failure()));
            assert!(matches!(
                cell.give_up(),
                CellStep::Output(CellOutput::Error(_))
            ));
            assert!(matches!(cell.give_up(), CellStep::Nothing));
            assert!(matches!(cell.status, CellStatus::Error { .. }));
            // Without a reply, it is unknown whether the code ran to its end.
            let mut cell = Cell::default();
            assert!(matches!(cell.give_up(), CellStep::Nothing));
            assert_eq!(&cell.status, &CellStatus::Aborted);
        }

        #[test]
        fn lines_of_a_log_are_read_from_their_type() {
            let display = |data: Value| {
                let content = json!({ "data": data });
                match Cell::default().take(&message(Channel::Iopub, "display_data", "1", content)) {
                    CellStep::Output(output) => output,
                    other => panic!("{other:?}"),
                }
            };
            let line = json!({ "level": "warning", "message": "m" });
            let line = display(json!({ LOG_TYPE: line, "text/plain": "t" })).log_line();
            assert_eq!(
                line.unwrap(),
                LogLine {
                    level: "warning".into(),
                    message: "m".into()
                }
            );
            assert_eq!(display(json!({ LOG_TYPE: "m" })).log_line(), None);
            assert_eq!(display(json!({ "text/plain": "t" })).log_line(), None);
        }
    }

    mod content {
        use super::super::ReplyContent;

        #[test]
        fn unknown_fields_of_a_reply_are_skipped_whatever_they_contain() {
            let reply = r#"{"status":"error","ename":"E","payload":["\ud800",1e999]}"#;
            let reply: ReplyContent = serde_json::from_str(reply).unwrap();
            assert_eq!(
                (reply.status.as_str(), reply.ename.as_str()),
                ("error", "E")
            );
        }
    }
}
