//! The server of the Model Context Protocol: what agents read of other agents.
//!
//! ```text
//! cursor (pure): places in the output of a run, as texts that clients keep
//! read:          the log of a row ─> its lines, each once
//! search:        the logs of all runs ─> lines that match, the newest first
//! ```

#[cfg_attr(not(test), allow(dead_code, reason = "the server's tools use them"))]
mod cursor;
#[cfg_attr(not(test), allow(dead_code, reason = "the server's tools use them"))]
mod read;
#[cfg_attr(not(test), allow(dead_code, reason = "the server's tools use them"))]
mod search;

#[cfg(test)]
mod read_tests;
#[cfg(test)]
mod search_tests;
#[cfg(test)]
mod test_logs;
