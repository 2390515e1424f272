//! A data directory on a disk that is full for a while: observation continues, losses are reported
//! once and counted, and the log continues when there is room.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use td_observe::TdEvent;
use td_observe::history::DataDir;

use super::{accounted, events_of, files, values};
use crate::cli::{Running, assert_code, on, program, run, text};
use crate::support::{CEILING, TmuxServer};
use crate::writer::SmallDisk;

/// More than can be pending in memory, as printed.
const FLOOD_BYTES: usize = 14 * 1024 * 1024;

#[test]
fn a_full_disk_stops_nothing_and_hides_nothing() {
    let server = TmuxServer::new();
    let data = server.directory().join("data");
    let Some(_disk) = SmallDisk::mount(&data, "size=3m") else {
        return;
    };
    // Wide lines, so that each capture contains many bytes.
    let line = "x".repeat(380);
    let flood = format!(
        "i=1; while :; do seq -f '%.0f {line}' $i $((i+99)); i=$((i+100)); sleep 0.01; done"
    );
    server.new_session("job", 400, 24, &flood);
    let socket = server.socket().display().to_string();
    let args = [
        "watch",
        "job",
        "--json",
        "--execution-id",
        "full",
        "--interval",
        "50ms",
    ];
    let watch = Running::start(program(&on(&socket, &args), &data));
    let mut seen = Vec::new();
    let mut until = |what: &str, done: &mut dyn FnMut(&str) -> bool| loop {
        let line = watch
            .lines
            .recv_timeout(CEILING)
            .unwrap_or_else(|why| panic!("{what}: {why}"));
        let is_done = done(&line);
        seen.push(line);
        if is_done {
            break;
        }
    };
    let about_log = |line: &str, kind: &str| {
        line.contains(&format!("\"type\":\"{kind}\"")) && line.contains("\"context\":\"log\"")
    };
    until("the disk to be full", &mut |line| about_log(line, "Error"));
    let mut bytes = 0;
    until("more than can wait", &mut |line| {
        bytes += line.len();
        bytes > FLOOD_BYTES
    });
    let more_room = Command::new("mount")
        .args(["-o", "remount,size=64m"])
        .arg(&data)
        .status();
    assert!(more_room.unwrap().success());
    until("the log to go on", &mut |line| about_log(line, "Warning"));
    let mut updates = 0;
    until("more of the pane", &mut |line| {
        updates += usize::from(line.contains("\"OutputUpdate\""));
        updates > 5
    });
    watch.signal(Signal::INT);
    let output = watch.end();
    assert_code(&output, 0);
    let stderr = text(&output.stderr);
    assert_eq!(stderr.matches("are kept in memory").count(), 1, "{stderr}");
    assert_eq!(stderr.matches("is written again").count(), 1, "{stderr}");

    // A live subscriber gets all lines.
    let shown: Vec<u64> = seen
        .iter()
        .map(String::as_str)
        .chain(text(&output.stdout).lines())
        .flat_map(|line| values(line.as_bytes()))
        .filter_map(|line| line["seq"].as_u64())
        .collect();
    assert_eq!(shown, (1..=shown.len() as u64).collect::<Vec<_>>());
    // The log has the same lines, except for the losses that it reports.
    let run_directory = DataDir::new(&data).run(&"full".into());
    let kept = events_of(&files(run_directory.path()));
    let next = accounted(kept.iter().map(|(event, _)| event), 1);
    assert_eq!(next, shown.len() as u64 + 1);
    let lost: BTreeSet<u64> = kept
        .iter()
        .filter_map(|(event, _)| match event.event {
            TdEvent::LogGap {
                first_seq,
                last_seq,
                ..
            } => Some(first_seq..=last_seq),
            _ => None,
        })
        .flatten()
        .collect();
    assert!(
        !lost.is_empty() && lost.len() < shown.len(),
        "{}",
        lost.len()
    );
    // The report of the loss contains the number.
    let counted = format!("is written again; {} events are missing", lost.len());
    assert!(stderr.contains(&counted), "{counted}: {stderr}");
    // So does the last line, with all losses of the run.
    let last = stderr.lines().last().unwrap_or_default();
    let summary = format!("{} events between ", lost.len());
    let is_named =
        last.contains(&summary) || last.contains(&format!("events {} to ", lost.first().unwrap()));
    assert!(is_named && last.contains("not in the log"), "{stderr}");
    let printed = run(&["log", "full", "--json"], &data);
    assert_eq!(values(&printed.stdout).len(), kept.len());
}

/// Writes to the file until the disk has this many free bytes.
#[track_caller]
fn leave(disk: &Path, free: u64) {
    let about = rustix::fs::statvfs(disk).unwrap();
    let bytes = about.f_bavail * about.f_frsize - free;
    fs::write(
        disk.join("filler"),
        vec![0; usize::try_from(bytes).unwrap()],
    )
    .unwrap();
}

/// Readers that come later see each loss that `run` has reported, however much room was left.
#[test]
fn a_log_that_a_full_disk_ended_says_so_to_each_reader() {
    let temp = tempfile::tempdir().unwrap();
    let disk = temp.path().join("disk");
    let Some(_disk) = SmallDisk::mount(&disk, "size=256k") else {
        return;
    };
    let (mut lossy, mut whole) = (0, 0);
    // The metadata have one block, nearly one, and two.
    for argument in [10, 3100, 3500, 5000] {
        for blocks in 0..9 {
            let case = format!("an argument of {argument} bytes, {blocks} blocks left");
            leave(&disk, blocks * 4096);
            let data = disk.join("data");
            let argument = "x".repeat(argument);
            let args = [
                "run",
                "--execution-id",
                "job",
                "--",
                "sh",
                "-c",
                "seq 800",
                &argument,
            ];
            let output = run(&args, &data);
            assert_code(&output, 0);
            let stderr = text(&output.stderr);
            let is_lossy = stderr.contains("not in the log");
            assert_eq!(stderr.is_empty(), !is_lossy, "{case}: {stderr}");
            for reader in [
                &["log", "job"][..],
                &["export", "job", "--format", "text"],
                &["runs", "--verify"],
                &["runs"],
            ] {
                let output = run(reader, &data);
                let (shown, said) = (text(&output.stdout), text(&output.stderr));
                let is_named = if reader == ["runs"] {
                    shown.contains("incomplete")
                } else {
                    said.contains("missing") || said.contains("the log is empty or was removed")
                };
                assert_eq!(is_named, is_lossy, "{case}, {reader:?}: {shown}{said}");
            }
            *(if is_lossy { &mut lossy } else { &mut whole }) += 1;
            fs::remove_dir_all(&data).unwrap();
            fs::remove_file(disk.join("filler")).unwrap();
        }
    }
    assert!(lossy > 12 && whole > 4, "{lossy} of {whole}");
}
