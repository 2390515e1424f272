//! Visits every text in an event, to search or to change it.
//!
//! Generated from the table of events, so that no new event or field is omitted.

use serde_json::Value;

use super::table::event_table;
use super::td_event::TdEvent;
use super::unknown::{DEPTH_MAX, UnknownEvent};
use super::values::{EventField, TextSearch, TextVisitor};

impl UnknownEvent {
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        for value in self.text_fields_mut() {
            for_each_json_text(value, visit);
        }
    }

    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        let mut values = self.text_fields();
        values.any(|value| any_json_text(value, search, DEPTH_MAX))
    }
}

/// Visits every text in a JSON value.
pub(crate) fn for_each_json_text(value: &mut Value, visit: &mut TextVisitor<'_>) {
    for_each_text_to(value, visit, DEPTH_MAX);
}

fn for_each_text_to(value: &mut Value, visit: &mut TextVisitor<'_>, depth: usize) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(values) if depth > 0 => {
            for value in values {
                for_each_text_to(value, visit, depth - 1);
            }
        }
        Value::Object(fields) if depth > 0 => {
            for (_, value) in fields {
                for_each_text_to(value, visit, depth - 1);
            }
        }
        // Nested more deeply than any reader accepts; dropped, because it cannot be redacted.
        Value::Array(_) | Value::Object(_) => *value = Value::Null,
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn any_json_text(value: &Value, search: &mut TextSearch<'_>, depth: usize) -> bool {
    match value {
        Value::String(text) => search(text),
        Value::Array(values) if depth > 0 => {
            let mut values = values.iter();
            values.any(|value| any_json_text(value, search, depth - 1))
        }
        Value::Object(fields) if depth > 0 => {
            let mut values = fields.values();
            values.any(|value| any_json_text(value, search, depth - 1))
        }
        _ => false,
    }
}

macro_rules! visit_texts {
    ($(
        $(#[$doc:meta])*
        $variant:ident $method:ident $class:ident {
            $(
                $(#[$field_doc:meta])*
                $field:ident $(| $alias:literal)? : $type:ident $(<$name:ident $(<$inner:ident>)?>)? $(,)? $(;)?
            )*
        }
    )*) => {
        impl TdEvent {
            /// Visits every text of the event except ids; the visitor may change it.
            pub(crate) fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
                match self {
                    $( Self::$variant { $($field,)* .. } => {
                        $( $field.for_each_text(visit); )*
                    } )*
                    Self::Unknown(event) => event.for_each_text(visit),
                }
            }

            /// Returns true if the search matches a text of the event; ids are excluded.
            pub(crate) fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
                match self {
                    $( Self::$variant { $($field,)* .. } => {
                        false $(|| $field.any_text(search))*
                    } )*
                    Self::Unknown(event) => event.any_text(search),
                }
            }
        }
    };
}

event_table!(visit_texts);
