//! The JSON Schema of the board, of its rows and of envelopes (pure).

use serde_json::{Map, Value, json};

use super::state::{Attention, ExecutionKind, RowState};
use crate::event::{
    AgentState, Background, Dialogue, EnumOrUnknown, FieldSchema, ReportedChild, StateEvidence,
    StateSource, envelope_schema,
};

/// A field of a row: its name, documentation and schema.
type RowField = (&'static str, &'static str, fn() -> Value);

/// The fields of a row in JSON, which are all required.
const FIELDS: &[RowField] = &[
    (
        "id",
        "The id of the row, for the API's paths.",
        String::schema,
    ),
    (
        "execution_id",
        "The execution; that of another host begins with the host's name and a slash.",
        String::schema,
    ),
    (
        "host",
        "The host on which it runs, as the user names it; null on this one.",
        || or_null(String::schema()),
    ),
    (
        "name",
        "The name for people: of the session, the command, the loop's task, the agent or the kernel.",
        String::schema,
    ),
    (
        "label",
        "What tells the row apart from others of its name: of a pane in a session with several, the name that the \
         user gave its window, the title that its agent set, or its directory and branch; of a background agent, its project \
         and first prompt; null if there is none.",
        || or_null(String::schema()),
    ),
    (
        "pane",
        "The pane, for a pane.",
        || or_null(String::schema()),
    ),
    (
        "server",
        "The socket of the tmux server, for a pane whose server is known.",
        || or_null(String::schema()),
    ),
    (
        "in_pane",
        "The pane in whose foreground a command or a loop runs: lists leave out the row of that pane, unless it shows an \
         agent, needs the user or has finished, and in the first two cases this row; null if there is none.",
        || {
            or_null(json!({
                "type": "object",
                "required": ["server", "pane"],
                "properties": {"server": String::schema(), "pane": String::schema()},
            }))
        },
    ),
    ("kind", "The kind of execution.", || {
        names(ExecutionKind::ALL.map(ExecutionKind::as_str))
    }),
    (
        "agent",
        "The program in it: `claude`, `codex`, …, `shell`, another program's name; null if unknown.",
        || or_null(String::schema()),
    ),
    (
        "file",
        "The file of the conversation of the agent in a pane, or the file that a background agent writes: lists leave out \
         the row of a background agent whose file is that of a pane; null if it is unknown.",
        || or_null(String::schema()),
    ),
    (
        "state",
        "The state of an agent, else `running`, `quiet` (no output for five minutes), `exited`, `failed` (it, or a \
         shell's last job) or `not_observed`; of a host, `connecting` or `unreachable`.",
        state,
    ),
    (
        "since",
        "The time since which it has been in this state.",
        time,
    ),
    (
        "seen",
        "The time at which it was last looked at in this state; null if it was not.",
        || or_null(time()),
    ),
    ("evidence", "The certainty of an agent's state.", || {
        or_null(EnumOrUnknown::<StateEvidence>::schema())
    }),
    ("source", "What showed an agent's state.", || {
        or_null(EnumOrUnknown::<StateSource>::schema())
    }),
    ("asks", "The agent's question, while it waits.", || {
        or_null(String::schema())
    }),
    (
        "question_id",
        "The id of the question, which is new with each question; null unless the agent waits.",
        || or_null(String::schema()),
    ),
    (
        "dialogue",
        "The question in full, with its choices; null unless the agent waits and its dialogue was read.",
        || or_null(Box::<Dialogue>::schema()),
    ),
    (
        "background",
        "The shells and sub-agents that an agent has left running in the background, as numbers; null if there are none.",
        || or_null(Background::schema()),
    ),
    (
        "progress",
        "The progress in percent that the program in a pane reports; null if it reports none.",
        || or_null(u32::schema()),
    ),
    (
        "children",
        "The children that the program in a pane reports, such as jobs or sub-agents, with their states; null if it \
         reports none.",
        || or_null(Vec::<ReportedChild>::schema()),
    ),
    ("ended", "True if the execution has ended.", bool::schema),
    (
        "exit_status",
        "The exit status: a number, 128 + n for a signal; null while it runs or where it is unknown.",
        || or_null(i32::schema()),
    ),
    (
        "last_line",
        "What matters now: the words of an error or limit, the present tool or sentence of an agent, the conclusion \
         of its turn, else the last line that is not decoration.",
        String::schema,
    ),
    ("last_output", "The time of the last output.", || {
        or_null(time())
    }),
    (
        "turns",
        "The number of turns that an agent has finished.",
        u64::schema,
    ),
    ("gaps", "The number of confirmed gaps.", u64::schema),
    ("errors", "The number of errors.", u64::schema),
    (
        "phases",
        "The phases that a loop has not completed, the current one first; null if they are unknown.",
        || or_null(Vec::<String>::schema()),
    ),
    (
        "dismissed",
        "True if the user has dismissed the row since its last change.",
        bool::schema,
    ),
    (
        "began",
        "The time at which the pane or the execution began; null if it is unknown.",
        || or_null(time()),
    ),
    (
        "is_new",
        "True for a pane that began while its server was observed.",
        bool::schema,
    ),
    (
        "job_ended",
        "The time at which the last job of the pane's shell ended, or its own program failed. A command or a loop that \
         failed in its foreground up to then is told by the pane's row: lists leave its own out. Null if there was none.",
        || or_null(time()),
    ),
    (
        "cut_off",
        "True if it has ended because the writer of its run died, as `runs` shows by `cut off`.",
        bool::schema,
    ),
    (
        "server_gone",
        "True if the pane ended because its tmux server did. Faces show such rows as one.",
        bool::schema,
    ),
    (
        "attention",
        "The urgency with which the row asks for the user.",
        || names(Attention::ALL.map(Attention::as_str)),
    ),
];

/// Returns the JSON Schema (draft 2020-12) of the program's output for other programs: envelopes, as in logs
/// and streams, with a definition in `$defs` for each event type; and `BoardRow` and `Board`, as in `status
/// --json` and the API.
///
/// Later versions may add events, fields and values. The schema therefore accepts unknown fields, types and
/// names.
///
/// ```
/// let schema = td_observe::board::json_schema();
/// assert_eq!(schema["$ref"], "#/$defs/Envelope");
/// assert!(schema["$defs"]["OutputUpdate"]["properties"]["chunk"].is_object());
/// assert!(schema["$defs"]["BoardRow"]["properties"]["attention"].is_object());
/// ```
pub fn json_schema() -> Value {
    let mut schema = envelope_schema();
    schema["$defs"]["BoardRow"] = row();
    schema["$defs"]["Board"] = json!({
        "type": "array",
        "description": "The board: the rows that need the user first.",
        "items": {"$ref": "#/$defs/BoardRow"},
    });
    schema
}

fn row() -> Value {
    let names: Vec<&str> = FIELDS.iter().map(|(name, ..)| *name).collect();
    let mut properties = Map::new();
    for (name, documentation, schema) in FIELDS {
        let mut schema = schema();
        schema["description"] = json!(documentation);
        properties.insert((*name).to_owned(), schema);
    }
    json!({
        "type": "object",
        "description": "A row of the board: a pane, a command, a loop, a background agent, a kernel or a host whose observer cannot be read.",
        "required": names,
        "properties": properties,
    })
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

/// Returns a schema that also accepts null.
fn or_null(schema: Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

/// Returns the schema of a string with known names, which also accepts names of later versions.
fn names(names: impl IntoIterator<Item = &'static str>) -> Value {
    let names = names.into_iter().map(|name| json!({"const": name}));
    let later = json!({"type": "string", "description": "A value of a later version."});
    json!({"anyOf": names.chain([later]).collect::<Vec<_>>()})
}

fn state() -> Value {
    let own = [
        RowState::Running,
        RowState::Quiet,
        RowState::Exited,
        RowState::Failed,
        RowState::NotObserved,
    ];
    let own = own.iter().map(|state| json!({"const": state.as_str()}));
    let mut schema = EnumOrUnknown::<AgentState>::schema();
    if let Some(all) = schema["anyOf"].as_array_mut() {
        // The last alternative accepts the names of later versions.
        all.splice(0..0, own);
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::super::row::{Row, RowKey};
    use super::*;
    use crate::timestamp::Timestamp;

    #[test]
    fn the_table_has_the_fields_of_a_row_in_their_order() {
        let key = RowKey {
            execution_id: "x".into(),
            part: None,
        };
        let row = Row::new(
            &key,
            "x".to_owned(),
            ExecutionKind::Loop,
            Timestamp::from_micros(0),
        );
        let written = serde_json::to_string(&row).unwrap();
        let places: Vec<_> = FIELDS
            .iter()
            .map(|(name, ..)| written.find(&format!("\"{name}\":")))
            .collect();
        assert!(
            places.is_sorted() && places[0].is_some(),
            "{written}: {places:?}"
        );
        let value: Value = serde_json::from_str(&written).unwrap();
        assert_eq!(value.as_object().unwrap().len(), FIELDS.len());
    }
}
