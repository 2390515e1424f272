//! The web page: its files, and what it asks the server for.

mod assets;
mod site;

pub(crate) use site::{FindObserver, Site};
