//! A connection to a Redis with deadlines, whose errors say what to do.

use std::time::Duration;

use redis::{Cmd, Connection, ConnectionLike, ErrorKind, RedisError, Value};

use super::address::Address;
use super::troubles::Trouble;

/// The time in which a connection must be there.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// The time for an answer. A Redis that loads or saves gigabytes answers later, and the work is then tried again.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// A connection. After an error it must not be used again: an answer may be on its way.
pub(super) struct Link {
    connection: Connection,
}

/// Why something failed.
#[derive(Debug)]
pub(super) struct LinkError {
    pub trouble: Trouble,
    /// What Redis or the system says.
    pub words: String,
}

impl LinkError {
    fn of(error: &RedisError) -> Self {
        let code = error.code().unwrap_or_default();
        let trouble = match error.kind() {
            ErrorKind::AuthenticationFailed => Trouble::Password,
            _ if error.to_string().contains("certificate") => Trouble::Certificate,
            ErrorKind::Io | ErrorKind::Parse | ErrorKind::ClusterConnectionNotFound => {
                Trouble::Unreachable
            }
            _ => of_code(code),
        };
        let words = if error.is_timeout() {
            format!("no answer within {} s", ANSWER_TIME.as_secs())
        } else {
            match error.detail() {
                Some(detail) if !code.is_empty() => format!("{code} {detail}"),
                _ => error.to_string(),
            }
        };
        Self { trouble, words }
    }

    pub fn of_server(error: &redis::ServerError) -> Self {
        Self {
            trouble: of_code(error.code()),
            words: words(error),
        }
    }

    /// Returns what to do about it.
    pub fn remedy(&self) -> &'static str {
        match self.trouble {
            Trouble::Unreachable => "start Redis there, or correct the address",
            Trouble::Certificate => {
                "name the file with the certificate of its authority in SSL_CERT_FILE"
            }
            Trouble::NotReady => "wait until it has loaded its data",
            Trouble::Password => {
                "give --password-file or TD_REDIS_PASSWORD, and a user in the address who may use these keys"
            }
            Trouble::Full => {
                "raise its maxmemory, delete streams, or trim them with ship --max-len"
            }
            Trouble::ReadOnly => "use the address of the primary, or free its disk",
            _ => "see the log of Redis",
        }
    }
}

/// Returns what an error of Redis with this code means.
fn of_code(code: &str) -> Trouble {
    match code {
        "NOAUTH" | "WRONGPASS" | "NOPERM" => Trouble::Password,
        "OOM" => Trouble::Full,
        "READONLY" | "MISCONF" | "NOREPLICAS" => Trouble::ReadOnly,
        "LOADING" | "BUSY" | "MASTERDOWN" | "TRYAGAIN" => Trouble::NotReady,
        _ => Trouble::Refused,
    }
}

/// Returns the words of an error of Redis.
pub(super) fn words(error: &redis::ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

impl Link {
    pub fn open(address: &Address) -> Result<Self, LinkError> {
        // Another part of the process may have chosen already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let open = || {
            let client = redis::Client::open(address.info())?;
            let connection = client.get_connection_with_timeout(CONNECT_TIME)?;
            connection.set_read_timeout(Some(ANSWER_TIME))?;
            connection.set_write_timeout(Some(ANSWER_TIME))?;
            Ok(Self { connection })
        };
        open().map_err(|error| LinkError::of(&error))
    }

    /// Sends a command and returns its answer.
    pub fn ask(&mut self, command: &Cmd) -> Result<Value, LinkError> {
        self.connection
            .req_command(command)
            .map_err(|error| LinkError::of(&error))
            .and_then(|answer| match answer {
                Value::ServerError(error) => Err(LinkError::of_server(&error)),
                answer => Ok(answer),
            })
    }

    /// Sends commands at once and returns their answers, of which each may be an error.
    pub fn ask_all(&mut self, commands: &[Cmd]) -> Result<Vec<Value>, LinkError> {
        let mut bytes = Vec::new();
        for command in commands {
            bytes.extend_from_slice(&command.get_packed_command());
        }
        self.send(&bytes)?;
        commands.iter().map(|_| self.receive()).collect()
    }

    /// Sends encoded commands.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        let sent = self.connection.send_packed_command(bytes);
        sent.map_err(|error| LinkError::of(&error))
    }

    fn receive(&mut self) -> Result<Value, LinkError> {
        let received = self.connection.recv_response();
        received.map_err(|error| LinkError::of(&error))
    }

    /// Returns the answers to the commands of a transaction that was sent: `MULTI`, `count` commands and `EXEC`. Redis
    /// has done all of them, or none.
    pub fn receive_transaction(&mut self, count: usize) -> Result<Vec<Value>, LinkError> {
        let mut refused = None;
        for _ in 0..=count {
            if let Value::ServerError(error) = self.receive()? {
                refused.get_or_insert(error);
            }
        }
        match (self.receive()?, refused) {
            (Value::Array(answers), None) if answers.len() == count => Ok(answers),
            (_, Some(error)) | (Value::ServerError(error), None) => {
                Err(LinkError::of_server(&error))
            }
            _ => Err(LinkError {
                trouble: Trouble::Unreachable,
                words: "its answer is not that of a Redis".to_owned(),
            }),
        }
    }

    /// Does all of these commands or none.
    pub fn transact(&mut self, commands: &[Cmd]) -> Result<Vec<Value>, LinkError> {
        let mut bytes = redis::cmd("MULTI").get_packed_command();
        for command in commands {
            bytes.extend_from_slice(&command.get_packed_command());
        }
        bytes.extend_from_slice(&redis::cmd("EXEC").get_packed_command());
        self.send(&bytes)?;
        self.receive_transaction(commands.len())
    }

    /// Sets how long an answer may take in addition to the usual time.
    pub fn wait_longer(&mut self, more: Duration) -> Result<(), LinkError> {
        let set = self.connection.set_read_timeout(Some(ANSWER_TIME + more));
        set.map_err(|error| LinkError::of(&error))
    }

    pub fn ping(&mut self) -> Result<(), LinkError> {
        self.ask(&redis::cmd("PING")).map(drop)
    }
}
