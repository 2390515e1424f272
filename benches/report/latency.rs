//! The latency from a program's write to the subscriber, compared with `pipe-pane` to a file and `tail
//! -F`.
//!
//! The programs print the time of printing. One prints continuously; others print a line after a quiet
//! time, when a poller with long intervals is late.

use std::collections::BTreeMap;

use crate::common::program::Program;
use crate::common::stats::percentile;
use crate::common::support::{CEILING, TmuxServer};
use crate::common::table::{Bar, Row, Table};
use crate::common::ways::{Following, Piece, WAYS, Way};

const ROUNDS: usize = 3;

/// Panes and their programs.
struct Case {
    what: &'static str,
    panes: usize,
    program: Program,
}

/// Periods that are no multiple of the interval, so that every phase between two captures occurs.
const CASES: [Case; 2] = [
    Case {
        what: "a line each 37 ms",
        panes: 1,
        program: Program::Stamps {
            period_ms: 37,
            count: 100,
        },
    },
    Case {
        what: "a line after 1.3 s of silence, 10 panes",
        panes: 10,
        program: Program::Stamps {
            period_ms: 1313,
            count: 3,
        },
    },
];

pub fn run(table: &mut Table) {
    for case in CASES {
        let mut all: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for _ in 0..ROUNDS {
            for (at, way) in WAYS.into_iter().enumerate() {
                all.entry(at).or_default().extend(latencies(way, &case));
            }
        }
        let figures = |at: usize| (percentile(&all[&at], 0.5), percentile(&all[&at], 0.99));
        let (p50, p99) = figures(2);
        for (at, name) in [(0, "looking each 200 ms"), (1, "as it is by default")] {
            let ours = figures(at);
            table.row(&Row {
                what: &format!("write → subscriber, {}, {name}, p50 / p99", case.what),
                ours: format!("{:.0} / {:.0} ms", ours.0, ours.1),
                instead: format!("`pipe-pane` to a file, `tail -F`: {p50:.1} / {p99:.1} ms"),
                ratio: Some(ours.0 / p50),
                bar: Bar::None,
            });
        }
    }
}

/// Returns the latencies from the write to the subscriber, in ms.
fn latencies(way: Way, case: &Case) -> Vec<f64> {
    let server = TmuxServer::new();
    let names: Vec<String> = (0..case.panes).map(|pane| format!("s{pane}")).collect();
    for name in &names {
        let pane = server.new_session(name, 80, 24, &case.program.command_on_go());
        server.wait_for_text(&pane, "ready");
    }
    let following = Following::start(way, &server, case.panes);
    server.tmux(&["wait-for", "-S", "go"]);
    let (mut latencies, mut ended) = (Vec::new(), 0);
    while ended < case.panes {
        let Piece::Lines(lines, came) = following.pieces.recv_timeout(CEILING).unwrap() else {
            panic!("nothing is lost at this pace");
        };
        for line in lines.lines() {
            let mut words = line.split(' ');
            match words.next() {
                Some("stamp") => {
                    let written: u64 = words.nth(1).unwrap().parse().unwrap();
                    latencies.push((came - written) as f64 / 1e6);
                }
                Some("end") => ended += 1,
                _ => {}
            }
        }
    }
    latencies
}
