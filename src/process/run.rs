//! Running a command to its end: what it prints is heard, its end is told.

use std::io::Write;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::attending::{Attending, fed};
use super::collected::Collected;
use super::command::Command;
use super::outcome::{CommandOutcome, CommandOutput};
use super::patient::BlockingEmitter;
use super::recorder::{Recorder, Sink};
use super::records::{RecordPart, RecordSplitter, Take};
use super::sinks::{Events, Hearers};
use super::start::{Started, start};
use super::terminal::{Lent, PtySize};
use crate::bus::EventEmitter;
use crate::child::{Attended, ChildListener, Inlet, OutputStream};
use crate::clock::Clock;
use crate::error::Result;
use crate::thread::Stop;
use crate::timestamp::Timestamp;

/// When the observer stops, a command has no longer than this, whatever its grace is otherwise.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// How often the size of the user's terminal is looked at.
const SIZE_CHECK: Duration = Duration::from_millis(200);

/// Runs it and collects what it prints.
pub(super) fn output(mut command: Command) -> Result<CommandOutput> {
    let began = command.clock.now();
    let started = start(&command)?;
    let hearers = Hearers {
        on_output: command.on_output.take(),
        events: Events::None,
    };
    let ran = attend(command, started, began, hearers, Keeping::Bytes, &never())?;
    let (stdout, stderr) = ran.collected;
    Ok(CommandOutput {
        outcome: ran.outcome,
        stdout: stdout.0,
        stderr: stderr.0,
        lost_bytes: stdout.1 + stderr.1,
    })
}

/// Runs it and makes events of what it does. The emitter is asked for when it has been started; the
/// command is ended when `stop` is closed.
pub(crate) fn observe_command(
    mut command: Command,
    emitter: impl FnOnce() -> Result<EventEmitter>,
    stop: &Stop,
) -> Result<CommandOutcome> {
    let began = command.clock.now();
    let started = start(&command)?;
    let emitter = emitter()?;
    emitter.execution_started(&command.line(), &command.directory_shown());
    let to = BlockingEmitter::new(emitter.clone(), command.clock.clone());
    let hearers = Hearers {
        on_output: command.on_output.take(),
        events: Events::Execution(to),
    };
    let (line, timeout) = (command.line(), command.timeout.unwrap_or_default());
    match attend(command, started, began, hearers, Keeping::Nothing, stop) {
        Ok(ran) => {
            let outcome = ran.outcome;
            if outcome.timed_out {
                let message = format!("{line} did not end within {timeout:?} and was ended");
                emitter.error("timeout", &message);
            }
            let took = outcome.duration_ms();
            emitter.execution_completed(outcome.exit_code, outcome.signal, took);
            Ok(outcome)
        }
        Err(error) => {
            emitter.error("process", &format!("{error:?}"));
            Err(error)
        }
    }
}

/// What is kept of what is printed, beside handing it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeping {
    Nothing,
    /// Both outputs, within the command's bounds.
    Bytes,
    /// The same, and lines are handed on whole.
    Lines,
}

/// What came of it.
pub(super) struct Ran {
    pub outcome: CommandOutcome,
    /// Both outputs as far as they were kept, and how many bytes are missing.
    pub collected: ((Vec<u8>, u64), (Vec<u8>, u64)),
}

pub(super) fn never() -> Stop {
    crossbeam_channel::never()
}

/// Attends a command that was started, to its end.
pub(super) fn attend(
    mut command: Command,
    started: Started,
    began: Instant,
    hearers: Hearers,
    keeping: Keeping,
    stop: &Stop,
) -> Result<Ran> {
    let Started {
        mut group,
        outlets,
        own,
        fed: pipe,
        keys,
        lent,
    } = started;
    let mut recorder = Recorder::new(hearers, own.is_some(), command.lines_max);
    if keeping == Keeping::Lines {
        recorder = recorder.whole_lines();
    }
    let bytes_max = match keeping {
        Keeping::Nothing => 0,
        Keeping::Bytes | Keeping::Lines => command.collected_bytes,
    };
    let records = match keeping {
        Keeping::Nothing => RecordSplitter::new(command.format),
        // Whoever collects wants it as it is.
        Keeping::Bytes | Keeping::Lines => None,
    };
    let mut attention = Attention {
        recorder,
        records,
        agent_id: command.name(),
        clock: command.clock.clone(),
        collected: [Collected::new(bytes_max), Collected::new(bytes_max)],
        mirror: command.mirror.take(),
        own,
        sized_at: began,
        lent,
        has_told_stop: false,
    };
    let stdin = std::io::stdin();
    let (_raw, inlet) = match keys {
        Some((raw, to)) => (Some(raw), Inlet::typed(stdin.as_fd(), to)),
        None => (None, fed(pipe, &command)?),
    };
    let attended = Attending {
        command: &command,
        began,
        group: &mut group,
        inlet,
        outlets,
        stop,
        stop_grace: command.grace.min(STOP_GRACE),
    }
    .run(&mut attention)?;
    Ok(attention.end(&attended, &command.clock, began))
}

/// Hears what a command does.
struct Attention {
    recorder: Recorder<Hearers>,
    /// Standard output as records, where it has some.
    records: Option<RecordSplitter>,
    agent_id: String,
    clock: Clock,
    collected: [Collected; 2],
    mirror: Option<Box<dyn Write + Send>>,
    own: Option<(pty_process::blocking::Pty, PtySize)>,
    sized_at: Instant,
    lent: Option<Lent>,
    has_told_stop: bool,
}

impl ChildListener for Attention {
    fn output(&mut self, stream: OutputStream, bytes: &[u8], now: Instant) {
        if let Some(mirror) = &mut self.mirror
            && mirror
                .write_all(bytes)
                .and_then(|()| mirror.flush())
                .is_err()
        {
            // Nobody sees it any more: the rest is heard all the same.
            self.mirror = None;
        }
        self.collected[usize::from(stream == OutputStream::Stderr)].push(bytes);
        if stream == OutputStream::Stdout && self.records.is_some() {
            self.read(now, |records, wall, take| records.push(bytes, wall, take));
        } else {
            self.recorder.push(stream, bytes, now);
        }
    }

    fn tick(&mut self, now: Instant) -> Option<Instant> {
        if now >= self.sized_at + SIZE_CHECK
            && let Some((own, screen)) = &mut self.own
        {
            self.sized_at = now;
            if let Some(changed) = screen.changed() {
                *screen = changed;
                if let Err(error) = own.resize(changed.size()) {
                    log::warn!("the terminal of the command keeps its size: {error}");
                }
            }
        }
        self.recorder.tick(now)
    }

    fn stopped(&mut self, signal: i32) -> bool {
        if let Some(lent) = &self.lent {
            lent.stopped(signal);
            return true;
        }
        if !std::mem::replace(&mut self.has_told_stop, true) {
            let message = match signal {
                21 | 22 => "it wants the terminal, which it was not given, and stands still",
                _ => "it was stopped, and stands still until it gets a CONT",
            };
            self.recorder
                .sink
                .warning(&format!("{message} (signal {signal})"));
        }
        false
    }
}

impl Attention {
    /// Has records read; what they say stands behind all that was printed before them.
    fn read(&mut self, now: Instant, read: impl FnOnce(&mut RecordSplitter, Timestamp, Take<'_>)) {
        let (recorder, agent_id) = (&mut self.recorder, &self.agent_id);
        if let Some(records) = &mut self.records {
            read(records, self.clock.wall(), &mut |piece| match piece {
                RecordPart::Text(bytes) | RecordPart::Unread(bytes) => {
                    recorder.push(OutputStream::Stdout, bytes, now);
                }
                RecordPart::Event(event) => {
                    recorder.give_all(now);
                    recorder.sink.agent(event, agent_id);
                }
            });
        }
    }

    fn end(mut self, attended: &Attended, clock: &Clock, began: Instant) -> Ran {
        let now = clock.now();
        if let Some(records) = &mut self.records
            && !attended.status.success()
        {
            records.ended_badly(attended.status.to_string());
        }
        self.read(now, RecordSplitter::finish);
        if attended.is_held {
            self.recorder.sink.warning(
                "a process that it left behind holds its output: what that prints is not seen",
            );
        }
        if let Some(lent) = self.lent.take() {
            lent.take_back(attended.status.code().is_none());
        }
        let (_, lost_lines) = self.recorder.finish(now);
        let [stdout, stderr] = self.collected;
        Ran {
            outcome: CommandOutcome::new(
                attended,
                now.saturating_duration_since(began),
                lost_lines,
            ),
            collected: (stdout.take(), stderr.take()),
        }
    }
}
