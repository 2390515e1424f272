//! Loops that were cut off and are resumed.

use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::cli::run;
use crate::support::{CEILING, wait_for};

/// The second attempt hangs after its first output.
const SECOND_HANGS: &str = "cat > /dev/null; n=$(($(cat n 2>/dev/null || echo 0) + 1)); echo $n > n; \
    echo \"attempt $n\"; test $n != 2 || { echo $$ > pid; exec sleep 1000; }";

fn cut_off(place: &Place) {
    let args = [
        "--json",
        "--task",
        "Make n three",
        "--agent",
        SECOND_HANGS,
        "--as",
        "text",
        "--check",
        "echo \"n is $(cat n)\"; test $(cat n) = 3",
        "--max-iterations",
        "3",
    ];
    let mut running = Running::start(place.command(&args));
    running.wait_for("attempt 2");
    let pid = wait_for("the agent", CEILING, || {
        let text = fs::read_to_string(place.work().join("pid")).unwrap_or_default();
        text.trim().parse::<i32>().map_err(|_| text)
    });
    running.signal(Signal::KILL);
    running.end();
    // Nothing has ended the agent.
    let agent = Pid::from_raw(pid).unwrap();
    let _ = kill_process(agent, Signal::KILL);
}

#[test]
fn a_killed_loop_resumes_with_the_next_iteration() {
    let place = Place::new();
    cut_off(&place);
    let listed = text(&run(&["runs"], &place.data()).stdout);
    assert!(listed.contains("cut off"), "{listed}");
    let before = read(&place.directory()).len();
    let (output, events) = place.events(&["--resume", "it"]);
    assert_code(&output, 0);
    assert_eq!(ended(&events), (true, 3));
    let begun = events.iter().find_map(|envelope| match &envelope.event {
        TdEvent::IterationStarted { iteration, .. } => Some(*iteration),
        _ => None,
    });
    assert_eq!(begun, Some(3));
    assert!(
        !kinds(&events).contains(&"LoopStarted"),
        "it has begun long ago"
    );
    let seqs: Vec<u64> = events.iter().filter_map(|envelope| envelope.seq).collect();
    let first = before as u64 + 1;
    let expected: Vec<u64> = (first..first + seqs.len() as u64).collect();
    assert_eq!(seqs, expected);
    assert_kept(&events, &place.directory());
    assert!(place.file(1, "response.txt").contains("attempt 1"));
    assert_eq!(place.file(1, "stdout.log"), "n is 1\n");
    assert!(place.file(2, "prompt.txt").contains("n is 1"));
    assert_eq!(place.file(2, "response.txt"), "attempt 2\n");
    assert!(place.file(3, "prompt.txt").contains("was interrupted"));
    assert_eq!(place.file(3, "stdout.log"), "n is 3\n");
    let again = place.run(&["--resume", "it"]);
    assert_usage(&again, "have passed");
}

#[test]
fn a_loop_that_used_up_its_iterations_can_be_resumed_with_more() {
    let place = Place::new();
    let output = place.run(&[
        "--task",
        "Make n three",
        "--agent",
        COUNTING,
        "--check",
        "echo \"n is $(cat n)\"; test $(cat n) = 3",
        "--max-iterations",
        "2",
    ]);
    assert_code(&output, 1);
    assert_usage(&place.run(&["--resume", "it"]), "--max-iterations");
    assert_usage(&place.run(&["--resume", "it", "--no-log"]), "--no-log");
    let (output, events) = place.events(&["--resume", "it", "--max-iterations", "4"]);
    assert_code(&output, 0);
    assert_eq!(ended(&events), (true, 3));
    assert!(
        place.file(3, "prompt.txt").contains("n is 2"),
        "what failed is known"
    );
}

/// A resumed loop names the phase that it continues, and no phase that is done.
#[test]
fn a_resumed_loop_has_only_the_phases_ahead() {
    let place = Place::new();
    let spec =
        "# Build\n## One\nCheck: `true`\n## Two\nCheck: `test -e go`\n## Three\nCheck: `true`\n";
    let spec = place.write("spec.md", spec);
    let agent = "cat > /dev/null; test ! -e wait || { touch begun; until test -e go; do sleep 0.01; done; }";
    let output = place.run(&["--spec", &spec, "--agent", agent, "--max-iterations", "2"]);
    assert_code(&output, 1);
    place.write("wait", "");
    let args = ["--json", "--resume", "it", "--max-iterations", "9"];
    let running = Running::start(place.command(&args));
    wait_for("the resumed iteration", CEILING, || {
        place
            .work()
            .join("begun")
            .exists()
            .then_some(())
            .ok_or("no")
    });
    let ahead = serde_json::json!(["Two", "Three"]);
    wait_for("the row", CEILING, || {
        let status = run(&["status", "--json"], &place.data());
        let row: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        if row["state"] == "running" && row["phases"] == ahead {
            Ok(())
        } else {
            Err(row)
        }
    });
    place.write("go", "");
    let output = running.end();
    assert_code(&output, 0);
    let events = events(&output.stdout);
    let started: Vec<String> = events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::LoopStarted { phases, .. } => Some(phases.as_ref().unwrap().join(",")),
            TdEvent::PhaseStarted {
                phase_index,
                phase_name,
                total_phases,
                ..
            } => Some(format!("{phase_index} {phase_name} {total_phases}")),
            _ => None,
        })
        .collect();
    assert_eq!(started, ["Two,Three", "1 Two 3", "2 Three 3"]);
}

#[test]
fn a_secret_in_a_command_is_not_stored_and_is_required_again() {
    let place = Place::new();
    let agent = format!("true {}{}", "ghp_", "a1B2".repeat(9));
    let output = place.run(&args(&agent, "false", &["--max-iterations", "1"]));
    assert_code(&output, 1);
    let kept = fs::read_to_string(place.directory().metadata_path()).unwrap();
    assert!(!kept.contains("a1B2a1B2"), "{kept}");
    let more = ["--resume", "it", "--max-iterations", "2"];
    assert_usage(&place.run(&more), "--agent");
    let given = [&more[..], &["--agent", "true"]].concat();
    assert_code(&place.run(&given), 1);
}

#[test]
fn a_secret_in_a_task_is_required_again() {
    let place = Place::new();
    let task = format!("log in with {}{}", "ghp_", "a1B2".repeat(9));
    let args = ["--task", &task, "--agent", "cat > got", "--check", "false"];
    let output = place.run(&[&args[..], &["--max-iterations", "1"]].concat());
    assert_code(&output, 1);
    let more = ["--resume", "it", "--max-iterations", "2"];
    assert_usage(&place.run(&more), "--task");
    assert_code(&place.run(&[&more[..], &["--task", &task]].concat()), 1);
    let got = fs::read_to_string(place.work().join("got")).unwrap();
    assert!(got.contains(&task), "{got}");
}

#[test]
fn a_run_that_is_no_loop_cannot_be_resumed() {
    let place = Place::new();
    let ran = run(&["run", "--execution-id", "it", "true"], &place.data());
    assert_code(&ran, 0);
    assert_usage(&place.run(&["--resume", "it"]), "no loop");
}
