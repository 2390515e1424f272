//! Tests of the queue's waits and the content of the files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::files::RecordingFile;
use super::queue::{
    NextBatch, PaneInput, PaneMessage, QUEUE_BYTES_MAX, RecordedRun, RecordingMessage,
    RecordingQueue,
};
use super::raw::RecordingWriter;
use super::writer::RecordingReport;
use crate::clock::{Clock, FakeClock};
use crate::event::{ExecutionId, PaneId};
use crate::history::{DataDir, OpenRun, RunInfo};
use crate::redact::Rules;
use crate::thread;
use crate::timestamp::Timestamp;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + millis * 1000)
}

fn open(path: &std::path::Path) -> OpenRun {
    let run = DataDir::new(path).run(&"job".into());
    run.open(RunInfo::default(), at(0)).unwrap()
}

/// Returns a writer and its warnings.
fn writer(rules: Rules) -> (RecordingWriter, Arc<Mutex<Vec<String>>>) {
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&warnings);
    let on_warning = move |id: &ExecutionId, warning: &str| {
        log.lock().unwrap().push(format!("{id}: {warning}"));
    };
    let writer = RecordingWriter::new(rules, Clock::system(), on_warning);
    (writer, warnings)
}

fn finish(writer: RecordingWriter) -> RecordingReport {
    let deadline = Clock::system().now() + Duration::from_secs(20);
    writer.finish(deadline).unwrap()
}

/// Returns the events of a recording without their times.
fn events(file: &RecordingFile) -> Vec<(char, String)> {
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
fn each_begin_after_an_end_is_another_recording() {
    let temp = tempfile::tempdir().unwrap();
    let run = open(temp.path());
    let (one, other) = (PaneId::from("%3"), PaneId::from("%10"));
    for turn in 0..2 {
        let (writer, warnings) = writer(Rules::none());
        let recorder = writer.record(run.directory(), "job").unwrap();
        recorder.begin(&one, (80, 24), b"screen", at(0));
        assert!(recorder.bytes(&one, b"a\xe6", at(1000)));
        recorder.bytes(&other, b"without a beginning\r\n", at(1001));
        recorder.bytes(&one, b"\x97\xa5\r\n", at(1002));
        recorder.resized(&one, (90, 30), at(2000));
        recorder.dropped(&one, 70, 2, at(3000));
        recorder.ended(&one, Some(turn), at(4000));
        // Another program in the same pane.
        recorder.begin(&one, (90, 30), b"", at(5000));
        drop(recorder);
        let report = finish(writer);
        assert_eq!(
            (&report.lost, report.timed_out, &report.panicked),
            (&vec![], false, &None)
        );
        assert_eq!(*warnings.lock().unwrap(), [""; 0]);
    }
    let files = run.directory().recordings().unwrap();
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
    // Readable by the owner only, counted in the run's size, and removed with the run.
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
fn a_symbolic_link_as_directory_is_not_followed_and_blocks_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let run = open(temp.path());
    let elsewhere = temp.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, run.directory().path().join("raw")).unwrap();
    let (writer, warnings) = writer(Rules::none());
    let recorder = writer.record(run.directory(), "").unwrap();
    let pane = PaneId::from("%1");
    recorder.begin(&pane, (80, 24), b"", at(0));
    for n in 0..1000 {
        recorder.bytes(&pane, &[b'x'; 100_000], at(n));
    }
    drop(recorder);
    let report = finish(writer);
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert_eq!(warnings.lock().unwrap().len(), 1, "{warnings:?}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn many_panes_share_few_open_files() {
    let temp = tempfile::tempdir().unwrap();
    let run = open(temp.path());
    let (writer, warnings) = writer(Rules::none());
    let recorder = writer.record(run.directory(), "").unwrap();
    let panes: Vec<PaneId> = (0..150).map(|n| format!("%{n}").into()).collect();
    for round in 0..3 {
        for pane in &panes {
            recorder.bytes(pane, format!("{round}").as_bytes(), at(round * 1000));
        }
    }
    drop(recorder);
    assert_eq!(finish(writer).lost, []);
    assert_eq!(*warnings.lock().unwrap(), [""; 0]);
    let files = run.directory().recordings().unwrap();
    assert_eq!(files.len(), 150);
    for file in files {
        let text: String = events(&file).into_iter().map(|(_, data)| data).collect();
        assert_eq!(text, "012");
    }
}

#[test]
fn a_stalled_disk_is_waited_for_once_and_output_without_room_is_counted() {
    let temp = tempfile::tempdir().unwrap();
    let run = open(temp.path());
    let fake = FakeClock::new();
    let queue = Arc::new(RecordingQueue::new(fake.clock()));
    let run_of_pane = Arc::new(RecordedRun {
        number: queue.next_run(),
        directory: run.directory().clone(),
        title: None,
    });
    let pane = PaneId::from("%1");
    const PIECE_BYTES: usize = QUEUE_BYTES_MAX / 4;
    let message = |input, millis| PaneMessage {
        run: Arc::clone(&run_of_pane),
        pane: pane.clone(),
        input,
        at: at(millis),
    };
    let bytes = || PaneInput::Bytes(vec![b'\n'; PIECE_BYTES]);
    let push = |queue: &RecordingQueue| queue.push(message(bytes(), 0));
    for _ in 0..3 {
        assert!(push(&queue));
    }
    // Nothing is taken from the queue: the next push waits until five seconds have passed.
    let (full, next) = (Arc::clone(&queue), message(bytes(), 1));
    let waiting = thread::spawn("td-test", move || full.push(next)).unwrap();
    let ceiling = Clock::system().now() + Duration::from_secs(20);
    while !waiting.is_finished() {
        assert!(Clock::system().now() < ceiling, "the push waits forever");
        fake.advance(Duration::from_millis(500));
        thread::park(Some(Duration::from_millis(5)));
    }
    assert!(!waiting.join().unwrap());
    // The next push fails at once; a resize still has room.
    assert!(!push(&queue));
    assert!(queue.push(message(PaneInput::Resized((9, 9)), 2)));
    assert!(!push(&queue));
    let mut messages = Vec::new();
    loop {
        match queue.next_batch(Some(Duration::ZERO)) {
            NextBatch::Messages(batch, bytes) => {
                messages.extend(batch);
                queue.batch_done(bytes);
            }
            NextBatch::Idle => break,
            NextBatch::Closed => panic!("the queue is open"),
        }
    }
    let lost: Vec<String> = messages[3..]
        .iter()
        .map(|message| match message {
            RecordingMessage::Pane(PaneMessage {
                input: PaneInput::Missing(missing),
                ..
            }) => missing.bytes.to_string(),
            RecordingMessage::Pane(PaneMessage {
                input: PaneInput::Resized(size),
                ..
            }) => format!("{size:?}"),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        (2 * PIECE_BYTES).to_string(),
        "(9, 9)".to_owned(),
        PIECE_BYTES.to_string(),
    ];
    assert_eq!(lost, expected);
    // There is room again.
    assert!(push(&queue));
    queue.begin_shutdown();
}
