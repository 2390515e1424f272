//! Medians, percentiles, and rounds that alternate.

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the value below which the fraction `part` of all values is.
pub fn percentile(values: &[f64], part: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * part) as usize;
    values[at.min(values.len() - 1)]
}

/// Runs each measurement in turn, so that noise affects all of them; returns the medians.
pub fn rounds<const N: usize>(rounds: usize, measure: [&dyn Fn() -> f64; N]) -> [f64; N] {
    let mut all: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..rounds {
        for (values, measure) in all.iter_mut().zip(measure) {
            values.push(measure());
        }
    }
    all.map(median)
}
