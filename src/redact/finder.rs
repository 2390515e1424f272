//! The prefilter: finds the keywords of all rules in one pass (pure).
//!
//! Every keyword has at least four bytes, so one of its first two groups of three begins at an even position.
//! Half of the positions therefore suffice, and a bitmap of groups, which fits the processor's nearest cache,
//! rejects nearly all of them. This is twice as fast as an automaton, whose steps depend on each other.

use rustc_hash::FxHashMap;

use super::rule::{Edge, Rule};
use crate::error::{Error, Result};

/// Bytes of a group.
const GROUP: usize = 3;
/// Minimum length of a keyword that is found at every other position.
const LONG: usize = GROUP + 1;
/// Number of words in the bitmap, which fits the nearest cache twice.
const WORDS: usize = 1 << 11;
/// Spreads groups over the bitmap. With this factor, none of the most frequent groups in text, such as three
/// blanks, shares its bit with a keyword of the built-in rules.
const HASH: u32 = 0xa4a0_265d;
/// Maximum number of keywords, which bounds their memory.
const KEYWORDS_MAX: usize = 60_000;

/// The keywords of all rules, and the rules of each.
#[derive(Debug)]
pub(super) struct Finder {
    /// A bit for each hash of a group.
    bits: Box<[u64; WORDS]>,
    /// The keywords that have a group, and its position in them.
    places: FxHashMap<u32, Vec<(u16, u8)>>,
    keywords: Vec<Keyword>,
    /// The distance between examined positions: 1 if a keyword is short.
    step: usize,
    /// Length of the longest keyword. A truncated keyword at the end of a text is shorter.
    pub(super) longest: usize,
}

#[derive(Debug)]
struct Keyword {
    word: Box<[u8]>,
    edge: Edge,
    /// For a keyword of three bytes, the bytes that may follow it.
    follow: Vec<u8>,
    rules: Vec<u16>,
}

/// A keyword in a text.
#[derive(Clone, Debug)]
pub(super) struct Hit<'a> {
    pub(super) range: std::ops::Range<usize>,
    pub(super) rules: &'a [u16],
}

fn group(text: &[u8], at: usize) -> Option<u32> {
    match text.get(at..at + GROUP) {
        Some(&[a, b, c]) => Some(u32::from_le_bytes([a, b, c, 0])),
        _ => None,
    }
}

fn hash(group: u32) -> usize {
    (group.wrapping_mul(HASH) >> 15) as usize
}

fn has(bits: &[u64; WORDS], group: u32) -> bool {
    let hash = hash(group);
    bits[hash >> 6] >> (hash & 63) & 1 == 1
}

/// Returns the next group that is in the bitmap, and its position.
fn next_group<const STEP: usize>(
    bits: &[u64; WORDS],
    text: &[u8],
    from: usize,
) -> Option<(u32, usize)> {
    let mut at = from;
    // Examines three groups at a time from one word, with a single branch.
    while let Some(&bytes) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(bytes);
        let part = |number: usize| (word >> (number * STEP * 8)) as u32 & 0xff_ffff;
        if has(bits, part(0)) | has(bits, part(1)) | has(bits, part(2)) {
            for number in 0..3 {
                if has(bits, part(number)) {
                    return Some((part(number), at + number * STEP));
                }
            }
        }
        at += 3 * STEP;
    }
    while let Some(group) = group(text, at) {
        if has(bits, group) {
            return Some((group, at));
        }
        at += STEP;
    }
    None
}

/// Returns the position in a keyword whose groups are rarest in text.
fn rarest(word: &[u8], step: usize) -> Option<usize> {
    let cost = |at: usize| -> f32 {
        let groups = (at..at + step).map(|at| {
            word[at..at + GROUP]
                .iter()
                .map(|b| weight(*b))
                .product::<f32>()
        });
        groups.sum()
    };
    let last = word.len().checked_sub(GROUP + step - 1)?;
    (0..=last).min_by(|a, b| cost(*a).total_cmp(&cost(*b)))
}

/// Returns the frequency of a byte in text, in percent.
fn weight(byte: u8) -> f32 {
    /// From `a` to `z`.
    const LETTERS: [f32; 26] = [
        8.2, 1.5, 2.8, 4.3, 12.7, 2.2, 2.0, 6.1, 7.0, 0.2, 0.8, 4.0, 2.4, 6.7, 7.5, 1.9, 0.1, 6.0,
        6.3, 9.1, 2.8, 1.0, 2.4, 0.2, 2.0, 0.1,
    ];
    match byte {
        b'a'..=b'z' => LETTERS[usize::from(byte - b'a')],
        b'A'..=b'Z' => LETTERS[usize::from(byte - b'A')] / 6.0,
        b' ' => 15.0,
        _ => 1.0,
    }
}

impl Finder {
    pub(super) fn new(rules: &[Rule]) -> Result<Self> {
        let mut finder = Self {
            bits: Box::new([0; WORDS]),
            places: FxHashMap::default(),
            keywords: Vec::new(),
            step: 2,
            longest: 0,
        };
        let mut numbers: FxHashMap<(&str, Edge), usize> = FxHashMap::default();
        for (index, rule) in (0..).zip(rules) {
            for word in &rule.keywords {
                let number = *numbers.entry((word, rule.edge)).or_insert_with(|| {
                    finder.keywords.push(Keyword {
                        word: word.as_bytes().into(),
                        edge: rule.edge,
                        follow: Vec::new(),
                        rules: Vec::new(),
                    });
                    finder.keywords.len() - 1
                });
                let keyword = &mut finder.keywords[number];
                keyword.follow.extend(&rule.follow);
                let rules = &mut keyword.rules;
                if rules.last() != Some(&index) {
                    rules.push(index);
                }
            }
        }
        if finder.keywords.len() > KEYWORDS_MAX {
            return Err(Error::invalid("the rules have too many keywords"));
        }
        let is_short = |keyword: &Keyword| keyword.word.len() < LONG && keyword.follow.is_empty();
        if finder.keywords.iter().any(is_short) {
            finder.step = 1;
        }
        for keyword in &mut finder.keywords {
            keyword.follow.sort_unstable();
            keyword.follow.dedup();
        }
        let mut add = |group: Option<u32>, keyword: u16, place: u8| {
            let Some(group) = group else { return };
            finder.bits[hash(group) >> 6] |= 1 << (hash(group) & 63);
            finder
                .places
                .entry(group)
                .or_default()
                .push((keyword, place));
        };
        for (number, keyword) in (0..).zip(&finder.keywords) {
            finder.longest = finder.longest.max(keyword.word.len());
            if let ([_, b, c], 2) = (&*keyword.word, finder.step) {
                // The second group includes the byte after the keyword.
                let second = keyword.follow.iter().map(|d| [*b, *c, *d]);
                let groups = second.map(|group| (group, 1_u8));
                let first = [keyword.word[0], *b, *c];
                for (text, place) in groups.chain([(first, 0)]) {
                    add(group(&text, 0), number, place);
                }
                continue;
            }
            let Some(first) = rarest(&keyword.word, finder.step) else {
                return Err(Error::invalid("a keyword has fewer than three bytes"));
            };
            for place in first..first + finder.step {
                // No keyword is longer than a lead.
                add(group(&keyword.word, place), number, place as u8);
            }
        }
        Ok(finder)
    }

    /// Returns true if a keyword is at or after `from`.
    pub(super) fn finds(&self, text: &[u8], from: usize) -> bool {
        self.hits(text, from).next().is_some()
    }

    /// Returns the keywords at or after `from`, approximately in order.
    pub(super) fn hits<'a>(&'a self, text: &'a [u8], from: usize) -> Hits<'a> {
        Hits {
            finder: self,
            text,
            from,
            at: from,
            places: [].iter(),
        }
    }
}

/// The keywords of a text.
#[derive(Clone, Debug)]
pub(super) struct Hits<'a> {
    finder: &'a Finder,
    text: &'a [u8],
    from: usize,
    /// The next position to examine, and the keywords still to compare at the previous one.
    at: usize,
    places: std::slice::Iter<'a, (u16, u8)>,
}

impl Hits<'_> {
    /// Skips keywords that begin before this position.
    pub(super) fn skip_to(&mut self, at: usize) {
        if at > self.at {
            (self.from, self.at, self.places) = (at, at, [].iter());
        }
    }
}

impl<'a> Iterator for Hits<'a> {
    type Item = Hit<'a>;

    fn next(&mut self) -> Option<Hit<'a>> {
        let finder = self.finder;
        loop {
            for &(number, place) in self.places.by_ref() {
                let keyword = &finder.keywords[usize::from(number)];
                let Some(start) = (self.at - finder.step).checked_sub(usize::from(place)) else {
                    continue;
                };
                let end = start + keyword.word.len();
                // Comparing short words byte by byte is faster than a call.
                if start >= self.from
                    && self.text.get(start) == Some(&keyword.word[0])
                    && self.text.get(start..end) == Some(&*keyword.word)
                    && keyword.edge.fits(self.text, start, end)
                {
                    return Some(Hit {
                        range: start..end,
                        rules: &keyword.rules,
                    });
                }
            }
            let (found, at) = match finder.step {
                2 => next_group::<2>(&finder.bits, self.text, self.at)?,
                _ => next_group::<1>(&finder.bits, self.text, self.at)?,
            };
            self.at = at + finder.step;
            if let Some(places) = finder.places.get(&found) {
                self.places = places.iter();
            }
        }
    }
}
