//! A streaming `watch` of a flooding pane: the observer is killed or stopped, or the tmux server is
//! killed.

use std::process::Child;
use std::time::Duration;

use rustix::process::Signal;

use crate::log_check::{Witnesses, check};
use crate::program::{Place, RUN, kill, signal};
use crate::support::{CEILING, Dice, TmuxServer, wait_for, within};
use crate::{Leftovers, Tally};

/// Prints thousands of numbered lines per second, without end.
const FLOOD: &str =
    "i=1; while :; do seq -f 'line %.0f' $i $((i+99)); i=$((i+100)); sleep 0.02; done";

/// The longest time from the first new line of the log to the fault, in milliseconds.
const LIFE_MS: u64 = 80;

/// The time that an observer is stopped, in milliseconds.
const STOPPED_MS: u64 = 400;

fn pause(ms: u64) {
    // The time of a fault is random; no condition depends on it.
    let _ = within(Duration::from_millis(ms), || Err::<(), ()>(()));
}

fn watch(place: &Place, server: &TmuxServer) -> Child {
    let socket = server.socket().display().to_string();
    let arguments = [
        "-S",
        &socket,
        "watch",
        "job",
        "--execution-id",
        RUN,
        "--rotate-size",
        "256k",
    ];
    place.command(&arguments).spawn().unwrap()
}

/// Waits until the number of the log's last event differs from this one; returns the new number.
fn until_written(place: &Place, last: u64) -> u64 {
    wait_for(
        "new events in the log",
        CEILING,
        || match Witnesses::default().note(&place.run()) {
            seq if seq > 0 && seq != last => Ok(seq),
            seq => Err(seq),
        },
    )
}

/// Stops the last watch cleanly, and counts the losses of all rounds.
fn finish(rounds: usize, place: &Place, mut child: Child, witnesses: Witnesses) -> Tally {
    signal(&child, Signal::INT);
    let status = wait_for("the end of the watch", CEILING, || {
        child.try_wait().unwrap().ok_or("it still runs")
    });
    let findings = check(&place.run(), witnesses);
    Tally {
        rounds,
        lost_lines: findings.lost_lines,
        missing_numbers: findings.missing_numbers,
        left: Leftovers::at(place),
        wrong_ends: u64::from(!status.success()) + u64::from(findings.lines == 0),
    }
}

/// Kills a `watch` in each round; the next one continues its log.
pub fn observer_killed(rounds: usize) -> Tally {
    let (place, server) = (Place::new(), TmuxServer::new());
    server.new_session("job", 80, 24, FLOOD);
    let (mut dice, mut witnesses, mut last) = (Dice(2), Witnesses::default(), 0);
    for _ in 0..rounds {
        let child = watch(&place, &server);
        until_written(&place, last);
        pause(dice.roll(LIFE_MS));
        kill(child);
        last = witnesses.note(&place.run());
    }
    let child = watch(&place, &server);
    until_written(&place, last);
    finish(rounds, &place, child, witnesses)
}

/// Kills the tmux server in each round under a `watch` of its session.
pub fn server_killed(rounds: usize) -> Tally {
    let mut total = Tally {
        rounds,
        ..Tally::default()
    };
    let (mut dice, mut lines) = (Dice(3), 0);
    for _ in 0..rounds {
        let (place, server) = (Place::new(), TmuxServer::new());
        server.new_session("job", 80, 24, FLOOD);
        let mut child = watch(&place, &server);
        until_written(&place, 0);
        pause(dice.roll(LIFE_MS));
        let mut witnesses = Witnesses::default();
        witnesses.note(&place.run());
        server.kill();
        // Its only target has ended, so the watch ends, too.
        let status = wait_for("the end of the watch", CEILING, || {
            child.try_wait().unwrap().ok_or("it still runs")
        });
        let findings = check(&place.run(), witnesses);
        let left = Leftovers::at(&place);
        lines += findings.lines;
        total.lost_lines += findings.lost_lines;
        total.missing_numbers += findings.missing_numbers;
        total.wrong_ends += u64::from(status.code().is_none());
        total.left.processes += left.processes;
        total.left.sockets += left.sockets;
        total.left.files += left.files;
    }
    // A server may be killed before its pane has printed, but not each time.
    total.wrong_ends += u64::from(lines == 0);
    total
}

/// Stops and continues a `watch` in each round.
pub fn observer_stopped(rounds: usize) -> Tally {
    let (place, server) = (Place::new(), TmuxServer::new());
    server.new_session("job", 80, 24, FLOOD);
    let (mut dice, mut witnesses, mut last) = (Dice(4), Witnesses::default(), 0);
    let child = watch(&place, &server);
    for _ in 0..rounds {
        last = until_written(&place, last);
        signal(&child, Signal::STOP);
        pause(dice.roll(STOPPED_MS));
        witnesses.note(&place.run());
        signal(&child, Signal::CONT);
    }
    until_written(&place, last);
    finish(rounds, &place, child, witnesses)
}
