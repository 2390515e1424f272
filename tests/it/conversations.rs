//! The conversation of an agent in a pane: text in the agent's files becomes events of the pane's run.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Output;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use td_observe::agent::StateRules;
use td_observe::{Envelope, TdEvent, Timestamp};

use crate::cli::{PROGRAM, Running, assert_code, on, program, text};
use crate::observed::Observed;
use crate::support::{CEILING, TmuxServer, wait_for};

mod begun;

const SESSION: &str = "00000000-0000-4000-8000-000000000001";

/// A process with the name of Claude Code, whose files the test writes.
struct Claude {
    home: tempfile::TempDir,
    server: TmuxServer,
    pane: String,
    pid: i32,
    written: usize,
}

/// Draws an input box in the last of 24 rows, below what is printed.
const BOX: &str = r#"
line='────────────────────────────────────────────────────────'
printf '\033[2J\033[21;1H%s\n❯ \n%s\n  ? for shortcuts\033[1;20r\033[H' "$line" "$line""#;

impl Claude {
    fn new() -> Self {
        Self::started("exec bash -c '. ./box; exec -a claude cat'")
    }

    /// Starts the agent as the command of `td-observe run`.
    fn in_command() -> Self {
        let run =
            format!("exec '{PROGRAM}' run --pty --stdin bash -c '. ./box; exec -a claude cat'");
        Self::started(&run)
    }

    fn started(line: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("box"), BOX).unwrap();
        let server = TmuxServer::with_env(&[("HOME", home.path().to_str().unwrap())]);
        let agent = format!("cd '{}' && {line}", home.path().display());
        let pane = server.new_session("agent", 80, 24, &agent);
        let sessions = home.path().join(".claude/sessions");
        fs::create_dir_all(&sessions).unwrap();
        let of_pane = server.tmux(&["display-message", "-p", "-t", &pane, "#{pane_pid}"]);
        let of_pane = of_pane.trim().to_owned();
        let pid = wait_for("the agent's process", CEILING, || {
            let processes = fs::read_dir("/proc").unwrap().flatten();
            let pids = processes.filter_map(|entry| entry.file_name().into_string().ok());
            let is_agent = |pid: &String| {
                let read = |file| fs::read_to_string(format!("/proc/{pid}/{file}"));
                let stat = read("stat").unwrap_or_default();
                let after_name = stat.rsplit(") ").next().unwrap_or_default();
                let parent = after_name.split(' ').nth(1);
                let is_of_pane = *pid == of_pane || parent == Some(&of_pane);
                is_of_pane && read("cmdline").is_ok_and(|line| line == "claude\0")
            };
            pids.into_iter().find(is_agent).ok_or(())
        });
        let claude = Self {
            pid: pid.parse().unwrap(),
            home,
            server,
            pane,
            written: 0,
        };
        claude.is("idle");
        fs::create_dir_all(claude.transcript().parent().unwrap()).unwrap();
        claude
    }

    /// Reports a status: `busy`, `idle` or `waiting`.
    fn is(&self, status: &str) {
        self.is_in(SESSION, status);
    }

    /// Reports a status in a session.
    fn is_in(&self, session: &str, status: &str) {
        let (home, pid) = (self.home.path(), self.pid);
        let status = format!(
            r#"{{"pid":{pid},"sessionId":"{session}","cwd":"{}","status":"{status}"}}"#,
            home.display()
        );
        let place = home.join(format!(".claude/sessions/{pid}.json"));
        // Replaced at once, so that nobody reads a half.
        let new = place.with_extension("new");
        fs::write(&new, status).unwrap();
        fs::rename(new, place).unwrap();
    }

    /// Starts `td-observe ask` for this agent.
    fn asked(&self, more: &[&str]) -> Running {
        let socket = self.server.socket();
        let data = self.home.path().join("data");
        let args = [&["ask", "agent"], more].concat();
        Running::start(program(&on(socket.to_str().unwrap(), &args), &data))
    }

    fn shows(&self) -> String {
        self.server.tmux(&["capture-pane", "-p", "-t", &self.pane])
    }

    fn transcript(&self) -> PathBuf {
        let directory = fs::canonicalize(self.home.path()).unwrap();
        let is_plain = |char: char| char.is_ascii_alphanumeric();
        let slug: String = directory
            .to_str()
            .unwrap()
            .chars()
            .map(|char| if is_plain(char) { char } else { '-' })
            .collect();
        directory
            .join(".claude/projects")
            .join(slug)
            .join(format!("{SESSION}.jsonl"))
    }

    fn observed(&self) -> Observed {
        let mut observed =
            Observed::start(&self.server, |watch| watch.states(StateRules::builtin()));
        observed.until_started(1);
        observed
    }

    /// Observes the agent until its file is joined, before it grows.
    fn joined(&self) -> Observed {
        let mut observed = self.observed();
        self.draws();
        observed.until("its state", |seen| {
            seen.iter()
                .any(|envelope| matches!(&envelope.event, TdEvent::AgentState { .. }))
        });
        observed
    }

    /// Writes a whole turn: a prompt and its answer.
    fn turn(&mut self, text: &str) {
        self.written += 1;
        let number = self.written;
        let now = now();
        let common = format!(r#""sessionId":"{SESSION}","timestamp":"{now}""#);
        let records = format!(
            concat!(
                r#"{{"type":"user",{common},"uuid":"u{number}","message":{{"role":"user","content":"ask {text}"}}}}"#,
                "\n",
                r#"{{"type":"assistant",{common},"uuid":"a{number}","message":{{"id":"m{number}","role":"assistant","#,
                r#""model":"m","content":[{{"type":"text","text":"answer {text}"}}],"stop_reason":"end_turn","#,
                r#""usage":{{"input_tokens":1,"output_tokens":1}}}}}}"#,
                "\n"
            ),
            common = common,
            number = number,
            text = text
        );
        self.write(records.trim_end());
    }

    /// Appends records to the transcript.
    fn write(&self, records: &str) {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.transcript())
            .unwrap();
        file.write_all(format!("{records}\n").as_bytes()).unwrap();
    }

    /// Starts an observer in the background.
    fn observe(&self) {
        self.observe_with(&[]);
    }

    fn observe_with(&self, options: &[&str]) {
        let socket = self.server.socket();
        let args = [&["start"], options].concat();
        assert_code(&self.run(&on(socket.to_str().unwrap(), &args)), 0);
    }

    fn run(&self, args: &[&str]) -> Output {
        let data = self.home.path().join("data");
        Running::start(program(args, &data)).end()
    }

    /// Waits until the agent's row is as expected.
    fn row(&self, is: impl Fn(&Value) -> bool) -> Value {
        wait_for("the row", CEILING, || {
            let rows = text(&self.run(&["status", "--json"]).stdout);
            let mut rows = rows.lines().map(|line| serde_json::from_str(line).unwrap());
            let row: Value = rows.find(|row: &Value| row["name"] == "agent").unwrap();
            if is(&row) { Ok(row) } else { Err(row) }
        })
    }

    /// Draws a screen, as the agent's program would.
    fn shows_screen(&self, screen: &str) {
        let line = "─".repeat(60);
        let screen = screen.replace("LINE", &line).replace('\n', "\r\n");
        let terminal = ["display-message", "-p", "-t", &self.pane, "#{pane_tty}"];
        let terminal = self.server.tmux(&terminal);
        fs::write(terminal.trim(), format!("\x1b[2J\x1b[H{screen}")).unwrap();
    }

    /// Makes the pane print something.
    fn draws(&self) {
        self.server
            .tmux(&["send-keys", "-t", &self.pane, "go", "Enter"]);
    }
}

pub fn now() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_micros(now.as_micros() as i64)
}

/// Returns the conversation: prompts, answers and ends of turns.
fn messages(events: &[Envelope], pane: &str) -> Vec<String> {
    let mut messages = Vec::new();
    for envelope in events {
        let event = &envelope.event;
        if event.pane().is_none_or(|of| of.as_str() != pane) {
            continue;
        }
        match event {
            TdEvent::PromptSent { prompt_summary, .. } => messages.push(prompt_summary.clone()),
            TdEvent::ResponseCompleted {
                response_summary, ..
            } => messages.push(response_summary.clone()),
            TdEvent::TurnCompleted { .. } => messages.push("end".to_owned()),
            _ => {}
        }
    }
    messages
}

fn turns(texts: &[&str]) -> Vec<String> {
    let turn = |text: &&str| {
        [
            format!("ask {text}"),
            format!("answer {text}"),
            "end".into(),
        ]
    };
    texts.iter().flat_map(turn).collect()
}

#[test]
fn messages_written_while_no_observer_ran_are_reported_by_the_next_one_and_none_twice() {
    let mut claude = Claude::new();
    claude.turn("before");
    let mut observed = claude.joined();
    claude.turn("first");
    let pane = claude.pane.clone();
    observed.until("the first turn", |seen| {
        messages(seen, &pane).len() == turns(&["first"]).len()
    });
    observed.stop();
    claude.turn("second");
    claude.turn("third");

    let mut observed = claude.observed();
    let both = turns(&["second", "third"]);
    observed.until("what was missed", |seen| {
        messages(seen, &pane).len() == both.len()
    });
    claude.turn("fourth");
    let all = turns(&["second", "third", "fourth"]);
    observed.until("the fourth turn", |seen| {
        messages(seen, &pane).len() == all.len()
    });
    assert_eq!(messages(&observed.seen, &pane), all);
    observed.stop();
    let logs = observed.logs();
    assert_eq!(logs.len(), 1, "the run continues");
    let all = turns(&["first", "second", "third", "fourth"]);
    assert_eq!(messages(logs.values().next().unwrap(), &pane), all);
}

#[test]
fn only_the_end_of_a_huge_transcript_is_read() {
    const BYTES: u64 = 1 << 30;
    let mut claude = Claude::new();
    let mut file = File::create(claude.transcript()).unwrap();
    file.seek(SeekFrom::Start(BYTES)).unwrap();
    file.write_all(b"\n").unwrap();
    drop(file);
    claude.turn("before");
    let socket = claude.server.socket();
    let data = claude.home.path().join("data");
    let args = ["watch", "agent", "--json"];
    let command = program(&on(socket.to_str().unwrap(), &args), &data);
    let mut running = Running::start(command);
    running.wait_for("SessionStarted");
    claude.draws();
    running.wait_for("AgentState");
    claude.turn("after");
    running.wait_for("answer after");
    let io = fs::read_to_string(format!("/proc/{}/io", running.child.id())).unwrap();
    let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    let read: u64 = read.unwrap().parse().unwrap();
    assert!(read < BYTES / 10, "{read} bytes were read");
    running.signal(Signal::INT);
    assert_code(&running.end(), 0);
}

/// Asks an agent, which answers in one turn; returns what `ask --json` prints.
fn asked_once(claude: &mut Claude) -> Value {
    let asked = claude.asked(&["fix it", "--json"]);
    claude.server.wait_for_text(&claude.pane, "fix it");
    claude.is("busy");
    claude.turn("it");
    claude.is("idle");
    let output = asked.end();
    assert_code(&output, 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn an_agent_is_asked_and_its_answer_printed() {
    let mut claude = Claude::new();
    let found = asked_once(&mut claude);
    assert_eq!(found["answer"], "answer it");
    assert_eq!(found["tokens"], json!({"input": 1, "output": 1}));
    assert_eq!(found["question"], Value::Null);
    // Beside an observer, as text.
    claude.observe();
    let asked = claude.asked(&["go on"]);
    claude.server.wait_for_text(&claude.pane, "go on");
    claude.turn("two");
    let output = asked.end();
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout), "answer two\n");
    // An agent that asks back.
    let asked = claude.asked(&["go further"]);
    claude.server.wait_for_text(&claude.pane, "go further");
    claude.is("waiting");
    let output = asked.end();
    assert_code(&output, 4);
    assert!(text(&output.stderr).contains("asks"), "{output:?}");
    assert_code(&claude.run(&["stop"]), 0);
}

#[test]
fn an_agent_in_a_command_of_its_pane_is_asked() {
    let found = asked_once(&mut Claude::in_command());
    assert_eq!(found["answer"], "answer it", "{found}");
    assert_eq!(found["problem"], Value::Null);
}

#[test]
fn shells_in_the_background_are_counted_on_the_row_until_they_end() {
    let mut claude = Claude::new();
    claude.turn("before");
    claude.observe();
    claude.row(|row| row["state"] == "done");
    claude.is("busy");
    // Left by a process that was killed, and never reported as ended.
    let launched = |id: &str, time: &str| {
        format!(
            r#"{{"type":"user","sessionId":"{SESSION}","timestamp":"{time}","isSidechain":false,"message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t-{id}","content":"Command running in background with ID: {id}."}}]}},"toolUseResult":{{"stdout":"","stderr":"","backgroundTaskId":"{id}"}}}}"#
        )
    };
    claude.write(&launched("old", "2026-01-01T00:00:00.000Z"));
    claude.write(&launched("new", &now().to_string()));
    claude.turn("it");
    claude.is("shell");
    let done = claude.row(|row| {
        row["background"] == json!({"shells": 1, "agents": 0}) && row["state"] == "done"
    });
    let table = text(&claude.run(&["status"]).stdout);
    assert!(
        table.contains("1 shell still running: answer it"),
        "{table}"
    );
    // The user has ended it, so no turn follows.
    claude.write(&format!(
        r#"{{"type":"queue-operation","operation":"enqueue","timestamp":"{}","sessionId":"{SESSION}","content":"<task-notification>\n<task-id>new</task-id>\n<status>killed</status>\n</task-notification>"}}"#,
        now()
    ));
    claude.is("idle");
    let over = claude.row(|row| row["background"].is_null());
    assert_eq!(
        (&over["state"], &over["since"]),
        (&done["state"], &done["since"])
    );
    assert!(!text(&claude.run(&["status"]).stdout).contains("running"));
    assert_code(&claude.run(&["stop"]), 0);
}

#[test]
fn a_turn_is_not_over_while_background_agents_run() {
    let mut claude = Claude::new();
    claude.turn("before");
    let mut observed = claude.joined();
    claude.is("busy");
    let launch = |id: &str| {
        format!(
            r#"{{"type":"user","sessionId":"{SESSION}","timestamp":"{}","isSidechain":false,"message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t-{id}","content":"Async agent launched successfully."}}]}},"toolUseResult":{{"isAsync":true,"status":"async_launched","agentId":"{id}"}}}}"#,
            now()
        )
    };
    let end = |id: &str, status: &str| {
        format!(
            r#"{{"type":"user","sessionId":"{SESSION}","timestamp":"{}","origin":{{"kind":"task-notification"}},"message":{{"role":"user","content":"<task-notification>\n<task-id>{id}</task-id>\n<status>{status}</status>\n</task-notification>"}}}}"#,
            now()
        )
    };
    let has_said = |text: &'static str| {
        move |seen: &[Envelope]| {
            seen.iter().any(|envelope| matches!(&envelope.event, TdEvent::TokenReceived { token, .. } if token == text))
        }
    };
    let ends = |seen: &[Envelope]| -> Vec<String> {
        let summaries = seen.iter().filter_map(|envelope| match &envelope.event {
            TdEvent::TurnCompleted { summary, .. } => Some(summary.clone()),
            _ => None,
        });
        summaries.collect()
    };
    claude.write(&prompted(now()));
    claude.write(&launch("a1"));
    claude.write(&answered(now(), "I wait."));
    observed.until("the answer", has_said("I wait."));
    // The end of the agent sends the session on, to the only end of this turn.
    claude.write(&end("a1", "completed"));
    claude.write(&answered(now(), "All is done."));
    observed.until("the end", |seen| ends(seen) == ["All is done."]);
    // The user has killed this one, which sends nothing on.
    claude.write(&prompted(now()));
    claude.write(&launch("a2"));
    claude.write(&answered(now(), "I wait again."));
    observed.until("the next answer", has_said("I wait again."));
    assert_eq!(ends(&observed.seen), ["All is done."]);
    claude.write(&end("a2", "killed"));
    observed.until("the next end", |seen| {
        ends(seen) == ["All is done.", "I wait again."]
    });
}

#[test]
fn only_an_agent_that_is_ready_is_asked() {
    let claude = Claude::new();
    for (status, more, words) in [
        ("busy", &[][..], "is working"),
        ("waiting", &[], "waits for an answer"),
        ("idle", &["--answers", "x"], "no question"),
    ] {
        claude.is(status);
        let output = claude.asked(&[&["do not type"], more].concat()).end();
        assert_code(&output, 2);
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains(words) && stderr.lines().count() == 1,
            "{stderr}"
        );
    }
    assert!(
        !claude.shows().contains("do not type"),
        "{}",
        claude.shows()
    );
}

#[test]
fn an_agent_that_is_killed_has_not_answered() {
    let claude = Claude::new();
    // The server outlives the agent.
    claude.server.new_session("other", 80, 24, "cat");
    let asked = claude.asked(&["fix it"]);
    claude.server.wait_for_text(&claude.pane, "fix it\nfix it");
    claude.is("busy");
    kill_process(Pid::from_raw(claude.pid).unwrap(), Signal::KILL).unwrap();
    let output = asked.end();
    assert_code(&output, 1);
    assert!(
        text(&output.stderr).contains("did not end its turn"),
        "{output:?}"
    );
}

#[test]
fn an_agent_goes_on_after_ctrl_c_and_a_timeout() {
    let claude = Claude::new();
    let output = claude.asked(&["fix it", "--timeout", "2s"]).end();
    assert_code(&output, 124);
    let asked = claude.asked(&["once more"]);
    claude.server.wait_for_text(&claude.pane, "once more");
    asked.signal(Signal::INT);
    assert_code(&asked.end(), 130);
    claude.draws();
    claude.server.wait_for_text(&claude.pane, "go\ngo");
}

#[test]
fn a_wait_for_the_end_of_a_prompt_has_the_answer() {
    let mut claude = Claude::new();
    let socket = claude.server.socket();
    let data = claude.home.path().join("data");
    let args = [
        "wait", "agent", "--send", "fix it", "--state", "done", "--json",
    ];
    let waiting = Running::start(program(&on(socket.to_str().unwrap(), &args), &data));
    claude.server.wait_for_text(&claude.pane, "fix it\nfix it");
    claude.is("busy");
    claude.turn("it");
    claude.is("idle");
    let output = waiting.end();
    assert_code(&output, 0);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&found["state"], &found["answer"]),
        (&json!("done"), &json!("answer it"))
    );
}

/// Returns a record of the transcript that was written at this time.
fn record(at: Timestamp, kind: &str, more: &str) -> String {
    format!(r#"{{"type":"{kind}","sessionId":"{SESSION}","timestamp":"{at}",{more}}}"#)
}

fn prompted(at: Timestamp) -> String {
    record(
        at,
        "user",
        r#""uuid":"u","message":{"role":"user","content":"go"}"#,
    )
}

/// Returns a message of the model, with this content and the reason of its end.
fn said(at: Timestamp, content: &str, stop: &str) -> String {
    let message = format!(
        r#""uuid":"a","message":{{"id":"m{}","role":"assistant","model":"m","content":[{content}],"stop_reason":"{stop}","usage":{{"input_tokens":1,"output_tokens":1}}}}"#,
        at.micros()
    );
    record(at, "assistant", &message)
}

fn answered(at: Timestamp, answer: &str) -> String {
    let content = format!(r#"{{"type":"text","text":"{answer}"}}"#);
    said(at, &content, "end_turn")
}

#[test]
fn an_agent_that_is_done_when_its_observation_begins_has_its_conclusion_and_the_time_of_its_end() {
    let claude = Claude::new();
    let (began, ended) = (now(), now());
    claude.write(&prompted(began));
    let answer = "I looked around.\\n\\nAll 12 tests pass now. You can merge it.";
    claude.write(&answered(ended, answer));
    // What Claude Code notes later is no turn.
    claude.write(r#"{"type":"mode","mode":"normal"}"#);
    claude.observe();
    let row = claude.row(|row| row["state"] == "done" && row["since"] == json!(ended));
    assert_eq!(row["last_line"], "All 12 tests pass now.");
    assert_eq!((&row["turns"], &row["errors"]), (&json!(0), &json!(0)));
    // It stays so over a restart of the observer.
    assert_code(&claude.run(&["stop"]), 0);
    claude.observe();
    let row = claude.row(|row| row["state"] == "done");
    assert_eq!(row["since"], json!(ended));
    assert_eq!(row["last_line"], "All 12 tests pass now.");
    // The end of a turn that no observer has seen.
    assert_code(&claude.run(&["stop"]), 0);
    let missed = now();
    claude.write(&prompted(now()));
    claude.write(&answered(missed, "It is merged."));
    claude.observe();
    let row = claude.row(|row| row["turns"] == json!(1) && row["since"] == json!(missed));
    assert_eq!(
        (&row["state"], &row["last_line"]),
        (&json!("done"), &json!("It is merged."))
    );
    // What the observer sees itself has its own time.
    claude.is("busy");
    claude.row(|row| row["state"] == "working");
    let seen = now();
    claude.write(&prompted(now()));
    claude.write(&answered(began, "Once more."));
    claude.is("idle");
    let row = claude.row(|row| row["turns"] == json!(2) && row["state"] == "done");
    let since: Timestamp = row["since"].as_str().unwrap().parse().unwrap();
    assert!(since > seen, "{row}");
    assert_eq!(row["last_line"], "Once more.");
    assert_code(&claude.run(&["stop"]), 0);
}

#[test]
fn an_agent_that_is_idle_since_before_its_process_began_has_the_conclusion_of_its_conversation() {
    let claude = Claude::new();
    claude.write(&prompted("2026-01-01T00:00:00Z".parse().unwrap()));
    let ended = "2026-01-01T00:01:00Z".parse().unwrap();
    claude.write(&answered(ended, "All is well."));
    let observed = now();
    claude.observe();
    let row = claude.row(|row| row["state"] == "done" && row["last_line"] == "All is well.");
    let since: Timestamp = row["since"].as_str().unwrap().parse().unwrap();
    assert!(ended < since && since < observed, "{row}");
    assert_code(&claude.run(&["stop"]), 0);
}

#[test]
fn an_earlier_conversation_that_an_observed_agent_resumes_has_its_conclusion() {
    const OTHER: &str = "00000000-0000-4000-8000-000000000002";
    let mut claude = Claude::new();
    let at = "2026-01-01T00:01:00Z".parse().unwrap();
    let records = format!("{}\n{}\n", prompted(at), answered(at, "All is well."));
    let other = (claude.transcript()).with_file_name(format!("{OTHER}.jsonl"));
    fs::write(&other, records).unwrap();
    claude.observe();
    claude.row(|row| row["state"] == "idle");
    claude.turn("first");
    claude.row(|row| row["turns"] == json!(1) && row["last_line"] == "answer first");
    let resumed = now();
    claude.is_in(OTHER, "idle");
    let row = claude.row(|row| row["last_line"] == "All is well.");
    assert_eq!(row["file"], json!(other), "{row}");
    assert_eq!((&row["state"], &row["turns"]), (&json!("done"), &json!(1)));
    let since: Timestamp = row["since"].as_str().unwrap().parse().unwrap();
    assert!(at < since && since < now(), "{row}");
    // What it says from then on is its own.
    claude.is_in(OTHER, "busy");
    claude.row(|row| row["state"] == "working");
    let mut file = OpenOptions::new().append(true).open(&other).unwrap();
    let records = [prompted(resumed), answered(now(), "Once more.")];
    file.write_all(format!("{}\n", records.join("\n")).as_bytes())
        .unwrap();
    claude.is_in(OTHER, "idle");
    let row = claude.row(|row| row["turns"] == json!(2) && row["state"] == "done");
    assert_eq!(row["last_line"], "Once more.");
    assert_code(&claude.run(&["stop"]), 0);
}

#[test]
fn an_agent_in_a_pane_whose_file_is_observed_as_that_of_a_background_agent_is_one_row() {
    let mut claude = Claude::new();
    claude.turn("one");
    // The directory is a link, as of a home on another disk.
    let link = claude.home.path().join("tasks");
    symlink(claude.transcript().parent().unwrap(), &link).unwrap();
    claude.observe_with(&["--agents", link.to_str().unwrap()]);
    wait_for("one row", CEILING, || {
        let both = claude.run(&["status", "--json", "agent", SESSION]);
        let listed = text(&claude.run(&["status", "--json"]).stdout);
        let is_met = text(&both.stdout).lines().count() == 2 && listed.lines().count() == 1;
        is_met.then_some(()).ok_or((both, listed))
    });
    claude.row(|row| row["kind"] == "pane" && row["agent"] == "claude");
    assert_code(&claude.run(&["stop"]), 0);
}

#[test]
fn an_agent_that_works_or_waits_when_its_observation_begins_does_so_since_its_turn_or_its_question()
{
    for status in ["busy", "waiting"] {
        let claude = Claude::new();
        let (began, acted) = (now(), now());
        claude.write(&prompted(began));
        let tool = r#"{"type":"text","text":"I build it."},{"type":"tool_use","id":"t","name":"Bash","input":{"command":"make"}}"#;
        claude.write(&said(acted, tool, "tool_use"));
        claude.is(status);
        claude.observe();
        let (state, since, last) = match status {
            "busy" => ("working", began, "Bash make"),
            _ => ("waiting", acted, "Bash make"),
        };
        let row = claude.row(|row| row["state"] == state && row["since"] == json!(since));
        assert_eq!(row["last_line"], last, "{row}");
        assert_code(&claude.run(&["stop"]), 0);
    }
}

/// The screens of one call of a tool that asks two questions, and of the review of their answers.
const FIRST_QUESTION: &str = "● I have questions.\n\nLINE\n←  ☐ Colour  ☐ Parts  ✔ Submit  →\n\nWhich colour shall it be?\n\n\
    ❯ 1. Red\n     warm\n  2. Blue\n     cold\n  3. Type something.\nLINE\n  4. Chat about this\n\n\
    Enter to select · Tab/Arrow keys to navigate · Esc to cancel";
const SECOND_QUESTION: &str = "● I have questions.\n\nLINE\n←  ☒ Colour  ☐ Parts  ✔ Submit  →\n\nWhich parts do you want?\n\n\
    ❯ 1. [ ] Tests\n         unit tests\n  2. [ ] Docs\n         a guide\n  3. [ ] Type something\n     Submit\nLINE\n  \
    4. Chat about this\n\nEnter to select · Tab/Arrow keys to navigate · Esc to cancel";
const REVIEW: &str = "● I have questions.\n\nLINE\n←  ☒ Colour  ☒ Parts  ✔ Submit  →\n\nReview your answers\n\n ● Which colour \
    shall it be?\n   → Red\n ● Which parts do you want?\n   → Docs\n\n❯ 1. Submit answers\n  2. Cancel\n";

/// The transcript has both questions from the beginning: only the screen shows which one is asked.
#[test]
fn each_question_of_one_tool_is_a_question_of_its_own() {
    let claude = Claude::new();
    claude.write(&prompted(now()));
    let tool = r#"{"type":"tool_use","id":"t","name":"AskUserQuestion","input":{"questions":[{"question":"Which colour shall it be?","options":[]},{"question":"Which parts do you want?","options":[]}]}}"#;
    claude.write(&said(now(), tool, "tool_use"));
    claude.is("waiting");
    claude.shows_screen(FIRST_QUESTION);
    claude.observe();
    let shows = |words: &str| {
        claude.row(|row| {
            let dialogue = row["dialogue"].to_string();
            dialogue.contains(words)
        })
    };
    let refuse = |row: &Value| {
        let before = claude.shows();
        let id = row["question_id"].as_str().unwrap();
        let args = [
            "wait",
            "agent",
            "--send",
            "2",
            "--answers",
            id,
            "--timeout",
            "2s",
            "--state",
            "done",
        ];
        let output = claude.run(&on(claude.server.socket().to_str().unwrap(), &args));
        assert_code(&output, 2);
        let stderr = text(&output.stderr);
        assert!(stderr.contains("the question has changed"), "{stderr}");
        assert_eq!(claude.shows(), before);
    };
    let first = shows("Which colour");
    assert_eq!(first["asks"], "Which colour shall it be?", "{first}");
    claude.shows_screen(SECOND_QUESTION);
    let second = shows("Which parts");
    assert_eq!(second["asks"], "Which parts do you want?", "{second}");
    assert_ne!(second["question_id"], first["question_id"]);
    refuse(&first);
    // The user ticks a choice: the question is the same.
    let ticked = SECOND_QUESTION.replace("2. [ ]", "2. [✔]");
    claude.shows_screen(&ticked.replace("☐ Parts", "☒ Parts"));
    let same = shows("[✔] Docs");
    assert_eq!(same["question_id"], second["question_id"]);
    claude.shows_screen(REVIEW);
    let review = shows("Submit answers");
    assert_eq!(review["asks"], "Review your answers", "{review}");
    let choices = review["dialogue"]["choices"].as_array().unwrap();
    let labels: Vec<&Value> = choices.iter().map(|choice| &choice["label"]).collect();
    assert_eq!(labels, ["Submit answers", "Cancel"]);
    refuse(&second);
    assert_code(&claude.run(&["stop"]), 0);
}

/// The prompt is taken back before anything has come: the failure above it is that of the turn before.
#[test]
fn a_failure_does_not_come_back_when_the_next_turn_is_stopped() {
    let claude = Claude::new();
    let failed =
        "❯ go\n\n● API Error: Connection lost mid-response.\n\nLINE\n❯ \nLINE\n  ⏸ manual mode on";
    claude.write(&prompted(now()));
    claude.shows_screen(failed);
    claude.observe();
    claude.row(|row| row["state"] == "error" && row["source"] == "screen");
    let text = r#"{"type":"text","text":"API Error: Connection lost mid-response."}"#;
    let error = said(now(), text, "stop_sequence");
    claude.write(&error.replacen('{', r#"{"isApiErrorMessage":true,"#, 1));
    claude.row(|row| row["errors"] == json!(1));
    claude.write(&prompted(now()).replace(r#""u""#, r#""u2""#));
    claude.is("busy");
    claude.shows_screen(&failed.replace("LINE\n❯ \n", "❯ again\n\n✻ Musing…\n\nLINE\n❯ \n"));
    claude.row(|row| row["state"] == "working");
    claude.is("idle");
    claude.shows_screen(&failed.replace("LINE\n❯ \n", "LINE\n❯ again\n"));
    let row = claude.row(|row| row["state"] != "working");
    assert_eq!(
        (&row["state"], &row["asks"]),
        (&json!("idle"), &Value::Null)
    );
    assert_code(&claude.run(&["stop"]), 0);
}
