//! The handle that sources and embedding code emit through, bound to one execution.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::inbox::{Emitted, Inbox};
use crate::error::Result;
use crate::event::{
    AgentState, Completion, Cursor, EndEvidence, EnumOrUnknown, ExecutionId, GapEvidence,
    GapReason, IterationOutcome, OutputStream, PaneCloseReason, PaneId, PaneViewer, ReportedChild,
    ScreenRow, SessionEndReason, StateEvidence, TdEvent, ToolCalls, event_arg, event_table,
};

/// The longest time for which a program is blocked while the log makes no progress, so that a stalled disk
/// cannot block it forever.
const STALL_MAX: Duration = Duration::from_secs(5);

/// Emits the events of one execution, from any thread; clone it freely.
///
/// Each event also has a method of its own, which takes the event's required fields; [`emit`](Self::emit)
/// accepts events with optional fields, too. None of these methods waits.
///
/// ```
/// let bus = td_observe::EventBus::new(10_000);
/// let emitter = bus.emitter_for("execution-123");
/// emitter.prompt_sent(1, "Implement OAuth...", 1500);
/// emitter.token_received(1, "I'll");
/// emitter.custom("BuildQueued", serde_json::json!({"position": 3}))?;
/// # Ok::<(), td_observe::Error>(())
/// ```
#[derive(Clone)]
pub struct EventEmitter {
    inbox: Arc<Inbox>,
    id: ExecutionId,
}

impl EventEmitter {
    pub(super) fn new(inbox: Arc<Inbox>, id: ExecutionId) -> Self {
        Self { inbox, id }
    }

    /// Returns the id of the execution that this emitter is bound to.
    pub fn execution_id(&self) -> &ExecutionId {
        &self.id
    }

    /// Emits an event, assigned to this emitter's execution. Never waits.
    pub fn emit(&self, mut event: TdEvent) -> Emitted {
        self.claim(&mut event);
        self.inbox.emit(event, false)
    }

    /// Emits an event of the caller's own type, see [`TdEvent::custom`]. Never waits.
    ///
    /// # Errors
    /// The errors of [`TdEvent::custom`].
    pub fn custom(&self, type_name: &str, fields: impl Serialize) -> Result<Emitted> {
        Ok(self.emit(TdEvent::custom(&self.id, type_name, fields)?))
    }

    /// Emits an event for live subscribers only: it gets no number and does not reach the log. Used for
    /// intermediate states of a line. Never waits.
    pub fn emit_live(&self, mut event: TdEvent) -> Emitted {
        self.claim(&mut event);
        self.inbox.emit(event, true)
    }

    /// Waits until little waits for the log, at most until the deadline, and then emits as [`emit`](Self::emit)
    /// does.
    ///
    /// For readers of programs that may be blocked, as a terminal blocks them: no output of a child process
    /// is lost while the log makes progress. Pollers never use it.
    pub fn emit_deadline(&self, mut event: TdEvent, deadline: Instant) -> Emitted {
        self.claim(&mut event);
        self.inbox.emit_deadline(event, deadline)
    }

    /// Returns true if the queues to the log are at most half full. Pollers that get `false` keep their
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

impl fmt::Debug for EventEmitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventEmitter")
            .field("execution_id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Emits the output of a program, blocking the program's reader until the inbox and the log have room.
#[derive(Debug)]
pub(crate) struct BlockingEmitter {
    pub emitter: EventEmitter,
    /// True if the log made no progress during the last wait. Until there is room again, events that do not
    /// fit are dropped and counted at once.
    is_stalled: bool,
}

impl BlockingEmitter {
    pub fn new(emitter: EventEmitter) -> Self {
        Self {
            emitter,
            is_stalled: false,
        }
    }

    /// Emits an event; blocks until the log has room for it.
    pub fn emit(&mut self, event: TdEvent) {
        if self.is_stalled && !self.emitter.inbox.has_room_for_reader() {
            self.emitter.emit(event);
            return;
        }
        let clock = &self.emitter.inbox.clock;
        let deadline = clock.now() + STALL_MAX;
        self.emitter.emit_deadline(event, deadline);
        self.is_stalled = clock.now() >= deadline;
    }
}

/// Sending events.
impl Inbox {
    /// Sends an event, or counts it as refused. Never waits.
    pub(super) fn emit(&self, event: TdEvent, live: bool) -> Emitted {
        (self.send(event, live)).unwrap_or_else(|event| self.refuse(&event, live))
    }

    /// Sends an event as soon as the inbox and the log have room, or at the deadline at the latest.
    pub(super) fn emit_deadline(&self, mut event: TdEvent, deadline: Instant) -> Emitted {
        loop {
            if self.has_room_for_reader() {
                match self.send(event, false) {
                    Ok(emitted) => return emitted,
                    Err(returned) => event = returned,
                }
            }
            let remaining = deadline.saturating_duration_since(self.clock.now());
            if remaining.is_zero() || self.is_closed() {
                return self.emit(event, false);
            }
            self.wait_for_room(remaining);
        }
    }
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
        pub fn $method(&self, $($field: event_arg!($field $type $(<$name $(<$inner>)?>)?)),*) -> Emitted {
            self.emit(TdEvent::$method(self.id.clone(), $($field),*))
        }
        methods! { $($rest)* }
    };
}

/// One method for each event of the wire contract, with its required fields as arguments.
impl EventEmitter {
    event_table!(methods);
}
