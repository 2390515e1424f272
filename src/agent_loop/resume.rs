//! How far a loop came that broke off, read from its log.

use std::collections::VecDeque;

use super::looping::Progress;
use super::prompt::Setback;
use crate::error::{Error, Result};
use crate::event::{IterationOutcome, TdEvent};
use crate::history::{LogReader, Query, RunDirectory};

/// Lines of a check that are remembered: as many as a prompt takes.
const LINES_MAX: usize = 200;

/// What an attempt is said to have come to that was cut off.
const CUT_OFF: &str = "the loop was cut off in the middle of it";

impl Progress {
    /// Where a loop is to go on, by its log: after the last iteration that was begun.
    ///
    /// # Errors
    /// `is_invalid_input()` when the run is no loop, or all its checks have passed; when its log
    /// cannot be read.
    pub fn of_run(run: &RunDirectory) -> Result<Self> {
        let mut read = Reading::default();
        for record in LogReader::open(run, Query::all())? {
            read.event(record.envelope.event);
        }
        if !read.is_loop {
            return Err(Error::invalid("the run is no loop:").at(run.path()));
        }
        if read.has_succeeded {
            return Err(Error::invalid(
                "all checks of the loop have passed, nothing is left to be done:",
            )
            .at(run.path()));
        }
        Ok(read.progress())
    }
}

#[derive(Default)]
struct Reading {
    is_loop: bool,
    has_ended: bool,
    has_succeeded: bool,
    progress: Progress,
    /// The iteration that was begun last is not over.
    is_open: bool,
    check: Option<Check>,
}

/// The check that ran last.
#[derive(Default)]
struct Check {
    command: String,
    exit_code: Option<i32>,
    outputs: [VecDeque<String>; 2],
}

impl Reading {
    fn event(&mut self, event: TdEvent) {
        match event {
            TdEvent::LoopStarted { .. } => {
                self.is_loop = true;
                self.has_ended = false;
            }
            TdEvent::LoopCompleted { success, .. } => {
                self.has_ended = true;
                self.has_succeeded = success;
            }
            TdEvent::PhaseStarted { phase_index, .. } => {
                if self.progress.phase != phase_index {
                    self.progress.setback = None;
                    self.progress.in_phase = 0;
                }
                self.progress.phase = phase_index;
            }
            TdEvent::IterationStarted { iteration, .. } => {
                self.progress.iteration = iteration;
                self.progress.in_phase += 1;
                self.is_open = true;
                self.check = None;
            }
            TdEvent::ValidationStarted { command, .. } => {
                self.check = Some(Check {
                    command,
                    ..Check::default()
                });
            }
            TdEvent::ValidationOutput {
                line, is_stderr, ..
            } => {
                if let Some(check) = &mut self.check {
                    let lines = &mut check.outputs[usize::from(is_stderr)];
                    if lines.len() == LINES_MAX {
                        lines.pop_front();
                    }
                    lines.push_back(line);
                }
            }
            TdEvent::ValidationCompleted { exit_code, .. } => {
                if let Some(check) = &mut self.check {
                    check.exit_code = Some(exit_code);
                }
            }
            TdEvent::IterationCompleted { outcome, .. } => {
                self.is_open = false;
                self.completed(&outcome);
            }
            _ => {}
        }
    }

    fn completed(&mut self, outcome: &IterationOutcome) {
        let why = match outcome {
            IterationOutcome::ValidationPassed => {
                // The next phase may not have been begun.
                self.progress = Progress {
                    phase: self.progress.phase + 1,
                    iteration: self.progress.iteration,
                    ..Progress::default()
                };
                return;
            }
            IterationOutcome::ValidationFailed { .. } | IterationOutcome::MaxTurnsReached => {
                match self.check.take().and_then(Check::setback) {
                    Some(setback) => {
                        self.progress.setback = Some(setback);
                        return;
                    }
                    None => "the turns were used up".to_owned(),
                }
            }
            IterationOutcome::ToolError { tool, error } => {
                format!("the tool {tool} failed: {error}")
            }
            IterationOutcome::LlmError { error } => error.clone(),
        };
        self.progress.setback = Some(Setback::Agent(why));
    }

    fn progress(mut self) -> Progress {
        if self.is_open {
            self.progress.setback = Some(Setback::Agent(CUT_OFF.to_owned()));
        }
        self.progress.is_resumed = !self.has_ended;
        self.progress
    }
}

impl Check {
    fn setback(self) -> Option<Setback> {
        let [stdout, stderr] = self.outputs.map(|lines| {
            let lines: Vec<String> = lines.into();
            lines.join("\n")
        });
        Some(Setback::Check {
            command: self.command,
            exit_code: self.exit_code?,
            stdout,
            stderr,
        })
    }
}
