//! Where the data of the page comes from.

use crate::api::FindObserver;
use crate::clock::Clock;
use crate::history::DataDir;

/// An observer, which may come and go, and the histories in a data directory. Cheap to clone.
#[derive(Clone)]
pub(super) struct PageSource {
    pub find: FindObserver,
    pub data: DataDir,
    pub clock: Clock,
}
