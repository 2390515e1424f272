//! Disks that are full, read-only or emptied by another program while a watch runs.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

use td_observe::{Envelope, TdEvent};

use super::{Counted, Counting, of_run, runs_of};
use crate::observed::{Observed, Replay, shown};
use crate::support::TmuxServer;
use crate::writer::SmallDisk;

/// A counting pane that is watched with a log on its own disk, if one can be mounted.
struct Job {
    observed: Observed,
    program: Counting,
    pane: String,
    data: PathBuf,
    disks: Vec<SmallDisk>,
    // The last field: disks in its directory are unmounted before it is removed.
    server: TmuxServer,
}

impl Job {
    /// Mounts a disk with these options. Returns `None` and prints a notice where nothing can be mounted.
    fn on_a_disk(options: &str) -> Option<Self> {
        let server = TmuxServer::new();
        let disk = SmallDisk::mount(&server.directory().join("data"), options)?;
        Some(Self::start(server, vec![disk]))
    }

    #[track_caller]
    fn start(server: TmuxServer, disks: Vec<SmallDisk>) -> Self {
        let data = server.directory().join("data");
        let program = Counting::new(&server, "program", "0.01");
        let pane = server.new_session("job", 60, 12, &program.command());
        let mut observed = Observed::all(&server);
        observed.until_started(1);
        Self {
            observed,
            program,
            pane,
            data,
            disks,
            server,
        }
    }

    /// Lets the program print some lines and waits until they are reported.
    #[track_caller]
    fn more(&mut self) {
        let printed = self.program.until_more(15);
        self.observed.until_line(&format!("line {printed}."));
    }

    /// Waits for an event about the log.
    #[track_caller]
    fn until_reported(&mut self, kind: &str, times: usize) {
        self.observed
            .until(&format!("{times} of {kind} about the log"), |seen| {
                count_reports(seen, kind) >= times
            });
    }

    /// Ends the program and the watch, checks that viewers received everything, and returns the losses
    /// that the log reports at its end.
    #[track_caller]
    fn end(&mut self) -> Vec<(u64, u64)> {
        self.program.end();
        self.observed.until_line("the end");
        let report = self.observed.stop();
        let counted = Counted::of(&self.observed.replay(&self.pane), &["the end"]);
        assert_eq!(counted.missing, [], "{}", shown(&self.observed.seen));
        assert_eq!(counted.settled.end, self.program.printed() + 1);
        let lost = report.log.unwrap().lost;
        lost.iter()
            .map(|lost| (lost.first_seq, lost.last_seq))
            .collect()
    }

    /// Returns all numbered events that viewers received, from this number on.
    fn shown(&self, from: u64) -> Vec<Envelope> {
        let numbered = |envelope: &&Envelope| envelope.seq.is_some_and(|seq| seq >= from);
        self.observed
            .seen
            .iter()
            .filter(numbered)
            .cloned()
            .collect()
    }

    /// Returns the directory of the only run.
    fn run(&self) -> PathBuf {
        let mut runs = fs::read_dir(self.data.join("runs")).unwrap();
        runs.next().unwrap().unwrap().path()
    }

    /// Returns the envelopes of the only run's file, without headers.
    #[track_caller]
    fn kept(&self) -> Vec<Envelope> {
        envelopes(&self.run().join("events.jsonl"))
    }
}

fn count_reports(seen: &[Envelope], kind: &str) -> usize {
    let about_log = |envelope: &&Envelope| match &envelope.event {
        TdEvent::Error { context, .. } | TdEvent::Warning { context, .. } => {
            context == "log" && envelope.event.type_name() == kind
        }
        _ => false,
    };
    seen.iter().filter(about_log).count()
}

#[track_caller]
fn envelopes(file: &Path) -> Vec<Envelope> {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "torn: {text:.300}");
    let read =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
    let all = text.lines().map(read);
    all.filter(|envelope: &Envelope| envelope.seq != Some(0))
        .collect()
}

/// Fills a disk to its last byte; removing the returned file makes room again.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("filler");
    let mut filler = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap();
    for chunk in [1 << 16, 1 << 12, 1] {
        while std::io::Write::write_all(&mut filler, &vec![b'x'; chunk]).is_ok() {}
    }
    path
}

#[test]
fn a_full_disk_blocks_nothing_and_the_log_is_complete_when_there_is_room_again() {
    let Some(mut job) = Job::on_a_disk("size=1m") else {
        return;
    };
    job.more();
    let filler = fill(&job.data);
    job.until_reported("Error", 1);
    for _ in 0..4 {
        job.more();
    }
    fs::remove_file(filler).unwrap();
    job.until_reported("Warning", 1);
    job.more();
    assert_eq!(job.end(), []);
    let seen = &job.observed.seen;
    assert_eq!(
        (count_reports(seen, "Error"), count_reports(seen, "Warning")),
        (1, 1),
        "said once"
    );
    // Few events were pending: none was dropped.
    assert_eq!(job.kept(), job.shown(1));
    drop((job.disks, job.server));
}

#[test]
fn a_disk_that_stays_full_is_reported_with_the_number_of_lost_events() {
    let Some(mut job) = Job::on_a_disk("size=1m") else {
        return;
    };
    job.more();
    fill(&job.data);
    job.until_reported("Error", 1);
    job.more();
    let lost = job.end();
    let kept = job.kept();
    let shown = job.shown(1);
    let next = kept.len() as u64 + 1;
    assert_eq!(kept, shown[..kept.len()]);
    assert_eq!(lost, [(next, shown.len() as u64)]);
    drop((job.disks, job.server));
}

#[test]
fn the_writer_waits_for_a_disk_that_becomes_read_only() {
    let Some(mut job) = Job::on_a_disk("size=4m") else {
        return;
    };
    job.more();
    // The new file cannot be written; the open file is hidden behind the mount.
    let Some(in_front) = SmallDisk::mount(&job.data, "size=4m,ro") else {
        return;
    };
    job.until_reported("Error", 1);
    for _ in 0..4 {
        job.more();
    }
    drop(in_front);
    job.until_reported("Warning", 1);
    job.more();
    assert_eq!(job.end(), []);
    let seen = &job.observed.seen;
    assert_eq!(count_reports(seen, "Error"), 1, "reported once");
    assert_eq!(job.kept(), job.shown(1));
    drop((job.disks, job.server));
}

#[test]
fn a_session_that_appears_on_a_read_only_disk_is_observed_without_a_log_and_with_a_warning() {
    let Some(mut job) = Job::on_a_disk("size=4m") else {
        return;
    };
    job.more();
    let Some(in_front) = SmallDisk::mount(&job.data, "size=4m,ro") else {
        return;
    };
    let late = Counting::new(&job.server, "late", "0.02");
    let pane = job.server.new_session("late", 60, 12, &late.command());
    job.observed.until_started(2);
    late.until_more(5);
    late.end();
    job.observed.until("the end of the late one", |seen| {
        Replay::of(seen, &pane).texts().contains(&"the end")
    });
    let run = runs_of(&job.observed.seen, "late").remove(0);
    let events = of_run(&job.observed.seen, &run);
    let without_log = events.iter().filter(|envelope| {
        matches!(&envelope.event, TdEvent::Warning { message, .. } if message.contains("without a log"))
    });
    assert_eq!(without_log.count(), 1, "{}", shown(&events));
    drop(in_front);
    job.end();
    let counted = Counted::of(&job.observed.replay(&pane), &["the end"]);
    assert_eq!(
        (counted.settled.end, counted.missing),
        (late.printed() + 1, vec![])
    );
    assert_eq!(job.observed.logs().len(), 1, "the first one's");
    drop((job.disks, job.server));
}

#[test]
fn a_data_directory_that_was_read_only_from_the_start_is_refused_with_its_path() {
    let server = TmuxServer::new();
    let data = server.directory().join("data");
    fs::create_dir_all(data.join("runs")).unwrap();
    let Some(disk) = SmallDisk::mount(&data, "size=1m") else {
        return;
    };
    fs::create_dir_all(data.join("runs")).unwrap();
    let status = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(&data)
        .status();
    assert!(status.unwrap().success());
    let error = td_observe::Builder::new()
        .data_dir(&data)
        .start()
        .unwrap_err();
    assert_eq!(error.path(), Some(&*data.join("runs")), "{error:?}");
    assert!(format!("{error:?}").contains("Read-only"), "{error:?}");
    drop(disk);
}

#[test]
fn a_removed_directory_is_created_again_and_the_watch_continues() {
    let server = TmuxServer::new();
    let mut job = Job::start(server, Vec::new());
    job.more();
    // Moved away first, so that nothing writes to it while it is removed.
    let removed = job.data.with_extension("removed");
    fs::rename(&job.data, &removed).unwrap();
    fs::remove_dir_all(&removed).unwrap();
    job.until_reported("Warning", 1);
    job.more();
    // A moved file stays open: until the writer checks the path, it writes there.
    let away = job.data.with_extension("away");
    fs::rename(&job.data, &away).unwrap();
    job.until_reported("Warning", 2);
    job.more();
    assert_eq!(job.end(), []);
    assert_eq!(count_reports(&job.observed.seen, "Error"), 0);
    let name = job.run().file_name().unwrap().to_owned();
    let middle = envelopes(&away.join("runs").join(name).join("events.jsonl"));
    let last = job.kept();
    let first = middle[0].seq.unwrap();
    // The removed lines are lost; all later ones are in one file or the other.
    let both: Vec<Envelope> = middle.into_iter().chain(last).collect();
    assert_eq!(both, job.shown(first));
}

#[test]
fn a_log_that_is_truncated_continues_behind_the_cut() {
    let server = TmuxServer::new();
    let mut job = Job::start(server, Vec::new());
    job.more();
    let path = job.run().join("events.jsonl");
    let cut = |len: u64| {
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(len).unwrap();
    };
    cut(0);
    job.until_reported("Warning", 1);
    job.more();
    cut(0);
    job.until_reported("Warning", 2);
    job.more();
    assert_eq!(job.end(), []);
    let kept = job.kept();
    assert_eq!(kept, job.shown(kept[0].seq.unwrap()));
    // A header marks the new beginning of the lines. A line that was cut while it was written precedes
    // it.
    let text = fs::read_to_string(&path).unwrap();
    let mut headers = text.lines().filter(|line| line.contains("\"LogOpened\""));
    let header: Envelope = serde_json::from_str(headers.next().unwrap()).unwrap();
    let TdEvent::LogOpened { first_seq, .. } = header.event else {
        panic!("{header:?}")
    };
    assert!(kept.iter().any(|envelope| envelope.seq == Some(first_seq)));
    // Another observer can continue from the remaining lines.
    assert!(!Replay::of(&kept, &job.pane).settled.is_empty());
}
