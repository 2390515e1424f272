//! Large outputs: exact to the last byte, in order and in bounded memory, with slow readers, too.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};

use td_observe::{Envelope, TdEvent};

use super::program::{command, events, events_of};
use super::{end_of, kept, text_of, warnings};
use crate::cli::assert_code;
use crate::resources::peak_kb;
use crate::support::{CEILING, wait_for};

/// The most memory of the program with its log.
const MEMORY_KB: u64 = 100 * 1024;

/// The length of a line of 100 MB.
const LONG: usize = 100_000_000;

/// The length of a line that nobody reads.
const UNREAD: usize = 200_000_000;

/// The memory limit without a reader: 64 MiB wait for the reader, 32 MiB for the log (then the program
/// stops reading), and 24 MiB for the program itself.
const UNREAD_MEMORY_KB: u64 = (64 + 32 + 24) * 1024;

fn flood(data: &Path, script: &str) -> Child {
    let mut command = command(&["--json", "--", "sh", "-c", script], data);
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// Reads the output of the program to its end; returns its exit code, its peak memory and the output.
#[track_caller]
fn read(mut child: Child) -> (Option<i32>, u64, Vec<u8>) {
    let mut stdout = child.stdout.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let mut peak = 0;
    let status = wait_for("the program's end", CEILING, || {
        // The peak only grows; after the end it is not readable.
        peak = peak_kb(child.id()).unwrap_or(peak);
        child.try_wait().unwrap().ok_or(peak)
    });
    (status.code(), peak, reading.join().unwrap())
}

/// Returns the text that was shown live, and the number of missed events.
fn shown(events: &[Envelope]) -> (String, u64) {
    let missed = events.iter().filter_map(|envelope| match &envelope.event {
        TdEvent::Unknown(event) if event.type_name() == "Lagged" => {
            event.fields()["missed"].as_u64()
        }
        _ => None,
    });
    (text_of(events, "stdout"), missed.sum())
}

#[track_caller]
fn is_long_line(text: &str, length: usize) {
    let (line, rest) = text.split_at(length);
    assert!(line.bytes().all(|byte| byte == b'x'));
    assert_eq!(rest, "\u{fffd}\u{fffd}");
}

#[test]
fn a_line_of_100_mb_is_exact_in_little_memory() {
    let data = tempfile::tempdir().unwrap();
    let script = format!(r"head -c {LONG} /dev/zero | tr '\0' x; printf '\377\376'; exit 3");
    let (code, peak, stdout) = read(flood(data.path(), &script));
    assert_eq!(code, Some(3));
    assert!(peak > 1000 && peak < MEMORY_KB, "{peak} kB");
    let kept = kept(data.path());
    is_long_line(&text_of(&kept, "stdout"), LONG);
    assert_eq!(warnings(&kept).len(), 1, "{:?}", warnings(&kept));
    let (text, missed) = shown(&events(&stdout));
    if missed == 0 {
        is_long_line(&text, LONG);
    }
}

#[test]
fn without_a_reader_the_log_is_complete_and_memory_is_bounded() {
    let data = tempfile::tempdir().unwrap();
    let over = data.path().join("over");
    let script = format!(
        r"head -c {UNREAD} /dev/zero | tr '\0' x; printf '\377\376'; touch '{}'; exit 3",
        over.display()
    );
    let child = flood(data.path(), &script);
    wait_for("the command's end", CEILING, || {
        over.exists().then_some(()).ok_or("it prints")
    });
    let (code, peak, stdout) = read(child);
    assert_eq!(code, Some(3));
    assert!(peak > 1000 && peak < UNREAD_MEMORY_KB, "{peak} kB");
    let kept = kept(data.path());
    is_long_line(&text_of(&kept, "stdout"), UNREAD);
    let live = events(&stdout);
    let (text, missed) = shown(&live);
    assert!(missed > 0 && text.len() < UNREAD, "{missed}");
    let numbered = live
        .iter()
        .filter(|envelope| envelope.seq.is_some())
        .count();
    assert_eq!(numbered as u64 + missed, kept.len() as u64);
}

#[test]
fn the_console_prints_the_long_line() {
    let data = tempfile::tempdir().unwrap();
    let script = format!(r"head -c {LONG} /dev/zero | tr '\0' x; exit 3");
    let mut command = command(&["--", "sh", "-c", &script], data.path());
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let (code, peak, stdout) = read(child);
    assert_eq!(code, Some(3));
    assert!(peak < MEMORY_KB, "{peak} kB");
    let printed = stdout.iter().filter(|&&byte| byte == b'x').count();
    // A few are in the text around the line.
    assert!((LONG..LONG + 20).contains(&printed), "{printed}");
}

#[test]
fn two_million_lines_are_complete_and_in_order() {
    let data = tempfile::tempdir().unwrap();
    let (code, peak, stdout) = read(flood(data.path(), "seq 1 2000000"));
    assert_eq!(code, Some(0));
    assert!(peak < MEMORY_KB, "{peak} kB");
    let kept = kept(data.path());
    counts(&text_of(&kept, "stdout"), 1, 2_000_000);
    let live = events(&stdout);
    let (text, missed) = shown(&live);
    if missed == 0 {
        counts(&text, 1, 2_000_000);
        assert!(live == kept, "the same events");
    }
}

#[track_caller]
fn counts(text: &str, from: u64, to: u64) {
    let mut next = from;
    for line in text.split_terminator('\n') {
        assert_eq!(line.parse(), Ok(next));
        next += 1;
    }
    assert_eq!(next, to + 1);
    assert!(text.ends_with('\n'));
}

#[test]
fn two_flooding_streams_stay_in_order() {
    let data = tempfile::tempdir().unwrap();
    let script = "seq 1 200000 & seq 500001 700000 >&2; wait";
    let (output, live) = events_of(&[], script, data.path());
    assert_code(&output, 0);
    for events in [live, kept(data.path())] {
        counts(&text_of(&events, "stdout"), 1, 200_000);
        counts(&text_of(&events, "stderr"), 500_001, 700_000);
        assert_eq!(end_of(&events), (Some(0), None));
    }
}

/// One process writes to both streams in turn. The order is kept up to the capacity of a pipe.
#[test]
fn alternating_streams_stay_in_order() {
    let data = tempfile::tempdir().unwrap();
    let script =
        "for i in 1 2 3 4 5; do echo out $i; sleep 0.05; echo err $i >&2; sleep 0.05; done";
    let (output, events) = events_of(&[], script, data.path());
    assert_code(&output, 0);
    let texts = events.iter().filter_map(|envelope| match &envelope.event {
        TdEvent::ExecutionOutput { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let expected: String = (1..=5).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert_eq!(texts.collect::<String>(), expected);
}
