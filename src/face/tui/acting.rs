//! Performs the actions of the user: views, prompts, searches, filters, answers, copies (pure).

use super::action::{Action, Motion};
use super::answering::question_of;
use super::bindings::{help_lines, help_rows};
use super::effect::{CaptureRequest, CapturedPane, Effect, PageRequest, Place, ScanRequest};
use super::layout::Focus;
use super::model::{Help, Model};
use super::moving::moved;
use super::prompt::PromptKind;
use super::timeline::SPAN_MAX_MICROS;
use super::view::ViewKind;
use crate::board::Attention;
use crate::face::sanitize::{one_line, with_ellipsis};
use crate::timestamp::Timestamp;

impl Model {
    pub(super) fn act(&mut self, action: Action) {
        self.message = None;
        match action {
            Action::Quit => self.effects.push(Effect::Quit),
            Action::Suspend => self.effects.push(Effect::Suspend),
            Action::Redraw => self.effects.push(Effect::Redraw),
            Action::TogglePause => self.toggle_pause(),
            Action::Back => self.back(),
            Action::SwitchFocus => {
                self.focus = match self.focus {
                    Focus::Board => Focus::View,
                    Focus::View => Focus::Board,
                };
                self.is_zoomed &= self.focus == Focus::View;
                self.scroll_to_current();
            }
            Action::Show(view) => self.show(view),
            Action::Move(motion) if self.help.is_some() => self.move_in_help(motion),
            Action::Move(motion) => self.move_by(motion),
            Action::NextWaiting { is_forward } => self.next_waiting(is_forward),
            Action::Enter => self.enter(),
            Action::OpenPrompt(PromptKind::Answer) => self.begin_answer(),
            Action::OpenPrompt(kind) => self.open_prompt(kind),
            Action::NextMatch { is_forward } => self.next_match(is_forward),
            Action::InvertFilter => self.invert_filter(),
            Action::CopyLine => {
                let text = match self.view {
                    ViewKind::Screen | ViewKind::Timeline => self.view_text(),
                    _ => self.current_text(),
                };
                self.copy(text);
            }
            Action::CopyView => {
                let text = self.view_text();
                self.copy(text);
            }
            Action::ToggleWrap => {
                self.wraps = !self.wraps;
                self.left = 0;
                self.show_message(match self.wraps {
                    true => "long lines are wrapped",
                    false => "long lines are cut",
                });
                self.scroll_to_current();
            }
            Action::ToggleZoom => {
                self.is_zoomed = !self.is_zoomed;
                if self.is_zoomed {
                    self.focus = Focus::View;
                }
                self.scroll_to_current();
            }
            Action::ToggleHelp => self.help = Some(Help::default()),
            Action::Time { cells } => {
                if self.view != ViewKind::Timeline {
                    self.show(ViewKind::Timeline);
                }
                self.move_time(cells);
            }
            Action::TimeSpan { is_longer } if self.view == ViewKind::Timeline => {
                self.timeline.zoom(is_longer);
            }
            Action::TimeSpan { .. } => self.show_message("+ and - are for the timeline (t)"),
            Action::Edit(edit) => self.edit(edit),
            Action::EarlierInput { is_older } => self.earlier_input(is_older),
            Action::Accept => self.accept(),
            Action::Complete => self.complete(),
            Action::Unknown(key) => {
                self.show_message(&format!("{key} has no meaning here; ? shows the keys"))
            }
        }
    }

    /// Shows a message at the bottom until the next key.
    pub(super) fn show_message(&mut self, text: &str) {
        self.message = Some(text.to_owned());
    }

    fn back(&mut self) {
        if self.prompt.take().is_some() {
            self.answered = None;
            return self.scroll_to_current();
        } else if self.help.take().is_some() {
            return self.scroll_to_current();
        }
        // A hidden search is dropped together with the next open layer.
        let shown = self.shown_search().is_some();
        let searched_from = self.searched_from.take();
        self.search = None;
        if shown {
            self.focus = searched_from.unwrap_or(self.focus);
        } else if self.filter.take().is_some() {
            self.filter_removed();
        } else if self.at.is_some() {
            self.set_time(None);
        } else if !self.is_following && self.view.has_lines() && self.layout().view.is_some() {
            self.follow();
        } else if self.is_zoomed {
            self.is_zoomed = false;
        } else if self.focus == Focus::View {
            self.focus = Focus::Board;
        } else if self.view != ViewKind::Output {
            self.show(ViewKind::Output);
            self.focus = Focus::Board;
        }
        self.scroll_to_current();
    }

    pub(super) fn show(&mut self, view: ViewKind) {
        let has_changed = self.view != view;
        self.view = view;
        if self.layout().is_narrow {
            self.focus = Focus::View;
        }
        if has_changed && view.has_lines() {
            let at = self.position();
            self.window.set_view(view);
            self.left = 0;
            self.restart_scans();
            match self.is_following {
                true => self.scroll_to_current(),
                false => self.go_to(at),
            }
        }
        if view == ViewKind::Timeline && !self.timeline.is_loaded && !self.timeline.is_loading {
            self.timeline.is_loading = true;
            let since = self.now.micros().saturating_sub(SPAN_MAX_MICROS);
            let since = Timestamp::from_micros(since);
            self.effects
                .push(Effect::Scan(ScanRequest::Timeline { since }));
        }
        self.capture();
    }

    /// Requests captures of the selected pane while its screen is shown, and stops them otherwise.
    pub(super) fn capture(&mut self) {
        let generation = self.generation;
        let row = self
            .selected_row()
            .filter(|_| self.view == ViewKind::Screen);
        let pane = row.and_then(|row| {
            Some(CapturedPane {
                pane: row.pane.clone()?,
                server: row.server.clone(),
            })
        });
        // For a time in the past, or a pane that has ended, the screen comes from the history.
        let at = match row {
            Some(row) if pane.is_some() => self.at.or(row.has_ended().then_some(self.now)),
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

    fn next_waiting(&mut self, is_forward: bool) {
        let selected = self.selected_index();
        let needs_you = |at: &usize| self.rows[*at].attention() == Attention::NeedsYou;
        let mut waiting: Vec<usize> = (0..self.rows.len()).filter(needs_you).collect();
        if !is_forward {
            waiting.reverse();
        }
        let follows = |at: &&usize| match is_forward {
            true => selected.is_none_or(|selected| **at > selected),
            false => selected.is_some_and(|selected| **at < selected),
        };
        match waiting.iter().find(follows).or(waiting.first()) {
            Some(index) => self.select(Some(self.rows[*index].key())),
            None => self.show_message("nothing needs you"),
        }
    }

    fn enter(&mut self) {
        if self.layout().is_narrow && self.focus == Focus::Board {
            self.focus = Focus::View;
            return self.scroll_to_current();
        }
        if self.view == ViewKind::Timeline && self.at.is_some() {
            return self.show(ViewKind::Output);
        }
        let Some(row) = self.selected_row() else {
            return;
        };
        if row.pane.is_some() && !row.has_ended() {
            self.effects.push(Effect::Jump(Box::new(row.clone())));
        } else if (self.focus, self.view) != (Focus::View, ViewKind::Output) {
            // Without a pane to jump to, the recorded output is shown.
            self.focus = Focus::View;
            self.show(ViewKind::Output);
            self.scroll_to_current();
        } else if row.has_ended() {
            self.message = Some(format!("{} has ended: there is no pane to go to", row.name));
        } else {
            let text = format!("{} runs in no pane: there is none to go to", row.name);
            self.message = Some(text);
        }
    }

    fn current_text(&self) -> String {
        let line = self.lines().get(self.current());
        line.map_or_else(String::new, |line| line.text.text.clone())
    }

    fn view_text(&self) -> String {
        let join = |rows: Vec<&str>| {
            let rows: Vec<&str> = rows.iter().map(|row| row.trim_end()).collect();
            rows.join("\n")
        };
        match (&self.view, &self.screen) {
            (ViewKind::Screen, Some(screen)) => {
                join(screen.rows.iter().map(|row| row.text.as_str()).collect())
            }
            _ => {
                let (_, rows) = self.view_size();
                let shown = self.lines().iter().skip(self.top).take(rows);
                join(shown.map(|line| line.text.text.as_str()).collect())
            }
        }
    }

    fn copy(&mut self, text: String) {
        if text.trim().is_empty() {
            return self.show_message("there is nothing to copy");
        }
        let answers = match self.selected_row().and_then(question_of) {
            Some(_) if self.focus == Focus::Board => "; r answers the question",
            _ => "",
        };
        self.message = Some(match text.lines().count() {
            1 => format!("copied: {}{answers}", with_ellipsis(&one_line(&text), 50)),
            lines => format!("{lines} lines are copied{answers}"),
        });
        self.effects.push(Effect::Copy(text));
    }

    fn move_in_help(&mut self, motion: Motion) {
        let (width, height) = self.size;
        let rows = help_rows(height).max(1);
        if let Some(help) = &mut self.help {
            let count = help_lines(&help.typed, width).len();
            // A page is all rows.
            help.top = moved(help.top, count.saturating_sub(rows), rows + 1, motion);
        }
    }
}
