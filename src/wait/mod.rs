//! Waiting for a line, an agent's turn, a program's end, a silence or a tmux channel.
//!
//! A wait captures the panes of its target itself, with its own tracker, so neither a lossy lane nor a
//! throttle can hide a line. The content at the first capture is the baseline, which does not match. Lines
//! that scroll away between two captures match like others; otherwise the wait reports that lines were lost.
//!
//! Each wait runs in the thread of its caller. A wait for a channel starts one more thread, `td-channel`.

mod matcher;

mod config;

#[cfg(feature = "cli")]
mod spec;
#[cfg(feature = "cli")]
mod states;

mod pane;

mod started_wait;

mod waiter;

pub use config::{TargetEnd, Wait, WaitCondition, WaitEnd, WaitMatch, WaitOutcome};
pub use matcher::Pattern;
pub use started_wait::StartedWait;
pub use waiter::Waiter;

#[cfg(feature = "cli")]
pub(crate) use {spec::WaitSpec, states::StateMatcher};
