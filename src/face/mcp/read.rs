//! Reads the output of a row after a cursor, from the log of its run: each line once.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::AddAssign;

use serde::Serialize;

use super::cursor::Cursor;
use crate::board::{ExecutionKind, Row};
use crate::error::{Error, Result};
use crate::event::{Envelope, GapEvidence, GapReason, LogGapRange, TdEvent};
use crate::face::local_time::LocalTime;
use crate::face::row_log::{AROUND, Around, RowLog, is_shown};
use crate::face::sanitize::sanitized;
use crate::face::view_lines::{Change, Content, LineView, Lines, Position, ViewLine};
use crate::history::{DataDir, LogPages, PageQuery};

/// The number of lines of a result whose caller names none: a screen.
const LINES: usize = 50;

/// The maximum number of lines of a result, whatever its caller asks for.
const LINES_MAX: usize = 10_000;

/// The events, and the size of their lines in the log, that are read at once: some hundreds of lines of text.
const RECORDS: usize = 300;
const BYTES: usize = 64 * 1024;

/// The same for the end of a log, where events without lines may be many: a day of an agent's states.
const RECORDS_MAX: usize = 64 * RECORDS;
const BYTES_MAX: usize = 64 * BYTES;

/// The factor by which the part at the end of a log grows until it has enough lines.
const GROWTH: usize = 8;

/// The events before a cursor that are read because a line may begin there: a paragraph of an answer arrives in a
/// thousand words. All events belong to the row, and those before a rotation are in a compressed file of 64 MiB, which
/// is read from its start.
const BEFORE: Around = Around {
    records: 2_000,
    bytes: 512 * 1024,
    blocks: 512,
};

/// The part of a result, as a divisor, that a line that has begun may take.
const OPEN_SHARE: usize = 4;

/// What is read of a row's output.
#[derive(Debug)]
pub(super) struct ReadRequest<'a> {
    /// The place to read from; `None` for the last lines.
    pub cursor: Option<&'a Cursor>,
    /// The maximum number of lines; defaults to 50.
    pub limit: Option<usize>,
    /// The maximum size of the text as JSON, in bytes, its quotes excluded.
    pub budget: usize,
}

/// A part of a row's output.
#[derive(Debug, Serialize)]
pub(super) struct Output {
    /// The lines, without control characters.
    pub output: String,
    /// The place after them.
    pub cursor: Cursor,
    #[serde(flatten)]
    pub losses: Losses,
    /// True if lines follow.
    pub more: bool,
    /// The line that has begun and not ended, such as a prompt, at the end of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_line: Option<String>,
}

/// What is missing in a part of a row's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Losses {
    /// The number of lines that are known to be lost.
    pub lost_lines: u64,
    /// The number of places at which an unknown number of lines is lost.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown_losses: u64,
}

pub(super) fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl AddAssign for Losses {
    fn add_assign(&mut self, more: Self) {
        self.lost_lines = self.lost_lines.saturating_add(more.lost_lines);
        self.unknown_losses = self.unknown_losses.saturating_add(more.unknown_losses);
    }
}

impl Losses {
    const UNKNOWN: Self = Self {
        lost_lines: 0,
        unknown_losses: 1,
    };

    /// Returns what an event reports as lost.
    fn of(event: &TdEvent) -> Self {
        match event {
            TdEvent::OutputGap {
                lost_lines: Some(lost_lines),
                ..
            } => Self {
                lost_lines: *lost_lines,
                unknown_losses: 0,
            },
            // Other possible gaps are rather none: a resize or a cleared screen.
            TdEvent::OutputGap {
                evidence, reason, ..
            } if *evidence == GapEvidence::Confirmed || *reason == GapReason::Closed => {
                Self::UNKNOWN
            }
            TdEvent::LogGap { .. } => Self::UNKNOWN,
            _ => Self::default(),
        }
    }
}

/// Reads the output of a row, until `is_over` returns true.
///
/// # Errors
/// If the cursor belongs to another run, or the run has no readable log.
pub(super) fn read_output(
    data: &DataDir,
    row: &Row,
    request: &ReadRequest<'_>,
    is_over: &dyn Fn() -> bool,
) -> Result<Output> {
    let limit = request.limit.unwrap_or(LINES).clamp(1, LINES_MAX);
    let cursor = match request.cursor {
        Some(cursor) => *cursor,
        None => last_lines(data, row, (limit, request.budget), is_over)?,
    };
    let mut reader = OutputReader::new(data, row, &cursor, is_over)?;
    let lacks_lines = |reader: &OutputReader<'_>| {
        !reader.is_at_end
            && !is_over()
            && reader.pending.len() <= limit
            && cost_of(reader.pending.iter()) <= request.budget
    };
    while lacks_lines(&reader) {
        reader.fill()?;
    }
    reader.revise()?;
    let open_line = reader.open_line();
    let reserved = open_line.as_deref().map_or(0, open_cost);
    let mut budget = request.budget - reserved.min(request.budget / OPEN_SHARE);
    let mut lines: Vec<String> = Vec::new();
    while lines.len() < limit
        && let Some(line) = reader.pending.front()
    {
        let cost = line_cost(&line.text.text);
        if cost > budget && !lines.is_empty() {
            break;
        }
        lines.extend(reader.take().map(|line| cut(line.text.text, budget)));
        budget = budget.saturating_sub(cost);
    }
    let more = !reader.is_at_end || !reader.pending.is_empty();
    let room = budget + reserved.min(request.budget / OPEN_SHARE);
    Ok(Output {
        output: lines.join("\n"),
        cursor: reader.cursor(),
        losses: reader.losses(),
        more,
        open_line: open_line.filter(|_| !more).map(|line| cut(line, room)),
    })
}

/// Returns the place after the last event in the log of a row.
///
/// # Errors
/// If the run has no readable log.
pub(super) fn end(data: &DataDir, row: &Row) -> Result<Cursor> {
    let query = PageQuery {
        records_max: 1,
        bytes_max: BYTES,
        selects: &|_| true,
        is_stopped: &|| false,
    };
    check_run(data, row)?;
    let page = LogPages::new(&data.run(&row.execution_id)).last(&query)?;
    Ok(Cursor::new(&row.execution_id, after(page.last_seq)))
}

fn check_run(data: &DataDir, row: &Row) -> Result<()> {
    let run = data.run(&row.execution_id);
    // One of another host may not be copied yet.
    run.refresh();
    if run.exists() {
        return Ok(());
    }
    let why = "the history keeps no output of this row: call read_output with screen";
    Err(Error::gone(why))
}

/// Returns the place before the last lines that fit.
fn last_lines(
    data: &DataDir,
    row: &Row,
    (limit, budget): (usize, usize),
    is_over: &dyn Fn() -> bool,
) -> Result<Cursor> {
    check_run(data, row)?;
    let mut log = RowLog::new(data, row, is_over);
    let selects = |envelope: &Envelope| is_shown(row, &envelope.event);
    let (mut records_max, mut bytes_max) = (RECORDS, BYTES);
    loop {
        let query = PageQuery {
            records_max,
            bytes_max,
            selects: &selects,
            is_stopped: is_over,
        };
        let page = log.pages.last(&query)?;
        let mut content = Content::new(LineView::Output, LocalTime::of_system());
        if let (Some(first), false) = (page.first_seq, page.is_first) {
            for envelope in &log.before(first, &before(row)).events {
                content.push(envelope, &mut |_| {});
            }
        }
        let mut lines = Lines::default();
        for envelope in &page.events {
            content.push(envelope, &mut |change| {
                lines.apply(change);
            });
        }
        let open = content.open_line();
        let reserved = open.map_or(0, |open| open_cost(&open.text));
        let mut room = budget - reserved.min(budget / OPEN_SHARE);
        let latest = lines.iter().rev().take(limit);
        let fitting = latest.take_while(|line| {
            let cost = line_cost(&line.text.text);
            let fits = cost <= room;
            room = room.saturating_sub(cost);
            fits
        });
        // A line that is too long alone is cut.
        let fitting = fitting.count().max(usize::from(!lines.is_empty()));
        let is_whole = page.is_first || is_over() || records_max >= RECORDS_MAX;
        if fitting < lines.len() || fitting == limit || is_whole {
            let first = lines.iter().rev().nth(fitting.saturating_sub(1));
            let at = first.map_or(after(page.last_seq), |line| line.at);
            return Ok(Cursor::new(&row.execution_id, at));
        }
        records_max = RECORDS_MAX.min(records_max * GROWTH);
        bytes_max = BYTES_MAX.min(bytes_max * GROWTH);
    }
}

/// Returns what is read before a cursor.
fn before(row: &Row) -> Around {
    match row.kind {
        // Their lines are whole; the screen may be known from an earlier event.
        ExecutionKind::Pane | ExecutionKind::Agent => AROUND,
        _ => BEFORE,
    }
}

/// Returns the place after an event, or before the first one.
fn after(seq: Option<u64>) -> Position {
    Position {
        seq: seq.map_or(0, |seq| seq.saturating_add(1)),
        nth: 0,
    }
}

/// Reads the lines of a row's output from a cursor on, each once. At the end of the log, it goes on when the log has
/// grown; the log may be continued in another file or compressed meanwhile.
pub(super) struct OutputReader<'a> {
    log: RowLog<'a>,
    content: Content,
    /// The place of the next line to take.
    at: Position,
    /// The place after the events that were read.
    end: Position,
    /// The lines between the two.
    pending: Lines,
    /// The losses there, in order.
    pending_losses: Vec<(Position, Losses)>,
    /// The losses before the next line.
    losses: Losses,
    is_at_end: bool,
    /// The last texts of the latest lines.
    texts: BTreeMap<i64, String>,
    /// What has been written over lines that were taken, or are before the first cursor.
    rewritten: VecDeque<Rewritten>,
}

/// A line that was written over.
pub(super) struct Rewritten {
    /// The text that it had, if it is known.
    pub before: String,
    pub text: String,
}

/// The lines whose texts are kept: those that a program may still write over are on the screen.
const TEXTS_MAX: usize = 500;

fn keep(texts: &mut BTreeMap<i64, String>, number: i64, text: &str) -> Option<String> {
    let before = texts.insert(number, text.to_owned());
    if texts.len() > TEXTS_MAX {
        texts.pop_first();
    }
    before
}

impl<'a> OutputReader<'a> {
    /// Begins at a cursor. The reader stops early once `is_over` returns true.
    ///
    /// # Errors
    /// [`Error::is_invalid_input`](crate::Error::is_invalid_input) if the cursor belongs to another run.
    pub fn new(
        data: &DataDir,
        row: &'a Row,
        cursor: &Cursor,
        is_over: &'a dyn Fn() -> bool,
    ) -> Result<Self> {
        let at = cursor.position_in(&row.execution_id)?;
        check_run(data, row)?;
        let mut log = RowLog::new(data, row, is_over);
        let mut content = Content::new(LineView::Output, LocalTime::of_system());
        let mut texts = BTreeMap::new();
        if at.seq > 1 {
            for envelope in &log.before(at.seq, &before(row)).events {
                content.push(envelope, &mut |change| match change {
                    Change::Line(line) => {
                        if let Some(number) = line.number {
                            keep(&mut texts, number, &line.text.text);
                        }
                    }
                    Change::Revised(number, text) => drop(keep(&mut texts, number, &text.text)),
                });
            }
        }
        Ok(Self {
            log,
            content,
            at,
            end: at,
            pending: Lines::default(),
            pending_losses: Vec::new(),
            losses: Losses::default(),
            is_at_end: false,
            texts,
            rewritten: VecDeque::new(),
        })
    }

    /// Returns the next line that was written over since the cursor, though the line itself is before it or was taken.
    pub fn next_rewritten(&mut self) -> Option<Rewritten> {
        self.rewritten.pop_front()
    }

    /// Returns the next line; `None` at the present end of the log, and once `is_over` returned true.
    ///
    /// # Errors
    /// If the run has no readable log.
    pub fn next_line(&mut self) -> Result<Option<ViewLine>> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            // What was read last was the end; the log may have grown since the previous call.
            let end = self.end;
            self.fill()?;
            if self.pending.is_empty() && (self.is_at_end || self.end == end) {
                self.pass();
                return Ok(None);
            }
        }
    }

    /// Returns the place before the next line.
    pub fn cursor(&self) -> Cursor {
        Cursor::new(&self.log.row.execution_id, self.at)
    }

    /// Returns what is missing between the first cursor and the present one.
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// Returns the line that has begun and not ended, at the end of the log.
    pub fn open_line(&self) -> Option<String> {
        let open = self.content.open_line().filter(|_| self.is_at_end)?;
        Some(plain(open.text))
    }

    /// Returns the line that has begun and not ended, at the last event that was read.
    pub fn begun_line(&self) -> Option<String> {
        Some(plain(self.content.open_line()?.text))
    }

    /// Reads some events.
    fn fill(&mut self) -> Result<()> {
        let (row, end) = (self.log.row, self.end);
        // A part of an event was read, or nothing yet.
        let expected = Cell::new(Some(end.seq).filter(|seq| *seq > 0));
        let holes = RefCell::new(Vec::new());
        let selects = |envelope: &Envelope| {
            if let Some(numbers) = LogGapRange::of(envelope) {
                let hole = expected.get().filter(|next| *next < numbers.first);
                holes.borrow_mut().extend(hole);
                expected.set(Some(numbers.last.saturating_add(1)));
            }
            is_shown(row, &envelope.event)
        };
        let query = PageQuery {
            records_max: RECORDS,
            bytes_max: BYTES,
            selects: &selects,
            is_stopped: self.log.is_over,
        };
        let page = (self.log.pages).after(end.seq.saturating_sub(1), &query)?;
        self.is_at_end = page.is_last;
        let Some(last) = page.last_seq else {
            return Ok(());
        };
        // Beyond it, only the number of the next event is known.
        let holes = holes.into_inner().into_iter().filter(|hole| *hole <= last);
        let holes = holes.map(|seq| (Position { seq, nth: 0 }, Losses::UNKNOWN));
        let reported = page.events.iter().map(|envelope| {
            let seq = envelope.seq.unwrap_or(0);
            (Position { seq, nth: 0 }, Losses::of(&envelope.event))
        });
        let losses = holes.chain(reported);
        let losses = losses.filter(|(at, losses)| *at >= end && *losses != Losses::default());
        self.pending_losses.extend(losses);
        self.pending_losses.sort_by_key(|(at, _)| *at);
        let (pending, texts, rewritten) = (&mut self.pending, &mut self.texts, &mut self.rewritten);
        for envelope in &page.events {
            self.content.push(envelope, &mut |change| {
                match &change {
                    Change::Line(line) => {
                        if let Some(number) = line.number {
                            keep(texts, number, &line.text.text);
                        }
                    }
                    Change::Revised(number, text) => {
                        let before = keep(texts, *number, &text.text);
                        let is_taken = !pending.iter().any(|line| line.number == Some(*number));
                        if is_taken && envelope.seq.is_some_and(|seq| seq >= end.seq) {
                            rewritten.truncate(TEXTS_MAX);
                            rewritten.push_back(Rewritten {
                                before: before.unwrap_or_default(),
                                text: plain(text.text.clone()),
                            });
                        }
                    }
                }
                let is_before = matches!(&change, Change::Line(line) if line.at < end);
                if !is_before {
                    pending.apply(change);
                }
            });
        }
        self.end = self.end.max(after(Some(last)));
        if self.pending.is_empty() {
            self.pass();
        }
        Ok(())
    }

    /// Applies the revisions that follow what was read.
    fn revise(&mut self) -> Result<()> {
        let numbers = self.pending.iter().filter_map(|line| line.number);
        let (Some(first), Some(last)) = (numbers.clone().min(), numbers.max()) else {
            return Ok(());
        };
        if self.is_at_end {
            return Ok(());
        }
        let later = (self.log).revisions_after(self.end.seq.saturating_sub(1), &|line| {
            (first..=last).contains(&line)
        });
        let pending = &mut self.pending;
        for envelope in &later {
            self.content.push(envelope, &mut |change| {
                pending.apply(change);
            });
        }
        Ok(())
    }

    /// Takes the next line that was read.
    fn take(&mut self) -> Option<ViewLine> {
        let mut line = self.pending.take_first()?;
        line.text.text = plain(line.text.text);
        self.pass();
        Some(line)
    }

    /// Moves to the next line.
    fn pass(&mut self) {
        self.at = self.pending.front().map_or(self.end, |line| line.at);
        let passed = (self.pending_losses).partition_point(|(at, _)| *at < self.at);
        for (_, losses) in self.pending_losses.drain(..passed) {
            self.losses += losses;
        }
    }
}

/// Returns the text without control characters. Lines of views have none but those of a later version of them.
fn plain(text: String) -> String {
    if text.contains(crate::face::is_unsafe) {
        sanitized(&text)
    } else {
        text
    }
}

/// Returns the size of a line in a JSON string, with its line end.
fn line_cost(text: &str) -> usize {
    json_len(text) + json_len("\n")
}

fn cost_of<'l>(lines: impl Iterator<Item = &'l ViewLine>) -> usize {
    lines.map(|line| line_cost(&line.text.text)).sum()
}

/// Returns the size of a begun line in JSON.
fn open_cost(text: &str) -> usize {
    json_len(text)
}

/// Returns the size of a text in JSON, its quotes excluded.
fn json_len(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' => 2,
        byte if byte < b' ' => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

/// Cuts a text to a size in JSON.
fn cut(mut text: String, len_max: usize) -> String {
    if json_len(&text) <= len_max {
        return text;
    }
    let mut room = len_max.saturating_sub('…'.len_utf8());
    let end = text.char_indices().find(|(at, c)| {
        let len = json_len(&text[*at..*at + c.len_utf8()]);
        let fits = len <= room;
        room = room.saturating_sub(len);
        !fits
    });
    text.truncate(end.map_or(text.len(), |(at, _)| at));
    text.push('…');
    text
}
