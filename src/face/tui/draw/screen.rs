//! Draws the screen of a pane in its colours (pure).

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::cells::{DIM, REVERSED, put, put_line, restyle};
use super::view::draw_title;
use crate::face::tui::model::Model;

pub(super) fn draw(model: &Model, area: Rect, buffer: &mut Buffer) {
    draw_title(model, area, buffer);
    let rows = area.height.saturating_sub(1);
    let Some(screen) = &model.screen else {
        let why = match model.selected_row() {
            Some(row) if row.pane.is_none() => "this row has no screen: it is no pane",
            Some(_) if model.at.is_some() => "no screen is kept from this time",
            Some(row) if row.has_ended() => "the pane is gone, and no screen of it is kept",
            Some(_) => "…",
            None => "no row is selected",
        };
        put(buffer, area.x, area.y + 1, area.width, why, DIM);
        return;
    };
    // If the pane is larger than the area, the part with the cursor is shown.
    let (column, row) = screen.cursor;
    let first = (row + 1).saturating_sub(rows);
    let left = (column + 1).saturating_sub(area.width);
    let shown = screen.rows.iter().skip(usize::from(first));
    for (y, line) in (0..rows).zip(shown) {
        put_line(
            buffer,
            (area.x, area.y + 1 + y),
            area.width,
            line,
            usize::from(left),
        );
    }
    if row >= first && row - first < rows && column >= left && column - left < area.width {
        let at = (area.x + column - left, area.y + 1 + row - first);
        restyle(buffer, at, 1, REVERSED);
    }
}
