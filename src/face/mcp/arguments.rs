//! The arguments of tools (pure).

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::refusal::Refusal;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ListPanes {
    pub pane: Option<String>,
    pub needs_you: bool,
    pub limit: Option<usize>,
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadOutput {
    pub pane: String,
    pub cursor: Option<String>,
    pub limit: Option<usize>,
    #[serde(default)]
    pub screen: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchHistory {
    pub pattern: String,
    #[serde(default)]
    pub regex: bool,
    pub pane: Option<String>,
    pub since: Option<String>,
    pub limit: Option<usize>,
    pub cursor: Option<String>,
}

/// One or several texts: models give either.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub(super) enum Texts {
    One(String),
    Several(Vec<String>),
}

impl Texts {
    pub fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Several(texts) => texts,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WaitFor {
    pub pane: Option<Texts>,
    pub panes: Option<Texts>,
    pub text: Option<Texts>,
    pub regex: Option<Texts>,
    pub stop: Option<Texts>,
    pub state: Option<Texts>,
    pub turn: bool,
    pub exit: bool,
    pub idle_ms: Option<u64>,
    pub channel: Option<String>,
    pub timeout_ms: Option<u64>,
    pub include_existing: bool,
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SendInput {
    pub pane: String,
    pub text: Option<String>,
    pub keys: Option<Vec<String>>,
    pub enter: Option<bool>,
    pub answers: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SendAndWait {
    pub pane: String,
    pub text: String,
    pub enter: Option<bool>,
    pub answers: Option<String>,
    pub contains: Option<Texts>,
    pub regex: Option<Texts>,
    pub state: Option<Texts>,
    #[serde(default)]
    pub turn: bool,
    pub idle_ms: Option<u64>,
    pub timeout_ms: Option<u64>,
}

/// Reads the arguments of a tool.
pub(super) fn read<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, Refusal> {
    parse(&arguments).map_err(|why| {
        // The parser does not name an argument whose value is wrong: without that one, its words are others.
        let is_wrong = |name: &&String| {
            let mut others = arguments.clone();
            others.remove(*name);
            parse::<T>(&others).err().as_ref() != Some(&why)
        };
        let reason = match arguments.keys().find(is_wrong) {
            Some(name) => format!("{name}: {why}"),
            None => why,
        };
        Refusal::of_arguments(reason, "see the tool's input schema, and call it again")
    })
}

fn parse<T: DeserializeOwned>(arguments: &Map<String, Value>) -> Result<T, String> {
    T::deserialize(arguments).map_err(|error| error.to_string())
}
