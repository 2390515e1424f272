//! What shells run in panes, on real tmux: each job is told once, with the status that the shell has.

use std::fs;
use std::path::Path;

use td_observe::{Envelope, TdEvent};

use super::{SOURCES, Source, kernel_tells};
use crate::observed::{Observed, shown};
use crate::support::{CEILING, TmuxServer, wait_for};

/// A job of the pane, as its events have it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Started(String),
    Completed(Option<i32>, Option<i32>),
}

fn started(command: &str) -> Told {
    Told::Started(command.to_owned())
}

fn completed(status: i32) -> Told {
    let signal = (status > 128).then_some(status - 128);
    Told::Completed(Some(status), signal)
}

/// A shell in a pane that is observed.
struct Shell {
    server: TmuxServer,
    observed: Observed,
    pane: String,
}

impl Shell {
    #[track_caller]
    fn new(source: Source, shell: &str) -> Self {
        let server = TmuxServer::new();
        server.new_session("keeper", 80, 24, "exec cat");
        let program = format!(
            "cd '{}'; export PS1='prompt$ '; {shell}",
            server.directory().display()
        );
        let pane = server.new_session("shell", 120, 40, &program);
        server.wait_for_text(&pane, "prompt$");
        let mut observed = Observed::start(&server, |watch| source.set(watch));
        observed.until_started(2);
        Self {
            server,
            observed,
            pane,
        }
    }

    #[track_caller]
    fn types(&self, line: &str) {
        self.server
            .tmux(&["send-keys", "-t", &self.pane, "-l", line]);
        self.key("Enter");
    }

    #[track_caller]
    fn key(&self, name: &str) {
        self.server.tmux(&["send-keys", "-t", &self.pane, name]);
    }

    fn told(seen: &[Envelope]) -> Vec<Told> {
        let told = seen.iter().filter_map(|envelope| match &envelope.event {
            TdEvent::ExecutionStarted { command, pane, .. } => {
                assert!(pane.is_some());
                Some(started(command))
            }
            TdEvent::ExecutionCompleted {
                exit_code, signal, ..
            } => Some(Told::Completed(*exit_code, *signal)),
            _ => None,
        });
        told.collect()
    }

    /// Waits until so many things have been told of jobs.
    #[track_caller]
    fn until(&mut self, told: &[Told]) {
        self.observed.until(&format!("{told:?}"), |seen| {
            Self::told(seen).len() >= told.len()
        });
        let seen = &self.observed.seen;
        assert_eq!(Self::told(seen), told, "{}", shown(seen));
    }

    /// Types a line, and waits until what is told of it has been.
    #[track_caller]
    fn runs(&mut self, told: &mut Vec<Told>, line: &str, expect: &[Told]) {
        self.types(line);
        told.extend_from_slice(expect);
        self.until(told);
    }
}

const BASH: &str = "exec bash --norc --noprofile";
const SH: &str = "exec sh";

#[test]
fn jobs_of_any_shell_are_told_with_their_status() {
    if !kernel_tells() {
        return;
    }
    for source in SOURCES {
        for kind in [BASH, SH] {
            let mut shell = Shell::new(*source, kind);
            let mut told = Vec::new();
            let failing = "sh -c 'sleep 0.8; exit 2'";
            shell.runs(&mut told, failing, &[started(failing), completed(2)]);
            shell.runs(&mut told, "sleep 1", &[started("sleep 1"), completed(0)]);
            let pipeline = "sleep 1 | sh -c 'sleep 1; exit 4'";
            shell.runs(&mut told, pipeline, &[started(pipeline), completed(4)]);
            // Nobody waits for what is over at once.
            shell.types("sh -c 'exit 9'");
            shell.runs(
                &mut told,
                "sleep 0.9",
                &[started("sleep 0.9"), completed(0)],
            );
            // A part of the shell itself.
            let name = if kind == BASH { "(bash)" } else { "(sh)" };
            shell.runs(
                &mut told,
                "(sleep 0.8; exit 6)",
                &[started(name), completed(6)],
            );
            if Path::new("/usr/bin/make").exists() {
                let makefile = shell.server.directory().join("Makefile");
                fs::write(makefile, "all:\n\tsleep 0.8; exit 3\n").unwrap();
                shell.runs(&mut told, "make", &[started("make"), completed(2)]);
            }
            let events = shell.observed.seen.iter();
            for envelope in events {
                match &envelope.event {
                    TdEvent::ExecutionStarted { pid, cwd, pane, .. } => {
                        assert!(pid.is_some() && pane.as_ref().unwrap() == shell.pane.as_str());
                        let here = shell.server.directory().canonicalize().unwrap();
                        assert_eq!(Path::new(cwd), here);
                    }
                    TdEvent::ExecutionCompleted {
                        pid, duration_ms, ..
                    } => {
                        assert!(pid.is_some());
                        assert!((500..15_000).contains(duration_ms), "{duration_ms} ms");
                    }
                    _ => {}
                }
            }
            shell.types("exit 3");
            shell.observed.until("the end", |seen| {
                super::ended(seen, "shell") == Some(Some(3))
            });
            shell.observed.stop();
            assert_eq!(Shell::told(&shell.observed.seen), told, "no more");
        }
    }
}

#[test]
fn a_job_is_interrupted_stopped_and_continued() {
    if !kernel_tells() {
        return;
    }
    for source in SOURCES {
        for kind in [BASH, SH] {
            let mut shell = Shell::new(*source, kind);
            let mut told = Vec::new();
            shell.runs(&mut told, "sleep 1000", &[started("sleep 1000")]);
            shell.key("C-c");
            told.push(completed(130));
            shell.until(&told);
            shell.runs(&mut told, "sleep 2000", &[started("sleep 2000")]);
            shell.key("C-z");
            shell.server.wait_for_text(&shell.pane, "Stopped");
            // While it stands still, the shell runs another one.
            shell.runs(
                &mut told,
                "sleep 0.7",
                &[started("sleep 0.7"), completed(0)],
            );
            shell.types("fg; echo fg-$?");
            // It goes on, and is the same one.
            wait_for("the job in the foreground", CEILING, || {
                let pid = shell.server.pane(&shell.pane).pid;
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
                let fields: Vec<&str> = stat
                    .rsplit_once(')')
                    .unwrap()
                    .1
                    .split_whitespace()
                    .collect();
                if fields[2] == fields[5] {
                    Err(stat)
                } else {
                    Ok(())
                }
            });
            shell.key("C-c");
            told.push(completed(130));
            shell.until(&told);
            shell.observed.stop();
            assert_eq!(Shell::told(&shell.observed.seen), told, "no more");
        }
    }
}

#[test]
fn a_shell_within_a_shell_is_no_job_and_its_jobs_are() {
    if !kernel_tells() {
        return;
    }
    let mut shell = Shell::new(Source::Polled, BASH);
    shell.types("exec 2>&1; sh");
    let mut told = Vec::new();
    shell.runs(
        &mut told,
        "sleep 0.9",
        &[started("sleep 0.9"), completed(0)],
    );
    shell.types("exit");
    shell.runs(
        &mut told,
        "sleep 0.8",
        &[started("sleep 0.8"), completed(0)],
    );
    shell.observed.stop();
    assert_eq!(Shell::told(&shell.observed.seen), told);
}

#[test]
fn a_job_that_ran_before_the_observer_came_is_told_and_one_whose_pane_is_killed_ends() {
    if !kernel_tells() {
        return;
    }
    for source in SOURCES {
        let server = TmuxServer::new();
        server.new_session("keeper", 80, 24, "exec cat");
        let pane = server.new_session("shell", 80, 24, &format!("export PS1='prompt$ '; {BASH}"));
        server.wait_for_text(&pane, "prompt$");
        server.tmux(&["send-keys", "-t", &pane, "sleep 1000", "Enter"]);
        server.wait_for_text(&pane, "sleep 1000");
        let mut observed = Observed::start(&server, |watch| source.set(watch));
        observed.until("the job", |seen| {
            Shell::told(seen) == [started("sleep 1000")]
        });
        server.tmux(&["kill-pane", "-t", &pane]);
        observed.until("the end", |seen| super::ended(seen, "shell").is_some());
        observed.stop();
        let told = Shell::told(&observed.seen);
        assert_eq!(told, [started("sleep 1000"), completed(129)], "{source:?}");
    }
}

#[test]
fn a_shell_that_marks_its_commands_has_the_same_jobs() {
    if !kernel_tells() {
        return;
    }
    let server = TmuxServer::new();
    let rc = "PS1='prompt$ '\nPS0='\\e]133;C\\e\\\\'\n\
              PROMPT_COMMAND='printf \"\\e]133;D;%s\\e\\\\\\e]133;A\\e\\\\\" $?'\n";
    fs::write(server.directory().join("rc"), rc).unwrap();
    let rc = server.directory().join("rc");
    let mut shell = Shell::new(
        Source::Streamed,
        &format!("exec bash --noprofile --rcfile '{}'", rc.display()),
    );
    let mut told = Vec::new();
    let failing = "sh -c 'sleep 1; exit 5'";
    let failed = Told::Completed(Some(5), None);
    shell.runs(&mut told, failing, &[started(failing), failed]);
    // What is over at once is no execution.
    shell.types("sh -c 'exit 9'");
    // A line of many short jobs is one, by the name of the first that is seen.
    let line = "for i in 1 2 3 4 5; do sleep 0.3; done";
    shell.runs(
        &mut told,
        line,
        &[started("sleep 0.3"), Told::Completed(Some(0), None)],
    );
    // One that is stopped and continued is one, until its end.
    shell.runs(&mut told, "sleep 2000", &[started("sleep 2000")]);
    shell.key("C-z");
    shell.server.wait_for_text(&shell.pane, "Stopped");
    let other = [started("sleep 0.7"), Told::Completed(Some(0), None)];
    shell.runs(&mut told, "sleep 0.7", &other);
    // What continues a job is none of its own.
    shell.types("fg; sleep 0.8");
    wait_for("the job in the foreground", CEILING, || {
        let screen = shell.server.screen(&shell.pane);
        let lines = screen.lines().filter(|line| line.trim() == "sleep 2000");
        (lines.count() > 0).then_some(()).ok_or(screen)
    });
    shell.key("C-c");
    shell.runs(&mut told, "", &[completed(130)]);
    // Marks from within a job, as of a shell behind ssh: what runs there has no process here.
    let inner = "sleep 0.9; printf '\\033]133;A\\007$ \\033]133;B\\007ls\\n\\033]133;C\\007'; sleep 0.8\n\
                 printf '\\033]133;D;7\\007\\033]133;A\\007'; sleep 0.1\n";
    fs::write(shell.server.directory().join("inner"), inner).unwrap();
    let expect = [
        started("sh inner"),
        started("ls"),
        Told::Completed(Some(7), None),
        Told::Completed(Some(0), None),
    ];
    shell.runs(&mut told, "sh inner", &expect);
    // By the shell's word alone.
    let status = "(exit 3); read -t 0.8 x; (exit 4)";
    shell.runs(
        &mut told,
        status,
        &[started(""), Told::Completed(Some(4), None)],
    );
    shell.observed.stop();
    assert_eq!(Shell::told(&shell.observed.seen), told, "no more");
    let pids: Vec<Option<u32>> = shell
        .observed
        .seen
        .iter()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::ExecutionStarted { pid, .. } | TdEvent::ExecutionCompleted { pid, .. } => {
                Some(*pid)
            }
            _ => None,
        })
        .collect();
    let [one, same, .., none, none_either] = pids.as_slice() else {
        panic!("{pids:?}")
    };
    assert!(one == same && none.is_none() && none_either.is_none());
    let without = pids.iter().filter(|pid| pid.is_none()).count();
    assert_eq!(without, 4, "{pids:?}");
}
