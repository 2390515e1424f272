//! Reads the file of a configuration; each problem has its line, its column and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::redact::Rules;

use super::keys::{Entry, KEYS, Key, Kind, Origin, unknown};

/// What is wrong in a configuration, and where. Shown in one line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    place: String,
    text: String,
}

impl Problem {
    /// A value in the wrong place may be a secret.
    pub fn new(place: String, text: &str) -> Self {
        let text = Rules::builtin().text(text).into_owned();
        Self { place, text }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// Returns the values in the text of a file at `path`, and all that is wrong in it. The options of `command` check them.
pub(super) fn read(text: &str, path: &Path, command: &clap::Command) -> (Vec<Entry>, Vec<Problem>) {
    let mut reader = Reader {
        text,
        path,
        command,
        entries: Vec::new(),
        problems: Vec::new(),
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        reader.report(at, &crate::face::one_line(error.message()));
    }
    // What follows an error of the syntax is guessed.
    if reader.problems.is_empty() {
        reader.read(table.get_ref());
    }
    (reader.entries, reader.problems)
}

struct Reader<'a> {
    text: &'a str,
    path: &'a Path,
    command: &'a clap::Command,
    entries: Vec<Entry>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    /// Reports a problem at this byte of the text.
    fn report(&mut self, at: usize, text: &str) {
        let (line, column) = position(self.text, at);
        let place = format!("{}:{line}:{column}", self.path.display());
        self.problems
            .push(Problem::new(crate::face::one_line(&place), text));
    }

    fn read(&mut self, table: &DeTable<'_>) {
        let mut assignments: Vec<_> = table.iter().collect();
        assignments.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in assignments {
            let at = name.span().start;
            let Some(key) = KEYS.iter().find(|key| key.name == name.get_ref()) else {
                self.report(at, &unknown(name.get_ref()));
                continue;
            };
            let directory = self.path.parent().map(PathBuf::from);
            let values = values(key, value);
            let values = values.and_then(|values| {
                let checked = key.checked(values, directory.as_deref(), self.command);
                checked.map_err(|text| (value.span().start, text))
            });
            match values {
                Ok(values) => {
                    let (line, _) = position(self.text, at);
                    self.entries.push(Entry {
                        key,
                        values,
                        origin: Origin::File(line),
                    });
                }
                Err((at, text)) => self.report(at, &format!("{}: {text}", key.name)),
            }
        }
    }
}

/// Returns the values of a key, or what is wrong with them and at which byte.
fn values(key: &Key, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, (usize, String)> {
    match (key.kind, value.get_ref()) {
        (Kind::Flag, DeValue::Boolean(value)) => Ok(vec![value.to_string()]),
        (Kind::Flag, _) => Err(wrong_type(value, "true or false")),
        (Kind::Number, DeValue::Integer(number)) => Ok(vec![number.to_string()]),
        (Kind::Number, _) => Err(wrong_type(value, "a whole number")),
        (Kind::One, _) => Ok(vec![text(value)?]),
        (Kind::Several, DeValue::Array(array)) => array.iter().map(text).collect(),
        (Kind::Several, DeValue::String(_)) => Ok(vec![text(value)?]),
        (Kind::Several, _) => Err(wrong_type(value, "a list of texts, as in [\"a\", \"b\"]")),
    }
}

fn text(value: &Spanned<DeValue<'_>>) -> Result<String, (usize, String)> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        _ => Err(wrong_type(value, "a text, as in \"a\"")),
    }
}

fn wrong_type(value: &Spanned<DeValue<'_>>, wanted: &str) -> (usize, String) {
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
