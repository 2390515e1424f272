//! Filters of a subscription: data (executions and kinds) for the fan-out, or a closure.

use rustc_hash::FxHashSet;

use crate::event::{EventKind, ExecutionId, TdEvent};

/// Selects events by execution and by kind; the default selects all events.
///
/// Events that the filter excludes are not sent to the subscription: they take no room in its lane and never
/// count as missed.
///
/// ```
/// use td_observe::{EventKind, Filter};
/// let filter = Filter::all()
///     .execution("abc123")
///     .kinds([EventKind::ValidationOutput, EventKind::ValidationCompleted]);
/// assert!(filter.selects("abc123", EventKind::ValidationOutput));
/// assert!(!filter.selects("abc123", EventKind::TokenReceived));
/// assert!(!filter.selects("other", EventKind::ValidationOutput));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Filter {
    executions: Option<FxHashSet<ExecutionId>>,
    /// One bit for each kind.
    kinds: Option<u64>,
}

// `Unknown` needs one bit more, because `ALL` does not contain it.
const _: () = assert!(EventKind::ALL.len() < u64::BITS as usize);

impl Filter {
    /// Selects every event.
    pub fn all() -> Self {
        Self::default()
    }

    /// Restricts the filter to this execution; further calls add further executions.
    pub fn execution(self, id: impl Into<ExecutionId>) -> Self {
        self.executions([id])
    }

    /// Restricts the filter to these executions; further calls add further executions. An empty
    /// list selects no event.
    pub fn executions<I: Into<ExecutionId>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.executions
            .get_or_insert_default()
            .extend(ids.into_iter().map(Into::into));
        self
    }

    /// Restricts the filter to this kind; further calls add further kinds.
    pub fn kind(self, kind: EventKind) -> Self {
        self.kinds([kind])
    }

    /// Restricts the filter to these kinds; further calls add further kinds. An empty list selects
    /// no event.
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = EventKind>) -> Self {
        let bits = self.kinds.get_or_insert_default();
        for kind in kinds {
            *bits |= bit(kind);
        }
        self
    }

    /// Returns true if the filter selects events of this kind and execution.
    pub fn selects(&self, execution_id: &str, kind: EventKind) -> bool {
        self.kinds.is_none_or(|bits| bits & bit(kind) != 0)
            && self
                .executions
                .as_ref()
                .is_none_or(|ids| ids.contains(execution_id))
    }

    pub(super) fn matches(&self, event: &TdEvent) -> bool {
        self.is_all() || self.selects(event.execution_id(), event.kind())
    }

    pub(super) fn is_all(&self) -> bool {
        self.executions.is_none() && self.kinds.is_none()
    }
}

fn bit(kind: EventKind) -> u64 {
    1 << (kind as u32)
}

/// A closure that selects events in the subscriber's thread.
pub(super) type Predicate = Box<dyn Fn(&TdEvent) -> bool + Send>;

/// An argument of [`EventBus::subscribe_filtered`](crate::EventBus::subscribe_filtered): a
/// [`Filter`], or a closure `|event: &TdEvent| -> bool`.
pub trait EventFilter: sealed::EventFilter {}

impl<F: sealed::EventFilter> EventFilter for F {}

pub(super) mod sealed {
    use super::{Filter, Predicate, TdEvent};

    pub trait EventFilter {
        /// Splits the filter into the part that the fan-out applies and the part that `recv` applies.
        fn into_parts(self) -> (Filter, Option<Predicate>);
    }

    impl EventFilter for Filter {
        fn into_parts(self) -> (Filter, Option<Predicate>) {
            (self, None)
        }
    }

    impl<F: Fn(&TdEvent) -> bool + Send + 'static> EventFilter for F {
        fn into_parts(self) -> (Filter, Option<Predicate>) {
            (Filter::all(), Some(Box::new(self)))
        }
    }
}
