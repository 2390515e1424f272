//! Waiter: "tell me when it is done" — until a line comes, a program ends, a pane falls silent, or a
//! tmux channel is signalled.
//!
//! A wait looks at panes by itself, with a tracker of its own: nothing stands between a look and
//! what is waited for, no lane that may drop, no limiter. What stood there at the first look is not
//! new; lines that scrolled away between two looks match as others do, or it is known that lines
//! were lost.

mod channel_wait;
mod config;
mod driver;
mod pane;
mod waiter;

mod echo;
mod matcher;
mod pattern;

pub use config::{TargetEnd, Wait, WaitCondition, WaitEnd, WaitMatch, WaitOutcome};
pub use pattern::Pattern;
pub use waiter::{StartedWait, Waiter};
