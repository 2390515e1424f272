//! Defines the requests of the terminal UI to its threads, and their reports (pure).

use crossterm::event::KeyEvent;

use super::search::Scan;
use crate::board::Row;
use crate::board::bands::Timelines;
use crate::event::{Envelope, ExecutionId, PaneId};
use crate::face::styled_text::StyledText;
use crate::history::Page;
use crate::timestamp::Timestamp;

/// The state of the connection to the observer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// The observer has not answered yet.
    Connecting,
    Connected,
    /// The reason, shown at the bottom.
    Lost(String),
}

/// The screen of a pane.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Screen {
    pub cursor: (u16, u16),
    pub rows: Vec<StyledText>,
}

/// A position in the log of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Last,
    /// Before the event with this number.
    Before(u64),
    /// After the event with this number.
    After(u64),
    /// At or before this time.
    Until(Timestamp),
    /// The last snapshot of the row's screen at or before this time.
    Screen(Timestamp),
}

/// The run whose events are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FollowedRun {
    pub stream: u64,
    pub execution: ExecutionId,
    /// The number of the last known event.
    pub after: u64,
}

/// A request for a page of the log of a row's run.
#[derive(Debug)]
pub(super) struct PageRequest {
    pub generation: u64,
    pub row: Box<Row>,
    pub place: Place,
}

/// A request to read histories.
#[derive(Debug)]
pub(super) enum ScanRequest {
    /// Search the row's history.
    Lines(Box<Scan>),
    /// Read the states of all rows since this time.
    Timeline { since: Timestamp },
}

/// A request to capture the screen of a pane; `None` stops the captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CaptureRequest {
    pub generation: u64,
    /// The pane, and the socket of its tmux server, if the observer names it.
    pub pane: Option<(PaneId, Option<String>)>,
}

/// A request to a thread.
#[derive(Debug)]
pub(super) enum Effect {
    /// Redraw the whole screen.
    Redraw,
    /// Report the next events of a run, and then its live ones.
    Follow(FollowedRun),
    Load(PageRequest),
    Scan(ScanRequest),
    Capture(CaptureRequest),
    /// Show the row's pane to the user.
    Jump(Box<Row>),
    /// Type into the row's pane.
    Answer {
        row: Box<Row>,
        text: String,
        presses_enter: bool,
    },
    /// Dismiss the row, or bring it back.
    Dismiss {
        row: Box<Row>,
        is_dismissed: bool,
    },
    Copy(String),
    Suspend,
    Quit,
}

/// An input of the user, a report of a thread, or a tick of the clock.
#[derive(Debug)]
pub(super) enum Input {
    Key(KeyEvent),
    Paste(String),
    Resize(u16, u16),
    /// The current time, once a second.
    Tick(Timestamp),
    Board(Vec<Row>),
    /// The rows of the runs in the history, the latest first.
    History(Vec<Row>),
    Connection(Connection),
    /// Followed events of the row's run, after `missed` events that were dropped.
    Live {
        stream: u64,
        missed: u64,
        events: Vec<Envelope>,
    },
    Page {
        generation: u64,
        place: Place,
        page: Page,
    },
    /// The number of events that a scan has read.
    Progress {
        id: u64,
        read: u64,
    },
    Scanned(Box<Scan>),
    States(Timelines),
    Screen {
        generation: u64,
        screen: Result<Box<Screen>, String>,
    },
    /// A message for the user, such as the reason of a failure.
    Message(String),
}
