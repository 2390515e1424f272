//! Messages of WebSocket clients, which change their subscription (pure).

use std::collections::BTreeSet;

use serde::Deserialize;

use super::events::{start_point, time_of};
use crate::feed::{Selection, StartPoint};
use crate::timestamp::Timestamp;

/// The most names of executions in a subscription.
const NAMES_MAX: usize = 1000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ClientMessage {
    Subscribe(Subscribe),
    Unsubscribe(Unsubscribe),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Subscribe {
    executions: Vec<String>,
    types: Vec<String>,
    since: Option<String>,
    cursor: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Unsubscribe {
    executions: Vec<String>,
    types: Vec<String>,
}

/// Applies a message to a selection. Returns the new selection, and the start point if the message contains
/// one. The error describes how to correct the message.
pub(super) fn apply(
    text: &str,
    selection: &Selection,
    now: Timestamp,
) -> Result<(Selection, Option<StartPoint>), String> {
    let message: ClientMessage =
        serde_json::from_str(text).map_err(|error| format!("the message is refused: {error}"))?;
    let mut selection = selection.clone();
    match message {
        ClientMessage::Subscribe(more) => {
            let since = more.since.map(|text| time_of(&text, now)).transpose()?;
            let from = start_point("cursor", more.cursor.as_deref(), since)?;
            if more.executions.is_empty() && more.types.is_empty() && from.is_none() {
                return Err(
                    "subscribe names nothing: give executions, types, since or cursor".into(),
                );
            }
            selection.executions.extend(more.executions);
            selection.types.extend(more.types);
            if selection.executions.len() > NAMES_MAX {
                return Err(format!(
                    "executions: at most {NAMES_MAX} names are possible"
                ));
            }
            Ok((selection, from))
        }
        ClientMessage::Unsubscribe(less) => {
            if less.executions.is_empty() && less.types.is_empty() {
                return Err("unsubscribe names nothing: give executions or types".into());
            }
            remove("executions", &mut selection.executions, less.executions)?;
            remove("types", &mut selection.types, less.types)?;
            Ok((selection, None))
        }
    }
}

/// Removes names from a list. The last name cannot be removed, because an empty list would select everything.
fn remove(list: &str, names: &mut BTreeSet<String>, removed: Vec<String>) -> Result<(), String> {
    for name in &removed {
        if !names.remove(name) {
            return Err(format!("{list}: {name:?} is not subscribed to"));
        }
    }
    if names.is_empty() && !removed.is_empty() {
        Err(format!(
            "{list}: at least one must remain; subscribe to others first, or close the connection"
        ))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str, selection: &Selection) -> Result<(Selection, Option<StartPoint>), String> {
        apply(text, selection, Timestamp::from_micros(60_000_000))
    }

    #[test]
    fn names_are_added_and_removed() {
        let (all, none) = (Selection::default(), None);
        let (one, from) = at(r#"{"subscribe":{"executions":["a"]}}"#, &all).unwrap();
        assert_eq!(from, none);
        let more = r#"{"subscribe":{"executions":["b"],"types":["Error"],"since":"1m"}}"#;
        let (two, from) = at(more, &one).unwrap();
        assert_eq!(from, Some(StartPoint::Since(Timestamp::from_micros(0))));
        let names = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(
            (names(&two.executions), names(&two.types)),
            ("a b".into(), "Error".into())
        );
        let (left, _) = at(r#"{"unsubscribe":{"executions":["a"]}}"#, &two).unwrap();
        assert_eq!(names(&left.executions), "b");
        let last = at(r#"{"unsubscribe":{"executions":["b"]}}"#, &left);
        assert!(last.unwrap_err().contains("at least one must remain"));
    }

    #[test]
    fn what_is_refused_is_explained() {
        for (text, why) in [
            ("", "EOF"),
            ("{}", "expected"),
            (r#"{"publish":{}}"#, "publish"),
            (r#"{"subscribe":{}}"#, "names nothing"),
            (r#"{"subscribe":{"colour":1}}"#, "colour"),
            (r#"{"subscribe":{"cursor":"x"}}"#, "no cursor"),
            (r#"{"subscribe":{"since":"never"}}"#, "never"),
            (r#"{"subscribe":{"types":["Error"]},"x":1}"#, "refused"),
            (r#"{"unsubscribe":{}}"#, "names nothing"),
            (r#"{"unsubscribe":{"since":"1m"}}"#, "since"),
            (r#"{"unsubscribe":{"executions":["a"]}}"#, "not subscribed"),
        ] {
            let refused = at(text, &Selection::default()).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn the_number_of_names_is_bounded(names in prop::collection::vec("[a-z]{1,3}", 0..1500)) {
            let mut selection = Selection::default();
            for names in names.chunks(200) {
                let text = serde_json::json!({"subscribe": {"executions": names}}).to_string();
                if let Ok((more, _)) = at(&text, &selection) {
                    selection = more;
                }
            }
            prop_assert!(selection.executions.len() <= NAMES_MAX);
        }
    }
}
