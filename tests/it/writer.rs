//! The log on real files: its content after reopening, full disks, and changes by other programs.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use td_observe::history::{
    DataDir, LogNoticeKind, LogReader, Query, Repair, RunIndex, RunInfo, RunState, SyncPolicy,
    TmuxIdentity, parse_line, read_tail,
};
use td_observe::{Envelope, ExecutionId, FakeClock, TdEvent, Timestamp};

use crate::bench::Bench;

/// The interval at which the writer checks the file that it writes to.
const LOOK: Duration = Duration::from_millis(1);

/// Returns a directory in memory if possible: some tests create hundreds of runs, and each waits
/// for the disk when its metadata are written.
fn fast_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn text(id: &str, seq: u64, bytes: usize) -> Envelope {
    let token = "x".repeat(bytes);
    let event = TdEvent::TokenReceived {
        execution_id: id.into(),
        iteration: 1,
        token,
        pane: None,
    };
    Envelope::new(Some(seq), FakeClock::new().clock().wall(), event)
}

fn life(id: &str, seq: u64) -> Envelope {
    let event = TdEvent::IterationStarted {
        execution_id: id.into(),
        iteration: seq as u32,
    };
    Envelope::new(Some(seq), FakeClock::new().clock().wall(), event)
}

/// Returns every line of a log, each of which must be whole.
#[track_caller]
fn lines(path: &Path) -> Vec<Envelope> {
    let content = fs::read_to_string(path).unwrap();
    assert!(
        content.is_empty() || content.ends_with('\n'),
        "torn: {content:.300}"
    );
    content
        .lines()
        .map(|line| parse_line(line.as_bytes()).expect(line))
        .collect()
}

/// Checks that each number from `first` on occurs once and in order, as an event or in a gap.
/// Returns the gaps and the number after the last.
#[track_caller]
fn accounted(lines: &[Envelope], first: u64) -> (Vec<(u64, u64)>, u64) {
    let (mut gaps, mut next) = (Vec::new(), first);
    for line in lines {
        match &line.event {
            TdEvent::LogOpened { .. } => assert_eq!(line.seq, Some(0)),
            TdEvent::LogGap {
                first_seq,
                last_seq,
                ..
            } => {
                assert_eq!((*first_seq, line.seq), (next, Some(*last_seq)));
                gaps.push((*first_seq, *last_seq));
                next = last_seq + 1;
            }
            _ => {
                assert_eq!(line.seq, Some(next));
                next += 1;
            }
        }
    }
    (gaps, next)
}

fn first_seqs(lines: &[Envelope]) -> Vec<u64> {
    lines
        .iter()
        .filter_map(|line| match line.event {
            TdEvent::LogOpened { first_seq, .. } => Some(first_seq),
            _ => None,
        })
        .collect()
}

#[test]
fn numbers_continue_when_a_run_is_reopened() {
    let temp = tempfile::tempdir().unwrap();
    let mut seq = 0;
    for round in 0..3 {
        let mut bench = Bench::new(temp.path());
        let next = bench.open("job@1");
        assert_eq!(next, seq + 1);
        for _ in 0..5 {
            let batch: Vec<_> = (0..7)
                .map(|_| {
                    seq += 1;
                    text("job@1", seq, 10)
                })
                .collect();
            bench.append(&batch);
        }
        if round == 1 {
            bench
                .log
                .close_run("job@1", RunState::Completed, Some(3), bench.now());
        }
        let run = bench.run("job@1");
        let report = bench.log.finish(bench.fake.clock().now());
        assert!(
            report.lost.is_empty() && report.problems.is_empty(),
            "{report:?}"
        );
        let metadata = run.metadata().unwrap().unwrap();
        assert_eq!(metadata.next_seq, Some(seq + 1));
        let expected = if round == 1 {
            RunState::Completed
        } else {
            RunState::Detached
        };
        assert_eq!((metadata.state, metadata.kind.as_str()), (expected, "test"));
    }
    let path = DataDir::new(temp.path()).run(&"job@1".into()).events_path();
    let lines = lines(&path);
    assert_eq!(accounted(&lines, 1), (vec![], 106));
    assert_eq!(first_seqs(&lines), [1, 36, 71]);
    assert_eq!(read_tail(&path, u64::MAX).unwrap().len(), 105);
}

#[test]
fn files_are_private() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(&temp.path().join("new"));
    bench.open("a");
    let run = bench.run("a");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    for dir in [
        temp.path().join("new"),
        temp.path().join("new/runs"),
        run.path().to_owned(),
    ] {
        assert_eq!(mode(&dir), 0o700, "{dir:?}");
    }
    for file in [
        run.events_path(),
        run.metadata_path(),
        run.path().join("lock"),
    ] {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
}

#[test]
fn a_kill_at_any_byte_loses_no_whole_line() {
    let temp = fast_dir();
    let mut bench = Bench::synced(temp.path(), SyncPolicy::Never);
    bench.open("a");
    bench.append(&[life("a", 1), text("a", 2, 40), text("a", 3, 10)]);
    let path = bench.run("a").events_path();
    let all = fs::read(&path).unwrap();
    // The state after a kill: the metadata have no final state.
    let metadata = fs::read(bench.run("a").metadata_path()).unwrap();
    drop(bench);
    for cut in 0..=all.len() {
        let temp = fast_dir();
        let mut bench = Bench::synced(temp.path(), SyncPolicy::Never);
        let run = bench.run("a");
        fs::create_dir_all(run.path()).unwrap();
        fs::write(run.events_path(), &all[..cut]).unwrap();
        fs::write(run.metadata_path(), &metadata).unwrap();
        let wall = bench.fake.clock().wall();
        let open = run.open(RunInfo::default(), wall).unwrap();
        let next = open.next_seq();
        let ended = cut == 0 || all[cut - 1] == b'\n';
        assert_eq!(open.repair() == Repair::Whole, ended, "cut at {cut}");
        bench.log.attach(open, bench.now());
        bench.append(&[life("a", next), text("a", next + 1, 5)]);
        let lines = lines(&run.events_path());
        assert_eq!(accounted(&lines, 1), (vec![], next + 2), "cut at {cut}");
        let whole = all[..cut].iter().filter(|&&byte| byte == b'\n').count() as u64;
        assert!(next >= whole.max(1), "cut at {cut}: {next}");
    }
}

#[test]
fn a_second_writer_learns_the_pid_of_the_first() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(temp.path());
    bench.open("a");
    let other = DataDir::new(temp.path()).run(&"a".into());
    let open = || other.open(RunInfo::default(), FakeClock::new().clock().wall());
    let error = open().unwrap_err();
    assert!(error.is_locked());
    assert!(
        error.to_string().contains(&std::process::id().to_string()),
        "{error}"
    );
    bench
        .log
        .close_run("a", RunState::Completed, None, bench.now());
    let _ = bench.log.finish(bench.fake.clock().now());
    assert!(open().is_ok());
}

#[test]
fn a_lock_ends_with_its_process() {
    // The other process is `flock` of util-linux, which takes the same kind of lock.
    let temp = tempfile::tempdir().unwrap();
    let data = DataDir::new(temp.path());
    let run = data.run(&"a".into());
    fs::create_dir_all(run.path()).unwrap();
    let lock = run.path().join("lock");
    let script = "echo $$ > \"$0\"; echo ready; read _";
    let mut child = Command::new("flock")
        .arg("-n")
        .arg(&lock)
        .args(["sh", "-c", script])
        .arg(&lock)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let open = || run.open(RunInfo::default(), FakeClock::new().clock().wall());
    let error = open().unwrap_err();
    let pid = fs::read_to_string(&lock).unwrap();
    assert!(error.is_locked());
    assert!(
        error
            .to_string()
            .contains(&format!("process {} ", pid.trim())),
        "{error}"
    );
    // Its two processes both hold the lock: the shell ends when its input is closed.
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(open().is_ok());
}

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
            // A panic here would hide the one that failed the test.
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
    let run = elsewhere
        .open(RunInfo::default(), bench.fake.clock().wall())
        .unwrap();
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
    assert!(report.lost.is_empty(), "{report:?}");
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
    // Removed at this moment, the line goes where the lines before it went; the next header shows
    // that.
    bench.append(&[life("a", 3)]);
    bench.advance(LOOK);
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
        other
            .open(RunInfo::default(), bench.fake.clock().wall())
            .unwrap_err()
            .is_locked()
    );

    // The whole directory is moved: the open file moves along, so only the path shows it.
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
    bench.advance(LOOK);
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
    bench.advance(LOOK);
    bench.append(&[life("a", 3)]);
    let found = lines(&path);
    assert_eq!(
        (accounted(&found, 3), first_seqs(&found)),
        ((vec![], 4), vec![3])
    );
    // Truncated within a line: the next one begins on a new line.
    file.set_len(fs::metadata(&path).unwrap().len() - 7)
        .unwrap();
    bench.advance(LOOK);
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
    bench.advance(LOOK);
    bench.append(&[life("a", 6)]);
    let found = lines(&path);
    assert_eq!(
        (accounted(&found, 5), first_seqs(&found)),
        ((vec![], 7), vec![6])
    );
    assert_eq!(bench.notices(), [LogNoticeKind::Disturbed]);
}

#[test]
fn hostile_ids_stay_in_their_directories() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("data");
    let long = "x".repeat(5000);
    let ids = [
        "",
        ".",
        "..",
        "../../escape",
        "/etc",
        "a\0b",
        "a\nb",
        &long,
        "%2E",
        "日本 語@1:2",
        "~",
    ];
    let mut bench = Bench::new(&root);
    for id in ids {
        assert_eq!(bench.open(id), 1, "{id:?}");
        bench.append(&[life(id, 1)]);
    }
    assert_eq!(fs::read_dir(root.join("runs")).unwrap().count(), ids.len());
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    for id in ids {
        let found = lines(&bench.run(id).events_path());
        assert_eq!((found.len(), found[1].event.execution_id()), (2, id));
    }
}

#[test]
fn symbolic_links_are_not_followed() {
    let temp = tempfile::tempdir().unwrap();
    let secret = temp.path().join("secret");
    fs::write(&secret, "mine\n").unwrap();
    fs::create_dir(temp.path().join("elsewhere")).unwrap();
    let data = DataDir::new(temp.path());
    data.prepare().unwrap();
    let wall = FakeClock::new().clock().wall();
    symlink(temp.path().join("elsewhere"), data.runs_path().join("a")).unwrap();
    assert!(
        data.run(&"a".into())
            .open(RunInfo::default(), wall)
            .unwrap_err()
            .is_invalid_input()
    );
    for name in ["events.jsonl", "lock"] {
        let run = data.run(&name.into());
        fs::create_dir(run.path()).unwrap();
        symlink(&secret, run.path().join(name)).unwrap();
        assert!(run.open(RunInfo::default(), wall).is_err(), "{name}");
    }
    assert_eq!(
        fs::read_dir(temp.path().join("elsewhere")).unwrap().count(),
        0
    );
    assert_eq!(fs::read_to_string(secret).unwrap(), "mine\n");
}

#[test]
fn events_without_a_number_or_a_run_are_not_written() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(temp.path());
    bench.open("a");
    let mut live = text("a", 9, 3);
    live.seq = None;
    for seq in 1..=3 {
        bench.append(&[life("b", seq), live.clone(), life("a", seq), life("c", seq)]);
    }
    assert_eq!(
        bench.notices(),
        [LogNoticeKind::NotKept, LogNoticeKind::NotKept]
    );
    assert_eq!(
        accounted(&lines(&bench.run("a").events_path()), 1),
        (vec![], 4)
    );
    let report = bench.log.finish(bench.fake.clock().now());
    assert_eq!(report.not_kept, 6);
}

#[test]
fn more_runs_than_open_files_are_written() {
    let temp = fast_dir();
    let mut bench = Bench::new(temp.path());
    let ids: Vec<String> = (0..150).map(|n| format!("job-{n}")).collect();
    for id in &ids {
        bench.open(id);
    }
    let open = || {
        let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let ours = |path: PathBuf| path.starts_with(temp.path()) && path.ends_with("events.jsonl");
        links
            .filter_map(|link| fs::read_link(link.path()).ok())
            .filter(|p| ours(p.clone()))
            .count()
    };
    for seq in 1..=3 {
        let batch: Vec<_> = ids.iter().map(|id| life(id, seq)).collect();
        bench.append(&batch);
        bench.advance(Duration::from_secs(1));
        assert!(open() <= 96 + 64, "{}", open());
    }
    assert_eq!(bench.notices(), []);
    for id in &ids {
        let found = lines(&bench.run(id).events_path());
        assert_eq!(
            (accounted(&found, 1), first_seqs(&found)),
            ((vec![], 4), vec![1])
        );
    }
    // More ends at once than td-sync has room for.
    for id in &ids {
        bench
            .log
            .close_run(id, RunState::Failed, Some(7), bench.fake.clock().now());
        assert!(!bench.log.is_attached(id));
    }
    let data = bench.data.clone();
    let report = bench.log.finish(bench.fake.clock().now());
    assert!(
        report.problems.is_empty() && report.lost.is_empty(),
        "{report:?}"
    );
    for id in &ids {
        let metadata = data.run(&id.as_str().into()).metadata().unwrap().unwrap();
        assert_eq!(
            (metadata.state, metadata.exit_status),
            (RunState::Failed, Some(7))
        );
    }
}

#[test]
fn every_sync_policy_ends_and_returns_a_deadline() {
    for (policy, deadline) in [
        (SyncPolicy::Never, None),
        (SyncPolicy::Always, None),
        (SyncPolicy::default(), Some(Duration::from_secs(1))),
    ] {
        let temp = tempfile::tempdir().unwrap();
        let mut bench = Bench::synced(temp.path(), policy);
        bench.open("a");
        for seq in 1..=20 {
            bench.append(&[life("a", seq)]);
        }
        let due = bench.log.tick(bench.now());
        assert_eq!(due, deadline.map(|after| bench.now() + after), "{policy:?}");
        bench.advance(Duration::from_secs(1));
        // Nothing new and no deadline: an idle log costs nothing.
        assert_eq!(bench.log.tick(bench.now()), None, "{policy:?}");
        let report = bench.log.finish(bench.fake.clock().now());
        assert!(report.problems.is_empty(), "{report:?}");
    }
}

#[test]
fn unknown_data_are_kept_and_old_logs_continue() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(temp.path());
    let run = bench.run("abc123");
    fs::create_dir_all(run.path()).unwrap();
    let seed = concat!(
        r#"{"ts":"2026-01-21T10:00:00Z","event":{"type":"LoopStarted","execution_id":"abc123","loop_type":"Phase","task":"Add auth"}}"#,
        "\n",
        r#"{"ts":"2026-01-21T10:00:01Z","event":{"type":"IterationStarted","execution_id":"abc123","iteration":1}}"#,
        "\n"
    );
    fs::write(run.events_path(), seed).unwrap();
    assert_eq!(bench.open("abc123"), 1);
    let future = r#"{"seq":1,"ts":"2026-01-21T10:00:02.000000Z","event":{"type":"FromTheFuture","execution_id":"abc123","x":[1]},"trace":"t"}"#;
    bench.append(&[parse_line(future.as_bytes()).unwrap()]);
    let content = fs::read_to_string(run.events_path()).unwrap();
    assert!(
        content.starts_with(seed) && content.ends_with(&format!("{future}\n")),
        "{content}"
    );
    let tail = read_tail(&run.events_path(), 1 << 20).unwrap();
    assert!(matches!(&tail[0].event,
        TdEvent::LoopStarted { task_description, .. } if task_description == "Add auth"));
    assert_eq!(tail.len(), 3);
}

fn identity(session: u32) -> TmuxIdentity {
    TmuxIdentity {
        socket: "/tmp/tmux-0/default".into(),
        server_pid: 4711,
        server_started: 1_768_989_600,
        session_id: format!("${session}"),
        session_created: 1_768_989_601,
    }
}

#[test]
fn a_session_finds_its_run_after_a_rename() {
    let temp = tempfile::tempdir().unwrap();
    let data = DataDir::new(temp.path());
    let wall = FakeClock::new().clock().wall();
    let info = |session: u32| RunInfo {
        identity: Some(identity(session)),
        ..RunInfo::default()
    };
    let mut index = RunIndex::scan(&data);
    let open = |index: &mut RunIndex, label: &str, session: u32| -> (ExecutionId, bool) {
        let run = index.open_run(&data, label, info(session), wall).unwrap();
        (run.execution_id().clone(), run.is_resumed())
    };
    assert_eq!(open(&mut index, "job@1", 1), ("job@1".into(), false));
    // The same label, but another session.
    assert_eq!(open(&mut index, "job@1", 2), ("job@1-2".into(), false));
    // The earlier session under another name; and after a restart, found by a new scan.
    assert_eq!(open(&mut index, "renamed@1", 1), ("job@1".into(), true));
    let bad = data.run(&"bad".into());
    fs::create_dir(bad.path()).unwrap();
    fs::write(bad.metadata_path(), "{\"execution_id\":").unwrap();
    let mut index = RunIndex::scan(&data);
    assert_eq!(index.warnings().len(), 1, "{:?}", index.warnings());
    assert_eq!(open(&mut index, "renamed@1", 2), ("job@1-2".into(), true));
    assert_eq!(data.find_run(&identity(2)).unwrap().execution_id, "job@1-2");
    assert!(data.find_run(&identity(3)).is_none());
    // An index that is older than the run finds it by its label.
    let mut old = RunIndex::default();
    assert_eq!(open(&mut old, "job@1", 2), ("job@1-2".into(), true));
    // A second observer of the same session is refused instead of getting another run.
    let held = index.open_run(&data, "job@1", info(1), wall).unwrap();
    assert!(
        old.open_run(&data, "job@1", info(1), wall)
            .unwrap_err()
            .is_locked()
    );
    drop(held);
}

#[test]
fn an_unwritable_data_directory_is_an_error_at_once() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "").unwrap();
    let error = DataDir::new(file.join("data")).prepare().unwrap_err();
    assert!(error.path().is_some(), "{error:?}");
}

#[test]
fn a_clock_that_is_set_back_is_reported_once() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(temp.path());
    bench.open("a");
    let at = |seq: u64, second: i64| {
        let event = TdEvent::IterationStarted {
            execution_id: "a".into(),
            iteration: 1,
        };
        Envelope::new(Some(seq), Timestamp::from_micros(second * 1_000_000), event)
    };
    // Events of two threads may be out of order, but not by an hour.
    bench.append(&[
        at(1, 10_000),
        at(2, 10_001),
        at(3, 10_000),
        at(4, 6_400),
        at(5, 6_401),
    ]);
    bench.append(&[at(6, 1)]);
    assert_eq!(bench.notices(), [LogNoticeKind::ClockWentBack]);
    let now = bench.now();
    assert!(bench.log.finish(now).lost.is_empty());
    let run = bench.data.run(&"a".into());
    let read = LogReader::open(&run, Query::all()).unwrap();
    let seqs: Vec<u64> = read.filter_map(|record| record.envelope.seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6]);
}
