//! Detects whether a capture shows a redraw of the whole screen, after a resize or a wipe (pure).

use std::time::Duration;

use crate::track::{Capture, Tracker};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeContext {
    /// The time of the capture, on the clock of captures.
    pub at: Duration,
    /// The reason why the program may have redrawn its whole screen.
    pub redraw_cause: RedrawCause,
    /// True while a full-screen program is shown.
    pub alternate: bool,
}

/// A reason for programs to redraw their whole screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RedrawCause {
    #[default]
    None,
    Resized,
    /// The screen or the history was wiped.
    Wiped {
        /// The number of the line that is now at the top of the screen.
        first_line: i64,
    },
}

/// Compares each capture of a pane with the previous one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedrawDetector {
    width: u32,
    height: u32,
    history_size: u32,
    alternate: bool,
}

impl RedrawDetector {
    /// Creates a detector from the first capture.
    #[must_use]
    pub fn new(capture: &Capture) -> Self {
        Self {
            width: capture.width,
            height: capture.height,
            history_size: capture.history_size,
            alternate: capture.alternate,
        }
    }

    /// Returns the context of a capture that the tracker has processed.
    pub fn observe(&mut self, capture: &Capture, tracker: &Tracker) -> ChangeContext {
        let before = std::mem::replace(self, Self::new(capture));
        let resized = (capture.width, capture.height) != (before.width, before.height);
        ChangeContext {
            at: capture.at,
            alternate: capture.alternate,
            redraw_cause: match before.was_wiped(capture) {
                true => RedrawCause::Wiped {
                    first_line: tracker.cursor_line() - lines_above_cursor(capture),
                },
                false if resized => RedrawCause::Resized,
                false => RedrawCause::None,
            },
        }
    }

    /// Returns the context at a time without changes.
    #[must_use]
    pub fn unchanged(&self, at: Duration) -> ChangeContext {
        ChangeContext {
            at,
            alternate: self.alternate,
            redraw_cause: RedrawCause::None,
        }
    }

    /// Returns true if the history or the screen was cleared. tmux trims a full history by a tenth. Rows
    /// enter the history only from the top of a full screen, unless the whole screen is pushed into it
    /// at once.
    fn was_wiped(&self, capture: &Capture) -> bool {
        let trimmed = self.history_size.saturating_sub(2 * capture.trim_step());
        let is_blank = |text: &str| text.trim_end().is_empty();
        let pushed = capture.history_size > self.history_size
            && !capture.alternate
            && !self.alternate
            && capture.cursor.y + 1 < capture.height
            && capture.rows.last().is_some_and(|row| is_blank(&row.text));
        capture.history_size < trimmed || pushed
    }
}

fn lines_above_cursor(capture: &Capture) -> i64 {
    let screen = &capture.rows[capture.history_rows()..];
    let above = screen.iter().take(capture.cursor.y as usize);
    above.filter(|row| !row.wrapped).count() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Cursor;
    use crate::track::PaneNumbers;
    use crate::track::Row;

    #[test]
    fn wipes_are_distinguished_from_scrolling() {
        let capture = |history_size, y, last: &str| Capture {
            numbers: PaneNumbers {
                width: 10,
                height: 3,
                history_size,
                history_limit: 100,
                cursor: Cursor { x: 0, y },
                ..PaneNumbers::default()
            },
            rows: vec![Row {
                text: last.into(),
                wrapped: false,
            }],
            ..Capture::default()
        };
        for (before, now, wiped) in [
            (5, capture(7, 2, ""), false),
            (5, capture(7, 1, "x"), false),
            (5, capture(7, 1, ""), true),
            (5, capture(5, 0, ""), false),
            (100, capture(91, 2, ""), false),
            (50, capture(0, 0, ""), true),
        ] {
            let before = RedrawDetector::new(&capture(before, 2, ""));
            assert_eq!(before.was_wiped(&now), wiped, "{before:?} {now:?}");
        }
    }
}
