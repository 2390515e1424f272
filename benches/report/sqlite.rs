//! `export --format sqlite` compared with Python's `sqlite3`, which inserts the same rows and builds the same index in the
//! same run.
//!
//! `cargo bench --profile dist --features sqlite --bench report -- sqlite`; `TD_SQLITE_MB=1000` for a gigabyte of lines.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rusqlite::{Connection, OpenFlags};
use td_observe::history::Rotation;

use crate::common::commands::{peak, seconds};
use crate::common::mixed::write_run;
use crate::common::stats::{median, rounds};
use crate::common::table::{Bar, Row, Table};

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");
const PYTHON: &str = include_str!("sqlite.py");

/// The uncompressed size of the history; the bar is for a gigabyte.
const MEGABYTES: u64 = 200;
const ROUNDS: usize = 3;
const SEARCHES: usize = 9;

pub fn run(table: &mut Table) {
    let megabytes = std::env::var("TD_SQLITE_MB").ok();
    let megabytes = megabytes.map_or(MEGABYTES, |typed| typed.parse().unwrap());
    let temp = tempfile::tempdir().unwrap();
    // Half of it is compressed.
    let half = |name: &str, rotation| {
        let root = temp.path().join(name);
        write_run(&root, megabytes * 500_000, rotation)
            .path()
            .to_owned()
    };
    let runs = [
        half("plain", Rotation::NEVER),
        half("packed", Rotation::default()),
    ];
    let database = temp.path().join("ours.db");
    let peak = peak(ours(&runs, &database));
    let export = || seconds(ours(&runs, &database));
    let python = || theirs(&database, &temp.path().join("theirs.db"));
    export();
    let [mine, others] = rounds(ROUNDS, [&export, &python]);
    let what = format!("history as a database, {megabytes} MB of lines, half of them gzip");
    table.row(&Row {
        what: &what,
        ours: format!("{mine:.1} s, {:.0} MB of memory", peak as f64 / 1024.0),
        instead: format!("Python's `sqlite3`, the same rows and index: {others:.1} s"),
        ratio: Some(mine / others),
        bar: Bar::AtMost(2.0),
    });
    let bar = 60.0 * megabytes as f64 / 1000.0;
    table.row(&Row {
        what: &format!("{what}: time"),
        ours: format!("{mine:.1} s"),
        instead: String::new(),
        ratio: None,
        bar: Bar::Stated("60 s for 1 GB", mine <= bar),
    });
    for (words, what) in [("error", "a frequent word"), ("needle", "a rare word")] {
        let ms = search_ms(&database, words);
        table.row(&Row {
            what: &format!("history as a database: the last 20 lines with {what}"),
            ours: format!("{ms:.1} ms"),
            instead: String::new(),
            ratio: None,
            bar: Bar::Stated("≤ 50 ms", ms <= 50.0),
        });
    }
}

fn ours(runs: &[PathBuf], database: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(["export", "--format", "sqlite", "-o"])
        .arg(database)
        .args(runs);
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Returns the seconds that Python takes; infinite without Python.
fn theirs(exported: &Path, path: &Path) -> f64 {
    // The last round's.
    let _ = std::fs::remove_file(path);
    let mut python = Command::new("python3");
    let Ok(output) = python.args(["-c", PYTHON]).arg(exported).arg(path).output() else {
        return f64::INFINITY;
    };
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// Returns the median time of a search by a new connection, in ms.
fn search_ms(database: &Path, words: &str) -> f64 {
    let search = |_| {
        let began = Instant::now();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let connection = Connection::open_with_flags(database, flags).unwrap();
        let sql = "SELECT ts, pane, lines.text FROM lines_text JOIN lines ON lines.id = lines_text.rowid \
            WHERE lines_text MATCH ?1 ORDER BY lines_text.rowid DESC LIMIT 20";
        let mut query = connection.prepare(sql).unwrap();
        let found = query
            .query_map([words], |row| row.get::<_, String>(2))
            .unwrap();
        assert!(found.map(Result::unwrap).count() > 0, "{words}");
        began.elapsed().as_secs_f64() * 1e3
    };
    median((0..SEARCHES).map(search).collect())
}
