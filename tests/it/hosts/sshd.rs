//! A real ssh server with its own configuration, and the configuration of the clients that reach it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{CEILING, wait_for};

/// The program, which wants to be started by its path.
const SSHD: &str = "/usr/sbin/sshd";

/// The logins that a test of many hosts begins at once.
const STARTUPS_MAX: u32 = 200;

/// A running sshd. Dropping it ends the server; its sessions end with their namespace, or their clients.
pub struct Sshd {
    process: Child,
}

impl Sshd {
    /// Returns what is missing on this machine.
    pub fn missing() -> Option<&'static str> {
        if !Path::new(SSHD).exists() {
            Some("sshd is not installed")
        } else if Command::new("ssh").arg("-V").output().is_err() {
            Some("ssh is not installed")
        } else {
            None
        }
    }

    /// Starts a server whose files are in this directory, for clients with this public key. `lines` come
    /// first in its configuration, where the first value of an option holds; `enter` starts it elsewhere.
    pub fn start(directory: &Path, client: &Path, lines: &str, enter: Option<&Path>) -> Self {
        // A server that root starts needs this directory, which a machine has once its own server has run.
        let _ = fs::create_dir("/run/sshd");
        let key = keys(directory, "host");
        let config = directory.join("sshd_config");
        let text = format!(
            "{lines}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n\
             PermitRootLogin yes\nPasswordAuthentication no\nMaxStartups {STARTUPS_MAX}\n\
             MaxSessions {STARTUPS_MAX}\n",
            key.display(),
            public(client).display(),
        );
        fs::write(&config, text).unwrap();
        let log = fs::File::create(directory.join("sshd.log")).unwrap();
        let mut command = match enter {
            Some(enter) => Command::new(enter),
            None => Command::new(SSHD),
        };
        if enter.is_some() {
            command.arg(SSHD);
        }
        let process = command
            .args(["-D", "-e", "-f"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut server = Self { process };
        let log = directory.join("sshd.log");
        wait_for("sshd", CEILING, || {
            let printed = fs::read_to_string(&log).unwrap();
            let ended = server.process.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {printed}");
            let listens = printed.contains("Server listening on");
            listens.then_some(()).ok_or(printed)
        });
        server
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Creates a key without a passphrase; returns its file.
pub fn keys(directory: &Path, name: &str) -> PathBuf {
    let file = directory.join(name);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&file)
        .stdin(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    file
}

fn public(key: &Path) -> PathBuf {
    key.with_extension("pub")
}

/// Returns the line of `known_hosts` for the server of this directory.
pub fn known_host(name: &str, directory: &Path) -> String {
    let key = fs::read_to_string(directory.join("host.pub")).unwrap();
    format!("{name} {key}")
}

/// Writes the configuration of the clients: the sections of the hosts, and what holds for all of them.
pub fn write_client_config(
    directory: &Path,
    sections: &str,
    known_hosts: &str,
    key: &Path,
) -> PathBuf {
    let known = directory.join("known_hosts");
    fs::write(&known, known_hosts).unwrap();
    let config = directory.join("ssh_config");
    let text = format!(
        "{sections}Host *\n  User root\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  \
         GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n",
        key.display(),
        known.display(),
    );
    fs::write(&config, text).unwrap();
    config
}
