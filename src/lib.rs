//! td-observe: one ordered, typed stream of what tmux panes, processes and agents do.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![allow(dead_code, unused_imports, reason = "the rooms that use it are being built")]

mod error;
mod stamp;

mod event;

mod clock;
mod thread;

mod gap;
pub mod track;

pub mod bus;

pub mod log;

#[doc(hidden)]
pub mod child;
pub mod tmux;

mod source;

mod engine;

#[cfg(feature = "cli")]
mod view;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

pub use bus::{
    BusOptions, Delivery, Emitted, EventBus, EventEmitter, EventRef, Filter, Kept, KeptLane,
    RecvError, SubscribeOptions, Subscription,
};
pub use clock::{Clock, FakeClock};
pub use engine::{Builder, Engine, Report};
pub use error::{Error, Result};
pub use event::*;
pub use source::Watch;
pub use stamp::{ParseTimestampError, Timestamp};
pub use thread::Panicked;
