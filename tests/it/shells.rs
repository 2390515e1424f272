//! Completions in real shells: keys are pressed in a pane.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::cli::{assert_code, program, run, text};
use crate::support::{CEILING, TmuxServer, wait_for};

/// Requests candidates as a completion script does: for the last word.
fn completion(words: &[&str], data: &Path) -> Command {
    let mut command = program(&["--", "td-observe"], data);
    command
        .args(words)
        .env("TD_OBSERVE_COMPLETE", "fish")
        .env_remove("TMUX_TMPDIR");
    command
}

/// Returns the candidates, after checking that standard error is empty.
#[track_caller]
fn candidates(mut command: Command) -> Vec<String> {
    let output = command.output().unwrap();
    assert_code(&output, 0);
    assert_eq!(text(&output.stderr), "", "{command:?}");
    let lines = text(&output.stdout);
    let values = lines
        .lines()
        .map(|line| line.split('\t').next().unwrap_or_default());
    values.map(str::to_owned).collect()
}

/// An interactive shell without configuration files, and the command with which it loads the script.
const SHELLS: [(&str, &str, &str); 4] = [
    (
        "bash",
        "bash --norc --noprofile -i",
        "source <(td-observe completions bash)",
    ),
    (
        "zsh",
        "zsh -f -i",
        "autoload -Uz compinit; compinit -D; source <(td-observe completions zsh)",
    ),
    (
        "fish",
        "fish --no-config -i",
        "td-observe completions fish | source",
    ),
    (
        "elvish",
        "elvish -norc -i",
        "eval (td-observe completions elvish | slurp)",
    ),
];

#[test]
fn shells_complete_targets_runs_and_topics() {
    let (tmux, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    tmux.new_session("build", 80, 24, "exec cat");
    tmux.new_session("two words", 80, 24, "exec cat");
    let socket = tmux.socket().display().to_string();
    for id in ["make@1700000001", "lint@1700000002"] {
        assert_code(
            &run(&["run", "-q", "--execution-id", id, "true"], data.path()),
            0,
        );
    }
    let bin = tempfile::tempdir().unwrap();
    let link = bin.path().join("td-observe");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_td-observe"), link).unwrap();
    for (shell, command, setup) in SHELLS {
        if Command::new(shell).arg("--version").output().is_err() {
            eprintln!("!!! {shell} is not installed: its completions are NOT tested");
            continue;
        }
        let environment = format!(
            "env -u TMUX -u TMUX_PANE HOME={home} XDG_RUNTIME_DIR={home} PATH={bin}:\"$PATH\" TD_DATA_DIR={data} {command}",
            home = bin.path().display(),
            bin = bin.path().display(),
            data = data.path().display(),
        );
        let pane = tmux.new_session(shell, 150, 40, &environment);
        let marker = format!("echo ready-in-{shell} | tr a-z A-Z");
        tmux.tmux(&[
            "send-keys",
            "-t",
            &pane,
            "-l",
            &format!("{setup}; {marker}"),
        ]);
        tmux.tmux(&["send-keys", "-t", &pane, "Enter"]);
        tmux.wait_for_text(&pane, &format!("READY-IN-{}", shell.to_uppercase()));
        let cases = [
            (
                format!("watch -S {socket} bui"),
                format!("watch -S {socket} build"),
            ),
            (
                format!("wait -S {socket} build:0."),
                format!("wait -S {socket} build:0.0"),
            ),
            ("log ma".to_owned(), "log make@1700000001".to_owned()),
            (
                "replay lint@".to_owned(),
                "replay lint@1700000002".to_owned(),
            ),
            ("help strea".to_owned(), "help streaming".to_owned()),
            (
                "log x --type OutputG".to_owned(),
                "log x --type OutputGap".to_owned(),
            ),
        ];
        for (typed, completed) in cases {
            let line = format!("td-observe {typed}");
            tmux.tmux(&["send-keys", "-t", &pane, "-l", &line]);
            tmux.wait_for_text(&pane, &line);
            tmux.tmux(&["send-keys", "-t", &pane, "Tab"]);
            wait_for(&format!("{shell}: {typed}"), CEILING, || {
                let screen = tmux.screen(&pane);
                if screen.contains(&format!("td-observe {completed}")) {
                    Ok(())
                } else {
                    Err(screen)
                }
            });
            // The line is deleted, so that nothing runs.
            tmux.tmux(&["send-keys", "-t", &pane, "C-u"]);
        }
    }
}

#[test]
fn scripts_exist_for_five_shells_and_call_the_program() {
    let data = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell], data.path());
        assert_code(&output, 0);
        let script = text(&output.stdout);
        assert!(script.contains("TD_OBSERVE_COMPLETE"), "{shell}: {script}");
        assert!(script.contains("td-observe"), "{shell}: {script}");
        let file = data.path().join(shell);
        std::fs::write(&file, &script).unwrap();
        let option = if shell == "fish" {
            "--no-execute"
        } else {
            "-n"
        };
        let checks_itself = ["bash", "zsh", "fish"].contains(&shell);
        if checks_itself && let Ok(checked) = Command::new(shell).arg(option).arg(&file).output() {
            assert!(
                checked.status.success() && checked.stderr.is_empty(),
                "{shell}: {checked:?}"
            );
        }
    }
    let unknown = run(&["completions", "tcsh"], data.path());
    assert_code(&unknown, 2);
    assert!(text(&unknown.stderr).contains("powershell"), "{unknown:?}");
}

#[test]
fn completion_waits_for_no_dead_server_and_writes_nothing() {
    let (tmux, place) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    tmux.new_session("build", 80, 24, "exec cat");
    let socket = tmux.socket().display().to_string();
    let data = place.path().join("data");
    let watch = ["watch", "-S", &socket, "bui"];
    assert_eq!(candidates(completion(&watch, &data)), ["build"]);
    assert_eq!(
        candidates(completion(&["watch", "-S", &socket, "build:"], &data)).len(),
        2
    );

    // A server that does not answer.
    let pid = tmux.pid();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let began = Instant::now();
    let found = candidates(completion(&watch, &data));
    let took = began.elapsed();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    assert_eq!(found, [""; 0]);
    assert!(took < Duration::from_secs(5), "{took:?}");

    // No server, no tmux, no history, no home, and a history that is no directory.
    let empty = place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for words in [
        &["watch", "bui"][..],
        &["watch", "-L", "none", "bui"],
        &["log", "ma"],
    ] {
        let mut command = completion(words, &data);
        command.env("TMUX_TMPDIR", &empty).env("HOME", &empty);
        assert_eq!(candidates(command), [""; 0]);
        let mut command = completion(words, Path::new("/dev/null"));
        command
            .env("PATH", "/nonexistent")
            .env("TMUX_TMPDIR", &empty);
        assert_eq!(candidates(command), [""; 0]);
    }
    let mut homeless = completion(&["log", "ma"], &data);
    homeless.env_remove("TD_DATA_DIR").env_remove("HOME");
    assert_eq!(candidates(homeless), [""; 0]);
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
    assert!(!data.exists());
}

#[test]
fn names_with_blanks_are_quoted_for_bash() {
    let (tmux, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    tmux.new_session("two words", 80, 24, "exec cat");
    let socket = tmux.socket().display().to_string();
    let mut bash = completion(&["watch", "-S", &socket, "two"], data.path());
    bash.env("TD_OBSERVE_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", "4");
    assert_eq!(candidates(bash), ["'two words'"]);
}
