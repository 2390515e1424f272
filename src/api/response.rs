//! HTTP/1.1 responses: complete ones, problems, and chunked bodies.

use std::io::{self, Write};

use serde_json::json;

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
    pub fn detail(&self) -> String {
        let body: Option<serde_json::Value> = serde_json::from_slice(&self.body).ok();
        let detail = body.and_then(|body| Some(body.get("detail")?.as_str()?.to_owned()));
        detail.unwrap_or_else(|| reason(self.status).to_owned())
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
    use super::*;

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
