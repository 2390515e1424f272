//! The table of the README, printed row by row as the figures are measured.

#![allow(clippy::print_stdout)]

/// The bar of a figure.
#[derive(Clone, Copy, Debug)]
pub enum Bar<'a> {
    None,
    /// Our value divided by theirs must be at most this.
    AtMost(f64),
    /// Our value divided by theirs must be at least this.
    AtLeast(f64),
    /// Another condition, in words, and true if it is met.
    Stated(&'a str, bool),
}

#[derive(Debug)]
pub struct Row<'a> {
    pub what: &'a str,
    pub ours: String,
    pub instead: String,
    /// Our value divided by theirs.
    pub ratio: Option<f64>,
    pub bar: Bar<'a>,
}

/// Prints the rows; the first one prints the header.
#[derive(Debug, Default)]
pub struct Table {
    begun: bool,
    missed: usize,
}

impl Table {
    pub fn row(&mut self, row: &Row<'_>) {
        if !self.begun {
            self.begun = true;
            println!("| what | td-observe | what one would take instead | ratio | bar | met |");
            println!("| --- | --- | --- | --- | --- | --- |");
        }
        let (bar, met) = match (row.bar, row.ratio) {
            (Bar::None, _) => (String::new(), None),
            (Bar::AtMost(bar), Some(ratio)) => (format!("≤ {}", shown(bar)), Some(ratio <= bar)),
            (Bar::AtLeast(bar), Some(ratio)) => (format!("≥ {}", shown(bar)), Some(ratio >= bar)),
            (Bar::AtMost(bar) | Bar::AtLeast(bar), None) => (shown(bar), Some(false)),
            (Bar::Stated(bar, met), _) => (bar.to_owned(), Some(met)),
        };
        self.missed += usize::from(met == Some(false));
        // A bar would end the cell.
        let [what, ours, instead] =
            [row.what, &row.ours, &row.instead].map(|cell| cell.replace('|', "\\|"));
        println!(
            "| {what} | {ours} | {instead} | {} | {bar} | {} |",
            row.ratio.map_or(String::new(), shown),
            match met {
                None => "",
                Some(true) => "yes",
                Some(false) => "**no**",
            }
        );
    }

    pub fn missed(&self) -> usize {
        self.missed
    }
}

/// Formats a ratio; small ones as a fraction.
fn shown(ratio: f64) -> String {
    if ratio > 0.0 && ratio < 0.2 {
        let part = 1.0 / ratio;
        let digits = usize::from(part < 100.0 && part.fract() != 0.0);
        format!("1/{part:.digits$}")
    } else if ratio < 10.0 {
        format!("{ratio:.2}")
    } else {
        format!("{ratio:.0}")
    }
}
