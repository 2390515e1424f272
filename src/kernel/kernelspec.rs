//! Kernel specifications, which describe how to start a kernel, and the directories of Jupyter in which they
//! and the connection files are.
//!
//! Source: <https://jupyter-client.readthedocs.io/en/stable/kernels.html#kernel-specs> and
//! <https://docs.jupyter.org/en/latest/use/jupyter-directories.html>.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::history::read_trusted_file;

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
#[derive(Clone, Debug, Deserialize)]
pub struct KernelSpec {
    #[serde(skip)]
    pub(super) name: String,
    pub(super) argv: Vec<String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) interrupt_mode: InterruptMode,
    /// The directory of the specification; `None` for the built-in one.
    #[serde(skip)]
    directory: Option<PathBuf>,
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
        // The largest specification that is read. Real ones have about 500 bytes.
        let Some(text) = read_trusted_file(&path, 1024 * 1024)? else {
            return Ok(None);
        };
        let spec = Self::parse(&text, directory).map_err(|error| error.at(&path))?;
        Ok(Some(spec))
    }

    pub(super) fn parse(text: &str, directory: &Path) -> Result<Self> {
        let spec: Self = serde_json::from_str(text).map_err(|error| {
            Error::invalid("cannot use the specification of a kernel").because(error)
        })?;
        if spec.argv.is_empty() {
            return Err(Error::invalid(
                "argv is empty in the specification of a kernel",
            ));
        }
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: name.into_owned(),
            directory: Some(directory.to_owned()),
            ..spec
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
pub fn running_kernels() -> Vec<PathBuf> {
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
    mod kernelspec {
        use super::super::*;
        use serde_json::{Value, json};
        use std::ffi::OsString;

        /// Temporary Jupyter directories with specifications.
        struct Installed(tempfile::TempDir);

        impl Installed {
            fn new() -> Self {
                Self(tempfile::tempdir().unwrap())
            }

            /// Writes `PREFIX/share/jupyter/kernels/NAME/kernel.json`; returns its directory.
            fn spec(&self, prefix: &str, name: &str, text: &str) -> PathBuf {
                let kernels = self.0.path().join(prefix).join("share/jupyter/kernels");
                let directory = kernels.join(name);
                fs::create_dir_all(&directory).unwrap();
                fs::write(directory.join("kernel.json"), text).unwrap();
                directory
            }

            fn find(&self, name: &str) -> Result<KernelSpec> {
                let path =
                    ["a", "b"].map(|prefix| self.0.path().join(prefix).join("share/jupyter"));
                let path = std::env::join_paths(path).unwrap();
                let var = move |name: &str| -> Option<OsString> {
                    (name == "JUPYTER_PATH").then(|| path.clone())
                };
                KernelSpec::find_in(name, &JupyterDirs::with(&var))
            }
        }

        fn spec(changes: Value) -> String {
            let mut spec =
                json!({ "argv": ["prog", "-f", "{connection_file}"], "display_name": "P" });
            for (name, value) in changes.as_object().unwrap() {
                spec[name] = value.clone();
            }
            spec.to_string()
        }

        #[test]
        fn a_specification_is_found_by_name_and_by_directory() {
            let installed = Installed::new();
            installed.spec("b", "x-first", &spec(json!({ "argv": ["second"] })));
            let first = installed.spec("a", "X-First", &spec(json!({})));
            installed.spec(
                "b",
                "x-other",
                &spec(json!({ "interrupt_mode": "message" })),
            );
            let found = installed.find("x-first").unwrap();
            assert_eq!((found.name(), found.argv[0].as_str()), ("X-First", "prog"));
            assert_eq!(found.interrupt_mode, InterruptMode::Signal);
            assert_eq!(
                installed.find("x-other").unwrap().interrupt_mode,
                InterruptMode::Message
            );
            assert_eq!(
                KernelSpec::find(first.to_str().unwrap()).unwrap().name(),
                "X-First"
            );
            let none = KernelSpec::find(installed.0.path().to_str().unwrap()).unwrap_err();
            assert!(
                none.to_string().contains("there is no kernel.json in"),
                "{none}"
            );
            // `python3` is found without an installed specification.
            assert!(Installed::new().find("python3").is_ok());
        }

        #[test]
        fn an_unknown_name_is_refused_with_the_list_of_names() {
            let installed = Installed::new();
            installed.spec("a", "x-one", &spec(json!({})));
            installed.spec("b", "x-two", &spec(json!({})));
            fs::create_dir_all(installed.0.path().join("a/share/jupyter/kernels/empty")).unwrap();
            let error = installed.find("x-three").unwrap_err();
            assert!(error.is_invalid_input());
            let text = error.to_string();
            assert!(
                text.contains("\"x-three\"")
                    && text.contains("python3")
                    && text.contains("x-one, x-two"),
                "{text}"
            );
            assert!(!text.contains("empty"), "{text}");
        }

        #[test]
        fn errors_name_the_problem_of_a_specification() {
            for (text, words) in [
                ("{".to_owned(), "EOF"),
                ("[]".to_owned(), "invalid"),
                ("{}".to_owned(), "missing field `argv`"),
                (spec(json!({ "argv": [] })), "argv is empty"),
                (spec(json!({ "argv": [1] })), "invalid type"),
                (
                    spec(json!({ "interrupt_mode": "shout" })),
                    "unknown variant `shout`",
                ),
            ] {
                let installed = Installed::new();
                installed.spec("a", "x", &text);
                let error = installed.find("x").unwrap_err();
                let shown = format!("{error:?}");
                assert!(
                    error.is_invalid_input() && shown.contains(words),
                    "{shown} has no {words:?}"
                );
                assert!(shown.contains("x/kernel.json"), "{shown}");
            }
        }

        #[test]
        fn the_command_names_the_connection_file() {
            let installed = Installed::new();
            let argv =
                json!({ "argv": ["python3", "-f", "{connection_file}", "--x={resource_dir}/y"] });
            let directory = installed.spec("a", "x", &spec(argv));
            let words = |found: &KernelSpec| {
                let command = found.command(Path::new("/r/k.json"));
                command
                    .into_iter()
                    .map(|it| it.into_string().unwrap())
                    .collect::<Vec<_>>()
            };
            let found = installed.find("x").unwrap();
            let resource = format!("--x={}/y", directory.display());
            assert_eq!(words(&found), ["python3", "-f", "/r/k.json", &resource]);
            // The Python of the environment in which the specification is installed.
            let python = installed.0.path().join("a/bin/python");
            fs::create_dir_all(python.parent().unwrap()).unwrap();
            fs::write(&python, "").unwrap();
            assert_eq!(words(&found)[0], python.to_str().unwrap());
        }
    }

    mod jupyter_dirs {
        use super::super::*;

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
}
