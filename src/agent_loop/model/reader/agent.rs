//! What an agent that works by itself prints: its text is the answer, the rest is reported.

use super::super::intake::Intake;
use super::super::response::StreamChunk;
use super::text::Decoder;
use super::{Flaw, Reader};
use crate::agent::{AgentEvent, Format, StreamFormat, StreamStatus};
use crate::process::{RecordPart, RecordSplitter};
use crate::timestamp::Timestamp;

/// Of what is printed beside the records so much is kept: the last lines.
const BESIDE_BYTES_MAX: usize = 2_000;

/// How the evidence begins where Claude Code says that its own `--max-turns` is reached.
const USED_UP: &str = "result: subtype error_max_turns,";

/// An agent's answer.
pub(super) struct Agent {
    format: Format,
    /// `None` only for plain text, which has a reader of its own.
    records: Option<RecordSplitter>,
    heard: Heard,
}

/// What the records have said.
#[derive(Default)]
struct Heard {
    decoder: Decoder,
    has_records: bool,
    has_response: bool,
    is_over: bool,
    error: String,
    /// That is that its answers are used up.
    has_used_up: bool,
    result: String,
    beside: String,
}

impl Agent {
    pub fn new(format: Format) -> Self {
        Self {
            format,
            records: RecordSplitter::new(format),
            heard: Heard::default(),
        }
    }
}

impl Heard {
    /// Text that stands in no record.
    fn text(&mut self, bytes: &[u8], is_answer: bool, intake: &mut Intake<'_>) {
        let text = self.decoder.push(bytes);
        if is_answer && !self.has_records {
            intake.text(text);
            return;
        }
        self.beside.push_str(&text);
        if self.beside.len() > BESIDE_BYTES_MAX {
            let from = self.beside.len() - BESIDE_BYTES_MAX;
            let from = (from..self.beside.len()).find(|at| self.beside.is_char_boundary(*at));
            self.beside.drain(..from.unwrap_or_default());
        }
    }

    fn event(&mut self, event: AgentEvent, intake: &mut Intake<'_>) {
        self.has_records = true;
        match &event {
            AgentEvent::TokenReceived { token } => {
                self.is_over = false;
                intake.in_turn();
                return intake.text(token.clone());
            }
            AgentEvent::ResponseCompleted {
                input_tokens,
                output_tokens,
                ..
            } => {
                self.has_response = true;
                *intake.usage() += super::super::response::Usage {
                    input_tokens: *input_tokens,
                    output_tokens: *output_tokens,
                };
                intake.between();
                intake.count_turn();
            }
            AgentEvent::ToolCallStarted { .. } => {
                self.is_over = false;
                intake.in_turn();
                intake.between();
            }
            AgentEvent::AgentCompleted { result, .. } => {
                self.is_over = true;
                self.result.clone_from(result);
            }
            AgentEvent::AgentFailed { error, evidence } => {
                self.is_over = true;
                self.error = format!("{error} ({evidence})");
                self.has_used_up = evidence.starts_with(USED_UP);
            }
            _ => {}
        }
        intake.hand_on(StreamChunk::Agent(event));
    }

    fn piece(&mut self, piece: RecordPart<'_>, is_answer: bool, intake: &mut Intake<'_>) {
        match piece {
            RecordPart::Text(bytes) => self.text(bytes, is_answer, intake),
            RecordPart::Event(event) => self.event(event, intake),
            RecordPart::Unknown(bytes) => {
                let text = self.decoder.push(bytes);
                intake.text(text);
            }
        }
    }
}

impl Reader for Agent {
    fn push(&mut self, bytes: &[u8], now: Timestamp, intake: &mut Intake<'_>) -> Result<(), Flaw> {
        let (heard, is_answer) = (&mut self.heard, self.format == Format::Auto);
        match &mut self.records {
            Some(records) => records.push(bytes, now, &mut |piece| {
                heard.piece(piece, is_answer, intake);
            }),
            None => heard.text(bytes, true, intake),
        }
        Ok(())
    }

    fn finish(&mut self, now: Timestamp, intake: &mut Intake<'_>) -> Result<(), Flaw> {
        let (heard, is_answer) = (&mut self.heard, self.format == Format::Auto);
        let Some(records) = &mut self.records else {
            return Ok(());
        };
        records.finish(now, &mut |piece| heard.piece(piece, is_answer, intake));
        let rest = heard.decoder.finish();
        heard.text(rest.as_bytes(), is_answer, intake);
        if !intake.has_text() {
            // RecordSplitter that have no text of their own but a result.
            let result = match heard.result.is_empty() {
                true => records.answer().to_owned(),
                false => std::mem::take(&mut heard.result),
            };
            intake.text(result);
        }
        let is_free = matches!(
            records.format(),
            None | Some(StreamFormat::Text | StreamFormat::Json)
        );
        match records.status() {
            StreamStatus::Done | StreamStatus::MaybeDone => Ok(()),
            StreamStatus::Unknown if is_free || heard.has_response => Ok(()),
            _ if !heard.error.is_empty() => {
                let what = format!("the agent failed: {}", heard.error);
                Err(match heard.has_used_up {
                    true => Flaw::turns(what),
                    false => Flaw::new(what),
                })
            }
            StreamStatus::Unknown => Err(Flaw::new(format!(
                "nothing in the output says that the agent has answered: is it the format {}?",
                self.format
            ))),
            standing => Err(Flaw::new(format!(
                "the agent has not finished: it stands at {}",
                standing.name()
            ))),
        }
    }

    fn is_done(&self) -> bool {
        self.heard.is_over
    }

    fn beside(&self) -> &str {
        &self.heard.beside
    }
}
