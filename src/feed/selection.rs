//! The selection of events by execution and type.

use std::collections::{BTreeSet, HashMap};

use crate::event::{ExecutionId, TdEvent};
use crate::history::{DataDir, glob_matches, is_glob};

/// The most cached executions, far more than run at the same time.
const KNOWN_MAX: usize = 4096;

/// The names in a client's request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Ids, labels and patterns of executions; empty means all.
    pub executions: BTreeSet<String>,
    /// Types of events; empty means all.
    pub types: BTreeSet<String>,
}

impl Selection {
    /// Returns true if a name or pattern matches the id or label of an execution.
    fn names(&self, id: &str, label: &str) -> bool {
        self.executions.iter().any(|name| {
            let is_match = |text: &str| name == text || is_glob(name) && glob_matches(name, text);
            [id, label]
                .into_iter()
                .any(|text| !text.is_empty() && is_match(text))
        })
    }
}

/// Applies a selection to events, with the labels of their executions.
#[derive(Debug, Default)]
pub(super) struct Selector {
    selection: Selection,
    data: Option<DataDir>,
    known: HashMap<ExecutionId, bool>,
}

impl Selector {
    pub fn new(selection: Selection, data: DataDir) -> Self {
        Self {
            selection,
            data: Some(data),
            known: HashMap::new(),
        }
    }

    /// Returns the underlying selection.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    pub fn selects(&mut self, event: &TdEvent) -> bool {
        let types = &self.selection.types;
        (types.is_empty() || types.contains(event.type_name()))
            && self.selects_execution(event.execution_id())
    }

    pub fn selects_execution(&mut self, id: &str) -> bool {
        let executions = &self.selection.executions;
        if executions.is_empty() || executions.contains(id) {
            return true;
        }
        if let Some(known) = self.known.get(id) {
            return *known;
        }
        let id = ExecutionId::from(id);
        let run = self.data.as_ref().map(|data| data.run(&id));
        let metadata = run.and_then(|run| run.metadata().ok().flatten());
        let label = metadata.as_ref().map_or("", |metadata| &metadata.label);
        let is_selected = self.selection.names(&id, label);
        // If the label is not written yet, read it again at the next event.
        if metadata.is_some() {
            if self.known.len() >= KNOWN_MAX {
                self.known.clear();
            }
            self.known.insert(id, is_selected);
        }
        is_selected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_labels_and_patterns_name_executions() {
        for (name, id, label, is_named) in [
            ("job@17", "job@17", "", true),
            ("job@17", "job@18", "job", false),
            ("job", "job@17", "job", true),
            ("job", "jobs@17", "jobs", false),
            ("job-*", "x@1", "job-1", true),
            ("job*", "job@17", "other", true),
            ("?", "x@1", "", false),
            ("*", "x@1", "", true),
        ] {
            let selection = Selection {
                executions: BTreeSet::from([name.to_owned()]),
                ..Selection::default()
            };
            assert_eq!(selection.names(id, label), is_named, "{name} {id} {label}");
        }
    }
}
