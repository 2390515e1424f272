//! Draws the timeline: a band of states for each row, below a time scale (pure).

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::cells::{DIM, REVERSED, fitted, put, put_title, restyle};
use crate::face::row_names;
use crate::face::tui::layout::Focus;
use crate::face::tui::model::Model;
use crate::face::tui::timeline::Band;
use crate::timestamp::Timestamp;

pub(super) fn draw(model: &Model, area: Rect, buffer: &mut Buffer) {
    let is_focused = model.focus == Focus::View;
    let span = duration(model.timeline.span_micros());
    let mut local = model.settings.local.clone();
    let at = model
        .at
        .map(|at| format!("  at {}", local.second(at)))
        .unwrap_or_default();
    let loading = if model.timeline.is_loading {
        "  reading the history…"
    } else {
        ""
    };
    let title = format!("timeline · {span}{at}{loading}");
    put_title(buffer, area, &title, is_focused);
    let (names, columns) = (model.time_names(), model.time_columns());
    if area.height < 3 || columns == 0 {
        return;
    }
    let end = end_of(model);
    let start = end.micros().saturating_sub(model.timeline.span_micros());
    let bands = area.x + names + 1;
    draw_scale(
        model,
        (bands, area.y + 1),
        columns,
        (start, end.micros()),
        buffer,
    );
    let rows = usize::from(area.height - 2);
    let selected = model.selected_index();
    // The selected row stays visible.
    let first = selected.map_or(0, |index| (index + 1).saturating_sub(rows));
    let named = model.rows.iter().zip(row_names(&model.rows)).enumerate();
    for (y, (index, (row, name))) in (area.y + 2..).zip(named.skip(first).take(rows)) {
        let name = fitted(&name, usize::from(names));
        let style = match selected == Some(index) {
            true => REVERSED,
            false => Style::new(),
        };
        put(buffer, area.x, y, names, &name, style);
        let cells = model.timeline.cells(&row.key(), end, usize::from(columns));
        for (x, band) in (bands..).zip(cells) {
            if let Some(band) = band {
                let (symbol, style) = symbol_of(band);
                put(buffer, x, y, 1, symbol, style);
            }
        }
    }
    if let Some(at) = model.at {
        let span = model.timeline.span_micros().max(1);
        let into = at.micros().saturating_sub(start).clamp(0, span);
        let column = into.saturating_mul(i64::from(columns) - 1) / span;
        let x = bands.saturating_add(u16::try_from(column).unwrap_or(0));
        for y in area.y + 1..area.bottom() {
            restyle(buffer, (x, y), 1, REVERSED);
        }
    }
}

/// Returns the time at the right edge: now, or half a span after a cursor that is outside the latest span.
fn end_of(model: &Model) -> Timestamp {
    let span = model.timeline.span_micros();
    match model.at {
        Some(at) if at.micros() < model.now.micros().saturating_sub(span) => {
            Timestamp::from_micros(at.micros().saturating_add(span / 2))
        }
        _ => model.now,
    }
}

fn draw_scale(
    model: &Model,
    (x, y): (u16, u16),
    columns: u16,
    (start, end): (i64, i64),
    buffer: &mut Buffer,
) {
    let mut local = model.settings.local.clone();
    let has_days = end - start >= 24 * 3_600_000_000;
    let mut column = 0;
    while column < columns {
        let micros = (end - start) / i64::from(columns.max(1)) * i64::from(column);
        let time = local.second(Timestamp::from_micros(start + micros));
        // `2026-11-23 13:14:05`: the day or the time.
        let text = if has_days {
            time.get(5..16)
        } else {
            time.get(11..19)
        };
        let text = text.unwrap_or_default();
        let width = u16::try_from(text.len()).unwrap_or(0);
        if column + width > columns {
            break;
        }
        put(buffer, x + column, y, width, text, DIM);
        column += (width + 2).max(columns / 6);
    }
}

/// Returns the symbol of a state, which shows it without colours.
fn symbol_of(band: Band) -> (&'static str, Style) {
    let style = Style::new();
    match band {
        Band::NeedsYou => (
            "!",
            style
                .fg(Color::Red)
                .add_modifier(Modifier::BOLD | Modifier::REVERSED),
        ),
        Band::Done => ("✓", style.fg(Color::Green)),
        Band::Working => ("█", style.fg(Color::Blue)),
        Band::Running => ("▒", style.fg(Color::Blue)),
        Band::Idle => ("·", style.add_modifier(Modifier::DIM)),
        Band::Ended => (" ", style),
    }
}

fn duration(micros: i64) -> String {
    match micros / 1_000_000 {
        seconds @ ..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}
