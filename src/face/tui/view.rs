//! One view of the selected row: its lines, the position of the reader in them, its filter and search (pure).

use unicode_width::UnicodeWidthStr;

use super::board::{QUESTION_LINES_MAX, question_of};
use super::cells::{row_starts, wrapped_to};
use super::effect::Screen;
use super::keys::{Motion, moved};
use super::layout::ViewKind;
use super::search::{Filtered, LINES_MAX, Scan, ScanResult, ScanState, Search};
use super::window::Window;
use crate::board::Row;
use crate::event::Envelope;
use crate::face::local_time::LocalTime;
use crate::face::pattern::Pattern;
use crate::face::sanitize::{one_line, with_ellipsis};
use crate::face::view_lines::{LineView, Lines, Position, belongs_to_row};
use crate::timestamp::Timestamp;

/// A view of the selected row.
#[derive(Debug)]
pub(super) struct View {
    pub kind: ViewKind,
    /// The selected row.
    pub row: Option<Row>,
    /// The time that the view shows; `None` means now.
    pub at: Option<Timestamp>,
    pub window: Window,
    pub filter: Option<Filtered>,
    pub search: Option<Search>,
    /// The columns and rows without the title.
    pub size: (usize, usize),
    pub wraps: bool,
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
}

impl View {
    pub fn new(local: LocalTime) -> Self {
        Self {
            kind: ViewKind::Output,
            row: None,
            at: None,
            window: Window::new(LineView::Output, local),
            filter: None,
            search: None,
            size: (0, 0),
            wraps: false,
            is_following: true,
            cursor: 0,
            top: 0,
            left: 0,
            new_lines: 0,
            missed: 0,
        }
    }

    /// Empties the view, for another row, time or reload.
    pub fn reset(&mut self, local: LocalTime) {
        let view = self.kind.line_view().unwrap_or(LineView::Output);
        self.window = Window::new(view, local);
        self.missed = 0;
        self.follow_end();
    }

    /// Returns the lines: all loaded ones, or those that match the filter.
    pub fn lines(&self) -> &Lines {
        match &self.filter {
            Some(filter) => &filter.lines,
            None => &self.window.lines,
        }
    }

    fn last_index(&self) -> usize {
        self.lines().len().saturating_sub(1)
    }

    /// Returns the index of the current line.
    pub fn current(&self) -> usize {
        if self.is_following {
            self.last_index()
        } else {
            self.cursor.min(self.last_index())
        }
    }

    pub fn position(&self) -> Position {
        let line = self.lines().get(self.current());
        line.map_or_else(Position::default, |line| line.at)
    }

    /// Returns the text that the view shows.
    pub fn text(&self, screen: Option<&Screen>) -> String {
        let rows: Vec<&str> = match screen {
            Some(screen) if self.kind == ViewKind::Screen => {
                let rows = screen.rows.iter();
                rows.map(|row| row.text.trim_end()).collect()
            }
            _ => {
                let shown = self.lines().iter().skip(self.top).take(self.size.1);
                shown.map(|line| line.text.text.trim_end()).collect()
            }
        };
        rows.join("\n")
    }

    /// Returns the pattern to mark in lines.
    pub fn marked(&self) -> Option<&Pattern> {
        let search = self.search.as_ref().map(|search| &search.pattern);
        search.or(self.filter.as_ref().map(|filter| &filter.pattern))
    }

    /// Returns the search, unless it began in another row and has no match in this one.
    pub fn shown_search(&self) -> Option<&Search> {
        let key = self.row.as_ref().map(Row::key);
        let search = self.search.as_ref()?;
        Some(search).filter(|search| search.count > 0 || search.row == key)
    }

    /// Returns the message that the search has found nothing.
    pub fn no_match(&self) -> Option<String> {
        let (search, row) = (self.search.as_ref()?, self.row.as_ref()?);
        let name = with_ellipsis(&one_line(&row.name), 24);
        let within = match &self.filter {
            Some(filter) => format!(" that the filter {} leaves", filter.pattern.typed),
            None => String::new(),
        };
        let typed = &search.pattern.typed;
        let verb = if search.pattern.is_inverted {
            "is without"
        } else {
            "has"
        };
        let typed = typed.strip_prefix('!').unwrap_or(typed);
        let view = self.kind.name();
        Some(format!("no line in {name}'s {view}{within} {verb} {typed}"))
    }

    /// Returns the question below the output of a waiting row, in lines of the view.
    pub fn question(&self) -> Vec<String> {
        let is_end = self.kind == ViewKind::Output
            && self.at.is_none()
            && self.filter.is_none()
            && self.window.is_end;
        let row = self.row.as_ref().filter(|_| is_end);
        let Some(question) = row.and_then(question_of) else {
            return Vec::new();
        };
        // The last line already shows the question.
        let last = self.lines().back().map(|line| line.text.text.trim());
        let (columns, rows) = self.size;
        let lines_max = QUESTION_LINES_MAX.min(rows / 2);
        if last == Some(&question) || lines_max == 0 {
            return Vec::new();
        }
        wrapped_to(&format!("asks: {question}"), columns, lines_max)
    }

    /// Returns the time since which the row is observed, for a line above its first output. If the output
    /// fills the screen, the line is shown only at its beginning.
    pub fn observed_since(&self) -> Option<Timestamp> {
        let is_output = self.kind == ViewKind::Output && self.filter.is_none() && self.top == 0;
        let row = self.row.as_ref().filter(|_| is_output)?;
        let since = self.window.observed_since(row.pane.as_ref()?)?;
        let rows = self.size.1;
        let height = |lines: usize| -> usize {
            let lines = (0..lines.min(rows + 1)).map(|index| self.height_of(index));
            lines.sum::<usize>() + 1
        };
        let all = height(self.lines().len());
        let fits = all + self.question().len() <= rows;
        let is_begun = !self.is_following && all > rows + 1 && height(self.cursor + 1) <= rows;
        Some(since).filter(|_| fits || is_begun)
    }

    /// Moves to the line at a position, or to the line after it.
    pub fn go_to(&mut self, at: Position) {
        self.is_following = false;
        self.cursor = self.lines().find(at);
        self.scroll();
    }

    /// Moves to the line at a position, with some lines before and after it.
    pub fn go_to_with_context(&mut self, at: Position) {
        self.is_following = false;
        self.cursor = self.lines().find(at);
        let rows = self.size.1;
        let around = (rows / 4).min(5);
        self.top = self.top.min(self.cursor.saturating_sub(around));
        let bottom = (self.cursor + 1 + around).saturating_sub(rows);
        self.top = self.top.max(bottom).min(self.cursor);
        self.scroll();
    }

    /// Stops at the last line.
    pub fn stop_at_last(&mut self) {
        self.is_following = false;
        self.cursor = self.last_index();
    }

    /// Shows the last lines, and new ones as they arrive.
    pub fn follow_end(&mut self) {
        self.is_following = true;
        self.new_lines = 0;
        self.left = 0;
    }

    /// Stops following; the view keeps its position.
    pub fn pause(&mut self) {
        if self.is_following {
            self.new_lines = 0;
            self.stop_at_last();
            self.top = self.top_of_end();
        }
    }

    /// Returns the height of a line on the screen, in rows.
    fn height_of(&self, index: usize) -> usize {
        match self.lines().get(index) {
            Some(line) if self.wraps => row_starts(&line.text.text, self.size.0.max(1)).count(),
            _ => 1,
        }
    }

    /// Returns the first visible line if the last one is at the bottom.
    fn top_of_end(&self) -> usize {
        let open = usize::from(self.filter.is_none() && self.window.open_line().is_some());
        let mut room = self.size.1.saturating_sub(open + self.question().len());
        let mut top = self.lines().len();
        while top > 0 {
            let height = self.height_of(top - 1);
            if height > room {
                break;
            }
            room -= height;
            top -= 1;
        }
        top.min(self.last_index())
    }

    /// Scrolls so that the current line is visible.
    pub fn scroll(&mut self) {
        if self.is_following {
            self.top = self.top_of_end();
            return;
        }
        self.cursor = self.cursor.min(self.last_index());
        self.top = self.top.min(self.cursor);
        let rows = self.size.1;
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

    /// Moves up or down; reaching the last line follows again.
    pub fn move_by(&mut self, motion: Motion) {
        self.pause();
        let last = self.last_index();
        let to = moved(self.cursor, last, self.size.1.max(1), motion);
        // Page keys scroll the view with the current line.
        if matches!(
            motion,
            Motion::PageUp | Motion::HalfUp | Motion::PageDown | Motion::HalfDown
        ) {
            self.top = (self.top + to).saturating_sub(self.cursor).min(last);
        }
        self.cursor = to;
        if to == last && motion != Motion::Up && self.window.is_end && self.at.is_none() {
            self.follow_end();
        }
        self.scroll();
    }

    pub fn move_aside(&mut self, is_right: bool) {
        let step = 20;
        let wide = self.lines().iter().map(|line| line.text.text.width()).max();
        let most = wide.unwrap_or(0).saturating_sub(step);
        self.left = if !is_right {
            self.left.saturating_sub(step)
        } else if self.wraps {
            0
        } else {
            (self.left + step).min(most)
        };
    }

    /// Takes the next events of the row's run, after `missed` dropped ones.
    pub fn live(&mut self, missed: u64, events: Vec<Envelope>) {
        // Views of a time in the past ignore live events.
        let Some(row) = self.row.clone().filter(|_| self.at.is_none()) else {
            return;
        };
        let first = events
            .iter()
            .find_map(|envelope| envelope.seq.map(|seq| (seq, envelope.ts)));
        if let Some((seq, ts)) = first
            && missed > 0
            && self.window.is_end
        {
            self.missed += missed;
            self.window.missed(missed, seq, ts);
        }
        for envelope in events {
            let belongs_to_row = belongs_to_row(&row, &envelope.event);
            let before = self.lines().len();
            if belongs_to_row {
                self.filter_live(&envelope);
            }
            let search = &mut self.search;
            let is_filtered = self.filter.is_some();
            let new_lines = &mut self.new_lines;
            let is_taken =
                self.window
                    .live(envelope, belongs_to_row, self.is_following, &mut |line| {
                        *new_lines += u64::from(!is_filtered);
                        if let Some(search) = search
                            && search.state == ScanState::Done
                            && !is_filtered
                        {
                            search.take(line);
                        }
                    });
            // The lines of other events are not visible, and their number is unknown, so events are counted.
            let is_beyond = !is_taken && !self.window.is_end && belongs_to_row;
            self.new_lines += u64::from(is_beyond && before == self.lines().len());
        }
        if self.is_following {
            self.new_lines = 0;
        }
        self.scroll();
    }

    /// Filters a live event of the row, unless the scan of the history will.
    fn filter_live(&mut self, envelope: &Envelope) {
        let Some(filter) = &mut self.filter else {
            return;
        };
        let is_new = envelope.seq.is_some_and(|seq| seq > filter.last_seq);
        // The lines that the reader reads must not be dropped.
        let has_room = self.is_following || filter.lines.len() < 2 * LINES_MAX;
        if filter.state == ScanState::Done && is_new && has_room {
            let bound = if self.is_following {
                LINES_MAX
            } else {
                usize::MAX
            };
            self.new_lines += filter.take(envelope, bound);
        }
    }

    /// Stores the progress of a scan.
    pub fn progress(&mut self, id: u64, read: u64) {
        if let Some(search) = self.search.as_mut().filter(|search| search.id == id) {
            search.state = ScanState::Reading(read);
        }
        if let Some(filter) = self.filter.as_mut().filter(|filter| filter.id == id) {
            filter.state = ScanState::Reading(read);
        }
    }

    /// Stores the result of a scan, and applies it to the events that have arrived since. Returns true if the
    /// reader waits for the first match.
    pub fn scanned(&mut self, scan: Scan) -> bool {
        let (last_seq, row) = (scan.last_seq, scan.row);
        let mut is_jump_pending = false;
        match scan.result {
            ScanResult::Filter(mut found) => {
                if self.filter.as_ref().map(|filter| filter.id) != Some(found.id) {
                    return false;
                }
                found.last_seq = found.last_seq.max(last_seq);
                let new = self.window.events_after(last_seq);
                for envelope in new.filter(|envelope| belongs_to_row(&row, &envelope.event)) {
                    found.take(envelope, LINES_MAX);
                }
                self.filter = Some(*found);
                if !self.is_following {
                    self.stop_at_last();
                }
            }
            ScanResult::Search(mut found) => {
                if self.search.as_ref().map(|search| search.id) != Some(found.id) {
                    return false;
                }
                for line in self.lines().iter().filter(|line| line.at.seq > last_seq) {
                    found.take(line);
                }
                is_jump_pending = std::mem::take(&mut found.is_jump_pending);
                self.search = Some(found);
            }
        }
        self.scroll();
        is_jump_pending
    }
}
