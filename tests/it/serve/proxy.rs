//! A real reverse proxy with TLS in front, as the guide prints it.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::Served;
use super::browser::{self, Browser, PHONE};
use super::gate::ASKS;
use crate::cli::text;
use crate::observer::Home;
use crate::support::{CEILING, wait_for};

const HOST: &str = "td.example.org";

/// nginx in the foreground. It ends with this.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        // nginx ends its worker before itself.
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Returns a port that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn has(program: &str) -> bool {
    let script = format!("PATH=$PATH:/usr/sbin; command -v {program}");
    let found = Command::new("sh")
        .args(["-c", &script])
        .stdout(Stdio::null())
        .status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        eprintln!("!!! {program} is not installed: skipped");
    }
    is_there
}

/// Starts nginx with the block of the guide; only addresses and paths are other ones.
fn start(directory: &Path, port: u16, to: &str) -> Proxy {
    let guide = include_str!("../../../src/guide/page.md");
    let (_, block) = guide.split_once("```nginx\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let file = |name: &str| directory.join(name).display().to_string();
    let block = block
        .replace("listen 443", &format!("listen 127.0.0.1:{port}"))
        .replace("127.0.0.1:7878", to)
        .replace("/etc/ssl/td.example.org.pem", &file("own.pem"))
        .replace("/etc/ssl/private/td.example.org.key", &file("own.key"));
    let config = format!(
        "daemon off; pid {}; error_log {} info;\nevents {{}}\nhttp {{\naccess_log off;\n{}{block}}}\n",
        file("pid"),
        file("log"),
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {};\n", file(kind)))
            .concat(),
    );
    fs::write(directory.join("nginx.conf"), config).unwrap();
    let subject = format!("/CN={HOST}");
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", &subject,
        ])
        .args(["-addext", &format!("subjectAltName=DNS:{HOST}")])
        .args(["-keyout", &file("own.key"), "-out", &file("own.pem")])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    let mut command = Command::new("nginx");
    command.args([
        "-p",
        &directory.display().to_string(),
        "-c",
        &file("nginx.conf"),
        "-e",
        &file("log"),
    ]);
    if let Ok(path) = std::env::var("PATH") {
        command.env("PATH", format!("{path}:/usr/sbin"));
    }
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let proxy = Proxy(child);
    wait_for("nginx", CEILING, || {
        TcpStream::connect(("127.0.0.1", port))
            .map_err(|_| fs::read_to_string(directory.join("log")))
    });
    proxy
}

#[test]
fn behind_a_proxy_with_tls_the_page_shows_and_answers_and_programs_read() {
    if !["nginx", "openssl", "curl"]
        .iter()
        .all(|program| has(program))
    {
        return;
    }
    let home = Home::new();
    let pane = home.server.new_session("asks", 80, 24, ASKS);
    home.server.new_session("web", 80, 24, "exec cat");
    home.start();
    let port = free_port();
    let public = format!("https://{HOST}:{port}");
    let (listen, more) = ("127.0.0.1:0", ["--allow-input", "--public-url", &public]);
    let served = Served::start_at(&home, listen, &more);
    assert!(
        served.link.starts_with(&format!("{public}/#token=")),
        "{}",
        served.link
    );
    let directory = tempfile::tempdir().unwrap();
    let _proxy = start(directory.path(), port, &served.address);
    let curl = |token: &str, more: &[&str], path: &str| {
        let output = Command::new("curl")
            .args([
                "-sN",
                "--max-time",
                "60",
                "--resolve",
                &format!("{HOST}:{port}:127.0.0.1"),
                "--cacert",
            ])
            .arg(directory.path().join("own.pem"))
            .args(["-H", &format!("Authorization: Bearer {token}")])
            .args(more)
            .arg(format!("{public}{path}"))
            .output()
            .unwrap();
        text(&output.stdout)
    };
    assert!(curl(&served.token, &[], "/api/v1/board").contains("\"name\":\"asks\""));
    assert!(
        curl(
            &served.token,
            &["-H", &format!("Origin: {public}")],
            "/page/about"
        )
        .contains("allow_input")
    );
    assert!(
        curl(
            &served.token,
            &["-H", "Origin: https://evil.example"],
            "/page/about"
        )
        .contains("403")
    );
    assert!(curl("0123456789abcdef", &[], "/page/about").contains("401"));
    // A stream is not held back: the first event arrives before the time is over.
    let events = curl(&served.token, &["--max-time", "2"], "/api/v1/events");
    assert!(events.contains("StreamOpened"), "{events}");

    if browser::is_there() {
        let rules = format!("--host-resolver-rules=MAP {HOST} 127.0.0.1");
        let mut browser = Browser::start_with(&["--ignore-certificate-errors", &rules]);
        let phone = browser.open(&PHONE, "dark", &served.link);
        browser.until(
            &phone,
            "document.querySelector('[data-choice=\"1\"]:not([aria-disabled])')",
        );
        browser.tap(&phone, "[data-choice=\"1\"]");
        home.server.wait_for_text(&pane, "\n1");
        assert_eq!(browser.complaints(), Vec::<serde_json::Value>::new());
    }
}
