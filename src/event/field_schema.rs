//! The JSON Schema of the values of event fields (pure).

use serde_json::{Value, json};

use super::end_evidence::EndEvidence;
use super::ids::{ExecutionId, PaneId};
use super::open_enum::{EnumOrUnknown, NamedValue};
use super::styles::Styles;
use super::values::{Cursor, IterationOutcome, ScreenRow};

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
