//! The web page and the API over TCP: who gets in, what programs read, and what real browsers show.

mod access;
pub mod browser;
mod clients;
mod gate;
mod output;
mod page;
mod peers;
mod proxy;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::Value;

use crate::cli::{Running, text};
use crate::observer::Home;
use crate::support::CEILING;

/// A running `td-observe serve`.
pub struct Served {
    /// `None` at the end.
    running: Option<Running>,
    /// The printed link.
    pub link: String,
    /// The address that it listens at.
    pub address: String,
    pub token: String,
}

impl Served {
    /// Starts a server at a free port.
    #[track_caller]
    pub fn start(home: &Home, more: &[&str]) -> Self {
        Self::start_at(home, "127.0.0.1:0", more)
    }

    #[track_caller]
    pub fn start_at(home: &Home, listen: &str, more: &[&str]) -> Self {
        let socket = home.server.socket().display().to_string();
        let args = [&["serve", "-S", &socket, "--listen", listen], more].concat();
        Self::of(home, home.command(&args))
    }

    /// Starts a server by its command; the home is its own.
    #[track_caller]
    pub fn of(home: &Home, command: Command) -> Self {
        let running = Running::start(command);
        let line = running.lines.recv_timeout(CEILING);
        let link = line.unwrap_or_else(|_| panic!("{:?}", running.complaints()));
        let (_, token) = link.split_once("/#token=").unwrap();
        let announced = fs::read(home.data().join("serve.json")).unwrap();
        let announced: Value = serde_json::from_slice(&announced).unwrap();
        Self {
            address: announced["address"].as_str().unwrap().to_owned(),
            token: token.to_owned(),
            link: link.clone(),
            running: Some(running),
        }
    }

    /// Ends the server with a signal; returns what it has printed.
    #[track_caller]
    pub fn end(mut self, signal: Signal) -> Output {
        let running = self.running.take().unwrap();
        running.signal(signal);
        running.end()
    }

    /// Sends the head of a request, and its body if there is one, with the headers that programs send.
    #[track_caller]
    pub fn ask(&self, line: &str, body: &str) -> Answer {
        let length = body.len();
        self.send(&format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: {length}\r\n\r\n{body}",
            self.address, self.token
        ))
    }

    /// Sends bytes, and reads until the server closes the connection.
    #[track_caller]
    pub fn send(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        // A server that refuses a request closes before it has read all of it.
        let _ = stream.write_all(request.as_bytes());
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Answer::of(&text(&bytes))
    }

    #[track_caller]
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(CEILING)).unwrap();
        stream
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(running) = &mut self.running {
            // A test has failed, or needs no end in order.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

/// An answer to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    #[track_caller]
    fn of(answer: &str) -> Self {
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Self {
            status: status.unwrap_or_default(),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
