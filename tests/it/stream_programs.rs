//! Random programs in panes of real tmux: the lines of a reader of their streams finally equal
//! `capture-pane -J`, screen and history.
//!
//! A program's bytes go to the pane's terminal, and come back through its pipe. Changes that no byte
//! shows (`send-keys -R`, an option, a cleared history) are found by a comparison when the pane rests, as
//! in the source; `TD_PROGRAMS` sets the number of programs, `TD_PROGRAM_FIRST` the first one.

mod program;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use td_observe::Clock;
use td_observe::internals::tmux::{
    CaptureResult, CaptureSpec, ResyncSpec, ServerIdentity, capture,
};
use td_observe::internals::track::{Change, GapReason, StreamTracker, SyncPoint, Tracker};
use unicode_width::UnicodeWidthChar;

use self::program::{Program, Step};
use crate::support::{CEILING, TmuxServer, wait_for};

/// The number of programs in every test run.
const PROGRAMS: u64 = 40;

/// Programs that once differed, on some version.
const FOUND: &[u64] = &[
    41, 63, 109, 211, 266, 276, 518, 578, 756, 965, 1077, 1111, 1164, 1165, 1192, 1292, 1363, 1590,
    3059, 3085, 3515, 3648, 20429, 20707, 20779, 20781, 21292,
];

/// A rest is longer than any delay of a report, and all of them together are shorter than tmux waits for
/// the end of a string.
const REST: Duration = Duration::from_millis(250);

/// The pause between two outputs, in which tmux reads the first.
const PAUSE: Duration = Duration::from_millis(100);

/// A program's pane, and the lines of a reader of its stream.
struct Playback<'a> {
    server: &'a TmuxServer,
    pane: String,
    terminal: File,
    bytes: File,
    path: PathBuf,
    written: usize,
    taken: usize,
    stream: StreamTracker,
    now: Duration,
    changes: Vec<Change>,
    /// The first line that no resize has affected: where tmux rebuilds rows, it drops and repeats some.
    whole_from: i64,
    /// The differences that were found while the pane rested.
    repaired: Vec<String>,
}

fn sync_point(
    server: &TmuxServer,
    known: &ServerIdentity,
    pane: &str,
    open: Option<String>,
) -> SyncPoint {
    let spec = CaptureSpec {
        pane: pane.into(),
        depth: 2000,
        saved: true,
        resync: Some(ResyncSpec { open_pipe: open }),
    };
    let shown = capture(&server.server(), &Clock::system(), known, &[spec]).unwrap();
    let Some(CaptureResult::Captured(view)) = shown.into_iter().next() else {
        panic!("no look at {pane}")
    };
    let sync_point = view.resync.unwrap();
    SyncPoint {
        capture: view.capture,
        modes: sync_point.modes,
        pending: sync_point.pending,
        version: sync_point.version,
    }
}

impl<'a> Playback<'a> {
    fn begin(
        server: &'a TmuxServer,
        known: &ServerIdentity,
        number: u64,
        program: &Program,
    ) -> Self {
        let name = format!("p{number}");
        let command =
            format!("stty raw -echo; tmux wait-for -S ready{number}; exec cat >/dev/null");
        let pane = server.new_session(&name, program.width, program.height, &command);
        server.tmux(&["wait-for", &format!("ready{number}")]);
        let path = server.directory().join(format!("bytes{number}"));
        let bytes = File::create(&path).unwrap();
        drop(bytes);
        let open = format!("pipe-pane -O -t {pane} \"exec cat >> {}\"", path.display());
        let sync_point = sync_point(server, known, &pane, Some(open));
        let (tracker, changes) = Tracker::fresh(&sync_point.capture);
        let mut stream = StreamTracker::new(tracker, &sync_point);
        stream.set_settle_period(Duration::ZERO);
        Self {
            server,
            terminal: server.terminal(&pane),
            pane,
            bytes: File::open(&path).unwrap(),
            path,
            written: 0,
            taken: 0,
            stream,
            now: Duration::ZERO,
            changes,
            whole_from: 1,
            repaired: Vec::new(),
        }
    }

    fn print(&mut self, bytes: &[u8]) {
        self.terminal.write_all(bytes).unwrap();
        self.written += bytes.len();
    }

    /// Reads all printed bytes.
    fn take(&mut self) {
        let mut bytes = Vec::new();
        wait_for("the bytes", CEILING, || {
            self.bytes.read_to_end(&mut bytes).unwrap();
            if self.taken + bytes.len() < self.written {
                Err((self.taken, bytes.len(), self.written))
            } else {
                Ok(())
            }
        });
        self.taken += bytes.len();
        self.stream.advance_clock(self.now);
        for piece in bytes.chunks(97) {
            let mut rest = piece;
            while !rest.is_empty() {
                rest = &rest[self.stream.feed(rest)..];
                self.changes.extend(self.stream.changes(self.now));
                self.stream.shell_marks();
            }
            self.now += Duration::from_millis(7);
        }
    }

    fn settle(&mut self) {
        for _ in 0..2 {
            self.now += REST;
            self.changes.extend(self.stream.changes(self.now));
        }
    }

    /// Lets the pane rest: settles its lines, and compares the screen with tmux's.
    fn compare(&mut self, known: &ServerIdentity, parted: bool) {
        self.take();
        self.settle();
        let sync_point = sync_point(self.server, known, &self.pane, None);
        let mut difference = self
            .stream
            .difference(&sync_point.capture)
            .map(|difference| format!("{difference:?}"));
        if difference.is_none() && self.stream.differs_above_screen(&sync_point.capture) {
            difference = Some("above the screen".into());
        }
        if parted || difference.is_some() {
            if let Some(difference) = difference.filter(|_| !parted) {
                self.repaired.push(difference);
            }
            self.changes
                .extend(self.stream.resync(&sync_point, self.now));
            self.settle();
        } else {
            self.stream.confirm(&sync_point.capture);
        }
    }

    fn step(&mut self, known: &ServerIdentity, step: &Step) {
        let pane = self.pane.clone();
        self.now += PAUSE;
        match step {
            Step::Print(bytes) => {
                // At most as much as a terminal accepts while nobody reads.
                for piece in bytes.chunks(2048) {
                    self.print(piece);
                    self.take();
                }
            }
            Step::Resize(width, height) => {
                self.take();
                let (width, height) = (width.to_string(), height.to_string());
                let size = ["resize-window", "-t", &pane, "-x", &width, "-y", &height];
                self.server.tmux(&size);
                self.compare(known, true);
                self.whole_from = self.stream.tracker.cursor_line() + 1;
            }
            Step::Reset => {
                self.take();
                self.server.tmux(&["send-keys", "-R", "-t", &pane]);
            }
            Step::ClearHistory => {
                self.take();
                self.server.tmux(&["clear-history", "-t", &pane]);
                // The listing shows such a change while the pane rests.
                self.compare(known, false);
            }
            Step::Alternates(on) => {
                self.take();
                let on = if *on { "on" } else { "off" };
                self.server
                    .tmux(&["set-option", "-p", "-t", &pane, "alternate-screen", on]);
            }
            Step::Rest => self.compare(known, false),
        }
    }

    /// Returns the final differences: of the screen, and of the lines that tmux still has.
    fn end(mut self, known: &ServerIdentity) -> (Option<String>, Vec<String>) {
        self.compare(known, false);
        let last = sync_point(self.server, known, &self.pane, None);
        let joined = ["capture-pane", "-p", "-J", "-S", "-", "-t", &self.pane];
        // From 3.4 on tmux prints invalid UTF-8 unchanged.
        let joined = self.server.try_tmux(&joined.map(OsStr::new), "").stdout;
        let joined = String::from_utf8_lossy(&joined);
        let difference = match self.stream.difference(&last.capture) {
            Some(difference) => Some(format!("still {difference:?}")),
            None if last.capture.alternate => None,
            None => lines_differ(&self.changes, self.whole_from, &joined, last.capture.width),
        };
        let _ = std::fs::remove_file(&self.path);
        (difference, self.repaired)
    }
}

/// Returns the first difference between the reader's last lines and those of tmux.
fn lines_differ(changes: &[Change], whole_from: i64, joined: &str, width: u32) -> Option<String> {
    let mut shown: Vec<String> = joined.lines().map(str::to_owned).collect();
    let (replayed, since) = replay(changes);
    while shown
        .last()
        .is_some_and(|line| line.trim_end_matches([' ', '\t']).is_empty())
    {
        shown.pop();
    }
    let since = since.max(usize::try_from(whole_from - 1).unwrap_or(0));
    let mut text = String::new();
    let mut lines = replayed.iter().skip(since).rev();
    while let Some(mut last) = shown.pop() {
        let Some(line) = lines.next() else {
            if since == 0 {
                write!(text, "{:?} is missing; ", last).unwrap();
            }
            break;
        };
        // When a full-screen program begins, tmux ends a line that reaches into the screen, at the end of
        // a row.
        if let Some(above) = shown.last()
            && !last.trim_end_matches(' ').is_empty()
            && !reads(line, &last)
            && fills_rows(above, width as usize)
            && reads(line, &format!("{above}{last}"))
        {
            last.insert_str(0, above);
            shown.pop();
        }
        // After a cleared history, tmux may have only the end of a line.
        let is_cut = shown.is_empty() && ends(line, &last);
        if !reads(line, &last) && !is_cut {
            write!(text, "{} lines above: {line:?} for {last:?}; ", shown.len()).unwrap();
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Returns true if a line has the text that tmux shows, except for trailing blanks. From 3.7 on tmux
/// keeps tabs, whose width depends on their column; the rows of the screen are compared exactly.
fn reads(line: &str, shown: &str) -> bool {
    let shown = shown.trim_end_matches([' ', '\t']);
    if shown.contains('\t') {
        letters(line) == letters(shown)
    } else {
        line == shown
    }
}

/// Returns true if a line ends with the text that tmux shows, compared in the same way: tabs also occur
/// at the end of a line (1192).
fn ends(line: &str, shown: &str) -> bool {
    let shown = shown.trim_end_matches([' ', '\t']);
    if shown.contains('\t') {
        letters(line).ends_with(&letters(shown))
    } else {
        line.ends_with(shown)
    }
}

fn letters(text: &str) -> String {
    text.replace([' ', '\t'], "")
}

/// Returns true if a text ends where a row does, or a column before, where a wide character did not fit.
fn fills_rows(text: &str, width: usize) -> bool {
    let columns: usize = text.chars().filter_map(UnicodeWidthChar::width).sum();
    // The width of a tab is not shown.
    text.contains('\t') || columns > 0 && columns >= columns.div_ceil(width) * (width - 1)
}

/// Returns the lines of a reader, and how many of them precede the last `cleared` gap.
fn replay(changes: &[Change]) -> (Vec<String>, usize) {
    let mut lines = BTreeMap::new();
    let mut since = 0;
    for change in changes {
        match change {
            Change::Lines { first_line, chunk } => {
                let texts = chunk.strip_suffix('\n').unwrap().split('\n');
                lines.extend((*first_line..).zip(texts.map(str::to_owned)));
            }
            Change::Revised { line, text } => drop(lines.insert(*line, text.clone())),
            Change::Gap {
                first_line, reason, ..
            } => {
                assert!(
                    matches!(reason, GapReason::Cleared | GapReason::Resized),
                    "{change:?}"
                );
                since = *first_line - 1;
            }
            Change::Screen { .. } => {}
        }
    }
    let last = lines.keys().next_back().copied().unwrap_or(0);
    let line = |number: &i64| {
        lines
            .get(number)
            .map_or("", |line| line.trim_end_matches(' '))
    };
    let mut lines: Vec<String> = (1..=last).map(|number| line(&number).to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    (lines, usize::try_from(since).unwrap_or(0))
}

fn play(server: &TmuxServer, known: &ServerIdentity, seed: u64) -> (Option<String>, Vec<String>) {
    let program = Program::random(seed);
    play_program(server, known, seed, &program)
}

fn play_program(
    server: &TmuxServer,
    known: &ServerIdentity,
    seed: u64,
    program: &Program,
) -> (Option<String>, Vec<String>) {
    let playback = catch_unwind(AssertUnwindSafe(|| {
        let mut playback = Playback::begin(server, known, seed, program);
        for step in &program.steps {
            playback.step(known, step);
        }
        playback.end(known)
    }));
    server.tmux(&["kill-session", "-t", &format!("=p{seed}")]);
    playback.unwrap_or_else(|_| (Some("panicked".into()), Vec::new()))
}

#[test]
fn random_programs_are_shown_as_in_tmux() {
    let number = |name, or| {
        let text = std::env::var(name).ok();
        text.and_then(|text| text.parse().ok()).unwrap_or(or)
    };
    let first: u64 = number("TD_PROGRAM_FIRST", 1);
    let count: u64 = number("TD_PROGRAMS", PROGRAMS);
    let is_verbose = std::env::var_os("TD_PROGRAM_VERBOSE").is_some();
    let server = TmuxServer::new();
    server.new_session("keeper", 80, 24, "exec cat");
    server.script("set-option -g history-limit 2000");
    let known = server.listing().server;
    let (mut differ, mut repaired) = (Vec::new(), 0);
    let seeds = (first..first + count).chain(FOUND.iter().copied());
    for seed in seeds {
        let (difference, repairs) = play(&server, &known, seed);
        let outside = Program::random(seed)
            .steps
            .iter()
            .any(|step| matches!(step, Step::Reset | Step::ClearHistory | Step::Alternates(_)));
        if !outside && !repairs.is_empty() {
            repaired += 1;
            if is_verbose {
                eprintln!("seed {seed} repaired: {repairs:?}");
            }
        }
        if let Some(difference) = difference {
            let steps = Program::random(seed).steps;
            let outside = steps.iter().filter(|step| !matches!(step, Step::Print(_)));
            let outside: Vec<_> = outside.collect();
            eprintln!("seed {seed}: {outside:?}: {difference}");
            differ.push(seed);
        }
    }
    eprintln!(
        "{count} programs, {repaired} repaired without cause, {} differ: {differ:?}",
        differ.len()
    );
    assert_eq!(differ, [] as [u64; 0]);
}
