//! A pane that prints a million lines: its time, its lines in the log, and the cost for the observer and
//! the tmux server.
//!
//! Each round has its own server: in turn unobserved, streamed, piped to a file, and polled. If other
//! processes are busy, the rounds with the least other load count, whatever their result.

use std::thread;
use std::time::{Duration, Instant};

use super::flood::{Counted, Flood};
use super::observer::{Observer, Who};
use super::{lines, mb, pairs, thousands};
use crate::common::cpu::{busy_ms, children_ms, other_ms, own_ms, whole_ms};
use crate::common::drains::pid_of;
use crate::common::resources::children_of;
use crate::common::stats::median;
use crate::common::table::{Bar, Row, Table};

const TIME_BAR: f64 = 1.05;
const PEAK_BAR_KB: u64 = 150 * 1024;
/// The pause after the beginning of observation.
const SETTLE: Duration = Duration::from_millis(300);

const TURN: [Who; 4] = [Who::Nobody, Who::Stream, Who::Tail, Who::Poll];

/// Factor for additional rounds while other processes are busy; the quietest ones count.
const ROUNDS_FACTOR: u64 = 3;
/// The processor load of other processes, as a fraction of one processor, that still counts as quiet.
const QUIET: f64 = 0.1;

/// One flood.
struct Ran {
    pane_s: f64,
    /// The processor time that other processes took meanwhile, as a fraction of one processor.
    others: f64,
    cpu_ms: f64,
    server_ms: f64,
    peaks_kb: Vec<u64>,
    counted: Counted,
}

pub fn run(table: &mut Table) {
    let all = quiet_rounds();
    let [nobody, stream, tail, poll] = std::array::from_fn(|at| &all[at][..]);
    let of = |ran: &[Ran], value: fn(&Ran) -> f64| median(ran.iter().map(value).collect());
    let pane_s = |ran: &[Ran]| of(ran, |ran| ran.pane_s);
    let (plain, count) = (pane_s(nobody), thousands(lines()));
    for (what, ours, bar) in [
        ("streamed", stream, Bar::AtMost(TIME_BAR)),
        ("polled", poll, Bar::None),
    ] {
        table.row(&Row {
            what: &format!("`seq 1 {count}` in a pane, {what}, log kept: the pane's time"),
            ours: format!("{:.3} s", pane_s(ours)),
            instead: format!(
                "unobserved: {plain:.3} s; `cat >> file`, `tail -F`: {:.3} s ({:.2})",
                pane_s(tail),
                pane_s(tail) / plain
            ),
            ratio: Some(pane_s(ours) / plain),
            bar,
        });
    }
    kept_row(table, stream, tail, poll);
    peak_row(table, stream, tail);
    for (what, value) in [
        (
            "observer and drain",
            (|ran: &Ran| ran.cpu_ms) as fn(&Ran) -> f64,
        ),
        ("the tmux server", |ran: &Ran| ran.server_ms),
    ] {
        let (ours, theirs) = (of(stream, value), of(tail, value));
        let unobserved = match of(nobody, value) {
            0.0 => String::new(),
            plain => format!("unobserved: {plain:.0} ms; "),
        };
        table.row(&Row {
            what: &format!("`seq 1 {count}` streamed, log kept: processor time of {what}"),
            ours: format!("{ours:.0} ms"),
            instead: format!(
                "{unobserved}`cat >> file`, `tail -F`: {theirs:.0} ms; polled: {:.0} ms",
                of(poll, value)
            ),
            ratio: Some(ours / theirs),
            bar: Bar::None,
        });
    }
}

/// Returns the rounds with the least load of other processes, for each way.
fn quiet_rounds() -> [Vec<Ran>; 4] {
    let (mut rounds, mut quiet) = (Vec::new(), 0);
    while quiet < pairs() && (rounds.len() as u64) < pairs() * ROUNDS_FACTOR {
        let mut round = [const { None }; 4];
        for at in 0..TURN.len() {
            // Each way runs first, second and last.
            let at = (at + rounds.len()) % TURN.len();
            round[at] = Some(ran(TURN[at]));
        }
        let round = round.map(Option::unwrap);
        let others = round.iter().map(|ran| ran.others).fold(0.0, f64::max);
        quiet += u64::from(others < QUIET);
        rounds.push((others, round));
    }
    rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
    rounds.truncate(pairs() as usize);
    let mut all = [const { Vec::new() }; 4];
    for (others, round) in rounds {
        let seconds: Vec<String> = round
            .iter()
            .map(|ran| format!("{:.3}", ran.pane_s))
            .collect();
        eprintln!(
            "  pane's time unobserved, streamed, tail, polled: {} s; others took {:.0} % of a processor",
            seconds.join(" "),
            others * 100.0
        );
        for (all, ran) in all.iter_mut().zip(round) {
            all.push(ran);
        }
    }
    all
}

fn kept_row(table: &mut Table, stream: &[Ran], tail: &[Ran], poll: &[Ran]) {
    let whole = |ran: &[Ran]| {
        let whole = ran.iter().filter(|ran| ran.counted.is_whole(lines()));
        whole.count()
    };
    let broken = stream
        .iter()
        .find(|ran| !ran.counted.is_whole(lines()))
        .map_or(String::new(), |ran| format!(": {}", ran.counted.shown()));
    let missed = poll
        .iter()
        .map(|ran| (lines() - ran.counted.settled.min(lines())) as f64);
    let missed = median(missed.collect()) as u64;
    table.row(&Row {
        what: &format!(
            "`seq 1 {}`, all lines in the log, once, in order",
            thousands(lines())
        ),
        ours: format!("{} of {} times{broken}", whole(stream), stream.len()),
        instead: format!(
            "`cat >> file`: {} of {}; polled: {} of {}, {} lines missing",
            whole(tail),
            tail.len(),
            whole(poll),
            poll.len(),
            thousands(missed)
        ),
        ratio: None,
        bar: Bar::Stated("all", whole(stream) == stream.len()),
    });
}

fn peak_row(table: &mut Table, stream: &[Ran], tail: &[Ran]) {
    let most = |ran: &[Ran]| {
        let peaks = ran.iter().map(|ran| ran.peaks_kb.clone());
        peaks.max_by_key(|peaks| peaks.iter().sum::<u64>()).unwrap()
    };
    let (ours, theirs) = (most(stream), most(tail));
    let each: Vec<String> = ours.iter().map(|kb| mb(*kb)).collect();
    let sum = ours.iter().sum();
    table.row(&Row {
        what: &format!(
            "`seq 1 {}`, memory at most, observer and drain",
            thousands(lines())
        ),
        ours: format!("{} ({})", mb(sum), each.join(", ")),
        instead: format!("`cat` and `tail`: {}", mb(theirs.iter().sum())),
        ratio: None,
        bar: Bar::Stated("< 150 MB", sum < PEAK_BAR_KB && ours.len() == 2),
    });
}

fn ran(who: Who) -> Ran {
    let flood = Flood::new(lines());
    let observer = Observer::start(who, &flood.server, 1);
    thread::sleep(SETTLE);
    let server = pid_of(&flood.server);
    // The pane's program counts the children that it has reaped; drains belong to the observer.
    let panes = children_of(server);
    let panes: Vec<u32> = panes
        .into_iter()
        .filter(|pid| !observer.all().contains(pid))
        .collect();
    let now = || {
        let pane_ms: f64 = panes.iter().map(|pid| whole_ms(*pid)).sum();
        let (cpu_ms, server_ms) = (observer.cpu_ms(), other_ms(server));
        let ours = cpu_ms + server_ms + pane_ms + own_ms() + children_ms();
        (cpu_ms, server_ms, busy_ms() - ours)
    };
    let (began, before) = (Instant::now(), now());
    flood.go();
    let pane_s = flood.took();
    observer.until_end();
    // An unobserved flood has no end to wait for; the pane's screen is complete soon.
    thread::sleep(Duration::from_millis(20));
    let after = now();
    Ran {
        pane_s,
        others: (after.2 - before.2) / 1e3 / began.elapsed().as_secs_f64(),
        cpu_ms: after.0 - before.0,
        server_ms: after.1 - before.1,
        peaks_kb: observer.peaks_kb(),
        counted: observer.stop_and_count(),
    }
}
