//! `run` of a flooding command, killed repeatedly while its log rotates.

use std::time::Duration;

use crate::log_check::{Witnesses, check};
use crate::program::{Place, RUN, kill};
use crate::support::{CEILING, Dice, wait_for, within};
use crate::{Leftovers, Tally};

/// Prints numbered lines until its reader is gone.
const FLOOD: &str = "i=1; while seq -f 'line %.0f' $i $((i+99)); do i=$((i+100)); done 2>/dev/null";

/// The longest time from the first new line of the log to the kill.
const LIFE_MS: u64 = 60;

/// Kills a `run` in each round; the next one continues its log.
pub fn killed(rounds: usize) -> Tally {
    let place = Place::new();
    let mut dice = Dice(1);
    let mut witnesses = Witnesses::default();
    let mut last = 0;
    let arguments = [
        "run",
        "--execution-id",
        RUN,
        "--rotate-size",
        "32k",
        "--",
        "sh",
        "-c",
        FLOOD,
    ];
    for _ in 0..rounds {
        let child = place.command(&arguments).spawn().unwrap();
        wait_for(
            "new events in the log",
            CEILING,
            || match Witnesses::default().note(&place.run()) {
                seq if seq > 0 && seq != last => Ok(()),
                seq => Err(seq),
            },
        );
        // The time of the kill is random; no condition depends on it.
        let _ = within(Duration::from_millis(dice.roll(LIFE_MS)), || {
            Err::<(), ()>(())
        });
        kill(child);
        last = witnesses.note(&place.run());
    }
    let findings = check(&place.run(), witnesses);
    Tally {
        rounds,
        lost_lines: findings.lost_lines,
        missing_numbers: findings.missing_numbers,
        // Text of an earlier compression may be waiting for the next one, which removes it.
        left: Leftovers::at(&place),
        wrong_ends: u64::from(findings.lines == 0),
    }
}
