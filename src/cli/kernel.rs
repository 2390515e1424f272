//! `td-observe kernel`: runs code on a Jupyter kernel, or shows the code that other clients run there. Asks the
//! questions of code (`input()`) on the terminal, and writes the copy of a notebook.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ValueHint;
use clap_complete::engine::ArgValueCandidates;
use crossbeam_channel::{Receiver, never, select_biased};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::{Map, Value};
use signal_hook::consts::SIGINT;

use super::failure::{Failure, INTERRUPTED};
use super::options::{self, Options, TypedKeeping, parse_execution_id};
use super::own_reports::{self, OwnReports, Reporter};
use super::pass_through::{self, PassOptions};
use super::signals::Signals;
use super::{known, live};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::face::one_line;
use crate::feed::real;
use crate::kernel::{
    Ask, ConnectionInfo, KernelChoice, KernelHandle, KernelSpec, KernelTask, Notebook, OnCell,
    TaskControl, running_kernels,
};
use crate::thread;
use crate::thread::Stop;

/// Maximum size of code or of a notebook, in bytes.
const CODE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The code of `kernel`.
#[derive(Debug)]
enum Code {
    /// No code: the command listens to the kernel.
    None,
    Text(String),
    Notebook(Box<Notebook>, Option<PathBuf>),
}

/// The configuration of `kernel`.
#[derive(Debug)]
pub(super) struct Config {
    kernel: KernelChoice,
    code: Code,
    label: String,
    extra: Map<String, Value>,
    typed: TypedKernel,
}

impl Config {
    pub fn from_typed(mut typed: TypedKernel) -> Result<Self, Failure> {
        // `--save NOTEBOOK` names the notebook.
        if typed.file.is_none() && typed.code.is_none() {
            typed.file = typed.save.as_mut().and_then(Option::take);
        }
        let code = code(&typed)?;
        let mut extra = Map::new();
        let mut note = |name: &str, value: String| extra.insert(name.to_owned(), value.into());
        let kernel = match (&typed.connection, &code) {
            (Some(connection), _) => {
                let path = connection_file(connection)?;
                note("connection", path.display().to_string());
                KernelChoice::Connect(ConnectionInfo::read(&path)?)
            }
            (None, Code::None) if typed.kernel.is_none() => return Err(nothing_to_do()),
            (None, code) => {
                let of_notebook = match code {
                    Code::Notebook(notebook, _) => notebook.kernel_name(),
                    _ => None,
                };
                let name = typed.kernel.as_deref().or(of_notebook).unwrap_or("python3");
                refuse_unknown(name)?;
                let spec = KernelSpec::find(name)?;
                note("kernel", spec.name().to_owned());
                KernelChoice::Start(spec)
            }
        };
        if let Code::Text(text) = &code {
            note(
                "command",
                text.lines().next().unwrap_or_default().to_owned(),
            );
        }
        let label = match (&typed.file, &typed.connection, &kernel) {
            (Some(file), ..) if file.as_os_str() != "-" => file_name(file),
            (_, Some(connection), _) => {
                let path = Path::new(connection);
                path.file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned()
            }
            (.., KernelChoice::Start(spec)) => spec.name().to_owned(),
            (.., KernelChoice::Connect(_)) => "kernel".to_owned(),
        };
        Ok(Self {
            kernel,
            code,
            label,
            extra,
            typed,
        })
    }
}

/// Refuses a name that no kernel has, with a suggestion. A name with a `/` is a directory.
fn refuse_unknown(name: &str) -> Result<(), Failure> {
    let names = KernelSpec::names();
    if name.contains('/') || names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    let hint = known::hint(name, names.iter().map(String::as_str), "");
    Err(usage!("there is no kernel named {name:?}{hint}"))
}

fn code(typed: &TypedKernel) -> Result<Code, Failure> {
    let is_notebook = |file: &Path| {
        file.extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
    };
    let code = match (&typed.code, &typed.file) {
        (Some(code), _) => Code::Text(code.clone()),
        (None, None) => Code::None,
        (None, Some(file)) if is_notebook(file) => {
            let notebook = Notebook::read(&options::read_input_text(
                file,
                CODE_BYTES_MAX,
                "a notebook",
            )?)
            .map_err(|error| usage!("cannot use {file:?}: {error}"))?;
            let copy = typed
                .save
                .clone()
                .map(|copy| copy.unwrap_or_else(|| copy_of(file)));
            if copy.as_ref().is_some_and(|copy| real(copy) == real(file)) {
                return Err(usage!(
                    "--save {file:?}: this would overwrite the notebook itself; name another file"
                ));
            }
            return Ok(Code::Notebook(Box::new(notebook), copy));
        }
        (None, Some(file)) => Code::Text(options::read_input_text(file, CODE_BYTES_MAX, "code")?),
    };
    if typed.save.is_some() {
        return Err(usage!(
            "--save writes a notebook: give a file that ends in .ipynb"
        ));
    }
    Ok(code)
}

fn copy_of(notebook: &Path) -> PathBuf {
    notebook.with_extension("executed.ipynb")
}

fn file_name(file: &Path) -> String {
    file.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Returns the connection file with this path, or with this name among those of running kernels.
fn connection_file(typed: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(typed);
    if typed.contains('/') || path.exists() {
        return Ok(path.to_owned());
    }
    let running = running_kernels();
    let is_named = |path: &&PathBuf| {
        let name = file_name(path);
        let stem = name.strip_suffix(".json").unwrap_or(&name);
        name == typed || stem == typed || stem.strip_prefix("kernel-") == Some(typed)
    };
    running.iter().find(is_named).cloned().ok_or_else(|| {
        usage!(
            "there is no connection file {typed:?}, here or in Jupyter's runtime directory{}",
            listed(&running)
        )
    })
}

fn nothing_to_do() -> Failure {
    usage!(
        "nothing to run and nothing to listen to: give -c CODE or a file, or --connection FILE{}",
        listed(&running_kernels())
    )
}

fn listed(running: &[PathBuf]) -> String {
    const NAMES_MAX: usize = 5;
    match running {
        [] => String::new(),
        running => {
            let names: Vec<String> = running
                .iter()
                .take(NAMES_MAX)
                .map(|path| file_name(path))
                .collect();
            format!("; the latest are {}", names.join(", "))
        }
    }
}

/// Runs the code to its end, or listens until the kernel ends or a signal arrives.
pub(super) fn run(options: &Options, config: Config) -> Result<ExitCode, Failure> {
    let control = TaskControl::default();
    let kill_control = control.clone();
    let signals = Signals::catch(move || kill_control.kill())?;
    let clock = Clock::system();
    let typed = config.typed;
    let id = typed.execution_id.as_deref();
    let (mut engine, _) = options::start(options, &typed.keeping, id, &clock)?;
    let is_passed = !options.json && !options.quiet && !io::stdout().is_terminal();
    let (mut printing, mut passing) = (None, None);
    let mut byte_sink: Option<Box<dyn crate::process::ByteSink>> = None;
    if is_passed {
        let pass = PassOptions {
            has_timestamps: typed.timestamps,
            lines_max: typed.max_lines,
            is_terminal: false,
        };
        let (sink, begun) = pass_through::start(&engine, &pass, &clock)?;
        byte_sink = Some(Box::new(sink));
        passing = Some(begun);
    } else {
        printing = live::print_one(&engine, options, typed.timestamps, &clock)?;
    }
    let is_listening = matches!(config.code, Code::None);
    // A listener works only while others do.
    let reports = (!is_listening).then(|| OwnReports::begin(options, config.label.clone()));
    let reporter = reports.as_ref().map(OwnReports::reporter);
    let mut task = KernelTask::new(config.kernel).label(config.label);
    task.control = control;
    (task.extra, task.byte_sink) = (config.extra, byte_sink);
    if let Some(id) = typed.execution_id {
        task = task.execution_id(id);
    }
    if let Some(lines) = typed.max_lines {
        task = task.line_limit(lines);
    }
    task = match config.code {
        Code::None => task.on_connected(|connection_file| {
            if let Some(path) = connection_file {
                message!("listening; other clients connect with {}", path.display());
            }
        }),
        Code::Text(code) => task.code(code),
        Code::Notebook(notebook, copy) => {
            let task = task.cells(notebook.code_cells());
            match copy {
                Some(path) => task.recorder(*notebook.clone(), copy_to(*notebook, path)?),
                None => task,
            }
        }
    };
    if typed.allow_errors {
        task = task.allow_errors();
    }
    // Code that comes from standard input leaves no answers there.
    let is_code_read = typed
        .file
        .as_ref()
        .is_some_and(|file| file.as_os_str() == "-");
    task.ask = if is_listening || is_code_read {
        None
    } else if io::stdin().is_terminal() {
        (!options.json && io::stdout().is_terminal()).then(|| ask(reporter))
    } else {
        has_answers().then(answer_from_input)
    };
    task.is_coloured = options.coloured;
    let job = engine.run_kernel(task)?;
    let reader_gone = printing
        .as_ref()
        .map_or_else(never, |printer| printer.ended());
    let end = wait(
        &mut engine,
        &job,
        is_listening,
        &reader_gone,
        (&signals, &clock),
    );
    // A source that waits for a kernel ends with the engine.
    let is_over = end != End::Done;
    let (report, _) = live::finish(engine, printing, is_over, &signals, &clock);
    let ended = job.wait();
    if let Some(passing) = passing {
        passing.finish(is_over, &signals, &clock);
    }
    live::report_problems(report);
    if let Some((reports, outcome)) = reports.zip(ended.as_ref().ok())
        && end == End::Done
    {
        reports.end(&if outcome.has_failed {
            own_reports::End::Failed("a cell has failed".to_owned())
        } else {
            own_reports::End::Done
        });
    }
    match (end, ended) {
        (End::Signalled, _) if !is_listening => Ok(ExitCode::from(INTERRUPTED)),
        // Stopping a listener is its regular end, and a closed output is no error.
        (End::Signalled | End::Unread, _) => Ok(ExitCode::SUCCESS),
        (End::Done, Ok(outcome)) if outcome.is_unread => Ok(ExitCode::SUCCESS),
        (End::Done, Err(error)) => Err(error.into()),
        (End::Done, Ok(outcome)) => {
            live::print_lost_lines(outcome.lost_lines);
            Ok(live::code(outcome.has_failed))
        }
    }
}

/// The time within which interrupted code must end when the output has no reader.
const UNREAD: Duration = Duration::from_secs(5);

/// The end of a wait for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The job has ended.
    Done,
    /// A signal arrived.
    Signalled,
    /// The reader of the output has gone.
    Unread,
}

/// Waits for the end of the job. Ctrl-C and a closed output interrupt the code first.
fn wait(
    engine: &mut crate::Engine,
    job: &KernelHandle,
    is_listening: bool,
    reader_gone: &Stop,
    (signals, clock): (&Signals, &Clock),
) -> End {
    let done = engine.done();
    let interrupt = |patience: Receiver<Instant>| {
        if !is_listening && job.control().interrupt() {
            select_biased! {
                recv(done) -> _ => {}
                // The second Ctrl-C also kills the kernel.
                recv(signals.first) -> _ => {}
                recv(patience) -> _ => {}
            }
        }
    };
    select_biased! {
        recv(signals.first) -> signal => {
            if signal == Ok(SIGINT) {
                interrupt(never());
            }
            End::Signalled
        }
        recv(done) -> _ => End::Done,
        recv(reader_gone) -> _ => {
            // Code whose output has no reader is stopped if it does not end.
            interrupt(clock.after(UNREAD));
            End::Unread
        }
    }
}

/// Writes the notebook without outputs, so that an unwritable file fails before any code runs. Returns the callback
/// that replaces the file after each cell.
fn copy_to(mut notebook: Notebook, path: PathBuf) -> std::result::Result<OnCell, Failure> {
    notebook.clear_outputs();
    write_copy(&notebook, &path).map_err(|error| usage!("--save: {error:?}"))?;
    Ok(Box::new(move |copy| write_copy(copy, &path)))
}

/// Replaces the file atomically.
fn write_copy(notebook: &Notebook, path: &Path) -> Result<()> {
    let failed = |cause| Error::file("cannot write", path, cause);
    let parent = path.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".td-observe-")
        .tempfile_in(directory)
        .map_err(failed)?;
    file.write_all(notebook.text()?.as_bytes())
        .map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// The time within which earlier output is shown before the question: revisions are merged for less time.
const SHOWN_WITHIN: Duration = Duration::from_millis(150);

/// The interval at which the end of the question is polled.
const CHECK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Maximum length of an answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The answer at the end of the input; Jupyter's kernels raise `EOFError` from it.
const END: &str = "\u{4}";

/// Returns whether standard input can have answers: it is a file or a pipe, and no device, as /dev/null is.
fn has_answers() -> bool {
    rustix::fs::fstat(io::stdin())
        .is_ok_and(|input| FileType::from_raw_mode(input.st_mode) != FileType::CharacterDevice)
}

/// Returns a callback that answers with the lines of standard input.
fn answer_from_input() -> Ask {
    let mut unread = Vec::new();
    Box::new(move |_, is_over| read_line(&mut unread, is_over))
}

/// Returns a callback that asks on the terminal.
fn ask(reporter: Option<Reporter>) -> Ask {
    let mut unread = Vec::new();
    Box::new(move |question, is_over| {
        thread::park(Some(SHOWN_WITHIN));
        write(&format!(" ?   {}", one_line(&question.prompt)));
        let _hidden = question.is_password.then(HiddenInput::begin);
        if let Some(reporter) = &reporter {
            reporter.asks(&question.prompt);
        }
        let answer = read_line(&mut unread, is_over);
        if let Some(reporter) = &reporter {
            reporter.works();
        }
        if question.is_password || answer.is_none() {
            write("\n");
        }
        if answer.is_some() {
            // The kernel's output contains the question and its answer, and replaces this row.
            write("\x1b[1A\r\x1b[K");
        }
        answer
    })
}

/// Writes to standard output without the lock of `io::stdout`, which the printing thread holds.
fn write(text: &str) {
    let mut bytes = text.as_bytes();
    while !bytes.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            // A closed terminal sends a signal, which ends the program.
            Err(_) => return,
        }
    }
}

/// Reads a line of standard input; `None` if the question is over. What was read after the line stays in
/// `unread`.
fn read_line(unread: &mut Vec<u8>, is_over: &dyn Fn() -> bool) -> Option<String> {
    let stdin = io::stdin();
    let end = loop {
        if let Some(at) = memchr::memchr(b'\n', unread) {
            break at + 1;
        }
        if unread.len() > ANSWER_BYTES_MAX {
            break unread.len();
        }
        if is_over() {
            return None;
        }
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        if !poll(&mut polled, Some(&CHECK)).is_ok_and(|ready| ready > 0) {
            continue;
        }
        let mut chunk = [0; 4096];
        match rustix::io::read(&stdin, &mut chunk) {
            Ok(0) if unread.is_empty() => return Some(END.to_owned()),
            Ok(0) => break unread.len(),
            Ok(count) => unread.extend_from_slice(&chunk[..count]),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(_) => return Some(END.to_owned()),
        }
    };
    let line: Vec<u8> = unread.drain(..end).collect();
    let text = String::from_utf8_lossy(&line);
    Some(text.lines().next().unwrap_or_default().to_owned())
}

/// Guard that disables the echo of the terminal until it is dropped.
struct HiddenInput(Option<Termios>);

impl HiddenInput {
    fn begin() -> Self {
        let stdin = io::stdin();
        let Ok(before) = tcgetattr(&stdin) else {
            return Self(None);
        };
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        let is_set = tcsetattr(&stdin, OptionalActions::Flush, &hidden).is_ok();
        Self(is_set.then_some(before))
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/kernel.txt").trim_end())]
pub(super) struct TypedKernel {
    /// Code to run: a file, a notebook (.ipynb), or - for standard input. Without code, td-observe
    /// listens
    #[arg(value_name = "FILE", conflicts_with = "code", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Run this code
    #[arg(short = 'c', value_name = "CODE")]
    pub code: Option<String>,
    /// Use the kernel with this connection file: a path, or a name in Jupyter's runtime directory
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "kernel",
        add = ArgValueCandidates::new(known::connections)
    )]
    pub connection: Option<String>,
    /// Start this kernel: a name, or the directory of its kernel.json [default: the notebook's, or python3]
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Write the notebook with its new outputs to this file [default: NAME.executed.ipynb]
    #[arg(long, value_name = "FILE", num_args = 0..=1, value_hint = ValueHint::FilePath)]
    pub save: Option<Option<PathBuf>>,
    /// Continue after cells that fail
    #[arg(long)]
    pub allow_errors: bool,
    /// Show and keep at most N lines, and the last lines of standard error if a cell fails; a warning
    /// marks the cut
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_lines: Option<u64>,
    /// The name of the run [default: FILE@SECONDS or KERNEL@SECONDS]
    #[arg(long, value_name = "ID", value_parser = parse_execution_id)]
    pub execution_id: Option<String>,
    /// Begin each line with the local time
    #[arg(long)]
    pub timestamps: bool,
    #[command(flatten)]
    pub keeping: TypedKeeping,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_written_beside_its_notebook() {
        assert_eq!(
            copy_of(Path::new("a/b.ipynb")),
            Path::new("a/b.executed.ipynb")
        );
    }
}
