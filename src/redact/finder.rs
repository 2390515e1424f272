//! The prefilter: finds the keywords of all rules in one pass (pure).
//!
//! Each keyword has a group of three bytes that is rare in text. A bitmap of these groups, which fits the
//! processor's nearest cache, rejects nearly all positions of a text. This is twice as fast as an automaton,
//! whose steps depend on each other.

use std::ops::Range;

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

/// The keywords of all rules, and the rules of each. It has few allocations, because a command builds it at its start.
#[derive(Debug)]
pub(super) struct Finder {
    bits: Bits,
    /// The ranges of the places of each bit in the bitmap.
    ranges: Vec<Range<u32>>,
    places: Vec<Place>,
    keywords: Vec<Keyword>,
    /// The texts of all keywords.
    text: Vec<u8>,
    /// The rules of all keywords.
    rules: Vec<u16>,
    /// Length of the longest keyword. A truncated keyword at the end of a text is shorter.
    pub(super) longest: usize,
}

/// A bit for each hash of a group.
#[derive(Debug)]
struct Bits {
    words: Box<[u64; WORDS]>,
    /// The number of bits before each word.
    before: Box<[u16; WORDS]>,
}

/// The group of a keyword and its position there, and what most keywords of the group differ in.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    group: u32,
    keyword: u16,
    at: u8,
    /// The length of the keyword, and its last byte.
    length: u8,
    last: u8,
}

#[derive(Debug)]
struct Keyword {
    /// Its range in the text of all keywords.
    text: Range<u32>,
    edge: Edge,
    /// The range of its rules.
    rules: Range<u32>,
}

fn slice<'a, T>(all: &'a [T], range: &Range<u32>) -> &'a [T] {
    &all[range.start as usize..range.end as usize]
}

/// A keyword in a text.
#[derive(Clone, Debug)]
pub(super) struct Hit<'a> {
    pub(super) range: Range<usize>,
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

/// Returns the group of a keyword that is rarest in text, and its position.
fn rarest(word: &[u8]) -> Option<(u32, u8)> {
    let cost = |part: &[u8]| {
        part.iter()
            .map(|b| WEIGHTS[usize::from(*b)])
            .product::<f32>()
    };
    let mut rarest = None;
    // No keyword is longer than a lead.
    for (at, part) in (0_u8..).zip(word.windows(GROUP)) {
        let cost = cost(part);
        if rarest.is_none_or(|(least, _)| cost < least) {
            rarest = Some((cost, at));
        }
    }
    let (_, at) = rarest?;
    Some((group(word, usize::from(at))?, at))
}

/// The frequency of each byte in text, in percent.
const WEIGHTS: [f32; 256] = {
    /// From `a` to `z`.
    const LETTERS: [f32; 26] = [
        8.2, 1.5, 2.8, 4.3, 12.7, 2.2, 2.0, 6.1, 7.0, 0.2, 0.8, 4.0, 2.4, 6.7, 7.5, 1.9, 0.1, 6.0,
        6.3, 9.1, 2.8, 1.0, 2.4, 0.2, 2.0, 0.1,
    ];
    let mut weights = [1.0; 256];
    weights[b' ' as usize] = 15.0;
    let mut letter = 0;
    while letter < LETTERS.len() {
        weights[b'a' as usize + letter] = LETTERS[letter];
        weights[b'A' as usize + letter] = LETTERS[letter] / 6.0;
        letter += 1;
    }
    weights
};

impl Bits {
    fn of(groups: impl Iterator<Item = u32>) -> Self {
        let mut words = Box::new([0_u64; WORDS]);
        for group in groups {
            let hash = hash(group);
            words[hash >> 6] |= 1 << (hash & 63);
        }
        let mut before = Box::new([0; WORDS]);
        let mut bits = 0_u16;
        for (before, word) in before.iter_mut().zip(words.iter()) {
            *before = bits;
            // There are at most as many bits as keywords, which are refused if there are more.
            bits = bits.saturating_add(word.count_ones() as u16);
        }
        Self { words, before }
    }

    /// Returns the number of bits before that of the group.
    fn rank(&self, group: u32) -> usize {
        let hash = hash(group);
        let lower = self.words[hash >> 6] & ((1 << (hash & 63)) - 1);
        usize::from(self.before[hash >> 6]) + lower.count_ones() as usize
    }
}

/// A keyword of a rule; other rules may have it, too.
struct Entry<'a> {
    word: &'a [u8],
    edge: Edge,
    rule: u16,
    group: u32,
    at: u8,
}

/// Returns the keywords of the rules in order.
fn entries(rules: &[Rule]) -> Result<Vec<Entry<'_>>> {
    let mut entries = Vec::with_capacity(rules.iter().map(|rule| rule.keywords.len()).sum());
    for (number, rule) in (0..).zip(rules) {
        for word in rule.keywords.iter() {
            let (group, at) = rarest(word.as_bytes())
                .ok_or_else(|| Error::invalid("a keyword has fewer than three bytes"))?;
            entries.push(Entry {
                word: word.as_bytes(),
                edge: rule.edge,
                rule: number,
                group,
                at,
            });
        }
    }
    Ok(entries)
}

impl Finder {
    pub(super) fn new(rules: &[Rule]) -> Result<Self> {
        let entries = entries(rules)?;
        let bits = Bits::of(entries.iter().map(|entry| entry.group));
        let mut finder = Self {
            ranges: ranges(entries.iter().map(|entry| bits.rank(entry.group))),
            bits,
            places: vec![Place::default(); entries.len()],
            keywords: Vec::with_capacity(entries.len().min(KEYWORDS_MAX)),
            text: Vec::new(),
            rules: vec![0; entries.len()],
            longest: 0,
        };
        let mut numbers = Vec::with_capacity(entries.len());
        for entry in &entries {
            numbers.push(finder.number(entry)?);
        }
        let rules = ranges(numbers.iter().map(|number| usize::from(*number)));
        for (keyword, rules) in finder.keywords.iter_mut().zip(rules) {
            keyword.rules = rules;
        }
        for (entry, number) in entries.iter().zip(numbers) {
            let keyword = &mut finder.keywords[usize::from(number)];
            let known = slice(&finder.rules, &keyword.rules);
            if known.last() != Some(&entry.rule) {
                finder.rules[keyword.rules.end as usize] = entry.rule;
                keyword.rules.end += 1;
            }
        }
        Ok(finder)
    }

    /// Returns the number of a keyword, which is added if it is new.
    fn number(&mut self, entry: &Entry) -> Result<u16> {
        let range = &mut self.ranges[self.bits.rank(entry.group)];
        // A keyword is not empty.
        let last = entry.word.last().copied().unwrap_or(0);
        let is_known = |place: &&Place| {
            let keyword = &self.keywords[usize::from(place.keyword)];
            place.last == last
                && keyword.edge == entry.edge
                && slice(&self.text, &keyword.text) == entry.word
        };
        if let Some(place) = slice(&self.places, range).iter().find(is_known) {
            return Ok(place.keyword);
        }
        if self.keywords.len() == KEYWORDS_MAX {
            return Err(Error::invalid("the rules have too many keywords"));
        }
        let number = self.keywords.len() as u16;
        self.places[range.end as usize] = Place {
            group: entry.group,
            keyword: number,
            at: entry.at,
            // No keyword is longer than a lead.
            length: entry.word.len() as u8,
            last,
        };
        range.end += 1;
        let from = self.text.len() as u32;
        self.text.extend_from_slice(entry.word);
        self.keywords.push(Keyword {
            text: from..self.text.len() as u32,
            edge: entry.edge,
            rules: 0..0,
        });
        self.longest = self.longest.max(entry.word.len());
        Ok(number)
    }

    /// Returns the places of the bit of a group.
    fn places(&self, group: u32) -> &[Place] {
        slice(&self.places, &self.ranges[self.bits.rank(group)])
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
            group: 0,
            places: [].iter(),
        }
    }
}

/// Returns an empty range for each key, each followed by room for as many elements as have the key.
fn ranges(keys: impl Iterator<Item = usize> + Clone) -> Vec<Range<u32>> {
    let mut ranges = vec![0..0; keys.clone().max().map_or(0, |last| last + 1)];
    for key in keys {
        ranges[key].end += 1;
    }
    let mut from = 0;
    for range in &mut ranges {
        let next = from + range.end;
        *range = from..from;
        from = next;
    }
    ranges
}

/// The keywords of a text.
#[derive(Clone, Debug)]
pub(super) struct Hits<'a> {
    finder: &'a Finder,
    text: &'a [u8],
    from: usize,
    /// The next position to examine, and the keywords still to compare at the previous one.
    at: usize,
    group: u32,
    places: std::slice::Iter<'a, Place>,
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
            for place in self.places.by_ref() {
                let Some(start) = (self.at - 1).checked_sub(usize::from(place.at)) else {
                    continue;
                };
                let end = start + usize::from(place.length);
                if place.group != self.group
                    || self.text.get(end - 1) != Some(&place.last)
                    || start < self.from
                {
                    continue;
                }
                let keyword = &finder.keywords[usize::from(place.keyword)];
                if self.text.get(start..end) == Some(slice(&finder.text, &keyword.text))
                    && keyword.edge.fits(self.text, start, end)
                {
                    return Some(Hit {
                        range: start..end,
                        rules: slice(&finder.rules, &keyword.rules),
                    });
                }
            }
            let (found, at) = next_group(&finder.bits.words, self.text, self.at)?;
            self.at = at + 1;
            (self.group, self.places) = (found, finder.places(found).iter());
        }
    }
}
