//! Tests of jobs from observations of a pane's foreground.

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
    assert!(jobs.member_exited(7, exit(2)));
    assert_eq!(jobs.due(now + 3000 * MS), [completed(7, exit(2), 3000)]);
    assert!(jobs.jobs.is_empty());
    assert!(!jobs.member_exited(7, exit(2)), "it is forgotten");
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
