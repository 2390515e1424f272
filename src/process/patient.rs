//! Emitting what a program printed that may be made to wait: with patience, but not for ever.

use std::time::Duration;

use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::event::TdEvent;

/// So long a program is made to wait for a log that does not come on: a disk that stands still
/// holds nobody up for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// Emits events when there is room for them on the whole way to the log.
#[derive(Debug)]
pub(crate) struct BlockingEmitter {
    pub emitter: EventEmitter,
    clock: Clock,
    /// The log did not come on while it was waited for. Until it does, what has no room is
    /// dropped and counted at once.
    has_given_up: bool,
}

impl BlockingEmitter {
    pub fn new(emitter: EventEmitter, clock: Clock) -> Self {
        Self {
            emitter,
            clock,
            has_given_up: false,
        }
    }

    /// Emits an event that is kept.
    pub fn emit(&mut self, event: TdEvent) {
        if self.has_given_up && !self.emitter.has_room() {
            self.emitter.emit(event);
            return;
        }
        let deadline = self.clock.now() + PATIENCE;
        self.emitter.emit_deadline(event, deadline);
        self.has_given_up = self.clock.now() >= deadline;
    }
}
