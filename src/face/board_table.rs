//! Renders the board as a table for a terminal: one line per row, rows that need the user first (pure).

use std::collections::BTreeSet;

use super::ansi::rows_of;
use super::describe::phases_ahead;
use super::sanitize::{one_line, with_ellipsis};
use crate::board::{Attention, Row};
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
    pub now: Timestamp,
}

impl BoardTable {
    /// Returns the table: a header, the rows, and a line with the counts.
    pub fn render(&self, rows: &[Row]) -> String {
        if rows.is_empty() {
            return "nothing is observed\n".to_owned();
        }
        let cells = rows.iter().zip(row_names(rows)).map(|(row, name)| {
            let age = age_of(row.since, self.now);
            [
                name,
                agent_of(row),
                state_in_words(row),
                age,
                last_text(row),
            ]
        });
        let cells: Vec<[String; 5]> = cells.collect();
        let head = ["NAME", "AGENT", "STATE", "FOR", "LAST"].map(str::to_owned);
        let maxima = [24, 12, 10, 5];
        let mut widths = [0; 4];
        for line in std::iter::once(&head).chain(&cells) {
            for ((width, cell), max) in widths.iter_mut().zip(line).zip(maxima) {
                *width = (*width).max(cell.width()).min(max);
            }
        }
        let mut text = self.line(&head, &widths, Style::new().bold());
        // The header, the counts, the cursor and the number of omitted rows each take one more line.
        let room = match self.height {
            Some(height) if rows.len() + 3 > height => height.saturating_sub(4),
            _ => rows.len(),
        };
        for (row, cells) in rows.iter().zip(&cells).take(room) {
            text.push_str(&self.line(cells, &widths, style(row.attention())));
        }
        if room < rows.len() {
            text.push_str(&format!("… {} more\n", rows.len() - room));
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
        // A narrow terminal shows the beginning of each line.
        let line = with_ellipsis(line.trim_end(), self.width);
        if self.is_coloured {
            format!("{style}{line}{style:#}\n")
        } else {
            line + "\n"
        }
    }
}

/// Returns the names of rows with their pane, and with their tmux server if there are several.
pub(super) fn row_names(rows: &[Row]) -> Vec<String> {
    let named = rows.iter().zip(server_names(rows));
    let names = named.map(|(row, server)| match (&row.pane, server) {
        (Some(pane), Some(server)) => format!("{server}:{} {pane}", row.name),
        (Some(pane), None) => format!("{} {pane}", row.name),
        (None, _) => row.name.clone(),
    });
    names.map(|name| one_line(&name)).collect()
}

/// Returns the program of a row's agent, or `-`.
pub(super) fn agent_of(row: &Row) -> String {
    one_line(row.agent.as_deref().unwrap_or("-"))
}

/// Returns the last text of a row: the agent's question, or else its last line, after the phases ahead of a
/// loop.
pub(super) fn last_text(row: &Row) -> String {
    let last = row.asks.as_deref().unwrap_or(&row.last_line).trim();
    one_line(&match (phases_of(row), last) {
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

/// Returns the state of a row, with its exit status if it has one.
pub(super) fn state_in_words(row: &Row) -> String {
    match row.exit_status {
        Some(status) if row.has_ended() => format!("exited {status}"),
        _ => one_line(row.state.as_str()),
    }
}

/// Returns the name of each row's tmux server if the rows belong to more than one server: the name of its
/// socket, as for `-L`, or the path of the socket if several have the same name.
pub(crate) fn server_names(rows: &[Row]) -> Vec<Option<String>> {
    let sockets: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row.server.as_deref())
        .collect();
    let short = |socket: &str| socket.rsplit('/').next().unwrap_or(socket).to_owned();
    let name = |socket: &str| {
        let mut same = sockets.iter().filter(|other| short(other) == short(socket));
        match same.nth(1) {
            Some(_) => socket.to_owned(),
            None => short(socket),
        }
    };
    let are_several = sockets.len() > 1;
    let servers = rows
        .iter()
        .map(|row| row.server.as_deref().filter(|_| are_several));
    servers.map(|socket| socket.map(name)).collect()
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
        use crate::board::Board;
        use crate::event::{Envelope, TdEvent};

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
                };
                board.apply(&Envelope::new(None, Timestamp::from_micros(number), event));
            }
            let rows: Vec<Row> = board.rows().cloned().collect();
            for (height, lines, shown) in [(None, 32, 30), (Some(24), 23, 20), (Some(33), 32, 30)] {
                let table = BoardTable {
                    width: 30,
                    height,
                    is_coloured: false,
                    now: Timestamp::from_micros(0),
                };
                let text = table.render(&rows);
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
