//! A thousand commands: each output is complete, and no resource is leaked.

use std::collections::BTreeMap;
use std::time::Duration;

use td_observe::process::Command;
use td_observe::{Builder, Delivery, SubscribeOptions, TdEvent};

use crate::resources::{Held, children_of};
use crate::support::{CEILING, wait_for};

const COMMANDS: usize = 1000;

/// The memory growth allowed for all commands together: their runs and the reserve of the allocator.
const LEFT_KB: u64 = 32 * 1024;

/// Runs the test of this name in its own process, because simultaneous tests in this one have children,
/// threads and files, too. Returns true in that process.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "TD_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let name = format!("process::many::{test}");
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name.as_str(), "--exact", "--nocapture"])
        .env(ALONE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{name}: {status}");
    false
}

/// Waits until this process holds no more resources than before.
#[track_caller]
fn until_holds(before: Held) {
    wait_for("the end of threads and files", CEILING, || {
        let now = Held::here();
        if now.threads <= before.threads && now.descriptors <= before.descriptors {
            Ok(())
        } else {
            Err((before, now))
        }
    });
    let children = children_of(std::process::id());
    assert!(children.is_empty(), "{children:?}");
    let grown = Held::here().rss_kb.saturating_sub(before.rss_kb);
    assert!(grown < LEFT_KB, "{grown} kB");
}

/// A short command, at most 200 per second: a run's log is closed one second after its end, and at most
/// 236 are open at once.
fn echo(number: usize) -> Command {
    Command::shell(format!("echo begin; sleep 0.005; echo {number}"))
}

#[test]
fn an_engine_runs_a_thousand_commands() {
    if !is_alone("an_engine_runs_a_thousand_commands") {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let mut engine = Builder::new().data_dir(data.path()).start().unwrap();
    let mut events = engine.subscribe_with(SubscribeOptions {
        capacity: Some(1_000_000),
        ..SubscribeOptions::default()
    });
    engine.execute(echo(0)).unwrap().wait().unwrap();
    let before = Held::here();
    for number in 1..=COMMANDS {
        let outcome = engine.execute(echo(number)).unwrap().wait().unwrap();
        assert!(outcome.is_success(), "{number}: {outcome:?}");
    }
    until_holds(before);
    let report = engine.shutdown();
    assert!(
        report.left.is_empty() && report.panicked.is_empty(),
        "{report:?}"
    );
    let log = report.log.unwrap();
    assert!(log.lost.is_empty() && log.problems.is_empty(), "{log:?}");

    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    while let Ok(delivery) = events.recv() {
        let Delivery::Event(envelope) = delivery else {
            panic!("{delivery:?}");
        };
        if let TdEvent::ExecutionOutput { text, .. } = &envelope.event {
            *texts
                .entry(envelope.event.execution_id().to_owned())
                .or_default() += text;
        }
    }
    let mut numbers: Vec<usize> = Vec::new();
    for (id, text) in &texts {
        let number = text
            .strip_prefix("begin\n")
            .and_then(|rest| rest.strip_suffix('\n'));
        numbers.push(
            number
                .unwrap_or_else(|| panic!("{id}: {text:?}"))
                .parse()
                .unwrap(),
        );
        assert_eq!(
            super::text_of(&super::kept_of(data.path(), id), "stdout"),
            *text
        );
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..=COMMANDS).collect::<Vec<_>>());
}

#[test]
fn a_thousand_commands_are_collected() {
    if !is_alone("a_thousand_commands_are_collected") {
        return;
    }
    echo(0).output().unwrap();
    let before = Held::here();
    for number in 1..=COMMANDS {
        let output = echo(number)
            .timeout(Duration::from_secs(60))
            .output()
            .unwrap();
        assert!(output.outcome.is_success(), "{number}: {output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text, format!("begin\n{number}\n"));
    }
    until_holds(before);
}

#[test]
fn commands_that_time_out_leak_nothing() {
    if !is_alone("commands_that_time_out_leak_nothing") {
        return;
    }
    let stubborn = || {
        let command = Command::shell("trap '' TERM; sleep 1000 & sleep 1000; :");
        command
            .timeout(Duration::from_millis(20))
            .grace(Duration::from_millis(20))
    };
    stubborn().output().unwrap();
    let before = Held::here();
    for _ in 0..20 {
        assert!(stubborn().output().unwrap().outcome.timed_out);
    }
    until_holds(before);
}
