//! Kernel specifications, which describe how to start a kernel.
//!
//! Source: <https://jupyter-client.readthedocs.io/en/stable/kernels.html#kernel-specs>.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::jupyter_dirs::JupyterDirs;
use crate::error::{Error, Result};
use crate::history::read_trusted_file;

/// The largest specification that is read. Real ones have about 500 bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum InterruptMode {
    /// By sending `SIGINT`.
    #[default]
    Signal,
    /// By sending an `interrupt_request` message.
    Message,
}

/// A kernel specification (`kernel.json`), found by its name.
#[derive(Clone, Debug)]
pub struct KernelSpec {
    pub(super) name: String,
    pub(super) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) interrupt_mode: InterruptMode,
    /// The directory of the specification; `None` for the built-in one.
    directory: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct SpecFile {
    argv: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    interrupt_mode: InterruptMode,
}

impl KernelSpec {
    /// Finds a specification by name, such as `python3`, in Jupyter's directories. A name that contains a `/`
    /// is the path of the specification's directory.
    ///
    /// # Errors
    /// `is_invalid_input()` if it does not exist, with a list of the existing names, or if it cannot be used.
    pub fn find(name: &str) -> Result<Self> {
        Self::find_in(name, &JupyterDirs::of_environment())
    }

    fn find_in(name: &str, dirs: &JupyterDirs<'_>) -> Result<Self> {
        if name.contains('/') {
            let directory = Path::new(name);
            let spec = Self::read(directory)?;
            return spec.ok_or_else(|| Error::invalid("there is no kernel.json in").at(directory));
        }
        let directories = dirs.kernels();
        for kernels in &directories {
            // Jupyter ignores case in names.
            let found = names_in(kernels).find(|(found, _)| found.eq_ignore_ascii_case(name));
            if let Some((_, directory)) = found
                && let Some(spec) = Self::read(&directory)?
            {
                return Ok(spec);
            }
        }
        if name == "python3" {
            return Ok(Self::python());
        }
        Err(Error::invalid(format!(
            "there is no kernel named {name:?}; there are: {}",
            all_names(&directories).join(", ")
        )))
    }

    /// Returns the names of the existing specifications in Jupyter's directories.
    #[cfg(feature = "cli")]
    pub(crate) fn names() -> Vec<String> {
        all_names(&JupyterDirs::of_environment().kernels())
    }

    /// Returns the built-in specification of `python3`, for hosts where none is installed.
    fn python() -> Self {
        let argv = [
            "python3",
            "-m",
            "ipykernel_launcher",
            "-f",
            "{connection_file}",
        ];
        Self {
            name: "python3".to_owned(),
            argv: argv.map(str::to_owned).to_vec(),
            env: BTreeMap::new(),
            interrupt_mode: InterruptMode::Signal,
            directory: None,
        }
    }

    /// Reads the specification in a directory; `None` if it has none.
    fn read(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join("kernel.json");
        let Some(text) = read_trusted_file(&path, FILE_BYTES_MAX)? else {
            return Ok(None);
        };
        let spec = Self::parse(&text, directory).map_err(|error| error.at(&path))?;
        Ok(Some(spec))
    }

    pub(super) fn parse(text: &str, directory: &Path) -> Result<Self> {
        let file: SpecFile = serde_json::from_str(text).map_err(|error| {
            Error::invalid("cannot use the specification of a kernel").because(error)
        })?;
        if file.argv.is_empty() {
            return Err(Error::invalid(
                "argv is empty in the specification of a kernel",
            ));
        }
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: name.into_owned(),
            argv: file.argv,
            env: file.env,
            interrupt_mode: file.interrupt_mode,
            directory: Some(directory.to_owned()),
        })
    }

    /// Returns the name of the specification.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the program and its arguments.
    pub(super) fn command(&self, connection_file: &Path) -> Vec<OsString> {
        let resources = self.directory.clone().unwrap_or_default();
        let replace = |arg: &String| {
            // Arguments are JSON strings, so a path with invalid UTF-8 cannot be represented exactly.
            let arg = arg.replace("{connection_file}", &connection_file.to_string_lossy());
            OsString::from(arg.replace("{resource_dir}", &resources.to_string_lossy()))
        };
        let mut command: Vec<OsString> = self.argv.iter().map(replace).collect();
        if let Some(program) = command.first_mut()
            && (program == "python" || program == "python3")
            && let Some(python) = self.python_of_environment()
        {
            *program = python.into_os_string();
        }
        command
    }

    /// Returns the Python of the environment in which the specification is installed: `PREFIX/bin/python` for
    /// `PREFIX/share/jupyter/kernels/NAME`.
    fn python_of_environment(&self) -> Option<PathBuf> {
        let prefix = self.directory.as_ref()?.ancestors().nth(4)?;
        let python = prefix.join("bin/python");
        (prefix != Path::new("/usr") && python.is_file()).then_some(python)
    }
}

/// Returns the names and directories of the specifications in a directory.
fn names_in(kernels: &Path) -> impl Iterator<Item = (String, PathBuf)> + use<> {
    let entries = fs::read_dir(kernels).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.join("kernel.json").is_file())
        .filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path)))
        .collect();
    found.sort();
    found.into_iter()
}

/// Returns the names of the specifications in these directories, and the built-in one.
fn all_names(directories: &[PathBuf]) -> Vec<String> {
    let found = directories.iter().flat_map(|directory| names_in(directory));
    let names: BTreeSet<String> = found
        .map(|(name, _)| name)
        .chain(["python3".to_owned()])
        .collect();
    names.into_iter().collect()
}

#[cfg(test)]
#[path = "kernelspec_tests.rs"]
mod tests;
