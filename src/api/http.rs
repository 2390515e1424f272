//! HTTP/1.1: parses requests with a bounded head and their queries, and writes responses: complete ones, problems,
//! and chunked bodies (pure).

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use serde_json::json;

/// The largest accepted head.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The most headers. Browsers send about twenty.
const HEADERS_MAX: usize = 64;

/// A request without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub method: String,
    /// The path, still encoded, because a run's name may contain an encoded slash.
    pub path: String,
    /// The parameters of the query, decoded, in their order.
    pub query: Vec<(String, String)>,
    /// The headers, with names in lower case.
    pub(super) headers: Vec<(String, String)>,
}

/// The result of parsing the first bytes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// The request, and the length of its head in bytes.
    Complete(Box<Request>, usize),
    /// More bytes are needed.
    Partial,
    /// The bytes are not a request. Contains the reason.
    Invalid(String),
    /// The head is too large or has too many headers.
    TooLarge,
}

impl Request {
    /// Parses a head from the first bytes of a connection.
    pub fn read(bytes: &[u8]) -> Head {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(length)) if length <= HEAD_BYTES_MAX => {
                Head::Complete(Box::new(Self::from_parsed(&parsed)), length)
            }
            Ok(httparse::Status::Complete(_)) | Err(httparse::Error::TooManyHeaders) => {
                Head::TooLarge
            }
            Ok(httparse::Status::Partial) if bytes.len() >= HEAD_BYTES_MAX => Head::TooLarge,
            Ok(httparse::Status::Partial) => Head::Partial,
            Err(error) => Head::Invalid(error.to_string()),
        }
    }

    fn from_parsed(parsed: &httparse::Request<'_, '_>) -> Self {
        let target = parsed.path.unwrap_or("/");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let query = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        let headers = parsed.headers.iter().map(|header| {
            let value = String::from_utf8_lossy(header.value).trim().to_owned();
            (header.name.to_ascii_lowercase(), value)
        });
        Self {
            method: parsed.method.unwrap_or_default().to_owned(),
            path: path.to_owned(),
            query: query.collect(),
            headers: headers.collect(),
        }
    }

    /// Returns the first header with a name, which must be in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        first(&self.headers, name)
    }

    /// Returns the values of all headers with a name, which must be in lower case.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let of_name = self.headers.iter().filter(move |(of, _)| of == name);
        of_name.map(|(_, value)| value.as_str())
    }

    /// Returns the first parameter of the query with this name.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        first(&self.query, name)
    }

    /// Returns the socket of the tmux server that the request chooses.
    pub fn socket(&self) -> Option<&Path> {
        self.parameter("socket").map(Path::new)
    }

    /// Returns the values of a parameter, which may be repeated or a list with commas.
    pub fn list(&self, name: &str) -> Vec<&str> {
        let values = self
            .query
            .iter()
            .filter(|(of, _)| of == name)
            .flat_map(|(_, value)| value.split(','));
        values.filter(|value| !value.is_empty()).collect()
    }

    /// Returns an error, which lists the known parameters, if the query has an unknown one.
    pub fn check_parameters(&self, known: &[&str]) -> Result<(), String> {
        let mut names = self.query.iter().map(|(name, _)| name.as_str());
        match names.find(|name| !known.contains(name)) {
            None => Ok(()),
            Some(name) if known.is_empty() => {
                Err(format!("{name:?}: this path takes no parameters"))
            }
            Some(name) => Err(format!(
                "no parameter is called {name:?}; there are {}",
                known.join(", ")
            )),
        }
    }

    /// Returns the decoded segments of the path.
    pub fn segments(&self) -> Vec<String> {
        let parts = self.path.split('/').filter(|part| !part.is_empty());
        parts.map(percent_decoded).map(Cow::into_owned).collect()
    }
}

fn first<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = pairs.iter().find(|(of, _)| of == name);
    found.map(|(_, value)| value.as_str())
}

/// Decodes a part of a query: a plus sign is a blank.
fn decoded(text: &str) -> String {
    percent_decoded(&text.replace('+', " ")).into_owned()
}

fn percent_decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
        match (byte, hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                // Two hexadecimal digits fit into a byte.
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// Encodes a text as one part of a path or of a query.
pub(crate) fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Response {
    status: u16,
    content_type: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

/// The size at which a chunk is written.
const CHUNK_BYTES: usize = 32 * 1024;

impl Response {
    /// Returns the status.
    #[cfg(all(feature = "internals", feature = "serve"))]
    pub fn status(&self) -> u16 {
        self.status
    }

    fn new(status: u16, content_type: &'static str, body: Vec<u8>) -> Self {
        Self {
            status,
            content_type,
            headers: Vec::new(),
            body,
        }
    }

    /// Returns a response with a text.
    pub fn text(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self::new(200, content_type, body.into())
    }

    /// Returns a response with a value as JSON.
    pub fn json(value: &impl serde::Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(mut body) => {
                body.push(b'\n');
                Self::text("application/json", body)
            }
            Err(error) => Self::problem(500, &error.to_string()),
        }
    }

    /// Returns an error as `application/problem+json` (RFC 9457).
    pub fn problem(status: u16, detail: &str) -> Self {
        let body = problem(status, detail) + "\n";
        Self::new(status, "application/problem+json", body.into_bytes())
    }

    /// Returns the explanation of a problem.
    #[cfg_attr(not(feature = "tui"), allow(dead_code))]
    pub fn detail(&self) -> String {
        let body: Option<serde_json::Value> = serde_json::from_slice(&self.body).ok();
        let detail = body.and_then(|body| Some(body.get("detail")?.as_str()?.to_owned()));
        detail.unwrap_or_else(|| reason(self.status).to_owned())
    }

    /// Returns the body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns a response without a body.
    pub fn empty(status: u16) -> Self {
        Self::new(status, "", Vec::new())
    }

    /// Adds a header.
    pub fn header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Writes the response. The caller closes the connection afterwards.
    pub fn write(&self, out: &mut impl Write, with_body: bool) -> io::Result<()> {
        let mut head = head(self.status);
        if !self.content_type.is_empty() {
            head.push_str(&format!("Content-Type: {}\r\n", self.content_type));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", self.body.len()));
        let mut bytes = head.into_bytes();
        if with_body {
            bytes.extend_from_slice(&self.body);
        }
        out.write_all(&bytes)?;
        out.flush()
    }
}

/// Returns the JSON of a problem.
pub(crate) fn problem(status: u16, detail: &str) -> String {
    let problem = json!({
        "type": "about:blank",
        "title": reason(status),
        "status": status,
        "detail": detail,
    });
    problem.to_string()
}

fn head(status: u16) -> String {
    format!(
        "HTTP/1.1 {status} {}\r\nServer: td-observe\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n",
        reason(status)
    )
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        426 => "Upgrade Required",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Internal Server Error",
    }
}

/// A body that is written in chunks. Its end is explicit, so readers detect a broken connection.
#[derive(Debug)]
pub(crate) struct ChunkedBody<W: Write> {
    out: W,
    chunk: Vec<u8>,
}

impl<W: Write> ChunkedBody<W> {
    /// Writes the head.
    pub fn start(mut out: W, content_type: &str) -> io::Result<Self> {
        let head = head(200);
        let more = format!("Content-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n");
        out.write_all((head + &more).as_bytes())?;
        out.flush()?;
        Ok(Self {
            out,
            chunk: Vec::new(),
        })
    }

    /// Ends the body.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.out.write_all(b"0\r\n\r\n")?;
        self.out.flush()
    }
}

impl<W: Write> Write for ChunkedBody<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.chunk.is_empty() {
            let mut frame = format!("{:x}\r\n", self.chunk.len()).into_bytes();
            frame.append(&mut self.chunk);
            frame.extend_from_slice(b"\r\n");
            self.out.write_all(&frame)?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    mod request {
        use proptest::prelude::*;

        use super::super::*;

        #[test]
        fn a_head_is_read() {
            let text = b"GET /api/v1/runs/a%2Fb@1/events?type=A,B&type=C&grep=a+b%21 HTTP/1.1\r\nHost: x\r\nLast-Event-ID: 7\r\n\r\nrest";
            let Head::Complete(request, length) = Request::read(text) else {
                panic!()
            };
            assert_eq!(&text[length..], b"rest");
            assert_eq!(request.segments(), ["api", "v1", "runs", "a/b@1", "events"]);
            assert_eq!(request.list("type"), ["A", "B", "C"]);
            assert_eq!(request.parameter("grep"), Some("a b!"));
            assert_eq!(request.header("last-event-id"), Some("7"));
            assert_eq!(Request::read(&text[..20]), Head::Partial);
            assert_eq!(Request::read(&[b'a'; HEAD_BYTES_MAX]), Head::TooLarge);
            assert!(matches!(
                Request::read(b"\x01\x02 / x\r\n\r\n"),
                Head::Invalid(_)
            ));
        }

        #[test]
        fn parameters_that_do_not_exist_are_refused() {
            let check = |query: &str, known: &[&str]| {
                let head = format!("GET /x{query} HTTP/1.1\r\n\r\n");
                let Head::Complete(request, _) = Request::read(head.as_bytes()) else {
                    panic!("{head}")
                };
                request.check_parameters(known)
            };
            assert_eq!(check("", &[]), Ok(()));
            assert_eq!(check("?type=A&type=B&since=", &["since", "type"]), Ok(()));
            assert_eq!(
                check("?since=1m&types=A", &["since", "type"]).unwrap_err(),
                "no parameter is called \"types\"; there are since, type"
            );
            assert_eq!(
                check("?x", &[]).unwrap_err(),
                "\"x\": this path takes no parameters"
            );
        }

        proptest! {
            #[test]
            fn any_bytes_are_read(bytes: Vec<u8>, text in "(GET|P) /[%a-f0-9?&=+]{0,30} HTTP/1.1\r\n([a-z]:[ -~]{0,9}\r\n){0,70}\r\n") {
                let _ = Request::read(&bytes);
                let _ = Request::read(text.as_bytes());
            }

            #[test]
            fn encoded_text_is_decoded(text in "\\PC{0,40}") {
                let encoded = percent_encoded(&text);
                prop_assert_eq!(percent_decoded(&encoded), text);
            }
        }
    }

    mod response {
        use super::super::*;

        #[test]
        fn chunks_are_framed() {
            let mut out = Vec::new();
            let mut body = ChunkedBody::start(&mut out, "text/plain").unwrap();
            body.write_all(b"hello ").unwrap();
            body.write_all(b"world").unwrap();
            body.flush().unwrap();
            body.flush().unwrap();
            body.write_all(b"!").unwrap();
            body.finish().unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
            assert!(
                text.ends_with("\r\n\r\nb\r\nhello world\r\n1\r\n!\r\n0\r\n\r\n"),
                "{text}"
            );
        }

        #[test]
        fn problems_are_json() {
            let mut out = Vec::new();
            Response::problem(404, "no run \"x\"")
                .write(&mut out, true)
                .unwrap();
            let text = String::from_utf8(out).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.contains("404 Not Found") && head.contains("application/problem+json"));
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["detail"], "no run \"x\"");
        }
    }
}
