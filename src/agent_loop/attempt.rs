//! One attempt of a loop: the agent works, then the check decides.

use super::Request;
use super::files::Files;
use super::looping::{LoopEnd, LoopEngine};
use super::prompt::{Setback, prompt};
use super::record::Record;
use super::spec::Phase;
use super::turns::{Conversation, Converse, TurnsEnd, converse};
use super::workdir::fingerprint;
use crate::error::Result;
use crate::event::IterationOutcome;
use crate::process::{Command, ValidationResult, validate_until_stopped};

/// What a check that was asked to end and did has exited with, as shells have it: 128 and `TERM`.
const ENDED: i32 = 143;

/// Of each output of a check so much is kept for the next prompt.
const CHECK_BYTES: usize = 256 << 10;

/// Lines of a check that become events (`001…`, edge case 5).
const CHECK_LINES_MAX: u64 = 1_000_000;

/// What an attempt came to.
pub(super) struct Tried {
    pub outcome: IterationOutcome,
    /// What the next one is to be told.
    setback: Option<Setback>,
    /// Why another one is of no use.
    pub hopeless: Option<String>,
}

impl Tried {
    fn of_check(check: &str, result: &ValidationResult, said: &TurnsEnd) -> Self {
        if result.passed() {
            return Self {
                outcome: IterationOutcome::ValidationPassed,
                setback: None,
                hopeless: None,
            };
        }
        if result.was_ended {
            return Self {
                outcome: IterationOutcome::ValidationFailed {
                    exit_code: match result.exit_code {
                        // Some end in order when they are asked to.
                        0 => ENDED,
                        code => code,
                    },
                },
                setback: Some(Setback::Agent(
                    "the check was ended before it was over".to_owned(),
                )),
                hopeless: None,
            };
        }
        let outcome = said.outcome();
        Self {
            outcome: outcome.unwrap_or(IterationOutcome::ValidationFailed {
                exit_code: result.exit_code,
            }),
            setback: Some(Setback::Check {
                command: check.to_owned(),
                exit_code: result.exit_code,
                stdout: result.stdout.clone(),
                stderr: result.stderr.clone(),
            }),
            hopeless: None,
        }
    }
}

impl LoopEngine {
    /// One attempt.
    pub(super) fn iteration(&mut self, record: &Record<'_>, phase: &Phase) -> Tried {
        let number = self.progress.iteration;
        let files = record.begin(&self.progress);
        let text = prompt(
            &self.spec,
            self.progress.phase,
            self.progress.setback.as_ref(),
            self.progress.unchanged,
        );
        let mut request = Request::prompt(&text);
        if let Some(path) = files.prompt(&text) {
            request = request.prompt_file(path);
        }
        let before = self.fingerprint();
        let mut hear = files.hear();
        let mut options = Converse::new().clock(self.clock.clone());
        if let Some(turns) = self.max_turns {
            options = options.max_turns(turns);
        }
        if let Some(emitter) = record.emitter {
            options = options.emitter(emitter, number);
        }
        self.agent.listen(record.emitter, &files);
        let conversation = converse(
            self.agent.client(),
            &mut self.toolbox,
            request,
            options.hear(&mut hear),
            &self.cancel,
        );
        drop(hear);
        self.agent.rest();
        self.progress.unchanged = before.is_some() && before == self.fingerprint();
        if self.progress.unchanged && !self.cancel.is_cancelled() {
            let place = self.directory.display();
            record.warning(&format!("iteration {number} changed nothing in {place}"));
        }
        let tried = self.judged(phase, &conversation, record, &files);
        self.progress.setback = tried.setback.clone();
        tried
    }

    /// What the agent, and if that is to decide the check, makes of the iteration.
    fn judged(
        &self,
        phase: &Phase,
        said: &Conversation,
        record: &Record<'_>,
        files: &Files,
    ) -> Tried {
        // When its turns are used up the work may be done all the same: the check knows.
        let asks_check = matches!(said.end, TurnsEnd::Ended | TurnsEnd::MaxTurnsReached);
        if let (true, Some(check)) = (asks_check && !self.cancel.is_cancelled(), &phase.check) {
            return match self.check(check, record, files) {
                Ok(result) => Tried::of_check(check, &result, &said.end),
                Err(error) => {
                    let why = format!("the check cannot be run: {error:?}");
                    record.error("check", &why);
                    Tried {
                        outcome: IterationOutcome::ValidationFailed { exit_code: 127 },
                        setback: Some(Setback::Agent(why.clone())),
                        hopeless: Some(why),
                    }
                }
            };
        }
        let setback = |why: String| Some(Setback::Agent(why));
        match &said.end {
            TurnsEnd::Ended if self.cancel.is_cancelled() => Tried {
                outcome: IterationOutcome::LlmError {
                    error: LoopEnd::Cancelled.words().to_owned(),
                },
                setback: setback(LoopEnd::Cancelled.words().to_owned()),
                hopeless: None,
            },
            // Nothing else says whether it is done.
            TurnsEnd::Ended => Tried {
                outcome: IterationOutcome::ValidationPassed,
                setback: None,
                hopeless: None,
            },
            TurnsEnd::MaxTurnsReached => Tried {
                outcome: IterationOutcome::MaxTurnsReached,
                setback: setback("the turns were used up".to_owned()),
                hopeless: None,
            },
            TurnsEnd::ToolError { tool, error } => Tried {
                outcome: IterationOutcome::ToolError {
                    tool: tool.clone(),
                    error: error.clone(),
                },
                setback: setback(format!("the tool {tool} failed: {error}")),
                hopeless: None,
            },
            TurnsEnd::LlmError(error) => {
                let hopeless = (error.is_missing_program() || error.is_limited())
                    .then(|| format!("the model cannot be asked: {error}"));
                Tried {
                    outcome: IterationOutcome::LlmError {
                        error: error.to_string(),
                    },
                    setback: setback(error.to_string()),
                    hopeless,
                }
            }
        }
    }

    fn check(&self, check: &str, record: &Record<'_>, files: &Files) -> Result<ValidationResult> {
        let control = self.checking.begin();
        let mut command = Command::shell(check)
            .directory(&self.directory)
            .line_limit(CHECK_LINES_MAX)
            .collect(CHECK_BYTES)
            .clock(self.clock.clone())
            .control(&control)
            .on_output(files.check());
        if let Some(timeout) = self.check_timeout {
            command = command.timeout(timeout);
        }
        let iteration = self.progress.iteration;
        validate_until_stopped(
            command,
            check,
            record.emitter,
            iteration,
            self.cancel.stop(),
        )
    }

    fn fingerprint(&self) -> Option<u64> {
        fingerprint(&self.directory, self.leave_out.as_deref(), &self.clock)
    }
}
