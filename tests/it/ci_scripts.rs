//! The scripts of the guide for CI, run unchanged.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::cli::{run, text};
use crate::process::junit::cases;

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");

/// Returns the scripts in the sections "In scripts" of a chapter.
fn scripts(chapter: &str) -> Vec<String> {
    let path = format!("{}/src/guide/{chapter}.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let (_, section) = text.split_once("## In scripts\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut scripts = Vec::new();
    for block in section.split("```sh\n").skip(1) {
        scripts.push(block.split("```").next().unwrap().to_owned());
    }
    assert!(!scripts.is_empty(), "{chapter} has no scripts");
    scripts
}

/// A home directory, with the program in the path and no tmux server.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn data(&self) -> PathBuf {
        self.path().join(".taskdaemon")
    }

    fn command(&self, program: &str) -> Command {
        let directory = Path::new(PROGRAM).parent().unwrap().display();
        let path = format!("{directory}:{}", std::env::var("PATH").unwrap());
        let mut command = Command::new(program);
        command
            .env("PATH", path)
            .env("HOME", self.path())
            .env("TMUX_TMPDIR", self.path())
            .current_dir(self.path());
        for name in ["TMUX", "TMUX_PANE", "TD_DATA_DIR"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs a script, which must succeed.
    #[track_caller]
    fn script(&self, script: &str) -> Output {
        let has_jq = Command::new("jq").arg("--version").output().is_ok();
        let mut lines: Vec<&str> = script.lines().collect();
        if !has_jq && script.contains("jq ") {
            eprintln!(
                "\n*** NOT RUN: the lines of the guide's scripts with jq, which is not installed.\n"
            );
            lines.retain(|line| !line.contains("jq "));
        }
        let output = self
            .command("timeout")
            .args(["60", "sh", "-e", "-c", &lines.join("\n")])
            .output()
            .unwrap();
        let shown = (text(&output.stdout), text(&output.stderr));
        assert!(
            output.status.success(),
            "{}: {shown:#?}\n{script}",
            output.status
        );
        output
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A script ends its server itself, unless it has failed.
        let _ = self.command("tmux").arg("kill-server").output();
    }
}

#[test]
fn commands_run_as_in_the_guide() {
    let home = Home::new();
    for script in scripts("running") {
        home.script(&script);
    }
    let cases = cases(&home.path().join("unit.xml"));
    assert!(
        cases.len() == 1 && cases[0].contains("|passed|"),
        "{cases:?}"
    );
    let both = home.file("both.txt");
    assert!(both.contains("one\n") && both.contains("two\n"), "{both}");
    assert!(text(&run(&["runs"], &home.data()).stdout).contains("unit"));
}

#[test]
fn waits_end_as_in_the_guide() {
    let home = Home::new();
    for script in scripts("waiting") {
        home.script(&script);
    }
}

#[test]
fn the_history_is_searched_as_in_the_guide() {
    let home = Home::new();
    home.script(
        "td-observe run -q --execution-id build sh -c 'echo compiling; echo an error; echo more'",
    );
    for script in scripts("history") {
        home.script(&script);
    }
    let errors = home.file("errors.txt");
    assert!(
        errors.contains("an error") && errors.contains("compiling"),
        "{errors}"
    );
    let output = home.file("output.txt");
    assert_eq!(
        output
            .lines()
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>(),
        ["compiling", "an error", "more"]
    );
}
