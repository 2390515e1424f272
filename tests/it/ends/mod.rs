//! Ends of programs in panes, on real tmux: their status is known, and failures are reported as such.

mod jobs;

use std::collections::HashMap;

use serde_json::Value;
use td_observe::{Envelope, TdEvent, Watch};

use crate::cli::{assert_code, run, text};
use crate::observed::{Observed, shown};
use crate::stream::drain;
use crate::support::{CEILING, TmuxServer, wait_for};

/// The ways to observe panes.
const SOURCES: &[Source] = &[Source::Polled, Source::Streamed];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Polled,
    Streamed,
}

impl Source {
    fn set(self, watch: Watch) -> Watch {
        match self {
            Self::Polled => watch,
            Self::Streamed => watch.stream(drain()),
        }
    }
}

/// Returns true when the kernel reports how other programs' children ended. Without that, statuses depend on
/// timing, and their tests are skipped.
pub fn kernel_reports_ends() -> bool {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map(|part| part.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (6, 15) {
        return true;
    }
    eprintln!(
        "SKIPPED: Linux {release} does not tell how programs ended that others started \
         (6.15 does): nothing is known here of exit statuses in panes"
    );
    false
}

/// The beginning of a program that waits for `go`.
const WAITS: &str = "tmux wait-for go; ";

/// Returns the run of each session, from `runs --json`.
#[track_caller]
fn runs(server: &TmuxServer) -> HashMap<String, Value> {
    let listed = run(&["runs", "--json"], &server.directory().join("data"));
    assert_code(&listed, 0);
    let runs = text(&listed.stdout);
    let runs = runs.lines().map(|line| serde_json::from_str(line).unwrap());
    runs.map(|run: Value| (run["label"].as_str().unwrap().to_owned(), run))
        .collect()
}

fn ended(seen: &[Envelope], name: &str) -> Option<Option<i32>> {
    seen.iter().find_map(|envelope| match &envelope.event {
        TdEvent::SessionEnded {
            session,
            exit_status,
            ..
        } if session == name => Some(*exit_status),
        _ => None,
    })
}

#[track_caller]
fn until_ended(observed: &mut Observed, names: &[String]) {
    observed.until("the sessions' ends", |seen| {
        names.iter().all(|name| ended(seen, name).is_some())
    });
}

#[test]
fn twenty_failed_jobs_are_reported_as_failed() {
    if !kernel_reports_ends() {
        return;
    }
    for source in SOURCES {
        let server = TmuxServer::new();
        server.new_session("keeper", 80, 24, "exec cat");
        let program = format!(
            "{WAITS}for i in 1 2 3; do echo step $i; done; echo 'error: could not compile'; exit 101"
        );
        let names: Vec<String> = (1..=20).map(|number| format!("job-{number}")).collect();
        for name in &names {
            server.new_session(name, 80, 24, &program);
        }
        let mut observed = Observed::start(&server, |watch| source.set(watch));
        observed.until_started(21);
        server.tmux(&["wait-for", "-S", "go"]);
        until_ended(&mut observed, &names);
        observed.stop();
        let seen = &observed.seen;
        for name in &names {
            assert_eq!(
                ended(seen, name),
                Some(Some(101)),
                "{source:?} {name}: {}",
                shown(seen)
            );
        }
        let closed: Vec<Option<i32>> = seen
            .iter()
            .filter_map(|envelope| match &envelope.event {
                TdEvent::PaneClosed { exit_status, .. } => Some(*exit_status),
                _ => None,
            })
            .collect();
        assert_eq!(closed, [Some(101); 20], "{source:?}");
        let complete: Vec<Option<i32>> = seen
            .iter()
            .filter_map(|envelope| match &envelope.event {
                TdEvent::OutputUpdate {
                    is_complete: true,
                    reason,
                    exit_status,
                    ..
                } => {
                    assert_eq!(reason.as_ref().map(|reason| reason.as_str()), Some("exit"));
                    Some(*exit_status)
                }
                _ => None,
            })
            .collect();
        assert_eq!(complete, [Some(101); 20], "{source:?}");
        let runs = runs(&server);
        for name in &names {
            let run = &runs[name];
            assert_eq!(
                (&run["state"], &run["exit_status"]),
                (&"failed".into(), &101.into())
            );
        }
        assert_eq!(runs["keeper"]["state"], "detached");
        let table = text(&run(&["runs"], &server.directory().join("data")).stdout);
        let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(head[..4], ["RUN", "KIND", "STATE", "EXIT"]);
        let failed = table.lines().filter(|row| {
            let cells: Vec<&str> = row.split_whitespace().collect();
            cells[2..4] == ["failed", "101"]
        });
        assert_eq!(failed.count(), 20, "{table}");
        let id = runs[&names[0]]["execution_id"].as_str().unwrap();
        let log = run(&["log", id], &server.directory().join("data"));
        let log = text(&log.stdout);
        assert!(
            log.contains("[ended: the session was closed, exit status 101]"),
            "{log}"
        );
    }
}

#[test]
fn people_see_that_a_polled_pane_may_lack_its_last_lines() {
    if !kernel_reports_ends() {
        return;
    }
    const MISSING: &str = "possibly the last lines are missing";
    let server = TmuxServer::new();
    server.new_session("keeper", 80, 24, "exec cat");
    let job = format!("echo ready; {WAITS}echo last words");
    let job = server.new_session("job", 80, 24, &job);
    let shell = server.new_session("shell", 80, 24, "exec bash --norc --noprofile");
    let killed = server.new_session("killed", 80, 24, "echo ready; exec cat");
    server.wait_for_text(&job, "ready");
    server.wait_for_text(&shell, "bash-");
    server.wait_for_text(&killed, "ready");
    let mut observed = Observed::all(&server);
    observed.until_started(4);
    // One after the other, because tmux counts the bytes of all panes.
    for (name, end) in [
        ("job", "wait-for -S go"),
        ("shell", "send-keys -t =shell: exit Enter"),
        ("killed", "kill-session -t killed"),
    ] {
        server.script(end);
        until_ended(&mut observed, &[name.to_owned()]);
    }
    observed.stop();
    let data = server.directory().join("data");
    let runs = runs(&server);
    for (name, is_shown) in [("job", true), ("shell", false), ("killed", false)] {
        let id = runs[name]["execution_id"].as_str().unwrap();
        for face in [&["log", id][..], &["export", id, "--format", "text"]] {
            let printed = text(&run(face, &data).stdout);
            assert_eq!(printed.contains(MISSING), is_shown, "{face:?}: {printed}");
        }
    }
}

/// A session, how it ends, its expected status, and the state of its run.
type Case<'a> = (&'a str, &'a str, &'a [&'a str], i32, &'a str);

#[test]
fn exits_of_shells_and_killed_panes_have_a_status_and_are_no_failures() {
    if !kernel_reports_ends() {
        return;
    }
    let cases: &[Case<'_>] = &[
        (
            "bash",
            "exec bash --norc --noprofile",
            &["send-keys -t =bash: 'exit 3' Enter"],
            3,
            "completed",
        ),
        (
            "sh",
            "exec sh",
            &["send-keys -t =sh: 'exit 3' Enter"],
            3,
            "completed",
        ),
        (
            "ctrl-d",
            "exec bash --norc --noprofile",
            &[
                "send-keys -t =ctrl-d: '(exit 7)' Enter",
                "send-keys -t =ctrl-d: C-d",
            ],
            7,
            "completed",
        ),
        (
            "kill-pane",
            "exec sleep 1000",
            &["kill-pane -t =kill-pane:"],
            129,
            "completed",
        ),
        (
            "kill-session",
            "exec sleep 1000",
            &["kill-session -t kill-session"],
            129,
            "completed",
        ),
        (
            "kill-shell",
            "exec bash --norc --noprofile",
            &["kill-pane -t =kill-shell:"],
            129,
            "completed",
        ),
        (
            "fails",
            "tmux wait-for fails; exit 4",
            &["wait-for -S fails"],
            4,
            "failed",
        ),
        (
            "killed",
            "tmux wait-for killed; kill -9 $$",
            &["wait-for -S killed"],
            137,
            "failed",
        ),
        (
            "good",
            "tmux wait-for good; exit 0",
            &["wait-for -S good"],
            0,
            "completed",
        ),
    ];
    for source in SOURCES {
        let server = TmuxServer::new();
        server.new_session("keeper", 80, 24, "exec cat");
        for (name, program, ..) in cases {
            let program = format!("export PS1='prompt$ '; {program}");
            let pane = server.new_session(name, 80, 24, &program);
            if program.contains("bash") || program.ends_with("sh") {
                server.wait_for_text(&pane, "prompt$");
            }
        }
        let mut observed = Observed::start(&server, |watch| source.set(watch));
        observed.until_started(cases.len() + 1);
        for (_, _, commands, ..) in cases {
            for command in *commands {
                if command.ends_with("C-d") {
                    // Input before the prompt would be lost.
                    wait_for("the next prompt", CEILING, || {
                        let screen = server.screen("=ctrl-d:");
                        let prompts = screen.matches("prompt$").count();
                        if prompts == 2 { Ok(()) } else { Err(screen) }
                    });
                }
                server.script(command);
            }
        }
        let names: Vec<String> = cases.iter().map(|case| case.0.to_owned()).collect();
        until_ended(&mut observed, &names);
        observed.stop();
        let runs = runs(&server);
        for (name, _, _, status, state) in cases {
            let seen = &observed.seen;
            let of = format!("{source:?} {name}");
            assert_eq!(
                ended(seen, name),
                Some(Some(*status)),
                "{of}: {}",
                shown(seen)
            );
            assert_eq!(runs[*name]["state"], *state, "{of}");
            assert_eq!(runs[*name]["exit_status"], *status, "{of}");
        }
    }
}

#[test]
fn a_remaining_pane_keeps_its_status_until_it_is_killed() {
    for source in SOURCES {
        let server = TmuxServer::new();
        server.new_session("keeper", 80, 24, "exec cat");
        server.script("set-option -g remain-on-exit on");
        let pane = server.new_session("kept", 80, 24, &format!("{WAITS}exit 5"));
        let mut observed = Observed::start(&server, |watch| source.set(watch));
        observed.until_started(2);
        server.tmux(&["wait-for", "-S", "go"]);
        let complete = |envelope: &Envelope| match &envelope.event {
            TdEvent::OutputUpdate {
                is_complete: true,
                exit_status,
                ..
            } => Some(*exit_status),
            _ => None,
        };
        observed.until("the program's end", |seen| {
            seen.iter().any(|envelope| complete(envelope).is_some())
        });
        server.tmux(&["kill-pane", "-t", &pane]);
        until_ended(&mut observed, &["kept".to_owned()]);
        observed.stop();
        let seen = &observed.seen;
        let ends: Vec<_> = seen.iter().filter_map(complete).collect();
        assert_eq!(ends, [Some(5)], "{source:?}: {}", shown(seen));
        assert_eq!(ended(seen, "kept"), Some(Some(5)), "{source:?}");
        assert_eq!(runs(&server)["kept"]["state"], "failed");
    }
}

#[test]
fn one_failed_pane_of_several_counts() {
    if !kernel_reports_ends() {
        return;
    }
    for source in SOURCES {
        let server = TmuxServer::new();
        server.new_session("keeper", 80, 24, "exec cat");
        server.new_session("build", 80, 24, "tmux wait-for one; exit 2");
        server.tmux(&[
            "split-window",
            "-d",
            "-t",
            "build",
            "tmux wait-for two; exit 0",
        ]);
        let mut observed = Observed::start(&server, |watch| source.set(watch));
        observed.until_started(2);
        observed.until("both panes", |seen| {
            let opened =
                |envelope: &&Envelope| matches!(envelope.event, TdEvent::PaneOpened { .. });
            seen.iter().filter(opened).count() == 3
        });
        server.tmux(&["wait-for", "-S", "one"]);
        observed.until("the first end", |seen| {
            let closed = |envelope: &Envelope| matches!(envelope.event, TdEvent::PaneClosed { .. });
            seen.iter().any(closed)
        });
        server.tmux(&["wait-for", "-S", "two"]);
        until_ended(&mut observed, &["build".to_owned()]);
        observed.stop();
        assert_eq!(ended(&observed.seen, "build"), Some(Some(2)), "{source:?}");
        let runs = runs(&server);
        assert_eq!(runs["build"]["state"], "failed", "{source:?}");
    }
}
