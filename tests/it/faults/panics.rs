//! Pollers that panic while panes print: they restart, and nothing is reported twice.

use td_observe::tmux::Target;
use td_observe::{Envelope, TdEvent};

use super::{Counted, Counting};
use crate::logger::panic_at_opening;
use crate::observed::{Observed, Replay, shown};
use crate::support::TmuxServer;

/// The number of consecutive panics of a poller.
const PANICS: usize = 3;

/// Waits until the poller has restarted after its last panic.
#[track_caller]
fn until_back(observed: &mut Observed) {
    observed.until("the poller's last return", |seen| {
        let restarted = |envelope: &&Envelope| {
            matches!(&envelope.event, TdEvent::PollerRestarted { cause, .. } if cause == "on purpose")
        };
        seen.iter().filter(restarted).count() == PANICS
    });
}

#[test]
fn panics_on_one_pane_do_not_affect_other_panes() {
    let server = TmuxServer::new();
    let programs = ["before", "broken", "after"].map(|name| Counting::new(&server, name, "0.02"));
    let first = server.new_session("panics-1", 60, 12, &programs[0].command());
    let [_, second, third] = &programs;
    let [second, third] = [second, third].map(|program| {
        let window = [
            "new-window",
            "-d",
            "-t",
            "=panics-1:",
            "-P",
            "-F",
            "#{pane_id}",
        ];
        let command = program.command();
        let args: Vec<&str> = window.into_iter().chain([command.as_str()]).collect();
        server.tmux(&args)
    });
    panic_at_opening("panics-1", &second, PANICS);
    let mut observed = Observed::start(&server, |watch| {
        let targets = [first.as_str(), "panics-1:broken", third.as_str()];
        targets.iter().fold(watch, |watch, text| {
            watch.target(Target::parse(text).unwrap())
        })
    });
    observed.until_started(1);
    for program in [&programs[0], &programs[2]] {
        let printed = program.until_more(5);
        observed.until_line(&format!("line {printed}."));
    }
    // Now the pane between them must be observed, too.
    server.tmux(&["rename-window", "-t", &second, "broken"]);
    until_back(&mut observed);
    observed.until("a line of it", |seen| {
        !Replay::of(seen, &second).settled.is_empty()
    });
    for program in &programs {
        program.until_more(5);
        program.end();
    }
    let panes = [&first, &second, &third];
    observed.until("the end of all", |seen| {
        panes
            .iter()
            .all(|pane| Replay::of(seen, pane).texts().contains(&"the end"))
    });
    observed.stop();
    for (pane, program) in panes.into_iter().zip(&programs) {
        let counted = Counted::of(&observed.replay(pane), &["the end"]);
        assert_eq!(counted.missing, [], "{pane}: {}", shown(&observed.seen));
        assert_eq!(counted.settled.end, program.printed() + 1);
    }
}

#[test]
fn after_panics_in_the_middle_of_output_reporting_resumes_at_the_same_line() {
    let server = TmuxServer::new();
    let program = Counting::new(&server, "program", "0.02");
    let pane = server.new_session("panics-2", 60, 12, &program.command());
    let mut observed = Observed::all(&server);
    observed.until_started(1);
    let printed = program.until_more(20);
    observed.until_line(&format!("line {printed}."));
    observed.stop();
    // Lines of the pane were reported, and it continues to print.
    panic_at_opening("panics-2", &pane, PANICS);
    let mut again = Observed::all(&server);
    until_back(&mut again);
    program.until_more(5);
    program.end();
    again.until_line("the end");
    again.stop();
    let logs = again.logs();
    assert_eq!(logs.len(), 1);
    let log = logs.values().next().unwrap();
    let counted = Counted::of(&Replay::of(log, &pane), &["the end"]);
    assert_eq!(counted.missing, [], "{}", shown(log));
    assert_eq!(counted.settled.end, program.printed() + 1);
    assert!(counted.settled.start <= printed);
}
