//! The access of a face to an observer: in this process, or through the API at a socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::client::{EventReader, EventSource};
use super::client::{dismiss_row, get, get_board};
use super::http::percent_encoded;
use super::panes::ApiContext;
use super::panes::{ScreenView, view};
use crate::board::Row;
use crate::clock::Clock;
use crate::error::Result;
use crate::event::{ExecutionId, PaneId};
use crate::feed::{Reader, Selection, StartPoint};
use crate::thread::Stop;

/// The reason why there is no observer yet.
pub(crate) const STARTING: &str = "the observer is starting";

/// Finds the running observer; the error is the reason why there is none.
pub(crate) type FindObserver = Arc<dyn Fn() -> std::result::Result<Observer, String> + Send + Sync>;

/// An observer that a face reads. The face does not know where it runs.
#[derive(Clone, Debug)]
pub(crate) enum Observer {
    /// It runs in this process, and its feed is read in memory.
    Here(ApiContext),
    /// Its API listens at this socket.
    At(PathBuf),
}

impl Observer {
    /// Returns the rows of the board and the tag of this version of it, once it differs from a known one;
    /// `None` if it does not differ within `hold`.
    ///
    /// # Errors
    /// If the observer does not answer.
    pub fn board(
        &self,
        known: Option<&str>,
        hold: Duration,
    ) -> Result<Option<(Vec<Row>, Option<String>)>> {
        match self {
            Self::At(socket) => get_board(socket, known, hold),
            Self::Here(context) => {
                let known = known.and_then(|version| version.parse().ok());
                let view = context.feed.board_after(known, context.clock.now() + hold);
                Ok(view.map(|view| (view.rows, Some(view.version.to_string()))))
            }
        }
    }

    /// Returns the events of an execution after a number, or live ones only.
    ///
    /// # Errors
    /// If the logs cannot be read.
    pub fn events_of(
        &self,
        execution: &ExecutionId,
        after: Option<u64>,
        clock: &Clock,
    ) -> Result<Box<dyn EventSource>> {
        Ok(match self {
            Self::At(socket) => {
                let mut path = format!("/api/v1/events?execution={}", percent_encoded(execution));
                if let Some(after) = after {
                    path.push_str(&format!("&from_seq={}", after.saturating_add(1)));
                }
                Box::new(EventReader::new(socket, path, clock))
            }
            Self::Here(context) => {
                let selection = Selection {
                    executions: [execution.to_string()].into(),
                    ..Selection::default()
                };
                Box::new(match after {
                    Some(after) => Reader::open_after(&context.feed, selection, execution, after)?,
                    None => Reader::open(&context.feed, selection, StartPoint::Now)?,
                })
            }
        })
    }

    /// Dismisses the row with an id, or brings it back.
    ///
    /// # Errors
    /// The reason in words.
    #[cfg_attr(not(feature = "tui"), allow(dead_code))]
    pub fn dismiss(&self, id: &str, is_dismissed: bool) -> std::result::Result<(), String> {
        match self {
            Self::At(socket) => dismiss_row(socket, id, is_dismissed),
            Self::Here(context) => {
                (context.dismiss(id, is_dismissed)).map_err(|response| response.detail())
            }
        }
    }

    /// Returns the present screen of a pane, of the server at a socket if there are several. If `is_viewed`, the pane
    /// counts as viewed.
    ///
    /// # Errors
    /// The reason in words.
    #[cfg_attr(not(feature = "tui"), allow(dead_code))]
    pub fn screen(
        &self,
        pane: &PaneId,
        server: Option<&str>,
        is_viewed: bool,
        stop: &Stop,
    ) -> std::result::Result<ScreenView, String> {
        match self {
            Self::At(socket) => {
                let pane = percent_encoded(pane.as_str());
                let mut path = format!("/api/v1/panes/{pane}/screen?viewed={is_viewed}");
                if let Some(server) = server {
                    path.push_str(&format!("&socket={}", percent_encoded(server)));
                }
                let answer = get(socket, &path, None, Duration::ZERO)
                    .map_err(|error| format!("{error:?}"))?;
                if answer.status != 200 {
                    return Err(answer.problem());
                }
                serde_json::from_slice(&answer.body)
                    .map_err(|cause| format!("the screen is not readable: {cause}"))
            }
            Self::Here(context) => view(
                context,
                pane.as_str(),
                server.map(Path::new),
                is_viewed,
                stop,
            )
            .map_err(|response| response.detail()),
        }
    }
}
