//! The live rows at the foot of a terminal: drawn, and erased again, also after a resize (pure).

use super::sgr::columns_of;

/// What stands at the foot.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    rows: Vec<String>,
    columns: usize,
}

impl Drawn {
    /// Whether just this stands there.
    pub fn is(&self, rows: &[String], columns: usize) -> bool {
        self.rows == rows && (rows.is_empty() || self.columns == columns)
    }

    /// What draws these rows, where nothing stands at the foot. The cursor stays in the last.
    pub fn draw(&mut self, rows: Vec<String>, columns: usize) -> String {
        let drawn = rows.join("\n");
        (self.rows, self.columns) = (rows, columns);
        drawn
    }

    /// What erases them, on a terminal that has so many columns now: it has wrapped the rows that do
    /// not fit any more.
    pub fn erase(&mut self, columns: usize) -> String {
        let rows = std::mem::take(&mut self.rows).into_iter();
        let rows: usize = rows
            .map(|row| columns_of(&row).div_ceil(columns.max(1)).max(1))
            .sum();
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
    fn rows_are_erased_as_a_terminal_has_wrapped_them() {
        let mut drawn = Drawn::default();
        assert_eq!(drawn.erase(80), "");
        let rows = vec!["a".repeat(50), "\u{1b}[31mb\u{1b}[0m".to_owned()];
        assert_eq!(
            drawn.draw(rows.clone(), 79),
            format!("{}\n\u{1b}[31mb\u{1b}[0m", "a".repeat(50))
        );
        assert!(drawn.is(&rows, 79) && !drawn.is(&rows, 60) && !drawn.is(&rows[..1], 79));
        assert_eq!(drawn.erase(80), "\r\u{1b}[1A\u{1b}[J");
        assert_eq!(drawn.erase(80), "");
        drawn.draw(rows, 79);
        assert_eq!(drawn.erase(20), "\r\u{1b}[3A\u{1b}[J");
        drawn.draw(vec!["x".to_owned()], 79);
        assert_eq!(drawn.erase(80), "\r\u{1b}[K");
        assert!(drawn.is(&[], 3));
    }
}
