//! What brings copies of runs up to date before they are read.

use std::fmt;
use std::sync::Arc;

use crate::event::ExecutionId;

/// Brings copies of runs up to date, before they are read.
pub(crate) trait CopySource: Send + Sync {
    /// Appends to the copy of a run what its writer has written since, if the run is a copy.
    fn refresh(&self, execution: &ExecutionId);
}

/// The source of the copies in a data directory. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SharedCopySource(pub Arc<dyn CopySource>);

impl fmt::Debug for SharedCopySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedCopySource")
    }
}
