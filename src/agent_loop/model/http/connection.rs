//! One HTTP request and its response, on a thread that may block on the network.
//!
//! The thread reads bytes and sends them through a bounded channel. It ends with the response or when the
//! receiver is dropped. The channel lets the caller wait for data, a timeout and a cancellation at once,
//! which a socket does not. Dropping the exchange shuts the connection down and so wakes the thread. Only a
//! name lookup or a connection attempt may delay the thread; then it is not joined and ends on its own.

use std::fmt;
use std::io::Read;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::redact::Rules;
use crate::thread::{Handle, spawn};
use crossbeam_channel::{Receiver, Sender, bounded, never};
use ureq::Agent;
use ureq::http::{HeaderValue, Uri};

/// Capacity of the channel in parts, so that the network is slightly ahead of the reader.
const PARTS_MAX: usize = 16;

/// Maximum time to wait for the thread after the connection is shut down.
const JOIN_TIMEOUT: Duration = Duration::from_millis(50);

pub(super) struct HttpRequest {
    pub url: String,
    pub headers: Vec<(&'static str, HeaderValue)>,
    pub body: Arc<[u8]>,
}

/// A part of a response: a head, then bytes, then the end; a failure may replace any of them.
#[derive(Debug)]
pub(super) enum HttpPart {
    Head(ResponseHead),
    Bytes(Vec<u8>),
    End,
    Failed {
        message: String,
        /// True if the connection timed out.
        is_timeout: bool,
    },
}

/// The relevant fields of a response's head.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponseHead {
    pub status: u16,
    pub content_type: String,
    pub retry_after: Option<String>,
    /// In milliseconds, as OpenAI's servers send it.
    pub retry_after_ms: Option<String>,
}

#[must_use]
pub(super) struct Exchange {
    agent: Agent,
    pub parts: Receiver<HttpPart>,
    thread: Option<Handle<()>>,
}

impl Exchange {
    /// Starts the thread. The agent belongs to this exchange and is shut down with it.
    pub fn begin(agent: Agent, request: HttpRequest) -> Result<Self> {
        let (sender, parts) = bounded(PARTS_MAX);
        let thread_agent = agent.clone();
        let thread = spawn("td-http", move || run(&thread_agent, &request, &sender))?;
        Ok(Self {
            agent,
            parts,
            thread: Some(thread),
        })
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // Dropping the receiver ends a thread that is sending; the shutdown ends one that is reading.
        self.parts = never();
        self.agent.clone().shutdown();
        let deadline = Clock::system().now() + JOIN_TIMEOUT;
        let joined = self
            .thread
            .take()
            .map(|thread| thread.join_deadline(deadline));
        match joined {
            Some(Ok(Err(panicked))) => log::warn!("{panicked}"),
            Some(Err(thread)) => {
                log::debug!("{} is still connecting, and ends on its own", thread.name());
            }
            Some(Ok(Ok(()))) | None => {}
        }
    }
}

fn run(agent: &Agent, request: &HttpRequest, sender: &Sender<HttpPart>) {
    let mut post = agent.post(&request.url);
    for (name, value) in &request.headers {
        post = post.header(*name, value);
    }
    let response = match post.send(&request.body[..]) {
        Ok(response) => response,
        Err(error) => return fail(error, sender),
    };
    let header = |name: &str| {
        let value = response.headers().get(name)?;
        Some(value.to_str().ok()?.to_owned())
    };
    let head = ResponseHead {
        status: response.status().as_u16(),
        content_type: header("content-type").unwrap_or_default(),
        retry_after: header("retry-after"),
        retry_after_ms: header("retry-after-ms"),
    };
    if sender.send(HttpPart::Head(head)).is_err() {
        return;
    }
    // The receiver limits the size.
    let mut body = response
        .into_body()
        .into_with_config()
        .limit(u64::MAX)
        .reader();
    // Maximum number of bytes to read at once: one TLS record.
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = match body.read(&mut buffer) {
            Ok(0) => HttpPart::End,
            Ok(count) => HttpPart::Bytes(buffer[..count].to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return fail(error.into(), sender),
        };
        let is_end = matches!(read, HttpPart::End);
        if sender.send(read).is_err() || is_end {
            return;
        }
    }
}

fn fail(error: ureq::Error, sender: &Sender<HttpPart>) {
    let is_timeout = matches!(error, ureq::Error::Timeout(_));
    let message = error.to_string();
    // An error means that the exchange was dropped.
    let _ = sender.send(HttpPart::Failed {
        message,
        is_timeout,
    });
}

// An API key that appears in no log, error or event.

/// The replacement for a key.
const MARKER: &str = "[redacted:api-key]";

/// Log targets of the HTTP library, which record complete requests and responses at the level trace.
/// The program silences them.
pub(crate) const SECRET_LOG_TARGETS: [&str; 2] = ["ureq::util", "ureq_proto::util"];

/// An API key that cannot be printed: `{:?}` shows a marker instead.
///
/// ```
/// use td_observe::agent_loop::Secret;
/// assert_eq!(format!("{:?}", Secret::new("sk-ant-123456789")), "[redacted:api-key]");
/// ```
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Creates a secret from a key, without surrounding whitespace.
    pub fn new(key: &str) -> Self {
        Self(Arc::from(key.trim()))
    }

    /// Returns the key itself, which must not reach a log, an error or an event.
    #[cfg(feature = "notify")]
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Returns a header value that consists of a prefix and the key.
    ///
    /// # Errors
    /// `is_invalid_input()` when the key contains characters that no key contains.
    pub(crate) fn header(&self, prefix: &str) -> Result<HeaderValue> {
        let value = format!("{prefix}{}", self.0);
        let is_graphic = self.0.bytes().all(|byte| byte.is_ascii_graphic());
        let mut value = HeaderValue::try_from(value)
            .ok()
            .filter(|_| is_graphic)
            .ok_or_else(|| Error::invalid("the API key contains invalid characters"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Returns the rules that redact the key in text that arrives in pieces: none for a key that is
    /// shorter than any real one, because harmless words contain it.
    pub(super) fn rules(&self) -> Rules {
        let rules = Rules::none().with_values([("api-key", &*self.0)]);
        rules.unwrap_or_else(|_| Rules::none())
    }

    /// Replaces the key in a text with a marker.
    pub(crate) fn redact(&self, text: &str) -> String {
        if self.0.is_empty() {
            text.to_owned()
        } else {
            text.replace(&*self.0, MARKER)
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MARKER)
    }
}

/// Returns a log target that would record the key, if the application's logger accepts one.
pub(crate) fn logged_target() -> Option<&'static str> {
    let mut targets = SECRET_LOG_TARGETS.into_iter();
    targets.find(|target| log::log_enabled!(target: *target, log::Level::Trace))
}

// The APIs, their endpoints, and the rules for sending a key to an endpoint.

/// An API for models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Api {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's chat completions, which many other servers also offer.
    OpenAi,
}

impl Api {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "Anthropic",
            Self::OpenAi => "OpenAI",
        }
    }

    pub(super) fn base_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi => "https://api.openai.com/v1",
        }
    }

    /// Returns the environment variables for the key and the base URL.
    pub(super) fn variables(self) -> (&'static str, &'static str) {
        match self {
            Self::Anthropic => ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
            Self::OpenAi => ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "/v1/messages",
            Self::OpenAi => "/chat/completions",
        }
    }

    /// Returns the headers of a request with this key.
    ///
    /// # Errors
    /// `is_invalid_input()` when the key contains characters that no key contains.
    pub(super) fn headers(self, key: Option<&Secret>) -> Result<Vec<(&'static str, HeaderValue)>> {
        let mut headers = vec![
            ("content-type", HeaderValue::from_static("application/json")),
            ("accept", HeaderValue::from_static("text/event-stream")),
        ];
        if self == Self::Anthropic {
            // The version of Anthropic's API that this client uses.
            let version = HeaderValue::from_static("2023-06-01");
            headers.push(("anthropic-version", version));
        }
        if let Some(key) = key {
            headers.push(match self {
                Self::Anthropic => ("x-api-key", key.header("")?),
                Self::OpenAi => ("authorization", key.header("Bearer ")?),
            });
        }
        Ok(headers)
    }
}

/// A URL to which a secret may be sent.
pub(crate) struct SafeUri {
    pub uri: Uri,
    /// True if it is on this machine.
    pub is_loopback: bool,
}

impl SafeUri {
    /// Accepts `https`, and `http` on this machine or if it is allowed.
    ///
    /// # Errors
    /// What is wrong with the URL, to be put after its name. It omits the URL, which may contain a secret.
    pub fn new(url: &str, is_plain_allowed: bool) -> Result<Self, &'static str> {
        let uri: Uri = url.parse().map_err(|_| "is not a URL")?;
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err("contains a password; set the key separately");
        }
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_loopback = host.eq_ignore_ascii_case("localhost")
            || host
                .parse()
                .is_ok_and(|address: IpAddr| address.is_loopback());
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if is_loopback || is_plain_allowed => {}
            Some("http") => {
                return Err(
                    "is not encrypted: http is allowed for this machine only, unless plain HTTP is enabled",
                );
            }
            _ => return Err("must begin with https://"),
        }
        Ok(Self { uri, is_loopback })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub url: String,
    /// True if the endpoint is on this machine.
    pub is_loopback: bool,
}

impl Endpoint {
    pub fn new(api: Api, base_url: &str, is_plain_allowed: bool) -> Result<Self> {
        // The error omits the URL, which may contain a password.
        let invalid = |reason: &str| {
            let (_, name) = api.variables();
            Error::invalid(format!("the base URL ({name}) {reason}"))
        };
        let base = base_url.trim().trim_end_matches('/');
        let base = match api {
            Api::Anthropic => base.strip_suffix("/v1").unwrap_or(base),
            Api::OpenAi => base,
        };
        let url = format!("{base}{}", api.path());
        let SafeUri { uri, is_loopback } = SafeUri::new(&url, is_plain_allowed).map_err(invalid)?;
        if uri.query().is_some() {
            return Err(invalid("has a query"));
        }
        Ok(Self { url, is_loopback })
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn only_safe_base_urls_are_accepted() {
        for (api, base, url) in [
            (
                Api::Anthropic,
                "https://api.anthropic.com",
                Some("https://api.anthropic.com/v1/messages"),
            ),
            (
                Api::Anthropic,
                "http://127.0.0.1:8080/v1/",
                Some("http://127.0.0.1:8080/v1/messages"),
            ),
            (
                Api::OpenAi,
                "http://localhost:11434/v1",
                Some("http://localhost:11434/v1/chat/completions"),
            ),
            (
                Api::OpenAi,
                "http://[::1]:1/v1",
                Some("http://[::1]:1/v1/chat/completions"),
            ),
            (Api::OpenAi, "http://localhost.example.com/v1", None),
            (Api::OpenAi, "http://127.0.0.1.example.com/v1", None),
            (Api::OpenAi, "http://192.168.1.7/v1", None),
            (Api::OpenAi, "https://user:hunter2@example.com/v1", None),
            (Api::OpenAi, "https://example.com/v1?key=hunter2", None),
            (Api::OpenAi, "ftp://example.com", None),
            (Api::OpenAi, "example.com/v1", None),
            (Api::OpenAi, "", None),
        ] {
            let endpoint = Endpoint::new(api, base, false);
            let error = endpoint.as_ref().err().map(|error| format!("{error:?}"));
            assert!(!error.unwrap_or_default().contains("hunter2"));
            assert_eq!(
                endpoint.ok().map(|endpoint| endpoint.url).as_deref(),
                url,
                "{base}"
            );
        }
        assert!(Endpoint::new(Api::OpenAi, "http://192.168.1.7/v1", true).is_ok());
    }
}
