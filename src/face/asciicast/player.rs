//! For tests: reads casts strictly and plays them through an emulator.

use avt::{ScreenKind, Terminal};

use super::{AsciicastExport, AsciicastOptions};
use crate::event::{Envelope, GapEvidence, TdEvent};
use crate::recording::strict_reader::{Event, Header, read};
use crate::timestamp::Timestamp;

/// A cast that was read.
#[derive(Debug)]
pub struct Played {
    pub header: Header,
    pub events: Vec<Event>,
}

impl Played {
    /// Renders and reads.
    #[track_caller]
    pub fn of(options: AsciicastOptions, envelopes: &[Envelope]) -> (Self, u64) {
        let (mut cast, mut text) = (AsciicastExport::new(options), String::new());
        for envelope in envelopes {
            let before = text.len();
            cast.push(envelope, &mut text);
            assert!(text.len() == before || text.ends_with('\n'));
        }
        cast.finish(&mut text);
        (Self::read(&text), cast.unreached())
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

    /// The terminal at the end.
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

    /// The rows of the screen at the end.
    pub fn screen(&self) -> Vec<String> {
        let terminal = self.play(Some(0));
        trimmed(terminal.screen().visible_lines().map(|line| line.text()))
    }

    /// The lines at the end, what scrolled off included.
    pub fn text(&self) -> Vec<String> {
        let terminal = self.play(None);
        assert!(terminal.active_screen_kind() == ScreenKind::Primary);
        trimmed(terminal.screen().text())
    }
}

/// Without blanks at the ends of lines and empty lines at the end.
pub fn trimmed(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let lines = lines.into_iter().map(|line| line.trim_end().to_owned());
    let mut lines: Vec<String> = lines.collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// A log of these events, a tenth of a second apart.
pub fn log(events: impl IntoIterator<Item = TdEvent>) -> Vec<Envelope> {
    let begin = 1_700_000_000_000_000;
    (1..)
        .zip(events)
        .map(|(seq, event)| {
            let ts = Timestamp::from_micros(begin + seq as i64 * 100_003);
            Envelope::new(Some(seq), ts, event)
        })
        .collect()
}

pub fn opened(pane: &str, width: u32, height: u32) -> TdEvent {
    TdEvent::PaneOpened {
        execution_id: "x".into(),
        pane: pane.into(),
        width,
        height,
        command: "sh".into(),
    }
}

pub fn resized(width: u32, height: u32) -> TdEvent {
    TdEvent::PaneResized {
        execution_id: "x".into(),
        pane: "%1".into(),
        width,
        height,
    }
}

pub fn update(first_line: i64, chunk: &str) -> TdEvent {
    TdEvent::OutputUpdate {
        execution_id: "x".into(),
        pane: "%1".into(),
        first_line,
        chunk: chunk.into(),
        is_complete: false,
        reason: None,
        exit_status: None,
        styles: Default::default(),
    }
}

pub fn revised(line: i64, text: &str) -> TdEvent {
    TdEvent::OutputRevised {
        execution_id: "x".into(),
        pane: "%1".into(),
        line,
        text: text.into(),
        styles: Default::default(),
    }
}

pub fn screen(width: u32, height: u32, rows: &[(u32, &str)]) -> TdEvent {
    let row = |(row, text): &(u32, &str)| crate::event::ScreenRow {
        row: *row,
        text: (*text).into(),
    };
    TdEvent::ScreenUpdate {
        execution_id: "x".into(),
        pane: "%1".into(),
        width,
        height,
        cursor: crate::event::Cursor { x: 1, y: 0 },
        rows: rows.iter().map(row).collect(),
    }
}

pub fn gap(first_line: i64, lost_lines: Option<u64>, reason: &str) -> TdEvent {
    TdEvent::OutputGap {
        execution_id: "x".into(),
        pane: "%1".into(),
        first_line,
        lost_lines,
        reason: reason.into(),
        evidence: GapEvidence::Confirmed,
    }
}

pub fn closed(exit_status: Option<i32>) -> TdEvent {
    TdEvent::PaneClosed {
        execution_id: "x".into(),
        pane: "%1".into(),
        reason: "exited".into(),
        exit_status,
    }
}
