//! Renders the board as a table for a terminal: one line per row, rows that need the user first (pure).

use std::collections::HashMap;

use super::ansi::rows_of;
use super::describe::phases_ahead;
use super::sanitize::{one_line, with_ellipsis};
use super::server_ends::{ServerEnd, server_ends, short_of, sockets_of};
use crate::board::{Attention, ExecutionKind, Row, RowState, end_in_words};
use crate::event::{ExecutionId, PaneId};
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

/// The columns of the longest name in the table.
pub(crate) const NAME_WIDTH: usize = 24;

impl BoardTable {
    /// Returns the table: a header, the rows with their display names, and a line with the counts.
    pub fn render(&self, rows: &[Row], names: &[String]) -> String {
        if rows.is_empty() {
            return "nothing is observed\n".to_owned();
        }
        let cells = rows.iter().zip(names).map(|(row, name)| {
            let age = age_of(row.since, self.now);
            [
                name.clone(),
                agent_of(row),
                state_in_words(row),
                age,
                last_text(row),
            ]
        });
        let cells: Vec<[String; 5]> = cells.collect();
        let head = ["NAME", "AGENT", "STATE", "FOR", "LAST"].map(str::to_owned);
        let maxima = [NAME_WIDTH, 12, 12, 5];
        let mut widths = [0; 4];
        for line in std::iter::once(&head).chain(&cells) {
            for ((width, cell), max) in widths.iter_mut().zip(line).zip(maxima) {
                *width = (*width).max(cell.width()).min(max);
            }
        }
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

/// Returns the display name of each row, at most `width` columns wide. No two are equal: a row has the name of its
/// session, command, loop, agent or kernel, after the tmux server if there are several; panes that share a session
/// also have their labels. A name that is not unique within the width gets its pane, or else what tells its execution
/// from others of the same name.
pub(crate) fn row_names(rows: &[Row], width: usize) -> Vec<String> {
    let mut panes_of: HashMap<&ExecutionId, usize> = HashMap::new();
    for row in rows {
        *panes_of.entry(&row.execution_id).or_default() += 1;
    }
    let named = rows.iter().zip(server_names(rows));
    let names = named.map(|(row, server)| {
        let is_alone = panes_of.get(&row.execution_id) == Some(&1);
        let label = row.label.as_deref();
        let name = match (row.kind, label) {
            (ExecutionKind::Agent, Some(label)) => label.to_owned(),
            (_, Some(label)) if !is_alone => format!("{}:{label}", row.name),
            _ => row.name.clone(),
        };
        let server = server.map(|server| format!("{server}:"));
        one_line(&(server.unwrap_or_default() + &name))
    });
    let names: Vec<String> = names.collect();
    // What is appended to the name of each row so far.
    let mut levels = vec![0; rows.len()];
    loop {
        let shown = (rows.iter().zip(&names).zip(&levels))
            .map(|((row, name), level)| told_apart(row, name, *level, width));
        let shown: Vec<String> = shown.collect();
        let mut equal: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, name) in shown.iter().enumerate() {
            equal.entry(name).or_default().push(index);
        }
        let mut is_unique = true;
        for indexes in equal.into_values().filter(|indexes| indexes.len() > 1) {
            // The only row that has not ended keeps its name.
            let mut live = indexes.iter().filter(|index| !rows[**index].has_ended());
            let only_live = live.next().filter(|_| live.next().is_none()).copied();
            for index in indexes
                .into_iter()
                .filter(|index| Some(*index) != only_live)
            {
                is_unique &= levels[index] >= LEVEL_MAX;
                levels[index] = (levels[index] + 1).min(LEVEL_MAX);
            }
        }
        if is_unique {
            return shown;
        }
    }
}

/// The last way to tell a row apart: its whole id.
const LEVEL_MAX: u8 = 3;

/// Returns the name of a row with what tells it apart, cut to a width.
fn told_apart(row: &Row, name: &str, level: u8, width: usize) -> String {
    let pane = row.pane.as_ref().map(PaneId::as_str);
    // `make@1795303463-2`
    let time = row.execution_id.as_str().rsplit_once('@');
    let time = time.map(|(_, time)| format!("@{time}"));
    let mark = match (level, pane, time) {
        (0, ..) => return with_ellipsis(name, width),
        (1, Some(pane), _) => Some(pane.to_owned()),
        (1 | 2, pane, Some(time)) => Some(pane.unwrap_or_default().to_owned() + &time),
        _ => None,
    };
    let Some(mark) = mark else {
        // The end of an id differs, not its beginning.
        let id = one_line(&row.key().to_string());
        let surplus = id.chars().count().saturating_sub(width.max(1));
        return id.chars().skip(surplus).collect();
    };
    let mark = one_line(&mark);
    let room = width.saturating_sub(mark.width() + 1);
    let name = with_ellipsis(name, room);
    if name.is_empty() {
        mark
    } else {
        format!("{name} {mark}")
    }
}

/// Returns the program of a row's agent, or `-`.
pub(super) fn agent_of(row: &Row) -> String {
    one_line(row.agent.as_deref().unwrap_or("-"))
}

/// Returns the last text of a row: the agent's question, or else its last line, after the phases ahead of a
/// loop.
pub(super) fn last_text(row: &Row) -> String {
    // A failure has its words, and the last line of what has failed.
    let failure = (row.asks.as_deref())
        .filter(|words| {
            row.state == RowState::Failed && !row.last_line.is_empty() && *words != row.last_line
        })
        .map(|words| format!("{words}: {}", row.last_line));
    let asks = failure.as_deref().or(row.asks.as_deref());
    let running = row.background.filter(|_| asks.is_none());
    let running = running.map(|running| running.to_string());
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

/// Returns the name of each row's tmux server if the rows belong to more than one server: the name of its
/// socket, as for `-L`, or the path of the socket if several have the same name.
pub(crate) fn server_names(rows: &[Row]) -> Vec<Option<String>> {
    let sockets = sockets_of(rows);
    let are_several = sockets.len() > 1;
    let servers = rows
        .iter()
        .map(|row| row.server.as_deref().filter(|_| are_several));
    servers
        .map(|socket| socket.map(|socket| short_of(socket, &sockets)))
        .collect()
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
                let text = table.render(&rows, &row_names(&rows, NAME_WIDTH));
                assert_eq!(text.lines().count(), lines, "{text}");
                assert!(text.lines().all(|line| line.width() <= 30), "{text}");
                let is_row = |line: &&str| line.contains(" cat ");
                assert_eq!(text.lines().filter(is_row).count(), shown, "{text}");
                assert!(text.starts_with("NAME"), "{text}");
            }
        }
    }

    mod names {

        use super::super::*;
        use crate::board::RowKey;

        fn row(id: &str, pane: Option<&str>, label: Option<&str>, has_ended: bool) -> Row {
            let key = RowKey {
                execution_id: id.into(),
                part: pane.map(str::to_owned),
            };
            let name = id.split('@').next().unwrap_or(id).to_owned();
            let kind = match pane {
                Some(_) => ExecutionKind::Pane,
                None => ExecutionKind::Command,
            };
            let mut row = Row::new(&key, name, kind, Timestamp::from_micros(0));
            row.label = label.map(str::to_owned);
            if has_ended {
                row.state = RowState::Exited;
            }
            row
        }

        #[test]
        fn a_pane_has_the_name_of_its_session_and_a_label_beside_others_in_it() {
            let rows = [
                row("docs@1", Some("%1"), Some("docs (main)"), false),
                row("work@2", Some("%2"), Some("tests"), false),
                row("work@2", Some("%3"), Some("api (main)"), false),
                row("work@2", Some("%4"), Some("api (main)"), false),
                row("work@2", Some("%5"), None, false),
                row("make@3", None, None, false),
                row("make@4", None, None, false),
            ];
            let names = [
                "docs",
                "work:tests",
                "work:api (main) %3",
                "work:api (main) %4",
                "work",
                "make @3",
                "make @4",
            ];
            assert_eq!(row_names(&rows, NAME_WIDTH), names);
        }

        #[test]
        fn the_live_row_of_a_name_keeps_it_and_ended_ones_are_told_apart() {
            let rows = [
                row("build@1", Some("%0"), None, true),
                row("build@2", Some("%0"), None, true),
                row("build@3", Some("%0"), None, false),
                row("chosen", None, None, false),
            ];
            let names = ["build %0@1", "build %0@2", "build", "chosen"];
            assert_eq!(row_names(&rows, NAME_WIDTH), names);
        }

        #[test]
        fn names_that_are_cut_differ_at_any_width() {
            let mut rows: Vec<Row> = (0..121)
                .map(|pane| {
                    let label = format!("Implement the same feature {}", pane / 2);
                    row(
                        "big@1795303463",
                        Some(&format!("%{pane}")),
                        Some(&label),
                        false,
                    )
                })
                .collect();
            rows.extend((2..5).map(|number| row(&format!("big@{number}"), Some("%7"), None, true)));
            for width in 6..60 {
                let names = row_names(&rows, width);
                let unique: std::collections::BTreeSet<&String> = names.iter().collect();
                assert_eq!(unique.len(), names.len(), "{width} {names:?}");
                assert!(names.iter().all(|name| name.width() <= width), "{names:?}");
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
