//! Secrets in text, as data: keys and tokens are taken out of events before anybody sees them (pure).
//!
//! A rule (`rules.toml`) says what announces a secret and which bytes it runs over, so it can be
//! followed through text that arrives in pieces. Nothing is held back to wait for more: **text is
//! never delayed**. Instead what has come so far is judged as it stands. Of a secret that is cut,
//! up to eleven bytes may be out before it is known for one; from then on all of it is swallowed,
//! wherever the next cuts lie. The price is over-masking: a text that ends where a secret may just
//! have begun is masked although what follows might have shown that it was none.

mod value;

mod rule;

mod finder;

mod block;
mod scan;

mod stream;

mod terminal;

mod line;
mod pane;
mod redactor;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::Result;
pub use redactor::Redactor;
use scan::{End, Open, Set};
pub use stream::TextStream;
pub(crate) use terminal::TerminalStream;

/// How what stands in a secret's place begins; its kind and `]` follow.
pub(crate) const MARKER: &str = "[redacted:";

/// The length of the marker that the text begins with.
fn marker_len(text: &[u8]) -> Option<usize> {
    let kind = text.strip_prefix(MARKER.as_bytes())?;
    let len = kind
        .iter()
        .take(33)
        .take_while(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || **b == b'-')
        .count();
    (len > 0 && kind.get(len) == Some(&b']')).then_some(MARKER.len() + len + 1)
}

/// What secrets look like. Cheap to clone.
///
/// ```
/// use td_observe::redact::Rules;
/// let rules = Rules::builtin();
/// assert_eq!(rules.text("a clean line"), "a clean line");
/// let url = format!("postgres://app:{}@db/main", "hunter2!");
/// assert_eq!(rules.text(&url), "postgres://app:[redacted:url-password]@db/main");
/// ```
#[derive(Clone, Debug)]
pub struct Rules(Arc<Set>);

/// What was masked may have kept a rule from seeing the end of another secret, right before it: a
/// whole text is looked at again, so often at most.
const PASSES_MAX: usize = 4;

impl Rules {
    /// The rules that come with this library.
    pub fn builtin() -> Self {
        static BUILTIN: std::sync::LazyLock<Rules> = std::sync::LazyLock::new(|| {
            let set = rule::read(include_str!("rules.toml")).and_then(Set::new);
            #[expect(clippy::expect_used, reason = "the text is fixed, and a test reads it")]
            Rules(Arc::new(set.expect("the built-in rules are good")))
        });
        BUILTIN.clone()
    }

    /// No rules: nothing is taken out.
    pub fn none() -> Self {
        #[expect(clippy::expect_used, reason = "nothing that could fail is built")]
        Self(Arc::new(Set::new(Vec::new()).expect("no rules are good")))
    }

    /// Adds rules, written as in `rules.toml`; where an added one and an earlier one match at the
    /// same place, the earlier one gives the name.
    ///
    /// # Errors
    /// Text that is no such TOML, and rules that cannot be used: which, and why.
    pub fn with_toml(&self, text: &str) -> Result<Self> {
        let mut rules = self.0.rules.clone();
        rules.extend(rule::read(text)?);
        Ok(Self(Arc::new(Set::new(rules)?)))
    }

    /// One whole text, without a stream around it: a label, a summary. It may have been cut short,
    /// so that the beginning of a secret at its end is masked too.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for _ in 0..PASSES_MAX {
            if self.0.finder.find(text.as_bytes(), 0).is_none() {
                break;
            }
            let mut spans = Vec::new();
            self.0.scan(text.as_bytes(), Open::No, End::Cut, &mut spans);
            if spans.is_empty() {
                break;
            }
            let masked = stream::masked(&self.0, &text, &spans, false);
            if masked == text {
                break;
            }
            text = Cow::Owned(masked);
        }
        text
    }
}
