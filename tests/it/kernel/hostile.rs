//! Kernels that misbehave before they run anything, and their connection files: one clear error each.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};
use td_observe::kernel::{ConnectionInfo, ExecutionResult, Kernel};
use td_observe::{Error, Result};

use super::fake::{Fake, Manners};
use super::fake_wire::{frame, greeting, ready};
use crate::support::{CEILING, wait_for};

/// Connects to a kernel and runs code.
pub fn run(fake: &Fake) -> Result<ExecutionResult> {
    Kernel::connect(&fake.info)?.execute("code", |_, _| {})
}

/// Returns the text of an error with its cause, which is one line without control characters.
#[track_caller]
pub fn text_of(error: &Error) -> String {
    let text = format!("{error:?}");
    assert!(!text.contains(char::is_control), "{text:?}");
    text
}

/// Begins with these bytes on one channel and correctly on the others.
fn beginning(channel: &'static str, bytes: Vec<u8>) -> Manners {
    Manners {
        begin: Box::new(move |other| (other == channel).then(|| bytes.clone())),
        ..Manners::default()
    }
}

#[test]
fn a_server_that_is_no_kernel_is_reported_as_such() {
    let cut = frame(4, b"\x05READY\x0bSocket-Type\0\0\0\x09ROUTER");
    let greeted = |rest: &[u8]| [&greeting(3, "NULL")[..], rest].concat();
    let readied = |rest: &[u8]| greeted(&[&ready("ROUTER")[..], rest].concat());
    for (channel, bytes, words) in [
        ("shell", greeted(&[]), "does not answer at 127.0.0.1"),
        ("iopub", Vec::new(), "does not answer at 127.0.0.1"),
        (
            "shell",
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            "no ZeroMQ socket",
        ),
        ("control", greeting(1, ""), "speaks version 1"),
        ("shell", greeting(3, "CURVE"), "encrypted (CURVE)"),
        ("iopub", greeted(&ready("ROUTER")), "a ROUTER socket"),
        ("stdin", greeted(&ready("PUB")), "a PUB socket"),
        ("hb", greeted(&cut), "is cut off"),
        (
            "shell",
            readied(&[2, 0x10, 0, 0, 0, 0, 0, 0, 0]),
            "longer than 256 MiB",
        ),
        ("shell", readied(&[1, 0].repeat(10_000)), "too many frames"),
        ("shell", readied(&[0x80, 0]), "unknown flags"),
        ("control", readied(&frame(0, b"x")), "frames are missing"),
    ] {
        let fake = Fake::start(beginning(channel, bytes));
        let began = Instant::now();
        let text = text_of(&run(&fake).unwrap_err());
        assert!(text.contains(words), "{text} has no {words:?}");
        assert!(
            began.elapsed() < Duration::from_secs(8),
            "{words}: {:?}",
            began.elapsed()
        );
    }
}

#[test]
fn a_port_without_a_listener() {
    let mut info = Fake::start(Manners::default()).info.clone();
    // Bound and dropped, so the port is probably free.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    info.shell_port = port;
    let error = Kernel::connect(&info).unwrap_err();
    assert!(error.is_gone());
    let text = text_of(&error);
    let expected = format!(
        "cannot connect to the kernel's shell socket at 127.0.0.1:{port}: it may have ended"
    );
    assert!(text.starts_with(&expected), "{text}");
}

/// A listener that accepts and sends nothing.
#[test]
fn silence() {
    let fake = Fake::start(Manners::default());
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut info = fake.info.clone();
    info.stdin_port = mute.local_addr().unwrap().port();
    let text = text_of(&Kernel::connect(&info).unwrap_err());
    assert_eq!(
        text,
        format!(
            "the kernel does not answer at 127.0.0.1:{}",
            info.stdin_port
        )
    );
}

#[test]
fn a_kernel_with_another_key() {
    let wrong = Fake::start(Manners {
        key: b"another key",
        ..Manners::default()
    });
    let text = text_of(&run(&wrong).unwrap_err());
    assert!(
        text.contains("a message is signed with another key"),
        "{text}"
    );
    // A real kernel does not answer requests whose signature is wrong.
    let deaf = Fake::start(Manners {
        is_deaf: true,
        ..Manners::default()
    });
    let error = run(&deaf).unwrap_err();
    assert!(error.is_timeout());
    let text = text_of(&error);
    assert!(
        text.contains("has not answered for 10 s") && text.contains("key"),
        "{text}"
    );
}

#[test]
fn a_kernel_without_a_heartbeat() {
    let manners = Manners {
        beats: Arc::new(AtomicBool::new(false)),
        // The code never ends.
        execute: Box::new(|answer| answer.print("x")),
        ..Manners::default()
    };
    let fake = Fake::start(manners);
    let began = Instant::now();
    let error = run(&fake).unwrap_err();
    assert!(error.is_gone());
    let text = text_of(&error);
    assert!(
        text.contains("has not answered its heartbeat for 3 s"),
        "{text}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn connection_files() {
    let fake = Fake::start(Manners {
        is_ipc: true,
        ..Manners::default()
    });
    let good: Value = serde_json::from_slice(&fs::read(fake.file()).unwrap()).unwrap();
    let path = fake.directory.path().join("other.json");
    let refused = |words: &str| {
        let error = ConnectionInfo::read(&path).unwrap_err();
        let text = text_of(&error);
        assert!(error.is_invalid_input(), "{text}");
        assert!(
            text.contains(words) && text.contains("other.json"),
            "{text} has no {words:?}"
        );
        let _ = fs::remove_file(&path);
    };
    let write = |changes: Value| {
        let mut file = good.clone();
        for (name, value) in changes.as_object().unwrap() {
            file[name] = value.clone();
        }
        fs::write(&path, file.to_string()).unwrap();
    };
    refused("there is no connection file");
    fs::create_dir(&path).unwrap();
    refused("not a regular file");
    fs::remove_dir(&path).unwrap();
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).unwrap();
    refused("not a regular file");
    write(json!({}));
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    refused("other users can write to it");
    fs::write(&path, "\x1b[2J").unwrap();
    refused("cannot use the connection file");
    write(json!({ "control_port": 0 }));
    refused("control_port is 0");
    write(json!({ "curve_publickey": "k", "curve_secretkey": "s" }));
    refused("encrypted with CURVE");
    write(json!({ "signature_scheme": "hmac-sha1" }));
    refused("hmac-sha1");
    // The correct file works, over Unix sockets.
    assert!(run(&fake).unwrap().status.is_ok());
    let mut missing = fake.info.clone();
    missing.hb_port = 77;
    let text = text_of(&Kernel::connect(&missing).unwrap_err());
    assert!(
        text.contains("the kernel's hb socket at") && text.contains("k-77"),
        "{text}"
    );
}

/// Set in a process that runs only this test, so that all of its threads belong to the test.
const ALONE: &str = "TD_TEST_KERNEL_ALONE";

#[test]
fn no_thread_is_left() {
    if std::env::var_os(ALONE).is_none() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "kernel::hostile::no_thread_is_left",
            "--nocapture",
        ]);
        let output = command.env(ALONE, "1").output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && shown.contains("1 passed"),
            "{output:#?}"
        );
        return;
    }
    let threads = || {
        let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim() == "td-kernel").count()
    };
    // A joined thread may still be listed for a short time.
    let none_is_left = |threads: &dyn Fn() -> usize| {
        wait_for("the end of the threads", CEILING, || match threads() {
            0 => Ok(()),
            left => Err(left),
        });
    };
    let fake = Fake::start(Manners::default());
    let mut kernel = Kernel::connect(&fake.info).unwrap();
    kernel.execute("code", |_, _| {}).unwrap();
    assert_eq!(threads(), 1);
    drop(kernel);
    none_is_left(&threads);
    for manners in [
        beginning("shell", b"HTTP".to_vec()),
        Manners {
            key: b"another key",
            ..Manners::default()
        },
        Manners {
            execute: Box::new(|answer| answer.close_all()),
            ..Manners::default()
        },
    ] {
        let fake = Fake::start(manners);
        run(&fake).unwrap_err();
        none_is_left(&threads);
    }
}
