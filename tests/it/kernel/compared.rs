//! The same code with Jupyter's own client and with this library has the same output and the same result.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use td_observe::kernel::{CellStatus, Kernel};

use super::{KernelHome, has, python};

/// Runs pieces of code with Jupyter's own client. For each, prints what it collects: the texts of both streams, and
/// the name of an exception.
const REFERENCE: &str = "
import json, sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name='python3', startup_timeout=60)
def ended(text):
    return text if text.endswith('\\n') else text + '\\n'
for code in json.loads(sys.argv[1]):
    texts = {'stdout': '', 'stderr': ''}
    def collect(message):
        kind, content = message['msg_type'], message['content']
        if kind == 'stream':
            texts[content['name']] += content['text']
        elif kind in ('display_data', 'execute_result') and 'text/plain' in content['data']:
            texts['stdout'] += ended(content['data']['text/plain'])
        elif kind == 'error':
            texts['stderr'] += ended('\\n'.join(content['traceback']))
    reply = client.execute_interactive(code, timeout=60, output_hook=collect, allow_stdin=False)
    print(json.dumps([texts['stdout'], texts['stderr'], reply['content'].get('ename')]), flush=True)
client.stop_channels()
manager.shutdown_kernel(now=True)
";

const CODES: &[&str] = &[
    "print('hello')",
    "",
    "a = 20 + 1",
    "a * 2",
    "import sys\nprint('out'); print('err', file=sys.stderr); print('out again')",
    "1/0",
    "raise KeyboardInterrupt('mine')",
    "hello",
    "this is no Python",
    "sys.exit(3)",
    "input()",
    "for i in range(3000): print(i)",
    "print('x' * 1_000_000)",
    "print('ünïcödé ✓ \\u2028 \\x1b[31mred\\x1b[0m \\0', end='')",
    "from IPython.display import display, HTML, Image\ndisplay(HTML('<b>bold</b>')); display({'a': [1, 2]})",
    "display({'image/png': 'iVBORw0KGgo=', 'text/html': '<i>'}, raw=True)",
    "%%time\nNone",
    "!echo from a shell",
    "%magic_that_is_not_there",
    "print(a)\nawait __import__('asyncio').sleep(0.01)\nprint('awaited')",
    "'the last one'",
];

#[test]
fn jupyters_own_client_collects_the_same_output() {
    let Some(python) = python() else { return };
    if !has(python, "jupyter_client") {
        eprintln!("!!! jupyter_client is not installed: skipped");
        return;
    }
    let home = KernelHome::new(python);
    let reference = reference(&home, python);
    let mut kernel = Kernel::start(&home.find()).unwrap();
    assert_eq!(reference.len(), CODES.len());
    for (code, reference) in CODES.iter().zip(reference) {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let result = kernel.execute(code, |stream, text| match stream.as_str() {
            "stderr" => stderr.push_str(text),
            _ => stdout.push_str(text),
        });
        let result = result.unwrap();
        let exception = match result.status {
            CellStatus::Error { name, .. } => Value::String(name),
            _ => Value::Null,
        };
        assert_eq!((&result.stdout, &result.stderr), (&stdout, &stderr));
        if code.starts_with("%%time") {
            // The times differ.
            assert!(stdout.starts_with("CPU times:"), "{stdout}");
            continue;
        }
        assert_eq!(
            [Value::String(stdout), Value::String(stderr), exception],
            reference,
            "{code}"
        );
    }
}

fn reference(home: &KernelHome, python: &Path) -> Vec<[Value; 3]> {
    let output = Command::new(python)
        .args(["-c", REFERENCE])
        .arg(serde_json::to_string(CODES).unwrap())
        .env("JUPYTER_PATH", home.directory.path())
        .env("JUPYTER_RUNTIME_DIR", home.runtime())
        .output()
        .unwrap();
    let (lines, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{stderr}");
    let lines = lines.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
