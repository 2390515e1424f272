//! Jupyter kernels: connects to a kernel or starts one, runs code, follows other clients, and reports output
//! as it is printed.
//!
//! ```text
//! caller: Kernel ──orders──> td-kernel: five sockets, the process ──> kernel
//!           ^                   │
//!           └──feed, bounded────┘
//! ```
//!
//! Pure: `protocol.rs` (the protocols of ZeroMQ and Jupyter), `liveness.rs` (the first answer, the heartbeat,
//! missed interrupts), `cell.rs` (one execution request) and `notebook.rs`. `sockets.rs` is the thread that talks
//! to a kernel, and `queues.rs` has its queues. `client.rs` runs code; `job.rs` also follows other clients, and
//! turns both into events.

mod cell;
mod client;
mod connection;
#[cfg(all(feature = "cli", feature = "internals"))]
pub(crate) mod fuzzed;
mod job;
mod kernelspec;
mod liveness;
mod notebook;
mod process;
mod protocol;
mod queues;
mod sockets;

pub use cell::{CellStatus, Question};
pub use client::{ExecutionResult, Kernel, KernelControl};
pub use connection::{ConnectionInfo, Transport};
pub(crate) use job::kernel_job;
#[cfg(feature = "cli")]
pub(crate) use job::{Ask, KernelChoice};
pub use job::{KernelHandle, KernelOutcome, KernelTask, TaskControl};
pub use kernelspec::{KernelSpec, running_kernels};
#[cfg(feature = "cli")]
pub(crate) use notebook::OnCell;
pub use notebook::{CodeCell, Notebook};
pub use queues::MissedOutputs;
