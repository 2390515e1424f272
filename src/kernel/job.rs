//! A kernel as a source of an engine: emits the cells that it runs, or that other clients run, as executions,
//! and their outputs as events.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::cell::{
    Cell, CellListener, CellOutput, CellStatus, CellStep, LogLine, PublishedContent, Question,
};
use super::client::{Kernel, KernelControl};
use super::connection::ConnectionInfo;
use super::kernelspec::KernelSpec;
use super::notebook::{CodeCell, ExecutedNotebook, Notebook, OnCell};
use super::protocol::{Channel, Message};
use super::queues::{Incoming, MissedOutputs};
use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::escapes::without_escapes;
use crate::event::{ExecutionId, OutputStream, TdEvent, Verification};
use crate::history::{RunInfo, RunKind, RunState};
use crate::observe::{Job, JobHandle, JobName, JobRun, RunName, Source, SourceContext};
use crate::process::{ByteSink, TextEvents};
use crate::thread::{self, Stop, is_stopped};
use crate::timestamp::Timestamp;

#[derive(Debug)]
pub(crate) enum KernelChoice {
    /// A running kernel.
    Connect(ConnectionInfo),
    /// A new kernel, which ends with the job.
    Start(KernelSpec),
}

/// Answers a question of the code. Returns `None` once `is_over()` returns true.
pub(crate) type Ask = Box<dyn FnMut(&Question, &dyn Fn() -> bool) -> Option<String> + Send>;

/// Called when the kernel is connected, with the connection file if the job started the kernel.
pub(crate) type OnConnected = Box<dyn FnOnce(Option<&Path>) + Send>;

/// What a job does on a kernel: runs code or a notebook, or listens to what other clients run, until the kernel
/// ends. Each cell is an execution, with the events `ExecutionStarted`, `ExecutionOutput` and
/// `ExecutionCompleted`.
///
/// ```no_run
/// use td_observe::kernel::{KernelSpec, KernelTask, Notebook};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let notebook = Notebook::read(&std::fs::read_to_string("analysis.ipynb")?)?;
/// let spec = KernelSpec::find(notebook.kernel_name().unwrap_or("python3"))?;
/// let mut engine = td_observe::Builder::new().data_dir("/tmp/observed").start()?;
/// // Each executed cell is in the copy, with its outputs, before the next one runs.
/// let task = KernelTask::start(spec).notebook(notebook, |copy| {
///     std::fs::write("analysis.executed.ipynb", copy.text().map_err(std::io::Error::other)?)
/// });
/// let outcome = engine.run_kernel(task)?.wait()?;
/// println!("failed: {}", outcome.has_failed);
/// # Ok(())
/// # }
/// ```
#[must_use = "give it to Engine::run_kernel"]
pub struct KernelTask {
    pub(crate) control: TaskControl,
    kernel: KernelChoice,
    /// The cells to run; `None` to listen to other clients.
    cells: Option<Vec<CodeCell>>,
    execution_id: Option<ExecutionId>,
    label: String,
    /// Further metadata of the run.
    pub(crate) extra: Map<String, Value>,
    lines_max: Option<u64>,
    pub(crate) ask: Option<Ask>,
    pub(crate) byte_sink: Option<Box<dyn ByteSink>>,
    /// True if tracebacks keep their colours.
    pub(crate) is_coloured: bool,
    recorder: Option<ExecutedNotebook>,
    pub(crate) on_connected: Option<OnConnected>,
}

impl KernelTask {
    /// Creates a task on a new kernel, which ends with the job. Without code, the job listens to clients that
    /// connect to the kernel.
    pub fn start(spec: KernelSpec) -> Self {
        Self::new(KernelChoice::Start(spec))
    }

    /// Creates a task on a running kernel. Without code, the job listens to the kernel's clients.
    pub fn connect(info: ConnectionInfo) -> Self {
        Self::new(KernelChoice::Connect(info))
    }

    pub(crate) fn new(kernel: KernelChoice) -> Self {
        let label = match &kernel {
            KernelChoice::Start(spec) => spec.name().to_owned(),
            KernelChoice::Connect(_) => "kernel".to_owned(),
        };
        Self {
            control: TaskControl::default(),
            kernel,
            cells: None,
            execution_id: None,
            label,
            extra: Map::new(),
            lines_max: None,
            ask: None,
            byte_sink: None,
            is_coloured: true,
            recorder: None,
            on_connected: None,
        }
    }

    /// Adds code, which runs as a cell after those before it, unless one of them fails.
    pub fn code(self, code: impl Into<String>) -> Self {
        let number = self.cells.as_ref().map_or(0, Vec::len) + 1;
        self.cells([CodeCell {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            code: code.into(),
            may_fail: false,
        }])
    }

    /// Adds cells, such as a part of [`Notebook::code_cells`].
    pub fn cells(mut self, cells: impl IntoIterator<Item = CodeCell>) -> Self {
        self.cells.get_or_insert_default().extend(cells);
        self
    }

    /// Adds the code cells of a notebook. `on_cell` gets a copy of the notebook after each cell, with the outputs so
    /// far; an error of `on_cell` ends the job.
    pub fn notebook(
        self,
        notebook: Notebook,
        mut on_cell: impl FnMut(&Notebook) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let cells = notebook.code_cells();
        let on_cell = Box::new(move |copy: &Notebook| {
            let failed = |cause| Error::other("cannot keep the notebook's copy").because(cause);
            on_cell(copy).map_err(failed)
        });
        self.cells(cells).recorder(notebook, on_cell)
    }

    /// Passes a copy of the notebook to the callback after each cell.
    pub(crate) fn recorder(mut self, notebook: Notebook, on_cell: OnCell) -> Self {
        self.recorder = Some(ExecutedNotebook::new(notebook, on_cell));
        self
    }

    /// Runs the following cells even if one of those added so far raises an exception.
    pub fn allow_errors(mut self) -> Self {
        let cells = self.cells.iter_mut().flatten();
        cells.for_each(|cell| cell.may_fail = true);
        self
    }

    /// Sets the name of the run; defaults to the label and the time.
    pub fn execution_id(mut self, id: impl Into<ExecutionId>) -> Self {
        self.execution_id = Some(id.into());
        self
    }

    /// Sets the label of the run, such as the name of the notebook's file; defaults to the kernel's name.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Limits the number of lines of output that become events; defaults to no limit.
    pub fn line_limit(mut self, lines: u64) -> Self {
        self.lines_max = Some(lines);
        self
    }

    /// Answers questions of the code, such as `input()`. The callback runs on the job's thread. Its second argument
    /// returns true once the question is over; return `None` then. Without a callback, a question raises an
    /// exception in the code.
    pub fn on_question(
        mut self,
        ask: impl FnMut(&Question, &dyn Fn() -> bool) -> Option<String> + Send + 'static,
    ) -> Self {
        self.ask = Some(Box::new(ask));
        self
    }

    /// Calls back when the kernel is connected, with its connection file if the job started the kernel: other
    /// clients connect with it.
    pub fn on_connected(mut self, callback: impl FnOnce(Option<&Path>) + Send + 'static) -> Self {
        self.on_connected = Some(Box::new(callback));
        self
    }

    /// Returns the name of the task's run.
    pub(crate) fn run_name(&self, wall: Timestamp) -> RunName {
        match &self.execution_id {
            Some(id) => RunName::Exact(id.clone()),
            None => RunName::at(&self.label, wall),
        }
    }
}

impl fmt::Debug for KernelTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelTask")
            .field("kernel", &self.kernel)
            .field("cells", &self.cells)
            .field("label", &self.label)
            .finish_non_exhaustive()
    }
}

/// The outcome of a job whose kernel could be used.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KernelOutcome {
    /// True if a cell failed that must not fail, or the kernel ended.
    pub has_failed: bool,
    /// True if the code was interrupted because the reader of the passed-on output has gone.
    #[cfg_attr(
        not(feature = "cli"),
        expect(dead_code, reason = "only the program passes output on")
    )]
    pub(crate) is_unread: bool,
    /// The number of lines beyond the limit.
    pub lost_lines: u64,
}

/// Interrupts the code of a job from another thread.
#[derive(Clone, Debug, Default)]
pub struct TaskControl(Arc<SharedControl>);

#[derive(Debug, Default)]
struct SharedControl {
    /// The control of the kernel, once it is connected.
    control: OnceLock<KernelControl>,
    /// True once the job was interrupted, possibly before the kernel was connected.
    is_interrupted: AtomicBool,
}

impl TaskControl {
    /// Interrupts the code. Returns false if no kernel is connected yet; the code is not started then.
    pub fn interrupt(&self) -> bool {
        self.0.is_interrupted.store(true, Ordering::SeqCst);
        let control = self.0.control.get();
        control.inspect(|control| control.interrupt()).is_some()
    }

    /// Kills the kernel, if the job started it.
    pub fn kill(&self) {
        if let Some(control) = self.0.control.get() {
            control.kill();
        }
    }
}

/// A running job on a kernel.
pub type KernelHandle = JobHandle<KernelOutcome, TaskControl>;

pub(crate) fn kernel_job(task: KernelTask, name: JobName) -> (impl Source, KernelHandle) {
    let thread = format!("td-cells {}", task.label);
    let control = task.control.clone();
    let work = move |context: &SourceContext, job: JobRun<'_>| run(task, context, job);
    Job::new(thread, name, control, work)
}

fn run(mut task: KernelTask, context: &SourceContext, job: JobRun<'_>) -> Result<KernelOutcome> {
    let stop = context.stop.clone();
    let clock = context.clock.clone();
    let mut kernel = match &task.kernel {
        KernelChoice::Connect(info) => Kernel::open(info, None, clock, stop)?,
        KernelChoice::Start(spec) => Kernel::launch(spec, clock, stop)?,
    };
    // A job connects once.
    let _ = task.control.0.control.set(kernel.control());
    if task.cells.is_some() {
        kernel.ready()?;
    }
    if let Some(on_connected) = task.on_connected.take() {
        on_connected(kernel.connection_file());
    }
    let info = RunInfo {
        kind: RunKind::Kernel,
        label: task.label.clone(),
        identity: None,
        extra: std::mem::take(&mut task.extra),
    };
    let emitter = job.open(context, info)?.emitter;
    let id = emitter.execution_id().clone();
    let ran = match task.cells.take() {
        Some(cells) => run_cells(&mut kernel, cells, task, &emitter, context),
        None => listen(&kernel, task, &emitter, context),
    };
    let (state, status) = match &ran {
        Ok(None) => (RunState::Detached, None),
        Ok(Some(outcome)) if outcome.has_failed => (RunState::Failed, Some(1)),
        Ok(Some(_)) => (RunState::Completed, Some(0)),
        Err(error) => {
            emitter.error("kernel", &format!("{error:?}"));
            (RunState::Failed, None)
        }
    };
    context.runs.close(&id, state, status);
    // An error was already emitted as an event of the run.
    Ok(ran.map_or_else(
        |_| KernelOutcome {
            has_failed: true,
            ..KernelOutcome::default()
        },
        Option::unwrap_or_default,
    ))
}

/// Runs cells until one fails. Returns `None` if the engine stopped.
fn run_cells(
    kernel: &mut Kernel,
    cells: Vec<CodeCell>,
    mut task: KernelTask,
    emitter: &EventEmitter,
    context: &SourceContext,
) -> Result<Option<KernelOutcome>> {
    let (control, task_control) = (kernel.control(), task.control.clone());
    let mut reporter = CellReporter {
        outputs: OutputEvents::new(emitter, &mut task, context),
        ask: task.ask.take(),
        recorder: task.recorder.take(),
        control,
        is_unread: false,
    };
    let mut has_failed = false;
    for cell in cells {
        let verification = kernel.verify(&cell.code);
        // An interrupt that arrived before the cell counts as an interrupt of the cell.
        if task_control.0.is_interrupted.load(Ordering::SeqCst) {
            has_failed = true;
            break;
        }
        let began = context.clock.now();
        let number = cell.number;
        emit_started(emitter, &cell.code, number, verification);
        let ran = kernel.run(&cell.code, &mut reporter);
        let now = context.clock.now();
        let is_ok = ran.as_ref().is_ok_and(|end| end.status.is_ok());
        reporter.outputs.end_cell(is_ok, now);
        let duration = now.saturating_duration_since(began);
        let end = match ran {
            Ok(end) => end,
            Err(error) => {
                emit_completed(emitter, None, number, duration);
                if let Some(recorder) = &mut reporter.recorder {
                    // Record the cell, to keep its outputs.
                    recorder.end(number, None)?;
                }
                return if thread::is_stopped(&context.stop) {
                    Ok(None)
                } else {
                    Err(error)
                };
            }
        };
        let code = i32::from(!end.status.is_ok());
        emit_completed(emitter, Some(code), number, duration);
        if let Some(recorder) = &mut reporter.recorder {
            recorder.end(number, end.count)?;
        }
        let is_interrupted = reporter.control.interrupts() > 0;
        has_failed = !end.status.is_ok() && (!cell.may_fail || is_interrupted);
        if has_failed {
            break;
        }
    }
    let lost_lines = reporter.outputs.text.finish(context.clock.now()).1;
    Ok(Some(KernelOutcome {
        has_failed,
        is_unread: reporter.is_unread,
        lost_lines,
    }))
}

/// Emits the cells that other clients run, until the kernel ends or the engine stops.
fn listen(
    kernel: &Kernel,
    mut task: KernelTask,
    emitter: &EventEmitter,
    context: &SourceContext,
) -> Result<Option<KernelOutcome>> {
    let mut listening = Listening::default();
    let mut outputs = OutputEvents::new(emitter, &mut task, context);
    let mut began: HashMap<String, (Instant, u32)> = HashMap::new();
    let mut number = 0;
    let ended = loop {
        let now = context.clock.now();
        let due = outputs.text.tick(now);
        let is_listening = listening.next(kernel, due, &mut |activity| {
            let now = context.clock.now();
            match activity {
                Activity::Begins { cell, code, count } => {
                    number = count.unwrap_or(number + 1);
                    began.insert(cell.to_owned(), (now, number));
                    outputs.text.end_lines(now);
                    emit_started(emitter, code, number, None);
                }
                Activity::Output(output) => outputs.push(&output, now),
                Activity::Ends { cell, status } => {
                    outputs.end_cell(status.is_ok(), now);
                    if let Some((at, number)) = began.remove(cell) {
                        let code = Some(i32::from(!status.is_ok()));
                        let duration = now.saturating_duration_since(at);
                        emit_completed(emitter, code, number, duration);
                    }
                }
                Activity::Missed(missed) => outputs.missed(missed),
                Activity::Warning(message) => drop(emitter.warning("kernel", message)),
            }
        });
        // Without a reader of the passed-on output, the job ends.
        if !matches!(is_listening, Ok(true)) || outputs.is_closed() {
            break is_listening;
        }
    };
    let lost_lines = outputs.text.finish(context.clock.now()).1;
    match ended {
        Ok(_) => Ok(Some(KernelOutcome {
            lost_lines,
            ..KernelOutcome::default()
        })),
        Err(_) if thread::is_stopped(&context.stop) => Ok(None),
        Err(error) => Err(error),
    }
}

fn emit_started(emitter: &EventEmitter, code: &str, cell: u32, verification: Option<Verification>) {
    let directory = std::env::current_dir().unwrap_or_default();
    emitter.emit(TdEvent::ExecutionStarted {
        execution_id: emitter.execution_id().clone(),
        command: code.trim_end().to_owned(),
        cwd: directory.display().to_string(),
        pane: None,
        pid: None,
        cell: Some(cell),
        verification: verification.map(Into::into),
    });
}

fn emit_completed(emitter: &EventEmitter, exit_code: Option<i32>, cell: u32, duration: Duration) {
    emitter.emit(TdEvent::ExecutionCompleted {
        execution_id: emitter.execution_id().clone(),
        exit_code,
        signal: None,
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        pane: None,
        pid: None,
        cell: Some(cell),
    });
}

/// Turns the reports of a running cell into events.
struct CellReporter {
    outputs: OutputEvents,
    ask: Option<Ask>,
    recorder: Option<ExecutedNotebook>,
    control: KernelControl,
    /// True once the code was interrupted because the reader of its output has gone.
    is_unread: bool,
}

impl CellListener for CellReporter {
    fn output(&mut self, output: &CellOutput) {
        let now = self.outputs.clock.now();
        self.outputs.push(output, now);
        if let Some(recorder) = &mut self.recorder {
            recorder.output(output);
        }
        if !self.is_unread && self.outputs.is_closed() {
            // The reader of the output has gone, as with a broken pipe. Interrupt only once, because a
            // further interrupt would reach the kernel itself.
            self.is_unread = true;
            // What the interrupt prints is not passed on.
            self.outputs.byte_sink = None;
            self.control.interrupt();
        }
    }

    fn missed(&mut self, missed: MissedOutputs) {
        self.outputs.missed(missed);
    }

    fn answer(&mut self, question: &Question, is_over: &dyn Fn() -> bool) -> Option<String> {
        let ask = self.ask.as_mut()?;
        // The prompt follows everything that was printed.
        self.outputs.text.end_lines(self.outputs.clock.now());
        let (control, before) = (&self.control, self.control.interrupts());
        let outputs = &self.outputs;
        let answer = ask(question, &|| {
            control.interrupts() > before || is_stopped(&outputs.stop) || is_over()
        })?;
        // The history gets the question and the answer, but no password.
        let shown = if question.is_password { "" } else { &answer };
        self.outputs.print(&format!("{}{shown}\n", question.prompt));
        Some(answer)
    }

    fn allows_questions(&self) -> bool {
        self.ask.is_some()
    }

    fn tick(&mut self, now: Instant) -> Option<Instant> {
        self.outputs.text.tick(now)
    }
}

/// The most cells that are followed at the same time. A kernel runs one cell, and a few more in subshells.
const CELLS_MAX: usize = 256;

/// The number of ended cells whose late outputs are still reported.
const ENDED_MAX: usize = 64;

/// An observed activity of a kernel's clients.
#[derive(Debug)]
pub(crate) enum Activity<'a> {
    /// A client runs code. The code is empty if it began before the observation.
    Begins {
        cell: &'a str,
        code: &'a str,
        count: Option<u32>,
    },
    Output(CellOutput),
    Ends {
        cell: &'a str,
        status: CellStatus,
    },
    Missed(MissedOutputs),
    /// The state of the kernel or of its connection has changed, in words.
    Warning(&'static str),
}

/// Follows the cells that the clients of a kernel run.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    cells: HashMap<String, Cell>,
    /// The cells that ended last. Their threads may still print.
    ended: VecDeque<String>,
    was_disconnected: bool,
}

impl Listening {
    /// Waits for the next report of a kernel, at most until the deadline, and passes the resulting activity
    /// on. Returns `Ok(false)` if the kernel was shut down in order.
    ///
    /// # Errors
    /// `is_gone()` when the kernel has ended, or the caller must stop.
    pub fn next(
        &mut self,
        kernel: &Kernel,
        deadline: Option<Instant>,
        on_activity: &mut dyn FnMut(Activity<'_>),
    ) -> Result<bool> {
        match kernel.receive(deadline)? {
            None | Some(Incoming::Restarting) => {}
            Some(Incoming::Connected) => {
                if std::mem::take(&mut self.was_disconnected) {
                    on_activity(Activity::Warning("the kernel was restarted"));
                }
            }
            Some(Incoming::Message(message)) => return Ok(self.message(&message, on_activity)),
            Some(Incoming::Missed(missed)) => on_activity(Activity::Missed(missed)),
            Some(Incoming::Beating(is_beating)) => on_activity(Activity::Warning(if is_beating {
                "the kernel answers its heartbeat again"
            } else {
                "the kernel has not answered its heartbeat for 3 s"
            })),
            Some(Incoming::Disconnected) => {
                self.was_disconnected = true;
                on_activity(Activity::Warning("the kernel has closed its connections"));
                // The kernel will not report the end of these cells.
                for (id, _) in self.cells.drain() {
                    let status = CellStatus::Aborted;
                    on_activity(Activity::Ends { cell: &id, status });
                }
            }
            Some(Incoming::Gone(error)) => return Err(error),
        }
        Ok(true)
    }

    /// Handles a message; returns false if the kernel was shut down.
    fn message(&mut self, message: &Message, on_activity: &mut dyn FnMut(Activity<'_>)) -> bool {
        if message.channel != Channel::Iopub {
            return true;
        }
        if message.msg_type == "shutdown_reply" {
            let content: PublishedContent = message.content().unwrap_or_default();
            return content.restart;
        }
        let id = message.parent_id.as_str();
        if message.parent_type != "execute_request" {
            return true;
        }
        if self.ended.iter().any(|ended| ended == id) {
            if let CellStep::Output(output) = Cell::default().take(message) {
                on_activity(Activity::Output(output));
            }
            return true;
        }
        let is_new = !self.cells.contains_key(id);
        // The state `busy` arrives before the code.
        if is_new && (message.msg_type == "status" || self.cells.len() >= CELLS_MAX) {
            return true;
        }
        let cell = self.cells.entry(id.to_owned()).or_default();
        match cell.take(message) {
            CellStep::Begins { code, count } => on_activity(Activity::Begins {
                cell: id,
                code: &code,
                count,
            }),
            CellStep::Output(output) => {
                if is_new {
                    on_activity(Activity::Begins {
                        cell: id,
                        code: "",
                        count: None,
                    });
                }
                on_activity(Activity::Output(output));
            }
            CellStep::Question(_) | CellStep::Nothing => {}
        }
        if cell.is_idle {
            let status = cell.status.clone();
            self.cells.remove(id);
            self.ended.push_back(id.to_owned());
            if self.ended.len() > ENDED_MAX {
                self.ended.pop_front();
            }
            on_activity(Activity::Ends { cell: id, status });
        }
        true
    }
}

/// The poll interval while the reader of the passed-on output has no room.
const ROOM_PAUSE: Duration = Duration::from_millis(2);

/// Emits the outputs of cells and passes them on.
struct OutputEvents {
    emitter: EventEmitter,
    text: TextEvents,
    byte_sink: Option<Box<dyn ByteSink>>,
    is_coloured: bool,
    clock: Clock,
    stop: Stop,
}

impl OutputEvents {
    fn new(emitter: &EventEmitter, task: &mut KernelTask, context: &SourceContext) -> Self {
        Self {
            emitter: emitter.clone(),
            text: TextEvents::of_execution(emitter, task.lines_max),
            byte_sink: task.byte_sink.take(),
            is_coloured: task.is_coloured,
            clock: context.clock.clone(),
            stop: context.stop.clone(),
        }
    }

    fn push(&mut self, output: &CellOutput, now: Instant) {
        if let Some(line) = output.log_line() {
            return self.log_line(&line);
        }
        if let Some((stream, text)) = output.text() {
            let text = match output {
                CellOutput::Error(_) if !self.is_coloured => without_escapes(&text),
                _ => text,
            };
            self.pass_on(stream, &text);
            self.text.push(stream, text.as_bytes(), now);
        }
    }

    /// Emits all text of a cell. The traceback of a failed one is not lost to a limit of lines.
    fn end_cell(&mut self, is_ok: bool, now: Instant) {
        if is_ok {
            return self.text.end_lines(now);
        }
        self.text.end_lines_after_failure(now);
        if let Some(sink) = &mut self.byte_sink {
            sink.explain_failure();
        }
    }

    /// Emits a log line of the code.
    fn log_line(&mut self, line: &LogLine) {
        let now = self.clock.now();
        self.text.end_lines(now);
        match line.level.to_ascii_lowercase().as_str() {
            "error" | "critical" | "fatal" => drop(self.emitter.error("log", &line.message)),
            "warning" | "warn" => drop(self.emitter.warning("log", &line.message)),
            level => self.print(&format!("[{level}] {}\n", line.message)),
        }
    }

    /// Emits text of standard output.
    fn print(&mut self, text: &str) {
        self.pass_on(OutputStream::Stdout, text);
        let now = self.clock.now();
        self.text.push(OutputStream::Stdout, text.as_bytes(), now);
    }

    /// Passes text on unchanged. While a slow reader blocks this call, the kernel's outputs queue up, and the
    /// excess is dropped.
    fn pass_on(&mut self, stream: OutputStream, text: &str) {
        if let Some(sink) = &mut self.byte_sink {
            while !sink.has_room(stream) && !sink.is_closed(stream) && !is_stopped(&self.stop) {
                thread::park(Some(ROOM_PAUSE));
            }
            sink.take(stream, text.as_bytes());
        }
    }

    /// Returns true if the reader of the passed-on output has gone.
    fn is_closed(&mut self) -> bool {
        let sink = self.byte_sink.as_mut();
        sink.is_some_and(|sink| sink.is_closed(OutputStream::Stdout))
    }

    /// Emits a warning about dropped outputs.
    fn missed(&mut self, missed: MissedOutputs) {
        self.text.end_lines(self.clock.now());
        let message = format!(
            "{} outputs of the kernel ({} bytes) came faster than they were taken, and are missing here",
            missed.messages, missed.bytes
        );
        self.emitter.warning("kernel", &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::protocol::samples::{answer, message, printed, status};
    use serde_json::{Value, json};

    fn input(id: &str, code: &str) -> Message {
        let content = json!({ "code": code, "execution_count": 1 });
        message(Channel::Iopub, "execute_input", id, content)
    }

    /// Returns short descriptions of the activity in these messages.
    fn activity(listening: &mut Listening, messages: &[Message]) -> Vec<String> {
        let mut words = Vec::new();
        for message in messages {
            let is_open = listening.message(message, &mut |activity| {
                words.push(match activity {
                    Activity::Begins { cell, code, .. } => format!("{cell} begins {code}"),
                    Activity::Output(output) => {
                        output.text().map_or_else(String::new, |(_, text)| text)
                    }
                    Activity::Ends { cell, status } => format!("{cell} ends {}", status.is_ok()),
                    other => format!("{other:?}"),
                });
            });
            if !is_open {
                words.push("shut down".to_owned());
            }
        }
        words
    }

    #[test]
    fn a_cell_of_another_client_is_followed_to_its_end() {
        let mut listening = Listening::default();
        let failed = message(
            Channel::Iopub,
            "error",
            "2",
            json!({ "ename": "E", "evalue": "v" }),
        );
        let words = activity(
            &mut listening,
            &[
                status("1", "busy"),
                input("1", "code"),
                printed("1", "text"),
                // A cell in a subshell, at the same time.
                input("2", "other"),
                failed,
                status("2", "idle"),
                status("1", "idle"),
                // A thread of the ended cell still prints.
                printed("1", "late"),
                status("1", "idle"),
            ],
        );
        let expected = [
            "1 begins code",
            "text",
            "2 begins other",
            "E: v\n",
            "2 ends false",
            "1 ends true",
            "late",
        ];
        assert_eq!(words, expected);
        assert!(listening.cells.is_empty());
    }

    #[test]
    fn a_cell_that_began_before_begins_with_its_first_output() {
        let mut listening = Listening::default();
        let words = activity(
            &mut listening,
            &[printed("1", "a"), printed("1", "b"), status("1", "idle")],
        );
        assert_eq!(words, ["1 begins ", "a", "b", "1 ends true"]);
        // Nothing is known about a cell of which only the end arrives.
        assert!(activity(&mut listening, &[status("2", "idle")]).is_empty());
    }

    #[test]
    fn other_requests_and_other_sockets_are_left_out() {
        let mut listening = Listening::default();
        let content = json!({ "name": "stdout", "text": "x" });
        let words = activity(
            &mut listening,
            &[
                answer(
                    Channel::Iopub,
                    "stream",
                    ("1", "complete_request"),
                    content.clone(),
                ),
                message(Channel::Shell, "stream", "1", content.clone()),
                answer(
                    Channel::Iopub,
                    "status",
                    ("", ""),
                    json!({ "execution_state": "starting" }),
                ),
            ],
        );
        assert!(words.is_empty(), "{words:?}");
    }

    #[test]
    fn a_shutdown_ends_and_a_restart_does_not() {
        let mut listening = Listening::default();
        let shutdown = |content: Value| {
            answer(
                Channel::Iopub,
                "shutdown_reply",
                ("1", "shutdown_request"),
                content,
            )
        };
        assert!(activity(&mut listening, &[shutdown(json!({ "restart": true }))]).is_empty());
        assert_eq!(
            activity(&mut listening, &[shutdown(json!({ "restart": false }))]),
            ["shut down"]
        );
    }

    /// Memory is bounded even if a kernel never reports the idle state.
    #[test]
    fn cells_are_bounded() {
        let mut listening = Listening::default();
        for number in 0..2 * CELLS_MAX {
            activity(&mut listening, &[input(&number.to_string(), "code")]);
        }
        assert_eq!(listening.cells.len(), CELLS_MAX);
        for number in 0..CELLS_MAX {
            activity(&mut listening, &[status(&number.to_string(), "idle")]);
        }
        assert!(listening.cells.is_empty());
        assert_eq!(listening.ended.len(), ENDED_MAX);
        assert_eq!(
            activity(&mut listening, &[input("new", "code")]),
            ["new begins code"]
        );
    }
}
