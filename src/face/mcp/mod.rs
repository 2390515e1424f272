//! The MCP server: the board, the histories, waits and input, for agents that supervise agents.
//!
//! ```text
//! standard input ─ td-mcp-in ─> Session ─┬─ initialize, tools/list …: answered at once
//!                                        └─ tools/call: td-mcp-call, one for each ─┐
//! standard output <─ td-mcp-out <────────────────────────────────────────────────────┘
//! td-mcp-channel: the board ─> notifications/claude/channel
//! ```
//!
//! There is no synchronous crate for servers, so the protocol is written on `serde_json`: [`message`], [`protocol`] and
//! [`tools`] are pure. Each call runs on its own thread, which ends when the client cancels the call.

mod message;
mod protocol;
mod redacted;
mod refusal;
mod result;
mod rows;
mod short;
mod tools;

mod cursor;
mod read;
mod search;

mod arguments;
mod call;
mod channel;
mod context;
mod earlier;
#[cfg(feature = "internals")]
pub(crate) mod fuzzed;
mod history;
mod outcome;
mod panes;
mod send;
mod send_and_wait;
mod server;
mod session;
mod streams;
mod wait;

#[cfg(test)]
mod read_tests;
#[cfg(test)]
mod search_tests;
#[cfg(test)]
mod test_logs;

use crossbeam_channel::Receiver;

use crate::error::Result;
pub(crate) use server::McpServer;
use session::Session;

/// Serves the client at standard input and output until it closes the input, or `ended` has a message.
///
/// # Errors
/// If a thread cannot be started.
pub(crate) fn run(server: McpServer, ended: &Receiver<i32>) -> Result<()> {
    Session::start(server)?.serve(ended)
}
