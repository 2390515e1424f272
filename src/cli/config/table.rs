//! A table of the file that is read key by key, and kept for those who ask where its values come from.

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::Origin;
use super::reader::Reader;
#[cfg(feature = "notify")]
use super::reader::wrong_type;
use super::section::Section;
use crate::redact::Rules;

/// A failure at a byte of the file.
pub(super) type Fault = (usize, String);

/// A table that is read key by key.
pub(super) struct Table<'t, 'd> {
    pub at: usize,
    pub table: &'t DeTable<'d>,
}

impl<'t, 'd> Table<'t, 'd> {
    pub fn get(&self, name: &str) -> Option<&'t Spanned<DeValue<'d>>> {
        let mut entries = self.table.iter();
        entries
            .find(|(key, _)| key.get_ref() == name)
            .map(|(_, value)| value)
    }

    pub fn required(&self, name: &str, example: &str) -> Result<&'t Spanned<DeValue<'d>>, Fault> {
        self.get(name).ok_or_else(|| {
            (
                self.at,
                format!("{name} is missing: write {name} = {example}"),
            )
        })
    }

    #[cfg(feature = "notify")]
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, Fault> {
        match self.get(name) {
            None => Ok(default),
            Some(value) => match value.get_ref() {
                DeValue::Boolean(value) => Ok(*value),
                _ => Err(wrong_type(value, "true or false")).map_err(of_key(name)),
            },
        }
    }
}

impl Reader<'_> {
    /// Keeps the values of a table whose names are known.
    pub(super) fn keep_section(
        &mut self,
        name: String,
        table: &Table<'_, '_>,
        known: &[&'static str],
        shown: impl Fn(&str, &Spanned<DeValue<'_>>) -> Value,
    ) {
        let mut values = Vec::new();
        for (key, value) in table.table.iter() {
            let Some(name) = known.iter().find(|name| **name == *key.get_ref()) else {
                continue;
            };
            let (line, _) = self.position(key.span().start);
            values.push((*name, shown(name, value), Origin::File(line)));
        }
        values.sort_by_key(|(_, _, origin)| origin.line());
        let (line, _) = self.position(table.at);
        let origin = Origin::File(line);
        self.sections.push(Section {
            name,
            origin,
            values,
        });
    }
}

/// Returns a function that names the key at which something is wrong.
pub(super) fn of_key(name: &str) -> impl Fn(Fault) -> Fault + '_ {
    move |(at, why)| (at, format!("{name}: {why}"))
}

/// Returns a value as it may be shown: without secrets.
pub(super) fn shown_plainly(value: &Spanned<DeValue<'_>>) -> Value {
    match value.get_ref() {
        // A command line may contain a secret.
        DeValue::String(text) => Rules::builtin().text(text).into(),
        DeValue::Integer(number) => number
            .to_string()
            .parse::<i64>()
            .map_or(Value::Null, Into::into),
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Array(array) => array.iter().map(shown_plainly).collect(),
        _ => Value::Null,
    }
}
