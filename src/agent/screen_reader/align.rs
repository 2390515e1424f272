//! Aligns the rows of a screen with the known rows of the conversation (pure).

use crate::text::first_chars;

/// The minimum and maximum number of letters that align a page after a resize.
const LETTERS_MIN: usize = 6;
const LETTERS_MAX: usize = 24;

/// Returns the index of the known row at which the page begins. The first `settled` known rows are
/// final; `last` is the index at which the previous page began.
pub(super) fn align(
    known: &[&ConversationRow],
    settled: usize,
    page: &[ConversationRow],
    last: usize,
) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    // The maximum number of top rows of a page that may have changed, because a notice covers them or
    // a box was redrawn.
    for skipped in 0..=3.min(page.len().saturating_sub(1)) {
        for at in skipped..known.len() {
            let place = (at, last + skipped, skipped == 0);
            let Some(weight) = agreement(known, settled, &page[skipped..], place) else {
                continue;
            };
            let start = at - skipped;
            let is_better = best.is_none_or(|(most, found)| {
                let is_nearer = found < last && start >= last;
                weight > most || (weight == most && is_nearer)
            });
            if is_better {
                best = Some((weight, start));
            }
        }
        if best.is_some() {
            break;
        }
    }
    best.map(|(_, start)| start)
}

/// Returns the weight of the rows starting at `at` that match the page; `None` if it is too low. `last` is where
/// they were on the previous page, and `is_whole` is false if the top rows of the page are skipped.
fn agreement(
    known: &[&ConversationRow],
    settled: usize,
    page: &[ConversationRow],
    (at, last, is_whole): (usize, usize, bool),
) -> Option<usize> {
    let pairs = known[at..].iter().zip(page);
    let same = pairs.take_while(|(known, row)| known.is_same(row));
    let (count, weight) = same.fold((0, 0), |(count, weight), (known, row)| {
        (count + 1, weight + known.weight().min(row.weight()))
    });
    if weight == 0 {
        return None;
    }
    let end = at + count;
    let is_all = count == page.len() || end == known.len();
    let wanted = match (is_all, end < settled) {
        _ if at == last && (is_all || (is_whole && end >= settled)) => 1,
        // The minimum weight of matching rows if the next settled row differs.
        (false, true) => 24,
        // The minimum weight of matching rows in the middle of known and shown rows.
        _ => 8,
    };
    (weight >= wanted).then_some(weight)
}

/// Returns the number of known letters before a page that is wrapped at another width.
pub(super) fn letters_before(known: &[char], page: &[char]) -> Option<usize> {
    let begin = &page[..page.len().min(LETTERS_MAX)];
    if begin.len() < LETTERS_MIN {
        return None;
    }
    // Known text may end within the beginning of the page.
    let shared = shared_letters(known, page);
    let found = shared.into_iter().enumerate().filter_map(|(at, count)| {
        let wanted = begin.len().min((known.len() - at).max(LETTERS_MIN));
        // In repetitive text, a longer match may end in a difference, such as the number of the next paragraph.
        let is_all = at + count == known.len() || count == page.len();
        (count >= wanted).then_some((is_all && count >= LETTERS_MAX, count, at))
    });
    found.max().map(|(_, _, at)| at)
}

/// Returns true if a page shows the same rows again after they were erased; its end may differ. The page
/// may begin before the last page, which began at row `last`, because a larger screen shows more rows. It may
/// begin within a row there, which an earlier resize has left wrapped at another width.
pub(super) fn is_redrawn(known: &[ConversationRow], last: usize, page: &[ConversationRow]) -> bool {
    let starts_max = letters(&known[..last.min(known.len())]).len();
    let (known, page) = (letters(known), letters(page));
    let shared = shared_letters(&known, &page);
    let mut starts = shared.into_iter().enumerate().take(starts_max + 1);
    starts.any(|(start, same)| same > 0 && same * 2 >= (known.len() - start).min(page.len()))
}

/// Returns the number of letters from each position on that equal the beginning of the page, by the Z algorithm:
/// in linear time, because rows may consist of one letter.
fn shared_letters(known: &[char], page: &[char]) -> Vec<usize> {
    let all = [page, known].concat();
    let mut shared = vec![0; all.len()];
    // The match that extends furthest; its letters are those at the beginning.
    let (mut start, mut end) = (0, 0);
    for at in 1..all.len() {
        let mut count = if at < end {
            shared[at - start].min(end - at)
        } else {
            0
        };
        while at + count < all.len() && all[at + count] == all[count] {
            count += 1;
        }
        if at + count > end {
            (start, end) = (at, at + count);
        }
        shared[at] = count;
    }
    // A match with the whole page can extend into the known letters.
    let counts = shared.into_iter().skip(page.len());
    counts.map(|count| count.min(page.len())).collect()
}

/// Returns the number of rows at the end of the known ones with which the page begins, although they are too
/// short to align it.
pub(super) fn shared_rows(known: &[ConversationRow], page: &[ConversationRow]) -> usize {
    let is_shared = |count: &usize| {
        let rows = known[known.len() - count..].iter().zip(page);
        rows.clone().all(|(known, row)| known.is_same(row))
            && rows.map(|(known, _)| known.weight()).sum::<usize>() > 0
    };
    let counts = 1..=known.len().min(page.len());
    counts.rev().find(is_shared).unwrap_or(0)
}

pub(super) fn letters(rows: &[ConversationRow]) -> Vec<char> {
    rows.iter().flat_map(ConversationRow::letters).collect()
}

/// Returns the text that was appended to the row.
pub(super) fn grown(was: &ConversationRow, row: &ConversationRow) -> Option<ConversationRow> {
    let rest = row.text.strip_prefix(was.text.as_str())?;
    let mut grown = row.clone();
    grown.text = rest.trim_start().to_owned();
    (grown.is_spaced, grown.is_head) = (false, false);
    (!grown.text.is_empty()).then_some(grown)
}

// The rows of a conversation, as a layout reads them from a screen (pure).

/// The part of a conversation that a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowPart {
    /// A row of the agent's answer.
    Text,
    /// A row in a box: a prompt, a tool with its output, an error.
    Boxed,
    Tool,
    End,
}

/// A row of the scrolling area without decoration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConversationRow {
    pub text: String,
    pub kind: RowPart,
    /// True if a blank row or an edge precedes the row.
    pub is_spaced: bool,
    /// True for the first row of a box.
    pub is_head: bool,
    /// True if a notice covers the row, so that its text is unknown.
    pub is_covered: bool,
    /// The number of letters that were reported before the row was rewrapped.
    pub reported: usize,
}

impl ConversationRow {
    pub fn new(text: &str, kind: RowPart, is_spaced: bool) -> Self {
        Self {
            // The maximum number of characters of a row. No terminal is wider.
            text: first_chars(text, 1_000).to_owned(),
            kind,
            is_spaced,
            is_head: false,
            is_covered: false,
            reported: 0,
        }
    }

    /// Returns true if the rows may be the same row at different times.
    pub fn is_same(&self, other: &Self) -> bool {
        self.is_covered || other.is_covered || self.text == other.text
    }

    /// Returns the weight of a match with another row.
    pub fn weight(&self) -> usize {
        const WEIGHT_MAX: usize = 8;
        if self.is_covered {
            0
        } else {
            self.letters().take(WEIGHT_MAX).count().max(1)
        }
    }

    /// Returns the letters and digits, which rewrapping does not change.
    pub fn letters(&self) -> impl Iterator<Item = char> + '_ {
        self.text.chars().filter(|c| c.is_alphanumeric())
    }

    /// Returns the part of the row that has not been reported yet.
    pub fn unreported(&self) -> Self {
        let mut rest = self.clone();
        if self.reported > 0 {
            rest.text = cut(&self.text, self.reported).1.trim_start().to_owned();
            (rest.is_spaced, rest.is_head, rest.reported) = (false, false, 0);
        }
        rest
    }

    /// Returns the beginning of the row, up to a number of letters.
    pub fn up_to(&self, letters: usize) -> Self {
        let mut begin = self.clone();
        begin.text = cut(&self.text, letters).0.trim_end().to_owned();
        begin
    }
}

/// Splits a text after a number of letters and the other characters that follow them, up to the next blank.
fn cut(text: &str, letters: usize) -> (&str, &str) {
    let mut count = 0;
    let mut end = 0;
    for (at, c) in text.char_indices() {
        if c.is_alphanumeric() {
            count += 1;
        }
        let is_next = count > letters || (count == letters && c.is_whitespace());
        if is_next {
            break;
        }
        end = at + c.len_utf8();
    }
    text.split_at(end)
}

/// The conversation that a layout reads from a screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ConversationPage {
    /// The rows of the scrolling area, without blank rows and decoration.
    pub rows: Vec<ConversationRow>,
    /// True while the agent works; `None` if the layout does not show it.
    pub is_working: Option<bool>,
    /// True if the screen is empty or precedes a conversation.
    pub is_first: bool,
    /// The text in the input box.
    pub typed: String,
    /// The text of a notice that covers rows.
    pub notice: String,
}

#[cfg(test)]
mod tests {

    use super::shared_letters;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shared_letters_are_counted(known in "[ab]{0,30}", page in "[ab]{1,12}") {
            let (known, page): (Vec<char>, Vec<char>) = (known.chars().collect(), page.chars().collect());
            let counts = (0..known.len()).map(|at| {
                let pairs = known[at..].iter().zip(&page);
                pairs.take_while(|(a, b)| a == b).count()
            });
            let counts: Vec<usize> = counts.collect();
            prop_assert_eq!(shared_letters(&known, &page), counts);
        }
    }

    #[test]
    fn rows_of_one_letter_are_counted_in_linear_time() {
        let (known, page) = (vec!['a'; 600_000], vec!['a'; 100_000]);
        let counts = shared_letters(&known, &page);
        assert_eq!((counts[0], counts[599_999]), (100_000, 1));
    }
}
