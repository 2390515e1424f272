//! An emitter for programs that may be blocked: it waits for room in the log, but not without limit.

use std::time::Duration;

use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::event::TdEvent;

/// The longest time for which a program is blocked while the log makes no progress: a stalled disk must not block it for
/// ever.
const STALL_MAX: Duration = Duration::from_secs(5);

/// Emits events when the whole path to the log has room for them.
#[derive(Debug)]
pub(crate) struct BlockingEmitter {
    pub emitter: EventEmitter,
    clock: Clock,
    /// The log made no progress during the last wait. Until it has room, events that do not fit are
    /// dropped and counted at once.
    is_stalled: bool,
}

impl BlockingEmitter {
    pub fn new(emitter: EventEmitter, clock: Clock) -> Self {
        Self {
            emitter,
            clock,
            is_stalled: false,
        }
    }

    /// Emits an event, and blocks until the log has room for it.
    pub fn emit(&mut self, event: TdEvent) {
        if self.is_stalled && !self.emitter.has_room() {
            self.emitter.emit(event);
            return;
        }
        let deadline = self.clock.now() + STALL_MAX;
        self.emitter.emit_deadline(event, deadline);
        self.is_stalled = self.clock.now() >= deadline;
    }
}
