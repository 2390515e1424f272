//! Gemini CLI (pure): the output of `--output-format stream-json`, runs from an init to a result; and
//! session files, which rewrite messages as they grow and do not record the end of a turn.

use super::{
    EventTime, EventWriter, Json, RecentIds, RecordHandler, StreamStatus, TokenUsage, first,
};
use crate::agent::summary::TextPrefix;

#[derive(Debug, Default)]
pub struct GeminiPrint {
    /// The text since the last tool or prompt, collected from deltas.
    text: TextPrefix,
    text_bytes: usize,
    has_tool_calls: bool,
}

impl RecordHandler for GeminiPrint {
    fn record(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        let when = writer.time(record["timestamp"].time());
        let id = record["tool_id"].text();
        match record["type"].text() {
            "init" => {
                writer.cut_off_by("another run began");
                writer.tools.clear();
                self.begin_text();
                self.has_tool_calls = false;
                writer.working("init");
            }
            "message" => self.message(record, writer),
            "tool_use" => {
                writer.working("tool_use");
                self.begin_text();
                self.has_tool_calls = true;
                let arguments = record["parameters"].arguments();
                writer.tool_started(id, record["tool_name"].text(), &arguments, when, true);
            }
            "tool_result" => {
                writer.working("tool_result");
                self.begin_text();
                let output = record["output"].any_text();
                let text = first([output.as_str(), record["error"]["message"].text()]);
                let success = record["status"].text() == "success";
                writer.tool_completed(id, success, text, when);
            }
            "error" => {
                let severity = record["severity"].as_str().unwrap_or("error");
                let message = record["message"].text();
                writer.warn(format!("gemini reports: {severity}: {message}"));
            }
            // Claude's records of this type have no status.
            "result" if record["status"].as_str().is_none() => writer.mark_unknown(),
            "result" => self.result(record, writer),
            _ => writer.mark_unknown(),
        }
    }
}

impl GeminiPrint {
    fn begin_text(&mut self) {
        self.text.clear();
        self.text_bytes = 0;
    }

    fn message(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        let Some(text) = record["content"].as_str() else {
            return;
        };
        match record["role"].text() {
            "user" => {
                self.begin_text();
                writer.prompt_sent(text);
            }
            "assistant" => {
                writer.working("an answer");
                // A complete message may repeat the deltas.
                let is_repeated = record["delta"].as_bool() != Some(true)
                    && self.text_bytes > 0
                    && text.len() == self.text_bytes
                    && text.starts_with(self.text.as_str());
                if is_repeated {
                    return;
                }
                self.text.push(text);
                self.text_bytes += text.len();
                writer.set_answer(self.text.as_str());
                writer.token(text.into());
            }
            _ => {}
        }
    }

    fn result(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        let status = record["status"].text();
        let evidence = format!("result: status {status}");
        let usage = TokenUsage::of(&record["stats"], "input_tokens", "output_tokens");
        if status == "success" {
            let answer = writer.answer.clone();
            writer.response_completed(&answer, usage, self.has_tool_calls);
            writer.turn_completed("result");
            writer.completed(evidence);
        } else {
            let error = record["error"]["message"].as_str();
            writer.failed(error.unwrap_or(status), evidence);
        }
        self.begin_text();
        self.has_tool_calls = false;
    }
}

/// An answer that may be rewritten.
#[derive(Debug, Default)]
struct OpenAnswer {
    id: String,
    text: String,
    usage: TokenUsage,
    has_tool_calls: bool,
}

#[derive(Debug, Default)]
pub struct GeminiSession {
    open: Option<OpenAnswer>,
    seen: RecentIds,
    /// True after an interruption: Gemini CLI then rewrites all remaining messages, up to the patch
    /// that contains them all.
    is_rewriting: bool,
}

impl RecordHandler for GeminiSession {
    fn record(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        writer.note_summary(record["$set"]["summary"].text());
        if record["$set"]["messages"].is_null() {
            self.message(record, writer);
        } else {
            self.snapshot(record["$set"]["messages"].list(), writer);
        }
    }

    fn end_turn(&mut self, writer: &mut EventWriter) {
        self.complete(writer);
        writer.end_turn();
    }

    fn finish(&mut self, writer: &mut EventWriter) {
        self.complete(writer);
        writer.finish();
    }
}

impl GeminiSession {
    /// Takes all messages of the conversation so far. Those after the last known one are new; others have been
    /// rewritten, under other ids, too.
    fn snapshot(&mut self, messages: &[Json<'_>], writer: &mut EventWriter) {
        let is_begin = !self.is_rewriting && self.seen.is_empty();
        self.is_rewriting = false;
        let is_known = |message: &Json<'_>| self.seen.contains(message["id"].text());
        let new = match messages.iter().rposition(is_known) {
            Some(last) => last,
            None if is_begin => 0,
            None => messages.len(),
        };
        let (rewritten, new) = messages.split_at(new);
        for message in rewritten {
            self.seen.insert(message["id"].text());
        }
        for message in new {
            if is_context(message) {
                self.seen.insert(message["id"].text());
            } else {
                self.message(message, writer);
            }
        }
    }

    fn message(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        let (id, text) = (record["id"].text(), record["content"].any_text());
        let text = text.as_str();
        match record["type"].text() {
            "user" if is_context(record) => self.is_rewriting = true,
            "user" | "gemini" if self.is_rewriting => {}
            "user" => {
                if !self.seen.insert(id) {
                    return;
                }
                self.complete(writer);
                // Empty for tool results, which the answer has reported. The tools of a turn that the user has stopped,
                // and their results, are written after its end.
                if !text.is_empty() {
                    writer.prompt_sent(text);
                } else if writer.status != StreamStatus::Interrupted {
                    writer.working("a tool's result");
                }
            }
            "gemini" => self.answer(record, text, writer),
            "error" if self.seen.insert(id) => {
                self.complete(writer);
                writer.failed(text, "an error message");
            }
            "warning" if self.seen.insert(id) => {
                writer.warn(format!("gemini reports: {text}"));
            }
            // Written by Gemini CLI 0.61 when the user stops it.
            "info" if text == "Request cancelled." && self.seen.insert(id) => {
                self.complete(writer);
                writer.interrupted("a human interrupted it".to_owned());
            }
            // The header and its patches, and hints for the user.
            _ => writer.mark_unknown(),
        }
    }

    fn answer(&mut self, record: &Json<'_>, text: &str, writer: &mut EventWriter) {
        let id = record["id"].text();
        if self.open.as_ref().is_none_or(|open| open.id != id) {
            if !self.seen.insert(id) {
                return;
            }
            self.complete(writer);
            self.open = Some(OpenAnswer {
                id: id.to_owned(),
                ..OpenAnswer::default()
            });
        }
        let Some(open) = &mut self.open else { return };
        // The last version is valid; only its text beyond the previous version is new.
        if let Some(more) = text.strip_prefix(open.text.as_str()) {
            writer.token(more.to_owned().into());
        }
        text.clone_into(&mut open.text);
        writer.set_answer(text);
        if record["tokens"].is_object() {
            let tokens = &record["tokens"];
            open.usage = TokenUsage::of(tokens, "input", "output")
                .with_thoughts(&tokens["thoughts"], &tokens["total"]);
        }
        let calls = record["toolCalls"].list();
        open.has_tool_calls |= !calls.is_empty();
        let when = writer.time(record["timestamp"].time());
        for call in calls {
            tool(call, when, writer);
        }
        if writer.status != StreamStatus::Interrupted {
            writer.answered(text, open.has_tool_calls);
        }
    }

    /// Reports the answer, which will not be rewritten.
    fn complete(&mut self, writer: &mut EventWriter) {
        if let Some(open) = self.open.take() {
            writer.response_completed(&open.text, open.usage, open.has_tool_calls);
        }
    }
}

/// Returns true for the context that Gemini CLI itself sends to the model, as the first message.
fn is_context(message: &Json<'_>) -> bool {
    let text = message["content"].any_text();
    text.as_str().starts_with("<session_context>")
}

fn tool(call: &Json<'_>, message: EventTime, writer: &mut EventWriter) {
    let (id, arguments) = (call["id"].text(), call["args"].arguments());
    writer.tool_started(id, call["name"].text(), &arguments, message, true);
    let status = call["status"].text();
    if matches!(status, "success" | "error" | "cancelled") {
        let results = call["result"].list().iter();
        let mut texts = results.map(|result| result["functionResponse"]["response"].any_text());
        let text = texts.find(|text| !text.is_empty()).unwrap_or_default();
        let when = writer.time(call["timestamp"].time());
        writer.tool_completed(id, status == "success", text.as_str(), when);
    }
}
