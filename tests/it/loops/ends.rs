//! The ends of loops: passed, never passed, out of time, interrupted, wrong usage.

use rustix::process::{Signal, test_kill_process};
use td_observe::event::IterationOutcome;
use td_observe::history::RunState;

use super::*;
use crate::support::{CEILING, wait_for};

/// The label of a loop in its metadata is no session's name.
#[test]
fn each_line_of_a_log_has_the_margin_of_its_loop() {
    let place = Place::new();
    assert_code(&place.run(&args("echo done", "true", &[])), 0);
    let logged = crate::cli::run(&["log", "it"], &place.data());
    let logged = text(&logged.stdout);
    assert!(logged.contains("it | done\n"), "{logged}");
    let is_of_loop = |line: &str| line.starts_with("it |");
    assert!(logged.lines().all(is_of_loop), "{logged}");
}

#[test]
fn the_third_attempt_passes() {
    let place = Place::new();
    let (output, events) = place.events(&[
        "--task",
        "Make n three",
        "--agent",
        COUNTING,
        "--as",
        "text",
        "--check",
        "echo \"n is $(cat n)\"; test $(cat n) = 3",
        "--max-iterations",
        "5",
    ]);
    assert_code(&output, 0);
    assert_eq!(ended(&events), (true, 3));
    let passed = IterationOutcome::ValidationPassed;
    assert_eq!(outcomes(&events), [failed(1), failed(1), passed]);
    // One complete iteration. Its errors arrive on a different path.
    let mut kinds = kinds(&events);
    kinds.retain(|kind| *kind != "ExecutionOutput");
    let iteration = [
        "IterationStarted",
        "PromptSent",
        "TokenReceived",
        "ResponseCompleted",
        "ValidationStarted",
        "ValidationOutput",
        "ValidationCompleted",
        "IterationCompleted",
    ];
    assert_eq!(
        kinds[..10],
        [&["LoopStarted", "PhaseStarted"], &iteration[..]].concat()
    );
    assert_eq!(kinds.len(), 2 + 3 * iteration.len() + 1);
    assert_kept(&events, &place.directory());
    // Its files: the second prompt explains how the first attempt failed.
    assert_eq!(
        files_in(&place.directory().path().join("iterations")),
        ["1", "2", "3"]
    );
    assert!(place.file(1, "prompt.txt").contains("Make n three"));
    assert!(!place.file(1, "prompt.txt").contains("last attempt"));
    assert!(place.file(2, "prompt.txt").contains("exited with 1"));
    assert!(place.file(2, "prompt.txt").contains("\nn is 1\n"));
    assert!(place.file(2, "response.txt").contains("attempt 2"));
    assert_eq!(place.file(2, "stdout.log"), "n is 2\n");
    // The agent's own output has files of its own.
    assert_eq!(place.file(2, "stderr.log"), "");
    assert_eq!(place.file(2, "agent_stdout.log"), "attempt 2\n");
    assert_eq!(place.file(2, "agent_stderr.log"), "trouble 2\n");
    // No agent states the length of its prompt.
    let log = fs::read_to_string(place.directory().path().join("events.jsonl")).unwrap();
    let prompt = log
        .lines()
        .find(|line| line.contains("\"PromptSent\""))
        .unwrap();
    assert!(!prompt.contains("token_count"), "{prompt}");
    let metadata = place.metadata();
    assert_eq!(metadata.state, RunState::Completed);
    assert_eq!(metadata.extra["progress"]["iteration"], 3);
    assert_eq!(metadata.extra["progress"]["outcome"], "ValidationPassed");
}

#[test]
fn a_check_that_never_passes_ends_the_loop_with_1() {
    let place = Place::new();
    let (output, events) = place.events(&[
        "--task",
        "Do what cannot be done",
        "--agent",
        "true",
        "--check",
        "exit 7",
        "--max-iterations",
        "3",
    ]);
    assert_code(&output, 1);
    assert_eq!(ended(&events), (false, 3));
    assert_eq!(outcomes(&events), [failed(7), failed(7), failed(7)]);
    assert_eq!(place.metadata().state, RunState::Failed);
    // An agent that changes nothing causes a warning, also in the log.
    let warnings = |envelope: &&Envelope| {
        matches!(&envelope.event, TdEvent::Warning { message, .. }
            if message.contains("changed no file"))
    };
    assert_eq!(events.iter().filter(warnings).count(), 3);
    assert!(place.file(2, "prompt.txt").contains("changed no file"));
    // For people: the reason why the loop continues.
    let shown = text(
        &Place::new()
            .run(&args("true", "exit 7", &["--max-iterations", "2"]))
            .stdout,
    );
    for row in [
        "[loop] x",
        "[phase] 1 of 1: x",
        "[iteration] 2 begins",
        "[validation] FAILED: exit code 7",
        "not done: the check failed with exit code 7",
        "[loop] FAILED after 2 iterations",
    ] {
        assert!(shown.contains(row), "{row}: {shown}");
    }
}

#[test]
fn a_failing_agent_is_an_outcome_and_the_check_is_not_run() {
    let place = Place::new();
    let (output, events) = place.events(&args(
        "echo half; echo no network >&2; exit 3",
        "true",
        &["--as", "text", "--max-iterations", "2"],
    ));
    assert_code(&output, 1);
    assert_eq!(ended(&events), (false, 2));
    for outcome in outcomes(&events) {
        let IterationOutcome::LlmError { error } = outcome else {
            panic!("{outcome:?}");
        };
        assert!(
            error.contains("exit code 3") && error.contains("no network"),
            "{error}"
        );
    }
    assert!(!kinds(&events).contains(&"ValidationStarted"));
    assert!(place.file(1, "response.txt").contains("half"));
    assert!(place.file(2, "prompt.txt").contains("exit code 3"));
}

/// A program that does not exist does not appear after a pause.
#[test]
fn a_missing_agent_is_not_retried() {
    let place = Place::new();
    for agent in ["td-no-such-agent", "./no-such-agent.sh --verbose"] {
        let (output, events) = Place::new().events(&args(agent, "true", &[]));
        assert_code(&output, 1);
        assert_eq!(ended(&events), (false, 1));
        let errors: Vec<&str> = events
            .iter()
            .filter_map(|envelope| match &envelope.event {
                TdEvent::Error { message, .. } => Some(message.as_str()),
                _ => None,
            })
            .collect();
        let name = agent.split(' ').next().unwrap();
        assert!(
            errors.iter().all(|error| error.contains(name)),
            "{errors:?}"
        );
    }
    // An agent that has answered is not missing.
    let more = ["--as", "text", "--max-iterations", "2"];
    let (_, events) = place.events(&args("echo half; td-no-such-helper", "true", &more));
    assert_eq!(ended(&events), (false, 2));
}

#[test]
fn lines_of_a_check_beyond_the_limit_are_counted() {
    let place = Place::new();
    let check = "seq 100; echo why >&2; test -e done";
    let more = ["--max-lines", "7", "--max-iterations", "1"];
    let output = place.run(&args("true", check, &more));
    assert_code(&output, 1);
    assert_eq!(place.file(1, "stdout.log").lines().count(), 7);
    assert_eq!(place.file(1, "stderr.log"), "why\n");
    let reported = text(&output.stderr);
    assert!(
        reported.contains("93 more lines were neither shown nor kept"),
        "{reported}"
    );
    assert!(text(&output.stdout).contains("cut after 7 lines"));
    // The limit is kept for the next iterations.
    fs::write(place.work().join("done"), "").unwrap();
    let output = place.run(&["--resume", "it", "--max-iterations", "2"]);
    assert_code(&output, 0);
    assert_eq!(place.file(2, "stdout.log").lines().count(), 7);
    assert!(text(&output.stderr).contains("94 more lines"));
}

#[test]
fn a_timeout_ends_an_answer_and_a_check() {
    for (agent, check) in [("sleep 1000", "true"), ("true", "sleep 1000")] {
        let place = Place::new();
        let (output, events) = place.events(&args(agent, check, &["--timeout", "300ms"]));
        assert_code(&output, 124);
        assert_eq!(ended(&events), (false, 1), "{agent} {check}");
    }
    let place = Place::new();
    let (_, events) = place.events(&args(
        "true",
        "sleep 1000",
        &["--check-timeout", "100ms", "--max-iterations", "1"],
    ));
    assert_eq!(outcomes(&events), [failed(124)]);
}

#[test]
fn one_interrupt_ends_a_loop_cleanly_without_leftovers() {
    for (agent, check) in [
        ("echo $$ > pid; exec sleep 1000", "true"),
        (
            "true",
            "echo $$ > pid; trap '' TERM; while :; do sleep 0.1; done",
        ),
    ] {
        let place = Place::new();
        let args = ["--json", "--task", "x", "--agent", agent, "--check", check];
        let running = Running::start(place.command(&args));
        let pid = wait_for("what is to be left", CEILING, || {
            let text = fs::read_to_string(place.work().join("pid")).unwrap_or_default();
            text.trim().parse::<i32>().map_err(|_| text)
        });
        running.signal(Signal::INT);
        let output = running.end();
        assert_code(&output, 130);
        let events = events(&output.stdout);
        assert_eq!(ended(&events), (false, 1));
        assert_eq!(
            kinds(&events)
                .iter()
                .filter(|kind| **kind == "IterationCompleted")
                .count(),
            1
        );
        assert_kept(&events, &place.directory());
        assert_eq!(place.metadata().state, RunState::Detached);
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        wait_for(
            "the end of what it ran",
            CEILING,
            || match test_kill_process(pid) {
                Err(_) => Ok(()),
                Ok(()) => Err(pid),
            },
        );
    }
}

#[test]
fn wrong_usage_is_reported_in_one_line_before_anything_is_run() {
    let place = Place::new();
    let spec = place.write("spec.md", "no heading");
    let unchecked = place.write("unchecked.toml", "task = 'a'\n[[phase]]\nname = 'b'");
    for (args, why) in [
        (&["--agent", "a", "--check", "b"][..], "--task"),
        (&["--task", "x", "--check", "b"], "--agent"),
        (&["--task", "x", "--agent", "a"], "--check"),
        (&["--task", " ", "--agent", "a", "--check", "b"], "--task"),
        (&*args("", "b", &[]), "--agent"),
        (&["--task", "x", "--spec", &spec, "--agent", "a"], "--spec"),
        (
            &["--spec", &spec, "--agent", "a", "--check", "b"],
            "no heading",
        ),
        (
            &["--spec", "none.md", "--agent", "a", "--check", "b"],
            "none.md",
        ),
        (&["--spec", &unchecked, "--agent", "a"], "phase \"b\""),
        (&*args("a", "b", &["--max-iterations", "0"]), "0"),
        (&*args("a", "b", &["--as", "nonsense"]), "nonsense"),
        (&*args("a", "b", &["--directory", "none"]), "none"),
        (&["--resume", "nobody"], "nobody"),
    ] {
        assert_usage(&place.run(args), why);
    }
    assert!(!place.directory().exists());
}

/// An agent with its own loop that would never end, as its records show.
#[test]
fn an_agent_that_uses_up_its_turns_is_ended_and_the_check_decides() {
    let place = Place::new();
    let record = |n: u32| {
        format!(
            r#"{{"type":"assistant","session_id":"s","message":{{"id":"m{n}","role":"assistant","content":[{{"type":"text","text":"step {n}"}}],"usage":{{"input_tokens":1,"output_tokens":1}}}}}}"#
        )
    };
    let init = r#"{"type":"system","subtype":"init","session_id":"s"}"#;
    let lines: Vec<String> = (1..=6).map(record).collect();
    let path = place.write("records", &format!("{init}\n{}\n", lines.join("\n")));
    let agent = format!("cat {path}; exec sleep 1000");
    let ask = |check: &'static str| {
        let agent = agent.clone();
        move |place: &Place| {
            place.events(&args(
                &agent,
                check,
                &[
                    "--as",
                    "claude",
                    "--max-turns",
                    "3",
                    "--max-iterations",
                    "1",
                ],
            ))
        }
    };
    let (output, events) = ask("false")(&place);
    assert_code(&output, 1);
    assert_eq!(outcomes(&events), [IterationOutcome::MaxTurnsReached]);
    assert!(kinds(&events).contains(&"ValidationCompleted"));
    let (output, _) = ask("true")(&Place::new());
    assert_code(&output, 0);
    // The record of Claude Code about its own limit.
    let result =
        r#"{"type":"result","subtype":"error_max_turns","is_error":true,"session_id":"s"}"#;
    let path = place.write("result", &format!("{init}\n{}\n{result}\n", record(1)));
    let agent = format!("cat {path}; exit 1");
    let (_, events) = Place::new().events(&args(
        &agent,
        "exit 9",
        &["--as", "claude", "--max-iterations", "1"],
    ));
    assert_eq!(outcomes(&events), [IterationOutcome::MaxTurnsReached]);
}

#[test]
fn a_check_that_exits_cleanly_after_a_signal_has_not_passed() {
    let check = "trap 'exit 0' TERM INT; echo $$ > pid; while :; do sleep 0.05; done";
    let place = Place::new();
    let args = ["--json", "--task", "x", "--agent", "true", "--check", check];
    let running = Running::start(place.command(&args));
    wait_for("the check", CEILING, || {
        if place.work().join("pid").exists() {
            Ok(())
        } else {
            Err("it does not run")
        }
    });
    running.signal(Signal::INT);
    let output = running.end();
    assert_code(&output, 130);
    let seen = events(&output.stdout);
    assert_eq!(ended(&seen), (false, 1));
    assert_eq!(outcomes(&seen), [failed(143)]);
    let args = [&args[1..], &["--timeout", "300ms"]].concat();
    let (output, seen) = Place::new().events(&args);
    assert_code(&output, 124);
    assert_eq!(ended(&seen), (false, 1));
}

#[test]
fn an_agent_has_time_to_save_its_state() {
    let place = Place::new();
    let agent =
        "trap 'sleep 0.3; touch saved; exit' TERM; touch begun; while :; do sleep 0.05; done";
    let running = Running::start(place.command(&args(agent, "true", &[])));
    wait_for("the agent", CEILING, || {
        if place.work().join("begun").exists() {
            Ok(())
        } else {
            Err("it does not run")
        }
    });
    running.signal(Signal::INT);
    assert_code(&running.end(), 130);
    assert!(place.work().join("saved").exists());
}

/// Files that are cut are named on standard error, where a full disk takes no event.
#[test]
fn files_that_a_full_disk_cuts_are_named() {
    let place = Place::new();
    let Some(_disk) = SmallDisk::mount(&place.data(), "size=400k") else {
        return;
    };
    let more = ["-q", "--max-iterations", "1"];
    let output = place.run(&args("seq 1 60000", "true", &more));
    assert_code(&output, 0);
    let reported = text(&output.stderr);
    let named: Vec<&str> = reported
        .lines()
        .filter(|line| line.contains("files of the iteration are incomplete"))
        .collect();
    assert!(
        named.len() == 1 && named[0].contains("iterations/1/") && named[0].contains("No space"),
        "{reported}"
    );
}
