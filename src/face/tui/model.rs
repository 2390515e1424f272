//! The state of the terminal UI: the selected row, its view, and pending requests (pure).

use std::collections::VecDeque;

use super::effect::{Connection, Effect, Screen};
use super::input_history::InputHistory;
use super::layout::{Focus, Layout};
use super::line::{Pattern, Position};
use super::lines::Lines;
use super::prompt::Prompt;
use super::searching::{Filtered, Search};
use super::timeline::Timeline;
use super::view::ViewKind;
use super::window::Window;
use crate::board::{Row, RowKey};
use crate::event::Envelope;
use crate::face::local_time::LocalTime;
use crate::timestamp::Timestamp;

/// The searchable help.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Help {
    pub typed: String,
    pub top: usize,
}

/// A row that is being answered.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    /// The row, with its question when the answer began.
    pub row: Row,
    /// True if the user has been warned that the question has changed.
    pub is_change_confirmed: bool,
    /// True if the user has been warned that the answer is empty.
    pub is_empty_confirmed: bool,
}

/// The settings, which do not change while the UI runs.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// True if answers may be typed into panes.
    pub allows_input: bool,
    /// The directory of the runs.
    pub data_dir: String,
    pub local: LocalTime,
}

/// The part of the selected run's log that is being loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loading {
    Nothing,
    /// A page that replaces the window.
    Whole,
    Before,
    After,
}

/// The state of the UI.
#[derive(Debug)]
pub(super) struct Model {
    pub settings: Settings,
    pub size: (u16, u16),
    pub now: Timestamp,
    pub connection: Connection,

    /// The rows in the order of the board, then those of older runs.
    pub rows: Vec<Row>,
    /// The number of rows on the board.
    pub board_len: usize,
    /// The rows of the runs in the history, the latest first.
    pub history: Vec<Row>,
    pub selected: Option<RowKey>,
    /// The first visible line of the board.
    pub board_top: usize,

    pub focus: Focus,
    pub view: ViewKind,
    pub wraps: bool,
    pub is_zoomed: bool,

    /// Counts selections and reloads; results for earlier generations are discarded.
    pub generation: u64,
    pub window: Window,
    pub loading: Loading,
    /// Live events that wait for the page before them.
    pub pending: VecDeque<Envelope>,
    /// The position to go to once its page is loaded.
    pub goal: Option<Position>,

    /// True if the view shows the last lines, and new ones as they arrive.
    pub is_following: bool,
    /// The index of the current line, while the view does not follow.
    pub cursor: usize,
    /// The index of the first visible line.
    pub top: usize,
    /// The number of columns scrolled to the right, if lines are not wrapped.
    pub left: usize,
    /// The number of new lines since the view has stopped following.
    pub new_lines: u64,
    /// The number of live events that were dropped since the row was selected.
    pub missed: u64,

    /// Counts scans through the history.
    pub scans: u64,
    pub filter: Option<Filtered>,
    pub search: Option<Search>,
    /// The focus before the search.
    pub searched_from: Option<Focus>,
    pub screen: Option<Screen>,
    pub timeline: Timeline,
    /// The time that the views show; `None` means now.
    pub at: Option<Timestamp>,

    pub prompt: Option<Prompt>,
    pub input_history: InputHistory,
    pub answered: Option<Answered>,
    pub help: Option<Help>,
    /// A message at the bottom until the next key.
    pub message: Option<String>,
    /// The requests that follow from the current input.
    pub effects: Vec<Effect>,
}

impl Model {
    pub fn new(settings: Settings, size: (u16, u16), now: Timestamp) -> Self {
        Self {
            size,
            now,
            connection: Connection::Connecting,
            rows: Vec::new(),
            board_len: 0,
            history: Vec::new(),
            selected: None,
            board_top: 0,
            focus: Focus::Board,
            view: ViewKind::Output,
            wraps: false,
            is_zoomed: false,
            generation: 0,
            window: Window::new(ViewKind::Output, settings.local.clone()),
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
            effects: Vec::new(),
            settings,
        }
    }

    pub fn layout(&self) -> Layout {
        Layout::new(self.size, self.focus, self.is_zoomed)
    }

    pub fn selected_row(&self) -> Option<&Row> {
        let index = self.selected_index()?;
        self.rows.get(index)
    }

    pub fn selected_index(&self) -> Option<usize> {
        let key = self.selected.as_ref()?;
        self.rows.iter().position(|row| row.key() == *key)
    }

    /// Returns the lines of the view: all loaded ones, or those that match the filter.
    pub fn lines(&self) -> &Lines {
        match &self.filter {
            Some(filter) => &filter.lines,
            None => self.window.lines(),
        }
    }

    /// Returns the pattern to mark in lines.
    pub fn marked(&self) -> Option<&Pattern> {
        let search = self.search.as_ref().map(|search| &search.pattern);
        search.or(self.filter.as_ref().map(|filter| &filter.pattern))
    }

    /// Returns the columns and rows of the view without its title.
    pub fn view_size(&self) -> (usize, usize) {
        let area = self.layout().view.unwrap_or_default();
        (
            usize::from(area.width),
            usize::from(area.height.saturating_sub(1)),
        )
    }

    pub fn current(&self) -> usize {
        let last = self.lines().len().saturating_sub(1);
        match self.is_following {
            true => last,
            false => self.cursor.min(last),
        }
    }
}
