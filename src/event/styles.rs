//! In which colours a program wrote its text: runs of characters and SGR parameters beside the text (pure).
//!
//! A style never stands alone: it is of the text of its own event. Where that text is changed and
//! the change cannot be followed, all styles of the event go.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Runs that an event has at most; later ones are left out. A screen full of colours has fewer, and
/// a flood that has more scrolls by unread.
pub(crate) const STYLES_MAX: usize = 2048;

/// The longest parameters that count as SGR: two colours in full and all attributes.
const SGR_BYTES_MAX: usize = 64;

/// A run of characters in one look. Written as `[line, from, to, "sgr"]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// Which line of the event's text, counted from 0.
    pub line: u32,
    /// The first character of the run in its line, counted from 0.
    pub from: u32,
    /// The first character behind it.
    pub to: u32,
    /// The parameters that stand between `ESC [` and `m`, as `1;31`.
    pub sgr: String,
}

impl Style {
    /// Whether it may be written to a terminal: a run, and parameters of digits, `;` and `:` only.
    pub(crate) fn is_sound(&self) -> bool {
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

/// The styles of an event's text, in the order of the text; none overlaps another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Styles(Vec<Style>);

impl Styles {
    /// Of some text; what is beyond the bound is left out.
    #[must_use]
    pub fn new(mut styles: Vec<Style>) -> Self {
        styles.truncate(STYLES_MAX);
        Self(styles)
    }

    /// All of them.
    pub fn as_slice(&self) -> &[Style] {
        &self.0
    }

    /// Whether the text is plain.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What they are of reads differently: they go.
    pub fn clear(&mut self) {
        self.0 = Vec::new();
    }

    /// The parameters of all of them.
    pub(crate) fn sgrs_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.0.iter_mut().map(|style| &mut style.sgr)
    }

    /// Appends the styles of text that stands behind this number of lines.
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

    #[cfg(any(feature = "cli", test))]
    /// Keeps those of some lines: `place` says where a line stands now, if it still does.
    pub(crate) fn move_lines(&mut self, place: impl Fn(u32) -> Option<u32>) {
        self.0.retain_mut(|style| {
            let to = place(style.line);
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
    fn they_are_written_as_lists() {
        let styles = Styles::new(vec![style(0, "1;31"), style(2, "38:2::1:2:3")]);
        let json = serde_json::to_string(&styles).unwrap();
        assert_eq!(json, r#"[[0,0,3,"1;31"],[2,0,3,"38:2::1:2:3"]]"#);
        assert_eq!(serde_json::from_str::<Styles>(&json).unwrap(), styles);
    }

    #[test]
    fn only_sgr_is_sound() {
        assert!(style(0, "38;5;208").is_sound());
        let long = "1;".repeat(40);
        for sgr in ["", "31m\x1b]0;x", "?25", "31 ", "٣", &long] {
            assert!(!style(0, sgr).is_sound(), "{sgr:?}");
        }
        let empty = Style {
            to: 0,
            ..style(0, "31")
        };
        assert!(!empty.is_sound());
    }

    #[test]
    fn an_event_has_a_bounded_number() {
        let many = vec![style(0, "31"); STYLES_MAX + 1];
        let mut styles = Styles::new(many);
        assert_eq!(styles.as_slice().len(), STYLES_MAX);
        styles.extend(1, &Styles::new(vec![style(0, "32")]));
        assert_eq!(styles.as_slice().len(), STYLES_MAX);
    }

    #[test]
    fn they_follow_their_lines() {
        let mut styles = Styles::new(vec![style(0, "31"), style(1, "32")]);
        styles.extend(2, &Styles::new(vec![style(1, "33"), style(u32::MAX, "34")]));
        styles.move_lines(|line| line.checked_sub(1));
        let left: Vec<_> = styles
            .as_slice()
            .iter()
            .map(|s| (s.line, &*s.sgr))
            .collect();
        assert_eq!(left, [(0, "32"), (2, "33")]);
    }
}
