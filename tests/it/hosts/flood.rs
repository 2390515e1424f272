//! Lines that three hosts and this one print while links are cut, ssh, sshd and observers are killed: each is read once,
//! in order by host, or counted in a gap.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use std::sync::mpsc::RecvTimeoutError;

use super::printer::{Printer, number_of};
use super::world::World;
use crate::cli::Running;
use crate::support::CEILING;

/// The hosts, and this one.
const HOSTS: [&str; 4] = ["a", "b", "c", "local"];

/// The time that a face has for what was printed meanwhile, also behind a connection that ssh gives up first.
const CATCH_UP: Duration = Duration::from_secs(90);

fn from_env(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// What a face has printed of one host.
#[derive(Debug, Default)]
struct Host {
    /// The last number.
    last: u64,
    /// Numbers that did not come, before those that did.
    skipped: Vec<(u64, u64)>,
    /// Numbers that had come before.
    again: Vec<u64>,
    /// Lines that gaps count.
    gaps: Vec<Option<u64>>,
    /// Events that the log or the face lacks.
    missed: Vec<String>,
}

/// What a face has printed.
#[derive(Debug, Default)]
struct Received(BTreeMap<String, Host>);

impl Received {
    fn note(&mut self, line: &str) {
        let Ok(envelope) = serde_json::from_str::<Value>(line) else {
            self.host("?").missed.push(line.to_owned());
            return;
        };
        let event = &envelope["event"];
        let id = event["execution_id"].as_str().unwrap_or_default();
        let host = id.split_once('/').map_or("local", |(host, _)| host);
        let host = self.host(host);
        match event["type"].as_str().unwrap_or_default() {
            "OutputUpdate" => {
                let lines = event["chunk"].as_str().unwrap().lines();
                lines
                    .filter_map(number_of)
                    .for_each(|number| host.number(number));
            }
            "OutputGap" => host.gaps.push(event["lost_lines"].as_u64()),
            "LogGap" | "Missed" | "Lagged" => host.missed.push(line.to_owned()),
            _ => {}
        }
    }

    /// Forgets what had been printed before the face began.
    fn forget_start(&mut self) {
        for host in self.0.values_mut() {
            host.skipped.clear();
        }
    }

    fn host(&mut self, name: &str) -> &mut Host {
        self.0.entry(name.to_owned()).or_default()
    }
}

impl Host {
    fn number(&mut self, number: u64) {
        if number <= self.last {
            self.again.push(number);
            return;
        }
        if number > self.last + 1 {
            self.skipped.push((self.last + 1, number - 1));
        }
        self.last = number;
    }

    /// Returns the lines that did not come.
    fn lost(&self) -> u64 {
        self.skipped
            .iter()
            .map(|(first, last)| last - first + 1)
            .sum()
    }
}

/// Reads what a face prints until each host has printed so many lines.
#[track_caller]
fn read_until(face: &Running, received: &mut Received, printed: u64, what: &str) {
    let began = std::time::Instant::now();
    let are_there = |received: &Received| {
        HOSTS.iter().all(|host| {
            let of = received.0.get(*host);
            of.is_some_and(|of| of.last >= printed)
        })
    };
    while !are_there(received) {
        let left = CATCH_UP.saturating_sub(began.elapsed());
        match face.lines.recv_timeout(left) {
            Ok(line) => received.note(&line),
            Err(why) => {
                let shown = received.0.iter().map(|(name, of)| (name, of.last));
                let shown: Vec<_> = shown.collect();
                panic!(
                    "{what}: {printed} lines of each, but {shown:?} ({why}); {}",
                    face.complaints()
                )
            }
        }
    }
}

/// A way to interrupt what is read of a host.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Link,
    Clients,
    Sessions,
    Observer,
}

const CUTS: [Cut; 4] = [Cut::Link, Cut::Clients, Cut::Sessions, Cut::Observer];

/// What a face prints of the time before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    WithHistory,
    Now,
}

/// Runs a face that follows the events of all hosts as JSON.
fn flood(face: &[&str], begins: Begins) {
    let Some(world) = World::of_three() else {
        return;
    };
    let lines = from_env("TD_HOST_LINES", 30_000);
    let rounds = from_env("TD_HOST_CUTS", 4);
    let of_round = lines / HOSTS.len() as u64 / rounds;
    let mut printers: Vec<Printer> = world.hosts().map(|host| host.printer("lines")).collect();
    let here = &world.local;
    printers.push(Printer::start(&here.server, here.directory(), "lines"));
    for host in world.hosts() {
        world.start_observer(host.name);
    }
    here.start();
    let hosts = HOSTS.iter().flat_map(|host| ["--host", host]);
    let args: Vec<&str> = face.iter().copied().chain(hosts).collect();
    let face = Running::start(world.command(&args));
    let mut received = Received::default();
    let print = |printers: &mut Vec<Printer>, count| {
        printers.iter_mut().for_each(|printer| printer.print(count));
        printers[0].printed()
    };
    if begins == Begins::Now {
        // It says nothing of when it has begun to read a host.
        while received.0.len() < HOSTS.len() || received.0.values().any(|of| of.last == 0) {
            print(&mut printers, 1);
            while let Ok(line) = face.lines.recv_timeout(Duration::from_millis(200)) {
                received.note(&line);
            }
        }
        received.forget_start();
    }
    let first = print(&mut printers, 10);
    read_until(&face, &mut received, first, "the first lines");
    let mut killed = 0;
    for round in 0..rounds {
        print(&mut printers, of_round / 2);
        // Each host has another one of the cuts in each round.
        for (number, host) in world.hosts().enumerate() {
            match CUTS[(round as usize + number) % CUTS.len()] {
                Cut::Link => host.link.cut(),
                Cut::Clients => drop(world.kill_ssh_clients(face.child.id())),
                Cut::Sessions => drop(host.kill_ssh_sessions()),
                Cut::Observer => {
                    killed += 1;
                    host.kill_observer();
                }
            }
        }
        for (host, printer) in world.hosts().zip(&printers) {
            host.server
                .wait_for_text(&printer.pane, &printer.last_line());
        }
        for (number, host) in world.hosts().enumerate() {
            match CUTS[(round as usize + number) % CUTS.len()] {
                Cut::Link => host.link.mend(),
                Cut::Observer => drop(host.start_observer()),
                Cut::Clients | Cut::Sessions => {}
            }
        }
        let printed = print(&mut printers, of_round - of_round / 2);
        read_until(&face, &mut received, printed, &format!("round {round}"));
    }
    face.signal(rustix::process::Signal::TERM);
    while let Ok(line) = match face.lines.recv_timeout(CEILING) {
        Err(RecvTimeoutError::Timeout) => panic!("the face does not end"),
        line => line,
    } {
        received.note(&line);
    }
    eprintln!(
        "{} lines, {killed} observers killed: {received:#?}",
        printers[0].printed() * 4
    );
    for (name, host) in &received.0 {
        assert_eq!(host.again, Vec::<u64>::new(), "{name}");
        assert_eq!(host.missed, Vec::<String>::new(), "{name}");
        let counted: Option<u64> = host.gaps.iter().copied().sum();
        // A gap need not know how many lines it has.
        assert!(
            counted.is_none_or(|counted| counted == host.lost()),
            "{name}: {counted:?}"
        );
        assert!(host.lost() == 0 || !host.gaps.is_empty(), "{name}");
    }
}

#[test]
fn watch_reads_each_line_of_each_host_once() {
    flood(&["watch", "--json"], Begins::Now);
}

#[test]
fn log_follows_each_line_of_each_host_once() {
    flood(&["log", "-f", "--json"], Begins::WithHistory);
}
