//! A fake kernel that speaks just enough of ZMTP 3.0 and of Jupyter's messages to be hostile.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};
use td_observe::kernel::ConnectionInfo;

use super::fake_wire::{Listener, Stream, frames, greeting, message, ready};
use crate::support::{CEILING, wait_for};

/// The channels in the order of their ports.
pub const CHANNELS: [&str; 5] = ["shell", "iopub", "stdin", "control", "hb"];

pub const KEY: &[u8] = b"the key of the tests";

type Execute = dyn Fn(&Answer<'_>) + Send + Sync;

/// Returns the bytes with which a connection of a channel begins instead of the handshake.
type Begin = dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync;

/// The behaviour of a kernel.
pub struct Manners {
    pub begin: Box<Begin>,
    /// Called for each execution request.
    pub execute: Box<Execute>,
    /// While false, heartbeats are not answered.
    pub beats: Arc<AtomicBool>,
    pub is_ipc: bool,
    /// The signing key; the connection file contains [`KEY`].
    pub key: &'static [u8],
    /// True if the kernel answers no request.
    pub is_deaf: bool,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            begin: Box::new(|_| None),
            execute: Box::new(|answer| answer.end()),
            beats: Arc::new(AtomicBool::new(true)),
            is_ipc: false,
            key: KEY,
            is_deaf: false,
        }
    }
}

/// A request, and the ways to answer it.
pub struct Answer<'a> {
    shared: &'a Shared,
    parent: &'a Value,
    shell: Mutex<Stream>,
}

impl Answer<'_> {
    pub fn frames(&self, msg_type: &str, content: &Value) -> Vec<Vec<u8>> {
        message(self.shared.manners.key, msg_type, self.parent, content)
    }

    /// Sends bytes unchanged on iopub.
    pub fn raw(&self, bytes: &[u8]) {
        for stream in self.shared.subscribers.lock().unwrap().iter_mut() {
            // The client may have given up.
            let _ = stream.send(bytes);
        }
    }

    pub fn publish(&self, msg_type: &str, content: &Value) {
        self.raw(&frames(&self.frames(msg_type, content)));
    }

    /// Publishes a message whose frames `change` has modified.
    pub fn publish_changed(&self, change: impl FnOnce(&mut Vec<Vec<u8>>)) {
        let mut message = self.frames("stream", &json!({ "name": "stdout", "text": "x" }));
        change(&mut message);
        self.raw(&frames(&message));
    }

    pub fn print(&self, text: &str) {
        self.publish("stream", &json!({ "name": "stdout", "text": text }));
    }

    pub fn status(&self, state: &str) {
        self.publish("status", &json!({ "execution_state": state }));
    }

    pub fn reply(&self, msg_type: &str, content: &Value) {
        let _ = self
            .shell
            .lock()
            .unwrap()
            .send(&frames(&self.frames(msg_type, content)));
    }

    /// Sends the reply and the status `idle`.
    pub fn end(&self) {
        self.reply(
            "execute_reply",
            &json!({ "status": "ok", "execution_count": 1 }),
        );
        self.status("idle");
    }

    pub fn close_all(&self) {
        self.shared.close_all();
    }
}

struct Shared {
    manners: Manners,
    subscribers: Mutex<Vec<Stream>>,
    connections: Mutex<Vec<Stream>>,
    is_over: AtomicBool,
    beats: AtomicUsize,
}

impl Shared {
    fn close_all(&self) {
        self.subscribers.lock().unwrap().clear();
        self.connections
            .lock()
            .unwrap()
            .drain(..)
            .for_each(|stream| stream.close());
    }

    /// Serves one connection until its end.
    fn serve(&self, channel: &str, mut stream: Stream) -> io::Result<()> {
        if let Some(bytes) = (self.manners.begin)(channel) {
            stream.send(&bytes)?;
            stream.close();
            return Ok(());
        }
        stream.send(&greeting(3, "NULL"))?;
        let socket_type = match channel {
            "iopub" => "PUB",
            "hb" => "REP",
            _ => "ROUTER",
        };
        stream.send(&ready(socket_type))?;
        let _: [u8; 64] = stream.read()?;
        loop {
            let message = stream.message()?;
            match channel {
                "iopub" => self.subscribers.lock().unwrap().push(stream.clone()),
                "hb" => {
                    while !self.manners.beats.load(Ordering::SeqCst) {
                        if self.is_over.load(Ordering::SeqCst) {
                            return Ok(());
                        }
                        thread::park_timeout(Duration::from_millis(5));
                    }
                    self.beats.fetch_add(1, Ordering::SeqCst);
                    stream.send(&frames(&message))?;
                }
                _ if self.manners.is_deaf => {}
                _ => {
                    let parent: Value = serde_json::from_slice(&message[2]).unwrap();
                    let answer = Answer {
                        shared: self,
                        parent: &parent,
                        shell: Mutex::new(stream.clone()),
                    };
                    match parent["msg_type"].as_str().unwrap() {
                        "kernel_info_request" => {
                            answer.status("busy");
                            answer.reply("kernel_info_reply", &json!({ "implementation": "fake" }));
                            answer.status("idle");
                        }
                        "execute_request" => {
                            answer.status("busy");
                            (self.manners.execute)(&answer);
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

/// The running kernel; dropping it stops it and joins its threads.
pub struct Fake {
    pub info: ConnectionInfo,
    /// The directory of the connection file and of ipc sockets.
    pub directory: tempfile::TempDir,
    shared: Arc<Shared>,
    listeners: Vec<(Arc<Listener>, JoinHandle<()>)>,
}

impl Fake {
    pub fn start(manners: Manners) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("td-test-")
            .tempdir()
            .unwrap();
        let is_ipc = manners.is_ipc;
        let path = directory.path().join("k");
        let bound = (1..=5).map(|number| {
            if is_ipc {
                let listener = UnixListener::bind(format!("{}-{number}", path.display())).unwrap();
                (Listener::Unix(listener), number)
            } else {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let port = listener.local_addr().unwrap().port();
                (Listener::Tcp(listener), port)
            }
        });
        let (bound, ports): (Vec<_>, Vec<u16>) = bound.unzip();
        let shared = Arc::new(Shared {
            manners,
            subscribers: Mutex::default(),
            connections: Mutex::default(),
            is_over: AtomicBool::new(false),
            beats: AtomicUsize::new(0),
        });
        let listeners = bound.into_iter().zip(CHANNELS).map(|(listener, channel)| {
            let (listener, shared) = (Arc::new(listener), shared.clone());
            let own = listener.clone();
            (
                listener,
                thread::spawn(move || accept(&own, channel, &shared)),
            )
        });
        let listeners = listeners.collect();
        let ip = if is_ipc {
            path.display().to_string()
        } else {
            "127.0.0.1".to_owned()
        };
        let info = ConnectionInfo::read(connection_file(&directory, &ip, is_ipc, &ports)).unwrap();
        Self {
            info,
            directory,
            shared,
            listeners,
        }
    }

    pub fn file(&self) -> PathBuf {
        self.directory.path().join("kernel.json")
    }

    /// Closes all connections; new ones are accepted.
    pub fn close_all(&self) {
        self.shared.close_all();
    }

    /// Waits until this many more heartbeats were answered.
    pub fn wait_for_beats(&self, count: usize) {
        let end = self.shared.beats.load(Ordering::SeqCst) + count;
        wait_for("heartbeats", CEILING, || {
            let beats = self.shared.beats.load(Ordering::SeqCst);
            if beats >= end { Ok(()) } else { Err(beats) }
        });
    }
}

fn connection_file(
    directory: &tempfile::TempDir,
    ip: &str,
    is_ipc: bool,
    ports: &[u16],
) -> PathBuf {
    let mut file = json!({
        "ip": ip, "transport": if is_ipc { "ipc" } else { "tcp" },
        "key": String::from_utf8_lossy(KEY), "signature_scheme": "hmac-sha256",
    });
    for (channel, port) in CHANNELS.iter().zip(ports) {
        file[format!("{channel}_port")] = json!(port);
    }
    let path = directory.path().join("kernel.json");
    std::fs::write(&path, file.to_string()).unwrap();
    path
}

fn accept(listener: &Listener, channel: &str, shared: &Arc<Shared>) {
    thread::scope(|scope| {
        while let Ok(stream) = listener.accept() {
            if shared.is_over.load(Ordering::SeqCst) {
                break;
            }
            shared.connections.lock().unwrap().push(stream.clone());
            scope.spawn(move || {
                let last = stream.clone();
                // The client closes its connections.
                let _ = shared.serve(channel, stream);
                last.close();
            });
        }
        shared.close_all();
    });
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for (listener, thread) in self.listeners.drain(..) {
            // A connection wakes the accepting thread.
            match &*listener {
                Listener::Tcp(listener) => drop(TcpStream::connect(listener.local_addr().unwrap())),
                Listener::Unix(listener) => {
                    let address = listener.local_addr().unwrap();
                    drop(UnixStream::connect(address.as_pathname().unwrap()));
                }
            }
            let joined = thread.join();
            if !thread::panicking() {
                joined.unwrap();
            }
        }
    }
}
