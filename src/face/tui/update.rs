//! Updates the state of the UI with an input, and returns requests (pure).

use super::action::action;
use super::effect::{Effect, FollowedRun, Input, PageRequest, Place};
use super::model::{Loading, Model};
use super::searching::{LINES_MAX, Scan, ScanResult, ScanState};
use super::view::ViewKind;
use super::window::{Arrival, EVENTS_FOLLOWED, Window, belongs_to_row};
use crate::event::Envelope;
use crate::history::Page;

/// The lines before and after the reader that are loaded in advance.
const LINES_AHEAD: usize = 200;

impl Model {
    /// Handles an input; returns the requests that follow from it.
    pub fn update(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Key(key) => {
                let action = action(key, self);
                self.act(action);
            }
            Input::Paste(text) => self.paste(text),
            Input::Resize(width, height) => {
                self.size = (width, height);
                self.scroll_to_current();
                self.scroll_to_selected();
            }
            Input::Tick(now) => self.now = now,
            Input::Board(rows) => self.set_rows(rows),
            Input::History(rows) => self.set_history(rows),
            Input::Connection(connection) => self.connection = connection,
            Input::Followed { generation } if generation == self.generation => {
                // Events between the page and the stream are in the log.
                self.load_newer();
            }
            Input::Live {
                generation,
                missed,
                events,
            } if generation == self.generation => self.live(missed, events),
            Input::Page {
                generation,
                place,
                page,
            } if generation == self.generation => self.page(place, page),
            Input::Progress { id, read } => self.progress(id, read),
            Input::Scanned(scan) => self.scanned(*scan),
            Input::States(states) => self.timeline.add_history(states),
            Input::Screen { generation, screen } if generation == self.generation => match screen {
                Ok(screen) => self.screen = Some(*screen),
                Err(why) => {
                    self.screen = None;
                    self.message = Some(why);
                }
            },
            Input::Message(text) => self.message = Some(text),
            Input::Followed { .. }
            | Input::Live { .. }
            | Input::Page { .. }
            | Input::Screen { .. } => {}
        }
        std::mem::take(&mut self.effects)
    }

    /// Reloads the selected row: its last events, or those at the selected time.
    pub(super) fn reload(&mut self) {
        self.generation += 1;
        let view = match self.view.has_lines() {
            true => self.view,
            false => ViewKind::Output,
        };
        self.window = Window::new(view, self.settings.local.clone());
        self.pending.clear();
        self.goal = None;
        self.screen = None;
        self.missed = 0;
        self.follow_end();
        self.loading = Loading::Nothing;
        let Some(row) = self.selected_row() else {
            return;
        };
        let execution = row.execution_id.clone();
        let place = match self.at {
            Some(at) => {
                self.is_following = false;
                Place::Until(at)
            }
            None => Place::Last,
        };
        let is_older = self.selected_index() >= Some(self.board_len);
        if !is_older {
            self.effects.push(Effect::Follow(FollowedRun {
                generation: self.generation,
                execution,
            }));
        }
        self.load(Loading::Whole, place);
        self.restart_scans();
        self.capture();
    }

    /// Requests a page, unless one is being loaded.
    pub(super) fn load(&mut self, loading: Loading, place: Place) {
        if self.loading != Loading::Nothing {
            return;
        }
        if let Some(row) = self.selected_row() {
            self.effects.push(Effect::Load(PageRequest {
                generation: self.generation,
                row: Box::new(row.clone()),
                place,
            }));
            self.loading = loading;
        }
    }

    /// Loads the events after the window from the log.
    fn load_newer(&mut self) {
        if self.window.is_end && self.at.is_none() {
            self.load(Loading::After, Place::After(self.window.last_seq()));
        }
    }

    fn page(&mut self, place: Place, page: Page) {
        let loading = std::mem::replace(&mut self.loading, Loading::Nothing);
        let at = self.position();
        match (loading, place) {
            (Loading::Nothing, _) => return,
            (Loading::Whole, _) => {
                let is_first = self.window.lines().len() == 0;
                self.window.replace(page);
                if self.at.is_some() || self.goal.is_some() {
                    self.is_following = false;
                    self.cursor = self.lines().len().saturating_sub(1);
                } else if is_first && self.filter.is_none() {
                    self.follow_end();
                }
            }
            (Loading::Before, Place::Before(seq)) => {
                if self.window.gap_before(at).is_some() {
                    self.window.forget_until_gap(seq);
                }
                self.window.prepend(page);
                self.go_to(at);
            }
            (Loading::After, _) => {
                let is_whole = page.is_last;
                self.window.append(page);
                if !self.is_following {
                    self.go_to(at);
                }
                if is_whole {
                    self.take_pending();
                }
            }
            (Loading::Before, _) => {}
        }
        if loading == Loading::Whole && self.window.is_end {
            self.take_pending();
        }
        if let Some(goal) = self.goal.take() {
            self.go_to_with_context(goal);
        }
        self.scroll_to_current();
        self.load_around();
    }

    /// Handles the live events that have waited for a page.
    fn take_pending(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.live(0, pending.into());
    }

    fn live(&mut self, missed: u64, events: Vec<Envelope>) {
        // Views of a time in the past ignore live events.
        let row = self.selected_row().filter(|_| self.at.is_none());
        let Some(row) = row.cloned() else {
            return;
        };
        if self.loading != Loading::Nothing && self.window.is_end {
            // The events follow the page that is being loaded. The last ones suffice, because the log has the
            // others.
            self.missed += missed;
            self.pending.extend(events);
            while self.pending.len() > EVENTS_FOLLOWED {
                self.pending.pop_front();
            }
            return;
        }
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
        let mut events = events.into_iter();
        while let Some(envelope) = events.next() {
            let belongs_to_row = belongs_to_row(&row, &envelope.event);
            let before = self.lines().len();
            if belongs_to_row
                && let Some(filter) = &mut self.filter
                && filter.state == ScanState::Done
                && envelope.seq.is_some_and(|seq| seq > filter.last_seq)
            {
                let bound = if self.is_following {
                    LINES_MAX
                } else {
                    usize::MAX
                };
                // The lines that the reader reads must not be dropped.
                if self.is_following || filter.lines.len() < 2 * LINES_MAX {
                    self.new_lines += filter.take(&envelope, bound);
                }
            }
            let search = &mut self.search;
            let is_filtered = self.filter.is_some();
            let new_lines = &mut self.new_lines;
            let live = self.window.live(
                envelope.clone(),
                belongs_to_row,
                self.is_following,
                &mut |line| {
                    *new_lines += u64::from(!is_filtered);
                    if let Some(search) = search
                        && search.state == ScanState::Done
                        && !is_filtered
                    {
                        search.take(line);
                    }
                },
            );
            match live {
                Arrival::Taken => {}
                // The lines are not visible, and their number is unknown, so events are counted.
                Arrival::Skipped => {
                    let is_beyond =
                        !self.window.is_end && belongs_to_row && before == self.lines().len();
                    self.new_lines += u64::from(is_beyond);
                }
                Arrival::AfterGap => {
                    self.pending.push_back(envelope);
                    self.pending.extend(events);
                    return self.load_newer();
                }
            }
        }
        if self.is_following {
            self.new_lines = 0;
        }
        self.scroll_to_current();
    }

    fn progress(&mut self, id: u64, read: u64) {
        if let Some(search) = self.search.as_mut().filter(|search| search.id == id) {
            search.state = ScanState::Reading(read);
        }
        if let Some(filter) = self.filter.as_mut().filter(|filter| filter.id == id) {
            filter.state = ScanState::Reading(read);
        }
    }

    /// Stores the result of a scan, and applies it to the events that have arrived since.
    fn scanned(&mut self, scan: Scan) {
        let (last_seq, row) = (scan.last_seq, scan.row);
        match scan.result {
            ScanResult::Filter(mut found) => {
                let awaited = self.filter.as_ref().map(|filter| filter.id);
                if awaited != Some(found.id) {
                    return;
                }
                found.last_seq = found.last_seq.max(last_seq);
                let new = self.window.events_after(last_seq);
                for envelope in new.filter(|envelope| belongs_to_row(&row, &envelope.event)) {
                    found.take(envelope, LINES_MAX);
                }
                self.filter = Some(*found);
                if !self.is_following {
                    self.cursor = self.lines().len().saturating_sub(1);
                }
            }
            ScanResult::Search(mut found) => {
                let awaited = self.search.as_ref().map(|search| search.id);
                if awaited != Some(found.id) {
                    return;
                }
                for line in self.lines().iter().filter(|line| line.at.seq > last_seq) {
                    found.take(line);
                }
                let is_jump_pending = std::mem::take(&mut found.is_jump_pending);
                self.search = Some(found);
                if is_jump_pending {
                    self.go_to_first_match();
                }
            }
        }
        self.scroll_to_current();
    }

    /// Loads lines before and after the reader in advance.
    pub(super) fn load_around(&mut self) {
        if self.is_following || self.filter.is_some() || !self.view.has_lines() {
            return;
        }
        if self.at.is_some() && self.lines().len() == 0 {
            // All other events were recorded after this time.
            return;
        }
        let after = self.lines().len().saturating_sub(self.cursor);
        if let Some(next) = self.window.gap_before(self.position())
            && self.cursor < self.lines().len()
        {
            return self.load(Loading::Before, Place::Before(next));
        }
        let first = self.window.first_seq();
        if let Some(first) = first.filter(|_| self.cursor < LINES_AHEAD && !self.window.is_start) {
            self.load(Loading::Before, Place::Before(first));
        } else if after < LINES_AHEAD && !self.window.is_end {
            let place = Place::After(self.window.last_seq());
            self.load(Loading::After, place);
        }
    }
}
