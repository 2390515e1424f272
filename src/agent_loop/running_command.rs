//! A handle of the running command, so that another thread can kill it at once.

use std::sync::{Arc, Mutex};

use crate::process::CommandControl;
use crate::thread::lock;

/// A handle of the running command. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningCommand(Arc<Mutex<Option<CommandControl>>>);

impl RunningCommand {
    /// Returns the control of a new command, which replaces the previous one.
    pub fn begin(&self) -> CommandControl {
        let control = CommandControl::new();
        *lock(&self.0) = Some(control.clone());
        control
    }

    /// Kills the command, if one is running.
    #[cfg(feature = "cli")]
    pub fn kill(&self) {
        if let Some(control) = &*lock(&self.0) {
            control.kill();
        }
    }
}
