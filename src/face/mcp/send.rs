//! Types into panes: never an answer to a question that the client has not named.

use std::time::Duration;

use serde_json::{Map, json};

use super::arguments::SendInput;
use super::context::Context;
use super::refusal::Refusal;
use super::result::ToolResult;
use crate::api::{Input, Observer, is_without_enter};
use crate::board::{Place, Row};
use crate::error::{Error, Result as CrateResult};
use crate::event::PaneId;
use crate::tmux::Typing;

/// What is typed, as the client gives it.
pub(super) struct Typed<'a> {
    pub text: Option<&'a str>,
    pub keys: Option<&'a [String]>,
    pub enter: Option<bool>,
    pub answers: Option<&'a str>,
}

impl<'a> Typed<'a> {
    /// Returns the input.
    pub fn input(&self) -> Result<Input<'a>, Refusal> {
        let typing = match (self.text, self.keys, self.enter) {
            (Some(text), None, enter) => Typing::text(text, enter.unwrap_or(true)),
            (None, Some(keys), None) => Typing::keys(keys.to_vec()),
            _ => {
                return Err(Refusal::of_arguments(
                    "give either text, with enter true or false, or keys",
                    "keys press nothing but themselves: add Enter to them",
                ));
            }
        };
        let typing = typing.map_err(|error| {
            let advice =
                "keys are named as tmux names them: Enter, Escape, C-c, Up, or one character";
            Refusal::of_arguments(error.to_string(), advice)
        })?;
        Ok(Input {
            typing,
            may_leave_enter: self.enter.is_none(),
            answers: self.answers,
        })
    }
}

impl Context<'_> {
    /// Finds the pane to type into.
    pub fn pane_to_type(&self, observer: &Observer, name: &str) -> Result<(Row, Place), Refusal> {
        if !self.server.allows_input {
            return Err(Refusal::new(
                "this server types nothing",
                "ask the user to start it as td-observe mcp --allow-input",
            ));
        }
        let (row, place) = self.one_pane(observer, name)?;
        if self.server.own.as_ref() == Some(&place) {
            return Err(Refusal::new(
                "this is the pane that you run in",
                "what you type there would reach yourself: use your own tools",
            ));
        }
        if !self.may_type(observer, &place)? {
            return Err(Refusal::new(
                "this server types only into some panes, and this is none of them",
                "ask the user to start it with --only for this pane, too",
            ));
        }
        Ok((row, place))
    }

    /// Returns true if the user lets the client type into a pane.
    fn may_type(&self, observer: &Observer, place: &Place) -> Result<bool, Refusal> {
        if self.server.only.is_empty() {
            return Ok(true);
        }
        for name in &self.server.only {
            let Ok(found) = self.find_within(observer, name, Duration::ZERO) else {
                continue;
            };
            if found
                .rows
                .iter()
                .any(|row| row.place().as_ref() == Some(place))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Types into a pane.
    pub fn send(
        &self,
        observer: &Observer,
        place: &Place,
        input: &Input<'_>,
    ) -> CrateResult<PaneId> {
        observer.send(place, input, (self.stop, self.clock()))
    }

    /// Returns the refusal of input that a pane does not take, with its present question.
    pub fn refused_input(
        &self,
        observer: &Observer,
        place: &Place,
        (error, answers): (&Error, Option<&str>),
    ) -> Refusal {
        let question = self.question(observer, place);
        let open = question
            .as_ref()
            .and_then(|question| question["id"].as_str());
        let has_typed = is_without_enter(error);
        let advice = match (open, answers) {
            _ if has_typed => {
                "the text stands in the pane without Enter: answer the question first, by its id, then look at the pane"
            }
            _ if !error.is_invalid_input() => "call list_panes: the pane may be gone",
            (Some(open), Some(answers)) if open == answers => {
                "give the key of one of the question's choices as text, or look at the pane with read_output and screen"
            }
            (Some(_), Some(_)) => {
                "nothing was typed: the question is another one now; decide anew, and set answers to its id"
            }
            (Some(_), None) => {
                "nothing was typed: set answers to the question's id, and give the key of a choice, or a text, as text"
            }
            (None, Some(_)) => {
                "the question is gone: call list_panes before you type anything else"
            }
            (None, None) => "call list_panes for the present state, then decide",
        };
        let is_known = has_typed || error.is_invalid_input();
        Refusal::new(error.to_string(), advice)
            .with_question(question)
            .with_typed(is_known.then_some(has_typed))
    }
}

/// Types text or keys into a pane.
pub(super) fn send_input(
    context: &Context<'_>,
    arguments: SendInput,
) -> Result<ToolResult, Refusal> {
    let typed = Typed {
        text: arguments.text.as_deref(),
        keys: arguments.keys.as_deref(),
        enter: arguments.enter,
        answers: arguments.answers.as_deref(),
    };
    let input = typed.input()?;
    let observer = context.observer()?;
    let (_, place) = context.pane_to_type(&observer, &arguments.pane)?;
    let sent = context.send(&observer, &place, &input);
    let pane =
        sent.map_err(|error| context.refused_input(&observer, &place, (&error, input.answers)))?;
    Ok(ToolResult::new(Map::from_iter([
        ("typed".to_owned(), json!(true)),
        ("pane".to_owned(), json!(pane.as_str())),
    ])))
}
