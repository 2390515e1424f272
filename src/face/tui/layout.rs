//! Defines the views of a row, and arranges board, view and status line on a screen of any size (pure).

use ratatui::layout::Rect;

use crate::face::view_lines::LineView;

/// A view of the selected row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ViewKind {
    Output,
    Logs,
    Screen,
    Timeline,
    Events,
}

impl ViewKind {
    pub const ALL: [Self; 5] = [
        Self::Output,
        Self::Logs,
        Self::Screen,
        Self::Timeline,
        Self::Events,
    ];

    /// Returns the name, whose first letter is the key of the view.
    pub fn name(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Logs => "logs",
            Self::Screen => "screen",
            Self::Timeline => "timeline",
            Self::Events => "events",
        }
    }

    /// Returns true if the view shows lines of events.
    pub fn has_lines(self) -> bool {
        self.line_view().is_some()
    }

    /// Returns the lines that the view shows; `None` if it shows none.
    pub fn line_view(self) -> Option<LineView> {
        match self {
            Self::Output => Some(LineView::Output),
            Self::Logs => Some(LineView::Logs),
            Self::Events => Some(LineView::Events),
            Self::Screen | Self::Timeline => None,
        }
    }
}

/// The part that receives the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    Board,
    View,
}

/// The parts of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The columns and rows of the screen.
    pub size: (u16, u16),
    pub focus: Focus,
    pub is_zoomed: bool,
    pub board: Option<Rect>,
    pub view: Option<Rect>,
    pub status: Rect,
    /// True if only one of board and view fits on the screen.
    pub is_narrow: bool,
}

impl Layout {
    pub fn new((width, height): (u16, u16), focus: Focus, is_zoomed: bool) -> Self {
        let status = Rect::new(0, height.saturating_sub(1), width, height.min(1));
        let above = Rect::new(0, 0, width, height.saturating_sub(1));
        // On a narrow screen, the board and the view take turns.
        let is_narrow = width < 100;
        let (board, view) = if is_zoomed || is_narrow && focus == Focus::View {
            (None, Some(above))
        } else if is_narrow {
            (Some(above), None)
        } else {
            let columns = (width * 2 / 5).clamp(38, 60);
            let board = Rect {
                width: columns,
                ..above
            };
            let x = columns + 1;
            // The column between board and view has a vertical line.
            let view = Rect {
                x,
                width: width - x,
                ..above
            };
            (Some(board), Some(view))
        };
        Self {
            size: (width, height),
            focus,
            is_zoomed,
            board,
            view,
            status,
            is_narrow,
        }
    }

    /// Returns the columns of the names in the timeline, and of the bands beside them.
    pub fn time_columns(&self) -> (u16, u16) {
        let width = self.view.unwrap_or_default().width;
        let names = (width / 4).clamp(8, 24);
        (names, width.saturating_sub(names + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_fill_screens_of_any_size() {
        for width in 0..260 {
            for height in [0, 1, 2, 10, 24, 50] {
                for focus in [Focus::Board, Focus::View] {
                    let layout = Layout::new((width, height), focus, false);
                    let screen = Rect::new(0, 0, width, height);
                    for part in [layout.board, layout.view, Some(layout.status)] {
                        let part = part.unwrap_or_default();
                        assert_eq!(
                            part.intersection(screen).area(),
                            part.area(),
                            "{width}x{height}"
                        );
                    }
                    assert!(layout.board.is_some() || layout.view.is_some());
                    assert_eq!(
                        layout.is_narrow,
                        layout.board.is_none() || layout.view.is_none()
                    );
                }
            }
        }
    }
}
