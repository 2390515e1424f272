//! Adapts a drawn screen to the terminal: without colours, with 16, or without UTF-8 (pure).

use ratatui::buffer::Buffer;
use ratatui::style::Color;
use unicode_width::UnicodeWidthStr;

use super::painted::nearest;

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

/// Characters of the UI, and their replacements in ASCII.
const ASCII: &[(char, char)] = &[
    ('│', '|'),
    ('─', '-'),
    ('✓', '+'),
    ('●', '*'),
    ('·', '.'),
    ('▸', '>'),
    ('◂', '<'),
    ('↑', '^'),
    ('↓', 'v'),
    ('█', '#'),
    ('▒', '='),
    ('…', '~'),
    ('←', '<'),
    ('→', '>'),
];

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
                let first = cell.symbol().chars().next().unwrap_or(' ');
                let known = ASCII.iter().find(|(symbol, _)| *symbol == first);
                cell.set_char(known.map_or('?', |(_, ascii)| *ascii));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

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
