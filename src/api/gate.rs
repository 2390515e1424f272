//! Decides which requests over TCP are answered: those that a browser sends from the page itself, and those of programs
//! with the token (pure).
//!
//! Another page in the user's browser reaches a server on loopback, too. It cannot choose `Host` and `Origin`, and does
//! not know the token.

use std::fmt;
use std::hint::black_box;
use std::net::IpAddr;

use super::http::{Request, Response};

/// The fewest characters of a token that a user has chosen.
const TOKEN_MIN: usize = 16;

/// The most characters of a token.
const TOKEN_MAX: usize = 512;

/// The secret that programs and the page send as `Authorization: Bearer …`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Creates a token of random bytes, in hexadecimal.
    pub fn of_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Reads a token; the error states what it must be.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let is_of_token = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        if !(TOKEN_MIN..=TOKEN_MAX).contains(&text.len()) || !text.chars().all(is_of_token) {
            return Err(format!(
                "a token has {TOKEN_MIN} to {TOKEN_MAX} letters, digits, and - . _ ~"
            ));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares in a time that does not depend on where the first difference is.
    fn matches(&self, other: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), other.as_bytes());
        let pairs = own.iter().zip(other);
        let differences = pairs.fold(0, |all, (own, other)| black_box(all | (own ^ other)));
        own.len() == other.len() && differences == 0
    }
}

/// The address at which a proxy with TLS serves the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicUrl {
    /// Scheme, host and port, as browsers send them in `Origin`.
    origin: String,
    /// The path of the page, with a slash at both ends.
    path: String,
}

impl PublicUrl {
    /// Reads an address; the error states what it must be.
    pub fn parse(text: &str) -> Result<Self, String> {
        let scheme = text
            .get(..8)
            .filter(|scheme| scheme.eq_ignore_ascii_case("https://"));
        let rest = scheme.map(|_| &text[8..]).ok_or(
            "it must begin with https://: the token and all output would cross the network in clear",
        )?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_of_host = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
        if host.is_empty() || !host.chars().all(is_of_host) {
            return Err("it needs a host, such as https://td.example.org".to_owned());
        }
        let is_of_path = |c: char| c.is_ascii_alphanumeric() || "-._~/".contains(c);
        if !path.chars().all(is_of_path) {
            return Err("it has no query and no fragment, and a plain path".to_owned());
        }
        let path = path.trim_matches('/');
        let host = host.to_ascii_lowercase();
        Ok(Self {
            origin: format!("https://{}", host.strip_suffix(":443").unwrap_or(&host)),
            path: if path.is_empty() {
                "/".to_owned()
            } else {
                format!("/{path}/")
            },
        })
    }

    fn host(&self) -> &str {
        self.origin.trim_start_matches("https://")
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path)
    }
}

/// Checks requests before they are answered.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub token: Token,
    pub public: Option<PublicUrl>,
    /// Other machines reach the server by its addresses.
    pub is_open: bool,
}

impl Gate {
    /// Checks that a request comes from where the page is, or from a program.
    ///
    /// # Errors
    /// The response to send instead, 403.
    pub fn check_place(&self, request: &Request) -> Result<(), Response> {
        let refused = |why: &str| Err(Response::problem(403, why));
        let hosts: Vec<&str> = request.values("host").collect();
        let [host] = hosts[..] else {
            return refused("a request names one host");
        };
        let host = host.to_ascii_lowercase();
        if !self.is_known(&host) {
            return refused(
                "this host is not served here: use the printed address, and for that of a proxy td-observe serve \
                 --public-url",
            );
        }
        for origin in request.values("origin") {
            let is_own = origin.strip_prefix("http://") == Some(&host);
            let is_public = (self.public.as_ref()).is_some_and(|public| origin == public.origin);
            if !is_own && !is_public {
                return refused("requests of other pages are refused");
            }
        }
        Ok(())
    }

    /// Checks that a request is allowed to read and to act.
    ///
    /// # Errors
    /// The response to send instead, 401 or 403.
    pub fn check_token(&self, request: &Request) -> Result<(), Response> {
        // Browsers say from where a request comes. Only links to the page itself may be followed from elsewhere.
        let is_foreign = |site: &str| !matches!(site, "same-origin" | "none");
        if request.values("sec-fetch-site").any(is_foreign) {
            return Err(Response::problem(
                403,
                "requests of other pages are refused",
            ));
        }
        let given: Vec<&str> = request.values("authorization").collect();
        let given = match given[..] {
            [given] => given.split_once(' '),
            _ => None,
        };
        let is_known = given.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer") && self.token.matches(token.trim())
        });
        if is_known {
            return Ok(());
        }
        let why = if request.parameter("token").is_some() {
            "a token in an address would be kept by proxies and histories: send it as Authorization: Bearer TOKEN"
        } else {
            "send the token of the link that td-observe serve --url prints, as Authorization: Bearer TOKEN"
        };
        Err(Response::problem(401, why).header("WWW-Authenticate", "Bearer".to_owned()))
    }

    /// Returns true if this server may be called by the name in `Host`. The addresses of a machine are not those of
    /// another one, but any name may be made to lead to them.
    fn is_known(&self, host: &str) -> bool {
        if (self.public.as_ref()).is_some_and(|public| host == public.host()) {
            return true;
        }
        let name = match host.rsplit_once(':') {
            // The port may be that of a tunnel.
            Some((name, port)) if !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit()) => {
                name
            }
            _ => host,
        };
        let address = name.trim_start_matches('[').trim_end_matches(']');
        match address.parse::<IpAddr>() {
            Ok(address) => self.is_open || address.is_loopback(),
            Err(_) => name == "localhost",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::http::Head;
    use super::*;

    fn request(head: &str) -> Request {
        let text = format!("GET /api/v1/board HTTP/1.1\r\n{head}\r\n");
        match Request::read(text.as_bytes()) {
            Head::Complete(request, _) => *request,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn gate() -> Gate {
        Gate {
            token: Token::parse("0123456789abcdef").unwrap(),
            public: Some(PublicUrl::parse("https://TD.example.org:443/observe").unwrap()),
            is_open: false,
        }
    }

    #[test]
    fn only_known_hosts_and_origins_are_served() {
        let gate = gate();
        for (head, is_served) in [
            ("Host: 127.0.0.1:7878", true),
            ("Host: localhost", true),
            ("Host: LOCALHOST:9999", true),
            ("Host: [::1]:7878", true),
            ("Host: td.example.org", true),
            ("Host: td.example.org:8443", false),
            ("Host: 192.168.1.2:7878", false),
            ("Host: evil.example", false),
            ("Host: localhost.evil.example", false),
            ("Host: 127.0.0.1.evil.example:7878", false),
            ("Host: 127.0.0.1:7878\r\nHost: evil.example", false),
            ("X: y", false),
            (
                "Host: 127.0.0.1:7878\r\nOrigin: http://127.0.0.1:7878",
                true,
            ),
            (
                "Host: 127.0.0.1:7878\r\nOrigin: https://td.example.org",
                true,
            ),
            (
                "Host: td.example.org\r\nOrigin: https://td.example.org",
                true,
            ),
            (
                "Host: 127.0.0.1:7878\r\nOrigin: http://127.0.0.1:8000",
                false,
            ),
            (
                "Host: 127.0.0.1:7878\r\nOrigin: http://localhost:7878",
                false,
            ),
            (
                "Host: 127.0.0.1:7878\r\nOrigin: https://evil.example",
                false,
            ),
            ("Host: 127.0.0.1:7878\r\nOrigin: null", false),
        ] {
            let place = gate.check_place(&request(&format!("{head}\r\n")));
            assert_eq!(place.is_ok(), is_served, "{head}");
        }
        let open = Gate {
            is_open: true,
            ..gate
        };
        assert!(
            open.check_place(&request("Host: 192.168.1.2:7878\r\n"))
                .is_ok()
        );
        assert!(
            open.check_place(&request("Host: evil.example:7878\r\n"))
                .is_err()
        );
    }

    #[test]
    fn only_the_token_opens_the_gate() {
        let gate = gate();
        for (head, is_open) in [
            ("Authorization: Bearer 0123456789abcdef", true),
            ("Authorization: bearer  0123456789abcdef", true),
            ("Authorization: Bearer 0123456789abcdeF", false),
            ("Authorization: Bearer 0123456789abcde", false),
            ("Authorization: Bearer 0123456789abcdef0", false),
            ("Authorization: Bearer", false),
            ("Authorization: Basic 0123456789abcdef", false),
            ("Authorization: 0123456789abcdef", false),
            ("Cookie: token=0123456789abcdef", false),
            (
                "Authorization: Bearer 0123456789abcdef\r\nSec-Fetch-Site: cross-site",
                false,
            ),
            (
                "Authorization: Bearer 0123456789abcdef\r\nSec-Fetch-Site: same-origin",
                true,
            ),
        ] {
            let opened = gate.check_token(&request(&format!("{head}\r\n")));
            assert_eq!(opened.is_ok(), is_open, "{head}");
        }
        let text = b"GET /x?token=0123456789abcdef HTTP/1.1\r\n\r\n";
        let Head::Complete(request, _) = Request::read(text) else {
            panic!()
        };
        let why = gate.check_token(&request).unwrap_err().detail();
        assert!(why.starts_with("a token in an address"), "{why}");
    }

    #[test]
    fn public_addresses_have_tls_and_a_plain_path() {
        for (typed, shown) in [
            ("https://td.example.org", "https://td.example.org/"),
            (
                "https://td.example.org:8443/",
                "https://td.example.org:8443/",
            ),
            (
                "https://TD.example.org:443/a/b/",
                "https://td.example.org/a/b/",
            ),
        ] {
            assert_eq!(PublicUrl::parse(typed).unwrap().to_string(), shown);
        }
        for wrong in [
            "http://td.example.org",
            "td.example.org",
            "https://",
            "https:///x",
            "https://u@h/",
            "https://h/?a",
            "https://h/#a",
            "https://h/\r\nX: y",
        ] {
            assert!(PublicUrl::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tokens_are_long_and_of_plain_characters() {
        let random = Token::of_bytes([0xab; 16]);
        assert_eq!(random.as_str(), "ab".repeat(16));
        assert_eq!(Token::parse(random.as_str()), Ok(random.clone()));
        assert_eq!(format!("{random:?}"), "Token(…)");
        for wrong in ["", "short", "with blanks in the middle", "0123456789abcde/"] {
            assert!(Token::parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_judged(host in "[ -~]{0,40}", origin in "[ -~]{0,40}", token in "[ -~]{0,40}") {
            let head = format!("Host: {host}\r\nOrigin: {origin}\r\nAuthorization: {token}\r\n");
            let request = request(&head);
            let _ = gate().check_place(&request);
            prop_assert!(gate().check_token(&request).is_err() || token.contains("0123456789abcdef"));
        }
    }
}
