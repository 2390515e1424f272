//! A data directory whose logs the history's own writer writes, rotates and compresses.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::board::{ExecutionKind, Row, RowKey};
use crate::clock::Clock;
use crate::event::{Envelope, TdEvent};
use crate::face::local_time::LocalTime;
use crate::face::row_log::is_shown;
use crate::face::samples;
use crate::face::view_lines::{Content, LineView, Lines, Position};
use crate::history::{
    DataDir, LogOptions, LogWriter, Retention, Rotation, RunInfo, RunKind, SyncPolicy,
};
use crate::thread;

/// The longest wait for what must come.
const CEILING: Duration = Duration::from_secs(60);

pub(super) const PANE: (&str, &str) = ("x", "%1");
pub(super) const COMMAND: &str = "make@17";
pub(super) const AGENT: &str = "claude-1";

pub(super) struct Logs {
    pub data: DataDir,
    clock: Clock,
    writer: Option<LogWriter>,
    numbers: BTreeMap<String, u64>,
    pub events: Vec<Envelope>,
    _temp: tempfile::TempDir,
}

impl Logs {
    /// Continues a log in another file after so many bytes.
    pub fn new(file_bytes: u64) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::new(temp.path());
        data.prepare().unwrap();
        let clock = Clock::system();
        let options = LogOptions {
            sync: SyncPolicy::Never,
            rotation: Rotation {
                bytes_max: file_bytes,
                age_max: None,
            },
            retention: Retention::EVERYTHING,
        };
        let writer = LogWriter::start(options, clock.clone()).unwrap();
        Self {
            data,
            clock,
            writer: Some(writer),
            numbers: BTreeMap::new(),
            events: Vec::new(),
            _temp: temp,
        }
    }

    pub fn log(&mut self, events: impl IntoIterator<Item = TdEvent>) {
        for event in events {
            let id = event.execution_id().to_string();
            self.open(&id);
            let seq = self.numbers.entry(id).or_default();
            *seq += 1;
            let envelope = Envelope::new(Some(*seq), self.clock.wall(), event);
            self.append(envelope.clone());
            self.events.push(envelope);
        }
    }

    fn append(&mut self, envelope: Envelope) {
        let (writer, now) = (self.writer.as_mut().unwrap(), self.clock.now());
        writer.append(&[envelope], now);
        writer.tick(now);
    }

    fn open(&mut self, id: &str) {
        if self.numbers.contains_key(id) {
            return;
        }
        let kind = match id {
            COMMAND => RunKind::Process,
            AGENT => RunKind::Agents,
            _ => RunKind::Tmux,
        };
        let info = RunInfo {
            kind,
            label: format!("label of {id}"),
            ..RunInfo::default()
        };
        let run = self.data.run(&id.into());
        let open = run.open(info, self.clock.wall()).unwrap();
        let now = self.clock.now();
        self.writer.as_mut().unwrap().attach(open, now);
        self.numbers.insert(id.to_owned(), 0);
    }

    /// Skips numbers, as if their events were lost.
    pub fn skip(&mut self, id: &str, count: u64) {
        *self.numbers.entry(id.to_owned()).or_default() += count;
    }

    /// Waits until all closed files are compressed; returns their number.
    pub fn compressed(&mut self, id: &str) -> usize {
        let deadline = Instant::now() + CEILING;
        loop {
            let entries = std::fs::read_dir(self.data.run(&id.into()).path()).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let closed: Vec<String> = names.filter(|name| name.starts_with("events.0")).collect();
            if closed.iter().all(|name| name.ends_with(".gz")) {
                return closed.len();
            }
            assert!(Instant::now() < deadline, "{closed:?}");
            thread::park(Some(Duration::from_millis(1)));
        }
    }

    /// Returns the lines of a row: those of all its events.
    pub fn lines(&self, row: &Row) -> Lines {
        let mut content = Content::new(LineView::Output, LocalTime::of_system());
        let mut lines = Lines::default();
        let own = self.events.iter().filter(|envelope| {
            let event = &envelope.event;
            row.execution_id == *event.execution_id() && is_shown(row, event)
        });
        for envelope in own {
            content.push(envelope, &mut |change| {
                lines.apply(change);
            });
        }
        lines
    }

    pub fn texts(&self, row: &Row) -> Vec<String> {
        let lines = self.lines(row);
        lines.iter().map(|line| line.text.text.clone()).collect()
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            let _ = writer.finish(self.clock.now());
        }
    }
}

pub(super) fn pane_row() -> Row {
    row(PANE.0, Some(PANE.1), ExecutionKind::Pane)
}

pub(super) fn row(run: &str, part: Option<&str>, kind: ExecutionKind) -> Row {
    let key = RowKey {
        execution_id: run.into(),
        part: part.map(str::to_owned),
    };
    let agent = part.filter(|_| kind == ExecutionKind::Agent);
    let name = agent.unwrap_or(run).to_owned();
    Row::new(&key, name, kind, Default::default())
}

pub(super) fn row_of(is_pane: bool) -> Row {
    if is_pane {
        pane_row()
    } else {
        row(COMMAND, None, ExecutionKind::Command)
    }
}

pub(super) const START: Position = Position { seq: 0, nth: 0 };

/// An event of the row with a pane, or of another one in its run.
pub(super) fn pane_event(number: i64, kind: u8) -> TdEvent {
    match kind % 12 {
        0..=3 => samples::update_of("%1", number, &format!("line {number}\n"), Vec::new()),
        4 => samples::update(number, &format!("{number} a\n{number} b \"quoted\"\n")),
        5 => samples::update_of("%2", number, "other\n", Vec::new()),
        6 => samples::gap(number, Some(3), "lagged"),
        7 => samples::agent_state("working", "title"),
        8 => samples::gap(number, None, "lagged"),
        9 => samples::screen(80, 24, &[(0, "row")]),
        10 => samples::update(number, &format!("tab\tand \u{1b}[31mé漢 {number}\n")),
        // A line that has begun.
        _ => samples::revised(number + 1, "begun"),
    }
}

/// An event of a command, whose lines may begin and end in different events.
pub(super) fn command_event(number: i64, kind: u8) -> TdEvent {
    match kind % 8 {
        0 => samples::output("stdout", &format!("begun {number} ")),
        1 => samples::output("stdout", &format!("{number}\nand ")),
        2 => samples::output("stderr", &format!("\x1b[31mred {number}")),
        3 => samples::output("stderr", " end\n"),
        4 => samples::token(&format!("word{number} ")),
        5 => samples::output("stdout", &format!("a {number}\nb\nc\n")),
        6 => samples::output("stdout", "10%\r"),
        _ => samples::checked(0, 1),
    }
}

pub(super) fn events_of(kinds: &[u8], is_pane: bool) -> Vec<TdEvent> {
    events_from(0, kinds, is_pane)
}

/// Returns events of lines after a number.
pub(super) fn events_from(begin: i64, kinds: &[u8], is_pane: bool) -> Vec<TdEvent> {
    let event = if is_pane { pane_event } else { command_event };
    let numbered = (1_i64..).zip(kinds);
    numbered
        .map(|(number, kind)| event(begin + 2 * number, *kind))
        .collect()
}
