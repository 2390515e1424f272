//! Disks that are full, directories that vanish and files that are cut.

use super::*;

/// A small file system, unmounted at the end.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    pub fn mount(at: &Path, options: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        // Everyone can write to a new file system by default, and such a data directory is refused.
        let options = format!("{options},mode=0700");
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(at)
            .output();
        match output {
            Ok(output) if output.status.success() => Some(Self(at.to_owned())),
            other => {
                eprintln!("SKIPPED, NOT TESTED: no small disk can be mounted here: {other:?}");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let status = Command::new("umount").arg("-l").arg(&self.0).status();
        if !status.is_ok_and(|status| status.success()) {
            // A panic here would hide the panic that failed the test.
            eprintln!("LEFT MOUNTED: {:?}", self.0);
        }
    }
}

#[test]
fn a_full_disk_is_reported_once_and_counted_exactly() {
    let temp = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&temp.path().join("disk"), "size=1m") else {
        return;
    };
    let healthy = temp.path().join("elsewhere");
    let mut bench = Bench::synced(&disk.0, SyncPolicy::Never);
    bench.open("full");
    let elsewhere = DataDir::new(&healthy).run(&"fine".into());
    let run = open_run(&elsewhere, RunInfo::default(), bench.fake.clock().wall()).unwrap();
    bench.log.attach(run, bench.now());

    let mut seq = 0;
    let mut push = |bench: &mut Bench, bytes: usize, is_text: bool| {
        seq += 1;
        let envelope = if is_text {
            text("full", seq, bytes)
        } else {
            life("full", seq)
        };
        bench.append(&[envelope]);
        seq
    };
    // 16 MB of text: 1 MB is on the disk, 8 MiB in memory, and the rest has no room.
    for _ in 0..1600 {
        push(&mut bench, 10_000, true);
        bench.advance(Duration::from_millis(20));
    }
    // Life-cycle events still have room, and short text does not pass between long texts.
    let first_life = push(&mut bench, 0, false);
    push(&mut bench, 1, true);
    let last_life = push(&mut bench, 0, false);
    assert_eq!(bench.notices(), [LogNoticeKind::Failing]);
    // Other runs are not blocked.
    bench.append(&[life("fine", 1)]);
    assert_eq!(lines(&elsewhere.events_path()).len(), 2);
    // The lines on the full disk are whole.
    let path = bench.run("full").events_path();
    let (gaps, written) = accounted(&lines(&path), 1);
    assert_eq!(gaps, []);
    assert!(written > 50, "{written}");

    // There is room again.
    let status = Command::new("mount")
        .args(["-o", "remount,size=40m"])
        .arg(&disk.0)
        .status()
        .unwrap();
    assert!(status.success());
    bench.advance(Duration::from_millis(500));
    assert_eq!(bench.notices(), [LogNoticeKind::Recovered]);
    let last = push(&mut bench, 10, true);
    let lines = lines(&path);
    let (gaps, next) = accounted(&lines, 1);
    assert_eq!(next, last + 1);
    assert_eq!(gaps.len(), 2, "{gaps:?}");
    assert_eq!(gaps[0].1, first_life - 1);
    assert_eq!(gaps[1], (first_life + 1, last_life - 1));
    // 8 MiB were pending.
    let kept = gaps[0].0 - written;
    assert!((800..=840).contains(&kept), "{kept} of {gaps:?}");
    let report = bench.log.finish(bench.fake.clock().now());
    let lost: u64 = gaps.iter().map(|(first, last)| last - first + 1).sum();
    let [full] = &report.lost[..] else {
        panic!("{report:?}")
    };
    assert!(full.is_recorded, "{report:?}");
    assert_eq!(full.events, lost);
}

#[test]
fn events_lost_on_a_full_disk_are_reported_and_become_a_gap() {
    let temp = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&temp.path().join("disk"), "size=256k") else {
        return;
    };
    let mut bench = Bench::synced(&disk.0, SyncPolicy::Never);
    bench.open("a");
    for seq in 1..=40 {
        bench.append(&[text("a", seq, 9_000)]);
    }
    let path = bench.run("a").events_path();
    let (_, written) = accounted(&lines(&path), 1);
    let report = bench.log.finish(bench.fake.clock().now());
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert_eq!(
        (report.lost[0].first_seq, report.lost[0].last_seq),
        (written, 40)
    );
    assert!(report.lost[0].cause.contains("No space"), "{report:?}");
    let status = Command::new("mount")
        .args(["-o", "remount,size=4m"])
        .arg(&disk.0)
        .status()
        .unwrap();
    assert!(status.success());
    let mut bench = Bench::synced(&disk.0, SyncPolicy::Never);
    let next = bench.open("a");
    bench.append(&[life("a", next)]);
    // With final metadata the gap is announced; without them its numbers are assigned again.
    let (gaps, after) = accounted(&lines(&path), 1);
    assert_eq!(after, next + 1);
    assert!(gaps.is_empty() && next == written || gaps == [(written, 40)] && next == 41);
}

#[test]
fn a_removed_directory_is_created_again() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(temp.path());
    bench.open("a");
    bench.append(&[life("a", 1), life("a", 2)]);
    let run = bench.run("a");
    fs::remove_dir_all(run.path()).unwrap();
    // Removed at this time, the file still gets the line; the next header shows the loss.
    bench.append(&[life("a", 3)]);
    bench.advance(CHECK_INTERVAL);
    bench.append(&[life("a", 4)]);
    assert_eq!(bench.notices(), [LogNoticeKind::Disturbed]);
    let found = lines(&run.events_path());
    assert_eq!(
        (accounted(&found, 4), first_seqs(&found)),
        ((vec![], 5), vec![4])
    );
    assert!(run.metadata().unwrap().is_some());
    // The lock is taken again, too.
    let other = DataDir::new(temp.path()).run(&"a".into());
    assert!(
        open_run(&other, RunInfo::default(), bench.fake.clock().wall())
            .unwrap_err()
            .is_locked()
    );

    // The whole directory is moved: the open file moves along, so only a check of the path shows it.
    fs::rename(temp.path().join("runs"), temp.path().join("old")).unwrap();
    bench.append(&[life("a", 5)]);
    bench.advance(Duration::from_secs(1));
    bench.append(&[life("a", 6)]);
    assert_eq!(bench.notices(), [LogNoticeKind::Disturbed]);
    assert_eq!(first_seqs(&lines(&run.events_path())), [6]);
    assert_eq!(
        accounted(&lines(&temp.path().join("old/a/events.jsonl")), 4),
        (vec![], 6)
    );
}

#[test]
fn a_directory_that_cannot_be_created_is_retried() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(temp.path());
    bench.open("a");
    bench.append(&[life("a", 1)]);
    let run = bench.run("a");
    fs::remove_dir_all(temp.path().join("runs")).unwrap();
    fs::write(temp.path().join("runs"), "in the way").unwrap();
    bench.advance(CHECK_INTERVAL);
    bench.append(&[life("a", 2)]);
    bench.append(&[life("a", 3)]);
    bench.advance(Duration::from_secs(3));
    assert_eq!(bench.notices(), [LogNoticeKind::Failing]);
    fs::remove_file(temp.path().join("runs")).unwrap();
    let due = bench.log.tick(bench.now()).unwrap();
    assert!(due > bench.now() && due <= bench.now() + Duration::from_millis(500));
    bench.append(&[life("a", 4)]);
    assert!(!run.exists(), "a try before its time");
    bench.advance(Duration::from_millis(500));
    assert_eq!(
        bench.notices(),
        [LogNoticeKind::Disturbed, LogNoticeKind::Recovered]
    );
    let found = lines(&run.events_path());
    assert_eq!(
        (accounted(&found, 2), first_seqs(&found)),
        ((vec![], 5), vec![2])
    );
}

#[test]
fn a_truncated_file_continues_at_its_end() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(temp.path());
    bench.open("a");
    bench.append(&[life("a", 1), life("a", 2)]);
    let path = bench.run("a").events_path();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(0).unwrap();
    bench.advance(CHECK_INTERVAL);
    bench.append(&[life("a", 3)]);
    let found = lines(&path);
    assert_eq!(
        (accounted(&found, 3), first_seqs(&found)),
        ((vec![], 4), vec![3])
    );
    // Truncated within a line: the next one begins on a new line.
    file.set_len(fs::metadata(&path).unwrap().len() - 7)
        .unwrap();
    bench.advance(CHECK_INTERVAL);
    bench.append(&[life("a", 4)]);
    assert_eq!(
        bench.notices(),
        [LogNoticeKind::Disturbed, LogNoticeKind::Disturbed]
    );
    let tail = read_tail(&path, u64::MAX).unwrap();
    assert_eq!(
        tail.iter().filter_map(|line| line.seq).collect::<Vec<_>>(),
        [4]
    );
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 4);

    // Truncated between two checks: the next lines follow the cut, then the header reports it.
    file.set_len(0).unwrap();
    bench.append(&[life("a", 5)]);
    bench.advance(CHECK_INTERVAL);
    bench.append(&[life("a", 6)]);
    let found = lines(&path);
    assert_eq!(
        (accounted(&found, 5), first_seqs(&found)),
        ((vec![], 7), vec![6])
    );
    assert_eq!(bench.notices(), [LogNoticeKind::Disturbed]);
}
