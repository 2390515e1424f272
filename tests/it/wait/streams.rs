//! Waits on streamed panes: floods, prompts, and observers that do not answer.
//!
//! `TD_FLOODS=100 cargo test --test it -- wait::streams::floods --nocapture` sets the number of floods.

use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use td_observe::agent::StateRules;
use td_observe::agent_loop::Cancel;
use td_observe::event::AgentState;
use td_observe::tmux::DrainProgram;
use td_observe::wait::{WaitCondition, WaitEnd};
use td_observe::{Builder, Delivery, Engine, TdEvent, Watch};

use super::{at, found, pattern};
use crate::cli::{Running, assert_code, text};
use crate::observer::Home;
use crate::support::{CEILING, Dice, Stopped, TmuxServer, wait_for};

/// Starts `td-observe wait` in a home.
fn start(home: &Home, args: &[&str]) -> Running {
    start_for(home, args, "25s")
}

fn start_for(home: &Home, args: &[&str], timeout: &str) -> Running {
    let socket = home.server.socket().display().to_string();
    let args = [&["-S", &socket, "wait"], args, &["--timeout", timeout]].concat();
    Running::start(home.command(&args))
}

#[track_caller]
fn wait(home: &Home, args: &[&str]) -> Output {
    start(home, args).end()
}

/// A home with shells of these histories.
fn shells(histories: &[u32]) -> Home {
    let home = Home::new();
    home.server.new_session("first", 80, 24, "exec cat");
    for history in histories {
        let limit = history.to_string();
        home.server
            .tmux(&["set-option", "-g", "history-limit", &limit]);
        let name = format!("sh-{history}");
        let pane = home.server.new_session(&name, 80, 24, "PS1='$ ' exec sh");
        home.server.wait_for_text(&pane, "$");
    }
    home
}

fn piped(home: &Home, target: &str) -> String {
    let format = "#{pane_pipe}";
    let piped = home
        .server
        .tmux(&["display-message", "-p", "-t", target, format]);
    piped.trim().to_owned()
}

/// Waits for a line in floods of 1,000 to 100,000 lines; returns those that were missed.
fn missed_in_floods(home: &Home, histories: &[u32], floods: u64, dice: &mut Dice) -> Vec<String> {
    let mut missed = Vec::new();
    for flood in 0..floods {
        for history in histories {
            let lines = [1000, 10_000, 100_000][dice.roll(3) as usize];
            let lines = lines + dice.roll(lines / 2);
            let wanted = 1 + dice.roll(lines);
            let command = format!(
                "awk 'BEGIN {{ for (i = 1; i <= {lines}; i++) \
                 if (i == {wanted}) print \"NEE\" \"DLE {flood}\"; else print \"line\", i }}'"
            );
            let regex = format!("^NEEDLE {flood}$");
            let target = format!("sh-{history}");
            let output = wait(home, &[&target, "--send", &command, "--regex", &regex]);
            if output.status.code() != Some(0) || !output.stderr.is_empty() {
                missed.push(format!("line {wanted} of {lines} at {history}: {output:?}"));
            }
            home.server.wait_for_text(&format!("={target}:"), "$");
        }
    }
    missed
}

#[test]
fn floods_hide_no_line_of_a_streamed_pane() {
    let floods = std::env::var("TD_FLOODS").ok();
    let floods = floods.and_then(|text| text.parse().ok()).unwrap_or(2);
    let histories = [50, 2000];
    let mut dice = Dice(39);
    for is_observed in [true, false] {
        let home = shells(&histories);
        if is_observed {
            home.start();
        }
        let began = Instant::now();
        let missed = missed_in_floods(&home, &histories, floods, &mut dice);
        let all = floods * histories.len() as u64;
        eprintln!(
            "{} of {all} found, beside an observer: {is_observed}, in {:.1?}",
            all - missed.len() as u64,
            began.elapsed()
        );
        assert!(missed.is_empty(), "{missed:#?}");
        let is_piped = if is_observed { "1" } else { "0" };
        assert_eq!(piped(&home, "=sh-50:"), is_piped);
    }
}

#[test]
fn a_prompt_without_a_line_end_and_a_line_on_the_screen_match() {
    for is_observed in [true, false] {
        let home = shells(&[2000]);
        if is_observed {
            home.start();
        }
        let asks = "printf 'proceed'; printf '? [y/N] '; read x";
        let output = wait(
            &home,
            &["sh-2000", "--send", asks, "--text", "proceed? [y/N]"],
        );
        assert_code(&output, 0);
        assert_eq!(text(&output.stdout), "proceed? [y/N]\n");
        home.server.tmux(&["send-keys", "-t", "=sh-2000:", "Enter"]);
        // The line is written between two lines that stay.
        let draws = r"printf 'one\n\nthree\n\033[2A'; printf 'tw''o\n\n'";
        let output = wait(&home, &["sh-2000", "--send", draws, "--regex", "^two$"]);
        assert_code(&output, 0);
        // Full-screen programs, too.
        let screen = r"printf '\033[?1049h\033[3Hfull''screen'; read x; printf '\033[?1049l'";
        let output = wait(
            &home,
            &["sh-2000", "--send", screen, "--text", "fullscreen"],
        );
        assert_code(&output, 0);
        home.server.tmux(&["send-keys", "-t", "=sh-2000:", "Enter"]);
        // Numbers of lines count from the line of the cursor, whatever the observer has seen before.
        let output = wait(
            &home,
            &[
                "sh-2000",
                "--json",
                "--send",
                "echo num''bered",
                "--text",
                "numbered",
            ],
        );
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(outcome["line"], 2, "{outcome}");
        // What precedes the wait does not match.
        let args = [
            "sh-2000",
            "--send",
            "echo o''ver",
            "--text",
            "numbered",
            "--stop",
            "^over$",
        ];
        assert_code(&wait(&home, &args), 1);
    }
}

/// tmux does not read all that a program prints before it ends at once; then the wait says so.
#[test]
fn the_last_lines_of_a_program_match_though_its_pane_closes() {
    for is_observed in [true, false] {
        let home = shells(&[50]);
        let session = |name: &str, script: &str| {
            let script = format!("read x; {script}");
            home.server.new_session(name, 80, 24, &script);
        };
        let ends = ["echo NEE''DLE", "printf NEE''DLE"];
        for (at, end) in ends.into_iter().enumerate() {
            for try_number in 0..5 {
                session(&format!("{at}-{try_number}"), &format!("seq 20000; {end}"));
            }
        }
        session("at-once", "seq 20000");
        // What is printed by the end of the pause, tmux has read.
        session("slow", "seq 20000; sleep 1");
        session("short", "seq 200");
        if is_observed {
            home.start();
        }
        for (at, end) in ends.into_iter().enumerate() {
            let is_found = (0..5).any(|try_number| {
                let name = format!("{at}-{try_number}");
                let output = wait(
                    &home,
                    &[&name, "--send", "go", "--text", "NEEDLE", "--json"],
                );
                let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
                let is_found = output.status.code() == Some(0);
                assert!(is_found || outcome["lost_lines"] == true, "{outcome}");
                is_found
            });
            assert!(is_found, "{end}");
        }
        for (name, may_lack) in [("at-once", true), ("slow", false), ("short", false)] {
            let output = wait(&home, &[name, "--send", "go", "--text", "NEEDLE", "--json"]);
            assert_code(&output, 1);
            let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
            let ended = (&outcome["outcome"], &outcome["lost_lines"]);
            assert_eq!(ended, (&"ended".into(), &may_lack.into()), "{outcome}");
        }
        let output = wait(
            &home,
            &["sh-50", "--send", "seq 20000; exit", "--text", "NEEDLE"],
        );
        assert_code(&output, 1);
        let said = text(&output.stderr);
        assert!(said.contains("its last lines may be missing"), "{said}");
    }
}

#[test]
fn a_text_on_the_border_of_two_pieces_of_a_long_line_is_found() {
    for is_observed in [true, false] {
        let home = shells(&[2000]);
        if is_observed {
            home.start();
        }
        // A line is cut at the end of the row that fills 64 KiB, the 820th of 80 columns.
        let before = 820 * 80 - 3;
        let fill = format!("head -c {before} /dev/zero | tr '\\0' x");
        let prints = format!("{fill}; printf NEE; printf DLE; {fill}; echo");
        for condition in [["--text", "NEEDLE"], ["--regex", "NE+DLE"]] {
            let args = [
                &["sh-2000", "--send", &prints][..],
                &condition,
                &["--stop", "^o[v]er$"],
            ];
            let args = args.concat();
            let mut waiting = start(&home, &args);
            home.server.wait_for_text("=sh-2000:", "xxx");
            home.server.wait_for_text("=sh-2000:", "$");
            home.server
                .tmux(&["send-keys", "-t", "=sh-2000:", "echo ov''er", "Enter"]);
            let code = waiting.child.wait().unwrap().code();
            drop(waiting.end());
            assert_eq!(
                code,
                Some(0),
                "{condition:?}, beside an observer: {is_observed}"
            );
            home.server
                .tmux(&["send-keys", "-t", "=sh-2000:", "clear", "Enter"]);
        }
    }
}

#[test]
fn the_second_half_of_a_secret_that_a_line_end_cuts_is_redacted_in_the_text() {
    // Far above the end of a flood, too.
    for (is_observed, after) in [(true, "true"), (true, "seq 3000"), (false, "seq 3000")] {
        let home = shells(&[2000]);
        if is_observed {
            home.start();
        }
        let send = format!(
            "printf 'the key: %s%s\\n%s%s is the NEE%s\\n' gh p_R7kQ2mZx9LpW4vTn 8YcB3dFs6HjG 1aUe5oKi DLE; {after}"
        );
        let output = wait(
            &home,
            &["sh-2000", "--send", &send, "--text", "NEEDLE", "--json"],
        );
        assert_code(&output, 0);
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
        let line = outcome["text"].as_str().unwrap();
        assert!(line.contains("is the NEEDLE"), "{outcome}");
        assert!(
            !outcome.to_string().contains("8YcB3dFs6HjG1aUe5oKi"),
            "{outcome}"
        );
    }
}

#[test]
fn a_pane_that_is_respawned_during_a_wait_loses_nothing() {
    for is_observed in [true, false] {
        let home = shells(&[2000]);
        if is_observed {
            home.start();
        }
        let respawn = |last: &str| {
            let command = format!("seq 300; echo {last}; PS1='$ ' exec sh");
            let args = ["respawn-pane", "-k", "-t", "=sh-2000:", &command];
            home.server.tmux(&args);
            home.server.wait_for_text("=sh-2000:", last);
        };
        // The wait goes on with the new program, and at its end, nothing was lost.
        for (wanted, timeout, code) in [("NEEDLE", "25s", 0), ("never", "3s", 124)] {
            let begun = format!("echo begun''-{code}");
            let args = ["sh-2000", "--send", &begun, "--text", wanted, "--json"];
            let waiting = start_for(&home, &args, timeout);
            let begun = format!("begun-{code}");
            home.server.wait_for_text("=sh-2000:", &begun);
            ["first", "second", "NEEDLE"].into_iter().for_each(respawn);
            let output = waiting.end();
            assert_code(&output, code);
            assert_eq!(
                text(&output.stderr),
                "",
                "beside an observer: {is_observed}"
            );
            let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(outcome["lost_lines"], false, "{outcome}");
        }
    }
}

#[test]
fn a_pane_that_opens_during_a_wait_loses_nothing() {
    for is_observed in [true, false] {
        let home = shells(&[50]);
        if is_observed {
            home.start();
        }
        let begun = "echo beg''un";
        let waiting = start(&home, &["sh-50", "--send", begun, "--regex", "^NEEDLE$"]);
        home.server.wait_for_text("=sh-50:", "begun");
        let floods = "read x; awk 'BEGIN { for (i = 1; i <= 50000; i++) \
             if (i == 7) print \"NEE\" \"DLE\"; else print \"line\", i }'; exec cat";
        let late = "=sh-50:late";
        home.server
            .tmux(&["new-window", "-d", "-n", "late", "-t", "=sh-50:", floods]);
        wait_for("the pipe of the new pane", CEILING, || {
            (piped(&home, late) == "1").then_some(()).ok_or("no pipe")
        });
        home.server.tmux(&["send-keys", "-t", late, "Enter"]);
        let output = waiting.end();
        assert_code(&output, 0);
        assert_eq!(text(&output.stdout), "NEEDLE\n", "{is_observed}");
        assert_eq!(text(&output.stderr), "", "{is_observed}");
    }
}

#[test]
fn the_timeout_holds_beside_an_observer_that_is_stopped() {
    let home = shells(&[2000]);
    let pid = home.start();
    let stopped = Stopped::new(Pid::from_raw(pid.cast_signed()).unwrap());
    // The machine may be busy, so the shortest of some waits counts.
    let waited = (0..3).map(|_| {
        let began = Instant::now();
        let waiting = start_for(&home, &["sh-2000", "--text", "never"], "500ms");
        assert_code(&waiting.end(), 124);
        began.elapsed()
    });
    let waited = waited.min().unwrap();
    // What is printed meanwhile is found.
    let args = ["send-keys", "-t", "=sh-2000:", super::TICKS, "Enter"];
    home.server.tmux(&args);
    let waiting = start_for(&home, &["sh-2000", "--text", "NEEDLE"], "1s");
    assert_code(&waiting.end(), 0);
    drop(stopped);
    assert!(waited < Duration::from_millis(1200), "{waited:?}");
}

#[test]
fn a_wait_closes_the_pipe_that_it_opens_and_polling_opens_none() {
    let home = shells(&[2000]);
    for (source, during) in [("auto", "1"), ("poll", "0")] {
        let mut waiting = start(&home, &["sh-2000", "--text", "over", "--source", source]);
        if during == "1" {
            wait_for("a pipe", CEILING, || {
                match piped(&home, "=sh-2000:").as_str() {
                    "1" => Ok(()),
                    other => Err(other.to_owned()),
                }
            });
        }
        home.server.tmux(&[
            "send-keys",
            "-t",
            "=sh-2000:",
            "while :; do echo ov''er; sleep 0.1; done",
            "Enter",
        ]);
        let is_piped = piped(&home, "=sh-2000:");
        let code = waiting.child.wait().unwrap().code();
        assert_eq!(code, Some(0));
        drop(waiting.end());
        if during == "0" {
            assert_eq!(is_piped, "0");
        }
        assert_eq!(piped(&home, "=sh-2000:"), "0", "{source}");
        home.server.tmux(&["send-keys", "-t", "=sh-2000:", "C-c"]);
        // Before its prompt, the shell discards what is typed.
        wait_for("the prompt", CEILING, || {
            let screen = home.server.screen("=sh-2000:");
            if screen.trim_end().ends_with('$') {
                Ok(())
            } else {
                Err(screen)
            }
        });
    }
    // A pipe of another program stays.
    home.server
        .tmux(&["pipe-pane", "-t", "=sh-2000:", "cat > /dev/null"]);
    assert_code(
        &wait(
            &home,
            &["sh-2000", "--send", "echo do''ne", "--text", "done"],
        ),
        0,
    );
    assert_eq!(piped(&home, "=sh-2000:"), "1");
}

#[test]
fn lost_lines_are_reported_at_once() {
    let home = shells(&[50]);
    let socket = home.server.socket().display().to_string();
    let flood = "seq 1 30000; echo NEE''DLE; seq 1 30000";
    let args = [
        "-S", &socket, "wait", "sh-50", "--source", "poll", "--send", flood, "--regex", "^never$",
    ];
    let mut waiting = home.command(&args).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut lines = BufReader::new(waiting.stderr.take().unwrap());
    lines.read_line(&mut line).unwrap();
    assert!(line.contains("lines were lost"), "{line}");
    assert_eq!(waiting.try_wait().unwrap(), None, "the wait continues");
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    // If nothing matches until the timeout, the lost lines may have: the wait neither found nor excludes it.
    let args = [&args[..], &["--timeout", "3s"]].concat();
    let output = Running::start(home.command(&args)).end();
    assert_code(&output, 3);
    let shown = text(&output.stderr);
    assert!(shown.contains("lines were lost"), "{shown}");
}

#[test]
fn a_killed_pane_is_no_failure() {
    if !crate::ends::kernel_reports_ends() {
        return;
    }
    let home = shells(&[2000]);
    let hook = [
        "set-hook",
        "-g",
        "after-capture-pane",
        "set -g @captured yes",
    ];
    home.server.tmux(&hook);
    let waits = "echo up; while :; do sleep 0.1; done";
    let exits = format!("trap 'exit 3' HUP; {waits}");
    // A program that catches the signal has the status that it has chosen.
    for (script, code, status) in [("exec cat", 0, 129), (&exits, 1, 3)] {
        let pane = home.server.new_session("killed", 80, 24, script);
        if script == exits {
            home.server.wait_for_text(&pane, "up");
        }
        home.server.tmux(&["set", "-gu", "@captured"]);
        let waiting = start(&home, &["killed", "--exit", "--json"]);
        wait_for("a capture", CEILING, || {
            match home.server.tmux(&["show", "-gqv", "@captured"]) {
                value if value.is_empty() => Err("none yet"),
                _ => Ok(()),
            }
        });
        home.server.tmux(&["kill-session", "-t", "=killed"]);
        let output = waiting.end();
        assert_code(&output, code);
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&outcome["condition"], &outcome["exit_status"]),
            (&"exit".into(), &status.into())
        );
    }
}

/// Waits until a resumed observer answers again, and has ended the waits whose clients are gone.
fn until_idle(home: &Home, pid: u32) {
    let args = ["sh-2000", "--send", "echo re''sumed", "--text", "resumed"];
    assert_code(&wait(home, &args), 0);
    crate::observer::waits::wait_for_thread(pid, "td-api-wait", false);
}

#[test]
fn a_wait_whose_observer_does_not_answer_observes_by_itself() {
    let home = shells(&[2000]);
    let pid = home.start();
    let observer = Pid::from_raw(pid.cast_signed()).unwrap();
    // Before the wait.
    let stopped = Stopped::new(observer);
    let began = Instant::now();
    let output = wait(
        &home,
        &["sh-2000", "--send", "echo al''one", "--text", "alone"],
    );
    assert_code(&output, 0);
    assert!(began.elapsed() < CEILING / 2, "{:?}", began.elapsed());
    drop(stopped);
    until_idle(&home, pid);
    // During the wait: what is printed after the observer was stopped counts.
    let waiting = start(&home, &["sh-2000", "--text", "later"]);
    crate::observer::waits::wait_for_thread(pid, "td-api-wait", true);
    let stopped = Stopped::new(observer);
    home.server
        .tmux(&["send-keys", "-t", "=sh-2000:", "echo la''ter", "Enter"]);
    home.server.wait_for_text("=sh-2000:", "later");
    let output = waiting.end();
    drop(stopped);
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout), "later\n");
    until_idle(&home, pid);
    // An observer that is killed.
    let waiting = start(&home, &["sh-2000", "--text", "killed"]);
    crate::observer::waits::wait_for_thread(pid, "td-api-wait", true);
    kill_process(observer, Signal::KILL).unwrap();
    home.server
        .tmux(&["send-keys", "-t", "=sh-2000:", "echo kil''led", "Enter"]);
    assert_code(&waiting.end(), 0);
}

#[test]
fn lines_match_before_redaction_and_outcomes_are_redacted() {
    let key = ["gh", "p_", "R7kQ2mZx9LpW4vTn8YcB3dFs6HjG1aUe5oKi"].concat();
    for is_observed in [true, false] {
        let home = shells(&[2000]);
        if is_observed {
            home.start();
        }
        let (head, tail) = key.split_at(8);
        let send = format!("echo is {head}''{tail} now");
        let args = ["sh-2000", "--send", &send, "--text", &key, "--json"];
        let output = wait(&home, &args);
        assert_code(&output, 0);
        assert!(
            !text(&output.stdout).contains(&key),
            "{}",
            text(&output.stdout)
        );
        // The key is on the screen now, which a hint says.
        let socket = home.server.socket().display().to_string();
        let again = ["-S", &socket, "wait", "sh-2000", "--text", &key];
        let again = [&again[..], &["--timeout", "100ms"]].concat();
        let output = Running::start(home.command(&again)).end();
        assert_code(&output, 124);
        let hint = text(&output.stderr);
        let is_plain = hint.contains(&key);
        assert!(
            hint.contains("already shows a match") && !is_plain,
            "{hint}"
        );
        let output = wait(&home, &[&args[..], &["--no-redact"]].concat());
        assert_code(&output, 0);
        assert!(
            text(&output.stdout).contains(&key),
            "{}",
            text(&output.stdout)
        );
    }
}

/// An engine that streams a server, once it observes the pane.
fn engine(server: &TmuxServer, pane: &str, rules: Option<StateRules>) -> Engine {
    let mut engine = Builder::new().start().unwrap();
    let mut events = engine.subscribe();
    let program = DrainProgram::at(env!("CARGO_BIN_EXE_td-observe"));
    let watch = Watch::new(server.server()).stream(program);
    let watch = match rules {
        Some(rules) => watch.states(rules),
        None => watch,
    };
    engine.watch(watch).unwrap();
    while let Ok(delivery) = events.recv_timeout(CEILING) {
        if let Delivery::Event(event) = delivery
            && let TdEvent::PaneOpened { pane: opened, .. } = &event.event
            && opened.as_str() == pane
        {
            return engine;
        }
    }
    panic!("{pane} is not observed");
}

#[test]
fn a_wait_on_an_engine_shares_its_streams() {
    let server = TmuxServer::new();
    server.new_session("first", 80, 24, "exec cat");
    server.tmux(&["set-option", "-g", "history-limit", "50"]);
    let pane = server.new_session("sh", 80, 24, "PS1='$ ' exec sh");
    server.wait_for_text(&pane, "$");
    let engine = engine(&server, &pane, None);
    let waiter = engine.waiter(server.server()).unwrap();
    let flood = "seq 1 20000; echo NEE''DLE; seq 1 20000";
    let wait = at("sh").pattern(pattern("NEEDLE")).sends(flood);
    let started = waiter.start(&wait).unwrap();
    server.tmux(&["send-keys", "-t", &pane, flood, "Enter"]);
    let waited = started.finish().unwrap();
    assert_eq!(found(&waited).text.as_deref(), Some("NEEDLE"));
    assert!(!waited.lost_lines, "{waited:?}");
    // The engine ends during a wait, which then captures the pane.
    let started = waiter
        .start(&at("sh").pattern(pattern("by itself")))
        .unwrap();
    engine.shutdown();
    server.tmux(&["send-keys", "-t", &pane, "clear; echo by it''self", "Enter"]);
    assert_eq!(
        found(&started.finish().unwrap()).text.as_deref(),
        Some("by itself")
    );
}

#[test]
fn a_wait_is_cancelled_from_another_thread() {
    let server = TmuxServer::new();
    let pane = server.new_session("sh", 80, 24, "exec cat");
    let engine = engine(&server, &pane, None);
    let waiter = engine.waiter(server.server()).unwrap();
    let cancel = Cancel::new();
    let wait = at("sh").pattern(pattern("never")).cancelled_by(&cancel);
    let started = waiter.start(&wait).unwrap();
    let began = Instant::now();
    let waited = std::thread::scope(|scope| {
        scope.spawn(|| cancel.cancel());
        started.finish().unwrap()
    });
    assert_eq!(waited.end, WaitEnd::Interrupted);
    assert!(began.elapsed() < Duration::from_secs(5));
    let error = waiter.wait(&wait).unwrap_err();
    assert!(error.is_gone(), "{error:?}");
    engine.shutdown();
}

#[test]
fn a_wait_on_an_engine_knows_states() {
    let server = TmuxServer::new();
    let pane = crate::states::start(&server);
    let engine = engine(&server, &pane, Some(StateRules::builtin()));
    let waiter = engine.waiter(server.server()).unwrap();
    let wait = at("agent").state(AgentState::Waiting);
    let started = waiter.start(&wait).unwrap();
    crate::states::set_state(&server, &pane, "waiting");
    let waited = started.finish().unwrap();
    let met = found(&waited);
    assert_eq!(
        (met.condition, met.pattern.as_deref()),
        (WaitCondition::State, Some("waiting"))
    );
    // The state at the beginning counts.
    let again = waiter.wait(&wait).unwrap();
    assert_eq!(found(&again).condition, WaitCondition::State);
    // So does that of a pane that opens later.
    let wait = at("agent").state(AgentState::Working);
    let started = waiter.start(&wait).unwrap();
    let script = server.directory().join("agent.sh");
    let script = format!("exec bash {}", script.display());
    let format = ["-P", "-F", "#{pane_id}"];
    let opens = [
        &["new-window", "-d", "-t", "=agent:"],
        &format[..],
        &[&script],
    ];
    let opened = server.tmux(&opens.concat());
    let opened = opened.trim();
    server.wait_for_text(opened, "(0)");
    crate::states::set_state(&server, opened, "working");
    let waited = started.finish().unwrap();
    assert_eq!(
        found(&waited).pane.as_ref().map(|pane| pane.as_str()),
        Some(opened)
    );
    let alone = td_observe::wait::Waiter::new(server.server()).unwrap();
    assert!(alone.wait(&wait).unwrap_err().is_invalid_input());
    engine.shutdown();
}
