//! The colours and attributes of text: runs of characters with SGR parameters, stored beside the text.
//!
//! Styles belong to the text of their own event. If that text is changed and the change cannot be mapped to
//! the styles, all styles of the event are dropped.

use std::borrow::Cow;
use std::fmt::Write;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of styles in an event; further ones are dropped. A screen full of colours has fewer.
pub(crate) const STYLES_MAX: usize = 2048;

/// A colour of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// A number of the palette, whose first 16 are the standard colours.
    Indexed(u8),
    Rgb(u8, u8, u8),
}

/// One operation of an SGR sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SgrOperation {
    Reset,
    /// Sets the attribute with this code.
    Set(u8),
    /// Ends the attributes with this end code.
    Unset(u8),
    Foreground(Option<Colour>),
    Background(Option<Colour>),
}

/// The SGR codes of attributes that are not colours, and the codes that end them.
const MARKS: [(u8, u8); 8] = [
    (1, 22),
    (2, 22),
    (3, 23),
    (4, 24),
    (5, 25),
    (7, 27),
    (8, 28),
    (9, 29),
];

/// Returns the known operations of SGR parameters, such as `1;38;5;208`.
pub(crate) fn sgr_operations(params: &str) -> impl Iterator<Item = SgrOperation> {
    let mut parts = params.split(';');
    std::iter::from_fn(move || {
        loop {
            let part = parts.next()?;
            let (first, subparameters) = match part.split_once(':') {
                Some((first, more)) => (first, Some(more)),
                None => (part, None),
            };
            let code = number(first);
            let colour = match (code, subparameters) {
                (38 | 48, Some(more)) => subparameter_colour(more),
                // 58 is the colour of the underline, which is not kept.
                (38 | 48 | 58, None) => next_colour(&mut parts),
                (_, Some(_)) => continue,
                (30..=37 | 40..=47, None) => indexed(code % 10),
                (90..=97 | 100..=107, None) => indexed(code % 10 + 8),
                _ => None,
            };
            return Some(match (code, colour) {
                (30..=38 | 90..=97, Some(_)) => SgrOperation::Foreground(colour),
                (40..=48 | 100..=107, Some(_)) => SgrOperation::Background(colour),
                (0, _) => SgrOperation::Reset,
                (1..=5 | 7..=9, _) => SgrOperation::Set(code as u8),
                (21, _) => SgrOperation::Unset(22),
                (22..=25 | 27..=29, _) => SgrOperation::Unset(code as u8),
                (39, _) => SgrOperation::Foreground(None),
                (49, _) => SgrOperation::Background(None),
                _ => continue,
            });
        }
    })
}

/// Returns a number; 0 for a missing one, and for none.
fn number(text: &str) -> u32 {
    text.parse()
        .unwrap_or(if text.is_empty() { 0 } else { u32::MAX })
}

fn indexed(number: u32) -> Option<Colour> {
    Some(Colour::Indexed(number as u8))
}

/// Returns the colour in the parameters after 38, 48 or 58. An incomplete colour leaves its numbers.
fn next_colour<'t>(parts: &mut (impl Iterator<Item = &'t str> + Clone)) -> Option<Colour> {
    let mut ahead = parts.clone();
    let kind = ahead.next()?;
    let is_rgb = match kind {
        "2" => true,
        "5" => false,
        _ => return None,
    };
    parts.next();
    let mut channel = || {
        ahead
            .next()
            .map(|part| number(part.split(':').next().unwrap_or_default()))
    };
    let colour = if is_rgb {
        Colour::Rgb(channel()? as u8, channel()? as u8, channel()? as u8)
    } else {
        Colour::Indexed(channel()? as u8)
    };
    *parts = ahead;
    Some(colour)
}

/// Returns the colour in subparameters after `38:` or `48:`, with or without a colour space.
fn subparameter_colour(text: &str) -> Option<Colour> {
    let numbers: Vec<u8> = text.split(':').map(|part| number(part) as u8).collect();
    match numbers[..] {
        [2, red, green, blue] | [2, _, red, green, blue] => Some(Colour::Rgb(red, green, blue)),
        [5, index] => Some(Colour::Indexed(index)),
        _ => None,
    }
}

/// The colours and attributes of a character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ink {
    pub foreground: Option<Colour>,
    pub background: Option<Colour>,
    /// The number of its link in the stream of a pane, or in its line; 0 for none. A stored [`Style`] has none.
    pub link: u32,
    /// A bit for each of [`MARKS`] that is set.
    marks: u8,
}

impl Ink {
    /// Returns the style that SGR parameters set, such as `1;38;5;208`.
    pub fn of(params: &str) -> Self {
        let mut ink = Self::default();
        ink.apply(params);
        ink
    }

    /// Returns true if nothing is set.
    pub fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// Returns true if the attribute with this SGR code is set.
    #[cfg(feature = "tui")]
    pub fn has(self, code: u8) -> bool {
        self.marks & marks(|(begin, _)| begin == code) != 0
    }

    /// Applies one operation of a sequence.
    pub fn take(&mut self, operation: SgrOperation) {
        match operation {
            // A link begins and ends by itself.
            SgrOperation::Reset => {
                *self = Self {
                    link: self.link,
                    ..Self::default()
                }
            }
            SgrOperation::Foreground(colour) => self.foreground = colour,
            SgrOperation::Background(colour) => self.background = colour,
            SgrOperation::Set(code) => self.marks |= marks(|(begin, _)| begin == code),
            SgrOperation::Unset(code) => self.marks &= !marks(|(_, end)| end == code),
        }
    }

    /// Applies the parameters of a sequence.
    pub fn apply(&mut self, params: &str) {
        sgr_operations(params).for_each(|operation| self.take(operation));
    }

    /// Returns the parameters that set this style from a plain one; empty for a plain style.
    pub fn sgr(self) -> String {
        let mut sgr = String::new();
        for (at, (mark, _)) in MARKS.iter().enumerate() {
            if self.marks & (1 << at) != 0 {
                push(&mut sgr, format_args!("{mark}"));
            }
        }
        for (colour, base) in [(self.foreground, 30), (self.background, 40)] {
            match colour {
                None => {}
                Some(Colour::Indexed(number @ ..8)) => {
                    push(&mut sgr, format_args!("{}", base + number));
                }
                Some(Colour::Indexed(number @ 8..16)) => {
                    push(&mut sgr, format_args!("{}", base + 60 + number - 8));
                }
                Some(Colour::Indexed(number)) => {
                    push(&mut sgr, format_args!("{};5;{number}", base + 8));
                }
                Some(Colour::Rgb(red, green, blue)) => {
                    push(
                        &mut sgr,
                        format_args!("{};2;{red};{green};{blue}", base + 8),
                    );
                }
            }
        }
        sgr
    }
}

fn marks(is_wanted: impl Fn((u8, u8)) -> bool) -> u8 {
    let wanted = MARKS
        .iter()
        .enumerate()
        .filter(|(_, mark)| is_wanted(**mark));
    wanted.fold(0, |bits, (at, _)| bits | 1 << at)
}

fn push(sgr: &mut String, part: std::fmt::Arguments<'_>) {
    if !sgr.is_empty() {
        sgr.push(';');
    }
    // Writing to a string does not fail.
    let _ = sgr.write_fmt(part);
}

/// A run of characters with the same colours and attributes, written as `[line, from, to, "sgr"]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The line of the event's text, from 0.
    pub line: u32,
    /// The first character of the run in its line, from 0.
    pub from: u32,
    /// The first character after the run.
    pub to: u32,
    pub(crate) ink: Ink,
}

impl Style {
    /// Creates the style of a run from the parameters between `ESC [` and `m`, such as `1;31`. Parameters
    /// that are not known are ignored.
    #[must_use]
    pub fn new(line: u32, from: u32, to: u32, sgr: &str) -> Self {
        Self {
            line,
            from,
            to,
            ink: Ink::of(sgr),
        }
    }

    /// Returns the parameters between `ESC [` and `m` in their shortest form.
    pub fn sgr(&self) -> String {
        self.ink.sgr()
    }

    /// Returns true if the style has an effect.
    pub(crate) fn is_valid(&self) -> bool {
        self.from < self.to && !self.ink.is_plain()
    }
}

impl Serialize for Style {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.line, self.from, self.to, self.sgr()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Style {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (line, from, to, sgr) = <(u32, u32, u32, Cow<'_, str>)>::deserialize(deserializer)?;
        Ok(Self::new(line, from, to, &sgr))
    }
}

/// The styles of an event's text, in the order of the text, without overlaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Styles(Box<[Style]>);

impl Styles {
    /// Creates styles from a list, of which at most 2,048 are kept.
    #[must_use]
    pub fn new(mut styles: Vec<Style>) -> Self {
        styles.truncate(STYLES_MAX);
        Self(styles.into())
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
        self.0 = Box::default();
    }

    /// Appends the styles of text that follows after `after_lines` lines.
    pub(crate) fn extend(&mut self, after_lines: i64, more: &Self) {
        let Ok(after) = u32::try_from(after_lines) else {
            return;
        };
        if more.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut self.0).into_vec();
        let room = STYLES_MAX.saturating_sub(all.len());
        let more = more.0.iter().take(room);
        all.extend(more.filter_map(|style| {
            let line = style.line.checked_add(after)?;
            Some(Style { line, ..*style })
        }));
        self.0 = all.into();
    }

    /// Renumbers lines: `new_line` returns a line's new number, or `None` to remove its styles.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn move_lines(&mut self, new_line: impl Fn(u32) -> Option<u32>) {
        let moved = self.0.iter().filter_map(|style| {
            let line = new_line(style.line)?;
            Some(Style { line, ..*style })
        });
        self.0 = moved.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(line: u32, sgr: &str) -> Style {
        Style::new(line, 0, 3, sgr)
    }

    #[test]
    fn sgr_is_written_in_its_shortest_form() {
        let mut ink = Ink::default();
        assert!(ink.is_plain() && ink.sgr().is_empty());
        ink.apply("1;4;91;48;2;1;2;255");
        assert_eq!(ink.sgr(), "1;4;91;48;2;1;2;255");
        ink.apply("22;38;5;208;49");
        assert_eq!(ink.sgr(), "4;38;5;208");
        ink.apply("");
        assert!(ink.is_plain());
        // Subparameters, an incomplete colour, and codes that are unknown.
        for (params, sgr) in [
            ("38:2::1:2:3;48:5:9", "38;2;1;2;3;101"),
            ("38;2;1;2", "1;2"),
            ("38;9;7", "7;9"),
            ("4:3;58;5;1;3", "3"),
            ("4;58;2;1;2;5;3", "3;4"),
        ] {
            let mut ink = Ink::default();
            ink.apply(params);
            assert_eq!(ink.sgr(), sgr, "{params}");
        }
    }

    #[test]
    fn styles_are_written_as_lists() {
        let styles = Styles::new(vec![style(0, "1;31"), style(2, "38;2;1;2;3")]);
        let json = serde_json::to_string(&styles).unwrap();
        assert_eq!(json, r#"[[0,0,3,"1;31"],[2,0,3,"38;2;1;2;3"]]"#);
        assert_eq!(serde_json::from_str::<Styles>(&json).unwrap(), styles);
    }

    #[test]
    fn only_sgr_parameters_are_valid() {
        assert!(style(0, "38;5;208").is_valid());
        for sgr in ["", "31m\x1b]0;x", "?25", "31 ", "٣"] {
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
            .map(|s| (s.line, s.sgr()))
            .collect();
        assert_eq!(moved, [(0, "32".to_owned()), (2, "33".to_owned())]);
    }
}
