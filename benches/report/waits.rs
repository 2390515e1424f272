//! Waiter: the delay between a text on a pane and the return of the wait, and the cost of fifty waits.
//!
//! A program in the pane prints the time of printing, so that the same clock dates both ends. The cost is
//! CPU time: of this process, of its children, and of the server beyond its load without a wait. One wait
//! and fifty are measured in turn on the same fifty panes.

use std::thread;
use std::time::Duration;

use td_observe::tmux::{DrainProgram, Target};
use td_observe::wait::{Pattern, Wait, WaitEnd, Waiter};
use td_observe::{Builder, Delivery, TdEvent, Watch};

use crate::common::cpu::{Spent, spent};
use crate::common::panes::server;
use crate::common::program::{Program, monotonic_ns};
use crate::common::stats::{median, percentile};
use crate::common::support::{CEILING, TmuxServer};
use crate::common::table::{Bar, Row, Table};

const MANY: usize = 50;
const ROUNDS: usize = 3;
const WHILE: Duration = Duration::from_secs(5);
/// The pause after a wait's beginning, whose cost differs from that of later ticks.
const SETTLE: Duration = Duration::from_millis(700);
/// The default poll interval of waits.
const USUAL: Duration = Duration::from_millis(50);
/// In addition to half the interval, which is the mean delay of polling.
const SLACK_MS: f64 = 10.0;

/// The number of awaited lines for one figure.
const STAMPS: u64 = 80;
/// No multiple of an interval, so that every phase between two captures occurs; and not below the longest
/// interval, because a wait for text rarely meets continuous output.
const PERIOD_MS: u64 = 439;

pub fn run(table: &mut Table) {
    for (what, others) in [
        ("nothing else prints", 0),
        ("20 other panes print a line a second", 20),
    ] {
        for interval_ms in [50, 200] {
            woken(table, what, others, interval_ms);
        }
    }
    streamed(table);
    for (what, printing) in [
        ("quiet panes", 0),
        ("panes that print a line a second", MANY),
    ] {
        cost(table, what, printing);
    }
}

fn woken(table: &mut Table, what: &str, others: usize, interval_ms: u64) {
    let latencies = latencies(others, interval_ms);
    let (p50, p99) = (percentile(&latencies, 0.5), percentile(&latencies, 0.99));
    let bar_ms = interval_ms as f64 / 2.0 + SLACK_MS;
    table.row(&Row {
        what: &format!("text → a wait is back, looking each {interval_ms} ms, {what}, p50 / p99"),
        ours: format!("{p50:.1} / {p99:.1} ms"),
        instead: String::new(),
        ratio: None,
        bar: Bar::Stated(&format!("p50 ≤ {bar_ms:.0} ms"), p50 <= bar_ms),
    });
}

/// A wait on an engine that streams the pane.
fn streamed(table: &mut Table) {
    let (server, pane) = stamps(20, 20);
    let mut engine = Builder::new().start().unwrap();
    let mut events = engine.subscribe();
    let drain = DrainProgram::at(env!("CARGO_BIN_EXE_td-observe"));
    let watch = Watch::new(server.server()).stream(drain);
    engine.watch(watch).unwrap();
    let is_opened = |event: &TdEvent| matches!(event, TdEvent::PaneOpened { pane: opened, .. } if opened.as_str() == pane);
    while let Ok(delivery) = events.recv_timeout(CEILING) {
        if let Delivery::Event(event) = delivery
            && is_opened(&event.event)
        {
            break;
        }
    }
    drop(events);
    let waiter = engine.waiter(server.server()).unwrap();
    server.tmux(&["wait-for", "-S", "go"]);
    let latencies: Vec<f64> = (0..STAMPS).map(|_| latency(&waiter, 50)).collect();
    engine.shutdown();
    let (p50, p99) = (percentile(&latencies, 0.5), percentile(&latencies, 0.99));
    table.row(&Row {
        what: "text → a wait on a streamed pane is back, 20 other panes print a line a second, p50 / p99",
        ours: format!("{p50:.1} / {p99:.1} ms"),
        instead: String::new(),
        ratio: None,
        bar: Bar::Stated("p50 ≤ 15 ms, p99 ≤ 60 ms", p50 <= 15.0 && p99 <= 60.0),
    });
}

/// Starts a server with a pane of stamps; returns the pane, too.
fn stamps(panes: usize, printing: usize) -> (TmuxServer, String) {
    let server = server(panes, printing);
    let program = Program::Stamps {
        period_ms: PERIOD_MS,
        // Some are printed before the next wait has started.
        count: STAMPS * 3,
    };
    let pane = server.new_session("stamps", 80, 24, &program.command_on_go());
    server.wait_for_text(&pane, "ready");
    (server, pane)
}

/// Returns the times from the write to the return of its wait, in ms.
fn latencies(others: usize, interval_ms: u64) -> Vec<f64> {
    let (server, _) = stamps(others.max(1), others);
    let waiter = Waiter::new(server.server()).unwrap();
    server.tmux(&["wait-for", "-S", "go"]);
    (0..STAMPS).map(|_| latency(&waiter, interval_ms)).collect()
}

fn latency(waiter: &Waiter, interval_ms: u64) -> f64 {
    let wait = at("stamps")
        .pattern(Pattern::regex(r"^stamp \d+ \d+ *$").unwrap())
        .interval(Duration::from_millis(interval_ms));
    let WaitEnd::Matched(found) = waiter.wait(&wait).unwrap().end else {
        panic!("the next line comes");
    };
    let back = monotonic_ns();
    let text = found.text.unwrap();
    let written: u64 = text.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
    (back - written) as f64 / 1e6
}

/// Compares one wait with fifty, each on its own pane, and all on one.
fn cost(table: &mut Table, what: &str, printing: usize) {
    let server = server(MANY, printing);
    let own: Vec<usize> = (0..MANY).collect();
    let (mut one, mut each, mut same) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let pid = server.pid().as_raw_nonzero().get() as u32;
        let unwatched = spent(pid, || thread::sleep(WHILE)).server;
        let take = |costs: &mut Vec<f64>, panes: &[usize]| {
            let spent = waiting(&server, pid, panes);
            costs.push(spent.watcher + (spent.server - unwatched).max(0.0));
        };
        take(&mut one, &[0]);
        take(&mut each, &own);
        take(&mut same, &[0; MANY]);
    }
    let one = median(one);
    for (place, fifty) in [
        ("each at its own", median(each)),
        ("all at one", median(same)),
    ] {
        table.row(&Row {
            what: &format!("{MANY} waits at once, looking each 50 ms, {MANY} {what}, {place}"),
            ours: format!("{fifty:.1} ms CPU a second"),
            instead: format!("one wait: {one:.1} ms"),
            ratio: Some(fifty / one),
            bar: Bar::AtMost(3.0),
        });
    }
}

/// Measures the cost of waits whose patterns never match.
fn waiting(server: &TmuxServer, pid: u32, panes: &[usize]) -> Spent {
    let waiter = Waiter::new(server.server()).unwrap();
    thread::scope(|scope| {
        for pane in panes {
            let wait = at(&format!("s{pane}"))
                .pattern(Pattern::text("what no pane prints").unwrap())
                .interval(USUAL)
                .timeout(SETTLE + WHILE + SETTLE);
            let waiter = &waiter;
            scope.spawn(move || assert_eq!(waiter.wait(&wait).unwrap().end, WaitEnd::TimedOut));
        }
        thread::sleep(SETTLE);
        spent(pid, || thread::sleep(WHILE))
    })
}

fn at(target: &str) -> Wait {
    Wait::at(Target::parse(target).unwrap()).timeout(CEILING)
}
