//! Every text in an event, for who looks for something in them, or must change all of them (pure).
//!
//! Made from the table of events: a new event, or a field of a new type, cannot be forgotten.

use serde_json::Value;

use super::{
    Cursor, ExecutionId, ExitStatus, GapEvidence, IterationOutcome, LineCount, MaybeLong,
    MaybePane, MaybePid, MaybeText, PaneId, PaneIds, ScreenRow, ScreenRows, Styles, TdEvent,
    UnknownEvent, event_table,
};

/// Who is shown each text, and may change it.
pub(crate) type Visit<'a> = dyn FnMut(&mut String) + 'a;

/// Who is shown texts until one is what is looked for.
pub(crate) type Holds<'a> = dyn FnMut(&str) -> bool + 'a;

/// How deep a value of an unknown event is looked into; `serde_json` reads no deeper.
const DEPTH_MAX: usize = 128;

/// Texts in a field. Ids have none: they say what an event belongs to.
trait Texts {
    fn texts(&mut self, _visit: &mut Visit<'_>) {}

    fn any(&self, _holds: &mut Holds<'_>) -> bool {
        false
    }
}

macro_rules! no_texts {
    ($($type:ident),*) => { $( impl Texts for $type {} )* };
}
no_texts!(
    bool,
    i32,
    u32,
    i64,
    u64,
    usize,
    Cursor,
    GapEvidence,
    ExecutionId,
    PaneId,
    PaneIds,
    MaybePane,
    ExitStatus,
    LineCount,
    MaybePid
);

impl Texts for String {
    fn texts(&mut self, visit: &mut Visit<'_>) {
        visit(self);
    }

    fn any(&self, holds: &mut Holds<'_>) -> bool {
        holds(self)
    }
}

impl Texts for MaybeText {
    fn texts(&mut self, visit: &mut Visit<'_>) {
        if let Some(text) = self {
            visit(text);
        }
    }

    fn any(&self, holds: &mut Holds<'_>) -> bool {
        self.as_deref().is_some_and(holds)
    }
}

impl Texts for MaybeLong {
    fn texts(&mut self, visit: &mut Visit<'_>) {
        if let Some(text) = self {
            visit(text);
        }
    }

    fn any(&self, holds: &mut Holds<'_>) -> bool {
        self.as_ref().is_some_and(|text| holds(text))
    }
}

impl Texts for ScreenRow {
    fn texts(&mut self, visit: &mut Visit<'_>) {
        visit(&mut self.text);
    }

    fn any(&self, holds: &mut Holds<'_>) -> bool {
        holds(&self.text)
    }
}

impl Texts for ScreenRows {
    fn texts(&mut self, visit: &mut Visit<'_>) {
        for row in self {
            row.texts(visit);
        }
    }

    fn any(&self, holds: &mut Holds<'_>) -> bool {
        self.iter().any(|row| row.any(holds))
    }
}

impl Texts for Styles {
    fn texts(&mut self, visit: &mut Visit<'_>) {
        for sgr in self.sgrs_mut() {
            visit(sgr);
        }
    }

    // Colours are no text to search.
    fn any(&self, _holds: &mut Holds<'_>) -> bool {
        false
    }
}

impl Texts for IterationOutcome {
    fn texts(&mut self, visit: &mut Visit<'_>) {
        match self {
            Self::ToolError { tool, error } => {
                visit(tool);
                visit(error);
            }
            Self::LlmError { error } => visit(error),
            Self::ValidationPassed | Self::ValidationFailed { .. } | Self::MaxTurnsReached => {}
        }
    }

    fn any(&self, holds: &mut Holds<'_>) -> bool {
        match self {
            Self::ToolError { tool, error } => holds(tool) || holds(error),
            Self::LlmError { error } => holds(error),
            Self::ValidationPassed | Self::ValidationFailed { .. } | Self::MaxTurnsReached => false,
        }
    }
}

impl Texts for UnknownEvent {
    fn texts(&mut self, visit: &mut Visit<'_>) {
        for (name, value) in &mut self.fields {
            if name != "execution_id" && name != "pane" {
                each_text_in(value, visit);
            }
        }
    }

    fn any(&self, holds: &mut Holds<'_>) -> bool {
        let mut fields = self.fields.iter();
        fields.any(|(name, value)| {
            name != "execution_id" && name != "pane" && value_any(value, holds, DEPTH_MAX)
        })
    }
}

/// Shows every text in a value of unknown shape, which may be changed.
pub(crate) fn each_text_in(value: &mut Value, visit: &mut Visit<'_>) {
    value_texts(value, visit, DEPTH_MAX);
}

fn value_texts(value: &mut Value, visit: &mut Visit<'_>, depth: usize) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(values) if depth > 0 => {
            for value in values {
                value_texts(value, visit, depth - 1);
            }
        }
        Value::Object(fields) if depth > 0 => {
            for (_, value) in fields {
                value_texts(value, visit, depth - 1);
            }
        }
        // Deeper than anything that was read from a line: nobody can say what is in it.
        Value::Array(_) | Value::Object(_) => *value = Value::Null,
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn value_any(value: &Value, holds: &mut Holds<'_>, depth: usize) -> bool {
    match value {
        Value::String(text) => holds(text),
        Value::Array(values) if depth > 0 => {
            let mut values = values.iter();
            values.any(|value| value_any(value, holds, depth - 1))
        }
        Value::Object(fields) if depth > 0 => {
            let mut values = fields.values();
            values.any(|value| value_any(value, holds, depth - 1))
        }
        _ => false,
    }
}

macro_rules! visit_texts {
    ($(
        $(#[$doc:meta])*
        $variant:ident $method:ident $class:ident {
            $($field:ident $(| $alias:literal)? : $type:ident),*
            $(; $($more:ident : $more_type:ident),+)? $(,)?
        }
    )*) => {
        impl TdEvent {
            /// Shows every text of the event, which may be changed; ids are left out.
            pub(crate) fn each_text(&mut self, visit: &mut Visit<'_>) {
                match self {
                    $( Self::$variant { $($field,)* $($($more,)+)? .. } => {
                        $( $field.texts(visit); )*
                        $($( $more.texts(visit); )+)?
                    } )*
                    Self::Unknown(event) => event.texts(visit),
                }
            }

            /// Whether any text of the event satisfies; ids are left out.
            pub(crate) fn any_text(&self, holds: &mut Holds<'_>) -> bool {
                match self {
                    $( Self::$variant { $($field,)* $($($more,)+)? .. } => {
                        false $(|| $field.any(holds))* $($(|| $more.any(holds))+)?
                    } )*
                    Self::Unknown(event) => event.any(holds),
                }
            }
        }
    };
}

event_table!(visit_texts);
