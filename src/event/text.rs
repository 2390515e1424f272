//! Visits every text in an event, to search or to change it.
//!
//! Generated from the table of events, so that no new event or field is omitted.

use serde_json::Value;

use super::end_evidence::EndEvidence;
use super::ids::{ExecutionId, PaneId};
use super::open_enum::{EnumOrUnknown, NamedValue};
use super::styles::Styles;
use super::table::event_table;
use super::td_event::TdEvent;
use super::unknown::{DEPTH_MAX, UnknownEvent};
use super::values::{Cursor, IterationOutcome, ScreenRow};

/// A function that may change each text.
pub(crate) type TextVisitor<'a> = dyn FnMut(&mut String) + 'a;

/// A search: it receives texts until it returns true.
pub(crate) type TextSearch<'a> = dyn FnMut(&str) -> bool + 'a;

/// The texts of a field. Ids have none.
trait FieldTexts {
    fn for_each_text(&mut self, _visit: &mut TextVisitor<'_>) {}

    fn any_text(&self, _search: &mut TextSearch<'_>) -> bool {
        false
    }
}

macro_rules! no_texts {
    ($($type:ident),*) => { $( impl FieldTexts for $type {} )* };
}
no_texts!(bool, i32, u32, i64, u64, usize, Cursor, ExecutionId, PaneId);

impl FieldTexts for String {
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        visit(self);
    }

    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        search(self)
    }
}

impl FieldTexts for Box<String> {
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        visit(self);
    }

    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        search(self)
    }
}

impl<T: NamedValue> FieldTexts for EnumOrUnknown<T> {
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        self.visit_unknown(visit);
    }

    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        T::IS_SEARCHED && search(self.as_str())
    }
}

impl FieldTexts for EndEvidence {
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        visit(self.text_mut());
    }

    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        search(self)
    }
}

impl<T: FieldTexts> FieldTexts for Option<T> {
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        if let Some(field) = self {
            field.for_each_text(visit);
        }
    }

    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        self.as_ref().is_some_and(|field| field.any_text(search))
    }
}

impl<T: FieldTexts> FieldTexts for Vec<T> {
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        for field in self {
            field.for_each_text(visit);
        }
    }

    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        self.iter().any(|field| field.any_text(search))
    }
}

impl FieldTexts for ScreenRow {
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        visit(&mut self.text);
    }

    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        search(&self.text)
    }
}

impl FieldTexts for Styles {
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        for sgr in self.sgrs_mut() {
            visit(sgr);
        }
    }

    // A search ignores styles.
}

impl FieldTexts for IterationOutcome {
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        match self {
            Self::ToolError { tool, error } => {
                visit(tool);
                visit(error);
            }
            Self::LlmError { error } => visit(error),
            Self::ValidationPassed | Self::ValidationFailed { .. } | Self::MaxTurnsReached => {}
        }
    }

    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        match self {
            Self::ToolError { tool, error } => search(tool) || search(error),
            Self::LlmError { error } => search(error),
            Self::ValidationPassed | Self::ValidationFailed { .. } | Self::MaxTurnsReached => false,
        }
    }
}

impl FieldTexts for UnknownEvent {
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
