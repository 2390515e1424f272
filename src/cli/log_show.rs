//! Shows the events of logs: matches, the lines around them, and the final text of each line.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::{self, IsTerminal, StdoutLock, Write};
use std::path::{Path, PathBuf};

use regex::Regex;

use super::failure::Failure;
use super::history::{Which, data_dir, report_failure, report_problems};
use super::log_once::{Found, StreamKey, stream_of};
use super::options::Options;
use crate::clock::Clock;
use crate::event::{Envelope, Links, TdEvent, lines_in};
use crate::face::{Applied, Console, ConsoleOptions, EventWriter, LastRevisions, Renderer};
use crate::history::{
    DataDir, LogRecord, Merged, MergedLogs, Query, ReadReport, RunDirectory, glob_matches, is_glob,
};
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
        let console = Console::new(ConsoleOptions {
            coloured: options.coloured,
            aligned: std::io::stdout().is_terminal(),
            verbose: options.verbose > 0,
            shows_snapshots,
            has_timestamps,
            names_hosts: options.reads_hosts(),
        });
        Renderer::Console(Box::new(console.detaching_once()))
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
            self.renderer = Renderer::Console(Box::new(console.holding()));
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
    pub page: Page,
    is_quiet: bool,
    /// The expression to search for.
    grep: Option<Regex>,
    around: Option<Surroundings<Item>>,
    /// What the search has found.
    found: Found,
    /// Rows of screens may wait for the conversation that follows.
    pub looks_ahead: bool,
    finals: LastRevisions,
    /// The query for revisions, if each line is shown once with its final text.
    revisions: Option<Query>,
    /// A record has matched.
    pub has_matched: bool,
    /// Types of which no record has been wanted yet.
    pub unseen_types: BTreeSet<String>,
    /// Executions of which no record has been wanted yet.
    pub unseen_executions: BTreeSet<String>,
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
            found: Found::default(),
            looks_ahead: true,
            finals: LastRevisions::default(),
            revisions,
            has_matched: false,
            unseen_types: BTreeSet::new(),
            unseen_executions: BTreeSet::new(),
        }
    }

    /// Writes the beginning of a stream.
    pub fn open_stream(&mut self) -> Result<(), Failure> {
        if self.is_quiet {
            Ok(())
        } else {
            Ok(self.page.open_stream()?)
        }
    }

    /// Prepares for the events of a log: reads its label and the final text of each revised line.
    pub fn begin(&mut self, which: &Which, stop: &Stop) -> Result<(), Failure> {
        if let Some(session) = which.session() {
            self.page.note_context(&session);
        }
        if let (Some(revisions), false) = (&self.revisions, which.is_read_once()) {
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
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.show_found(true)?;
        self.page.finish()?;
        Ok(self.page.flushed()?.release()?)
    }

    /// Reports the problems of a log that has ended; returns true if a part cannot be read.
    pub fn end(&mut self, which: &Which, report: &ReadReport) -> bool {
        if let Which::Run(run) = which {
            self.finals.forget(run.execution_id());
        }
        report_problems(which, report)
    }

    /// Shows several logs merged by time; returns true if a part cannot be read.
    pub fn merged(
        &mut self,
        whiches: &[Which],
        query: Query,
        stop: &Stop,
    ) -> Result<bool, Failure> {
        let mut has_failed = false;
        let sources = whiches.iter().map(Which::source).collect();
        for merged in MergedLogs::new(sources, query) {
            if is_stopped(stop) {
                break;
            }
            match merged {
                Merged::Opened(number) => self.begin(&whiches[number], stop)?,
                Merged::Record(_, record) => self.record(&record)?,
                Merged::Closed(number, report) => {
                    has_failed |= self.end(&whiches[number], &report);
                }
                Merged::Failed(number, error) => {
                    has_failed |= report_failure(&whiches[number], &error)
                }
            }
        }
        Ok(has_failed)
    }

    pub fn record(&mut self, record: &LogRecord) -> Result<(), Failure> {
        let envelope = &record.envelope;
        if !record.is_wanted {
            self.page.note_context(&envelope.event);
            return Ok(());
        }
        if !self.unseen_types.is_empty() {
            self.unseen_types.remove(envelope.event.type_name());
        }
        if !self.unseen_executions.is_empty() {
            self.unseen_executions.remove(envelope.event.execution_id());
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
        if let Some(grep) = &self.grep {
            let parts = match matching(envelope, grep) {
                Some(part) => vec![part],
                None => match self.finals.apply(envelope) {
                    Applied::Replaced(parts) => parts,
                    Applied::Unchanged => vec![envelope.clone()],
                },
            };
            parts.into_iter().for_each(|part| self.found.push(part));
            return self.show_found(!self.looks_ahead);
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

    /// Shows what the search has found. `is_over`: nothing that follows is waited for.
    fn show_found(&mut self, is_over: bool) -> Result<(), Failure> {
        while let Some(envelope) = self.found.pop(is_over) {
            self.page.write_event(&envelope)?;
        }
        Ok(())
    }

    /// Shows the lines around matches.
    fn surrounded(&mut self, record: &LogRecord) -> Result<(), Failure> {
        let (Some(around), Some(grep)) = (&mut self.around, &self.grep) else {
            return Ok(());
        };
        let is_json = self.page.is_json();
        let parts = if is_json {
            vec![record.envelope.clone()]
        } else {
            lines_of(&record.envelope)
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
    let none = Links::default();
    let (text, first_line, links) = match &envelope.event {
        TdEvent::OutputUpdate {
            first_line,
            chunk,
            links,
            ..
        } => (chunk, *first_line, links),
        TdEvent::ExecutionOutput { text, .. } => (text, 1, &none),
        _ => return None,
    };
    // The index of each line among the matching lines.
    let (mut matching, mut indexes, mut count) = (String::new(), Vec::new(), 0);
    for (number, line) in (first_line..).zip(text.split_inclusive('\n')) {
        let mut links = links.of_line(number).iter();
        let is_match = regex.is_match(line.trim_end_matches('\n'))
            || links.any(|link| regex.is_match(&link.url));
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
        TdEvent::OutputUpdate {
            chunk,
            styles,
            links,
            ..
        } => {
            *chunk = matching;
            let moved = |at: usize| indexes.get(at).copied().flatten();
            styles.move_lines(|line| moved(line as usize));
            links.move_lines(|line| {
                let at = usize::try_from(line.checked_sub(first_line)?).ok()?;
                first_line.checked_add(moved(at)?.into())
            });
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

// Selects the lines around matches: `log --grep REGEX -C LINES` (pure).
//
// The lines around a match come from the same pane or command, not from others that printed meanwhile.

/// Maximum number of panes and commands whose lines are held. Beyond it, the one with the oldest output is
/// dropped.
const STREAMS_MAX: usize = 1024;

/// Splits an event into one event for each line.
pub(super) fn lines_of(envelope: &Envelope) -> Vec<Envelope> {
    match &envelope.event {
        TdEvent::OutputUpdate {
            first_line, chunk, ..
        } if lines_in(chunk).nth(1).is_some() => (0_u32..)
            .zip(*first_line..)
            .zip(chunk.split_inclusive('\n'))
            .map(|((at, number), line)| {
                let mut part = envelope.clone();
                if let TdEvent::OutputUpdate {
                    first_line,
                    chunk,
                    styles,
                    links,
                    ..
                } = &mut part.event
                {
                    *first_line = number;
                    links.move_lines(|line| (line == number).then_some(line));
                    line.clone_into(chunk);
                    styles.move_lines(|line| (line == at).then_some(0));
                }
                part
            })
            .collect(),
        TdEvent::ExecutionOutput { text, .. } => text
            .split_inclusive('\n')
            .map(|line| {
                let mut part = envelope.clone();
                if let TdEvent::ExecutionOutput { text, .. } = &mut part.event {
                    line.clone_into(text);
                }
                part
            })
            .collect(),
        _ => vec![envelope.clone()],
    }
}

/// Returns true if a text of an event matches.
pub(super) fn is_match(envelope: &Envelope, regex: &Regex) -> bool {
    envelope.event.any_text(&mut |text| {
        // `$` must match before a trailing line end.
        regex.is_match(text.strip_suffix('\n').unwrap_or(text))
    })
}

/// The next thing to show.
#[derive(Debug, PartialEq)]
pub(super) enum Selected<T> {
    /// Lines are omitted here.
    Gap,
    Item(T),
}

/// Selects matching items and the items around them.
#[derive(Debug)]
pub(super) struct Surroundings<T> {
    lines: usize,
    streams: HashMap<StreamKey, Stream<T>>,
    count: u64,
    has_shown: bool,
}

#[derive(Debug)]
struct Stream<T> {
    before: VecDeque<T>,
    /// The number of items to show after the last match.
    after: usize,
    /// Earlier items than those in `before` were dropped.
    has_gap: bool,
    touched: u64,
}

impl<T> Surroundings<T> {
    /// Selects up to `lines` items before and after each match.
    pub fn new(lines: usize) -> Self {
        Self {
            lines,
            streams: HashMap::new(),
            count: 0,
            has_shown: false,
        }
    }

    /// Adds the next item of a pane or a command, and returns the items to show now.
    pub fn push(&mut self, key: StreamKey, item: T, is_match: bool) -> Vec<Selected<T>> {
        self.count += 1;
        if self.streams.len() >= STREAMS_MAX && !self.streams.contains_key(&key) {
            let oldest = self.streams.iter().min_by_key(|(_, stream)| stream.touched);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.streams.remove(&oldest);
            }
        }
        let stream = self.streams.entry(key).or_insert_with(|| Stream {
            before: VecDeque::new(),
            after: 0,
            has_gap: true,
            touched: 0,
        });
        stream.touched = self.count;
        if is_match {
            let mut shown = Vec::new();
            if std::mem::replace(&mut stream.has_gap, false) && self.has_shown && self.lines > 0 {
                shown.push(Selected::Gap);
            }
            shown.extend(stream.before.drain(..).map(Selected::Item));
            shown.push(Selected::Item(item));
            stream.after = self.lines;
            self.has_shown = true;
            return shown;
        }
        if stream.after > 0 {
            stream.after -= 1;
            return vec![Selected::Item(item)];
        }
        stream.before.push_back(item);
        if stream.before.len() > self.lines {
            stream.before.pop_front();
            stream.has_gap = true;
        }
        Vec::new()
    }
}

// Keeps the last lines of an output: `log -n LINES` (pure).

/// A writer that holds the last lines until they are released, and then passes everything on.
#[derive(Debug)]
pub(super) struct LastLines<W> {
    out: W,
    /// The held lines, the last of which may be incomplete, and their maximum number.
    held: Option<(VecDeque<Vec<u8>>, usize)>,
}

impl<W: Write> LastLines<W> {
    /// Holds up to `lines_max` lines; without a maximum, passes on everything.
    pub fn new(out: W, lines_max: Option<usize>) -> Self {
        Self {
            out,
            held: lines_max.map(|lines_max| (VecDeque::new(), lines_max)),
        }
    }

    /// Writes the held lines. Later output is passed on.
    pub fn release(&mut self) -> io::Result<()> {
        if let Some((lines, _)) = self.held.take() {
            for line in lines {
                self.out.write_all(&line)?;
            }
        }
        self.out.flush()
    }
}

impl<W: Write> Write for LastLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some((lines, lines_max)) = &mut self.held else {
            return self.out.write(bytes);
        };
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            match lines.back_mut().filter(|line| !line.ends_with(b"\n")) {
                Some(open) => open.extend_from_slice(part),
                None => lines.push_back(part.to_vec()),
            }
            while lines.len() > *lines_max {
                lines.pop_front();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.held {
            Some(_) => Ok(()),
            None => self.out.flush(),
        }
    }
}

// Selects the runs that `log` reads: one, several, or all.

/// The typed names and patterns.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub typed: Vec<PathBuf>,
}

impl Selection {
    /// Returns the selected logs without duplicates; without a name, all runs. A name with `*` or `?` is a
    /// pattern, unless a run has exactly this name.
    ///
    /// # Errors
    /// If a name or pattern matches no run.
    pub fn resolve(&self, options: &Options) -> Result<Vec<Which>, Failure> {
        if self.is_all() {
            let runs = data_dir(options)?.matching_runs(|_| true)?;
            return Ok(runs.into_iter().map(Which::Run).collect());
        }
        let mut found: Vec<Which> = Vec::new();
        for typed in &self.typed {
            let runs = match glob(typed) {
                Some(glob) if Which::typed(typed, options).is_err() => {
                    let runs = data_dir(options)?.matching_runs(|name| glob_matches(glob, name))?;
                    if runs.is_empty() {
                        return Err(usage!(
                            "no run matches {typed:?}; td-observe runs lists them"
                        ));
                    }
                    runs.into_iter().map(Which::Run).collect()
                }
                _ => vec![Which::typed(typed, options)?],
            };
            for which in runs {
                if !found.iter().any(|known| known.path() == which.path()) {
                    found.push(which);
                }
            }
        }
        Ok(found)
    }

    pub fn is_all(&self) -> bool {
        self.typed.is_empty()
    }

    /// Returns true if the selection may include runs that begin later.
    pub fn is_open(&self) -> bool {
        self.is_all() || self.typed.iter().any(|typed| glob(typed).is_some())
    }

    /// Returns the present runs of an open selection.
    pub fn runs_in(&self, data: &DataDir) -> Result<Vec<RunDirectory>, Failure> {
        let globs: Vec<&str> = self.typed.iter().filter_map(|typed| glob(typed)).collect();
        let is_wanted =
            |name: &str| self.is_all() || globs.iter().any(|glob| glob_matches(glob, name));
        Ok(data.matching_runs(is_wanted)?)
    }
}

/// Returns a name as a pattern; `None` if it contains no wildcard.
fn glob(typed: &Path) -> Option<&str> {
    typed.to_str().filter(|text| is_glob(text))
}

#[cfg(test)]
mod tests {
    mod log_context {

        use super::super::*;
        use crate::event::{Link, Styles};
        use crate::timestamp::Timestamp;

        fn shown(lines: usize, texts: &[(&str, &str)]) -> String {
            let mut around = Surroundings::new(lines);
            let mut out = Vec::new();
            for (pane, text) in texts {
                let event = TdEvent::OutputRevised {
                    execution_id: "x".into(),
                    pane: (*pane).into(),
                    line: 1,
                    text: (*text).into(),
                    styles: Styles::default(),
                };
                out.extend(around.push(stream_of(&event), *text, text.contains('!')));
            }
            let out = out.iter().map(|shown| match shown {
                Selected::Gap => "--",
                Selected::Item(text) => text,
            });
            out.collect::<Vec<_>>().join(" ")
        }

        #[test]
        fn the_lines_around_a_match_are_those_of_its_pane() {
            let texts = [
                ("%1", "a"),
                ("%1", "b"),
                ("%2", "other"),
                ("%1", "c!"),
                ("%1", "d"),
                ("%2", "more"),
                ("%1", "e"),
                ("%1", "f"),
                ("%1", "g!"),
                ("%1", "h!"),
                ("%2", "x!"),
            ];
            assert_eq!(shown(0, &texts), "c! g! h! x!");
            assert_eq!(shown(1, &texts), "b c! d -- f g! h! -- more x!");
            assert_eq!(shown(9, &texts), "a b c! d e f g! h! -- other more x!");
        }

        /// A line matches by the address of its link, too, and keeps it.
        #[test]
        fn links_stay_with_their_lines() {
            let mut event = TdEvent::output_update("x", &"%1".into(), 7, "one\ntwo\nthree\n");
            if let TdEvent::OutputUpdate { links, .. } = &mut event {
                let link = |line, url: &str| Link {
                    line,
                    start: 0,
                    end: 3,
                    url: url.to_owned(),
                };
                *links = Links::new(vec![link(7, "http://one"), link(9, "http://x/3")]);
            }
            let envelope = Envelope::new(Some(1), Timestamp::default(), event);
            let links_of = |envelope: &Envelope| match &envelope.event {
                TdEvent::OutputUpdate { chunk, links, .. } => {
                    let links = links.as_slice().iter();
                    (chunk.clone(), links.map(|link| link.line).collect())
                }
                other => panic!("{other:?}"),
            };
            let part = matching(&envelope, &Regex::new("x/3|two").unwrap()).unwrap();
            assert_eq!(links_of(&part), ("two\nthree\n".to_owned(), vec![8]));
            let parts: Vec<Vec<i64>> = (lines_of(&envelope).iter())
                .map(|part| links_of(part).1)
                .collect();
            assert_eq!(parts, [vec![7], vec![], vec![9]]);
        }

        #[test]
        fn an_event_is_divided_into_its_lines() {
            let event = TdEvent::OutputUpdate {
                execution_id: "x".into(),
                pane: "%1".into(),
                first_line: 7,
                chunk: "one\ntwo\n".into(),
                is_complete: false,
                reason: None,
                exit_status: None,
                styles: Styles::default(),
                links: Default::default(),
            };
            let envelope = Envelope::new(Some(1), Timestamp::default(), event);
            let parts: Vec<(i64, String)> = lines_of(&envelope)
                .into_iter()
                .map(|part| match part.event {
                    TdEvent::OutputUpdate {
                        first_line, chunk, ..
                    } => (first_line, chunk),
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(parts, [(7, "one\n".to_owned()), (8, "two\n".to_owned())]);
        }
    }

    mod log_lines {

        use super::super::*;

        #[test]
        fn the_last_lines_are_kept_however_they_are_written() {
            let text = b"one\ntwo\nthree\nfour";
            for step in 1..text.len() {
                for (lines, expected) in [
                    (0, ""),
                    (1, "four"),
                    (2, "three\nfour"),
                    (9, "one\ntwo\nthree\nfour"),
                ] {
                    let mut last = LastLines::new(Vec::new(), Some(lines));
                    for part in text.chunks(step) {
                        last.write_all(part).unwrap();
                    }
                    last.release().unwrap();
                    last.write_all(b"!").unwrap();
                    let written = String::from_utf8(last.out).unwrap();
                    assert_eq!(written, format!("{expected}!"), "{step} {lines}");
                }
            }
        }
    }
}
