//! Many hosts by way of Redis: how fast a history is shipped and copied, beside Redis' own client with the same entries,
//! and what an idle shipper uses.
//!
//! `cargo bench --profile dist --features redis --bench report -- redis`; `TD_REDIS_EVENTS=1000000` for another number of
//! events, and `TD_SECONDS=60` for another time of idleness.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use td_observe::history::{DataDir, LogReader, Query, Rotation, RunDirectory};

use crate::common::cpu::other_ms;
use crate::common::mixed::write_run;
use crate::common::stats::rounds;
use crate::common::support::wait_for;
use crate::common::table::{Bar, Row, Table};
use crate::redis_server::Redis;

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");
const EVENTS: u64 = 300_000;
/// The size of a line of the mixed history, with which enough of them are written.
const LINE_BYTES: u64 = 250;
const ROUNDS: usize = 3;
const IDLE_S: u64 = 10;
const CEILING: Duration = Duration::from_secs(300);
/// The bar of the project, in events a second.
const RATE: f64 = 100_000.0;

fn asked(variable: &str, otherwise: u64) -> u64 {
    let typed = std::env::var(variable).ok();
    typed.map_or(otherwise, |typed| typed.parse().unwrap())
}

pub fn run(table: &mut Table) {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let bytes = asked("TD_REDIS_EVENTS", EVENTS) * LINE_BYTES;
    let run = write_run(data.path(), bytes, Rotation::default());
    let commands = data.path().join("commands");
    let events = write_commands(&run, &commands);
    let address = redis.address();
    let stream = format!("td:web:{}", run.execution_id());
    let flush = || drop(redis.raw(&["FLUSHALL"]));
    let ship = || {
        flush();
        let began = Instant::now();
        let shipper = Shipper::start(data.path(), &address);
        wait_for("the events", CEILING, || {
            let count = redis.number(&["XLEN", &stream]);
            (count == events).then_some(()).ok_or(count)
        });
        let rate = events as f64 / began.elapsed().as_secs_f64();
        drop(shipper);
        rate
    };
    let pipe = || {
        flush();
        let began = Instant::now();
        let mut client = client(&redis);
        client.arg("--pipe").stdin(File::open(&commands).unwrap());
        assert!(client.stdout(Stdio::null()).status().unwrap().success());
        events as f64 / began.elapsed().as_secs_f64()
    };
    let [shipped, piped] = rounds(ROUNDS, [&ship, &pipe]);
    table.row(&Row {
        what: &format!("Redis: {events} events shipped, AOF once a second"),
        ours: format!("{shipped:.0} events/s"),
        instead: format!("`redis-cli --pipe`, the same entries: {piped:.0}/s"),
        ratio: Some(shipped / piped),
        bar: Bar::Stated("≥ 100,000 events/s", shipped >= RATE),
    });
    ship();
    let shipper = Shipper::start(data.path(), &address);
    wait_for("what is said of the run", CEILING, || {
        let said = redis.raw(&["HVALS", "td::runs:web"]);
        said.contains("\"last\"").then_some(()).ok_or(said)
    });
    let read = || {
        let face = tempfile::tempdir().unwrap();
        let began = Instant::now();
        let mut command = program(face.path());
        command.args(["status", "--from", &address]);
        let output = command.output().unwrap();
        let seconds = began.elapsed().as_secs_f64();
        assert!(output.status.success(), "{output:?}");
        let copies = std::fs::read_dir(face.path().join("from")).unwrap();
        let copies = DataDir::new(copies.last().unwrap().unwrap().path());
        let copy = copies.run(&format!("web/{}", run.execution_id()).as_str().into());
        let count = LogReader::open(&copy, Query::all()).unwrap().count() as u64;
        assert_eq!(count, events);
        events as f64 / seconds
    };
    let dump = || {
        let began = Instant::now();
        let mut client = client(&redis);
        client.args(["XRANGE", &stream, "-", "+"]);
        client.stdout(File::create(data.path().join("dump")).unwrap());
        assert!(client.status().unwrap().success());
        events as f64 / began.elapsed().as_secs_f64()
    };
    let [copied, dumped] = rounds(ROUNDS, [&read, &dump]);
    table.row(&Row {
        what: &format!("Redis: {events} events copied, and the board of them printed"),
        ours: format!("{copied:.0} events/s"),
        instead: format!("`redis-cli XRANGE` into a file: {dumped:.0}/s"),
        ratio: Some(copied / dumped),
        bar: Bar::Stated("≥ 100,000 events/s", copied >= RATE),
    });
    let seconds = asked("TD_SECONDS", IDLE_S);
    let before = other_ms(shipper.0.id());
    std::thread::sleep(Duration::from_secs(seconds));
    let share = (other_ms(shipper.0.id()) - before) / (seconds as f64 * 10.0);
    table.row(&Row {
        what: &format!("Redis: an idle shipper, over {seconds} s"),
        ours: format!("{share:.3} % of a core"),
        instead: String::new(),
        ratio: None,
        bar: Bar::Stated("≤ 0.1 % of a core", share <= 0.1),
    });
}

/// Writes the commands that append the entries of a run; returns their number.
fn write_commands(run: &RunDirectory, path: &Path) -> u64 {
    let mut out = BufWriter::new(File::create(path).unwrap());
    let stream = format!("td:web:{}", run.execution_id());
    let mut count = 0;
    for record in LogReader::open(run, Query::all()).unwrap() {
        let line = serde_json::to_string(&record.envelope).unwrap();
        let ms = record.envelope.ts.micros() / 1000;
        let id = format!("{ms}-{}", record.envelope.seq.unwrap());
        let words = ["XADD", &stream, &id, "envelope", &line];
        write!(out, "*{}\r\n", words.len()).unwrap();
        for word in words {
            write!(out, "${}\r\n{word}\r\n", word.len()).unwrap();
        }
        count += 1;
    }
    out.flush().unwrap();
    count
}

fn client(redis: &Redis) -> Command {
    let mut client = Command::new("redis-cli");
    client.args(["-p", &redis.port().to_string()]);
    client
}

fn program(data: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.env("TD_DATA_DIR", data).env_remove("RUST_LOG");
    command.stdin(Stdio::null());
    command
}

/// A shipper until it is dropped.
struct Shipper(Child);

impl Shipper {
    fn start(data: &Path, address: &str) -> Self {
        let mut command = program(data);
        command.args(["ship", "--to", address, "--host-name", "web", "-q"]);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Shipper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
