//! The bytes of a pane: through `pipe-pane` to a drain, and from there over a socket to the poller.
//!
//! ```text
//! tmux server ─socketpair─> td-observe drain ─Unix socket─> td-drains ─channel─> poller
//!                             (always reads)    frames      (a thread a session)
//! ```
//! tmux buffers without limit any output that the piped command does not read, so the drain always reads. It
//! is a child of the tmux server, continues while the observer is stopped or slow, and counts the bytes for
//! which it has no room. A pipe is opened only if the pane has none, in the same command list as the capture
//! from which it continues. No tmux command closes it, because the command might hit another program's pipe.
//! Instead, the drain ends, which tmux notices at once, because it also reads from the drain (`-I`).

mod frame;

mod command;
mod socket;

mod drain;

mod drains;

pub use command::DrainProgram;
#[cfg(feature = "cli")]
pub(super) use command::quoted_for_tmux;
pub use drain::drain;
pub(crate) use drains::{DrainMessage, DrainOrder, DrainOutput, Drains, PipeToken};
pub(crate) use frame::DroppedBytes;
