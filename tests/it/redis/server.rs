//! A Redis for one test: its own socket or port and directory, ended by its process id.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{CEILING, wait_for};

/// A server that a test starts, kills and starts again with the same data.
pub struct Redis {
    directory: tempfile::TempDir,
    port: u16,
    options: Vec<String>,
    child: Option<Child>,
}

/// Returns true if there is a Redis; says so if there is none.
pub fn is_installed() -> bool {
    let is_there = Command::new("redis-server")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !is_there {
        eprintln!("!!! redis-server is not installed: skipped");
    }
    is_there
}

impl Redis {
    /// Starts a server that syncs once a second, with these options, too; `None` if none is installed.
    pub fn start(options: &[&str]) -> Option<Self> {
        is_installed().then(|| {
            let mut server = Self {
                directory: tempfile::tempdir().unwrap(),
                port: free_port(),
                options: options.iter().map(|&option| option.to_owned()).collect(),
                child: None,
            };
            server.restart();
            server
        })
    }

    /// Starts the server again, after [`Redis::kill`].
    pub fn restart(&mut self) {
        self.restart_with(&[]);
    }

    pub fn restart_with(&mut self, more: &[&str]) {
        let directory = self.directory.path().to_owned();
        let log = fs::File::create(directory.join("log")).unwrap();
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", ""])
            .args(["--port", &self.port.to_string()])
            .args(["--appendonly", "yes", "--appendfsync", "everysec"])
            .args(["--auto-aof-rewrite-percentage", "0"])
            .arg("--dir")
            .arg(&directory)
            .args(&self.options)
            .args(more)
            .stdin(Stdio::null())
            .stdout(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        wait_for("redis-server to answer", CEILING, || {
            let log = fs::read_to_string(directory.join("log")).unwrap();
            let is_ready = log.contains("Ready to accept connections");
            is_ready.then_some(()).ok_or(log)
        });
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }

    /// Kills the server as a power cut would: what it has not written is lost.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
            child.wait().unwrap();
        }
    }

    /// Cuts the end of what the server has on its disk, as if it had not reached it.
    pub fn lose(&self, bytes: u64) {
        let aof = self.directory.path().join("appendonlydir");
        let newest = fs::read_dir(&aof)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_str().unwrap().ends_with(".incr.aof"))
            .max()
            .unwrap();
        let file = fs::OpenOptions::new().write(true).open(newest).unwrap();
        let len = file.metadata().unwrap().len();
        file.set_len(len.saturating_sub(bytes)).unwrap();
    }

    /// Sends a command, and returns the raw answer up to the answer to a PING after it.
    pub fn raw(&self, command: &[&str]) -> String {
        ask(self.port, &[command])
    }

    /// Returns the answer to a command as a number.
    pub fn number(&self, command: &[&str]) -> u64 {
        let answer = self.raw(command);
        let digits = answer.trim().strip_prefix(':');
        digits
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_else(|| panic!("{command:?}: {answer}"))
    }

    /// Returns the lines of the logs in the entries of a stream.
    pub fn lines(&self, stream: &str) -> Vec<String> {
        let answer = self.raw(&["XRANGE", stream, "-", "+"]);
        let lines = answer.split("\r\n").filter(|line| line.starts_with('{'));
        lines.map(str::to_owned).collect()
    }

    /// Returns the ids of the entries of a stream.
    pub fn ids(&self, stream: &str) -> Vec<(u64, u64)> {
        let answer = self.raw(&["XRANGE", stream, "-", "+"]);
        let ids = answer.split("\r\n").filter_map(|line| {
            let (ms, number) = line.split_once('-')?;
            Some((ms.parse().ok()?, number.parse().ok()?))
        });
        ids.collect()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends commands and returns the raw answers.
pub fn ask(port: u16, commands: &[&[&str]]) -> String {
    const END: &str = "the-end-of-the-answers";
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(CEILING)).unwrap();
    let end = ["ECHO", END];
    let mut text = String::new();
    for command in commands.iter().copied().chain([&end[..]]) {
        text += &format!("*{}\r\n", command.len());
        for word in command {
            text += &format!("${}\r\n{word}\r\n", word.len());
        }
    }
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut bytes = [0; 64 * 1024];
    let end = format!("${}\r\n{END}\r\n", END.len());
    while !answer.ends_with(end.as_bytes()) {
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&bytes[..count]);
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.strip_suffix(&end).unwrap().to_owned()
}

/// Returns a port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Returns the path of a file with this content that only its owner can read.
pub fn private_file(directory: &Path, name: &str, content: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}
