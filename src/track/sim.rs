//! A model of tmux's grid for tests of trackers: wrapping, history, trimming, erasing.

use unicode_width::UnicodeWidthChar;

use super::capture::{Capture, PaneNumbers, ProcessExit, Row};
use crate::event::Cursor;

#[derive(Debug)]
pub struct Sim {
    pub width: usize,
    pub height: usize,
    pub limit: usize,
    history: Vec<Row>,
    screen: Vec<Row>,
    x: usize,
    y: usize,
    /// Bytes read by the server.
    pub bytes: u64,
    /// True if captures contain the bytes that the server has read.
    pub reports_bytes: bool,
    dead: Option<ProcessExit>,
}

impl Sim {
    pub fn new(width: usize, height: usize, limit: usize) -> Self {
        let screen = vec![Row::default(); height];
        Self {
            width,
            height,
            limit,
            history: vec![],
            screen,
            x: 0,
            y: 0,
            bytes: 0,
            reports_bytes: true,
            dead: None,
        }
    }

    fn push_history(&mut self, row: Row) {
        if self.limit == 0 {
            // tmux keeps what a change of width has pushed off, and loses all other rows.
            if let Some(above) = self.history.last_mut() {
                above.wrapped = false;
            }
            return;
        }
        if !self.history.is_empty() && self.history.len() >= self.limit {
            let step = (self.limit / 10).max(1).min(self.history.len());
            self.history.drain(..step);
        }
        self.history.push(row);
    }

    /// Sets another limit, as an option does in tmux 3.7 and newer.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        let surplus = self.history.len().saturating_sub(limit);
        self.history.drain(..surplus);
    }

    fn line_feed(&mut self) {
        if self.y + 1 < self.height {
            self.y += 1;
        } else {
            let top = self.screen.remove(0);
            self.screen.push(Row::default());
            self.push_history(top);
        }
    }

    fn put(&mut self, character: char) {
        let width = character.width().unwrap_or(0);
        if width == 0 || width > self.width {
            return;
        }
        if self.x + width > self.width {
            self.screen[self.y].wrapped = true;
            self.line_feed();
            self.x = 0;
        }
        // A row is as long as its columns only if it is ASCII.
        let row = &mut self.screen[self.y].text;
        if character.is_ascii() && row.len() == self.x {
            row.push(character);
            self.x += 1;
            return;
        }
        // A wide character takes its own cell and an empty one.
        let mut cells = cells(&self.screen[self.y].text);
        while cells.len() < self.x + width {
            cells.push(Some(' '));
        }
        cells[self.x] = Some(character);
        if width == 2 {
            cells[self.x + 1] = None;
        }
        self.screen[self.y].text = cells.into_iter().flatten().collect();
        self.x += width;
    }

    /// Prints text of a program; `\n` is `\r\n`, as the terminal's line discipline makes it.
    pub fn print(&mut self, text: &str) {
        for character in text.chars() {
            self.bytes += character.len_utf8() as u64;
            match character {
                '\n' => {
                    self.bytes += 1;
                    self.x = 0;
                    self.line_feed();
                }
                '\r' => self.x = 0,
                other => self.put(other),
            }
        }
    }

    pub fn up(&mut self, rows: usize) {
        self.bytes += 3;
        self.y = self.y.saturating_sub(rows);
        self.x = 0;
    }

    pub fn down(&mut self, rows: usize) {
        self.bytes += 3;
        self.y = (self.y + rows).min(self.height - 1);
        self.x = 0;
    }

    pub fn erase_line(&mut self) {
        self.bytes += 3;
        self.x = 0;
        if self.y > 0 {
            self.screen[self.y - 1].wrapped = false;
        }
        self.screen[self.y] = Row::default();
    }

    pub fn erase_below(&mut self) {
        self.bytes += 3;
        for row in &mut self.screen[self.y + 1..] {
            *row = Row::default();
        }
        self.screen[self.y].wrapped = false;
    }

    /// `ESC [ H ESC [ J`: tmux moves the rows in use to its history.
    pub fn clear(&mut self) {
        self.bytes += 7;
        let used = self
            .screen
            .iter()
            .rposition(|row| !row.text.is_empty())
            .map_or(0, |last| last + 1);
        for _ in 0..used {
            let top = self.screen.remove(0);
            self.screen.push(Row::default());
            self.push_history(top);
        }
        (self.x, self.y) = (0, 0);
    }

    /// `clear` under tmux-256color, which sends E3, too.
    pub fn clear_all(&mut self) {
        self.clear();
        self.clear_history();
    }

    pub fn clear_history(&mut self) {
        self.bytes += 4;
        self.history.clear();
    }

    /// Ends the program; tmux keeps the pane. It scrolls once and writes a notice at the bottom, which
    /// a capture may precede.
    pub fn die(&mut self, has_notice: bool) {
        self.dead = Some(ProcessExit {
            status: Some(0),
            signal: None,
        });
        if has_notice {
            self.y = self.height - 1;
            self.line_feed();
            self.screen[self.y].text = "Pane is dead".into();
        }
    }

    pub fn set_height(&mut self, height: usize) {
        while self.screen.len() > height {
            let last_used = self
                .screen
                .iter()
                .rposition(|row| !row.text.is_empty())
                .unwrap_or(0);
            if self.screen.len() - 1 > last_used.max(self.y) {
                self.screen.pop();
            } else {
                let top = self.screen.remove(0);
                if self.limit == 0 {
                    self.push_history(top);
                } else {
                    self.history.push(top);
                }
                self.y = self.y.saturating_sub(1);
            }
        }
        while self.screen.len() < height {
            let from_history = (self.limit > 0).then(|| self.history.pop()).flatten();
            if let Some(row) = from_history {
                self.screen.insert(0, row);
                self.y += 1;
            } else {
                self.screen.push(Row::default());
            }
        }
        self.height = height;
    }

    /// Rewraps all rows. As in tmux, the cursor goes to the top if its row is above the screen then.
    pub fn set_width(&mut self, width: usize) {
        let above = self.history.len();
        let rows = self.history.drain(..).chain(self.screen.drain(..));
        let mut target: Vec<Row> = Vec::new();
        let mut cursor = (self.x, above + self.y);
        let (mut column, mut continues) = (0, false);
        for (at, row) in rows.enumerate() {
            if !continues {
                target.push(Row::default());
                column = 0;
            }
            let mut own = 0;
            for character in row.text.chars() {
                let columns = character.width().unwrap_or(0);
                if column + columns > width {
                    target.last_mut().unwrap().wrapped = true;
                    target.push(Row::default());
                    column = 0;
                }
                if (own, at) == (self.x, above + self.y) {
                    cursor = (column, target.len() - 1);
                }
                target.last_mut().unwrap().text.push(character);
                (column, own) = (column + columns, own + columns);
            }
            if at == above + self.y && own <= self.x {
                cursor = (column + self.x - own, target.len() - 1);
            }
            continues = row.wrapped;
        }
        while target.len() < self.height {
            target.push(Row::default());
        }
        self.screen = target.split_off(target.len() - self.height);
        self.history = target;
        self.width = width;
        (self.x, self.y) = match cursor.1.checked_sub(self.history.len()) {
            Some(y) => (cursor.0.min(width), y),
            None => (0, 0),
        };
    }

    /// Returns all lines in use, as `capture-pane -J` prints them.
    pub fn text(&self) -> Vec<String> {
        let capture = self.capture(usize::MAX);
        let used = super::lines::used_rows(&self.screen, self.y);
        let rows = &capture.rows[..self.history.len() + used];
        super::lines::group(rows, 0)
            .into_iter()
            .map(|line| line.text.trim_end().to_owned())
            .collect()
    }

    pub fn history_size(&self) -> usize {
        self.history.len()
    }

    pub fn capture(&self, depth: usize) -> Capture {
        let from = self.history.len() - depth.min(self.history.len());
        let mut rows = self.history[from..].to_vec();
        rows.extend_from_slice(&self.screen);
        let bytes = self.reports_bytes.then_some(self.bytes);
        Capture {
            numbers: PaneNumbers {
                width: self.width as u32,
                height: self.height as u32,
                history_size: self.history.len() as u32,
                history_limit: self.limit as u32,
                cursor: Cursor {
                    x: self.x as u32,
                    y: self.y as u32,
                },
                dead: self.dead,
                ..PaneNumbers::default()
            },
            rows,
            bytes_before: bytes,
            bytes_after: bytes,
            ..Capture::default()
        }
    }
}

fn cells(text: &str) -> Vec<Option<char>> {
    let mut cells = Vec::new();
    for character in text.chars() {
        cells.push(Some(character));
        if character.width() == Some(2) {
            cells.push(None);
        }
    }
    cells
}
