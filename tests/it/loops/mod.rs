//! The agentic loop from outside: its events, its files, its ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use td_observe::event::IterationOutcome;
use td_observe::history::{DataDir, RunDirectory, RunMetadata};
use td_observe::{Envelope, TdEvent};

use crate::cli::{Running, assert_code, program, text};
use crate::observed::read;
use crate::process::program::events;
use crate::writer::SmallDisk;

#[cfg(feature = "cli")]
mod ends;
mod library;
#[cfg(feature = "cli")]
mod resumed;
#[cfg(feature = "cli")]
mod watched;

/// Counts its runs in a file `n`, and prints the count.
const COUNTING: &str = "cat > prompt-$$; n=$(($(cat n 2>/dev/null || echo 0) + 1)); echo $n > n; \
    echo \"attempt $n\"; echo \"trouble $n\" >&2";

/// A working directory and a data directory.
struct Place {
    temp: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("work")).unwrap();
        Self { temp }
    }

    fn work(&self) -> PathBuf {
        self.temp.path().join("work")
    }

    fn data(&self) -> PathBuf {
        self.temp.path().join("data")
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.work().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// `td-observe loop` with these arguments, in the directory, as the run `it`.
    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = program(&["loop"], &self.data());
        command.args(args).current_dir(self.work());
        if !args.contains(&"--resume") {
            command.args(["--execution-id", "it"]);
        }
        command
    }

    #[track_caller]
    fn run(&self, args: &[&str]) -> Output {
        Running::start(self.command(args)).end()
    }

    /// Runs the command with `--json`; returns its output and its events.
    #[track_caller]
    fn events(&self, args: &[&str]) -> (Output, Vec<Envelope>) {
        let output = self.run(&[&["--json"], args].concat());
        let events = events(&output.stdout);
        (output, events)
    }

    fn directory(&self) -> RunDirectory {
        DataDir::new(self.data()).run(&"it".into())
    }

    fn metadata(&self) -> RunMetadata {
        self.directory().metadata().unwrap().unwrap()
    }

    #[track_caller]
    fn file(&self, iteration: u32, name: &str) -> String {
        let path = self.directory().iteration_path(iteration).join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
    }
}

/// Returns the arguments of a loop with an arbitrary task, followed by `more`.
fn args<'a>(agent: &'a str, check: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let usual = ["--task", "x", "--agent", agent, "--check", check];
    [&usual[..], more].concat()
}

fn kinds(events: &[Envelope]) -> Vec<&str> {
    events
        .iter()
        .map(|envelope| envelope.event.type_name())
        .collect()
}

fn outcomes(events: &[Envelope]) -> Vec<IterationOutcome> {
    let outcome = |envelope: &Envelope| match &envelope.event {
        TdEvent::IterationCompleted { outcome, .. } => Some(outcome.clone()),
        _ => None,
    };
    events.iter().filter_map(outcome).collect()
}

/// Returns success and iterations from the last event.
#[track_caller]
fn ended(events: &[Envelope]) -> (bool, u32) {
    match events.last().map(|envelope| &envelope.event) {
        Some(TdEvent::LoopCompleted {
            success,
            total_iterations,
            ..
        }) => (*success, *total_iterations),
        other => panic!("{other:?}"),
    }
}

/// Checks that the numbers are contiguous and that the log equals the shown events.
#[track_caller]
fn assert_kept(events: &[Envelope], run: &RunDirectory) {
    let kept = read(run);
    let seqs: Vec<u64> = kept.iter().filter_map(|envelope| envelope.seq).collect();
    let expected: Vec<u64> = (1..=seqs.len() as u64).collect();
    assert_eq!(seqs, expected);
    let shown: Vec<&TdEvent> = events.iter().map(|envelope| &envelope.event).collect();
    let kept: Vec<&TdEvent> = kept.iter().map(|envelope| &envelope.event).collect();
    assert!(kept.ends_with(&shown), "{kept:#?}\n{shown:#?}");
}

fn failed(exit_code: i32) -> IterationOutcome {
    IterationOutcome::ValidationFailed { exit_code }
}

#[track_caller]
fn assert_usage(output: &Output, why: &str) {
    assert_code(output, 2);
    let stderr = text(&output.stderr);
    assert!(
        stderr.lines().count() == 1 && stderr.contains(why),
        "{stderr}"
    );
}

fn files_in(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
