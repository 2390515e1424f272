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

// Only the program uses listening, notebooks and events of kernels, so their helpers are unused without it.
#![cfg_attr(not(feature = "cli"), allow(dead_code))]

mod cell;
mod client;
mod connection;
#[cfg(all(feature = "cli", feature = "internals"))]
pub(crate) mod fuzzed;
#[cfg(feature = "cli")]
mod job;
mod kernelspec;
mod liveness;
#[cfg(feature = "cli")]
mod notebook;
mod process;
mod protocol;
mod queues;
mod sockets;

#[cfg(feature = "cli")]
pub(crate) use cell::CellOutput;
pub use cell::CellStatus;
pub use client::{ExecutionResult, Kernel, KernelControl};
pub use connection::{ConnectionInfo, Transport};
#[cfg(feature = "cli")]
pub(crate) use job::{
    Ask, CellRecorder, CodeCell, KernelChoice, KernelHandle, KernelTask, TaskControl, kernel_job,
};
pub use kernelspec::KernelSpec;
#[cfg(feature = "cli")]
pub(crate) use kernelspec::running_kernels;
#[cfg(feature = "cli")]
pub(crate) use notebook::{CellOutputs, Notebook};
pub use queues::MissedOutputs;
