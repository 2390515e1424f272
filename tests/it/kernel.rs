//! Jupyter kernels: real ones of Python, where one is installed, and hostile ones.

mod compared;
mod fake;
mod fake_wire;
mod fuzzed;
mod hostile;
mod hostile_cells;
mod library;
mod real;
mod real_notebooks;
mod real_terminal;
mod served;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use td_observe::kernel::{CellStatus, Kernel, KernelSpec};

/// The Python with Jupyter: `$TD_JUPYTER`, else the one fetched by `.ci/jupyter`, else the system's.
/// Prints a notice and returns `None` if none has a kernel.
pub fn python() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let candidates = jupyter().map(|directory| directory.join("bin/python"));
        let candidates = candidates
            .into_iter()
            .chain([PathBuf::from("/usr/bin/python3")]);
        candidates
            .into_iter()
            .find(|python| has(python, "ipykernel"))
    });
    if found.is_none() {
        eprintln!("!!! no Python with ipykernel is installed (.ci/jupyter fetches one): skipped");
    }
    found.as_deref()
}

/// Returns the directory of `.ci/jupyter`.
pub fn jupyter() -> Option<PathBuf> {
    let named = std::env::var_os("TD_JUPYTER").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(home);
    named.or_else(|| Some(cache?.join("td-observe/jupyter")))
}

pub fn has(python: &Path, module: &str) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", &format!("import {module}")]);
    command.output().is_ok_and(|output| output.status.success())
}

/// A home directory with a kernel specification for this Python; its connection files are there, too.
pub struct KernelHome {
    pub directory: tempfile::TempDir,
    pub spec: String,
}

impl KernelHome {
    pub fn new(python: &Path) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("td-test-")
            .tempdir()
            .unwrap();
        let spec = directory.path().join("kernels/python3");
        fs::create_dir_all(&spec).unwrap();
        let argv = [
            python.to_str().unwrap(),
            "-m",
            "ipykernel_launcher",
            "-f",
            "{connection_file}",
        ];
        // Its own IPython history and configuration: kernels of other tests run at the same time.
        let text = serde_json::json!({
            "argv": argv, "language": "python", "display_name": "test",
            "env": {"IPYTHONDIR": directory.path().join("ipython"), "PYDEVD_DISABLE_FILE_VALIDATION": "1"},
        });
        fs::write(spec.join("kernel.json"), text.to_string()).unwrap();
        let spec = spec.display().to_string();
        Self { directory, spec }
    }

    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Returns the directory of connection files.
    pub fn runtime(&self) -> PathBuf {
        self.directory.path().join("runtime")
    }

    pub fn find(&self) -> KernelSpec {
        KernelSpec::find(&self.spec).unwrap()
    }

    /// Returns `td-observe kernel` with these arguments.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut all = vec!["kernel"];
        all.extend(args);
        let mut command = crate::cli::program(&all, &self.data());
        command.env("JUPYTER_RUNTIME_DIR", self.runtime());
        command.current_dir(self.directory.path());
        command
    }

    /// Returns the same command on a new kernel.
    pub fn on_new(&self, args: &[&str]) -> Command {
        let mut all = vec!["--kernel", &self.spec];
        all.extend(args);
        self.command(&all)
    }

    /// Returns the remaining connection files.
    pub fn connections(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.runtime()).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Returns the running kernels whose connection files are in this home.
    pub fn processes(&self) -> Vec<u32> {
        kernels_with(&self.directory.path().display().to_string())
    }
}

/// Returns the kernels whose command lines contain this text.
pub fn kernels_with(text: &str) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let processes = processes.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        (line.contains("ipykernel") && line.contains(text)).then_some(pid)
    });
    processes.collect()
}

/// Interrupts code once it has printed that it runs; checks that it ends as after Ctrl-C.
pub fn interrupt(kernel: &mut Kernel) {
    let control = kernel.control();
    let code = "import time\nprint('go', flush=True)\ntime.sleep(100)";
    let result = kernel.execute(code, |_, text| {
        // The traceback contains the word, too, and a second interrupt can lose the reply.
        if text.starts_with("go") {
            control.interrupt();
        }
    });
    let status = result.unwrap().status;
    assert!(matches!(status, CellStatus::Error { ref name, .. } if name == "KeyboardInterrupt"));
}
