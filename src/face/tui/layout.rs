//! Arranges board, view and status line on a screen of any size (pure).

use ratatui::layout::Rect;

/// The part that receives the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    Board,
    View,
}

/// Below this width, the board and the view take turns on the whole screen.
const COLUMNS_FOR_TWO: u16 = 100;

/// The least and the most columns of the board beside a view.
const BOARD_COLUMNS: (u16, u16) = (38, 60);

/// The parts of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
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
        let is_narrow = width < COLUMNS_FOR_TWO;
        let (board, view) = if is_zoomed || is_narrow && focus == Focus::View {
            (None, Some(above))
        } else if is_narrow {
            (Some(above), None)
        } else {
            let (least, most) = BOARD_COLUMNS;
            let columns = (width * 2 / 5).clamp(least, most);
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
            board,
            view,
            status,
            is_narrow,
        }
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
