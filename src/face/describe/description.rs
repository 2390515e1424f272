//! The description of an event, and how a face writes it (pure).

use super::phrases::duration;
use crate::face::tone::Tone;

/// The maximum number of characters to show of a prompt, a result or an error; the event has all of it.
const TEXT_CHARS_MAX: usize = 300;

/// The beginning of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// With a label: `[tool] Bash`.
    Labelled(&'static str),
    /// A statement without a label: `[turn completed]`.
    Statement,
    /// Reports missing text: `… 3 lines lost`.
    Missing,
}

/// An event in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::face) struct Description {
    form: Form,
    pub tone: Tone,
    pub text: String,
    duration_ms: Option<u64>,
    /// True if only verbose output shows the description.
    pub is_detail: bool,
}

impl Description {
    pub fn labelled(label: &'static str, tone: Tone, text: String) -> Self {
        Self::new(Form::Labelled(label), tone, text)
    }

    pub fn statement(tone: Tone, text: String) -> Self {
        Self::new(Form::Statement, tone, text)
    }

    pub fn missing(text: String) -> Self {
        Self::new(Form::Missing, Tone::Caution, text)
    }

    fn new(form: Form, tone: Tone, text: String) -> Self {
        Self {
            form,
            tone,
            text,
            duration_ms: None,
            is_detail: false,
        }
    }

    pub fn after(mut self, duration_ms: u64) -> Self {
        self.duration_ms = Some(duration_ms);
        self
    }

    pub fn detail_if(mut self, is_detail: bool) -> Self {
        self.is_detail = is_detail;
        self
    }

    /// Returns true if this is a gap without evidence of a loss.
    pub fn is_possible_gap(&self) -> bool {
        self.form == Form::Missing && self.is_detail
    }

    /// Returns the label before the text, for faces that set it apart; `None` for a statement.
    pub fn label(&self) -> Option<&'static str> {
        match self.form {
            Form::Labelled(label) => Some(label),
            Form::Statement => None,
            Form::Missing => Some("missing"),
        }
    }

    pub fn text_with_duration(&self) -> String {
        match self.duration_ms {
            None => self.text.clone(),
            Some(ms) => format!("{} after {}", self.text, duration(ms)),
        }
    }

    /// Returns the text with its mark: `[tool] Bash`, `[turn completed]`, `… 3 lines lost`.
    pub fn marked(&self) -> String {
        let text = self.text_with_duration();
        match self.form {
            Form::Labelled(label) => format!("[{label}] {text}"),
            Form::Statement => format!("[{text}]"),
            Form::Missing => format!("… {text}"),
        }
    }

    /// Returns the text without marks, for titles and markers.
    pub fn plain(&self) -> String {
        let text = self.text_with_duration();
        match self.form {
            Form::Labelled(label) => format!("{label} {text}"),
            Form::Statement | Form::Missing => text,
        }
    }
}

/// Returns `subject: text`, with at most the beginning of a long text; `subject` alone if the text is empty.
pub(super) fn with_text(subject: &str, text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return subject.to_owned();
    }
    format!("{subject}: {}", beginning(text, TEXT_CHARS_MAX))
}

/// Returns at most `chars_max` characters of a text, with an ellipsis if it is cut.
pub(in crate::face) fn beginning(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
