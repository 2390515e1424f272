//! Readers of answers, which process plain text, an agent's records, or an API's stream as they arrive.

use super::messages::{StopReason, StreamChunk, Usage};
use super::{AnswerError, ReadResult, ResponseBuilder};
use crate::agent::{
    AgentEvent, ApiDialect, ApiPart, ApiStream, Format, StreamFormat, StreamStatus,
};
use crate::clock::Clock;
use crate::process::{RecordPart, RecordSplitter};
use crate::text::{Utf8Decoder, last_bytes};

/// Creates a reader for output of this format.
pub(super) fn reader(format: Format, clock: &Clock) -> Box<dyn AnswerReader> {
    if format == Format::Sse {
        return Box::new(SseReader::new(None));
    }
    match RecordSplitter::new(format) {
        Some(records) => Box::new(AgentReader {
            format,
            records,
            answer: AgentAnswer::default(),
            clock: clock.clone(),
        }),
        // Plain text has no records.
        None => Box::new(TextReader::default()),
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

    /// Returns true if the agent wrote whole messages although it can write them word by word.
    fn has_whole_messages(&self) -> bool {
        false
    }

    /// Returns the last text outside of records, which may explain a missing answer.
    fn other_text(&self) -> &str {
        ""
    }
}

// Reads the streams of APIs.

/// Maximum size of an event, which may contain the complete input of a tool.
const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Reads a stream of an API, with the complete inputs of tools.
pub(super) struct SseReader {
    stream: ApiStream,
    answer: ApiAnswer,
    error: Option<AnswerError>,
}

/// The state of the answer.
#[derive(Debug, Default)]
struct ApiAnswer {
    /// Calls whose input is incomplete: their indexes in the stream and in the response.
    open: Vec<(u64, usize)>,
    has_calls: bool,
    /// True after a reason for the end.
    is_stopped: bool,
    is_done: bool,
}

impl SseReader {
    /// Creates a reader for this dialect, or for the one that the first event shows.
    pub fn new(dialect: Option<ApiDialect>) -> Self {
        Self {
            stream: ApiStream::new(dialect, RECORD_BYTES_MAX),
            answer: ApiAnswer::default(),
            error: None,
        }
    }
}

impl AnswerReader for SseReader {
    fn push(&mut self, bytes: &[u8], response: &mut ResponseBuilder<'_>) -> ReadResult {
        let (answer, error) = (&mut self.answer, &mut self.error);
        self.stream.push(bytes, &mut |part| {
            // Parts after the end or after an error are ignored.
            if error.is_none() && !answer.is_done {
                *error = answer.part(part, response).err();
            }
        });
        self.error.clone().map_or(Ok(()), Err)
    }

    fn finish(&mut self, response: &mut ResponseBuilder<'_>) -> ReadResult {
        let (answer, error) = (&mut self.answer, &mut self.error);
        self.stream.finish(&mut |part| {
            // A last event without its blank line is often truncated, so it is ignored if invalid.
            let is_broken = matches!(part, ApiPart::Broken(_));
            if !is_broken && error.is_none() && !answer.is_done {
                *error = answer.part(part, response).err();
            }
        });
        let is_chat = self.stream.dialect == Some(ApiDialect::Chat);
        match &self.error {
            Some(error) => Err(error.clone()),
            // `[DONE]` alone does not complete an answer; a finish reason must precede it.
            None if self.answer.is_done && (self.answer.is_stopped || !is_chat) => Ok(()),
            None if self.stream.dialect.is_none() => Err(AnswerError::new("the answer is empty")),
            None => Err(AnswerError::new(
                "the stream ended before the answer was complete",
            )),
        }
    }

    fn is_done(&self) -> bool {
        self.answer.is_done
    }
}

impl ApiAnswer {
    fn part(&mut self, part: ApiPart<'_>, response: &mut ResponseBuilder<'_>) -> ReadResult {
        let position = |index: u64| self.open.iter().position(|(open, _)| *open == index);
        match part {
            // Tools that the API runs itself are skipped.
            ApiPart::Began(_)
            | ApiPart::CallResult { .. }
            | ApiPart::CallBegan {
                is_by_api: true, ..
            } => {}
            ApiPart::Text(text) => response.text(text.to_owned()),
            ApiPart::CallBegan {
                index, id, name, ..
            } => {
                if position(index).is_none() {
                    self.open.push((index, response.begin_call(id, name)?));
                    self.has_calls = true;
                }
            }
            ApiPart::CallInput { index, json } => {
                if let Some(at) = position(index) {
                    response.add_input(self.open[at].1, &json)?;
                }
            }
            ApiPart::CallEnded { index } => {
                if let Some(at) = position(index) {
                    response.end_call(self.open.remove(at).1);
                }
            }
            ApiPart::Usage(input, output) => {
                let usage = response.usage();
                usage.input_tokens = input.unwrap_or(usage.input_tokens);
                usage.output_tokens = output.unwrap_or(usage.output_tokens);
            }
            ApiPart::Stopped(reason) => {
                // The input of a truncated call is invalid, which the parsing of the input reports.
                for (_, call) in self.open.drain(..) {
                    response.end_call(call);
                }
                self.is_stopped = true;
                response.stop(match reason {
                    "end_turn" | "stop" => StopReason::EndTurn,
                    "tool_use" | "tool_calls" | "function_call" => StopReason::ToolUse,
                    "max_tokens" | "length" | "max_output_tokens" => StopReason::MaxTokens,
                    "stop_sequence" => StopReason::StopSequence,
                    "refusal" | "content_filter" => StopReason::Refusal,
                    other => StopReason::Other(other.to_owned()),
                });
            }
            ApiPart::Complete => {
                self.is_done = true;
                if !self.is_stopped && self.has_calls {
                    response.stop(StopReason::ToolUse);
                }
            }
            ApiPart::Failed(error) => {
                return Err(AnswerError::new(format!("the API failed: {error}")));
            }
            ApiPart::Broken(text) => {
                return Err(AnswerError::new(format!(
                    "the stream contains an invalid event: {text}"
                )));
            }
            ApiPart::TooLong(bytes) => {
                return Err(AnswerError::new(format!(
                    "an event of the stream has {bytes} bytes"
                )));
            }
        }
        Ok(())
    }
}

// Reads the answer of a command: of an agent that works on its own, whose text is the answer and whose other
// records are reported, or plain text.

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

impl AgentAnswer {
    /// Processes text outside of records.
    fn text(&mut self, bytes: &[u8], is_answer: bool, response: &mut ResponseBuilder<'_>) {
        if is_answer && !self.has_records {
            return self.answer_text(bytes, response);
        }
        let other = &mut self.other_text;
        self.decoder.push(bytes, |text| other.push_str(text));
        // Maximum size of text outside of records to keep, from its end.
        let surplus = other.len() - last_bytes(other, 2_000).len();
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
                // The beginning of the evidence for Claude Code's own `--max-turns`.
                self.exceeded_turns = evidence.starts_with("result: subtype error_max_turns,");
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
    fn has_whole_messages(&self) -> bool {
        self.records.parser.has_whole_messages()
    }

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
            let result = if answer.result.is_empty() {
                records.parser.answer().to_owned()
            } else {
                std::mem::take(&mut answer.result)
            };
            response.text(result);
        }
        let is_untyped = matches!(
            records.parser.format(),
            None | Some(StreamFormat::Text | StreamFormat::Json)
        );
        match records.parser.status() {
            StreamStatus::Done | StreamStatus::MaybeDone => Ok(()),
            StreamStatus::Unknown if is_untyped || answer.has_response => Ok(()),
            _ if !answer.error.is_empty() => {
                let message = format!("the agent failed: {}", answer.error);
                Err(if answer.exceeded_turns {
                    AnswerError::max_turns(message)
                } else {
                    AnswerError::new(message)
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
