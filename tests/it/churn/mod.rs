//! Sessions come and go while the program watches: no line is missing without a gap, and no resource
//! accumulates.
//!
//! The test takes some seconds; `cargo bench --bench churn` runs the same for any length of time.

mod accounting;

use accounting::{check, follow};

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use td_observe::event::GapEvidence;
use td_observe::{Envelope, TdEvent, Timestamp};

use crate::resources::{Held, children_of, is_zombie, processes_with};
use crate::support::{CEILING, TmuxServer, wait_for, within};

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");

/// The number of bursts in which a session prints its lines.
const BURSTS: u64 = 5;

/// Maximum number of faults that are reported; the first ones show the problem.
const FAULTS_SHOWN: usize = 20;

/// Samples of memory that are shown.
const MEMORY_SHOWN: usize = 20;

/// The sessions that come and go.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The time during which sessions are started.
    pub time: Duration,
    /// The time between two starts.
    pub every: Duration,
    /// The life of each session.
    pub life: Duration,
    /// The number of lines that each prints.
    pub lines: u64,
}

/// The way in which a session prints its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// In bursts over its life; it is quiet before its end.
    Steady,
    /// All at once when it begins, before the observer finds the session.
    Early,
    /// In bursts over its life, the last of them right before its end.
    Late,
}

impl Kind {
    fn of(number: usize) -> Self {
        match number % 5 {
            1 => Self::Early,
            3 => Self::Late,
            _ => Self::Steady,
        }
    }

    /// Returns the program of a session, for a shell.
    fn program(self, name: &str, plan: &Plan) -> String {
        let step = plan.life.as_secs_f64() / BURSTS as f64;
        let burst = plan.lines / BURSTS;
        let (before, after) = match self {
            Self::Early => {
                let life = plan.life.as_secs_f64();
                return format!("seq -f '{name} %.0f' 1 {}; sleep {life}", plan.lines);
            }
            Self::Steady => (0.0, step),
            Self::Late => (step, 0.0),
        };
        format!(
            "b=0; while [ $b -lt {BURSTS} ]; do sleep {before}; \
             seq -f '{name} %.0f' $((b*{burst}+1)) $((b*{burst}+{burst})); sleep {after}; \
             b=$((b+1)); done"
        )
    }
}

/// The results of the sessions of one kind.
#[derive(Clone, Debug, Default)]
pub struct Results {
    pub sessions: usize,
    /// Sessions whose lines were all reported.
    pub whole: usize,
    /// Lines that are missing, with a gap in their place.
    pub lost: u64,
    /// Gaps, by reason.
    pub gaps: BTreeMap<String, usize>,
    /// Gaps at the end of a pane that lost nothing (see Limits in the README).
    pub needless_at_end: usize,
}

/// The results of all sessions.
#[derive(Debug, Default)]
pub struct Summary {
    pub results: BTreeMap<Kind, Results>,
    /// The program's resources before the first session came and after the last had gone.
    pub before: Held,
    pub after: Held,
    /// Its resources in each second while sessions came and went.
    pub samples: Vec<Held>,
    /// The violated expectations.
    pub faults: Vec<String>,
}

impl Summary {
    /// Medians of the first and of the last quarter of the samples.
    pub fn quarters(&self) -> Option<(Held, Held)> {
        let quarter = self.samples.len() / 4;
        let middle = |samples: &[Held]| {
            let of = |value: fn(&Held) -> u64| {
                let mut values: Vec<u64> = samples.iter().map(value).collect();
                values.sort_unstable();
                values[values.len() / 2]
            };
            Held {
                rss_kb: of(|held| held.rss_kb),
                threads: of(|held| held.threads as u64) as usize,
                descriptors: of(|held| held.descriptors as u64) as usize,
            }
        };
        let last = self.samples.len() - quarter;
        (quarter > 0).then(|| {
            (
                middle(&self.samples[..quarter]),
                middle(&self.samples[last..]),
            )
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, results) in &self.results {
            writeln!(
                f,
                "{kind:?}: {} sessions, {} whole, {} lines lost and announced, gaps {:?}, of which \
                 needless at the end {}",
                results.sessions,
                results.whole,
                results.lost,
                results.gaps,
                results.needless_at_end
            )?;
        }
        writeln!(f, "before {:?}\nafter  {:?}", self.before, self.after)?;
        if let Some((first, last)) = self.quarters() {
            writeln!(f, "first quarter {first:?}\nlast quarter  {last:?}")?;
            let step = self.samples.len().div_ceil(MEMORY_SHOWN);
            let rss = self.samples.iter().step_by(step);
            let rss: Vec<String> = rss.map(|held| held.rss_kb.to_string()).collect();
            writeln!(f, "memory over time, KB: {}", rss.join(" "))?;
        }
        for fault in self.faults.iter().take(FAULTS_SHOWN) {
            writeln!(f, "FAULT {fault}")?;
        }
        write!(f, "{} faults", self.faults.len())
    }
}

/// The program watching a whole server; its JSON is read to the end.
struct Observer {
    child: Child,
    /// Returns the number of printed lines, and of those that report missed events.
    reader: JoinHandle<(u64, u64)>,
}

impl Observer {
    fn start(server: &TmuxServer, data: &Path, complaints: &Path) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["watch", "--json", "-S"]).arg(server.socket());
        command.arg("--data-dir").arg(data);
        command.env_remove("TMUX").env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::create(complaints).unwrap());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let reader = thread::spawn(move || {
            let (mut printed, mut lagged) = (0, 0);
            let mut line = String::new();
            while lines.read_line(&mut line).unwrap() > 0 {
                printed += 1;
                lagged += u64::from(line.contains(r#""type":"Lagged""#));
                line.clear();
            }
            (printed, lagged)
        });
        Self { child, reader }
    }

    fn held(&self) -> Option<Held> {
        Held::by(self.child.id())
    }
}

/// Lets sessions come and go; returns what was observed of them.
pub fn churn(plan: &Plan) -> Summary {
    let mut summary = Summary::default();
    let server = TmuxServer::new();
    let data = server.directory().join("data");
    let complaints = server.directory().join("stderr");
    server.new_session("keeper", 80, 24, "exec cat");
    let mut observer = Observer::start(&server, &data, &complaints);
    // Before its first event, the log may still have to be opened.
    wait_for("the first run's first event", CEILING, || {
        let runs = fs::read_dir(data.join("runs")).into_iter().flatten();
        let run = runs.flatten().next().ok_or("no run")?.path();
        match fs::metadata(run.join("events.jsonl")) {
            Ok(log) if log.len() > 0 => Ok(()),
            _ => Err("no event"),
        }
    });
    let pid = server.pid().as_raw_nonzero().get().cast_unsigned();
    wait_for("the keeper's drain", CEILING, || {
        let children = children_of(pid).len();
        if children == 2 { Ok(()) } else { Err(children) }
    });
    summary.before = held_at_rest(&observer);

    let sessions = come_and_go(plan, &server, &observer, &mut summary.samples);
    wait_for("the last session's end", CEILING + plan.life, || {
        let left = server.tmux(&["list-sessions", "-F", "#{session_name}"]);
        if left == "keeper" { Ok(()) } else { Err(left) }
    });
    // A running tmux process holds a few descriptors: sample between two of them.
    let before = summary.before;
    let after = within(CEILING, || {
        let held = observer.held().unwrap();
        let is_back = held.threads <= before.threads && held.descriptors <= before.descriptors;
        if is_back { Ok(held) } else { Err(held) }
    });
    if after.is_err() {
        let fault = "threads or descriptors are left when all sessions have gone";
        summary.faults.push(fault.to_owned());
    }
    summary.after = after.unwrap_or_else(|held| held);
    for zombie in zombies_of(observer.child.id()) {
        summary.faults.push(format!("nobody reaped {zombie}"));
    }

    kill_process(Pid::from_child(&observer.child), Signal::INT).unwrap();
    let status = wait_for("the program's end", CEILING, || {
        observer.child.try_wait().unwrap().ok_or("it still runs")
    });
    let (printed, lagged) = observer.reader.join().unwrap();
    if !status.success() || lagged > 0 {
        let fault = format!("{status}; of {printed} lines {lagged} say that events were missed");
        summary.faults.push(fault);
    }
    let stderr = fs::read_to_string(&complaints).unwrap();
    summary
        .faults
        .extend(stderr.lines().map(|line| format!("stderr: {line}")));
    let socket = server.socket().display().to_string();
    for (pid, line) in processes_with(&socket) {
        summary.faults.push(format!("left behind: {pid} {line}"));
    }
    check(plan, &sessions, &data, &mut summary);
    summary
}

/// Starts sessions for some time; returns their names. Samples are taken each second, from the time when
/// as many sessions end as begin.
fn come_and_go(
    plan: &Plan,
    server: &TmuxServer,
    observer: &Observer,
    samples: &mut Vec<Held>,
) -> Vec<(String, Kind)> {
    let (began, mut sessions) = (Instant::now(), Vec::new());
    let mut sampled = began + plan.life + Duration::from_secs(2);
    while began.elapsed() < plan.time {
        let kind = Kind::of(sessions.len());
        let name = format!("churn-{}", sessions.len());
        server.new_session(&name, 80, 24, &kind.program(&name, plan));
        sessions.push((name, kind));
        if sampled.elapsed() >= Duration::from_secs(1) {
            sampled = Instant::now();
            samples.extend(observer.held());
        }
        let due = began + plan.every * sessions.len() as u32;
        wait_for("the next session's time", CEILING, || {
            due.checked_duration_since(Instant::now())
                .map_or(Ok(()), Err)
        });
    }
    sessions
}

/// Returns the observer's resources at rest: the least of many samples, once the next samples have the
/// same least. A running tmux process holds a little more, and a drain may start late.
fn held_at_rest(observer: &Observer) -> Held {
    const SAMPLES: usize = 100;
    let (mut before, mut samples) = (None, Vec::new());
    wait_for("an observer at rest", CEILING, || {
        samples.push(observer.held().unwrap());
        if samples.len() < SAMPLES {
            return Err(samples.last().copied());
        }
        let least = samples
            .drain(..)
            .min_by_key(|held| (held.threads, held.descriptors));
        let least = least.unwrap();
        let same = |before: Held| {
            (before.threads, before.descriptors) == (least.threads, least.descriptors)
        };
        match before.replace(least) {
            Some(before) if same(before) => Ok(least),
            _ => Err(Some(least)),
        }
    })
}

/// Returns the ended children that nobody has reaped.
fn zombies_of(pid: u32) -> Vec<u32> {
    let mut zombies = children_of(pid);
    let none_left = within(CEILING, || {
        zombies.retain(|pid| is_zombie(*pid));
        if zombies.is_empty() { Ok(()) } else { Err(()) }
    });
    if none_left.is_err() {
        zombies
    } else {
        Vec::new()
    }
}

#[test]
fn sessions_come_and_go_and_leave_nothing_behind() {
    let summary = churn(&Plan {
        time: Duration::from_secs(6),
        every: Duration::from_millis(200),
        life: Duration::from_millis(1500),
        lines: 1_000,
    });
    assert!(summary.faults.is_empty(), "{summary}");
    let whole: usize = summary.results.values().map(|results| results.whole).sum();
    assert!(whole > 0, "{summary}");
}

/// Checks a session's log of three lines with gaps as in the case: a number is a line, otherwise a gap
/// with or without a count.
fn followed(case: &[Result<u64, Option<u64>>]) -> Result<Results, String> {
    let (mut log, mut next) = (Vec::new(), 1);
    let event = |event| Envelope::new(None, Timestamp::from_micros(1), event);
    for step in case {
        log.push(event(match *step {
            Ok(stderr) => TdEvent::output_update("s", &"%1".into(), next, &format!("s {stderr}\n")),
            Err(lost_lines) => TdEvent::output_gap(
                "s",
                &"%1".into(),
                next,
                lost_lines,
                "ambiguous",
                GapEvidence::Possible,
            ),
        }));
        next += match *step {
            Ok(_) => 1,
            Err(lost_lines) => lost_lines.unwrap_or(0) as i64,
        };
    }
    log.push(event(TdEvent::session_ended("s", "s", "closed", None)));
    let mut results = Results::default();
    follow("s", 3, &log, &mut results).map(|()| results)
}

#[test]
fn lines_lost_without_a_gap_are_found() {
    let whole = followed(&[Ok(1), Ok(2), Ok(3)]).unwrap();
    assert_eq!((whole.whole, whole.lost), (1, 0));
    let announced = [
        &[Ok(1), Err(Some(1)), Ok(3)][..],
        &[Ok(1), Err(None), Ok(3)],
        &[Ok(1), Ok(2), Err(None)],
    ];
    for case in announced {
        let results = followed(case).unwrap();
        assert_eq!((results.whole, results.lost), (0, 1), "{case:?}");
    }
    let needless = followed(&[Ok(1), Ok(2), Ok(3), Err(None)]).unwrap();
    assert_eq!((needless.whole, needless.needless_at_end), (1, 1));
    let faults = [
        (&[Ok(1), Ok(3)][..], "silently"),
        (&[Ok(1), Ok(2)], "its last 1 lines"),
        (&[Ok(1), Ok(2), Ok(2), Ok(3)], "again"),
        (&[Ok(1), Err(None), Ok(2), Ok(3)], "nothing is missing"),
        (&[Ok(1), Err(Some(2)), Ok(3)], "where 1 are missing"),
        (&[Err(Some(1)), Ok(2), Ok(1)], "again"),
    ];
    for (case, fault) in faults {
        let found = followed(case).unwrap_err();
        assert!(found.contains(fault), "{case:?}: {found}");
    }
}
