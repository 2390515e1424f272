//! Draws the board: groups with their counts, one line per row (pure).

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr;

use super::cells::{BOLD, DIM, REVERSED, fitted, put, put_title, restyle};
use crate::board::{Attention, Row};
use crate::face::tui::answering::question_of;
use crate::face::tui::board_rows::Group;
use crate::face::tui::effect::Connection;
use crate::face::tui::layout::Focus;
use crate::face::tui::model::Model;
use crate::face::{age_of, agent_of, last_text, row_names, state_in_words};
use crate::timestamp::Timestamp;

pub(super) fn draw(model: &Model, area: Rect, buffer: &mut Buffer) {
    let title = match model.board_len {
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
    let columns = Columns::new(model, usize::from(area.width));
    for (index, (row, name)) in named.enumerate() {
        let row_group = model.group_of(index);
        if let Some(next) = row_group.filter(|next| group != Some(*next)) {
            group = Some(next);
            if let Some(y) = screen_row(line, model.board_top, rows) {
                let text = format!("{} {}", heading(next), model.count_of(next));
                let style = style_of(next).add_modifier(Modifier::BOLD);
                put(buffer, area.x, area.y + 1 + y, area.width, &text, style);
            }
            line += 1;
        }
        if let Some(y) = screen_row(line, model.board_top, rows) {
            let at = (area.x, area.y + 1 + y);
            let text = fitted(
                &columns.text(row, &name, row_group, model.now),
                usize::from(area.width),
            );
            let style = match mark(row, row_group) {
                'x' => Style::new().fg(Color::Red),
                _ => row_group.map_or(Style::new(), style_of),
            };
            put(buffer, at.0, at.1, area.width, &text, style);
            if selected == Some(index) {
                put(buffer, at.0, at.1, 1, "▸", BOLD);
                let style = match is_focused {
                    true => REVERSED,
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
    fn new(model: &Model, width: usize) -> Self {
        let widest = |texts: &mut dyn Iterator<Item = String>, most: usize| {
            texts.map(|text| text.width()).max().unwrap_or(0).min(most)
        };
        let rows = || model.rows.iter();
        let is_narrow = width < 60;
        let names = &mut row_names(&model.rows).into_iter();
        let agents = &mut rows().map(agent_of);
        let states = &mut (0..)
            .zip(rows())
            .map(|(at, row)| state_of(row, model.group_of(at)));
        Self {
            names: widest(names, (width / 3).clamp(8, 28)),
            agents: if is_narrow { 0 } else { widest(agents, 9) },
            states: widest(states, 10),
            is_narrow,
        }
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

fn heading(group: Group) -> &'static str {
    match group {
        Group::Board(Attention::NeedsYou) => "NEEDS YOU",
        Group::Board(Attention::Finished) => "FINISHED",
        Group::Board(Attention::Working) => "WORKING",
        Group::Board(Attention::Quiet) => "QUIET",
        Group::Older => "OLDER",
    }
}

fn style_of(group: Group) -> Style {
    match group {
        Group::Board(attention) => style(attention),
        Group::Older => style(Attention::Quiet),
    }
}

/// Returns the style of a group of the board. The colours are readable on light and on dark terminals.
pub(super) fn style(attention: Attention) -> Style {
    match attention {
        Attention::NeedsYou => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        Attention::Finished => Style::new().fg(Color::Green),
        Attention::Working => Style::new(),
        Attention::Quiet => DIM,
    }
}
