//! Real agents supervise another one: Claude Code and Codex by MCP, Claude Code once more by its shell and the skill.
//! Each waits for a job in another pane, reads the end of its output, and answers the question of Gemini CLI by its id.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::{Value, json};

use super::scenes::AGENTS;
use super::{START, STEP, TYPING, lab, lab_directory, pause};
use crate::cli::{PROGRAM, text};
use crate::observer::Home;
use crate::support::within;

/// The port of the supervisors' stand-in for models, beside that of the lab.
const PORT: u16 = 8902;

/// The job that the supervisors wait for. It runs for some time after its start, so that the wait begins before its end,
/// and after its last line, which would be lost with a pane that closes at once.
const JOB: &str = "read go; for step in 1 2 3 4 5; do echo step $step of 5; sleep 0.5; done; \
    echo failed: disk full; sleep 0.5; exit 3";

/// The last line of the job.
const LAST: &str = "failed: disk full";

pub fn play() {
    let stage = Stage::new();
    let claude = stage.starts("boss", "claude", &stage.claude_with_tools());
    let codex = stage.starts("codex", "codex", &stage.codex_with_tools());
    let shell = stage.starts("shell", "claude-inline", &stage.claude_with_skill());
    let asking = stage.starts("agent", "gemini", "");
    stage.is_ready(&asking, "gemini");
    stage.is_ready(&claude, "claude");
    // What was there before the server is no news.
    let answers = || fs::read(stage.path("channel.out")).unwrap_or_default();
    stage.until(&claude, || !answers().is_empty());

    let mut answered = vec![stage.supervises(&claude, "SCN:supervise", tool_results)];
    // A question of its own, which its server does not tell it of, and which the others leave alone.
    stage.prompts(&claude, "SCN:bash");
    stage
        .home
        .wait_for_row("boss", |row| row["state"] == "waiting");
    stage.is_ready(&codex, "codex");
    answered.push(stage.supervises(&codex, "SCN:supervise", tool_results));
    stage.is_ready(&shell, "claude");
    answered.push(stage.supervises(&shell, "SCN:skill", shell_results));

    stage
        .home
        .wait_for_row("boss", |row| row["state"] == "waiting");
    assert_eq!(stage.told(), answered);
}

/// Checks the results of the tools; returns the id of the answered question.
fn tool_results(calls: &[Value], results: &[String]) -> Value {
    let results: Vec<Value> = results.iter().map(|result| json_in(result)).collect();
    // Claude Code has looked for the tools first.
    let [.., list, ended, read, asks, sent, done] = &results[..] else {
        panic!("{results:?}");
    };
    let panes = list["panes"].as_array().unwrap();
    let own = panes.iter().filter(|pane| pane["is_you"] == true);
    assert_eq!(own.count(), 1, "{list}");
    assert_eq!(ended["outcome"], "found", "{ended}");
    assert_eq!(ended["condition"], "exit", "{ended}");
    assert_eq!(ended["exit_status"], 3, "{ended}");
    let output = read["output"].as_str().unwrap();
    assert!(output.contains("step 5 of 5\n"), "{read}");
    assert!(output.contains(LAST), "{read}");
    assert_eq!(asks["state"], "waiting", "{asks}");
    assert_eq!(sent["typed"], true, "{sent}");
    assert_eq!(done["outcome"], "found", "{done}");
    let id = &asks["question"]["id"];
    let send = calls
        .iter()
        .find(|call| name_of(call).ends_with("send_input"));
    assert_eq!(&send.unwrap()[2]["answers"], id);
    id.clone()
}

/// Checks the results of the shell commands; returns the id of the answered question.
fn shell_results(calls: &[Value], results: &[String]) -> Value {
    let [_, _, ended, read, asks, answer] = results else {
        panic!("{results:?}");
    };
    assert_eq!(ended.trim(), "Exit code 1");
    assert!(
        read.contains("step 5 of 5\n") && read.contains(LAST),
        "{read}"
    );
    assert!(read.contains("exit status 3"), "{read}");
    assert!(answer.contains(super::ANSWER), "{answer}");
    let id = json_in(asks)["question_id"].clone();
    let ask = calls.last().unwrap()[2]["command"].as_str().unwrap();
    assert!(ask.ends_with(id.as_str().unwrap()), "{ask}");
    id
}

fn name_of(call: &Value) -> &str {
    call[1].as_str().unwrap_or_default()
}

/// Returns the first object in a result, which the agent may have put words around.
#[track_caller]
fn json_in(result: &str) -> Value {
    let object = result.find('{').map_or("", |begin| &result[begin..]);
    let first = serde_json::Deserializer::from_str(object)
        .into_iter()
        .next();
    first.and_then(Result::ok).unwrap_or_default()
}

/// A home with the stand-in for the supervisors' models.
struct Stage {
    home: Home,
    model: Child,
}

impl Drop for Stage {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.model.kill();
        let _ = self.model.wait();
    }
}

impl Stage {
    fn new() -> Self {
        let home = Home::new();
        let scenes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/lab/supervisor.py");
        let model = Command::new("python3")
            .arg(scenes)
            .arg(PORT.to_string())
            .arg(lab().with_file_name("mock.py"))
            .arg(home.directory().join("transcript"))
            .spawn()
            .unwrap();
        within(START, || TcpStream::connect(("127.0.0.1", PORT)))
            .unwrap_or_else(|error| panic!("the stand-in starts: {error}"));
        home.server.new_session("keeper", 80, 24, "exec cat");
        // All ask one observer, so that the ids of questions are the same.
        home.start();
        Self { home, model }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.directory().join(name)
    }

    /// Writes a program, which also notes what it is asked and what it answers; returns its path.
    fn noting(&self, name: &str) -> String {
        let path = self.path(name);
        let (own, data) = (path.display(), self.home.data());
        let script = format!(
            "#!/bin/sh\nexport TD_DATA_DIR={}\ntee -a {own}.in | {PROGRAM} \"$@\" | tee -a {own}.out\n",
            data.display()
        );
        executable(&path, &script);
        path.display().to_string()
    }

    /// Returns the arguments of a Claude Code that has the tools, and a second server that tells it of questions: one
    /// server is asked in the newest protocol, the other in the one that has notifications.
    fn claude_with_tools(&self) -> String {
        let (tools, channel) = (self.noting("tools"), self.noting("channel"));
        let servers = json!({"mcpServers": {
            "td-observe": {"command": tools, "args": ["mcp", "--allow-input"]},
            "channel": {"command": channel, "args": ["mcp", "--channel"]},
        }});
        let path = self.path("servers.json");
        fs::write(&path, servers.to_string()).unwrap();
        let debug = self.path("claude.debug");
        format!(
            "--strict-mcp-config --mcp-config {} --allowedTools mcp__td-observe --debug-file {} --settings {}",
            path.display(),
            debug.display(),
            self.settings("boss", &json!({})),
        )
    }

    fn codex_with_tools(&self) -> String {
        let tools = self.noting("tools-of-codex");
        let options = [
            format!("model_providers.mock.base_url=\"http://127.0.0.1:{PORT}/v1\""),
            format!("mcp_servers.td-observe.command=\"{tools}\""),
            "mcp_servers.td-observe.args=[\"mcp\",\"--allow-input\"]".to_owned(),
            "mcp_servers.td-observe.default_tools_approval_mode=\"approve\"".to_owned(),
        ];
        options.map(|option| format!("-c '{option}'")).join(" ")
    }

    /// Returns the arguments of a Claude Code that has the skill, and may run this program.
    fn claude_with_skill(&self) -> String {
        let skill = lab_directory().join("home-claude-inline/.claude/skills/td-observe");
        fs::create_dir_all(&skill).unwrap();
        let printed = self.home.run(&["skill"]).stdout;
        fs::write(skill.join("SKILL.md"), printed).unwrap();
        let programs = self.path("bin");
        fs::create_dir(&programs).unwrap();
        std::os::unix::fs::symlink(PROGRAM, programs.join("td-observe")).unwrap();
        let env = json!({
            "PATH": format!("{}:/usr/bin:/bin", programs.display()),
            "TD_DATA_DIR": self.home.data(),
        });
        let settings = self.settings("shell", &env);
        format!("--settings {settings} --allowedTools 'Bash(td-observe *)' Skill")
    }

    /// Writes the settings of a Claude Code whose model is the stand-in of the supervisors; returns their path.
    fn settings(&self, name: &str, env: &Value) -> String {
        let mut env = env.clone();
        env["ANTHROPIC_BASE_URL"] = json!(format!("http://127.0.0.1:{PORT}"));
        let path = self.path(&format!("{name}.json"));
        fs::write(&path, json!({"env": env}).to_string()).unwrap();
        path.display().to_string()
    }

    /// Starts an agent of the lab in a session; returns its pane.
    fn starts(&self, session: &str, agent: &str, args: &str) -> String {
        let command = format!("exec {} agent {agent} {args}", lab().display());
        let script = self.path(&format!("{session}.sh"));
        executable(&script, &format!("#!/bin/sh\n{command}\n"));
        let server = &self.home.server;
        server.new_session(session, 110, 36, &script.display().to_string())
    }

    #[track_caller]
    fn is_ready(&self, pane: &str, agent: &str) {
        let agent = AGENTS.iter().find(|known| known.lab == agent).unwrap();
        let shows = || match self.home.server.screen(pane) {
            screen if screen.contains(agent.ready) => Ok(()),
            screen => Err(screen),
        };
        within(START, shows).unwrap_or_else(|screen| panic!("{} starts: {screen}", agent.lab));
    }

    fn prompts(&self, pane: &str, text: &str) {
        let server = &self.home.server;
        server.tmux(&["send-keys", "-t", pane, "-l", text]);
        pause(TYPING);
        server.tmux(&["send-keys", "-t", pane, "Enter"]);
    }

    /// Has an agent do its tasks; returns the id of the question that it has answered.
    #[track_caller]
    fn supervises(
        &self,
        pane: &str,
        prompt: &str,
        checked: fn(&[Value], &[String]) -> Value,
    ) -> Value {
        let made = lab_directory().join("work-gemini/made-by-agent.txt");
        // The first time it is not there.
        let _ = fs::remove_file(&made);
        self.prompts("agent", "SCN:bash");
        self.home
            .wait_for_row("agent", |row| row["state"] == "waiting");
        let job = self.home.server.new_session("job", 80, 24, JOB);
        self.home
            .wait_for_row("job", |row| row["state"] == "running");
        let begun = self.transcript().len();
        let said = || self.transcript().split_off(begun);
        self.prompts(pane, prompt);
        self.until(pane, || said().iter().any(waits_for_end));
        self.home
            .server
            .tmux(&["send-keys", "-t", &job, "go", "Enter"]);
        self.until(pane, || said().iter().any(is_last));
        let said = said();
        if std::env::var_os("TD_LAB_EVENTS").is_some() {
            said.iter().for_each(|line| eprintln!("{line}"));
        }
        let calls: Vec<Value> = said.iter().map(|line| line["call"].clone()).collect();
        let results = said.iter().filter_map(|line| line["result"].as_str());
        let results: Vec<String> = results.map(str::to_owned).collect();
        let id = checked(&calls[..calls.len() - 1], &results);
        assert!(made.exists(), "{}", self.home.server.screen("agent"));
        id
    }

    #[track_caller]
    fn until(&self, pane: &str, is_met: impl Fn() -> bool) {
        let met = || is_met().then_some(()).ok_or(());
        within(STEP, met).unwrap_or_else(|()| {
            panic!(
                "{:#?}\n{}",
                self.transcript(),
                self.home.server.screen(pane)
            )
        });
    }

    /// Returns what the supervisors' models have been told, and what they have called.
    fn transcript(&self) -> Vec<Value> {
        let lines = fs::read_to_string(self.path("transcript")).unwrap_or_default();
        // A line may be half written.
        let lines = lines.lines().map(serde_json::from_str);
        lines.filter_map(Result::ok).collect()
    }

    /// Returns the ids of the questions that Claude Code has been told of.
    fn told(&self) -> Vec<Value> {
        let lines = fs::read(self.path("channel.out")).unwrap();
        let lines = text(&lines);
        let messages = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        messages
            .filter(|message: &Value| message["method"] == "notifications/claude/channel")
            .map(|message| message["params"]["meta"]["question_id"].clone())
            // Jobs that fail have no question.
            .filter(|id| !id.is_null())
            .collect()
    }
}

/// Returns true if a line of the transcript waits for the end of the job.
fn waits_for_end(line: &Value) -> bool {
    let arguments = &line["call"][2];
    let command = arguments["command"].as_str().unwrap_or_default();
    arguments["exit"] == true || command.contains("--exit")
}

/// Returns true if a line of the transcript is the last one: nothing is called, or the model does not know what to do.
fn is_last(line: &Value) -> bool {
    line["call"].is_null() || line["call"][0] == "text"
}

fn executable(path: &Path, script: &str) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
