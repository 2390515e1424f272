//! `td-observe agents`: its output and its exit codes.

use std::fs;
use std::path::Path;
use std::process::Output;

use rustix::process::Signal;
use td_observe::TdEvent;

use crate::cli::{Running, assert_code, program, text};
use crate::process::program::events;

const WORKS: &str = "{\"type\":\"thread.started\"}\n{\"type\":\"turn.started\"}\n";
const ANSWERS: &str = "{\"type\":\"item.completed\",\"item\":{\"id\":\"1\",\"type\":\"agent_message\",\"text\":\"All \\u001b[2Jgreen.\"}}\n";
const DONE: &str = "{\"type\":\"turn.completed\",\"usage\":{}}\n";
const FAILED: &str = "{\"type\":\"turn.failed\",\"error\":{\"message\":\"no quota\"}}\n";

fn started(args: &[&str], data: &Path) -> Running {
    let fast = ["agents", "--poll", "20ms", "--stable", "300ms"];
    Running::start(program(&[&fast, args].concat(), data))
}

fn ended(args: &[&str], data: &Path) -> Output {
    started(args, data).end()
}

#[test]
fn completions_are_printed_once_and_the_exit_code_gives_the_result() {
    let temp = tempfile::tempdir().unwrap();
    let (tasks, data) = (temp.path().join("tasks"), temp.path().join("data"));
    fs::create_dir(&tasks).unwrap();
    let tasks_shown = tasks.to_str().unwrap();
    fs::write(tasks.join("a.jsonl"), [WORKS, ANSWERS, DONE].concat()).unwrap();
    fs::write(tasks.join("b.output"), "done\n").unwrap();
    fs::write(tasks.join("c.txt"), "not an agent's").unwrap();
    let output = ended(&[tasks_shown], &data);
    assert_code(&output, 0);
    let shown = text(&output.stdout);
    assert_eq!(shown.matches("COMPLETED").count(), 2, "{shown}");
    assert!(
        shown.contains("[agent] a COMPLETED (turn.completed): All ^[[2Jgreen.\n"),
        "{shown}"
    );
    fs::write(tasks.join("d.jsonl"), [WORKS, FAILED].concat()).unwrap();
    let pattern = tasks.join("?.jsonl");
    let output = ended(&["--json", pattern.to_str().unwrap()], &data);
    assert_code(&output, 1);
    let events = events(&output.stdout);
    let failed = events.iter().find_map(|envelope| match &envelope.event {
        TdEvent::AgentFailed {
            agent_id, error, ..
        } => Some((agent_id.as_str(), error.as_str())),
        _ => None,
    });
    assert_eq!(failed, Some(("d", "no quota")));
    assert_eq!(events.len(), 4, "{events:#?}");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn one_thread_serves_the_files_of_all_agents() {
    let temp = tempfile::tempdir().unwrap();
    let files: Vec<String> = (0..5)
        .map(|number| temp.path().join(format!("{number}.jsonl")))
        .map(|file| file.to_str().unwrap().to_owned())
        .collect();
    files
        .iter()
        .for_each(|file| fs::write(file, WORKS).unwrap());
    let mut args = vec!["--json"];
    args.extend(files.iter().map(String::as_str));
    let mut running = started(&args, &temp.path().join("data"));
    running.wait_for("\"agent_id\":\"4\"");
    let tasks = fs::read_dir(format!("/proc/{}/task", running.child.id())).unwrap();
    let names = tasks.flat_map(|task| fs::read_to_string(task.unwrap().path().join("comm")));
    let names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
    let tickers = names.iter().filter(|name| *name == "td-agents");
    assert_eq!(tickers.count(), 1, "{names:?}");
    files
        .iter()
        .for_each(|file| fs::write(file, [WORKS, DONE].concat()).unwrap());
    assert_code(&running.end(), 0);
}

#[test]
fn new_files_are_found_and_absent_ones_are_awaited() {
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("tasks")).unwrap();
    let mut running = started(&[&path("tasks"), &path("later"), "--no-log"], temp.path());
    running.wait_for("[agent] later: /");
    fs::write(path("tasks/new.jsonl"), [WORKS, DONE].concat()).unwrap();
    running.wait_for("[agent] new COMPLETED");
    fs::write(path("later"), [WORKS, ANSWERS, DONE].concat()).unwrap();
    running.wait_for("[agent] later COMPLETED");
    let output = running.end();
    assert_code(&output, 0);
    assert!(text(&output.stderr).contains("later is not there yet"));
}

#[test]
fn without_arguments_live_sessions_are_watched() {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    let write = |name: &str, text: &str| {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        fs::write(at(name), text).unwrap();
    };
    let rollout = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"event_msg","payload":{"type":"task_complete","turn_id":"t","last_agent_message":"Done."}}
"#;
    let side = r#"{"isSidechain":true,"agentId":"a","type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"Seen."}],"stop_reason":"end_turn"},"version":"2.1.235","sessionId":"s"}
"#;
    write(".codex/sessions/2020/01/01/rollout-old.jsonl", rollout);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3_600);
    let file = fs::File::options()
        .append(true)
        .open(at(".codex/sessions/2020/01/01/rollout-old.jsonl"))
        .unwrap();
    file.set_modified(old).unwrap();
    write(".codex/sessions/2026/01/01/rollout-new.jsonl", rollout);
    write(".claude/projects/-w/s/subagents/agent-1.jsonl", side);
    write(".gemini/tmp/p/logs.jsonl", rollout);
    let mut command = program(
        &["agents", "--no-log", "--poll", "20ms", "--stable", "300ms"],
        temp.path(),
    );
    command.env("HOME", temp.path());
    for name in [
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "GEMINI_CLI_HOME",
        "QWEN_RUNTIME_DIR",
    ] {
        command.env_remove(name);
    }
    let mut running = Running::start(command);
    running.wait_for("[turn] rollout-new ended: task_complete");
    running.wait_for("[agent] rollout-new COMPLETED");
    running.wait_for("[agent] agent-1 COMPLETED");
    // It continues.
    write(
        ".codex/sessions/2020/01/01/rollout-old.jsonl",
        &rollout.repeat(2),
    );
    running.wait_for("[agent] rollout-old COMPLETED");
    running.signal(Signal::INT);
    let output = running.end();
    assert_code(&output, 0);
    let shown = text(&output.stdout);
    assert_eq!(shown.matches("[agent] ").count(), 6, "{shown}");
    assert!(!shown.contains("logs"), "{shown}");
    let stderr = text(&output.stderr);
    assert!(stderr.contains(".codex/sessions"), "{stderr}");
    assert!(!stderr.contains(".qwen"), "{stderr}");
}

#[test]
fn one_signal_stops_cleanly() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a.jsonl");
    fs::write(&path, WORKS).unwrap();
    let mut running = started(&["--json", path.to_str().unwrap()], temp.path());
    running.wait_for("AgentRegistered");
    running.signal(Signal::INT);
    let output = running.end();
    assert_code(&output, 0);
    assert_eq!(events(&output.stdout).len(), 1);
}

#[test]
fn wrong_usage_exits_with_2() {
    let temp = tempfile::tempdir().unwrap();
    for args in [
        &["agents", ""][..],
        &["agents", "/dev/null"],
        &["agents", "*/x.jsonl"],
        &["agents", "x", "--poll", "0s"],
        &["agents", "x", "--stable", "soon"],
    ] {
        let output = Running::start(program(args, temp.path())).end();
        assert_code(&output, 2);
        assert_eq!(text(&output.stderr).matches('\n').count(), 1, "{output:?}");
    }
}

#[test]
fn paths_that_appear_later_and_paths_that_are_no_files() {
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().join(name).to_str().unwrap().to_owned();
    let nowhere = path("*.none");
    let mut running = started(&[&path("tasks"), &nowhere, "--no-log"], temp.path());
    running.wait_for("[agent] tasks: /");
    // Complete before it is moved into place.
    fs::create_dir(path("made")).unwrap();
    std::os::unix::fs::symlink("nowhere", path("made/link.output")).unwrap();
    fs::write(path("made/a.jsonl"), [WORKS, DONE].concat()).unwrap();
    fs::rename(path("made"), path("tasks")).unwrap();
    running.wait_for("[agent] a COMPLETED");
    let output = running.end();
    assert_code(&output, 0);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("tasks is not there yet"), "{stderr}");
    assert!(stderr.contains("no file in"), "{stderr}");
    let shown = text(&output.stdout);
    assert_eq!(shown.matches("passed over").count(), 1, "{shown}");
}

#[test]
fn text_of_agents_is_sanitized_for_terminals() {
    let temp = tempfile::tempdir().unwrap();
    let evil = "e\u{1b}]52;c;eA==\u{7}\u{1b}[2J";
    let path = temp.path().join(format!("{evil}.jsonl"));
    let failed = "{\"type\":\"turn.failed\",\"error\":{\"message\":\"\\u001b[2J\\u0008no\"}}\n";
    fs::write(&path, [WORKS, failed].concat()).unwrap();
    let absent = temp.path().join(format!("{evil}.later"));
    let args = ["--no-log", path.to_str().unwrap(), absent.to_str().unwrap()];
    let mut running = started(&args, temp.path());
    running.wait_for("FAILED");
    running.signal(Signal::INT);
    let output = running.end();
    let is_control = |c: char| c.is_control() && c != '\n';
    for shown in [text(&output.stdout), text(&output.stderr)] {
        assert!(shown.contains("^[]52;c;eA==^G^[[2J"), "{shown:?}");
        assert!(!shown.contains(is_control), "{shown:?}");
    }
}
