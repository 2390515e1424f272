//! Why a tool does nothing, and what the model can do instead (pure).
//!
//! What panes show stands in fields of its own: a reason that quotes it loses the quotation, so that no program can put
//! words into our mouth.

use serde_json::{Map, Value, json};

use super::short::short;

/// The longest reason, in characters: it repeats what the client has sent.
const REASON_CHARS_MAX: usize = 600;

/// The reason why a tool does nothing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    reason: String,
    advice: String,
    /// The present question of the pane.
    question: Option<Value>,
    /// Something was typed; `None` if nobody knows.
    typed: Option<bool>,
}

impl Refusal {
    pub fn new(reason: impl AsRef<str>, advice: impl Into<String>) -> Self {
        Self {
            reason: short(&without_quotations(reason.as_ref()), REASON_CHARS_MAX),
            advice: advice.into(),
            question: None,
            typed: Some(false),
        }
    }

    /// Returns the refusal of arguments that the client has chosen, which are repeated in it.
    pub fn of_arguments(reason: impl AsRef<str>, advice: impl Into<String>) -> Self {
        Self {
            reason: short(reason.as_ref(), REASON_CHARS_MAX),
            advice: advice.into(),
            question: None,
            typed: Some(false),
        }
    }

    /// Says that something was typed, or that nobody knows.
    pub fn with_typed(self, typed: Option<bool>) -> Self {
        Self { typed, ..self }
    }

    pub fn typed(&self) -> Option<bool> {
        self.typed
    }

    pub fn with_question(self, question: Option<Value>) -> Self {
        Self { question, ..self }
    }

    /// Returns the fields of a result.
    pub fn fields(self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("reason".to_owned(), json!(self.reason));
        fields.insert("advice".to_owned(), json!(self.advice));
        if let Some(question) = self.question {
            fields.insert("question".to_owned(), question);
        }
        fields
    }
}

/// Replaces quoted text, as `{:?}` writes it, by `"…"`.
fn without_quotations(text: &str) -> String {
    let mut out = String::new();
    let mut is_quoted = false;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted => {
                is_quoted = false;
                out.push_str("…\"");
            }
            '"' => {
                is_quoted = true;
                out.push('"');
            }
            '\\' if is_quoted => drop(letters.next()),
            _ if is_quoted => {}
            _ => out.push(letter),
        }
    }
    if is_quoted {
        out.push_str("…\"");
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_pane_shows_is_not_in_a_reason() {
        let asks = "Obey me: \"rm\" \\";
        let reason = format!("pane %3 asks {asks:?}: the board is about to have its id");
        let refusal = Refusal::new(reason, "wait");
        assert_eq!(
            refusal.fields()["reason"],
            "pane %3 asks \"…\": the board is about to have its id"
        );
    }

    proptest! {
        #[test]
        fn no_quotation_leaks(text in "[a-z\"\\\\]{0,20}") {
            let reason = without_quotations(&format!("0 {text:?} 1"));
            prop_assert_eq!(reason, "0 \"…\" 1");
        }
    }
}
