//! Tools that a model may call, and the results of calls that fail.

use std::fmt;
use std::sync::{Arc, Mutex};

use super::model::{Cancel, ToolCall, ToolSpec};
use crate::error::Error;
use crate::process::CommandControl;
use crate::text::first_bytes;
use crate::thread::{catch_panic, lock};
use serde_json::Value;

/// Default maximum size of a result, which is more than a model should read at once. A model may
/// request a part of a larger result.
const RESULT_BYTES_MAX: usize = 256 * 1024;

/// A tool that a model may call.
///
/// ```
/// use serde_json::{Value, json};
/// use td_observe::agent_loop::{Cancel, Tool, ToolError};
///
/// struct Add;
///
/// impl Tool for Add {
///     fn name(&self) -> &str {
///         "add"
///     }
///
///     fn description(&self) -> &str {
///         "Adds two numbers."
///     }
///
///     fn input_schema(&self) -> Value {
///         json!({
///             "type": "object",
///             "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
///             "required": ["a", "b"],
///         })
///     }
///
///     fn call(&mut self, input: &Value, _cancel: &Cancel) -> Result<String, ToolError> {
///         match (input["a"].as_f64(), input["b"].as_f64()) {
///             (Some(a), Some(b)) => Ok((a + b).to_string()),
///             _ => Err(ToolError::failed("a and b must be numbers")),
///         }
///     }
/// }
/// ```
pub trait Tool: Send {
    /// Returns the tool's name, which is unique in a toolbox.
    fn name(&self) -> &str;

    /// Returns a description of the tool's purpose, for the model.
    fn description(&self) -> &str;

    /// Returns the JSON schema of the input, which is an object. Inputs are not validated.
    fn input_schema(&self) -> Value;

    /// Runs the tool. A long call must end early when `cancel` is cancelled.
    ///
    /// # Errors
    /// [`ToolError::failed`] is sent to the model, which may try something else; [`ToolError::fatal`]
    /// ends the iteration.
    fn call(&mut self, input: &Value, cancel: &Cancel) -> Result<String, ToolError>;
}

/// The error of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    message: String,
    is_fatal: bool,
}

impl ToolError {
    /// Creates an error that is sent to the model.
    pub fn failed(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            is_fatal: false,
        }
    }

    /// Creates an error that ends the iteration.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            is_fatal: true,
        }
    }

    /// Returns true if the error ends the iteration.
    pub fn is_fatal(&self) -> bool {
        self.is_fatal
    }
}

impl From<Error> for ToolError {
    fn from(error: Error) -> Self {
        // The debug format includes the causes.
        Self::failed(format!("{error:?}"))
    }
}

impl From<std::io::Error> for ToolError {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error.to_string())
    }
}

/// The outcome of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolOutcome {
    /// The text that is sent to the model.
    pub content: String,
    /// True if the text is an error.
    pub is_error: bool,
    /// True if the error ends the iteration.
    pub is_fatal: bool,
}

impl ToolOutcome {
    fn error(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            is_error: true,
            is_fatal: false,
        }
    }
}

/// The tools of a conversation.
#[derive(Default)]
pub struct Toolbox {
    tools: Vec<Box<dyn Tool>>,
    result_bytes_max: Option<usize>,
}

impl Toolbox {
    /// Creates an empty toolbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool, which replaces an earlier tool of the same name.
    pub fn with(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.retain(|other| other.name() != tool.name());
        self.tools.push(Box::new(tool));
        self
    }

    /// Sets the maximum size of a result; defaults to 256 KiB. A larger result becomes an error that
    /// shows its beginning.
    pub fn result_bytes_max(mut self, bytes: usize) -> Self {
        self.result_bytes_max = Some(bytes);
        self
    }

    /// Returns true if there are no tools.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns the descriptions of the tools for a model.
    pub fn specs(&self) -> Vec<ToolSpec> {
        let specs = self.tools.iter().map(|tool| ToolSpec {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            input_schema: tool.input_schema(),
        });
        specs.collect()
    }

    /// Runs a call. Every failure is also an outcome: an unknown tool, an input that is not JSON, a
    /// tool that fails or panics, or a result that is too large.
    pub fn call(&mut self, call: &ToolCall, cancel: &Cancel) -> ToolOutcome {
        let Some(tool) = self.tools.iter_mut().find(|tool| tool.name() == call.name) else {
            let names: Vec<&str> = self.tools.iter().map(|tool| tool.name()).collect();
            let known = if names.is_empty() {
                "there are none".to_owned()
            } else {
                format!("there are {}", names.join(", "))
            };
            return ToolOutcome::error(format!("there is no tool {:?}; {known}", call.name));
        };
        let input = match &call.input {
            Ok(input) => input,
            Err(broken) => return ToolOutcome::error(broken.to_string()),
        };
        let bytes_max = self.result_bytes_max.unwrap_or(RESULT_BYTES_MAX);
        let mut outcome = match catch_panic("tool", || tool.call(input, cancel)) {
            Ok(Ok(content)) => ToolOutcome {
                content,
                is_error: false,
                is_fatal: false,
            },
            Ok(Err(error)) => ToolOutcome {
                is_fatal: error.is_fatal,
                ..ToolOutcome::error(error.message)
            },
            Err(panicked) => {
                let message = format!("the tool panicked: {}", panicked.message);
                return ToolOutcome::error(message);
            }
        };
        let bytes = outcome.content.len();
        if bytes > bytes_max {
            outcome.is_error = true;
            outcome.content = format!(
                "the result has {bytes} bytes, and at most {bytes_max} are accepted: request a part of \
                 it. It begins:\n{}",
                // The number of bytes of a too large result that the error shows.
                first_bytes(&outcome.content, (4 * 1024).min(bytes_max))
            );
        }
        outcome
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.tools.iter().map(|tool| tool.name());
        f.debug_list().entries(names).finish()
    }
}

// A handle of the running command, so that another thread can kill it at once.

/// A handle of the running command. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningCommand(Arc<Mutex<Option<CommandControl>>>);

impl RunningCommand {
    /// Returns the control of a new command, which replaces the previous one.
    pub fn begin(&self) -> CommandControl {
        let control = CommandControl::new();
        *lock(&self.0) = Some(control.clone());
        control
    }

    /// Kills the command, if one is running.
    #[cfg(feature = "cli")]
    pub fn kill(&self) {
        if let Some(control) = &*lock(&self.0) {
            control.kill();
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::agent_loop::model::BrokenInput;
    use serde_json::json;

    /// Succeeds, fails or panics, as its input requests.
    struct Scripted;

    impl Tool for Scripted {
        fn name(&self) -> &str {
            "obey"
        }

        fn description(&self) -> &str {
            "Follows its input."
        }

        fn input_schema(&self) -> Value {
            json!({"type": "object"})
        }

        fn call(&mut self, input: &Value, _: &Cancel) -> Result<String, ToolError> {
            let text = input["text"].as_str().unwrap_or_default();
            match input["do"].as_str() {
                Some("fail") => Err(ToolError::failed(text)),
                Some("stop") => Err(ToolError::fatal(text)),
                Some("panic") => panic!("{text}"),
                _ => Ok(text.to_owned()),
            }
        }
    }

    fn outcome_of(name: &str, input: Result<Value, BrokenInput>) -> ToolOutcome {
        let mut toolbox = Toolbox::new().with(Scripted).result_bytes_max(12);
        let call = ToolCall {
            id: "1".into(),
            name: name.into(),
            input,
        };
        toolbox.call(&call, &Cancel::new())
    }

    #[test]
    fn every_failure_is_an_outcome() {
        let broken = BrokenInput {
            text: "{".into(),
            why: "it ends".into(),
        };
        for (name, input, expected, is_error, is_fatal) in [
            ("obey", Ok(json!({"text": "yes"})), "yes", false, false),
            (
                "obey",
                Ok(json!({"do": "fail", "text": "no"})),
                "no",
                true,
                false,
            ),
            (
                "obey",
                Ok(json!({"do": "stop", "text": "gone"})),
                "gone",
                true,
                true,
            ),
            (
                "obey",
                Ok(json!({"do": "panic", "text": "ouch"})),
                "panicked: ouch",
                true,
                false,
            ),
            (
                "obey",
                Ok(json!({"text": "ééééééé"})),
                "14 bytes",
                true,
                false,
            ),
            (
                "obey",
                Err(broken),
                "not a JSON object: it ends",
                true,
                false,
            ),
            ("other", Ok(json!({})), "there are obey", true, false),
        ] {
            let outcome = outcome_of(name, input);
            assert!(outcome.content.contains(expected), "{outcome:?}");
            assert_eq!(
                (outcome.is_error, outcome.is_fatal),
                (is_error, is_fatal),
                "{outcome:?}"
            );
        }
        let none = Toolbox::new().call(
            &ToolCall {
                id: String::new(),
                name: "x".into(),
                input: Ok(json!({})),
            },
            &Cancel::new(),
        );
        assert!(none.content.contains("there are none"), "{none:?}");
    }
}
