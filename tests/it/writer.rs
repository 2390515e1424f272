//! The log on real files: its content after reopening, full disks, and changes by other programs.

mod faults;

pub use faults::SmallDisk;
mod runs;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use td_observe::history::{DataDir, LogReader, Query, RunInfo, RunState, SyncPolicy, TmuxIdentity};
use td_observe::internals::history::LogNoticeKind;
use td_observe::internals::history::{Repair, RunIndex, open_run, parse_line, read_tail};
use td_observe::{Envelope, ExecutionId, FakeClock, TdEvent, Timestamp};

use crate::bench::Bench;

/// The interval at which the writer checks the file that it writes to.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Returns a directory in memory if possible: some tests create hundreds of runs, and each waits
/// for the disk when its metadata are written.
fn fast_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn text(id: &str, seq: u64, bytes: usize) -> Envelope {
    let token = "x".repeat(bytes);
    let event = TdEvent::token_received(id, 1, &token);
    Envelope::new(Some(seq), FakeClock::new().clock().wall(), event)
}

fn life(id: &str, seq: u64) -> Envelope {
    let event = TdEvent::iteration_started(id, seq as u32);
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
        let open = open_run(&run, RunInfo::default(), wall).unwrap();
        let next = open.next_seq();
        let ended = cut == 0 || all[cut - 1] == b'\n';
        let whole = all[..cut].iter().filter(|&&byte| byte == b'\n').count() as u64;
        let open_repair = open.repair();
        assert_eq!(open_repair == Repair::Whole, ended, "cut at {cut}");
        bench.log.attach(open, bench.now());
        bench.append(&[life("a", next), text("a", next + 1, 5)]);
        // Who follows the file has read what was cut off, so the log goes on in another one.
        let newest = lines(&run.events_path());
        let is_new = matches!(open_repair, Repair::Cut { .. }) || cut == 0;
        assert_eq!(newest.len() == 3, is_new, "cut at {cut}: {newest:?}");
        let all = LogReader::open(&run, Query::all()).unwrap();
        let all: Vec<Envelope> = all.map(|record| record.envelope).collect();
        assert_eq!(accounted(&all, 1), (vec![], next + 2), "cut at {cut}");
        assert!(next >= whole.max(1), "cut at {cut}: {next}");
    }
}

#[test]
fn a_second_writer_learns_the_pid_of_the_first() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(temp.path());
    bench.open("a");
    let other = DataDir::new(temp.path()).run(&"a".into());
    let open = || open_run(&other, RunInfo::default(), FakeClock::new().clock().wall());
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
    let open = || open_run(&run, RunInfo::default(), FakeClock::new().clock().wall());
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
        open_run(&data.run(&"a".into()), RunInfo::default(), wall)
            .unwrap_err()
            .is_invalid_input()
    );
    for name in ["events.jsonl", "lock"] {
        let run = data.run(&name.into());
        fs::create_dir(run.path()).unwrap();
        symlink(&secret, run.path().join(name)).unwrap();
        assert!(open_run(&run, RunInfo::default(), wall).is_err(), "{name}");
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
