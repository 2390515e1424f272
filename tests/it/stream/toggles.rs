//! The user's own pipe takes precedence: keys that toggle `pipe-pane -o` work beside the observer.

use std::fs;

use td_observe::TdEvent;

use super::{drains, piped, streamed, wait_until_drains_are_gone, wait_until_streamed};
use crate::faults::{Counted, Counting};
use crate::observed::{Observed, Replay, shown};
use crate::support::{CEILING, TmuxServer, wait_for};

/// The number of panes to toggle, one after the other.
const PANES: usize = 10;

fn pipe_news(observed: &Observed) -> Vec<String> {
    let of_pipe = |envelope: &td_observe::Envelope| match &envelope.event {
        TdEvent::Warning {
            context, message, ..
        } if context == "pipe" => Some(message.clone()),
        _ => None,
    };
    observed.seen.iter().filter_map(of_pipe).collect()
}

/// Waits until a line of the pane's program has settled.
fn until_line(observed: &mut Observed, pane: &str, number: u64) {
    let line = format!("line {number}.");
    observed.until(&line, |seen| {
        Replay::of(seen, pane).texts().contains(&line.as_str())
    });
}

#[test]
fn a_toggle_works_at_its_second_press_while_output_flows() {
    let server = TmuxServer::new();
    server.new_session("keeper", 60, 12, "exec cat");
    let mut observed = streamed(&server);
    observed.until_started(1);
    for round in 0..PANES {
        let program = Counting::new(&server, &format!("program{round}"), "0.005");
        let pane = server.new_session(&format!("toggled{round}"), 60, 12, &program.command());
        wait_until_streamed(&server, 2);
        let printed = program.until_more(20);
        until_line(&mut observed, &pane, printed);
        let theirs = server.directory().join(format!("theirs{round}"));
        let pipe = format!("exec cat >> '{}'", theirs.display());
        let press = || server.tmux(&["pipe-pane", "-o", "-t", &pane, &pipe]);
        let is_piped = || server.tmux(&["display-message", "-p", "-t", &pane, "#{pane_pipe}"]);

        press();
        assert_eq!(is_piped(), "0", "the first press closes ours");
        // Long enough for an observer that would take the pipe back.
        let printed = program.until_more(100);
        until_line(&mut observed, &pane, printed);
        assert_eq!(is_piped(), "0", "and it stays free");
        let before = printed;
        press();
        assert_eq!(is_piped(), "1", "the second press opens the user's");
        let pressed = program.until_more(0);
        let printed = program.until_more(100);
        until_line(&mut observed, &pane, printed);
        program.end();
        observed.until("the last line", |seen| {
            Replay::of(seen, &pane).texts().contains(&"the end")
        });

        // The user's file has every line from the second press on.
        let last = program.printed();
        let file = wait_for("the user's file", CEILING, || {
            let file = fs::read_to_string(&theirs).unwrap_or_default();
            if file.contains("the end") {
                Ok(file)
            } else {
                Err(file)
            }
        });
        let numbers: Vec<u64> = file
            .lines()
            .filter_map(|line| line.strip_prefix("line ")?.strip_suffix('.')?.parse().ok())
            .collect();
        let first = numbers[0];
        assert!(
            (before..=pressed + 2).contains(&first),
            "{first} of {before} to {pressed}"
        );
        assert!(numbers.iter().copied().eq(first..=last), "{numbers:?}");
        // The observer has all lines.
        let counted = Counted::of(&observed.replay(&pane), &["the end"]);
        assert_eq!(counted.settled.end, last + 1, "{}", shown(&observed.seen));
        assert_eq!(counted.missing, []);
        server.tmux(&["kill-pane", "-t", &pane]);
    }
    let news = pipe_news(&observed);
    let of = |what: &str| news.iter().filter(|news| news.contains(what)).count();
    assert_eq!(of("closed our pipe"), PANES, "{news:#?}");
    assert_eq!(of("is piped by another program"), PANES, "{news:#?}");
    // The user's pipe may close when its pane is killed.
    let closed = of("has closed");
    assert!(closed <= PANES, "{news:#?}");
    assert_eq!(
        news.len(),
        2 * PANES + closed,
        "each is reported once: {news:#?}"
    );
    assert!(drains(&server).len() <= 1, "the keeper's");
    observed.stop();
    wait_until_drains_are_gone(&server);
}

#[test]
fn a_pane_whose_pipe_was_replaced_is_polled_and_left_alone_after_its_end() {
    let server = TmuxServer::new();
    let program = Counting::new(&server, "program", "0.005");
    let pane = server.new_session("replaced", 60, 12, &program.command());
    let mut observed = streamed(&server);
    wait_until_streamed(&server, 1);
    let printed = program.until_more(20);
    until_line(&mut observed, &pane, printed);
    server.tmux(&["pipe-pane", "-t", &pane, "exec cat >/dev/null"]);
    observed.until("what became of our pipe", |seen| {
        let replaced = |e: &td_observe::Envelope| {
            matches!(&e.event, TdEvent::Warning { message, .. } if message.contains("replaced our pipe"))
        };
        seen.iter().any(replaced)
    });
    server.tmux(&["pipe-pane", "-t", &pane]);
    observed.until("the end of the other pipe", |seen| {
        let closed = |e: &td_observe::Envelope| {
            matches!(&e.event, TdEvent::Warning { message, .. } if message.contains("has closed"))
        };
        seen.iter().any(closed)
    });
    let printed = program.until_more(200);
    until_line(&mut observed, &pane, printed);
    assert_eq!(piped(&server), "0", "it stays free");
    assert_eq!(pipe_news(&observed).len(), 2);
    program.end();
    observed.until_line("the end");
    observed.stop();
    let counted = Counted::of(&observed.replay(&pane), &["the end"]);
    assert_eq!(
        (counted.settled.end, counted.missing),
        (program.printed() + 1, vec![])
    );
    wait_until_drains_are_gone(&server);
}
