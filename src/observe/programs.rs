//! The programs in the panes of one session, and the jobs of their shells, as the kernel shows them.
//! Each process is held open while it lives, so that its exit status can be queried.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::command_events::{CommandEvent, CommandLine, LineState};
use crate::event::PaneId;
use crate::process::{
    ForegroundGroup, JOB_REPORT_AGE, PaneJobEvent, PaneJobs, ProcessWatcher, Program, RunningAgent,
    Stat, WatchedProcess, directory, foreground, stat,
};
use crate::tmux::PaneState;
use crate::track::{ProcessExit, ShellMark};

/// The wait for a program's exit after its pane was killed: tmux closes the pane first, and the
/// program ends some time later.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct PanePrograms {
    exits: ExitSignals,
    /// The tmux server's pid, the parent of the programs.
    server_pid: u32,
    rung: Receiver<()>,
    panes: HashMap<PaneId, PaneProgram>,
}

/// Watches processes, and signals their exits.
struct ExitSignals {
    watcher: ProcessWatcher,
    /// Receives a message when a process has ended. One message may stand for several.
    bell: Sender<()>,
}

impl ExitSignals {
    fn watch(&self, pid: u32, is_expected: impl FnOnce(&Stat) -> bool) -> Option<WatchedProcess> {
        self.watcher.watch(pid, &self.bell, is_expected)
    }
}

struct PaneProgram {
    pid: u32,
    /// `None` if the process had ended before it could be opened.
    process: Option<WatchedProcess>,
    /// The program that the process runs, as last seen.
    program: Program,
    /// The pane is observed, so its events can be reported.
    is_observed: bool,
    jobs: PaneJobs,
    members: Vec<WatchedProcess>,
    /// The commands of jobs when they were first seen.
    commands: HashMap<u32, String>,
    /// The command line that the shell has marked as started, and not as finished.
    line: Option<CommandLine>,
    /// The last prompt came from within a job, such as a shell behind `ssh` with unknown processes.
    is_prompt_inner: bool,
    /// The agent that was found in the pane.
    agent: Option<WatchedAgent>,
    /// The groups of jobs that have ended, until [`PanePrograms::handle_exits`] returns them.
    ended_jobs: Vec<u32>,
    /// The deadline of the wait for the exit, once the pane is gone.
    waits_until: Option<Instant>,
    /// Events of the previous program's jobs that are not emitted yet.
    left_over: Vec<CommandEvent>,
}

/// The processes of an agent. A launcher starts the agent as its child, and may hide how that one has ended.
struct WatchedAgent {
    agent: RunningAgent,
    process: WatchedProcess,
    inner: Vec<WatchedProcess>,
    /// The time up to which a launcher may start the agent.
    starts_until: Instant,
}

/// An end of a process in a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// That of the agent.
    Agent(Option<ProcessExit>),
    /// That of a job, with all its processes: the group of the job.
    Job(u32),
    /// That of the pane's program.
    Program(ProcessExit),
}

/// The end of a program whose pane is gone.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgramEnd {
    pub death: Option<ProcessExit>,
    /// The program was an interactive shell, whose status is not that of a job.
    pub is_interactive: bool,
    pub jobs: Vec<CommandEvent>,
}

impl ProgramEnd {
    /// Returns true if the program was a shell that ran no job.
    pub fn was_at_prompt(&self) -> bool {
        self.is_interactive && self.jobs.is_empty()
    }
}

impl PanePrograms {
    pub fn new(watcher: ProcessWatcher, server_pid: u32) -> Self {
        let (bell, rung) = bounded(1);
        Self {
            exits: ExitSignals { watcher, bell },
            server_pid,
            rung,
            panes: HashMap::new(),
        }
    }

    /// Returns the channel that signals ended processes.
    pub fn exit_signal(&self) -> &Receiver<()> {
        &self.rung
    }

    pub fn pane_listed(&mut self, id: &PaneId, state: &PaneState, now: Instant) {
        let known = self.panes.get(id);
        // Some servers do not report the pid of a program that has ended.
        let is_known = known.is_some_and(|known| known.pid == state.pid || state.dead.is_some());
        if is_known || state.pid == 0 {
            return;
        }
        let pid = state.pid;
        // tmux makes each program the leader of a session.
        let server = self.server_pid;
        let process = self
            .exits
            .watch(pid, |stat| stat.parent == server && stat.session == pid);
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
            agent: None,
            ended_jobs: Vec::new(),
            waits_until: None,
            left_over,
        };
        running.note_output(&self.exits, now);
        self.panes.insert(id.clone(), running);
    }

    /// Allows events of the pane from now on.
    pub fn begin_reporting(&mut self, id: &PaneId) {
        if let Some(running) = self.panes.get_mut(id) {
            running.is_observed = true;
        }
    }

    /// Notes that the pane has shown something new.
    pub fn note_output(&mut self, id: &PaneId, now: Instant) {
        if let Some(running) = self.panes.get_mut(id) {
            running.note_output(&self.exits, now);
        }
    }

    /// Returns when [`PanePrograms::handle_timeout`] is due if no process ends.
    pub fn deadline(&self) -> Option<Instant> {
        let observed = self.panes.values().filter(|running| running.is_observed);
        observed.filter_map(PaneProgram::deadline).min()
    }

    /// Returns when the wait for the exit of a closed pane's program is over.
    pub fn end_due(&self, id: &PaneId) -> Option<Instant> {
        self.panes.get(id)?.waits_until
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
                let jobs = running.handle_timeout(&self.exits, now);
                events.extend(jobs.into_iter().map(|job| (id.clone(), job)));
            }
        }
        events
    }

    /// Watches the agent that was found in a pane; returns false if it has ended.
    pub fn watch_agent(&mut self, id: &PaneId, agent: &RunningAgent, now: Instant) -> bool {
        let Some(running) = self.panes.get_mut(id) else {
            return false;
        };
        let exits = &self.exits;
        let is_same = |stat: &Stat| stat.started == agent.started && !stat.is_zombie;
        running.agent = exits.watch(agent.pid, is_same).map(|process| {
            let mut watched = WatchedAgent {
                agent: agent.clone(),
                process,
                inner: Vec::new(),
                // Launchers take up to a few seconds on a busy machine.
                starts_until: now + Duration::from_secs(30),
            };
            watched.watch_inner(exits, now);
            watched
        });
        running.agent.is_some()
    }

    /// Returns the end of a pane's agent if it has ended and was not returned before. Else, with `queries`, the
    /// kernel is asked whether it has ended.
    pub fn agent_end(&mut self, id: &PaneId, queries: bool) -> Option<Option<ProcessExit>> {
        self.panes.get_mut(id)?.agent_end(queries)
    }

    /// Handles ended processes, and returns their ends. The events of jobs become due.
    pub fn handle_exits(&mut self, now: Instant) -> Vec<(PaneId, Ending)> {
        let mut ends = Vec::new();
        for (id, running) in &mut self.panes {
            running.note_ends(now);
            let process = running.process.as_ref();
            let death = process.and_then(WatchedProcess::exit).flatten();
            // An agent may end together with the pane's program, or be that program.
            let agent = running.agent_end(death.is_some()).map(Ending::Agent);
            let jobs = running.ended_jobs.drain(..).map(Ending::Job);
            let endings = agent.into_iter().chain(jobs);
            let endings = endings.chain(death.map(Ending::Program));
            ends.extend(endings.map(|ending| (id.clone(), ending)));
        }
        ends
    }

    /// Takes a mark of the pane's shell, and returns the events of its jobs.
    pub fn handle_mark(&mut self, id: &PaneId, mark: ShellMark, now: Instant) -> Vec<CommandEvent> {
        let running = self.panes.get_mut(id);
        let running = running.filter(|running| running.is_observed);
        running.map_or_else(Vec::new, |running| {
            running.handle_mark(mark, &self.exits, now)
        })
    }

    /// Begins the wait for the program's exit, because the pane is gone.
    pub fn pane_closed(&mut self, id: &PaneId, now: Instant) {
        if let Some(running) = self.panes.get_mut(id) {
            running.waits_until.get_or_insert(now + STATUS_TIMEOUT);
        }
    }

    /// Returns true if the exits of the program and of its jobs are known, or no longer awaited: a shell ends before the
    /// job that its terminal's hangup ends.
    pub fn is_end_known(&self, id: &PaneId, now: Instant) -> bool {
        let Some(running) = self.panes.get(id) else {
            return true;
        };
        let is_over = running.waits_until.is_some_and(|until| until <= now);
        let mut watched = running.process.iter().chain(&running.members);
        is_over || watched.all(|process| !process.reports_exit() || process.exit().is_some())
    }

    /// Ends the wait for the program's exit, and returns what is known.
    pub fn close(&mut self, id: &PaneId, now: Instant) -> ProgramEnd {
        let Some(mut running) = self.panes.remove(id) else {
            return ProgramEnd::default();
        };
        let process = running.process.as_ref();
        ProgramEnd {
            death: process.and_then(WatchedProcess::query_exit).flatten(),
            is_interactive: running.program.is_interactive,
            jobs: if running.is_observed {
                running.close_jobs(now)
            } else {
                Vec::new()
            },
        }
    }

    /// Forgets a pane that is another session's, or is not watched any more.
    pub fn forget(&mut self, id: &PaneId) {
        self.panes.remove(id);
    }
}

impl WatchedAgent {
    /// Watches the processes that a launcher has started as the agent.
    fn watch_inner(&mut self, exits: &ExitSignals, now: Instant) {
        if !self.inner.is_empty() || now > self.starts_until {
            return;
        }
        let pids = self.agent.processes().into_iter();
        let pids = pids.filter(|pid| *pid != self.agent.pid);
        self.inner = pids.filter_map(|pid| exits.watch(pid, |_| true)).collect();
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
        let members = std::mem::take(&mut self.members);
        for member in &members {
            if let Some(end) = member.query_exit() {
                self.member_exited(member.pid, end);
            }
        }
        self.members = members;
    }

    /// Returns the events of jobs that are due. The job of a marked command line has none of its own.
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
                        // Part of a command line that was emitted.
                        (Some(_), Some(LineState::Emitted(_))) => self.jobs.suppress(group),
                        (Some(job), _) => events.push(job),
                    }
                }
                PaneJobEvent::Completed { group, end, took } => {
                    events.extend(self.completed(group, end, took));
                }
            }
        }
        events
    }

    fn note_output(&mut self, exits: &ExitSignals, now: Instant) {
        if self.jobs.note_output(now) {
            self.inspect(exits, now);
        }
    }

    /// Inspects the processes in the foreground, and returns the group of the running job. A process
    /// may have executed another program.
    fn inspect(&mut self, exits: &ExitSignals, now: Instant) -> Option<u32> {
        if let Some(agent) = &mut self.agent {
            agent.watch_inner(exits, now);
        }
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
            match exits.watch(pid, |stat| stat.group == group) {
                Some(process) => self.members.push(process),
                // The process has ended already.
                None => self.member_exited(pid, None),
            }
        }
        self.jobs.is_running(group).then_some(group)
    }

    fn note_ends(&mut self, now: Instant) {
        let mut members = std::mem::take(&mut self.members);
        let before = members.len();
        members.retain(|member| match member.exit() {
            Some(end) => {
                self.member_exited(member.pid, end);
                false
            }
            None => true,
        });
        if members.len() < before {
            self.jobs.request_check(now);
        }
        self.members = members;
    }

    /// Records the end of a process, which may be the end of its job.
    fn member_exited(&mut self, pid: u32, end: Option<ProcessExit>) {
        let group = self.jobs.member_exited(pid, end);
        let ended = group.filter(|group| !self.jobs.is_running(*group));
        self.ended_jobs.extend(ended);
    }

    /// Returns the end of the agent if it has ended.
    fn agent_end(&mut self, queries: bool) -> Option<Option<ProcessExit>> {
        let process = &self.agent.as_ref()?.process;
        let exit = if queries {
            process.query_exit()?
        } else {
            process.exit()?
        };
        let inner = self.agent.take()?.inner;
        let killed = inner
            .iter()
            .filter_map(|inner| inner.query_exit().flatten())
            .find(|exit| exit.is_killed());
        Some(
            killed
                .filter(|_| exit != Some(ProcessExit::SUCCESS))
                .or(exit),
        )
    }

    fn handle_timeout(&mut self, exits: &ExitSignals, now: Instant) -> Vec<CommandEvent> {
        self.jobs.take_due_check(now);
        self.inspect(exits, now);
        self.note_ends(now);
        let mut events = std::mem::take(&mut self.left_over);
        events.extend(self.line_due(exits, now));
        events.extend(self.events(now));
        let jobs = &self.jobs;
        self.commands.retain(|pid, _| jobs.contains(*pid));
        events
    }

    /// Returns the start event of a job; `None` for an interactive shell.
    fn started(&mut self, group: u32, members: &[u32]) -> Option<CommandEvent> {
        let programs = members.iter().map(|&pid| {
            // When first seen, the process may have had the name of the shell that started it.
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

    /// Returns the end event of a job. That of a marked command line is emitted with the line's end.
    fn completed(
        &mut self,
        group: u32,
        end: Option<ProcessExit>,
        took: Duration,
    ) -> Option<CommandEvent> {
        match &mut self.line {
            Some(line) if line.state == LineState::Emitted(Some(group)) => {
                line.end = end;
                None
            }
            _ => Some(CommandEvent::completed(Some(group), None, end, took)),
        }
    }

    fn close_jobs(&mut self, now: Instant) -> Vec<CommandEvent> {
        self.note_ends_now();
        let mut events = std::mem::take(&mut self.left_over);
        for event in self.jobs.close(now) {
            if let PaneJobEvent::Completed { group, end, took } = event {
                events.extend(self.completed(group, end, took));
            }
        }
        events.extend(self.line_ended(None, now));
        events
    }
}

impl PaneProgram {
    pub(super) fn handle_mark(
        &mut self,
        mark: ShellMark,
        exits: &ExitSignals,
        now: Instant,
    ) -> Vec<CommandEvent> {
        // Due events come first, because many marks may arrive at once.
        let mut events = if self.deadline().is_some_and(|due| due <= now) {
            self.handle_timeout(exits, now)
        } else {
            Vec::new()
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
                let front = if self.jobs.has_reported() {
                    self.inspect(exits, now)
                } else {
                    None
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
        let front = if self.is_prompt_inner {
            None
        } else {
            self.inspect(exits, now)
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
            command: if line.command.is_empty() {
                command
            } else {
                line.command.clone()
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
