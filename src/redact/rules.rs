//! The rules for secrets that a caller uses: built in, added, applied to whole texts (pure).

use std::sync::Arc;

use super::exact::{VALUE_MIN, dotenv, rules_of};
use super::rule_file::{read, read_builtin};
use super::scan::RuleSet;
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
pub struct Rules(pub(super) Arc<RuleSet>);

/// The built-in rules in groups. If two rules match at the same position, the earlier one determines the
/// kind.
pub(super) const GROUPS: [(&str, &str); 9] = [
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
        static BUILTIN: std::sync::LazyLock<Rules> = std::sync::LazyLock::new(|| {
            let mut rules = Vec::new();
            let set = GROUPS
                .iter()
                .try_for_each(|(_, text)| read_builtin(text).map(|more| rules.extend(more)))
                .and_then(|()| RuleSet::new(rules));
            #[expect(clippy::expect_used, reason = "the text is fixed, and a test reads it")]
            Rules(Arc::new(set.expect("the built-in rules are valid")))
        });
        BUILTIN.clone()
    }

    /// Returns an empty set of rules, which redacts nothing.
    pub fn none() -> Self {
        #[expect(
            clippy::expect_used,
            reason = "an empty set has nothing that could fail"
        )]
        Self(Arc::new(
            RuleSet::new(Vec::new()).expect("no rules are valid"),
        ))
    }

    /// Adds rules in the format of the built-in rule files. If an added rule and an earlier one match at the
    /// same position, the marker contains the id of the earlier one.
    ///
    /// # Errors
    /// `is_invalid_input()` for other text and for unusable rules, which the message names.
    pub fn with_toml(&self, text: &str) -> Result<Self> {
        let mut rules = self.0.rules.clone();
        rules.extend(read(text)?);
        Ok(Self(Arc::new(RuleSet::new(rules)?)))
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
        rules.extend(self.0.rules.iter().cloned());
        Ok(Self(Arc::new(RuleSet::new(rules)?)))
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

#[cfg(test)]
mod tests {
    use super::{GROUPS, read};

    #[test]
    fn built_in_rules_pass_all_checks() {
        for (group, text) in GROUPS {
            let read = read(text);
            assert!(read.is_ok(), "{group}: {read:?}");
        }
    }
}
