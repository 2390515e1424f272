//! Which events a subscription is for, as data that the fan-out can look at (pure).

use rustc_hash::FxHashSet;

use crate::event::{EventKind, ExecutionId, TdEvent};

/// Chooses events by execution and by kind; the default chooses all.
///
/// Events that a filter leaves out are not sent to the subscription: they take no room in it and
/// never count as missed.
///
/// ```
/// use td_observe::{EventKind, Filter};
/// let filter = Filter::all()
///     .execution("abc123")
///     .kinds([EventKind::ValidationOutput, EventKind::ValidationCompleted]);
/// assert!(filter.chooses("abc123", EventKind::ValidationOutput));
/// assert!(!filter.chooses("abc123", EventKind::TokenReceived));
/// assert!(!filter.chooses("other", EventKind::ValidationOutput));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Filter {
    executions: Option<FxHashSet<ExecutionId>>,
    /// A bit for each kind.
    kinds: Option<u64>,
}

// One bit a kind, `Unknown` included.
const _: () = assert!(EventKind::ALL.len() < u64::BITS as usize);

impl Filter {
    /// Every event.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only this execution; called again, that one too.
    pub fn execution(self, id: impl Into<ExecutionId>) -> Self {
        self.executions([id])
    }

    /// Only these executions; called again, those too. With none at all, no event is chosen.
    pub fn executions<I: Into<ExecutionId>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.executions
            .get_or_insert_default()
            .extend(ids.into_iter().map(Into::into));
        self
    }

    /// Only this kind; called again, that one too.
    pub fn kind(self, kind: EventKind) -> Self {
        self.kinds([kind])
    }

    /// Only these kinds; called again, those too. With none at all, no event is chosen.
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = EventKind>) -> Self {
        let bits = self.kinds.get_or_insert_default();
        for kind in kinds {
            *bits |= bit(kind);
        }
        self
    }

    /// Whether an event of this kind and execution is chosen.
    pub fn chooses(&self, execution_id: &str, kind: EventKind) -> bool {
        self.kinds.is_none_or(|bits| bits & bit(kind) != 0)
            && self
                .executions
                .as_ref()
                .is_none_or(|ids| ids.contains(execution_id))
    }

    pub(super) fn matches(&self, event: &TdEvent) -> bool {
        self.is_all() || self.chooses(event.execution_id(), event.kind())
    }

    pub(super) fn is_all(&self) -> bool {
        self.executions.is_none() && self.kinds.is_none()
    }
}

fn bit(kind: EventKind) -> u64 {
    1 << (kind as u32)
}
