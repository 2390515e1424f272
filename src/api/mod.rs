//! The API of the observer: board, runs and events over a Unix socket, and its client.
//!
//! ```text
//! bus ─> td-hub: positions, board, last events ─┬─> td-api-1 ─> a face
//!                                               └─> td-api-2 ─> curl
//! logs ────────────────────────────────────────────^ what the hub has no longer
//! ```
//!
//! The server speaks HTTP/1.1 in JSON: [`routes`] has the paths. Faces use [`client`], which continues
//! after each break where it was.

mod chunked;
mod cursor;
mod journal;
mod request;

mod hub;
mod summary;

mod history;
mod stream;

mod response;
mod socket;

mod events;
mod metrics;
mod routes;

mod server;

mod client;

pub(crate) use client::{EventReader, NoItem, Streamed, get, read_answer};
pub(crate) use cursor::StreamCursor;
pub(crate) use hub::Hub;
pub(crate) use request::{Head, Request, percent_encoded};
pub(crate) use routes::Routes;
pub(crate) use server::Server;
pub(crate) use socket::socket_path;
pub(crate) use summary::{Unobserved, board_of_history, summary_of};
