//! The command lines that a pane's shell marks, emitted with the job that each one starts.

use std::time::Instant;

use super::{ExitSignals, PaneProgram};
use crate::observe::command_events::{CommandEvent, CommandLine, LineState};
use crate::process::{JOB_REPORT_AGE, directory};
use crate::track::ShellMark;

impl PaneProgram {
    pub(super) fn handle_mark(
        &mut self,
        mark: ShellMark,
        exits: &ExitSignals,
        now: Instant,
    ) -> Vec<CommandEvent> {
        // Due events come first, because many marks may arrive at once.
        let mut events = match self.deadline().is_some_and(|due| due <= now) {
            true => self.handle_timeout(exits, now),
            false => Vec::new(),
        };
        match mark {
            ShellMark::Started { command } => {
                // Some shells do not mark the end of a command line.
                events.extend(self.line_ended(None, now));
                self.line = Some(CommandLine {
                    command: command.unwrap_or_default(),
                    // The directory of the command is that of its shell, which waits for it.
                    cwd: directory(self.pid).unwrap_or_default(),
                    since: now,
                    state: LineState::New,
                    end: None,
                });
            }
            ShellMark::Finished { exit_status } => {
                events.extend(self.line_ended(exit_status.map(i32::from), now));
            }
            ShellMark::Prompt => {
                events.extend(self.line_ended(None, now));
                // A shell regains its terminal before it prompts.
                let front = match self.jobs.has_reported() {
                    true => self.inspect(exits, now),
                    false => None,
                };
                self.is_prompt_inner = front.is_some_and(|group| !self.jobs.is_pending(group));
            }
            ShellMark::Input => {}
        }
        events
    }

    /// Handles the marked end of a command line. A job of it that continues, because it was stopped or
    /// the prompt came from behind `ssh`, is reported as the kernel shows it.
    pub(super) fn line_ended(&mut self, status: Option<i32>, now: Instant) -> Vec<CommandEvent> {
        let mut events = Vec::new();
        if let Some(LineState::Emitted(Some(_))) = self.line.as_ref().map(|line| line.state) {
            // The shell has waited for its processes, whose exits may not have been signaled yet.
            self.note_ends_now();
            events = self.events(now);
        }
        let Some(line) = self.line.take() else {
            return events;
        };
        let LineState::Emitted(pid) = line.state else {
            return events;
        };
        if !pid.is_some_and(|group| self.jobs.is_running(group)) {
            let took = now.saturating_duration_since(line.since);
            events.push(CommandEvent::completed(pid, status, line.end, took));
        }
        events
    }

    /// Emits a command line that has lived long enough, with its first job.
    pub(super) fn line_due(&mut self, exits: &ExitSignals, now: Instant) -> Option<CommandEvent> {
        let line = self.line.as_ref()?;
        if line.state != LineState::New || now < line.since + JOB_REPORT_AGE {
            return None;
        }
        let front = match self.is_prompt_inner {
            true => None,
            false => self.inspect(exits, now),
        };
        let Some(group) = front else {
            // The shell itself works, or its job cannot be seen.
            return self.line_started(None, String::new());
        };
        let Some(members) = self.jobs.report_now(group) else {
            // A job that was stopped is in the foreground again.
            self.line_is_no_job();
            return None;
        };
        let Some(CommandEvent::Started { command, .. }) = self.started(group, &members) else {
            self.jobs.suppress(group);
            self.line_is_no_job();
            return None;
        };
        self.line_started(Some(group), command)
    }

    pub(super) fn line_started(
        &mut self,
        pid: Option<u32>,
        command: String,
    ) -> Option<CommandEvent> {
        let line = self.line.as_mut()?;
        line.state = LineState::Emitted(pid);
        Some(CommandEvent::Started {
            pid,
            command: match line.command.is_empty() {
                true => command,
                false => line.command.clone(),
            },
            cwd: line.cwd.clone(),
        })
    }

    pub(super) fn line_is_no_job(&mut self) {
        if let Some(line) = &mut self.line
            && line.state == LineState::New
        {
            line.state = LineState::PassedOver;
        }
    }
}
