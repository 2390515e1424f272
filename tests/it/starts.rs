//! An agent is found whatever way it was started: by an `exec`, in place of another program, by a script, behind a
//! sandbox or a login, in another tmux.

mod boxes;
mod servers;

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::observer::Home;
use crate::states::AGENT;

/// Writes the script that draws an agent's screens, and returns a command line that becomes an agent of this name.
fn agent(home: &Home, name: &str) -> String {
    let script = home.directory().join("agent.sh");
    std::fs::write(&script, AGENT).unwrap();
    format!("exec -a {name} bash {}", script.display())
}

/// Returns a command line that waits for the file `go`.
fn wait(home: &Home) -> String {
    let file = home.directory().join("go");
    format!("until [ -e {} ]; do sleep 0.02; done", file.display())
}

fn go(home: &Home) {
    std::fs::write(home.directory().join("go"), "").unwrap();
}

fn is_agent(name: &str) -> impl Fn(&Value) -> bool {
    move |row| row["agent"] == name
}

/// Writes a program; returns its path.
fn program(home: &Home, name: &str, text: &str) -> String {
    let file = home.directory().join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    file.display().to_string()
}

#[test]
fn a_program_that_executes_an_agent_is_the_agent() {
    for name in ["goose", "claude"] {
        let home = Home::new();
        let command = format!("{}; {}", wait(&home), agent(&home, name));
        let command = format!("exec bash -c '{command}'");
        home.server.new_session("work", 80, 24, &command);
        home.start();
        home.wait_for_row("work", is_agent("shell"));
        go(&home);
        home.wait_for_row("work", is_agent(name));
    }
}

/// The program waits longer than a pane is searched after its output.
#[test]
fn a_program_that_executes_a_silent_agent_is_the_agent() {
    let home = Home::new();
    let script = program(&home, "goose", "#!/bin/bash\nread -r line\n");
    let forms = [
        "exec -a goose sleep 1000".to_owned(),
        format!("exec {script}"),
    ];
    for (name, form) in ["one", "two"].into_iter().zip(&forms) {
        let command = format!("exec bash -c 'sleep 2; {form}'");
        home.server.new_session(name, 80, 24, &command);
    }
    home.start();
    for name in ["one", "two"] {
        home.wait_for_row(name, is_agent("goose"));
    }
}

#[test]
fn an_agent_that_replaces_a_program_has_its_row() {
    for name in ["goose", "claude"] {
        let home = Home::new();
        let pane = home.server.new_session("work", 80, 24, "exec cat");
        home.start();
        home.wait_for_row("work", is_agent("cat"));
        let command = format!("exec bash -c '{}'", agent(&home, name));
        let respawn = |command: &str| {
            home.server
                .tmux(&["respawn-pane", "-k", "-t", &pane, command]);
        };
        respawn(&command);
        home.wait_for_row("work", is_agent(name));
        // What the agent has shown says nothing of the next program.
        respawn("exec sleep 1000");
        home.wait_for_row("work", |row| {
            row["agent"] == "sleep" && row["state"] == "running"
        });
    }
}

#[test]
fn a_script_below_a_shell_that_becomes_an_agent_is_the_agent() {
    for name in ["goose", "claude"] {
        let home = Home::new();
        let pane = home.server.shell("work");
        let script = format!("echo begun\n{}\n{}\n", wait(&home), agent(&home, name));
        let script = program(&home, "begin.sh", &script);
        home.start();
        home.server.types(&pane, &format!("bash {script}"));
        home.wait_for_row("work", is_agent("begin.sh"));
        go(&home);
        home.wait_for_row("work", is_agent(name));
    }
}

/// As Claude Code starts the members of its teams.
#[test]
fn an_executable_of_claude_is_claude_whatever_its_name() {
    let home = Home::new();
    let version = home
        .directory()
        .join(".local/share/claude/versions/2.1.330");
    std::fs::create_dir_all(version.parent().unwrap()).unwrap();
    std::fs::copy("/bin/sleep", &version).unwrap();
    let command = format!("exec bash -c 'exec -a worker {} 1000'", version.display());
    home.server.new_session("work", 80, 24, &command);
    home.start();
    home.wait_for_row("work", is_agent("claude"));
}

/// A declared name counts more than that of the process and of the screen, and makes an agent of any program.
#[test]
fn a_pane_declares_its_agent() {
    let home = Home::new();
    let claude = agent(&home, "claude");
    let script = claude.replace("-a claude ", "");
    let sleeper = "exec sleep 1000".to_owned();
    for (session, command) in [("found", &claude), ("shown", &script), ("silent", &sleeper)] {
        let command = format!("exec bash -c '{command}'");
        home.server.new_session(session, 80, 24, &command);
    }
    home.start();
    let has_state = |name: &'static str, state: &'static str| {
        move |row: &Value| row["agent"] == name && row["state"] == state
    };
    home.wait_for_row("found", has_state("claude", "idle"));
    home.wait_for_row("shown", has_state("claude", "idle"));
    home.wait_for_row("silent", is_agent("sleep"));
    let declare = |session: &str, name: &str| {
        let target = format!("={session}:");
        home.server
            .tmux(&["set-option", "-p", "-t", &target, "@td_agent", name]);
    };
    for session in ["found", "shown", "silent"] {
        declare(session, "reviewer");
    }
    home.wait_for_row("found", has_state("reviewer", "idle"));
    home.wait_for_row("shown", has_state("reviewer", "idle"));
    home.wait_for_row("silent", has_state("reviewer", "unknown"));
    for session in ["found", "shown"] {
        crate::states::set_state(&home.server, &format!("={session}:"), "waiting");
        let row = home.wait_for_row(session, has_state("reviewer", "waiting"));
        assert_eq!(row["asks"], "rm -rf build", "{row}");
    }
    // What is no name declares nothing.
    let long = "x".repeat(10_000);
    for (session, name) in [
        ("found", long.as_str()),
        ("shown", "a\u{1b}[31m\nb"),
        ("silent", "codex"),
    ] {
        declare(session, name);
    }
    home.wait_for_row("found", has_state("claude", "waiting"));
    home.wait_for_row("shown", has_state("claude", "waiting"));
    home.wait_for_row("silent", is_agent("codex"));
}
