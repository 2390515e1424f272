//! Notebooks: reads their code cells and writes a copy with new outputs (pure).
//!
//! Source: the notebook format, version 4, <https://nbformat.readthedocs.io/en/stable/format_description.html>.

use serde_json::{Map, Value, json};

use super::cell::CellOutput;
use super::content::{DisplayContent, joined};
use super::job::CodeCell;
use crate::error::{Error, Result};

/// The most bytes of outputs that one cell keeps in a copy.
const OUTPUT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The tag of cells that may raise an exception.
const MAY_FAIL: &str = "raises-exception";

/// The tag of cells that are skipped. nbclient uses the same two tags.
const SKIPPED: &str = "skip-execution";

#[derive(Clone, Debug)]
pub(crate) struct Notebook(Map<String, Value>);

impl Notebook {
    /// Reads a notebook.
    ///
    /// # Errors
    /// `is_invalid_input()` if the text is not a notebook of format 4.
    pub fn read(text: &str) -> Result<Self> {
        let invalid = |problem: String| Error::invalid(format!("it is no notebook: {problem}"));
        let notebook: Value =
            serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
        let Value::Object(notebook) = notebook else {
            return Err(invalid("it is no JSON object".to_owned()));
        };
        match notebook.get("nbformat").and_then(Value::as_u64) {
            Some(4) if notebook.get("cells").is_some_and(Value::is_array) => Ok(Self(notebook)),
            Some(4) => Err(invalid("it has no cells".to_owned())),
            Some(other) => Err(invalid(format!(
                "it has format {other}, and format 4 is read; jupyter nbconvert --to notebook converts it"
            ))),
            None => Err(invalid("it has no nbformat".to_owned())),
        }
    }

    pub fn kernel_name(&self) -> Option<&str> {
        self.0.get("metadata")?["kernelspec"]["name"].as_str()
    }

    /// Returns the code cells, numbered from 1. Omits blank cells, as Jupyter does, and cells with the tag
    /// `skip-execution`; these are counted, too.
    pub fn code_cells(&self) -> Vec<CodeCell> {
        let cells = self.0.get("cells").and_then(Value::as_array);
        let code = cells.into_iter().flatten().filter(|cell| is_code(cell));
        let code = code.zip(1..);
        let code = code.filter(|(cell, _)| !has_tag(cell, SKIPPED));
        let code = code.map(|(cell, number)| CodeCell {
            number,
            code: joined(&cell["source"]).unwrap_or_default(),
            may_fail: has_tag(cell, MAY_FAIL),
        });
        code.filter(|cell| !cell.code.trim().is_empty()).collect()
    }

    /// Removes the outputs of all code cells, before they run again.
    pub fn clear_outputs(&mut self) {
        for cell in self.code_cells_mut() {
            cell.insert("outputs".to_owned(), json!([]));
            cell.insert("execution_count".to_owned(), Value::Null);
        }
    }

    /// Stores the outputs of a code cell.
    pub fn set_outputs(&mut self, number: u32, count: Option<u32>, outputs: Vec<Value>) {
        let mut numbered = self.code_cells_mut().zip(1..);
        if let Some((cell, _)) = numbered.find(|(_, at)| *at == number) {
            cell.insert("outputs".to_owned(), Value::Array(outputs));
            cell.insert("execution_count".to_owned(), json!(count));
        }
    }

    fn code_cells_mut(&mut self) -> impl Iterator<Item = &mut Map<String, Value>> {
        let cells = self.0.get_mut("cells").and_then(Value::as_array_mut);
        let code = cells.into_iter().flatten().filter(|cell| is_code(cell));
        code.filter_map(Value::as_object_mut)
    }

    /// Returns the notebook's text in Jupyter's format: sorted keys, indented by one space.
    ///
    /// # Errors
    /// If the notebook cannot be serialized.
    pub fn text(&self) -> Result<String> {
        use serde::Serialize;

        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(b" ");
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        let unwritable = || Error::other("cannot write the notebook");
        let written = self.0.serialize(&mut serializer);
        written.map_err(|cause| unwritable().because(cause))?;
        bytes.push(b'\n');
        String::from_utf8(bytes).map_err(|cause| unwritable().because(cause))
    }
}

fn is_code(cell: &Value) -> bool {
    cell["cell_type"] == "code"
}

fn has_tag(cell: &Value, tag: &str) -> bool {
    let tags = cell["metadata"]["tags"].as_array();
    tags.is_some_and(|tags| tags.iter().any(|value| value == tag))
}

/// The outputs of one cell, as a notebook stores them.
#[derive(Debug, Default)]
pub(crate) struct CellOutputs {
    outputs: Vec<Value>,
    bytes: usize,
    /// The next output replaces all others.
    is_cleared: bool,
    is_full: bool,
}

impl CellOutputs {
    pub fn push(&mut self, output: &CellOutput) {
        if let CellOutput::Clear { wait } = output {
            self.is_cleared = true;
            if !wait {
                self.clear_if_due();
            }
            return;
        }
        if let CellOutput::Update(content) = output {
            self.update(content);
            return;
        }
        self.clear_if_due();
        if self.bytes + output.size() > OUTPUT_BYTES_MAX {
            if !std::mem::replace(&mut self.is_full, true) {
                self.outputs.push(stream(
                    "stderr",
                    "td-observe: more outputs than 64 MiB are not kept\n",
                ));
            }
            return;
        }
        self.bytes += output.size();
        match output {
            CellOutput::Text { stream, text } => self.text(stream.as_str(), text),
            CellOutput::Display(content) => self.outputs.push(json!({
                "output_type": "display_data",
                "data": content.data,
                "metadata": content.metadata,
                "transient": content.transient,
            })),
            CellOutput::Result(content) => self.outputs.push(json!({
                "output_type": "execute_result",
                "data": content.data,
                "metadata": content.metadata,
                "execution_count": content.execution_count,
                "transient": content.transient,
            })),
            CellOutput::Error(error) => self.outputs.push(json!({
                "output_type": "error",
                "ename": error.ename,
                "evalue": error.evalue,
                "traceback": error.traceback,
            })),
            CellOutput::Update(_) | CellOutput::Clear { .. } => {}
        }
    }

    /// Returns the outputs without display ids, which are not part of a notebook.
    pub fn stored(&self) -> Vec<Value> {
        let mut outputs = self.outputs.clone();
        for output in outputs.iter_mut().filter_map(Value::as_object_mut) {
            output.remove("transient");
            if output.get("output_type").and_then(Value::as_str) == Some("stream") {
                let text = output.get("text").and_then(joined).unwrap_or_default();
                let lines: Vec<&str> = text.split_inclusive('\n').collect();
                output.insert("text".to_owned(), json!(lines));
            }
        }
        outputs
    }

    fn clear_if_due(&mut self) {
        if std::mem::take(&mut self.is_cleared) {
            self.outputs.clear();
            (self.bytes, self.is_full) = (0, false);
        }
    }

    /// Adds text. Consecutive text of one stream becomes one output.
    fn text(&mut self, name: &str, text: &str) {
        if let Some(Value::Object(last)) = self.outputs.last_mut()
            && last.get("name").and_then(Value::as_str) == Some(name)
            && let Some(Value::String(all)) = last.get_mut("text")
        {
            all.push_str(text);
        } else {
            self.outputs.push(stream(name, text));
        }
    }

    /// Replaces the displays with the id of `content`; returns true if there were any. A later cell may
    /// update displays of an earlier one.
    pub fn update(&mut self, content: &DisplayContent) -> bool {
        let Some(id) = content.display_id() else {
            return false;
        };
        let mut has_changed = false;
        for output in self.outputs.iter_mut().filter_map(Value::as_object_mut) {
            if output
                .get("transient")
                .is_some_and(|ids| ids["display_id"] == id)
            {
                output.insert("data".to_owned(), json!(content.data));
                output.insert("metadata".to_owned(), json!(content.metadata));
                has_changed = true;
            }
        }
        has_changed
    }
}

fn stream(name: &str, text: &str) -> Value {
    json!({ "output_type": "stream", "name": name, "text": text })
}

#[cfg(test)]
#[path = "notebook_tests.rs"]
mod tests;
