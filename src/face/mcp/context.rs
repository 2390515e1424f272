//! What a running call of a tool knows: the server, whether it is cancelled, and whom it tells of progress.

use serde_json::{Value, json};

use super::message::notification;
use super::server::McpServer;
use super::streams::Output;
use crate::clock::Clock;
use crate::thread::{Stop, is_stopped};

/// What a running call knows.
pub(super) struct Context<'a> {
    pub server: &'a McpServer,
    pub stop: &'a Stop,
    output: &'a Output,
    progress_token: Option<&'a Value>,
}

impl<'a> Context<'a> {
    pub fn new(
        server: &'a McpServer,
        (output, progress_token): (&'a Output, Option<&'a Value>),
        stop: &'a Stop,
    ) -> Self {
        Self {
            server,
            stop,
            output,
            progress_token,
        }
    }

    pub fn clock(&self) -> &Clock {
        &self.server.clock
    }

    pub fn is_cancelled(&self) -> bool {
        is_stopped(self.stop)
    }

    /// Tells the client how far the call is, if it wants to hear of it.
    pub fn report(&self, (progress, total): (u64, Option<u64>), message: &str) {
        let Some(token) = self.progress_token else {
            return;
        };
        let mut params = json!({"progressToken": token, "progress": progress, "message": message});
        if let Some(total) = total {
            params["total"] = json!(total);
        }
        self.output
            .offer(notification("notifications/progress", params));
    }
}
