//! The copy of a notebook that receives the new outputs. It is written after each cell, so that a crash keeps
//! the outputs of finished cells.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use crate::error::{Error, Result};
use crate::kernel::{CellOutput, CellOutputs, CellRecorder, Notebook};

/// A copy that is being written.
pub(super) struct NotebookCopy {
    notebook: Notebook,
    /// The outputs of the cell that runs.
    outputs: CellOutputs,
    /// The number, execution count and outputs of each ended cell.
    ended: Vec<(u32, Option<u32>, CellOutputs)>,
    path: PathBuf,
}

impl NotebookCopy {
    /// Writes the notebook without outputs, so that an unwritable file fails before any code runs.
    pub fn create(mut notebook: Notebook, path: PathBuf) -> std::result::Result<Self, Failure> {
        notebook.clear_outputs();
        let copy = Self {
            notebook,
            outputs: CellOutputs::default(),
            ended: Vec::new(),
            path,
        };
        copy.write().map_err(|error| usage!("--save: {error:?}"))?;
        Ok(copy)
    }

    /// Replaces the file atomically.
    fn write(&self) -> Result<()> {
        let failed = |cause| Error::file("cannot write", &self.path, cause);
        let parent = self
            .path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new()
            .prefix(".td-observe-")
            .tempfile_in(directory)
            .map_err(failed)?;
        file.write_all(self.notebook.text()?.as_bytes())
            .map_err(failed)?;
        file.persist(&self.path)
            .map_err(|error| failed(error.error))?;
        Ok(())
    }
}

impl CellRecorder for NotebookCopy {
    fn output(&mut self, output: &CellOutput) {
        self.outputs.push(output);
        if let CellOutput::Update(content) = output {
            for (cell, count, outputs) in &mut self.ended {
                if outputs.update(content) {
                    self.notebook.set_outputs(*cell, *count, outputs.stored());
                }
            }
        }
    }

    fn end(&mut self, cell: u32, count: Option<u32>) -> Result<()> {
        let outputs = std::mem::take(&mut self.outputs);
        self.notebook.set_outputs(cell, count, outputs.stored());
        self.ended.push((cell, count, outputs));
        self.write()
    }
}
