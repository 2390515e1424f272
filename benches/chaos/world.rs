//! The servers, their panes, the observer, and its faces.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use td_observe::history::RunDirectory;

use crate::model::Verdict;
use crate::pause;
use crate::printer;
use crate::resources::{Held, processes_with};
use crate::support::{Dice, TmuxServer, wait_for, within};
use crate::watcher::Watcher;

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");

/// The time in which anything must happen, on a machine that is busy.
const CEILING: Duration = Duration::from_secs(60);

/// The disk of the histories.
const DISK: &str = "size=1g,mode=0700";

/// The library of Debian's package `faketime`, by which the observer's clock is moved.
const FAKE_CLOCK: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// The memory of the observer beyond which it is a fault.
const MEMORY_KB_MAX: u64 = 200 * 1024;

pub struct World {
    root: tempfile::TempDir,
    has_disk: bool,
    pub servers: Vec<TmuxServer>,
    watchers: Vec<Watcher>,
    faults: Vec<String>,
    started: u64,
    plan: Plan,
}

/// What a world begins with.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub servers: usize,
    /// Sessions of each server, and panes of each session.
    pub sessions: usize,
    pub panes: usize,
    /// Lines a second of a pane: one of these.
    pub rates: &'static [u64],
    /// The options of the observer.
    pub options: &'static [&'static str],
}

impl World {
    pub fn new(plan: Plan) -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["sockets", "home", "data", "run"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", DISK, "tmpfs"])
            .arg(root.path().join("data"))
            .status();
        let has_disk = mounted.is_ok_and(|status| status.success());
        if !has_disk {
            eprintln!("!!! no disk can be mounted: none will be full");
        }
        if !Path::new(FAKE_CLOCK).exists() {
            eprintln!(
                "!!! {FAKE_CLOCK} is missing (Debian's package faketime): no clock will move"
            );
        }
        fs::write(root.path().join("clock"), "+0\n").unwrap();
        let mut world = Self {
            root,
            has_disk,
            servers: Vec::new(),
            watchers: Vec::new(),
            faults: Vec::new(),
            started: 0,
            plan,
        };
        for _ in 0..plan.servers {
            let server = TmuxServer::new();
            // tmux makes the directory of its sockets only for those that it names itself.
            let sockets = server.socket().parent().unwrap().to_owned();
            DirBuilder::new().mode(0o700).create(sockets).unwrap();
            world.servers.push(server);
        }
        let mut dice = Dice(0);
        for server in 0..plan.servers {
            for _ in 0..plan.sessions {
                world.new_session(server, &mut dice);
                for _ in 1..plan.panes {
                    let program = world.program(&mut dice);
                    let target = format!("=s{}:", world.started);
                    world.tmux(server, &["new-window", "-d", "-t", &target, &program]);
                }
            }
        }
        world.start_observer();
        world.watch_again();
        world
    }

    pub fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Notes a violation.
    pub fn note(&mut self, faults: impl IntoIterator<Item = String>) {
        self.faults.extend(faults);
    }

    fn rest(&self) -> PathBuf {
        self.root.path().join("rest")
    }

    /// Returns the command of a new pane.
    pub fn program(&self, dice: &mut Dice) -> String {
        let rates = self.plan.rates;
        printer::command(rates[dice.roll(rates.len() as u64) as usize], &self.rest())
    }

    pub fn new_session(&mut self, server: usize, dice: &mut Dice) {
        self.started += 1;
        let name = format!("s{}", self.started);
        let program = self.program(dice);
        let width = (60 + dice.roll(100)).to_string();
        let args = [
            "new-session",
            "-d",
            "-s",
            &name,
            "-x",
            &width,
            "-y",
            "30",
            &program,
        ];
        // A server that was just killed may still hold its socket, and a slow answer is no failure.
        let target = format!("={name}");
        let is_there = ["has-session", "-t", &target];
        let started = within(CEILING, || {
            let started = self.tmux(server, &args);
            started.or_else(|| self.tmux(server, &is_there)).ok_or(())
        });
        if started.is_err() {
            self.faults
                .push(format!("{name} cannot be started on server {server}"));
        }
    }

    /// Runs a tmux command. That a pane is gone, or a server does not answer, is part of the chaos.
    pub fn tmux(&self, server: usize, args: &[&str]) -> Option<String> {
        let socket = self.servers[server].socket();
        let mut command = Command::new("timeout");
        command
            .args(["20", "tmux", "-f", "/dev/null", "-S"])
            .arg(socket)
            .args(args)
            .env("TMUX_TMPDIR", self.servers[server].directory())
            .env_remove("TMUX");
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned();
        output.status.success().then_some(text)
    }

    /// Returns what `format` says about each item of a list, in any order.
    fn list(&self, server: usize, command: &[&str], format: &str) -> Vec<String> {
        let listed = self.tmux(server, &[command, &["-F", format]].concat());
        let listed = listed.unwrap_or_default();
        listed.lines().map(str::to_owned).collect()
    }

    pub fn panes(&self, server: usize) -> Vec<String> {
        self.list(server, &["list-panes", "-a"], "#{pane_id}")
    }

    pub fn sessions(&self, server: usize) -> Vec<String> {
        self.list(server, &["list-sessions"], "#{session_id}")
    }

    /// Returns the process of a tmux server, if it runs.
    pub fn server_pid(&self, server: usize) -> Option<Pid> {
        let pid = self.tmux(server, &["display-message", "-p", "#{pid}"])?;
        Pid::from_raw(pid.parse().ok()?)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let root = self.root.path();
        let mut command = Command::new(PROGRAM);
        command
            .args(args)
            .env("TD_DATA_DIR", self.data())
            .env("TMPDIR", root.join("sockets"))
            .env("HOME", root.join("home"))
            .env("XDG_RUNTIME_DIR", root.join("run"))
            .env_remove("TMUX")
            .env_remove("TMUX_PANE")
            .env_remove("TD_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        let mut command = self.command(args);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .unwrap()
    }

    pub fn start_observer(&mut self) {
        let sockets: Vec<String> = (self.servers.iter())
            .map(|server| server.socket().display().to_string())
            .collect();
        let mut args = vec!["start"];
        args.extend(self.plan.options);
        for socket in &sockets {
            args.extend(["-S", socket]);
        }
        let mut command = self.command(&args);
        if Path::new(FAKE_CLOCK).exists() {
            command
                .env("LD_PRELOAD", FAKE_CLOCK)
                .env("FAKETIME_TIMESTAMP_FILE", self.root.path().join("clock"))
                .env("FAKETIME_NO_CACHE", "1")
                .env("DONT_FAKE_MONOTONIC", "1")
                .env("NO_FAKE_STAT", "1");
        }
        let started = within(CEILING, || {
            let output = command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .output()
                .unwrap();
            if output.status.success() {
                Ok(())
            } else {
                Err(String::from_utf8_lossy(&output.stderr).into_owned())
            }
        });
        if let Err(why) = started {
            self.faults
                .push(format!("the observer does not start: {why}"));
        }
    }

    /// Moves the observer's clock by some seconds.
    pub fn set_clock(&self, seconds: i64) -> bool {
        fs::write(self.root.path().join("clock"), format!("{seconds:+}\n")).unwrap();
        Path::new(FAKE_CLOCK).exists()
    }

    pub fn stop_observer(&mut self) {
        let output = self.output(&["stop"]);
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            self.faults.push(format!("stop: {}: {said}", output.status));
        }
    }

    /// Returns the process of the observer.
    pub fn observer(&self) -> Option<Pid> {
        let text = fs::read(self.data().join("observer.json")).ok()?;
        let known: serde_json::Value = serde_json::from_slice(&text).ok()?;
        Pid::from_raw(known["pid"].as_i64()?.try_into().ok()?)
    }

    pub fn signal_observer(&self, signal: Signal) -> bool {
        self.observer()
            .is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    /// Kills the observer, and waits for its end.
    pub fn kill_observer(&self) -> bool {
        let Some(pid) = self.observer() else {
            return false;
        };
        // It may have ended.
        let _ = kill_process(pid, Signal::KILL);
        let place = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
        let is_gone = || {
            let state = fs::read_to_string(place.join("stat")).unwrap_or_default();
            let is_dead = state.is_empty() || state.contains(") Z ");
            if is_dead { Ok(()) } else { Err(state) }
        };
        wait_for("the end of the observer", CEILING, is_gone);
        true
    }

    /// Fills the disk until the returned file is removed.
    pub fn fill_disk(&self) -> Option<PathBuf> {
        if !self.has_disk {
            return None;
        }
        let path = self.data().join("filling");
        let mut file = File::create(&path).unwrap();
        let zeros = vec![0; 1 << 20];
        while std::io::Write::write(&mut file, &zeros).is_ok_and(|written| written > 0) {}
        Some(path)
    }

    /// Attaches faces to the observer, and cuts those that are attached.
    pub fn watch_again(&mut self) {
        for watcher in std::mem::take(&mut self.watchers) {
            self.faults.extend(watcher.cut());
        }
        for args in [
            &["watch", "--json", "--no-log"][..],
            &["status", "--watch", "--json"],
        ] {
            self.watchers.push(Watcher::start(self.command(args)));
        }
    }

    pub fn held(&self) -> Option<Held> {
        Held::by(self.observer()?.as_raw_nonzero().get().cast_unsigned())
    }

    pub fn memory_kb(&self) -> Option<u64> {
        Some(self.held()?.rss_kb)
    }

    /// Checks that the observer answers, and is no larger than it may be.
    pub fn check_observer(&mut self) {
        let answered = within(CEILING, || {
            let status = self.output(&["status", "--print-socket"]);
            if status.status.success() {
                Ok(())
            } else {
                Err(status)
            }
        });
        if let Err(status) = answered {
            self.faults.push(format!("no observer answers: {status:?}"));
            self.start_observer();
        }
        if let Some(kb) = self.memory_kb().filter(|kb| *kb > MEMORY_KB_MAX) {
            self.faults.push(format!("the observer has {kb} kB"));
        }
    }

    /// Lets all rest, stops the observer, and judges the logs.
    pub fn end(mut self) -> Verdict {
        self.set_clock(0);
        for server in 0..self.servers.len() {
            if let Some(pid) = self.server_pid(server) {
                let _ = kill_process(pid, Signal::CONT);
            }
        }
        self.check_observer();
        fs::write(self.rest(), "").unwrap();
        let last = self.last_lines();
        // What was printed last must get into the log while the observer goes on.
        let verdict = within(CEILING, || {
            let verdict = Verdict::of(&self.runs());
            let is_late = |(tag, number): &(u64, u64)| {
                verdict.last_of(*tag).is_none_or(|last| last < *number)
            };
            match last.iter().find(|line| is_late(line)) {
                None => Ok(()),
                Some((tag, number)) => Err(format!(
                    "line {number} of printer {tag}, which its pane shows, is not in the log: {:?}",
                    verdict.last_of(*tag)
                )),
            }
        });
        self.faults.extend(verdict.err());
        for watcher in std::mem::take(&mut self.watchers) {
            self.faults.extend(watcher.cut());
        }
        self.stop_observer();
        let mut verdict = Verdict::of(&self.runs());
        verdict.faults.append(&mut self.faults);
        verdict.faults.extend(self.left());
        if std::env::var_os("TD_KEEP").is_some() {
            let kept = std::env::temp_dir().join(format!("chaos-{}", std::process::id()));
            let copied = Command::new("cp")
                .arg("-a")
                .arg(self.data())
                .arg(&kept)
                .status();
            eprintln!("the data is kept in {}: {copied:?}", kept.display());
        }
        verdict
    }

    fn runs(&self) -> Vec<RunDirectory> {
        let entries = fs::read_dir(self.data().join("runs")).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.path());
        names.map(|path| RunDirectory::at(&path).unwrap()).collect()
    }

    /// Returns the last whole line that each pane shows, once nothing prints.
    fn last_lines(&self) -> Vec<(u64, u64)> {
        let shown = || {
            let mut lines = Vec::new();
            for server in 0..self.servers.len() {
                for pane in self.panes(server) {
                    let screen = self.tmux(server, &["capture-pane", "-p", "-J", "-t", &pane]);
                    let screen = screen.unwrap_or_default();
                    let printed = screen
                        .lines()
                        .filter_map(|line| printer::parse(line.trim_end()).ok());
                    lines.extend(printed.max_by_key(|(_, number)| *number));
                }
            }
            lines
        };
        let mut before = shown();
        wait_for("the end of all printing", CEILING, || {
            pause(Duration::from_millis(300));
            let now = shown();
            if now == before {
                Ok(now)
            } else {
                before = now;
                Err("it prints")
            }
        })
    }

    /// Returns what the program has left behind.
    fn left(&self) -> Vec<String> {
        let sockets = self.root.path().join("sockets");
        let left = within(Duration::from_secs(10), || {
            let processes = processes_with(&self.data().display().to_string());
            let processes = processes
                .into_iter()
                .map(|(pid, line)| format!("process {pid}: {line}"));
            let files = fs::read_dir(&sockets).into_iter().flatten().flatten();
            let files = files.map(|file| format!("file {}", file.path().display()));
            let all: Vec<String> = processes.chain(files).collect();
            if all.is_empty() { Ok(()) } else { Err(all) }
        });
        left.err().unwrap_or_default()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.kill_observer();
        if self.has_disk {
            let _ = Command::new("umount").arg("-l").arg(self.data()).status();
        }
    }
}
