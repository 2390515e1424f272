//! `td-observe export`: a run as a recording for terminals, or as text.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::export_raw::RawRecordings;
use super::failure::Failure;
use super::history::{Ended, Which, tell, until_stopped};
use super::history_args::{Format, TypedExport};
use super::options::Options;
use super::signals::Signals;
use crate::clock::Clock;
use crate::event::{Envelope, PaneId};
use crate::face::{AsciicastExport, AsciicastOptions, Survey, TextExport, one_line};
use crate::history::{Query, ReadReport};
use crate::thread::{Stop, is_stopped};

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 64 * 1024;

/// The configuration of `export`.
#[derive(Debug)]
struct Config {
    format: Format,
    pane: Option<PaneId>,
    cast: AsciicastOptions,
    output: Option<PathBuf>,
    /// Raw recordings are left alone.
    from_log: bool,
}

/// Writes the export.
pub(super) fn run(options: &Options, typed: TypedExport) -> Result<ExitCode, Failure> {
    let signals = Signals::catch(|| {})?;
    let which = Which::typed(&typed.run, options)?;
    let config = Config {
        format: typed.format,
        pane: typed.pane.as_deref().map(PaneId::from),
        cast: AsciicastOptions {
            pane: None,
            idle_limit: typed.idle_limit,
            title: which.label(),
        },
        output: typed.output,
        from_log: typed.from_log,
    };
    until_stopped(&signals, &Clock::system(), move |stop| {
        export(&which, config, stop)
    })
}

fn export(which: &Which, mut config: Config, stop: &Stop) -> Result<ExitCode, Ended> {
    if let Which::File(path) = which
        && path.metadata().is_ok_and(|about| !about.is_file())
    {
        let text = format!("{path:?} is no regular file, and an export reads it twice");
        return Err(Failure::usage(text).into());
    }
    let mut note = None;
    if let (Format::Cast, Which::Run(run), false) = (config.format, which, config.from_log) {
        match RawRecordings::of(run, config.pane.as_ref()) {
            Ok(recordings) => return export_recordings(&recordings, &config, stop),
            Err(why) => note = why,
        }
    }
    let mut survey = Survey::new(config.pane.clone());
    // A run that is being written has more at the second reading.
    let mut count = 0;
    each(which, usize::MAX, stop, |envelope| {
        survey.note(envelope);
        count += 1;
        Ok(())
    })?;
    if let Some(pane) = &config.pane
        && !survey.panes().any(|known| known == pane)
    {
        return Err(no_such_pane(pane, which, stop)?.into());
    }
    let mut out = open(config.output.as_deref())?;
    let mut text = String::new();
    let mut renderer = match config.format {
        Format::Text => Renderer::Text(TextExport::new(survey)),
        Format::Cast => {
            config.cast.pane = config.pane.or_else(|| survey.sole_pane().cloned());
            Renderer::Cast(AsciicastExport::new(config.cast))
        }
    };
    let report = each(which, count, stop, |envelope| {
        renderer.push(envelope, &mut text);
        write(&mut out, &mut text, config.output.as_deref())
    })?;
    renderer.finish(&mut text);
    write(&mut out, &mut text, config.output.as_deref())?;
    out.flush()
        .map_err(|cause| failed(config.output.as_deref(), cause))?;
    if let Some(note) = note {
        super::output::say(&note);
    }
    Ok(tell(which, &report))
}

/// Exports the recorded bytes of a pane, which show its screen more exactly than the log.
fn export_recordings(
    recordings: &RawRecordings,
    config: &Config,
    stop: &Stop,
) -> Result<ExitCode, Ended> {
    let output = config.output.as_deref();
    let mut out = open(output)?;
    recordings.export(&config.cast, stop, |text| write(&mut out, text, output))?;
    out.flush().map_err(|cause| failed(output, cause))?;
    Ok(ExitCode::SUCCESS)
}

/// The renderer of an export.
enum Renderer {
    Text(TextExport),
    Cast(AsciicastExport),
}

impl Renderer {
    fn push(&mut self, envelope: &Envelope, text: &mut String) {
        match self {
            Self::Text(transcript) => transcript.push(envelope, text),
            Self::Cast(cast) => cast.push(envelope, text),
        }
    }

    /// Appends the end; reports what the export leaves out.
    fn finish(&mut self, text: &mut String) {
        let (count, what) = match self {
            Self::Text(transcript) => {
                transcript.finish(text);
                let what = "changes of earlier lines were too many to be kept: \
                            they read as first printed";
                (transcript.dropped_revisions(), what)
            }
            Self::Cast(cast) => {
                cast.finish(text);
                let what = "lines changed after they had left the screen: they read as before";
                (cast.unreached(), what)
            }
        };
        if count > 0 {
            super::output::say(&format!("{count} {what}"));
        }
    }
}

/// So many events of the run, from its beginning.
fn each(
    which: &Which,
    count: usize,
    stop: &Stop,
    mut take: impl FnMut(&Envelope) -> Result<(), Ended>,
) -> Result<ReadReport, Ended> {
    let mut log = which.read(Query::all())?;
    for record in log.by_ref().take(count) {
        if is_stopped(stop) {
            break;
        }
        take(&record.envelope)?;
    }
    Ok(log.into_report())
}

fn no_such_pane(pane: &PaneId, which: &Which, stop: &Stop) -> Result<Failure, Ended> {
    let mut all = Survey::new(None);
    each(which, usize::MAX, stop, |envelope| {
        all.note(envelope);
        Ok(())
    })?;
    let panes: Vec<String> = all.panes().map(|pane| one_line(pane)).collect();
    let there = match panes.is_empty() {
        true => "it has none".to_owned(),
        false => format!("it has {}", panes.join(", ")),
    };
    Ok(Failure::usage(format!(
        "--pane: the run has no pane {pane}; {there}"
    )))
}

fn open(output: Option<&Path>) -> Result<BufWriter<Box<dyn Write>>, Ended> {
    let out: Box<dyn Write> = match output {
        None => Box::new(io::stdout().lock()),
        Some(path) => Box::new(File::create(path).map_err(|cause| failed(Some(path), cause))?),
    };
    Ok(BufWriter::with_capacity(BUFFER_BYTES, out))
}

fn write(out: &mut impl Write, text: &mut String, output: Option<&Path>) -> Result<(), Ended> {
    out.write_all(text.as_bytes())
        .map_err(|cause| failed(output, cause))?;
    text.clear();
    Ok(())
}

fn failed(output: Option<&Path>, cause: io::Error) -> Ended {
    match output {
        None => Ended::Output(cause),
        Some(path) => Ended::Failed(Failure::usage(format!("cannot write {path:?}: {cause}"))),
    }
}
