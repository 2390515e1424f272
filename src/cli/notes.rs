//! Prints warnings and errors of the observation on standard error, when the outputs of the command are passed
//! through and no tree shows them.

use crate::bus::{Filter, SubscribeOptions, Subscription};
use crate::engine::Engine;
use crate::event::{EventKind, TdEvent};

/// The collected warnings and errors.
pub(super) struct Notes(Subscription);

impl Notes {
    /// Starts to collect. Call it before the command is started.
    pub fn start(engine: &Engine) -> Self {
        Self(engine.subscribe_with(SubscribeOptions {
            filter: Filter::all().kinds([EventKind::Warning, EventKind::Error]),
            ..super::live::everything()
        }))
    }

    /// Prints the warnings and errors, once the bus is closed.
    pub fn print(mut self) {
        for delivery in self.0.iter() {
            let Some(envelope) = delivery.into_envelope() else {
                continue;
            };
            if let TdEvent::Warning {
                context, message, ..
            }
            | TdEvent::Error {
                context, message, ..
            } = &envelope.event
            {
                super::output::print_message(&format!("{context}: {message}"));
            }
        }
    }
}
