//! Handles text typed into the input line and the help (pure).

use super::action::Action;
use super::commands::{self, Command};
use super::layout::Focus;
use super::line::Pattern;
use super::model::Model;
use super::prompt::{Edit, Prompt, PromptKind};
use super::searching::Search;
use super::view::ViewKind;
use crate::board::Row;
use crate::face::row_names;

impl Model {
    pub(super) fn open_prompt(&mut self, kind: PromptKind) {
        let typed = match (kind, &self.filter) {
            (PromptKind::Filter, Some(filter)) => filter.pattern.typed.clone(),
            _ => String::new(),
        };
        self.input_history.begin();
        self.prompt = Some(Prompt::new(kind, &typed));
    }

    /// Shows an earlier input, or a later one, or the text typed before.
    pub(super) fn earlier_input(&mut self, is_older: bool) {
        let Some(prompt) = &mut self.prompt else {
            return;
        };
        let found = match is_older {
            true => self.input_history.older(prompt.kind, &prompt.text()),
            false => self.input_history.newer(prompt.kind),
        };
        if let Some(text) = found {
            *prompt = Prompt::new(prompt.kind, &text);
        }
    }

    pub(super) fn edit(&mut self, edit: Edit) {
        if let Some(help) = &mut self.help {
            match edit {
                Edit::Insert(text) => help.typed.push_str(&text),
                Edit::Backspace => {
                    help.typed.pop();
                }
                Edit::Clear | Edit::Word => help.typed.clear(),
                _ => {}
            }
            help.top = 0;
        } else if let Some(prompt) = &mut self.prompt {
            let was_empty = prompt.text().is_empty();
            if was_empty && edit == Edit::Backspace {
                self.prompt = None;
                self.answered = None;
                return;
            }
            prompt.edit(edit);
            self.input_history.begin();
            if let Some(answered) = &mut self.answered {
                answered.is_empty_confirmed = false;
            }
            // A single letter or digit is a choice in an agent's dialogue; Enter would answer the next
            // dialogue.
            let is_choice = self.answered.as_ref().is_some_and(|answered| {
                let agent = answered.row.agent.as_deref();
                answered.row.asks.is_some() && agent.is_some_and(|agent| agent != "shell")
            });
            let is_single = prompt.text().chars().count() == 1;
            prompt.presses_enter = !(is_choice && is_single);
        }
    }

    pub(super) fn paste(&mut self, text: String) {
        // Without an input line, pasted letters would act as keys.
        match self.prompt.is_some() {
            true => self.edit(Edit::Insert(text)),
            false => self.show_message("pasted text is ignored; / searches, : takes commands"),
        }
    }

    pub(super) fn complete(&mut self) {
        let Some(prompt) = &mut self.prompt else {
            return;
        };
        match prompt.kind {
            PromptKind::Answer => prompt.presses_enter = !prompt.presses_enter,
            PromptKind::Command => {
                let mut names = row_names(&self.rows);
                names.dedup();
                prompt.complete(|typed| commands::complete(typed, &names));
            }
            PromptKind::Search | PromptKind::Filter => {}
        }
    }

    pub(super) fn accept(&mut self) {
        let Some(prompt) = self.prompt.take() else {
            return;
        };
        let text = prompt.text();
        self.input_history.add(prompt.kind, &text);
        match prompt.kind {
            PromptKind::Answer => self.answer(prompt),
            PromptKind::Filter => {
                self.show_lines();
                self.set_filter(Pattern::new(&text));
            }
            PromptKind::Search => match Pattern::new(&text) {
                Some(pattern) => {
                    self.searched_from = self.searched_from.or(Some(self.focus));
                    self.show_lines();
                    self.search = Some(Search::new(pattern, self.selected.clone()));
                    self.focus = Focus::View;
                    self.scan_search();
                }
                None => self.next_match(true),
            },
            PromptKind::Command => self.command(&text),
        }
    }

    /// Switches to a view with lines, if the current one has none.
    fn show_lines(&mut self) {
        if !self.view.has_lines() {
            self.show(ViewKind::Output);
        }
    }

    fn command(&mut self, text: &str) {
        match commands::parse(text, self.now) {
            Ok(None) => {}
            Ok(Some(Command::Act(action))) => self.act(action),
            Ok(Some(Command::Filter(text))) => {
                self.show_lines();
                self.set_filter(Pattern::new(&text));
            }
            Ok(Some(Command::Search(text))) => {
                self.prompt = Some(Prompt::new(PromptKind::Search, &text));
                self.accept();
            }
            Ok(Some(Command::At(at))) => self.set_time(at),
            Ok(Some(Command::Open(name))) => self.open(&name),
            Err(why) => self.message = Some(why),
        }
    }

    /// Selects the row or run with this name, with or without its pane, or the first whose name begins with
    /// it.
    fn open(&mut self, name: &str) {
        let named: Vec<(&Row, String)> = self.rows.iter().zip(row_names(&self.rows)).collect();
        let prefix = name.to_lowercase();
        let is_exact = |(row, full): &&(&Row, String)| {
            full == name || row.name == name || *row.execution_id == *name
        };
        let begins = |(row, full): &&(&Row, String)| {
            let mut names = [full, &*row.execution_id].into_iter();
            names.any(|full| full.to_lowercase().starts_with(&prefix))
        };
        let found = named.iter().find(is_exact);
        let found = found.or_else(|| named.iter().find(begins));
        match found.map(|(row, _)| row.key()).filter(|_| !name.is_empty()) {
            Some(key) => {
                self.select(Some(key));
                self.act(Action::Show(ViewKind::Output));
                self.focus = Focus::View;
            }
            None if name.is_empty() => {
                self.show_message("open: give the name of a row; Tab completes")
            }
            None => self.show_message(&format!("open {name}: no row or older run has this name")),
        }
    }
}
