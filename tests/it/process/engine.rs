//! Commands of an engine: each has its own run, however it ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use td_observe::channel::select;
use td_observe::process::Command;
use td_observe::{Builder, Clock, Engine, Envelope, Error, Subscription, TdEvent};

use super::{Group, end_of, group_in, kept_of, text_of};
use crate::support::CEILING;

fn engine(data: &Path) -> (Engine, Subscription) {
    let engine = Builder::new().data_dir(data).start().unwrap();
    let events = engine.subscribe();
    (engine, events)
}

/// Returns the remaining events after the engine's end.
fn remaining(mut events: Subscription) -> Vec<Envelope> {
    let mut seen = Vec::new();
    while let Ok(delivery) = events.recv() {
        seen.extend(delivery.into_envelope());
    }
    seen
}

fn state(data: &Path, id: &str) -> serde_json::Value {
    let metadata = std::fs::read(data.join("runs").join(id).join("metadata.json"));
    serde_json::from_slice(&metadata.unwrap()).unwrap()
}

#[test]
fn each_command_has_a_run_with_its_line_and_its_end() {
    let data = tempfile::tempdir().unwrap();
    let (mut engine, events) = engine(data.path());
    let command = Command::new("sh").args(["-c", "pwd; echo $WORD; exit 3"]);
    let command = command.directory("/").env("WORD", "of env");
    let failing = engine.execute_as("failing", command).unwrap();
    let working = engine.execute_as("working", Command::new("true")).unwrap();
    assert_eq!(failing.wait().unwrap().code(), 3);
    assert!(working.wait().unwrap().is_success());
    // The engine runs, and its sources have ended.
    let done = engine.done();
    assert!(
        done.recv_timeout(CEILING)
            .is_err_and(|why| why.is_disconnected())
    );
    engine.shutdown();
    let seen = remaining(events);
    assert_eq!(text_of(&seen, "stdout"), "/\nof env\n");
    assert_eq!(end_of(&kept_of(data.path(), "failing")), (Some(3), None));
    let failing = state(data.path(), "failing");
    assert_eq!(failing["state"], "failed");
    assert_eq!(failing["exit_status"], 3);
    assert_eq!(failing["extra"]["cwd"], "/");
    assert_eq!(
        failing["extra"]["command"],
        "sh -c 'pwd; echo $WORD; exit 3'"
    );
    assert_eq!(state(data.path(), "working")["state"], "completed");
}

#[test]
fn a_reused_name_continues_its_run() {
    let data = tempfile::tempdir().unwrap();
    let (mut engine, _events) = engine(data.path());
    for word in ["one", "two", "three"] {
        let command = Command::new("echo").arg(word);
        engine.execute_as("again", command).unwrap().wait().unwrap();
    }
    engine.shutdown();
    assert_eq!(
        text_of(&kept_of(data.path(), "again"), "stdout"),
        "one\ntwo\nthree\n"
    );
}

#[test]
fn a_command_that_cannot_be_started_has_no_run() {
    let data = tempfile::tempdir().unwrap();
    let (mut engine, events) = engine(data.path());
    let missing = engine.execute(Command::new("td-no-such-program")).unwrap();
    assert!(missing.wait().unwrap_err().is_missing_program());
    let nowhere = Command::new("true").directory("/no/such/place");
    let error = engine.execute(nowhere).unwrap().wait().unwrap_err();
    assert!(!error.is_missing_program(), "{error:?}");
    engine.shutdown();
    assert_eq!(remaining(events), []);
    let runs = std::fs::read_dir(data.path().join("runs"));
    assert_eq!(runs.map_or(0, Iterator::count), 0);
}

#[test]
fn a_panicking_callback_ends_its_command_and_nothing_else() {
    let data = tempfile::tempdir().unwrap();
    let (mut engine, events) = engine(data.path());
    let (sender, receiver) = channel();
    let on_output = move |_, text: &str| {
        sender.send(text.to_owned()).unwrap();
        panic!("on purpose");
    };
    let script = "trap '' TERM; echo $$; while :; do sleep 1000; done";
    let broken = engine
        .execute_as("broken", Command::shell(script).on_output(on_output))
        .unwrap();
    assert!(broken.wait().unwrap_err().is_gone());
    group_in(&receiver.recv_timeout(CEILING).unwrap()).until_empty();
    let sound = engine.execute_as("sound", Command::new("true")).unwrap();
    assert!(sound.wait().unwrap().is_success());
    let report = engine.shutdown();
    assert_eq!(report.panicked.len(), 1, "{report:?}");
    assert!(report.left.is_empty(), "{report:?}");
    let ended = |envelope: &Envelope| matches!(envelope.event, TdEvent::ExecutionCompleted { .. });
    assert_eq!(remaining(events).into_iter().filter(ended).count(), 1);
    assert_eq!(state(data.path(), "sound")["state"], "completed");
    // Its end was not observed.
    assert_eq!(state(data.path(), "broken")["state"], "detached");
}

#[test]
fn a_command_with_a_dropped_handle_runs_to_its_end() {
    let data = tempfile::tempdir().unwrap();
    let (mut engine, events) = engine(data.path());
    drop(
        engine
            .execute_as("alone", Command::shell("sleep 0.2; echo done"))
            .unwrap(),
    );
    let done = engine.done();
    assert!(
        done.recv_timeout(CEILING)
            .is_err_and(|why| why.is_disconnected())
    );
    engine.shutdown();
    assert_eq!(text_of(&remaining(events), "stdout"), "done\n");
    assert_eq!(state(data.path(), "alone")["state"], "completed");
}

/// A command with a grandchild; returns its group once both run.
#[track_caller]
fn start_group(engine: &mut Engine) -> Group {
    let (sender, receiver) = channel();
    let on_output = move |_, text: &str| sender.send(text.to_owned()).unwrap();
    let script = "sleep 1000 & echo $$; wait";
    let command = Command::shell(script).on_output(on_output);
    engine.execute_as("long", command).unwrap();
    group_in(&receiver.recv_timeout(CEILING).unwrap())
}

/// An early `?` or a panic leaves no process and no open run.
#[test]
fn a_dropped_engine_ends_its_jobs_and_closes_its_runs() {
    for panics in [false, true] {
        let data = tempfile::tempdir().unwrap();
        let (sender, group) = channel();
        let ended = catch_unwind(AssertUnwindSafe(|| -> Result<(), Error> {
            let (mut engine, _events) = engine(data.path());
            let own = engine.emitter_for("own", Default::default())?;
            own.warning("work", "began");
            sender.send(start_group(&mut engine)).unwrap();
            assert!(!panics, "on purpose");
            engine.execute_as("long", Command::new("true")).map(drop)
        }));
        assert_eq!(ended.is_err(), panics, "{ended:?}");
        // Before the engine is gone, so that nothing is left when the program ends.
        let group = group.recv().unwrap();
        assert_eq!(group.members(), [""; 0]);
        assert_eq!(end_of(&kept_of(data.path(), "long")), (None, Some(15)));
        assert_eq!(state(data.path(), "long")["state"], "failed");
        assert_eq!(state(data.path(), "own")["state"], "detached");
        assert_eq!(kept_of(data.path(), "own").len(), 1);
    }
}

#[test]
fn two_jobs_under_one_id_are_refused_while_the_first_runs() {
    let data = tempfile::tempdir().unwrap();
    let (mut engine, _events) = engine(data.path());
    let group = start_group(&mut engine);
    let refused = engine.execute_as("long", Command::new("true"));
    let error = refused.unwrap_err();
    assert!(error.is_invalid_input(), "{error:?}");
    assert!(error.to_string().contains("a job long runs"), "{error}");
    let agents = td_observe::AgentWatch::new()
        .path(data.path().join("a.output"))
        .unwrap()
        .execution_id("long");
    assert!(engine.watch_agents(agents).unwrap_err().is_invalid_input());
    let other = engine.execute_as("other", Command::new("true")).unwrap();
    other.wait().unwrap();
    // Its id is free once it has ended.
    let again = engine.execute_as("other", Command::new("true")).unwrap();
    again.wait().unwrap();
    engine.shutdown();
    group.until_empty();
}

#[test]
fn a_handle_tells_the_run_and_the_end_without_waiting() {
    let data = tempfile::tempdir().unwrap();
    let (mut engine, _events) = engine(data.path());
    let command = Command::shell("trap 'exit 3' TERM; echo $$; while :; do sleep 0.01; done");
    let (sender, receiver) = channel();
    let mut job = engine
        .execute(command.on_output(move |_, text: &str| sender.send(text.to_owned()).unwrap()))
        .unwrap();
    let id = job.execution_id().unwrap().clone();
    assert!(id.as_str().starts_with("sh@"), "{id}");
    let group = group_in(&receiver.recv_timeout(CEILING).unwrap());
    assert!(job.try_wait().unwrap().is_none());
    assert!(
        job.wait_timeout(Duration::from_millis(1))
            .unwrap()
            .is_none()
    );
    job.control().end(15);
    let ceiling = Clock::system().after(CEILING);
    select! {
        recv(job.done()) -> end => assert!(end.is_err()),
        recv(ceiling) -> _ => panic!("it does not end"),
    }
    group.until_empty();
    assert_eq!(job.try_wait().unwrap().unwrap().code(), 3);
    assert_eq!(job.wait_timeout(CEILING).unwrap().unwrap().code(), 3);
    assert_eq!(job.wait().unwrap().code(), 3);

    let mut missing = engine.execute(Command::new("td-no-such-program")).unwrap();
    assert!(missing.execution_id().unwrap_err().is_gone());
    assert!(
        missing
            .wait_timeout(CEILING)
            .unwrap_err()
            .is_missing_program()
    );
    assert!(missing.try_wait().unwrap_err().is_missing_program());
    assert!(missing.wait().unwrap_err().is_missing_program());
    // The log's thread may write the end after the job's is known.
    engine.shutdown();
    assert_eq!(end_of(&kept_of(data.path(), id.as_str())), (Some(3), None));
}
