//! Draws the help: all keys, or those whose meaning has what was typed (pure).

use ratatui::buffer::Buffer;
use ratatui::style::{Modifier, Style};

use super::cells::{put, put_title};
use crate::face::tui::action::{BINDINGS, Binding};
use crate::face::tui::model::Model;

pub(super) fn draw(model: &Model, buffer: &mut Buffer) {
    let Some(help) = &model.help else {
        return;
    };
    let area = buffer.area;
    let title = match help.typed.is_empty() {
        true => "keys · type to search · Esc leaves".to_owned(),
        false => format!(
            "keys · {} · Esc leaves",
            crate::face::clean::one_line(&help.typed)
        ),
    };
    put_title(buffer, area, &title, true);
    let wanted = help.typed.to_lowercase();
    let is_wanted = |of: &&Binding| {
        let text = format!("{} {}", of.keys, of.meaning).to_lowercase();
        text.contains(&wanted)
    };
    let keys = if area.width < 60 { 10 } else { 20 };
    let mut y = 1;
    for of in BINDINGS.iter().filter(is_wanted).skip(help.top) {
        // Long meanings continue below.
        let columns = usize::from(area.width.saturating_sub(keys)).max(8);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        for (part, row) in wrapped(of.meaning, columns).into_iter().enumerate() {
            if y + 1 >= area.height {
                return;
            }
            if part == 0 {
                put(buffer, 0, y, keys.saturating_sub(1), of.keys, bold);
            }
            put(
                buffer,
                keys,
                y,
                area.width.saturating_sub(keys),
                &row,
                Style::new(),
            );
            y += 1;
        }
    }
    if y == 1 {
        put(
            buffer,
            0,
            1,
            area.width,
            "no key has this; Backspace removes a letter",
            Style::new(),
        );
    }
}

fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in text.split(' ') {
        match rows.last_mut() {
            Some(row) if row.is_empty() => row.push_str(word),
            Some(row) if row.len() + 1 + word.len() <= columns => {
                row.push(' ');
                row.push_str(word);
            }
            _ => rows.push(word.to_owned()),
        }
    }
    rows
}
