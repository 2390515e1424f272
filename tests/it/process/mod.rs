//! Child processes from outside: real commands, run by the library and by `td-observe run`.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process_group};
use td_observe::history::DataDir;
use td_observe::process::{Command, CommandOutcome};
use td_observe::{Envelope, EventBus, TdEvent};

use crate::observed::read;
use crate::support::{CEILING, wait_for};

mod bytes;
mod ends;
mod engine;
mod left_behind;
mod many;
mod validation;

#[cfg(feature = "cli")]
mod agent;
#[cfg(feature = "cli")]
mod codes;
#[cfg(feature = "cli")]
mod floods;
#[cfg(feature = "cli")]
mod input;
#[cfg(feature = "cli")]
pub mod junit;
#[cfg(feature = "cli")]
mod kept;
#[cfg(feature = "cli")]
mod leaving;
#[cfg(feature = "cli")]
mod live;
#[cfg(feature = "cli")]
mod own_terminal;
#[cfg(feature = "cli")]
pub mod pane;
#[cfg(feature = "cli")]
mod passed;
#[cfg(feature = "cli")]
pub mod program;
#[cfg(feature = "cli")]
mod progress;

/// Runs a command with the library; returns its outcome and its events.
#[track_caller]
fn observed(command: Command) -> (CommandOutcome, Vec<Envelope>) {
    let bus = EventBus::new(100_000);
    let mut events = bus.subscribe();
    let outcome = command.observe(&bus.emitter_for("it")).unwrap();
    let mut seen: Vec<Envelope> = Vec::new();
    loop {
        seen.extend(events.recv_timeout(CEILING).unwrap().into_envelope());
        let last = seen.last().map(|envelope| &envelope.event);
        if matches!(last, Some(TdEvent::ExecutionCompleted { .. })) {
            return (outcome, seen);
        }
    }
}

/// Returns the stored text of a stream.
fn text_of(events: &[Envelope], of: &str) -> String {
    let texts = events.iter().filter_map(|envelope| match &envelope.event {
        TdEvent::ExecutionOutput { stream, text, .. }
            if envelope.seq.is_some() && stream.as_str() == of =>
        {
            Some(text.as_str())
        }
        _ => None,
    });
    texts.collect()
}

/// Returns the final state of each line.
#[cfg(feature = "cli")]
fn lines_of(text: &str) -> Vec<&str> {
    text.split_terminator('\n')
        .map(|line| line.rsplit('\r').next().unwrap_or_default())
        .collect()
}

/// Returns the messages of warnings.
fn warnings(events: &[Envelope]) -> Vec<&str> {
    let messages = events.iter().filter_map(|envelope| match &envelope.event {
        TdEvent::Warning { message, .. } => Some(message.as_str()),
        _ => None,
    });
    messages.collect()
}

/// Returns the exit code and the signal of the last execution.
#[track_caller]
fn end_of(events: &[Envelope]) -> (Option<i32>, Option<i32>) {
    let end = events
        .iter()
        .rev()
        .find_map(|envelope| match envelope.event {
            TdEvent::ExecutionCompleted {
                exit_code, signal, ..
            } => Some((exit_code, signal)),
            _ => None,
        });
    end.unwrap_or_else(|| panic!("it has no end: {}", crate::observed::shown(events)))
}

/// Returns the seconds between two events, by their timestamps.
#[cfg(feature = "cli")]
fn seconds_between(first: &Envelope, second: &Envelope) -> f64 {
    (second.ts.micros() - first.ts.micros()) as f64 / 1e6
}

/// Returns the event that contains a line.
#[cfg(feature = "cli")]
#[track_caller]
fn printing<'a>(events: &'a [Envelope], line: &str) -> &'a Envelope {
    let prints = |envelope: &&Envelope| match &envelope.event {
        TdEvent::ExecutionOutput { text, .. } => text.lines().any(|other| other == line),
        _ => false,
    };
    let found = events.iter().find(prints);
    found.unwrap_or_else(|| panic!("no {line:?}: {}", crate::observed::shown(events)))
}

/// Returns the events of the only run in a data directory, after a check of their numbers.
#[cfg(feature = "cli")]
#[track_caller]
fn kept(data: &Path) -> Vec<Envelope> {
    let mut runs = fs::read_dir(data.join("runs")).unwrap();
    let id = runs.next().unwrap().unwrap().file_name();
    assert!(runs.next().is_none(), "one run only");
    kept_of(data, id.to_str().unwrap())
}

/// Returns the events of a run.
#[track_caller]
fn kept_of(data: &Path, id: &str) -> Vec<Envelope> {
    let events = read(&DataDir::new(data).run(&id.into()));
    for (envelope, number) in events.iter().zip(1..) {
        assert_eq!(envelope.seq, Some(number), "{envelope:?}");
    }
    events
}

/// Returns the group whose number is in the first line of a text, for a command that begins with
/// `echo $$`.
#[track_caller]
fn group_in(text: &str) -> Group {
    let number = text.lines().next().and_then(|line| line.parse().ok());
    Group(Pid::from_raw(number.unwrap_or_else(|| panic!("no number in {text:?}"))).unwrap())
}

/// A process group of a test. Dropping it kills the remaining members.
struct Group(Pid);

impl Group {
    /// Returns its processes with their names, without zombies.
    fn members(&self) -> Vec<String> {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let stats =
            processes.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        let is_member = |stat: &String| {
            // State, parent and group follow the name, which may contain anything.
            let rest = stat.rsplit(')').next().unwrap_or_default();
            let mut fields = rest.split_whitespace();
            let state = fields.next().unwrap_or_default();
            state != "Z" && fields.nth(1) == Some(&self.0.as_raw_nonzero().to_string())
        };
        stats.filter(is_member).collect()
    }

    #[track_caller]
    fn until_empty(&self) {
        wait_for("the end of the group", CEILING, || {
            let members = self.members();
            if members.is_empty() {
                Ok(())
            } else {
                Err(members)
            }
        });
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.members().is_empty() {
            let _ = kill_process_group(self.0, Signal::KILL);
        }
    }
}
