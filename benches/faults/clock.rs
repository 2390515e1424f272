//! A wall clock that jumps back and forth by an hour while events are emitted and the log rotates by age.

use std::time::Duration;

use td_observe::event::OutputStream;
use td_observe::history::{Rotation, RunInfo};
use td_observe::{Builder, Clock, FakeClock, Timestamp};

use crate::log_check::{Witnesses, check};
use crate::program::{Place, RUN};
use crate::{Leftovers, Tally};

const HOUR_MICROS: i64 = 3_600_000_000;

/// The lines between two jumps.
const LINES: u64 = 50;

/// Lets the clock jump in each round, alternately forth and back.
pub fn jumps(rounds: usize) -> Tally {
    let place = Place::new();
    let fake = FakeClock::new();
    fake.set_wall(Clock::system().wall());
    let rotation = Rotation {
        bytes_max: 64 * 1024,
        age_max: Some(Duration::from_secs(1800)),
    };
    let engine = Builder::new()
        .data_dir(place.data())
        .rotation(rotation)
        .clock(fake.clock())
        .start()
        .unwrap();
    let emitter = engine.emitter_for(RUN, RunInfo::default()).unwrap();
    let mut number = 0_u64;
    for round in 0..rounds {
        for _ in 0..LINES {
            number += 1;
            emitter.execution_output(OutputStream::Stdout, &format!("line {number}\n"));
        }
        let step = if round % 2 == 0 {
            HOUR_MICROS
        } else {
            -HOUR_MICROS
        };
        let wall = fake.clock().wall().micros();
        fake.set_wall(Timestamp::from_micros(wall + step));
        fake.advance(Duration::from_millis(20));
    }
    drop(emitter);
    engine.shutdown();
    let findings = check(&place.run(), Witnesses::default());
    Tally {
        rounds,
        lost_lines: findings.lost_lines + number.abs_diff(findings.lines),
        missing_numbers: findings.missing_numbers,
        left: Leftovers::at(&place),
        wrong_ends: 0,
    }
}
