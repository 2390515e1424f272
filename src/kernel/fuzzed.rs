//! Parsers of kernels' messages and files as functions of bytes, for the fuzz target.

use std::path::Path;

use super::cell::{Cell, CellStep};
use super::connection::ConnectionInfo;
use super::kernelspec::KernelSpec;
use super::notebook::{CellOutputs, Notebook};
use super::protocol::{Channel, Message, Signer};
use super::protocol::{Peer, SocketType};

/// Returns the outputs in the bytes of an iopub socket, as text and in notebook format.
pub(crate) fn published(pieces: &[&[u8]]) -> (Vec<String>, Vec<serde_json::Value>) {
    let (mut peer, signer) = (Peer::new(SocketType::Sub, b""), Signer::new(b""));
    let (mut cell, mut outputs, mut texts) = (Cell::default(), CellOutputs::default(), Vec::new());
    'pieces: for piece in pieces {
        peer.receive(piece);
        loop {
            let frames = match peer.next() {
                Ok(Some(frames)) => frames,
                Ok(None) => break,
                // The connection would be closed here.
                Err(_) => break 'pieces,
            };
            let Ok(message) = Message::read(Channel::Iopub, &frames, &signer) else {
                break 'pieces;
            };
            if let CellStep::Output(output) = cell.take(&message) {
                texts.extend(output.text().map(|(_, text)| text));
                texts.extend(output.log_line().map(|line| line.message));
                outputs.push(&output);
            }
        }
    }
    (texts, outputs.stored())
}

/// Returns the bytes that a publishing socket sends: its handshake, then a message with these parts.
pub(crate) fn socket_bytes(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0];
    bytes.extend_from_slice(b"NULL");
    bytes.resize(64, 0);
    bytes.extend_from_slice(b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB");
    for (at, part) in parts.iter().enumerate() {
        let more = u8::from(at + 1 < parts.len());
        bytes.push(more | 2);
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

/// Parses a connection file and returns the address of its heartbeat.
pub(crate) fn connection(text: &str) -> Option<String> {
    let info = ConnectionInfo::parse(text).ok()?;
    Some(info.endpoint(Channel::Heartbeat).to_string())
}

/// Parses a specification and returns the number of words of its command.
pub(crate) fn spec_words(text: &str) -> Option<usize> {
    let spec = KernelSpec::parse(text, Path::new("/k/share/jupyter/kernels/x")).ok()?;
    Some(spec.command(Path::new("/run/kernel-1.json")).len())
}

/// Parses a notebook and returns it without outputs.
pub(crate) fn notebook(text: &str) -> Option<String> {
    let mut notebook = Notebook::read(text).ok()?;
    let cells = notebook.code_cells();
    notebook.clear_outputs();
    for cell in &cells {
        notebook.set_outputs(cell.number, Some(cell.number), Vec::new());
    }
    notebook.text().ok()
}
