//! The API of the observer: its feed, board, runs and panes over a Unix socket, and its client.
//!
//! The server speaks HTTP/1.1 with JSON; the paths are in [`routes`]. Faces use [`client`], which
//! resumes its stream after a broken connection.

pub(crate) mod http;
mod liveness;
mod seen;

#[cfg(feature = "notify")]
mod answer;
mod client_message;
mod events;
mod panes;
mod rows;
mod typing;
mod wait;
mod ws;

mod routes;
mod server;

#[cfg_attr(not(any(feature = "tui", feature = "serve")), allow(dead_code))]
mod access;
pub(crate) mod client;

#[cfg(any(feature = "tui", feature = "serve"))]
pub(crate) use access::FindObserver;
pub(crate) use access::Observer;
pub(crate) use client::{
    EventReader, EventSource, Unavailable, dismiss_row, get, get_board, get_problems, get_rows,
    position, post_lines,
};
pub(crate) use http::percent_encoded;
pub(crate) use panes::{ApiContext, ObservedServer, Panes};
pub(crate) use routes::{Routes, Slots};
pub(crate) use server::{Server, socket_path};
pub(crate) use typing::Input;
