//! Kernels of other programs: started by Jupyter's own client, used by two clients, or in their own
//! network behind mapped ports.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use td_observe::kernel::{ConnectionInfo, Kernel};

use super::real::Foreign;
use super::{KernelHome, has, interrupt, python};
use crate::cli::{Running, assert_code, text};
use crate::support::{CEILING, wait_for};

/// Starts a kernel with Jupyter's own client, prints its connection file, and runs a line of code for each
/// line of its input.
const CLIENT: &str = "
import sys
from jupyter_client.manager import KernelManager
manager = KernelManager(kernel_name='python3')
manager.start_kernel()
client = manager.blocking_client()
client.start_channels()
client.wait_for_ready(timeout=60)
print(manager.connection_file, flush=True)
for line in sys.stdin:
    if line.strip() == 'restart':
        manager.restart_kernel(now=True)
        client.wait_for_ready(timeout=60)
    else:
        client.execute_interactive(line, timeout=60, output_hook=lambda message: None)
    print('done', flush=True)
client.stop_channels()
manager.shutdown_kernel(now=True)
";

struct JupyterClient {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    connection: String,
}

impl JupyterClient {
    fn start(home: &KernelHome, python: &Path) -> Self {
        let mut child = Command::new(python)
            .args(["-c", CLIENT])
            .env("JUPYTER_PATH", home.directory.path())
            .env("JUPYTER_RUNTIME_DIR", home.runtime())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let connection = lines.next().unwrap().unwrap();
        Self {
            child,
            lines,
            connection,
        }
    }

    fn runs(&mut self, code: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{code}").unwrap();
        assert_eq!(self.lines.next().unwrap().unwrap(), "done");
    }
}

impl Drop for JupyterClient {
    fn drop(&mut self) {
        // The end of its input ends the client and its kernel.
        drop(self.child.stdin.take());
        let child = &mut self.child;
        wait_for("the end of Jupyter's client", CEILING, || {
            child.try_wait().unwrap().ok_or("it runs")
        });
    }
}

#[test]
fn code_of_another_client_is_shown() {
    let Some(python) = python() else { return };
    if !has(python, "jupyter_client") {
        eprintln!("!!! jupyter_client is not installed: skipped");
        return;
    }
    let home = KernelHome::new(python);
    let mut client = JupyterClient::start(&home, python);
    let connection = client.connection.clone();
    let mut listening = Running::start(home.command(&["--json", "--connection", &connection]));
    listening.wait_for("StreamOpened");
    // A subscription takes effect with a delay.
    let seen = wait_until_received(&mut client, &mut listening);
    assert!(seen > 0);
    client.runs("print('from the other client'); x = 41");
    listening.wait_for("from the other client");
    client.runs("1/0");
    listening.wait_for_all(&["ExecutionCompleted", "\"exit_code\":1"]);
    // Meanwhile the program runs code there, too, which the listener shows.
    let ran =
        Running::start(home.command(&["--connection", &connection, "-c", "print(x + 1)"])).end();
    assert_code(&ran, 0);
    assert_eq!(text(&ran.stdout), "42\n");
    listening.wait_for("\"text\":\"42");
    // Before that, the program made the kernel flush its output at once.
    client.runs("import sys; print('passed on after', sys.stdout.flush_interval)");
    listening.wait_for("passed on after 0.02");
    // The owner restarts the kernel, and the listener continues.
    client.runs("restart");
    listening.wait_for("the kernel was restarted");
    wait_until_received(&mut client, &mut listening);
    // Ctrl-C ends only the listener.
    listening.signal(Signal::INT);
    assert_code(&listening.end(), 0);
    client.runs("print('alive')");
}

/// Runs code until the listener shows it; returns the number of tries.
fn wait_until_received(client: &mut JupyterClient, listening: &mut Running) -> u32 {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    for tries in 1..100 {
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mark = format!("heard {number} times");
        client.runs(&format!("print('{mark}')"));
        let next_line = || {
            listening
                .lines
                .recv_timeout(std::time::Duration::from_secs(1))
        };
        while let Ok(line) = next_line() {
            if line.contains("\"text\"") && line.contains(&mark) {
                return tries;
            }
        }
    }
    panic!("nothing is heard");
}

/// A listener reports the end of its kernel, and the run has an end.
#[test]
fn the_end_of_an_observed_kernel_ends_the_run() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    let mut foreign = Foreign::start(&home, python);
    let mut listening =
        Running::start(home.command(&["--json", "--connection", foreign.connection()]));
    listening.wait_for("StreamOpened");
    wait_for("the run", CEILING, || {
        let runs = fs::read_dir(home.data().join("runs")).into_iter().flatten();
        runs.flatten().next().ok_or("no run")
    });
    foreign.child.kill().unwrap();
    listening.wait_for("\"type\":\"Error\"");
    assert_code(&listening.end(), 1);
}

/// The kernel has its own network, as in a container, and its ports are mapped to other ports of this
/// host.
#[test]
fn a_kernel_in_its_own_network() {
    let Some(python) = python() else { return };
    let namespace = format!("td-{}", std::process::id());
    let Some(network) = Network::create(&namespace) else {
        eprintln!(
            "!!! network namespaces cannot be made here (root and iproute2 are needed): skipped"
        );
        return;
    };
    let home = KernelHome::new(python);
    fs::create_dir_all(home.runtime()).unwrap();
    let inside = home.runtime().join("kernel-inside.json");
    let ports: Vec<u16> = (50_001..50_006).collect();
    let names = [
        "shell_port",
        "iopub_port",
        "stdin_port",
        "control_port",
        "hb_port",
    ];
    let mut file = json!({
        "ip": "0.0.0.0", "transport": "tcp", "key": "a key", "signature_scheme": "hmac-sha256",
        "kernel_name": "python3",
    });
    for (name, port) in names.iter().zip(&ports) {
        file[name] = (*port).into();
    }
    fs::write(&inside, file.to_string()).unwrap();
    let mut child = Command::new("ip")
        .args(["netns", "exec", &namespace])
        .arg(python)
        .args(["-m", "ipykernel_launcher", "-f"])
        .arg(&inside)
        .env("IPYTHONDIR", home.directory.path().join("ipython"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the kernel", CEILING, || {
        TcpStream::connect((network.inside.as_str(), ports[4]))
    });
    // No port of the kernel is open on this host itself.
    assert!(TcpStream::connect(("127.0.0.1", ports[4])).is_err());
    file["ip"] = "127.0.0.1".into();
    for (name, port) in names.iter().zip(&ports) {
        file[name] = mapped(&network.inside, *port).into();
    }
    let outside = home.runtime().join("kernel-outside.json");
    fs::write(&outside, file.to_string()).unwrap();

    let mut kernel = Kernel::connect(&ConnectionInfo::read(&outside).unwrap()).unwrap();
    interrupt(&mut kernel);
    drop(kernel);
    let code = "
import os, time
for i in range(3):
    print(f'Progress: {i+1}/3', flush=True)
    while not os.path.exists(f'{DIR}/seen-{i}'): time.sleep(0.01)
"
    .replace("{DIR}", home.directory.path().to_str().unwrap());
    let args = [
        "--json",
        "--connection",
        outside.to_str().unwrap(),
        "-c",
        &code,
    ];
    let mut running = Running::start(home.command(&args));
    for number in 0..3 {
        running.wait_for(&format!("Progress: {}/3", number + 1));
        fs::write(home.directory.path().join(format!("seen-{number}")), "").unwrap();
    }
    assert_code(&running.end(), 0);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Maps a free port of this host to a port inside, as long as the test runs.
fn mapped(host: &str, port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let outside = listener.local_addr().unwrap().port();
    let host = host.to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect((host.as_str(), port)))
            else {
                continue;
            };
            for (mut from, mut to) in [
                (client.try_clone().unwrap(), server.try_clone().unwrap()),
                (server, client),
            ] {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    outside
}

/// A network namespace and its link to this host.
struct Network {
    namespace: String,
    inside: String,
}

impl Network {
    fn create(namespace: &str) -> Option<Self> {
        let ip = |args: &str| {
            let output = Command::new("ip").args(args.split(' ')).output();
            output.is_ok_and(|output| output.status.success())
        };
        if !ip(&format!("netns add {namespace}")) {
            return None;
        }
        let number = std::process::id() % 250;
        let network = Self {
            namespace: namespace.to_owned(),
            inside: format!("10.213.{number}.2"),
        };
        let link = format!("td{}", std::process::id() % 1_000_000);
        let is_made = ip(&format!(
            "link add {link} type veth peer name eth0 netns {namespace}"
        )) && ip(&format!("addr add 10.213.{number}.1/24 dev {link}"))
            && ip(&format!("link set {link} up"))
            && ip(&format!(
                "-n {namespace} addr add {}/24 dev eth0",
                network.inside
            ))
            && ip(&format!("-n {namespace} link set lo up"))
            && ip(&format!("-n {namespace} link set eth0 up"));
        is_made.then_some(network)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The link is removed together with the namespace.
        let _ = Command::new("ip")
            .args(["netns", "delete", &self.namespace])
            .output();
    }
}

/// The listener's own events have the cell numbers that the kernel assigns.
#[test]
fn cells_have_the_numbers_of_the_kernel() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    let foreign = Foreign::start(&home, python);
    for number in 1..=2 {
        let args = [
            "--json",
            "--connection",
            foreign.connection(),
            "-c",
            "1 + 1",
        ];
        let output = Running::start(home.command(&args)).end();
        assert_code(&output, 0);
        let events = text(&output.stdout);
        let started: Value = events
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .find(|line| line["event"]["type"] == "ExecutionStarted")
            .unwrap();
        // The program's own code is cell 1, whatever the kernel has counted.
        assert_eq!(started["event"]["cell"], 1, "run {number}");
    }
}
