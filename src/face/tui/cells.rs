//! How styled text is wrapped, and how it becomes the cells of a terminal (pure).

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::event::{Colour, Ink};
use crate::face::sanitize::with_ellipsis;
use crate::face::styled_text::StyledText;

/// Returns the style of text in these colours.
pub(super) fn style_of_ink(ink: Ink) -> Style {
    let mut style = Style {
        fg: ink.foreground.map(colour),
        bg: ink.background.map(colour),
        ..Style::new()
    };
    for (code, modifier) in [
        (1, Modifier::BOLD),
        (2, Modifier::DIM),
        (3, Modifier::ITALIC),
        (4, Modifier::UNDERLINED),
        (5, Modifier::SLOW_BLINK),
        (7, Modifier::REVERSED),
        (8, Modifier::HIDDEN),
        (9, Modifier::CROSSED_OUT),
    ] {
        if ink.has(code) {
            style = style.add_modifier(modifier);
        }
    }
    style
}

fn colour(colour: Colour) -> Color {
    match colour {
        Colour::Indexed(number @ 0..16) => indexed(u16::from(number)),
        Colour::Indexed(number) => Color::Indexed(number),
        Colour::Rgb(red, green, blue) => Color::Rgb(red, green, blue),
    }
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

/// Wraps sanitized text at its blanks; words that are too long are split.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    // A wide character takes two columns.
    let columns = columns.max(2);
    let mut rows = vec![String::new()];
    for word in text.split(' ') {
        let used = rows.last().map_or(0, |row| row.width());
        let blank = usize::from(used > 0);
        if used + blank + word.width() > columns && used > 0 {
            rows.push(String::new());
        } else if blank > 0
            && let Some(row) = rows.last_mut()
        {
            row.push(' ');
        }
        for c in word.chars() {
            let width = c.width().unwrap_or(0);
            if rows.last().is_some_and(|row| row.width() + width > columns) {
                rows.push(String::new());
            }
            if let Some(row) = rows.last_mut() {
                row.push(c);
            }
        }
    }
    rows
}

/// Returns the columns of a line at which its rows begin if it is split at some columns. A wide character that
/// does not fit begins the next row.
pub(super) fn row_starts(text: &str, columns: usize) -> impl Iterator<Item = usize> {
    let (mut start, mut end) = (0, 0);
    let later = text.chars().filter_map(move |c| {
        let width = c.width().unwrap_or(0);
        // Each row has a character, even if there is no room for a wide one.
        let is_next = width > 0 && end > start && end + width > start + columns;
        if is_next {
            start = end;
        }
        end += width;
        is_next.then_some(start)
    });
    std::iter::once(0).chain(later)
}

/// Wraps sanitized text into at most `lines_max` lines, with an ellipsis if it is cut.
pub(super) fn wrapped_to(text: &str, columns: usize, lines_max: usize) -> Vec<String> {
    let mut rows = wrapped(text, columns);
    if rows.len() > lines_max {
        rows.truncate(lines_max);
        if let Some(row) = rows.last_mut() {
            while row.width() + 1 > columns && row.pop().is_some() {}
            row.push('…');
        }
    }
    rows
}

pub(super) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Writes sanitized text at a position, at most `columns` wide; returns the columns written.
pub(super) fn put(
    buffer: &mut Buffer,
    x: u16,
    y: u16,
    columns: u16,
    text: &str,
    style: Style,
) -> u16 {
    put_text(buffer, (x, y), columns, (text, 0), |_| style)
}

/// Writes the part of a line that begins at column `from`. Returns the columns written.
pub(super) fn put_line(
    buffer: &mut Buffer,
    (x, y): (u16, u16),
    columns: u16,
    line: &StyledText,
    from: usize,
) -> u16 {
    let runs = line.runs.iter();
    let mut runs = runs
        .map(|(range, ink)| (range, style_of_ink(*ink)))
        .peekable();
    put_text(buffer, (x, y), columns, (&line.text, from), |at| {
        while runs.next_if(|(range, _)| range.end <= at).is_some() {}
        match runs.peek() {
            Some((range, style)) if range.contains(&at) => *style,
            _ => Style::new(),
        }
    })
}

/// Writes the part of a text that begins at column `from`, with the style of each byte position; the positions
/// ascend. Returns the columns written.
fn put_text(
    buffer: &mut Buffer,
    (x, y): (u16, u16),
    columns: u16,
    (text, from): (&str, usize),
    mut style_at: impl FnMut(usize) -> Style,
) -> u16 {
    let area = buffer.area;
    if y >= area.bottom() || x >= area.right() {
        return 0;
    }
    let columns = usize::from(columns.min(area.right() - x));
    let (mut column, mut last) = (0, None);
    for (at, c) in text.char_indices() {
        let style = style_at(at);
        let width = c.width().unwrap_or(0);
        if width == 0 {
            // A character without width belongs to the character before it.
            if let Some(last) = last {
                let cell = &mut buffer[last];
                let symbol = format!("{}{c}", cell.symbol());
                cell.set_symbol(&symbol);
            }
            continue;
        }
        if column + width > from + columns {
            break;
        }
        if column >= from {
            let place = column - from;
            // The columns of a screen fit into 16 bits.
            let place = (x + u16::try_from(place).unwrap_or(u16::MAX), y);
            buffer[place].set_char(c).set_style(style);
            last = Some(place);
            if width == 2 {
                buffer[(place.0 + 1, y)].reset();
            }
        }
        column += width;
    }
    u16::try_from(column.saturating_sub(from)).unwrap_or(u16::MAX)
}

/// Writes the title of a part into its first row.
pub(super) fn put_title(buffer: &mut Buffer, area: Rect, text: &str, is_focused: bool) {
    let style = if is_focused {
        BOLD.add_modifier(Modifier::REVERSED)
    } else {
        BOLD
    };
    // The focused part is marked without attributes, too.
    let mark = if is_focused { " ◂" } else { "  " };
    let room = usize::from(area.width).saturating_sub(mark.width());
    let text = fitted(text, room) + mark;
    put(buffer, area.x, area.y, area.width, &text, style);
}

/// Changes the style of a row of cells.
pub(super) fn restyle(buffer: &mut Buffer, (x, y): (u16, u16), columns: u16, style: Style) {
    buffer.set_style(Rect::new(x, y, columns, 1), style);
}

/// Returns text cut to `columns`, with an ellipsis if it is cut, and padded with blanks.
pub(super) fn fitted(text: &str, columns: usize) -> String {
    let mut out = with_ellipsis(text, columns);
    let used: usize = out.chars().map(|c| c.width().unwrap_or(0)).sum();
    out.push_str(&" ".repeat(columns.saturating_sub(used)));
    out
}

/// The colours of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colours {
    /// Bold, dim and reversed text only.
    None,
    /// The palette of the terminal, which suits its background.
    Sixteen,
    /// All colours that programs in panes use.
    All,
}

/// The abilities of the terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    pub colours: Colours,
    pub is_utf8: bool,
}

/// Characters of the UI, each with its replacement in ASCII after it.
const ASCII: &str = "│|─-✓+●*·.▸>◂<↑^↓v█#▒=…~←<→>";

impl Theme {
    /// Reads the abilities from the environment: `NO_COLOR`, `TERM`, `COLORTERM` and the locale.
    pub fn from_env(coloured: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        let term = variable("TERM").unwrap_or_default();
        let has_all = variable("COLORTERM").is_some_and(|value| !value.is_empty())
            || ["256", "direct", "tmux", "kitty", "alacritty", "ghostty"]
                .iter()
                .any(|name| term.contains(name));
        let is_mono = matches!(term.as_str(), "dumb" | "vt100" | "vt220") || term.ends_with("-m");
        let colours = match (coloured && !is_mono, has_all) {
            (false, _) => Colours::None,
            (true, true) => Colours::All,
            (true, false) => Colours::Sixteen,
        };
        // The first variable that is set decides, as in the C library.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| variable(name).filter(|value| !value.is_empty()));
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        Self {
            colours,
            is_utf8: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    /// Changes the cells to what the terminal can display.
    pub fn apply(&self, buffer: &mut Buffer) {
        if self.colours == Colours::All && self.is_utf8 {
            return;
        }
        let mut is_second_half = false;
        for cell in &mut buffer.content {
            match self.colours {
                Colours::All => {}
                Colours::Sixteen => (cell.fg, cell.bg) = (nearest(cell.fg), nearest(cell.bg)),
                Colours::None => (cell.fg, cell.bg) = (Color::Reset, Color::Reset),
            }
            if self.is_utf8 {
                continue;
            }
            if std::mem::take(&mut is_second_half) {
                cell.set_char('?');
            } else if !cell.symbol().is_ascii() {
                // Both halves of a wide character are replaced, so that its width stays.
                is_second_half = UnicodeWidthStr::width(cell.symbol()) > 1;
                let known = cell.symbol().chars().next().and_then(|c| ASCII.find(c));
                let ascii = known.and_then(|at| ASCII[at..].chars().nth(1));
                cell.set_char(ascii.unwrap_or('?'));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            let mut ink = Ink::default();
            ink.apply(&params);
            style_of_ink(ink);
            nearest(Color::Indexed(number));
            nearest(Color::Rgb(rgb.0, rgb.1, rgb.2));
        }
    }

    proptest! {
        #[test]
        fn no_word_is_lost_and_no_row_too_long(text in "[a-z漢 ]{0,60}", columns in 2_usize..20, lines in 1_usize..5) {
            let rows = wrapped(&text, columns);
            prop_assert!(rows.iter().all(|row| row.width() <= columns), "{rows:?}");
            let letters = |text: &str| text.replace(' ', "");
            prop_assert_eq!(letters(&rows.concat()), letters(&text));
            let cut = wrapped_to(&text, columns, lines);
            prop_assert!(cut.len() <= lines && cut.iter().all(|row| row.width() <= columns), "{cut:?}");
            prop_assert_eq!(cut.concat().ends_with('…'), rows.len() > lines);
        }

        #[test]
        fn rows_begin_at_characters_and_are_full(text in "[a-z漢é\u{301}]{0,60}", columns in 0_usize..9) {
            let starts: Vec<usize> = row_starts(&text, columns).collect();
            let width: usize = text.chars().map(|c| c.width().unwrap_or(0)).sum();
            prop_assert!(starts.is_sorted_by(|one, next| one < next), "{starts:?}");
            let ends = starts.iter().skip(1).chain([&width]);
            for (start, end) in starts.iter().zip(ends) {
                prop_assert!(end - start <= columns.max(2), "{starts:?}");
                prop_assert!(*end == width || end - start + 1 >= columns, "{starts:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn text_stays_in_its_columns(text in "[a-z漢é\u{301}]{0,12}", x in 0_u16..12, columns in 0_u16..12, from in 0_usize..9) {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 10, 1));
            let line = StyledText::plain(text.clone(), Ink::default());
            put_line(&mut buffer, (x, 0), columns, &line, from);
            for at in 0..10 {
                let is_inside = at >= x && at < x.saturating_add(columns);
                prop_assert!(is_inside || buffer[(at, 0)].symbol() == " ");
            }
            prop_assert_eq!(fitted(&text, usize::from(columns)).width(), usize::from(columns));
        }

        #[test]
        fn no_character_of_a_wrapped_line_is_lost(text in "[a-z漢]{0,40}", columns in 2_u16..12) {
            let line = StyledText::plain(text.clone(), Ink::default());
            let mut shown = String::new();
            for from in row_starts(&text, usize::from(columns)) {
                let mut buffer = Buffer::empty(Rect::new(0, 0, columns, 1));
                put_line(&mut buffer, (0, 0), columns, &line, from);
                let symbols = buffer.content.iter().map(|cell| cell.symbol());
                shown.extend(symbols.filter(|symbol| *symbol != " "));
            }
            prop_assert_eq!(shown, text);
        }
    }

    #[test]
    fn abilities_are_read_from_the_environment() {
        let theme = |coloured, variables: &[(&str, &str)]| {
            let variables: Vec<(String, String)> = variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            Theme::from_env(coloured, move |name| {
                variables
                    .iter()
                    .find(|(of, _)| of == name)
                    .map(|(_, value)| value.clone())
            })
        };
        let usual = theme(true, &[("TERM", "xterm-256color"), ("LANG", "C.UTF-8")]);
        assert!(usual.is_utf8 && usual.colours == Colours::All);
        assert_eq!(theme(true, &[("TERM", "xterm")]).colours, Colours::Sixteen);
        assert_eq!(
            theme(false, &[("TERM", "xterm-256color")]).colours,
            Colours::None
        );
        assert_eq!(theme(true, &[("TERM", "vt100")]).colours, Colours::None);
        let posix = theme(true, &[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]);
        assert!(!posix.is_utf8);
    }

    #[test]
    fn without_utf_8_each_cell_has_one_ascii_character() {
        let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, 12, 1));
        buffer.set_string(0, 0, "a日本é✓│b", Style::new());
        let theme = Theme {
            colours: Colours::All,
            is_utf8: false,
        };
        theme.apply(&mut buffer);
        let symbols: Vec<&str> = buffer.content.iter().map(|cell| cell.symbol()).collect();
        assert_eq!(symbols.concat(), "a?????+|b   ");
        assert!(
            symbols.iter().all(|symbol| symbol.len() == 1),
            "{symbols:?}"
        );
    }
}
