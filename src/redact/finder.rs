//! The prefilter: finds the keywords of all rules in one pass (pure).

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind, packed};
use rustc_hash::FxHashMap;

use super::rule::Rule;
use crate::error::{Error, Result};

/// The keywords of all rules, and the rules of each.
#[derive(Debug)]
pub(super) struct Finder {
    search: KeywordSearch,
    /// The rules of each keyword, in order.
    rules: Vec<Vec<u16>>,
    /// Length of the longest keyword; a truncated one at a text's end is shorter.
    pub(super) longest: usize,
}

#[derive(Debug)]
enum KeywordSearch {
    Nothing,
    /// Uses vector instructions: several times as fast, for up to about sixty keywords.
    Packed(packed::Searcher),
    Automaton(AhoCorasick),
}

impl Finder {
    pub(super) fn new(rules: &[Rule]) -> Result<Self> {
        let mut words: Vec<&str> = Vec::new();
        let mut numbers: FxHashMap<&str, usize> = FxHashMap::default();
        let mut of_word: Vec<Vec<u16>> = Vec::new();
        for (index, rule) in (0..).zip(rules) {
            for word in &rule.keywords {
                let number = *numbers.entry(word).or_insert_with(|| {
                    words.push(word);
                    of_word.push(Vec::new());
                    words.len() - 1
                });
                if of_word[number].last() != Some(&index) {
                    of_word[number].push(index);
                }
            }
        }
        let longest = words.iter().map(|word| word.len()).max().unwrap_or(0);
        let packed = packed::Config::new()
            .match_kind(packed::MatchKind::LeftmostFirst)
            .builder()
            .extend(&words)
            .build();
        let search = match packed {
            _ if words.is_empty() => KeywordSearch::Nothing,
            Some(searcher) => KeywordSearch::Packed(searcher),
            None => KeywordSearch::Automaton(
                AhoCorasick::builder()
                    .kind(Some(AhoCorasickKind::DFA))
                    .match_kind(MatchKind::LeftmostFirst)
                    .build(&words)
                    .map_err(|error| {
                        Error::invalid("the keywords of the rules are too many").because(error)
                    })?,
            ),
        };
        Ok(Self {
            search,
            rules: of_word,
            longest,
        })
    }

    /// Returns the range of the first keyword at or after `from`, and its rules.
    pub(super) fn find(
        &self,
        text: &[u8],
        from: usize,
    ) -> Option<(std::ops::Range<usize>, &[u16])> {
        let (word, range) = match &self.search {
            KeywordSearch::Nothing => return None,
            KeywordSearch::Packed(searcher) => {
                let found = searcher.find_in(text, aho_corasick::Span::from(from..text.len()))?;
                (found.pattern(), found.start()..found.end())
            }
            KeywordSearch::Automaton(automaton) => {
                let found =
                    automaton.find(aho_corasick::Input::new(text).span(from..text.len()))?;
                (found.pattern(), found.start()..found.end())
            }
        };
        Some((range, &self.rules[word.as_usize()]))
    }
}
