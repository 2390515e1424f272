//! One iteration of a loop: the agent works, then the check decides.

use super::Request;
use super::conversation::{Conversation, ConversationEnd, Converse, converse};
use super::engine::LoopEngine;
use super::fingerprint::fingerprint;
use super::iteration_files::IterationFiles;
use super::loop_reporter::LoopReporter;
use super::progress::LoopEnd;
use super::prompt::{PreviousFailure, prompt};
use super::spec::Phase;
use crate::error::Result;
use crate::event::IterationOutcome;
use crate::process::{Command, ValidationResult, validate_until_stopped};

/// Exit code of a check that was terminated but exited with 0, as shells report it: 128 plus `TERM`.
const TERMINATED: i32 = 143;

/// Maximum size of each output of a check that is kept for the next prompt.
const CHECK_BYTES: usize = 256 << 10;

/// Maximum number of lines of a check that become events.
const CHECK_LINES_MAX: u64 = 1_000_000;

pub(super) struct Attempt {
    pub outcome: IterationOutcome,
    /// The failure that the next prompt describes.
    failure: Option<PreviousFailure>,
    /// The reason why further attempts cannot succeed.
    pub fatal: Option<String>,
}

impl Attempt {
    fn passed() -> Self {
        Self {
            outcome: IterationOutcome::ValidationPassed,
            failure: None,
            fatal: None,
        }
    }

    fn failed(outcome: IterationOutcome, reason: impl Into<String>) -> Self {
        Self {
            outcome,
            failure: Some(PreviousFailure::Agent(reason.into())),
            fatal: None,
        }
    }

    fn of_check(check: &str, result: &ValidationResult, end: &ConversationEnd) -> Self {
        if result.passed() {
            return Self::passed();
        }
        if result.was_ended {
            let exit_code = match result.exit_code {
                // Some programs exit with 0 when they are terminated.
                0 => TERMINATED,
                code => code,
            };
            let outcome = IterationOutcome::ValidationFailed { exit_code };
            return Self::failed(outcome, "the check was terminated before its end");
        }
        let exit_code = result.exit_code;
        Self {
            outcome: (end.outcome()).unwrap_or(IterationOutcome::ValidationFailed { exit_code }),
            failure: Some(PreviousFailure::Check {
                command: check.to_owned(),
                exit_code,
                stdout: result.stdout.clone(),
                stderr: result.stderr.clone(),
            }),
            fatal: None,
        }
    }
}

impl LoopEngine {
    pub(super) fn attempt(&mut self, reporter: &LoopReporter<'_>, phase: &Phase) -> Attempt {
        let number = self.progress.iteration;
        let files = reporter.iteration_started(&self.progress);
        let text = prompt(
            &self.spec,
            self.progress.phase,
            self.progress.previous_failure.as_ref(),
            self.progress.unchanged,
        );
        let mut request = Request::prompt(&text);
        if let Some(path) = files.write_prompt(&text) {
            request = request.prompt_file(path);
        }
        let before = self.fingerprint();
        let mut on_part = files.on_part();
        let mut options = Converse::new().clock(self.clock.clone());
        if let Some(turns) = self.max_turns {
            options = options.max_turns(turns);
        }
        if let Some(emitter) = reporter.emitter {
            options = options.emitter(emitter, number);
        }
        self.agent.begin_iteration(reporter.emitter, &files);
        let conversation = converse(
            self.agent.client(),
            &mut self.toolbox,
            request,
            options.on_part(&mut on_part),
            &self.cancel,
        );
        drop(on_part);
        self.agent.end_iteration();
        self.progress.unchanged = before.is_some() && before == self.fingerprint();
        if self.progress.unchanged && !self.cancel.is_cancelled() {
            let directory = self.directory.display();
            reporter.warning(&format!(
                "iteration {number} changed no file in {directory}"
            ));
        }
        let attempt = self.judge(phase, &conversation, reporter, &files);
        self.progress.previous_failure = attempt.failure.clone();
        attempt
    }

    /// Determines the outcome from the end of the conversation and, unless that failed, from the check.
    fn judge(
        &self,
        phase: &Phase,
        conversation: &Conversation,
        reporter: &LoopReporter<'_>,
        files: &IterationFiles,
    ) -> Attempt {
        // An agent that has used up its turns may have finished the work, so the check decides.
        let end = &conversation.end;
        let has_worked = matches!(
            end,
            ConversationEnd::Ended | ConversationEnd::MaxTurnsReached
        );
        if let (true, Some(check)) = (has_worked && !self.cancel.is_cancelled(), &phase.check) {
            return match self.check(check, reporter, files) {
                Ok(result) => Attempt::of_check(check, &result, end),
                Err(error) => {
                    let reason = format!("cannot run the check: {error:?}");
                    reporter.check_error(&reason);
                    let outcome = IterationOutcome::ValidationFailed { exit_code: 127 };
                    Attempt {
                        fatal: Some(reason.clone()),
                        ..Attempt::failed(outcome, reason)
                    }
                }
            };
        }
        let outcome = match end.outcome() {
            Some(outcome) => outcome,
            // Without a check, the end of the conversation decides.
            None if !self.cancel.is_cancelled() => return Attempt::passed(),
            None => IterationOutcome::LlmError {
                error: LoopEnd::Cancelled.words().to_owned(),
            },
        };
        let fatal = match end {
            ConversationEnd::LlmError(error)
                if error.is_missing_program() || error.is_limited() =>
            {
                Some(format!("cannot use the model: {error}"))
            }
            _ => None,
        };
        Attempt {
            failure: Some(PreviousFailure::of_outcome(&outcome)),
            outcome,
            fatal,
        }
    }

    fn check(
        &self,
        check: &str,
        reporter: &LoopReporter<'_>,
        files: &IterationFiles,
    ) -> Result<ValidationResult> {
        let control = self.running_check.begin();
        let mut command = Command::shell(check)
            .directory(&self.directory)
            .line_limit(CHECK_LINES_MAX)
            .collect(CHECK_BYTES)
            .clock(self.clock.clone())
            .control(&control)
            .on_output(files.on_check_output());
        if let Some(timeout) = self.check_timeout {
            command = command.timeout(timeout);
        }
        let iteration = self.progress.iteration;
        validate_until_stopped(
            command,
            check,
            reporter.emitter,
            iteration,
            self.cancel.stop(),
        )
    }

    fn fingerprint(&self) -> Option<u64> {
        fingerprint(&self.directory, self.ignored.as_deref(), &self.clock)
    }
}
