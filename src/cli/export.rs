//! `td-observe export`: writes a run as a terminal recording or as text, and runs as a database.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueHint;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap_complete::engine::ArgValueCompleter;

use super::duration::{TimePoint, parse_duration, parse_time_point};
use super::failure::Failure;
use super::history::{Which, report_problems, until_stopped};
use super::options::Options;
use super::signals::Signals;
use super::{known, live};
use crate::clock::Clock;
use crate::event::{Envelope, PaneId};
use crate::face::{
    AsciicastExport, AsciicastOptions, MarkdownExport, Survey, TextExport, one_line,
};
use crate::history::{Query, ReadReport, RunDirectory};
use crate::recording::{CastVersion, RecordingFile, RecordingJoiner};
use crate::thread::{Stop, is_stopped};

/// The number of bytes that are buffered before a write.
const BUFFER_BYTES: usize = 64 * 1024;

pub(super) fn run(options: &Options, typed: TypedExport) -> Result<ExitCode, Failure> {
    if typed.format == Format::Sqlite {
        let output = typed.check_for_database()?;
        #[cfg(feature = "sqlite")]
        return super::export_sqlite::run(
            options,
            super::log_show::Selection {
                typed: typed.runs.clone(),
            },
            (typed.since, typed.until),
            output,
        );
        #[cfg(not(feature = "sqlite"))]
        return Err(usage!(
            "--format sqlite: {output:?} is not written, because this program was built without it: \
             cargo install --path . --features sqlite"
        ));
    }
    let run = typed.only_run()?;
    let signals = Signals::catch(|| {})?;
    let which = Which::typed(run, options)?;
    until_stopped(&signals, &Clock::system(), move |stop| {
        export(&which, &typed, stop)
    })
}

fn export(which: &Which, typed: &TypedExport, stop: &Stop) -> Result<ExitCode, Failure> {
    let pane = typed.pane.as_deref().map(PaneId::from);
    let output = typed.output.as_deref();
    let cast = AsciicastOptions {
        idle_limit: typed.idle_limit,
        title: which.label(),
        version: typed.cast_version.unwrap_or_default(),
    };
    if typed.format != Format::Cast && typed.cast_version.is_some() {
        return Err(for_cast("--cast-version"));
    }
    if let Which::File(path) = which
        && path.metadata().is_ok_and(|about| !about.is_file())
    {
        let text = format!("{path:?} is not a regular file, which an export must read twice");
        return Err(Failure::usage(text));
    }
    let mut note = None;
    if let (Format::Cast, Which::Run(run), false) = (typed.format, which, typed.from_log) {
        match RawRecordings::of(run, pane.as_ref()) {
            Ok(recordings) => return export_recordings(&recordings, &cast, output, stop),
            Err(why) => note = why,
        }
    }
    let mut survey = Survey::new(pane.clone());
    // The second pass reads as many events as the first, even if the run has grown.
    let mut count = 0;
    // This pass reads to the end, so its report has what is missing there.
    let report = each(which, usize::MAX, stop, |envelope| {
        survey.note(envelope);
        count += 1;
        Ok(())
    })?;
    if let Some(pane) = &pane
        && !survey.panes.contains(pane)
    {
        return Err(no_such_pane(pane, which, stop)?);
    }
    let mut out = open(output)?;
    let mut text = String::new();
    let mut renderer = match typed.format {
        Format::Md => ExportRenderer::Markdown(MarkdownExport::new(pane)),
        // A database is written elsewhere.
        Format::Text | Format::Sqlite => ExportRenderer::Text(TextExport::new(survey)),
        Format::Cast => {
            let pane = pane.or_else(|| survey.sole_pane().cloned());
            ExportRenderer::Cast(AsciicastExport::new(&cast, pane, survey))
        }
    };
    each(which, count, stop, |envelope| {
        renderer.push(envelope, &mut text);
        write(&mut out, &mut text, output)
    })?;
    if !renderer.finish(&mut text) {
        return Err(usage!(
            "the run has no conversation of an agent; --format text has its lines"
        ));
    }
    write(&mut out, &mut text, output)?;
    out.flush().map_err(|cause| failed(output, cause))?;
    if let Some(note) = note {
        super::output::print_message(&note);
    }
    Ok(live::code(report_problems(which, &report)))
}

/// Exports the recorded bytes of a pane, which show its screen more exactly than the log.
fn export_recordings(
    recordings: &RawRecordings,
    cast: &AsciicastOptions,
    output: Option<&Path>,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    let mut out = open(output)?;
    recordings.export(cast, stop, |text| write(&mut out, text, output))?;
    out.flush().map_err(|cause| failed(output, cause))?;
    Ok(ExitCode::SUCCESS)
}

/// The renderer of an export.
enum ExportRenderer {
    Markdown(MarkdownExport),
    Text(TextExport),
    Cast(AsciicastExport),
}

impl ExportRenderer {
    fn push(&mut self, envelope: &Envelope, text: &mut String) {
        match self {
            Self::Markdown(markdown) => markdown.push(envelope),
            Self::Text(transcript) => transcript.push(envelope, text),
            Self::Cast(cast) => cast.push(envelope, text),
        }
    }

    /// Appends the end, and reports omitted changes. Returns false if there is nothing to export.
    fn finish(&mut self, text: &mut String) -> bool {
        let count = match self {
            Self::Markdown(markdown) => {
                let found = std::mem::take(markdown).finish();
                text.push_str(found.as_deref().unwrap_or_default());
                return found.is_some();
            }
            Self::Text(transcript) => {
                transcript.finish(text);
                transcript.survey.dropped_revisions()
            }
            Self::Cast(cast) => {
                cast.finish(text);
                cast.text.survey.dropped_revisions()
            }
        };
        if count > 0 {
            message!(
                "{count} changes of earlier lines were too many to keep: \
                 the export has these lines as first printed"
            );
        }
        true
    }
}

/// Passes the first `count` events of the run to `take`.
fn each(
    which: &Which,
    count: usize,
    stop: &Stop,
    mut take: impl FnMut(&Envelope) -> Result<(), Failure>,
) -> Result<ReadReport, Failure> {
    let mut log = which.read(Query::all())?;
    for record in log.by_ref().take(count) {
        if is_stopped(stop) {
            break;
        }
        take(&record.envelope)?;
    }
    Ok(log.into_report())
}

fn no_such_pane(pane: &PaneId, which: &Which, stop: &Stop) -> Result<Failure, Failure> {
    let mut all = Survey::new(None);
    each(which, usize::MAX, stop, |envelope| {
        all.note(envelope);
        Ok(())
    })?;
    let panes: Vec<String> = all.panes.iter().map(|pane| one_line(pane)).collect();
    let existing = if panes.is_empty() {
        "it has none".to_owned()
    } else {
        format!("it has {}", panes.join(", "))
    };
    Ok(usage!("--pane: the run has no pane {pane}; {existing}"))
}

fn open(output: Option<&Path>) -> Result<BufWriter<Box<dyn Write>>, Failure> {
    let out: Box<dyn Write> = match output {
        None => Box::new(io::stdout().lock()),
        Some(path) => Box::new(File::create(path).map_err(|cause| failed(Some(path), cause))?),
    };
    Ok(BufWriter::with_capacity(BUFFER_BYTES, out))
}

fn write(out: &mut impl Write, text: &mut String, output: Option<&Path>) -> Result<(), Failure> {
    out.write_all(text.as_bytes())
        .map_err(|cause| failed(output, cause))?;
    text.clear();
    Ok(())
}

fn failed(output: Option<&Path>, cause: io::Error) -> Failure {
    match output {
        None => cause.into(),
        Some(path) => usage!("cannot write {path:?}: {cause}"),
    }
}

// The arguments of `export`.

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    Cast,
    Text,
    Md,
    Sqlite,
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/export.txt").trim_end())]
pub(super) struct TypedExport {
    /// An execution id, a name (its latest run), or a path; with --format sqlite also several, and patterns such
    /// as 'agent-*' [default with sqlite: all runs]
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(known::runs))]
    pub runs: Vec<PathBuf>,
    /// cast: a recording in the format asciicast; text: the final text of all lines; md: the conversations of
    /// agents; sqlite: a database of events, turns and lines, with full-text search
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Format,
    /// With --format cast: the version of the format; asciinema 2 plays only 2 [default: 3]
    #[arg(long, value_name = "2|3", value_parser = cast_version(), hide_possible_values = true)]
    pub cast_version: Option<CastVersion>,
    /// Only this pane, such as %3
    #[arg(long, value_name = "PANE")]
    pub pane: Option<String>,
    /// With --format cast: use the log, even where watch --raw recorded the bytes
    #[arg(long)]
    pub from_log: bool,
    /// Shorten every silence to at most this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub idle_limit: Option<Duration>,
    /// With --format sqlite: only events from this time on: 10m (ago), 13:14, yesterday, '2026-01-21 13:14' (local
    /// time), or 2026-01-21T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time_point)]
    pub since: Option<TimePoint>,
    /// With --format sqlite: only events before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time_point)]
    pub until: Option<TimePoint>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

impl TypedExport {
    /// Returns the run of an export that has only one.
    fn only_run(&self) -> Result<&Path, Failure> {
        for (option, time) in [("--since", &self.since), ("--until", &self.until)] {
            if time.is_some() {
                return Err(usage!("{option} is for --format sqlite"));
            }
        }
        match self.runs.as_slice() {
            [run] => Ok(run),
            [] => Err(usage!(
                "export: give the run to export; td-observe runs lists them, and --format sqlite exports all"
            )),
            _ => Err(usage!(
                "export: only --format sqlite takes several runs: give one"
            )),
        }
    }

    /// Returns the file of a database, and refuses what it does not have.
    fn check_for_database(&self) -> Result<&Path, Failure> {
        if self.cast_version.is_some() {
            return Err(for_cast("--cast-version"));
        }
        for (option, is_given) in [
            ("--pane", self.pane.is_some()),
            ("--from-log", self.from_log),
            ("--idle-limit", self.idle_limit.is_some()),
        ] {
            if is_given {
                return Err(usage!("{option} is not for --format sqlite"));
            }
        }
        let output = self.output.as_deref();
        output.ok_or_else(|| usage!("--format sqlite: name the database with -o FILE"))
    }
}

fn for_cast(option: &str) -> Failure {
    usage!("{option} is for --format cast")
}

fn cast_version() -> impl TypedValueParser<Value = CastVersion> {
    PossibleValuesParser::new(["2", "3"]).map(|typed| match typed.as_str() {
        "2" => CastVersion::V2,
        _ => CastVersion::V3,
    })
}

// Exports the raw recordings of a pane as one asciicast file.

/// Maximum length of a line. Recorded lines are much shorter; a line that a broken disk has corrupted must not
/// exhaust the memory.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The recordings of one pane of a run.
#[derive(Debug)]
pub(super) struct RawRecordings {
    run: RunDirectory,
    files: Vec<RecordingFile>,
}

/// The input that an export has skipped.
#[derive(Debug, Default, PartialEq, Eq)]
struct SkippedInput {
    lines: u64,
    files: u64,
}

impl RawRecordings {
    /// Returns the recordings of this pane; without a pane, those of the only recorded pane.
    ///
    /// # Errors
    /// If the caller must export the log instead, with a message for the user, if any.
    pub fn of(run: &RunDirectory, pane: Option<&PaneId>) -> Result<Self, Option<String>> {
        let all = run
            .recordings()
            .map_err(|error| Some(format!("exported from the log: {error:?}")))?;
        let panes: BTreeSet<&PaneId> = all.iter().map(|file| &file.pane).collect();
        let chosen = match pane.or(panes.first().copied()) {
            None => return Err(None),
            Some(_) if pane.is_none() && panes.len() > 1 => {
                let names: Vec<String> = panes.iter().map(|pane| one_line(pane)).collect();
                return Err(Some(format!(
                    "exported from the log; there are raw recordings of single panes: --pane {}",
                    names.join(", --pane ")
                )));
            }
            Some(pane) if !panes.contains(pane) => {
                let why = "exported from the log: there is no raw recording of this pane";
                return Err((!panes.is_empty()).then(|| why.to_owned()));
            }
            Some(pane) => pane.clone(),
        };
        let of_pane = |file: &RecordingFile| file.pane == chosen;
        let files = all.into_iter().filter(of_pane).collect();
        let run = run.clone();
        Ok(Self { run, files })
    }

    /// Writes the recordings in blocks of lines, and reports the problems of the export.
    pub fn export(
        &self,
        options: &AsciicastOptions,
        stop: &Stop,
        mut write: impl FnMut(&mut String) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let title = options.title.as_deref().map(one_line);
        let joiner = RecordingJoiner::new(title, options.idle_limit);
        let mut joiner = joiner.version(options.version);
        let (mut out, mut line, mut skipped) = (String::new(), Vec::new(), SkippedInput::default());
        for file in &self.files {
            let mut recording = BufReader::new(self.run.open_recording(file)?);
            for number in 0.. {
                match next_line(&mut recording, &mut line) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(cause) => {
                        message!("the rest of {:?} cannot be read: {cause}", file.path);
                        break;
                    }
                }
                match number {
                    0 if !joiner.header(&line) => {
                        skipped.files += 1;
                        break;
                    }
                    0 => {}
                    _ if !joiner.line(&line, &mut out) => skipped.lines += 1,
                    _ => write(&mut out)?,
                }
                if is_stopped(stop) {
                    break;
                }
            }
        }
        joiner.finish(&mut out);
        write(&mut out)?;
        self.print_summary(&skipped);
        Ok(())
    }

    fn print_summary(&self, skipped: &SkippedInput) {
        let pane = self.files.first().map(|file| one_line(&file.pane));
        let files = match self.files.len() {
            1 => "one file".to_owned(),
            files => format!("{files} files"),
        };
        message!(
            "exported from the raw recording of {} ({files}); use --from-log to export the log",
            pane.unwrap_or_default()
        );
        if skipped.lines > 0 {
            message!(
                "{} unreadable lines of the recording were skipped",
                skipped.lines
            );
        }
        if skipped.files > 0 {
            message!(
                "{} files that are not recordings were skipped",
                skipped.files
            );
        }
    }
}

/// Reads the next complete line; returns false at the end. A partial line at the end is ignored: its writer was
/// interrupted, or is still writing it.
fn next_line(recording: &mut BufReader<File>, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    recording.take(LINE_BYTES_MAX).read_until(b'\n', line)?;
    match line.pop() {
        Some(b'\n') => Ok(true),
        Some(_) if line.len() as u64 + 1 >= LINE_BYTES_MAX => {
            Err(io::Error::other("a line is too long"))
        }
        _ => Ok(false),
    }
}
