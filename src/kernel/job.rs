//! A kernel as a source of an engine: emits cells as executions, and their outputs as events.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::cell::{CellListener, CellOutput};
use super::client::Kernel;
use super::connection::ConnectionInfo;
use super::content::QuestionContent;
use super::feed::MissedOutputs;
use super::kernelspec::KernelSpec;
use super::listening::{Activity, Listening};
use super::output_events::OutputEvents;
use super::session::KernelControl;
use crate::bus::EventEmitter;
use crate::error::Result;
use crate::event::TdEvent;
use crate::history::{RunInfo, RunKind, RunState};
use crate::observe::{Job, JobHandle, RunName, Source, SourceContext};
use crate::process::ByteSink;
use crate::thread;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CodeCell {
    /// The number of the cell among the code cells, from 1.
    pub number: u32,
    pub code: String,
    /// The following cells run even if this one raises an exception.
    pub may_fail: bool,
}

#[derive(Debug)]
pub(crate) enum KernelChoice {
    /// A running kernel.
    Connect(ConnectionInfo),
    /// A new kernel, which ends with the job.
    Start(KernelSpec),
}

/// Answers a question of the code. Returns `None` once `is_over()` returns true.
pub(crate) type Ask = Box<dyn FnMut(&QuestionContent, &dyn Fn() -> bool) -> Option<String> + Send>;

/// Called when the kernel is connected, with the connection file if the job started the kernel.
pub(crate) type OnConnected = Box<dyn FnOnce(Option<&Path>) + Send>;

/// Records the outputs and the end of each cell.
pub(crate) trait CellRecorder: Send {
    fn output(&mut self, output: &CellOutput);
    fn end(&mut self, cell: u32, count: Option<u32>) -> Result<()>;
}

/// The parameters of a job on a kernel.
pub(crate) struct KernelTask {
    pub control: TaskControl,
    pub kernel: KernelChoice,
    /// The cells to run; `None` to listen to other clients.
    pub cells: Option<Vec<CodeCell>>,
    pub name: RunName,
    pub label: String,
    /// Further metadata of the run.
    pub extra: Map<String, Value>,
    pub lines_max: Option<u64>,
    pub ask: Option<Ask>,
    pub byte_sink: Option<Box<dyn ByteSink>>,
    pub recorder: Option<Box<dyn CellRecorder>>,
    pub on_connected: Option<OnConnected>,
}

/// The outcome of a job whose kernel could be used.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelOutcome {
    /// True if a cell failed that must not fail, or the kernel ended.
    pub has_failed: bool,
    /// True if the code was interrupted because the reader of the passed-on output has gone.
    pub is_unread: bool,
    /// The number of lines beyond the limit.
    pub lost_lines: u64,
}

/// Interrupts the code of a job from another thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskControl(Arc<SharedControl>);

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

pub(crate) type KernelHandle = JobHandle<KernelOutcome, TaskControl>;

pub(crate) fn kernel_job(task: KernelTask) -> (impl Source, KernelHandle) {
    let thread = format!("td-cells {}", task.label);
    let control = task.control.clone();
    Job::new(thread, control, move |context: &SourceContext| {
        run(task, context)
    })
}

fn run(mut task: KernelTask, context: &SourceContext) -> Result<KernelOutcome> {
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
    let emitter = context.runs.open(task.name.clone(), info)?.emitter;
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
        outputs: OutputEvents::new(emitter, task.lines_max, task.byte_sink.take(), context),
        ask: task.ask.take(),
        recorder: task.recorder.take(),
        control,
        is_unread: false,
    };
    let mut has_failed = false;
    for cell in cells {
        // An interrupt that arrived before the cell counts as an interrupt of the cell.
        if task_control.0.is_interrupted.load(Ordering::SeqCst) {
            has_failed = true;
            break;
        }
        let began = context.clock.now();
        let number = cell.number;
        emit_started(emitter, &cell.code, number);
        let ran = kernel.run(&cell.code, &mut reporter);
        let now = context.clock.now();
        reporter.outputs.end_lines(now);
        let duration = now.saturating_duration_since(began);
        let end = match ran {
            Ok(end) => end,
            Err(error) => {
                emit_completed(emitter, None, number, duration);
                if let Some(recorder) = &mut reporter.recorder {
                    // Record the cell, to keep its outputs.
                    recorder.end(number, None)?;
                }
                return match thread::is_stopped(&context.stop) {
                    true => Ok(None),
                    false => Err(error),
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
    let lost_lines = reporter.outputs.finish(context.clock.now());
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
    let byte_sink = task.byte_sink.take();
    let mut outputs = OutputEvents::new(emitter, task.lines_max, byte_sink, context);
    let mut began: HashMap<String, (Instant, u32)> = HashMap::new();
    let mut number = 0;
    let ended = loop {
        let now = context.clock.now();
        let due = outputs.tick(now);
        let is_listening = listening.next(kernel, due, &mut |activity| {
            let now = context.clock.now();
            match activity {
                Activity::Begins { cell, code, count } => {
                    number = count.unwrap_or(number + 1);
                    began.insert(cell.to_owned(), (now, number));
                    outputs.end_lines(now);
                    emit_started(emitter, code, number);
                }
                Activity::Output(output) => outputs.push(&output, now),
                Activity::Ends { cell, status } => {
                    outputs.end_lines(now);
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
    let lost_lines = outputs.finish(context.clock.now());
    match ended {
        Ok(_) => Ok(Some(KernelOutcome {
            lost_lines,
            ..KernelOutcome::default()
        })),
        Err(_) if thread::is_stopped(&context.stop) => Ok(None),
        Err(error) => Err(error),
    }
}

fn emit_started(emitter: &EventEmitter, code: &str, cell: u32) {
    let directory = std::env::current_dir().unwrap_or_default();
    emitter.emit(TdEvent::ExecutionStarted {
        execution_id: emitter.execution_id().clone(),
        command: code.trim_end().to_owned(),
        cwd: directory.display().to_string(),
        pane: None,
        pid: None,
        cell: Some(cell),
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
    recorder: Option<Box<dyn CellRecorder>>,
    control: KernelControl,
    /// True once the code was interrupted because the reader of its output has gone.
    is_unread: bool,
}

impl CellListener for CellReporter {
    fn output(&mut self, output: &CellOutput) {
        let now = self.outputs.now();
        self.outputs.push(output, now);
        if let Some(recorder) = &mut self.recorder {
            recorder.output(output);
        }
        if !self.is_unread && self.outputs.is_closed() {
            // The reader of the output has gone, as with a broken pipe. Interrupt only once, because a
            // further interrupt would reach the kernel itself.
            self.is_unread = true;
            self.outputs.stop_passing();
            self.control.interrupt();
        }
    }

    fn missed(&mut self, missed: MissedOutputs) {
        self.outputs.missed(missed);
    }

    fn answer(&mut self, question: &QuestionContent, is_over: &dyn Fn() -> bool) -> Option<String> {
        let ask = self.ask.as_mut()?;
        // The prompt follows everything that was printed.
        self.outputs.end_lines(self.outputs.now());
        let (control, before) = (&self.control, self.control.interrupts());
        let outputs = &self.outputs;
        let answer = ask(question, &|| {
            control.interrupts() > before || outputs.is_stopped() || is_over()
        })?;
        // The history gets the question and the answer, but no password.
        let shown = if question.is_password { "" } else { &answer };
        self.outputs.text(&format!("{}{shown}\n", question.prompt));
        Some(answer)
    }

    fn allows_questions(&self) -> bool {
        self.ask.is_some()
    }

    fn tick(&mut self, now: Instant) -> Option<Instant> {
        self.outputs.tick(now)
    }
}
