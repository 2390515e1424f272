//! A table of the configuration, such as a channel of notifications or a host, as `config show` prints it.

use std::path::Path;

use serde_json::{Value, json};

use super::keys::{NOTIFY, Origin, quoted};
use crate::face::one_line;

/// A table as the file gives it, for those who ask where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Section {
    /// `notify`, `channel.NAME`, `hosts` or `hosts.NAME`, in which a name with a dot is quoted.
    pub name: String,
    pub origin: Origin,
    /// Names, values as a file writes them, without secrets, and where they are from.
    pub values: Vec<(&'static str, Value, Origin)>,
}

impl Section {
    /// Returns the section as `config show` prints it: as in a file, or as one line of JSON.
    pub fn shown(&self, path: &Path, is_json: bool, with_origin: bool) -> String {
        let path = path.display().to_string();
        if is_json {
            let values = self.values.iter();
            let values = values.map(|(name, value, _)| ((*name).to_owned(), value.clone()));
            let value: serde_json::Map<_, _> = values.collect();
            let (origin, line) = (self.origin.place(&path), self.origin.line());
            let about = json!({ "key": self.name, "value": value, "origin": origin, "line": line });
            return format!("{about}\n");
        }
        let header = if self.name == NOTIFY {
            "[[notify]]".to_owned()
        } else {
            format!("[{}]", self.name)
        };
        let assignments = self.values.iter();
        let assignments = assignments
            .map(|(name, value, origin)| (format!("{name} = {}", written(value)), origin));
        let lines = std::iter::once((header, &self.origin)).chain(assignments);
        let mut text = String::from("\n");
        for (line, origin) in lines {
            text.push_str(&if with_origin {
                let number = origin.line().map(|line| format!(":{line}"));
                let place = one_line(&origin.place(&path));
                format!("{line:<32} # {place}{}\n", number.unwrap_or_default())
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
