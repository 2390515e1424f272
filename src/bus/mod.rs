//! The event bus: carries events from emitters through one fan-out thread, which numbers them, to lanes.
//!
//! Emitters never wait: an event that finds no room is refused and counted. The fan-out never waits for
//! readers: a lossy lane drops its oldest events and counts them, and a lossless lane (the log's) holds 64
//! MiB and then reports the missing numbers. In every lane, received + missed = sent. The bus knows neither
//! the history nor tmux.
//!
//! Threads: emitters → inbox (bounded) → `td-fanout` → lanes (bounded) → readers. Only readers sleep on a
//! lane, and only the fan-out sleeps on the inbox. [`EventBus::close`](crate::EventBus::close) ends the fan-out after it has
//! delivered all accepted events; emitters that still exist then get [`Emitted::Closed`](crate::Emitted::Closed).

use std::sync::Arc;

use crate::event::Envelope;

mod throttle;

pub(crate) mod inbox;
mod lossy_lane;

mod fanout;
pub(crate) mod lossless_lane;

pub(crate) mod emitter;
pub(crate) mod subscription;

pub(crate) mod event_bus;

pub(crate) use self::emitter::{BlockingEmitter, EventEmitter};
pub(crate) use self::event_bus::{BusOptions, EventBus, SubscribeOptions};
pub(crate) use self::lossless_lane::{LaneInterrupt, LosslessLane};
pub use self::lossy_lane::{RecvError, RecvTimeoutError, TryRecvError};
pub use self::subscription::EventRef;
#[cfg(feature = "cli")]
pub(crate) use self::subscription::Filter;
pub(crate) use self::subscription::{Delivery, Subscription};

/// Consecutive envelopes, shared by all lanes and their readers. It is the vector that the emitters filled: into a slice
/// behind the pointer, each event would be moved once more.
pub(crate) type Batch = Arc<Vec<Envelope>>;
