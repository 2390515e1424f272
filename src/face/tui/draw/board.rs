//! Draws the board: the groups with their counts, a line for each row (pure).

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::cells::{fitted, put, put_title, restyle};
use crate::board::{Attention, Row};
use crate::face::clean::one_line;
use crate::face::tui::layout::Focus;
use crate::face::tui::model::{Connection, Model};
use crate::face::{age_of, row_names, state_in_words};

pub(super) fn draw(model: &Model, area: Rect, buffer: &mut Buffer) {
    let title = match model.rows.len() {
        0 => match &model.connection {
            Connection::Connecting => "starting…".to_owned(),
            _ => "nothing is observed".to_owned(),
        },
        1 => "1 row".to_owned(),
        count => format!("{count} rows"),
    };
    let is_focused = model.focus == Focus::Board;
    put_title(buffer, area, &title, is_focused);
    let rows = usize::from(area.height.saturating_sub(1));
    let (mut line, mut group) = (0, None);
    let selected = model.selected_index();
    let named = model.rows.iter().zip(row_names(&model.rows));
    for (index, (row, name)) in named.enumerate() {
        let attention = row.attention();
        if group != Some(attention) {
            group = Some(attention);
            if let Some(y) = place(line, model.board_top, rows) {
                let count = model
                    .rows
                    .iter()
                    .filter(|row| row.attention() == attention)
                    .count();
                let text = format!("{} {count}", heading(attention));
                put(
                    buffer,
                    area.x,
                    area.y + 1 + y,
                    area.width,
                    &text,
                    style(attention).add_modifier(Modifier::BOLD),
                );
            }
            line += 1;
        }
        if let Some(y) = place(line, model.board_top, rows) {
            let at = (area.x, area.y + 1 + y);
            draw_row(model, (row, &name), at, area.width, buffer);
            if selected == Some(index) {
                put(
                    buffer,
                    at.0,
                    at.1,
                    1,
                    "▸",
                    Style::new().add_modifier(Modifier::BOLD),
                );
                let style = match is_focused {
                    true => Style::new().add_modifier(Modifier::REVERSED),
                    false => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
                };
                restyle(buffer, at, area.width, style);
            }
        }
        line += 1;
    }
    if model.rows.is_empty() && model.connection == Connection::Connected {
        let hints = [
            "A session of tmux, a command (td-observe run)",
            "or a loop appears here when it begins.",
            "q quits; ? shows the keys.",
        ];
        for (y, hint) in (2..).zip(hints) {
            if y < area.height {
                put(
                    buffer,
                    area.x,
                    area.y + y,
                    area.width,
                    hint,
                    Style::new().add_modifier(Modifier::DIM),
                );
            }
        }
    }
}

/// Returns the row of the screen for a line, if it is visible.
fn place(line: usize, top: usize, rows: usize) -> Option<u16> {
    let y = line.checked_sub(top).filter(|y| *y < rows)?;
    u16::try_from(y).ok()
}

fn draw_row(
    model: &Model,
    (row, name): (&Row, &str),
    (x, y): (u16, u16),
    width: u16,
    buffer: &mut Buffer,
) {
    let attention = row.attention();
    let width = usize::from(width);
    let names = (width / 3).clamp(8, 28);
    let agents = if width >= 60 { 9 } else { 0 };
    let mut text = format!("  {} {}", mark(row), fitted(name, names));
    if agents > 0 {
        let agent = row.agent.as_deref().unwrap_or("-");
        text.push(' ');
        text.push_str(&fitted(&one_line(agent), agents));
    }
    let age = age_of(row.since, model.now);
    text.push_str(&format!(" {} {age:>4}  ", fitted(&state_in_words(row), 9)));
    let last = row.asks.as_deref().unwrap_or(&row.last_line);
    text.push_str(one_line(last).trim());
    put(
        buffer,
        x,
        y,
        u16::try_from(width).unwrap_or(u16::MAX),
        &fitted(&text, width),
        style(attention),
    );
}

/// Returns the mark of a row, which tells its state without colours.
fn mark(row: &Row) -> char {
    match row.attention() {
        Attention::NeedsYou => '!',
        Attention::Finished if row.exit_status.is_some_and(|status| status != 0) => 'x',
        Attention::Finished => '✓',
        Attention::Working => '●',
        Attention::Quiet => '·',
    }
}

fn heading(attention: Attention) -> &'static str {
    match attention {
        Attention::NeedsYou => "NEEDS YOU",
        Attention::Finished => "FINISHED",
        Attention::Working => "WORKING",
        Attention::Quiet => "QUIET",
    }
}

/// Returns the style of a group. Its colours are readable on a light and on a dark terminal.
pub(super) fn style(attention: Attention) -> Style {
    match attention {
        Attention::NeedsYou => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        Attention::Finished => Style::new().fg(Color::Green),
        Attention::Working => Style::new(),
        Attention::Quiet => Style::new().add_modifier(Modifier::DIM),
    }
}
