//! What is read of the file of a configuration, and what is wrong in it, with its line and its column.

use std::fmt;
use std::path::Path;

use toml::Spanned;
use toml::de::DeValue;

#[cfg(feature = "hosts")]
use super::host_settings::HostSettings;
use super::keys::Entry;
#[cfg(any(feature = "hosts", feature = "notify"))]
use super::section::Section;
#[cfg(feature = "notify")]
use crate::notify::Settings;
use crate::redact::Rules;

/// What is wrong in a configuration, and where. Shown in one line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The byte of the file; problems of variables come last.
    pub at: usize,
    place: String,
    text: String,
}

impl Problem {
    /// A value in the wrong place may be a secret.
    pub fn new(place: String, text: &str) -> Self {
        let text = Rules::builtin().text(text).into_owned();
        let at = usize::MAX;
        Self { at, place, text }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// What is read of a file.
pub(super) struct Reader<'a> {
    pub text: &'a str,
    pub path: &'a Path,
    /// Checks the values of options.
    pub command: &'a clap::Command,
    pub entries: Vec<Entry>,
    pub problems: Vec<Problem>,
    #[cfg(feature = "notify")]
    pub notifications: Settings,
    #[cfg(feature = "hosts")]
    pub hosts: HostSettings,
    /// The tables as the file gives them.
    #[cfg(any(feature = "hosts", feature = "notify"))]
    pub sections: Vec<Section>,
}

impl Reader<'_> {
    /// Reports a problem at this byte of the text.
    pub fn report(&mut self, at: usize, text: &str) {
        let (line, column) = self.position(at);
        let place = format!("{}:{line}:{column}", self.path.display());
        self.problems.push(Problem {
            at,
            ..Problem::new(crate::face::one_line(&place), text)
        });
    }

    /// Returns the line and the column of a byte.
    pub fn position(&self, at: usize) -> (usize, usize) {
        position(self.text, at)
    }
}

pub(super) fn text(value: &Spanned<DeValue<'_>>) -> Result<String, (usize, String)> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        _ => Err(wrong_type(value, "a text, as in \"a\"")),
    }
}

pub(super) fn wrong_type(value: &Spanned<DeValue<'_>>, wanted: &str) -> (usize, String) {
    let found = value.get_ref().type_str();
    (
        value.span().start,
        format!("a value of type {found} does not fit: write {wanted}"),
    )
}

/// Returns the line and the column of a byte, both from 1; columns count characters.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}
