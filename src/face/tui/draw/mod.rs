//! Draws the state of the UI into cells: a pure function of the model and a size.

mod board;
mod cells;
mod help;
mod screen;
mod status;
mod timeline;
mod view;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::model::Model;
use super::theme::Theme;
use super::view::ViewKind;

/// A drawn screen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    pub buffer: Buffer,
    /// The cursor of the input line.
    pub cursor: Option<Position>,
}

pub(super) fn draw(model: &Model, theme: &Theme) -> Frame {
    let (width, height) = model.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    let layout = model.layout();
    if model.help.is_some() {
        help::draw(model, &mut buffer);
    } else {
        if let Some(area) = layout.board {
            board::draw(model, area, &mut buffer);
        }
        if let (Some(area), Some(_)) = (layout.view, layout.board) {
            for y in area.y..area.bottom() {
                cells::put(&mut buffer, area.x - 1, y, 1, "│", cells::DIM);
            }
        }
        if let Some(area) = layout.view {
            match model.view {
                ViewKind::Screen => screen::draw(model, area, &mut buffer),
                ViewKind::Timeline => timeline::draw(model, area, &mut buffer),
                ViewKind::Output | ViewKind::Logs | ViewKind::Events => {
                    view::draw(model, area, &mut buffer)
                }
            }
        }
    }
    let cursor = status::draw(model, layout.status, &mut buffer);
    theme.apply(&mut buffer);
    Frame { buffer, cursor }
}

#[cfg(test)]
mod tests;
