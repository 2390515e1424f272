//! Prints into a terminal's cells: wrapping, wide characters, marks and joiners (pure).

use super::super::capture::TmuxVersion;
use super::cell::{Cell, JOINER};
use super::grid::Grid;
use super::terminal::{Pen, Position, Terminal};

impl Terminal {
    /// Prints characters from space to tilde.
    pub fn print_ascii(&mut self, mut text: &[u8]) {
        self.last = text.last().map(|last| char::from(*last)).or(self.last);
        if !self.wrap || self.insert {
            for byte in text {
                if std::mem::take(&mut self.joins) {
                    self.join(char::from(*byte))
                } else {
                    self.put(Cell::ascii(*byte), 1)
                }
            }
            return;
        }
        let width = self.width();
        while !text.is_empty() {
            if self.cursor.x >= width {
                self.line_feed(true);
                self.cursor.x = 0;
            }
            let (now, rest) = text.split_at(text.len().min(width - self.cursor.x));
            let x = self.cursor.x;
            self.split(now.len());
            let ink = self.ink;
            let row = self.grid.row(self.cursor.y);
            row.set_ascii(x, now, width);
            row.inks.set(x, x + now.len(), ink);
            self.cursor.x += now.len();
            text = rest;
        }
    }

    /// Prints a character beyond ASCII.
    pub fn print(&mut self, character: char) {
        self.last = None;
        if self.version >= TmuxVersion::new(3, 4) {
            self.print_from_3_4(character);
            return;
        }
        if character == JOINER {
            self.joins = true;
            return;
        }
        let Some(columns) = self.grid.clusters.widths.columns(character) else {
            return;
        };
        match (std::mem::take(&mut self.joins), columns) {
            (true, _) => self.join(character),
            (false, 0) => self.combine(character),
            (false, _) => self.put(Cell::of(character), columns),
        }
    }

    /// Adds a joiner and the character after it to the character before the cursor.
    fn join(&mut self, character: char) {
        self.combine(JOINER);
        self.combine(character);
    }

    /// Prints a character beyond ASCII as tmux does from 3.4 on.
    fn print_from_3_4(&mut self, character: char) {
        if self.version >= TmuxVersion::new(3, 5) {
            self.last = Some(character);
        }
        let Some(columns) = self.grid.clusters.widths.columns(character) else {
            return;
        };
        self.make_room_for_clusters();
        if !self.combines(character, columns) {
            self.put(Cell::of(character), columns);
        }
    }

    /// Prints a code beyond the last character. From 3.4 on, tmux prints its four bytes, none of which
    /// is text.
    pub fn print_beyond(&mut self) {
        self.last = None;
        if self.version < TmuxVersion::new(3, 4) {
            return;
        }
        self.make_room_for_clusters();
        let bytes = [char::REPLACEMENT_CHARACTER; 4];
        let cell = Cell::of(bytes[0]);
        let rest: String = bytes[1..].iter().collect();
        let cell = self.grid.clusters.with(cell, &rest);
        self.put(cell, 1);
    }

    pub(super) fn make_room_for_clusters(&mut self) {
        if self.grid.clusters.is_full() {
            let saved = self.saved.iter_mut().flat_map(|saved| &mut saved.rows);
            let rows = self.grid.rows.iter_mut().chain(saved);
            let cells = rows.flat_map(|row| &mut row.cells);
            self.grid.clusters.keep(cells);
        }
    }

    /// Adds a mark to the character before the cursor.
    fn combine(&mut self, mark: char) {
        self.make_room_for_clusters();
        let (y, width) = (self.cursor.y, self.width());
        let row = self.grid.row(y);
        let Some(x) = (0..self.cursor.x)
            .rev()
            .find(|&x| row.get(x) != Cell::PADDING)
        else {
            return;
        };
        let cell = row.get(x);
        if let Some(cell) = self.grid.clusters.combine(cell, mark) {
            self.grid.row(y).set(x, cell, width);
        }
    }

    pub(super) fn put(&mut self, cell: Cell, columns: usize) {
        let width = self.width();
        if columns > width {
            return;
        }
        let fits = self.cursor.x + columns <= width;
        if !self.wrap && columns > 1 && !fits && self.cursor.x != width {
            return;
        }
        if self.insert {
            let Position { x, y } = self.cursor;
            self.grid.row(y).insert(x, columns, width);
        }
        if !fits {
            if !self.wrap {
                return;
            }
            self.line_feed(true);
            self.cursor.x = 0;
        }
        let Position { x, y } = self.cursor;
        let plain = self.pen == Pen::default() && !self.insert && columns == 1;
        let Grid { rows, clusters, .. } = &mut self.grid;
        let Some(row) = rows.get_mut(y) else {
            return;
        };
        row.split_for_one(x, columns, clusters);
        if plain && cell == Cell::BLANK && x >= row.room {
            // tmux does not write a blank into a cell that is not allocated.
            self.advance_cursor(columns);
            return;
        }
        for padding in x + 1..x + columns {
            row.set(padding, Cell::PADDING, width);
        }
        row.set(x, cell, width);
        row.inks.set(x, x + columns, self.ink);
        self.advance_cursor(columns);
    }

    /// Moves the cursor behind a character. Without wrapping, it stays in the last column.
    fn advance_cursor(&mut self, columns: usize) {
        let width = self.width();
        let edge = if self.wrap { width } else { width - 1 };
        self.cursor.x = (self.cursor.x + columns).min(edge);
    }

    /// Removes wide characters that text in the next cells would cut in half.
    fn split(&mut self, cells: usize) {
        let Position { x, y } = self.cursor;
        let Grid { rows, clusters, .. } = &mut self.grid;
        if let Some(row) = rows.get_mut(y) {
            let keeps_first = self.version < TmuxVersion::new(3, 6);
            row.split(x, cells, clusters, keeps_first);
        }
    }

    /// Repeats the last character, up to the end of the row.
    pub fn repeat(&mut self, count: usize) {
        if let Some(last) = self.last {
            let count = count.min(self.width().saturating_sub(self.cursor.x));
            match u8::try_from(last) {
                Ok(byte) if byte.is_ascii() => self.print_ascii(&vec![byte; count]),
                _ => (0..count).for_each(|_| self.print(last)),
            }
        }
    }
}

// Combines characters with the one before them, as tmux does from 3.4 on (pure).
//
// Older versions combine only marks and characters after a joiner, see [`Terminal::print`].

/// The variation selector for the emoji form of a character.
const EMOJI_FORM: char = '\u{fe0f}';

/// The effect of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It gets a cell of its own.
    Alone,
    /// It joins the character before it.
    Joins { makes_wide: bool },
    /// It is not printed.
    Dropped,
}

impl Terminal {
    /// Combines a character with the one before the cursor, or drops it. Returns false, without an
    /// effect, if it gets a cell of its own.
    pub(super) fn combines(&mut self, character: char, columns: usize) -> bool {
        let from_3_6 = self.version >= TmuxVersion::new(3, 6);
        // Hangul's filler, which tmux does not print.
        if character == '\u{3164}' && from_3_6 {
            return true;
        }
        let is_mark = columns == 0 || matches!(character, JOINER | EMOJI_FORM);
        let Some((x, cell)) = self.before_cursor() else {
            return is_mark;
        };
        let fate = if is_mark {
            Fate::Joins {
                makes_wide: character == EMOJI_FORM,
            }
        } else {
            self.fate(cell, character)
        };
        let makes_wide = match fate {
            Fate::Alone => return false,
            Fate::Dropped => return true,
            Fate::Joins { makes_wide } => makes_wide,
        };
        let clusters = &mut self.grid.clusters;
        let wide = clusters.columns(cell);
        let becomes_wide = makes_wide && wide == 1;
        let columns = if becomes_wide { 2 } else { wide };
        let Some(combined) = clusters.combine_as(cell, character, columns) else {
            return is_mark && self.version >= TmuxVersion::new(3, 8);
        };
        let (y, width) = (self.cursor.y, self.width());
        self.grid.row(y).set(x, combined, width);
        if becomes_wide {
            // Before 3.5, tmux puts the padding one column too far.
            let padding = if self.version < TmuxVersion::new(3, 5) {
                x + 2
            } else {
                x + 1
            };
            self.grid.row(y).set(padding, Cell::PADDING, width);
            self.cursor.x = (self.cursor.x + 1).min(width);
        }
        true
    }

    /// Returns the character that ends right before the cursor, if any, and its column.
    fn before_cursor(&mut self) -> Option<(usize, Cell)> {
        let (x, y) = (self.cursor.x, self.cursor.y);
        let mut back = 1;
        let mut cell = self.grid.row(y).get(x.checked_sub(back)?);
        if x != 1 && cell == Cell::PADDING {
            back = 2;
            cell = self.grid.row(y).get(x.checked_sub(back)?);
        }
        let ends_here = cell != Cell::PADDING && self.grid.clusters.columns(cell) == back;
        ends_here.then_some((x - back, cell))
    }

    /// Returns the effect of a character that is not a mark.
    fn fate(&self, before: Cell, character: char) -> Fate {
        let mut text = String::new();
        self.grid.clusters.show(before, &mut text);
        let follows_joiner = text.ends_with(JOINER);
        let joined = Fate::Joins { makes_wide: false };
        let first = text.chars().next().unwrap_or(' ');
        if self.version < TmuxVersion::new(3, 6) {
            return match (is_modifier(character), follows_joiner) {
                (true, _) if text.len() < 2 => Fate::Alone,
                (true, _) => Fate::Joins { makes_wide: true },
                (false, true) => joined,
                (false, false) => Fate::Alone,
            };
        }
        let last = text.chars().next_back().unwrap_or(' ');
        match (Jamo::of(last), Jamo::of(character)) {
            (_, Some(Jamo::Initial)) => return Fate::Alone,
            (Some(Jamo::Initial), Some(Jamo::Medial)) => return joined,
            (Some(Jamo::Medial), Some(Jamo::Final)) => return joined,
            (_, Some(_)) => return Fate::Dropped,
            (_, None) => {}
        }
        let counts = self.version >= TmuxVersion::new(3, 7);
        if is_indicator(first) && is_indicator(character) {
            // A flag has two indicators.
            let indicators = text.chars().filter(|part| is_indicator(*part)).count();
            let whole = counts && indicators != 1;
            if !whole {
                return Fate::Joins { makes_wide: true };
            }
        }
        if is_tone(first) && has_tones(character) || is_tone(character) && has_tones(first) {
            return Fate::Joins { makes_wide: true };
        }
        if follows_joiner { joined } else { Fate::Alone }
    }
}

/// A part of a Hangul syllable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Jamo {
    Initial,
    Medial,
    Final,
}

impl Jamo {
    fn of(character: char) -> Option<Self> {
        Some(match character {
            '\u{1100}'..='\u{115f}' | '\u{a960}'..='\u{a97c}' => Self::Initial,
            '\u{1160}'..='\u{11a7}' | '\u{d7b0}'..='\u{d7c6}' => Self::Medial,
            '\u{11a8}'..='\u{11ff}' | '\u{d7cb}'..='\u{d7fb}' => Self::Final,
            _ => return None,
        })
    }
}

/// Returns true if a character is a regional indicator, half of a flag.
fn is_indicator(character: char) -> bool {
    matches!(character, '\u{1f1e6}'..='\u{1f1ff}')
}

/// Returns true if a character is a skin tone.
fn is_tone(character: char) -> bool {
    matches!(character, '\u{1f3fb}'..='\u{1f3ff}')
}

fn is_modifier(character: char) -> bool {
    is_indicator(character) || is_tone(character)
}

/// Returns true if tmux combines a character with a skin tone.
fn has_tones(character: char) -> bool {
    matches!(u32::from(character),
        0x1f44b..=0x1f450 | 0x1f466..=0x1f469 | 0x1f46e | 0x1f470..=0x1f478 | 0x1f47c
        | 0x1f481..=0x1f483 | 0x1f485..=0x1f487 | 0x1f4aa | 0x1f575 | 0x1f57a | 0x1f590
        | 0x1f595 | 0x1f596 | 0x1f645..=0x1f647 | 0x1f64b..=0x1f64f | 0x1f6b4..=0x1f6b6
        | 0x1f926 | 0x1f937..=0x1f939 | 0x1f93d | 0x1f93e | 0x1f9b5 | 0x1f9b6 | 0x1f9b8
        | 0x1f9b9 | 0x1f9cd..=0x1f9cf | 0x1f9d1..=0x1f9df)
}
