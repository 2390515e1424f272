//! Waiting for a line, an agent's turn, a program's end, a silence or a tmux channel.
//!
//! A wait hears the panes that an engine streams: their pollers pass each change on before it is redacted, in
//! their own threads, so that neither a lossy lane nor a throttle can hide a line. Other panes it captures
//! itself, with its own tracker; lines that scroll away between two captures match like others, and otherwise
//! the wait reports that lines were lost. The content of a pane at the start is the baseline, which does not
//! match.
//!
//! Each wait runs in the thread of its caller. A wait for a channel starts one more thread, `td-channel`.

mod matcher;

mod config;

#[cfg(feature = "cli")]
mod spec;
#[cfg(feature = "cli")]
mod states;

#[cfg(feature = "redis")]
mod copied;

#[cfg(feature = "cli")]
mod turn;

mod exits;
mod pane;
mod stream;

mod started_wait;

mod waiter;

pub use config::{TargetEnd, Wait, WaitCondition, WaitEnd, WaitMatch, WaitOutcome};
pub use matcher::Pattern;
pub use started_wait::StartedWait;
pub use waiter::Waiter;

#[cfg(feature = "redis")]
pub(crate) use copied::CopiedWait;
#[cfg(feature = "cli")]
pub(crate) use {
    spec::WaitSpec,
    started_wait::Lead,
    states::StateMatcher,
    turn::{FollowedTurn, Question, TurnEnd},
};
