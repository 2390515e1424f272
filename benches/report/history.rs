//! History compared with `grep` on the same file, and with plain `serde_json` over the same lines.
//!
//! All files are in memory (read once before), so that the work is measured and not the disk. The results
//! are compared, too: both sides must print the same bytes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use td_observe::Envelope;
use td_observe::history::{LogReader, Query, Rotation, RunDirectory};
use td_observe::internals::history::write_filters;

use crate::common::commands::peak;
use crate::common::mixed::{MARKER, write_run};
use crate::common::stats::rounds;
use crate::common::table::{Bar, Row, Table};

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");
const HIDDEN: &str = "read-a-log";

const BYTES: u64 = 400_000_000;
const ROUNDS: usize = 5;
const LONG_ROUNDS: usize = 3;
const GAP: &str = r#""type":"OutputGap""#;

pub fn run(table: &mut Table) {
    let temp = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes, rotation| {
        let run = write_run(&temp.path().join(name), bytes, rotation);
        warm(run.path());
        run
    };
    let large = write("large", BYTES, Rotation::NEVER);
    eprintln!("{} MB of events", megabytes(&large.events_path()));
    filters(table, &large);
    typed(table, &large);
    let small = write("small", BYTES / 10, Rotation::NEVER);
    memory(table, &small, &large);
    let packed = write("packed", BYTES, Rotation::default());
    compressed(table, &packed);
    let gigabytes = std::env::var("TD_HISTORY_GB").map_or(1, |text| text.parse().unwrap());
    let files = [
        ("in one file", Rotation::NEVER),
        ("in files", Rotation::default()),
    ];
    for (how, rotation) in files {
        let name = how.replace(' ', "-");
        let run = write_run(
            &temp.path().join(&name),
            gigabytes * 1_000_000_000,
            rotation,
        );
        write_filters(&run).unwrap();
        warm(run.path());
        needles(table, &run, &format!("{gigabytes} GB {how}"));
        fs::remove_dir_all(temp.path().join(&name)).unwrap();
    }
}

/// Searches for a text and for an expression that one line has.
fn needles(table: &mut Table, run: &RunDirectory, what: &str) {
    let files = event_files(run);
    let size = |name: &str| -> u64 {
        let entries = fs::read_dir(run.path()).unwrap().map(Result::unwrap);
        let of = entries.filter(|entry| entry.file_name().to_str().unwrap().ends_with(name));
        of.map(|entry| entry.metadata().unwrap().len()).sum()
    };
    let logs = size(".jsonl") + size(".gz");
    eprintln!(
        "{what}: {} MB, filters {} MB",
        logs / 1_000_000,
        size(".filter") / 1_000_000
    );
    if !is_installed("rg") {
        return eprintln!("SKIPPED: no rg");
    }
    for (of, pattern) in [("a text", "needle 4711"), ("a regex", MARKER)] {
        let arguments = ["--grep", pattern];
        let rg = ["-z", "-N", "-I", pattern];
        let found = timed(ours(run, &arguments)).1;
        assert!(!found.is_empty() && found == timed(theirs("rg", &rg, &files)).1);
        let [us, rg] = rounds(
            LONG_ROUNDS,
            [&|| seconds(ours(run, &arguments)), &|| {
                seconds(theirs("rg", &rg, &files))
            }],
        );
        table.row(&Row {
            what: &format!("history, {what}: `log --grep …`, {of} that one line has"),
            ours: format!("{:.0} ms", us * 1e3),
            instead: format!("`rg`: {:.0} ms", rg * 1e3),
            ratio: Some(rg / us),
            bar: Bar::AtLeast(1.0),
        });
    }
}

/// Returns the files of a run's log, oldest first.
fn event_files(run: &RunDirectory) -> Vec<PathBuf> {
    let entries = fs::read_dir(run.path()).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("events.") && !name.ends_with(".filter")
    });
    files.sort();
    files
}

/// Reads a log and returns true if this process was started for it.
pub fn has_run() -> bool {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = arguments.first().is_some_and(|one| one == HIDDEN);
    if is_asked {
        let run = RunDirectory::at(Path::new(&arguments[2])).unwrap();
        println!(
            "{}",
            match arguments[1].as_str() {
                "ours" => read_typed(&run),
                _ => read_plain::<Envelope>(&run.events_path()),
            }
        );
    }
    is_asked
}

/// Reads all files once, so that they are cached.
fn warm(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::io::copy(&mut File::open(path).unwrap(), &mut std::io::sink()).unwrap();
        }
    }
}

fn megabytes(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len() / 1_000_000
}

fn is_installed(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").output();
    asked.is_ok_and(|answer| answer.status.success())
}

/// Returns the character encoding that `grep` assumes for a file.
fn locale() -> String {
    let set = |name: &str| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
        Some(format!("{name}={value}"))
    };
    let set = set("LC_ALL").or_else(|| set("LC_CTYPE"));
    let lang = std::env::var("LANG").ok().filter(|value| !value.is_empty());
    set.or_else(|| lang.map(|lang| format!("LANG={lang}")))
        .unwrap_or_else(|| "no locale set".to_owned())
}

/// Returns the command that reads a run's log.
fn ours(run: &RunDirectory, more: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("log").arg(run.path()).arg("--json").args(more);
    command.env_remove("RUST_LOG");
    command
}

fn theirs(program: &str, arguments: &[&str], files: &[PathBuf]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).args(files);
    command
}

/// Returns the seconds that a command takes, and its output. The output is a pipe, because `grep` stops
/// at the first match when nobody reads.
fn timed(mut command: Command) -> (f64, Vec<u8>) {
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output().unwrap();
    let spent = began.elapsed().as_secs_f64();
    assert!(output.status.success(), "{command:?}: {output:?}");
    (spent, output.stdout)
}

fn seconds(command: Command) -> f64 {
    timed(command).0
}

/// Returns the times of ours, of theirs, and of `rg` if it is installed.
fn three(
    count: usize,
    ours: &dyn Fn() -> f64,
    theirs: &dyn Fn() -> f64,
    rg: &dyn Fn() -> f64,
) -> (f64, f64, String) {
    if !is_installed("rg") {
        let [ours, theirs] = rounds(count, [ours, theirs]);
        return (ours, theirs, "`rg`: not installed".to_owned());
    }
    let [ours, theirs, rg] = rounds(count, [ours, theirs, rg]);
    (ours, theirs, format!("`rg`: {:.0} ms", rg * 1e3))
}

fn filters(table: &mut Table, run: &RunDirectory) {
    let files = [run.events_path()];
    for (what, arguments, pattern) in [
        ("a regex that one line has", ["--grep", MARKER], MARKER),
        ("events of a rare type", ["--type", "OutputGap"], GAP),
    ] {
        let found = timed(ours(run, &arguments)).1;
        assert!(!found.is_empty());
        assert!(found == timed(theirs("grep", &["-E", pattern], &files)).1);
        let (us, grep, rg) = three(
            ROUNDS,
            &|| seconds(ours(run, &arguments)),
            &|| seconds(theirs("grep", &["-E", pattern], &files)),
            &|| seconds(theirs("rg", &["-N", pattern], &files)),
        );
        table.row(&Row {
            what: &format!("history, 400 MB: `log {} …`, {what}", arguments[0]),
            ours: format!("{:.0} ms", us * 1e3),
            instead: format!("`grep -E` ({}): {:.0} ms; {rg}", locale(), grep * 1e3),
            // As a speed.
            ratio: Some(grep / us),
            bar: Bar::AtLeast(0.6),
        });
    }
}

/// Reads all events; returns the seconds.
fn read_typed(run: &RunDirectory) -> f64 {
    let began = Instant::now();
    let mut log = LogReader::open(run, Query::all()).unwrap();
    let seen: u64 = (&mut log).map(|record| record.envelope.n).sum();
    let spent = began.elapsed().as_secs_f64();
    assert!(seen > 0 && log.report().invalid == 0);
    spent
}

/// Measures one side on one core; the reader has one thread there.
fn read_on_one_core(side: &str, run: &RunDirectory) -> f64 {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]);
    command.arg(std::env::current_exe().unwrap());
    let printed = timed({
        command.args([HIDDEN, side]).arg(run.path());
        command
    });
    String::from_utf8(printed.1)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// Reads and parses each line; returns the seconds.
fn read_plain<T: serde::de::DeserializeOwned>(path: &Path) -> f64 {
    let began = Instant::now();
    let mut lines = BufReader::new(File::open(path).unwrap());
    let (mut line, mut seen) = (Vec::new(), 0_u64);
    while lines.read_until(b'\n', &mut line).unwrap() > 0 {
        let parsed: T = serde_json::from_slice(&line).unwrap();
        std::hint::black_box(&parsed);
        seen += 1;
        line.clear();
    }
    let spent = began.elapsed().as_secs_f64();
    assert!(seen > 0);
    spent
}

fn typed(table: &mut Table, run: &RunDirectory) {
    let path = run.events_path();
    let [ours, plain, value] = rounds(
        LONG_ROUNDS,
        [
            &|| read_typed(run),
            &|| read_plain::<Envelope>(&path),
            &|| read_plain::<serde_json::Value>(&path),
        ],
    );
    let rate = |seconds: f64| fs::metadata(&path).unwrap().len() as f64 / 1e6 / seconds;
    table.row(&Row {
        what: "history, 400 MB: all events, typed",
        ours: format!("{:.0} MB/s", rate(ours)),
        instead: format!(
            "lines and `serde_json::from_slice`, typed: {:.0} MB/s; to `Value`: {:.0} MB/s",
            rate(plain),
            rate(value)
        ),
        ratio: Some(plain / ours),
        bar: Bar::AtLeast(5.0),
    });
    if !is_installed("taskset") {
        return eprintln!("SKIPPED: no taskset to keep a process on one core");
    }
    let [ours, plain] = rounds(
        LONG_ROUNDS,
        [&|| read_on_one_core("ours", run), &|| {
            read_on_one_core("plain", run)
        }],
    );
    table.row(&Row {
        what: "history, 400 MB: all events, typed, both on one core",
        ours: format!("{:.0} MB/s", rate(ours)),
        instead: format!("typed by `serde_json`: {:.0} MB/s", rate(plain)),
        ratio: Some(plain / ours),
        bar: Bar::None,
    });
}

fn memory(table: &mut Table, small: &RunDirectory, large: &RunDirectory) {
    for (what, arguments) in [
        ("`log --grep …`", &["--grep", MARKER][..]),
        ("`log --json > /dev/null`", &[]),
    ] {
        let [before, after] = [small, large].map(|run| peak(ours(run, arguments)));
        let theirs = peak(theirs(
            "grep",
            &["-c", "-E", MARKER],
            &[large.events_path()],
        ));
        table.row(&Row {
            what: &format!("history, memory at most: {what} on 40 MB and on 400 MB"),
            ours: format!("{:.1} → {:.1} MB", mb(before), mb(after)),
            instead: format!("`grep -E`: {:.1} MB", mb(theirs)),
            ratio: None,
            bar: Bar::Stated(
                "flat, by a tenth and 1 MB",
                after <= before + before / 10 + 1024,
            ),
        });
    }
}

fn mb(kb: u64) -> f64 {
    kb as f64 / 1024.0
}

fn compressed(table: &mut Table, run: &RunDirectory) {
    let files = event_files(run);
    let arguments = ["--grep", MARKER];
    let found = timed(ours(run, &arguments)).1;
    assert!(found == timed(theirs("zgrep", &["-h", "-E", MARKER], &files)).1);
    let (us, zgrep, rg) = three(
        LONG_ROUNDS,
        &|| seconds(ours(run, &arguments)),
        &|| seconds(theirs("zgrep", &["-h", "-E", MARKER], &files)),
        &|| seconds(theirs("rg", &["-z", "-N", "-I", MARKER], &files)),
    );
    table.row(&Row {
        what: &format!(
            "history, the same in {} files, all but one gzip: `log --grep …`",
            files.len()
        ),
        ours: format!("{:.0} ms", us * 1e3),
        instead: format!(
            "`zgrep -E`: {:.0} ms; {}",
            zgrep * 1e3,
            rg.replace("rg", "rg -z")
        ),
        ratio: Some(zgrep / us),
        bar: Bar::None,
    });
}
