//! `td-observe export`: writes a run as a terminal recording or as text.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use super::export_raw::RawRecordings;
use super::failure::Failure;
use super::history::{EarlyEnd, Which, report_problems, until_stopped};
use super::history_args::{Format, TypedExport};
use super::live;
use super::options::Options;
use super::signals::Signals;
use crate::clock::Clock;
use crate::event::{Envelope, PaneId};
use crate::face::{AsciicastExport, AsciicastOptions, Survey, TextExport, one_line};
use crate::history::{Query, ReadReport};
use crate::thread::{Stop, is_stopped};

/// The number of bytes that are buffered before a write.
const BUFFER_BYTES: usize = 64 * 1024;

pub(super) fn run(options: &Options, typed: TypedExport) -> Result<ExitCode, Failure> {
    let signals = Signals::catch(|| {})?;
    let which = Which::typed(&typed.run, options)?;
    until_stopped(&signals, &Clock::system(), move |stop| {
        export(&which, &typed, stop)
    })
}

fn export(which: &Which, typed: &TypedExport, stop: &Stop) -> Result<ExitCode, EarlyEnd> {
    let pane = typed.pane.as_deref().map(PaneId::from);
    let output = typed.output.as_deref();
    let cast = AsciicastOptions {
        idle_limit: typed.idle_limit,
        title: which.label(),
    };
    if let Which::File(path) = which
        && path.metadata().is_ok_and(|about| !about.is_file())
    {
        let text = format!("{path:?} is not a regular file, which an export must read twice");
        return Err(Failure::usage(text).into());
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
    each(which, usize::MAX, stop, |envelope| {
        survey.note(envelope);
        count += 1;
        Ok(())
    })?;
    if let Some(pane) = &pane
        && !survey.panes().any(|known| known == pane)
    {
        return Err(no_such_pane(pane, which, stop)?.into());
    }
    let mut out = open(output)?;
    let mut text = String::new();
    let mut renderer = match typed.format {
        Format::Text => ExportRenderer::Text(TextExport::new(survey)),
        Format::Cast => {
            let pane = pane.or_else(|| survey.sole_pane().cloned());
            ExportRenderer::Cast(AsciicastExport::new(&cast, pane, survey))
        }
    };
    let report = each(which, count, stop, |envelope| {
        renderer.push(envelope, &mut text);
        write(&mut out, &mut text, output)
    })?;
    renderer.finish(&mut text);
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
) -> Result<ExitCode, EarlyEnd> {
    let mut out = open(output)?;
    recordings.export(cast, stop, |text| write(&mut out, text, output))?;
    out.flush().map_err(|cause| failed(output, cause))?;
    Ok(ExitCode::SUCCESS)
}

/// The renderer of an export.
enum ExportRenderer {
    Text(TextExport),
    Cast(AsciicastExport),
}

impl ExportRenderer {
    fn push(&mut self, envelope: &Envelope, text: &mut String) {
        match self {
            Self::Text(transcript) => transcript.push(envelope, text),
            Self::Cast(cast) => cast.push(envelope, text),
        }
    }

    /// Appends the end, and reports omitted changes.
    fn finish(&mut self, text: &mut String) {
        let count = match self {
            Self::Text(transcript) => {
                transcript.finish(text);
                transcript.dropped_revisions()
            }
            Self::Cast(cast) => {
                cast.finish(text);
                cast.dropped_revisions()
            }
        };
        if count > 0 {
            message!(
                "{count} changes of earlier lines were too many to keep: \
                 the export has these lines as first printed"
            );
        }
    }
}

/// Passes the first `count` events of the run to `take`.
fn each(
    which: &Which,
    count: usize,
    stop: &Stop,
    mut take: impl FnMut(&Envelope) -> Result<(), EarlyEnd>,
) -> Result<ReadReport, EarlyEnd> {
    let mut log = which.read(Query::all())?;
    for record in log.by_ref().take(count) {
        if is_stopped(stop) {
            break;
        }
        take(&record.envelope)?;
    }
    Ok(log.into_report())
}

fn no_such_pane(pane: &PaneId, which: &Which, stop: &Stop) -> Result<Failure, EarlyEnd> {
    let mut all = Survey::new(None);
    each(which, usize::MAX, stop, |envelope| {
        all.note(envelope);
        Ok(())
    })?;
    let panes: Vec<String> = all.panes().map(|pane| one_line(pane)).collect();
    let existing = match panes.is_empty() {
        true => "it has none".to_owned(),
        false => format!("it has {}", panes.join(", ")),
    };
    Ok(usage!("--pane: the run has no pane {pane}; {existing}"))
}

fn open(output: Option<&Path>) -> Result<BufWriter<Box<dyn Write>>, EarlyEnd> {
    let out: Box<dyn Write> = match output {
        None => Box::new(io::stdout().lock()),
        Some(path) => Box::new(File::create(path).map_err(|cause| failed(Some(path), cause))?),
    };
    Ok(BufWriter::with_capacity(BUFFER_BYTES, out))
}

fn write(out: &mut impl Write, text: &mut String, output: Option<&Path>) -> Result<(), EarlyEnd> {
    out.write_all(text.as_bytes())
        .map_err(|cause| failed(output, cause))?;
    text.clear();
    Ok(())
}

fn failed(output: Option<&Path>, cause: io::Error) -> EarlyEnd {
    match output {
        None => cause.into(),
        Some(path) => EarlyEnd::Failed(usage!("cannot write {path:?}: {cause}")),
    }
}
