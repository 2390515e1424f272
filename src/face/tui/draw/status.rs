//! Draws the bottom line: the input, a message, or the position of the view (pure).

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr;

use super::cells::{BOLD, DIM, fitted, put};
use crate::board::Attention;
use crate::face::sanitize::one_line;
use crate::face::tui::commands;
use crate::face::tui::effect::Connection;
use crate::face::tui::layout::Focus;
use crate::face::tui::model::{Answered, Model};
use crate::face::tui::prompt::{Prompt, PromptKind};
use crate::face::tui::searching::ScanState;
use crate::face::tui::view::ViewKind;

/// Draws the line; returns the position of the cursor in the input.
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
        put(buffer, area.x, area.y, area.width, &text, BOLD);
        return None;
    }
    let (left, style) = position_text(model);
    let details = details(model);
    let mut text = [vec![left], details].concat().join("  ");
    let mut hints = hints(model);
    // The last hint, the help, is removed last.
    while hints.len() > 1 && text.width() + 2 + hints.join("  ").width() > width {
        hints.remove(hints.len() - 2);
    }
    let mut right = hints.join("  ");
    // The directory of the log, if there is room beside the keys.
    let with_data_dir = format!("{}  {right}", one_line(&model.settings.data_dir));
    if text.width() + 2 + with_data_dir.width() <= width {
        right = with_data_dir;
    }
    if text.width() + 2 + right.width() <= width {
        text = format!("{}{right}", fitted(&text, width - right.width()));
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
    let mark = match (&model.answered, prompt.kind) {
        (Some(Answered { row, .. }), PromptKind::Answer) => {
            let pane = row.pane.as_deref().unwrap_or_default();
            let keys = if prompt.presses_enter { " + Enter" } else { "" };
            let text = format!("to {} {pane}, typed{keys}: ", row.name);
            // A narrow screen has room only for the pane.
            let short = format!("{pane}{keys}: ");
            let is_narrow = text.width() * 2 > usize::from(area.width);
            // `one_line` trims the blank at the end.
            one_line(if is_narrow { &short } else { &text }) + " "
        }
        (_, kind) => kind.mark().to_owned(),
    };
    let used = put(buffer, area.x, area.y, area.width, &mark, BOLD);
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
    if prompt.kind == PromptKind::Command && prompt.text().is_empty() {
        let names = commands::NAMES.map(str::trim_end).join(" ");
        let names = fitted(&names, usize::from(room));
        put(buffer, area.x + used + 1, area.y, room, &names, DIM);
    }
    draw_above(model, area, buffer);
    let cursor = u16::try_from(cursor).unwrap_or(0);
    let x = (area.x + used + cursor).min(area.right().saturating_sub(1));
    Some(Position::new(x, area.y))
}

/// Draws the lines above the input: the question that it answers, and above it a message.
fn draw_above(model: &Model, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let question = model.question_in_prompt();
    let question = question.iter().map(|row| fitted(row, width));
    let question = question.map(|row| (row, BOLD.add_modifier(Modifier::REVERSED)));
    let message = model.message.as_deref();
    let message = message.map(|text| (fitted(&one_line(text), width), BOLD));
    let rows: Vec<_> = message.into_iter().chain(question).collect();
    for (above, (row, style)) in (1..).zip(rows.iter().rev()) {
        if let Some(y) = area.y.checked_sub(above) {
            put(buffer, area.x, y, area.width, row, *style);
        }
    }
}

/// Returns the position of the view in the log.
fn position_text(model: &Model) -> (String, Style) {
    let plain = Style::new();
    if let Connection::Lost(why) = &model.connection {
        return (one_line(why), BOLD.fg(Color::Red));
    }
    if let Some(at) = model.at {
        let mut local = model.settings.local.clone();
        let text = format!("AT {}, Esc: now", local.second(at));
        return (text, BOLD);
    }
    if !model.view.has_lines() {
        return (format!("{} view", model.view.name()), plain);
    }
    match (model.is_following, model.new_lines) {
        (true, _) => ("following".to_owned(), plain),
        (false, 0) => ("PAUSED, G follows".to_owned(), BOLD),
        (false, new) => (format!("PAUSED, {new} new, G follows"), BOLD),
    }
}

/// Returns the most useful keys in this state.
fn hints(model: &Model) -> Vec<&'static str> {
    let row = model.selected_row();
    let is_waiting = row.is_some_and(|row| row.attention() == Attention::NeedsYou);
    let has_pane = row.is_some_and(|row| row.pane.is_some() && !row.has_ended());
    let goes_in = model.layout().is_narrow && model.focus == Focus::Board;
    let opens_time = model.view == ViewKind::Timeline && model.at.is_some();
    let is_open = (model.focus, model.view) == (Focus::View, ViewKind::Output);
    let enter = match has_pane && !goes_in && !opens_time {
        true => Some("Enter jump"),
        // The output that it would open is open already.
        false if is_open => None,
        false => Some("Enter open"),
    };
    let keys: &[&str] = match is_waiting {
        true => &["] next", "/ search", "? help"],
        false => &["/ search", "f filter", "t timeline", "? help"],
    };
    let answer = (is_waiting && model.settings.allows_input).then_some("r answer");
    let mut hints: Vec<&str> = answer.into_iter().chain(enter).collect();
    hints.extend(keys);
    hints
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
    if let Some(search) = model.shown_search() {
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
