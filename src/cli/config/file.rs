//! Reads the file of a configuration, key by key.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

#[cfg(feature = "hosts")]
use super::host_settings::HostSettings;
#[cfg(feature = "hosts")]
use super::keys::HOSTS;
#[cfg(feature = "notify")]
use super::keys::{CHANNEL, NOTIFY};
use super::keys::{Entry, KEYS, Key, Kind, Origin, unknown};
use super::reader::{Reader, text, wrong_type};
#[cfg(feature = "notify")]
use crate::notify::Settings;

/// Returns the values in the text of a file at `path`, and all that is wrong in it. The options of `command` check them.
pub(super) fn read<'a>(text: &'a str, path: &'a Path, command: &'a clap::Command) -> Reader<'a> {
    let mut reader = Reader {
        text,
        path,
        command,
        entries: Vec::new(),
        problems: Vec::new(),
        #[cfg(feature = "notify")]
        notifications: Settings::default(),
        #[cfg(feature = "hosts")]
        hosts: HostSettings::default(),
        #[cfg(any(feature = "hosts", feature = "notify"))]
        sections: Vec::new(),
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
    reader.problems.sort_by_key(|problem| problem.at);
    reader
}

impl Reader<'_> {
    fn read(&mut self, table: &DeTable<'_>) {
        let mut assignments: Vec<_> = table.iter().collect();
        assignments.sort_by_key(|(name, _)| name.span().start);
        #[cfg_attr(
            not(any(feature = "hosts", feature = "notify")),
            allow(unused_mut, unused_variables)
        )]
        let mut named = |wanted: &str| {
            let mut names = assignments.iter();
            let place = names.position(|(name, _)| name.get_ref() == wanted)?;
            let (name, value) = assignments.remove(place);
            Some((name.span().start, value))
        };
        #[cfg(feature = "notify")]
        self.read_notifications(named(NOTIFY), named(CHANNEL));
        #[cfg(feature = "hosts")]
        if let Some((at, hosts)) = named(HOSTS) {
            self.read_hosts(at, hosts);
        }
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
                    let (line, _) = self.position(at);
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
