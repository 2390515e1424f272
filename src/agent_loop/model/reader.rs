//! Readers of answers, which process plain text, an agent's records, or an API's stream as they arrive.

use super::messages::{StopReason, StreamChunk, Usage};
use super::{AnswerError, ReadResult, ResponseBuilder};
use crate::agent::{AgentEvent, Format, SseRecord, SseRecords, StreamFormat, StreamStatus};
use crate::clock::Clock;
use crate::process::{RecordPart, RecordSplitter};
use crate::text::{Utf8Decoder, last_bytes};
use serde_json::Value;

/// Creates a reader for output of this format.
pub(super) fn reader(format: Format, clock: &Clock) -> Box<dyn AnswerReader> {
    match format {
        Format::Sse => Box::new(DetectingReader::new(clock.clone())),
        _ => record_reader(format, clock),
    }
}

// Interfaces of the readers of answers.

pub(super) trait AnswerReader: Send {
    /// Processes bytes, cut anywhere.
    ///
    /// # Errors
    /// When the answer cannot become complete.
    fn push(&mut self, bytes: &[u8], response: &mut ResponseBuilder<'_>) -> ReadResult;

    /// Ends the answer.
    ///
    /// # Errors
    /// When the answer is incomplete.
    fn finish(&mut self, response: &mut ResponseBuilder<'_>) -> ReadResult;

    /// Returns true if the answer is complete, so that later bytes do not belong to it.
    fn is_done(&self) -> bool {
        false
    }

    /// Returns the last text outside of records, which may explain a missing answer.
    fn other_text(&self) -> &str {
        ""
    }
}

/// Interprets the events of one API.
pub(super) trait Dialect: Send {
    /// Processes an event.
    ///
    /// # Errors
    /// When the API reports a failure, or the event makes the answer incomplete.
    fn event(&mut self, event: &Value, response: &mut ResponseBuilder<'_>) -> ReadResult;

    fn done(&mut self, _response: &mut ResponseBuilder<'_>) {}

    /// Returns true if the answer is complete when its stream has ended.
    fn is_complete(&self) -> bool {
        self.is_done()
    }

    /// Returns true if later events do not belong to the answer.
    fn is_done(&self) -> bool;
}

/// Sets the usage. Counts are cumulative, so the last ones are final.
pub(super) fn set_usage(
    input_tokens: &Value,
    output_tokens: &Value,
    response: &mut ResponseBuilder<'_>,
) {
    let usage = response.usage();
    usage.input_tokens = input_tokens.as_u64().unwrap_or(usage.input_tokens);
    usage.output_tokens = output_tokens.as_u64().unwrap_or(usage.output_tokens);
}

// Reads the streams of APIs: server-sent events, the first of which identifies the API.

/// Maximum size of an event, which may contain the complete input of a tool.
const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum number of bytes before the first event. They are parsed again with each read.
const PENDING_BYTES_MAX: usize = 1024 * 1024;

pub(super) struct SseReader {
    records: SseRecords,
    dialect: Box<dyn Dialect>,
    error: Option<AnswerError>,
}

impl SseReader {
    pub fn new(dialect: impl Dialect + 'static) -> Self {
        Self {
            records: SseRecords::new(RECORD_BYTES_MAX),
            dialect: Box::new(dialect),
            error: None,
        }
    }
}

fn handle_record(
    record: &SseRecord,
    dialect: &mut dyn Dialect,
    error: &mut Option<AnswerError>,
    response: &mut ResponseBuilder<'_>,
) {
    // Events after the end or after an error are ignored.
    if error.is_some() || dialect.is_done() {
        return;
    }
    let result = match record {
        SseRecord::Value(event) => dialect.event(event, response),
        SseRecord::Done => {
            dialect.done(response);
            Ok(())
        }
        SseRecord::Broken(text) => Err(AnswerError::new(format!(
            "the stream contains an invalid event: {text}"
        ))),
        SseRecord::TooLong(bytes) => Err(AnswerError::new(format!(
            "an event of the stream has {bytes} bytes"
        ))),
    };
    *error = result.err();
}

impl AnswerReader for SseReader {
    fn push(&mut self, bytes: &[u8], response: &mut ResponseBuilder<'_>) -> ReadResult {
        let (dialect, error) = (&mut *self.dialect, &mut self.error);
        self.records.push(bytes, &mut |record| {
            handle_record(&record, dialect, error, response)
        });
        self.error.clone().map_or(Ok(()), Err)
    }

    fn finish(&mut self, response: &mut ResponseBuilder<'_>) -> ReadResult {
        if !self.dialect.is_done() {
            let (dialect, error) = (&mut *self.dialect, &mut self.error);
            // A last event without its blank line is often truncated, so it is ignored if invalid.
            self.records.finish(&mut |record| {
                if !matches!(record, SseRecord::Broken(_)) {
                    handle_record(&record, dialect, error, response);
                }
            });
        }
        match &self.error {
            Some(error) => Err(error.clone()),
            None if self.dialect.is_complete() => Ok(()),
            None => Err(AnswerError::new(
                "the stream ended before the answer was complete",
            )),
        }
    }

    fn is_done(&self) -> bool {
        self.dialect.is_done()
    }
}

/// Reads a stream whose API the first event identifies.
pub(super) struct DetectingReader {
    api: Option<Box<dyn AnswerReader>>,
    /// The bytes received before the API is known.
    pending: Vec<u8>,
    clock: Clock,
}

impl DetectingReader {
    pub fn new(clock: Clock) -> Self {
        Self {
            api: None,
            pending: Vec::new(),
            clock,
        }
    }

    fn detect(&mut self, is_end: bool) {
        let mut records = SseRecords::new(RECORD_BYTES_MAX);
        let mut first = None;
        let mut keep_first = |record: SseRecord| {
            first.get_or_insert(record);
        };
        records.push(&self.pending, &mut keep_first);
        if is_end {
            records.finish(&mut keep_first);
        }
        let Some(first) = first else {
            return;
        };
        let kind = match &first {
            SseRecord::Value(event) => event["type"].as_str(),
            _ => None,
        };
        self.api = Some(match kind {
            // Tool inputs are not read, because no client here uses this API.
            Some(kind) if kind.starts_with("response.") => record_reader(Format::Sse, &self.clock),
            Some(_) => Box::new(SseReader::new(AnthropicDialect::default())),
            None => Box::new(SseReader::new(ChatDialect::default())),
        });
    }

    fn read(&mut self, response: &mut ResponseBuilder<'_>) -> ReadResult {
        match &mut self.api {
            Some(api) => api.push(&std::mem::take(&mut self.pending), response),
            None => Ok(()),
        }
    }
}

impl AnswerReader for DetectingReader {
    fn push(&mut self, bytes: &[u8], response: &mut ResponseBuilder<'_>) -> ReadResult {
        if let Some(api) = &mut self.api {
            return api.push(bytes, response);
        }
        self.pending.extend_from_slice(bytes);
        self.detect(false);
        if self.api.is_none() && self.pending.len() > PENDING_BYTES_MAX {
            return Err(AnswerError::new("the data is not a stream of an API"));
        }
        self.read(response)
    }

    fn finish(&mut self, response: &mut ResponseBuilder<'_>) -> ReadResult {
        if self.api.is_none() {
            self.detect(true);
            self.read(response)?;
        }
        match &mut self.api {
            Some(api) => api.finish(response),
            None => Err(AnswerError::new("the answer is empty")),
        }
    }

    fn is_done(&self) -> bool {
        self.api.as_ref().is_some_and(|api| api.is_done())
    }
}

// Interprets events of Anthropic's Messages API, from `message_start` to `message_stop`, with complete
// tool inputs.

#[derive(Debug, Default)]
pub(super) struct AnthropicDialect {
    /// Calls whose input is incomplete: the indexes of their blocks and of the calls.
    open: Vec<(u64, usize)>,
    is_done: bool,
}

impl Dialect for AnthropicDialect {
    fn event(&mut self, event: &Value, response: &mut ResponseBuilder<'_>) -> ReadResult {
        let index = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                let usage = &event["message"]["usage"];
                set_usage(&usage["input_tokens"], &usage["output_tokens"], response);
            }
            "content_block_start" => return self.block(index, &event["content_block"], response),
            "content_block_delta" => {
                let delta = &event["delta"];
                if let Some(text) = delta["text"].as_str() {
                    response.text(text.to_owned());
                } else if let Some(json) = delta["partial_json"].as_str()
                    && let Some((_, call)) = self.open.iter().find(|(open, _)| *open == index)
                {
                    response.add_input(*call, json)?;
                }
            }
            "content_block_stop" => {
                if let Some(open) = self.open.iter().position(|(open, _)| *open == index) {
                    let (_, call) = self.open.remove(open);
                    response.end_call(call);
                }
            }
            "message_delta" => {
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    response.stop(match reason {
                        "end_turn" => StopReason::EndTurn,
                        "tool_use" => StopReason::ToolUse,
                        "max_tokens" => StopReason::MaxTokens,
                        "stop_sequence" => StopReason::StopSequence,
                        "refusal" => StopReason::Refusal,
                        other => StopReason::Other(other.to_owned()),
                    });
                }
                let usage = &event["usage"];
                set_usage(&usage["input_tokens"], &usage["output_tokens"], response);
            }
            "message_stop" => self.is_done = true,
            "error" => return Err(failure(&event["error"])),
            // Pings, and events of newer versions.
            _ => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

impl AnthropicDialect {
    fn block(
        &mut self,
        index: u64,
        block: &Value,
        response: &mut ResponseBuilder<'_>,
    ) -> ReadResult {
        // Tools that the API runs itself are skipped.
        if block["type"] == "tool_use" {
            let (id, name) = (block["id"].as_str(), block["name"].as_str());
            let call = response.begin_call(id.unwrap_or_default(), name.unwrap_or_default())?;
            // Usually empty, because the input follows in deltas.
            let input = block["input"].as_object().filter(|input| !input.is_empty());
            if input.is_some() {
                response.add_input(call, &block["input"].to_string())?;
            }
            self.open.push((index, call));
        } else if let Some(text) = block["text"].as_str() {
            response.text(text.to_owned());
        }
        Ok(())
    }
}

pub(super) fn failure(error: &Value) -> AnswerError {
    let kind = error["type"].as_str().or(error["code"].as_str());
    let message = error["message"].as_str().or(error.as_str());
    AnswerError::new(match (kind, message) {
        (Some(kind), Some(message)) => format!("the API failed: {kind}: {message}"),
        (Some(text), None) | (None, Some(text)) => format!("the API failed: {text}"),
        (None, None) => format!("the API failed: {error}"),
    })
}

// Interprets OpenAI's chat completions: chunks, a finish reason, an optional usage, and `[DONE]`, with
// complete tool inputs.

#[derive(Debug, Default)]
pub(super) struct ChatDialect {
    /// The calls: their indexes in the API and in the response.
    calls: Vec<(u64, usize)>,
    /// True after a finish reason.
    is_finished: bool,
    is_done: bool,
}

impl Dialect for ChatDialect {
    fn event(&mut self, event: &Value, response: &mut ResponseBuilder<'_>) -> ReadResult {
        if !event["error"].is_null() {
            return Err(failure(&event["error"]));
        }
        let usage = &event["usage"];
        set_usage(
            &usage["prompt_tokens"],
            &usage["completion_tokens"],
            response,
        );
        for choice in event["choices"].as_array().into_iter().flatten() {
            // Alternative answers to the same prompt are skipped.
            if choice["index"].as_u64().unwrap_or_default() == 0 {
                self.choice(choice, response)?;
            }
        }
        Ok(())
    }

    fn done(&mut self, response: &mut ResponseBuilder<'_>) {
        self.end_calls(response);
        self.is_done = true;
    }

    fn is_complete(&self) -> bool {
        // `[DONE]` alone does not complete an answer; a finish reason must precede it.
        self.is_done && self.is_finished
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

impl ChatDialect {
    fn choice(&mut self, choice: &Value, response: &mut ResponseBuilder<'_>) -> ReadResult {
        let delta = &choice["delta"];
        for text in [&delta["content"], &delta["refusal"]] {
            if let Some(text) = text.as_str() {
                response.text(text.to_owned());
            }
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call, response)?;
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.is_finished = true;
            // The input of a truncated call is invalid, which the parsing of the input reports.
            self.end_calls(response);
            response.stop(match reason {
                "stop" => StopReason::EndTurn,
                "tool_calls" | "function_call" => StopReason::ToolUse,
                "length" => StopReason::MaxTokens,
                "content_filter" => StopReason::Refusal,
                other => StopReason::Other(other.to_owned()),
            });
        }
        Ok(())
    }

    fn call(&mut self, call: &Value, response: &mut ResponseBuilder<'_>) -> ReadResult {
        let index = call["index"].as_u64().unwrap_or_default();
        let function = &call["function"];
        let known = self.calls.iter().find(|(known, _)| *known == index);
        let call_index = match known {
            Some((_, call_index)) => *call_index,
            None => {
                let (id, name) = (call["id"].as_str(), function["name"].as_str());
                let call_index =
                    response.begin_call(id.unwrap_or_default(), name.unwrap_or_default())?;
                self.calls.push((index, call_index));
                call_index
            }
        };
        let arguments = function["arguments"].as_str().unwrap_or_default();
        response.add_input(call_index, arguments)
    }

    fn end_calls(&mut self, response: &mut ResponseBuilder<'_>) {
        for (_, call_index) in &self.calls {
            response.end_call(*call_index);
        }
    }
}

// Reads the answer of a command: of an agent that works on its own, whose text is the answer and whose other
// records are reported, or plain text.

/// Maximum size of text outside of records to keep, from its end.
const OTHER_TEXT_BYTES_MAX: usize = 2_000;

/// The beginning of the evidence for Claude Code's own `--max-turns`.
const MAX_TURNS: &str = "result: subtype error_max_turns,";

struct AgentReader {
    format: Format,
    records: RecordSplitter,
    answer: AgentAnswer,
    /// Provides the times of records without a timestamp.
    clock: Clock,
}

/// The answer received so far.
#[derive(Default)]
struct AgentAnswer {
    decoder: Utf8Decoder,
    has_records: bool,
    has_response: bool,
    is_done: bool,
    error: String,
    /// True if the error is that the agent has used up its answers.
    exceeded_turns: bool,
    result: String,
    other_text: String,
}

/// Creates a reader for output of this format. Plain text has no records.
pub(super) fn record_reader(format: Format, clock: &Clock) -> Box<dyn AnswerReader> {
    match RecordSplitter::new(format) {
        Some(records) => Box::new(AgentReader {
            format,
            records,
            answer: AgentAnswer::default(),
            clock: clock.clone(),
        }),
        None => Box::new(TextReader::default()),
    }
}

impl AgentAnswer {
    /// Processes text outside of records.
    fn text(&mut self, bytes: &[u8], is_answer: bool, response: &mut ResponseBuilder<'_>) {
        if is_answer && !self.has_records {
            return self.answer_text(bytes, response);
        }
        let other = &mut self.other_text;
        self.decoder.push(bytes, |text| other.push_str(text));
        let surplus = other.len() - last_bytes(other, OTHER_TEXT_BYTES_MAX).len();
        other.drain(..surplus);
    }

    fn answer_text(&mut self, bytes: &[u8], response: &mut ResponseBuilder<'_>) {
        let mut text = String::new();
        self.decoder.push(bytes, |part| text.push_str(part));
        response.text(text);
    }

    fn event(&mut self, event: AgentEvent, response: &mut ResponseBuilder<'_>) {
        self.has_records = true;
        match &event {
            AgentEvent::TokenReceived { token } => {
                self.is_done = false;
                response.begin_turn();
                return response.text(token.clone());
            }
            AgentEvent::ResponseCompleted {
                input_tokens,
                output_tokens,
                ..
            } => {
                self.has_response = true;
                *response.usage() += Usage {
                    input_tokens: *input_tokens,
                    output_tokens: *output_tokens,
                };
                response.end_message();
                response.end_turn();
            }
            AgentEvent::ToolCallStarted { .. } => {
                self.is_done = false;
                response.begin_turn();
                response.end_message();
            }
            AgentEvent::AgentCompleted { result, .. } => {
                self.is_done = true;
                self.result.clone_from(result);
            }
            AgentEvent::AgentFailed { error, evidence } => {
                self.is_done = true;
                self.error = format!("{error} ({evidence})");
                self.exceeded_turns = evidence.starts_with(MAX_TURNS);
            }
            _ => {}
        }
        response.send(StreamChunk::Agent(event));
    }

    fn part(&mut self, part: RecordPart<'_>, is_answer: bool, response: &mut ResponseBuilder<'_>) {
        match part {
            RecordPart::Text(bytes) => self.text(bytes, is_answer, response),
            RecordPart::Event(event) => self.event(event, response),
            RecordPart::Unknown(bytes) => self.answer_text(bytes, response),
        }
    }
}

impl AnswerReader for AgentReader {
    fn push(&mut self, bytes: &[u8], response: &mut ResponseBuilder<'_>) -> ReadResult {
        let (answer, is_answer) = (&mut self.answer, self.format == Format::Auto);
        self.records.push(bytes, self.clock.wall(), &mut |part| {
            answer.part(part, is_answer, response);
        });
        Ok(())
    }

    fn finish(&mut self, response: &mut ResponseBuilder<'_>) -> ReadResult {
        let (answer, is_answer) = (&mut self.answer, self.format == Format::Auto);
        let records = &mut self.records;
        records.finish(self.clock.wall(), &mut |part| {
            answer.part(part, is_answer, response);
        });
        let mut rest = String::new();
        answer.decoder.finish(|text| rest.push_str(text));
        answer.text(rest.as_bytes(), is_answer, response);
        if !response.has_text() {
            // Some records contain a result, but no text.
            let result = match answer.result.is_empty() {
                true => records.answer().to_owned(),
                false => std::mem::take(&mut answer.result),
            };
            response.text(result);
        }
        let is_untyped = matches!(
            records.format(),
            None | Some(StreamFormat::Text | StreamFormat::Json)
        );
        match records.status() {
            StreamStatus::Done | StreamStatus::MaybeDone => Ok(()),
            StreamStatus::Unknown if is_untyped || answer.has_response => Ok(()),
            _ if !answer.error.is_empty() => {
                let message = format!("the agent failed: {}", answer.error);
                Err(match answer.exceeded_turns {
                    true => AnswerError::max_turns(message),
                    false => AnswerError::new(message),
                })
            }
            StreamStatus::Unknown => Err(AnswerError::new(format!(
                "the output contains no answer of an agent; is its format {}?",
                self.format
            ))),
            status => Err(AnswerError::new(format!(
                "the agent has not finished; its state is {}",
                status.as_str()
            ))),
        }
    }

    fn is_done(&self) -> bool {
        self.answer.is_done
    }

    fn other_text(&self) -> &str {
        &self.answer.other_text
    }
}

/// Reads plain text, which ends with its stream.
#[derive(Debug, Default)]
struct TextReader {
    decoder: Utf8Decoder,
    has_warned: bool,
}

impl TextReader {
    fn warn(&mut self, response: &mut ResponseBuilder<'_>) {
        if self.decoder.invalid > 0 && !std::mem::replace(&mut self.has_warned, true) {
            let message =
                "the answer contains bytes that are not UTF-8, which are replaced by \u{fffd}";
            response.warn(message.to_owned());
        }
    }
}

impl AnswerReader for TextReader {
    fn push(&mut self, bytes: &[u8], response: &mut ResponseBuilder<'_>) -> ReadResult {
        let mut text = String::new();
        self.decoder.push(bytes, |part| text.push_str(part));
        response.text(text);
        self.warn(response);
        Ok(())
    }

    fn finish(&mut self, response: &mut ResponseBuilder<'_>) -> ReadResult {
        self.decoder.finish(|text| response.text(text.to_owned()));
        self.warn(response);
        Ok(())
    }
}
