//! A server with many panes: all of them are captured before their pipes are opened, and no line is lost
//! in between.

use super::{streamed, wait_until_drains_are_gone, wait_until_streamed};
use crate::faults::{Counted, Counting};
use crate::observed::{Observed, Replay, shown};
use crate::support::TmuxServer;

/// More panes than the number of pipes that are opened at once.
const PANES: usize = 24;

/// Waits until each pane has lines that were printed after this call.
#[track_caller]
fn more(observed: &mut Observed, programs: &[(Counting, String)]) {
    for (program, pane) in programs {
        let printed = program.until_more(2);
        let line = format!("line {printed}.");
        observed.until(&format!("{line} of {pane}"), |seen| {
            let replay = Replay::of(seen, pane);
            replay.texts().contains(&line.as_str())
        });
    }
}

#[test]
fn no_line_is_lost_between_the_captures_and_the_pipes() {
    let server = TmuxServer::new();
    let programs: Vec<(Counting, String)> = (0..PANES)
        .map(|number| {
            let name = format!("counting{number}");
            let program = Counting::new(&server, &name, "0.05");
            let pane = server.new_session(&name, 60, 12, &program.command());
            (program, pane)
        })
        .collect();
    for (program, _) in &programs {
        program.until_more(1);
    }
    let mut observed = streamed(&server);
    observed.until_started(PANES);
    more(&mut observed, &programs);
    wait_until_streamed(&server, PANES);
    more(&mut observed, &programs);
    for (program, _) in &programs {
        program.end();
    }
    for (_, pane) in &programs {
        observed.until(&format!("the end of {pane}"), |seen| {
            let replay = Replay::of(seen, pane);
            replay.texts().contains(&"the end")
        });
    }
    observed.stop();
    for (program, pane) in &programs {
        let counted = Counted::of(&observed.replay(pane), &["the end"]);
        assert_eq!(counted.missing, [], "{pane}: {}", shown(&observed.seen));
        assert_eq!(counted.settled.end, program.printed() + 1, "{pane}");
    }
    wait_until_drains_are_gone(&server);
}
