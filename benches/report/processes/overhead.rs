//! The cost of observing a command, compared with the same command started directly.
//!
//! - A command that computes and prints now and then, and one that waits and prints: `run` should not
//!   slow them down. Pairs are compared.
//! - The fixed cost at the beginning and at the end, measured with a command that does nothing.

use super::{direct, observer, seconds, with_words};
use crate::common::paired;
use crate::common::program::Program;
use crate::common::stats::rounds;
use crate::common::table::{Bar, Row, Table};

/// Rounds of `true`, which takes very little time.
const NOTHING_ROUNDS: usize = 40;

pub(super) fn rows(table: &mut Table) {
    for lines in [5, 100] {
        let script = counting(lines);
        let what = format!("`run` of a command that computes and prints {lines} lines a second");
        row(table, &what, &["sh", "-c", &script]);
    }
    let bursts = Program::Bursts {
        rate: 100,
        time_ms: 1000,
    };
    let what = "`run` of a command that waits and prints 100 lines a second";
    row(table, what, &["sh", "-c", &bursts.command()]);
    nothing_rows(table);
}

/// Returns a script that counts for about a second on one core, and prints this many lines meanwhile.
fn counting(lines: u64) -> String {
    let script = |count: u64| {
        format!(
            "n=0; while [ $n -lt {lines} ]; do i=0; while [ $i -lt {count} ]; do i=$((i+1)); done; \
             n=$((n+1)); echo \"step $n of the work is done\"; done"
        )
    };
    let mut count = 400_000 / lines;
    // Twice: short work gives noisy results on a shared machine.
    for _ in 0..2 {
        let took = (0..3)
            .map(|_| seconds(direct(&["sh", "-c", &script(count)]), None))
            .fold(f64::INFINITY, f64::min);
        count = (count as f64 / took) as u64;
    }
    script(count)
}

/// Measures the cost that does not depend on the command's duration.
fn nothing_rows(table: &mut Table) {
    let observed = |options: &[&str]| {
        let temp = tempfile::tempdir().unwrap();
        seconds(with_words(observer(&temp, options), &["true"]), None) * 1e3
    };
    let [plain, logged, unsynced, unlogged] = rounds(
        NOTHING_ROUNDS,
        [
            &|| seconds(direct(&["true"]), None) * 1e3,
            &|| observed(&[]),
            &|| observed(&["--sync", "none"]),
            &|| observed(&["--no-log"]),
        ],
    );
    for (what, took) in [
        ("log kept", logged),
        ("`--sync none`", unsynced),
        ("`--no-log`", unlogged),
    ] {
        table.row(&Row {
            what: &format!("`run` of a command that does nothing (`true`), {what}"),
            ours: format!("{took:.1} ms"),
            instead: format!("unobserved: {plain:.1} ms"),
            ratio: None,
            bar: Bar::Stated("≤ 5 ms more", took - plain <= 5.0),
        });
    }
}

fn row(table: &mut Table, what: &str, words: &[&str]) {
    let plain = || seconds(direct(words), None);
    let observed = || {
        let temp = tempfile::tempdir().unwrap();
        seconds(with_words(observer(&temp, &[]), words), None)
    };
    paired::row(table, what, &plain, &observed);
}
