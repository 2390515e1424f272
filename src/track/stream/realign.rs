//! Numbers a capture's lines by their texts, where neither a row nor the screen determines them (pure).
//!
//! Some events move every line without a byte: `send-keys -R` scrolls a screen off, and
//! `clear-history` removes the rows from which others are counted. After both, the stream has
//! overwritten lines that tmux still has. Up to that event the stream is right: the first of tmux's lines
//! match the reported ones, which determines all numbers. If they do not match, most of the equal lines
//! decide, and a possible gap marks the uncertainty.

use std::collections::{BTreeMap, HashMap};

use crate::track::lines::LogicalLine;

/// The most lines that may have the same text for that text to determine a position.
const PLACES_MAX: usize = 64;

/// The number of lines at the top that must have their reported texts to determine the position.
const TOP_LINES: usize = 2;

/// The number of a line, by texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByText {
    /// The index of a line that has its reported text.
    pub at: usize,
    pub number: i64,
    /// The first lines determine it unambiguously.
    pub is_sure: bool,
}

/// Finds the position at which the greatest number of the first `lines` have their reported texts or, if
/// none of these have, the greatest number of all lines. Of several positions, it returns the last. No
/// number is less than `oldest`. If the first line `is_cut`, tmux may have only its end.
pub(super) fn by_text(
    known: &BTreeMap<i64, &str>,
    oldest: i64,
    lines: &[LogicalLine],
    is_cut: bool,
) -> Option<ByText> {
    let mut places: HashMap<&str, Vec<i64>> = HashMap::new();
    for (number, text) in known {
        places.entry(text.trim_end()).or_default().push(*number);
    }
    // For each number of the first line: how many lines are equal, and the index of the first of them.
    let mut same: BTreeMap<i64, (usize, usize)> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        let text = line.text.trim_end();
        let numbers = places.get(text).filter(|numbers| {
            let is_blank = text.is_empty();
            !is_blank && numbers.len() <= PLACES_MAX
        });
        let numbers = numbers.into_iter().flatten();
        for number in numbers.filter(|number| *number - at as i64 >= oldest) {
            same.entry(number - at as i64).or_insert((0, at)).0 += 1;
        }
    }
    let at_top = |first: i64| same_at_top(known, first, lines, is_cut);
    let (top, _) = same
        .keys()
        .map(|first| (at_top(*first), *first))
        .max()
        .filter(|(top, _)| *top >= TOP_LINES)
        .unwrap_or_default();
    let candidates = same
        .iter()
        .filter(|(first, _)| top == 0 || at_top(**first) == top);
    let (&first, &(_, at)) = candidates.clone().max_by_key(|(_, (count, _))| *count)?;
    Some(ByText {
        at,
        number: first + at as i64,
        is_sure: top > 0 && candidates.count() == 1,
    })
}

/// Returns how many of the first known lines have their reported texts, without blank ones.
fn same_at_top(
    known: &BTreeMap<i64, &str>,
    first: i64,
    lines: &[LogicalLine],
    is_cut: bool,
) -> usize {
    let pairs = (first..).zip(lines).filter_map(|(number, line)| {
        let (reported, text) = (known.get(&number)?.trim_end(), line.text.trim_end());
        let is_end = is_cut && number == first && !text.is_empty() && reported.ends_with(text);
        (!reported.is_empty() || !text.is_empty()).then_some(is_end || reported == text)
    });
    pairs.take_while(|same| *same).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<LogicalLine> {
        let line = |(start, text): (i64, &&str)| LogicalLine {
            start,
            rows: 1,
            text: (*text).to_owned(),
        };
        (0..).zip(texts).map(line).collect()
    }

    fn known(first: i64, texts: &[&'static str]) -> BTreeMap<i64, &'static str> {
        (first..).zip(texts.iter().copied()).collect()
    }

    #[test]
    fn most_equal_texts_determine_the_place() {
        let reported = known(19, &["cc a", "mixed", "", "x", "cc b", "cc c", "-"]);
        let shown = lines(&["cc d", "", "", "cc b", "cc c", "-", "", "done"]);
        let place = ByText {
            at: 3,
            number: 23,
            is_sure: false,
        };
        assert_eq!(by_text(&reported, 1, &shown, true), Some(place));
        assert_eq!(by_text(&reported, 1, &lines(&["", "other"]), true), None);
    }

    #[test]
    fn repeated_lines_alone_do_not_determine_the_place() {
        let reported = known(1, &["ok", "ok", "ok"]);
        let place = by_text(&reported, 1, &lines(&["ok"]), false);
        let place = place.map(|place| (place.number, place.is_sure));
        assert_eq!(place, Some((3, false)));
    }

    #[test]
    fn the_first_lines_determine_the_place() {
        let reported = known(1, &["cc one", "cc b", "", "mixed", "x", "y", "z"]);
        // One line more than reported, so that most of them have moved.
        let shown = lines(&["one", "cc b", "", "right", "more", "x", "y", "z"]);
        let place = by_text(&reported, 1, &shown, true);
        let first = place.map(|place| (place.number - place.at as i64, place.is_sure));
        assert_eq!(first, Some((1, true)));
        // Not the end of the line, but another one.
        let place = by_text(&reported, 1, &shown, false);
        assert!(place.is_some_and(|place| !place.is_sure));
    }
}
