//! Any bytes as requests that arrive over TCP: nothing is served without the token, whatever stands in the head, and
//! a request of another page is not served with it.
//!
//! The first byte selects the address at which the server is reached, and whether the token is put into the head.

use td_observe::internals::fuzzing::tcp_status;

/// The token of the server.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

pub fn run(bytes: &[u8]) {
    let Some((&[how], bytes)) = bytes.split_first_chunk() else {
        return;
    };
    let public = (how & 1 == 1).then_some("https://td.example.org/td");
    let is_open = how & 2 == 2;
    let has_token = |bytes: &[u8]| {
        bytes
            .windows(TOKEN.len())
            .any(|part| part == TOKEN.as_bytes())
    };
    let status = tcp_status(bytes, TOKEN, public, is_open);
    assert!(
        status != Some(200) || has_token(bytes),
        "served without the token"
    );
    if how & 4 == 4 {
        let head = format!(
            "GET /api/v1/board HTTP/1.1\r\nHost: 127.0.0.1:7700\r\nAuthorization: Bearer {TOKEN}\r\n\
             Origin: http://evil.example\r\n"
        );
        let status = tcp_status(&[head.as_bytes(), bytes].concat(), TOKEN, public, is_open);
        assert_ne!(status, Some(200), "served to another page");
    }
}
