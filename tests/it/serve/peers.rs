//! Clients that others have written read the streams, and node runs the page's own tests.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::Served;
use crate::cli::Running;
use crate::observer::Home;
use crate::support::peer;

fn node() -> Option<Command> {
    let version = Command::new("node")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !version.is_ok_and(|status| status.success()) {
        eprintln!("!!! node is not installed: skipped");
        return None;
    }
    Some(Command::new("node"))
}

/// Lets a client print `open`, and then each message, until one has a text.
fn reads_until_it_is_told(mut client: Command, served: &Served, home: &Home) {
    client
        .env("URL", format!("ws://{}/api/v1/ws", served.address))
        .env("TOKEN", &served.token);
    let mut client = Running::start(client);
    client.wait_for("StreamOpened");
    home.server
        .tmux(&["send-keys", "-t", "web", "for the client", "Enter"]);
    client.wait_for("for the client");
    let output = client.end();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn websocket_clients_from_pypi_and_npm_read_the_stream() {
    let home = Home::new();
    home.server.new_session("web", 80, 24, "exec cat");
    home.start();
    let served = Served::start(&home, &[]);
    if let Some(python) = peer("bin/python").filter(|_| peer("node_modules/ws").is_some()) {
        let script = "\
import os
from websockets.sync.client import connect
bearer = {'Authorization': 'Bearer ' + os.environ['TOKEN']}
with connect(os.environ['URL'], additional_headers=bearer) as socket:
    for message in socket:
        print(message, flush=True)
        if 'for the client' in message:
            break
";
        let mut client = Command::new(python);
        client.args(["-c", script]);
        reads_until_it_is_told(client, &served, &home);
    }
    if let (Some(package), Some(mut client)) = (peer("node_modules/ws"), node()) {
        let script = "\
const WebSocket = require(process.argv[1]);
const headers = { Authorization: 'Bearer ' + process.env.TOKEN };
const socket = new WebSocket(process.env.URL, { headers });
socket.on('message', (message) => {
    console.log(String(message));
    if (String(message).includes('for the client')) socket.close();
});
";
        client.arg("-e").arg(script).arg(package);
        reads_until_it_is_told(client, &served, &home);
    }
}

#[test]
fn the_modules_of_the_page_pass_their_own_tests() {
    let Some(mut node) = node() else {
        return;
    };
    let root = env!("CARGO_MANIFEST_DIR");
    let tests = std::fs::read_dir(format!("{root}/tests/page")).unwrap();
    let tests = tests.map(|test| test.unwrap().path());
    let tests: Vec<PathBuf> = tests
        .filter(|test| test.to_string_lossy().ends_with(".test.js"))
        .collect();
    assert!(!tests.is_empty());
    let output = node
        .arg("--test")
        .args(tests)
        .current_dir(root)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        crate::cli::text(&output.stdout)
    );
}
