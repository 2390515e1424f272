//! Defines tones of text, and writes text in a tone (pure).

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

use super::sanitize::push_sanitized;

/// The emphasis of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    /// A person's prompt to an agent.
    Prompt,
    Dim,
    Good,
    Caution,
    Alarm,
}

impl Tone {
    pub fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Prompt => Style::new().bold(),
            Self::Dim => Style::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Caution => AnsiColor::Yellow.on_default(),
            Self::Alarm => AnsiColor::Red.on_default().bold(),
        }
    }
}

/// Appends sanitized text in a style.
pub(super) fn push_styled(out: &mut String, coloured: bool, style: Style, text: &str) {
    if coloured && style != Style::new() {
        // Writing to a string does not fail.
        let _ = write!(out, "{style}");
        push_sanitized(out, text);
        let _ = write!(out, "{style:#}");
    } else {
        push_sanitized(out, text);
    }
}
