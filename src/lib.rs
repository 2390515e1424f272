//! Observes tmux panes, commands and agents as one ordered stream of typed events, for synchronous programs.
//!
//! A program embeds [`Engine`] and chooses what to observe: panes that it did not start, commands that it runs,
//! agents' files, loops of agents, Jupyter kernels, and events of its own. Each event gets a number and a time, is
//! delivered to any number of subscribers, and is kept as a line of JSON. There are threads and channels, and no async
//! runtime. The program `td-observe` is this library with a command line.
//!
//! # Add it
//!
//! ```toml
//! [dependencies]
//! td-observe = { version = "0.1", default-features = false, features = ["engine"] }
//! ```
//!
//! Without features, the library is the bus alone: [`event`], [`redact`], and [`EventBus`] with its subscriptions.
//!
//! | feature | default | adds |
//! | --- | --- | --- |
//! | `engine` | yes | [`Engine`]: sources, history, waits, and loops with the caller's own models |
//! | `cli` | yes | the program `td-observe`: arguments, console, completions, manual pages |
//! | `http` | yes | models over HTTP for loops: `agent_loop::HttpClient` for the APIs of Anthropic and OpenAI |
//! | `kernel` | yes | Jupyter kernels: `kernel::Kernel`, and `td-observe kernel` of the program |
//! | `mcp` | yes | the MCP server of the program: `td-observe mcp`, and `td-observe skill` |
//! | `notify` | yes | notifications of the program: tmux, desktop, ntfy, Telegram, webhooks, commands |
//! | `serve` | yes | the web page of the program, and the API over TCP: `td-observe serve` |
//! | `tui` | yes | the terminal UI of the program: `td-observe tui` |
//! | `internals` | no | what the tests, benchmarks and fuzz targets of this repository use; no promise of stability |
//!
//! # Example
//!
#![doc = concat!("```no_run\n", include_str!("../tests/it/embed.rs"), "# fn main() {}\n```")]
//!
//! The other examples are in [`guide::library`], and the chapters for users in [`guide`]. [`EventBus`] works alone,
//! without an engine.
//!
//! # Guarantees
//!
//! - Events of an execution have contiguous numbers from 1. Lines that could not be observed, and events that could
//!   not be kept, are events themselves: [`TdEvent::OutputGap`] and [`TdEvent::LogGap`].
//! - [`EventEmitter::emit`] never waits. The log holds 64 MiB on the way to the disk; text beyond that is counted and
//!   left out, life-cycle events are not.
//! - A subscriber that falls behind learns exactly how many events it missed: [`Delivery::Lagged`].
//! - Secrets are removed before any subscriber or log receives an event; see [`redact`].
//! - [`Engine::shutdown`] loses nothing: it stops the sources, drains the bus, and then writes and syncs the log.
//! - The wire format only grows: fields and types are added, never renamed. A reader keeps events, fields and values
//!   that only a later version knows.
//!
//! Those who change the code begin with [`guide::house`].

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
// The bus alone uses a part of the rooms that it needs.
#![cfg_attr(not(feature = "engine"), allow(dead_code, unused_imports))]

#[cfg(feature = "engine")]
pub mod guide;

mod error;
mod timestamp;

pub mod event;

mod clock;
mod thread;

mod escapes;
mod text;

pub mod redact;

#[cfg(feature = "engine")]
mod track;

#[cfg(feature = "engine")]
pub mod agent;

pub mod bus;

#[cfg(feature = "engine")]
pub mod history;

#[cfg(feature = "engine")]
pub mod recording;

#[cfg(feature = "engine")]
mod child;

#[cfg(feature = "engine")]
pub mod tmux;

#[cfg(feature = "engine")]
pub mod process;

#[cfg(feature = "engine")]
mod observe;

#[cfg(feature = "kernel")]
pub mod kernel;

#[cfg(feature = "engine")]
pub mod agent_loop;

#[cfg(feature = "engine")]
pub mod wait;

#[cfg(feature = "engine")]
pub mod board;

#[cfg(feature = "engine")]
mod engine;

#[cfg(feature = "engine")]
#[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "faces use the rest"))]
pub mod feed;

#[cfg(feature = "cli")]
mod api;
#[cfg(feature = "hosts")]
#[allow(dead_code, unused_imports, reason = "the next commits use it")]
mod hosts;

#[cfg(feature = "cli")]
mod face;

#[cfg(feature = "notify")]
mod notify;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;

pub use bus::event_bus::{BusOptions, EventBus, SubscribeOptions};
pub use bus::subscription::{Delivery, Filter, Subscription};
pub use bus::{emitter::EventEmitter, inbox::Emitted};
pub use clock::{Clock, FakeClock};
#[cfg(feature = "engine")]
pub use engine::{Builder, Engine, Report};
pub use error::{Error, Result};
pub use event::envelope::Envelope;
pub use event::ids::{ExecutionId, PaneId};
pub use event::td_event::{EventKind, TdEvent};
#[cfg(feature = "engine")]
pub use observe::{
    AgentRegistry, AgentStatus, AgentWatch, AgentsReport, JobHandle, Polling, Watch, WatchHandle,
};
pub use thread::Panicked;
pub use timestamp::Timestamp;

/// The channels in signatures, such as [`Subscription::ready`] and [`Clock::at`], and what selects them: the
/// same items as those of the crate `crossbeam-channel`, version 0.5, whose others can stand beside them.
pub mod channel {
    pub use crossbeam_channel::{Receiver, Sender, never, select, select_biased};
}

/// The examples of README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
