//! Debian's rsyslog reads histories while they rotate, by the configuration in the guide.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use flate2::read::MultiGzDecoder;
use rustix::process::Signal;
use serde_json::Value;

use super::network::kill_and_wait;
use super::printer::Printer;
use crate::cli::{assert_code, text};
use crate::observer::{Home, signal};
use crate::support::{CEILING, wait_for};

const RSYSLOGD: &str = "/usr/sbin/rsyslogd";

/// The configuration in the guide.
const CONFIGURATION: &str = include_str!("rsyslog.conf");

/// The size at which logs rotate: after some batches of lines, as no day passes in a test.
const ROTATE_SIZE: u64 = 48 * 1024;

/// The newest file of a history.
const EVENTS: &str = "events.jsonl";

/// The lines of a batch.
const BATCH: u64 = 1200;

/// An rsyslogd of this test. Dropping it kills the process.
struct Rsyslog {
    directory: tempfile::TempDir,
    process: Option<Child>,
}

impl Rsyslog {
    /// Starts rsyslogd on the histories of this data directory; says so if it is not installed.
    fn start(data: &Path) -> Option<Self> {
        if !Path::new(RSYSLOGD).exists() {
            eprintln!("!!! rsyslogd is not installed: skipped");
            return None;
        }
        let mut rsyslog = Self {
            directory: tempfile::tempdir().unwrap(),
            process: None,
        };
        let (data, output) = (data.display().to_string(), rsyslog.output());
        let text = CONFIGURATION
            .replace("/home/ann/.taskdaemon", &data)
            .replace("/var/log/td-observe.jsonl", output.to_str().unwrap());
        assert!(text.contains(&data) && text.contains(output.to_str().unwrap()));
        let spool = rsyslog.directory.path().join("spool");
        fs::create_dir(&spool).unwrap();
        // Debian has this in its own configuration.
        let text = format!("global(workDirectory=\"{}\")\n{text}", spool.display());
        fs::write(rsyslog.config(), text).unwrap();
        rsyslog.restart();
        Some(rsyslog)
    }

    fn config(&self) -> PathBuf {
        self.directory.path().join("rsyslog.conf")
    }

    fn output(&self) -> PathBuf {
        self.directory.path().join("received.jsonl")
    }

    #[track_caller]
    fn restart(&mut self) {
        let pid_file = self.directory.path().join("pid");
        // One that was killed leaves it.
        let _ = fs::remove_file(&pid_file);
        let log = self.directory.path().join("log");
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(RSYSLOGD);
        command.arg("-n").arg("-f").arg(self.config());
        command.arg("-i").arg(&pid_file);
        let streams = command.stdin(Stdio::null()).stdout(Stdio::null());
        self.process = Some(streams.stderr(log).spawn().unwrap());
    }

    /// Ends rsyslogd with a signal, and waits for its end.
    #[track_caller]
    fn end(&mut self, by: Signal) {
        let mut process = self.process.take().unwrap();
        signal(process.id(), by);
        wait_for("rsyslogd's end", CEILING, || {
            process.try_wait().unwrap().ok_or("it still runs")
        });
    }

    fn complaints(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Returns the lines that were received, and how often.
    fn received(&self) -> Lines {
        let mut found = Lines::new();
        count(&fs::read(self.output()).unwrap_or_default(), &mut found);
        found
    }

    /// Waits until rsyslogd has read the newest files to their ends, also what is no whole line.
    #[track_caller]
    fn wait_until_read(&self, data: &Path) {
        wait_for("rsyslogd to read the rest", CEILING, || {
            let spool = fs::read_dir(self.directory.path().join("spool")).unwrap();
            let states = spool.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
            let states: Vec<Value> = states
                .filter_map(|text| serde_json::from_str(&text).ok())
                .collect();
            let mut newest = files(data)
                .into_iter()
                .filter(|path| path.ends_with(EVENTS));
            let is_read = |path: PathBuf| {
                let len = fs::metadata(&path).unwrap().len();
                states.iter().any(|state| {
                    state["filename"] == *path.to_str().unwrap() && state["curr_offs"] == len
                })
            };
            let are_read = newest.all(is_read);
            are_read.then_some(()).ok_or(states)
        });
    }

    /// Waits until all that is in the histories has been received, and returns what was received too often.
    #[track_caller]
    fn caught_up(&self, data: &Path) -> Lines {
        wait_for("rsyslogd to catch up", CEILING, || {
            let differs = Difference::of(&written(data), &self.received());
            if differs.lost.is_empty() {
                Ok(differs.extra)
            } else {
                Err((differs, self.complaints()))
            }
        })
    }
}

impl Rsyslog {
    /// Removes what was received more than once.
    fn forget_repeated(&self) {
        let lines: Vec<String> = self.received().into_keys().collect();
        let file = File::options()
            .write(true)
            .truncate(true)
            .open(self.output());
        let text = lines.join("\n") + "\n";
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }
}

impl Drop for Rsyslog {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Lines, and how often each is there.
type Lines = BTreeMap<String, usize>;

/// Counts whole lines.
fn count(bytes: &[u8], into: &mut Lines) {
    let whole = last_line_end(bytes);
    for line in text(&bytes[..whole]).lines() {
        *into.entry(line.to_owned()).or_default() += 1;
    }
}

fn last_line_end(bytes: &[u8]) -> usize {
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    end.map_or(0, |at| at + 1)
}

/// The files of all histories, compressed or not, without those in the making.
fn files(data: &Path) -> Vec<PathBuf> {
    let runs = fs::read_dir(data.join("runs")).unwrap().flatten();
    let files = runs.flat_map(|run| fs::read_dir(run.path()).unwrap().flatten());
    let mut paths: Vec<PathBuf> = files.map(|file| file.path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("events") && !name.ends_with(".tmp")
    });
    paths
}

/// Returns the lines of all histories. Files that are renamed meanwhile are read once more.
fn written(data: &Path) -> Lines {
    loop {
        let listed = files(data);
        let mut found = Lines::new();
        let mut names = Vec::new();
        let is_read = listed.iter().all(|path| {
            let name = path.display().to_string().replace(".gz", "");
            if names.contains(&name) {
                // Both forms of a file are there for a moment.
                return true;
            }
            names.push(name);
            let mut bytes = Vec::new();
            let Ok(mut file) = File::open(path) else {
                return false;
            };
            let read = if path.extension().is_some_and(|end| end == "gz") {
                MultiGzDecoder::new(file).read_to_end(&mut bytes)
            } else {
                file.read_to_end(&mut bytes)
            };
            count(&bytes, &mut found);
            read.is_ok()
        });
        if is_read && files(data) == listed {
            return found;
        }
    }
}

/// What was lost on the way, and what was received too often or was never written.
#[derive(Debug)]
struct Difference {
    lost: Lines,
    extra: Lines,
}

impl Difference {
    fn of(written: &Lines, received: &Lines) -> Self {
        let more = |these: &Lines, those: &Lines| {
            let more = |(line, times): (&String, &usize)| {
                let more = times.saturating_sub(those.get(line).copied().unwrap_or(0));
                (more > 0).then(|| (line.clone(), more))
            };
            these.iter().filter_map(more).collect()
        };
        Self {
            lost: more(written, received),
            extra: more(received, written),
        }
    }
}

/// Returns the closed files of all histories, whatever their form.
fn closed(data: &Path) -> usize {
    let newest = |path: &PathBuf| path.ends_with(EVENTS);
    files(data).iter().filter(|path| !newest(path)).count()
}

/// An observer whose logs rotate, and what prints in its panes.
struct Day {
    home: Home,
    printers: Vec<Printer>,
    rotate_size: u64,
}

impl Day {
    /// Begins with logs that rotate at this size.
    fn begin(rotate_size: u64) -> Self {
        let home = Home::new();
        let orders = home.directory().to_owned();
        let start = |session| Printer::start(&home.server, &orders, session);
        let printers = ["one", "two"].map(start).into();
        let day = Self {
            home,
            printers,
            rotate_size,
        };
        day.observe();
        day
    }

    #[track_caller]
    fn observe(&self) {
        self.home
            .start_with(&["--rotate-size", &self.rotate_size.to_string()]);
    }

    /// Prints lines in each pane, and waits until they are in the history.
    #[track_caller]
    fn print(&mut self, count: u64) {
        self.begin_to_print(count);
        self.wait_for_history();
    }

    fn begin_to_print(&mut self, count: u64) {
        for printer in &mut self.printers {
            printer.print(count);
        }
    }

    #[track_caller]
    fn wait_for_history(&self) {
        let last = self.printers[0].last_line();
        let data = self.home.data();
        wait_for(&last, CEILING, || {
            let lines = written(&data);
            let with_last = lines.keys().filter(|line| line.contains(&last)).count();
            (with_last == self.printers.len())
                .then_some(())
                .ok_or(with_last)
        });
    }

    fn runs(&self) -> Vec<PathBuf> {
        let runs = fs::read_dir(self.home.data().join("runs")).unwrap();
        runs.flatten().map(|run| run.path()).collect()
    }

    /// Prints until no log rotates within the next few lines.
    #[track_caller]
    fn print_until_no_log_rotates_soon(&mut self) {
        let len = |run: &PathBuf| fs::metadata(run.join(EVENTS)).map_or(0, |file| file.len());
        while self
            .runs()
            .iter()
            .any(|run| len(run) > self.rotate_size / 4 * 3)
        {
            self.print(BATCH / 4);
        }
    }
}

#[test]
fn rsyslog_reads_each_line_of_rotating_histories_once() {
    let mut day = Day::begin(ROTATE_SIZE);
    let data = day.home.data();
    let Some(mut rsyslog) = Rsyslog::start(&data) else {
        return;
    };
    let batches = std::env::var("TD_ENGINE_BATCHES").ok();
    let batches: u64 = batches.map_or(40, |text| text.parse().unwrap());
    for batch in 1..=batches {
        day.print(BATCH);
        let extra = rsyslog.caught_up(&data);
        assert_eq!(extra, Lines::new(), "{batch}: {}", rsyslog.complaints());
        if batch == batches / 4 {
            // The writer is killed, and resumes.
            kill_and_wait(day.home.pid());
            day.observe();
        } else if batch == batches / 2 {
            day.print_until_no_log_rotates_soon();
            assert_eq!(rsyslog.caught_up(&data), Lines::new());
            rsyslog.end(Signal::TERM);
            day.print(BATCH / 8);
            rsyslog.restart();
            assert_eq!(rsyslog.caught_up(&data), Lines::new());
        }
    }
    assert_code(&day.home.run(&["stop"]), 0);
    let extra = rsyslog.caught_up(&data);
    rsyslog.end(Signal::TERM);
    let all = written(&data);
    let last = Difference::of(&all, &rsyslog.received());
    assert!(extra.is_empty() && last.extra.is_empty(), "{last:#?}");
    eprintln!(
        "{} lines in {} closed files, each received once",
        all.len(),
        closed(&data)
    );
    assert!(closed(&data) as u64 > batches / 4, "{}", closed(&data));
}

#[test]
fn a_killed_rsyslogd_loses_nothing_and_repeats_at_most_the_newest_files() {
    let mut day = Day::begin(u64::MAX);
    let data = day.home.data();
    let Some(mut rsyslog) = Rsyslog::start(&data) else {
        return;
    };
    let mut repeated = 0;
    for _ in 0..10 {
        day.begin_to_print(BATCH);
        rsyslog.end(Signal::KILL);
        day.wait_for_history();
        let lines = written(&data);
        rsyslog.restart();
        let extra = rsyslog.caught_up(&data);
        assert!(
            extra.keys().all(|line| lines.contains_key(line)),
            "{extra:#?}"
        );
        repeated += extra.values().sum::<usize>();
        // The next kill counts for itself.
        rsyslog.forget_repeated();
    }
    eprintln!(
        "{} lines received, {repeated} of them again after 10 kills",
        written(&data).len()
    );
}

#[test]
fn a_log_that_rotates_without_rsyslogd_loses_lines_whose_numbers_are_missing() {
    let mut day = Day::begin(ROTATE_SIZE);
    let data = day.home.data();
    let Some(mut rsyslog) = Rsyslog::start(&data) else {
        return;
    };
    day.print(BATCH);
    rsyslog.caught_up(&data);
    rsyslog.end(Signal::TERM);
    let before = closed(&data);
    while closed(&data) < before + 2 {
        day.print(BATCH);
    }
    rsyslog.restart();
    let differs = wait_for("the newest lines", CEILING, || {
        let (all, received) = (written(&data), rsyslog.received());
        let last = day.printers[0].last_line();
        let has_last = received.keys().filter(|line| line.contains(&last)).count() == 2;
        has_last.then(|| Difference::of(&all, &received)).ok_or(())
    });
    eprintln!(
        "{} of {} lines lost",
        differs.lost.len(),
        written(&data).len()
    );
    assert!(
        !differs.lost.is_empty() && differs.extra.is_empty(),
        "{differs:#?}"
    );
    for run in day.runs() {
        let run = run.file_name().unwrap().to_str().unwrap().to_owned();
        let shown = text(&day.home.run(&["log", &run, "--json"]).stdout);
        let is_here = |line: &&String| line.contains(&format!("\"execution_id\":\"{run}\""));
        let is_header = |line: &&String| line.starts_with("{\"seq\":0,");
        for line in differs
            .lost
            .keys()
            .filter(is_here)
            .filter(|line| !is_header(line))
        {
            assert!(shown.contains(line.as_str()), "{line}");
        }
    }
}

#[test]
fn a_line_that_a_kill_tore_is_no_line_for_rsyslog_either() {
    let mut day = Day::begin(u64::MAX);
    let data = day.home.data();
    let Some(mut rsyslog) = Rsyslog::start(&data) else {
        return;
    };
    day.print(BATCH);
    rsyslog.caught_up(&data);
    kill_and_wait(day.home.pid());
    // Longer than the header that follows it.
    let torn = format!("{{\"seq\":4711,\"ts\":\"{}", "2".repeat(1000));
    for run in day.runs() {
        let log = File::options().append(true).open(run.join(EVENTS));
        log.unwrap().write_all(torn.as_bytes()).unwrap();
    }
    rsyslog.wait_until_read(&data);
    day.observe();
    day.print(BATCH);
    assert_eq!(rsyslog.caught_up(&data), Lines::new());
    rsyslog.end(Signal::TERM);
    let differs = Difference::of(&written(&data), &rsyslog.received());
    assert!(differs.extra.is_empty(), "{differs:#?}");
}
