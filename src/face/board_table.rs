//! Renders the board as a table for a terminal: one line per row, rows that need the user first (pure).

use super::ansi::rows_of;
use super::describe::phases_ahead;
use super::row_names::name_width;
use super::sanitize::{one_line, with_ellipsis};
use super::server_ends::{ServerEnd, server_ends};
use crate::board::{Attention, Row, RowState, end_in_words};
use crate::history::RunStatus;
use crate::timestamp::Timestamp;
use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

/// The size and appearance of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoardTable {
    /// The columns of the terminal.
    pub width: usize,
    /// The lines of the terminal, if the table must fit: the table counts the rows that it omits.
    pub height: Option<usize>,
    pub is_coloured: bool,
    /// Rows that ended with their tmux server are one line.
    pub is_folded: bool,
    pub now: Timestamp,
}

impl BoardTable {
    /// Returns the table: a header, the rows with their display names within a width, and a line with the counts.
    pub fn render(&self, rows: &[Row], names_within: impl Fn(usize) -> Vec<String>) -> String {
        if rows.is_empty() {
            return "nothing is observed\n".to_owned();
        }
        let cells = rows.iter().map(|row| {
            let age = age_of(row.since, self.now);
            let (agent, state) = (agent_of(row), state_in_words(row));
            [String::new(), agent, state, age, last_text(row)]
        });
        let mut cells: Vec<[String; 5]> = cells.collect();
        let head = ["NAME", "AGENT", "STATE", "FOR", "LAST"].map(str::to_owned);
        let widest = |cells: &[[String; 5]], column: usize, max: usize| {
            let lines = std::iter::once(&head).chain(cells);
            let widths = lines.map(|line| line[column].width());
            widths.max().unwrap_or(0).min(max)
        };
        let mut widths = [0, 12, 12, 5];
        for (column, width) in widths.iter_mut().enumerate().skip(1) {
            *width = widest(&cells, column, *width);
        }
        let others = widths.iter().map(|width| width + 2).sum();
        let name_width = name_width(self.width, others);
        for (cells, name) in cells.iter_mut().zip(names_within(name_width)) {
            cells[0] = name;
        }
        widths[0] = widest(&cells, 0, name_width);
        let mut text = self.line(&head, &widths, Style::new().bold());
        let ends = if self.is_folded {
            server_ends(rows)
        } else {
            Vec::new()
        };
        let lines: Vec<String> = (rows.iter().zip(&cells).enumerate())
            .filter_map(|(index, (row, cells))| {
                let style = style(row.attention());
                match ends.iter().find(|end| end.members.contains(&index)) {
                    None => Some(self.line(cells, &widths, style)),
                    Some(end) if end.members.last() == Some(&index) => {
                        Some(self.end_line(end, &cells[3], &widths, style))
                    }
                    Some(_) => None,
                }
            })
            .collect();
        // The header, the counts, the cursor and the number of omitted rows each take one more line.
        let room = match self.height {
            Some(height) if lines.len() + 3 > height => height.saturating_sub(4),
            _ => lines.len(),
        };
        text.extend(lines.iter().take(room).map(String::as_str));
        if room < lines.len() {
            text.push_str(&format!("… {} more\n", lines.len() - room));
        }
        text.push_str(&with_ellipsis(&counts(rows), self.width));
        text.push('\n');
        text
    }

    fn line(&self, cells: &[String; 5], widths: &[usize; 4], style: Style) -> String {
        let mut line = String::new();
        let mut used = 0;
        for (cell, width) in cells.iter().zip(widths) {
            let cell = with_ellipsis(cell, *width);
            let blanks = width.saturating_sub(cell.width()) + 2;
            line.push_str(&cell);
            line.push_str(&" ".repeat(blanks));
            used += width + 2;
        }
        line.push_str(&with_ellipsis(&cells[4], self.width.saturating_sub(used)));
        self.styled(&line, style)
    }

    /// Returns the line of rows that ended with their server: its words have the room of the columns before the age.
    fn end_line(&self, end: &ServerEnd, age: &str, widths: &[usize; 4], style: Style) -> String {
        let words = one_line(&end.words());
        let room: usize = widths[..3].iter().map(|width| width + 2).sum();
        let blanks = room.saturating_sub(words.width()).max(2);
        self.styled(&format!("{words}{}{age}", " ".repeat(blanks)), style)
    }

    fn styled(&self, line: &str, style: Style) -> String {
        // A narrow terminal shows the beginning of each line.
        let line = with_ellipsis(line.trim_end(), self.width);
        if self.is_coloured {
            format!("{style}{line}{style:#}\n")
        } else {
            line + "\n"
        }
    }
}

/// Returns the program of a row's agent, or `-`.
pub(super) fn agent_of(row: &Row) -> String {
    one_line(row.agent.as_deref().unwrap_or("-"))
}

/// Returns the last text of a row: the agent's question, or else its last line, after the phases ahead of a
/// loop.
pub(super) fn last_text(row: &Row) -> String {
    // Of a failure, the state tells the words.
    let has_failed = row.state == RowState::Failed && !row.last_line.is_empty();
    let asks = row.asks.as_deref().filter(|_| !has_failed);
    let running = row.background.filter(|_| asks.is_none());
    let running = running.map(|running| running.to_string());
    let done = row.progress.map(|done| format!("{done}%"));
    let running = done.filter(|_| asks.is_none()).or(running);
    let last = asks.unwrap_or(&row.last_line).trim();
    // The words of a limit are longer than a terminal is wide, and its end is what matters of them.
    let end = end_in_words(last).filter(|end| row.is_limited() && !last.starts_with(end));
    let last = end.map_or_else(|| last.to_owned(), |end| format!("{end}: {last}"));
    let last = match running {
        Some(running) if last.is_empty() => running,
        Some(running) => format!("{running}: {last}"),
        None => last,
    };
    one_line(&match (phases_of(row), last.as_str()) {
        (None, last) => last.to_owned(),
        (Some(phases), "") => phases,
        (Some(phases), last) => format!("{phases}: {last}"),
    })
}

/// Returns the phases ahead of a loop that runs, unless its only phase is the task itself.
pub(super) fn phases_of(row: &Row) -> Option<String> {
    match row.phases.as_deref()? {
        [] => None,
        [only] if *only == row.name => None,
        phases => Some(phases_ahead(phases)).filter(|_| !row.has_ended()),
    }
}

/// Returns the state of a row, with its exit status if it has one. That of a killed writer is the word of `runs`.
pub(super) fn state_in_words(row: &Row) -> String {
    match row.exit_status {
        Some(status) if row.state == RowState::Failed => format!("failed {status}"),
        None if row.cut_off => RunStatus::CutOff.as_str().to_owned(),
        Some(status) if row.has_ended() => format!("exited {status}"),
        _ => one_line(row.state.as_str()).replace('_', " "),
    }
}

fn style(attention: Attention) -> Style {
    match attention {
        Attention::NeedsYou => Style::new().bold().fg_color(Some(AnsiColor::Yellow.into())),
        Attention::Finished => Style::new().fg_color(Some(AnsiColor::Green.into())),
        Attention::Working => Style::new(),
        Attention::Quiet => Style::new().dimmed(),
    }
}

fn counts(rows: &[Row]) -> String {
    let count = |group| rows.iter().filter(|row| row.attention() == group).count();
    let need = match count(Attention::NeedsYou) {
        1 => "1 needs you".to_owned(),
        count => format!("{count} need you"),
    };
    format!(
        "{need}, {} finished, {} working, {} quiet",
        count(Attention::Finished),
        count(Attention::Working),
        count(Attention::Quiet)
    )
}

/// Returns the time since a point, in its largest unit.
pub(super) fn age_of(since: Timestamp, now: Timestamp) -> String {
    match now.micros().saturating_sub(since.micros()) / 1_000_000 {
        ..0 => "0s".to_owned(),
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

// Draws and erases the live rows at the foot of a terminal, also after a resize (pure).

/// The live rows that are on the terminal.
#[derive(Debug, Default)]
pub(super) struct LiveRows {
    pub rows: Vec<String>,
    columns: usize,
}

impl LiveRows {
    pub fn shows(&self, rows: &[String], columns: usize) -> bool {
        self.rows == rows && (rows.is_empty() || self.columns == columns)
    }

    /// Draws rows; no rows may be shown. The cursor stays in the last row.
    pub fn draw(&mut self, rows: Vec<String>, columns: usize) -> String {
        let drawn = rows.join("\n");
        (self.rows, self.columns) = (rows, columns);
        drawn
    }

    /// Erases the rows on a terminal that now has this many columns: the terminal has wrapped wider rows.
    pub fn erase(&mut self, columns: usize) -> String {
        let rows = std::mem::take(&mut self.rows).into_iter();
        let rows: usize = rows.map(|row| rows_of(&row, columns)).sum();
        match rows {
            0 => String::new(),
            1 => "\r\x1b[K".to_owned(),
            _ => format!("\r\x1b[{}A\x1b[J", rows - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    mod board_table {

        use super::super::*;
        use crate::board::{Board, ExecutionKind};
        use crate::event::{Envelope, TdEvent};
        use crate::face::row_names;

        #[test]
        fn what_runs_in_the_background_stands_before_the_last_line() {
            let key = crate::board::RowKey {
                execution_id: "s".into(),
                part: None,
            };
            let at = Timestamp::from_micros(0);
            let mut row = Row::new(&key, "s".to_owned(), ExecutionKind::Command, at);
            "It runs.".clone_into(&mut row.last_line);
            for (shells, agents, asks, expected) in [
                (1, 0, None, "1 shell still running: It runs."),
                (2, 1, None, "2 shells, 1 sub-agent still running: It runs."),
                (1, 0, Some("May I?"), "May I?"),
            ] {
                row.background = Some(crate::event::Background { shells, agents });
                row.asks = asks.map(str::to_owned);
                assert_eq!(last_text(&row), expected);
            }
        }

        #[test]
        fn of_80_columns_36_are_what_a_row_says_and_a_failure_is_said_once() {
            let rows = ["claude", "opencode", "make"].map(|agent| {
                let key = crate::board::RowKey {
                    execution_id: "work@1".into(),
                    part: Some(format!("%{}", agent.len())),
                };
                let at = Timestamp::from_micros(0);
                let mut row = Row::new(&key, "work".to_owned(), ExecutionKind::Pane, at);
                row.label = Some(format!("work-{agent} (master)"));
                row.agent = Some(agent.to_owned());
                row.state = RowState::Failed;
                row.exit_status = Some(2);
                row.asks = Some(format!("{agent} failed (2)"));
                row.last_line = "part11.c:17:5: error: expected ; before }".to_owned();
                row
            });
            let table = BoardTable {
                width: 80,
                height: None,
                is_coloured: false,
                is_folded: true,
                now: Timestamp::from_micros(0),
            };
            let text = table.render(&rows, |width| row_names(&rows, width));
            for name in [
                "work-claude (mas…",
                "work-opencode (m…",
                "work-make (maste…",
            ] {
                assert!(text.contains(name), "{name}: {text}");
            }
            let rows = text.lines().filter(|line| line.starts_with("work-"));
            for row in rows {
                let (_, last) = row.split_once("  0s   ").unwrap();
                assert!(last.starts_with("part11.c:17:5: error: expected"), "{text}");
                assert_eq!(last.width(), 36, "{text}");
            }
        }

        #[test]
        fn a_table_of_limited_height_shows_the_first_rows() {
            let mut board = Board::default();
            for number in 0..30 {
                let event = TdEvent::PaneOpened {
                    execution_id: format!("s{number}").into(),
                    pane: format!("%{number}").into(),
                    width: 80,
                    height: 24,
                    command: "cat".into(),
                    is_new: None,
                };
                board.apply(&Envelope::new(None, Timestamp::from_micros(number), event));
            }
            let rows: Vec<Row> = board.rows().cloned().collect();
            for (height, lines, shown) in [(None, 32, 30), (Some(24), 23, 20), (Some(33), 32, 30)] {
                let table = BoardTable {
                    width: 30,
                    height,
                    is_coloured: false,
                    is_folded: true,
                    now: Timestamp::from_micros(0),
                };
                let text = table.render(&rows, |width| row_names(&rows, width));
                assert_eq!(text.lines().count(), lines, "{text}");
                assert!(text.lines().all(|line| line.width() <= 30), "{text}");
                let is_row = |line: &&str| line.contains(" cat ");
                assert_eq!(text.lines().filter(is_row).count(), shown, "{text}");
                assert!(text.starts_with("NAME"), "{text}");
            }
        }
    }

    mod live_rows {

        use super::super::*;

        #[test]
        fn rows_that_the_terminal_wrapped_are_erased() {
            let mut live = LiveRows::default();
            assert_eq!(live.erase(80), "");
            let rows = vec!["a".repeat(50), "\u{1b}[31mb\u{1b}[0m".to_owned()];
            assert_eq!(
                live.draw(rows.clone(), 79),
                format!("{}\n\u{1b}[31mb\u{1b}[0m", "a".repeat(50))
            );
            assert!(live.shows(&rows, 79) && !live.shows(&rows, 60) && !live.shows(&rows[..1], 79));
            assert_eq!(live.erase(80), "\r\u{1b}[1A\u{1b}[J");
            assert_eq!(live.erase(80), "");
            live.draw(rows, 79);
            assert_eq!(live.erase(20), "\r\u{1b}[3A\u{1b}[J");
            live.draw(vec!["x".to_owned()], 79);
            assert_eq!(live.erase(80), "\r\u{1b}[K");
            assert!(live.shows(&[], 3));
        }
    }
}
