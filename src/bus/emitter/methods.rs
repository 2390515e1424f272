//! The emitter's methods, one for each event of the wire contract.

use super::EventEmitter;
use crate::bus::inbox::Emitted;
use crate::event::{
    AgentState, Cursor, EndEvidence, EnumOrUnknown, GapEvidence, GapReason, IterationOutcome,
    OutputStream, PaneCloseReason, PaneId, PaneViewer, ScreenRow, SessionEndReason, StateEvidence,
    TdEvent, event_table,
};

/// The argument type for a field.
macro_rules! arg {
    (String) => {
        &str
    };
    (PaneId) => {
        &PaneId
    };
    (EndEvidence) => {
        impl Into<EndEvidence>
    };
    (EnumOrUnknown<$name:ident>) => {
        impl Into<EnumOrUnknown<$name>>
    };
    ($($by_value:tt)*) => {
        $($by_value)*
    };
}

/// The field's value, made from the argument.
macro_rules! field {
    ($arg:ident, String) => {
        $arg.to_owned()
    };
    ($arg:ident, PaneId) => {
        $arg.clone()
    };
    ($arg:ident, EndEvidence) => {
        $arg.into()
    };
    ($arg:ident, EnumOrUnknown<$name:ident>) => {
        $arg.into()
    };
    ($arg:ident, $($by_value:tt)*) => {
        $arg
    };
}

/// One method for each event, except the header of a log file, which only the log writer creates.
macro_rules! methods {
    () => {};
    ($(#[$doc:meta])* LogOpened $method:ident $class:ident { $($fields:tt)* } $($rest:tt)*) => {
        methods! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        $variant:ident $method:ident $class:ident {
            $($(#[$field_doc:meta])* $field:ident $(| $alias:literal)? : $type:ident $(<$name:ident $(<$inner:ident>)?>)?),*
            $(; $($(#[$more_doc:meta])* $more:ident : $more_type:ident $(<$more_name:ident $(<$more_inner:ident>)?>)?),+)? $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$doc])*
        #[doc = concat!("\n\nEmits [`TdEvent::", stringify!($variant), "`], which documents the arguments.")]
        pub fn $method(&self, $($field: arg!($type $(<$name $(<$inner>)?>)?)),*) -> Emitted {
            self.emit(TdEvent::$variant {
                execution_id: self.id.clone(),
                $($field: field!($field, $type $(<$name $(<$inner>)?>)?),)*
                $($($more: Default::default()),+)?
            })
        }
        methods! { $($rest)* }
    };
}

/// One method for each event of the wire contract, with its required fields as arguments.
impl EventEmitter {
    event_table!(methods);
}
