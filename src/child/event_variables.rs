//! The variables that tell a command of the user about the event for which it runs (pure).

use std::ffi::OsString;

use serde_json::Value;

/// The variables, and the fields of an event's JSON that they contain.
const VARIABLES: [(&str, &str); 14] = [
    ("TD_EVENT", "type"),
    ("TD_EXECUTION_ID", "execution_id"),
    ("TD_PANE", "pane"),
    ("TD_SESSION", "session"),
    ("TD_TITLE", "title"),
    ("TD_MARKER", "marker"),
    ("TD_SUMMARY", "summary"),
    ("TD_STATE", "state"),
    ("TD_AGENT", "agent"),
    ("TD_ASKS", "asks"),
    ("TD_SOURCE", "source"),
    ("TD_EVIDENCE", "evidence"),
    ("TD_REASON", "reason"),
    ("TD_EXIT_STATUS", "exit_status"),
];

/// Returns all variables. A missing value becomes an empty variable, so that the command does not inherit another
/// value.
pub(crate) fn event_variables(event: &Value) -> Vec<(OsString, OsString)> {
    let variables = VARIABLES.map(|(name, field)| variable(name, &event[field]));
    variables.into()
}

/// Returns a variable with the text of a value.
pub(crate) fn variable(name: &str, value: &Value) -> (OsString, OsString) {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    // A variable cannot contain a NUL.
    (name.into(), text.replace('\0', "").into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_variable_is_set() {
        let event = json!({"type": "AgentState", "asks": "a\0b", "exit_status": 7, "pane": null});
        let variables = event_variables(&event);
        let value = |name: &str| {
            let found = variables.iter().find(|(variable, _)| variable == name);
            found.unwrap().1.to_str().unwrap()
        };
        assert_eq!(value("TD_EVENT"), "AgentState");
        assert_eq!(value("TD_ASKS"), "ab");
        assert_eq!(value("TD_EXIT_STATUS"), "7");
        assert_eq!(value("TD_PANE"), "");
        assert_eq!(value("TD_TITLE"), "");
    }
}
