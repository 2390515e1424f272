//! The place of the configuration's file: the option, `TD_CONFIG`, else the user's directory for configurations.

use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::cli::failure::Failure;
use crate::cli::options::read_rule_file;

/// The file of a configuration.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Absolute.
    pub path: PathBuf,
    /// The option or the variable that names it, so that it must exist.
    named_by: Option<&'static str>,
}

impl Place {
    /// Returns the place that the option or a variable names; `None` if none does, not even the home directory.
    ///
    /// # Errors
    /// When the path is empty.
    pub fn find(
        named: Option<&Path>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Self>, Failure> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let place = |path: PathBuf, named_by| Self {
            path: std::path::absolute(&path).unwrap_or(path),
            named_by,
        };
        if let Some(path) = named {
            if path.as_os_str().is_empty() {
                return Err(usage!("--config: the path is empty"));
            }
            return Ok(Some(place(path.to_owned(), Some("--config"))));
        }
        if let Some(path) = set("TD_CONFIG") {
            return Ok(Some(place(path.into(), Some("TD_CONFIG"))));
        }
        let home = || set("HOME").map(|home| Path::new(&home).join(".config"));
        let directory = set("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home);
        Ok(directory.map(|directory| place(directory.join("td-observe/config.toml"), None)))
    }

    /// Returns the place as [`Place::find`] does, for a command that needs one.
    pub fn required(named: Option<&Path>) -> Result<Self, Failure> {
        let place = Self::find(named, |name| std::env::var_os(name))?;
        place.ok_or_else(|| {
            usage!(
                "HOME is not set, so there is no place for the configuration: name it with --config"
            )
        })
    }

    /// Returns the content of the file; `None` if it does not exist and need not.
    pub fn read(&self) -> Result<Option<String>, Failure> {
        // In a home directory of another user, nobody knows whether there is a file.
        let is_hidden = |cause: std::io::Error| cause.kind() == ErrorKind::PermissionDenied;
        if self.named_by.is_none() && std::fs::metadata(&self.path).is_err_and(is_hidden) {
            return Ok(None);
        }
        let text = read_rule_file(&self.path)?;
        match (text, self.named_by) {
            (None, Some(by)) => Err(usage!(
                "{by}: {:?}: there is no such file; td-observe config init writes one",
                self.path
            )),
            (text, _) => Ok(text),
        }
    }

    /// Writes a new file, which only its user can read.
    pub fn create(&self, text: &str) -> Result<(), Failure> {
        let failed = |cause: std::io::Error| failure!("cannot write {:?}: {cause}", self.path);
        if let Some(directory) = self.path.parent() {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder.create(directory).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&self.path);
        let mut file = file.map_err(|cause| match cause.kind() {
            ErrorKind::AlreadyExists => {
                usage!("{:?} exists already, and is left as it is", self.path)
            }
            _ => failed(cause),
        })?;
        file.write_all(text.as_bytes()).map_err(failed)
    }
}
