//! The directories of Jupyter: where specifications of kernels are installed, and where running kernels
//! have their connection files.
//!
//! Source: <https://docs.jupyter.org/en/latest/use/jupyter-directories.html>.

use std::cmp::Reverse;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

/// Resolves Jupyter's directories from environment variables.
pub(super) struct JupyterDirs<'a> {
    var: &'a dyn Fn(&str) -> Option<OsString>,
}

impl<'a> JupyterDirs<'a> {
    /// Returns the directories of this process.
    pub fn of_environment() -> Self {
        Self {
            var: &|name| env::var_os(name).filter(|value| !value.is_empty()),
        }
    }

    #[cfg(test)]
    pub fn with(var: &'a dyn Fn(&str) -> Option<OsString>) -> Self {
        Self { var }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        (self.var)(name).map(PathBuf::from)
    }

    fn data(&self) -> Option<PathBuf> {
        self.path("JUPYTER_DATA_DIR").or_else(|| {
            let data = self.path("XDG_DATA_HOME");
            let data = data.or_else(|| Some(self.path("HOME")?.join(".local/share")))?;
            Some(data.join("jupyter"))
        })
    }

    /// Returns the directory of connection files.
    pub fn runtime(&self) -> Option<PathBuf> {
        let named = self.path("JUPYTER_RUNTIME_DIR");
        named.or_else(|| Some(self.data()?.join("runtime")))
    }

    /// Returns the directories of kernel specifications in search order: `JUPYTER_PATH`, Python environments,
    /// the user's directory, system directories.
    pub fn kernels(&self) -> Vec<PathBuf> {
        let named = (self.var)("JUPYTER_PATH");
        let named: Vec<PathBuf> = named.iter().flat_map(env::split_paths).collect();
        let prefixes = ["VIRTUAL_ENV", "CONDA_PREFIX"].map(|name| self.path(name));
        let prefixes = prefixes
            .into_iter()
            .flatten()
            .chain(self.prefixes_of_path());
        let environments = prefixes.map(|prefix| prefix.join("share/jupyter"));
        let system = ["/usr/local/share/jupyter", "/usr/share/jupyter"].map(PathBuf::from);
        let mut found: Vec<PathBuf> = Vec::new();
        let all = named.into_iter().chain(environments);
        for directory in all.chain(self.data()).chain(system) {
            let directory = directory.join("kernels");
            if !found.contains(&directory) {
                found.push(directory);
            }
        }
        found
    }

    /// Returns the prefixes of `jupyter` and `python3` in `PATH`, because an environment can be used without
    /// being activated.
    fn prefixes_of_path(&self) -> Vec<PathBuf> {
        let path = (self.var)("PATH");
        let directories: Vec<PathBuf> = path.iter().flat_map(env::split_paths).collect();
        let first = |program: &str| {
            let mut candidates = directories.iter().map(|directory| directory.join(program));
            candidates.find(|candidate| candidate.is_file())
        };
        let programs = ["jupyter", "python3"].map(first);
        let prefix = |program: PathBuf| Some(program.parent()?.parent()?.to_owned());
        programs.into_iter().flatten().filter_map(prefix).collect()
    }
}

/// Returns the connection files in Jupyter's runtime directory, the newest first. Some may belong to kernels
/// that have died.
pub(crate) fn running_kernels() -> Vec<PathBuf> {
    let directory = JupyterDirs::of_environment().runtime();
    let is_connection = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| name.starts_with("kernel-") && name.ends_with(".json"))
    };
    let entries = directory.and_then(|directory| fs::read_dir(directory).ok());
    let entries = entries.into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut files: Vec<PathBuf> = paths.filter(is_connection).collect();
    let modified = |path: &PathBuf| path.metadata().and_then(|metadata| metadata.modified());
    files.sort_by_cached_key(|path| Reverse((modified(path).ok(), path.clone())));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirs<'a>(vars: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| {
            let found = vars.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.into())
        }
    }

    #[test]
    fn specifications_are_searched_in_jupyters_order() {
        let vars = dirs(&[
            ("HOME", "/h"),
            ("JUPYTER_PATH", "/a:/b"),
            ("VIRTUAL_ENV", "/v"),
            ("CONDA_PREFIX", "/v"),
        ]);
        let found = JupyterDirs::with(&vars).kernels();
        let expected = [
            "/a/kernels",
            "/b/kernels",
            "/v/share/jupyter/kernels",
            "/h/.local/share/jupyter/kernels",
            "/usr/local/share/jupyter/kernels",
            "/usr/share/jupyter/kernels",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn each_variable_moves_the_runtime_directory() {
        let mut vars = vec![("HOME", "/h")];
        for (name, value, expected) in [
            ("", "", "/h/.local/share/jupyter/runtime"),
            ("XDG_DATA_HOME", "/x", "/x/jupyter/runtime"),
            ("JUPYTER_DATA_DIR", "/d", "/d/runtime"),
            ("JUPYTER_RUNTIME_DIR", "/r", "/r"),
        ] {
            vars.push((name, value));
            let vars = dirs(&vars);
            assert_eq!(JupyterDirs::with(&vars).runtime(), Some(expected.into()));
        }
        assert_eq!(JupyterDirs::with(&|_| None).runtime(), None);
    }
}
