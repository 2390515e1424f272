//! The JSON Schema (2020-12) of envelopes, generated from the tables of events (pure).

use serde_json::{Map, Value, json};

use super::SCHEMA;
use super::ids::{EndEvidence, ExecutionId, PaneId};
use super::links::Links;
use super::names::{
    AgentState, CompletionReason, EnumOrUnknown, GapEvidence, GapReason, NamedValue, OutputStream,
    PaneCloseReason, PaneViewer, SessionEndReason, StateEvidence, StateSource, TurnEvidence,
    Verification,
};
use super::styles::Styles;
use super::table::event_table;
use super::values::{
    Background, Cursor, Dialogue, EventField, IterationOutcome, ReportedChild, ScreenRow,
};
use crate::timestamp::Timestamp;

/// The documentation of an event and of its fields.
struct EventDoc {
    name: &'static str,
    lines: &'static [&'static str],
    /// True for an event that belongs to an execution.
    has_execution: bool,
    fields: Vec<FieldDoc>,
}

struct FieldDoc {
    name: &'static str,
    lines: &'static [&'static str],
    schema: Value,
    is_required: bool,
}

macro_rules! document_events {
    ($(
        $(#[doc = $doc:literal])*
        $variant:ident $method:ident $class:ident {
            $(
                $(#[doc = $field_doc:literal])*
                $field:ident $(| $alias:literal)? : $type:ident $(<$name:ident $(<$inner:ident>)?>)? $(,)? $(;)?
            )*
        }
    )*) => {
        fn logged_events() -> Vec<EventDoc> {
            vec![$( EventDoc {
                name: stringify!($variant),
                lines: &[$($doc),*],
                has_execution: true,
                fields: vec![$( FieldDoc {
                    name: stringify!($field),
                    lines: &[$($field_doc),*],
                    schema: <$type $(<$name $(<$inner>)?>)? as FieldSchema>::schema(),
                    is_required: <$type $(<$name $(<$inner>)?>)? as EventField>::absent().is_none(),
                } ),*],
            } ),*]
        }
    };
}

event_table!(document_events);

/// Returns the documentation of the events that appear only in streams. They belong to no execution, have no
/// number, and are never logged.
fn stream_events() -> [EventDoc; 2] {
    let field = |name, line: &'static [&'static str], schema| FieldDoc {
        name,
        lines: line,
        schema,
        is_required: true,
    };
    let event = |name, lines: &'static [&'static str], fields| EventDoc {
        name,
        lines,
        has_execution: false,
        fields,
    };
    [
        event(
            "StreamOpened",
            &["The first line of a stream of envelopes in JSON."],
            vec![
                field(
                    "schema",
                    &["The version of the wire format."],
                    u32::schema(),
                ),
                field(
                    "version",
                    &["The version of the program that writes the stream."],
                    String::schema(),
                ),
            ],
        ),
        event(
            "Lagged",
            &["A reader was too slow and missed events. The log contains them."],
            vec![field(
                "missed",
                &["The number of missed events."],
                u64::schema(),
            )],
        ),
    ]
}

/// Returns the JSON Schema (draft 2020-12) of envelopes in logs and streams. Each definition under `$defs`
/// describes one event type.
pub(crate) fn envelope_schema() -> Value {
    let events: Vec<EventDoc> = logged_events().into_iter().chain(stream_events()).collect();
    let names: Vec<&str> = events.iter().map(|event| event.name).collect();
    let mut defs = Map::new();
    defs.insert("Envelope".to_owned(), envelope());
    let refs = names.iter().copied().chain(["OtherEvent"]);
    let refs = refs.map(|name| json!({"$ref": format!("#/$defs/{name}")}));
    defs.insert(
        "Event".to_owned(),
        json!({"description": "What happened.", "oneOf": refs.collect::<Vec<_>>()}),
    );
    // An event from a later version, or from a program that embeds this one.
    defs.insert(
        "OtherEvent".to_owned(),
        json!({
            "type": "object",
            "description": "An event of a type that this version does not know.",
            "required": ["type"],
            "properties": {"type": {"type": "string", "not": {"enum": names}}},
        }),
    );
    for event in events {
        defs.insert(event.name.to_owned(), event.schema());
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("urn:td-observe:schema:{SCHEMA}"),
        "title": "td-observe",
        "description": format!(
            "The envelopes of td-observe {}, wire format {SCHEMA}: each line of a log and of a stream in JSON. \
             `#/$defs/BoardRow` is a row of the board, `#/$defs/Board` all of them.",
            env!("CARGO_PKG_VERSION"),
        ),
        "$ref": "#/$defs/Envelope",
        "$defs": defs,
    })
}

fn envelope() -> Value {
    json!({
        "type": "object",
        "description": "A numbered and timestamped event.",
        "required": ["ts", "event"],
        "properties": {
            "seq": {
                "type": ["integer", "null"],
                "minimum": 0,
                "description": "The event's number in its run, from 1; 0 for the header of a file; null for \
                                events that are printed live and never logged.",
            },
            "ts": {
                "type": "string",
                "format": "date-time",
                "description": "The time of the event, in UTC.",
            },
            "n": {
                "type": "integer",
                "minimum": 1,
                "description": "The number of events that this one represents, where text was merged.",
            },
            "id": {
                "type": "string",
                "description": "In frames of a WebSocket: the position after the event, from which a client \
                                continues.",
            },
            "event": {"$ref": "#/$defs/Event"},
        },
    })
}

impl EventDoc {
    fn schema(self) -> Value {
        let mut required = vec!["type"];
        let mut properties = Map::new();
        properties.insert("type".to_owned(), json!({"const": self.name}));
        if self.has_execution {
            required.push("execution_id");
            let mut id = ExecutionId::schema();
            id["description"] = json!("The execution that the event belongs to.");
            properties.insert("execution_id".to_owned(), id);
        }
        for field in self.fields {
            if field.is_required {
                required.push(field.name);
            }
            let mut schema = field.schema;
            schema["description"] = json!(description(field.lines));
            properties.insert(field.name.to_owned(), schema);
        }
        json!({
            "type": "object",
            "description": description(self.lines),
            "required": required,
            "properties": properties,
        })
    }
}

// The JSON Schema of the values of event fields (pure).

/// A value that has a JSON Schema.
pub(crate) trait FieldSchema {
    /// Returns the schema.
    fn schema() -> Value;
}

/// Joins the lines of a documentation comment.
pub(super) fn description(lines: &[&str]) -> String {
    let lines = lines.iter().map(|line| line.trim());
    lines.collect::<Vec<_>>().join(" ")
}

macro_rules! integers {
    ($($type:ident),*) => { $(
        impl FieldSchema for $type {
            fn schema() -> Value {
                json!({"type": "integer", "minimum": $type::MIN, "maximum": $type::MAX})
            }
        }
    )* };
}
integers!(i32, u32, i64, u64);

impl FieldSchema for usize {
    fn schema() -> Value {
        u64::schema()
    }
}

macro_rules! texts {
    ($($type:ty),*) => { $(
        impl FieldSchema for $type {
            fn schema() -> Value {
                json!({"type": "string"})
            }
        }
    )* };
}
texts!(String, Box<String>, PaneId, ExecutionId, EndEvidence);

impl FieldSchema for Timestamp {
    fn schema() -> Value {
        json!({"type": "string", "format": "date-time"})
    }
}

impl FieldSchema for bool {
    fn schema() -> Value {
        json!({"type": "boolean"})
    }
}

/// A field that is `None` is omitted, never null.
impl<T: FieldSchema> FieldSchema for Option<T> {
    fn schema() -> Value {
        T::schema()
    }
}

impl<T: FieldSchema> FieldSchema for Vec<T> {
    fn schema() -> Value {
        json!({"type": "array", "items": T::schema()})
    }
}

impl<T: NamedValue> FieldSchema for EnumOrUnknown<T> {
    fn schema() -> Value {
        let names = T::DOCUMENTED.iter();
        let mut values: Vec<Value> = names
            .map(|(name, lines)| json!({"const": name, "description": description(lines)}))
            .collect();
        values.push(json!({"type": "string", "description": "A value of a later version."}));
        json!({"anyOf": values})
    }
}

impl FieldSchema for Styles {
    fn schema() -> Value {
        let style = json!({
            "type": "array",
            "description": "Line, first character, character after the last one, SGR parameters.",
            "prefixItems": [u32::schema(), u32::schema(), u32::schema(), String::schema()],
            "minItems": 4,
            "maxItems": 4,
        });
        json!({"type": "array", "items": style})
    }
}

impl FieldSchema for Links {
    fn schema() -> Value {
        let link = object(&[
            ("line", i64::schema()),
            ("start", u32::schema()),
            ("end", u32::schema()),
            ("url", String::schema()),
        ]);
        json!({"type": "array", "items": link})
    }
}

/// Returns the schema of an object with these fields, all of which are required.
fn object(fields: &[(&str, Value)]) -> Value {
    let properties = fields.iter().cloned();
    let properties = properties.map(|(name, schema)| (name.to_owned(), schema));
    json!({
        "type": "object",
        "required": fields.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        "properties": Value::Object(properties.collect()),
    })
}

impl FieldSchema for Cursor {
    fn schema() -> Value {
        object(&[("x", u32::schema()), ("y", u32::schema())])
    }
}

impl FieldSchema for ScreenRow {
    fn schema() -> Value {
        object(&[("row", u32::schema()), ("text", String::schema())])
    }
}

impl FieldSchema for ReportedChild {
    fn schema() -> Value {
        let state = EnumOrUnknown::<AgentState>::schema();
        let mut child = object(&[("id", String::schema()), ("state", state)]);
        if let Some(Value::Object(properties)) = child.get_mut("properties") {
            for text in ["title", "asks"] {
                properties.insert(text.to_owned(), String::schema());
            }
            properties.insert("progress".to_owned(), u32::schema());
        }
        child
    }
}

impl FieldSchema for Box<Dialogue> {
    fn schema() -> Value {
        let choice = object(&[
            ("key", String::schema()),
            ("label", String::schema()),
            ("selected", bool::schema()),
        ]);
        let choices = json!({"type": "array", "items": choice});
        let mut dialogue = object(&[("text", String::schema()), ("choices", choices)]);
        if let Some(Value::Object(properties)) = dialogue.get_mut("properties") {
            properties.insert("again".to_owned(), bool::schema());
        }
        dialogue
    }
}

impl FieldSchema for Background {
    fn schema() -> Value {
        object(&[("shells", u32::schema()), ("agents", u32::schema())])
    }
}

impl FieldSchema for IterationOutcome {
    fn schema() -> Value {
        let text = String::schema;
        let with = |name: &str, fields: &[(&str, Value)]| object(&[(name, object(fields))]);
        json!({"anyOf": [
            {"const": "ValidationPassed"},
            {"const": "MaxTurnsReached"},
            with("ValidationFailed", &[("exit_code", i32::schema())]),
            with("ToolError", &[("tool", text()), ("error", text())]),
            with("LlmError", &[("error", text())]),
        ]})
    }
}
