//! Events of many hosts by way of Redis Streams: a shipper on each host, and a replica of all for the faces.
//!
//! ```text
//! logs of a host ─> td-ship: a batch = one transaction ─> PREFIX:HOST:RUN, one stream per run
//!                            metadata of runs          ─> PREFIX::runs:HOST, PREFIX::changes
//! streams ─> td-replica ─> a data directory with a run HOST/RUN for each ─> faces
//! ```
//!
//! The log is the outbox: the shipper keeps no position of its own, and asks Redis for the last entry of each stream
//! whenever it connects. The id of an entry is a function of the log alone, so that Redis refuses what it has.

mod address;
mod keys;
mod troubles;

mod link;

mod batch;
mod entries;
mod shipped_run;
mod shipper;

mod copied_run;
mod replica;

pub(crate) use address::Address;
pub(crate) use keys::{Keys, PREFIX};
pub(crate) use replica::{Replica, ReplicaOptions};
pub(crate) use shipper::{Progress, Shipper, ShipperOptions};
