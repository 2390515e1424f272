//! Draws the line at the bottom: the input, a message, or where the view is (pure).

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr;

use super::cells::{fitted, put};
use crate::face::clean::one_line;
use crate::face::tui::model::{Connection, Model};
use crate::face::tui::prompt::{Prompt, PromptKind};
use crate::face::tui::searching::ScanState;
use crate::face::tui::view::ViewKind;

/// Draws the line; returns the place of the cursor in the input.
pub(super) fn draw(model: &Model, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    if area.height == 0 {
        return None;
    }
    let width = usize::from(area.width);
    if let Some(prompt) = &model.prompt {
        return draw_prompt(model, prompt, area, buffer);
    }
    if let Some(message) = &model.message {
        let text = fitted(&one_line(message), width);
        let style = Style::new().add_modifier(Modifier::BOLD);
        put(buffer, area.x, area.y, area.width, &text, style);
        return None;
    }
    let (left, style) = place(model);
    let details = details(model);
    let right = format!("{}  ? help", model.about.data);
    let mut text = [vec![left], details].concat().join("  ");
    if text.width() + 2 + right.width() <= width {
        let columns = width - right.width();
        text = format!("{}{right}", fitted(&text, columns));
    } else if text.width() + 8 <= width {
        text = format!("{}? help", fitted(&text, width - 6));
    }
    put(
        buffer,
        area.x,
        area.y,
        area.width,
        &fitted(&text, width),
        style,
    );
    None
}

fn draw_prompt(
    model: &Model,
    prompt: &Prompt,
    area: Rect,
    buffer: &mut Buffer,
) -> Option<Position> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mark = match (&model.answered, prompt.kind) {
        (Some((row, _)), PromptKind::Answer) => {
            let pane = row
                .pane
                .as_ref()
                .map(|pane| pane.as_str())
                .unwrap_or_default();
            let keys = if prompt.presses_enter { " + Enter" } else { "" };
            let text = format!("to {} {pane}, typed{keys}: ", row.name);
            // A narrow screen has room for the pane alone.
            let short = format!("{pane}{keys}: ");
            one_line_kept(if text.width() * 2 > usize::from(area.width) {
                &short
            } else {
                &text
            })
        }
        (_, kind) => kind.mark().to_owned(),
    };
    let used = put(buffer, area.x, area.y, area.width, &mark, bold);
    let room = area.width.saturating_sub(used).saturating_sub(1);
    let (shown, cursor) = prompt.shown(usize::from(room));
    put(
        buffer,
        area.x + used,
        area.y,
        room + 1,
        &shown,
        Style::new(),
    );
    if let (PromptKind::Answer, Some((row, _))) = (prompt.kind, &model.answered)
        && let Some(asks) = &row.asks
    {
        // What is answered stands above.
        let y = area.y.saturating_sub(1);
        let text = fitted(
            &format!("asks: {}", one_line(asks)),
            usize::from(area.width),
        );
        put(
            buffer,
            area.x,
            y,
            area.width,
            &text,
            bold.add_modifier(Modifier::REVERSED),
        );
    }
    let cursor = u16::try_from(cursor).unwrap_or(0);
    let x = (area.x + used + cursor).min(area.right().saturating_sub(1));
    Some(Position::new(x, area.y))
}

/// Like `one_line`, with the blank at the end.
fn one_line_kept(text: &str) -> String {
    one_line(text) + " "
}

/// Returns where the view is.
fn place(model: &Model) -> (String, Style) {
    let plain = Style::new();
    if let Connection::Lost(why) = &model.connection {
        let style = plain.fg(Color::Red).add_modifier(Modifier::BOLD);
        return (one_line(why), style);
    }
    if let Some(at) = model.at {
        let mut local = model.about.local.clone();
        let text = format!("AT {}, Esc: now", local.second(at));
        return (text, plain.add_modifier(Modifier::BOLD));
    }
    if !model.view.has_lines() {
        return (format!("{} view", model.view.name()), plain);
    }
    match (model.is_following, model.new_lines) {
        (true, _) => ("following".to_owned(), plain),
        (false, 0) => (
            "PAUSED, G follows".to_owned(),
            plain.add_modifier(Modifier::BOLD),
        ),
        (false, new) => (
            format!("PAUSED, {new} new, G follows"),
            plain.add_modifier(Modifier::BOLD),
        ),
    }
}

fn details(model: &Model) -> Vec<String> {
    let mut details = Vec::new();
    if let Some(filter) = &model.filter {
        let count = match filter.state {
            ScanState::Reading(read) => format!("reading, {read} events"),
            ScanState::Failed => "not all was read".to_owned(),
            ScanState::Done => format!("{} lines", filter.count),
        };
        details.push(format!(
            "filter {} ({count})",
            one_line(&filter.pattern.typed)
        ));
    }
    if let Some(search) = &model.search {
        let progress = search.progress(model.position());
        details.push(format!("/{} {progress}", one_line(&search.pattern.typed)));
    }
    if model.missed > 0 {
        details.push(format!("lagged {}", model.missed));
    }
    if let Some(row) = model.selected_row() {
        if row.gaps > 0 {
            details.push(format!("gaps {}", row.gaps));
        }
        if row.errors > 0 {
            details.push(format!("errors {}", row.errors));
        }
    }
    if model.left > 0 && model.view != ViewKind::Timeline {
        details.push(format!("from column {}", model.left + 1));
    }
    details
}
