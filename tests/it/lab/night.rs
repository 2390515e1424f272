//! A night of real agents: one waits for an answer that nobody gives, one reaches its limit, one fails, one is killed, one
//! rests. The report of it equals a second count from the agents' own files, and what the test itself did.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use td_observe::Timestamp;

use super::scenes::AGENTS;
use super::screens::now;
use super::{ANSWER, START, STEP, TYPING, lab, lab_directory, pause};
use crate::cli::{PROGRAM, assert_code, text};
use crate::observer::{Home, signal};
use crate::support::within;

/// The sessions, each with its agent in the lab. Aider's files have no times: it is counted first, and all of its turns are
/// observed, because a report cannot know when others were.
const SESSIONS: [(&str, &str); 5] = [
    ("rests", "aider"),
    ("waits", "claude"),
    ("limited", "codex"),
    ("fails", "gemini"),
    ("killed", "claude-inline"),
];

/// The command that is asked for. It fails: what it is to touch is a link into a directory that is not there.
const COMMAND: &str = "touch made-by-agent.txt && ls";

/// The greatest difference of a time from a transcript's, in microseconds, and of the sum of a state's times.
const NEAR: i64 = 2_000_000;
const NEAR_SUM: i64 = 3_000_000;

/// The time between two counts of transcripts: a count takes 50 ms of a processor.
const COUNTING: Duration = Duration::from_millis(300);

/// How each session ends: the reason, the beginning of its words, and if it needs the user.
const ENDS: [(&str, &str, &str, bool); 5] = [
    ("rests", "done", "turn done", false),
    ("waits", "waiting", "waits for an answer", true),
    ("limited", "limited", "limit reached until ", true),
    ("fails", "error", "stopped by an error", true),
    ("killed", "killed", "killed: signal 9 (KILL)", true),
];

pub fn play() {
    let night = Night::new();
    night.begins();
    let names = SESSIONS.map(|(name, _)| name);

    // Nothing observes these turns: they are in the transcripts only.
    night.all_do(&[
        ("waits", "SCN:short early"),
        ("killed", "SCN:task early"),
        ("limited", "SCN:short early"),
    ]);
    // The observer comes in the middle of a turn.
    night.prompt(&[("fails", "SCN:text early")]);
    night.shows("fails", ANSWER);
    night.start();
    night.all_have_done();
    night.show(&names, &["done", "idle"]);

    night.prompt(&[
        ("waits", "SCN:bash first"),
        ("limited", "SCN:three first"),
        ("fails", "SCN:bash first"),
        ("killed", "SCN:task first"),
        ("rests", "SCN:text first"),
    ]);
    for name in ["waits", "fails"] {
        night.asks(name);
    }
    // A person takes some time, so that the waits differ from none.
    pause(4 * TYPING);
    for name in ["waits", "fails"] {
        night.answer(name);
    }
    night.all_have_done();
    night.show(&names, &["done", "idle"]);

    // The observer leaves in the middle of a turn, and another turn begins and ends while it is away.
    night.prompt(&[("killed", "SCN:text across")]);
    night.show(&["killed"], &["working"]);
    night.shows("killed", "SCN:text across");
    night.stop();
    night.all_do(&[("waits", "SCN:short late"), ("fails", "SCN:short late")]);
    night.start();
    night.show(&names, &["done", "idle"]);

    night.all_do(&[("killed", "SCN:short last"), ("rests", "SCN:short last")]);
    night.prompt(&[
        ("waits", "SCN:bash last"),
        ("limited", "SCN:limit last"),
        ("fails", "SCN:e401 last"),
        ("killed", "SCN:long last"),
    ]);
    night.asks("waits");
    for (name, state) in [("limited", "limited"), ("fails", "error")] {
        night.show(&[name], &[state]);
        night.note(name, state, now());
    }
    night.show(&["killed"], &["working"]);
    night.shows("killed", "Paragraph 1");
    night.kill("killed");
    // The morning: each state has lasted for some time.
    pause(8 * TYPING);
    night.check();
}

/// What the test did with an agent and saw of it, with its times in microseconds since 1970.
#[derive(Debug, Default)]
struct Agent {
    pane: String,
    /// The number of turns that are to be done.
    begun: usize,
    /// The ends of those that are, each with its source: an observer, or the transcript.
    ends: Vec<(i64, &'static str)>,
    /// When it was asked, and when it was answered.
    questions: Vec<(i64, Option<i64>)>,
    /// The expected states while it is observed, each with its beginning.
    states: Vec<(&'static str, i64)>,
    is_busy: bool,
}

struct Night {
    home: Home,
    began: Timestamp,
    is_observed: RefCell<bool>,
    agents: RefCell<BTreeMap<&'static str, Agent>>,
}

impl Night {
    fn new() -> Self {
        let home = Home::new();
        home.server.new_session("keeper", 80, 24, "exec cat");
        Self {
            home,
            began: Timestamp::from_micros(now()),
            is_observed: RefCell::new(false),
            agents: RefCell::default(),
        }
    }

    /// Starts the agents, and waits until they are ready.
    fn begins(&self) {
        for (name, agent) in SESSIONS {
            let work = lab_directory().join(format!("work-{agent}"));
            fs::create_dir_all(&work).unwrap();
            let link = work.join("made-by-agent.txt");
            std::os::unix::fs::symlink("/nonexistent/file", link).unwrap();
            let command = format!("exec {} agent {agent}", lab().display());
            let pane = self.home.server.new_session(name, 110, 36, &command);
            let agent = Agent {
                pane,
                ..Agent::default()
            };
            self.agents.borrow_mut().insert(name, agent);
        }
        for (name, agent) in SESSIONS {
            let agent = AGENTS.iter().find(|known| known.lab == agent).unwrap();
            self.shows(name, agent.ready);
        }
        let asks = || {
            let screen = self.screen("rests");
            screen.contains("(Y)es/(N)o").then_some(()).ok_or(())
        };
        if within(3 * TYPING, asks).is_ok() {
            self.keys("rests", &["n", "Enter"]);
        }
        // Codex turns its spinner while it starts, and accepts no prompt then.
        pause(5 * TYPING);
    }

    fn screen(&self, name: &str) -> String {
        self.home.server.screen(&self.agents.borrow()[name].pane)
    }

    fn keys(&self, name: &str, keys: &[&str]) {
        let pane = self.agents.borrow()[name].pane.clone();
        let args = [&["send-keys", "-t", &pane], keys].concat();
        self.home.server.tmux(&args);
    }

    #[track_caller]
    fn shows(&self, name: &str, text: &str) {
        let shows = || match self.screen(name) {
            screen if screen.contains(text) => Ok(()),
            screen => Err(screen),
        };
        within(START, shows).unwrap_or_else(|screen| panic!("{name}: {text:?}: {screen}"));
    }

    fn change<T>(&self, name: &str, change: impl FnOnce(&mut Agent) -> T) -> T {
        change(self.agents.borrow_mut().get_mut(name).unwrap())
    }

    /// Notes that an agent is in a state since a time.
    fn note(&self, name: &str, state: &'static str, at: i64) {
        let is_observed = *self.is_observed.borrow();
        self.change(name, |agent| {
            agent.is_busy = state == "working";
            if is_observed {
                agent.states.push((state, at));
            }
        });
    }

    /// Types prompts for several agents, which begin at once.
    fn prompt(&self, prompts: &[(&'static str, &str)]) {
        for (name, text) in prompts {
            self.keys(name, &["-l", text]);
        }
        // Agents take fast input for a paste, in which Enter is a line end.
        pause(2 * TYPING);
        for (name, _) in prompts {
            self.note(name, "working", now());
            self.keys(name, &["Enter"]);
            self.change(name, |agent| agent.begun += 1);
        }
    }

    /// Has these agents do a turn each.
    #[track_caller]
    fn all_do(&self, prompts: &[(&'static str, &str)]) {
        self.prompt(prompts);
        self.all_have_done();
    }

    /// Waits until the transcripts have the ends of all turns.
    #[track_caller]
    fn all_have_done(&self) {
        let is_observed = *self.is_observed.borrow();
        let source = if is_observed { "log" } else { "transcript" };
        for (name, _) in SESSIONS {
            let begun = self.change(name, |agent| agent.begun);
            if self.change(name, |agent| agent.ends.len()) == begun {
                continue;
            }
            let has_done = || {
                let counted = self.count(name);
                if counted.done().count() >= begun {
                    return Ok(counted);
                }
                pause(COUNTING);
                Err(counted)
            };
            let counted = within(STEP, has_done).unwrap_or_else(|counted| {
                let screen = self.screen(name);
                panic!("{name} has not done {begun} turns: {counted:#?}\n{screen}")
            });
            let ended = counted.done().last().map(|turn| micros(&turn["ended"]));
            let ended = ended.flatten().unwrap_or_else(now);
            self.note(name, "rest", ended);
            self.change(name, |agent| agent.ends.push((ended, source)));
        }
    }

    /// Waits until an agent asks for the command.
    #[track_caller]
    fn asks(&self, name: &'static str) {
        let asks = |row: &Value| row["state"] == "waiting";
        self.shows(
            name,
            if name == "waits" {
                "Do you want to"
            } else {
                "Allow execution"
            },
        );
        let asked = now();
        let row = self.home.wait_for_row(name, asks);
        assert_eq!(row["asks"], COMMAND, "{name}");
        self.note(name, "waiting", asked);
        self.change(name, |agent| agent.questions.push((asked, None)));
    }

    fn answer(&self, name: &'static str) {
        self.note(name, "working", now());
        self.change(name, |agent| {
            agent.questions.last_mut().unwrap().1 = Some(now());
        });
        self.keys(name, &["Enter"]);
    }

    /// Waits until the rows of agents are in one of these states.
    #[track_caller]
    fn show(&self, names: &[&str], states: &[&str]) {
        for name in names {
            self.home.wait_for_row(name, |row| {
                states.contains(&row["state"].as_str().unwrap_or_default())
            });
        }
    }

    fn start(&self) {
        self.is_observed.replace(true);
        for (name, _) in SESSIONS {
            let is_busy = self.change(name, |agent| agent.is_busy);
            self.note(name, if is_busy { "working" } else { "rest" }, now());
        }
        self.home.start();
    }

    fn stop(&self) {
        for (name, _) in SESSIONS {
            let is_busy = self.change(name, |agent| agent.is_busy);
            self.note(name, "not_observed", now());
            self.change(name, |agent| agent.is_busy = is_busy);
        }
        self.is_observed.replace(false);
        assert_code(&self.home.run(&["stop"]), 0);
    }

    fn kill(&self, name: &'static str) {
        let pane = self.change(name, |agent| agent.pane.clone());
        let server = &self.home.server;
        let pid = server.tmux(&["display-message", "-p", "-t", &pane, "#{pane_pid}"]);
        self.note(name, "ended", now());
        signal(pid.parse().unwrap(), Signal::KILL);
        self.home
            .wait_for_row(name, |row| row["exit_status"] == 137);
    }

    /// Counts what an agent's own files say.
    fn count(&self, name: &str) -> Counted {
        let (_, agent) = SESSIONS.iter().find(|(of, _)| *of == name).unwrap();
        let directory = lab_directory();
        let mut paths = vec![directory.join(format!("home-{agent}"))];
        let history = directory.join(format!("work-{agent}/.aider.chat.history.md"));
        paths.extend(Some(history).filter(|path| path.exists()));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/lab/night.py");
        let output = Command::new("python3")
            .arg(script)
            .args(["--since", &self.began.to_string()])
            .args(paths)
            .output()
            .unwrap();
        assert_code(&output, 0);
        let lines = text(&output.stdout);
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        Counted(lines.collect())
    }

    fn run(&self, args: &[&str]) -> String {
        let output = self.home.run(args);
        assert_code(&output, 0);
        text(&output.stdout)
    }
}

/// Returns the microseconds since 1970 of a time; `None` if it is not known.
fn micros(time: &Value) -> Option<i64> {
    Some(time.as_str()?.parse::<Timestamp>().ok()?.micros())
}

/// A count of an agent's files, each with its figures.
#[derive(Debug)]
struct Counted(Vec<Value>);

impl Counted {
    fn turns(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().flat_map(|file| items(&file["turns"]))
    }

    fn done(&self) -> impl DoubleEndedIterator<Item = &Value> {
        let done: Vec<&Value> = self.turns().filter(|turn| turn["how"] == "done").collect();
        done.into_iter()
    }

    fn sum(&self, of: &str, which: &str) -> u64 {
        let files = self.0.iter();
        files.map(|file| file[of][which].as_u64().unwrap()).sum()
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// The differences between a report and what it should say.
#[derive(Debug, Default)]
struct Differences(Vec<String>);

impl Differences {
    fn check(&mut self, what: &str, found: &Value, expected: impl Into<Value>) {
        let expected = expected.into();
        if *found != expected {
            self.0.push(format!("{what}: {found}, not {expected}"));
        }
    }

    fn check_near(&mut self, what: &str, found: i64, expected: i64, near: i64) {
        if found.abs_diff(expected) > near.unsigned_abs() {
            let late = (found - expected) / 1000;
            self.0.push(format!("{what}: {late} ms too late or long"));
        }
    }

    fn check_text(&mut self, what: &str, found: &Value, begins: &str) {
        let text = found.as_str().unwrap_or_default();
        if begins.is_empty() || !text.contains(begins) {
            self.0.push(format!("{what}: {found}, not {begins:?}"));
        }
    }
}

/// Returns the first words of a text on one line.
fn beginning(text: &Value) -> String {
    let words = text.as_str().unwrap_or_default().split_whitespace();
    words.take(6).collect::<Vec<&str>>().join(" ")
}

impl Night {
    /// Compares the report with the transcripts, and with what the test did.
    fn check(&self) {
        let until = now();
        let since = self.began.to_string();
        let to = Timestamp::from_micros(until).to_string();
        let span = ["report", "--since", &since, "--until", &to];
        let json = self.run(&[&span[..], &["--json"]].concat());
        let report: Value = serde_json::from_str(&json).unwrap();
        if std::env::var_os("TD_LAB_EVENTS").is_some() {
            eprintln!("{report:#}");
        }
        let mut differences = Differences::default();
        for (name, _) in SESSIONS {
            let rows = items(&report["rows"]);
            let row = rows.iter().find(|row| row["name"] == name).unwrap();
            let (counted, mut of) = (self.count(name), Differences::default());
            self.change(name, |agent| {
                check_end(row, name, &mut of);
                check_figures(row, &counted, &mut of);
                check_turns(row, &counted, agent, &mut of);
                check_questions(row, agent, until, &mut of);
                check_times(row, agent, until, &mut of);
            });
            let of = of.0.into_iter().map(|what| format!("{name}: {what}"));
            differences.0.extend(of);
        }
        let needs = ENDS.iter().filter(|(.., needs)| *needs).count();
        differences.check("totals", &report["totals"]["needs_you"], needs);
        let listed = items(&report["needs_you"]).len();
        differences.check("needs_you", &listed.into(), needs);
        let turns: usize = self.agents.borrow().values().map(|of| of.ends.len()).sum();
        differences.check("totals", &report["totals"]["turns"], turns);
        assert!(
            differences.0.is_empty(),
            "{:#?}\n{:#?}\n{report:#}",
            differences.0,
            self.agents.borrow()
        );
        self.check_formats(&span);
        self.check_after_stop(&span);
    }

    /// Checks that each format has the reasons and the questions.
    fn check_formats(&self, span: &[&str]) {
        let page = self.home.directory().join("night.html");
        let markdown = self.run(&[span, &["--markdown"]].concat());
        self.run(&[span, &["--html", page.to_str().unwrap()]].concat());
        let page = fs::read_to_string(page).unwrap();
        // On a terminal.
        let data = self.home.data().display().to_string();
        let args = span.join(" ");
        let command = format!("TD_DATA_DIR={data} {PROGRAM} {args}; echo status $?; exec cat");
        let server = &self.home.server;
        let reader = server.new_session("reader", 100, 200, &command);
        server.wait_for_text(&reader, "status 0");
        let terminal = server.screen(&reader);
        // Words are not markup.
        let markdown = markdown.replace('\\', "");
        for (_, _, words, _) in ENDS {
            for printed in [&markdown, &page, &terminal] {
                assert!(printed.contains(words), "{words:?}: {printed}");
            }
        }
        let question = "touch made-by-agent.txt";
        for printed in [&markdown, &page, &terminal] {
            assert!(printed.contains(question), "{printed}");
        }
    }

    /// Checks that what needed the user still does when nothing observes it any more.
    fn check_after_stop(&self, span: &[&str]) {
        assert_code(&self.home.run(&["stop"]), 0);
        // Up to now.
        let json = self.run(&[&span[..3], &["--json"]].concat());
        let report: Value = serde_json::from_str(&json).unwrap();
        for (name, reason, words, needs) in ENDS {
            let rows = items(&report["rows"]);
            let row = rows.iter().find(|row| row["name"] == name).unwrap();
            assert_eq!(row["needs_you"], needs, "{name}: {row:#}");
            let words = match reason {
                "waiting" => "waited for an answer when its observer stopped",
                "done" => "was done when its observer stopped",
                "limited" => "was at its limit until ",
                "error" => "was stopped by an error when its observer stopped",
                _ => words,
            };
            let end = row["end"]["words"].as_str().unwrap();
            assert!(end.starts_with(words), "{name}: {row:#}");
        }
    }
}

fn check_end(row: &Value, name: &str, of: &mut Differences) {
    let (_, reason, words, needs) = ENDS.iter().find(|(of, ..)| *of == name).unwrap();
    let end = &row["end"];
    of.check("the reason", &end["reason"], *reason);
    of.check_text("the words", &end["words"], words);
    of.check("needs you", &row["needs_you"], *needs);
    match *reason {
        "waiting" => of.check("the detail", &end["detail"], COMMAND),
        "killed" => of.check("the exit status", &end["exit_status"], 137),
        "limited" => {
            // The stand-in's limit lasts two hours, and Codex says so to the minute.
            let ends = micros(&end["limit_until"]).unwrap_or(0);
            let since = micros(&end["at"]).unwrap_or(0);
            of.check_near("the limit", ends, since + 7_200_000_000, 60_000_000 + NEAR);
        }
        _ => {}
    }
}

/// Compares the counts with those of the transcripts.
fn check_figures(row: &Value, counted: &Counted, of: &mut Differences) {
    let (called, failed) = (
        counted.sum("tools", "called"),
        counted.sum("tools", "failed"),
    );
    of.check("tool calls", &row["tools"]["calls"], called);
    of.check("failed tools", &row["tools"]["failed"], failed);
    let tokens = &row["tokens"];
    of.check("tokens in", &tokens["input"], counted.sum("tokens", "in"));
    of.check(
        "tokens out",
        &tokens["output"],
        counted.sum("tokens", "out"),
    );
    let turns = &row["turns"];
    of.check("turns", &turns["count"], counted.done().count());
    of.check("prompts", &turns["prompts"], counted.turns().count());
    let errors: Vec<&Value> = (counted.0.iter())
        .flat_map(|file| items(&file["errors"]))
        .collect();
    for error in errors {
        let begins = beginning(error);
        let told = items(&row["errors"]["items"]).iter();
        let has_it = |told: &Value| told["text"].as_str().unwrap_or_default().contains(&begins);
        if !told.clone().any(has_it) {
            let all: Vec<&Value> = told.collect();
            of.0.push(format!("errors: {all:?}, not {error}"));
        }
    }
}

/// Compares the turns with those of the transcripts, and with how the test saw them end.
fn check_turns(row: &Value, counted: &Counted, agent: &Agent, of: &mut Differences) {
    let found = items(&row["turns"]["items"]);
    of.check("the turns' list", &found.len().into(), agent.ends.len());
    let expected = counted.done().zip(&agent.ends);
    for (found, (counted, (ended, source))) in found.iter().zip(expected) {
        let what = format!("the turn {}", counted["prompt"]);
        of.check_text(&what, &found["summary"], &beginning(&counted["summary"]));
        of.check_near(&what, micros(&found["ended"]).unwrap_or(0), *ended, NEAR);
        of.check(&what, &found["source"], *source);
        if let Some(began) = micros(&counted["began"]) {
            of.check_near(&what, micros(&found["began"]).unwrap_or(0), began, NEAR);
        }
    }
}

/// Compares the questions with those that the test has seen.
fn check_questions(row: &Value, agent: &Agent, until: i64, of: &mut Differences) {
    let questions = &row["questions"];
    let expected = &agent.questions;
    let open = expected.iter().filter(|(_, answered)| answered.is_none());
    of.check("questions", &questions["count"], expected.len());
    of.check("open questions", &questions["unanswered"], open.count());
    let wait = |(asked, answered): &(i64, Option<i64>)| answered.unwrap_or(until) - asked;
    let longest = expected.iter().map(wait).max().unwrap_or(0);
    let found = questions["longest_wait_ms"].as_i64().unwrap_or(0) * 1000;
    of.check_near("the longest wait", found, longest, NEAR);
    let found = items(&questions["items"]);
    of.check("the questions' list", &found.len().into(), expected.len());
    for (found, (asked, answered)) in found.iter().zip(expected) {
        of.check("a question", &found["asks"], COMMAND);
        of.check("its answer", &found["answered"], answered.is_some());
        of.check_near(
            "a question",
            micros(&found["from"]).unwrap_or(0),
            *asked,
            NEAR,
        );
        match (micros(&found["until"]), answered) {
            (Some(found), Some(answered)) => of.check_near("its answer", found, *answered, NEAR),
            (found, answered) => of.check("its end", &found.into(), *answered),
        }
    }
}

/// Compares the sums of the states' times with those that the test has scripted.
fn check_times(row: &Value, agent: &Agent, until: i64, of: &mut Differences) {
    let mut expected: BTreeMap<&str, i64> = BTreeMap::new();
    let later = agent.states.iter().skip(1).map(|(_, at)| *at);
    for ((state, at), next) in agent.states.iter().zip(later.chain([until])) {
        *expected.entry(*state).or_default() += next - at;
    }
    let times = &row["times_ms"];
    let sum = |states: &[&str]| {
        let states = states.iter();
        let ms: i64 = states.map(|state| times[*state].as_i64().unwrap()).sum();
        ms * 1000
    };
    for (state, states) in [
        ("working", &["working", "running"][..]),
        ("rest", &["idle", "done"]),
        ("waiting", &["waiting"]),
        ("limited", &["limited"]),
        ("error", &["error"]),
        ("not_observed", &["not_observed"]),
        ("unknown", &["unknown", "suspended"]),
    ] {
        let expected = expected.get(state).copied().unwrap_or(0);
        of.check_near(&format!("{state} {times}"), sum(states), expected, NEAR_SUM);
    }
    let all: i64 = times
        .as_object()
        .unwrap()
        .values()
        .filter_map(Value::as_i64)
        .sum();
    let (from, to) = (micros(&row["from"]), micros(&row["until"]));
    let span = to.unwrap_or(0) - from.unwrap_or(0);
    // Each of some twenty states is cut to a millisecond.
    of.check_near("the span", all * 1000, span, 100_000);
}
