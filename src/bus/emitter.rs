//! The handle that sources and embedding code emit through, bound to one execution.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use crate::bus::gate::GateSlot;
use crate::bus::inbox::{Emitted, Inbox};
use crate::error::Result;
use crate::event::{
    AgentState, Cursor, EndEvidence, EnumOrUnknown, ExecutionId, GapEvidence, GapReason,
    IterationOutcome, OutputStream, PaneCloseReason, PaneId, ScreenRow, SessionEndReason,
    StateEvidence, TdEvent, event_table,
};

/// Emits the events of one execution, from any thread; clone it freely.
///
/// Beside [`emit`](Self::emit) there is a method for each event. It takes the fields that every
/// such event has; [`emit`](Self::emit) takes events with the optional ones, too. None of them
/// waits.
///
/// ```
/// let bus = td_observe::EventBus::new(10_000);
/// let emitter = bus.emitter_for("execution-123");
/// emitter.prompt_sent(1, "Implement OAuth...", 1500);
/// emitter.token_received(1, "I'll");
/// emitter.custom("BuildQueued", td_observe::serde_json::json!({"position": 3}))?;
/// # Ok::<(), td_observe::Error>(())
/// ```
pub struct EventEmitter {
    inbox: Arc<Inbox>,
    id: ExecutionId,
    slot: GateSlot,
}

impl EventEmitter {
    pub(super) fn new(inbox: Arc<Inbox>, id: ExecutionId) -> Self {
        Self {
            slot: inbox.assign_slot(),
            inbox,
            id,
        }
    }

    /// Returns the execution whose events this emitter emits.
    pub fn execution_id(&self) -> &ExecutionId {
        &self.id
    }

    /// Emits an event as one of this execution. Never waits.
    pub fn emit(&self, mut event: TdEvent) -> Emitted {
        self.claim(&mut event);
        self.inbox.emit(self.slot, event, false)
    }

    /// Emits an event of the caller's own type, see [`TdEvent::custom`]. Never waits.
    ///
    /// # Errors
    /// As [`TdEvent::custom`].
    pub fn custom(&self, type_name: &str, fields: impl Serialize) -> Result<Emitted> {
        Ok(self.emit(TdEvent::custom(&self.id, type_name, fields)?))
    }

    /// Emits an event for live subscribers only: it gets no number and does not reach the log. It
    /// serves passing states of a line between two that are kept. Never waits.
    pub fn emit_live(&self, mut event: TdEvent) -> Emitted {
        self.claim(&mut event);
        self.inbox.emit(self.slot, event, true)
    }

    /// Waits until there is room on the whole way to the log, at most until the deadline, and then
    /// emits as [`emit`](Self::emit) does.
    ///
    /// This is for readers of programs that may be made to wait, as a terminal makes them wait: a
    /// child's output then loses nothing while the log makes progress. Pollers never use it.
    pub fn emit_deadline(&self, mut event: TdEvent, deadline: Instant) -> Emitted {
        self.claim(&mut event);
        self.inbox.emit_deadline(self.slot, event, deadline)
    }

    /// Returns true if the way to the log is at most half full. Pollers that get `false` keep their
    /// position and poll again at the next tick.
    pub fn has_room(&self) -> bool {
        self.inbox.has_room()
    }

    fn claim(&self, event: &mut TdEvent) {
        if event.execution() != Some(&self.id) {
            event.set_execution_id(&self.id);
        }
    }
}

impl Clone for EventEmitter {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.inbox), self.id.clone())
    }
}

impl fmt::Debug for EventEmitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventEmitter")
            .field("execution_id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The argument type for a field.
macro_rules! arg {
    (String) => {
        &str
    };
    (PaneId) => {
        &PaneId
    };
    (EndEvidence) => {
        impl Into<EndEvidence>
    };
    (EnumOrUnknown<$name:ident>) => {
        impl Into<EnumOrUnknown<$name>>
    };
    ($($by_value:tt)*) => {
        $($by_value)*
    };
}

/// The field's value, made from the argument.
macro_rules! field {
    ($arg:ident, String) => {
        $arg.to_owned()
    };
    ($arg:ident, PaneId) => {
        $arg.clone()
    };
    ($arg:ident, EndEvidence) => {
        $arg.into()
    };
    ($arg:ident, EnumOrUnknown<$name:ident>) => {
        $arg.into()
    };
    ($arg:ident, $($by_value:tt)*) => {
        $arg
    };
}

/// One method for each event, except the header of a log file, which only the log writer creates.
macro_rules! methods {
    () => {};
    ($(#[$doc:meta])* LogOpened $method:ident $class:ident { $($fields:tt)* } $($rest:tt)*) => {
        methods! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        $variant:ident $method:ident $class:ident {
            $($(#[$field_doc:meta])* $field:ident $(| $alias:literal)? : $type:ident $(<$name:ident $(<$inner:ident>)?>)?),*
            $(; $($(#[$more_doc:meta])* $more:ident : $more_type:ident $(<$more_name:ident $(<$more_inner:ident>)?>)?),+)? $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$doc])*
        #[doc = concat!("\n\nEmits [`TdEvent::", stringify!($variant), "`], which documents the arguments.")]
        pub fn $method(&self, $($field: arg!($type $(<$name $(<$inner>)?>)?)),*) -> Emitted {
            self.emit(TdEvent::$variant {
                execution_id: self.id.clone(),
                $($field: field!($field, $type $(<$name $(<$inner>)?>)?),)*
                $($($more: Default::default()),+)?
            })
        }
        methods! { $($rest)* }
    };
}

/// One method for each event of the wire contract, with its required fields as arguments.
impl EventEmitter {
    event_table!(methods);
}
