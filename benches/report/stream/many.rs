//! Many sessions: their cost at rest, and the latency of quiet ones beside floods.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use td_observe::tmux::Server;
use td_observe::{Builder, Delivery, PaneId, TdEvent, Watch};

use super::flood::{Counted, END};
use super::observer::{Observer, Who};
use super::{mb, size, thousands};
use crate::common::cpu::{children_of_ms, other_ms};
use crate::common::drains::{drain, pid_of, until_followed};
use crate::common::panes;
use crate::common::program::{Program, monotonic_ns};
use crate::common::resources::share_kb;
use crate::common::stats::percentile;
use crate::common::support::{CEILING, TmuxServer, wait_for};
use crate::common::table::{Bar, Row, Table};
use crate::common::ways::tail_of;

const RESTS: Duration = Duration::from_secs(10);
/// Half a percent of a processor.
const REST_BAR_MS: f64 = 50.0;
/// The pause after the start of this many sessions.
const SETTLE: Duration = Duration::from_secs(12);

const SESSIONS: usize = 50;
const FLOODING: usize = 10;
const FLOOD_LINES: u64 = 100_000;
const ROUNDS: usize = 3;
const QUIET: Program = Program::Stamps {
    period_ms: 100,
    count: 50,
};

/// The end of each pane's last line, as a terminal prints it.
const LAST_LINE: &[u8] = b"end\r\n";

pub fn run(table: &mut Table) {
    resting(table);
    beside_floods(table);
}

/// Returns the processor time in ms: of the observer's processes, and of the server.
fn rested(server: &TmuxServer, processes: &[u32]) -> (f64, f64) {
    let server = pid_of(server);
    let now = || {
        let ours = processes
            .iter()
            .map(|pid| other_ms(*pid) + children_of_ms(*pid));
        (ours.sum::<f64>(), other_ms(server))
    };
    let before = now();
    thread::sleep(RESTS);
    let after = now();
    (after.0 - before.0, after.1 - before.1)
}

fn resting(table: &mut Table) {
    let sessions = size("TD_BENCH_SESSIONS", 200) as usize;
    let server = panes::server(sessions, 0);
    let plain = rested(&server, &[]).1;
    let began = Instant::now();
    let observer = Observer::start(Who::Stream, &server, sessions);
    eprintln!(
        "  {sessions} sessions are followed after {:.1?}",
        began.elapsed()
    );
    thread::sleep(SETTLE);
    let processes = observer.all();
    let (watching, drains) = processes.split_at(1);
    let held = |of: &[u32]| mb(of.iter().filter_map(|pid| share_kb(*pid)).sum());
    let memory = format!("{} and {}", held(watching), held(drains));
    let server_id = pid_of(&server);
    let now = |of: &[u32]| of.iter().map(|pid| other_ms(*pid)).sum::<f64>();
    let before = now(drains);
    let ours = rested(&server, watching);
    let of_drains = now(drains) - before;
    let again = other_ms(server_id);
    drop(observer);
    thread::sleep(Duration::from_secs(1));
    eprintln!(
        "  stopping cost the server {:.0} ms",
        other_ms(server_id) - again
    );
    let tail = Observer::start(Who::Tail, &server, sessions);
    thread::sleep(SETTLE);
    let theirs = rested(&server, &tail.all());
    let extra = |spent: (f64, f64)| spent.0 + (spent.1 - plain).max(0.0);
    let all = extra((ours.0 + of_drains, ours.1));
    table.row(&Row {
        what: &format!("{sessions} sessions at rest, streamed, processor time in 10 s"),
        ours: format!(
            "{all:.1} ms: observer {:.1}, drains {of_drains:.1}, server {:.1} more; memory of \
             observer and drains: {memory}",
            ours.0,
            (ours.1 - plain).max(0.0)
        ),
        instead: format!(
            "the server, unobserved: {plain:.1} ms; `cat >> file` and `tail -F`: {:.1} ms",
            extra(theirs)
        ),
        ratio: None,
        bar: Bar::Stated("≤ 50 ms", all <= REST_BAR_MS),
    });
}

/// Starts a server whose first panes flood on the signal `flood`, while the others print now and then
/// from the signal `go` on.
fn mixed() -> TmuxServer {
    let server = TmuxServer::new();
    let flood = format!(
        "printf 'ready\\n'; tmux wait-for flood; seq 1 {FLOOD_LINES}; printf 'the %s\\n' end; exec cat"
    );
    let quiet = QUIET.command_on_go();
    let program = |at| if at < FLOODING { &flood } else { &quiet };
    let mut script = String::new();
    let first = server.new_session("s0", 80, 24, program(0));
    for at in 1..SESSIONS {
        let program = program(at).replace('\\', "\\\\").replace('"', "\\\"");
        writeln!(script, "new-session -d -x 80 -y 24 -s s{at} \"{program}\"").unwrap();
    }
    server.script(&script);
    server.wait_for_text(&first, "ready");
    let last = format!("=s{}:", SESSIONS - 1);
    server.wait_for_text(&last, "ready");
    wait_for("all of them", CEILING, || {
        let begun = (0..SESSIONS).filter(|at| {
            let target = format!("=s{at}:");
            server.screen(&target).contains("ready")
        });
        match begun.count() {
            SESSIONS => Ok(()),
            begun => Err(begun),
        }
    });
    server
}

/// The result of one round.
struct Round {
    /// The latencies of the quiet panes' lines that were written during the floods, in ms.
    ages: Vec<f64>,
    missing: u64,
    /// From the signal to the last line of a flood, in s.
    took: f64,
    failure: String,
}

fn begin(server: &TmuxServer) -> u64 {
    server.tmux(&["wait-for", "-S", "go"]);
    thread::sleep(Duration::from_millis(1000));
    let began = monotonic_ns();
    server.tmux(&["wait-for", "-S", "flood"]);
    began
}

fn beside_floods(table: &mut Table) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(streamed());
        theirs.push(tailed());
    }
    let figures = |round: &[Round]| {
        let ages: Vec<f64> = round.iter().flat_map(|round| round.ages.clone()).collect();
        let ages = [0.5, 0.99, 1.0].map(|part| percentile(&ages, part));
        let took: Vec<String> = round
            .iter()
            .map(|round| format!("{:.2}", round.took))
            .collect();
        eprintln!("  floods took, s: {}", took.join(" "));
        let missing: u64 = round.iter().map(|round| round.missing).sum();
        (
            format!("{:.2} / {:.1} / {:.0} ms", ages[0], ages[1], ages[2]),
            missing,
            ages[0],
        )
    };
    let (ours_ms, missing, ours_p50) = figures(&ours);
    let (theirs_ms, theirs_missing, theirs_p50) = figures(&theirs);
    let failures: String = ours.iter().map(|round| round.failure.as_str()).collect();
    let floods = format!(
        "{SESSIONS} sessions, {FLOODING} of which print {} lines at once",
        thousands(FLOOD_LINES)
    );
    table.row(&Row {
        what: &format!("{floods}, streamed: lines lost, {ROUNDS} times"),
        ours: format!("{}{failures}", thousands(missing)),
        instead: format!(
            "`pipe-pane` to files, one `tail -F`: {}, torn where it goes from file to file",
            thousands(theirs_missing)
        ),
        ratio: None,
        bar: Bar::Stated("0", missing == 0 && failures.is_empty()),
    });
    table.row(&Row {
        what: &format!(
            "{floods}: the others' lines meanwhile, write → subscriber, p50 / p99 / longest"
        ),
        ours: ours_ms,
        instead: format!("`pipe-pane` to files, `tail -F`: {theirs_ms}"),
        ratio: Some(ours_p50 / theirs_p50),
        bar: Bar::None,
    });
}

fn streamed() -> Round {
    let server = mixed();
    let mut engine = Builder::new().capacity(1_000_000).start().unwrap();
    let mut events = engine.subscribe();
    let asked: Server = server.server();
    engine.watch(Watch::new(asked).stream(drain())).unwrap();
    until_followed(&server, SESSIONS);
    thread::sleep(Duration::from_secs(1));
    let began = begin(&server);
    let (mut came, mut ended, mut failure) = (Vec::new(), 0, String::new());
    while ended < SESSIONS {
        match events.recv_timeout(CEILING) {
            Ok(Delivery::Event(envelope)) => {
                let now = monotonic_ns();
                if let TdEvent::OutputUpdate { chunk, .. } = &envelope.event {
                    // Both kinds of panes end with this text, which nothing follows.
                    ended += usize::from(chunk.ends_with("end\n"));
                }
                came.push((now, envelope));
            }
            Ok(Delivery::Lagged { missed }) => failure += &format!("; {missed} events missed"),
            Err(_) => {
                failure += &format!("; {} panes did not come to their end", SESSIONS - ended);
                break;
            }
        }
    }
    engine.shutdown();
    let (mut floods, mut stamps) = (BTreeMap::<PaneId, Counted>::new(), Vec::new());
    let mut last = began;
    for (at, envelope) in came {
        let envelope = envelope.into_envelope();
        let Some(pane) = envelope.event.pane().cloned() else {
            continue;
        };
        // The panes of a server are counted from 0.
        let number: usize = pane.as_str()[1..].parse().unwrap();
        if number < FLOODING {
            let counted = floods.entry(pane).or_default();
            counted.take(&envelope);
            if counted.has_ended {
                last = last.max(at);
            }
        } else if let TdEvent::OutputUpdate { chunk, .. } = &envelope.event {
            stamps.extend(
                chunk
                    .lines()
                    .filter_map(written)
                    .map(|written| (written, at)),
            );
        } else if let TdEvent::OutputGap { .. } = &envelope.event {
            failure += "; a gap in a quiet pane";
        }
    }
    for counted in floods.values().filter(|one| !one.is_whole(FLOOD_LINES)) {
        failure += &format!("; {}", counted.shown());
    }
    let lines: u64 = floods.values().map(|counted| counted.settled).sum();
    round(lines, &stamps, (began, last), failure)
}

fn tailed() -> Round {
    let server = mixed();
    let (mut tail, mut from, _) = tail_of(&server);
    let (send, ended) = channel();
    // The thread reads in blocks, which are parsed later.
    let reader = thread::spawn(move || {
        let (mut text, mut blocks, mut buffer) = (Vec::new(), Vec::new(), vec![0; 1 << 16]);
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let searched = text.len().saturating_sub(LAST_LINE.len() - 1);
            text.extend_from_slice(&buffer[..read]);
            blocks.push((text.len(), monotonic_ns()));
            for _ in memchr::memmem::find_iter(&text[searched..], LAST_LINE) {
                // The receiver may be gone.
                let _ = send.send(());
            }
        }
        (text, blocks)
    });
    thread::sleep(Duration::from_secs(1));
    let began = begin(&server);
    let mut failure = String::new();
    if (0..SESSIONS).any(|_| ended.recv_timeout(CEILING).is_err()) {
        failure += "; not all came to their end";
    }
    tail.kill().unwrap();
    tail.wait().unwrap();
    let (text, blocks) = reader.join().unwrap();
    let (mut lines, mut stamps, mut last, mut from) = (0, Vec::new(), began, 0);
    let mut blocks = blocks.into_iter().peekable();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        from += line.len();
        // Find the block that contains the line's end.
        while blocks.next_if(|(end, _)| *end < from).is_some() {}
        let came = blocks.peek().map_or(began, |(_, came)| *came);
        let line = String::from_utf8_lossy(line.trim_ascii_end());
        match written(&line) {
            Some(written) => stamps.push((written, came)),
            None if line == END => last = came,
            None => lines += u64::from(line.parse::<u64>().is_ok()),
        }
    }
    round(lines, &stamps, (began, last), failure)
}

fn written(line: &str) -> Option<u64> {
    let (_, written) = line.strip_prefix("stamp ")?.split_once(' ')?;
    written.parse().ok()
}

fn round(lines: u64, stamps: &[(u64, u64)], (began, last): (u64, u64), failure: String) -> Round {
    let meanwhile = stamps
        .iter()
        .filter(|(written, _)| (began..last).contains(written));
    let stamps_expected = (SESSIONS - FLOODING) as u64 * 50;
    let flood_expected = FLOODING as u64 * FLOOD_LINES;
    Round {
        ages: meanwhile
            .map(|(written, came)| (came - written) as f64 / 1e6)
            .collect(),
        missing: flood_expected.abs_diff(lines) + stamps_expected.abs_diff(stamps.len() as u64),
        took: (last - began) as f64 / 1e9,
        failure,
    }
}
