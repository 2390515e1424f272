//! The guide for users: one chapter per topic. `td-observe help TOPIC` prints the same text. [`house`] is for
//! those who change the code.

#[doc = include_str!("watching.md")]
pub mod watching {}

#[doc = include_str!("streaming.md")]
pub mod streaming {}

#[doc = include_str!("tui.md")]
pub mod tui {}

#[doc = include_str!("page.md")]
pub mod page {}

#[doc = include_str!("mcp.md")]
pub mod mcp {}

#[doc = include_str!("waiting.md")]
pub mod waiting {}

#[doc = include_str!("running.md")]
pub mod running {}

#[cfg(feature = "kernel")]
#[doc = include_str!("kernels.md")]
pub mod kernels {}

#[doc = include_str!("loops.md")]
pub mod loops {}

#[doc = include_str!("agents.md")]
pub mod agents {}

#[doc = include_str!("configuration.md")]
pub mod configuration {}

#[doc = include_str!("notifications.md")]
pub mod notifications {}

#[doc = include_str!("reports.md")]
pub mod reports {}

#[doc = include_str!("hosts.md")]
pub mod hosts {}

#[doc = include_str!("history.md")]
pub mod history {}

#[doc = include_str!("events.md")]
pub mod events {}

#[doc = include_str!("secrets.md")]
pub mod secrets {}

#[doc = include_str!("limits.md")]
pub mod limits {}

#[doc = include_str!("library.md")]
pub mod library {}

#[doc = include_str!("performance.md")]
pub mod performance {}

#[doc = include_str!("../README.md")]
pub mod house {}
