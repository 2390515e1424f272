//! The HTTP client of the channels: one request at a time, bounded in time and size, that keeps its secrets.
//!
//! A request blocks the thread of its channel until its timeout, or until [`Client::shutdown`], which ends a request
//! that waits for its answer at once. A name lookup and a connection attempt go on in the background until their
//! timeout, so the owner of the thread must not join it without a deadline.
//!
//! Errors name the scheme and the host of a URL only, because the rest of it may be a secret: that of a webhook, the
//! topic of ntfy, the token of Telegram's bots.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, select_biased};
use ureq::http::{HeaderValue, Uri, header};
use ureq::{Agent, SendBody};

use super::Unsent;
use crate::agent_loop::{SafeUri, logged_target, requested_delay};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::text::first_chars;
use crate::thread::lock;

/// The most bytes of an answer that are read. The largest one that matters has a sent message of 4,096 characters.
pub(super) const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// The most characters that an error quotes from a server.
const QUOTE_CHARS_MAX: usize = 200;

/// A URL to which a channel sends. It is shown without its path and its query.
#[derive(Clone)]
pub(super) struct Target {
    url: String,
    shown: String,
    is_loopback: bool,
}

impl Target {
    /// Accepts `https`, and `http` on this machine or if it is allowed.
    ///
    /// # Errors
    /// `is_invalid_input()`, with what is wrong with the URL.
    pub fn new(url: &str, is_plain_allowed: bool) -> Result<Self> {
        let url = url.trim();
        let invalid = |reason| Error::invalid(format!("the url {reason}"));
        let SafeUri { uri, is_loopback } = SafeUri::new(url, is_plain_allowed).map_err(invalid)?;
        Ok(Self {
            url: url.to_owned(),
            shown: shown(&uri).unwrap_or_default(),
            is_loopback,
        })
    }

    /// Returns the target of a path below this one.
    pub fn join(&self, path: &str) -> Self {
        let base = self.url.trim_end_matches('/');
        Self {
            url: format!("{base}/{path}"),
            ..self.clone()
        }
    }

    /// Splits off the last part of the path, if there is one and the URL has neither query nor fragment.
    pub fn split_last(&self) -> Option<(Self, &str)> {
        let (base, last) = self.url.trim_end_matches('/').rsplit_once('/')?;
        let is_path = !base.ends_with('/') && !last.is_empty() && !self.url.contains(['?', '#']);
        let base = Self {
            url: base.to_owned(),
            ..self.clone()
        };
        is_path.then_some((base, last))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Returns the scheme and the host of a URL, and its port unless it is the usual one.
fn shown(uri: &Uri) -> Option<String> {
    let port = uri.port().map_or(String::new(), |port| format!(":{port}"));
    Some(format!("{}://{}{port}", uri.scheme_str()?, uri.host()?))
}

/// How long a request may take.
#[derive(Clone, Copy, Debug)]
pub(in crate::notify) struct Limits {
    /// From the name lookup to an encrypted connection.
    pub connect: Duration,
    /// From the beginning to the last byte of the answer.
    pub whole: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        // A phone's hotspot or a sleeping disk takes seconds; after half a minute a new connection is faster.
        Self {
            connect: Duration::from_secs(10),
            whole: Duration::from_secs(30),
        }
    }
}

/// Sends the requests of one channel. Its clones are shut down together.
#[derive(Clone)]
pub(in crate::notify) struct Client {
    agent: Agent,
    clock: Clock,
    limits: Limits,
    /// Dropped at the shutdown.
    running: Arc<Mutex<Option<Sender<()>>>>,
    stopped: Receiver<()>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client. Its clock is asked only for the date in a `Retry-After` and for waits between requests.
    pub fn new(limits: Limits, clock: Clock) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // Messages are rare. A connection that the server has closed meanwhile would only fail the next one.
            .max_idle_connections(0)
            .timeout_connect(Some(limits.connect))
            .user_agent(concat!("td-observe/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        let (running, stopped) = bounded(0);
        Self {
            agent,
            clock,
            limits,
            running: Arc::new(Mutex::new(Some(running))),
            stopped,
        }
    }

    /// Ends the request that waits for its answer, if there is one, and fails all later ones.
    pub fn shutdown(&self) {
        lock(&self.running).take();
        self.agent.clone().shutdown();
    }

    /// Returns true after [`Client::shutdown`].
    pub(super) fn is_shut_down(&self) -> bool {
        self.stopped.try_recv() == Err(TryRecvError::Disconnected)
    }

    /// Waits, and returns false if the client is shut down meanwhile.
    pub(super) fn wait(&self, duration: Duration) -> bool {
        select_biased! {
            recv(self.stopped) -> _ => false,
            recv(self.clock.after(duration)) -> _ => true,
        }
    }

    /// Returns the clock.
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Sends a request and reads its answer, whatever its status. Follows no redirect.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(super) fn send(&self, request: &Request<'_>) -> Result<Answer, Failure> {
        let target = request.target;
        if let Some(log) = logged_target() {
            return Err(Failure::Impossible(format!(
                "the log target {log} would record secrets at the level trace: disable it"
            )));
        }
        let is_read = Cell::new(false);
        let body = WatchedBody {
            rest: request.body,
            is_read: &is_read,
        };
        let whole = self.limits.whole + request.patience;
        match self.answer(request, body, whole) {
            Ok(answer) => Ok(answer),
            Err(error) => {
                let words = match error {
                    _ if self.is_shut_down() => "the observer has ended".to_owned(),
                    ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => {
                        format!("no connection within {:?}", self.limits.connect)
                    }
                    ureq::Error::Timeout(_) => format!("no answer within {whole:?}"),
                    ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
                        return Err(Failure::Impossible(format!(
                            "{target}: the url is not valid"
                        )));
                    }
                    error => words(&error),
                };
                let words = format!("{target}: {words}");
                // A server cannot act on a request whose body it has not got.
                Err(if is_read.get() {
                    Failure::Unknown(words)
                } else {
                    Failure::NotSent(words)
                })
            }
        }
    }

    fn answer(
        &self,
        request: &Request<'_>,
        mut body: WatchedBody<'_>,
        whole: Duration,
    ) -> std::result::Result<Answer, ureq::Error> {
        let url = request.target.url.as_str();
        let builder = match request.method {
            Method::Post => self.agent.post(url),
            Method::Put => self.agent.put(url),
        };
        let mut config = builder.config().timeout_global(Some(whole));
        if request.target.is_loopback {
            config = config.proxy(None);
        }
        let mut builder = config
            .build()
            // Without it, a body of unknown length would be sent in chunks, which some servers refuse.
            .header(header::CONTENT_LENGTH, body.rest.len());
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        let response = builder.send(SendBody::from_reader(&mut body))?;
        let header = |name| {
            let value = response.headers().get(name)?;
            value.to_str().ok()
        };
        let retry_after = header(header::RETRY_AFTER)
            .and_then(|header| requested_delay(header, self.clock.wall()));
        let redirect = header(header::LOCATION).map(|location| {
            let uri: Option<Uri> = location.parse().ok();
            let host = uri.as_ref().and_then(shown);
            host.unwrap_or_else(|| "another path".to_owned())
        });
        let status = response.status().as_u16();
        let body = response.into_body().into_with_config();
        let body = read_bounded(body.limit(u64::MAX).reader(), request.answer_bytes_max);
        Ok(Answer {
            status,
            body,
            retry_after,
            redirect,
            from: request.target.shown.clone(),
        })
    }
}

/// Returns what can be read.
fn read_bounded(reader: impl Read, bytes_max: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The head has said how it went; a body that breaks off changes nothing about it.
    let _ = reader.take(bytes_max).read_to_end(&mut bytes);
    bytes
}

/// Describes an error without quoting the request: `ureq` puts URLs into some of its texts.
fn words(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::Rustls(error) => error.to_string(),
        ureq::Error::HostNotFound => "host not found".into(),
        ureq::Error::Protocol(_) => "the answer is not valid HTTP".into(),
        ureq::Error::LargeResponseHeader(..) => "the head of the answer is too long".into(),
        ureq::Error::ConnectProxyFailed(_) | ureq::Error::InvalidProxyUrl => {
            "the proxy refuses the connection".into()
        }
        _ => "the connection failed".into(),
    }
}

/// The methods that channels use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Post,
    Put,
}

/// A request of a channel.
pub(super) struct Request<'a> {
    pub method: Method,
    pub target: &'a Target,
    pub headers: Vec<(&'static str, HeaderValue)>,
    pub body: &'a [u8],
    /// How long the server may hold the request back before it answers.
    pub patience: Duration,
    pub answer_bytes_max: u64,
}

impl<'a> Request<'a> {
    /// Posts JSON.
    pub fn json(target: &'a Target, body: &'a [u8]) -> Self {
        let json = HeaderValue::from_static("application/json");
        Self {
            method: Method::Post,
            target,
            headers: vec![("content-type", json)],
            body,
            patience: Duration::ZERO,
            answer_bytes_max: ANSWER_BYTES_MAX,
        }
    }
}

/// The body of a request, which tells when the connection asks for it.
struct WatchedBody<'a> {
    rest: &'a [u8],
    is_read: &'a Cell<bool>,
}

impl Read for WatchedBody<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_read.set(true);
        self.rest.read(buffer)
    }
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server has not got it.
    NotSent(String),
    /// The server may have acted on it.
    Unknown(String),
    /// It cannot be sent.
    Impossible(String),
}

impl Failure {
    /// Returns what to do about a request that may be sent twice.
    pub fn of_idempotent(self) -> Unsent {
        match self {
            Self::NotSent(words) | Self::Unknown(words) => Unsent::Later(None, words),
            Self::Impossible(words) => Unsent::Never(words),
        }
    }

    /// Returns what to do about a request that must not be sent twice.
    pub fn of_unique(self) -> Unsent {
        match self {
            Self::Unknown(words) => Unsent::Unconfirmed(words),
            other => other.of_idempotent(),
        }
    }
}

/// An answer, whatever its status.
#[derive(Clone)]
pub(super) struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    pub retry_after: Option<Duration>,
    /// Where it redirects to, without secrets.
    redirect: Option<String>,
    /// The scheme and the host that answered.
    from: String,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.status)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

impl Answer {
    /// Checks the status. `quote` is what the server says about it, without secrets.
    ///
    /// # Errors
    /// What to do about a refusal.
    pub fn check(&self, quote: &str) -> Result<(), Unsent> {
        let Self { status, from, .. } = self;
        let words = match quote_of(quote) {
            quote if quote.is_empty() => format!("{from} answers with status {status}"),
            quote => format!("{from} answers with status {status}: {quote}"),
        };
        match (status, &self.redirect) {
            (200..300, _) => Ok(()),
            (300..400, Some(place)) => Err(Unsent::Never(format!(
                "{from} redirects to {place}; write that address"
            ))),
            (408 | 425 | 429 | 500.., _) => Err(Unsent::Later(self.retry_after, words)),
            _ => Err(Unsent::Never(words)),
        }
    }

    /// Returns the body as JSON, or null.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Returns a server's words in one line without control characters, cut.
fn quote_of(words: &str) -> String {
    let words = words.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    first_chars(&words.join(" "), QUOTE_CHARS_MAX).to_owned()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::stand_in::{Act, CEILING, StandIn, client};
    use super::*;
    use crate::thread::spawn;

    /// The part of each test's URL that no text may show.
    const SECRET: &str = "/services/hunter2";

    fn post(client: &Client, url: &str) -> std::result::Result<Answer, Failure> {
        let target = Target::new(url, false).unwrap();
        let answer = client.send(&Request::json(&target, b"{\"hunter2\":1}"));
        let shown = format!("{target:?} {target} {client:?} {answer:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        answer
    }

    /// Returns what to do after this answer.
    fn outcome(act: impl Fn() -> Act + Send + Sync + 'static) -> std::result::Result<(), Unsent> {
        let server = StandIn::start(move |_| act());
        let answer = post(&client(20_000), &server.url(SECRET)).unwrap();
        let checked = answer.check("");
        assert!(!format!("{checked:?}").contains("hunter2"), "{checked:?}");
        checked
    }

    #[test]
    fn each_status_has_its_outcome() {
        let with = |status, headers: &str| {
            let headers = headers.to_owned();
            outcome(move || Act::Answer(status, headers.clone(), "hunter2".into()))
        };
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(with(status, ""), Ok(()), "{status}");
        }
        for status in [408, 425, 429, 500, 502, 503, 504, 529] {
            let Err(Unsent::Later(None, words)) = with(status, "") else {
                panic!("{status}");
            };
            assert!(words.contains(&status.to_string()), "{words}");
        }
        for status in [304, 400, 401, 403, 404, 410, 413, 422] {
            let Err(Unsent::Never(_)) = with(status, "") else {
                panic!("{status}");
            };
        }
        let wait = |header: &str| match with(429, header) {
            Err(Unsent::Later(wait, _)) => wait,
            other => panic!("{other:?}"),
        };
        assert_eq!(wait("retry-after: 17\r\n"), Some(Duration::from_secs(17)));
        assert_eq!(wait("retry-after: soon\r\n"), None);
        let past = "retry-after: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
        assert_eq!(wait(past), Some(Duration::ZERO));
    }

    #[test]
    fn a_date_in_retry_after_is_a_wait() {
        let clock = crate::clock::FakeClock::new();
        let date = "retry-after: Wed, 21 Jan 2026 10:01:30 GMT\r\n";
        let server = StandIn::start(move |_| Act::Answer(503, date.into(), String::new()));
        let client = Client::new(Limits::default(), clock.clock());
        let answer = post(&client, &server.url("/")).unwrap();
        assert_eq!(answer.retry_after, Some(Duration::from_secs(90)));
    }

    #[test]
    fn a_redirect_is_named_and_not_followed() {
        for status in [301, 302, 303, 307, 308] {
            for (location, named) in [
                (
                    "https://user:hunter2@other.example/hunter2?t=hunter2",
                    "https://other.example",
                ),
                ("http://other.example:81/hunter2", "http://other.example:81"),
                ("/hunter2/", "another path"),
                ("\u{ff}", "status"),
            ] {
                let header = format!("location: {location}\r\n");
                let act = move || Act::Answer(status, header.clone(), String::new());
                let Err(Unsent::Never(words)) = outcome(act) else {
                    panic!("{status} {location}");
                };
                assert!(words.contains(named), "{words}");
            }
        }
        // The redirect leads to a second server, which gets nothing.
        let second = StandIn::start(|_| Act::Answer(200, String::new(), String::new()));
        let header = format!("location: {}\r\n", second.url("/"));
        let server = StandIn::start(move |_| Act::Answer(307, header.clone(), String::new()));
        assert_eq!(post(&client(20_000), &server.url("/")).unwrap().status, 307);
        assert_eq!(second.requests.len(), 0);
    }

    #[test]
    fn what_no_server_has_got_is_not_sent() {
        // A port where nobody listens.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let refused = post(&client(20_000), &format!("http://127.0.0.1:{port}{SECRET}"));
        let Err(Failure::NotSent(words)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(
            Failure::NotSent("x".into()).of_unique(),
            Unsent::Later(None, "x".into())
        );
        assert!(
            words.contains("127.0.0.1") && words.contains("refused"),
            "{words}"
        );
        let not_found = post(&client(20_000), "https://host.invalid/services/hunter2");
        assert!(
            matches!(not_found, Err(Failure::NotSent(_))),
            "{not_found:?}"
        );
    }

    #[test]
    fn a_connection_that_is_closed_before_the_body_has_sent_nothing() {
        // TLS fails at a server that speaks none, before anything of the request is sent.
        let server = StandIn::start(|_| Act::Close);
        let url = server.url(SECRET).replace("http://", "https://");
        let refused = post(&client(2_000), &url);
        assert!(matches!(refused, Err(Failure::NotSent(_))), "{refused:?}");
    }

    #[test]
    fn what_fails_after_the_body_is_unknown() {
        for act in [|| Act::Close, || Act::Never] {
            let server = StandIn::start(move |_| act());
            let unknown = post(&client(300), &server.url(SECRET));
            let Err(Failure::Unknown(words)) = unknown else {
                panic!("{unknown:?}");
            };
            let failure = Failure::Unknown(words.clone());
            assert_eq!(
                failure.clone().of_idempotent(),
                Unsent::Later(None, words.clone())
            );
            assert_eq!(failure.of_unique(), Unsent::Unconfirmed(words));
        }
    }

    #[test]
    fn a_head_and_half_a_body_count_as_an_answer() {
        let server = StandIn::start(|_| Act::Half("{\"ok\":tr".into()));
        let answer = post(&client(20_000), &server.url("/")).unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.check(""), Ok(()));
        // The rest never comes.
        let server = StandIn::start(|_| Act::Stuck("{\"ok\":tr".into()));
        let answer = post(&client(300), &server.url("/")).unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.body, b"{\"ok\":tr");
    }

    #[test]
    fn a_slow_answer_is_waited_for() {
        let (begin, go) = crossbeam_channel::bounded(1);
        let server = StandIn::start(move |_| Act::After(go.clone(), 200, String::new()));
        let (client, url) = (client(20_000), server.url("/"));
        let thread = spawn("slow", move || post(&client, &url)).unwrap();
        server.next();
        assert!(!thread.is_finished());
        begin.send(()).unwrap();
        let answer = thread.join().unwrap().unwrap();
        assert_eq!(answer.status, 200);
    }

    #[test]
    fn a_long_answer_is_cut() {
        let server = StandIn::start(|_| Act::Answer(200, String::new(), "x".repeat(100_000)));
        let answer = post(&client(20_000), &server.url("/")).unwrap();
        assert_eq!(answer.body.len() as u64, ANSWER_BYTES_MAX);
    }

    #[test]
    fn a_shutdown_ends_a_blocked_request_at_once() {
        let server = StandIn::start(|_| Act::Never);
        let client = client(20_000);
        let (blocked, url) = (client.clone(), server.url("/"));
        let thread = spawn("blocked", move || post(&blocked, &url)).unwrap();
        server.next();
        let clock = Clock::system();
        let begun = clock.now();
        client.shutdown();
        let ended = thread.join_deadline(begun + CEILING).unwrap().unwrap();
        let took = clock.now() - begun;
        assert!(matches!(ended, Err(Failure::Unknown(_))), "{ended:?}");
        // 50 ms are promised; a busy machine of the tests may take longer to wake a thread.
        assert!(took < Duration::from_millis(500), "{took:?}");
        assert!(client.is_shut_down() && !client.wait(CEILING));
        let later = post(&client, &server.url("/"));
        assert!(matches!(later, Err(Failure::NotSent(_))), "{later:?}");
    }

    #[test]
    fn a_body_has_a_length_and_arrives_as_it_is() {
        let server = StandIn::start(|_| Act::Answer(200, String::new(), String::new()));
        post(&client(20_000), &server.url("/a?b=c")).unwrap();
        let request = server.next();
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/a?b=c")
        );
        assert_eq!(request.body, b"{\"hunter2\":1}");
        assert_eq!(request.header("content-length"), Some("13"));
        assert_eq!(request.header("transfer-encoding"), None);
        assert_eq!(request.header("content-type"), Some("application/json"));
    }

    #[test]
    fn plain_http_leaves_this_machine_only_if_it_is_allowed() {
        let url = "http://192.168.1.7/hunter2";
        let error = Target::new(url, false).unwrap_err();
        assert!(error.is_invalid_input() && !format!("{error:?}").contains("hunter2"));
        assert!(Target::new(url, true).is_ok());
        for wrong in ["", "ntfy.sh/x", "ftp://x/y", "https://a:b@c/d", "https://"] {
            assert!(Target::new(wrong, true).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_words_of_a_server_are_one_short_line() {
        assert_eq!(quote_of("a\u{1b}[31m\r\n b\0c"), "a [31m b c");
        assert_eq!(quote_of(&"x".repeat(1000)).len(), QUOTE_CHARS_MAX);
    }
}
