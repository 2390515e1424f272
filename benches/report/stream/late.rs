//! The latency from a program's write to the subscriber, at 100 lines per second for 3 s.

use std::time::Duration;

use crate::common::program::Program;
use crate::common::stats::percentile;
use crate::common::support::{CEILING, TmuxServer};
use crate::common::table::{Bar, Row, Table};
use crate::common::ways::{Following, Piece, Way};

const ROUNDS: usize = 3;
const PROGRAM: Program = Program::Stamps {
    period_ms: 10,
    count: 300,
};
const P50_BAR_MS: f64 = 0.15;
const P99_BAR_MS: f64 = 5.0;
/// The longest time between a pane's last line and its reported end.
const LAST: Duration = CEILING;

pub fn run(table: &mut Table) {
    let ways = [Way::Stream, Way::Tail, Way::Default];
    let mut all = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (ages, way) in all.iter_mut().zip(ways) {
            ages.extend(ages_ms(way));
        }
    }
    let lines: Vec<usize> = all.iter().map(Vec::len).collect();
    eprintln!("  lines that came: {lines:?}");
    let [stream, tail, poll] = all.map(|ages| [0.5, 0.99, 1.0].map(|part| percentile(&ages, part)));
    table.row(&Row {
        what: "write → subscriber, streamed, 100 lines/s, p50 / p99 / longest",
        ours: shown(stream),
        instead: format!(
            "`pipe-pane` to a file, `tail -F`: {}; polled: {}",
            shown(tail),
            shown(poll)
        ),
        ratio: Some(stream[0] / tail[0]),
        bar: Bar::Stated(
            "p50 ≤ 0.15 ms, p99 ≤ 5 ms",
            stream[0] <= P50_BAR_MS && stream[1] <= P99_BAR_MS && lines[0] == ROUNDS * 300,
        ),
    });
}

fn shown(ms: [f64; 3]) -> String {
    match ms {
        [p50, ..] if p50 < 10.0 => format!("{:.2} / {:.2} / {:.1} ms", ms[0], ms[1], ms[2]),
        _ => format!("{:.0} / {:.0} / {:.0} ms", ms[0], ms[1], ms[2]),
    }
}

/// Returns the latency of each line from its write to the subscriber, in ms.
fn ages_ms(way: Way) -> Vec<f64> {
    let server = TmuxServer::new();
    let pane = server.new_session("s0", 80, 24, &PROGRAM.command_on_go());
    server.wait_for_text(&pane, "ready");
    let following = Following::start(way, &server, 1);
    server.tmux(&["wait-for", "-S", "go"]);
    let mut ages = Vec::new();
    loop {
        match following.pieces.recv_timeout(LAST) {
            Ok(Piece::Lines(lines, came)) => {
                for line in lines.lines() {
                    match line
                        .strip_prefix("stamp ")
                        .and_then(|it| it.split_once(' '))
                    {
                        Some((_, written)) => {
                            let written: u64 = written.parse().unwrap();
                            ages.push((came - written) as f64 / 1e6);
                        }
                        None if line == "end" => return ages,
                        None => {}
                    }
                }
            }
            Ok(Piece::Gap) => eprintln!("FAILED: {way:?} lost lines"),
            Err(_) => {
                eprintln!("FAILED: {way:?}: the end did not come");
                return ages;
            }
        }
    }
}
