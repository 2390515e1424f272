//! Any bytes as the data that a kernel publishes, and any text as its files.
//!
//! The first byte selects what precedes the bytes: nothing, a handshake, or a handshake and the frame of a
//! message. The second selects the division into pieces.

use td_observe::internals::fuzzing::{
    kernel_connection, kernel_notebook, kernel_published, kernel_socket, kernel_spec_words,
};

use super::cut::cut;

pub fn run(bytes: &[u8]) {
    let Some((&[how, cuts], rest)) = bytes.split_first_chunk() else {
        return;
    };
    let sent = match how % 3 {
        0 => rest.to_vec(),
        1 => [kernel_socket(&[]), rest.to_vec()].concat(),
        _ => {
            // The first line is the type of the message, the rest its content.
            let mut lines = rest.splitn(2, |byte| *byte == b'\n');
            let kind = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
            let header = serde_json::json!({ "msg_id": "1", "msg_type": kind }).to_string();
            let content = lines.next().unwrap_or_default();
            kernel_socket(&[b"<IDS|MSG>", b"", header.as_bytes(), b"{}", b"{}", content])
        }
    };
    let whole = kernel_published(&[&sent]);
    // The division into pieces has no effect.
    assert_eq!(kernel_published(&cut(&sent, cuts)), whole);
    assert!(whole.0.iter().map(String::len).sum::<usize>() <= 16 * sent.len());
    let text = String::from_utf8_lossy(rest);
    kernel_connection(&text);
    assert_ne!(
        kernel_spec_words(&text),
        Some(0),
        "a command without a program"
    );
    if let Some(notebook) = kernel_notebook(&text) {
        // A written notebook is parsed unchanged.
        assert_eq!(kernel_notebook(&notebook), Some(notebook.clone()));
    }
}
