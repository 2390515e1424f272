//! The APIs, their endpoints, and the rules for sending a key to an endpoint.

use std::net::IpAddr;

use ureq::http::{HeaderValue, Uri};

use super::secret::Secret;
use crate::error::{Error, Result};

/// The version of Anthropic's API that this client uses.
const ANTHROPIC_VERSION: &str = "2023-06-01";

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
            let version = HeaderValue::from_static(ANTHROPIC_VERSION);
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
        let uri: Uri = url.parse().map_err(|_| invalid("is not a URL"))?;
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err(invalid("contains a password; set the key separately"));
        }
        if uri.query().is_some() {
            return Err(invalid("has a query"));
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
                return Err(invalid(
                    "is not encrypted: http is allowed for this machine only, unless plain HTTP is enabled",
                ));
            }
            _ => return Err(invalid("must begin with https://")),
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
