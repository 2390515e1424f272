//! Child processes: the cost of observation, and the throughput and latency of their output.
//!
//! - Commands compared with the same commands unobserved: see `overhead`.
//! - Two million lines through `run`, compared with the same lines through `cat`, which does as little as
//!   any program in a pipe can; and through `tee`, which stores them like the log. `seq` prints faster than
//!   any real program, `awk` like a fast one. No shell is involved.
//! - Short commands, compared with `std::process::Command::output`: blocks of each in turn.
//! - From a child's write to the subscriber, compared with a thread that reads the pipe line by line. The
//!   child prints the time of printing.

mod overhead;

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use td_observe::{Builder, Delivery, Engine, TdEvent, process};

use crate::common::program::{Program, monotonic_ns};
use crate::common::resources::{Held, peak_kb};
use crate::common::stats::{percentile, rounds};
use crate::common::support::CEILING;
use crate::common::table::{Bar, Row, Table};

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");

pub fn run(table: &mut Table) {
    overhead::rows(table);
    lines_rows(table);
    short_rows(table);
    latency_rows(table);
}

/// Returns `td-observe` with its data in this directory.
fn observer(data_dir: &tempfile::TempDir, options: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["run", "--data-dir"]).arg(data_dir.path());
    command.args(options).arg("--");
    command.env_remove("TMUX").env_remove("RUST_LOG");
    command
}

fn with_words(mut command: Command, words: &[&str]) -> Command {
    command.args(words);
    command
}

fn direct(words: &[&str]) -> Command {
    with_words(Command::new(words[0]), &words[1..])
}

/// Returns the seconds until a command and the reader of its output, if any, have ended. Returns infinity
/// if it fails: the failure is reported, and medians are not affected.
fn seconds(mut command: Command, reader: Option<Command>) -> f64 {
    let began = Instant::now();
    let to = match reader {
        Some(_) => Stdio::piped(),
        None => Stdio::null(),
    };
    let mut child = command.stdin(Stdio::null()).stdout(to).spawn().unwrap();
    let reader = reader.map(|mut reader| {
        let from = child.stdout.take().unwrap();
        reader.stdin(from).stdout(Stdio::null()).spawn().unwrap()
    });
    let children = [Some(child), reader].into_iter().flatten();
    let ends = children.map(|mut child| child.wait().unwrap().success());
    let is_good = ends.fold(true, |so_far, is_good| so_far & is_good);
    let took = began.elapsed().as_secs_f64();
    if !is_good {
        eprintln!("FAILED: {command:?}");
        return f64::INFINITY;
    }
    took
}

const LINES: u64 = 2_000_000;
const LINES_RUNS: usize = 10;
const LINES_BAR: f64 = 1.5;
const PEAK_RUNS: usize = 3;
const PEAK_EVERY: Duration = Duration::from_millis(1);

fn lines_rows(table: &mut Table) {
    let count = LINES.to_string();
    let print = format!(
        "BEGIN {{ for (i = 0; i < {LINES}; i++) \
         print \"line \" i \" of the build output, as long as such lines are\" }}"
    );
    lines_of(table, "`seq`", &["seq", "1", &count]);
    lines_of(table, "`awk`, 58 bytes each", &["awk", &print]);
}

fn lines_of(table: &mut Table, producer: &str, words: &[&str]) {
    let cat = || direct(&["cat"]);
    let through = |options: &[&str], reader: Option<Command>| {
        let temp = tempfile::tempdir().unwrap();
        seconds(with_words(observer(&temp, options), words), reader)
    };
    let to_tee = || {
        let temp = tempfile::tempdir().unwrap();
        let mut tee = direct(&["tee"]);
        tee.arg(temp.path().join("log"));
        seconds(direct(words), Some(tee))
    };
    const QUIET: &[&str] = &["-q", "--no-log"];
    let [cat_s, tee_s, logged, piped, json, quiet] = rounds(
        LINES_RUNS,
        [
            &|| seconds(direct(words), Some(cat())),
            &to_tee,
            &|| through(&[], None),
            &|| through(&[], Some(cat())),
            &|| through(&["--json"], None),
            &|| through(QUIET, None),
        ],
    );
    for (what, took, options, is_read) in [
        ("shown on /dev/null, log kept", logged, &[][..], false),
        ("shown to `cat`, log kept", piped, &[], true),
        ("`--json`, log kept", json, &["--json"], false),
        ("`-q --no-log`", quiet, QUIET, false),
    ] {
        let peak = (0..PEAK_RUNS).map(|_| peak_mb(options, words, is_read));
        table.row(&Row {
            what: &format!("2 M lines of {producer} through `run`, {what}"),
            ours: format!(
                "{:.0} ms; {:.0} MB at most",
                took * 1e3,
                peak.fold(0.0, f64::max)
            ),
            instead: format!(
                "`| cat > /dev/null`: {:.0} ms (`| tee log`: {:.0} ms)",
                cat_s * 1e3,
                tee_s * 1e3
            ),
            ratio: Some(took / cat_s),
            bar: Bar::AtMost(LINES_BAR),
        });
    }
}

/// Returns the peak memory of `run`, in a separate run because polling takes time. Also counts the
/// output.
fn peak_mb(options: &[&str], words: &[&str], is_read: bool) -> f64 {
    let temp = tempfile::tempdir().unwrap();
    let mut command = with_words(observer(&temp, options), words);
    let to = if is_read {
        Stdio::piped()
    } else {
        Stdio::null()
    };
    let mut child = command.stdin(Stdio::null()).stdout(to).spawn().unwrap();
    let reader = child.stdout.take().map(|mut from| {
        std::thread::spawn(move || {
            let (mut buffer, mut lines) = (vec![0; 1 << 16], 0);
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                lines += buffer[..count]
                    .iter()
                    .filter(|byte| **byte == b'\n')
                    .count() as u64;
            }
            lines
        })
    });
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(peak_kb(child.id()).unwrap_or(0));
        std::thread::sleep(PEAK_EVERY);
    }
    if let Some(reader) = reader {
        assert_eq!(reader.join().unwrap(), LINES, "lines that were shown");
    }
    peak as f64 / 1024.0
}

/// Blocks of short commands: a thousand in total.
const BLOCKS: usize = 20;
const BLOCK: usize = 50;

fn short_rows(table: &mut Table) {
    let temp = tempfile::tempdir().unwrap();
    let unlogged = RefCell::new(Builder::new().start().unwrap());
    let logged = RefCell::new(Builder::new().data_dir(temp.path()).start().unwrap());
    let each = |run: &dyn Fn()| {
        let began = Instant::now();
        (0..BLOCK).for_each(|_| run());
        began.elapsed().as_secs_f64() * 1e6 / BLOCK as f64
    };
    // Failed commands are counted, and do not prevent the other figures.
    let failed = [const { Cell::new(0) }; 3];
    let count = |at: usize, outcome: td_observe::Result<process::CommandOutcome>| {
        let is_good = outcome.is_ok_and(|outcome| outcome.is_success());
        failed[at].update(|so_far| so_far + u64::from(!is_good));
    };
    let executed = |at: usize, engine: &RefCell<Engine>| {
        let execution = engine.borrow_mut().execute(process::Command::new("true"));
        count(at, execution.and_then(|execution| execution.wait()));
    };
    let [std, output, engine, kept] = rounds(
        BLOCKS,
        [
            &|| each(&|| assert!(Command::new("true").output().unwrap().status.success())),
            &|| {
                each(&|| {
                    let output = process::Command::new("true").output();
                    count(0, output.map(|output| output.outcome));
                })
            },
            &|| each(&|| executed(1, &unlogged)),
            &|| each(&|| executed(2, &logged)),
        ],
    );
    let held = Held::here();
    eprintln!(
        "after 2,000 commands of two engines: {} threads, {} descriptors, {} MB",
        held.threads,
        held.descriptors,
        held.rss_kb / 1024
    );
    for engine in [unlogged, logged] {
        engine.into_inner().shutdown();
    }
    for (what, took, failed) in [
        ("`process::Command::output`", output, &failed[0]),
        ("one engine's `execute` and `wait`", engine, &failed[1]),
        ("the same with a log, a run each", kept, &failed[2]),
    ] {
        let failed = failed.get();
        table.row(&Row {
            what: &format!("1,000 times `true`, {what}, for each"),
            ours: format!("{took:.0} µs; {failed} failed"),
            instead: format!("`std::process::Command::output`: {std:.0} µs"),
            ratio: Some(took / std),
            bar: Bar::Stated("none fails", failed == 0),
        });
    }
}

const LATENCY_ROUNDS: usize = 3;
/// 100 lines per second, and more than one within the time for which text is merged.
const LATENCY_CASES: [(&str, Program); 2] = [
    (
        "100 lines/s",
        Program::Stamps {
            period_ms: 10,
            count: 300,
        },
    ),
    (
        "300 lines/s",
        Program::Stamps {
            period_ms: 3,
            count: 600,
        },
    ),
];

fn latency_rows(table: &mut Table) {
    for (what, program) in LATENCY_CASES {
        let mut all = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..LATENCY_ROUNDS {
            all[0].extend(read_by_line(direct(&["sh", "-c", &program.command()])));
            all[1].extend(subscribed(program));
            let temp = tempfile::tempdir().unwrap();
            let command = with_words(observer(&temp, &[]), &["sh", "-c", &program.command()]);
            all[2].extend(read_by_line(command));
        }
        let [theirs, ours, shown] =
            all.map(|all| [0.5, 0.99].map(|part| percentile(&all, part) / 1e3));
        for (who, ours) in [("subscriber", ours), ("reader of `run`, log kept", shown)] {
            table.row(&Row {
                what: &format!("a child's write → {who}, {what}, p50 / p99"),
                ours: format!("{:.0} / {:.0} µs", ours[0], ours[1]),
                instead: format!(
                    "a thread that reads lines: {:.0} / {:.0} µs",
                    theirs[0], theirs[1]
                ),
                ratio: Some(ours[0] / theirs[0]),
                bar: Bar::Stated("p50 ≤ 200 µs", ours[0] <= 200.0),
            });
        }
    }
}

/// Returns the age in ns of a line that contains the time of its writing.
fn age_ns(line: &str, now: u64) -> Option<f64> {
    let (_, written) = line.strip_prefix("stamp ")?.split_once(' ')?;
    Some((now - written.trim_end().parse::<u64>().unwrap()) as f64)
}

fn read_by_line(mut command: Command) -> Vec<f64> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child: Child = child.unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    let (mut ages, mut line) = (Vec::new(), String::new());
    while from.read_line(&mut line).unwrap() > 0 {
        ages.extend(age_ns(&line, monotonic_ns()));
        line.clear();
    }
    if !child.wait().unwrap().success() {
        eprintln!("FAILED: {command:?}");
    }
    ages
}

fn subscribed(program: Program) -> Vec<f64> {
    let mut engine = Builder::new().start().unwrap();
    let mut events = engine.subscribe();
    let command = process::Command::shell(program.command());
    let execution = engine.execute(command).unwrap();
    let mut ages = Vec::new();
    loop {
        let Delivery::Event(envelope) = events.recv_timeout(CEILING).unwrap() else {
            panic!("nothing is lost at this pace");
        };
        let now = monotonic_ns();
        match &envelope.event {
            TdEvent::ExecutionOutput { text, .. } => {
                ages.extend(text.lines().filter_map(|line| age_ns(line, now)));
            }
            TdEvent::ExecutionCompleted { .. } | TdEvent::Error { .. } => break,
            _ => {}
        }
    }
    if let Err(error) = execution.wait() {
        eprintln!("FAILED: {error:?}");
    }
    engine.shutdown();
    ages
}
