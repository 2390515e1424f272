//! The destinations of a command's bytes, before they are decoded.

use std::io::Write;

use crate::child::OutputStream;

/// Receives every byte of a command's outputs as printed. Runs on the thread that supervises the command, and
/// must not block it.
pub(crate) trait ByteSink: Send {
    /// Receives bytes.
    fn take(&mut self, stream: OutputStream, bytes: &[u8]);

    /// Returns false while the sink has no room for this output, which is not read then.
    fn has_room(&self, stream: OutputStream) -> bool;

    /// Returns true when the reader of this output has gone; the command's output is closed then.
    fn is_closed(&mut self, stream: OutputStream) -> bool {
        let _ = stream;
        false
    }
}

/// A writer that gets both outputs, such as a terminal.
pub(super) struct Mirror<W> {
    to: Option<W>,
}

impl<W: Write + Send> Mirror<W> {
    pub fn new(to: W) -> Self {
        Self { to: Some(to) }
    }
}

impl<W: Write + Send> ByteSink for Mirror<W> {
    fn take(&mut self, _: OutputStream, bytes: &[u8]) {
        if let Some(to) = &mut self.to
            && to.write_all(bytes).and_then(|()| to.flush()).is_err()
        {
            // The writer's reader is gone; the command continues.
            self.to = None;
        }
    }

    fn has_room(&self, _: OutputStream) -> bool {
        true
    }
}
