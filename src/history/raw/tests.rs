//! The queue's patience, and what the files hold.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Mutex;
use std::time::Duration;

use super::queue::{Message, QUEUE_BYTES_MAX, Taken};
use super::*;
use crate::clock::FakeClock;
use crate::history::{DataDir, OpenRun, RunInfo};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + millis * 1000)
}

fn open(path: &std::path::Path) -> OpenRun {
    let run = DataDir::new(path).run(&"job".into());
    run.open(RunInfo::default(), at(0)).unwrap()
}

/// A recorder, and what it says.
fn recorder(rules: Rules) -> (RawRecorder, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&said);
    let say = move |id: &ExecutionId, what: &str| {
        into.lock().unwrap().push(format!("{id}: {what}"));
    };
    let recorder = RawRecorder::start(rules, Clock::system(), say).unwrap();
    (recorder, said)
}

fn finish(recorder: RawRecorder) -> RawReport {
    recorder.finish(Clock::system().now() + Duration::from_secs(20))
}

/// The events of a tape, without their times.
fn events(file: &RawFile) -> Vec<(char, String)> {
    let text = fs::read_to_string(&file.path).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    let lines = text.lines().skip(1);
    lines
        .map(|line| {
            let (_, code, data): (f64, char, String) = serde_json::from_str(line).unwrap();
            (code, data)
        })
        .collect()
}

fn event(code: char, data: &str) -> (char, String) {
    (code, data.to_owned())
}

#[test]
fn panes_have_tapes_and_those_who_go_on_have_more() {
    let temp = tempfile::tempdir().unwrap();
    let run = open(temp.path());
    let (one, other) = (PaneId::from("%3"), PaneId::from("%10"));
    for turn in 0..2 {
        let (recorder, said) = recorder(Rules::none());
        let tapes = recorder.tapes(run.directory(), Some("job".to_owned()));
        tapes.begin(&one, (80, 24), b"screen", at(0));
        assert!(tapes.bytes(&one, b"a\xe6", at(1000)));
        tapes.bytes(&other, b"without a beginning\r\n", at(1001));
        tapes.bytes(&one, b"\x97\xa5\r\n", at(1002));
        tapes.resized(&one, (90, 30), at(2000));
        tapes.dropped(&one, 70, 2, at(3000));
        tapes.ended(&one, Some(turn), at(4000));
        // Another program in the same pane.
        tapes.begin(&one, (90, 30), b"", at(5000));
        drop(tapes);
        let report = finish(recorder);
        assert_eq!(
            (&report.lost, report.is_left, &report.panicked),
            (&vec![], false, &None)
        );
        assert_eq!(*said.lock().unwrap(), [""; 0]);
    }
    let files = run.directory().raw_files().unwrap();
    let names: Vec<_> = files
        .iter()
        .map(|file| file.path.file_name().unwrap().to_str().unwrap())
        .collect();
    let expected = [
        "%2510.cast",
        "%2510.2.cast",
        "%253.cast",
        "%253.2.cast",
        "%253.3.cast",
        "%253.4.cast",
    ];
    assert_eq!(names, expected);
    let expected = [
        event('o', "screen"),
        event('o', "a\u{65e5}\r\n"),
        event('r', "90x30"),
        event('m', "70 bytes are missing here, 2 line ends among them"),
        event('x', "0"),
    ];
    assert_eq!(events(&files[2]), expected);
    assert_eq!(events(&files[0]), [event('o', "without a beginning\r\n")]);
    assert_eq!(events(&files[3]), []);
    let header = fs::read_to_string(&files[2].path).unwrap();
    assert!(
        header.starts_with(
            r#"{"version":3,"term":{"cols":80,"rows":24},"timestamp":1700000000,"title":"job %3"}"#
        ),
        "{header}"
    );
    // Ours alone; and counted, and removed with the run.
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&files[0].path), 0o600);
    assert_eq!(mode(files[0].path.parent().unwrap()), 0o700);
    let data = DataDir::new(temp.path());
    let bytes: u64 = files
        .iter()
        .map(|file| file.path.metadata().unwrap().len())
        .sum();
    drop(run);
    let list = data.runs(at(9000)).unwrap();
    assert!(list.runs[0].size_bytes > bytes, "{:?}", list.runs[0]);
    let nothing = crate::history::Retention {
        runs_max: Some(0),
        ..Default::default()
    };
    assert_eq!(data.prune(nothing, at(9000)).unwrap().runs.len(), 1);
    assert!(!files[0].path.exists());
}

#[test]
fn a_link_in_the_place_of_the_directory_is_not_followed_and_holds_nobody_up() {
    let temp = tempfile::tempdir().unwrap();
    let run = open(temp.path());
    let elsewhere = temp.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, run.path().join("raw")).unwrap();
    let (recorder, said) = recorder(Rules::none());
    let tapes = recorder.tapes(run.directory(), None);
    let pane = PaneId::from("%1");
    tapes.begin(&pane, (80, 24), b"", at(0));
    for n in 0..1000 {
        tapes.bytes(&pane, &[b'x'; 100_000], at(n));
    }
    drop(tapes);
    let report = finish(recorder);
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert_eq!(said.lock().unwrap().len(), 1, "{said:?}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn many_panes_share_few_files() {
    let temp = tempfile::tempdir().unwrap();
    let run = open(temp.path());
    let (recorder, said) = recorder(Rules::none());
    let tapes = recorder.tapes(run.directory(), None);
    let panes: Vec<PaneId> = (0..150).map(|n| format!("%{n}").into()).collect();
    for round in 0..3 {
        for pane in &panes {
            tapes.bytes(pane, format!("{round}").as_bytes(), at(round * 1000));
        }
    }
    drop(tapes);
    assert_eq!(finish(recorder).lost, []);
    assert_eq!(*said.lock().unwrap(), [""; 0]);
    let files = run.directory().raw_files().unwrap();
    assert_eq!(files.len(), 150);
    for file in files {
        let text: String = events(&file).into_iter().map(|(_, data)| data).collect();
        assert_eq!(text, "012");
    }
}

#[test]
fn a_disk_that_stands_still_is_waited_for_once_and_what_has_no_room_is_counted() {
    let temp = tempfile::tempdir().unwrap();
    let run = open(temp.path());
    let fake = FakeClock::new();
    let queue = Arc::new(Queue::new(fake.clock()));
    let tapes = Arc::new(Run {
        number: queue.next_run(),
        directory: run.directory().clone(),
        title: None,
    });
    let pane = PaneId::from("%1");
    let piece = vec![b'\n'; QUEUE_BYTES_MAX / 4];
    let give = |queue: &Queue| queue.give(&tapes, &pane, What::Bytes(piece.clone()), at(0));
    for _ in 0..3 {
        assert!(give(&queue));
    }
    // Nobody takes anything: the next one waits, until five seconds have gone by.
    let (filling, pane_of_it, run_of_it) = (Arc::clone(&queue), pane.clone(), Arc::clone(&tapes));
    let bytes = piece.clone();
    let waiting = thread::spawn("td-test", move || {
        filling.give(&run_of_it, &pane_of_it, What::Bytes(bytes), at(1))
    })
    .unwrap();
    let ceiling = Clock::system().now() + Duration::from_secs(20);
    while !waiting.is_finished() {
        assert!(Clock::system().now() < ceiling, "it waits for ever");
        fake.advance(Duration::from_millis(500));
        thread::park(Some(Duration::from_millis(5)));
    }
    assert!(!waiting.join().unwrap());
    // From now on at once; what is no output has room.
    assert!(!give(&queue));
    assert!(queue.give(&tapes, &pane, What::Resized((9, 9)), at(2)));
    assert!(!give(&queue));
    let mut what = Vec::new();
    loop {
        match queue.take(Some(Duration::ZERO)) {
            Taken::Batch(messages, bytes) => {
                what.extend(messages);
                queue.done(bytes);
            }
            Taken::Idle => break,
            Taken::Closed => panic!("it is open"),
        }
    }
    let lost: Vec<String> = what[3..]
        .iter()
        .map(|message| match message {
            Message::Pane {
                what: What::Missing(missing),
                ..
            } => missing.bytes.to_string(),
            Message::Pane {
                what: What::Resized(size),
                ..
            } => format!("{size:?}"),
            other => panic!("{other:?}"),
        })
        .collect();
    let piece_bytes = piece.len();
    let expected = [
        (2 * piece_bytes).to_string(),
        "(9, 9)".to_owned(),
        piece_bytes.to_string(),
    ];
    assert_eq!(lost, expected);
    // There is room again.
    assert!(give(&queue));
    queue.hurry();
}
