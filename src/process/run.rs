//! Runs a command to its end in the calling thread, and passes its output to the callback, into events or
//! into memory.

use std::time::{Duration, Instant};

use super::command::Command;
use super::head_tail::HeadTailBuffer;
use super::outcome::{CommandOutcome, CommandOutput};
use super::output_batcher::{OutputBatcher, TextSink};
use super::record_splitter::{PartHandler, RecordPart, RecordSplitter};
use super::sink::{ByteSink, CommandSink, EventTarget};
use super::start::StartedCommand;
use super::terminal::{ForegroundLoan, PtySize};
use crate::bus::EventEmitter;
use crate::child::{ChildListener, ExitReport, OutputStream};
use crate::clock::Clock;
use crate::error::Result;
use crate::thread::Stop;
use crate::timestamp::Timestamp;

/// The upper limit of a command's grace period when the observer stops.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// The poll interval of the size of the user's terminal.
const SIZE_CHECK: Duration = Duration::from_millis(200);

impl Command {
    /// Runs the command to its end in this thread and returns everything that it printed.
    ///
    /// # Errors
    /// `is_missing_program()` if the program does not exist; the system's errors for starting, reading and
    /// killing it. A command that fails or times out is not an error.
    pub fn output(self) -> Result<CommandOutput> {
        let started = StartedCommand::start(&self)?;
        let (events, stop) = (EventTarget::None, crossbeam_channel::never());
        let (outcome, outputs) = run(self, started, events, OutputMode::Collect, &stop)?;
        let [(stdout, lost_stdout), (stderr, lost_stderr)] =
            outputs.map(HeadTailBuffer::into_bytes);
        Ok(CommandOutput {
            outcome,
            stdout,
            stderr,
            lost_bytes: lost_stdout + lost_stderr,
        })
    }

    /// Runs the command to its end in this thread and emits `ExecutionStarted`, `ExecutionOutput` and
    /// `ExecutionCompleted`.
    ///
    /// While the log is full, the command is blocked, as by a slow terminal, for at most 5 s without progress
    /// of the log. After that, events that do not fit are dropped and counted.
    ///
    /// # Errors
    /// The errors of [`Command::output`]. A command that cannot be started emits nothing.
    pub fn observe(self, emitter: &EventEmitter) -> Result<CommandOutcome> {
        observe_command(self, || Ok(emitter.clone()), &crossbeam_channel::never())
    }
}

/// Runs a command and emits its events. `emitter` is called after the start of the command. The command is
/// terminated when `stop` is closed.
pub(crate) fn observe_command(
    command: Command,
    emitter: impl FnOnce() -> Result<EventEmitter>,
    stop: &Stop,
) -> Result<CommandOutcome> {
    let started = StartedCommand::start(&command)?;
    let emitter = emitter()?;
    emitter.execution_started(&command.line(), &command.directory_shown());
    let target = EventTarget::execution(&emitter);
    let (line, timeout) = (command.line(), command.timeout.unwrap_or_default());
    match run(command, started, target, OutputMode::Emit, stop) {
        Ok((outcome, _)) => {
            if outcome.timed_out {
                let message = format!("{line} did not end within {timeout:?} and was terminated");
                emitter.error("timeout", &message);
            }
            let duration_ms = outcome.duration_ms();
            emitter.execution_completed(outcome.exit_code, outcome.signal, duration_ms);
            Ok(outcome)
        }
        Err(error) => {
            emitter.error("process", &format!("{error:?}"));
            Err(error)
        }
    }
}

/// Runs a command to its end and passes its output to `listener` as it is read. Within 100 ms after `stop` is
/// closed, the command's group is terminated, and it is killed after `stop_grace`.
///
/// Ignores the command's output callback, its format, its limits of lines and bytes, and its terminal.
pub(crate) fn run_with_listener(
    command: &Command,
    stop: &Stop,
    stop_grace: Duration,
    listener: &mut impl ChildListener,
) -> Result<CommandOutcome> {
    let started = StartedCommand::start(command)?;
    let began = started.began;
    let report = started.supervise(command, stop, stop_grace, listener)?;
    let duration = command.clock.now().saturating_duration_since(began);
    Ok(CommandOutcome::new(&report, duration, 0))
}

/// The use of the output, in addition to the callback and the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputMode {
    /// No output is collected. An agent's records become typed events.
    Emit,
    /// Both outputs are collected unchanged, within the command's limits.
    Collect,
    /// As for `Collect`, but lines are emitted only when they are complete.
    CollectLines,
}

/// Supervises a started command to its end; returns its outcome and the collected outputs.
pub(super) fn run(
    mut command: Command,
    mut started: StartedCommand,
    events: EventTarget,
    mode: OutputMode,
    stop: &Stop,
) -> Result<(CommandOutcome, [HeadTailBuffer; 2])> {
    let began = started.began;
    let sink = CommandSink {
        on_output: command.on_output.take(),
        events,
    };
    let mut batcher = OutputBatcher::new(sink, started.pty.is_some(), command.lines_max);
    batcher.complete_lines = mode == OutputMode::CollectLines;
    let (collected_bytes, records) = match mode {
        OutputMode::Emit => (0, RecordSplitter::new(command.format)),
        OutputMode::Collect | OutputMode::CollectLines => (command.collected_bytes, None),
    };
    let mut monitor = CommandMonitor {
        batcher,
        records,
        agent_id: command.name(),
        clock: command.clock.clone(),
        collected: OutputStream::ALL.map(|_| HeadTailBuffer::new(collected_bytes)),
        byte_sink: command.byte_sink.take(),
        pty: started.pty.take(),
        size_checked_at: began,
        foreground: started.foreground.take(),
        has_warned_of_stop: false,
    };
    let stop_grace = command.grace.min(STOP_GRACE);
    let report = started.supervise(&command, stop, stop_grace, &mut monitor)?;
    Ok(monitor.finish(&report, began))
}

/// Receives the output of a command while it runs.
struct CommandMonitor {
    batcher: OutputBatcher<CommandSink>,
    /// Splits standard output where it consists of an agent's records.
    records: Option<RecordSplitter>,
    agent_id: String,
    clock: Clock,
    collected: [HeadTailBuffer; 2],
    byte_sink: Option<Box<dyn ByteSink>>,
    pty: Option<(pty_process::blocking::Pty, PtySize)>,
    size_checked_at: Instant,
    foreground: Option<ForegroundLoan>,
    has_warned_of_stop: bool,
}

impl ChildListener for CommandMonitor {
    fn output(&mut self, stream: OutputStream, bytes: &[u8], now: Instant) {
        if let Some(sink) = &mut self.byte_sink {
            sink.take(stream, bytes);
        }
        self.collected[stream.index()].push(bytes);
        if stream == OutputStream::Stdout && self.records.is_some() {
            self.split(now, |records, wall, handle| {
                records.push(bytes, wall, handle);
            });
        } else {
            self.batcher.push(stream, bytes, now);
        }
    }

    fn has_room(&self, stream: OutputStream) -> bool {
        let sink = self.byte_sink.as_ref();
        sink.is_none_or(|sink| sink.has_room(stream))
    }

    fn is_closed(&mut self, stream: OutputStream) -> bool {
        let sink = self.byte_sink.as_mut();
        sink.is_some_and(|sink| sink.is_closed(stream))
    }

    fn tick(&mut self, now: Instant) -> Option<Instant> {
        if now >= self.size_checked_at + SIZE_CHECK
            && let Some((pty, size)) = &mut self.pty
        {
            self.size_checked_at = now;
            if let Some(changed) = size.changed() {
                *size = changed;
                if let Err(error) = pty.resize(changed.of_pty()) {
                    log::warn!("cannot resize the terminal of the command: {error}");
                }
            }
        }
        self.batcher.tick(now)
    }

    fn stopped(&mut self, signal: i32) -> bool {
        if let Some(foreground) = &self.foreground {
            foreground.command_stopped(signal);
            return true;
        }
        if !std::mem::replace(&mut self.has_warned_of_stop, true) {
            let message = match signal {
                21 | 22 => "it was stopped because it uses the terminal, which it does not have",
                _ => "it was stopped, and waits for a CONT signal",
            };
            self.batcher
                .sink
                .warning(&format!("{message} (signal {signal})"));
        }
        false
    }
}

impl CommandMonitor {
    /// Splits records. Their events are emitted after all text that was printed before them.
    fn split(
        &mut self,
        now: Instant,
        split: impl FnOnce(&mut RecordSplitter, Timestamp, PartHandler<'_>),
    ) {
        let (batcher, agent_id) = (&mut self.batcher, &self.agent_id);
        if let Some(records) = &mut self.records {
            split(records, self.clock.wall(), &mut |part| match part {
                RecordPart::Text(bytes) | RecordPart::Unknown(bytes) => {
                    batcher.push(OutputStream::Stdout, bytes, now);
                }
                RecordPart::Event(event) => {
                    batcher.flush(now);
                    batcher.sink.agent(event, agent_id);
                }
            });
        }
    }

    fn finish(
        mut self,
        report: &ExitReport,
        began: Instant,
    ) -> (CommandOutcome, [HeadTailBuffer; 2]) {
        let now = self.clock.now();
        if let Some(records) = &mut self.records
            && !report.status.success()
        {
            records.set_failure(report.status.to_string());
        }
        self.split(now, RecordSplitter::finish);
        if report.is_output_held {
            self.batcher.sink.warning(
                "a process that the command left behind holds its output: what it prints is not read",
            );
        }
        if let Some(foreground) = self.foreground.take() {
            foreground.take_back(report.status.code().is_none());
        }
        let lost_lines = self.batcher.finish(now).1;
        let duration = now.saturating_duration_since(began);
        (
            CommandOutcome::new(report, duration, lost_lines),
            self.collected,
        )
    }
}
