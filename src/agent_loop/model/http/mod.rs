//! Models behind an API over HTTP: Anthropic's and OpenAI's, and servers that speak like them.

mod body;
mod exchange;
mod key;
mod place;
mod refusal;
mod retry;
mod secret;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, select_biased};
use ureq::Agent;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, DefaultConnector};

use super::LlmClient;
use super::cancel::Cancel;
use super::error::{LlmError, Why};
use super::intake::Intake;
use super::reader::{Anthropic, ApiReader, Chat, Flaw, Reader};
use super::request::Request;
use super::response::{Response, StreamChunk};
use crate::clock::Clock;
use crate::error::{Error, Result};

use exchange::{Asked, Exchange, Head, Piece};
use key::{Keyed, StandIn};
use place::Place;
use refusal::Refused;
use retry::Retry;

pub use place::Api;
pub use secret::Secret;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// How long the first byte of an answer may take from then on: models with much to read and to
/// think take minutes.
const FIRST_BYTE: Duration = Duration::from_secs(300);

/// How long nothing may come in the middle of an answer. Anthropic's API sends a ping now and then,
/// OpenAI's is silent while the model thinks.
const IDLE: Duration = Duration::from_secs(300);

/// Whoever grants more than a year grants a year: what is beyond all time is no point in time.
const LIMIT_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Bytes of an error's body that are read: its message stands at its beginning.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// Bytes of an answer, as it is sent: a token takes some hundred.
const RESPONSE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Asks a model over HTTP. Tokens are handed on as they arrive.
///
/// An answer that breaks off is an error with what had come. Too many requests (429) and servers
/// that are overloaded or not there (500, 502, 503, 504, 529) are asked again, after the wait that
/// they ask for or else after 1, 2, 4 … seconds, five times at most; each time a warning among the
/// chunks says so. Where they ask for a longer wait than a minute, that is an error at once.
///
/// The key is shown nowhere: neither in logs, errors, `{:?}` and events, nor where a server sends
/// it back. It goes over `https` alone, or to this machine; redirects are not followed.
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
#[must_use = "a client does nothing until it is asked"]
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
    retry: Retry,
    clock: Clock,
}

impl HttpClient {
    /// A model of an API, at the address that its makers give it.
    pub fn new(api: Api, model: impl Into<String>) -> Self {
        Self {
            api,
            model: model.into(),
            key: None,
            base_url: api.base_url().to_owned(),
            is_plain_allowed: false,
            connect: CONNECT,
            first_byte: FIRST_BYTE,
            idle: IDLE,
            response_bytes_max: RESPONSE_BYTES_MAX,
            retry: Retry::default(),
            clock: Clock::system(),
        }
    }

    /// The same, with the key and the address that the environment has: `ANTHROPIC_API_KEY` and
    /// `ANTHROPIC_BASE_URL`, or `OPENAI_API_KEY` and `OPENAI_BASE_URL`.
    ///
    /// # Errors
    /// `is_invalid_input()` when there is no key and no address either: servers of one's own may
    /// want none.
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

    /// The key.
    pub fn key(mut self, key: Secret) -> Self {
        self.key = Some(key);
        self
    }

    /// Where the API is: what stands before `/v1/messages` (Anthropic) or `/chat/completions`
    /// (OpenAI, with its `/v1`).
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = url.into();
        self
    }

    /// Lets it speak to other machines without encryption, where everybody on the way reads key
    /// and prompt.
    pub fn allow_plain_http(mut self) -> Self {
        self.is_plain_allowed = true;
        self
    }

    /// How long making a connection may take, encryption included; 10 s unless told otherwise.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect = timeout.min(LIMIT_MAX);
        self
    }

    /// How long the first byte of an answer may take when there is a connection; 300 s unless told
    /// otherwise.
    pub fn first_byte_timeout(mut self, timeout: Duration) -> Self {
        self.first_byte = timeout.min(LIMIT_MAX);
        self
    }

    /// How long nothing may come in the middle of an answer; 300 s unless told otherwise.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle = timeout.min(LIMIT_MAX);
        self
    }

    /// How often it asks again when that may help; 5 times unless told otherwise.
    pub fn retries(mut self, times: u32) -> Self {
        self.retry.times_max = times;
        self
    }

    /// How long it waits before it asks again, at first and at most; 1 s and 60 s unless told
    /// otherwise.
    pub fn retry_delay(mut self, first: Duration, at_most: Duration) -> Self {
        self.retry.first = first;
        self.retry.delay_max = at_most.min(LIMIT_MAX);
        self
    }

    /// How many bytes an answer may have as it is sent; 64 MiB unless told otherwise.
    pub fn response_bytes_max(mut self, bytes: u64) -> Self {
        self.response_bytes_max = bytes;
        self
    }

    /// Takes the time from elsewhere: all of its waits and limits but that of connecting.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// An agent for one exchange: shut down, it is of no use any more.
    fn agent(&self, place: &Place, stand_in: Option<Arc<StandIn>>) -> Agent {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(0)
            .timeout_connect(Some(self.connect))
            .user_agent(concat!("td-observe/", env!("CARGO_PKG_VERSION")));
        if place.is_loopback {
            config = config.proxy(None);
        }
        let (config, resolver) = (config.build(), DefaultResolver::default());
        match stand_in {
            Some(stand_in) => {
                let connector = DefaultConnector::default().chain(Keyed(stand_in));
                Agent::with_parts(config, connector, resolver)
            }
            None => Agent::with_parts(config, DefaultConnector::default(), resolver),
        }
    }

    fn reader(&self) -> ApiReader {
        match self.api {
            Api::Anthropic => ApiReader::new(Anthropic::default()),
            Api::OpenAi => ApiReader::new(Chat::default()),
        }
    }

    /// A text of somebody else's, without the key.
    fn hidden(&self, text: &str) -> String {
        let none = Secret::new("");
        self.key.as_ref().unwrap_or(&none).hide_all(text)
    }

    fn failure(&self, why: Why, what: &str) -> LlmError {
        let what = format!("{}: {}", self.api.name(), self.hidden(what));
        LlmError::new(
            why,
            match why {
                Why::Timeout => Error::timeout(what),
                _ => Error::other(what),
            },
        )
    }

    /// Waits for the next piece.
    fn next(
        &self,
        exchange: &Exchange,
        deadline: &Receiver<Instant>,
        limit: &str,
        cancel: &Cancel,
    ) -> Result<Piece, LlmError> {
        select_biased! {
            recv(cancel.stop()) -> _ => Err(LlmError::cancelled()),
            recv(exchange.pieces()) -> piece => match piece {
                Ok(Piece::Failed(what, true)) => Err(self.failure(Why::Timeout, &what)),
                Ok(Piece::Failed(what, false)) => Err(self.failure(Why::Other, &what)),
                Ok(piece) => Ok(piece),
                Err(_) => Err(self.failure(Why::Other, "its thread has ended")),
            },
            recv(deadline) -> _ => Err(self.failure(Why::Timeout, limit)),
        }
    }

    /// Asks once.
    fn ask(
        &self,
        place: &Place,
        body: &Arc<[u8]>,
        intake: &mut Intake<'_>,
        cancel: &Cancel,
    ) -> Result<Option<Refused>, LlmError> {
        let stand_in = self.key.clone().map(|key| Arc::new(StandIn::new(key)));
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("accept", "text/event-stream".to_owned()),
        ];
        headers.extend(self.api.headers(stand_in.as_deref().map(StandIn::text)));
        let asked = Asked {
            url: place.url.clone(),
            headers,
            body: Arc::clone(body),
        };
        let exchange = Exchange::begin(self.agent(place, stand_in), asked)?;
        let deadline = self.clock.after(self.connect + self.first_byte);
        let limit = format!("no answer came within {:?}", self.first_byte);
        let Piece::Head(head) = self.next(&exchange, &deadline, &limit, cancel)? else {
            return Err(self.failure(Why::Other, "an answer without a head came"));
        };
        if head.status != 200 {
            return Ok(Some(self.refused(&exchange, head, cancel)?));
        }
        let mut reader = self.reader();
        match self.read(&exchange, &mut reader, intake, cancel)? {
            None => Ok(None),
            Some(flaw) => {
                let more = match head.content_type.starts_with("text/event-stream") {
                    true => String::new(),
                    false => format!("it sent {:?}", head.content_type),
                };
                let why = match flaw.is_limit {
                    true => Why::Limited,
                    false => Why::Other,
                };
                let what = [flaw.what, more].join(" ");
                Err(self.failure(why, what.trim()))
            }
        }
    }

    /// Reads an answer to its end; why it is not whole.
    fn read(
        &self,
        exchange: &Exchange,
        reader: &mut ApiReader,
        intake: &mut Intake<'_>,
        cancel: &Cancel,
    ) -> Result<Option<Flaw>, LlmError> {
        let limit = format!("nothing came for {:?}", self.idle);
        let mut bytes = 0_u64;
        loop {
            let idle = self.clock.after(self.idle);
            let read = match self.next(exchange, &idle, &limit, cancel) {
                Ok(Piece::Bytes(piece)) => {
                    bytes = bytes.saturating_add(piece.len() as u64);
                    if bytes > self.response_bytes_max {
                        let max = self.response_bytes_max;
                        return Ok(Some(Flaw::new(format!(
                            "the answer has more than {max} bytes"
                        ))));
                    }
                    match reader.push(&piece, self.clock.wall(), intake) {
                        Ok(()) if reader.is_done() => return Ok(None),
                        Ok(()) => continue,
                        broken => broken,
                    }
                }
                Ok(_) => reader.finish(self.clock.wall(), intake),
                // Closed before its end: it is the same whether that was announced or not.
                Err(error) if error.is_cancelled() || error.is_timeout() => return Err(error),
                Err(error) => match reader.finish(self.clock.wall(), intake) {
                    Ok(()) => Ok(()),
                    Err(flaw) => {
                        return Ok(Some(Flaw {
                            what: format!("{} ({error})", flaw.what),
                            ..flaw
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

    /// What an answer says that is none.
    fn refused(
        &self,
        exchange: &Exchange,
        head: Head,
        cancel: &Cancel,
    ) -> Result<Refused, LlmError> {
        let mut body = Vec::new();
        let deadline = self.clock.after(self.idle);
        while body.len() < ERROR_BYTES_MAX {
            match self.next(exchange, &deadline, "", cancel) {
                Ok(Piece::Bytes(piece)) => body.extend_from_slice(&piece),
                Err(error) if error.is_cancelled() => return Err(error),
                // What has come of it has to do.
                _ => break,
            }
        }
        body.truncate(ERROR_BYTES_MAX);
        Ok(Refused::new(head, &body, |text| self.hidden(text)))
    }

    fn try_stream(
        &self,
        request: &Request,
        intake: &mut Intake<'_>,
        cancel: &Cancel,
    ) -> Result<(), LlmError> {
        let place = Place::new(self.api, &self.base_url, self.is_plain_allowed)?;
        if let Some(key) = &self.key
            && !key.bytes().iter().all(u8::is_ascii_graphic)
        {
            let what = "the API key has characters that no key has";
            return Err(LlmError::other(Error::invalid(what)));
        }
        let body = match self.api {
            Api::Anthropic => body::anthropic(request, &self.model),
            Api::OpenAi => body::chat(request, &self.model),
        };
        let body: Arc<[u8]> = Arc::from(body.to_string().into_bytes());
        let mut asked = 0;
        loop {
            if cancel.is_cancelled() {
                return Err(LlmError::cancelled());
            }
            asked += 1;
            let Some(refused) = self.ask(&place, &body, intake, cancel)? else {
                return Ok(());
            };
            let Some(delay) = refused.delay(asked, &self.retry, self.clock.wall()) else {
                let (why, what) = refused.error(asked);
                return Err(self.failure(why, &what));
            };
            intake.warn(
                "model",
                format!(
                    "{} is asked again in {delay:?}: attempt {} of {}, after status {}: {}",
                    self.api.name(),
                    asked + 1,
                    self.retry.times_max + 1,
                    refused.status(),
                    refused.message()
                ),
            );
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
        let mut intake = Intake::new(chunks, cancel);
        if let Some(key) = &self.key {
            intake = intake.without(key.clone());
        }
        match self.try_stream(request, &mut intake, cancel) {
            Ok(()) => Ok(intake.done()),
            Err(error) => Err(intake.failed(error)),
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
