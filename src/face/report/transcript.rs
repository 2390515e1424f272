//! What agents' own files have beyond the logs: of the times in which nothing observed them, and what no event has.

use std::path::Path;
use std::time::Duration;

use super::conversations::{Conversation, Observed};
use super::model::{RowReport, Said, Source, Tokens, Transcript, Turn};
use super::recent::{ITEMS_MAX, Recent};
use super::tally::Span;
use super::text::{Text, Texts};
use crate::agent::{AgentEvent, RecordNote};
use crate::observe::{RecordReader, Recorded, RecordedFact};
use crate::timestamp::Timestamp;

/// The most summaries of a row that a report keeps, the last ones. Agents write some a day.
const SUMMARIES_MAX: usize = 20;

/// The longest time from the beginning of an observation until the events of older records are logged, and from a record
/// until its events are: files are read ten times a second, a large one takes some seconds.
const LOGGING_TIME: Duration = Duration::from_secs(10);

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
    observed: Option<&'a Vec<Observed>>,
    /// The number of these times that have begun.
    entered: usize,
    texts: &'a Texts,
    figures: Transcript,
    turn: OpenTurn,
    turns: Recent<Turn>,
    /// Turns whose ends the log has, but not their beginnings or their times.
    known: Recent<KnownTurn>,
    summaries: Recent<Said, SUMMARIES_MAX>,
    cost_usd: Option<f64>,
}

/// The turn that the records are in, with what the log does not have of it.
#[derive(Clone, Copy, Debug, Default)]
struct OpenTurn {
    began: Option<Timestamp>,
    /// The log does not have its prompt.
    is_beyond: bool,
    tool_calls: u64,
    tools_failed: u64,
    /// The tools that have not returned a result.
    open_tools: u64,
    tokens: Tokens,
}

/// A turn whose end the log has.
#[derive(Debug)]
struct KnownTurn {
    turn: OpenTurn,
    summary: Option<Text>,
    ended: Timestamp,
    /// Since when the log may have the end.
    logged: Timestamp,
}

impl<'a> Beyond<'a> {
    fn new(texts: &'a Texts) -> Self {
        Self {
            observed: None,
            entered: 0,
            texts,
            figures: Transcript::default(),
            turn: OpenTurn::default(),
            turns: Recent::default(),
            known: Recent::default(),
            summaries: Recent::default(),
            cost_usd: None,
        }
    }

    fn add(&mut self, recorded: Recorded<'_>) {
        let at = recorded.at;
        let is_own = recorded.sub_agent.is_none();
        let event = match recorded.fact {
            RecordedFact::Note(note) => return self.add_note(note, at),
            RecordedFact::Event(event) => event,
        };
        let (Some(at), true) = (at, self.observed.is_some()) else {
            return;
        };
        if is_own {
            self.enter(Some(at));
        }
        // The log has no events of sub-agents, but their ends.
        match self.logged_since(at).filter(|_| is_own) {
            Some(live) => self.note_logged(&event, at, live),
            None => self.count(&event, at, is_own),
        }
    }

    /// Returns since when the log has the events of a record that was written at a time.
    fn logged_since(&self, at: Timestamp) -> Option<Timestamp> {
        let mut observed = self.observed.into_iter().flatten();
        Some(observed.find(|of| of.contains(at))?.live.max(at))
    }

    /// Begins the observations until a time: the log may have what was open then.
    fn enter(&mut self, until: Option<Timestamp>) {
        let observed = self.observed.map_or(&[][..], Vec::as_slice);
        while let Some(next) = observed.get(self.entered)
            && until.is_none_or(|until| next.from <= until)
        {
            self.entered += 1;
            if next.has_open_turn && self.turn.is_beyond && self.turn.began < Some(next.from) {
                self.turn.is_beyond = false;
                let open = std::mem::take(&mut self.turn.open_tools);
                let figures = &mut self.figures;
                figures.prompts = figures.prompts.saturating_sub(1);
                figures.tool_calls = figures.tool_calls.saturating_sub(open);
                self.turn.tool_calls = self.turn.tool_calls.saturating_sub(open);
            }
        }
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
                    let source = Source::Transcript;
                    self.summaries.push(Said { at, text, source });
                }
            }
        }
    }

    /// Notes an event that the log has since a time, for the turn that it belongs to.
    fn note_logged(&mut self, event: &AgentEvent, at: Timestamp, logged: Timestamp) {
        match event {
            AgentEvent::PromptSent { .. } => {
                let began = Some(at);
                self.turn = OpenTurn {
                    began,
                    ..OpenTurn::default()
                };
            }
            AgentEvent::TurnCompleted { summary, .. } => {
                let known = KnownTurn {
                    turn: std::mem::take(&mut self.turn),
                    summary: self.texts.take(summary),
                    ended: at,
                    logged,
                };
                self.known.push(known);
            }
            _ => {}
        }
    }

    fn count(&mut self, event: &AgentEvent, at: Timestamp, is_own: bool) {
        let figures = &mut self.figures;
        match event {
            AgentEvent::PromptSent { .. } if is_own => {
                figures.prompts += 1;
                if self.turn.began.is_none() {
                    self.turn = OpenTurn {
                        began: Some(at),
                        is_beyond: true,
                        ..OpenTurn::default()
                    };
                }
            }
            AgentEvent::ToolCallStarted { .. } => {
                figures.tool_calls += 1;
                self.turn.tool_calls += u64::from(is_own);
                self.turn.open_tools += u64::from(is_own);
            }
            AgentEvent::ToolCallCompleted { success, .. } => {
                let failed = u64::from(!success);
                figures.tools_failed += failed;
                self.turn.tools_failed += failed * u64::from(is_own);
                let open = &mut self.turn.open_tools;
                *open = open.saturating_sub(u64::from(is_own));
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
                    let tokens = &mut self.turn.tokens;
                    tokens.input = tokens.input.saturating_add(input);
                    tokens.output = tokens.output.saturating_add(output);
                }
            }
            AgentEvent::TurnCompleted { summary, .. } if is_own => {
                figures.turns += 1;
                let open = std::mem::take(&mut self.turn);
                let turn = Turn {
                    began: open.began,
                    ended: at,
                    summary: self.texts.take(summary),
                    tool_calls: open.tool_calls,
                    tools_failed: open.tools_failed,
                    input_tokens: open.tokens.input,
                    output_tokens: open.tokens.output,
                    source: Source::Transcript,
                };
                self.turns.push(turn);
            }
            _ => {}
        }
    }

    fn add_to(mut self, row: &mut RowReport, file: &str) {
        self.enter(None);
        let Self {
            mut figures,
            turns,
            known,
            summaries,
            cost_usd,
            ..
        } = self;
        complete(&mut row.turns.items, known.into_vec());
        row.turns.items.sort_by_key(|turn| turn.ended);
        row.summaries.extend(summaries.into_vec());
        if let Some(cost) = cost_usd {
            *row.cost_usd.get_or_insert(0.0) += cost;
        }
        if figures == Transcript::default() {
            return;
        }
        row.turns.count += figures.turns;
        row.turns.prompts += figures.prompts;
        row.turns.items.extend(turns.into_vec());
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

/// Gives the turns of the log what it does not have of them: their beginnings, and the times of those that no observer saw.
fn complete(items: &mut [Turn], known: Vec<KnownTurn>) {
    let mut items = items
        .iter_mut()
        .filter(|item| item.source == Source::Log)
        .peekable();
    for known in known {
        while items.next_if(|item| item.ended < known.logged).is_some() {}
        let is_it = |item: &&mut Turn| {
            item.ended <= known.logged.after(LOGGING_TIME) && item.summary == known.summary
        };
        let Some(item) = items.next_if(is_it) else {
            continue;
        };
        let open = known.turn;
        // Of a turn to which the user has said more, the log has the first prompt.
        item.began = item.began.into_iter().chain(open.began).min();
        item.tool_calls += open.tool_calls;
        item.tools_failed += open.tools_failed;
        item.input_tokens = item.input_tokens.saturating_add(open.tokens.input);
        item.output_tokens = item.output_tokens.saturating_add(open.tokens.output);
        if known.logged > known.ended {
            (item.ended, item.source) = (known.ended, Source::Transcript);
        }
    }
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
        let observed = |from: i64, until: Option<i64>| Observed {
            from: at(from),
            live: at(from),
            until: until.map(at),
            has_open_turn: false,
        };
        let observed = vec![observed(100, Some(200)), observed(300, None)];
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
        let turns: Vec<_> = (beyond.turns.clone().into_vec().iter())
            .map(|turn| (turn.began, turn.ended, turn.input_tokens))
            .collect();
        assert_eq!(
            turns,
            [(Some(at(10)), at(30), 10), (Some(at(150)), at(260), 10)]
        );
    }

    #[test]
    fn turns_of_the_log_have_the_times_of_their_records() {
        let texts = Texts::new(Rules::builtin(), false);
        let observed = |from: i64, live: i64, until: Option<i64>| Observed {
            from: at(from),
            live: at(live),
            until: until.map(at),
            has_open_turn: live == 100,
        };
        // The second observer goes on after what the first one has logged.
        let observed = vec![observed(100, 100, Some(130)), observed(130, 300, None)];
        let mut beyond = Beyond {
            observed: Some(&observed),
            ..Beyond::new(&texts)
        };
        let call = || AgentEvent::ToolCallStarted {
            tool_name: "Bash".to_owned(),
            tool_args_summary: String::new(),
        };
        let result = || AgentEvent::ToolCallCompleted {
            tool_name: "Bash".to_owned(),
            success: true,
            result_summary: String::new(),
            duration_ms: 1,
        };
        for recorded in [
            event(80, None, prompt()),
            event(81, None, call()),
            event(82, None, result()),
            event(83, None, response()),
            event(84, None, call()),
            // The observation begins.
            event(110, None, result()),
            event(111, None, response()),
            event(120, None, turn("one")),
            event(200, None, prompt()),
            event(210, None, turn("two")),
            event(310, None, turn("not logged yet")),
        ] {
            beyond.add(recorded);
        }
        let figures = &beyond.figures;
        assert_eq!((figures.prompts, figures.turns), (0, 0));
        assert_eq!((figures.tool_calls, figures.input_tokens), (1, 10));
        let logged = |began: i64, ended: i64, summary: &str, tokens: u64| Turn {
            began: Some(at(began)),
            ended: at(ended),
            summary: texts.take(summary),
            tool_calls: 1,
            tools_failed: 0,
            input_tokens: tokens,
            output_tokens: 0,
            source: Source::Log,
        };
        let mut turns = [
            logged(100, 121, "one", 10),
            logged(301, 301, "two", 0),
            logged(302, 900, "another", 0),
        ];
        complete(&mut turns, beyond.known.into_vec());
        let turns = turns.map(|turn| (turn.began, turn.ended, turn.input_tokens, turn.source));
        let expected = [
            (Some(at(80)), at(121), 20, Source::Log),
            (Some(at(200)), at(210), 0, Source::Transcript),
            (Some(at(302)), at(900), 0, Source::Log),
        ];
        assert_eq!(turns, expected);
    }
}
