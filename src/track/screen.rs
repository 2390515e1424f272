//! The changed rows on the alternate screen of a full-screen program (pure).

use super::capture::Row;
use super::change::Change;
use crate::event::{Cursor, ScreenRow};

/// The last reported screen.
#[derive(Debug, Default)]
pub(super) struct ScreenDiff {
    /// `None` while no full-screen program runs.
    shown: Option<Shown>,
}

#[derive(Debug)]
struct Shown {
    width: u32,
    height: u32,
    cursor: Cursor,
    rows: Vec<String>,
}

impl ScreenDiff {
    /// Returns the change of the screen, if any. A new screen, or one of a new size, is compared with
    /// a blank one: rows that the change does not contain are empty.
    pub fn update(
        &mut self,
        width: u32,
        height: u32,
        cursor: Cursor,
        rows: &[Row],
    ) -> Option<Change> {
        let same_size = self
            .shown
            .as_ref()
            .is_some_and(|shown| (shown.width, shown.height) == (width, height));
        if !same_size {
            let blank = vec![String::new(); rows.len()];
            self.shown = Some(Shown {
                width,
                height,
                cursor,
                rows: blank,
            });
        }
        let shown = self.shown.as_mut()?;
        let mut changed = Vec::new();
        for ((row, old), new) in (0..).zip(&mut shown.rows).zip(rows) {
            let text = new.text.trim_end_matches(' ');
            if old != text {
                text.clone_into(old);
                changed.push(ScreenRow {
                    row,
                    text: text.to_owned(),
                });
            }
        }
        let moved = std::mem::replace(&mut shown.cursor, cursor) != cursor;
        (!same_size || moved || !changed.is_empty()).then_some(Change::Screen {
            width,
            height,
            cursor,
            rows: changed,
        })
    }

    /// Returns true if a full-screen program runs.
    pub fn is_shown(&self) -> bool {
        self.shown.is_some()
    }

    /// Forgets the screen, because the full-screen program has ended.
    pub fn leave(&mut self) {
        self.shown = None;
    }
}
