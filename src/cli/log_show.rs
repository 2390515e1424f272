//! Shows the events of logs: matches, the lines around them, and the final text of each line.

use std::io::{IsTerminal, StdoutLock};

use regex::Regex;

use super::history::{EarlyEnd, Which, report_problems};
use super::log_context::{Selected, Surroundings, is_match, lines_of, stream_of};
use super::log_lines::LastLines;
use super::options::Options;
use crate::clock::Clock;
use crate::event::{Envelope, TdEvent};
use crate::face::{Applied, Console, ConsoleOptions, EventWriter, LastRevisions, Renderer};
use crate::history::{LogRecord, Merged, MergedLogs, Query};
use crate::thread::{Stop, is_stopped};

/// The page to which events are written.
pub(super) type Page = EventWriter<LastLines<StdoutLock<'static>>>;

/// Returns the output settings for history on standard output.
pub(super) fn page_options(
    options: &Options,
    has_timestamps: bool,
    last_lines: Option<usize>,
    shows_snapshots: bool,
    clock: &Clock,
) -> PageOptions {
    let renderer = if options.json {
        Renderer::Json
    } else {
        Renderer::Console(Console::new(ConsoleOptions {
            coloured: options.coloured,
            aligned: std::io::stdout().is_terminal(),
            verbose: options.verbose > 0,
            shows_snapshots,
            has_timestamps,
        }))
    };
    PageOptions {
        renderer,
        last_lines,
        quiet: options.quiet,
        clock: clock.clone(),
    }
}

/// The settings of a page, which the writing thread opens.
pub(super) struct PageOptions {
    renderer: Renderer,
    last_lines: Option<usize>,
    pub quiet: bool,
    clock: Clock,
}

impl PageOptions {
    /// Holds back lines that may still be rewritten, until no more output arrives.
    pub fn holding(mut self) -> Self {
        if let Renderer::Console(console) = self.renderer {
            self.renderer = Renderer::Console(console.holding());
        }
        self
    }

    pub fn open(self) -> Page {
        let out = LastLines::new(std::io::stdout().lock(), self.last_lines);
        EventWriter::with_output(out, self.renderer, self.last_lines.is_none(), self.clock)
    }
}

/// Shows records.
pub(super) struct Show {
    page: Page,
    is_quiet: bool,
    /// The expression to search for.
    grep: Option<Regex>,
    around: Option<Surroundings<Item>>,
    finals: LastRevisions,
    /// The query for revisions, if each line is shown once with its final text.
    revisions: Option<Query>,
    /// A record has matched.
    pub has_matched: bool,
}

/// A part of an event, and its line in the log.
struct Item {
    envelope: Envelope,
    line: Vec<u8>,
}

impl Show {
    pub fn new(
        page: PageOptions,
        (grep, context): (Option<Regex>, Option<usize>),
        revisions: Option<Query>,
    ) -> Self {
        let around = context.filter(|_| grep.is_some());
        Self {
            is_quiet: page.quiet,
            page: page.open(),
            grep,
            around: around.map(Surroundings::new),
            finals: LastRevisions::default(),
            revisions,
            has_matched: false,
        }
    }

    /// Writes the beginning of a stream.
    pub fn open_stream(&mut self) -> Result<(), EarlyEnd> {
        match self.is_quiet {
            true => Ok(()),
            false => Ok(self.page.open_stream()?),
        }
    }

    pub fn page(&mut self) -> &mut Page {
        &mut self.page
    }

    /// Prepares for the events of a log: reads its label and the final text of each revised line.
    pub fn begin(&mut self, which: &Which, stop: &Stop) -> Result<(), EarlyEnd> {
        if let Some(session) = which.session() {
            self.page.note_context(&session);
        }
        // A pipe cannot be read twice.
        let is_read_once = match which {
            Which::Run(_) => false,
            Which::File(path) => !path.is_file(),
        };
        if let (Some(revisions), false) = (&self.revisions, is_read_once) {
            for record in which.read(revisions.clone())? {
                if is_stopped(stop) {
                    break;
                }
                self.finals.note(&record.envelope);
            }
        }
        Ok(())
    }

    /// Writes the remaining output.
    pub fn finish(&mut self) -> Result<(), EarlyEnd> {
        self.page.finish()?;
        Ok(self.page.flushed()?.release()?)
    }

    /// Shows several logs merged by time. Calls `note` for each record with the number of its log. Returns true
    /// if a part cannot be read.
    pub fn merged(
        &mut self,
        whiches: &[Which],
        query: Query,
        stop: &Stop,
        note: &mut dyn FnMut(usize, &LogRecord),
    ) -> Result<bool, EarlyEnd> {
        let mut has_failed = false;
        let sources = whiches.iter().map(Which::source).collect();
        for merged in MergedLogs::new(sources, query) {
            if is_stopped(stop) {
                break;
            }
            match merged {
                Merged::Opened(number) => self.begin(&whiches[number], stop)?,
                Merged::Record(number, record) => {
                    note(number, &record);
                    self.record(&record)?;
                }
                Merged::Closed(number, report) => {
                    if let Which::Run(run) = &whiches[number] {
                        self.finals.forget(run.execution_id());
                    }
                    has_failed |= report_problems(&whiches[number], &report);
                }
                Merged::Failed(number, error) => {
                    // A missing run has been pruned meanwhile.
                    if whiches[number].path().exists() {
                        message!("{error:?}");
                        has_failed = true;
                    }
                }
            }
        }
        Ok(has_failed)
    }

    pub fn record(&mut self, record: &LogRecord) -> Result<(), EarlyEnd> {
        let envelope = &record.envelope;
        if !record.is_wanted {
            self.page.note_context(&envelope.event);
            return Ok(());
        }
        if self.around.is_some() {
            return self.surrounded(record);
        }
        self.has_matched = true;
        if self.is_quiet {
            return Ok(());
        }
        if self.page.is_json() {
            return Ok(self.page.write_record(envelope, record.line())?);
        }
        if let Some(part) = self.grep.as_ref().and_then(|grep| matching(envelope, grep)) {
            return Ok(self.page.write_event(&part)?);
        }
        match self.finals.apply(envelope) {
            Applied::Replaced(parts) => {
                for part in parts {
                    self.page.write_event(&part)?;
                }
            }
            Applied::Unchanged => self.page.write_record(envelope, record.line())?,
        }
        Ok(())
    }

    /// Shows the lines around matches.
    fn surrounded(&mut self, record: &LogRecord) -> Result<(), EarlyEnd> {
        let (Some(around), Some(grep)) = (&mut self.around, &self.grep) else {
            return Ok(());
        };
        let is_json = self.page.is_json();
        let parts = match is_json {
            true => vec![record.envelope.clone()],
            false => lines_of(&record.envelope),
        };
        for envelope in parts {
            let is_found = is_match(&envelope, grep);
            self.has_matched |= is_found;
            let stream = stream_of(&envelope.event);
            let line = if is_json {
                record.line().to_vec()
            } else {
                Vec::new()
            };
            let shown = around.push(stream, Item { envelope, line }, is_found);
            if self.is_quiet {
                continue;
            }
            for shown in shown {
                match shown {
                    Selected::Gap if is_json => {}
                    Selected::Gap => self.page.write_line("--")?,
                    Selected::Item(item) => self.page.write_record(&item.envelope, &item.line)?,
                }
            }
        }
        Ok(())
    }
}

/// Reduces an event to its matching lines; `None` if all lines are shown. The matching rows of a full-screen
/// program become a snapshot.
fn matching(envelope: &Envelope, regex: &Regex) -> Option<Envelope> {
    if let Some(snapshot) = matching_rows(&envelope.event, regex) {
        return Some(Envelope {
            event: snapshot,
            ..envelope.clone()
        });
    }
    let text = match &envelope.event {
        TdEvent::OutputUpdate { chunk, .. } => chunk,
        TdEvent::ExecutionOutput { text, .. } => text,
        _ => return None,
    };
    // The index of each line among the matching lines.
    let (mut matching, mut indexes, mut count) = (String::new(), Vec::new(), 0);
    for line in text.split_inclusive('\n') {
        let is_match = regex.is_match(line.trim_end_matches('\n'));
        indexes.push(is_match.then_some(count));
        if is_match {
            matching.push_str(line);
            count += 1;
        }
    }
    // A match that spans several lines shows the whole event.
    if matching.is_empty() || matching.len() == text.len() {
        return None;
    }
    let mut part = envelope.clone();
    match &mut part.event {
        TdEvent::OutputUpdate { chunk, styles, .. } => {
            *chunk = matching;
            styles.move_lines(|line| indexes.get(line as usize).copied().flatten());
        }
        TdEvent::ExecutionOutput { text, .. } => {
            // An incomplete last line is closed if lines before it were omitted.
            if !matching.ends_with('\n') && !text.ends_with(matching.as_str()) {
                matching.push('\n');
            }
            *text = matching;
        }
        _ => {}
    }
    Some(part)
}

fn matching_rows(event: &TdEvent, regex: &Regex) -> Option<TdEvent> {
    let (TdEvent::ScreenUpdate {
        execution_id,
        pane,
        width,
        height,
        rows,
        ..
    }
    | TdEvent::ScreenSnapshot {
        execution_id,
        pane,
        width,
        height,
        rows,
        ..
    }) = event
    else {
        return None;
    };
    let rows = rows.iter().filter(|row| regex.is_match(&row.text));
    Some(TdEvent::ScreenSnapshot {
        execution_id: execution_id.clone(),
        pane: pane.clone(),
        width: *width,
        height: *height,
        rows: rows.cloned().collect(),
    })
}
