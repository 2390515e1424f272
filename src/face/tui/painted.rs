//! Converts text with SGR sequences to text with styles for the cells of a screen (pure).

use std::ops::Range;

use ratatui::style::{Color, Modifier, Style};

/// A line of sanitized text with styled ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StyledText {
    pub text: String,
    /// Byte ranges in order, without overlaps.
    pub runs: Vec<(Range<usize>, Style)>,
}

impl StyledText {
    pub fn plain(text: String, style: Style) -> Self {
        let end = text.len();
        let has_style = style != Style::new() && end > 0;
        let runs = has_style.then_some((0..end, style)).into_iter().collect();
        Self { text, runs }
    }

    /// Converts text whose only escape sequences are SGR, as [`Painter`](crate::face::ansi::Painter) and
    /// `LineStyles` write it.
    pub fn painted(painted: &str) -> Self {
        let mut line = Self::default();
        let mut style = Style::new();
        let mut parts = painted.split("\x1b[");
        line.push(parts.next().unwrap_or_default(), style);
        for part in parts {
            let end = part.bytes().position(|byte| byte == b'm');
            let (sgr, text) = match end {
                Some(end) => (&part[..end], &part[end + 1..]),
                None => ("", part),
            };
            style = with_sgr(style, sgr);
            line.push(text, style);
        }
        line
    }

    pub fn push(&mut self, text: &str, style: Style) {
        let start = self.text.len();
        self.text.push_str(text);
        if style == Style::new() || text.is_empty() {
            return;
        }
        match self.runs.last_mut() {
            Some((range, last)) if range.end == start && *last == style => {
                range.end = self.text.len();
            }
            _ => self.runs.push((start..self.text.len(), style)),
        }
    }

    /// Appends another line to this one.
    pub fn extend(&mut self, other: &Self) {
        let start = self.text.len();
        self.text.push_str(&other.text);
        let moved = other.runs.iter().map(|(range, style)| {
            let range = range.start + start..range.end + start;
            (range, *style)
        });
        self.runs.extend(moved);
    }
}

/// Applies the parameters of an SGR sequence (ECMA-48, and colours as in xterm).
fn with_sgr(style: Style, params: &str) -> Style {
    let mut style = style;
    let mut parts = params.split([';', ':']);
    while let Some(part) = parts.next() {
        let code = match part {
            "" => 0,
            part => part.parse().unwrap_or(u16::MAX),
        };
        style = match code {
            0 => Style::new(),
            1 => style.add_modifier(Modifier::BOLD),
            2 => style.add_modifier(Modifier::DIM),
            3 => style.add_modifier(Modifier::ITALIC),
            4 | 21 => style.add_modifier(Modifier::UNDERLINED),
            5 | 6 => style.add_modifier(Modifier::SLOW_BLINK),
            7 => style.add_modifier(Modifier::REVERSED),
            8 => style.add_modifier(Modifier::HIDDEN),
            9 => style.add_modifier(Modifier::CROSSED_OUT),
            22 => style.remove_modifier(Modifier::BOLD | Modifier::DIM),
            23 => style.remove_modifier(Modifier::ITALIC),
            24 => style.remove_modifier(Modifier::UNDERLINED),
            25 => style.remove_modifier(Modifier::SLOW_BLINK),
            27 => style.remove_modifier(Modifier::REVERSED),
            28 => style.remove_modifier(Modifier::HIDDEN),
            29 => style.remove_modifier(Modifier::CROSSED_OUT),
            30..=37 => style.fg(indexed(code - 30)),
            38 => match colour(&mut parts) {
                Some(colour) => style.fg(colour),
                None => return style,
            },
            39 => Style { fg: None, ..style },
            40..=47 => style.bg(indexed(code - 40)),
            48 => match colour(&mut parts) {
                Some(colour) => style.bg(colour),
                None => return style,
            },
            49 => Style { bg: None, ..style },
            90..=97 => style.fg(indexed(code - 90 + 8)),
            100..=107 => style.bg(indexed(code - 100 + 8)),
            _ => style,
        };
    }
    style
}

/// Returns one of the 16 standard colours.
fn indexed(number: u16) -> Color {
    const COLOURS: [Color; 16] = [
        Color::Black,
        Color::Red,
        Color::Green,
        Color::Yellow,
        Color::Blue,
        Color::Magenta,
        Color::Cyan,
        Color::Gray,
        Color::DarkGray,
        Color::LightRed,
        Color::LightGreen,
        Color::LightYellow,
        Color::LightBlue,
        Color::LightMagenta,
        Color::LightCyan,
        Color::White,
    ];
    COLOURS[usize::from(number) % COLOURS.len()]
}

/// Parses a colour: an index, or three channels.
fn colour<'p>(parts: &mut impl Iterator<Item = &'p str>) -> Option<Color> {
    match parts.next()? {
        "5" => Some(match parts.next()?.parse::<u8>().ok()? {
            number @ 0..16 => indexed(u16::from(number)),
            number => Color::Indexed(number),
        }),
        "2" => {
            // With colons, an empty colour space may precede the channels.
            let first = parts.next().filter(|part| !part.is_empty());
            let first = first.or_else(|| parts.next())?;
            let mut channel = || parts.next()?.parse::<u8>().ok();
            Some(Color::Rgb(first.parse().ok()?, channel()?, channel()?))
        }
        _ => None,
    }
}

/// Returns the nearest colour of a terminal with 16 colours.
pub(super) fn nearest(colour: Color) -> Color {
    let (r, g, b) = match colour {
        Color::Rgb(r, g, b) => (r, g, b),
        // The colour cube has 6 levels per channel; 24 greys follow.
        Color::Indexed(number @ 16..232) => {
            let number = number - 16;
            let level = |value: u8| if value == 0 { 0 } else { 55 + 40 * value };
            (level(number / 36), level(number / 6 % 6), level(number % 6))
        }
        Color::Indexed(number @ 232..) => {
            let grey = 8 + 10 * (number - 232);
            (grey, grey, grey)
        }
        Color::Indexed(number) => return indexed(u16::from(number)),
        colour => return colour,
    };
    let (high, low) = (r.max(g).max(b), r.min(g).min(b));
    if high - low < 48 {
        return match high {
            0..64 => Color::Black,
            64..128 => Color::DarkGray,
            128..208 => Color::Gray,
            208.. => Color::White,
        };
    }
    // A channel is set if it is nearer to the strongest channel than to the weakest.
    let middle = u16::from(high).midpoint(u16::from(low));
    let bit = |value: u8, bit: u16| if u16::from(value) > middle { bit } else { 0 };
    let bright = if high > 208 { 8 } else { 0 };
    indexed(bit(r, 1) + bit(g, 2) + bit(b, 4) + bright)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sequences_become_styles() {
        let line = StyledText::painted("a\x1b[1;31mb\x1b[0m c\x1b[38;5;208md\x1b[48:2::1:2:3me");
        assert_eq!(line.text, "ab cde");
        let bold_red = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
        let orange = Style::new().fg(Color::Indexed(208));
        assert_eq!(
            line.runs,
            [
                (1..2, bold_red),
                (4..5, orange),
                (5..6, orange.bg(Color::Rgb(1, 2, 3)))
            ]
        );
    }

    #[test]
    fn colours_become_the_nearest_of_16() {
        for (colour, expected) in [
            (Color::Indexed(196), Color::LightRed),
            (Color::Indexed(208), Color::LightYellow),
            (Color::Indexed(28), Color::Green),
            (Color::Indexed(245), Color::Gray),
            (Color::Rgb(0, 0, 160), Color::Blue),
            (Color::Rgb(250, 240, 0), Color::LightYellow),
            (Color::Rgb(255, 255, 255), Color::White),
            (Color::Cyan, Color::Cyan),
        ] {
            assert_eq!(nearest(colour), expected, "{colour:?}");
        }
    }

    proptest! {
        #[test]
        fn any_parameters_are_a_style(params in "[0-9;:]{0,40}", number: u8, rgb: (u8, u8, u8)) {
            with_sgr(Style::new(), &params);
            nearest(Color::Indexed(number));
            nearest(Color::Rgb(rgb.0, rgb.1, rgb.2));
        }

        #[test]
        fn no_text_is_lost(parts in prop::collection::vec(("[a-zü漢 ]{0,5}", "[0-9;]{0,6}"), 0..9)) {
            let painted: String = parts.iter().map(|(text, sgr)| format!("{text}\x1b[{sgr}m")).collect();
            let plain: String = parts.iter().map(|(text, _)| text.as_str()).collect();
            let line = StyledText::painted(&painted);
            prop_assert_eq!(&line.text, &plain);
            let mut end = 0;
            for (range, _) in &line.runs {
                prop_assert!(range.start >= end && range.end <= plain.len());
                prop_assert!(plain.is_char_boundary(range.start) && plain.is_char_boundary(range.end));
                end = range.end;
            }
        }
    }
}
