//! ZMTP and signed messages, as the fake kernel writes and reads them.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub fn clone(&self) -> Self {
        match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone().unwrap()),
            Self::Unix(stream) => Self::Unix(stream.try_clone().unwrap()),
        }
    }

    pub fn close(&self) {
        // The connection may already be closed.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
        }
    }

    pub fn read<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.read_exact(bytes),
            Self::Unix(stream) => stream.read_exact(bytes),
        }
    }

    /// Reads the frames of a message; skips commands.
    pub fn message(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut frames = Vec::new();
        loop {
            let [flags, size] = self.read()?;
            let size = match flags & 2 {
                0 => u64::from(size),
                _ => {
                    let rest: [u8; 7] = self.read()?;
                    rest.iter()
                        .fold(u64::from(size), |all, byte| all << 8 | u64::from(*byte))
                }
            };
            let mut body = vec![0; usize::try_from(size).unwrap()];
            self.fill(&mut body)?;
            if flags & 4 == 0 {
                frames.push(body);
                if flags & 1 == 0 {
                    return Ok(frames);
                }
            }
        }
    }
}

pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
            Self::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        }
    }
}

pub fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = match u8::try_from(body.len()) {
        Ok(size) => vec![flags, size],
        Err(_) => [&[flags | 2][..], &(body.len() as u64).to_be_bytes()].concat(),
    };
    bytes.extend_from_slice(body);
    bytes
}

/// Returns a greeting of this version with this mechanism.
pub fn greeting(version: u8, mechanism: &str) -> Vec<u8> {
    let mut greeting = vec![0; 64];
    (greeting[0], greeting[9], greeting[10]) = (0xff, 0x7f, version);
    greeting[12..12 + mechanism.len()].copy_from_slice(mechanism.as_bytes());
    greeting
}

pub fn ready(socket_type: &str) -> Vec<u8> {
    let size = u32::try_from(socket_type.len()).unwrap().to_be_bytes();
    let body = [
        b"\x05READY\x0bSocket-Type",
        &size[..],
        socket_type.as_bytes(),
    ]
    .concat();
    frame(4, &body)
}

/// Returns the frames of a signed message: delimiter, signature, header, parent, metadata, content.
pub fn message(key: &[u8], msg_type: &str, parent: &Value, content: &Value) -> Vec<Vec<u8>> {
    let header = json!({ "msg_id": "k", "msg_type": msg_type, "version": "5.3" });
    let parts = [&header, parent, &json!({}), content].map(|part| part.to_string().into_bytes());
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    let digits = mac
        .finalize()
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    [b"<IDS|MSG>".to_vec(), digits.into_bytes()]
        .into_iter()
        .chain(parts)
        .collect()
}

pub fn frames(frames: &[Vec<u8>]) -> Vec<u8> {
    let last = frames.len() - 1;
    let frames = frames.iter().enumerate();
    frames
        .flat_map(|(index, body)| frame(u8::from(index < last), body))
        .collect()
}
