//! Jupyter kernels: connects to a kernel or starts one, runs code, follows other clients, and reports output
//! as it is printed.
//!
//! ```text
//! caller: Kernel ──orders──> td-kernel: five sockets, the process ──> kernel
//!           ^                   │
//!           └──feed, bounded────┘
//! ```
//!
//! Pure: `zmtp.rs` (ZeroMQ's protocol), `wire.rs` (Jupyter's messages), `readiness.rs` (the wait for the
//! first answer) and `cell.rs` (one execution request). `link.rs` and `sockets.rs` own the thread that talks
//! to a kernel; `orders.rs` and `feed.rs` are its queues. `client.rs` runs code, `listening.rs` follows other
//! clients, and `job.rs` turns both into events. `notebook.rs` reads and writes notebooks.

// Only the program uses listening, notebooks and events of kernels, so their helpers are unused without it.
#![cfg_attr(not(feature = "cli"), allow(dead_code))]

mod batcher;
mod beat;
mod cell;
mod client;
mod connection;
mod content;
mod ending;
mod feed;
#[cfg(all(feature = "cli", feature = "internals"))]
pub(crate) mod fuzzed;
#[cfg(feature = "cli")]
mod job;
mod jupyter_dirs;
mod kernelspec;
mod link;
#[cfg(feature = "cli")]
mod listening;
mod missed_interrupt;
#[cfg(feature = "cli")]
mod notebook;
mod orders;
#[cfg(feature = "cli")]
mod output_events;
mod process;
mod readiness;
mod result;
#[cfg(test)]
mod samples;
mod session;
mod socket;
mod sockets;
mod start;
mod waiting;
mod wire;
mod zmtp;

#[cfg(feature = "cli")]
pub(crate) use cell::CellOutput;
pub use cell::CellStatus;
pub use client::Kernel;
pub use connection::{ConnectionInfo, Transport};
pub use feed::MissedOutputs;
#[cfg(feature = "cli")]
pub(crate) use job::{
    Ask, CellRecorder, CodeCell, KernelChoice, KernelHandle, KernelTask, TaskControl, kernel_job,
};
#[cfg(feature = "cli")]
pub(crate) use jupyter_dirs::running_kernels;
pub use kernelspec::KernelSpec;
#[cfg(feature = "cli")]
pub(crate) use notebook::{CellOutputs, Notebook};
pub use result::ExecutionResult;
pub use session::KernelControl;
