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
//! The chapters for users are in [`guide`]; [`guide::library`] is the one for embedders.
//!
//! # The house
//!
//! A module uses only modules above it in this table; a test enforces it. Paths are below `src`. A
//! directory's module file describes its files, and each file's first line states its purpose.
//!
//! | module | purpose | important files |
//! | --- | --- | --- |
//! | `error` | one opaque [`Error`] with questions | `error.rs` |
//! | `timestamp` | [`Timestamp`]: points in time as they are written (pure) | `timestamp.rs` |
//! | `event` | [`TdEvent`], [`Envelope`], ids: the wire contract (pure) | `event/table.rs`: every event and field; `event/names.rs`: states and reasons |
//! | `clock` | [`Clock`] and [`FakeClock`]; the only file that reads time | `clock.rs` |
//! | `thread` | named threads, stopped by dropping a guard; the only file that names `std::thread` | `thread.rs` |
//! | `escapes` | control sequences in a terminal's bytes: where they begin and end (pure) | `escapes.rs` |
//! | `text` | cuts texts between characters (pure) | `text.rs` |
//! | [`redact`] | secrets in text, removed before any subscriber sees them (pure) | `redact/rules.rs`: the rules, whose text is in files beside it; `redact/redactor.rs`: applies them to events |
//! | `track` | captures or bytes of a pane in; settled lines, revisions, gaps out (pure) | `track/tracker.rs`: captures; `track/align.rs`: another width; `track/stream/tracker.rs`: bytes; `track/stream/terminal.rs`: tmux's terminal; `track/stream/resync.rs`: after a resize or a gap; `track/throttle.rs` |
//! | [`agent`] | formats, turns and states of agents (pure) | `agent/stream/mod.rs`: what they write; `agent/state/mod.rs`: screens; `agent/turn.rs`; `agent/resolver.rs`: which source wins; `agent/program.rs`: which program is an agent |
//! | [`bus`] | [`EventBus`], [`EventEmitter`], [`Subscription`] | `bus/fanout.rs`: numbers and copies; `bus/lossy_lane.rs`: drops and counts; `bus/lossless_lane.rs`: to the log; `bus/throttle.rs`; `bus/subscription.rs` |
//! | [`history`] | runs on disk; knows no bus | `history/line.rs`: the line format; `history/writer.rs`, `history/active_run.rs`, `history/events_file.rs`: writing; `history/rotate.rs`; `history/runs.rs`: which runs are removed; `history/dir.rs`: one writer a run; `history/read/reader.rs`; `history/read/pages.rs`: pages from any place |
//! | [`recording`] | asciicast v3; knows no bus | `recording/encoder.rs`; `recording/raw.rs`: raw recordings of panes |
//! | `child` | the one way to run a child process | `child/group.rs`: signals, killing, reaping; `child/supervisor.rs`: output, input, deadlines |
//! | [`tmux`] | the only module that knows tmux | `tmux/gateway.rs`: queries for all pollers; `tmux/server.rs`: one tmux process and its deadline; `tmux/capture.rs`: the commands of a capture; `tmux/listing.rs`, `tmux/target.rs`; `tmux/pipe/drain.rs`: the process at a pane's pipe; `tmux/pipe/drains.rs`: our end of it |
//! | [`process`] | commands that this program runs, and jobs of others; knows no tmux | `process/command.rs`, `process/run.rs`; `process/output.rs`: output as lines; `process/pane_jobs.rs`: jobs in panes; `process/os/exits.rs`: exits of processes that are not children |
//! | `observe` | panes, commands and background agents under observation | `observe/coordinator.rs`: which sessions; `observe/poller/mod.rs`: one session's thread; `observe/poller/panes.rs`: its panes, and the emitter of their output; `observe/poller/panes/membership.rs`: opens them and their pipes, and closes both; `observe/pane_observer/mod.rs`: one pane (pure); `observe/pane_observer/pipe_policy.rs`: stream or poll; `observe/pane_observer/output.rs`: its output as values; `observe/next_capture.rs`: which capture a polled pane needs, for `wait`, too; `observe/resume_point.rs`: after a restart; `observe/conversation/reader.rs`: agents' transcripts; `observe/agents/registry.rs`: background agents |
//! | `kernel` | Jupyter kernels, behind the feature `kernel` | `kernel/client.rs`: runs and interrupts code; `kernel/sockets.rs`: the thread; `kernel/protocol.rs`: the protocols; `kernel/queues.rs`: from the thread to the caller, bounded; `kernel/job.rs`: cells, also of other clients, as executions; `kernel/notebook.rs` |
//! | [`agent_loop`] | the agentic loop; knows no tmux | `agent_loop/engine.rs`: phases and iterations; `agent_loop/attempt.rs`: one iteration; `agent_loop/model/http/mod.rs`; `agent_loop/spec.rs` |
//! | [`wait`] | waiting for a line, an end, silence or a signal; knows no bus | `wait/waiter.rs`, `wait/started_wait.rs`; `wait/matcher.rs`: which lines match |
//! | [`board`] | who needs the user: one row for each pane, command, loop and agent (pure) | `board/fold.rs`: what an event means; `board/row.rs`: a row and its place; `board/schema.rs`: the JSON Schema |
//! | `engine` | [`Builder`], [`Engine`], [`Report`] | `engine/mod.rs`: starts and stops everything in order; `engine/log_thread.rs`: from the bus to the history |
//! | `api` | the observer's board, runs, events, panes and waits over a Unix socket, and its client; behind the feature `cli` | `api/hub.rs`: positions, board and last events; `api/others.rs`: runs of other processes; `api/stream.rs`: history, then live, each event once; `api/ws.rs`: the same for a WebSocket; `api/routes.rs`: the paths; `api/server.rs`: connections; `api/summary.rs`: the board without reading the logs; `api/wait.rs`, `api/screen.rs`, `api/input.rs`: panes |
//! | `face` | events for people, behind the feature `cli` | `face/describe.rs`: an event in words; `face/console.rs`; `face/tree.rs`; `face/sanitize.rs`: control sequences; `face/tui/run.rs`: the terminal UI; `face/tui/model.rs`: its state, and what changes it; `face/tui/draw.rs` |
//! | `cli` | the program, behind the feature `cli` | `cli/command_line.rs`: all arguments; a file for each subcommand, such as `cli/watch.rs`; `cli/failure.rs`: exit codes; `cli/signals.rs`; `cli/observer/foreground.rs`: the observer in the background; `cli/observer/log_file.rs`: its diagnostics |
//! | `internals` | what only the tests, benchmarks and fuzz targets of this repository use; behind the feature `internals` | `internals.rs`; its module `fuzzing`: parsers of foreign input as functions of bytes |
//!
//! # Threads
//!
//! | thread | file that runs it | started and joined by |
//! | --- | --- | --- |
//! | `td-SESSION`, one for each tmux session | `observe/poller/mod.rs` | `observe/coordinator.rs` |
//! | `td-coordinator`, one for each tmux server | `observe/coordinator.rs` | `engine/mod.rs` |
//! | `td-gateway`, one for each tmux server | `tmux/gateway.rs` | its handle |
//! | `td-drains`, one for each streamed session | `tmux/pipe/drains.rs` | the session's poller |
//! | `td-fanout`, one for each bus | `bus/fanout.rs` | `bus/mod.rs` |
//! | `td-log`, the only writer of events | `engine/log_thread.rs` | `engine/mod.rs` |
//! | `td-sync`: `fdatasync`; `td-chores`: compression, retention | `history/background.rs` | the history's writer |
//! | `td-ahead`: the next blocks of a log; `td-read-N`: searches blocks | `history/read/reader.rs` | the log's reader |
//! | `td-raw`: raw recordings | `recording/writer.rs` | `recording/raw.rs` |
//! | `td-exits`: ends of programs in panes | `process/os/exits.rs` | the coordinator, a wait for an exit |
//! | `td-terminals`: new terminals | `process/os/terminals.rs` | the coordinator |
//! | `td-agents`: agents' files and transcripts | `observe/agents/registry.rs`, `observe/conversation/reader.rs` | its handle |
//! | `td-hub`: the board; `td-api`, `td-api-N`: clients of the API | `api/hub.rs`, `api/server.rs` | `cli/observer/foreground.rs` |
//! | `td-others`: runs of other processes | `api/others.rs` | `cli/observer/foreground.rs` |
//! | `td-tui-…`: the terminal UI's end, board, live events, pages, scans, older runs and screen | `face/tui/readers.rs` | the UI's thread |
//! | `td-visit`: the end of the tmux client that shows a pane instead of the UI | `tmux/visit.rs` | the UI's thread |
//! | `td-observer`: the observer of a terminal UI | `cli/observer/private.rs` | `cli/tui.rs` |
//! | `td-api-wait`: states and hang-ups during a wait of the API | `api/wait.rs` | the client's `td-api-N` |
//! | `td-wait`, one for each target | `cli/wait.rs` | `cli/wait.rs` |
//! | `td-wait-state`: the states of a target | `cli/wait.rs` | its `td-wait` |
//! | `td-wait-ask`: a wait's question to the observer | `cli/wait.rs` | `cli/wait.rs` |
//! | `td-channel`: a wait for a tmux channel | `wait/started_wait.rs` | the wait |
//! | `td-loop-timer`, `td-loop-stop`: cancel a loop at its timeout, at the engine's end | `agent_loop/model/cancel.rs` | `agent_loop/engine.rs`, `agent_loop/source.rs` |
//! | `td-http`: an HTTP request; `td-answer`: reports a model's answer as it arrives | `agent_loop/model/http/connection.rs`, `agent_loop/conversation.rs` | the loop's thread |
//! | `td-printer`: events on standard output | `face/event_writer.rs` | `cli/live.rs`, `cli/watch_observer.rs` |
//! | `td-stdout`, `td-stderr`: a command's unchanged output | `cli/pass_through.rs` | the command |
//! | `td-signals`: signals as messages | `cli/signals.rs` | the command |
//! | `td-hooks`, `td-hook`: commands at events | `cli/hooks.rs` | `cli/watch.rs` |
//! | `td-history`, `td-keys`, `td-junit`, `td-complete`: work of one command | `cli/history.rs`, `cli/replay.rs`, `cli/junit.rs`, `cli/known.rs` | the command |
//! | `td-kernel`: a kernel's sockets and process | `kernel/sockets.rs` | `kernel/client.rs` |
//! | `td-cells NAME`: code that a kernel runs, or listening to it | `kernel/job.rs` | `engine/mod.rs` |
//! | a command's or a loop's source | `child/supervisor.rs`, `agent_loop/source.rs` | `engine/mod.rs` |
//!
//! Subscribers filter and receive in their own thread; no code of an embedder runs in the fan-out.
//!
//! # Where to look
//!
//! | to change | read |
//! | --- | --- |
//! | a resize | `PaneResized`: `observe/pane_observer/mod.rs`; lines of a polled pane: `track/align.rs`; of a streamed one: `track/stream/resync.rs` |
//! | when a line is settled | `track/book.rs` knows the lines and since when they are unchanged, and reports those that have settled; `observe/pane_observer/mod.rs` has the time of a polled pane, `observe/pane_observer/streamed_pane.rs` that of a streamed one |
//! | gaps and their evidence | `track/align.rs` finds them; `track/change.rs` defines them |
//! | who opens and closes a pipe | the poller, in `observe/poller/panes/membership.rs`; tmux's end is the process of `tmux/pipe/drain.rs`, which ends when the poller closes its socket in `tmux/pipe/drains.rs` |
//! | a pane that moves to another session | `observe/pane_transfers.rs` |
//! | how often tmux is queried | `tmux/schedule.rs` |
//! | a hung or killed tmux server | `tmux/server.rs` ends its process; `observe/poller/mod.rs` warns and retries |
//! | a panic in a poller | `observe/poller/mod.rs` |
//! | an event, its fields or words | `event/table.rs`; in words for people: `face/describe.rs` |
//! | a full or slow disk | `history/events_file.rs` holds the pending lines within a bound; `history/active_run.rs` writes them, retries and reports |
//! | rotation of a run's file | `history/rotate.rs` decides; the thread `td-chores` compresses |
//! | the state of an agent | `agent/state/mod.rs` reads a screen; `observe/pane_observer/agent_states.rs` passes it on; `agent/resolver.rs` chooses among the sources |
//! | if a pane is streamed or polled | `observe/pane_observer/pipe_policy.rs` |
//! | what a pane needs next, and by when | `observe/pane_observer/mod.rs` |
//! | which lines match a wait | `wait/matcher.rs`; `wait/started_wait.rs` requests the captures |
//! | `Lagged` | `bus/lossy_lane.rs`, read in `bus/subscription.rs` |
//! | views of a pane by clients, `PaneSeen` | `observe/pane_observer/views.rs`; `board/fold.rs` |
//! | a client of the API that comes back | `api/cursor.rs` is where it was, `api/stream.rs` goes back there |
//! | a key of the terminal UI | `face/tui/keys.rs`; what it does: `face/tui/model.rs` |
//! | a child that ignores SIGTERM | `child/supervisor.rs` escalates, `child/group.rs` kills the group |
//!
//! A polled line passes these files, and a chunk of a stream those in the second column:
//!
//! | a polled line | a chunk of a stream | stage |
//! | --- | --- | --- |
//! | `tmux/capture.rs` | `tmux/pipe/drains.rs` | the output of tmux or of a drain is parsed |
//! | `tmux/active.rs` | | the request gets its reply |
//! | `observe/poller/mod.rs` | the same | the session's thread receives it |
//! | `observe/poller/panes.rs` | the same | its pane is found, and the pane's output is emitted |
//! | `observe/pane_observer/reporting.rs` | `observe/pane_observer/reporting.rs`, `observe/pane_observer/streamed_pane.rs` | the pane's observer turns changed lines into events |
//! | `track/tracker.rs` | `track/stream/tracker.rs` | the tracker finds them |
//! | `bus/emitter.rs`, `bus/fanout.rs`, `bus/lossless_lane.rs` | the same | events are sent, numbered and redacted, and batched, in this order of files |
//! | `engine/log_thread.rs`, `history/writer.rs`, `history/events_file.rs` | the same | they are written |
//!
//! On the way these files ask others about the text, such as `tmux/capture.rs`, `track/align.rs`,
//! `track/stream/terminal.rs`, `track/throttle.rs`, `redact/redactor.rs` and `history/line.rs`.
//!
//! # Cargo features
//!
//! | feature | default | adds |
//! | --- | --- | --- |
//! | `cli` | yes | the program `td-observe`: arguments, console, completions, manual pages |
//! | `http` | yes | models over HTTP for loops: `agent_loop::HttpClient` for the APIs of Anthropic and OpenAI |
//! | `kernel` | yes | Jupyter kernels: `kernel::Kernel`, and `td-observe kernel` of the program |
//! | `tui` | yes | the terminal UI of the program: `td-observe tui` |
//! | `internals` | no | what the tests, benchmarks and fuzz targets of this repository use; no promise of stability |
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

mod escapes;
mod text;

pub mod redact;

mod track;

pub mod agent;

pub mod bus;

pub mod history;

pub mod recording;

mod child;

pub mod tmux;

pub mod process;

mod observe;

#[cfg(feature = "kernel")]
pub mod kernel;

pub mod agent_loop;

pub mod wait;

pub mod board;

mod engine;

#[cfg(feature = "cli")]
mod api;
#[cfg(feature = "cli")]
mod face;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;

pub use board::json_schema;
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
    ExecutionId, GapEvidence, GapReason, IterationOutcome, OutputStream, PaneCloseReason, PaneId,
    PaneViewer, SCHEMA, ScreenRow, SessionEndReason, StateEvidence, StateSource, Style, Styles,
    TdEvent, TurnEvidence, UnknownEvent, UnknownFields, UnknownName,
};
/// The loggers that [`process::LogBridge`] connects.
pub use log;
pub use observe::{
    AgentRegistry, AgentStatus, AgentWatch, AgentsReport, JobHandle, Polling, Watch,
};
/// The fields of [`TdEvent::custom`].
pub use serde;
/// The JSON values in [`UnknownEvent`] and [`UnknownFields`], and `json!` for [`TdEvent::custom`].
pub use serde_json;
pub use thread::Panicked;
pub use timestamp::{ParseTimestampError, Timestamp};

/// The examples of README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
