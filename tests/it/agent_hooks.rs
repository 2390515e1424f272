//! Hooks of agents: the program as the hook that an agent runs, and the effects of its reports.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::cli::{Running, assert_code, on, program, run, text};
use crate::support::TmuxServer;

/// A home directory for one login, and the observed events of a session in one of its directories.
struct Login {
    home: tempfile::TempDir,
    work: PathBuf,
}

impl Login {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let work = home.path().join("work");
        fs::create_dir(&work).unwrap();
        Self { home, work }
    }

    fn env(&self, command: &mut Command) {
        command
            .env("HOME", self.home.path())
            .env("XDG_RUNTIME_DIR", self.home.path().join("run"))
            .env_remove("XDG_STATE_HOME");
    }

    fn kept(&self) -> PathBuf {
        self.home.path().join("run/td-observe/hooks/s-1.json")
    }

    fn event(&self, fields: &str) -> String {
        let work = self.work.display();
        format!(
            r#"{{"session_id":"s-1","transcript_path":"{work}/s-1.jsonl","cwd":"{work}","hook_event_name":{fields}}}"#
        )
    }

    /// Runs a hook with this input; it never fails and prints nothing.
    #[track_caller]
    fn hook(&self, mut command: Command, input: &str) {
        self.env(&mut command);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        prints_nothing(&child.wait_with_output().unwrap());
    }

    #[track_caller]
    fn report(&self, input: &str) {
        self.hook(program(&["hooks", "report"], self.home.path()), input);
    }
}

#[track_caller]
fn prints_nothing(output: &Output) {
    assert_code(output, 0);
    assert!(
        output.stdout.is_empty() && output.stderr.is_empty(),
        "{output:?}"
    );
}

const ASKED: &str = r#""PermissionRequest","tool_name":"Bash","tool_input":{"command":"touch a # ghp_0123456789abcdefghij0123456789abcdef"}"#;

fn settings(data: &Path) -> Value {
    let output = run(&["hooks", "show", "claude"], data);
    assert_code(&output, 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_hook_leaves_the_last_event_of_its_session() {
    let login = Login::new();
    // As the agent runs it: the command of the settings, in a shell.
    let settings = settings(login.home.path());
    let command = &settings["hooks"]["PermissionRequest"][0]["hooks"][0]["command"];
    let mut shell = Command::new("sh");
    shell.args(["-c", command.as_str().unwrap()]);
    login.hook(shell, &login.event(ASKED));
    let kept: Value = serde_json::from_slice(&fs::read(login.kept()).unwrap()).unwrap();
    let asks = kept["questions"][0]["asks"].as_str().unwrap();
    assert!(asks.starts_with("touch a # [redacted:"), "{asks}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&login.kept()), 0o600);
    assert_eq!(mode(login.kept().parent().unwrap()), 0o700);
    login.report(&login.event(r#""Stop","stop_hook_active":false"#));
    let kept: Value = serde_json::from_slice(&fs::read(login.kept()).unwrap()).unwrap();
    assert_eq!(
        (&kept["state"], &kept["event"]),
        (&"done".into(), &"Stop".into())
    );
    for wrong in [
        "",
        "{",
        "[]",
        "\0\0",
        r#"{"session_id":"../../x","hook_event_name":"Stop"}"#,
    ] {
        login.report(wrong);
    }
    let long = login.event(&format!(
        r#""PostToolUse","tool_response":"{}""#,
        "x".repeat(3_000_000)
    ));
    login.report(&long);
    let entries = fs::read_dir(login.kept().parent().unwrap()).unwrap();
    assert_eq!(entries.count(), 2, "the report and its lock");
    login.report(&login.event(r#""SessionEnd","reason":"other""#));
    let entries = fs::read_dir(login.kept().parent().unwrap()).unwrap();
    assert_eq!(entries.count(), 0, "nothing is left");
}

#[test]
fn a_hook_without_input_still_ends() {
    let login = Login::new();
    let mut command = program(&["hooks", "report"], login.home.path());
    login.env(&mut command);
    let running = Running::start({
        command.stdin(Stdio::piped());
        command
    });
    // Its standard input stays open.
    prints_nothing(&running.end());
}

#[test]
fn only_hooks_of_claude_are_shown() {
    let temp = tempfile::tempdir().unwrap();
    for args in [
        &["hooks", "show", "codex"][..],
        &["hooks", "show"],
        &["hooks"],
    ] {
        let output = run(args, temp.path());
        assert_code(&output, 2);
        let stderr = text(&output.stderr);
        assert_eq!(stderr.matches('\n').count(), 1, "{stderr}");
        assert!(
            args.len() < 3 || stderr.contains("for claude only"),
            "{stderr}"
        );
    }
}

#[test]
fn an_agent_without_files_is_recognized_by_its_hooks() {
    let login = Login::new();
    let home = login.home.path().to_str().unwrap();
    let server = TmuxServer::with_env(&[("HOME", home)]);
    let work = login.work.to_str().unwrap();
    // An agent is recognized by its process name.
    let agent = format!("cd {work} && exec bash -c 'exec -a claude cat'");
    let pane = server.new_session("agent", 80, 24, &agent);
    let socket = server.socket();
    let args = ["watch", "agent", "--json", "--no-log"];
    let mut command = program(&on(socket.to_str().unwrap(), &args), login.home.path());
    login.env(&mut command);
    let mut running = Running::start(command);
    running.wait_for("SessionStarted");
    // A pane that prints is searched for agents.
    server.tmux(&["send-keys", "-t", &pane, "go", "Enter"]);
    login.report(&login.event(r#""UserPromptSubmit","prompt":"go""#));
    let reports = |state: &'static str| {
        move |lines: &[String]| {
            let source = r#""source":"hook""#;
            let state = format!(r#""state":"{state}""#);
            let mut lines = lines.iter();
            lines.any(|line| line.contains(source) && line.contains(&state))
        }
    };
    running.until("it works", reports("working"));
    login.report(&login.event(ASKED));
    running.until("it asks", reports("waiting"));
    running.wait_for(r#""asks":"touch a # [redacted:"#);
    login.report(&login.event(r#""PostToolUse","tool_name":"Bash""#));
    login.report(&login.event(r#""Stop","stop_hook_active":false"#));
    running.until("it is done", reports("done"));
    running.signal(Signal::INT);
    assert_code(&running.end(), 0);
}
