//! Which API is asked, where it is, and whether a key may go there.

use std::net::IpAddr;

use ureq::http::Uri;

use crate::error::{Error, Result};

/// The version of Anthropic's API whose words are spoken here.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// An API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Api {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's chat completions, which many other servers speak too.
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

    /// Where the environment has the key and the address.
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

    /// Headers of a request with this key.
    pub(super) fn headers(self, key: Option<&str>) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        match self {
            Self::Anthropic => {
                headers.push(("anthropic-version", ANTHROPIC_VERSION.to_owned()));
                headers.extend(key.map(|key| ("x-api-key", key.to_owned())));
            }
            Self::OpenAi => {
                headers.extend(key.map(|key| ("authorization", format!("Bearer {key}"))));
            }
        }
        headers
    }
}

/// Where an API is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub url: String,
    /// It is on this machine.
    pub is_loopback: bool,
}

impl Place {
    /// The place below a base URL.
    pub fn new(api: Api, base_url: &str, is_plain_allowed: bool) -> Result<Self> {
        // Nothing of the address is shown: it may have a password in it.
        let invalid = |why: &str| {
            let (_, name) = api.variables();
            Error::invalid(format!("the base URL ({name}) {why}"))
        };
        let base = base_url.trim().trim_end_matches('/');
        let base = match api {
            Api::Anthropic => base.strip_suffix("/v1").unwrap_or(base),
            Api::OpenAi => base,
        };
        let url = format!("{base}{}", api.path());
        let uri: Uri = url.parse().map_err(|_| invalid("is no URL"))?;
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err(invalid("has a password in it: give the key by itself"));
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
                    "is not encrypted: http is for this machine alone, unless it is allowed",
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
    fn where_a_key_may_go() {
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
            let place = Place::new(api, base, false);
            let error = place.as_ref().err().map(|error| format!("{error:?}"));
            assert!(!error.unwrap_or_default().contains("hunter2"));
            assert_eq!(place.ok().map(|place| place.url).as_deref(), url, "{base}");
        }
        assert!(Place::new(Api::OpenAi, "http://192.168.1.7/v1", true).is_ok());
    }
}
