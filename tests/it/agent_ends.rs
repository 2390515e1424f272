//! A state belongs to a process: it ends with the agent's process, however that ends, and is suspended with it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use td_observe::agent::StateRules;
use td_observe::board::{Attention, Board, Row};
use td_observe::{Envelope, TdEvent};

use crate::observed::Observed;
use crate::states::AGENT;
use crate::stream::drain;
use crate::support::{CEILING, TmuxServer, wait_for};

/// The longest time in which the board may be wrong.
const SOON: Duration = Duration::from_secs(1);

/// A pane in which a script with the name of Claude Code draws its screens.
struct Claude {
    server: TmuxServer,
    pane: String,
    script: PathBuf,
}

impl Claude {
    fn server() -> (TmuxServer, PathBuf) {
        let server = TmuxServer::new();
        let script = server.directory().join("agent.sh");
        std::fs::write(&script, format!("trap 'exit 0' USR1\n{AGENT}")).unwrap();
        (server, script)
    }

    /// Starts the agent at the prompt of a shell.
    fn in_shell(prompt: &str) -> Self {
        let (server, script) = Self::server();
        let shell = format!("PS1='{prompt}' exec bash --norc --noprofile");
        let pane = server.new_session("agent", 80, 24, &shell);
        server.wait_for_text(&pane, prompt.trim_end());
        let claude = Self {
            server,
            pane,
            script,
        };
        claude.start();
        claude
    }

    /// Starts the agent as the pane's own program.
    fn alone(remains: bool) -> Self {
        let (server, script) = Self::server();
        if remains {
            // The server needs a session before it takes options.
            server.new_session("other", 80, 24, "cat");
            server.tmux(&["set-option", "-g", "remain-on-exit", "on"]);
        }
        let command = format!("exec bash -c \"exec -a claude bash {}\"", script.display());
        let pane = server.new_session("agent", 80, 24, &command);
        server.wait_for_text(&pane, "(0)");
        Self {
            server,
            pane,
            script,
        }
    }

    fn types(&self, line: &str) {
        self.server
            .tmux(&["send-keys", "-t", &self.pane, line, "Enter"]);
    }

    fn start(&self) {
        self.types(&format!("(exec -a claude bash {})", self.script.display()));
        self.server.wait_for_text(&self.pane, "(0)");
    }

    fn observed(&self, streams: bool) -> Observed {
        let mut observed = Observed::start(&self.server, |watch| {
            let watch = watch.states(StateRules::builtin());
            if streams {
                watch.stream(drain())
            } else {
                watch
            }
        });
        observed.until_started(1);
        observed
    }

    /// Makes the agent ask, and waits until its process was found.
    fn asks(&self, observed: &mut Observed) {
        self.types("waiting");
        observed.until("the question", |seen| {
            states(seen, &self.pane).last() == Some(&"claude waiting confirmed".to_owned())
        });
    }

    fn pid(&self) -> Pid {
        let script = self.script.display().to_string();
        let pids = wait_for("the agent's process", CEILING, || {
            let pids: Vec<i32> = std::fs::read_dir("/proc")
                .unwrap()
                .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
                .filter(|pid| {
                    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                    line == format!("claude\0{script}\0").as_bytes()
                })
                .collect();
            if pids.len() == 1 { Ok(pids) } else { Err(pids) }
        });
        Pid::from_raw(pids[0]).unwrap()
    }

    fn kill(&self) {
        kill_process(self.pid(), Signal::KILL).unwrap();
    }
}

/// Returns the states of a pane's agents with their evidence; `process` for the end of a process.
fn states(seen: &[Envelope], of: &str) -> Vec<String> {
    seen.iter()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::AgentState {
                pane: Some(pane),
                agent: Some(agent),
                state,
                evidence,
                detail,
                ..
            } if pane.as_str() == of => {
                let end = detail
                    .as_deref()
                    .and_then(|detail| detail.strip_prefix("exit status "));
                let end = end.map(|status| format!(" {status}"));
                Some(format!(
                    "{agent} {state} {evidence}{}",
                    end.unwrap_or_default()
                ))
            }
            _ => None,
        })
        .collect()
}

fn row(seen: &[Envelope], pane: &str) -> Row {
    let mut board = Board::new(StateRules::builtin());
    seen.iter().for_each(|envelope| drop(board.apply(envelope)));
    let mut rows = board.rows();
    let row = rows.find(|row| row.pane.as_ref().is_some_and(|of| of.as_str() == pane));
    row.expect("a row of the pane").clone()
}

/// Waits for a row, and for what else happens within a second, which is not to change it.
#[track_caller]
fn until_row(observed: &mut Observed, pane: &str, what: &str, is: impl Fn(&Row) -> bool) -> Row {
    let from = Instant::now();
    observed.until(what, |seen| is(&row(seen, pane)));
    let took = from.elapsed();
    assert!(took < SOON, "{what} took {took:?}");
    while from.elapsed() < SOON {
        std::thread::yield_now();
        observed.take_ready();
    }
    let row = row(&observed.seen, pane);
    assert!(is(&row), "{what} did not last: {row:?}");
    row
}

fn is_killed(row: &Row) -> bool {
    row.state.as_str() == "failed" && row.exit_status == Some(137)
}

#[track_caller]
fn assert_killed(observed: &mut Observed, pane: &str) {
    let row = until_row(observed, pane, "the end", is_killed);
    assert_eq!(row.last_line, "claude killed (137)");
    assert_eq!(row.attention(), Attention::NeedsYou);
    assert_eq!((row.question_id, row.dialogue), (None, None));
    let states = states(&observed.seen, pane);
    let end = states
        .iter()
        .position(|state| state == "claude error confirmed 137");
    let after = &states[end.expect("the end is an event") + 1..];
    assert!(
        after.iter().all(|state| state.starts_with("shell ")),
        "the dead do not speak: {states:?}"
    );
}

#[test]
fn an_agent_that_is_killed_while_it_asks_waits_no_more() {
    for streams in [false, true] {
        let claude = Claude::in_shell("me@box:~$ ");
        let mut observed = claude.observed(streams);
        claude.asks(&mut observed);
        claude.kill();
        assert_killed(&mut observed, &claude.pane);
        // The next job that succeeds ends the news.
        claude.types("clear; sleep 0.7");
        observed.until("the next job", |seen| {
            row(seen, &claude.pane).state.as_str() != "failed"
        });
        observed.stop();
    }
}

/// The screen of a dialogue has just been drawn, and has not settled.
#[test]
fn a_screen_does_not_settle_after_the_end_of_its_program() {
    let claude = Claude::in_shell("me@box:~$ ");
    let mut observed = claude.observed(true);
    observed.until("the agent", |seen| {
        states(seen, &claude.pane).last() == Some(&"claude idle confirmed".to_owned())
    });
    let pid = claude.pid();
    claude.types("waiting");
    claude.server.wait_for_text(&claude.pane, "Do you want");
    kill_process(pid, Signal::KILL).unwrap();
    assert_killed(&mut observed, &claude.pane);
    observed.stop();
}

#[test]
fn an_agent_that_was_the_panes_own_program_is_killed_as_well() {
    for (remains, streams) in [(false, false), (false, true), (true, false), (true, true)] {
        let claude = Claude::alone(remains);
        let mut observed = claude.observed(streams);
        claude.asks(&mut observed);
        claude.kill();
        assert_killed(&mut observed, &claude.pane);
        observed.stop();
    }
}

/// The prompt resembles none that is known, so that the screen shows no shell.
#[test]
fn an_agent_that_leaves_does_not_fail_and_its_state_ends() {
    let claude = Claude::in_shell("so? ");
    let mut observed = claude.observed(true);
    claude.asks(&mut observed);
    kill_process(claude.pid(), Signal::USR1).unwrap();
    let row = until_row(&mut observed, &claude.pane, "the shell", |row| {
        row.state.as_str() == "idle"
    });
    assert_eq!(row.agent.as_deref(), Some("shell"));
    assert_eq!((row.asks, row.question_id), (None, None));
    observed.stop();
}

#[test]
fn a_script_that_continues_after_its_agent_was_killed_does_not_wait() {
    let (server, script) = Claude::server();
    let wrapper = server.directory().join("wrapper.sh");
    let text = format!(
        "(exec -a claude bash {})\nread wait < /dev/tty\n",
        script.display()
    );
    std::fs::write(&wrapper, text).unwrap();
    let command = format!("exec bash {}", wrapper.display());
    let pane = server.new_session("agent", 80, 24, &command);
    server.wait_for_text(&pane, "(0)");
    let claude = Claude {
        server,
        pane,
        script,
    };
    let mut observed = claude.observed(true);
    claude.asks(&mut observed);
    claude.kill();
    assert_killed(&mut observed, &claude.pane);
    observed.stop();
}

/// A screen shows an agent whose process is not known as one, as behind `ssh`.
#[test]
fn a_screen_without_an_agents_process_ends_with_the_job_that_draws_it() {
    let claude = Claude::in_shell("so? ");
    claude.kill();
    let mut observed = claude.observed(true);
    claude.types(&format!("bash {}", claude.script.display()));
    claude.server.wait_for_text(&claude.pane, "(0)");
    claude.types("waiting");
    observed.until("the question", |seen| {
        states(seen, &claude.pane).last() == Some(&"claude waiting inferred".to_owned())
    });
    // What is shorter than that is no job, and leaves nothing that could fail.
    observed.until("the job", |seen| {
        let is_started =
            |envelope: &Envelope| matches!(envelope.event, TdEvent::ExecutionStarted { .. });
        seen.iter().any(is_started)
    });
    // The script ends, and leaves the dialogue on the screen.
    let foreground = claude
        .server
        .tmux(&["list-panes", "-t", &claude.pane, "-F", "#{pane_pid}"]);
    let shell: u32 = foreground.trim().parse().unwrap();
    let children = format!("/proc/{shell}/task/{shell}/children");
    let child = std::fs::read_to_string(children).unwrap();
    let child = Pid::from_raw(child.trim().parse().unwrap()).unwrap();
    kill_process(child, Signal::KILL).unwrap();
    let row = until_row(&mut observed, &claude.pane, "the end", is_killed);
    assert_eq!((row.question_id, row.dialogue), (None, None));
    observed.stop();
}

#[test]
fn an_agent_is_suspended_until_it_is_in_the_foreground_again() {
    for streams in [false, true] {
        let claude = Claude::in_shell("me@box:~$ ");
        let mut observed = claude.observed(streams);
        claude.asks(&mut observed);
        claude
            .server
            .tmux(&["send-keys", "-t", &claude.pane, "C-z"]);
        let row = until_row(&mut observed, &claude.pane, "the stop", |row| {
            row.state.as_str() == "suspended"
        });
        assert_eq!(row.attention(), Attention::NeedsYou);
        assert_eq!(row.agent.as_deref(), Some("claude"));
        assert_eq!(row.question_id, None);
        let source = observed.seen.iter().rev().find_map(|envelope| {
            let TdEvent::AgentState { source, .. } = &envelope.event else {
                return None;
            };
            source.as_ref().map(|source| source.as_str().to_owned())
        });
        assert_eq!(source.as_deref(), Some("process"));
        claude.types("fg");
        let row = until_row(&mut observed, &claude.pane, "the question", |row| {
            row.state.as_str() == "waiting"
        });
        assert!(row.question_id.is_some());
        // It is killed while it is stopped.
        claude
            .server
            .tmux(&["send-keys", "-t", &claude.pane, "C-z"]);
        observed.until("the stop", |seen| {
            row_state(seen, &claude.pane) == "suspended"
        });
        claude.kill();
        assert_killed(&mut observed, &claude.pane);
        observed.stop();
    }
}

fn row_state(seen: &[Envelope], pane: &str) -> String {
    row(seen, pane).state.as_str().to_owned()
}
