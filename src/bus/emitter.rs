//! The handle that sources and embedding code emit through, bound to one execution.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use crate::bus::gate::Side;
use crate::bus::inbox::{Emitted, Shared};
use crate::event::{
    Cursor, ExecutionId, ExitStatus, GapEvidence, IterationOutcome, LineCount, MaybePane, MaybePid,
    MaybeText, PaneId, PaneIds, ScreenRows, Styles, TdEvent, event_table,
};

/// Emits the events of one execution, from any thread; clone it at will.
///
/// Beside [`emit`](Self::emit) there is a method for each event. None of them waits.
///
/// ```
/// let bus = td_observe::EventBus::new(10_000);
/// let emitter = bus.emitter_for("execution-123");
/// emitter.prompt_sent(1, "Implement OAuth...", 1500);
/// emitter.token_received(1, "I'll");
/// ```
pub struct EventEmitter {
    shared: Arc<Shared>,
    id: ExecutionId,
    side: Side,
}

impl EventEmitter {
    pub(super) fn new(shared: Arc<Shared>, id: ExecutionId) -> Self {
        Self {
            side: shared.side(),
            shared,
            id,
        }
    }

    /// The execution whose events these are.
    pub fn execution_id(&self) -> &ExecutionId {
        &self.id
    }

    /// Emits an event, which becomes one of this execution. Never waits.
    pub fn emit(&self, mut event: TdEvent) -> Emitted {
        self.claim(&mut event);
        self.shared.emit(self.side, event, false)
    }

    /// Emits an event for those who watch: it gets no number and does not reach the log (passing
    /// states of a line between two that are kept). Never waits.
    pub fn emit_live(&self, mut event: TdEvent) -> Emitted {
        self.claim(&mut event);
        self.shared.emit(self.side, event, true)
    }

    /// Emits an event when there is room for it on the whole way to the log, at the latest at the
    /// deadline, and then as [`emit`](Self::emit) does.
    ///
    /// For those who read from a program that may be made to wait, as a terminal does: a child's
    /// output then loses nothing while the log comes on. Never for pollers.
    pub fn emit_waiting(&self, mut event: TdEvent, deadline: Instant) -> Emitted {
        self.claim(&mut event);
        self.shared.emit_waiting(self.side, event, deadline)
    }

    /// Whether the way to the log is at most half full. Pollers that see `false` keep their place
    /// and look again with the next tick.
    pub fn has_room(&self) -> bool {
        self.shared.has_room()
    }

    fn claim(&self, event: &mut TdEvent) {
        if event.execution() != Some(&self.id) {
            event.set_execution_id(&self.id);
        }
    }
}

impl Clone for EventEmitter {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.shared), self.id.clone())
    }
}

impl fmt::Debug for EventEmitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventEmitter")
            .field("execution_id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The type in which a method takes a field.
macro_rules! arg {
    (String) => {
        &str
    };
    (PaneId) => {
        &PaneId
    };
    ($by_value:ident) => {
        $by_value
    };
}

/// The field made of what the method took.
macro_rules! field {
    (String, $arg:ident) => {
        $arg.to_owned()
    };
    (PaneId, $arg:ident) => {
        $arg.clone()
    };
    ($by_value:ident, $arg:ident) => {
        $arg
    };
}

/// One method an event; the header of a log file is nobody's to emit.
macro_rules! methods {
    () => {};
    ($(#[$doc:meta])* LogOpened $method:ident $class:ident { $($fields:tt)* } $($rest:tt)*) => {
        methods! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        $variant:ident $method:ident $class:ident {
            $($field:ident $(| $alias:literal)? : $type:ident),*
            $(; $($more:ident : $more_type:ident),+)? $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, reason = "one for each field")]
        pub fn $method(&self, $($field: arg!($type)),*) -> Emitted {
            self.emit(TdEvent::$variant {
                execution_id: self.id.clone(),
                $($field: field!($type, $field),)*
                $($($more: Default::default()),+)?
            })
        }
        methods! { $($rest)* }
    };
}

/// A method for each event of the wire contract.
impl EventEmitter {
    event_table!(methods);
}
