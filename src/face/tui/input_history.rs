//! Remembers earlier inputs, which Up and Down restore to the input line (pure).

use super::prompt::PromptKind;

/// The maximum number of inputs to remember.
const INPUTS_MAX: usize = 200;

/// The inputs since the start. Answers are not remembered, because they may be secrets.
#[derive(Debug, Default)]
pub(super) struct InputHistory {
    inputs: Vec<(PromptKind, String)>,
    /// The input that is shown, and the text that was typed before it.
    shown: Option<(usize, String)>,
}

impl InputHistory {
    pub fn add(&mut self, kind: PromptKind, text: &str) {
        self.shown = None;
        if kind == PromptKind::Answer || text.trim().is_empty() {
            return;
        }
        let input = (kind, text.to_owned());
        self.inputs.retain(|before| *before != input);
        self.inputs.push(input);
        if self.inputs.len() > INPUTS_MAX {
            self.inputs.remove(0);
        }
    }

    /// Resets the position, because another input line begins or the line was edited.
    pub fn begin(&mut self) {
        self.shown = None;
    }

    /// Returns the input of the same kind before the shown one; remembers the typed text.
    pub fn older(&mut self, kind: PromptKind, typed: &str) -> Option<String> {
        let (end, draft) = match &self.shown {
            Some((at, draft)) => (*at, draft.clone()),
            None => (self.inputs.len(), typed.to_owned()),
        };
        let at = self.inputs[..end]
            .iter()
            .rposition(|(other, _)| *other == kind)?;
        self.shown = Some((at, draft));
        Some(self.inputs[at].1.clone())
    }

    /// Returns the input after the shown one; after the last one, the typed text.
    pub fn newer(&mut self, kind: PromptKind) -> Option<String> {
        let (at, draft) = self.shown.take()?;
        let later = self.inputs.iter().skip(at + 1);
        let Some(next) = later.clone().position(|(other, _)| *other == kind) else {
            return Some(draft);
        };
        self.shown = Some((at + 1 + next, draft));
        Some(self.inputs[at + 1 + next].1.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_inputs_are_restored_in_order() {
        let mut history = InputHistory::default();
        let (search, command) = (PromptKind::Search, PromptKind::Command);
        for (kind, text) in [
            (search, "one"),
            (command, "now"),
            (search, "two"),
            (search, " "),
            (PromptKind::Answer, "secret"),
            (search, "one"),
        ] {
            history.add(kind, text);
        }
        let is = |found: Option<String>, expected: Option<&str>| {
            assert_eq!(found.as_deref(), expected);
        };
        is(history.newer(search), None);
        is(history.older(search, "dra"), Some("one"));
        is(history.older(search, "one"), Some("two"));
        is(history.older(search, "two"), None);
        is(history.newer(search), Some("one"));
        is(history.newer(search), Some("dra"));
        is(history.newer(search), None);
        is(history.older(PromptKind::Answer, ""), None);
        is(history.older(command, ""), Some("now"));
        history.begin();
        is(history.newer(command), None);
        for number in 0..2 * INPUTS_MAX {
            history.add(search, &number.to_string());
        }
        assert_eq!(history.inputs.len(), INPUTS_MAX);
    }
}
