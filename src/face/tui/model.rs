//! The state of the terminal UI: what is shown, of which row, and what was asked for (pure).

use std::collections::VecDeque;

use super::input_history::InputHistory;
use super::layout::{Focus, Layout};
use super::line::{Pattern, Position};
use super::lines::Lines;
use super::painted::StyledText;
use super::prompt::Prompt;
use super::searching::{Filtered, Search};
use super::timeline::Timeline;
use super::view::ViewKind;
use super::window::Window;
use crate::board::{Row, RowKey};
use crate::event::Envelope;
use crate::face::local_time::LocalTime;
use crate::timestamp::Timestamp;

/// The state of the connection to the observer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// No answer has arrived yet.
    Connecting,
    Connected,
    /// The reason, for a line at the bottom.
    Lost(String),
}

/// The screen of a pane.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Screen {
    pub width: u16,
    pub height: u16,
    pub cursor: (u16, u16),
    pub rows: Vec<StyledText>,
}

/// The searchable help.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Help {
    pub typed: String,
    pub top: usize,
}

/// A row that is being answered.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    /// The row, with its question when the answer was begun.
    pub row: Row,
    /// The user knows that the question has changed.
    pub is_confirmed: bool,
    /// The user knows that nothing is typed but Enter.
    pub is_enter_meant: bool,
}

/// Facts that do not change while the UI runs.
#[derive(Clone, Debug)]
pub(super) struct About {
    /// Answers may be typed into panes.
    pub allows_input: bool,
    /// The directory of the runs.
    pub data: String,
    pub local: LocalTime,
}

/// The part of the selected run's log that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loading {
    Nothing,
    /// A page instead of what is held.
    Whole,
    Before,
    After,
}

/// The state of the UI.
#[derive(Debug)]
pub(super) struct Model {
    pub about: About,
    pub size: (u16, u16),
    pub now: Timestamp,
    pub connection: Connection,

    /// The rows in the order of the board, then those of older runs.
    pub rows: Vec<Row>,
    /// The number of rows that are on the board.
    pub on_board: usize,
    /// The rows of the runs in the history, the latest first.
    pub history: Vec<Row>,
    pub selected: Option<RowKey>,
    /// The first line of the board that is visible.
    pub board_top: usize,

    pub focus: Focus,
    pub view: ViewKind,
    pub wraps: bool,
    pub is_zoomed: bool,

    /// Counts selections and reloads; what was asked for before the last is not wanted any more.
    pub generation: u64,
    pub window: Window,
    pub loading: Loading,
    /// The live events that wait for the page before them.
    pub pending: VecDeque<Envelope>,
    /// The line to go to when its page is there.
    pub goal: Option<Position>,

    /// The view shows the last lines, and new ones as they come.
    pub is_following: bool,
    /// The line on which the reader is, while the view does not follow.
    pub cursor: usize,
    /// The first line that is visible, while the view does not follow.
    pub top: usize,
    /// The columns that are left of the view, where lines are not wrapped.
    pub left: usize,
    /// The lines that have come since the view has stopped following.
    pub new_lines: u64,
    /// The events that were too many to be shown, since the row was selected.
    pub missed: u64,

    /// Counts scans through the history.
    pub scans: u64,
    pub filter: Option<Filtered>,
    pub search: Option<Search>,
    /// The part that had the keys before the search.
    pub searched_from: Option<Focus>,
    pub screen: Option<Screen>,
    pub timeline: Timeline,
    /// The time at which the views are, instead of now.
    pub at: Option<Timestamp>,

    pub prompt: Option<Prompt>,
    pub input_history: InputHistory,
    pub answered: Option<Answered>,
    pub help: Option<Help>,
    /// A line at the bottom until the next key.
    pub message: Option<String>,
}

impl Model {
    pub fn new(about: About, size: (u16, u16), now: Timestamp) -> Self {
        Self {
            size,
            now,
            connection: Connection::Connecting,
            rows: Vec::new(),
            on_board: 0,
            history: Vec::new(),
            selected: None,
            board_top: 0,
            focus: Focus::Board,
            view: ViewKind::Output,
            wraps: false,
            is_zoomed: false,
            generation: 0,
            window: Window::new(ViewKind::Output, about.local.clone()),
            loading: Loading::Nothing,
            pending: VecDeque::new(),
            goal: None,
            is_following: true,
            cursor: 0,
            top: 0,
            left: 0,
            new_lines: 0,
            missed: 0,
            scans: 0,
            filter: None,
            search: None,
            searched_from: None,
            screen: None,
            timeline: Timeline::new(),
            at: None,
            prompt: None,
            input_history: InputHistory::default(),
            answered: None,
            help: None,
            message: None,
            about,
        }
    }

    /// Returns the places of the parts on the screen.
    pub fn layout(&self) -> Layout {
        Layout::new(self.size, self.focus, self.is_zoomed)
    }

    /// Returns the selected row.
    pub fn selected_row(&self) -> Option<&Row> {
        let index = self.selected_index()?;
        self.rows.get(index)
    }

    pub fn selected_index(&self) -> Option<usize> {
        let key = self.selected.as_ref()?;
        self.rows.iter().position(|row| row.key() == *key)
    }

    /// Returns the lines of the view: all that are loaded, or those that the filter leaves.
    pub fn lines(&self) -> &Lines {
        match &self.filter {
            Some(filter) => &filter.lines,
            None => self.window.lines(),
        }
    }

    /// Returns the pattern that is marked in lines.
    pub fn marked(&self) -> Option<&Pattern> {
        let search = self.search.as_ref().map(|search| &search.pattern);
        search.or(self.filter.as_ref().map(|filter| &filter.pattern))
    }

    /// Returns the columns and rows of the view's lines.
    pub fn view_size(&self) -> (usize, usize) {
        let area = self.layout().view.unwrap_or_default();
        // The first row has the title.
        (
            usize::from(area.width),
            usize::from(area.height.saturating_sub(1)),
        )
    }

    /// Returns the line on which the reader is.
    pub fn current(&self) -> usize {
        let last = self.lines().len().saturating_sub(1);
        match self.is_following {
            true => last,
            false => self.cursor.min(last),
        }
    }
}
