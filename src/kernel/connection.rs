//! Connection files: where a kernel's sockets are, and the key that signs its messages.
//!
//! Source: <https://jupyter-client.readthedocs.io/en/stable/kernels.html#connection-files>.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::protocol::Channel;
use crate::error::{Error, Result};
use crate::history::read_trusted_file;

/// The only supported signature scheme.
const SCHEME: &str = "hmac-sha256";

/// The transport of a kernel's sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Transport {
    /// TCP: [`ConnectionInfo::ip`] is an address or a name, and each port is a TCP port.
    #[default]
    Tcp,
    /// Unix sockets: [`ConnectionInfo::ip`] is a path, and the socket of port 3 is `PATH-3`.
    Ipc,
}

/// The content of a connection file. For a kernel in a container, change the ports to the mapped ones.
///
/// ```no_run
/// # fn main() -> td_observe::Result<()> {
/// let mut info = td_observe::kernel::ConnectionInfo::read("kernel-1234.json")?;
/// // The ports of a container, as they are mapped on this host.
/// info.ip = "127.0.0.1".to_owned();
/// info.iopub_port = 12346;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// The port for requests.
    pub shell_port: u16,
    /// The port for published output and states.
    pub iopub_port: u16,
    /// The port for the kernel's input requests.
    pub stdin_port: u16,
    /// The port for interrupts and shutdown.
    pub control_port: u16,
    /// The port of the heartbeat.
    pub hb_port: u16,
    /// The address or name of the host; for Unix sockets, the prefix of their paths.
    pub ip: String,
    /// The key that signs messages; empty for unsigned messages. A program that knows the key can run code.
    pub key: String,
    /// The transport.
    #[serde(default)]
    pub transport: Transport,
    /// The signature scheme: `hmac-sha256`.
    #[serde(default)]
    pub signature_scheme: String,
    /// The name of the kernel's specification, such as `python3`, if it is known.
    #[serde(default)]
    pub kernel_name: String,
    /// Present if the sockets are encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    curve_publickey: Option<String>,
}

impl ConnectionInfo {
    /// Reads a connection file.
    ///
    /// # Errors
    /// `is_invalid_input()` if the file does not exist, is not a connection file, requires encryption or
    /// another signature scheme, or can be changed by a user other than this one and root.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        // The largest connection file that is read. Real ones have about 400 bytes.
        let text = read_trusted_file(path, 64 * 1024)?
            .ok_or_else(|| Error::invalid("there is no connection file").at(path))?;
        Self::parse(&text).map_err(|error| error.at(path))
    }

    /// Parses the text of a connection file. The caller appends the file's path to errors.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let info: Self = serde_json::from_str(text)
            .map_err(|error| Error::invalid("cannot use the connection file").because(error))?;
        info.check().map_err(|problem| {
            Error::invalid(format!(
                "cannot use the connection file, because {problem}:"
            ))
        })?;
        Ok(info)
    }

    /// Creates the content of the connection file of a new kernel.
    pub(super) fn new(ip: String, ports: [u16; 5], key: String, kernel_name: String) -> Self {
        let [shell_port, iopub_port, stdin_port, control_port, hb_port] = ports;
        Self {
            shell_port,
            iopub_port,
            stdin_port,
            control_port,
            hb_port,
            ip,
            key,
            transport: Transport::Tcp,
            signature_scheme: SCHEME.to_owned(),
            kernel_name,
            curve_publickey: None,
        }
    }

    /// Writes a connection file that only this user can read. The file must not exist yet.
    ///
    /// # Errors
    /// The system's errors for writing the file.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let failed = |cause| Error::file("cannot write the connection file", path, cause);
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(failed)
    }

    fn check(&self) -> Result<(), String> {
        if self.curve_publickey.is_some() {
            return Err(
                "the kernel's sockets are encrypted with CURVE, which is not supported; \
                        start the kernel with transport_encryption = \"disabled\""
                    .to_owned(),
            );
        }
        if !self.key.is_empty() && ![SCHEME, ""].contains(&self.signature_scheme.as_str()) {
            return Err(format!(
                "it names the signature scheme {:?}, and {SCHEME} is supported",
                self.signature_scheme
            ));
        }
        if self.ip.is_empty() || self.ip.contains('\0') {
            return Err("its ip is empty or no address".to_owned());
        }
        for channel in Channel::ALL {
            if self.port(channel) == 0 {
                return Err(format!("{}_port is 0", channel.as_str()));
            }
        }
        Ok(())
    }

    fn port(&self, channel: Channel) -> u16 {
        match channel {
            Channel::Shell => self.shell_port,
            Channel::Iopub => self.iopub_port,
            Channel::Stdin => self.stdin_port,
            Channel::Control => self.control_port,
            Channel::Heartbeat => self.hb_port,
        }
    }

    pub(super) fn endpoint(&self, channel: Channel) -> Endpoint {
        let port = self.port(channel);
        match self.transport {
            Transport::Ipc => Endpoint::Path(PathBuf::from(format!("{}-{port}", self.ip))),
            Transport::Tcp => {
                let host = match self.ip.as_str() {
                    // These kernels listen on all addresses of this host.
                    "*" | "0.0.0.0" => "127.0.0.1",
                    "::" => "::1",
                    host => host,
                };
                Endpoint::Tcp(host.to_owned(), port)
            }
        }
    }
}

/// Omits the key, which is secret.
impl fmt::Debug for ConnectionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionInfo")
            .field("transport", &self.transport)
            .field("ip", &self.ip)
            .field("iopub_port", &self.iopub_port)
            .field("kernel_name", &self.kernel_name)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Tcp(String, u16),
    Path(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Path(path) => write!(f, "{path:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    /// Returns a file in Jupyter's format, with changes.
    fn file(changes: Value) -> Value {
        let mut file = json!({
            "shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5,
            "ip": "127.0.0.1", "key": "a secret", "transport": "tcp",
            "signature_scheme": "hmac-sha256", "kernel_name": "python3", "jupyter_session": "x",
        });
        for (name, value) in changes.as_object().unwrap() {
            file[name] = value.clone();
        }
        file
    }

    fn read(text: &[u8], mode: u32) -> Result<ConnectionInfo> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kernel.json");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        ConnectionInfo::read(&path)
    }

    fn read_with(changes: Value) -> Result<ConnectionInfo> {
        read(file(changes).to_string().as_bytes(), 0o600)
    }

    #[test]
    fn sockets_have_the_addresses_of_the_file() {
        let endpoints = |changes| {
            let info = read_with(changes).unwrap();
            Channel::ALL.map(|channel| info.endpoint(channel).to_string())
        };
        let of = |host: &str| [1, 2, 3, 4, 5].map(|port| format!("{host}:{port}"));
        assert_eq!(endpoints(json!({})), of("127.0.0.1"));
        assert_eq!(endpoints(json!({ "ip": "*" })), of("127.0.0.1"));
        assert_eq!(endpoints(json!({ "ip": "0.0.0.0" })), of("127.0.0.1"));
        assert_eq!(endpoints(json!({ "ip": "::" })), of("::1"));
        assert_eq!(endpoints(json!({ "ip": "host" })), of("host"));
        let ipc = json!({ "ip": "/tmp/k", "transport": "ipc" });
        assert_eq!(endpoints(ipc)[4], "\"/tmp/k-5\"");
    }

    #[test]
    fn a_written_file_is_read_back_and_belongs_to_its_user() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kernel.json");
        let info = ConnectionInfo::new("127.0.0.1".into(), [1, 2, 3, 4, 5], "k".into(), "n".into());
        info.write(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(ConnectionInfo::read(&path).unwrap(), info);
        assert!(info.write(&path).is_err(), "it exists");
    }

    #[test]
    fn errors_name_the_problem_of_a_file() {
        let text = |changes| file(changes).to_string().into_bytes();
        for (bytes, mode, words) in [
            (text(json!({})), 0o666, "other users can write to it"),
            (b"garbage".to_vec(), 0o600, "expected value"),
            (b"{}".to_vec(), 0o600, "missing field `shell_port`"),
            (b"\xff\xfe".to_vec(), 0o600, "no text in UTF-8"),
            (vec![b' '; 70_000], 0o600, "longer than 65536 bytes"),
            (text(json!({ "hb_port": 0 })), 0o600, "hb_port is 0"),
            (text(json!({ "iopub_port": 70_000 })), 0o600, "expected u16"),
            (text(json!({ "ip": "" })), 0o600, "ip is empty"),
            (text(json!({ "ip": "a\u{0}b" })), 0o600, "no address"),
            (
                text(json!({ "transport": "inproc" })),
                0o600,
                "unknown variant `inproc`",
            ),
            (
                text(json!({ "curve_publickey": "x" })),
                0o600,
                "encrypted with CURVE",
            ),
            (
                text(json!({ "signature_scheme": "hmac-md5" })),
                0o600,
                "\"hmac-md5\"",
            ),
        ] {
            let error = read(&bytes, mode).unwrap_err();
            let shown = format!("{error:?}");
            assert!(error.is_invalid_input(), "{shown}");
            assert!(shown.contains(words), "{shown} has no {words:?}");
            assert!(shown.contains("kernel.json"), "{shown} names no file");
            assert!(!shown.contains("a secret"), "{shown}");
        }
        // Without a key, messages are not signed.
        assert!(read_with(json!({ "key": "", "signature_scheme": "hmac-md5" })).is_ok());
    }

    #[test]
    fn a_key_is_not_shown() {
        let info = read_with(json!({})).unwrap();
        assert!(!format!("{info:?}").contains("a secret"));
    }
}
