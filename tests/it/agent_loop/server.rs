//! A local HTTP server that acts as a test has scripted it, one connection after the other.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::support::CEILING;

/// The head of an answer that streams until the connection is closed.
pub const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// The same in chunks.
pub const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// The script of a connection.
type Act = Box<dyn FnOnce(&mut Connection) + Send>;

#[derive(Debug)]
pub struct Got {
    pub head: String,
    pub body: String,
}

/// The server: its address and the requests that it received.
pub struct Server {
    pub url: String,
    pub got: Receiver<Got>,
}

/// A connection whose request has been read.
pub struct Connection(TcpStream);

impl Server {
    /// Runs these scripts, one for each connection; further connections are refused.
    pub fn new(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (give, got) = bounded(100);
        thread::spawn(move || {
            for act in acts {
                // A test may connect less often: the thread ends with the test.
                let Ok((stream, _)) = listener.accept() else {
                    return;
                };
                stream.set_nodelay(true).unwrap();
                stream.set_read_timeout(Some(CEILING)).unwrap();
                let mut connection = Connection(stream);
                if connection.request(&give) {
                    act(&mut connection);
                }
            }
        });
        Self { url, got }
    }

    pub fn once(act: impl FnOnce(&mut Connection) + Send + 'static) -> Self {
        Self::new(vec![Box::new(act)])
    }

    /// Answers with these bytes, one answer for each connection.
    pub fn answering<T: Into<Vec<u8>>>(answers: impl IntoIterator<Item = T>) -> Self {
        let acts = answers.into_iter().map(|answer| {
            let answer: Vec<u8> = answer.into();
            let act: Act = Box::new(move |connection| connection.send(&answer));
            act
        });
        Self::new(acts.collect())
    }
}

impl Connection {
    fn request(&mut self, give: &Sender<Got>) -> bool {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 16 * 1024]);
        loop {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(": ")?;
                    name.eq_ignore_ascii_case("content-length")
                        .then(|| value.parse().unwrap())
                });
                if body.len() >= length.unwrap_or(0_usize) {
                    let (head, body) = (head.to_owned(), body.to_owned());
                    // Not every test reads the requests.
                    let _ = give.try_send(Got { head, body });
                    return true;
                }
            }
            match self.0.read(&mut buffer) {
                Ok(count @ 1..) => bytes.extend_from_slice(&buffer[..count]),
                _ => return false,
            }
        }
    }

    /// Sends bytes; ignores errors, because the client may be gone.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes).and_then(|()| self.0.flush());
    }

    pub fn chunk(&mut self, bytes: &[u8]) {
        let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
        framed.extend_from_slice(bytes);
        framed.extend_from_slice(b"\r\n");
        self.send(&framed);
    }

    /// Sends nothing until the client is gone.
    pub fn hold(&mut self) {
        while matches!(self.0.read(&mut [0; 1024]), Ok(1..)) {}
    }
}

/// An answer with a status.
pub fn status(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}",
        body.len()
    )
}
