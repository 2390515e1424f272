//! Notebooks: reads their code cells and writes a copy with new outputs (pure).
//!
//! Source: the notebook format, version 4, <https://nbformat.readthedocs.io/en/stable/format_description.html>.

use serde_json::{Map, Value, json};

use super::cell::{CellOutput, DisplayContent, joined};
use crate::error::{Error, Result};

/// The tag of cells that may raise an exception.
const MAY_FAIL: &str = "raises-exception";

/// Code that a kernel runs as one cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeCell {
    /// The number of the cell among the code cells, from 1: `cell` of its events.
    pub number: u32,
    /// The code.
    pub code: String,
    /// The following cells run even if this one raises an exception.
    pub may_fail: bool,
}

/// A notebook of Jupyter, format 4.
#[derive(Clone, Debug)]
pub struct Notebook(Map<String, Value>);

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

    /// Returns the name of the kernel that the notebook is written for, for
    /// [`KernelSpec::find`](super::KernelSpec::find).
    pub fn kernel_name(&self) -> Option<&str> {
        self.0.get("metadata")?["kernelspec"]["name"].as_str()
    }

    /// Returns the code cells, numbered from 1. Omits blank cells, as Jupyter does, and cells with the tag
    /// `skip-execution`; these are counted, too.
    pub fn code_cells(&self) -> Vec<CodeCell> {
        let cells = self.0.get("cells").and_then(Value::as_array);
        let code = cells
            .into_iter()
            .flatten()
            .filter(|cell| is_code(cell))
            .zip(1..);
        // The tag of cells that are skipped. nbclient uses the same two tags.
        let code = code.filter(|(cell, _)| !has_tag(cell, "skip-execution"));
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
    pub(super) fn set_outputs(&mut self, number: u32, count: Option<u32>, outputs: Vec<Value>) {
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

/// Called with the notebook after each cell that has run.
pub(crate) type OnCell = Box<dyn FnMut(&Notebook) -> Result<()> + Send>;

/// A notebook whose cells run, with their outputs so far.
pub(crate) struct ExecutedNotebook {
    notebook: Notebook,
    /// The outputs of the cell that runs.
    outputs: CellOutputs,
    /// The number, execution count and outputs of each ended cell.
    ended: Vec<(u32, Option<u32>, CellOutputs)>,
    on_cell: OnCell,
}

impl ExecutedNotebook {
    /// Creates a copy without outputs.
    pub fn new(mut notebook: Notebook, on_cell: OnCell) -> Self {
        notebook.clear_outputs();
        Self {
            notebook,
            outputs: CellOutputs::default(),
            ended: Vec::new(),
            on_cell,
        }
    }

    pub fn output(&mut self, output: &CellOutput) {
        self.outputs.push(output);
        if let CellOutput::Update(content) = output {
            for (cell, count, outputs) in &mut self.ended {
                if outputs.update(content) {
                    self.notebook.set_outputs(*cell, *count, outputs.stored());
                }
            }
        }
    }

    /// Stores the outputs of the cell that has ended.
    ///
    /// # Errors
    /// Those of the callback.
    pub fn end(&mut self, cell: u32, count: Option<u32>) -> Result<()> {
        let outputs = std::mem::take(&mut self.outputs);
        self.notebook.set_outputs(cell, count, outputs.stored());
        self.ended.push((cell, count, outputs));
        (self.on_cell)(&self.notebook)
    }
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
        // The most bytes of outputs that one cell keeps in a copy.
        if self.bytes + output.size() > 64 * 1024 * 1024 {
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
mod tests {
    use super::*;
    use crate::event::OutputStream;
    use crate::kernel::cell::ErrorContent;
    use proptest::prelude::*;

    fn text(stream: OutputStream, text: &str) -> CellOutput {
        CellOutput::Text {
            stream,
            text: text.to_owned(),
        }
    }

    fn out(printed: &str) -> CellOutput {
        text(OutputStream::Stdout, printed)
    }

    fn shown(value: &str, id: Option<&str>) -> DisplayContent {
        let content = json!({
            "data": { "text/plain": value },
            "metadata": {},
            "transient": id.map_or(json!({}), |id| json!({ "display_id": id })),
        });
        serde_json::from_value(content).unwrap()
    }

    fn stored(outputs: &[CellOutput]) -> Vec<Value> {
        let mut cell = CellOutputs::default();
        outputs.iter().for_each(|output| cell.push(output));
        cell.stored()
    }

    fn printed(name: &str, lines: &[&str]) -> Value {
        json!({ "output_type": "stream", "name": name, "text": lines })
    }

    fn display(value: &str) -> Value {
        json!({ "output_type": "display_data", "data": { "text/plain": value }, "metadata": {} })
    }

    /// Cells of all kinds: code, text, and unknown kinds of later versions.
    fn cells() -> impl Strategy<Value = Vec<Value>> {
        let source = prop_oneof![
            "[a-z \n]{0,12}".prop_map(Value::from),
            prop::collection::vec("[a-z ]{0,5}\n?", 0..4).prop_map(Value::from),
        ];
        let kind = prop::sample::select(vec!["code", "markdown", "raw", "later"]);
        let cell = (
            kind,
            source,
            any::<Option<i64>>(),
            "[a-z]{1,4}",
            any::<bool>(),
        );
        let cell = cell.prop_map(|(kind, source, count, id, has_tag)| {
            let tags = if has_tag { vec![MAY_FAIL] } else { vec!["x"] };
            let mut cell = json!({
                "cell_type": kind, "id": id, "source": source, "metadata": { "tags": tags, "n": count },
            });
            if kind == "code" {
                cell["execution_count"] = json!(count);
                cell["outputs"] = json!([printed("stdout", &["old\n"])]);
            }
            cell
        });
        prop::collection::vec(cell, 0..6)
    }

    fn without_outputs(notebook: &str) -> Value {
        let mut notebook: Value = serde_json::from_str(notebook).unwrap();
        for cell in notebook["cells"].as_array_mut().unwrap() {
            if cell["cell_type"] == "code" {
                cell["outputs"] = json!("?");
                cell["execution_count"] = json!("?");
            }
        }
        notebook
    }

    proptest! {
        #[test]
        fn only_outputs_change(cells in cells(), ran in prop::collection::vec((0_u32..8, 1_u32..99), 0..5)) {
            let original = json!({
                "nbformat": 4, "nbformat_minor": 5, "cells": cells, "future": { "b": 1.25, "a": [] },
                "metadata": { "kernelspec": { "name": "python3" }, "widgets": { "x": "é\u{1b}" } },
            });
            let original = original.to_string();
            let mut notebook = Notebook::read(&original).unwrap();
            prop_assert_eq!(notebook.kernel_name(), Some("python3"));
            notebook.clear_outputs();
            let mut expected: Vec<(Value, Value)> = Vec::new();
            expected.resize(cells.iter().filter(|it| is_code(it)).count(), (json!([]), Value::Null));
            for (number, count) in ran {
                let outputs = vec![printed("stdout", &["new\n"])];
                notebook.set_outputs(number, Some(count), outputs.clone());
                if let Some(cell) = (number as usize).checked_sub(1).and_then(|at| expected.get_mut(at)) {
                    *cell = (json!(outputs), json!(count));
                }
            }
            let written = notebook.text().unwrap();
            prop_assert_eq!(without_outputs(&written), without_outputs(&original));
            let written: Value = serde_json::from_str(&written).unwrap();
            let code = written["cells"].as_array().unwrap().iter().filter(|it| is_code(it));
            let found: Vec<(Value, Value)> = code
                .map(|cell| (cell["outputs"].clone(), cell["execution_count"].clone()))
                .collect();
            prop_assert_eq!(found, expected);
        }

        /// A source may be one string or a list of lines.
        #[test]
        fn sources_have_two_forms(lines in prop::collection::vec("[a-z \t]{0,5}\n", 0..5), last in "[a-z]{1,4}") {
            let all = lines.concat() + &last;
            let list = [&lines[..], &[last]].concat();
            let code = [json!(all), json!(list)].map(|source| {
                let cells = json!([
                    { "cell_type": "code", "source": " \n", "metadata": {} },
                    { "cell_type": "code", "source": source, "metadata": { "tags": [MAY_FAIL] } },
                ]);
                let text = json!({ "nbformat": 4, "cells": cells }).to_string();
                Notebook::read(&text).unwrap().code_cells()
            });
            let expected = CodeCell { number: 2, code: all, may_fail: true };
            prop_assert_eq!(&code[0], &vec![expected]);
            prop_assert_eq!(&code[0], &code[1]);
        }
    }

    #[test]
    fn text_of_one_stream_is_one_output() {
        let outputs = stored(&[
            out("a\nb"),
            out("c\n"),
            text(OutputStream::Stderr, "e\n"),
            out("d"),
            CellOutput::Display(shown("v", None)),
            out("e"),
        ]);
        let expected = [
            printed("stdout", &["a\n", "bc\n"]),
            printed("stderr", &["e\n"]),
            printed("stdout", &["d"]),
            display("v"),
            printed("stdout", &["e"]),
        ];
        assert_eq!(outputs, expected);
    }

    #[test]
    fn an_update_replaces_all_displays_of_its_id() {
        let outputs = stored(&[
            CellOutput::Display(shown("1", Some("x"))),
            CellOutput::Display(shown("2", Some("y"))),
            CellOutput::Display(shown("3", Some("x"))),
            CellOutput::Update(shown("new", Some("x"))),
            // The first id was not displayed; the second update has no id.
            CellOutput::Update(shown("lost", Some("z"))),
            CellOutput::Update(shown("lost", None)),
        ]);
        assert_eq!(outputs, [display("new"), display("2"), display("new")]);
    }

    #[test]
    fn a_clear_is_immediate_or_waits_for_the_next_output() {
        let clear = |wait| CellOutput::Clear { wait };
        assert_eq!(stored(&[out("a"), clear(false)]), [] as [Value; 0]);
        assert_eq!(
            stored(&[out("a"), clear(true)]),
            [printed("stdout", &["a"])]
        );
        assert_eq!(
            stored(&[out("a"), clear(true), out("b")]),
            [printed("stdout", &["b"])]
        );
        assert_eq!(
            stored(&[out("a"), clear(true), out("b"), out("c")]),
            [printed("stdout", &["bc"])]
        );
        // An update adds no output.
        let updated = [
            CellOutput::Display(shown("1", Some("x"))),
            clear(true),
            CellOutput::Update(shown("2", Some("x"))),
        ];
        assert_eq!(stored(&updated), [display("2")]);
    }

    #[test]
    fn results_and_exceptions_have_their_fields() {
        let mut result = shown("7", None);
        result.execution_count = Some(3);
        let error = ErrorContent {
            ename: "E".into(),
            evalue: "v".into(),
            traceback: vec!["t".into()],
        };
        let expected = [
            json!({ "output_type": "execute_result", "data": { "text/plain": "7" }, "metadata": {}, "execution_count": 3 }),
            json!({ "output_type": "error", "ename": "E", "evalue": "v", "traceback": ["t"] }),
        ];
        assert_eq!(
            stored(&[CellOutput::Result(result), CellOutput::Error(error)]),
            expected
        );
    }

    #[test]
    fn outputs_of_one_cell_are_bounded() {
        let mut cell = CellOutputs::default();
        let megabytes = out(&"x".repeat(8 * 1024 * 1024));
        for _ in 0..20 {
            cell.push(&megabytes);
        }
        let outputs = cell.stored();
        assert_eq!(outputs.len(), 2);
        assert!(
            outputs[1]["text"][0]
                .as_str()
                .unwrap()
                .contains("more outputs than 64 MiB")
        );
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        for (text, words) in [
            ("", "EOF"),
            ("[]", "no JSON object"),
            ("{}", "no nbformat"),
            (r#"{"nbformat":3,"worksheets":[]}"#, "format 3"),
            (r#"{"nbformat":4}"#, "no cells"),
            (r#"{"nbformat":4,"cells":{}}"#, "no cells"),
        ] {
            let error = Notebook::read(text).unwrap_err();
            assert!(
                error.is_invalid_input() && error.to_string().contains(words),
                "{error}"
            );
        }
        // Damaged cells are kept, but are not treated as code.
        let damaged = r#"{"nbformat":4,"cells":[1,null,{"cell_type":"code"},{"cell_type":"code","source":7}]}"#;
        let mut notebook = Notebook::read(damaged).unwrap();
        assert!(notebook.code_cells().is_empty());
        notebook.set_outputs(1, None, vec![]);
        assert!(notebook.text().unwrap().contains("null"));
    }
}
