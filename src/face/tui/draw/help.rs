//! Draws the help: all keys, or those that match the typed text (pure).

use ratatui::buffer::Buffer;
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr;

use super::cells::{BOLD, fitted, put, put_title};
use crate::face::sanitize::one_line;
use crate::face::tui::bindings::{help_lines, help_rows, key_columns};
use crate::face::tui::model::Model;

pub(super) fn draw(model: &Model, buffer: &mut Buffer) {
    let Some(help) = &model.help else {
        return;
    };
    let area = buffer.area;
    let lines = help_lines(&help.typed, area.width);
    let rows = help_rows(area.height);
    let title = match help.typed.is_empty() {
        true => "keys · type to search · Esc leaves".to_owned(),
        false => format!("keys · {} · Esc leaves", one_line(&help.typed)),
    };
    let more = match lines.len().saturating_sub(help.top + rows) {
        0 if help.top > 0 => "↑ more above".to_owned(),
        0 => String::new(),
        count => format!("↓ {count} more below"),
    };
    let room = usize::from(area.width).saturating_sub(more.width() + 2);
    put_title(
        buffer,
        area,
        &format!("{}{more}", fitted(&title, room)),
        true,
    );
    let keys = key_columns(area.width);
    for (y, line) in (1..).zip(lines.iter().skip(help.top).take(rows)) {
        match line.is_heading {
            true => {
                let style = BOLD.add_modifier(Modifier::UNDERLINED);
                put(buffer, 0, y, area.width, line.keys, style);
            }
            false => {
                put(buffer, 0, y, keys.saturating_sub(1), line.keys, BOLD);
                let columns = area.width.saturating_sub(keys);
                put(buffer, keys, y, columns, &line.meaning, Style::new());
            }
        }
    }
    if lines.is_empty() {
        let text = "no key has this; Backspace removes a letter";
        put(buffer, 0, 1, area.width, text, Style::new());
    }
}
