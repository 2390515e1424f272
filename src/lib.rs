//! Shows what agents and jobs are doing right now, and keeps what they did last night.
//!
//! `td-observe` watches tmux panes that it did not start and commands that it runs, turns what
//! they print into one ordered stream of typed, numbered events, hands it to any number of
//! subscribers and keeps it as JSON Lines. It is synchronous: threads and channels, no async runtime.
//!
//! ```text
//! sources (a thread each)          bus                          sinks (a thread each)
//! ┌ pane poller ──────┐                                   ┌──> log writer ──> events.jsonl
//! ├ command ──────────┤                                   │    (bounded by bytes)
//! ├ agents' files ────┤  bounded      ┌──────────┐ batches│
//! ├ your emitter ─────┼─ never waits> │ fan-out  │────────┘
//! └ …                 ┘               │ seq, ts  │  a lossy lane per subscription,
//!                                     └──────────┘──> exact Lagged(n): console, your code
//! ```
//!
//! # Example
//!
#![doc = concat!("```no_run\n", include_str!("../tests/it/embed.rs"), "# fn main() {}\n```")]
//!
//! Or emit events of your own: [`EventBus::new`], [`EventBus::emitter_for`],
//! [`EventBus::subscribe`]; with a log, [`Engine::emitter_for`].
//!
//! The chapters for users are in [`guide`].
//!
//! # The house
//!
//! A room uses only what stands above it here; each absence is a rule, and a test keeps them.
//!
//! | room | what it is for |
//! | --- | --- |
//! | `error` | one opaque [`Error`] with questions |
//! | `timestamp` | [`Timestamp`]: points in time as they are written (pure) |
//! | `event` | [`TdEvent`], [`Envelope`], ids: the wire contract (pure) |
//! | `clock` | [`Clock`] and [`FakeClock`]; the only file that reads time |
//! | `thread` | named threads, stopped by dropping a guard; the only file that names `std::thread` |
//! | [`redact`] | secrets in text, as data: taken out before any subscriber sees them (pure) |
//! | [`track`] | the heart: looks at a pane in; settled lines, revisions, gaps out (pure) |
//! | [`agent`] | what agents write and show, as events: formats, tools, turns, where they stand (pure) |
//! | [`bus`] | [`EventBus`], [`EventEmitter`], [`Subscription`], the fan-out, the limiter |
//! | [`history`] | line format, run directory, writer; knows no bus |
//! | [`recording`] | asciicast v3: encoder and joining (pure), raw recordings of panes; knows no bus |
//! | `child` | the one way to run a child process |
//! | [`tmux`] | the only room that knows tmux: targets, listing, captures, gateway |
//! | [`process`] | child processes: what a command prints, while it prints it; jobs of others and how they ended; knows no tmux |
//! | `observe` | the coordinator, the pollers, commands that are observed, background agents |
//! | [`agent_loop`] | the agentic loop: models, tools, an iteration's turns; knows no tmux |
//! | [`wait`] | waiting for a line, an end, silence or a signal; knows no bus |
//! | [`board`] | who needs the user: one row for each pane, command, loop and agent, as a fold over events (pure) |
//! | `engine` | [`Builder`], [`Engine`], [`Report`]: puts it together, takes it apart in order |
//!
//! The program is built on top of this, behind the feature `cli`.
//!
//! # Cargo features
//!
//! | feature | default | adds |
//! | --- | --- | --- |
//! | `cli` | yes | the program `td-observe`: arguments, console, completions, manual pages |
//! | `http` | yes | models over HTTP for loops: `agent_loop::HttpClient` for the APIs of Anthropic and OpenAI |
//!
//! Without features, the library has the engine: sources, bus, history, waits, and loops with the
//! caller's own models. No feature adds an async runtime.
//!
//! # Stopping
//!
//! Stopping travels the way data travels: sources stop and are joined, then the bus is drained and
//! closed, then the log is written out and synced. [`Engine::shutdown`] does it in this order; any
//! other loses the last events, or hangs.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod guide;

mod error;
mod timestamp;

mod event;

mod clock;
mod thread;

pub mod redact;

#[doc(hidden)]
pub mod track;

pub mod agent;

pub mod bus;

pub mod history;

pub mod recording;

#[doc(hidden)]
pub mod child;
pub mod tmux;

pub mod process;

mod observe;

pub mod agent_loop;

pub mod wait;

pub mod board;

mod engine;

#[cfg(feature = "cli")]
mod face;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

pub use bus::{
    BusOptions, Delivery, Emitted, EventBus, EventEmitter, EventFilter, EventRef, Filter,
    LosslessLane, RecvError, RecvTimeoutError, SubscribeOptions, Subscription, TryRecvError,
};
pub use clock::{Clock, FakeClock};
/// The channels of [`Engine::done`], [`Clock::at`] and [`agent_loop::LlmClient::stream`].
pub use crossbeam_channel;
pub use engine::{Builder, Engine, Report, Timeline};
pub use error::{Error, Result};
pub use event::{
    AgentState, CompletionReason, Cursor, EndEvidence, EnumOrUnknown, Envelope, EventKind,
    ExecutionId, GapEvidence, GapReason, IterationOutcome, NamedValue, OutputStream,
    PaneCloseReason, PaneId, SCHEMA, ScreenRow, SessionEndReason, StateEvidence, StateSource,
    Style, Styles, TdEvent, TurnEvidence, UnknownEvent, UnknownFields, UnknownName,
};
/// The loggers that [`process::LogBridge`] connects.
pub use log;
pub use observe::{
    AgentRegistry, AgentStatus, AgentWatch, AgentsReport, JobHandle, Polling, Watch,
};
/// The JSON values in [`UnknownEvent`] and [`UnknownFields`], and `json!` for [`TdEvent::custom`].
pub use serde_json;
pub use thread::Panicked;
pub use timestamp::{ParseTimestampError, Timestamp};

/// The examples of README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
