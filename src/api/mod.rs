//! The API of the observer: its feed, board, runs and panes over a Unix socket, and its client.
//!
//! The server speaks HTTP/1.1 with JSON; the paths are in [`routes`]. Faces use [`client`], which
//! resumes its stream after a broken connection.

pub(crate) mod http;
mod liveness;
mod seen;

#[cfg(any(feature = "mcp", feature = "tui"))]
mod acting;
#[cfg(feature = "notify")]
mod answer;
#[cfg(any(feature = "mcp", feature = "serve", feature = "tui"))]
mod beside;
mod client_message;
mod connections;
mod events;
#[cfg(feature = "serve")]
mod forward;
#[cfg(feature = "serve")]
mod gate;
mod panes;
mod rows;
mod stream;
mod typing;
mod wait_client;
#[cfg(feature = "redis")]
mod wait_copied;

mod wait;
mod ws;

mod routes;
mod server;
#[cfg(feature = "serve")]
mod tcp;

#[cfg_attr(
    not(any(feature = "mcp", feature = "tui", feature = "serve")),
    allow(dead_code)
)]
mod access;
pub(crate) mod client;

pub(crate) use access::Observer;
#[cfg(any(feature = "mcp", feature = "tui", feature = "serve"))]
pub(crate) use access::{FindObserver, STARTING};
#[cfg(feature = "serve")]
pub(crate) use beside::input_beside;
#[cfg(feature = "hosts")]
pub(crate) use client::{Answer, get_board_within, get_lines, post};
pub(crate) use client::{
    EventReader, EventSource, SILENCE, Unavailable, WaitLine, dismiss_row, get, get_board,
    get_problems, get_rows, get_within, position, post_lines,
};
#[cfg(any(feature = "hosts", feature = "serve"))]
pub(crate) use connections::Service;
#[cfg(any(feature = "hosts", feature = "serve"))]
pub(crate) use events::is_gone;
#[cfg(feature = "hosts")]
pub(crate) use events::{SentEvents, send as send_events};
#[cfg(feature = "serve")]
pub(crate) use forward::forward;
#[cfg(feature = "serve")]
pub(crate) use gate::{Gate, PublicUrl, Token};
#[cfg(any(feature = "hosts", feature = "serve"))]
pub(crate) use http::ChunkedBody;
pub(crate) use http::percent_encoded;
#[cfg(any(feature = "hosts", feature = "serve"))]
pub(crate) use http::{Request, Response};
#[cfg(feature = "serve")]
pub(crate) use liveness::KEEP_ALIVE;
pub(crate) use panes::{ApiContext, ObservedServer, Panes};
pub(crate) use routes::{Routes, Slots};
pub(crate) use server::{Server, socket_path};
#[cfg(any(feature = "hosts", feature = "serve"))]
pub(crate) use stream::Stream;
pub(crate) use typing::Input;
#[cfg(feature = "mcp")]
pub(crate) use typing::{is_just_answered, is_without_enter};
pub(crate) use wait_client::WaitReport;
