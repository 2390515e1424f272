//! Any bytes as an `events.jsonl`: its tail can be read, the run opens, and no whole line is lost.

use std::fs;

use td_observe::Timestamp;
use td_observe::history::{DataDir, RunInfo};
use td_observe::internals::history::{Repair, open_run, read_tail};

pub fn run(bytes: &[u8]) {
    let temp = tempfile::tempdir().unwrap();
    let data = DataDir::new(temp.path());
    data.prepare().unwrap();
    let run = data.run(&"fuzz".into());
    fs::create_dir_all(run.path()).unwrap();
    let path = run.events_path();
    fs::write(&path, bytes).unwrap();

    let before = read_tail(&path, u64::MAX).unwrap();
    for bytes_max in [0, 1, bytes.len() as u64 / 2, bytes.len() as u64] {
        let tail = read_tail(&path, bytes_max).unwrap();
        assert!(
            before.ends_with(&tail),
            "the last {bytes_max} bytes hold other events"
        );
    }

    let open = || open_run(&run, RunInfo::default(), Timestamp::default()).unwrap();
    let opened = open();
    // What was read past a cut is no longer appended to.
    let closed = run.path().join("events.000001.jsonl");
    let kept = if closed.exists() { closed } else { path };
    let after = fs::read(&kept).unwrap();
    match opened.repair() {
        Repair::Whole => assert_eq!(after, bytes),
        Repair::Completed => assert_eq!(after, [bytes, b"\n"].concat()),
        Repair::Cut { bytes: cut } => assert_eq!(after, bytes[..bytes.len() - cut as usize]),
        Repair::Failed => panic!("the disk is not full"),
    }
    assert!(after.is_empty() || after.ends_with(b"\n"));
    assert_eq!(
        read_tail(&kept, u64::MAX).unwrap(),
        before,
        "repairing lost an event"
    );
    let next = opened.next_seq();
    assert!(next >= 1);
    drop(opened);

    let opened = open();
    assert_eq!(opened.repair(), Repair::Whole);
    assert!(
        opened.next_seq() >= next,
        "{} after {next}",
        opened.next_seq()
    );
}
