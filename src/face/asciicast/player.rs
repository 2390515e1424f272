//! Test support: reads recordings strictly, and plays them in a terminal emulator.

use avt::{ScreenKind, Terminal};

use super::{AsciicastExport, AsciicastOptions};
use crate::event::Envelope;
use crate::recording::strict_reader::{Event, Header, read};

/// A parsed recording.
#[derive(Debug)]
pub struct Recorded {
    pub header: Header,
    pub events: Vec<Event>,
}

impl Recorded {
    /// Renders and reads a recording; also returns the number of unreached changes.
    #[track_caller]
    pub fn of(options: AsciicastOptions, envelopes: &[Envelope]) -> (Self, u64) {
        let (mut export, mut text) = (AsciicastExport::new(options), String::new());
        for envelope in envelopes {
            let before = text.len();
            export.push(envelope, &mut text);
            assert!(text.len() == before || text.ends_with('\n'));
        }
        export.finish(&mut text);
        (Self::read(&text), export.unreached())
    }

    #[track_caller]
    pub fn read(text: &str) -> Self {
        let (header, events) = read(text);
        Self { header, events }
    }

    pub fn duration_micros(&self) -> u64 {
        self.events.iter().map(|(interval, ..)| interval).sum()
    }

    pub fn all(&self, of: char) -> Vec<&str> {
        let events = self.events.iter().filter(|(_, code, _)| *code == of);
        events.map(|(.., data)| data.as_str()).collect()
    }

    /// Returns the terminal at the end.
    #[track_caller]
    pub fn play(&self, scrollback: Option<usize>) -> Terminal {
        let (columns, rows) = (self.header.term.cols.into(), self.header.term.rows.into());
        let mut terminal = Terminal::with_scrollback(columns, rows, scrollback).unwrap();
        for (_, code, data) in &self.events {
            match code {
                'o' => terminal.feed(data.as_str()),
                'r' => {
                    let (columns, rows) = data.split_once('x').unwrap();
                    terminal.resize(columns.parse().unwrap(), rows.parse().unwrap());
                }
                'm' => assert!(!data.contains(char::is_control), "{data:?}"),
                _ => assert!(data.parse::<i32>().is_ok(), "{data:?}"),
            }
        }
        terminal
    }

    /// Returns the rows of the screen at the end.
    pub fn screen(&self) -> Vec<String> {
        let terminal = self.play(Some(0));
        trimmed(terminal.screen().visible_lines().map(|line| line.text()))
    }

    /// Returns the lines at the end, including those that scrolled off.
    pub fn text(&self) -> Vec<String> {
        let terminal = self.play(None);
        assert!(terminal.active_screen_kind() == ScreenKind::Primary);
        trimmed(terminal.screen().text())
    }
}

/// Trims blanks at the ends of lines, and empty lines at the end.
pub fn trimmed(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let lines = lines.into_iter().map(|line| line.trim_end().to_owned());
    let mut lines: Vec<String> = lines.collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}
