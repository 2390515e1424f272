//! Ids of the questions that an agent asks, so that an answer to one is never given to another.

use std::hash::{BuildHasher, RandomState};

use super::asks_the_same;
use crate::event::Dialogue;

/// The questions of one agent, of which at most one is open.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// Differs in each observer, so that an id from before a restart belongs to no later question.
    seed: RandomState,
    /// The number of questions so far.
    count: u64,
    open: Option<OpenQuestion>,
}

#[derive(Debug)]
struct OpenQuestion {
    id: String,
    /// The question in one line, as far as it was known.
    asks: Option<String>,
    /// Its dialogue, as far as it was known.
    dialogue: Option<Dialogue>,
}

impl Questions {
    /// Returns the id of the question that the agent asks now: a new one if none was open, or another.
    pub fn ask(&mut self, asks: Option<&str>, dialogue: Option<&Dialogue>) -> String {
        if let Some(open) = &mut self.open
            && open.is_same(asks, dialogue)
        {
            if let Some(asks) = asks {
                open.asks = Some(asks.to_owned());
            }
            if let Some(dialogue) = dialogue {
                open.dialogue = Some(dialogue.clone());
            }
            return open.id.clone();
        }
        self.count += 1;
        // 48 bits suffice: an id is only compared with those of the same agent.
        let id = format!("{:012x}", self.seed.hash_one(self.count) >> 16);
        self.open = Some(OpenQuestion {
            id: id.clone(),
            asks: asks.map(str::to_owned),
            dialogue: dialogue.cloned(),
        });
        id
    }

    /// Returns the id of the open question.
    pub fn open(&self) -> Option<String> {
        self.open.as_ref().map(|open| open.id.clone())
    }

    /// Closes the open question, because the agent does not wait any more. The next one has another id.
    pub fn close(&mut self) {
        self.open = None;
    }
}

impl OpenQuestion {
    /// Returns true if the agent still asks this, in the same dialogue. One question may begin with the whole text of
    /// another, and the dialogue on the screen may be further than the agent's files.
    fn is_same(&self, asks: Option<&str>, dialogue: Option<&Dialogue>) -> bool {
        let dialogues = self.dialogue.as_ref().zip(dialogue);
        let differ = dialogues.is_some_and(|(before, now)| !asks_the_same(before, now));
        is_same_question(self.asks.as_deref(), asks) && !differ
    }
}

/// Returns true if two questions are the same. A source may show only the beginning of a question,
/// and a question that is no longer known does not count as a new one.
pub(crate) fn is_same_question(before: Option<&str>, now: Option<&str>) -> bool {
    let (Some(before), Some(now)) = (before, now) else {
        return now.is_none();
    };
    let (before, now) = (before.trim_end_matches('…'), now.trim_end_matches('…'));
    let shorter = before.len().min(now.len());
    // A short text may be the beginning of another question by chance.
    before == now || shorter >= 8 && (before.starts_with(now) || now.starts_with(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_has_its_own_id_while_it_is_open() {
        let mut questions = Questions::default();
        let first = questions.ask(Some("rm -rf build"), None);
        // Drawn again, cut by a narrow pane, hidden for a moment, and whole again.
        for same in [
            Some("rm -rf build"),
            Some("rm -rf b…"),
            None,
            Some("rm -rf build"),
        ] {
            assert_eq!(questions.ask(same, None), first, "{same:?}");
        }
        let second = questions.ask(Some("git push --force"), None);
        questions.close();
        let again = questions.ask(Some("git push --force"), None);
        let another_observer = Questions::default().ask(Some("rm -rf build"), None);
        let mut ids = [first, second, again, another_observer];
        ids.sort();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
    }

    /// Returns a dialogue with this question and these choices, of which the marked one is selected.
    fn dialogue(text: &str, choices: &[&str]) -> Dialogue {
        let choice = |(number, label): (usize, &&str)| crate::event::DialogueChoice {
            key: (number + 1).to_string(),
            label: label.trim_start_matches('>').to_owned(),
            selected: label.starts_with('>'),
        };
        Dialogue {
            text: text.to_owned(),
            choices: choices.iter().enumerate().map(choice).collect(),
            again: false,
        }
    }

    #[test]
    fn another_dialogue_is_another_question() {
        let first = dialogue(
            "☐ Colour ☐ Parts\n\nWhich colour?",
            &[">Red", "Blue", "Type it"],
        );
        for (same, text, choices) in [
            (
                true,
                "☒ Colour ☐ Parts\nWhich\ncolour?",
                [">Red", "Blue", "Type it"],
            ),
            (
                true,
                "☐ Colour ☐ Parts\n\nWhich colour?",
                ["Red", "Blue", ">Type it"],
            ),
            // What the user types stands in the place of the choice.
            (
                true,
                "☐ Colour ☐ Parts\n\nWhich colour?",
                ["Red", "Blue", ">Gre"],
            ),
            // The pane has become lower.
            (true, "…\nWhich colour?", [">Red", "Blue", "Type it"]),
            (
                false,
                "☒ Colour ☐ Parts\n\nWhich parts?",
                [">Red", "Blue", "Type it"],
            ),
            (
                false,
                "☐ Colour ☐ Parts\n\nWhich colour?",
                [">Red", "Green", "Type it"],
            ),
            (false, "…\nWhich parts?", [">Red", "Blue", "Type it"]),
        ] {
            let mut questions = Questions::default();
            let asks = Some("Which colour?");
            let id = questions.ask(asks, Some(&first));
            let now = dialogue(text, &choices);
            assert_eq!(questions.ask(asks, Some(&now)) == id, same, "{now:?}");
        }
    }

    #[test]
    fn a_question_that_becomes_known_is_not_taken_for_the_unknown_one() {
        let mut questions = Questions::default();
        let unknown = questions.ask(None, None);
        assert_eq!(questions.ask(None, None), unknown);
        // Nobody knows if it is the one that was open.
        assert_ne!(questions.ask(Some("rm -rf build"), None), unknown);
    }
}
