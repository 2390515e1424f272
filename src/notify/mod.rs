//! Notifications: tells the user on the desktop, in tmux, on the phone or a program who needs him, once and with tact.
//!
//! ```text
//! board ──> tact: what to send, withhold, withdraw ──> a thread for each channel ──> the user
//!             ^ └──> notify.jsonl                          │
//!             └──────────── how it went ───────────────────┘
//! ```

mod message;
mod news;
mod rule;
mod settings;

mod output;
mod tact;

mod log;

mod channel;

mod notifier;

pub(crate) use log::{Entry, NotifyLog, What};
pub(crate) use message::{Item, News};
pub(crate) use notifier::{Notifier, check_channel, try_channel};
pub(crate) use rule::Rule;
pub(crate) use settings::{ChannelKind, ChannelSettings, Settings};

#[cfg(test)]
mod tests;
