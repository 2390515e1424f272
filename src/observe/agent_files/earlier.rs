//! The last turn of a conversation that began before its observation, from the records of its transcript (pure).

use crate::agent::{AgentEvent, StreamStatus};
use crate::text::TextEnd;
use crate::timestamp::Timestamp;

/// What a transcript says of the time before its observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::observe) struct EarlierTurn {
    /// The end of what the agent has said in its last turn.
    pub answer: Option<String>,
    /// The time of its prompt.
    pub began: Option<Timestamp>,
    /// The time at which it ended; `None` while it goes on.
    pub ended: Option<Timestamp>,
    /// The time of the agent's last words or tool, while it goes on.
    pub acted: Option<Timestamp>,
}

/// Collects the last turn of a transcript, record by record.
#[derive(Debug, Default)]
pub(super) struct LastTurn {
    prompt: Option<AgentEvent>,
    answer: TextEnd,
    began: Option<Timestamp>,
    acted: Option<Timestamp>,
    failure: Option<String>,
}

impl LastTurn {
    /// Adds the events of records that were written at a time, if it is known.
    pub fn add(&mut self, events: &[AgentEvent], at: Option<Timestamp>) {
        for event in events {
            match event {
                AgentEvent::PromptSent { .. } => {
                    *self = Self {
                        prompt: Some(event.clone()),
                        began: at,
                        ..Self::default()
                    }
                }
                AgentEvent::TokenReceived { token } => self.answer.push(token),
                AgentEvent::ToolCallStarted { .. } | AgentEvent::TurnCompleted { .. } => {
                    self.answer.push("\n\n");
                }
                AgentEvent::AgentFailed { error, .. } => self.failure = Some(error.clone()),
                _ => {}
            }
            self.acted = at.or(self.acted);
        }
    }

    /// Returns the prompt of the turn, if it was read.
    pub fn prompt(&self) -> Option<&AgentEvent> {
        self.prompt.as_ref()
    }

    /// Returns the time of the agent's last action, or else that of the last change of its file.
    pub fn acted(&self, written: Option<Timestamp>) -> Option<Timestamp> {
        self.acted.or(written)
    }

    /// Returns the failure of the turn.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the turn if the agent is in its present state since before `observed`. `status` is that after the last
    /// record, and `written` is the time of the last change of a file whose records have no times. A turn may have ended
    /// before the agent's process has `started` to go on with an earlier conversation.
    pub fn before(
        &self,
        observed: Timestamp,
        started: Timestamp,
        status: StreamStatus,
        written: Option<Timestamp>,
    ) -> Option<EarlierTurn> {
        let is_over = match status {
            StreamStatus::Unknown => return None,
            StreamStatus::Working => false,
            _ => true,
        };
        let acted = self.acted(written);
        let since = if is_over { acted } else { self.began.or(acted) };
        let is_before = |at: &Timestamp| *at < observed;
        since.filter(is_before)?;
        let of_process = |at: Timestamp| at.max(started);
        let acted = acted.filter(is_before).map(of_process);
        let began = self.began.map(of_process);
        Some(EarlierTurn {
            answer: self.answer(),
            began,
            ended: acted.filter(|_| is_over),
            acted: acted.filter(|_| !is_over),
        })
    }

    fn answer(&self) -> Option<String> {
        let words = self.answer.end();
        (!words.is_empty()).then(|| words.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::END_BYTES_MAX;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn token(token: &str) -> AgentEvent {
        let token = token.to_owned();
        AgentEvent::TokenReceived { token }
    }

    fn prompt() -> AgentEvent {
        AgentEvent::PromptSent {
            prompt_summary: "go".to_owned(),
            token_count: None,
        }
    }

    #[test]
    fn a_turn_has_its_own_words_and_times() {
        let mut turn = LastTurn::default();
        turn.add(&[prompt(), token("Before.")], Some(at(1)));
        turn.add(&[prompt()], Some(at(2)));
        turn.add(&[token("All done.")], Some(at(3)));
        // A record without a time.
        turn.add(&[token(" Bye.")], None);
        let before = |observed: i64, started: i64, status| {
            turn.before(at(observed), at(started), status, Some(at(9)))
        };
        let answer = Some("All done. Bye.".to_owned());
        let over = EarlierTurn {
            answer: answer.clone(),
            began: Some(at(2)),
            ended: Some(at(3)),
            acted: None,
        };
        assert_eq!(before(4, 0, StreamStatus::Done), Some(over.clone()));
        assert_eq!(before(4, 0, StreamStatus::MaybeDone), Some(over));
        let working = EarlierTurn {
            answer,
            began: Some(at(2)),
            ended: None,
            acted: Some(at(3)),
        };
        assert_eq!(before(4, 0, StreamStatus::Working), Some(working));
        // The end was observed, or its question.
        assert_eq!(before(3, 0, StreamStatus::Done), None);
        let observed = before(3, 0, StreamStatus::Working).unwrap();
        assert_eq!((observed.began, observed.acted), (Some(at(2)), None));
        assert_eq!(before(2, 0, StreamStatus::Working), None);
        // The conversation of an earlier process.
        let resumed = before(9, 5, StreamStatus::Done).unwrap();
        assert_eq!(resumed.ended, Some(at(5)));
        let resumed_while_observed = before(4, 5, StreamStatus::Done).unwrap();
        assert_eq!(resumed_while_observed.ended, Some(at(5)));
        assert_eq!(before(4, 0, StreamStatus::Unknown), None);
    }

    #[test]
    fn a_file_without_times_tells_by_its_own_when_its_turn_ended() {
        let mut turn = LastTurn::default();
        turn.add(&[prompt(), token("Done.")], None);
        let before = |written| turn.before(at(9), at(0), StreamStatus::Done, written);
        assert_eq!(before(Some(at(5))).unwrap().ended, Some(at(5)));
        assert_eq!(before(Some(at(9))), None);
        assert_eq!(before(None), None);
    }

    #[test]
    fn the_end_of_a_long_answer_is_kept_in_whole_words() {
        let mut turn = LastTurn::default();
        for _ in 0..10_000 {
            turn.add(&[token("sk-012345678901234567890123456789 ")], Some(at(1)));
        }
        turn.add(&[token("\n\nDone.")], Some(at(2)));
        let answer = turn.answer().unwrap();
        assert!(answer.len() <= END_BYTES_MAX && answer.starts_with("sk-0"));
        assert!(answer.ends_with("Done."));
        let mut turn = LastTurn::default();
        turn.add(&[token(&"x".repeat(10_000))], Some(at(1)));
        assert_eq!(turn.answer(), None, "one word");
    }
}
