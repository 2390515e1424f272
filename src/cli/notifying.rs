//! Notifications of a command that observes by itself, without an observer in the background.

use super::failure::Failure;
use super::options::{self, Options};
use super::{live, observer};
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
        Self::start_as(options, engine, (rules, true), clock)
    }

    fn start_as(
        options: &Options,
        engine: &Engine,
        (rules, gathers): (Rules, bool),
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
            runs: Some(engine.runs()),
        };
        let notifier = Notifier::start(settings, &context, gathers);
        let notifier = notifier.map_err(|error| options::unusable(error, true))?;
        Ok(notifier.map(|notifier| Self {
            notifier,
            feed: feed_thread,
        }))
    }

    /// Starts to notify of a command or a loop, as [`Notifying::start`] does, unless an observer does it.
    pub fn start_alone(
        options: &Options,
        engine: &Engine,
        rules: Rules,
        clock: &Clock,
    ) -> Result<Option<Self>, Failure> {
        if options.no_log || options.notifications.rules.is_empty() {
            return Ok(None);
        }
        match observer::running(&options.home()?) {
            Ok(Some(_)) => Ok(None),
            // A history without a readable observer is a problem of `start`, not of this command.
            Ok(None) | Err(_) => Self::start_as(options, engine, (rules, false), clock),
        }
    }

    /// Ends the notifications of an engine that has ended.
    pub fn stop(self) {
        self.notifier.stop();
        self.feed.join_logged();
    }

    /// Sends what has just come, such as the end of the command, and ends the notifications.
    pub fn finish(self) {
        // The board has the end once the engine's bus is closed and read.
        self.feed.join_logged();
        self.notifier.finish();
    }
}
