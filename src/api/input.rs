//! `POST /api/v1/panes/{id}/input`: types into a pane, where that is allowed.

use serde::Deserialize;
use serde_json::json;

use super::context::ApiContext;
use super::panes::{self, failed};
use super::request::Request;
use super::response::Response;
use crate::error::{Error, Result};
use crate::thread::Stop;
use crate::tmux::Typing;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    text: Option<String>,
    /// Press Enter after the text; defaults to true.
    enter: Option<bool>,
    keys: Option<Vec<String>>,
}

impl Input {
    fn typing(self) -> Result<Typing> {
        match (self.text, self.keys, self.enter) {
            (Some(text), None, enter) => Typing::text(&text, enter.unwrap_or(true)),
            (None, Some(keys), None) => Typing::keys(keys),
            _ => Err(Error::invalid(
                "give text, with enter true or false, or else keys",
            )),
        }
    }
}

/// Types into a pane, and responds with its id. For a target with several panes, the active one is used.
pub(super) fn input(
    context: &ApiContext,
    id: &str,
    (request, body): (&Request, &[u8]),
    stop: &Stop,
) -> Response {
    let (all, clock) = (&context.panes, &context.clock);
    let typed = || -> Result<Response, Response> {
        all.check_input()?;
        let target = panes::target(id)?;
        let input: Input = panes::body(body)?;
        let typing = input.typing();
        let typing = typing.map_err(|error| Response::problem(400, &error.to_string()))?;
        let (_, found) = all.find(&target, request.socket(), (stop, clock))?;
        let pane = typing.send(&found.server, &found.panes, stop, clock);
        Ok(Response::json(
            &json!({"pane": pane.map_err(|error| refused(&error))?}),
        ))
    };
    typed().unwrap_or_else(|response| response)
}

/// Returns the response to input that a pane refuses.
pub(super) fn refused(error: &Error) -> Response {
    match error.is_invalid_input() {
        true => Response::problem(409, &error.to_string()),
        false => failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read_or_refused() {
        let read = |text: &str| {
            let input: Input = panes::body(text.as_bytes()).ok()?;
            input.typing().ok()
        };
        let text = |text: &str, presses_enter| Typing::Text {
            text: text.to_owned(),
            presses_enter,
        };
        assert_eq!(read(r#"{"text":"a"}"#), Some(text("a", true)));
        assert_eq!(read(r#" {"text":"","enter":true}"#), Some(text("", true)));
        assert_eq!(
            read(r#"{"text":"a","enter":false}"#),
            Some(text("a", false))
        );
        let keys = Typing::Keys(vec!["Up".to_owned(), "Enter".to_owned()]);
        assert_eq!(read(r#"{"keys":["Up","Enter"]}"#), Some(keys));
        for wrong in [
            "",
            "x",
            "{}",
            "[\"a\"]",
            r#"{"text":"a","keys":["Up"]}"#,
            r#"{"keys":["Up"],"enter":true}"#,
            r#"{"keys":[]}"#,
            r#"{"keys":["rm"]}"#,
            r#"{"text":"a","more":1}"#,
            r#"{"text":"a\u0000"}"#,
            r#"{"text":7}"#,
            r#"{"text":"a"} x"#,
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
