//! Tracks the jobs of one pane from observations of its foreground, and decides which to report (pure).
//!
//! A job is a process group that a shell has put into the foreground. It begins when it is first observed
//! there, and ends when all members that the shell started itself have ended. Its status is that of the last
//! member, as in a pipeline. A job that is stopped, or continues in the background, remains the same job.

use std::time::{Duration, Instant};

use crate::track::ProcessExit;

/// The age from which a job is reported. Shells run many shorter jobs.
pub(crate) const JOB_REPORT_AGE: Duration = Duration::from_millis(500);

/// The time between output and the second check of the foreground, when a silent command has begun.
const CHECK_AGAIN: Duration = Duration::from_millis(500);

/// The most jobs of a pane. All but one of them are stopped.
const JOBS_MAX: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ForegroundGroup {
    Shell,
    /// A group that a shell has started.
    Group {
        group: u32,
        /// The processes that the shell started itself, in the order of their start.
        members: Vec<u32>,
        /// The start of the first member.
        since: Instant,
        /// The last member appears to be the end of the pipeline.
        is_whole: bool,
    },
    /// A group whose parent is unknown.
    Unknown,
}

/// A report of the beginning or end of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PaneJobEvent {
    /// A job has reached the age of [`JOB_REPORT_AGE`].
    Started { group: u32, members: Vec<u32> },
    /// A reported job has ended.
    Completed {
        group: u32,
        end: Option<ProcessExit>,
        took: Duration,
    },
}

#[derive(Debug, Default)]
pub(crate) struct PaneJobs {
    jobs: Vec<PaneJob>,
    /// The time of the next check of the foreground.
    check_at: Option<Instant>,
    /// True if the pane has printed since `check_at` was set.
    has_output: bool,
    /// The groups of ended jobs, and their processes. They resemble new jobs until the shell takes its
    /// terminal back.
    ended: Vec<(u32, Vec<u32>)>,
}

#[derive(Debug)]
struct PaneJob {
    group: u32,
    members: Vec<Member>,
    since: Instant,
    reporting: Reporting,
    /// The last known member is the last of the pipeline.
    is_whole: bool,
}

#[derive(Debug)]
struct Member {
    pid: u32,
    /// The exit, once the process has ended: `Some(None)` if its status is unknown.
    end: Option<Option<ProcessExit>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reporting {
    /// The job is too young.
    Pending,
    Reported,
    /// The job is reported as a part of another one, or is no job.
    Suppressed,
}

impl PaneJobs {
    /// Records output of the pane; returns true if the foreground must be checked now.
    pub fn note_output(&mut self, now: Instant) -> bool {
        self.has_output = self.check_at.is_some();
        if self.has_output {
            return false;
        }
        self.check_at = Some(now + CHECK_AGAIN);
        true
    }

    /// Returns true if a check of the foreground is due. Schedules another check if the pane has printed.
    pub fn take_due_check(&mut self, now: Instant) -> bool {
        if self.check_at.is_none_or(|at| at > now) {
            return false;
        }
        let has_output = std::mem::take(&mut self.has_output);
        self.check_at = has_output.then_some(now + CHECK_AGAIN);
        true
    }

    /// Requests a check now and one later, because the next command after a job may be silent.
    pub fn request_check(&mut self, now: Instant) {
        (self.check_at, self.has_output) = (Some(now), true);
    }

    /// Updates the jobs with the observed foreground; returns its new processes.
    pub fn update(&mut self, foreground: &ForegroundGroup) -> Vec<u32> {
        let ForegroundGroup::Group {
            group,
            members,
            since,
            is_whole,
        } = foreground
        else {
            self.ended.clear();
            return Vec::new();
        };
        self.ended.retain(|(ended, _)| ended == group);
        let mut ended = self.ended.iter();
        if ended.any(|(_, pids)| members.iter().all(|pid| pids.contains(pid))) {
            return Vec::new();
        }
        if self.job(*group).is_none() {
            if self.jobs.len() >= JOBS_MAX {
                return Vec::new();
            }
            self.jobs.push(PaneJob {
                group: *group,
                members: Vec::new(),
                since: *since,
                reporting: Reporting::Pending,
                is_whole: true,
            });
        }
        let Some(job) = self.job_mut(*group) else {
            return Vec::new();
        };
        let is_new = |pid: &u32| !job.members.iter().any(|member| member.pid == *pid);
        let mut new: Vec<u32> = members.iter().copied().filter(is_new).collect();
        // The last member of a long pipeline has the status that counts.
        let room = 16_usize.saturating_sub(job.members.len());
        new.drain(..new.len().saturating_sub(room));
        let new_members = new.iter().map(|&pid| Member { pid, end: None });
        job.members.extend(new_members);
        // Keep the earlier value if the last member has ended since.
        if job.members.last().map(|member| &member.pid) == members.last() {
            job.is_whole = *is_whole;
        }
        new
    }

    /// Records the end of a process; returns the group of the job whose member it was.
    pub fn member_exited(&mut self, pid: u32, end: Option<ProcessExit>) -> Option<u32> {
        self.jobs.iter_mut().find_map(|job| {
            let mut members = job.members.iter_mut();
            let member = members.find(|member| member.pid == pid && member.end.is_none())?;
            member.end = Some(end);
            Some(job.group)
        })
    }

    pub fn suppress(&mut self, group: u32) {
        if let Some(job) = self.job_mut(group) {
            job.reporting = Reporting::Suppressed;
        }
    }

    /// Marks a pending job as reported, regardless of its age, and returns its processes. Returns `None` for
    /// a job that is not pending.
    pub fn report_now(&mut self, group: u32) -> Option<Vec<u32>> {
        let job = self.job_mut(group);
        let job = job.filter(|job| job.reporting == Reporting::Pending)?;
        job.reporting = Reporting::Reported;
        Some(job.pids())
    }

    /// Returns true for a job that is neither reported nor suppressed.
    pub fn is_pending(&self, group: u32) -> bool {
        let job = self.job(group);
        job.is_some_and(|job| job.reporting == Reporting::Pending)
    }

    /// Returns true for a job that is reported or suppressed.
    pub fn is_decided(&self, group: u32) -> bool {
        let job = self.job(group);
        job.is_some_and(|job| job.reporting != Reporting::Pending)
    }

    /// Returns true while a reported job runs.
    pub fn has_reported(&self) -> bool {
        let mut jobs = self.jobs.iter();
        jobs.any(|job| job.reporting == Reporting::Reported && !job.has_ended())
    }

    /// Returns true while a job runs.
    pub fn is_running(&self, group: u32) -> bool {
        self.job(group).is_some_and(|job| !job.has_ended())
    }

    /// Returns true if a process is a member of a job.
    pub fn contains(&self, pid: u32) -> bool {
        let mut members = self.jobs.iter().flat_map(|job| &job.members);
        members.any(|member| member.pid == pid)
    }

    /// Returns the reports that are due.
    pub fn due(&mut self, now: Instant) -> Vec<PaneJobEvent> {
        let mut events = Vec::new();
        let ended = &mut self.ended;
        self.jobs.retain_mut(|job| {
            let (took, has_ended) = (now.saturating_duration_since(job.since), job.has_ended());
            if job.reporting == Reporting::Pending && took >= JOB_REPORT_AGE {
                job.reporting = Reporting::Reported;
                let (group, members) = (job.group, job.pids());
                events.push(PaneJobEvent::Started { group, members });
            }
            if has_ended && job.reporting == Reporting::Reported {
                events.push(job.completed(took));
            }
            if has_ended {
                ended.push((job.group, job.pids()));
            }
            !has_ended
        });
        // Forget the oldest ended jobs, because a pane has at most this many.
        let excess = ended.len().saturating_sub(JOBS_MAX);
        ended.drain(..excess);
        events
    }

    /// Ends all jobs of a closed pane, and returns the reports.
    pub fn close(&mut self, now: Instant) -> Vec<PaneJobEvent> {
        let jobs = self.jobs.drain(..);
        let reported = jobs.filter(|job| job.reporting == Reporting::Reported);
        reported
            .map(|job| job.completed(now.saturating_duration_since(job.since)))
            .collect()
    }

    /// Returns the time of the next call of [`PaneJobs::due`] and [`PaneJobs::take_due_check`] while nothing
    /// happens.
    pub fn next_due(&self) -> Option<Instant> {
        let pending = (self.jobs.iter()).filter(|job| job.reporting == Reporting::Pending);
        let reports = pending.map(|job| job.since + JOB_REPORT_AGE);
        reports.chain(self.check_at).min()
    }

    fn job(&self, group: u32) -> Option<&PaneJob> {
        self.jobs.iter().find(|job| job.group == group)
    }

    fn job_mut(&mut self, group: u32) -> Option<&mut PaneJob> {
        self.jobs.iter_mut().find(|job| job.group == group)
    }
}

impl PaneJob {
    fn has_ended(&self) -> bool {
        !self.members.is_empty() && self.members.iter().all(|member| member.end.is_some())
    }

    fn pids(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.pid).collect()
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

    fn exit(status: i32) -> Option<ProcessExit> {
        Some(ProcessExit {
            status: Some(status),
            signal: None,
        })
    }

    fn started(group: u32, members: &[u32]) -> PaneJobEvent {
        let members = members.to_vec();
        PaneJobEvent::Started { group, members }
    }

    fn completed(group: u32, end: Option<ProcessExit>, ms: u32) -> PaneJobEvent {
        let took = MS * ms;
        PaneJobEvent::Completed { group, end, took }
    }

    #[test]
    fn a_job_is_reported_after_half_a_second_and_at_its_end() {
        let (mut jobs, now) = (PaneJobs::default(), Instant::now());
        assert_eq!(jobs.update(&group(7, &[7], now)), [7]);
        assert_eq!(jobs.update(&group(7, &[7], now)), [0; 0], "it is known");
        assert_eq!(jobs.next_due(), Some(now + 500 * MS));
        assert_eq!(jobs.due(now + 499 * MS), []);
        assert_eq!(jobs.due(now + 500 * MS), [started(7, &[7])]);
        assert_eq!(jobs.next_due(), None, "only its end is awaited");
        assert_eq!(jobs.member_exited(7, exit(2)), Some(7));
        assert_eq!(jobs.due(now + 3000 * MS), [completed(7, exit(2), 3000)]);
        assert!(jobs.jobs.is_empty());
        assert_eq!(jobs.member_exited(7, exit(2)), None, "it is forgotten");
    }

    #[test]
    fn an_ended_job_is_not_new_until_its_shell_takes_the_terminal_back() {
        let (mut jobs, now) = (PaneJobs::default(), Instant::now());
        jobs.update(&group(7, &[7, 8], now));
        assert_eq!(jobs.due(now + 500 * MS).len(), 1);
        jobs.member_exited(7, exit(0));
        jobs.member_exited(8, exit(4));
        assert_eq!(jobs.due(now + 998 * MS), [completed(7, exit(4), 998)]);
        // Zombies that the shell has not reaped yet.
        assert_eq!(jobs.update(&group(7, &[7, 8], now)), [0; 0]);
        assert_eq!(jobs.update(&group(7, &[8], now)), [0; 0]);
        assert_eq!(jobs.due(now + 999 * MS), []);
        // Numbers are reused only after the shell has taken its terminal back.
        assert_eq!(jobs.update(&ForegroundGroup::Shell), [0; 0]);
        assert_eq!(jobs.update(&group(7, &[7], now)), [7]);
    }

    #[test]
    fn a_short_job_is_not_reported_and_a_late_discovery_is() {
        let (mut jobs, now) = (PaneJobs::default(), Instant::now());
        jobs.update(&group(7, &[7], now));
        jobs.member_exited(7, exit(0));
        assert_eq!(jobs.due(now + 100 * MS), []);
        assert_eq!(jobs.next_due(), None);
        jobs.update(&group(8, &[8], now));
        jobs.member_exited(8, exit(1));
        let reports = [started(8, &[8]), completed(8, exit(1), 600)];
        assert_eq!(jobs.due(now + 600 * MS), reports);
    }

    #[test]
    fn a_pipeline_ends_with_its_last_member_and_has_the_status_of_the_rightmost() {
        let (mut jobs, now) = (PaneJobs::default(), Instant::now());
        jobs.update(&group(7, &[7, 8], now));
        assert_eq!(
            jobs.update(&group(7, &[7, 8, 9], now)),
            [9],
            "it started later"
        );
        assert_eq!(jobs.due(now + 500 * MS), [started(7, &[7, 8, 9])]);
        jobs.member_exited(9, exit(4));
        jobs.member_exited(7, exit(0));
        assert_eq!(jobs.due(now + 600 * MS), []);
        jobs.member_exited(8, exit(1));
        assert_eq!(jobs.due(now + 700 * MS), [completed(7, exit(4), 700)]);
    }

    #[test]
    fn the_rest_of_a_pipeline_has_no_known_status() {
        let (mut jobs, now) = (PaneJobs::default(), Instant::now());
        let rest = ForegroundGroup::Group {
            group: 7,
            members: vec![7],
            since: now,
            is_whole: false,
        };
        jobs.update(&rest);
        jobs.member_exited(7, exit(0));
        let reports = [started(7, &[7]), completed(7, None, 500)];
        assert_eq!(jobs.due(now + 500 * MS), reports);
        // The last member was observed before it ended.
        jobs.update(&group(7, &[7, 8], now));
        jobs.member_exited(8, exit(4));
        jobs.update(&rest);
        jobs.member_exited(7, exit(0));
        let reports = [started(7, &[7, 8]), completed(7, exit(4), 500)];
        assert_eq!(jobs.due(now + 500 * MS), reports);
    }

    #[test]
    fn a_stopped_and_continued_job_is_one_job() {
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
    fn a_suppressed_job_is_not_reported_at_its_end() {
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
    fn the_foreground_is_checked_after_output_and_half_a_second_later() {
        let (mut jobs, now) = (PaneJobs::default(), Instant::now());
        assert!(!jobs.take_due_check(now));
        assert!(jobs.note_output(now));
        assert_eq!(jobs.next_due(), Some(now + 500 * MS));
        assert!(!jobs.take_due_check(now + 499 * MS));
        assert!(jobs.take_due_check(now + 500 * MS));
        assert_eq!(jobs.next_due(), None, "nothing is scheduled");
        // A flood costs one check per half second.
        assert!(jobs.note_output(now + 600 * MS));
        assert!(!jobs.note_output(now + 601 * MS) && !jobs.note_output(now + 700 * MS));
        assert!(jobs.take_due_check(now + 1100 * MS));
        assert!(jobs.take_due_check(now + 1600 * MS));
        assert_eq!(jobs.next_due(), None);
    }

    #[test]
    fn jobs_end_with_their_pane() {
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
        /// Each group is reported at most once, and its end after its beginning.
        #[test]
        fn every_reported_job_ends_once(steps in proptest::collection::vec((0..4u8, 0..3u32, 0..700u32), 0..60)) {
            let (mut jobs, mut now) = (PaneJobs::default(), Instant::now());
            let mut running: Vec<u32> = Vec::new();
            let mut reported: Vec<u32> = Vec::new();
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
                            prop_assert!(!reported.contains(&group));
                            reported.push(group);
                        }
                        PaneJobEvent::Completed { group, end, .. } => {
                            prop_assert_eq!(end, exit(1));
                            let at = reported.iter().position(|other| *other == group);
                            prop_assert!(at.is_some());
                            reported.swap_remove(at.unwrap());
                        }
                    }
                }
            }
            prop_assert!(jobs.close(now).len() == reported.len());
        }
    }
}
