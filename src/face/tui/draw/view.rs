//! Draws the lines of a view, the current line and the matches (pure).

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr;

use super::board;
use super::cells::{DIM, REVERSED, fitted, put, put_line, put_title, restyle};
use crate::board::{Attention, Row};
use crate::face::sanitize::one_line;
use crate::face::tui::effect::Connection;
use crate::face::tui::layout::Focus;
use crate::face::tui::model::{Loading, Model};
use crate::face::tui::painted::StyledText;
use crate::face::tui::searching::ScanState;
use crate::face::tui::wrapping::row_starts;

pub(super) fn draw(model: &Model, area: Rect, buffer: &mut Buffer) {
    draw_title(model, area, buffer);
    let Some(bottom) = area.height.checked_sub(1).filter(|rows| *rows > 0) else {
        return;
    };
    let (top, columns) = (area.y + 1, usize::from(area.width).max(1));
    let mut y = 0;
    if let Some(since) = model.observed_since() {
        let mut local = model.settings.local.clone();
        // `2026-11-23 13:14:05`: the day is shown only if it is not today.
        let (now, since) = (local.second(model.now).to_owned(), local.second(since));
        let is_today = now.get(..10) == since.get(..10);
        let since = since.get(11..19).filter(|_| is_today).unwrap_or(since);
        let text = format!("observed since {since}; earlier output was not recorded");
        put(buffer, area.x, top, area.width, &text, DIM);
        y += 1;
    }
    let mut index = model.top;
    let is_reading = !model.is_following && model.focus == Focus::View;
    while y < bottom
        && let Some(line) = model.lines().get(index)
    {
        let text = marked(model, &line.text);
        let starts = match model.wraps {
            true => row_starts(&text.text, columns).collect(),
            false => vec![model.left],
        };
        for from in starts {
            if y >= bottom {
                break;
            }
            put_line(buffer, (area.x, top + y), area.width, &text, from);
            if is_reading && index == model.current() {
                restyle(buffer, (area.x, top + y), area.width, REVERSED);
            }
            y += 1;
        }
        index += 1;
    }
    // A line that is still being written grows at its end, so its end is shown.
    if model.is_following
        && model.filter.is_none()
        && y < bottom
        && let Some(open) = model.window.open_line()
    {
        let from = open.text.width().saturating_sub(columns);
        put_line(buffer, (area.x, top + y), area.width, &open, from);
        y += 1;
    }
    let is_empty = model.lines().len() == 0 && model.window.open_line().is_none();
    if is_empty && y < bottom {
        put(buffer, area.x, top + y, area.width, empty_text(model), DIM);
        y += 1;
    }
    if index >= model.lines().len() {
        let style = board::style(Attention::NeedsYou).add_modifier(Modifier::UNDERLINED);
        for row in model.question_in_view() {
            if y < bottom {
                put(buffer, area.x, top + y, area.width, &row, style);
                y += 1;
            }
        }
    }
}

/// Returns the reason why there are no lines.
fn empty_text(model: &Model) -> &'static str {
    match &model.filter {
        _ if model.selected_row().is_none() => match model.connection {
            Connection::Connected => "no row is selected",
            _ => "",
        },
        Some(filter) if matches!(filter.state, ScanState::Reading(_)) => "searching the history…",
        Some(_) => "no line matches the filter; Esc removes it",
        None if model.loading == Loading::Whole => "",
        None if model.at.is_some() => "nothing was recorded before this time",
        None if model.selected_row().is_some_and(|row| row.pane.is_some()) => {
            "nothing was printed since it is observed; s shows its screen"
        }
        None => "nothing yet",
    }
}

/// Returns the line with its matches marked.
fn marked(model: &Model, line: &StyledText) -> StyledText {
    let Some(pattern) = model.marked() else {
        return line.clone();
    };
    let mut parts = pattern.parts(&line.text).peekable();
    if parts.peek().is_none() {
        return line.clone();
    }
    // The current line is reversed as a whole.
    let mark = Modifier::REVERSED | Modifier::BOLD | Modifier::UNDERLINED;
    let mark = Style::new().add_modifier(mark);
    let mut out = StyledText::default();
    let mut at = 0;
    let push_plain = |out: &mut StyledText, from: usize, to: usize| {
        let mut at = from;
        for (range, style) in &line.runs {
            let (start, end) = (range.start.clamp(from, to), range.end.clamp(from, to));
            if start < end {
                out.push(&line.text[at..start], Style::new());
                out.push(&line.text[start..end], *style);
                at = end;
            }
        }
        out.push(&line.text[at..to], Style::new());
    };
    for part in parts {
        push_plain(&mut out, at, part.start);
        out.push(&line.text[part.clone()], mark);
        at = part.end;
    }
    push_plain(&mut out, at, line.text.len());
    out
}

/// Draws the title: the view, its row, and the position of the reader.
pub(super) fn draw_title(model: &Model, area: Rect, buffer: &mut Buffer) {
    let is_focused = model.focus == Focus::View;
    let name = match model.selected_row() {
        Some(row) => title_of(row),
        None => String::new(),
    };
    let left = format!("{} {name}", model.view.name());
    let right = match (model.view.has_lines(), model.lines().len()) {
        (true, count) if count > 0 && !model.is_following => {
            let before = if model.window.is_start { "" } else { "…" };
            let after = if model.window.is_end { "" } else { "…" };
            format!(" {before}{}/{count}{after}", model.current() + 1)
        }
        _ => String::new(),
    };
    let width = usize::from(area.width);
    let text = format!(
        "{}{right}",
        fitted(&left, width.saturating_sub(right.width() + 2))
    );
    put_title(buffer, area, &text, is_focused);
}

fn title_of(row: &Row) -> String {
    let mut title = row.name.clone();
    if let Some(pane) = &row.pane {
        title.push_str(&format!(" {pane}"));
    }
    if let Some(agent) = &row.agent {
        title.push_str(&format!(" · {agent}"));
    }
    one_line(&format!("{title} · {}", row.state.as_str()))
}
