//! Notifications of a command that observes by itself, without an observer in the background.

use super::failure::Failure;
use super::live;
use super::options::{self, Options};
use crate::api::{ApiContext, ObservedServer, Panes};
use crate::board::Board;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::feed::{Feed, Numbers};
use crate::history::DataDir;
use crate::notify::Notifier;
use crate::redact::Rules;
use crate::thread::Handle;

/// The notifications of a command, and its board.
pub(super) struct Notifying {
    notifier: Notifier,
    feed: Handle<()>,
}

impl Notifying {
    /// Starts to notify of what an engine observes; `None` without rules, and without a log that says what was sent. Call
    /// it before sources are attached.
    pub fn start(
        options: &Options,
        engine: &Engine,
        rules: Rules,
        clock: &Clock,
    ) -> Result<Option<Self>, Failure> {
        let settings = &options.notifications;
        if options.no_log || settings.rules.is_empty() {
            return Ok(None);
        }
        let data = DataDir::new(options.home()?);
        let events = engine.subscribe_with(live::everything());
        let (board, numbers) = (Board::default(), Numbers::new());
        let (feed, feed_thread) = Feed::start(events, board, &numbers, data, clock.clone())?;
        let chosen = &options.server;
        let servers = chosen.socket_path().map(|socket| ObservedServer {
            server: chosen.server(),
            socket,
        });
        let context = ApiContext {
            feed,
            bus: engine.bus().clone(),
            clock: clock.clone(),
            panes: Panes {
                servers: servers.into_iter().collect(),
                rules,
                // Only an observer that was started for it types.
                allows_input: false,
            },
            sessions: engine.sessions().clone(),
            log_troubles: engine.log_troubles(),
            runs: None,
        };
        let has_output = settings.channels.iter().any(|channel| channel.output);
        let output = has_output.then(|| engine.subscribe_with(live::everything()));
        let notifier = Notifier::start(settings, &context, output);
        let notifier = notifier.map_err(|error| options::unusable(error, true))?;
        Ok(notifier.map(|notifier| Self {
            notifier,
            feed: feed_thread,
        }))
    }

    /// Ends the notifications of an engine that has ended.
    pub fn stop(self) {
        self.notifier.stop();
        self.feed.join_logged();
    }
}
