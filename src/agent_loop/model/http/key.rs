//! The key's way into a request: put in its place when the request's head goes out, and nowhere
//! before.
//!
//! Why not as a header like any other: the HTTP library writes each head that it sends into its own
//! trace log. So the head is made with a stand-in of the same length, which nobody can guess, and
//! the bytes are exchanged in the buffer that goes to the network. It logs what it reads, too: a key
//! that a server sends back is covered in the buffer that comes from there.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

use super::secret::Secret;

/// What covers a key. No key has it, so that covering comes to an end.
const COVER: u8 = b' ';

/// A key and what stands for it.
pub(super) struct StandIn {
    text: String,
    key: Secret,
}

impl StandIn {
    /// Something for the key that is as long, and that nobody can guess.
    pub fn new(key: Secret) -> Self {
        let len = key.bytes().len();
        let mut text = String::with_capacity(len + 16);
        while text.len() < len {
            // The one source of randomness that needs nothing else.
            let number = RandomState::new().build_hasher().finish();
            text.push_str(&format!("{number:016x}"));
        }
        text.truncate(len);
        Self { text, key }
    }

    /// What stands for the key in a header.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Exchanges the stand-in in a request's head. In its body, which follows in a write of its
    /// own or behind the blank line, nothing is touched: what a prompt says is no head.
    fn exchange(&self, output: &mut [u8]) {
        if self.text.is_empty() || !output.starts_with(b"POST ") {
            return;
        }
        let end = memchr::memmem::find(output, b"\r\n\r\n").unwrap_or(output.len());
        let line = format!(" {}\r\n", self.text);
        // The last header ends with the head.
        let end = output.len().min(end + 2);
        if let Some(at) = memchr::memmem::find(&output[..end], line.as_bytes()) {
            output[at + 1..=at + self.text.len()].copy_from_slice(self.key.bytes());
        }
    }

    /// Covers the key in what was read and not used yet: with as many bytes, so that every length
    /// stays right.
    fn cover(&self, buffers: &mut dyn Buffers) -> Result<(), Error> {
        let key = self.key.bytes();
        if key.is_empty() || memchr::memmem::find(buffers.input(), key).is_none() {
            return Ok(());
        }
        let mut input = buffers.input().to_vec();
        while let Some(at) = memchr::memmem::find(&input, key) {
            input[at..at + key.len()].fill(COVER);
        }
        // It can only be read where it is: so it is taken out, and put in again.
        buffers.input_consume(input.len());
        let room = buffers.input_append_buf().get_mut(..input.len());
        let room = room.ok_or_else(|| Error::Io(std::io::ErrorKind::OutOfMemory.into()))?;
        room.copy_from_slice(&input);
        buffers.input_appended(input.len());
        Ok(())
    }
}

impl fmt::Debug for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StandIn")
    }
}

/// Puts the key into what goes out over the connections that come before it.
#[derive(Debug)]
pub(super) struct Keyed(pub Arc<StandIn>);

impl<In: Transport> Connector<In> for Keyed {
    type Out = KeyedTransport<In>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        Ok(chained.map(|inner| KeyedTransport {
            inner,
            stand_in: Arc::clone(&self.0),
        }))
    }
}

/// A connection that puts the key in its place.
#[derive(Debug)]
pub(super) struct KeyedTransport<T> {
    inner: T,
    stand_in: Arc<StandIn>,
}

impl<T: Transport> Transport for KeyedTransport<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        if let Some(output) = self.inner.buffers().output().get_mut(..amount) {
            self.stand_in.exchange(output);
        }
        let sent = self.inner.transmit_output(amount, timeout);
        // Whoever looks into the buffer later finds no key.
        if let Some(output) = self.inner.buffers().output().get_mut(..amount)
            && output.starts_with(b"POST ")
        {
            output.fill(0);
        }
        sent
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let has_come = self.inner.await_input(timeout)?;
        self.stand_in.cover(self.inner.buffers())?;
        Ok(has_come)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_stands_in_the_head_and_nowhere_else() {
        let stand_in = StandIn::new(Secret::new("sk-secret-0123456789"));
        assert_eq!(stand_in.text().len(), 20);
        let other = StandIn::new(Secret::new("sk-secret-0123456789"));
        assert_ne!(stand_in.text(), other.text());
        let text = stand_in.text();
        let sent = |before: &str| {
            let mut output = before.as_bytes().to_vec();
            stand_in.exchange(&mut output);
            String::from_utf8(output).unwrap()
        };
        for (before, after) in [
            (
                format!("POST / HTTP/1.1\r\nx-api-key: {text}\r\na: b\r\n\r\n{{\"{text}\": 1}}"),
                format!(
                    "POST / HTTP/1.1\r\nx-api-key: sk-secret-0123456789\r\na: b\r\n\r\n{{\"{text}\": 1}}"
                ),
            ),
            (
                format!("POST / HTTP/1.1\r\nauthorization: Bearer {text}\r\n\r\n"),
                "POST / HTTP/1.1\r\nauthorization: Bearer sk-secret-0123456789\r\n\r\n".to_owned(),
            ),
            (format!("x: {text}\r\n"), format!("x: {text}\r\n")),
        ] {
            assert_eq!(sent(&before), after);
        }
        assert!(!format!("{:?}", Keyed(Arc::new(stand_in))).contains("secret"));
    }
}
