//! Tests of finding and reading specifications.

use std::ffi::OsString;

use serde_json::{Value, json};

use super::*;

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
        let path = ["a", "b"].map(|prefix| self.0.path().join(prefix).join("share/jupyter"));
        let path = std::env::join_paths(path).unwrap();
        let var = move |name: &str| -> Option<OsString> {
            (name == "JUPYTER_PATH").then(|| path.clone())
        };
        KernelSpec::find_in(name, &JupyterDirs::with(&var))
    }
}

fn spec(changes: Value) -> String {
    let mut spec = json!({ "argv": ["prog", "-f", "{connection_file}"], "display_name": "P" });
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
        text.contains("\"x-three\"") && text.contains("python3") && text.contains("x-one, x-two"),
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
    let argv = json!({ "argv": ["python3", "-f", "{connection_file}", "--x={resource_dir}/y"] });
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
