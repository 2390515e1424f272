//! Begins searches and filters, and moves through their finds (pure).

use super::effect::{Effect, Place};
use super::layout::Focus;
use super::line::{Pattern, Position};
use super::model::{Loading, Model};
use super::searching::{Filtered, Finds, Scan, ScanState, Search};
use super::wrapping::shortened;
use crate::face::clean::one_line;

impl Model {
    pub(super) fn set_filter(&mut self, pattern: Option<Pattern>, effects: &mut Vec<Effect>) {
        let Some(pattern) = pattern else {
            if self.filter.take().is_some() {
                self.filter_is_over(effects);
            }
            return;
        };
        let id = self.fresh_id();
        let (view, local) = (self.view, self.about.local.clone());
        self.filter = Some(Filtered::new(id, pattern, view, local));
        self.focus = Focus::View;
        self.cursor = 0;
        self.scan_filter(effects);
        self.scan_search(effects);
        self.show_current();
    }

    pub(super) fn filter_is_over(&mut self, effects: &mut Vec<Effect>) {
        self.cursor = self.cursor.min(self.lines().len().saturating_sub(1));
        self.scan_search(effects);
    }

    pub(super) fn invert_filter(&mut self, effects: &mut Vec<Effect>) {
        let Some(filter) = &self.filter else {
            return self.say("there is no filter: f sets one");
        };
        let typed = &filter.pattern.typed;
        let inverted = match typed.strip_prefix('!') {
            Some(pattern) => pattern.to_owned(),
            None => format!("!{typed}"),
        };
        self.set_filter(Pattern::new(&inverted), effects);
    }

    /// Looks again for what is searched for, in another row or view.
    pub(super) fn scan_again(&mut self, effects: &mut Vec<Effect>) {
        if let Some(filter) = self.filter.take() {
            let id = self.fresh_id();
            let local = self.about.local.clone();
            self.filter = Some(Filtered::new(id, filter.pattern, self.view, local));
            self.scan_filter(effects);
        }
        if let Some(search) = self.search.take() {
            let id = self.fresh_id();
            let mut search = Search::new(id, search.pattern, search.row);
            search.is_wanted = false;
            self.search = Some(search);
            self.scan_search(effects);
        }
    }

    fn scan_filter(&mut self, effects: &mut Vec<Effect>) {
        let Some(filter) = self.filter.as_ref() else {
            return;
        };
        let local = self.about.local.clone();
        let found = Filtered::new(filter.id, filter.pattern.clone(), self.view, local);
        self.scan(Finds::Filter(Box::new(found)), effects);
    }

    pub(super) fn scan_search(&mut self, effects: &mut Vec<Effect>) {
        let id = self.fresh_id();
        let Some(search) = self.search.as_mut() else {
            return;
        };
        search.id = id;
        search.state = ScanState::Reading(0);
        let mut found = Search::new(id, search.pattern.clone(), search.row.clone());
        found.is_wanted = search.is_wanted;
        self.scan(Finds::Search(found), effects);
    }

    fn scan(&mut self, collected: Finds, effects: &mut Vec<Effect>) {
        let Some(row) = self.selected_row() else {
            return;
        };
        let within = self.filter.as_ref().map(|filter| filter.pattern.clone());
        let view = (self.view, self.about.local.clone());
        let scan = Scan::new(row.clone(), collected, within, view);
        effects.push(Effect::Scan(Box::new(scan)));
    }

    pub(super) fn fresh_id(&mut self) -> u64 {
        self.scans += 1;
        self.scans
    }

    /// Goes to the match nearest to the reader.
    pub(super) fn first_hit(&mut self, effects: &mut Vec<Effect>) {
        let at = self.position();
        let Some(search) = &self.search else {
            return;
        };
        let before = search.index_of(at).map(|index| search.hits[index]);
        match before.or(search.hits.first().copied()) {
            Some(hit) => self.go_to_hit(hit, effects),
            None => self.say_no_line(),
        }
    }

    /// Says where nothing was found.
    fn say_no_line(&mut self) {
        let (Some(search), Some(row)) = (&self.search, self.selected_row()) else {
            return;
        };
        let (name, view) = (shortened(&one_line(&row.name), 24), self.view.name());
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
        self.say(&text);
    }

    /// Returns the search, unless it was for another row and this one has none of it.
    pub(super) fn shown_search(&self) -> Option<&Search> {
        let search = self.search.as_ref()?;
        Some(search).filter(|search| search.count > 0 || search.row == self.selected)
    }

    pub(super) fn next_hit(&mut self, is_forward: bool, effects: &mut Vec<Effect>) {
        let at = self.position();
        let Some(search) = &mut self.search else {
            return self.say("nothing is searched for: / begins a search, ? shows the keys");
        };
        match search.next(at, is_forward) {
            Some(hit) => {
                let is_wrapped = if is_forward { hit <= at } else { hit >= at };
                if is_wrapped {
                    self.message = Some(match is_forward {
                        true => "from the beginning again".to_owned(),
                        false => "from the end again".to_owned(),
                    });
                }
                self.go_to_hit(hit, effects);
            }
            None if matches!(search.state, ScanState::Reading(_)) => search.is_wanted = true,
            None => self.say_no_line(),
        }
    }

    fn go_to_hit(&mut self, hit: Position, effects: &mut Vec<Effect>) {
        self.focus = Focus::View;
        let is_held = self
            .lines()
            .iter()
            .next()
            .is_some_and(|line| line.at <= hit)
            && self.lines().last().is_some_and(|line| line.at >= hit);
        if is_held || self.filter.is_some() {
            self.go_to_with_context(hit);
            return self.load_around(effects);
        }
        self.is_following = false;
        self.goal = Some(hit);
        self.loading = Loading::Nothing;
        let place = Place::Before(hit.seq.saturating_add(1));
        self.load(Loading::Whole, place, effects);
    }
}
