//! Tests of connection files.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::*;

/// Returns a file in Jupyter's format, with changes.
fn file(changes: Value) -> Value {
    let mut file = json!({
        "shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5,
        "ip": "127.0.0.1", "key": "a secret", "transport": "tcp",
        "signature_scheme": "hmac-sha256", "kernel_name": "python3", "jupyter_session": "x",
    });
    for (name, value) in changes.as_object().unwrap() {
        file[name] = value.clone();
    }
    file
}

fn read(text: &[u8], mode: u32) -> Result<ConnectionInfo> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kernel.json");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    ConnectionInfo::read(&path)
}

fn read_with(changes: Value) -> Result<ConnectionInfo> {
    read(file(changes).to_string().as_bytes(), 0o600)
}

#[test]
fn sockets_have_the_addresses_of_the_file() {
    let endpoints = |changes| {
        let info = read_with(changes).unwrap();
        Channel::ALL.map(|channel| info.endpoint(channel).to_string())
    };
    let of = |host: &str| [1, 2, 3, 4, 5].map(|port| format!("{host}:{port}"));
    assert_eq!(endpoints(json!({})), of("127.0.0.1"));
    assert_eq!(endpoints(json!({ "ip": "*" })), of("127.0.0.1"));
    assert_eq!(endpoints(json!({ "ip": "0.0.0.0" })), of("127.0.0.1"));
    assert_eq!(endpoints(json!({ "ip": "::" })), of("::1"));
    assert_eq!(endpoints(json!({ "ip": "host" })), of("host"));
    let ipc = json!({ "ip": "/tmp/k", "transport": "ipc" });
    assert_eq!(endpoints(ipc)[4], "\"/tmp/k-5\"");
}

#[test]
fn a_written_file_is_read_back_and_belongs_to_its_user() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kernel.json");
    let info = ConnectionInfo::new("127.0.0.1".into(), [1, 2, 3, 4, 5], "k".into(), "n".into());
    info.write(&path).unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(ConnectionInfo::read(&path).unwrap(), info);
    assert!(info.write(&path).is_err(), "it exists");
}

#[test]
fn errors_name_the_problem_of_a_file() {
    let text = |changes| file(changes).to_string().into_bytes();
    for (bytes, mode, words) in [
        (text(json!({})), 0o666, "other users can write to it"),
        (b"garbage".to_vec(), 0o600, "expected value"),
        (b"{}".to_vec(), 0o600, "missing field `shell_port`"),
        (b"\xff\xfe".to_vec(), 0o600, "no text in UTF-8"),
        (vec![b' '; 70_000], 0o600, "longer than 65536 bytes"),
        (text(json!({ "hb_port": 0 })), 0o600, "hb_port is 0"),
        (text(json!({ "iopub_port": 70_000 })), 0o600, "expected u16"),
        (text(json!({ "ip": "" })), 0o600, "ip is empty"),
        (text(json!({ "ip": "a\u{0}b" })), 0o600, "no address"),
        (
            text(json!({ "transport": "inproc" })),
            0o600,
            "unknown variant `inproc`",
        ),
        (
            text(json!({ "curve_publickey": "x" })),
            0o600,
            "encrypted with CURVE",
        ),
        (
            text(json!({ "signature_scheme": "hmac-md5" })),
            0o600,
            "\"hmac-md5\"",
        ),
    ] {
        let error = read(&bytes, mode).unwrap_err();
        let shown = format!("{error:?}");
        assert!(error.is_invalid_input(), "{shown}");
        assert!(shown.contains(words), "{shown} has no {words:?}");
        assert!(shown.contains("kernel.json"), "{shown} names no file");
        assert!(!shown.contains("a secret"), "{shown}");
    }
    // Without a key, messages are not signed.
    assert!(read_with(json!({ "key": "", "signature_scheme": "hmac-md5" })).is_ok());
}

#[test]
fn a_key_is_not_shown() {
    let info = read_with(json!({})).unwrap();
    assert!(!format!("{info:?}").contains("a secret"));
}
