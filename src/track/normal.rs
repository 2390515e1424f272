//! The lines of a capture's normal screen, even if a full-screen program hides it (pure).

use std::borrow::Cow;

use super::align::Footprint;
use super::capture::{Capture, Row};
use super::lines::{LogicalLine, group};

/// The normal screen of a capture, with the rows of the history.
pub(super) struct NormalScreen<'a> {
    pub rows: Cow<'a, [Row]>,
    height: usize,
    cursor_row: u32,
}

impl<'a> NormalScreen<'a> {
    pub fn of(capture: &'a Capture) -> Self {
        match &capture.saved {
            Some(saved) if capture.alternate => {
                let mut rows = capture.rows[..capture.history_rows()].to_vec();
                rows.extend_from_slice(&saved.rows);
                Self {
                    rows: rows.into(),
                    height: saved.rows.len(),
                    cursor_row: saved.cursor.y,
                }
            }
            _ => {
                let mut rows = Cow::Borrowed(&capture.rows[..]);
                if capture.dead.is_some() && rows.last().is_some_and(is_death_notice) {
                    leave_out_notice(rows.to_mut());
                }
                Self {
                    height: (capture.height as usize).min(rows.len()),
                    rows,
                    // tmux moves the cursor of a dead pane, so only the text counts.
                    cursor_row: if capture.dead.is_some() {
                        0
                    } else {
                        capture.cursor.y
                    },
                }
            }
        }
    }

    pub fn footprint(&self, capture: &Capture) -> Footprint {
        Footprint::new(
            &self.rows,
            self.height,
            capture.history_size,
            self.cursor_row,
        )
    }

    /// Returns the footprint and the lines.
    pub fn in_full(&self, capture: &Capture) -> (Footprint, Vec<LogicalLine>) {
        let footprint = self.footprint(capture);
        let lines = self.lines(&footprint);
        (footprint, lines)
    }

    /// Returns the lines in use.
    pub fn lines(&self, footprint: &Footprint) -> Vec<LogicalLine> {
        let unused = (footprint.height - footprint.used).max(0) as usize;
        group(
            &self.rows[..self.rows.len() - unused],
            -footprint.history_rows,
        )
    }
}

/// Blanks the notice that tmux wrote into a dead pane.
pub(super) fn leave_out_notice(rows: &mut [Row]) {
    if let Some(notice) = rows.last_mut().filter(|row| is_death_notice(row)) {
        *notice = Row::default();
    }
}

/// Returns true if a row is the notice that tmux writes at the bottom of a dead pane.
fn is_death_notice(row: &Row) -> bool {
    row.text.starts_with("Pane is dead")
}
