//! Messages of the Jupyter protocol, versions 5.3 and 5.4: signs, encodes and decodes them (pure).
//!
//! Source: <https://jupyter-client.readthedocs.io/en/stable/messaging.html>. A message is a list of
//! frames: identities or a topic, a delimiter, a signature, four JSON objects (header, parent header,
//! metadata, content), and buffers. The signature is the HMAC-SHA256 of the four objects, in hexadecimal
//! digits.

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::Sha256;

use super::zmtp::Multipart;

/// Separates the identities from the message.
const DELIMITER: &[u8] = b"<IDS|MSG>";

/// The protocol version in the header of requests.
const VERSION: &str = "5.3";

/// The socket of a kernel that a message came from or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// Requests for execution.
    Shell,
    /// Published output and states, for all clients.
    Iopub,
    /// The kernel's input requests.
    Stdin,
    /// Interrupts and shutdown.
    Control,
    /// An echo of the heartbeat.
    Heartbeat,
}

impl Channel {
    pub const ALL: [Self; 5] = [
        Self::Shell,
        Self::Iopub,
        Self::Stdin,
        Self::Control,
        Self::Heartbeat,
    ];

    /// Returns the name that connection files use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Iopub => "iopub",
            Self::Stdin => "stdin",
            Self::Control => "control",
            Self::Heartbeat => "hb",
        }
    }
}

/// Signs messages and checks signatures.
#[derive(Clone)]
pub(crate) struct Signer(Option<Hmac<Sha256>>);

impl Signer {
    /// Creates a signer. As the protocol specifies, an empty key signs nothing and accepts everything.
    pub fn new(key: &[u8]) -> Self {
        let mac = Hmac::new_from_slice(key).ok();
        Self(mac.filter(|_| !key.is_empty()))
    }

    fn mac(&self, parts: &[&[u8]; 4]) -> Option<Hmac<Sha256>> {
        let mut mac = self.0.clone()?;
        for part in parts {
            mac.update(part);
        }
        Some(mac)
    }

    fn sign(&self, parts: &[&[u8]; 4]) -> String {
        let mut digits = String::new();
        if let Some(mac) = self.mac(parts) {
            for byte in mac.finalize().into_bytes() {
                // Writing to a string does not fail.
                let _ = write!(digits, "{byte:02x}");
            }
        }
        digits
    }

    fn accepts(&self, signature: &[u8], parts: &[&[u8]; 4]) -> bool {
        let Some(mac) = self.mac(parts) else {
            return true;
        };
        bytes_of_hex(signature).is_some_and(|signature| mac.verify_slice(&signature).is_ok())
    }
}

fn bytes_of_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(value(high)? * 16 + value(low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

/// The received frames are not a valid Jupyter message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// The signature does not match the key.
    #[error("a message is signed with another key: is the connection file that of this kernel?")]
    Signature,
    /// The frames do not form a message.
    #[error("a message is malformed: {0}")]
    Malformed(String),
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Header {
    #[serde(default)]
    pub msg_id: String,
    #[serde(default)]
    pub msg_type: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub channel: Channel,
    pub msg_type: String,
    /// The id of the request that the message belongs to; empty if there is none.
    pub parent_id: String,
    /// The type of that request.
    pub parent_type: String,
    content: Box<RawValue>,
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// If the signature is wrong, or the message is malformed.
    pub fn read(channel: Channel, frames: &Multipart, signer: &Signer) -> Result<Self, WireError> {
        let mut frames = frames.frames().skip_while(|frame| *frame != DELIMITER);
        let missing = || WireError::Malformed("frames are missing".to_owned());
        frames.next().ok_or_else(missing)?;
        let mut next = || frames.next().ok_or_else(missing);
        let signature = next()?;
        let parts = [next()?, next()?, next()?, next()?];
        if !signer.accepts(signature, &parts) {
            return Err(WireError::Signature);
        }
        let [header, parent, metadata, content] = parts;
        let malformed = |part: &str, error: serde_json::Error| {
            WireError::Malformed(format!("the {part}: {error}"))
        };
        let header: Header =
            serde_json::from_slice(header).map_err(|error| malformed("header", error))?;
        let parent: Header =
            serde_json::from_slice(parent).map_err(|error| malformed("parent header", error))?;
        // The metadata are not used, but invalid JSON means that the message is damaged.
        serde_json::from_slice::<&RawValue>(metadata)
            .map_err(|error| malformed("metadata", error))?;
        // Python's kernel passes on printed bytes that are not UTF-8, for example in file names.
        let content = String::from_utf8_lossy(content);
        let content =
            serde_json::from_str(&content).map_err(|error| malformed("content", error))?;
        Ok(Self {
            channel,
            msg_type: header.msg_type,
            parent_id: parent.msg_id,
            parent_type: parent.msg_type,
            content,
        })
    }

    /// Decodes the content; `None` if it has another form. The fields of `T` have defaults.
    pub fn content<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_str(self.content.get()).ok()
    }

    /// Returns the approximate size of the message in bytes.
    pub fn size(&self) -> usize {
        const FIXED: usize = 256;
        FIXED + self.content.get().len()
    }
}

#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub msg_id: &'a str,
    pub msg_type: &'a str,
    pub session: &'a str,
    /// The time in RFC 3339 format.
    pub date: &'a str,
    pub content: &'a serde_json::Value,
}

impl Request<'_> {
    /// Returns the frames of the message.
    pub fn frames(&self, signer: &Signer) -> Vec<Vec<u8>> {
        let header = serde_json::json!({
            "msg_id": self.msg_id,
            "msg_type": self.msg_type,
            "session": self.session,
            "username": "td-observe",
            "date": self.date,
            "version": VERSION,
        });
        let (header, content) = (header.to_string(), self.content.to_string());
        // A request has no parent and no metadata.
        let parts = [header.as_bytes(), b"{}", b"{}", content.as_bytes()];
        let signature = signer.sign(&parts);
        let frames = [DELIMITER, signature.as_bytes()].into_iter().chain(parts);
        frames.map(<[u8]>::to_vec).collect()
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
