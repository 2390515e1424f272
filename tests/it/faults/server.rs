//! A server that is replaced before the observer has noticed its end.

use std::os::unix::net::UnixStream;

use rustix::process::{Signal, kill_process};
use td_observe::TdEvent;

use super::{Counted, Counting, end_of, of_run, runs_of};
use crate::observed::{Observed, Replay};
use crate::support::{CEILING, TmuxServer, wait_for};

/// Kills a server under a counting pane and starts another in its place before the next capture. Returns
/// the reported reason for the end of the first session.
fn replaced() -> String {
    let server = TmuxServer::new();
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("job", 60, 12, &program.command());
    let mut observed = Observed::all(&server);
    observed.until_started(1);
    let printed = program.until_more(5);
    observed.until_line(&format!("line {printed}."));
    server.will_be_killed();
    kill_process(server.pid(), Signal::KILL).unwrap();
    wait_for("the end of the server", CEILING, || {
        UnixStream::connect(server.socket()).map_or(Ok(()), |_| Err("it is there"))
    });
    let again = Counting::new(&server, "again", "0.01");
    assert_eq!(server.new_session("job", 60, 12, &again.command()), pane);
    observed.until_started(2);
    again.until_more(5);
    again.end();
    observed.until_line("the end");
    observed.stop();
    let runs = runs_of(&observed.seen, "job");
    // Often created in the same second: then the names differ by a number only.
    assert_ne!(runs[0], runs[1]);
    assert_eq!(observed.logs().len(), 2);
    let first = of_run(&observed.seen, &runs[0]);
    let last = &first.last().unwrap().event;
    assert!(matches!(last, TdEvent::SessionEnded { .. }), "{last:?}");
    assert_eq!(Counted::of(&Replay::of(&first, &pane), &[]).missing, []);
    let second = Replay::of(&of_run(&observed.seen, &runs[1]), &pane);
    let counted = Counted::of(&second, &["the end"]);
    assert_eq!(
        (counted.settled, counted.missing),
        (1..again.printed() + 1, vec![])
    );
    end_of(&first)
}

#[test]
fn a_server_that_is_replaced_between_two_captures_has_another_run() {
    // `server_gone` if a capture happened in between.
    let reason = replaced();
    assert!(["server_gone", "closed"].contains(&&*reason), "{reason}");
}

#[test]
fn a_server_that_is_replaced_between_two_captures_is_reported_as_gone() {
    assert_eq!(replaced(), "server_gone");
}
