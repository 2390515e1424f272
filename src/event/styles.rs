//! The colours and attributes of text: runs of characters with SGR parameters, stored beside the text.
//!
//! Styles belong to the text of their own event. If that text is changed and the change cannot be mapped to
//! the styles, all styles of the event are dropped.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of styles in an event; further ones are dropped. A screen full of colours has fewer.
pub(crate) const STYLES_MAX: usize = 2048;

/// Maximum length of SGR parameters: two RGB colours and all attributes.
const SGR_BYTES_MAX: usize = 64;

/// A run of characters with the same colours and attributes, written as `[line, from, to, "sgr"]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// The line of the event's text, from 0.
    pub line: u32,
    /// The first character of the run in its line, from 0.
    pub from: u32,
    /// The first character after the run.
    pub to: u32,
    /// The parameters between `ESC [` and `m`, such as `1;31`.
    pub sgr: String,
}

impl Style {
    /// Returns true if the style may be written to a terminal: the run is not empty, and its
    /// parameters consist of digits, `;` and `:`.
    pub(crate) fn is_valid(&self) -> bool {
        let is_sgr = |byte: u8| matches!(byte, b'0'..=b'9' | b';' | b':');
        let bytes = self.sgr.len();
        self.from < self.to && (1..=SGR_BYTES_MAX).contains(&bytes) && self.sgr.bytes().all(is_sgr)
    }
}

impl Serialize for Style {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.line, self.from, self.to, &self.sgr).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Style {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (line, from, to, sgr) = Deserialize::deserialize(deserializer)?;
        Ok(Self {
            line,
            from,
            to,
            sgr,
        })
    }
}

/// The styles of an event's text, in the order of the text, without overlaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Styles(Vec<Style>);

impl Styles {
    /// Creates styles from a list, of which at most 2,048 are kept.
    #[must_use]
    pub fn new(mut styles: Vec<Style>) -> Self {
        styles.truncate(STYLES_MAX);
        Self(styles)
    }

    /// Returns all styles.
    pub fn as_slice(&self) -> &[Style] {
        &self.0
    }

    /// Returns true if the text has no styles.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all styles because their text has changed.
    pub fn clear(&mut self) {
        self.0 = Vec::new();
    }

    /// Returns the parameters of all styles.
    pub(crate) fn sgrs_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.0.iter_mut().map(|style| &mut style.sgr)
    }

    /// Appends the styles of text that follows after `after_lines` lines.
    pub(crate) fn extend(&mut self, after_lines: i64, more: &Self) {
        let Ok(after) = u32::try_from(after_lines) else {
            return;
        };
        let room = STYLES_MAX.saturating_sub(self.0.len());
        let more = more.0.iter().take(room);
        self.0.extend(more.filter_map(|style| {
            let line = style.line.checked_add(after)?;
            Some(Style {
                line,
                ..style.clone()
            })
        }));
    }

    /// Renumbers lines: `new_line` returns a line's new number, or `None` to remove its styles.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn move_lines(&mut self, new_line: impl Fn(u32) -> Option<u32>) {
        self.0.retain_mut(|style| {
            let to = new_line(style.line);
            style.line = to.unwrap_or_default();
            to.is_some()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(line: u32, sgr: &str) -> Style {
        Style {
            line,
            from: 0,
            to: 3,
            sgr: sgr.to_owned(),
        }
    }

    #[test]
    fn styles_are_written_as_lists() {
        let styles = Styles::new(vec![style(0, "1;31"), style(2, "38:2::1:2:3")]);
        let json = serde_json::to_string(&styles).unwrap();
        assert_eq!(json, r#"[[0,0,3,"1;31"],[2,0,3,"38:2::1:2:3"]]"#);
        assert_eq!(serde_json::from_str::<Styles>(&json).unwrap(), styles);
    }

    #[test]
    fn only_sgr_parameters_are_valid() {
        assert!(style(0, "38;5;208").is_valid());
        let long = "1;".repeat(40);
        for sgr in ["", "31m\x1b]0;x", "?25", "31 ", "٣", &long] {
            assert!(!style(0, sgr).is_valid(), "{sgr:?}");
        }
        let empty = Style {
            to: 0,
            ..style(0, "31")
        };
        assert!(!empty.is_valid());
    }

    #[test]
    fn the_number_of_styles_is_bounded() {
        let many = vec![style(0, "31"); STYLES_MAX + 1];
        let mut styles = Styles::new(many);
        assert_eq!(styles.as_slice().len(), STYLES_MAX);
        styles.extend(1, &Styles::new(vec![style(0, "32")]));
        assert_eq!(styles.as_slice().len(), STYLES_MAX);
    }

    #[test]
    fn styles_move_with_their_lines() {
        let mut styles = Styles::new(vec![style(0, "31"), style(1, "32")]);
        styles.extend(2, &Styles::new(vec![style(1, "33"), style(u32::MAX, "34")]));
        styles.move_lines(|line| line.checked_sub(1));
        let moved: Vec<_> = styles
            .as_slice()
            .iter()
            .map(|s| (s.line, &*s.sgr))
            .collect();
        assert_eq!(moved, [(0, "32"), (2, "33")]);
    }
}
