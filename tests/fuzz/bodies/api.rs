//! Any bytes as the data that arrives at either end of the observer's socket: requests, answers, and the
//! stream of events, in any pieces.
//!
//! The first byte selects the kind of data, the second the division into pieces.

use td_observe::internals::fuzzing::{answer, cursor, request_head, stream_items};

use super::cut::cut;

/// More pieces slow a case down, because the reader waits for each.
const PIECES_MAX: usize = 6;
/// The buffer of the socket holds this many bytes.
const STREAM_BYTES_MAX: usize = 64 * 1024;
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

pub fn run(bytes: &[u8]) {
    let Some((&[which, cuts], bytes)) = bytes.split_first_chunk() else {
        return;
    };
    match which % 5 {
        0 => request(bytes),
        1 => drop(answer(bytes)),
        2 => drop(answer(&[HEAD, bytes].concat())),
        3 => stream(bytes, cuts),
        _ => {
            let frames = chunked(bytes, cuts);
            stream(&[HEAD, &frames].concat(), cuts);
        }
    }
}

fn request(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Some(written) = cursor(text)
    {
        assert_eq!(cursor(&written).as_ref(), Some(&written));
    }
    let Some(Ok((length, parts))) = request_head(bytes) else {
        return;
    };
    assert!(parts.iter().all(|part| !part.is_empty()));
    // The bytes after the head, such as a body, do not affect it.
    let head = bytes.get(..length).expect("a head within the bytes");
    assert_eq!(request_head(head), Some(Ok((length, parts))));
    assert_eq!(request_head(&head[..length - 1]), None, "half a head");
}

fn stream(bytes: &[u8], cuts: u8) {
    if bytes.len() > STREAM_BYTES_MAX {
        return;
    }
    let mut pieces = cut(bytes, cuts);
    let rest: usize = pieces
        .iter()
        .skip(PIECES_MAX)
        .map(|piece| piece.len())
        .sum();
    if rest > 0 {
        pieces.truncate(PIECES_MAX);
        pieces.push(&bytes[bytes.len() - rest..]);
    }
    let whole = stream_items(&[bytes]).unwrap();
    assert_eq!(stream_items(&pieces).unwrap(), whole, "cut otherwise");
}

/// Returns the bytes as a body in chunks.
fn chunked(bytes: &[u8], cuts: u8) -> Vec<u8> {
    let mut body = Vec::new();
    for piece in cut(bytes, cuts.wrapping_add(7)) {
        body.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        body.extend_from_slice(piece);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"0\r\n\r\n");
    body
}
