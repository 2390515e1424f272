//! The programs in the panes of one session, and what their shells run, as the kernel shows them: held
//! open while they live, asked how they ended.

mod command_lines;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::command_events::{CommandEvent, CommandLine, LineState};
use crate::event::PaneId;
use crate::process::{
    ForegroundGroup, JOB_REPORT_AGE, PaneJobEvent, PaneJobs, ProcessWatcher, Program,
    WatchedProcess, directory, foreground, stat,
};
use crate::tmux::PaneState;
use crate::track::{ProcessExit, ShellMark};

/// A pane that is killed is gone before its program: tmux hangs up, and what the program does then
/// takes its time. A session that remains has no status.
const STATUS_COMES: Duration = Duration::from_secs(1);

/// The programs of a session's panes.
pub(super) struct PanePrograms {
    exits: ProcessWatcher,
    /// The tmux server's process, whose children they are.
    server_pid: u32,
    /// Rung when a process has ended. One ring is as good as many.
    bell: Sender<()>,
    rung: Receiver<()>,
    panes: HashMap<PaneId, PaneProgram>,
}

struct PaneProgram {
    pid: u32,
    /// None where it could not be opened: it was gone.
    process: Option<WatchedProcess>,
    /// The program that it runs, as last seen.
    program: Program,
    /// Its pane's events can be reported.
    is_observed: bool,
    jobs: PaneJobs,
    /// The processes of its jobs.
    members: Vec<WatchedProcess>,
    /// The commands of jobs when they were first seen.
    commands: HashMap<u32, String>,
    /// The command line that its shell has marked as begun, and not as ended.
    line: Option<CommandLine>,
    /// The last prompt came from within a job: of a shell behind `ssh`, whose processes are not known.
    is_prompt_inner: bool,
    /// Its pane is gone, and its end is waited for until then.
    waits_until: Option<Instant>,
    /// Events of the previous program's jobs that are still to be emitted.
    left_over: Vec<CommandEvent>,
}

/// The end of a program whose pane is gone.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgramEnd {
    pub death: Option<ProcessExit>,
    /// It was a shell that read what was typed: it says nothing of success.
    pub is_interactive: bool,
    pub jobs: Vec<CommandEvent>,
}

impl PanePrograms {
    pub fn new(exits: ProcessWatcher, server_pid: u32) -> Self {
        let (bell, rung) = bounded(1);
        Self {
            exits,
            server_pid,
            bell,
            rung,
            panes: HashMap::new(),
        }
    }

    /// Gets a message when a process has ended.
    pub fn exit_signal(&self) -> &Receiver<()> {
        &self.rung
    }

    /// A pane is there, with this program.
    pub fn pane_listed(&mut self, id: &PaneId, state: &PaneState, now: Instant) {
        let known = self.panes.get(id);
        // Of a program that has ended some servers do not tell the pid any more.
        let is_known = known.is_some_and(|known| known.pid == state.pid || state.dead.is_some());
        if is_known || state.pid == 0 {
            return;
        }
        let pid = state.pid;
        // tmux makes each program the leader of a session.
        let server = self.server_pid;
        let process = self.exits.watch(pid, &self.bell, |stat| {
            stat.parent == server && stat.session == pid
        });
        let before = self.panes.remove(id);
        let is_observed = before.as_ref().is_some_and(|before| before.is_observed);
        let left_over = before.map_or_else(Vec::new, |mut before| before.close_jobs(now));
        let mut running = PaneProgram {
            pid,
            process,
            program: Program::of(pid).unwrap_or_default(),
            is_observed,
            jobs: PaneJobs::default(),
            members: Vec::new(),
            commands: HashMap::new(),
            line: None,
            is_prompt_inner: false,
            waits_until: None,
            left_over,
        };
        running.note_output(&self.exits, &self.bell, now);
        self.panes.insert(id.clone(), running);
    }

    /// Allows events of the pane from now on.
    pub fn begin_reporting(&mut self, id: &PaneId) {
        if let Some(running) = self.panes.get_mut(id) {
            running.is_observed = true;
        }
    }

    /// The pane has shown something new.
    pub fn note_output(&mut self, id: &PaneId, now: Instant) {
        if let Some(running) = self.panes.get_mut(id) {
            running.note_output(&self.exits, &self.bell, now);
        }
    }

    /// When [`PanePrograms::handle_timeout`] has something to do, if no process ends.
    pub fn deadline(&self) -> Option<Instant> {
        let observed = self.panes.values().filter(|running| running.is_observed);
        let due = observed.filter_map(PaneProgram::deadline);
        let waits = self.panes.values();
        due.chain(waits.filter_map(|running| running.waits_until))
            .min()
    }

    /// Returns the events of jobs that are due.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<(PaneId, CommandEvent)> {
        let mut events = Vec::new();
        for (id, running) in self
            .panes
            .iter_mut()
            .filter(|(_, running)| running.is_observed)
        {
            if running.deadline().is_some_and(|due| due <= now) {
                let jobs = running.handle_timeout(&self.exits, &self.bell, now);
                events.extend(jobs.into_iter().map(|job| (id.clone(), job)));
            }
        }
        events
    }

    /// Processes have ended: the programs that have, and how; [`PanePrograms::handle_timeout`] has
    /// the jobs.
    pub fn handle_exits(&mut self, now: Instant) -> Vec<(PaneId, ProcessExit)> {
        let mut ends = Vec::new();
        for (id, running) in &mut self.panes {
            running.note_ends(now);
            let process = running.process.as_ref();
            if let Some(Some(death)) = process.and_then(WatchedProcess::exit) {
                ends.push((id.clone(), death));
            }
        }
        ends
    }

    /// The shell of a pane has marked something; what is emitted of its jobs.
    pub fn handle_mark(&mut self, id: &PaneId, mark: ShellMark, now: Instant) -> Vec<CommandEvent> {
        let running = self.panes.get_mut(id);
        let running = running.filter(|running| running.is_observed);
        running.map_or_else(Vec::new, |running| {
            running.handle_mark(mark, &self.exits, &self.bell, now)
        })
    }

    /// The pane is gone: its program's end is waited for, for a while.
    pub fn pane_closed(&mut self, id: &PaneId, now: Instant) {
        if let Some(running) = self.panes.get_mut(id) {
            running.waits_until.get_or_insert(now + STATUS_COMES);
        }
    }

    /// Returns whether all is known of a program whose pane is gone, or no more is waited for.
    pub fn is_end_known(&self, id: &PaneId, now: Instant) -> bool {
        let Some(running) = self.panes.get(id) else {
            return true;
        };
        let process = running.process.as_ref();
        let is_over = running.waits_until.is_some_and(|until| until <= now);
        is_over || process.is_none_or(|process| !process.reports_exit() || process.exit().is_some())
    }

    /// The pane is gone, and nothing more is waited for.
    pub fn close(&mut self, id: &PaneId, now: Instant) -> ProgramEnd {
        let Some(mut running) = self.panes.remove(id) else {
            return ProgramEnd::default();
        };
        let process = running.process.as_ref();
        ProgramEnd {
            death: process.and_then(WatchedProcess::query_exit).flatten(),
            is_interactive: running.program.is_interactive,
            jobs: match running.is_observed {
                true => running.close_jobs(now),
                false => Vec::new(),
            },
        }
    }

    /// The pane is another session's, or is not watched any more.
    pub fn forget(&mut self, id: &PaneId) {
        self.panes.remove(id);
    }
}

impl PaneProgram {
    fn deadline(&self) -> Option<Instant> {
        let line = self.line.as_ref();
        let line = line.filter(|line| line.state == LineState::New);
        let line = line.map(|line| line.since + JOB_REPORT_AGE);
        self.jobs.next_due().into_iter().chain(line).min()
    }

    fn note_ends_now(&mut self) {
        for member in &self.members {
            if let Some(end) = member.query_exit() {
                self.jobs.member_exited(member.pid, end);
            }
        }
    }

    /// Returns what the kernel shows of jobs becomes what is emitted; of a marked line's own job
    /// nothing.
    fn events(&mut self, now: Instant) -> Vec<CommandEvent> {
        let mut events = Vec::new();
        for event in self.jobs.due(now) {
            match event {
                PaneJobEvent::Started { group, members } => {
                    let line = self.line.as_ref().filter(|_| !self.is_prompt_inner);
                    let line = line.map(|line| line.state);
                    match (self.started(group, &members), line) {
                        (None, _) => {
                            self.jobs.suppress(group);
                            self.line_is_no_job();
                        }
                        (Some(CommandEvent::Started { command, .. }), Some(LineState::New)) => {
                            events.extend(self.line_started(Some(group), command));
                        }
                        // A part of the line that was emitted.
                        (Some(_), Some(LineState::Emitted(_))) => self.jobs.suppress(group),
                        (Some(job), _) => events.push(job),
                    }
                }
                PaneJobEvent::Completed { group, end, took } => match &mut self.line {
                    Some(line) if line.state == LineState::Emitted(Some(group)) => line.end = end,
                    _ => events.push(CommandEvent::completed(Some(group), None, end, took)),
                },
            }
        }
        events
    }

    fn note_output(&mut self, exits: &ProcessWatcher, bell: &Sender<()>, now: Instant) {
        if self.jobs.note_output(now) {
            self.inspect(exits, bell, now);
        }
    }

    /// Captures at what runs; the job that is in the foreground. A program may have become another one.
    fn inspect(&mut self, exits: &ProcessWatcher, bell: &Sender<()>, now: Instant) -> Option<u32> {
        let process = self.process.as_ref()?;
        let own = stat(self.pid).filter(|own| process.matches(own) && !own.is_zombie)?;
        if let Some(program) = Program::of(self.pid) {
            self.program = program;
        }
        if let Some(group) = own.foreground.filter(|&group| self.jobs.is_decided(group)) {
            return self.jobs.is_running(group).then_some(group);
        }
        let found = foreground(&own, now);
        let new = self.jobs.update(&found);
        let ForegroundGroup::Group { group, .. } = found else {
            return None;
        };
        for pid in new {
            if let Some(program) = Program::of_job(pid) {
                self.commands.insert(pid, program.command);
            }
            match exits.watch(pid, bell, |stat| stat.group == group) {
                Some(process) => self.members.push(process),
                // It is gone already.
                None => drop(self.jobs.member_exited(pid, None)),
            }
        }
        self.jobs.is_running(group).then_some(group)
    }

    fn note_ends(&mut self, now: Instant) {
        let jobs = &mut self.jobs;
        let mut has_ended = false;
        self.members.retain(|member| match member.exit() {
            Some(end) => {
                has_ended |= jobs.member_exited(member.pid, end);
                false
            }
            None => true,
        });
        if has_ended {
            jobs.request_check(now);
        }
    }

    fn handle_timeout(
        &mut self,
        exits: &ProcessWatcher,
        bell: &Sender<()>,
        now: Instant,
    ) -> Vec<CommandEvent> {
        self.jobs.take_due_check(now);
        self.inspect(exits, bell, now);
        self.note_ends(now);
        let mut events = std::mem::take(&mut self.left_over);
        events.extend(self.line_due(exits, bell, now));
        events.extend(self.events(now));
        let jobs = &self.jobs;
        self.commands.retain(|pid, _| jobs.contains(*pid));
        events
    }

    /// Returns the start event of a job; none for a shell in which people type.
    fn started(&mut self, group: u32, members: &[u32]) -> Option<CommandEvent> {
        let programs = members.iter().map(|&pid| {
            // What it was called when it was seen first may have been the shell's own name.
            Program::of_job(pid).unwrap_or_else(|| Program {
                command: self.commands.get(&pid).cloned().unwrap_or_default(),
                is_interactive: false,
            })
        });
        let programs: Vec<Program> = programs.collect();
        if let [only] = programs.as_slice()
            && only.is_interactive
        {
            return None;
        }
        let commands = programs.into_iter().map(|program| program.command);
        let commands: Vec<String> = commands.filter(|command| !command.is_empty()).collect();
        let cwd = members.iter().find_map(|&pid| directory(pid));
        Some(CommandEvent::Started {
            pid: Some(group),
            command: commands.join(" | "),
            cwd: cwd.or_else(|| directory(self.pid)).unwrap_or_default(),
        })
    }

    fn close_jobs(&mut self, now: Instant) -> Vec<CommandEvent> {
        self.note_ends_now();
        let mut events = std::mem::take(&mut self.left_over);
        for event in self.jobs.close(now) {
            if let PaneJobEvent::Completed { group, end, took } = event {
                match &mut self.line {
                    Some(line) if line.state == LineState::Emitted(Some(group)) => line.end = end,
                    _ => events.push(CommandEvent::completed(Some(group), None, end, took)),
                }
            }
        }
        events.extend(self.line_ended(None, now));
        events
    }
}
