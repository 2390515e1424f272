//! The observer of copies of other hosts' runs: it observes nothing itself, and serves what is copied.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::HubLock;
use crate::agent::StateRules;
use crate::api::{ApiContext, Panes, Routes, Server as ApiServer, Slots};
use crate::cli::failure::Failure;
use crate::cli::{checks, live};
use crate::clock::Clock;
use crate::engine::{Builder, Engine};
use crate::event::ExecutionId;
use crate::feed::{Feed, Others, board_of_copies, summary_of};
use crate::history::DataDir;
use crate::redact::Rules;
use crate::thread::Handle;

/// The time that clients of the API have at the end to read their responses.
const API_END: Duration = Duration::from_secs(1);

/// The API of a directory of copies.
pub(in crate::cli) struct ReplicaObserver {
    lock: HubLock,
    data: DataDir,
    engine: Engine,
    feed: Feed,
    feed_thread: Handle<()>,
    /// `None` once the copies are no longer followed.
    others: Option<Others>,
    api: ApiServer,
    clock: Clock,
}

impl ReplicaObserver {
    /// Serves what is copied, at a socket, and announces that.
    pub fn start(
        lock: HubLock,
        data: &DataDir,
        socket: &Path,
        clock: &Clock,
    ) -> Result<Self, Failure> {
        checks::raise_descriptors();
        let engine = Builder::new().clock(clock.clone()).start()?;
        let (board, numbers) = board_of_copies(data, StateRules::builtin(), clock)?;
        let events = engine.subscribe_with(live::everything());
        let (feed, feed_thread) =
            Feed::start_for_copies(events, (board, &numbers), data.clone(), clock.clone())?;
        let others = Others::start_for_copies(feed.clone())?;
        let context = ApiContext {
            feed: feed.clone(),
            bus: Arc::clone(engine.bus()),
            clock: clock.clone(),
            panes: Panes {
                servers: Vec::new(),
                rules: Rules::builtin(),
                allows_input: false,
            },
            sessions: engine.sessions().clone(),
            log_troubles: engine.log_troubles(),
            runs: None,
        };
        let routes = Routes {
            context,
            slots: Slots::default(),
            about: json!({"data_dir": data.path()}),
        };
        let api = ApiServer::start(socket, Arc::new(routes), clock)?;
        lock.announce_reading((socket, data.path()), clock)?;
        Ok(Self {
            lock,
            data: data.clone(),
            engine,
            feed,
            feed_thread,
            others: Some(others),
            api,
            clock: clock.clone(),
        })
    }

    /// Returns the summaries of the runs whose rows have changed since the last call.
    pub fn summaries(&self) -> Vec<(ExecutionId, Map<String, Value>)> {
        let changed = self.feed.take_summaries().into_iter();
        let summaries = changed.map(|summary| {
            let about = summary_of(&self.data, &summary);
            (summary.execution_id, about)
        });
        summaries.collect()
    }

    /// No longer follows the copies: they are about to be closed, which is no end of the runs.
    pub fn stop_following(&mut self) {
        if let Some(Err(panicked)) = self.others.take().map(Others::stop) {
            log::error!("{panicked}");
        }
    }

    /// Ends it.
    pub fn end(mut self) {
        self.stop_following();
        drop(self.lock);
        // It has written nothing.
        drop(self.engine.shutdown());
        self.api.stop(&self.clock, API_END);
        self.feed_thread.join_logged();
    }
}
