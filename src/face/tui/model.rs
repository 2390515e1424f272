//! The state of the terminal UI, and what the inputs change in it (pure).

use super::board::{BoardRows, question_of};
use super::effect::{
    CaptureRequest, Connection, Effect, FollowedRun, Input, PageRequest, Place, ScanRequest, Screen,
};
use super::keys::{self, Action, Command, KeyContext, Motion, PromptKind};
use super::layout::{Focus, Layout, ViewKind};
use super::prompt::{Help, InputLine, Prompt};
use super::search::{Filtered, Scan, ScanResult, ScanState, Search};
use super::timeline::Timeline;
use super::view::View;
use crate::board::{Attention, Row, RowKey};
use crate::face::local_time::LocalTime;
use crate::face::pattern::Pattern;
use crate::face::sanitize::{one_line, with_ellipsis};
use crate::face::view_lines::{LineView, Position};
use crate::history::Page;
use crate::timestamp::Timestamp;

/// The lines before and after the reader that are loaded in advance.
const LINES_AHEAD: usize = 200;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Loading {
    #[default]
    Nothing,
    /// A page that replaces the window.
    Whole,
    Before,
    After,
}

/// What is requested of the selected run's log.
#[derive(Debug, Default)]
pub(super) struct Loader {
    /// Counts selections and reloads; results for earlier generations are discarded.
    pub generation: u64,
    pub loading: Loading,
    /// Counts the streams of followed events; events of earlier streams are discarded.
    pub stream: u64,
    /// The position to go to once its page is loaded.
    goal: Option<Position>,
}

/// The state of the UI.
#[derive(Debug)]
pub(super) struct Model {
    pub settings: Settings,
    pub now: Timestamp,
    pub connection: Connection,
    pub layout: Layout,
    pub board: BoardRows,
    pub view: View,
    pub log: Loader,
    pub screen: Option<Screen>,
    pub timeline: Timeline,
    pub input: InputLine,
    /// Counts scans through the history.
    scans: u64,
    /// The requests that follow from the current input.
    effects: Vec<Effect>,
}

impl Model {
    pub fn new(settings: Settings, size: (u16, u16), now: Timestamp) -> Self {
        let mut model = Self {
            now,
            connection: Connection::Connecting,
            layout: Layout::new(size, Focus::Board, false),
            board: BoardRows::default(),
            view: View::new(settings.local.clone()),
            log: Loader::default(),
            screen: None,
            timeline: Timeline::new(),
            input: InputLine::default(),
            scans: 0,
            effects: Vec::new(),
            settings,
        };
        model.resize(size);
        model
    }

    /// Handles an input; returns the requests that follow from it.
    pub fn update(&mut self, input: Input) -> Vec<Effect> {
        let current = self.log.generation;
        match input {
            Input::Key(key) => {
                let row = self.board.row();
                let context = KeyContext {
                    has_prompt: self.input.prompt.is_some(),
                    has_help: self.input.help.is_some(),
                    view: self.view.kind,
                    focus: self.layout.focus,
                    is_leftmost: self.view.left == 0,
                    needs_you: row.is_some_and(|row| row.attention() == Attention::NeedsYou),
                };
                self.act(keys::action(key, context));
            }
            Input::Paste(text) => self.input.paste(text),
            Input::Resize(width, height) => self.resize((width, height)),
            Input::Tick(now) => self.now = now,
            Input::Board(rows) => self.set_rows(rows),
            Input::History(rows) => {
                self.board.set_history(rows);
                self.view.row = self.board.row().cloned();
            }
            Input::Connection(connection) => self.connection = connection,
            Input::Live {
                stream,
                missed,
                events,
            } if stream == self.log.stream => self.view.live(missed, events),
            Input::Page {
                generation,
                place,
                page,
            } if generation == current => self.page(place, page),
            Input::Progress { id, read } => self.view.progress(id, read),
            Input::Scanned(scan) => {
                if self.view.scanned(*scan) {
                    self.go_to_first_match();
                }
            }
            Input::States(states) => self.timeline.add_history(states),
            Input::Screen { generation, screen } if generation == current => match screen {
                Ok(screen) => self.screen = Some(*screen),
                Err(why) => {
                    self.screen = None;
                    self.input.message = Some(why);
                }
            },
            Input::Message(text) => self.input.message = Some(text),
            Input::Live { .. } | Input::Page { .. } | Input::Screen { .. } => {}
        }
        std::mem::take(&mut self.effects)
    }

    fn resize(&mut self, size: (u16, u16)) {
        self.layout.size = size;
        self.board.resize(size.1);
        self.arrange(self.layout.focus, self.layout.is_zoomed);
    }

    pub fn set_focus(&mut self, focus: Focus) {
        self.arrange(focus, self.layout.is_zoomed);
    }

    /// Arranges the parts of the screen.
    fn arrange(&mut self, focus: Focus, is_zoomed: bool) {
        self.layout = Layout::new(self.layout.size, focus, is_zoomed);
        let area = self.layout.view.unwrap_or_default();
        // The title takes one row.
        self.view.size = (area.width.into(), area.height.saturating_sub(1).into());
        self.view.scroll();
    }

    fn set_rows(&mut self, rows: Vec<Row>) {
        self.connection = Connection::Connected;
        for row in &rows {
            self.timeline.note(row);
        }
        // A new execution is selected only while the reader follows.
        let may_move =
            self.view.is_following && self.input.prompt.is_none() && self.view.at.is_none();
        let must_load = self.board.set(rows, may_move);
        self.view.row = self.board.row().cloned();
        if must_load {
            self.reload();
        }
    }

    /// Selects a row, and loads its last events.
    fn select(&mut self, key: Option<RowKey>) {
        if self.board.select(key) {
            self.reload();
        }
    }

    /// Reloads the selected row: its last events, or those at the selected time.
    pub fn reload(&mut self) {
        self.view.row = self.board.row().cloned();
        self.view.reset(self.settings.local.clone());
        self.log = Loader {
            generation: self.log.generation + 1,
            stream: self.log.stream + 1,
            ..Loader::default()
        };
        self.screen = None;
        if self.view.row.is_none() {
            return;
        }
        let place = match self.view.at {
            Some(at) => {
                self.view.is_following = false;
                Place::Until(at)
            }
            None => Place::Last,
        };
        self.load(Loading::Whole, place);
        self.restart_scans();
        self.capture();
    }

    /// Requests a page, unless one is being loaded.
    fn load(&mut self, loading: Loading, place: Place) {
        if self.log.loading != Loading::Nothing {
            return;
        }
        if let Some(row) = &self.view.row {
            self.effects.push(Effect::Load(PageRequest {
                generation: self.log.generation,
                row: Box::new(row.clone()),
                place,
            }));
            self.log.loading = loading;
        }
    }

    /// Loads the page that has a position, and goes there.
    fn load_at(&mut self, goal: Position, place: Place) {
        self.log.goal = Some(goal);
        self.log.loading = Loading::Nothing;
        self.load(Loading::Whole, place);
    }

    /// Requests the events after the window, and then live ones. Older runs have none.
    fn follow_run(&mut self) {
        let is_on_board = self.board.index().is_some_and(|at| at < self.board.len);
        if let Some(row) = self.view.row.as_ref().filter(|_| is_on_board) {
            self.log.stream += 1;
            self.effects.push(Effect::Follow(FollowedRun {
                stream: self.log.stream,
                execution: row.execution_id.clone(),
                after: self.view.window.last_seq(),
            }));
        }
    }

    /// Loads lines before and after the reader in advance.
    fn load_around(&mut self) {
        let view = &self.view;
        if view.is_following || view.filter.is_some() || !view.kind.has_lines() {
            return;
        }
        let count = view.lines().len();
        if view.at.is_some() && count == 0 {
            // All other events were recorded after this time.
            return;
        }
        let window = &view.window;
        if let Some(next) = window.gap_before(view.position())
            && view.cursor < count
        {
            return self.load(Loading::Before, Place::Before(next));
        }
        let first = window.first_seq();
        if let Some(first) = first.filter(|_| view.cursor < LINES_AHEAD && !window.is_start) {
            self.load(Loading::Before, Place::Before(first));
        } else if count.saturating_sub(view.cursor) < LINES_AHEAD && !window.is_end {
            self.load(Loading::After, Place::After(window.last_seq()));
        }
    }

    fn page(&mut self, place: Place, page: Page) {
        let loading = std::mem::take(&mut self.log.loading);
        let view = &mut self.view;
        let at = view.position();
        match (loading, place) {
            (Loading::Nothing, _) => return,
            (Loading::Whole, _) => {
                let is_first = view.window.lines.is_empty();
                view.window.replace(page);
                if view.at.is_some() || self.log.goal.is_some() {
                    view.stop_at_last();
                } else if is_first && view.filter.is_none() {
                    view.follow_end();
                }
            }
            (Loading::Before, Place::Before(seq)) => {
                if view.window.gap_before(at).is_some() {
                    view.window.forget_until_gap(seq);
                }
                view.window.prepend(page);
                view.go_to(at);
            }
            (Loading::After, _) => {
                view.window.append(page);
                if !view.is_following {
                    view.go_to(at);
                }
            }
            (Loading::Before, _) => {}
        }
        let has_end = matches!(loading, Loading::Whole | Loading::After) && view.window.is_end;
        if has_end && view.at.is_none() {
            self.follow_run();
        }
        if let Some(goal) = self.log.goal.take() {
            self.view.go_to_with_context(goal);
        }
        self.view.scroll();
        self.load_around();
    }

    fn act(&mut self, action: Action) {
        self.input.message = None;
        match action {
            Action::Quit => self.effects.push(Effect::Quit),
            Action::Suspend => self.effects.push(Effect::Suspend),
            Action::Redraw => self.effects.push(Effect::Redraw),
            Action::TogglePause if self.view.is_following && self.view.kind.has_lines() => {
                self.view.pause();
            }
            Action::TogglePause => self.follow(),
            Action::Back => self.back(),
            Action::SwitchFocus => match self.layout.focus {
                Focus::Board => self.set_focus(Focus::View),
                Focus::View => self.arrange(Focus::Board, false),
            },
            Action::Show(view) => self.show(view),
            Action::Move(motion) => self.move_by(motion),
            Action::NextWaiting { is_forward } => match self.board.next_waiting(is_forward) {
                Some(key) => self.select(Some(key)),
                None => self.input.show("nothing needs you"),
            },
            Action::Enter => self.enter(),
            Action::OpenPrompt(PromptKind::Answer) => {
                let (row, allows_input) = (self.board.row().cloned(), self.settings.allows_input);
                self.input.begin_answer(row, allows_input);
            }
            Action::Dismiss { is_dismissed } => {
                let rows = self.board.selected_rows();
                if rows.is_empty() {
                    self.input.show("no row is selected");
                }
                self.effects.extend(rows.into_iter().map(|row| {
                    let row = Box::new(row);
                    Effect::Dismiss { row, is_dismissed }
                }));
            }
            Action::OpenPrompt(kind) => {
                let filter = self.view.filter.as_ref();
                let filter = filter.filter(|_| kind == PromptKind::Filter);
                let typed = filter.map_or("", |filter| &filter.pattern.typed);
                self.input.open(kind, typed);
            }
            Action::NextMatch { is_forward } => self.next_match(is_forward),
            Action::InvertFilter => match &self.view.filter {
                Some(filter) => {
                    let typed = &filter.pattern.typed;
                    let inverted = match typed.strip_prefix('!') {
                        Some(pattern) => Pattern::new(pattern),
                        None => Pattern::new(&format!("!{typed}")),
                    };
                    self.set_filter(inverted);
                }
                None => self.input.show("there is no filter: f sets one"),
            },
            Action::CopyLine if self.view.kind.has_lines() => {
                let line = self.view.lines().get(self.view.current());
                self.copy(line.map_or_else(String::new, |line| line.text.text.clone()));
            }
            Action::CopyLine | Action::CopyView => self.copy(self.view.text(self.screen.as_ref())),
            Action::CopyLinks => {
                let line = self.view.lines().get(self.view.current());
                match line.filter(|line| !line.urls.is_empty()) {
                    Some(line) => self.copy(line.urls.join("\n")),
                    None => self.input.show("the line has no link"),
                }
            }
            Action::ToggleWrap => {
                self.view.wraps = !self.view.wraps;
                self.view.left = 0;
                self.view.scroll();
                let shown = if self.view.wraps { "wrapped" } else { "cut" };
                self.input.show(&format!("long lines are {shown}"));
            }
            Action::ToggleZoom if self.layout.is_zoomed => self.arrange(self.layout.focus, false),
            Action::ToggleZoom => self.arrange(Focus::View, true),
            Action::ToggleHelp => self.input.help = Some(Help::default()),
            Action::Time { cells } => {
                if self.view.kind != ViewKind::Timeline {
                    self.show(ViewKind::Timeline);
                }
                // The time cursor moves; the views follow it.
                let (_, columns) = self.layout.time_columns();
                let step = self.timeline.span_micros() / i64::from(columns.max(1));
                let at = self.view.at.unwrap_or(self.now).micros();
                let to = Timestamp::from_micros(at.saturating_add(step.saturating_mul(cells)));
                self.set_time((to < self.now).then_some(to));
            }
            Action::TimeSpan { is_longer } if self.view.kind == ViewKind::Timeline => {
                self.timeline.zoom(is_longer);
            }
            Action::TimeSpan { .. } => self.input.show("+ and - are for the timeline (t)"),
            Action::Edit(edit) => self.input.edit(edit),
            Action::EarlierInput { is_older } => self.input.earlier(is_older),
            Action::Accept => self.accept(),
            Action::Complete => self.complete(),
            Action::Unknown(key) => {
                self.input
                    .show(&format!("{key} has no meaning here; ? shows the keys"));
            }
        }
    }

    fn back(&mut self) {
        if self.input.close() {
            return self.view.scroll();
        }
        // A hidden search is dropped together with the next open layer.
        let shown = self.view.shown_search().map(|search| search.opened_from);
        self.view.search = None;
        if let Some(focus) = shown {
            self.set_focus(focus);
        } else if self.view.filter.is_some() {
            self.set_filter(None);
        } else if self.view.at.is_some() {
            self.set_time(None);
        } else if !self.view.is_following
            && self.view.kind.has_lines()
            && self.layout.view.is_some()
        {
            self.follow();
        } else if self.layout.is_zoomed {
            self.arrange(self.layout.focus, false);
        } else if self.layout.focus == Focus::View {
            self.set_focus(Focus::Board);
        } else if self.view.kind != ViewKind::Output {
            self.show(ViewKind::Output);
            self.set_focus(Focus::Board);
        }
        self.view.scroll();
    }

    fn show(&mut self, kind: ViewKind) {
        let has_changed = self.view.kind != kind;
        self.view.kind = kind;
        if self.layout.is_narrow {
            self.set_focus(Focus::View);
        }
        if let Some(view) = kind.line_view().filter(|_| has_changed) {
            let at = self.view.position();
            self.view.window.set_view(view);
            self.view.left = 0;
            self.restart_scans();
            if self.view.is_following {
                self.view.scroll();
            } else {
                self.view.go_to(at);
            }
        }
        if kind == ViewKind::Timeline && !self.timeline.is_loaded && !self.timeline.is_loading {
            self.timeline.is_loading = true;
            let since = Timeline::start(self.now);
            self.effects
                .push(Effect::Scan(ScanRequest::Timeline { since }));
        }
        self.capture();
    }

    /// Shows a view with lines for a filter or a search, if the current one has none.
    fn show_lines(&mut self) {
        if !self.view.kind.has_lines() {
            self.show(ViewKind::Output);
        }
    }

    /// Requests captures of the selected pane while its screen is shown, and stops them otherwise.
    fn capture(&mut self) {
        let generation = self.log.generation;
        let row = self.view.row.as_ref();
        let row = row.filter(|_| self.view.kind == ViewKind::Screen);
        let pane = row.and_then(|row| Some((row.pane.clone()?, row.server.clone())));
        // For a time in the past, or a pane that has ended, the screen comes from the history.
        let at = match row {
            Some(row) if pane.is_some() => self.view.at.or(row.has_ended().then_some(self.now)),
            _ => None,
        };
        if let (Some(row), Some(at)) = (row, at) {
            let row = Box::new(row.clone());
            self.effects.push(Effect::Load(PageRequest {
                generation,
                row,
                place: Place::Screen(at),
            }));
        }
        let pane = pane.filter(|_| at.is_none());
        self.effects
            .push(Effect::Capture(CaptureRequest { generation, pane }));
    }

    fn enter(&mut self) {
        let (focus, kind) = (self.layout.focus, self.view.kind);
        if focus == Focus::Board && self.board.open() {
            return;
        }
        if self.layout.is_narrow && focus == Focus::Board {
            return self.set_focus(Focus::View);
        }
        if kind == ViewKind::Timeline && self.view.at.is_some() {
            return self.show(ViewKind::Output);
        }
        let Some(row) = self.board.row() else {
            return;
        };
        if row.is_in_pane() && !row.has_ended() {
            self.effects.push(Effect::Jump(Box::new(row.clone())));
        } else if (focus, kind) != (Focus::View, ViewKind::Output) {
            // Without a pane to jump to, the recorded output is shown.
            self.show(ViewKind::Output);
            self.set_focus(Focus::View);
        } else {
            let why = if row.has_ended() {
                "has ended: there is no pane to go to"
            } else {
                "runs in no pane: there is none to go to"
            };
            self.input.message = Some(format!("{} {why}", row.name));
        }
    }

    fn copy(&mut self, text: String) {
        if text.trim().is_empty() {
            return self.input.show("there is nothing to copy");
        }
        let answers = match self.board.row().and_then(question_of) {
            Some(_) if self.layout.focus == Focus::Board => "; r answers the question",
            _ => "",
        };
        self.input.message = Some(match text.lines().count() {
            1 => format!("copied: {}{answers}", with_ellipsis(&one_line(&text), 50)),
            lines => format!("{lines} lines are copied{answers}"),
        });
        self.effects.push(Effect::Copy(text));
    }

    fn move_by(&mut self, motion: Motion) {
        let is_board = self.layout.focus == Focus::Board || self.view.kind == ViewKind::Timeline;
        if self.input.help.is_some() {
            self.input.move_in_help(motion, self.layout.size);
        } else if matches!(motion, Motion::Left | Motion::Right) {
            self.view.move_aside(motion == Motion::Right);
        } else if is_board {
            self.select(self.board.after(motion));
        } else if !self.view.kind.has_lines() {
            self.input
                .show("the screen does not scroll; o shows the output");
        } else if motion == Motion::End {
            self.follow();
        } else if motion == Motion::Start
            && !self.view.window.is_start
            && self.view.filter.is_none()
            && !self.view.lines().is_empty()
        {
            self.view.pause();
            self.load_at(Position::default(), Place::After(0));
        } else {
            self.view.move_by(motion);
            self.load_around();
        }
    }

    /// Moves to the end, and to the present.
    fn follow(&mut self) {
        let is_past = self.view.at.take().is_some();
        self.view.follow_end();
        if is_past || !self.view.window.is_end {
            return self.reload();
        }
        self.view.scroll();
    }

    /// Moves to a time, or back to the present.
    fn set_time(&mut self, at: Option<Timestamp>) {
        if self.view.at != at {
            self.view.at = at;
            self.reload();
        }
    }

    fn complete(&mut self) {
        let Some(prompt) = &mut self.input.prompt else {
            return;
        };
        match prompt.kind {
            PromptKind::Answer => prompt.presses_enter = !prompt.presses_enter,
            PromptKind::Command => {
                prompt.complete(|typed| keys::complete(typed, &self.board.names));
            }
            PromptKind::Search | PromptKind::Filter => {}
        }
    }

    fn accept(&mut self) {
        let Some(prompt) = self.input.accept() else {
            return;
        };
        let text = prompt.text();
        match prompt.kind {
            PromptKind::Answer => {
                let answer = self.input.answer(prompt, &self.board.rows);
                self.effects.extend(answer);
            }
            PromptKind::Filter => {
                self.show_lines();
                self.set_filter(Pattern::new(&text));
            }
            PromptKind::Search => match Pattern::new(&text) {
                Some(pattern) => {
                    let search = self.view.search.as_ref();
                    let opened_from = search.map_or(self.layout.focus, |search| search.opened_from);
                    self.show_lines();
                    let row = self.board.row().map(Row::key);
                    self.view.search = Some(Search::new(pattern, row, opened_from));
                    self.set_focus(Focus::View);
                    self.scan_search();
                }
                None => self.next_match(true),
            },
            PromptKind::Command => self.command(&text),
        }
    }

    fn command(&mut self, text: &str) {
        match keys::parse(text, self.now) {
            Ok(None) => {}
            Ok(Some(Command::Act(action))) => self.act(action),
            Ok(Some(Command::Filter(text))) => {
                self.show_lines();
                self.set_filter(Pattern::new(&text));
            }
            Ok(Some(Command::Search(text))) => {
                self.input.prompt = Some(Prompt::new(PromptKind::Search, &text));
                self.accept();
            }
            Ok(Some(Command::At(at))) => self.set_time(at),
            Ok(Some(Command::Open(name))) => self.open(&name),
            Err(why) => self.input.message = Some(why),
        }
    }

    fn open(&mut self, name: &str) {
        if name.is_empty() {
            let text = "open: give the name of a row; Tab completes";
            return self.input.show(text);
        }
        match self.board.named(name) {
            Some(key) => {
                self.select(Some(key));
                self.act(Action::Show(ViewKind::Output));
                self.set_focus(Focus::View);
            }
            None => {
                let text = format!("open {name}: no row or older run has this name");
                self.input.message = Some(text);
            }
        }
    }

    fn set_filter(&mut self, pattern: Option<Pattern>) {
        let Some(pattern) = pattern else {
            if self.view.filter.take().is_some() {
                self.scan_search();
                self.view.scroll();
            }
            return;
        };
        self.view.cursor = 0;
        self.begin_filter(pattern);
        self.scan_search();
        self.set_focus(Focus::View);
    }

    /// Repeats the filter and the search in another row or view.
    fn restart_scans(&mut self) {
        if let Some(filter) = self.view.filter.take() {
            self.begin_filter(filter.pattern);
        }
        if let Some(search) = &mut self.view.search {
            *search = search.emptied();
            search.is_jump_pending = false;
            self.scan_search();
        }
    }

    /// Begins a filter, which takes live events at once, and those of the history when its scan ends.
    fn begin_filter(&mut self, pattern: Pattern) {
        self.scans += 1;
        let (view, local) = (self.scanned_view(), &self.settings.local);
        let filter = |pattern| Filtered::new(self.scans, pattern, view, local.clone());
        let found = Box::new(filter(pattern.clone()));
        self.view.filter = Some(filter(pattern));
        self.scan(ScanResult::Filter(found));
    }

    /// Returns the view whose lines a scan reads. One without lines shows no matches.
    fn scanned_view(&self) -> LineView {
        self.view.kind.line_view().unwrap_or(LineView::Output)
    }

    fn scan_search(&mut self) {
        self.scans += 1;
        let Some(search) = self.view.search.as_mut() else {
            return;
        };
        search.id = self.scans;
        search.state = ScanState::Reading(0);
        let found = search.emptied();
        self.scan(ScanResult::Search(found));
    }

    fn scan(&mut self, result: ScanResult) {
        if let Some(row) = &self.view.row {
            let filter = self.view.filter.as_ref();
            let within = filter.map(|filter| filter.pattern.clone());
            let view = (self.scanned_view(), self.settings.local.clone());
            let scan = Scan::new(row.clone(), result, within, view);
            self.effects
                .push(Effect::Scan(ScanRequest::Lines(Box::new(scan))));
        }
    }

    /// Moves to the last match before the reader, or to the first one.
    fn go_to_first_match(&mut self) {
        let at = self.view.position();
        let Some(search) = &self.view.search else {
            return;
        };
        let before = search.index_of(at).map(|index| search.matches[index]);
        match before.or(search.matches.first().copied()) {
            Some(found) => self.go_to_match(found),
            None => self.input.message = self.view.no_match(),
        }
    }

    fn next_match(&mut self, is_forward: bool) {
        let at = self.view.position();
        let Some(search) = &mut self.view.search else {
            let text = "nothing is searched for: / begins a search, ? shows the keys";
            return self.input.show(text);
        };
        match search.next(at, is_forward) {
            Some(found) if is_forward && found <= at => {
                self.input.show("from the beginning again");
                self.go_to_match(found);
            }
            Some(found) if !is_forward && found >= at => {
                self.input.show("from the end again");
                self.go_to_match(found);
            }
            Some(found) => self.go_to_match(found),
            None if matches!(search.state, ScanState::Reading(_)) => search.is_jump_pending = true,
            None => self.input.message = self.view.no_match(),
        }
    }

    fn go_to_match(&mut self, found: Position) {
        self.set_focus(Focus::View);
        let lines = self.view.lines();
        let is_held = lines.front().is_some_and(|line| line.at <= found)
            && lines.back().is_some_and(|line| line.at >= found);
        if is_held || self.view.filter.is_some() {
            self.view.go_to_with_context(found);
            return self.load_around();
        }
        self.view.is_following = false;
        self.load_at(found, Place::Before(found.seq.saturating_add(1)));
    }
}
