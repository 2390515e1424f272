//! The size of the observer's diagnostics is limited.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use super::{Home, request};
use crate::cli::assert_code;
use crate::support::{CEILING, wait_for};

/// The largest size of each of the two files.
const BYTES_MAX: u64 = 1024 * 1024;

#[test]
fn diagnostics_are_rotated() {
    let home = Home::new();
    home.server.new_session("a", 80, 24, "exec cat");
    fs::create_dir(home.data()).unwrap();
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o700)).unwrap();
    let (log, older) = (
        home.data().join("observer.log"),
        home.data().join("observer.log.1"),
    );
    let socket = home.server.socket().display().to_string();
    let start = home.run(&["start", "-vv", "-S", &socket]);
    assert_code(&start, 0);
    for round in ["first", "second"] {
        // Almost full, as after many days.
        let mut file = fs::OpenOptions::new().append(true).open(&log).unwrap();
        let room = BYTES_MAX - file.metadata().unwrap().len();
        let line = format!("{round} {}\n", "x".repeat(1000));
        let lines = line.repeat(usize::try_from(room).unwrap() / line.len());
        file.write_all(lines.as_bytes()).unwrap();
        wait_for("the rotation", CEILING, || {
            // Each client closes before it is answered, which is logged.
            let mut client = std::os::unix::net::UnixStream::connect(home.socket()).unwrap();
            client.write_all(b"GET /heal").unwrap();
            drop(client);
            request(&home.socket(), "GET /healthz HTTP/1.1\r\n\r\n");
            let text = fs::read_to_string(&older).unwrap_or_default();
            text.contains(round).then_some(()).ok_or(text.len())
        });
        // The line that exceeded the limit is written after the rotation.
        wait_for("the line after the rotation", CEILING, || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let is_new = !text.contains(round) && text.contains("is gone");
            is_new.then_some(()).ok_or(text.len())
        });
        for path in [&log, &older] {
            let found = fs::metadata(path).unwrap();
            assert!(found.len() <= BYTES_MAX, "{path:?}: {}", found.len());
            assert_eq!(found.permissions().mode() & 0o777, 0o600, "{path:?}");
        }
    }
    let mut files = fs::read_dir(home.data()).unwrap();
    assert_eq!(
        files
            .by_ref()
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().starts_with("observer.log")
            })
            .count(),
        2
    );
    assert_code(&home.run(&["stop"]), 0);
}
