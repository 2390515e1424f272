//! Child processes: what observing them costs, how fast what they print goes through, and how late
//! it is.
//!
//! - A command that computes and prints now and then, beside itself started directly. That is what
//!   `run` must not be noticed by, so pairs are compared, their order alternates, and what is judged
//!   is the bound under which the mean overhead lies with 95 % (one-sided, Student's t). The same
//!   command beside itself shows what the machine makes of equal things. Where others are busy,
//!   more pairs are measured, and those count in which they were least so, whatever came of them.
//! - Two million lines through `run`, beside the same lines through `cat`, which does as little as
//!   anybody can who stands in between; and `tee`, which keeps them as the log does. `seq` prints
//!   faster than any real program, `awk` like a quick one. No shell stands in either.
//! - Short commands, beside `std::process::Command::output`: blocks of each in turn.
//! - From a child's write to the subscriber, beside a thread that reads the pipe line by line. The
//!   child prints the time at which it prints.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use td_observe::{Builder, Delivery, Engine, TdEvent, process};

use crate::common::cpu::{children_ms, own_ms};
use crate::common::program::{Program, monotonic_ns};
use crate::common::resources::{Held, peak_kb};
use crate::common::stats::{percentile, rounds};
use crate::common::support::CEILING;
use crate::common::table::{Bar, Row, Table};

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");

/// The section.
pub fn run(table: &mut Table) {
    overhead_rows(table);
    lines_rows(table);
    short_rows(table);
    latency_rows(table);
}

/// `td-observe` with its runs in a directory.
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

/// Seconds until a command has ended, and who reads what it prints, if anybody does.
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
    for mut child in [Some(child), reader].into_iter().flatten() {
        assert!(child.wait().unwrap().success());
    }
    began.elapsed().as_secs_f64()
}

const PAIRS: usize = 20;
/// While others are busy there are more, and those count in which they were least so.
const PAIRS_MAX: usize = 40;
/// As much of a processor others may take all the time.
const QUIET: f64 = 0.1;
/// Student's t for 19 degrees of freedom: 95 % lie below, on one side.
const T_ONE_SIDED: f64 = 1.729;
const OVERHEAD_BAR: f64 = 0.03;

/// Pairs of runs, the second one by the first one.
struct Paired {
    /// The mean of the ratios, and the bound of it.
    mean: f64,
    bound: f64,
    /// Means, in s.
    ours: f64,
    theirs: f64,
}

impl Paired {
    fn of(pairs: &[(f64, f64)]) -> Self {
        let count = pairs.len() as f64;
        let mean = |one: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(one).sum::<f64>() / count;
        let ratio = mean(&|pair| pair.0 / pair.1);
        let squares = mean(&|pair| (pair.0 / pair.1 - ratio).powi(2));
        let error = (squares / (count - 1.0)).sqrt();
        Self {
            mean: ratio,
            bound: ratio + T_ONE_SIDED * error,
            ours: mean(&|pair| pair.0),
            theirs: mean(&|pair| pair.1),
        }
    }

    fn shown(&self) -> String {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        format!(
            "{:+.1} %, at most {:+.1} %",
            percent(self.mean),
            percent(self.bound)
        )
    }
}

/// A script that counts for about a second on one core, and prints so many lines meanwhile.
fn counting(lines: u64) -> String {
    let script = |count: u64| {
        format!(
            "n=0; while [ $n -lt {lines} ]; do i=0; while [ $i -lt {count} ]; do i=$((i+1)); done; \
             n=$((n+1)); echo \"step $n of the work is done\"; done"
        )
    };
    let probe = 400_000 / lines;
    let took = (0..3)
        .map(|_| seconds(direct(&["sh", "-c", &script(probe)]), None))
        .fold(f64::INFINITY, f64::min);
    script((probe as f64 / took) as u64)
}

fn overhead_rows(table: &mut Table) {
    for lines in [5, 100] {
        let script = counting(lines);
        let what = format!("`run` of a command that computes and prints {lines} lines a second");
        overhead_row(table, &what, &["sh", "-c", &script]);
    }
    let pacing = Program::Paced {
        rate: 100,
        time_ms: 1000,
    };
    let what = "`run` of a command that waits and prints 100 lines a second";
    overhead_row(table, what, &["sh", "-c", &pacing.command()]);
}

/// One round: of each the seconds on the clock and those of processors, all its processes together.
struct Round {
    plain: (f64, f64),
    observed: (f64, f64),
    again: (f64, f64),
    /// What others took of the processors meanwhile, as a part of one of them.
    others: f64,
}

/// The rounds in which others did least.
fn quiet_rounds(plain: &dyn Fn() -> f64, observed: &dyn Fn() -> f64) -> Vec<Round> {
    let both = |run: &dyn Fn() -> f64| {
        let before = children_ms();
        (run(), (children_ms() - before) / 1e3)
    };
    let (mut rounds, mut quiet) = (Vec::new(), 0);
    while quiet < PAIRS && rounds.len() < PAIRS_MAX {
        let (began, busy, used) = (Instant::now(), busy_ms(), own_ms() + children_ms());
        let mut took = [(0.0, 0.0); 3];
        // Each of them comes first, second and last, and before and behind each other one.
        let turn = match rounds.len() % 6 {
            0 => [0, 1, 2],
            1 => [2, 1, 0],
            2 => [1, 0, 2],
            3 => [2, 0, 1],
            4 => [0, 2, 1],
            _ => [1, 2, 0],
        };
        for which in turn {
            took[which] = both(if which == 1 { observed } else { plain });
        }
        let used = own_ms() + children_ms() - used;
        let others = (busy_ms() - busy - used) / 1e3 / began.elapsed().as_secs_f64();
        quiet += usize::from(others < QUIET);
        rounds.push(Round {
            plain: took[0],
            observed: took[1],
            again: took[2],
            others,
        });
    }
    rounds.sort_by(|one, other| one.others.total_cmp(&other.others));
    rounds.truncate(PAIRS);
    rounds
}

fn overhead_row(table: &mut Table, what: &str, words: &[&str]) {
    let plain = || seconds(direct(words), None);
    let observed = || {
        let temp = tempfile::tempdir().unwrap();
        seconds(with_words(observer(&temp, &[]), words), None)
    };
    let rounds = quiet_rounds(&plain, &observed);
    let others: Vec<f64> = rounds.iter().map(|round| round.others).collect();
    eprintln!(
        "others took {:.0} % of a processor meanwhile, {:.0} % at most",
        percentile(&others, 0.5) * 100.0,
        percentile(&others, 1.0) * 100.0
    );
    let paired = |of: fn(&Round) -> (f64, f64)| {
        let pairs: Vec<(f64, f64)> = rounds.iter().map(of).collect();
        Paired::of(&pairs)
    };
    let wall = paired(|round| (round.observed.0, round.plain.0));
    let equal = paired(|round| (round.again.0, round.plain.0));
    let cpu = paired(|round| (round.observed.1, round.plain.1));
    table.row(&Row {
        what,
        ours: format!(
            "{:.3} s: {}; processor {:+.0} ms",
            wall.ours,
            wall.shown(),
            (cpu.ours - cpu.theirs) * 1e3
        ),
        instead: format!("unobserved: {:.3} s; again: {}", wall.theirs, equal.shown()),
        ratio: Some(wall.mean),
        bar: Bar::Says("at most +3 %", wall.bound <= 1.0 + OVERHEAD_BAR),
    });
}

/// What all processors have done, for whomever, in ms.
fn busy_ms() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    // user, nice, system, idle, iowait, irq, softirq, steal; in ticks of 10 ms.
    let all = stat.lines().next().unwrap().split_whitespace().skip(1);
    let busy = all
        .take(8)
        .enumerate()
        .filter(|(at, _)| ![3, 4].contains(at));
    busy.map(|(_, ticks)| ticks.parse::<f64>().unwrap() * 10.0)
        .sum()
}

const LINES: u64 = 2_000_000;
const LINES_RUNS: usize = 10;
const LINES_BAR: f64 = 2.0;
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

/// The most memory that `run` held; in a run of its own, since looking takes time. What it prints is
/// counted on this occasion.
fn peak_mb(options: &[&str], words: &[&str], is_read: bool) -> f64 {
    let temp = tempfile::tempdir().unwrap();
    let mut command = with_words(observer(&temp, options), words);
    let to = match is_read {
        true => Stdio::piped(),
        false => Stdio::null(),
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
        // Its command and its end are two more.
        assert_eq!(reader.join().unwrap(), LINES + 2, "lines that were shown");
    }
    peak as f64 / 1024.0
}

/// Blocks of short commands: together a thousand.
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
    let executed = |engine: &RefCell<Engine>| {
        let execution = engine.borrow_mut().execute(process::Command::new("true"));
        assert!(execution.unwrap().wait().unwrap().is_success());
    };
    let [std, output, engine, kept] = rounds(
        BLOCKS,
        [
            &|| each(&|| assert!(Command::new("true").output().unwrap().status.success())),
            &|| {
                each(&|| {
                    let output = process::Command::new("true").output().unwrap();
                    assert!(output.outcome.is_success());
                })
            },
            &|| each(&|| executed(&unlogged)),
            &|| each(&|| executed(&logged)),
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
    for (what, took) in [
        ("`process::Command::output`", output),
        ("one engine's `execute` and `wait`", engine),
        ("the same with a log, a run each", kept),
    ] {
        table.row(&Row {
            what: &format!("1,000 times `true`, {what}, for each"),
            ours: format!("{took:.0} µs"),
            instead: format!("`std::process::Command::output`: {std:.0} µs"),
            ratio: Some(took / std),
            bar: Bar::None,
        });
    }
}

const LATENCY_ROUNDS: usize = 3;
/// 100 lines a second, and more than one in the time for which text is put together.
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
                bar: Bar::None,
            });
        }
    }
}

/// How old a line is, in ns, when it says when it was written.
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
    assert!(child.wait().unwrap().success());
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
            TdEvent::ExecutionCompleted { .. } => break,
            _ => {}
        }
    }
    assert!(execution.wait().unwrap().is_success());
    engine.shutdown();
    ages
}
