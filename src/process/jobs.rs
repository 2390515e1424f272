//! The jobs of one pane: what has been seen in the foreground, what is to be told of it (pure).
//!
//! A job is a process group that a shell has put into the foreground. It begins when it is seen there and
//! ends when all of its members have that the shell started itself; its status is that of the last one,
//! as in a pipeline. One that is stopped, or continues in the background, is the same job until its end.

use std::time::{Duration, Instant};

use crate::track::Death;

/// A job that lives for less is not reported: a shell runs many of them.
pub(crate) const JOB_REPORT_AGE: Duration = Duration::from_millis(500);

/// So long after something was printed it is looked again what runs: a command that says nothing has
/// begun by then.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// More jobs of one pane are not kept: each but one of them has been stopped and stands still.
const JOBS_MAX: usize = 16;

/// More processes of a pipeline are not held.
const MEMBERS_MAX: usize = 16;

/// What a pane has in its foreground.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ForegroundGroup {
    /// The shell itself.
    Shell,
    /// A group that a shell has started: its number, and those of its processes that the shell
    /// started itself, in that order. `since` is when the first of them began.
    Group {
        group: u32,
        members: Vec<u32>,
        since: Instant,
        /// The last one is at the end of the pipeline, as far as can be seen.
        is_whole: bool,
    },
    /// Something of which it is not known who started it.
    Unknown,
}

/// What is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PaneJobEvent {
    /// A job has lived for so long that it counts.
    Started { group: u32, members: Vec<u32> },
    /// A job that was told has ended.
    Completed {
        group: u32,
        end: Option<Death>,
        took: Duration,
    },
}

/// The jobs of a pane.
#[derive(Debug, Default)]
pub(crate) struct PaneJobs {
    jobs: Vec<Job>,
    /// When to look again at what runs.
    look_at: Option<Instant>,
    /// Something was printed since that was decided.
    is_active: bool,
    /// PaneJobs that have ended, and their processes: the shell takes its terminal back a moment later,
    /// and until then they look like new ones.
    over: Vec<(u32, Vec<u32>)>,
}

#[derive(Debug)]
struct Job {
    group: u32,
    members: Vec<Member>,
    since: Instant,
    standing: Standing,
    /// The last member that is known is the last of the pipeline.
    is_whole: bool,
}

#[derive(Debug)]
struct Member {
    pid: u32,
    /// How it ended, once it has.
    end: Option<Option<Death>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It has not lived for long enough.
    New,
    Told,
    /// It is another one's to tell, or no job.
    Suppressed,
}

impl PaneJobs {
    /// Something was printed: whether it is to be looked now at what runs.
    pub fn note_output(&mut self, now: Instant) -> bool {
        self.is_active = self.look_at.is_some();
        if self.is_active {
            return false;
        }
        self.look_at = Some(now + LOOK_AGAIN);
        true
    }

    /// Whether it is to be looked again at what runs, now.
    pub fn take_due_check(&mut self, now: Instant) -> bool {
        if self.look_at.is_none_or(|at| at > now) {
            return false;
        }
        // Once, and as long as more is printed.
        let more = std::mem::take(&mut self.is_active);
        self.look_at = more.then_some(now + LOOK_AGAIN);
        true
    }

    /// A process of a job has ended: what the shell runs next may say nothing.
    pub fn request_check(&mut self, now: Instant) {
        (self.look_at, self.is_active) = (Some(now), true);
    }

    /// Takes in what is in the foreground; the processes that are to be held from now on.
    pub fn update(&mut self, foreground: &ForegroundGroup) -> Vec<u32> {
        let ForegroundGroup::Group {
            group,
            members,
            since,
            is_whole,
        } = foreground
        else {
            self.over.clear();
            return Vec::new();
        };
        self.over.retain(|(over, _)| over == group);
        let mut over = self.over.iter();
        if over.any(|(_, ended)| members.iter().all(|pid| ended.contains(pid))) {
            return Vec::new();
        }
        let at = self.jobs.iter().position(|job| job.group == *group);
        let at = match at {
            Some(at) => at,
            None if self.jobs.len() >= JOBS_MAX => return Vec::new(),
            None => {
                self.jobs.push(Job {
                    group: *group,
                    members: Vec::new(),
                    since: *since,
                    standing: Standing::New,
                    is_whole: true,
                });
                self.jobs.len() - 1
            }
        };
        let job = &mut self.jobs[at];
        let known = |pid: &u32| job.members.iter().any(|member| member.pid == *pid);
        let mut new: Vec<u32> = members.iter().copied().filter(|pid| !known(pid)).collect();
        // The last of a long pipeline is the one that counts.
        let room = MEMBERS_MAX.saturating_sub(job.members.len());
        new.drain(..new.len().saturating_sub(room));
        let found = new.iter().map(|&pid| Member { pid, end: None });
        job.members.extend(found);
        // One that has ended meanwhile was seen as it was.
        if job.members.last().map(|member| &member.pid) == members.last() {
            job.is_whole = *is_whole;
        }
        new
    }

    /// A process has ended. Whether it was one of a job's.
    pub fn member_exited(&mut self, pid: u32, end: Option<Death>) -> bool {
        let members = self.jobs.iter_mut().flat_map(|job| &mut job.members);
        let mut meant = members.filter(|member| member.pid == pid && member.end.is_none());
        let Some(member) = meant.next() else {
            return false;
        };
        member.end = Some(end);
        true
    }

    /// A job is not to be told: its end is not either.
    pub fn suppress(&mut self, group: u32) {
        for job in self.jobs.iter_mut().filter(|job| job.group == group) {
            job.standing = Standing::Suppressed;
        }
    }

    /// A job that has not lived for long enough counts all the same: its processes. `None` where it
    /// is not new.
    pub fn report_now(&mut self, group: u32) -> Option<Vec<u32>> {
        let mut jobs = self.jobs.iter_mut();
        let job = jobs.find(|job| job.group == group && job.standing == Standing::New)?;
        job.standing = Standing::Told;
        Some(job.members.iter().map(|member| member.pid).collect())
    }

    /// Whether a job has not been decided on.
    pub fn is_pending(&self, group: u32) -> bool {
        let mut jobs = self.jobs.iter();
        jobs.any(|job| job.group == group && job.standing == Standing::New)
    }

    /// Whether a job that was told has not ended.
    pub fn has_reported(&self) -> bool {
        let mut jobs = self.jobs.iter();
        jobs.any(|job| job.standing == Standing::Told && !job.is_over())
    }

    /// Whether a job has not ended.
    pub fn is_running(&self, group: u32) -> bool {
        let mut jobs = self.jobs.iter();
        jobs.any(|job| job.group == group && !job.is_over())
    }

    /// What is to be told by now.
    pub fn due(&mut self, now: Instant) -> Vec<PaneJobEvent> {
        let mut events = Vec::new();
        let over = &mut self.over;
        self.jobs.retain_mut(|job| {
            let (took, is_over) = (now.saturating_duration_since(job.since), job.is_over());
            if job.standing == Standing::New && took >= JOB_REPORT_AGE {
                job.standing = Standing::Told;
                events.push(job.started());
            }
            if is_over && job.standing == Standing::Told {
                events.push(job.completed(took));
            }
            if is_over {
                let pids = job.members.iter().map(|member| member.pid);
                over.push((job.group, pids.collect()));
            }
            !is_over
        });
        // No more of them can be in the foreground than were.
        let old = over.len().saturating_sub(JOBS_MAX);
        over.drain(..old);
        events
    }

    /// The pane is gone: what is told of its jobs, of which no more will be known.
    pub fn close(&mut self, now: Instant) -> Vec<PaneJobEvent> {
        let told = self.jobs.drain(..);
        let told = told.filter(|job| job.standing == Standing::Told);
        told.map(|job| job.completed(now.saturating_duration_since(job.since)))
            .collect()
    }

    /// When to call [`PaneJobs::due`] and [`PaneJobs::take_due_check`], if nothing happens.
    pub fn next_due(&self) -> Option<Instant> {
        let new = self.jobs.iter().filter(|job| job.standing == Standing::New);
        new.map(|job| job.since + JOB_REPORT_AGE)
            .chain(self.look_at)
            .min()
    }

    /// The processes of jobs.
    #[cfg(test)]
    fn pids(&self) -> Vec<u32> {
        let members = self.jobs.iter().flat_map(|job| &job.members);
        members.map(|member| member.pid).collect()
    }

    /// Whether a process is one of a job's.
    pub fn contains(&self, pid: u32) -> bool {
        let mut members = self.jobs.iter().flat_map(|job| &job.members);
        members.any(|member| member.pid == pid)
    }

    /// Whether a group is in the foreground of which all is known.
    pub fn is_decided(&self, group: u32) -> bool {
        let mut jobs = self.jobs.iter();
        jobs.any(|job| job.group == group && job.standing != Standing::New)
    }
}

impl Job {
    fn is_over(&self) -> bool {
        !self.members.is_empty() && self.members.iter().all(|member| member.end.is_some())
    }

    fn started(&self) -> PaneJobEvent {
        PaneJobEvent::Started {
            group: self.group,
            members: self.members.iter().map(|member| member.pid).collect(),
        }
    }

    fn completed(&self, took: Duration) -> PaneJobEvent {
        let last = self.members.last().filter(|_| self.is_whole);
        PaneJobEvent::Completed {
            group: self.group,
            end: last.and_then(|last| last.end.flatten()),
            took,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn group(group: u32, members: &[u32], since: Instant) -> ForegroundGroup {
        ForegroundGroup::Group {
            group,
            members: members.to_vec(),
            since,
            is_whole: true,
        }
    }

    fn exit(status: i32) -> Option<Death> {
        Some(Death {
            status: Some(status),
            signal: None,
        })
    }

    fn started(group: u32, members: &[u32]) -> PaneJobEvent {
        let members = members.to_vec();
        PaneJobEvent::Started { group, members }
    }

    fn completed(group: u32, end: Option<Death>, ms: u32) -> PaneJobEvent {
        let took = MS * ms;
        PaneJobEvent::Completed { group, end, took }
    }

    #[test]
    fn a_job_is_told_when_it_has_lived_for_half_a_second_and_when_it_ends() {
        let (mut jobs, now) = (PaneJobs::default(), Instant::now());
        assert_eq!(jobs.update(&group(7, &[7], now)), [7]);
        assert_eq!(jobs.update(&group(7, &[7], now)), [0; 0], "it is held");
        assert_eq!(jobs.next_due(), Some(now + 500 * MS));
        assert_eq!(jobs.due(now + 499 * MS), []);
        assert_eq!(jobs.due(now + 500 * MS), [started(7, &[7])]);
        assert_eq!(jobs.next_due(), None, "its end is waited for");
        assert!(jobs.member_exited(7, exit(2)));
        assert_eq!(jobs.due(now + 3000 * MS), [completed(7, exit(2), 3000)]);
        assert_eq!(jobs.pids(), [0; 0]);
        assert!(!jobs.member_exited(7, exit(2)), "another one's");
    }

    #[test]
    fn a_job_that_has_ended_is_no_new_one_while_its_shell_has_not_noticed() {
        let (mut jobs, now) = (PaneJobs::default(), Instant::now());
        jobs.update(&group(7, &[7, 8], now));
        assert_eq!(jobs.due(now + 500 * MS).len(), 1);
        jobs.member_exited(7, exit(0));
        jobs.member_exited(8, exit(4));
        assert_eq!(jobs.due(now + 998 * MS), [completed(7, exit(4), 998)]);
        // What the shell has not waited for yet.
        assert_eq!(jobs.update(&group(7, &[7, 8], now)), [0; 0]);
        assert_eq!(jobs.update(&group(7, &[8], now)), [0; 0]);
        assert_eq!(jobs.due(now + 999 * MS), []);
        // Numbers come again, but not before the shell has had its terminal back.
        assert_eq!(jobs.update(&ForegroundGroup::Shell), [0; 0]);
        assert_eq!(jobs.update(&group(7, &[7], now)), [7]);
    }

    #[test]
    fn a_short_job_is_not_told_and_one_that_was_found_late_is() {
        let (mut jobs, now) = (PaneJobs::default(), Instant::now());
        jobs.update(&group(7, &[7], now));
        jobs.member_exited(7, exit(0));
        assert_eq!(jobs.due(now + 100 * MS), []);
        assert_eq!(jobs.next_due(), None);
        jobs.update(&group(8, &[8], now));
        jobs.member_exited(8, exit(1));
        let told = [started(8, &[8]), completed(8, exit(1), 600)];
        assert_eq!(jobs.due(now + 600 * MS), told);
    }

    #[test]
    fn a_pipeline_ends_with_its_last_member_and_has_the_status_of_the_rightmost() {
        let (mut jobs, now) = (PaneJobs::default(), Instant::now());
        jobs.update(&group(7, &[7, 8], now));
        assert_eq!(
            jobs.update(&group(7, &[7, 8, 9], now)),
            [9],
            "it came later"
        );
        assert_eq!(jobs.due(now + 500 * MS), [started(7, &[7, 8, 9])]);
        jobs.member_exited(9, exit(4));
        jobs.member_exited(7, exit(0));
        assert_eq!(jobs.due(now + 600 * MS), []);
        jobs.member_exited(8, exit(1));
        assert_eq!(jobs.due(now + 700 * MS), [completed(7, exit(4), 700)]);
    }

    #[test]
    fn what_is_left_of_a_pipeline_does_not_tell_its_status() {
        let (mut jobs, now) = (PaneJobs::default(), Instant::now());
        let left = ForegroundGroup::Group {
            group: 7,
            members: vec![7],
            since: now,
            is_whole: false,
        };
        jobs.update(&left);
        jobs.member_exited(7, exit(0));
        let told = [started(7, &[7]), completed(7, None, 500)];
        assert_eq!(jobs.due(now + 500 * MS), told);
        // The last one was seen before it ended.
        jobs.update(&group(7, &[7, 8], now));
        jobs.member_exited(8, exit(4));
        jobs.update(&left);
        jobs.member_exited(7, exit(0));
        let told = [started(7, &[7, 8]), completed(7, exit(4), 500)];
        assert_eq!(jobs.due(now + 500 * MS), told);
    }

    #[test]
    fn a_job_that_is_stopped_and_continued_is_one() {
        let (mut jobs, now) = (PaneJobs::default(), Instant::now());
        jobs.update(&group(7, &[7], now));
        assert_eq!(jobs.due(now + 500 * MS).len(), 1);
        assert_eq!(jobs.update(&ForegroundGroup::Shell), [0; 0]);
        jobs.update(&group(9, &[9], now + 600 * MS));
        assert_eq!(jobs.update(&ForegroundGroup::Unknown), [0; 0]);
        assert_eq!(jobs.update(&group(7, &[7], now + 700 * MS)), [0; 0]);
        jobs.member_exited(7, exit(0));
        assert_eq!(jobs.due(now + 800 * MS), [completed(7, exit(0), 800)]);
        assert!(jobs.contains(9) && !jobs.contains(7));
    }

    #[test]
    fn a_job_that_is_passed_over_is_not_told_either_when_it_ends() {
        let (mut jobs, now) = (PaneJobs::default(), Instant::now());
        jobs.update(&group(7, &[7], now));
        jobs.suppress(7);
        assert!(jobs.is_decided(7));
        assert_eq!(jobs.next_due(), None);
        assert_eq!(jobs.due(now + 500 * MS), []);
        jobs.member_exited(7, exit(0));
        assert_eq!(jobs.due(now + 600 * MS), []);
        assert!(!jobs.is_decided(7));
    }

    #[test]
    fn it_is_looked_at_when_something_is_printed_and_once_half_a_second_later() {
        let (mut jobs, now) = (PaneJobs::default(), Instant::now());
        assert!(!jobs.take_due_check(now));
        assert!(jobs.note_output(now));
        assert_eq!(jobs.next_due(), Some(now + 500 * MS));
        assert!(!jobs.take_due_check(now + 499 * MS));
        assert!(jobs.take_due_check(now + 500 * MS));
        assert_eq!(jobs.next_due(), None, "no clock");
        // A flood costs one look in half a second.
        assert!(jobs.note_output(now + 600 * MS));
        assert!(!jobs.note_output(now + 601 * MS) && !jobs.note_output(now + 700 * MS));
        assert!(jobs.take_due_check(now + 1100 * MS));
        assert!(jobs.take_due_check(now + 1600 * MS));
        assert_eq!(jobs.next_due(), None);
    }

    #[test]
    fn jobs_of_a_pane_that_is_gone_end_with_it() {
        let (mut jobs, now) = (PaneJobs::default(), Instant::now());
        jobs.update(&group(7, &[7, 8], now));
        jobs.update(&group(9, &[9], now));
        jobs.suppress(9);
        jobs.due(now + 500 * MS);
        jobs.member_exited(8, exit(1));
        assert_eq!(jobs.close(now + MS * 900), [completed(7, exit(1), 900)]);
        assert_eq!(jobs.close(now), []);
    }

    proptest! {
        /// However groups come and go, each is told once at most, and its end after its beginning.
        #[test]
        fn what_starts_ends_once(steps in proptest::collection::vec((0..4u8, 0..3u32, 0..700u32), 0..60)) {
            let (mut jobs, mut now) = (PaneJobs::default(), Instant::now());
            let mut running: Vec<u32> = Vec::new();
            let mut told: Vec<u32> = Vec::new();
            let mut next = 100;
            for (what, which, ms) in steps {
                now += MS * ms;
                match what {
                    0 => {
                        next += 2;
                        running.push(next);
                        jobs.update(&group(next, &[next, next + 1], now));
                    }
                    1 => if let Some(&one) = running.get(which as usize) {
                        jobs.member_exited(one, exit(0));
                        jobs.member_exited(one + 1, exit(1));
                        running.retain(|other| *other != one);
                    },
                    2 => if let Some(&one) = running.get(which as usize) {
                        jobs.update(&group(one, &[one], now));
                    },
                    _ => { jobs.update(&ForegroundGroup::Shell); }
                }
                for event in jobs.due(now) {
                    match event {
                        PaneJobEvent::Started { group, .. } => {
                            prop_assert!(!told.contains(&group));
                            told.push(group);
                        }
                        PaneJobEvent::Completed { group, end, .. } => {
                            prop_assert_eq!(end, exit(1));
                            let at = told.iter().position(|other| *other == group);
                            prop_assert!(at.is_some());
                            told.swap_remove(at.unwrap());
                        }
                    }
                }
            }
            prop_assert!(jobs.close(now).len() == told.len());
        }
    }
}
