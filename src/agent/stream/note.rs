//! What the records of an agent state beside its events: costs, further tokens, and summaries (pure).

use super::Json;

/// A statement of an agent's records that no event has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RecordNote {
    /// The cost of work, as the agent states it, in US dollars. It is that of the work since the last such note, so that
    /// costs are to be added; of an agent that states totals, it is the difference to the total before.
    Cost { dollars: f64 },
    /// Tokens of a response that its [`AgentEvent::ResponseCompleted`](super::AgentEvent::ResponseCompleted) does not
    /// include, because the agent counts them apart.
    MoreTokens {
        /// Those of the prompt that were read from a cache, or written to it.
        cached_input: u64,
        /// Those of the model's thoughts.
        thoughts: u64,
    },
    /// A summary of the session that the agent itself has written, at most 2,000 characters.
    Summary { text: String },
}

/// The cost of a session whose records state its total.
#[derive(Debug, Default)]
pub(super) struct CostTotal {
    session: String,
    dollars: f64,
}

impl CostTotal {
    /// Returns what a total adds to the one before of the same session; `None` if it adds nothing. A total that is
    /// lower is that of another process, which began anew.
    pub fn added(&mut self, session: &str, total: &Json<'_>) -> Option<RecordNote> {
        let total = dollars(total)?;
        let is_same = self.session == session && total >= self.dollars;
        let before = if is_same { self.dollars } else { 0.0 };
        session.clone_into(&mut self.session);
        self.dollars = total;
        cost(total - before)
    }
}

/// Returns the note of a cost that a record states; `None` if it costs nothing.
pub(super) fn cost_of(value: &Json<'_>) -> Option<RecordNote> {
    cost(dollars(value)?)
}

pub(super) fn cost(dollars: f64) -> Option<RecordNote> {
    let is_cost = dollars.is_finite() && dollars > 0.0;
    is_cost.then_some(RecordNote::Cost { dollars })
}

/// Returns an amount of money, which is absent if it is negative.
fn dollars(value: &Json<'_>) -> Option<f64> {
    value.as_f64().filter(|dollars| *dollars >= 0.0)
}
