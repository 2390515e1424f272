//! The contents of messages that a client of a kernel reads (pure).
//!
//! Every field has a default, because kernels of other versions may omit it.

use serde::Deserialize;
use serde_json::{Map, Value};

/// `stream`: printed text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StreamContent {
    pub name: String,
    pub text: String,
}

/// `status`: `busy`, `idle` or `starting`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StatusContent {
    pub execution_state: String,
}

/// `execute_input`: the code that a client has sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct InputContent {
    pub code: String,
    pub execution_count: Option<u32>,
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

/// `clear_output`: the output so far is removed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClearContent {
    /// True if the output stays until the next output replaces it.
    pub wait: bool,
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

/// `input_request`: a question of the code to the user, such as `input("name: ")`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct QuestionContent {
    pub prompt: String,
    /// True if the answer is a secret.
    #[serde(rename = "password")]
    pub is_password: bool,
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

/// `shutdown_reply` on iopub: the kernel is about to end.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ShutdownContent {
    pub restart: bool,
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
    use super::ReplyContent;

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
