//! The rules for secrets that a caller uses: built in, added, applied to whole texts and to streams (pure).

use std::sync::{Arc, LazyLock};

use super::edges::{Span, TextEnd};
use super::rule::Rule;
use super::rule_file::{VALUE_MIN, dotenv, read, rules_of};
use super::rule_table;
use super::scan::{Continuation, RuleSet};
use crate::error::Result;

/// Rules for secrets. Cheap to clone.
///
/// ```
/// use td_observe::redact::Rules;
/// let rules = Rules::builtin();
/// assert_eq!(rules.text("a clean line"), "a clean line");
/// let url = format!("postgres://app:{}@db/main", "hunter2!");
/// assert_eq!(rules.text(&url), "postgres://app:[redacted:url-password]@db/main");
/// ```
#[derive(Clone, Debug)]
pub struct Rules(Source);

#[derive(Clone, Debug)]
enum Source {
    /// The built-in rules. They are read when they are first applied.
    Builtin,
    Own(Arc<RuleSet>),
}

static BUILTIN: LazyLock<RuleSet> = LazyLock::new(|| {
    let set = rule_table::read(TABLE).map(RuleSet::new);
    #[expect(clippy::expect_used, reason = "the text is fixed, and a test reads it")]
    set.expect("the table is valid")
        .expect("the built-in rules are valid")
});

/// The built-in rules, made from `FILES`.
pub(super) const TABLE: &str = include_str!("rules/table.txt");

/// The built-in rules as they are written, in groups. If two rules match at the same position, the earlier one
/// determines the kind.
#[cfg(test)]
pub(super) const FILES: [(&str, &str); 9] = [
    ("keys", include_str!("rules/keys.toml")),
    ("ai", include_str!("rules/ai.toml")),
    ("cloud", include_str!("rules/cloud.toml")),
    ("ci", include_str!("rules/ci.toml")),
    ("saas", include_str!("rules/saas.toml")),
    ("chat", include_str!("rules/chat.toml")),
    ("web", include_str!("rules/web.toml")),
    ("commands", include_str!("rules/commands.toml")),
    ("names", include_str!("rules/names.toml")),
];

impl Rules {
    /// Returns the built-in rules.
    pub fn builtin() -> Self {
        Self(Source::Builtin)
    }

    fn own(rules: Vec<Rule>) -> Result<Self> {
        Ok(Self(Source::Own(Arc::new(RuleSet::new(rules)?))))
    }

    /// Returns the rules and their finder, which the first call for the built-in rules reads.
    pub(super) fn set(&self) -> &RuleSet {
        match &self.0 {
            Source::Builtin => &BUILTIN,
            Source::Own(set) => set,
        }
    }

    /// Returns an empty set of rules, which redacts nothing.
    pub fn none() -> Self {
        #[expect(
            clippy::expect_used,
            reason = "an empty set has nothing that could fail"
        )]
        Self::own(Vec::new()).expect("no rules are valid")
    }

    /// Adds rules in the format of the built-in rule files. If an added rule and an earlier one match at the
    /// same position, the marker contains the id of the earlier one.
    ///
    /// # Errors
    /// `is_invalid_input()` for other text and for unusable rules, which the message names.
    pub fn with_toml(&self, text: &str) -> Result<Self> {
        let mut rules = self.set().rules.clone();
        rules.extend(read(text)?);
        Self::own(rules)
    }

    /// Adds known secrets by their names. Their values are redacted wherever they appear, also in Base64 or
    /// percent-encoded. The marker contains the name.
    ///
    /// ```
    /// use td_observe::redact::Rules;
    /// let rules = Rules::builtin().with_values([("DB_PASSWORD", "blue elephant")])?;
    /// assert_eq!(rules.text("so blue elephant it is"), "so [redacted:db-password] it is");
    /// # Ok::<(), td_observe::Error>(())
    /// ```
    ///
    /// # Errors
    /// `is_invalid_input()` for a value with fewer than four bytes, because harmless words would contain it.
    pub fn with_values<N: AsRef<str>, V: AsRef<str>>(
        &self,
        values: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self> {
        let mut rules = Vec::new();
        for (name, value) in values {
            rules.extend(rules_of(name.as_ref(), value.as_ref())?);
        }
        // Known values come first, so that they determine the kind.
        rules.extend(self.set().rules.iter().cloned());
        Self::own(rules)
    }

    /// Adds the environment variables whose names match one of the patterns, in which `*` matches any text,
    /// and the variables of files in dotenv format. Returns the names of variables whose values are too short
    /// to be redacted.
    ///
    /// # Errors
    /// `is_invalid_input()` if there are too many variables.
    pub fn with_variables(
        &self,
        patterns: &[String],
        environment: impl IntoIterator<Item = (String, String)>,
        files: &[String],
    ) -> Result<(Self, Vec<String>)> {
        let named = environment
            .into_iter()
            .filter(|(name, _)| patterns.iter().any(|pattern| fits(pattern, name)));
        let files = files.iter().flat_map(|text| dotenv(text));
        let (long, short): (Vec<_>, Vec<_>) = named
            .chain(files)
            .partition(|(_, value)| value.trim().len() >= VALUE_MIN);
        let short = short.into_iter().map(|(name, _)| name).collect();
        Ok((self.with_values(long)?, short))
    }
}

/// Returns true if the name matches the pattern, in which `*` matches any text.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len())
                .filter(|at| rest.is_char_boundary(*at))
                .any(|at| fits(after, &rest[at..]))
        }),
    }
}

/// The state of a stream between two pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamState {
    /// The end of the text so far, unredacted, to be scanned again with the next piece. Its length is
    /// bounded, see `scan`.
    pub(super) tail: String,
    /// True if the tail contains no complete keyword; a keyword may begin in it.
    pub(super) is_clean: bool,
    pub(super) open: Continuation,
    /// True if the text so far ended in a secret whose marker is already written.
    pub(super) is_marked: bool,
    /// True if a secret may have begun in the tail and only the next line can decide.
    pub(super) is_pending: bool,
}

/// Buffers that are reused for each text, so that clean text needs no allocation.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    joined: String,
    /// The secrets of the last text, in order.
    pub(super) spans: Vec<Span>,
}

impl StreamState {
    /// Scans the next piece and stores its secrets in the scratch; returns true if there are any.
    pub(super) fn find(
        &mut self,
        set: &RuleSet,
        piece: &str,
        end: TextEnd,
        scratch: &mut Scratch,
    ) -> bool {
        if piece.is_empty() {
            return false;
        }
        let Scratch { joined, spans } = scratch;
        joined.clear();
        joined.push_str(&self.tail);
        joined.push_str(piece);
        let known = self.tail.len();
        // Only a keyword that ends in the new piece is new.
        let new = if self.is_clean {
            known.saturating_sub(set.finder.longest.saturating_sub(1))
        } else {
            0
        };
        if self.open == Continuation::None && !set.finder.finds(joined.as_bytes(), new) {
            (self.is_marked, self.is_clean, self.is_pending) = (false, true, false);
            let line = memchr::memrchr(b'\n', joined.as_bytes()).map_or(0, |newline| newline + 1);
            self.keep(joined, joined.len().saturating_sub(set.overlap()).max(line));
            return false;
        }
        self.is_clean = false;
        spans.clear();
        let open = std::mem::take(&mut self.open);
        let rest = set.scan(joined.as_bytes(), open, end, spans);
        (self.open, self.is_pending) = (rest.open, rest.is_pending);
        // The text of earlier pieces has already been delivered.
        spans.retain_mut(|span| {
            span.start = span.start.max(known) - known;
            span.end = span.end.saturating_sub(known);
            span.start < span.end
        });
        self.is_marked = spans.last().is_some_and(|span| span.end == piece.len());
        self.keep(joined, rest.keep);
        !spans.is_empty()
    }

    /// Keeps the end of the text.
    fn keep(&mut self, text: &str, mut from: usize) {
        while !text.is_char_boundary(from) {
            from += 1;
        }
        self.tail.clear();
        self.tail.push_str(&text[from..]);
    }
}
