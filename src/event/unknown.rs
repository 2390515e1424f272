//! Events of types that this version does not know: kept, delivered, and written back unchanged.

use serde_json::{Map, Value};

use super::ids::ExecutionId;

/// Levels of nesting that are examined in a field; `serde_json` reads no deeper.
pub(super) const DEPTH_MAX: usize = 128;

/// Levels of nesting allowed in a field of a custom event, so that readers accept the line with the envelope
/// and the event around the field.
const CUSTOM_DEPTH_MAX: usize = 120;

/// An event of a type that this version does not know, or of an embedder's own type.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownEvent {
    type_name: String,
    fields: Map<String, Value>,
}

impl UnknownEvent {
    pub(super) fn new(type_name: &str, fields: Map<String, Value>) -> Self {
        Self {
            type_name: type_name.to_owned(),
            fields,
        }
    }

    /// Returns the event's type tag.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Returns all fields except the type.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// Returns the fields that may hold text, without the ids.
    pub(super) fn text_fields_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        let fields = self.fields.iter_mut();
        fields.filter_map(|(name, value)| (!is_id(name)).then_some(value))
    }

    /// Returns the fields that may hold text, without the ids.
    pub(super) fn text_fields(&self) -> impl Iterator<Item = &Value> {
        let fields = self.fields.iter();
        fields.filter_map(|(name, value)| (!is_id(name)).then_some(value))
    }

    /// Returns the execution that the event belongs to; empty if the event names none.
    pub(super) fn execution_id(&self) -> &str {
        self.fields
            .get("execution_id")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub(super) fn set_execution_id(&mut self, id: &ExecutionId) {
        self.fields
            .insert("execution_id".to_owned(), id.as_str().into());
    }

    /// Returns true if the fields are nested more deeply than readers accept.
    pub(super) fn is_too_deep(&self) -> bool {
        self.fields
            .values()
            .any(|value| heap_bytes(value, CUSTOM_DEPTH_MAX).is_none())
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let fields = self.fields.iter();
        let bytes = fields.map(|(name, value)| {
            FIELD_BYTES + name.len() + heap_bytes(value, DEPTH_MAX).unwrap_or_default()
        });
        self.type_name.len() + bytes.sum::<usize>()
    }
}

fn is_id(name: &str) -> bool {
    name == "execution_id" || name == "pane"
}

/// Memory of an object's field in addition to its texts: its share of a node of the map.
const FIELD_BYTES: usize = 96;

/// Returns the memory that a value holds; `None` if it is nested more deeply than `depth` levels.
fn heap_bytes(value: &Value, depth: usize) -> Option<usize> {
    match value {
        Value::String(text) => Some(text.len()),
        Value::Array(values) => {
            let depth = depth.checked_sub(1)?;
            let mut values = values.iter();
            values.try_fold(0, |sum, value| {
                Some(sum + size_of::<Value>() + heap_bytes(value, depth)?)
            })
        }
        Value::Object(fields) => {
            let depth = depth.checked_sub(1)?;
            let mut fields = fields.iter();
            fields.try_fold(0, |sum, (name, value)| {
                Some(sum + FIELD_BYTES + name.len() + heap_bytes(value, depth)?)
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(0),
    }
}
