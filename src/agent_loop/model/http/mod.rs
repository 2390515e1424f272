//! A model client for HTTP APIs: Anthropic's, OpenAI's, and compatible servers.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::messages::{Request, Response, StreamChunk};
use super::reader::{AnswerReader, SseReader};
use super::{AnswerError, Cancel, LlmClient, LlmError, LlmErrorKind, ResponseBuilder};
use crate::agent::ApiDialect;
use crate::agent::summary::{result, summary};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::redact::Rules;
use crate::timestamp::Timestamp;
pub(crate) use body::RetryPolicy;
#[cfg(feature = "notify")]
pub(crate) use body::requested_delay;
pub(crate) use connection::SECRET_LOG_TARGETS;
pub use connection::{Api, Secret};
use connection::{Endpoint, Exchange, HttpPart, HttpRequest, ResponseHead};
#[cfg(feature = "notify")]
pub(crate) use connection::{SafeUri, logged_target};
use crossbeam_channel::{Receiver, Sender, select_biased};
use serde_json::Value;
use ureq::Agent;

mod body;

mod connection;

/// Default timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Default timeout until the first byte of an answer. A model may read and think for minutes.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(300);

/// Default timeout between two bytes of an answer. Anthropic's API sends pings; OpenAI's API sends
/// nothing while the model thinks.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum of all timeouts, so that deadline arithmetic cannot overflow.
const TIMEOUT_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Maximum size of the body of an error to read. Its message is at the beginning.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// Sends requests to a model over HTTP, and streams tokens as they arrive.
///
/// An incomplete answer is an error with its partial text. The client retries a request after too many
/// requests (429) and if the server is overloaded or unavailable (500, 502, 503, 504, 529). It retries
/// at most five times, after the delay that the server requests, or otherwise after 1, 2, 4 … seconds.
/// A warning among the chunks reports each retry. If the server requests a delay of more than a minute,
/// the request fails at once.
///
/// The key never appears in a log, in an error, in the text of an answer or in the client's `{:?}`, even
/// if a server sends it back. Only inputs of tools are passed on as they are, because tools act on them.
/// The HTTP library logs complete requests to the targets `ureq::util` and `ureq_proto::util` at the
/// level trace; if the application's logger accepts these, requests with a key fail. The key is sent
/// only over `https` or to this machine, and redirects are not followed.
///
/// ```no_run
/// use td_observe::agent_loop::{Api, Cancel, HttpClient, LlmClient, Request};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut model = HttpClient::from_env(Api::Anthropic, "claude-sonnet-4-5")?;
/// let response = model.complete(&Request::prompt("Add auth"), &Cancel::new())?;
/// println!("{}", response.text);
/// # Ok(())
/// # }
/// ```
#[must_use = "a client has no effect until it gets a request"]
pub struct HttpClient {
    api: Api,
    model: String,
    key: Option<Secret>,
    base_url: String,
    is_plain_allowed: bool,
    connect: Duration,
    first_byte: Duration,
    idle: Duration,
    response_bytes_max: u64,
    retry: RetryPolicy,
    clock: Clock,
}

impl HttpClient {
    /// Creates a client for a model, at the public base URL of its API.
    pub fn new(api: Api, model: impl Into<String>) -> Self {
        Self {
            api,
            model: model.into(),
            key: None,
            base_url: api.base_url().to_owned(),
            is_plain_allowed: false,
            connect: CONNECT_TIMEOUT,
            first_byte: FIRST_BYTE_TIMEOUT,
            idle: IDLE_TIMEOUT,
            // Default maximum size of an answer in transfer format, in which a token takes a few hundred bytes.
            response_bytes_max: 64 * 1024 * 1024,
            retry: RetryPolicy::default(),
            clock: Clock::system(),
        }
    }

    /// Creates a client with the key and the base URL from the environment: `ANTHROPIC_API_KEY` and
    /// `ANTHROPIC_BASE_URL`, or `OPENAI_API_KEY` and `OPENAI_BASE_URL`.
    ///
    /// # Errors
    /// `is_invalid_input()` when neither is set. A base URL alone is valid, because a private server
    /// may need no key.
    pub fn from_env(api: Api, model: impl Into<String>) -> Result<Self> {
        let (key_name, url_name) = api.variables();
        let read = |name: &str| {
            std::env::var(name)
                .ok()
                .filter(|value| !value.trim().is_empty())
        };
        let (key, url) = (read(key_name), read(url_name));
        if key.is_none() && url.is_none() {
            return Err(Error::invalid(format!("{key_name} is not set")));
        }
        let mut client = Self::new(api, model);
        client.key = key.as_deref().map(Secret::new);
        if let Some(url) = url {
            client.base_url = url;
        }
        Ok(client)
    }

    /// Sets the key.
    pub fn key(mut self, key: Secret) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets the base URL, which precedes `/v1/messages` (Anthropic) or `/chat/completions` (OpenAI,
    /// including its `/v1`).
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = url.into();
        self
    }

    /// Allows unencrypted requests to other machines, which expose the key and the prompt to the network.
    pub fn allow_plain_http(mut self) -> Self {
        self.is_plain_allowed = true;
        self
    }

    /// Sets the timeout of a connection attempt, including TLS; defaults to 10 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect = timeout.min(TIMEOUT_MAX);
        self
    }

    /// Sets the timeout from the connection to the first byte of an answer; defaults to 300 s.
    pub fn first_byte_timeout(mut self, timeout: Duration) -> Self {
        self.first_byte = timeout.min(TIMEOUT_MAX);
        self
    }

    /// Sets the timeout between two bytes of an answer; defaults to 300 s.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle = timeout.min(TIMEOUT_MAX);
        self
    }

    /// Sets the maximum number of retries; defaults to 5.
    pub fn retries(mut self, times: u32) -> Self {
        self.retry.retries_max = times;
        self
    }

    /// Sets the first and the maximum delay of retries; defaults to 1 s and 60 s.
    pub fn retry_delay(mut self, first: Duration, max: Duration) -> Self {
        self.retry.first_delay = first;
        self.retry.delay_max = max.min(TIMEOUT_MAX);
        self
    }

    /// Sets the maximum size of an answer in transfer format; defaults to 64 MiB.
    pub fn response_bytes_max(mut self, bytes: u64) -> Self {
        self.response_bytes_max = bytes;
        self
    }

    /// Sets the clock for all delays and timeouts, except the connection timeout.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Returns an HTTP agent for one exchange, which is shut down with it.
    fn agent(&self, endpoint: &Endpoint) -> Agent {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(0)
            .timeout_connect(Some(self.connect))
            .user_agent(concat!("td-observe/", env!("CARGO_PKG_VERSION")));
        if endpoint.is_loopback {
            config = config.proxy(None);
        }
        config.build().into()
    }

    /// Redacts a text from the server or the network: the key, and all other text that resembles one, because
    /// the message of a server may contain a part of the request.
    fn redact(&self, text: &str) -> String {
        let key = self.key.as_ref();
        let text = key.map_or_else(|| text.to_owned(), |key| key.redact(text));
        Rules::builtin().text(&text).into_owned()
    }

    fn failure(&self, kind: LlmErrorKind, message: &str) -> LlmError {
        let message = format!("{}: {}", self.api.name(), self.redact(message));
        LlmError::new(
            kind,
            match kind {
                LlmErrorKind::Timeout => Error::timeout(message),
                _ => Error::other(message),
            },
        )
    }

    /// Waits for the next part of a response. `limit` is the error message at the deadline.
    fn next(
        &self,
        exchange: &Exchange,
        deadline: &Receiver<Instant>,
        limit: &str,
        cancel: &Cancel,
    ) -> Result<HttpPart, LlmError> {
        select_biased! {
            recv(cancel.stop()) -> _ => Err(LlmError::cancelled()),
            recv(exchange.parts) -> part => match part {
                Ok(HttpPart::Failed { message, is_timeout }) => {
                    let kind = if is_timeout { LlmErrorKind::Timeout } else { LlmErrorKind::Other };
                    Err(self.failure(kind, &message))
                }
                Ok(part) => Ok(part),
                Err(_) => Err(self.failure(LlmErrorKind::Other, "the connection's thread has ended")),
            },
            recv(deadline) -> _ => Err(self.failure(LlmErrorKind::Timeout, limit)),
        }
    }

    /// Sends the request once; returns the refusal if the server refuses it.
    fn send(
        &self,
        endpoint: &Endpoint,
        body: &Arc<[u8]>,
        response: &mut ResponseBuilder<'_>,
        cancel: &Cancel,
    ) -> Result<Option<Refusal>, LlmError> {
        let http_request = HttpRequest {
            url: endpoint.url.clone(),
            headers: self.api.headers(self.key.as_ref())?,
            body: Arc::clone(body),
        };
        let exchange = Exchange::begin(self.agent(endpoint), http_request)?;
        let deadline = self.clock.after(self.connect + self.first_byte);
        let limit = format!("no answer within {:?}", self.first_byte);
        let HttpPart::Head(head) = self.next(&exchange, &deadline, &limit, cancel)? else {
            return Err(self.failure(LlmErrorKind::Other, "the response has no head"));
        };
        if head.status != 200 {
            return Ok(Some(self.refusal(&exchange, head, cancel)?));
        }
        let dialect = match self.api {
            Api::Anthropic => ApiDialect::Anthropic,
            Api::OpenAi => ApiDialect::Chat,
        };
        let mut reader = SseReader::new(Some(dialect));
        match self.read(&exchange, &mut reader, response, cancel)? {
            None => Ok(None),
            Some(error) => {
                let details = if head.content_type.starts_with("text/event-stream") {
                    String::new()
                } else {
                    format!("(its content type is {:?})", head.content_type)
                };
                let message = [error.message, details].join(" ");
                Err(self.failure(error.kind, message.trim()))
            }
        }
    }

    /// Reads an answer to its end; returns the error of an incomplete answer.
    fn read(
        &self,
        exchange: &Exchange,
        reader: &mut SseReader,
        response: &mut ResponseBuilder<'_>,
        cancel: &Cancel,
    ) -> Result<Option<AnswerError>, LlmError> {
        let limit = format!("no data for {:?}", self.idle);
        let mut bytes = 0_u64;
        loop {
            let idle = self.clock.after(self.idle);
            let read = match self.next(exchange, &idle, &limit, cancel) {
                Ok(HttpPart::Bytes(part)) => {
                    bytes = bytes.saturating_add(part.len() as u64);
                    if bytes > self.response_bytes_max {
                        let max = self.response_bytes_max;
                        return Ok(Some(AnswerError::new(format!(
                            "the answer has more than {max} bytes"
                        ))));
                    }
                    match reader.push(&part, response) {
                        Ok(()) if reader.is_done() => return Ok(None),
                        Ok(()) => continue,
                        error => error,
                    }
                }
                Ok(_) => reader.finish(response),
                // A connection that closes early counts as one that fails.
                Err(error) if error.is_cancelled() || error.is_timeout() => return Err(error),
                Err(error) => match reader.finish(response) {
                    Ok(()) => Ok(()),
                    Err(incomplete) => {
                        return Ok(Some(AnswerError {
                            message: format!("{} ({error})", incomplete.message),
                            ..incomplete
                        }));
                    }
                },
            };
            if cancel.is_cancelled() {
                return Err(LlmError::cancelled());
            }
            return Ok(read.err());
        }
    }

    fn refusal(
        &self,
        exchange: &Exchange,
        head: ResponseHead,
        cancel: &Cancel,
    ) -> Result<Refusal, LlmError> {
        let mut body = Vec::new();
        let deadline = self.clock.after(self.idle);
        while body.len() < ERROR_BYTES_MAX {
            match self.next(exchange, &deadline, "", cancel) {
                Ok(HttpPart::Bytes(part)) => body.extend_from_slice(&part),
                Err(error) if error.is_cancelled() => return Err(error),
                // A truncated body is sufficient.
                _ => break,
            }
        }
        body.truncate(ERROR_BYTES_MAX);
        Ok(Refusal::new(head, &body, |text| self.redact(text)))
    }

    fn try_stream(
        &self,
        request: &Request,
        response: &mut ResponseBuilder<'_>,
        cancel: &Cancel,
    ) -> Result<(), LlmError> {
        let endpoint = Endpoint::new(self.api, &self.base_url, self.is_plain_allowed)?;
        if self.key.is_some()
            && let Some(target) = connection::logged_target()
        {
            return Err(LlmError::other(Error::invalid(format!(
                "the log target {target} would record the API key at the level trace: disable it"
            ))));
        }
        let body = match self.api {
            Api::Anthropic => body::anthropic(request, &self.model),
            Api::OpenAi => body::chat(request, &self.model),
        };
        let body: Arc<[u8]> = Arc::from(body.to_string().into_bytes());
        let mut attempts = 0;
        loop {
            if cancel.is_cancelled() {
                return Err(LlmError::cancelled());
            }
            attempts += 1;
            let Some(refusal) = self.send(&endpoint, &body, response, cancel)? else {
                return Ok(());
            };
            let Some(delay) = refusal.delay(attempts, &self.retry, self.clock.wall()) else {
                let (kind, message) = refusal.error(attempts);
                return Err(self.failure(kind, &message));
            };
            response.warn(format!(
                "{}: retrying in {delay:?}, attempt {} of {}, after status {}: {}",
                self.api.name(),
                attempts + 1,
                self.retry.retries_max + 1,
                refusal.head.status,
                refusal.message
            ));
            select_biased! {
                recv(cancel.stop()) -> _ => return Err(LlmError::cancelled()),
                recv(self.clock.after(delay)) -> _ => {}
            }
        }
    }
}

impl LlmClient for HttpClient {
    fn stream(
        &mut self,
        request: &Request,
        chunks: &Sender<StreamChunk>,
        cancel: &Cancel,
    ) -> Result<Response, LlmError> {
        let mut response = ResponseBuilder::new(chunks, cancel);
        if let Some(key) = &self.key {
            response = response.redact(key.rules());
        }
        match self.try_stream(request, &mut response, cancel) {
            Ok(()) => Ok(response.finish()),
            Err(error) => Err(response.fail(error)),
        }
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("api", &self.api)
            .field("model", &self.model)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

// A response that refuses a request: its message, its retry delay, and its error (pure).

struct Refusal {
    pub head: ResponseHead,
    /// The redacted message.
    pub message: String,
}

impl Refusal {
    /// Reads the body, which may be truncated. `redact` removes keys from its text.
    pub fn new(head: ResponseHead, body: &[u8], redact: impl Fn(&str) -> String) -> Self {
        let text = String::from_utf8_lossy(body);
        let message = serde_json::from_str::<Value>(&text).ok().and_then(|body| {
            let error = match &body["error"] {
                Value::Null => &body,
                error => error,
            };
            let message = error["message"].as_str().or(error.as_str())?;
            Some(match error["type"].as_str() {
                Some(kind) => format!("{kind}: {message}"),
                None => message.to_owned(),
            })
        });
        // The body may be HTML or empty.
        let message = message.unwrap_or_else(|| text.into_owned());
        Self {
            message: result(&redact(&message)),
            head,
        }
    }

    /// Returns the delay before a retry after this number of attempts; `None` if a retry cannot succeed.
    pub fn delay(&self, attempts: u32, policy: &RetryPolicy, now: Timestamp) -> Option<Duration> {
        if !body::is_retryable(self.head.status) {
            return None;
        }
        let millis = self.head.retry_after_ms.as_ref();
        let millis = millis.and_then(|millis| millis.trim().parse().ok());
        let requested = millis.map(Duration::from_millis).or_else(|| {
            let header = self.head.retry_after.as_ref()?;
            body::requested_delay(header, now)
        });
        policy.delay(attempts, requested)
    }

    /// Returns the error after this number of attempts.
    pub fn error(&self, attempts: u32) -> (LlmErrorKind, String) {
        let status = self.head.status;
        let mut message = format!("the server answered with status {status}: {}", self.message);
        if (300..400).contains(&status) {
            message.push_str(" (redirects are not followed)");
        } else if attempts > 1 {
            message.push_str(&format!(" (after {attempts} attempts)"));
        }
        if let Some(delay) = self.head.retry_after.as_ref().filter(|_| status == 429) {
            message.push_str(&format!(" (requested delay: {})", summary(delay)));
        }
        let kind = match status {
            429 => LlmErrorKind::Limited,
            _ => LlmErrorKind::Other,
        };
        (kind, message)
    }
}
