//! The names of the configured channels and hosts, for completions.

use toml::de::{DeTable, DeValue};

#[cfg(feature = "notify")]
use super::keys::CHANNEL;
#[cfg(feature = "hosts")]
use super::keys::HOSTS;
use super::places::Place;

/// Returns the names of all channels in the file, whether or not they are right.
#[cfg(feature = "notify")]
pub(in crate::cli) fn channel_names() -> Vec<String> {
    with_table(CHANNEL, |name, _| vec![name.to_owned()])
}

/// Returns the names of all hosts in the file, whether or not they are right.
#[cfg(feature = "hosts")]
pub(in crate::cli) fn host_names() -> Vec<String> {
    let text = |value: &toml::Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        _ => None,
    };
    with_table(HOSTS, |name, value| match value {
        DeValue::Array(names) => names.iter().filter_map(text).collect(),
        _ => vec![name.to_owned()],
    })
}

/// Returns the names that the entries of a table of the file stand for.
fn with_table(wanted: &str, names: impl Fn(&str, &DeValue<'_>) -> Vec<String>) -> Vec<String> {
    let place = Place::find(None, |name| std::env::var_os(name))
        .ok()
        .flatten();
    let text = place.and_then(|place| place.read().ok().flatten());
    let text = text.unwrap_or_default();
    let (table, _) = DeTable::parse_recoverable(&text);
    let mut tables = table.get_ref().iter();
    let found = tables.find(|(name, _)| name.get_ref() == wanted);
    match found.map(|(_, found)| found.get_ref()) {
        Some(DeValue::Table(entries)) => entries
            .iter()
            .flat_map(|(name, value)| names(name.get_ref(), value.get_ref()))
            .collect(),
        _ => Vec::new(),
    }
}
