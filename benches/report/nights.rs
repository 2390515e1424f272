//! `td-observe report` over a gigabyte of histories, half of them compressed: its time and its memory.
//!
//! `cargo bench --profile dist --bench report -- nights`; `TD_NIGHT_MB=10000` for ten gigabytes of lines.

use std::path::Path;
use std::process::{Command, Stdio};

use td_observe::history::Rotation;

use crate::common::commands::{peak, seconds};
use crate::common::mixed::write_run_of;
use crate::common::stats::rounds;
use crate::common::table::{Bar, Row, Table};

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");

/// The uncompressed size of the histories, for which the bars are.
const MEGABYTES: u64 = 1000;
const RUNS: u64 = 20;
const ROUNDS: usize = 5;

pub fn run(table: &mut Table) {
    let megabytes = std::env::var("TD_NIGHT_MB").ok();
    let megabytes = megabytes.map_or(MEGABYTES, |typed| typed.parse().unwrap());
    let temp = tempfile::tempdir().unwrap();
    let bytes = megabytes * 1_000_000 / RUNS;
    for run in 0..RUNS {
        // A compressed run has one plain file, its last one.
        let rotation = match run % 2 {
            0 => Rotation::NEVER,
            _ => Rotation {
                bytes_max: bytes / 4,
                ..Rotation::NEVER
            },
        };
        write_run_of(&format!("night-{run}"), temp.path(), bytes, rotation);
    }
    let peak = peak(report(temp.path()));
    let ours = || seconds(report(temp.path()));
    let all = || seconds(all_bytes(temp.path()));
    let [mine, reading] = rounds(ROUNDS, [&ours, &all]);
    let what = format!("report on {megabytes} MB of lines in {RUNS} runs, half of them gzip");
    let bar = 2.0 * megabytes as f64 / 1000.0;
    table.row(&Row {
        what: &what,
        ours: format!("{mine:.2} s"),
        instead: format!("`zcat -f … | wc -l`, which only counts the lines: {reading:.2} s"),
        ratio: Some(reading / mine),
        bar: Bar::Stated("≤ 2 s for 1 GB", mine <= bar),
    });
    table.row(&Row {
        what: &format!("{what}: memory"),
        ours: format!("{:.0} MB", peak as f64 / 1024.0),
        instead: String::new(),
        ratio: None,
        bar: Bar::Stated("≤ 64 MB", peak <= 64 * 1024),
    });
}

fn report(data: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args([
            "report",
            "--json",
            "--since",
            "2026-01-01T00:00:00Z",
            "--data-dir",
        ])
        .arg(data)
        .stdout(Stdio::null())
        .stdin(Stdio::null())
        .env_remove("RUST_LOG");
    command
}

fn all_bytes(data: &Path) -> Command {
    let mut command = Command::new("sh");
    let script = "find \"$1/runs\" -name 'events*' -print0 | xargs -0 zcat -f | wc -l";
    command
        .args(["-c", script, "sh"])
        .arg(data)
        .stdout(Stdio::null());
    command
}
