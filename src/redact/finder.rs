//! The prefilter: finds the keywords of all rules in one pass (pure).
//!
//! Each keyword has a group of three bytes that is rare in text. A bitmap of these groups, which fits the
//! processor's nearest cache, rejects nearly all positions of a text. This is twice as fast as an automaton,
//! whose steps depend on each other.

use rustc_hash::FxHashMap;

use super::rule::{Edge, Rule};
use crate::error::{Error, Result};

/// Bytes of a group.
const GROUP: usize = 3;
/// Number of groups in eight bytes.
const GROUPS: usize = 8 - GROUP + 1;
/// Number of words in the bitmap, which fits the nearest cache twice.
const WORDS: usize = 1 << 11;
/// Spreads groups over the bitmap. Its last byte is 0, so that the byte after a group has no effect. Of 1.5
/// million random factors, this one gives the fewest bits in common to keywords of the built-in rules and to other
/// groups in prose, source code, recorded output and numbers.
const HASH: u32 = 0x3836_9900;
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
    /// Length of the longest keyword. A truncated keyword at the end of a text is shorter.
    pub(super) longest: usize,
}

#[derive(Debug)]
struct Keyword {
    word: Box<[u8]>,
    edge: Edge,
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

/// Returns the bit of the group in the three lowest bytes.
fn hash(bytes: u32) -> usize {
    (bytes.wrapping_mul(HASH) >> 15) as usize
}

/// Returns the bit of a group as the lowest bit, below others.
fn bit(bits: &[u64; WORDS], bytes: u32) -> u64 {
    let hash = hash(bytes);
    bits[hash >> 6] >> (hash & 63)
}

/// Returns the next group that is in the bitmap, and its position.
fn next_group(bits: &[u64; WORDS], text: &[u8], from: usize) -> Option<(u32, usize)> {
    let has = |bytes: u32| bit(bits, bytes) & 1 == 1;
    let mut at = from;
    // Examines the groups of eight bytes with a single branch.
    while let Some(&bytes) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(bytes);
        let part = |number: usize| (word >> (number * 8)) as u32;
        if (0..GROUPS).fold(0, |any, number| any | bit(bits, part(number))) & 1 == 1 {
            let found = (0..GROUPS).find(|number| has(part(*number)));
            return found.map(|number| (part(number) & 0xff_ffff, at + number));
        }
        at += GROUPS;
    }
    while let Some(group) = group(text, at) {
        if has(group) {
            return Some((group, at));
        }
        at += 1;
    }
    None
}

/// Returns the position in a keyword of the group that is rarest in text.
fn rarest(word: &[u8]) -> Option<usize> {
    let cost = |at: usize| -> f32 {
        let group = &word[at..at + GROUP];
        group.iter().map(|b| weight(*b)).product()
    };
    let last = word.len().checked_sub(GROUP)?;
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
            longest: 0,
        };
        let words: usize = rules.iter().map(|rule| rule.keywords.len()).sum();
        let words = words.min(KEYWORDS_MAX);
        let mut numbers: FxHashMap<(&str, Edge), usize> = FxHashMap::default();
        numbers.reserve(words);
        for (index, rule) in (0..).zip(rules) {
            for word in &rule.keywords {
                let number = *numbers.entry((word, rule.edge)).or_insert_with(|| {
                    finder.keywords.push(Keyword {
                        word: word.as_bytes().into(),
                        edge: rule.edge,
                        rules: Vec::new(),
                    });
                    finder.keywords.len() - 1
                });
                let rules = &mut finder.keywords[number].rules;
                if rules.last() != Some(&index) {
                    rules.push(index);
                }
            }
        }
        if finder.keywords.len() > KEYWORDS_MAX {
            return Err(Error::invalid("the rules have too many keywords"));
        }
        for (number, keyword) in (0..).zip(&finder.keywords) {
            finder.longest = finder.longest.max(keyword.word.len());
            let place = rarest(&keyword.word);
            let Some((place, group)) = place.and_then(|at| Some((at, group(&keyword.word, at)?)))
            else {
                return Err(Error::invalid("a keyword has fewer than three bytes"));
            };
            finder.bits[hash(group) >> 6] |= 1 << (hash(group) & 63);
            let places = finder.places.entry(group).or_default();
            // No keyword is longer than a lead.
            places.push((number, place as u8));
        }
        Ok(finder)
    }

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
                let Some(start) = (self.at - 1).checked_sub(usize::from(place)) else {
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
            let (found, at) = next_group(&finder.bits, self.text, self.at)?;
            self.at = at + 1;
            if let Some(places) = finder.places.get(&found) {
                self.places = places.iter();
            }
        }
    }
}
