//! Draws and erases the live rows at the foot of a terminal, also after a resize (pure).

use super::ansi::rows_of;

/// The live rows that are on the terminal.
#[derive(Debug, Default)]
pub(super) struct LiveRows {
    rows: Vec<String>,
    columns: usize,
}

impl LiveRows {
    /// Returns true if the terminal shows exactly these rows.
    pub fn shows(&self, rows: &[String], columns: usize) -> bool {
        self.rows == rows && (rows.is_empty() || self.columns == columns)
    }

    /// Returns true if the terminal shows no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Draws rows; no rows may be shown. The cursor stays in the last row.
    pub fn draw(&mut self, rows: Vec<String>, columns: usize) -> String {
        let drawn = rows.join("\n");
        (self.rows, self.columns) = (rows, columns);
        drawn
    }

    /// Erases the rows on a terminal that now has this many columns: the terminal has wrapped wider rows.
    pub fn erase(&mut self, columns: usize) -> String {
        let rows = std::mem::take(&mut self.rows).into_iter();
        let rows: usize = rows.map(|row| rows_of(&row, columns)).sum();
        match rows {
            0 => String::new(),
            1 => "\r\x1b[K".to_owned(),
            _ => format!("\r\x1b[{}A\x1b[J", rows - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_the_terminal_wrapped_are_erased() {
        let mut live = LiveRows::default();
        assert_eq!(live.erase(80), "");
        let rows = vec!["a".repeat(50), "\u{1b}[31mb\u{1b}[0m".to_owned()];
        assert_eq!(
            live.draw(rows.clone(), 79),
            format!("{}\n\u{1b}[31mb\u{1b}[0m", "a".repeat(50))
        );
        assert!(live.shows(&rows, 79) && !live.shows(&rows, 60) && !live.shows(&rows[..1], 79));
        assert_eq!(live.erase(80), "\r\u{1b}[1A\u{1b}[J");
        assert_eq!(live.erase(80), "");
        live.draw(rows, 79);
        assert_eq!(live.erase(20), "\r\u{1b}[3A\u{1b}[J");
        live.draw(vec!["x".to_owned()], 79);
        assert_eq!(live.erase(80), "\r\u{1b}[K");
        assert!(live.shows(&[], 3));
    }
}
