//! Begins searches and filters, and moves through the matches (pure).

use super::effect::{Effect, Place, ScanRequest};
use super::layout::Focus;
use super::line::{Pattern, Position};
use super::model::{Loading, Model};
use super::searching::{Filtered, Scan, ScanResult, ScanState, Search};
use crate::face::sanitize::{one_line, with_ellipsis};

impl Model {
    pub(super) fn set_filter(&mut self, pattern: Option<Pattern>) {
        let Some(pattern) = pattern else {
            if self.filter.take().is_some() {
                self.filter_removed();
            }
            return;
        };
        self.focus = Focus::View;
        self.cursor = 0;
        self.begin_filter(pattern);
        self.scan_search();
        self.scroll_to_current();
    }

    pub(super) fn filter_removed(&mut self) {
        self.cursor = self.cursor.min(self.lines().len().saturating_sub(1));
        self.scan_search();
    }

    pub(super) fn invert_filter(&mut self) {
        let Some(filter) = &self.filter else {
            return self.show_message("there is no filter: f sets one");
        };
        let typed = &filter.pattern.typed;
        let inverted = match typed.strip_prefix('!') {
            Some(pattern) => pattern.to_owned(),
            None => format!("!{typed}"),
        };
        self.set_filter(Pattern::new(&inverted));
    }

    /// Repeats the filter and the search in another row or view.
    pub(super) fn restart_scans(&mut self) {
        if let Some(filter) = self.filter.take() {
            self.begin_filter(filter.pattern);
        }
        if let Some(search) = self.search.take() {
            let mut search = Search::new(search.pattern, search.row);
            search.is_jump_pending = false;
            self.search = Some(search);
            self.scan_search();
        }
    }

    /// Begins a filter, which takes live events at once, and those of the history when its scan ends.
    fn begin_filter(&mut self, pattern: Pattern) {
        let id = self.next_scan_id();
        let filter = |pattern| Filtered::new(id, pattern, self.view, self.settings.local.clone());
        let (live, found) = (filter(pattern.clone()), filter(pattern));
        self.filter = Some(live);
        self.scan(ScanResult::Filter(Box::new(found)));
    }

    pub(super) fn scan_search(&mut self) {
        let id = self.next_scan_id();
        let Some(search) = self.search.as_mut() else {
            return;
        };
        search.id = id;
        search.state = ScanState::Reading(0);
        let mut found = Search::new(search.pattern.clone(), search.row.clone());
        found.id = id;
        found.is_jump_pending = search.is_jump_pending;
        self.scan(ScanResult::Search(found));
    }

    fn scan(&mut self, result: ScanResult) {
        let Some(row) = self.selected_row() else {
            return;
        };
        let within = self.filter.as_ref().map(|filter| filter.pattern.clone());
        let view = (self.view, self.settings.local.clone());
        let scan = Scan::new(row.clone(), result, within, view);
        self.effects
            .push(Effect::Scan(ScanRequest::Lines(Box::new(scan))));
    }

    pub(super) fn next_scan_id(&mut self) -> u64 {
        self.scans += 1;
        self.scans
    }

    /// Moves to the last match before the reader, or to the first one.
    pub(super) fn go_to_first_match(&mut self) {
        let at = self.position();
        let Some(search) = &self.search else {
            return;
        };
        let before = search.index_of(at).map(|index| search.matches[index]);
        match before.or(search.matches.first().copied()) {
            Some(found) => self.go_to_match(found),
            None => self.report_no_match(),
        }
    }

    /// Shows a message that nothing was found.
    fn report_no_match(&mut self) {
        let (Some(search), Some(row)) = (&self.search, self.selected_row()) else {
            return;
        };
        let (name, view) = (with_ellipsis(&one_line(&row.name), 24), self.view.name());
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
        let text = format!("no line in {name}'s {view}{within} {verb} {typed}");
        self.show_message(&text);
    }

    /// Returns the search, unless it began in another row and has no match in this one.
    pub(super) fn shown_search(&self) -> Option<&Search> {
        let search = self.search.as_ref()?;
        Some(search).filter(|search| search.count > 0 || search.row == self.selected)
    }

    pub(super) fn next_match(&mut self, is_forward: bool) {
        let at = self.position();
        let Some(search) = &mut self.search else {
            return self
                .show_message("nothing is searched for: / begins a search, ? shows the keys");
        };
        match search.next(at, is_forward) {
            Some(found) => {
                let is_wrapped = if is_forward { found <= at } else { found >= at };
                if is_wrapped {
                    self.message = Some(match is_forward {
                        true => "from the beginning again".to_owned(),
                        false => "from the end again".to_owned(),
                    });
                }
                self.go_to_match(found);
            }
            None if matches!(search.state, ScanState::Reading(_)) => search.is_jump_pending = true,
            None => self.report_no_match(),
        }
    }

    fn go_to_match(&mut self, found: Position) {
        self.focus = Focus::View;
        let lines = self.lines();
        let is_held = lines.get(0).is_some_and(|line| line.at <= found)
            && lines.last().is_some_and(|line| line.at >= found);
        if is_held || self.filter.is_some() {
            self.go_to_with_context(found);
            return self.load_around();
        }
        self.is_following = false;
        self.goal = Some(found);
        self.loading = Loading::Nothing;
        let place = Place::Before(found.seq.saturating_add(1));
        self.load(Loading::Whole, place);
    }
}
