//! The names of the configured channels, for completions.

use toml::de::{DeTable, DeValue};

use super::keys::CHANNEL;
use super::places::Place;

/// Returns the names of all channels in the file, whether or not they are right.
pub(in crate::cli) fn channel_names() -> Vec<String> {
    let place = Place::find(None, |name| std::env::var_os(name))
        .ok()
        .flatten();
    let text = place.and_then(|place| place.read().ok().flatten());
    let text = text.unwrap_or_default();
    let (table, _) = DeTable::parse_recoverable(&text);
    let channels = table
        .get_ref()
        .iter()
        .find(|(name, _)| name.get_ref() == CHANNEL);
    match channels.map(|(_, channels)| channels.get_ref()) {
        Some(DeValue::Table(channels)) => channels
            .keys()
            .map(|name| name.get_ref().to_string())
            .collect(),
        _ => Vec::new(),
    }
}
