//! Medians, percentiles, and rounds that alternate.

/// The middle value.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The value that `part` of all are below, of 1.
pub fn percentile(values: &[f64], part: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * part) as usize;
    values[at.min(values.len() - 1)]
}

/// Runs each measurement in turn, so that a noisy moment hits all of them; the medians.
pub fn rounds<const N: usize>(rounds: usize, measure: [&dyn Fn() -> f64; N]) -> [f64; N] {
    let mut all: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..rounds {
        for (values, measure) in all.iter_mut().zip(measure) {
            values.push(measure());
        }
    }
    all.map(median)
}
