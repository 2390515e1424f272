//! Moves through the board, the lines of a view and time (pure).

use unicode_width::UnicodeWidthStr;

use super::action::Motion;
use super::effect::Place;
use super::layout::Focus;
use super::line::Position;
use super::model::{Loading, Model};
use super::view::ViewKind;
use super::wrapping::row_starts;
use crate::timestamp::Timestamp;

/// The columns of a step to the side.
const COLUMNS_STEP: usize = 20;

/// The lines to show around a match.
const CONTEXT_LINES: usize = 5;

impl Model {
    pub(super) fn position(&self) -> Position {
        let line = self.lines().get(self.current());
        line.map_or_else(Position::default, |line| line.at)
    }

    /// Moves to the line at a position, or to the line after it.
    pub(super) fn go_to(&mut self, at: Position) {
        self.is_following = false;
        self.cursor = self.lines().find(at);
        self.scroll_to_current();
    }

    /// Moves to the line at a position, with some lines before and after it.
    pub(super) fn go_to_with_context(&mut self, at: Position) {
        self.is_following = false;
        self.cursor = self.lines().find(at);
        let (_, rows) = self.view_size();
        let around = (rows / 4).min(CONTEXT_LINES);
        self.top = self.top.min(self.cursor.saturating_sub(around));
        let bottom = (self.cursor + 1 + around).saturating_sub(rows);
        self.top = self.top.max(bottom).min(self.cursor);
        self.scroll_to_current();
    }

    /// Shows the last lines, and new ones as they arrive.
    pub(super) fn follow_end(&mut self) {
        self.is_following = true;
        self.new_lines = 0;
        self.left = 0;
    }

    /// Stops following, or follows again.
    pub(super) fn toggle_pause(&mut self) {
        match self.is_following && self.view.has_lines() {
            true => self.pause(),
            false => self.follow(),
        }
    }

    /// Stops following; the view keeps its position.
    fn pause(&mut self) {
        if self.is_following {
            self.is_following = false;
            self.new_lines = 0;
            self.cursor = self.lines().len().saturating_sub(1);
            self.top = self.top_of_end();
        }
    }

    /// Returns the height of a line on the screen, in rows.
    pub(super) fn height_of(&self, index: usize) -> usize {
        let columns = self.view_size().0.max(1);
        match self.lines().get(index) {
            Some(line) if self.wraps => row_starts(&line.text.text, columns).count(),
            _ => 1,
        }
    }

    /// Returns the first visible line if the last one is at the bottom.
    fn top_of_end(&self) -> usize {
        let (_, rows) = self.view_size();
        let open = usize::from(self.filter.is_none() && self.window.open_line().is_some());
        let mut room = rows.saturating_sub(open + self.question_in_view().len());
        let mut top = self.lines().len();
        while top > 0 {
            let height = self.height_of(top - 1);
            if height > room {
                break;
            }
            room -= height;
            top -= 1;
        }
        top.min(self.lines().len().saturating_sub(1))
    }

    /// Returns the time since which the row is observed, for a line above its first output. If the output
    /// fills the screen, the line is shown only at its beginning.
    pub(super) fn observed_since(&self) -> Option<Timestamp> {
        let is_output = self.view == ViewKind::Output && self.filter.is_none() && self.top == 0;
        let row = self.selected_row().filter(|_| is_output)?;
        let since = self.window.observed_since(row.pane.as_ref()?)?;
        let (_, rows) = self.view_size();
        let height = |lines: usize| -> usize {
            let lines = (0..lines.min(rows + 1)).map(|index| self.height_of(index));
            lines.sum::<usize>() + 1
        };
        let all = height(self.lines().len());
        let fits = all + self.question_in_view().len() <= rows;
        let is_begun = !self.is_following && all > rows + 1 && height(self.cursor + 1) <= rows;
        Some(since).filter(|_| fits || is_begun)
    }

    /// Scrolls so that the current line is visible.
    pub(super) fn scroll_to_current(&mut self) {
        if self.is_following {
            self.top = self.top_of_end();
            return;
        }
        let last = self.lines().len().saturating_sub(1);
        self.cursor = self.cursor.min(last);
        self.top = self.top.min(self.cursor);
        let (_, rows) = self.view_size();
        let mut used: usize = 0;
        // From the current line upwards, as many lines as fit on the screen.
        let mut first = self.cursor + 1;
        while first > self.top {
            used += self.height_of(first - 1);
            if used > rows && first <= self.cursor {
                break;
            }
            first -= 1;
        }
        self.top = first.min(self.cursor);
        // A screen that is not full shows earlier lines.
        self.top = self.top.min(self.top_of_end());
    }

    pub(super) fn move_by(&mut self, motion: Motion) {
        let is_board = self.focus == Focus::Board || self.view == ViewKind::Timeline;
        match (is_board, motion) {
            (_, Motion::Left | Motion::Right) => self.move_aside(motion),
            (true, motion) => self.move_on_board(motion),
            (false, motion) => self.move_in_view(motion),
        }
    }

    fn move_aside(&mut self, motion: Motion) {
        let wide = self.lines().iter().map(|line| line.text.text.width()).max();
        let most = wide.unwrap_or(0).saturating_sub(COLUMNS_STEP);
        self.left = match motion {
            Motion::Left => self.left.saturating_sub(COLUMNS_STEP),
            _ if self.wraps => 0,
            _ => (self.left + COLUMNS_STEP).min(most),
        };
    }

    fn move_on_board(&mut self, motion: Motion) {
        let rows = usize::from(self.size.1.saturating_sub(2)).max(1);
        let last = self.rows.len().saturating_sub(1);
        let to = match self.selected_index() {
            Some(at) => moved(at, last, rows, motion),
            None => 0,
        };
        let key = self.rows.get(to).map(crate::board::Row::key);
        self.select(key);
    }

    fn move_in_view(&mut self, motion: Motion) {
        if !self.view.has_lines() {
            return self.show_message("the screen does not scroll; o shows the output");
        }
        match motion {
            Motion::End => return self.follow(),
            Motion::Start
                if !self.window.is_start && self.filter.is_none() && self.lines().len() > 0 =>
            {
                self.pause();
                self.goal = Some(Position::default());
                self.loading = Loading::Nothing;
                return self.load(Loading::Whole, Place::After(0));
            }
            motion => {
                self.pause();
                let (_, rows) = self.view_size();
                let last = self.lines().len().saturating_sub(1);
                let to = moved(self.cursor, last, rows.max(1), motion);
                // Page keys scroll the view with the current line.
                if matches!(
                    motion,
                    Motion::PageUp | Motion::HalfUp | Motion::PageDown | Motion::HalfDown
                ) {
                    let top = self.top + to;
                    self.top = top.saturating_sub(self.cursor).min(last);
                }
                let is_at_end = to == last && motion != Motion::Up && self.window.is_end;
                self.cursor = to;
                if is_at_end && self.at.is_none() {
                    self.follow_end();
                }
            }
        }
        self.scroll_to_current();
        self.load_around();
    }

    /// Moves to the end, and to the present.
    pub(super) fn follow(&mut self) {
        let is_past = self.at.take().is_some();
        self.follow_end();
        if is_past || !self.window.is_end {
            return self.reload();
        }
        self.scroll_to_current();
        self.load_around();
    }

    /// Moves the time cursor; the views follow it.
    pub(super) fn move_time(&mut self, cells: i64) {
        let step = self.timeline.span_micros() / i64::from(self.time_columns().max(1));
        let at = self.at.unwrap_or(self.now).micros();
        let to = at.saturating_add(step.saturating_mul(cells));
        let to = Timestamp::from_micros(to);
        self.set_time((to < self.now).then_some(to));
    }

    /// Moves to a time, or back to the present.
    pub(super) fn set_time(&mut self, at: Option<Timestamp>) {
        if self.at != at {
            self.at = at;
            self.reload();
        }
    }

    /// Returns the columns of the timeline's bands.
    pub(super) fn time_columns(&self) -> u16 {
        let width = self.layout().view.unwrap_or_default().width;
        width.saturating_sub(self.time_names() + 1)
    }

    /// Returns the columns of the names beside the bands.
    pub(super) fn time_names(&self) -> u16 {
        let width = self.layout().view.unwrap_or_default().width;
        (width / 4).clamp(8, 24)
    }
}

/// Returns the index after a motion in a list that shows this many rows.
pub(super) fn moved(at: usize, last: usize, rows: usize, motion: Motion) -> usize {
    let page = rows.saturating_sub(1).max(1);
    let half = (rows / 2).max(1);
    let to = match motion {
        Motion::Up => at.saturating_sub(1),
        Motion::Down => at + 1,
        Motion::HalfUp => at.saturating_sub(half),
        Motion::HalfDown => at + half,
        Motion::PageUp => at.saturating_sub(page),
        Motion::PageDown => at + page,
        Motion::Start => 0,
        Motion::End => last,
        Motion::Left | Motion::Right => at,
    };
    to.min(last)
}
