//! The maximum number of lines per second that a pane can print without loss, compared with `tail -F`.

use crate::common::program::Program;
use crate::common::support::{CEILING, TmuxServer};
use crate::common::table::{Bar, Row, Table};
use crate::common::ways::{Following, Piece, Way};

/// Lines per second, printed in bursts every 10 ms.
const RATES: [u64; 6] = [1_000, 2_000, 5_000, 10_000, 20_000, 50_000];
const TIME_MS: u64 = 2_500;
/// A second try, because another process may have used the machine.
const TRIES: usize = 2;

pub fn run(table: &mut Table) {
    let best = highest(Way::Tail);
    for (way, name) in [
        (Way::Fixed, "looking each 200 ms"),
        (Way::Default, "as it is by default"),
    ] {
        let ours = highest(way);
        table.row(&Row {
            what: &format!("highest rate without a lost line, {name}"),
            ours: shown(ours),
            instead: format!("`pipe-pane` to a file, `tail -F`: {}", shown(best)),
            ratio: Some(ours as f64 / best as f64),
            bar: Bar::None,
        });
    }
}

fn shown(rate: u64) -> String {
    match rate {
        0 => "less than 1,000 lines/s".to_owned(),
        rate if rate == RATES[RATES.len() - 1] => format!("{} lines/s or more", thousands(rate)),
        rate => format!("{} lines/s", thousands(rate)),
    }
}

fn thousands(rate: u64) -> String {
    format!("{},{:03}", rate / 1000, rate % 1000)
}

/// Returns the highest rate below the first at which lines are lost.
fn highest(way: Way) -> u64 {
    let arrives = |rate: &&u64| (0..TRIES).any(|_| all_arrive(way, **rate));
    RATES
        .iter()
        .take_while(arrives)
        .last()
        .copied()
        .unwrap_or(0)
}

/// Returns true if all lines arrive, each once, in order, without a gap.
fn all_arrive(way: Way, rate: u64) -> bool {
    let program = Program::Bursts {
        rate,
        time_ms: TIME_MS,
    };
    let server = TmuxServer::new();
    let pane = server.new_session("bursts", 80, 24, &program.command_on_go());
    server.wait_for_text(&pane, "ready");
    let following = Following::start(way, &server, 1);
    server.tmux(&["wait-for", "-S", "go"]);
    let (mut next, mut is_whole) = (1, true);
    loop {
        let lines = match following.pieces.recv_timeout(CEILING).unwrap() {
            Piece::Lines(lines, _) => lines,
            Piece::Gap => {
                is_whole = false;
                continue;
            }
        };
        for line in lines.lines() {
            let mut words = line.split(' ');
            match (words.next(), words.next()) {
                (Some("line"), Some(number)) => {
                    let number: u64 = number.parse().unwrap();
                    is_whole &= number == next;
                    next = number + 1;
                }
                (Some("end"), Some(printed)) => {
                    let took: u64 = words.next().unwrap().parse().unwrap();
                    is_whole &= next == printed.parse::<u64>().unwrap() + 1;
                    if took > TIME_MS * 11 / 10 {
                        // The machine or tmux was too slow for this rate.
                        eprintln!("{way:?}: {rate} lines/s took {took} ms instead of {TIME_MS}");
                    }
                    return is_whole;
                }
                _ => {}
            }
        }
    }
}
