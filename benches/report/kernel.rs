//! A Jupyter kernel's output: the cost of our client compared with `jupyter_client` in Python.
//!
//! One Python kernel prints for both, in turn. `TD_JUPYTER` names a Python environment with `ipykernel`
//! and `jupyter_client`; `.ci/jupyter` creates one.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use td_observe::kernel::{Kernel, KernelSpec};

use crate::common::cpu::own_ms;
use crate::common::stats::median;
use crate::common::table::{Bar, Row, Table};

const ROUNDS: usize = 5;

/// The same in Python: each text goes to a callback, and all of them are collected.
const REFERENCE: &str = "
import resource, sys, time
from jupyter_client import BlockingKernelClient
client = BlockingKernelClient(connection_file=sys.argv[1])
client.load_connection_file()
client.start_channels()
client.wait_for_ready(timeout=60)
texts = []
def hook(message):
    if message['msg_type'] == 'stream':
        texts.append(message['content']['text'])
def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
cpu, began = used(), time.monotonic()
client.execute_interactive(sys.argv[2], output_hook=hook, timeout=600)
print((time.monotonic() - began) * 1e3, (used() - cpu) * 1e3, len(''.join(texts)))
";

pub fn run(table: &mut Table) {
    let Some(python) = python() else {
        eprintln!(
            "!!! no Python with ipykernel and jupyter_client (.ci/jupyter makes one): no rows"
        );
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let spec = home.path().join("python3");
    fs::create_dir(&spec).unwrap();
    let argv = [
        python.to_str().unwrap(),
        "-m",
        "ipykernel_launcher",
        "-f",
        "{connection_file}",
    ];
    let text = serde_json::json!({ "argv": argv, "language": "python", "env": {"IPYTHONDIR": home.path()} });
    fs::write(spec.join("kernel.json"), text.to_string()).unwrap();
    let mut kernel = Kernel::start(&KernelSpec::find(spec.to_str().unwrap()).unwrap()).unwrap();
    for (what, code, bytes, count) in [
        (
            "Jupyter kernel, 1,000,000 lines: whole time; processor time of the client",
            "for i in range(1000000): print(i)",
            6_888_890,
            1,
        ),
        (
            "Jupyter kernel, 50,000 messages: whole time; processor time of the client, each",
            "for i in range(50000): print(i, flush=True)",
            288_890,
            50_000,
        ),
    ] {
        let (mut ours, mut ours_cpu, mut theirs, mut theirs_cpu) = (vec![], vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            let (cpu, began) = (own_ms(), Instant::now());
            let mut got = 0;
            let result = kernel.execute(code, |_, text| got += text.len()).unwrap();
            ours.push(began.elapsed().as_secs_f64() * 1e3);
            ours_cpu.push((own_ms() - cpu) * 1e3 / f64::from(count));
            assert!(
                got == bytes && result.stdout.len() == bytes,
                "{got} of {bytes} bytes"
            );

            let output = Command::new(&python)
                .args(["-c", REFERENCE])
                .arg(kernel.connection_file().unwrap())
                .arg(code)
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let figures: Vec<f64> = text
                .split_whitespace()
                .map(|word| word.parse().unwrap())
                .collect();
            assert!(
                figures.len() == 3,
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            theirs.push(figures[0]);
            theirs_cpu.push(figures[1] * 1e3 / f64::from(count));
        }
        let [ours, ours_cpu, theirs, theirs_cpu] = [ours, ours_cpu, theirs, theirs_cpu].map(median);
        table.row(&Row {
            what,
            ours: format!("{ours:.0} ms; {ours_cpu:.0} µs"),
            instead: format!("`jupyter_client` in Python: {theirs:.0} ms; {theirs_cpu:.0} µs"),
            ratio: Some(ours_cpu / theirs_cpu),
            bar: Bar::Stated("less processor time", ours_cpu < theirs_cpu),
        });
    }
}

fn python() -> Option<PathBuf> {
    let cache = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/td-observe/jupyter"));
    let environment = std::env::var_os("TD_JUPYTER")
        .map(PathBuf::from)
        .or_else(cache)?;
    let python = environment.join("bin/python");
    let mut check = Command::new(&python);
    check.args(["-c", "import ipykernel, jupyter_client"]);
    check
        .output()
        .is_ok_and(|output| output.status.success())
        .then_some(python)
}
