//! Writes events as rows: each event, its lines and their words, the turns and the runs.

use std::collections::HashMap;

use rusqlite::{Result, Statement, params};
use serde_json::{Map, Value};

use super::database::Database;
use super::texts::Texts;
use super::turns::{Turn, Turns, id_of};
use crate::event::{Envelope, TdEvent};
use crate::history::ReadReport;
use crate::timestamp::{Timestamp, TimestampFormatter};

/// A run, as its metadata describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExportedRun {
    pub execution_id: String,
    pub kind: Option<String>,
    pub label: Option<String>,
    pub state: Option<String>,
    pub started: Option<Timestamp>,
    pub exit_status: Option<i32>,
    pub path: String,
}

/// Writes rows into a database, one run after the other.
#[derive(Debug)]
pub(crate) struct Rows<'d> {
    insert_run: Statement<'d>,
    finish_run: Statement<'d>,
    insert_event: Statement<'d>,
    insert_text: Statement<'d>,
    insert_words: Statement<'d>,
    insert_turn: Statement<'d>,
    texts: Texts,
    turns: Turns,
    times: TimestampFormatter,
    /// The log that is being read: its runs by their executions. The log of a run has one; another file may have several.
    log: ExportedRun,
    runs: HashMap<String, usize>,
    open: Vec<OpenRun>,
    /// The place of the run of the last event.
    current: usize,
    /// The ids of the last rows.
    last_run: i64,
    last_event: i64,
    last_text: i64,
    /// The memory of times and fields.
    buffer: Vec<u8>,
}

/// The counts of a run that is being written.
#[derive(Debug)]
struct OpenRun {
    id: i64,
    execution_id: String,
    started: Option<Timestamp>,
    last_event: Option<Timestamp>,
    first_event: i64,
    events: i64,
    lines: i64,
}

impl<'d> Rows<'d> {
    /// Prepares to write into a database.
    ///
    /// # Errors
    /// If its tables are not those of this version.
    pub fn new(database: &'d Database) -> Result<Self> {
        let prepare = |sql: &str| database.connection.prepare(sql);
        Ok(Self {
            insert_run: prepare(
                "INSERT INTO runs (id, execution_id, kind, label, state, exit_status, path)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?,
            finish_run: prepare(
                "UPDATE runs SET started = ?2, last_event = ?3, first_event = ?4, events = ?5, lines = ?6,
                 missing = ?7, damaged = ?8, unreadable = ?9 WHERE id = ?1",
            )?,
            insert_event: prepare("INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?,
            insert_text: prepare("INSERT INTO texts VALUES (?1, ?2, ?3, ?4)")?,
            insert_words: prepare("INSERT INTO lines_text (rowid, text) VALUES (?1, ?2)")?,
            insert_turn: prepare(
                "INSERT INTO turns VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            )?,
            texts: Texts::default(),
            turns: Turns::default(),
            times: TimestampFormatter::default(),
            log: ExportedRun::default(),
            runs: HashMap::new(),
            open: Vec::new(),
            current: 0,
            last_run: 0,
            last_event: 0,
            last_text: 0,
            buffer: Vec::new(),
        })
    }

    /// Begins the log of a run, or of another file, whose executions become runs.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn begin(&mut self, log: ExportedRun) -> Result<()> {
        self.log = log;
        self.current = 0;
        if !self.log.execution_id.is_empty() {
            let id = self.log.execution_id.clone();
            self.open_run(&id)?;
        }
        Ok(())
    }

    /// Writes an event and its lines.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn push(&mut self, envelope: &Envelope) -> Result<()> {
        let at = self.run_of(envelope.event.execution_id())?;
        self.current = at;
        self.last_event += 1;
        let id = self.last_event;
        let Some(run) = self.open.get_mut(at) else {
            return Ok(());
        };
        let run_id = run.id;
        run.note(envelope.ts, id);
        self.insert_event(envelope, run_id)?;
        let lines = self.insert_lines(id, Some(&envelope.event))?;
        if let Some(run) = self.open.get_mut(at) {
            run.lines += lines;
        }
        self.note_turn(envelope, run_id)
    }

    /// Ends a log, of which the reader reports what is missing.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn end(&mut self, report: &ReadReport) -> Result<()> {
        let lines = self.insert_lines(self.last_event, None)?;
        let mut over = Vec::new();
        self.turns.finish(&mut |turn| over.push(turn));
        over.iter().try_for_each(|turn| self.insert_turn(turn))?;
        if let Some(last) = self.open.get_mut(self.current) {
            last.lines += lines;
        }
        let mut counts = Some([
            whole(report.missing()),
            whole(report.invalid),
            whole(report.problems.len() as u64),
        ]);
        for run in std::mem::take(&mut self.open) {
            // What a file with several executions lacks is noted once.
            let [missing, damaged, unreadable] = counts.take().unwrap_or_default();

            let started = run.started.map(|ts| ts.to_string());
            self.finish_run.execute(params![
                run.id,
                started,
                run.last_event.map(|ts| ts.to_string()),
                (run.events > 0).then_some(run.first_event),
                run.events,
                run.lines,
                missing,
                damaged,
                unreadable,
            ])?;
        }
        self.runs.clear();
        Ok(())
    }

    /// Returns the place of the run of an execution, which begins with its first event.
    fn run_of(&mut self, execution_id: &str) -> Result<usize> {
        // Most events are of the same execution as the one before.
        if let [only] = self.open.as_slice()
            && only.execution_id == execution_id
        {
            return Ok(0);
        }
        match self.runs.get(execution_id) {
            Some(at) => Ok(*at),
            None => self.open_run(execution_id),
        }
    }

    fn open_run(&mut self, execution_id: &str) -> Result<usize> {
        self.last_run += 1;
        let is_own = execution_id == self.log.execution_id;
        let log = &self.log;
        let (kind, label, state) = (&log.kind, &log.label, &log.state);
        self.insert_run.execute(params![
            self.last_run,
            execution_id,
            kind.as_ref().filter(|_| is_own),
            label.as_ref().filter(|_| is_own),
            state.as_ref().filter(|_| is_own),
            log.exit_status.filter(|_| is_own),
            log.path,
        ])?;
        self.open.push(OpenRun {
            id: self.last_run,
            execution_id: execution_id.to_owned(),
            started: log.started.filter(|_| is_own),
            last_event: None,
            first_event: 0,
            events: 0,
            lines: 0,
        });
        let at = self.open.len() - 1;
        self.runs.insert(execution_id.to_owned(), at);
        Ok(at)
    }

    fn insert_event(&mut self, envelope: &Envelope, run: i64) -> Result<()> {
        let event = &envelope.event;
        self.buffer.clear();
        self.times.push(&mut self.buffer, envelope.ts);
        let time_bytes = self.buffer.len();
        push_data(&mut self.buffer, envelope);
        // Times and JSON are UTF-8.
        let text = str::from_utf8(&self.buffer).unwrap_or_default();
        let (time, data) = text.split_at_checked(time_bytes).unwrap_or_default();
        self.insert_event.execute(params![
            self.last_event,
            run,
            envelope.seq.map(whole),
            time,
            event.type_name(),
            event.pane().map(|pane| pane.as_str()),
            id_of(event),
            (!data.is_empty()).then_some(data),
        ])?;
        Ok(())
    }

    /// Writes the lines of an event, or those that no event has completed, and returns their number.
    fn insert_lines(&mut self, id: i64, event: Option<&TdEvent>) -> Result<i64> {
        let (mut count, mut outcome) = (0, Ok(0));
        let (last, text, words) = (
            &mut self.last_text,
            &mut self.insert_text,
            &mut self.insert_words,
        );
        let mut take = |number: Option<i64>, line: &str| {
            if outcome.is_err() {
                return;
            }
            count += 1;
            *last += 1;
            outcome = text
                .execute(params![*last, id, number, line])
                .and_then(|_| words.execute(params![*last, line]));
        };
        match event {
            Some(event) => self.texts.push(event, &mut take),
            None => self.texts.finish(&mut take),
        }
        outcome.map(|_| count)
    }

    fn note_turn(&mut self, envelope: &Envelope, run: i64) -> Result<()> {
        let mut over = Vec::new();
        let id = self.last_event;
        self.turns
            .note(envelope, run, id, &mut |turn| over.push(turn));
        over.iter().try_for_each(|turn| self.insert_turn(turn))
    }

    fn insert_turn(&mut self, turn: &Turn) -> Result<()> {
        self.insert_turn.execute(params![
            turn.run,
            turn.pane,
            turn.agent_id,
            turn.began.map(|ts| ts.to_string()),
            turn.ended.map(|(ts, _)| ts.to_string()),
            turn.ended.map(|(_, name)| name),
            turn.prompt,
            turn.summary,
            whole(turn.input_tokens),
            whole(turn.output_tokens),
            whole(turn.tools),
            whole(turn.failed_tools),
            turn.first_event,
            turn.last_event,
        ])?;
        Ok(())
    }
}

/// Returns a number as SQLite has it. Larger ones are only in damaged logs.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl OpenRun {
    fn note(&mut self, ts: Timestamp, id: i64) {
        if self.events == 0 {
            self.first_event = id;
        }
        self.events += 1;
        self.started.get_or_insert(ts);
        self.last_event = self.last_event.max(Some(ts));
    }
}

/// Appends the fields of an event as JSON, without its type and execution, and without what its lines have; appends nothing
/// if that is all.
fn push_data(out: &mut Vec<u8>, envelope: &Envelope) {
    let event = &envelope.event;
    let rest = match event {
        TdEvent::Unknown(unknown) => Some(unknown.fields().clone()),
        _ if envelope.extra.is_some() => rest_of_text(event).or_else(|| fields_of(event)),
        _ => rest_of_text(event),
    };
    let Some(mut fields) = rest else {
        return push_fields(out, event);
    };
    fields.remove("execution_id");
    if let Some(extra) = &envelope.extra {
        fields.extend(extra.event.clone());
    }
    if !fields.is_empty() {
        // Writing a map to memory cannot fail.
        let _ = serde_json::to_writer(out, &fields);
    }
}

/// Returns the fields of an event that its lines do not have; `None` for an event without lines.
fn rest_of_text(event: &TdEvent) -> Option<Map<String, Value>> {
    let is_plain = match event {
        TdEvent::OutputUpdate {
            chunk,
            is_complete,
            reason,
            exit_status,
            links,
            ..
        } => {
            !chunk.is_empty()
                && !is_complete
                && reason.is_none()
                && exit_status.is_none()
                && links.is_empty()
        }
        TdEvent::OutputRevised { text, .. } => !text.is_empty(),
        TdEvent::ExecutionOutput { stream, .. } => stream.as_str() == "stdout",
        TdEvent::ValidationOutput { is_stderr, .. } => !is_stderr,
        TdEvent::TokenReceived { .. } => true,
        _ => return None,
    };
    if is_plain {
        return Some(Map::new());
    }
    let mut fields = fields_of(event)?;
    for name in ["pane", "chunk", "text", "line", "styles"] {
        // The number of a row that vanished is in no line.
        if name != "line" || !matches!(event, TdEvent::OutputRevised { .. }) {
            fields.remove(name);
        }
    }
    Some(fields)
}

/// Returns the fields of an event, except its type.
fn fields_of(event: &TdEvent) -> Option<Map<String, Value>> {
    match serde_json::to_value(event) {
        Ok(Value::Object(mut fields)) => {
            fields.remove("type");
            Some(fields)
        }
        _ => None,
    }
}

/// Appends the fields of an event without lines, as the log has them.
fn push_fields(out: &mut Vec<u8>, event: &TdEvent) {
    let start = out.len();
    // An event that was read can be written.
    let _ = event.write_json(out);
    // `{"type":"…","execution_id":"…",…}`: ids are short, and the first value that ends is the type.
    let head = fields_start(&out[start..]);
    match head {
        Some(at) => {
            out.drain(start..start + at);
            out.insert(start, b'{');
        }
        None => out.truncate(start),
    }
}

/// Returns where the third field begins; `None` if there is none.
fn fields_start(json: &[u8]) -> Option<usize> {
    let (mut at, mut commas, mut is_text) = (1, 0, false);
    while let Some(byte) = json.get(at) {
        at += 1;
        match byte {
            b'\\' if is_text => at += 1,
            b'"' => is_text = !is_text,
            b',' if !is_text => {
                commas += 1;
                if commas == 2 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}
