//! Pairs of equal work, with and without observation: an upper bound of the mean overhead.
//!
//! The order alternates, and the judged value is the one-sided 95 % bound of the mean (Student's t). The
//! same work paired with itself shows the noise of the machine. If other processes are busy, more pairs
//! are measured, and only those with the least other load count, whatever their result.

use std::time::Instant;

use super::cpu::{busy_ms, children_ms, own_ms};
use super::stats::percentile;
use super::table::{Bar, Row, Table};

const PAIRS: usize = 20;
/// The most pairs to measure while other processes are busy; the quietest ones count.
const PAIRS_MAX: usize = 40;
/// The processor load of other processes, as a fraction of one processor, that still counts as quiet.
const QUIET: f64 = 0.1;
/// Student's t for 19 degrees of freedom: 95 % are below, one-sided.
const T_ONE_SIDED: f64 = 1.729;
const OVERHEAD_BAR: f64 = 0.03;

/// Adds rows for observed work beside the same work unobserved; each closure returns its seconds.
pub fn row(table: &mut Table, what: &str, plain: &dyn Fn() -> f64, observed: &dyn Fn() -> f64) {
    let rounds = quiet_rounds(plain, observed);
    let others: Vec<f64> = rounds.iter().map(|round| round.others).collect();
    eprintln!(
        "others took {:.0} % of a processor meanwhile, {:.0} % at most",
        percentile(&others, 0.5) * 100.0,
        percentile(&others, 1.0) * 100.0
    );
    let paired = |of: fn(&Round) -> (f64, f64)| {
        let pairs: Vec<(f64, f64)> = rounds.iter().map(of).collect();
        Paired::of(&pairs)
    };
    let wall = paired(|round| (round.observed.0, round.plain.0));
    let equal = paired(|round| (round.again.0, round.plain.0));
    let cpu = paired(|round| (round.observed.1, round.plain.1));
    table.row(&Row {
        what,
        ours: format!(
            "{:.3} s: {}; processor {:+.0} ms",
            wall.ours,
            wall.shown(),
            (cpu.ours - cpu.theirs) * 1e3
        ),
        instead: format!("unobserved: {:.3} s; again: {}", wall.theirs, equal.shown()),
        ratio: Some(wall.mean),
        bar: Bar::Stated("at most +3 %", wall.bound <= 1.0 + OVERHEAD_BAR),
    });
}

/// The comparison of two sides: the first divided by the second.
struct Paired {
    /// The mean of the ratios, and its bound.
    mean: f64,
    bound: f64,
    /// Means, in s.
    ours: f64,
    theirs: f64,
}

impl Paired {
    fn of(pairs: &[(f64, f64)]) -> Self {
        let count = pairs.len() as f64;
        let mean = |one: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(one).sum::<f64>() / count;
        let ratio = mean(&|pair| pair.0 / pair.1);
        let squares = mean(&|pair| (pair.0 / pair.1 - ratio).powi(2));
        let error = (squares / (count - 1.0)).sqrt();
        Self {
            mean: ratio,
            bound: ratio + T_ONE_SIDED * error,
            ours: mean(&|pair| pair.0),
            theirs: mean(&|pair| pair.1),
        }
    }

    fn shown(&self) -> String {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        format!(
            "{:+.1} %, at most {:+.1} %",
            percent(self.mean),
            percent(self.bound)
        )
    }
}

/// One round: for each side the elapsed seconds and the processor seconds of all its processes.
struct Round {
    plain: (f64, f64),
    observed: (f64, f64),
    again: (f64, f64),
    /// The processor time that other processes took meanwhile, as a fraction of one processor.
    others: f64,
}

/// Returns the rounds with the least load of other processes.
fn quiet_rounds(plain: &dyn Fn() -> f64, observed: &dyn Fn() -> f64) -> Vec<Round> {
    let both = |run: &dyn Fn() -> f64| {
        let before = own_ms() + children_ms();
        (run(), (own_ms() + children_ms() - before) / 1e3)
    };
    let (mut rounds, mut quiet) = (Vec::new(), 0);
    while quiet < PAIRS && rounds.len() < PAIRS_MAX {
        let (began, busy, used) = (Instant::now(), busy_ms(), own_ms() + children_ms());
        let mut took = [(0.0, 0.0); 3];
        // Each side runs first, second and last, and before and after each other one.
        let turn = match rounds.len() % 6 {
            0 => [0, 1, 2],
            1 => [2, 1, 0],
            2 => [1, 0, 2],
            3 => [2, 0, 1],
            4 => [0, 2, 1],
            _ => [1, 2, 0],
        };
        for which in turn {
            took[which] = both(if which == 1 { observed } else { plain });
        }
        let used = own_ms() + children_ms() - used;
        let others = (busy_ms() - busy - used) / 1e3 / began.elapsed().as_secs_f64();
        if took.iter().any(|took| took.0.is_infinite()) {
            continue;
        }
        quiet += usize::from(others < QUIET);
        rounds.push(Round {
            plain: took[0],
            observed: took[1],
            again: took[2],
            others,
        });
    }
    rounds.sort_by(|one, other| one.others.total_cmp(&other.others));
    rounds.truncate(PAIRS);
    rounds
}
