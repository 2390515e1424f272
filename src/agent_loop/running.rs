//! The command that runs now, for whoever must kill it at once.

use std::sync::{Arc, Mutex, PoisonError};

use crate::process::CommandControl;

/// The command that runs now; clones are one and the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Running(Arc<Mutex<Option<CommandControl>>>);

impl Running {
    /// Another command begins: what ends it.
    pub fn begin(&self) -> CommandControl {
        let control = CommandControl::new();
        // It is replaced in one step: a panic leaves nothing half done.
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *running = Some(control.clone());
        control
    }

    /// Kills it, if there is one.
    #[cfg(feature = "cli")]
    pub fn kill(&self) {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(control) = running.as_ref() {
            control.kill();
        }
    }
}
