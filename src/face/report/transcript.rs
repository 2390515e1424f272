//! What agents' own files have beyond the logs: of the times in which nothing observed them, and what no event has.

use std::collections::VecDeque;
use std::path::Path;

use super::conversations::{Conversation, Interval};
use super::model::{RowReport, Said, Source, Tokens, Transcript, Turn};
use super::tally::{ITEMS_MAX, Span};
use super::text::Texts;
use crate::agent::{AgentEvent, RecordNote};
use crate::observe::{RecordReader, Recorded, RecordedFact};
use crate::timestamp::Timestamp;

/// The most summaries of a row that a report keeps, the last ones. Agents write some a day.
const SUMMARIES_MAX: usize = 20;

/// Adds to a row what the file of a conversation has beyond the logs.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn add_transcript(
    row: &mut RowReport,
    conversation: &Conversation,
    (span, texts): (Span, &Texts),
    is_stopped: &dyn Fn() -> bool,
) -> std::io::Result<()> {
    let reader = RecordReader {
        since: span.since,
        until: span.until,
        rules: texts.rules(),
        is_stopped,
    };
    let mut beyond = Beyond {
        // The log of a background agent has all of its file, at other times than its records.
        observed: (row.kind != "agent").then_some(&conversation.observed),
        ..Beyond::new(texts)
    };
    let file = Path::new(&conversation.file);
    reader.read(file, conversation.agent.as_deref(), &mut |recorded| {
        beyond.add(recorded);
    })?;
    beyond.add_to(row, &conversation.file);
    Ok(())
}

/// A fold over the records of a conversation.
#[derive(Debug)]
struct Beyond<'a> {
    /// When the log has the events; `None` for always.
    observed: Option<&'a Vec<Interval>>,
    texts: &'a Texts,
    figures: Transcript,
    began: Option<Timestamp>,
    tool_calls: u64,
    tools_failed: u64,
    tokens: Tokens,
    turns: VecDeque<Turn>,
    summaries: VecDeque<Said>,
    cost_usd: Option<f64>,
}

impl<'a> Beyond<'a> {
    fn new(texts: &'a Texts) -> Self {
        Self {
            observed: None,
            texts,
            figures: Transcript::default(),
            began: None,
            tool_calls: 0,
            tools_failed: 0,
            tokens: Tokens::default(),
            turns: VecDeque::new(),
            summaries: VecDeque::new(),
            cost_usd: None,
        }
    }

    fn add(&mut self, recorded: Recorded<'_>) {
        let at = recorded.at;
        let is_own = recorded.sub_agent.is_none();
        match recorded.fact {
            RecordedFact::Note(note) => self.add_note(note, at),
            // The log has no events of sub-agents, but their ends.
            RecordedFact::Event(event) if self.observed.is_some() => match at {
                Some(at) if !is_own || !self.is_logged(at) => self.count(&event, at, is_own),
                Some(at) => self.note_logged(&event, at),
                None => {}
            },
            RecordedFact::Event(_) => {}
        }
    }

    fn is_logged(&self, at: Timestamp) -> bool {
        let observed = self.observed.into_iter().flatten();
        let mut within = observed.filter(|(from, _)| *from <= at);
        within.any(|(_, until)| until.is_none_or(|until| at <= until))
    }

    fn add_note(&mut self, note: RecordNote, at: Option<Timestamp>) {
        match note {
            RecordNote::Cost { dollars } => {
                *self.cost_usd.get_or_insert(0.0) += dollars;
            }
            RecordNote::MoreTokens {
                cached_input,
                thoughts,
            } => {
                let figures = &mut self.figures;
                figures.cached_input_tokens =
                    figures.cached_input_tokens.saturating_add(cached_input);
                figures.thought_tokens = figures.thought_tokens.saturating_add(thoughts);
            }
            RecordNote::Summary { text } => {
                if let Some(text) = self.texts.take(&text) {
                    keep(
                        &mut self.summaries,
                        Said {
                            at,
                            text,
                            source: Source::Transcript,
                        },
                        SUMMARIES_MAX,
                    );
                }
            }
        }
    }

    /// Notes an event that the log has, for the turn that it belongs to.
    fn note_logged(&mut self, event: &AgentEvent, at: Timestamp) {
        match event {
            AgentEvent::PromptSent { .. } => self.begin(Some(at)),
            AgentEvent::TurnCompleted { .. } => self.begin(None),
            _ => {}
        }
    }

    fn begin(&mut self, at: Option<Timestamp>) {
        (self.began, self.tool_calls, self.tools_failed) = (at, 0, 0);
        self.tokens = Tokens::default();
    }

    fn count(&mut self, event: &AgentEvent, at: Timestamp, is_own: bool) {
        let figures = &mut self.figures;
        match event {
            AgentEvent::PromptSent { .. } if is_own => {
                figures.prompts += 1;
                if self.began.is_none() {
                    self.begin(Some(at));
                }
            }
            AgentEvent::ToolCallStarted { .. } => {
                figures.tool_calls += 1;
                self.tool_calls += u64::from(is_own);
            }
            AgentEvent::ToolCallCompleted { success: false, .. } => {
                figures.tools_failed += 1;
                self.tools_failed += u64::from(is_own);
            }
            AgentEvent::ResponseCompleted {
                input_tokens,
                output_tokens,
                ..
            } => {
                let (input, output) = (*input_tokens, *output_tokens);
                figures.input_tokens = figures.input_tokens.saturating_add(input);
                figures.output_tokens = figures.output_tokens.saturating_add(output);
                if is_own {
                    self.tokens.input = self.tokens.input.saturating_add(input);
                    self.tokens.output = self.tokens.output.saturating_add(output);
                }
            }
            AgentEvent::TurnCompleted { summary, .. } if is_own => {
                figures.turns += 1;
                let turn = Turn {
                    began: self.began,
                    ended: at,
                    summary: self.texts.take(summary),
                    tool_calls: self.tool_calls,
                    tools_failed: self.tools_failed,
                    input_tokens: self.tokens.input,
                    output_tokens: self.tokens.output,
                    source: Source::Transcript,
                };
                keep(&mut self.turns, turn, ITEMS_MAX);
                self.begin(None);
            }
            _ => {}
        }
    }

    fn add_to(self, row: &mut RowReport, file: &str) {
        let Self {
            mut figures,
            turns,
            summaries,
            cost_usd,
            ..
        } = self;
        row.summaries.extend(summaries);
        if let Some(cost) = cost_usd {
            *row.cost_usd.get_or_insert(0.0) += cost;
        }
        if figures == Transcript::default() {
            return;
        }
        row.turns.count += figures.turns;
        row.turns.prompts += figures.prompts;
        row.turns.items.extend(turns);
        row.turns.items.sort_by_key(|turn| turn.ended);
        let surplus = row.turns.items.len().saturating_sub(ITEMS_MAX);
        row.turns.items.drain(..surplus);
        row.tools.calls += figures.tool_calls;
        row.tools.failed += figures.tools_failed;
        let tokens = row.tokens.get_or_insert_default();
        tokens.input = tokens.input.saturating_add(figures.input_tokens);
        tokens.output = tokens.output.saturating_add(figures.output_tokens);
        figures.file = self.texts.take(file);
        row.transcript = Some(match row.transcript.take() {
            Some(known) => known.plus(figures),
            None => figures,
        });
    }
}

fn keep<T>(items: &mut VecDeque<T>, item: T, max: usize) {
    if items.len() >= max {
        items.pop_front();
    }
    items.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::Rules;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn event(second: i64, sub_agent: Option<&str>, event: AgentEvent) -> Recorded<'_> {
        Recorded {
            at: Some(at(second)),
            sub_agent,
            fact: RecordedFact::Event(event),
        }
    }

    fn prompt() -> AgentEvent {
        AgentEvent::PromptSent {
            prompt_summary: "go".to_owned(),
            token_count: None,
        }
    }

    fn turn(summary: &str) -> AgentEvent {
        AgentEvent::TurnCompleted {
            marker: "end_turn".to_owned(),
            summary: summary.to_owned(),
        }
    }

    fn response() -> AgentEvent {
        AgentEvent::ResponseCompleted {
            response_summary: String::new(),
            input_tokens: 10,
            output_tokens: 1,
            has_tool_calls: false,
        }
    }

    #[test]
    fn what_the_log_has_counts_once_and_sub_agents_always() {
        let texts = Texts::new(Rules::builtin(), false);
        let observed = vec![(at(100), Some(at(200))), (at(300), None)];
        let mut beyond = Beyond {
            observed: Some(&observed),
            ..Beyond::new(&texts)
        };
        for recorded in [
            event(10, None, prompt()),
            event(20, None, response()),
            event(30, None, turn("before")),
            event(110, None, prompt()),
            event(120, None, response()),
            event(120, Some("a"), response()),
            event(130, None, turn("logged")),
            event(150, None, prompt()),
            event(250, None, response()),
            event(260, None, turn("meanwhile")),
            event(310, None, response()),
            event(320, Some("a"), turn("of a sub-agent")),
        ] {
            beyond.add(recorded);
        }
        let figures = &beyond.figures;
        assert_eq!(
            (figures.turns, figures.input_tokens, figures.output_tokens),
            (2, 30, 3)
        );
        let turns: Vec<_> = (beyond.turns.iter())
            .map(|turn| (turn.began, turn.ended, turn.input_tokens))
            .collect();
        assert_eq!(
            turns,
            [(Some(at(10)), at(30), 10), (Some(at(150)), at(260), 10)]
        );
    }
}
