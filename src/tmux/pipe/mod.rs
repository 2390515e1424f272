//! Every byte of a pane: `pipe-pane` into a drain of ours, and from there over a socket.
//!
//! ```text
//! tmux server ─socketpair─> td-observe drain ─Unix socket─> td-drains ─channel─> poller
//!                             (always reads)    frames      (a thread a session)
//! ```
//!
//! tmux keeps without limit what its command does not read (`streaming.md`), so the drain always
//! reads: it is a child of the tmux server, goes on while the observer is stopped or slow, and
//! counts what it has no room for. A pipe is opened only where there is none, in one command list
//! with the capture that it goes on from. It is never closed by a tmux command, which might meet
//! somebody else's pipe: the drain ends, and tmux, which has been told to read from it too (`-I`),
//! sees that at once.

mod command;
mod drain;
mod drains;
mod frame;
mod place;
mod program;
mod ring;

pub use drain::drain;
pub(crate) use drains::{DrainMessage, DrainOutput, Drains, PipeToken};
pub use program::DrainProgram;
pub(crate) use ring::DroppedBytes;
