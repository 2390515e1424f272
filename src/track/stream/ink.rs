//! Styles of characters, as SGR sets them: colours, bold and so on (pure).

use std::fmt::Write;

use avt::Color;
use avt::parser::SgrOp;

/// The style in which characters are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ink {
    foreground: Option<Color>,
    background: Option<Color>,
    /// A bit for each of [`MARKS`] that is set.
    marks: u8,
}

/// The SGR codes of attributes that are not colours.
const MARKS: [u8; 7] = [1, 2, 3, 4, 5, 7, 9];

impl Ink {
    /// Returns true if nothing is set.
    pub fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// Applies one operation of a sequence.
    pub fn take(&mut self, operation: &SgrOp) {
        match *operation {
            SgrOp::Reset => *self = Self::default(),
            SgrOp::SetForegroundColor(colour) => self.foreground = Some(colour),
            SgrOp::ResetForegroundColor => self.foreground = None,
            SgrOp::SetBackgroundColor(colour) => self.background = Some(colour),
            SgrOp::ResetBackgroundColor => self.background = None,
            SgrOp::SetBoldIntensity => self.mark(1, true),
            SgrOp::SetFaintIntensity => self.mark(2, true),
            SgrOp::SetItalic => self.mark(3, true),
            SgrOp::SetUnderline => self.mark(4, true),
            SgrOp::SetBlink => self.mark(5, true),
            SgrOp::SetInverse => self.mark(7, true),
            SgrOp::SetStrikethrough => self.mark(9, true),
            SgrOp::ResetIntensity => {
                self.mark(1, false);
                self.mark(2, false);
            }
            SgrOp::ResetItalic => self.mark(3, false),
            SgrOp::ResetUnderline => self.mark(4, false),
            SgrOp::ResetBlink => self.mark(5, false),
            SgrOp::ResetInverse => self.mark(7, false),
            SgrOp::ResetStrikethrough => self.mark(9, false),
        }
    }

    fn mark(&mut self, code: u8, is_set: bool) {
        for (at, _) in MARKS.iter().enumerate().filter(|(_, mark)| **mark == code) {
            self.marks &= !(1 << at);
            self.marks |= u8::from(is_set) << at;
        }
    }

    /// Returns the parameters that set this style from a plain one; empty for a plain style.
    pub fn sgr(self) -> String {
        let mut sgr = String::new();
        for (at, mark) in MARKS.iter().enumerate() {
            if self.marks & (1 << at) != 0 {
                push(&mut sgr, format_args!("{mark}"));
            }
        }
        for (colour, base) in [(self.foreground, 30), (self.background, 40)] {
            match colour {
                None => {}
                Some(Color::Indexed(number @ ..8)) => {
                    push(&mut sgr, format_args!("{}", base + number))
                }
                Some(Color::Indexed(number @ 8..16)) => {
                    push(&mut sgr, format_args!("{}", base + 60 + number - 8));
                }
                Some(Color::Indexed(number)) => {
                    push(&mut sgr, format_args!("{};5;{number}", base + 8));
                }
                Some(Color::RGB(share)) => {
                    push(
                        &mut sgr,
                        format_args!("{};2;{};{};{}", base + 8, share.r, share.g, share.b),
                    );
                }
            }
        }
        sgr
    }
}

fn push(sgr: &mut String, part: std::fmt::Arguments<'_>) {
    if !sgr.is_empty() {
        sgr.push(';');
    }
    // Writing to a string does not fail.
    let _ = sgr.write_fmt(part);
}

/// The runs of a row that are not plain, in order and without overlaps. A row without styles allocates
/// nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Inks(Vec<Run>);

/// A run of columns or characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub from: usize,
    /// The first one after the run.
    pub to: usize,
    pub ink: Ink,
}

impl Inks {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn runs(&self) -> &[Run] {
        &self.0
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Sets the style of these columns. A plain style removes their runs.
    pub fn set(&mut self, from: usize, to: usize, ink: Ink) {
        if self.0.is_empty() && ink.is_plain() || from >= to {
            return;
        }
        match self.0.last_mut() {
            // Most text is written from left to right.
            Some(last) if last.to == from && last.ink == ink => last.to = to,
            Some(last) if last.to > from => self.set_between(from, to, ink),
            _ if ink.is_plain() => {}
            _ => self.0.push(Run { from, to, ink }),
        }
    }

    fn set_between(&mut self, from: usize, to: usize, ink: Ink) {
        let first = self.0.partition_point(|run| run.to <= from);
        let end = self.0.partition_point(|run| run.from < to).max(first);
        let over = &self.0[first..end];
        let left = over.first().filter(|run| run.from < from);
        let left = left.map(|run| Run { to: from, ..*run });
        let right = over.last().filter(|run| run.to > to);
        let right = right.map(|run| Run { from: to, ..*run });
        let own = (!ink.is_plain()).then_some(Run { from, to, ink });
        self.0
            .splice(first..end, [left, own, right].into_iter().flatten());
    }

    /// Moves `columns` columns. Columns that they leave are plain.
    pub fn shift(&mut self, to: usize, from: usize, columns: usize) {
        if self.0.is_empty() {
            return;
        }
        let end = from + columns;
        let within = |run: &Run| Run {
            from: run.from.max(from),
            to: run.to.min(end),
            ..*run
        };
        let moved: Vec<Run> = self
            .0
            .iter()
            .map(within)
            .filter(|run| run.from < run.to)
            .collect();
        self.set(from, end, Ink::default());
        self.set(to, to + columns, Ink::default());
        for run in moved {
            self.set(run.from - from + to, run.to - from + to, run.ink);
        }
    }

    /// Removes all runs from this column on.
    pub fn truncate(&mut self, end: usize) {
        self.set(end, usize::MAX, Ink::default());
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use proptest::prelude::*;

    fn ink(number: u8) -> Ink {
        let mut ink = Ink::default();
        if number > 0 {
            ink.take(&SgrOp::SetForegroundColor(Color::Indexed(number)));
        }
        ink
    }

    #[test]
    fn sgr_is_written_in_its_shortest_form() {
        let mut ink = Ink::default();
        assert!(ink.is_plain() && ink.sgr().is_empty());
        for operation in [
            SgrOp::SetBoldIntensity,
            SgrOp::SetUnderline,
            SgrOp::SetForegroundColor(Color::Indexed(9)),
            SgrOp::SetBackgroundColor(Color::rgb(1, 2, 255)),
        ] {
            ink.take(&operation);
        }
        assert_eq!(ink.sgr(), "1;4;91;48;2;1;2;255");
        ink.take(&SgrOp::ResetIntensity);
        ink.take(&SgrOp::SetForegroundColor(Color::Indexed(208)));
        ink.take(&SgrOp::ResetBackgroundColor);
        assert_eq!(ink.sgr(), "4;38;5;208");
        ink.take(&SgrOp::Reset);
        assert!(ink.is_plain());
    }

    proptest! {
        /// The runs give each column the style that a row of cells has, in order and without overlaps.
        #[test]
        fn runs_are_as_cells(steps in prop::collection::vec((0_usize..30, 0_usize..30, 0_u8..5, 0_u8..8), 0..40)) {
            let mut cells = vec![Ink::default(); 64];
            let mut inks = Inks::default();
            for (from, count, number, operation) in steps {
                match operation {
                    0 => {
                        inks.shift(number as usize, from, count);
                        let moved: Vec<Ink> = cells[from..from + count].to_vec();
                        cells[from..from + count].fill(Ink::default());
                        cells[number as usize..number as usize + count].copy_from_slice(&moved);
                    }
                    1 => {
                        inks.truncate(from);
                        cells[from..].fill(Ink::default());
                    }
                    _ => {
                        inks.set(from, from + count, ink(number));
                        cells[from..from + count].fill(ink(number));
                    }
                }
                let runs = inks.runs();
                prop_assert!(runs.iter().all(|run| run.from < run.to && !run.ink.is_plain()));
                prop_assert!(runs.windows(2).all(|pair| pair[0].to <= pair[1].from));
                let mut shown = vec![Ink::default(); 64];
                for run in runs {
                    shown[run.from..run.to].fill(run.ink);
                }
                prop_assert_eq!(&shown, &cells);
            }
        }
    }
}
