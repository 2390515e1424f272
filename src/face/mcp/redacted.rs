//! Waits that find nothing in what is redacted: else a model could guess a secret, letter by letter.
//!
//! The observer matches lines before they are redacted, so that a secret that two lines share is found as one. A line whose
//! redacted text does not match is none for a client.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Observer;
use crate::clock::Clock;
use crate::error::Result as CrateResult;
use crate::redact::MARKER;
use crate::thread::Stop;
use crate::wait::{Pattern, WaitCondition, WaitEnd, WaitOutcome};

/// The patterns of a wait, as they match what a client may see.
#[derive(Clone, Debug)]
pub(super) struct Patterns {
    wanted: Vec<Pattern>,
    /// A line that matches one of these ends the wait without success.
    stops: Vec<Pattern>,
}

impl Patterns {
    /// Returns the patterns in the conditions of a wait.
    ///
    /// # Errors
    /// If one is invalid.
    pub fn of(conditions: &Value) -> CrateResult<Self> {
        let texts = |name: &str| {
            let texts = conditions[name].as_array().into_iter().flatten();
            texts.filter_map(Value::as_str).collect::<Vec<_>>()
        };
        let regexes = |name| texts(name).into_iter().map(Pattern::regex);
        let wanted = texts("text")
            .into_iter()
            .map(Pattern::text)
            .chain(regexes("regex"));
        Ok(Self {
            wanted: wanted.collect::<CrateResult<_>>()?,
            stops: regexes("stop").collect::<CrateResult<_>>()?,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.stops.is_empty()
    }

    /// Returns true if a line has a match that ends after its first `from` bytes.
    pub fn match_line(&self, line: &str, from: usize) -> bool {
        let mut all = self.wanted.iter().chain(&self.stops);
        all.any(|pattern| pattern.matches(line, from))
    }

    /// Returns true if such a match ends the wait without success.
    pub fn stop_at(&self, line: &str, from: usize) -> bool {
        self.stops.iter().any(|pattern| pattern.matches(line, from))
    }

    /// Returns true if an outcome is a line that does not match any more once it is redacted.
    fn hide(&self, outcome: &WaitOutcome) -> bool {
        let (WaitEnd::Matched(found) | WaitEnd::Stopped(found)) = &outcome.end else {
            return false;
        };
        let is_line = found.condition == WaitCondition::Text;
        let text = found.text.as_ref().filter(|_| is_line);
        let redacted = text.filter(|text| text.contains(MARKER));
        redacted.is_some_and(|text| !self.match_line(text, 0))
    }
}

/// Waits as [`Observer::wait`] does, and waits on after a line that the client may not see.
///
/// # Errors
/// The reason in words.
pub(super) fn wait(
    observer: &Observer,
    (server, body): (&Path, &Value),
    (patterns, begun): (&Patterns, &(dyn Fn() -> bool + Sync)),
    (stop, clock): (&Stop, &Clock),
) -> Result<Option<WaitOutcome>, String> {
    let total = body["timeout_ms"].as_u64().map(Duration::from_millis);
    let deadline: Option<Instant> = total.map(|total| clock.now() + total);
    let mut outcome = observer.wait(server, body, begun, (stop, clock))?;
    while outcome
        .as_ref()
        .is_some_and(|outcome| patterns.hide(outcome))
    {
        let mut rest = body.clone();
        if let Some(deadline) = deadline {
            let left = deadline.saturating_duration_since(clock.now());
            let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            rest["timeout_ms"] = json!(left);
        }
        outcome = observer.wait(server, &rest, &|| true, (stop, clock))?;
    }
    Ok(outcome)
}
