//! Jobs of shells in panes, on real tmux: each job is reported once, with the shell's status.

use std::fs;
use std::path::Path;

use td_observe::{Envelope, TdEvent};

use super::{SOURCES, Source, kernel_reports_ends};
use crate::observed::{Observed, shown};
use crate::support::{CEILING, TmuxServer, wait_for};

/// A reported job of the pane.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Report {
    Started(String),
    Completed(Option<i32>, Option<i32>),
}

fn started(command: &str) -> Report {
    Report::Started(command.to_owned())
}

fn completed(status: i32) -> Report {
    let signal = (status > 128).then_some(status - 128);
    Report::Completed(Some(status), signal)
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

    fn reports(seen: &[Envelope]) -> Vec<Report> {
        let reports = seen.iter().filter_map(|envelope| match &envelope.event {
            TdEvent::ExecutionStarted { command, pane, .. } => {
                assert!(pane.is_some());
                Some(started(command))
            }
            TdEvent::ExecutionCompleted {
                exit_code, signal, ..
            } => Some(Report::Completed(*exit_code, *signal)),
            _ => None,
        });
        reports.collect()
    }

    /// Waits for this number of reports.
    #[track_caller]
    fn until(&mut self, reports: &[Report]) {
        self.observed.until(&format!("{reports:?}"), |seen| {
            Self::reports(seen).len() >= reports.len()
        });
        let seen = &self.observed.seen;
        assert_eq!(Self::reports(seen), reports, "{}", shown(seen));
    }

    /// Types a line and waits for its reports.
    #[track_caller]
    fn runs(&mut self, reports: &mut Vec<Report>, line: &str, expect: &[Report]) {
        self.types(line);
        reports.extend_from_slice(expect);
        self.until(reports);
    }
}

const BASH: &str = "exec bash --norc --noprofile";
const SH: &str = "exec sh";

#[test]
fn jobs_of_any_shell_are_reported_with_their_status() {
    if !kernel_reports_ends() {
        return;
    }
    for source in SOURCES {
        for kind in [BASH, SH] {
            let mut shell = Shell::new(*source, kind);
            let mut reports = Vec::new();
            let failing = "sh -c 'sleep 0.8; exit 2'";
            shell.runs(&mut reports, failing, &[started(failing), completed(2)]);
            shell.runs(&mut reports, "sleep 1", &[started("sleep 1"), completed(0)]);
            let pipeline = "sleep 1 | sh -c 'sleep 1; exit 4'";
            shell.runs(&mut reports, pipeline, &[started(pipeline), completed(4)]);
            // A short job is not reported.
            shell.types("sh -c 'exit 9'");
            shell.runs(
                &mut reports,
                "sleep 0.9",
                &[started("sleep 0.9"), completed(0)],
            );
            // A fork of the shell itself.
            let name = if kind == BASH { "(bash)" } else { "(sh)" };
            shell.runs(
                &mut reports,
                "(sleep 0.8; exit 6)",
                &[started(name), completed(6)],
            );
            if Path::new("/usr/bin/make").exists() {
                let makefile = shell.server.directory().join("Makefile");
                fs::write(makefile, "all:\n\tsleep 0.8; exit 3\n").unwrap();
                shell.runs(&mut reports, "make", &[started("make"), completed(2)]);
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
            assert_eq!(Shell::reports(&shell.observed.seen), reports, "no more");
        }
    }
}

#[test]
fn a_job_is_interrupted_stopped_and_continued() {
    if !kernel_reports_ends() {
        return;
    }
    for source in SOURCES {
        for kind in [BASH, SH] {
            let mut shell = Shell::new(*source, kind);
            let mut reports = Vec::new();
            shell.runs(&mut reports, "sleep 1000", &[started("sleep 1000")]);
            shell.key("C-c");
            reports.push(completed(130));
            shell.until(&reports);
            shell.runs(&mut reports, "sleep 2000", &[started("sleep 2000")]);
            shell.key("C-z");
            shell.server.wait_for_text(&shell.pane, "Stopped");
            // While the job is stopped, the shell runs another one.
            shell.runs(
                &mut reports,
                "sleep 0.7",
                &[started("sleep 0.7"), completed(0)],
            );
            shell.types("fg; echo fg-$?");
            // The continued job is the same one.
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
            reports.push(completed(130));
            shell.until(&reports);
            shell.observed.stop();
            assert_eq!(Shell::reports(&shell.observed.seen), reports, "no more");
        }
    }
}

#[test]
fn a_nested_shell_is_not_a_job_but_its_jobs_are() {
    if !kernel_reports_ends() {
        return;
    }
    let mut shell = Shell::new(Source::Polled, BASH);
    shell.types("exec 2>&1; PS1='in''ner$ ' sh");
    // Until the inner shell runs, bash may read what is typed, and keep it.
    shell.server.wait_for_text(&shell.pane, "inner$");
    let mut reports = Vec::new();
    shell.runs(
        &mut reports,
        "sleep 0.9",
        &[started("sleep 0.9"), completed(0)],
    );
    shell.types("exit");
    shell.runs(
        &mut reports,
        "sleep 0.8",
        &[started("sleep 0.8"), completed(0)],
    );
    shell.observed.stop();
    assert_eq!(Shell::reports(&shell.observed.seen), reports);
}

#[test]
fn an_earlier_job_is_reported_and_a_job_ends_with_its_pane() {
    if !kernel_reports_ends() {
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
            Shell::reports(seen) == [started("sleep 1000")]
        });
        server.tmux(&["kill-pane", "-t", &pane]);
        observed.until("the end", |seen| super::ended(seen, "shell").is_some());
        observed.stop();
        let reports = Shell::reports(&observed.seen);
        assert_eq!(
            reports,
            [started("sleep 1000"), completed(129)],
            "{source:?}"
        );
    }
}

#[test]
fn a_shell_that_marks_its_commands_has_the_same_jobs() {
    if !kernel_reports_ends() {
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
    let mut reports = Vec::new();
    let failing = "sh -c 'sleep 1; exit 5'";
    let failed = Report::Completed(Some(5), None);
    shell.runs(&mut reports, failing, &[started(failing), failed]);
    // A short command is not an execution.
    shell.types("sh -c 'exit 9'");
    // A line of many short jobs is one execution, named after the first one that is seen.
    let line = "for i in 1 2 3 4 5; do sleep 0.3; done";
    shell.runs(
        &mut reports,
        line,
        &[started("sleep 0.3"), Report::Completed(Some(0), None)],
    );
    // A stopped and continued job is one execution.
    shell.runs(&mut reports, "sleep 2000", &[started("sleep 2000")]);
    shell.key("C-z");
    shell.server.wait_for_text(&shell.pane, "Stopped");
    let other = [started("sleep 0.7"), Report::Completed(Some(0), None)];
    shell.runs(&mut reports, "sleep 0.7", &other);
    // Continuing a job is not a separate execution.
    shell.types("fg; sleep 0.8");
    wait_for("the job in the foreground", CEILING, || {
        let screen = shell.server.screen(&shell.pane);
        let lines = screen.lines().filter(|line| line.trim() == "sleep 2000");
        (lines.count() > 0).then_some(()).ok_or(screen)
    });
    shell.key("C-c");
    shell.runs(&mut reports, "", &[completed(130)]);
    // Marks from within a job, as printed by a shell behind ssh, whose processes are not on this machine.
    let inner = "sleep 0.9; printf '\\033]133;A\\007$ \\033]133;B\\007ls\\n\\033]133;C\\007'; sleep 0.8\n\
                 printf '\\033]133;D;7\\007\\033]133;A\\007'; sleep 0.1\n";
    fs::write(shell.server.directory().join("inner"), inner).unwrap();
    let expect = [
        started("sh inner"),
        started("ls"),
        Report::Completed(Some(7), None),
        Report::Completed(Some(0), None),
    ];
    shell.runs(&mut reports, "sh inner", &expect);
    // Only the shell's marks report it.
    let status = "(exit 3); read -t 0.8 x; (exit 4)";
    shell.runs(
        &mut reports,
        status,
        &[started(""), Report::Completed(Some(4), None)],
    );
    shell.observed.stop();
    assert_eq!(Shell::reports(&shell.observed.seen), reports, "no more");
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
