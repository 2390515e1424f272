//! A handle of the running command, so that another thread can kill it at once.

use std::sync::{Arc, Mutex, PoisonError};

use crate::process::CommandControl;

/// A handle of the running command. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningCommand(Arc<Mutex<Option<CommandControl>>>);

impl RunningCommand {
    /// Returns the control of a new command, which replaces the previous one.
    pub fn begin(&self) -> CommandControl {
        let control = CommandControl::new();
        // The value is replaced in a single step, so a panic cannot leave a partial change.
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *running = Some(control.clone());
        control
    }

    /// Kills the command, if one is running.
    #[cfg(feature = "cli")]
    pub fn kill(&self) {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(control) = running.as_ref() {
            control.kill();
        }
    }
}
