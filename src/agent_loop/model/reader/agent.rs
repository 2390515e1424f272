//! Reads the answer of a command: of an agent that works on its own, whose text is the answer and whose other
//! records are reported, or plain text.

use super::super::error::{AnswerError, ReadResult};
use super::super::response::{StreamChunk, Usage};
use super::super::response_builder::ResponseBuilder;
use super::answer::AnswerReader;
use crate::agent::{AgentEvent, Format, StreamFormat, StreamStatus};
use crate::clock::Clock;
use crate::process::{RecordPart, RecordSplitter};
use crate::text::{Utf8Decoder, last_bytes};

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
pub(super) fn reader(format: Format, clock: &Clock) -> Box<dyn AnswerReader> {
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
