//! Draws the state of the UI into cells: a pure function of the model and a size.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr;

use super::board::{Group, question_of};
use super::cells::{
    BOLD, DIM, REVERSED, Theme, fitted, put, put_line, put_title, restyle, row_starts, wrapped,
};
use super::effect::Connection;
use super::empty::empty_text;
use super::keys::{self, PromptKind, help_lines, help_rows, key_columns};
use super::layout::{Focus, ViewKind};
use super::model::Model;
use super::prompt::{Answered, Prompt};
use super::search::ScanState;
use crate::board::bands::Band;
use crate::board::{Attention, Row};
use crate::event::Ink;
use crate::face::sanitize::{one_line, with_ellipsis};
use crate::face::styled_text::StyledText;
use crate::face::{age_of, agent_of, last_text, name_width, phases_of, state_in_words};
use crate::timestamp::Timestamp;

/// The style of what needs the user.
const NEEDS_YOU: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// A drawn screen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    pub buffer: Buffer,
    /// The cursor of the input line.
    pub cursor: Option<Position>,
}

pub(super) fn draw(model: &Model, theme: &Theme) -> Frame {
    let layout = &model.layout;
    let (width, height) = layout.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    if model.input.help.is_some() {
        draw_help(model, &mut buffer);
    } else {
        if let Some(area) = layout.board {
            draw_board(model, area, &mut buffer);
        }
        if let (Some(area), Some(_)) = (layout.view, layout.board) {
            for y in area.y..area.bottom() {
                put(&mut buffer, area.x - 1, y, 1, "│", DIM);
            }
        }
        if let Some(area) = layout.view {
            match model.view.kind {
                ViewKind::Screen => draw_screen(model, area, &mut buffer),
                ViewKind::Timeline => draw_timeline(model, area, &mut buffer),
                ViewKind::Output | ViewKind::Logs | ViewKind::Events => {
                    draw_lines(model, area, &mut buffer)
                }
            }
        }
    }
    let cursor = draw_status(model, layout.status, &mut buffer);
    theme.apply(&mut buffer);
    Frame { buffer, cursor }
}

fn draw_board(model: &Model, area: Rect, buffer: &mut Buffer) {
    let title = match model.board.len {
        0 => match &model.connection {
            Connection::Connecting => "starting…".to_owned(),
            _ => "nothing is observed".to_owned(),
        },
        1 => "1 row".to_owned(),
        count => format!("{count} rows"),
    };
    let is_focused = model.layout.focus == Focus::Board;
    put_title(buffer, area, &title, is_focused);
    let rows = usize::from(area.height.saturating_sub(1));
    let (mut line, mut group) = (0, None);
    let selected = model.board.index();
    let width = usize::from(area.width);
    let (columns, names) = Columns::new(model, width);
    for (index, (row, name)) in model.board.rows.iter().zip(&names).enumerate() {
        let row_group = model.board.group_of(index);
        if let Some(next) = row_group.filter(|next| group != Some(*next)) {
            group = Some(next);
            if let Some(y) = screen_row(line, model.board.top, rows) {
                let (heading, style) = heading(next);
                let text = format!("{heading} {}", model.board.count_of(next));
                let style = style.add_modifier(Modifier::BOLD);
                put(buffer, area.x, area.y + 1 + y, area.width, &text, style);
            }
            line += 1;
        }
        if let Some(y) = screen_row(line, model.board.top, rows) {
            let at = (area.x, area.y + 1 + y);
            let text = (model.board.end_text(row, name, model.now))
                .unwrap_or_else(|| columns.text(row, name, row_group, model.now));
            let text = fitted(&text, width);
            let style = match mark(row, row_group) {
                'x' => Style::new().fg(Color::Red),
                _ => row_group.map_or(Style::new(), |group| heading(group).1),
            };
            put(buffer, at.0, at.1, area.width, &text, style);
            if selected == Some(index) {
                put(buffer, at.0, at.1, 1, "▸", BOLD);
                let style = if is_focused {
                    REVERSED
                } else {
                    BOLD.add_modifier(Modifier::UNDERLINED)
                };
                restyle(buffer, at, area.width, style);
            }
        }
        line += 1;
    }
    if model.board.rows.is_empty() && model.connection == Connection::Connected {
        let hints = [
            "A session of tmux, a command (td-observe run)",
            "or a loop appears here when it begins.",
            "q quits; ? shows the keys.",
        ];
        for (y, hint) in (2..).zip(hints) {
            if y < area.height {
                put(buffer, area.x, area.y + y, area.width, hint, DIM);
            }
        }
    }
}

/// Returns the screen row of a line, if it is visible.
fn screen_row(line: usize, top: usize, rows: usize) -> Option<u16> {
    let y = line.checked_sub(top).filter(|y| *y < rows)?;
    u16::try_from(y).ok()
}

/// The columns of the board, as narrow as their content allows, to leave room for questions.
struct Columns {
    names: usize,
    agents: usize,
    states: usize,
    /// True if there is no room for the state beside a question.
    is_narrow: bool,
}

impl Columns {
    /// Returns the columns, and the names of the rows as they fit.
    fn new(model: &Model, width: usize) -> (Self, Vec<String>) {
        let widest = |texts: &mut dyn Iterator<Item = String>, most: usize| {
            texts.map(|text| text.width()).max().unwrap_or(0).min(most)
        };
        let (rows, is_narrow) = (|| model.board.rows.iter(), width < 60);
        let agents = &mut rows().map(agent_of);
        let agents = if is_narrow { 0 } else { widest(agents, 9) };
        let states = &mut (0..)
            .zip(rows())
            .map(|(at, row)| state_of(row, model.board.group_of(at)));
        let states = widest(states, 10);
        let others = agents + usize::from(agents > 0) + states + "  !   1234  ".len();
        let names = model.board.names_within(name_width(width, others));
        let shown = model.board.names_of_rows(&names).map(|name| name.width());
        let columns = Self {
            names: shown.max().unwrap_or(0),
            agents,
            states,
            is_narrow,
        };
        (columns, names)
    }

    fn text(&self, row: &Row, name: &str, group: Option<Group>, now: Timestamp) -> String {
        let mut text = format!("  {} {}", mark(row, group), fitted(name, self.names));
        if self.agents > 0 {
            text.push(' ');
            text.push_str(&fitted(&agent_of(row), self.agents));
        }
        let question = question_of(row);
        // The group of a row with a question shows that it waits.
        if !self.is_narrow || question.is_none() {
            text.push(' ');
            text.push_str(&fitted(&state_of(row, group), self.states));
        }
        text.push_str(&format!(" {:>4}  ", age_of(row.since, now)));
        text.push_str(&question.unwrap_or_else(|| last_text(row)));
        text
    }
}

/// Returns the state of a row in words. For an older run, only a failure matters.
fn state_of(row: &Row, group: Option<Group>) -> String {
    match row.exit_status {
        Some(status) if status != 0 && group == Some(Group::Older) => format!("failed {status}"),
        _ => state_in_words(row),
    }
}

/// Returns the mark of a row, which shows its state without colours.
fn mark(row: &Row, group: Option<Group>) -> char {
    let has_failed = row.exit_status.is_some_and(|status| status != 0);
    match group {
        Some(Group::Board(Attention::NeedsYou)) => '!',
        Some(Group::Board(Attention::Finished) | Group::Older) if has_failed => 'x',
        Some(Group::Board(Attention::Finished)) => '✓',
        Some(Group::Board(Attention::Working)) => '●',
        Some(Group::Board(Attention::Quiet) | Group::Older) | None => '·',
    }
}

/// Returns the heading and the style of a group of the board. The colours are readable on light and on dark
/// terminals.
fn heading(group: Group) -> (&'static str, Style) {
    match group {
        Group::Board(Attention::NeedsYou) => ("NEEDS YOU", NEEDS_YOU),
        Group::Board(Attention::Finished) => ("FINISHED", Style::new().fg(Color::Green)),
        Group::Board(Attention::Working) => ("WORKING", Style::new()),
        Group::Board(Attention::Quiet) => ("QUIET", DIM),
        Group::Older => ("OLDER", DIM),
    }
}

fn draw_lines(model: &Model, area: Rect, buffer: &mut Buffer) {
    draw_title(model, area, buffer);
    let Some(bottom) = area.height.checked_sub(1).filter(|rows| *rows > 0) else {
        return;
    };
    let (top, columns) = (area.y + 1, usize::from(area.width).max(1));
    let mut y = 0;
    if let Some(since) = model.view.observed_since() {
        let mut local = model.settings.local.clone();
        // `2026-11-23 13:14:05`: the day is shown only if it is not today.
        let (now, since) = (local.second(model.now).to_owned(), local.second(since));
        let is_today = now.get(..10) == since.get(..10);
        let since = since.get(11..19).filter(|_| is_today).unwrap_or(since);
        let text = format!("observed since {since}; earlier output was not recorded");
        put(buffer, area.x, top, area.width, &text, DIM);
        y += 1;
    }
    let mut index = model.view.top;
    let is_reading = !model.view.is_following && model.layout.focus == Focus::View;
    while y < bottom
        && let Some(line) = model.view.lines().get(index)
    {
        let text = marked(model, &line.text);
        let starts = if model.view.wraps {
            row_starts(&text.text, columns).collect()
        } else {
            vec![model.view.left]
        };
        for from in starts {
            if y >= bottom {
                break;
            }
            put_line(buffer, (area.x, top + y), area.width, &text, from);
            if is_reading && index == model.view.current() {
                restyle(buffer, (area.x, top + y), area.width, REVERSED);
            }
            y += 1;
        }
        index += 1;
    }
    // A line that is still being written grows at its end, so its end is shown.
    if model.view.is_following
        && model.view.filter.is_none()
        && y < bottom
        && let Some(open) = model.view.window.open_line()
    {
        let from = open.text.width().saturating_sub(columns);
        put_line(buffer, (area.x, top + y), area.width, &open, from);
        y += 1;
    }
    let is_empty = model.view.lines().is_empty() && model.view.window.open_line().is_none();
    if is_empty && y < bottom {
        for line in wrapped(&empty_text(model), columns) {
            if y < bottom {
                put(buffer, area.x, top + y, area.width, &line, DIM);
                y += 1;
            }
        }
    }
    if index >= model.view.lines().len() {
        let style = NEEDS_YOU.add_modifier(Modifier::UNDERLINED);
        for row in model.view.question() {
            if y < bottom {
                put(buffer, area.x, top + y, area.width, &row, style);
                y += 1;
            }
        }
    }
}

/// Returns the line with its matches marked.
fn marked(model: &Model, line: &StyledText) -> StyledText {
    let Some(pattern) = model.view.marked() else {
        return line.clone();
    };
    let mut parts = pattern.parts(&line.text).peekable();
    if parts.peek().is_none() {
        return line.clone();
    }
    // The current line is reversed as a whole.
    let mark = Ink::of("1;4;7");
    let mut out = StyledText::default();
    let mut at = 0;
    let push_plain = |out: &mut StyledText, from: usize, to: usize| {
        let mut at = from;
        for (range, ink) in &line.runs {
            let (start, end) = (range.start.clamp(from, to), range.end.clamp(from, to));
            if start < end {
                out.push(&line.text[at..start], Ink::default());
                out.push(&line.text[start..end], *ink);
                at = end;
            }
        }
        out.push(&line.text[at..to], Ink::default());
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
fn draw_title(model: &Model, area: Rect, buffer: &mut Buffer) {
    let is_focused = model.layout.focus == Focus::View;
    let name = model
        .board
        .row()
        .zip(model.board.name())
        .map(|(row, name)| {
            let mut title = name.to_owned();
            if let Some(pane) = row.pane.as_deref().filter(|pane| !title.ends_with(*pane)) {
                title.push_str(&format!(" {pane}"));
            }
            if let Some(agent) = &row.agent {
                title.push_str(&format!(" · {agent}"));
            }
            let state = match row.exit_status {
                None => state_in_words(row),
                Some(_) => row.state.as_str().to_owned(),
            };
            one_line(&format!("{title} · {state}"))
        });
    let left = format!("{} {}", model.view.kind.name(), name.unwrap_or_default());
    let phases = model.board.row().and_then(phases_of);
    let phases = phases.map(|phases| one_line(&format!(" · {phases}")));
    let phases = phases.unwrap_or_default();
    let right = match (model.view.kind.has_lines(), model.view.lines().len()) {
        (true, count) if count > 0 && !model.view.is_following => {
            let before = if model.view.window.is_start {
                ""
            } else {
                "…"
            };
            let after = if model.view.window.is_end { "" } else { "…" };
            format!(" {before}{}/{count}{after}", model.view.current() + 1)
        }
        _ => String::new(),
    };
    let width = usize::from(area.width);
    let room = width.saturating_sub(right.width() + 2);
    // The phases ahead are not cut because of a long task.
    let name_room = room.saturating_sub(phases.width()).max(room / 3);
    let left = with_ellipsis(&left, name_room) + &phases;
    let text = format!("{}{right}", fitted(&left, room));
    put_title(buffer, area, &text, is_focused);
}

fn draw_screen(model: &Model, area: Rect, buffer: &mut Buffer) {
    draw_title(model, area, buffer);
    let rows = area.height.saturating_sub(1);
    let Some(screen) = &model.screen else {
        let why = match model.board.row() {
            Some(row) if row.pane.is_none() => "this row has no screen: it is no pane",
            Some(_) if model.view.at.is_some() => "no screen is kept from this time",
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

fn draw_timeline(model: &Model, area: Rect, buffer: &mut Buffer) {
    let is_focused = model.layout.focus == Focus::View;
    let span = duration(model.timeline.span_micros());
    let mut local = model.settings.local.clone();
    let at = model
        .view
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
    let (names, columns) = model.layout.time_columns();
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
    // A low screen has room for the rows only.
    let legend_height = if area.height > 6 { 1 } else { 0 };
    let (bottom, rows) = (
        area.bottom() - legend_height,
        area.height - 2 - legend_height,
    );
    let legend = Rect::new(area.x, bottom, area.width, legend_height);
    draw_legend(legend.intersection(area), buffer);
    let rows = usize::from(rows);
    let selected = model.board.index();
    // The selected row stays visible.
    let first = selected.map_or(0, |index| (index + 1).saturating_sub(rows));
    let named = model
        .board
        .rows
        .iter()
        .zip(model.board.names_within(usize::from(names)))
        .enumerate();
    for (y, (index, (row, name))) in (area.y + 2..).zip(named.skip(first).take(rows)) {
        let name = fitted(&name, usize::from(names));
        let style = if selected == Some(index) {
            REVERSED
        } else {
            Style::new()
        };
        put(buffer, area.x, y, names, &name, style);
        let cells = model.timeline.cells(&row.key(), end, usize::from(columns));
        for (x, band) in (bands..).zip(cells) {
            if let Some(band) = band {
                let (symbol, _, style) = symbol_of(band);
                put(buffer, x, y, 1, symbol, style);
            }
        }
    }
    if let Some(at) = model.view.at {
        let span = model.timeline.span_micros().max(1);
        let into = at.micros().saturating_sub(start).clamp(0, span);
        let column = into.saturating_mul(i64::from(columns) - 1) / span;
        let x = bands.saturating_add(u16::try_from(column).unwrap_or(0));
        for y in area.y + 1..bottom {
            restyle(buffer, (x, y), 1, REVERSED);
        }
    }
}

/// Returns the time at the right edge: now, or half a span after a cursor that is outside the latest span.
fn end_of(model: &Model) -> Timestamp {
    let span = model.timeline.span_micros();
    match model.view.at {
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

/// Returns the symbol of a state, which shows it without colours, its word in the legend, and its style.
fn symbol_of(band: Band) -> (&'static str, &'static str, Style) {
    let style = Style::new();
    let needs_you = NEEDS_YOU.add_modifier(Modifier::REVERSED);
    let style = match band {
        Band::Waiting | Band::Limited | Band::Suspended => needs_you,
        Band::Error => style.fg(Color::Red).add_modifier(Modifier::REVERSED),
        Band::Done => style.fg(Color::Green),
        Band::Working | Band::Running => style.fg(Color::Blue),
        Band::Unknown | Band::Idle | Band::NotObserved => style.add_modifier(Modifier::DIM),
        Band::Ended => style,
    };
    (band.symbol(), band.word(), style)
}

/// Draws what the symbols of the timeline mean, as many as fit.
fn draw_legend(area: Rect, buffer: &mut Buffer) {
    let mut x = area.x;
    for (symbol, word, style) in Band::ALL.map(symbol_of) {
        let width = columns_of(symbol) + 1 + columns_of(word);
        if word.is_empty() || x + width > area.right() {
            return;
        }
        put(buffer, x, area.y, 1, symbol, style);
        put(buffer, x + 2, area.y, width - 2, word, DIM);
        x += width + 2;
    }
}

fn columns_of(text: &str) -> u16 {
    u16::try_from(text.width()).unwrap_or(u16::MAX)
}

fn duration(micros: i64) -> String {
    match micros / 1_000_000 {
        seconds @ ..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

fn draw_help(model: &Model, buffer: &mut Buffer) {
    let Some(help) = &model.input.help else {
        return;
    };
    let area = buffer.area;
    let lines = help_lines(&help.typed, area.width);
    let rows = help_rows(area.height);
    let title = if help.typed.is_empty() {
        "keys · type to search · Esc leaves".to_owned()
    } else {
        format!("keys · {} · Esc leaves", one_line(&help.typed))
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
        if line.is_heading {
            let style = BOLD.add_modifier(Modifier::UNDERLINED);
            put(buffer, 0, y, area.width, line.keys, style);
        } else {
            put(buffer, 0, y, keys.saturating_sub(1), line.keys, BOLD);
            let columns = area.width.saturating_sub(keys);
            put(buffer, keys, y, columns, &line.meaning, Style::new());
        }
    }
    if lines.is_empty() {
        let text = "no key has this; Backspace removes a letter";
        put(buffer, 0, 1, area.width, text, Style::new());
    }
}

/// Draws the line; returns the position of the cursor in the input.
fn draw_status(model: &Model, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    if area.height == 0 {
        return None;
    }
    let width = usize::from(area.width);
    if let Some(prompt) = &model.input.prompt {
        return draw_prompt(model, prompt, area, buffer);
    }
    let mut put = |text: &str, style| {
        put(
            buffer,
            area.x,
            area.y,
            area.width,
            &fitted(text, width),
            style,
        );
    };
    if let Some(message) = &model.input.message {
        put(&one_line(message), BOLD);
        return None;
    }
    let (left, style) = position_text(model);
    let mut text = [vec![left], details(model)].concat().join("  ");
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
    put(&text, style);
    None
}

fn draw_prompt(
    model: &Model,
    prompt: &Prompt,
    area: Rect,
    buffer: &mut Buffer,
) -> Option<Position> {
    let mark = match (&model.input.answered, prompt.kind) {
        (Some(Answered { row, .. }), PromptKind::Answer) => {
            let pane = row.pane.as_deref().unwrap_or_default();
            let keys = if prompt.presses_enter { " + Enter" } else { "" };
            let text = format!("to {} {pane}, typed{keys}: ", row.full_name());
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
        let names = keys::NAMES.map(str::trim_end).join(" ");
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
    let question = model.input.question(model.layout.size);
    let question = question.iter().map(|row| fitted(row, width));
    let question = question.map(|row| (row, BOLD.add_modifier(Modifier::REVERSED)));
    let message = model.input.message.as_deref();
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
    if let Some(at) = model.view.at {
        let mut local = model.settings.local.clone();
        let text = format!("AT {}, Esc: now", local.second(at));
        return (text, BOLD);
    }
    if !model.view.kind.has_lines() {
        return (format!("{} view", model.view.kind.name()), plain);
    }
    match (model.view.is_following, model.view.new_lines) {
        (true, _) => ("following".to_owned(), plain),
        (false, 0) => ("PAUSED, G follows".to_owned(), BOLD),
        (false, new) => (format!("PAUSED, {new} new, G follows"), BOLD),
    }
}

/// Returns the most useful keys in this state.
fn hints(model: &Model) -> Vec<&'static str> {
    let row = model.board.row();
    let is_waiting = row.is_some_and(|row| row.attention() == Attention::NeedsYou);
    let has_pane = row.is_some_and(|row| row.is_in_pane() && !row.has_ended());
    let goes_in = model.layout.is_narrow && model.layout.focus == Focus::Board;
    let opens_time = model.view.kind == ViewKind::Timeline && model.view.at.is_some();
    let is_open = (model.layout.focus, model.view.kind) == (Focus::View, ViewKind::Output);
    let enter = if has_pane && !goes_in && !opens_time {
        Some("Enter jump")
    } else {
        // The output that it would open may be open already.
        (!is_open).then_some("Enter open")
    };
    let keys: &[&str] = if is_waiting {
        &["] next", "/ search", "? help"]
    } else {
        &["/ search", "f filter", "t timeline", "? help"]
    };
    let answer = (is_waiting && model.settings.allows_input).then_some("r answer");
    let mut hints: Vec<&str> = answer.into_iter().chain(enter).collect();
    hints.extend(keys);
    hints
}

fn details(model: &Model) -> Vec<String> {
    let mut details = Vec::new();
    if let Some(filter) = &model.view.filter {
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
    if let Some(search) = model.view.shown_search() {
        let progress = search.progress(model.view.position());
        details.push(format!("/{} {progress}", one_line(&search.pattern.typed)));
    }
    if model.view.missed > 0 {
        details.push(format!("lagged {}", model.view.missed));
    }
    if let Some(row) = model.board.row() {
        if row.gaps > 0 {
            details.push(format!("gaps {}", row.gaps));
        }
        if row.errors > 0 {
            details.push(format!("errors {}", row.errors));
        }
    }
    if model.view.left > 0 && model.view.kind != ViewKind::Timeline {
        details.push(format!("from column {}", model.view.left + 1));
    }
    details
}
