//! A rule or a channel of notifications, as `config show` prints it.

use std::path::Path;

use serde_json::{Value, json};

use super::keys::{NOTIFY, quoted};
use crate::face::one_line;

/// A rule or a channel as the file gives it, for those who ask where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Section {
    /// `notify`, or `channel.NAME`.
    pub name: String,
    pub line: usize,
    /// Names, values as a file writes them, without secrets, and lines.
    pub values: Vec<(&'static str, Value, usize)>,
}

impl Section {
    /// Returns the section as `config show` prints it: as in a file, or as one line of JSON.
    pub fn shown(&self, path: &Path, is_json: bool, with_origin: bool) -> String {
        let path = path.display().to_string();
        if is_json {
            let values = self.values.iter();
            let values = values.map(|(name, value, _)| ((*name).to_owned(), value.clone()));
            let value: serde_json::Map<_, _> = values.collect();
            let about =
                json!({ "key": self.name, "value": value, "origin": path, "line": self.line });
            return format!("{about}\n");
        }
        let header = if self.name == NOTIFY {
            "[[notify]]".to_owned()
        } else {
            format!("[{}]", self.name)
        };
        let assignments = self.values.iter();
        let assignments =
            assignments.map(|(name, value, line)| (format!("{name} = {}", written(value)), *line));
        let lines = std::iter::once((header, self.line)).chain(assignments);
        let mut text = String::from("\n");
        for (line, number) in lines {
            text.push_str(&if with_origin {
                format!("{line:<32} # {}:{number}\n", one_line(&path))
            } else {
                format!("{line}\n")
            });
        }
        text
    }
}

/// Returns a value as a file writes it.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(written).collect();
            format!("[{}]", values.join(", "))
        }
        other => other.to_string(),
    }
}
