//! Draws the alternate screen of a full-screen program on a recording's terminal (pure).

use std::fmt::Write;

use super::wrapping::first_row;
use crate::event::{Cursor, ScreenRow};
use crate::face::sanitize::sanitized;

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// The rows that were drawn last.
#[derive(Debug, Default)]
pub(super) struct AlternateScreen {
    width: usize,
    rows: Vec<String>,
    is_shown: bool,
}

impl AlternateScreen {
    pub fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Returns to the primary screen. The rows are kept, because earlier lines may settle while the program
    /// runs, and its next update contains only changed rows.
    pub fn leave(&mut self, out: &mut String) {
        if std::mem::take(&mut self.is_shown) {
            out.push_str(LEAVE);
        }
    }

    /// Draws the changed rows.
    pub fn draw(
        &mut self,
        (width, height): (usize, usize),
        cursor: Cursor,
        changed: &[ScreenRow],
        out: &mut String,
    ) {
        let entered = !std::mem::replace(&mut self.is_shown, true);
        if entered {
            out.push_str(ENTER);
        }
        let same_size = (self.width, self.rows.len()) == (width, height);
        if !same_size || entered && self.is_new_screen(changed) {
            self.width = width;
            self.rows.clear();
            self.rows.resize(height, String::new());
            if !entered {
                out.push_str("\x1b[2J");
            }
        } else if entered {
            for (row, text) in self
                .rows
                .iter()
                .enumerate()
                .filter(|(_, text)| !text.is_empty())
            {
                push_row(row, text, out);
            }
        }
        for ScreenRow { row, text } in changed {
            let row = *row as usize;
            if let Some(shown) = self.rows.get_mut(row) {
                first_row(&sanitized(text), width).clone_into(shown);
                push_row(row, shown, out);
            }
        }
        let (x, y) = (cursor.x as usize, cursor.y as usize);
        let (x, y) = (x.min(width - 1) + 1, y.min(height - 1) + 1);
        // Writing to a string does not fail.
        let _ = write!(out, "\x1b[{y};{x}H");
    }

    /// Guesses whether these rows begin a new screen. An update of the same screen never repeats an unchanged
    /// row. The first update of a new screen has no empty row, and usually many rows.
    fn is_new_screen(&self, changed: &[ScreenRow]) -> bool {
        let old = |row: &ScreenRow| self.rows.get(row.row as usize).map(String::as_str);
        if changed.iter().any(|row| row.text.is_empty()) {
            return false;
        }
        let used = self.rows.iter().filter(|text| !text.is_empty()).count();
        changed
            .iter()
            .any(|row| old(row) == Some(row.text.as_str()))
            || changed.len() * 2 >= used
    }
}

fn push_row(row: usize, text: &str, out: &mut String) {
    let _ = write!(out, "\x1b[{};1H\x1b[K{text}", row + 1);
}
