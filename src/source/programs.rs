//! The programs in the panes of one session, and what their shells run, as the kernel shows them: held
//! open while they live, asked how they ended.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::commands::Job;
use crate::event::PaneId;
use crate::process::{
    Exits, Foreground, JobEvent, Jobs, Process, Program, directory, foreground, stat,
};
use crate::tmux::PaneState;
use crate::track::Death;

/// A pane that is killed is gone before its program: tmux hangs up, and what the program does then takes
/// its time. One that goes on has no status.
const STATUS_COMES: Duration = Duration::from_secs(1);

/// The programs of a session's panes.
pub(super) struct Programs {
    exits: Exits,
    /// The tmux server's process, whose children they are.
    server_pid: u32,
    /// Rung when a process has ended. One ring is as good as many.
    bell: Sender<()>,
    rung: Receiver<()>,
    panes: HashMap<PaneId, Running>,
}

/// The program of a pane.
struct Running {
    pid: u32,
    /// None where it could not be opened: it was gone.
    process: Option<Process>,
    /// What it runs, as far as that has been seen.
    program: Program,
    /// Its pane's events can be told.
    is_observed: bool,
    jobs: Jobs,
    /// The processes of its jobs.
    members: Vec<Process>,
    /// What jobs were called when they were seen first.
    commands: HashMap<u32, String>,
    /// Its pane is gone, and its end is waited for until then.
    waits_until: Option<Instant>,
    /// What is still to be told of jobs of the program before.
    left_over: Vec<Job>,
}

/// What is known of a program whose pane is gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending {
    pub death: Option<Death>,
    /// It was a shell that read what was typed: it says nothing of success.
    pub is_interactive: bool,
    pub jobs: Vec<Job>,
}

impl Programs {
    pub fn new(exits: Exits, server_pid: u32) -> Self {
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
    pub fn rung(&self) -> &Receiver<()> {
        &self.rung
    }

    /// A pane is there, with this program.
    pub fn listed(&mut self, id: &PaneId, state: &PaneState, now: Instant) {
        let known = self.panes.get(id);
        // Of a program that has ended some servers do not tell the pid any more.
        let is_known = known.is_some_and(|known| known.pid == state.pid || state.dead.is_some());
        if is_known || state.pid == 0 {
            return;
        }
        let pid = state.pid;
        // tmux makes each program the leader of a session.
        let server = self.server_pid;
        let process = self.exits.open(pid, &self.bell, |stat| {
            stat.parent == server && stat.session == pid
        });
        let before = self.panes.remove(id);
        let is_observed = before.as_ref().is_some_and(|before| before.is_observed);
        let left_over = before.map_or_else(Vec::new, |mut before| before.close_jobs(now));
        let mut running = Running {
            pid,
            process,
            program: Program::of(pid).unwrap_or_default(),
            is_observed,
            jobs: Jobs::default(),
            members: Vec::new(),
            commands: HashMap::new(),
            waits_until: None,
            left_over,
        };
        running.active(&self.exits, &self.bell, now);
        self.panes.insert(id.clone(), running);
    }

    /// The pane's events can be told from now on.
    pub fn observed(&mut self, id: &PaneId) {
        if let Some(running) = self.panes.get_mut(id) {
            running.is_observed = true;
        }
    }

    /// The pane has shown something new.
    pub fn active(&mut self, id: &PaneId, now: Instant) {
        if let Some(running) = self.panes.get_mut(id) {
            running.active(&self.exits, &self.bell, now);
        }
    }

    /// When [`Programs::due`] has something to do, if no process ends.
    pub fn next_due(&self) -> Option<Instant> {
        let observed = self.panes.values().filter(|running| running.is_observed);
        let due = observed.filter_map(Running::next_due);
        let waits = self.panes.values();
        due.chain(waits.filter_map(|running| running.waits_until))
            .min()
    }

    /// What of jobs is to be told by now.
    pub fn due(&mut self, now: Instant) -> Vec<(PaneId, Job)> {
        let mut told = Vec::new();
        for (id, running) in self.panes.iter_mut().filter(|(_, one)| one.is_observed) {
            if running.next_due().is_some_and(|due| due <= now) {
                let jobs = running.due(&self.exits, &self.bell, now);
                told.extend(jobs.into_iter().map(|job| (id.clone(), job)));
            }
        }
        told
    }

    /// Processes have ended: the programs that have, and how; [`Programs::due`] has the jobs.
    pub fn ended(&mut self, now: Instant) -> Vec<(PaneId, Death)> {
        let mut ends = Vec::new();
        for (id, running) in &mut self.panes {
            running.note_ends(now);
            let process = running.process.as_ref();
            if let Some(Some(death)) = process.and_then(Process::end) {
                ends.push((id.clone(), death));
            }
        }
        ends
    }

    /// A job is the shell's to tell.
    pub fn pass_over(&mut self, id: &PaneId, group: u32) {
        if let Some(running) = self.panes.get_mut(id) {
            running.jobs.pass_over(group);
        }
    }

    /// The pane is gone: its program's end is waited for, for a while.
    pub fn parts(&mut self, id: &PaneId, now: Instant) {
        if let Some(running) = self.panes.get_mut(id) {
            running.waits_until.get_or_insert(now + STATUS_COMES);
        }
    }

    /// Whether all is known of a program whose pane is gone, or no more is waited for.
    pub fn is_settled(&self, id: &PaneId, now: Instant) -> bool {
        let Some(running) = self.panes.get(id) else {
            return true;
        };
        let process = running.process.as_ref();
        let is_over = running.waits_until.is_some_and(|until| until <= now);
        is_over || process.is_none_or(|process| !process.is_held() || process.end().is_some())
    }

    /// The pane is gone, and nothing more is waited for.
    pub fn close(&mut self, id: &PaneId, now: Instant) -> Ending {
        let Some(mut running) = self.panes.remove(id) else {
            return Ending::default();
        };
        let process = running.process.as_ref();
        Ending {
            death: process.and_then(Process::end_now).flatten(),
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

impl Running {
    fn next_due(&self) -> Option<Instant> {
        self.jobs.next_due()
    }

    fn active(&mut self, exits: &Exits, bell: &Sender<()>, now: Instant) {
        if self.jobs.active(now) {
            self.look(exits, bell, now);
        }
    }

    /// Looks at what runs. A program may have become another one.
    fn look(&mut self, exits: &Exits, bell: &Sender<()>, now: Instant) {
        let Some(process) = &self.process else { return };
        let own = stat(self.pid).filter(|own| process.is(own) && !own.is_zombie);
        let Some(own) = own else { return };
        if let Some(program) = Program::of(self.pid) {
            self.program = program;
        }
        if own.foreground.is_some_and(|group| self.jobs.knows(group)) {
            return;
        }
        let found = foreground(&own, now);
        let new = self.jobs.look(&found);
        let Foreground::Group { group, .. } = found else {
            return;
        };
        for pid in new {
            if let Some(program) = Program::of_job(pid) {
                self.commands.insert(pid, program.command);
            }
            match exits.open(pid, bell, |stat| stat.group == group) {
                Some(process) => self.members.push(process),
                // It is gone already.
                None => drop(self.jobs.ended(pid, None)),
            }
        }
    }

    fn note_ends(&mut self, now: Instant) {
        let jobs = &mut self.jobs;
        let mut has_ended = false;
        self.members.retain(|member| match member.end() {
            Some(end) => {
                has_ended |= jobs.ended(member.pid, end);
                false
            }
            None => true,
        });
        if has_ended {
            jobs.wake(now);
        }
    }

    fn due(&mut self, exits: &Exits, bell: &Sender<()>, now: Instant) -> Vec<Job> {
        self.jobs.is_to_be_looked_at(now);
        self.look(exits, bell, now);
        self.note_ends(now);
        let mut told = std::mem::take(&mut self.left_over);
        for event in self.jobs.due(now) {
            match event {
                JobEvent::Started { group, members } => match self.started(group, &members) {
                    Some(job) => told.push(job),
                    None => self.jobs.pass_over(group),
                },
                JobEvent::Completed { group, end, took } => {
                    told.push(completed(group, end, took));
                }
            }
        }
        let jobs = &self.jobs;
        self.commands.retain(|pid, _| jobs.has(*pid));
        told
    }

    /// What is told of a job; nothing of a shell in which people type.
    fn started(&mut self, group: u32, members: &[u32]) -> Option<Job> {
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
        Some(Job::Started {
            pid: group,
            command: commands.join(" | "),
            cwd: cwd.or_else(|| directory(self.pid)).unwrap_or_default(),
        })
    }

    fn close_jobs(&mut self, now: Instant) -> Vec<Job> {
        for member in &self.members {
            if let Some(end) = member.end_now() {
                self.jobs.ended(member.pid, end);
            }
        }
        let mut told = std::mem::take(&mut self.left_over);
        for event in self.jobs.close(now) {
            if let JobEvent::Completed { group, end, took } = event {
                told.push(completed(group, end, took));
            }
        }
        told
    }
}

fn completed(group: u32, end: Option<Death>, took: Duration) -> Job {
    Job::Completed {
        pid: group,
        end,
        took,
    }
}
