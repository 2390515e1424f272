//! One turn of an agent: events in; its answer, its tools, and how it ended out (pure).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::event::{AgentState, Dialogue, Envelope, PaneId, TdEvent};
use crate::text::first_bytes;
use crate::timestamp::Timestamp;

/// The time for which the end of a turn in the transcript is awaited after the screen shows it. Transcripts
/// are read up to a second later.
const TRANSCRIPT_LATER: Duration = Duration::from_secs(3);

/// The time for which the dialogue of a question is awaited, which other sources report before the screen shows it.
const DIALOGUE_LATER: Duration = Duration::from_millis(800);

/// The most bytes of an answer that are kept.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The most tools of a turn that are named.
const TOOLS_MAX: usize = 1_000;

/// A question that an agent asks within its turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Question {
    /// Its id.
    pub id: Option<String>,
    /// The question in one line.
    pub asks: String,
    /// The question in full.
    pub dialogue: Option<Dialogue>,
}

impl Question {
    /// Returns the question as JSON.
    pub fn json(&self) -> Value {
        json!({"id": self.id, "asks": self.asks, "dialogue": self.dialogue})
    }
}

/// How a turn ended, or paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// The agent has answered.
    Answered,
    /// The agent asks back.
    Asks(Question),
    /// The turn failed, or its agent has gone, with the reason in words.
    Failed(String),
}

/// A turn that is followed from a prompt, or from an answer to a question, on.
#[derive(Debug)]
pub(crate) struct FollowedTurn {
    pane: PaneId,
    /// Events before this time are not of this turn.
    since: Timestamp,
    /// The id of the question that was answered, which is not asked again.
    answered: Option<String>,
    has_begun: bool,
    /// The text since the last tool, and all text before it.
    text: String,
    before: String,
    number: Option<u32>,
    tools: Vec<Value>,
    tokens: Option<(u64, u64)>,
    failure: Option<String>,
    /// A state has ended the turn at this time.
    over_at: Option<Instant>,
    /// That state is `done`, and not `idle`, as after an interrupt.
    is_done: bool,
    /// The agent asks this, and its dialogue is awaited until this time.
    asked: Option<(Question, Instant)>,
    end: Option<TurnEnd>,
}

impl FollowedTurn {
    /// Begins at a time. `answered`: the id of the question that is answered now.
    pub fn begin(pane: PaneId, since: Timestamp, answered: Option<String>) -> Self {
        Self {
            pane,
            since,
            answered,
            has_begun: false,
            text: String::new(),
            before: String::new(),
            number: None,
            tools: Vec::new(),
            tokens: None,
            failure: None,
            over_at: None,
            is_done: false,
            asked: None,
            end: None,
        }
    }

    /// Takes an event of the pane's execution.
    pub fn note(&mut self, envelope: &Envelope, now: Instant) {
        if envelope.ts < self.since || self.end.is_some() {
            return;
        }
        let event = &envelope.event;
        if let TdEvent::SessionEnded { .. } = event {
            self.end = Some(TurnEnd::Failed("its session has ended".to_owned()));
        }
        if let TdEvent::Error { message, .. } = event {
            self.failure = Some(message.clone());
        }
        if event.pane() != Some(&self.pane) {
            return;
        }
        match event {
            TdEvent::PromptSent { iteration, .. } => self.begun(*iteration),
            TdEvent::TokenReceived {
                token, iteration, ..
            } => {
                self.begun(*iteration);
                self.over_at = self.over_at.map(|_| now);
                // Each token is a message of a transcript, or rows of a screen.
                if !self.text.is_empty() && !self.text.ends_with('\n') && !token.starts_with('\n') {
                    self.text.push('\n');
                }
                let room = ANSWER_BYTES_MAX.saturating_sub(self.text.len());
                self.text.push_str(first_bytes(token, room));
            }
            TdEvent::ToolCallStarted {
                tool_name,
                tool_args_summary,
                iteration,
                ..
            } => {
                self.begun(*iteration);
                if !self.text.trim().is_empty() {
                    self.before = std::mem::take(&mut self.text);
                }
                if self.tools.len() < TOOLS_MAX {
                    let tool = json!({"name": tool_name, "args": tool_args_summary});
                    self.tools.push(tool);
                }
            }
            TdEvent::ResponseCompleted {
                input_tokens,
                output_tokens,
                ..
            } => {
                let (input, output) = self.tokens.unwrap_or_default();
                self.tokens = Some((
                    input.saturating_add(*input_tokens),
                    output.saturating_add(*output_tokens),
                ));
            }
            TdEvent::TurnCompleted { .. } if self.has_begun => self.end = Some(TurnEnd::Answered),
            TdEvent::AgentState {
                state,
                asks,
                question_id,
                dialogue,
                ..
            } => {
                let id = question_id.as_deref().cloned();
                let asks = asks.as_deref().cloned().unwrap_or_default();
                let dialogue = dialogue.as_deref().cloned();
                self.note_state(state.known(), Question { id, asks, dialogue }, now);
            }
            TdEvent::ExecutionCompleted {
                exit_code, signal, ..
            } => {
                let how = match (exit_code, signal) {
                    (_, Some(signal)) => format!("its program was killed ({})", 128 + signal),
                    (Some(code), _) => format!("its program has exited ({code})"),
                    (None, None) => "its program has ended".to_owned(),
                };
                self.end = Some(TurnEnd::Failed(how));
            }
            TdEvent::PaneClosed { .. } => {
                self.end = Some(TurnEnd::Failed("its pane has closed".to_owned()));
            }
            _ => {}
        }
    }

    /// Notes the number of the turn, which its prompt and its answer have.
    fn begun(&mut self, number: u32) {
        self.has_begun = true;
        self.number = Some(number);
    }

    fn note_state(&mut self, state: Option<AgentState>, question: Question, now: Instant) {
        self.asked = None;
        match state {
            Some(AgentState::Working) => {
                self.has_begun = true;
                self.over_at = None;
            }
            Some(AgentState::Waiting)
                if self.answered.is_none() || self.answered != question.id =>
            {
                let until = match question.dialogue {
                    Some(_) => now,
                    None => now + DIALOGUE_LATER,
                };
                (self.asked, self.over_at) = (Some((question, until)), None);
            }
            Some(AgentState::Error | AgentState::Limited) if self.has_begun => {
                let words = Some(question.asks).filter(|words| !words.is_empty());
                let words = words.or_else(|| self.failure.take());
                let words = words.unwrap_or_else(|| "it stopped with an error".to_owned());
                self.end = Some(TurnEnd::Failed(words));
            }
            Some(AgentState::Suspended) => {
                self.end = Some(TurnEnd::Failed("it was suspended".to_owned()));
            }
            Some(state @ (AgentState::Done | AgentState::Idle)) if self.has_begun => {
                self.is_done |= state == AgentState::Done;
                self.over_at.get_or_insert(now);
            }
            _ => {}
        }
    }

    /// Returns when [`FollowedTurn::end`] must be asked if no event arrives.
    pub fn deadline(&self) -> Option<Instant> {
        let over = self.over_at.map(|at| at + TRANSCRIPT_LATER);
        let asked = self.asked.as_ref().map(|(_, until)| *until);
        [over, asked].into_iter().flatten().min()
    }

    /// Returns how the turn has ended by now, if it has.
    pub fn end(&mut self, now: Instant) -> Option<&TurnEnd> {
        if self.end.is_none() && self.deadline().is_some_and(|at| at <= now) {
            self.end = Some(match self.asked.take() {
                Some((question, _)) => TurnEnd::Asks(question),
                None if self.answer().is_empty() && !self.is_done => {
                    TurnEnd::Failed("the turn was interrupted".to_owned())
                }
                None => TurnEnd::Answered,
            });
        }
        self.end.as_ref()
    }

    /// Returns what the agent said after its last tool, or before it if it said nothing after it.
    pub fn answer(&self) -> &str {
        match self.text.trim() {
            "" => self.before.trim(),
            text => text,
        }
    }

    /// Returns the answer, the number of the turn, its tools and its tokens as JSON, with the question if it asks
    /// one.
    pub fn json(&self) -> Value {
        let question = match &self.end {
            Some(TurnEnd::Asks(question)) => Some(question.json()),
            _ => None,
        };
        let tokens = self
            .tokens
            .map(|(input, output)| json!({"input": input, "output": output}));
        json!({
            "answer": self.answer(),
            "turn": self.number,
            "tools": self.tools,
            "tokens": tokens,
            "question": question,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(event: TdEvent) -> Envelope {
        Envelope::new(None, Timestamp::from_micros(10), event)
    }

    fn state(state: AgentState, question: Option<(&str, &str)>) -> Envelope {
        let mut reported = TdEvent::agent_state("x", None, Some("%1".into()), state, "confirmed");
        if let TdEvent::AgentState {
            asks, question_id, ..
        } = &mut reported
            && let Some((id, text)) = question
        {
            *asks = Some(Box::new(text.to_owned()));
            *question_id = Some(Box::new(id.to_owned()));
        }
        event(reported)
    }

    fn on_pane(mut event_of: TdEvent, name: &str) -> Envelope {
        let of = Some(PaneId::from(name));
        match &mut event_of {
            TdEvent::PromptSent { pane, .. }
            | TdEvent::TokenReceived { pane, .. }
            | TdEvent::ToolCallStarted { pane, .. }
            | TdEvent::ResponseCompleted { pane, .. }
            | TdEvent::TurnCompleted { pane, .. } => *pane = of,
            other => panic!("{other:?}"),
        }
        event(event_of)
    }

    fn prompt() -> Envelope {
        on_pane(TdEvent::prompt_sent("x", 3, "do it", None), "%1")
    }

    fn token(text: &str) -> Envelope {
        on_pane(TdEvent::token_received("x", 3, text), "%1")
    }

    fn tool() -> Envelope {
        on_pane(TdEvent::tool_call_started("x", 3, "Bash", "ls"), "%1")
    }

    fn turn_over() -> Envelope {
        on_pane(TdEvent::turn_completed("x", "end_turn", ""), "%1")
    }

    fn followed(answered: Option<&str>, events: &[Envelope]) -> (FollowedTurn, Instant) {
        let now = Instant::now();
        let answered = answered.map(str::to_owned);
        let mut turn = FollowedTurn::begin("%1".into(), Timestamp::from_micros(10), answered);
        for event in events {
            turn.note(event, now);
        }
        (turn, now)
    }

    #[test]
    fn the_answer_is_what_follows_the_last_tool() {
        let events = [
            prompt(),
            token("I look."),
            tool(),
            token("All"),
            token("good.\n"),
            turn_over(),
        ];
        let (mut turn, now) = followed(None, &events);
        assert_eq!(turn.end(now), Some(&TurnEnd::Answered));
        let json = turn.json();
        assert_eq!(json["answer"], "All\ngood.");
        assert_eq!(
            (&json["turn"], &json["tools"][0]["name"]),
            (&json!(3), &json!("Bash"))
        );
        // Without a text after it, what was said before.
        let (turn, _) = followed(None, &[prompt(), token("I look."), tool(), turn_over()]);
        assert_eq!(turn.answer(), "I look.");
    }

    #[test]
    fn other_events_are_of_no_concern() {
        let mut early = prompt();
        early.ts = Timestamp::from_micros(9);
        let other = on_pane(TdEvent::turn_completed("x", "end_turn", ""), "%2");
        // The end of the turn before the prompt.
        let (mut turn, now) = followed(
            None,
            &[early, other, turn_over(), state(AgentState::Done, None)],
        );
        assert_eq!(turn.end(now), None);
        assert_eq!(turn.deadline(), None);
    }

    #[test]
    fn a_state_ends_a_turn_whose_transcript_says_nothing() {
        let events = [prompt(), token("so"), state(AgentState::Done, None)];
        let (mut turn, now) = followed(None, &events);
        assert_eq!(turn.end(now), None);
        assert_eq!(turn.end(now + TRANSCRIPT_LATER), Some(&TurnEnd::Answered));
        let (mut turn, now) = followed(None, &[prompt(), state(AgentState::Idle, None)]);
        let end = turn.end(now + TRANSCRIPT_LATER);
        assert!(matches!(end, Some(TurnEnd::Failed(why)) if why.contains("interrupted")));
    }

    #[test]
    fn questions_limits_and_ends_are_told_apart() {
        let asks = |id| state(AgentState::Waiting, Some((id, "touch a?")));
        let (mut turn, now) = followed(None, &[prompt(), asks("q1")]);
        assert_eq!(turn.end(now), None, "its dialogue may follow");
        let now = now + DIALOGUE_LATER;
        assert!(
            matches!(turn.end(now), Some(TurnEnd::Asks(question)) if question.asks == "touch a?")
        );
        assert_eq!(turn.json()["question"]["id"], "q1");
        // The question that is answered may be reported once more.
        let (mut turn, now) = followed(Some("q1"), &[asks("q1")]);
        assert_eq!(turn.end(now), None);
        turn.note(&asks("q2"), now);
        let dialogue = Dialogue {
            text: "touch a?".to_owned(),
            choices: Vec::new(),
            again: false,
        };
        let mut whole = asks("q2");
        if let TdEvent::AgentState { dialogue: d, .. } = &mut whole.event {
            *d = Some(Box::new(dialogue));
        }
        assert_eq!(turn.end(now), None);
        turn.note(&whole, now);
        assert!(matches!(turn.end(now), Some(TurnEnd::Asks(q)) if q.dialogue.is_some()));
        let limited = state(AgentState::Limited, Some(("", "try again at 6:06 PM")));
        let (mut turn, now) = followed(None, &[prompt(), limited]);
        assert_eq!(
            turn.end(now),
            Some(&TurnEnd::Failed("try again at 6:06 PM".to_owned()))
        );
        let mut killed = TdEvent::execution_completed("x", None, Some(9), 5);
        if let TdEvent::ExecutionCompleted { pane, .. } = &mut killed {
            *pane = Some("%1".into());
        }
        let (mut turn, now) = followed(None, &[prompt(), event(killed)]);
        assert!(matches!(turn.end(now), Some(TurnEnd::Failed(why)) if why.contains("137")));
    }
}
