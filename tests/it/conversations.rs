//! The conversation of an agent in a pane: text in the agent's files becomes events of the pane's run.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use td_observe::agent::StateRules;
use td_observe::{Envelope, TdEvent, Timestamp};

use crate::cli::{Running, assert_code, on, program};
use crate::observed::Observed;
use crate::support::TmuxServer;

const SESSION: &str = "00000000-0000-4000-8000-000000000001";

/// A process with the name of Claude Code, whose files the test writes.
struct Claude {
    home: tempfile::TempDir,
    server: TmuxServer,
    pane: String,
    written: usize,
}

impl Claude {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let server = TmuxServer::with_env(&[("HOME", home.path().to_str().unwrap())]);
        let agent = format!(
            "cd '{}' && exec bash -c 'exec -a claude cat'",
            home.path().display()
        );
        let pane = server.new_session("agent", 80, 24, &agent);
        let sessions = home.path().join(".claude/sessions");
        fs::create_dir_all(&sessions).unwrap();
        let pid = server.tmux(&["display-message", "-p", "-t", &pane, "#{pane_pid}"]);
        let pid = pid.trim();
        let status = format!(
            r#"{{"pid":{pid},"sessionId":"{SESSION}","cwd":"{}","status":"idle"}}"#,
            home.path().display()
        );
        fs::write(sessions.join(format!("{pid}.json")), status).unwrap();
        let claude = Self {
            home,
            server,
            pane,
            written: 0,
        };
        fs::create_dir_all(claude.transcript().parent().unwrap()).unwrap();
        claude
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

    /// Writes a whole turn: a prompt and its answer.
    fn turn(&mut self, text: &str) {
        self.written += 1;
        let number = self.written;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = Timestamp::from_micros(now.as_micros() as i64);
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
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.transcript())
            .unwrap();
        file.write_all(records.as_bytes()).unwrap();
    }

    /// Makes the pane print something.
    fn draws(&self) {
        self.server
            .tmux(&["send-keys", "-t", &self.pane, "go", "Enter"]);
    }
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
    let mut observed = claude.observed();
    claude.draws();
    // The file is joined before it grows.
    observed.until("its state", |seen| {
        seen.iter()
            .any(|envelope| matches!(&envelope.event, TdEvent::AgentState { .. }))
    });
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
