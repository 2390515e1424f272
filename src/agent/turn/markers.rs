//! The markers that end a turn (pure).

use crate::agent::decoration::bare_line;
use crate::error::{Error, Result};

/// The default marker.
pub(super) const DEFAULT_MARKER: &str = "[Output Complete]";

/// The markers that end a turn, each alone on its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Markers(Vec<String>);

impl Markers {
    /// Replaces the default marker.
    ///
    /// # Errors
    /// `is_invalid_input()` when `markers` is empty, or a marker is empty or has a line end.
    pub fn new<S: AsRef<str>>(markers: impl IntoIterator<Item = S>) -> Result<Self> {
        let markers: Vec<String> = markers
            .into_iter()
            .map(|marker| marker.as_ref().trim().to_owned())
            .collect();
        if markers.is_empty() || markers.iter().any(String::is_empty) {
            return Err(Error::invalid("a marker is empty"));
        }
        if let Some(marker) = markers.iter().find(|marker| marker.contains(['\n', '\r'])) {
            return Err(Error::invalid(format!(
                "the marker {marker:?} has more than one line"
            )));
        }
        Ok(Self(markers))
    }

    /// Returns the index of the marker that is the only text of the line.
    pub(super) fn find(&self, line: &str) -> Option<usize> {
        let text = bare_line(line).text;
        let line = line.trim();
        let is_match = |marker: &String| marker == text || marker == line;
        self.0.iter().position(is_match)
    }

    /// Returns the last marker that is alone on a line of the text.
    pub(crate) fn last_in(&self, text: &str) -> Option<&str> {
        let marker = text.lines().rev().find_map(|line| self.find(line))?;
        self.0.get(marker).map(String::as_str)
    }

    pub(super) fn text(&self, marker: usize) -> String {
        self.0.get(marker).cloned().unwrap_or_default()
    }
}

impl Default for Markers {
    fn default() -> Self {
        Self(vec![DEFAULT_MARKER.to_owned()])
    }
}
