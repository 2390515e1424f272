//! The bytes of a pane: `pipe-pane` into a drain, and from there over a socket to the poller.
//!
//! ```text
//! tmux server ─socketpair─> td-observe drain ─Unix socket─> td-drains ─channel─> poller
//!                             (always reads)    frames      (a thread a session)
//! ```
//!
//! tmux buffers without limit what its command does not read, so the drain always reads. It is a child of
//! the tmux server, continues while the observer is stopped or slow, and counts the bytes that it has no
//! room for. A pipe is opened only where there is none, in one command list with the capture from which
//! it continues. No tmux command closes it, because that command might hit the pipe of another program.
//! Instead the drain ends, which tmux notices at once, because it reads from the drain, too (`-I`).

mod frame;

mod backlog;
mod command;
mod poll;
mod program;
mod socket;

mod drain;

mod drains;

pub use drain::drain;
pub(crate) use drains::{DrainMessage, DrainOutput, Drains, PipeToken};
pub(crate) use frame::DroppedBytes;
pub use program::DrainProgram;
