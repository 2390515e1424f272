//! The web page: its files, and what it asks the server for.
//!
//! [`site`] answers `/page/about` and passes the other paths below `/page/` to [`data`]:
//!
//! ```text
//! /page/lines     lines:     a page of the log ─> lines, with revisions
//! /page/live      live:      the observer's events of the run ─> server-sent events with lines
//! /page/search    search:    the whole log ─> lines that match a pattern
//! /page/timeline  timeline:  all logs ─> bands of states
//! /page/history              the rows of ended runs
//! ```
//!
//! Lines are those of the terminal UI ([`view_lines`](super::view_lines)): each has the number of its event and its
//! place in it, whichever request returns it.

mod assets;

mod json;
mod params;
mod source;

mod lines;
mod live;
mod search;
mod timeline;

mod data;

mod site;

#[cfg(test)]
mod tests;

pub(crate) use data::PageData;
pub(crate) use site::Site;
