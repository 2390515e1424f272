//! The tokens that the records of an agent state (pure).

use super::Json;

/// The token usage of one message of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Tokens that the agent counts apart: those of a cache, and those of thoughts.
    pub cached_input: u64,
    pub thoughts: u64,
}

impl TokenUsage {
    /// Reads the counts in these fields.
    pub fn of(counts: &Json<'_>, input: &str, output: &str) -> Self {
        Self {
            input_tokens: counts[input].as_u64().unwrap_or(0),
            output_tokens: counts[output].as_u64().unwrap_or(0),
            ..Self::default()
        }
    }

    /// Reads the counts of Anthropic's API, which counts the tokens of caches apart.
    pub fn of_anthropic(counts: &Json<'_>) -> Self {
        let names = ["cache_read_input_tokens", "cache_creation_input_tokens"];
        Self::of(counts, "input_tokens", "output_tokens")
            .with_cached(names.map(|name| &counts[name]))
    }

    /// Adds the tokens of caches, which these counts state apart.
    pub fn with_cached(self, counts: [&Json<'_>; 2]) -> Self {
        let counts = counts.map(|count| count.as_u64().unwrap_or(0));
        Self {
            cached_input: counts[0].saturating_add(counts[1]),
            ..self
        }
    }

    /// Adds the tokens of thoughts, as far as a total shows that the agent counts them apart.
    pub fn with_thoughts(self, thoughts: &Json<'_>, total: &Json<'_>) -> Self {
        let (thoughts, total) = (thoughts.as_u64(), total.as_u64());
        let counted = self.input_tokens.saturating_add(self.output_tokens);
        let counted = counted.saturating_add(self.cached_input);
        let apart = total.unwrap_or(0).saturating_sub(counted);
        Self {
            thoughts: thoughts.unwrap_or(0).min(apart),
            ..self
        }
    }

    /// Returns true if the counts of an event are 0.
    pub fn is_uncounted(self) -> bool {
        self.input_tokens == 0 && self.output_tokens == 0
    }

    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_input: self.cached_input.saturating_add(other.cached_input),
            thoughts: self.thoughts.saturating_add(other.thoughts),
        }
    }

    /// Replaces known counts, which are cumulative, so that the last ones are final.
    pub fn replace(&mut self, input: Option<u64>, output: Option<u64>) {
        self.input_tokens = input.unwrap_or(self.input_tokens);
        self.output_tokens = output.unwrap_or(self.output_tokens);
    }

    /// Returns the difference to `other`, at least 0.
    pub fn minus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(other.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(other.output_tokens),
            cached_input: self.cached_input.saturating_sub(other.cached_input),
            thoughts: self.thoughts.saturating_sub(other.thoughts),
        }
    }
}
