//! The two eras of the protocol: a handshake, or the version with each request (pure).
//!
//! Each request is taken for itself: one that names its version in `_meta` is of the stateless era, any other of the era
//! of the handshake, whether there has been one or not.

use serde_json::{Map, Value, json};

use super::message::{INVALID_PARAMS, Problem, UNSUPPORTED_VERSION};
use super::short::short;

/// The versions that begin with `initialize`, the newest last.
const HANDSHAKE_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The versions that each request names, the newest last.
const STATELESS_VERSIONS: [&str; 1] = ["2026-07-28"];

/// The fields of a request's `_meta` in the stateless era.
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// The field of a result's `_meta` in the stateless era.
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// The time for which a client may keep the list of tools, which changes with the program only.
const KEPT_MS: u64 = 3_600_000;

/// The longest version that is repeated, in characters: versions are dates.
const VERSION_CHARS_MAX: usize = 40;

/// The era of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    Handshake,
    Stateless,
}

impl Era {
    /// Returns the era of a request by its parameters.
    ///
    /// # Errors
    /// The answer, if the client names a version that is not spoken, or leaves out what it must say.
    pub fn of(params: &Map<String, Value>) -> Result<Self, Problem> {
        let meta = params.get("_meta").and_then(Value::as_object);
        let Some((meta, version)) = meta.and_then(|meta| Some((meta, meta.get(VERSION_KEY)?)))
        else {
            return Ok(Self::Handshake);
        };
        let Some(version) = version.as_str() else {
            let why = format!("_meta: {VERSION_KEY} is no text");
            return Err(Problem::new(INVALID_PARAMS, why));
        };
        if !STATELESS_VERSIONS.contains(&version) {
            let why = "this version of the protocol is not supported";
            let data = json!({"supported": STATELESS_VERSIONS, "requested": short(version, VERSION_CHARS_MAX)});
            return Err(Problem::new(UNSUPPORTED_VERSION, why).with_data(data));
        }
        if !meta.get(CAPABILITIES_KEY).is_some_and(Value::is_object) {
            let why = format!("_meta: {CAPABILITIES_KEY} is missing, or no object");
            return Err(Problem::new(INVALID_PARAMS, why));
        }
        Ok(Self::Stateless)
    }

    /// Completes a result.
    pub fn result(self, mut result: Map<String, Value>) -> Map<String, Value> {
        if self == Self::Stateless {
            result.insert("resultType".to_owned(), json!("complete"));
            result.insert("_meta".to_owned(), json!({SERVER_KEY: server_info()}));
        }
        result
    }

    /// Completes a result that clients may keep.
    pub fn kept_result(self, mut result: Map<String, Value>) -> Map<String, Value> {
        if self == Self::Stateless {
            result.insert("ttlMs".to_owned(), json!(KEPT_MS));
            result.insert("cacheScope".to_owned(), json!("public"));
        }
        self.result(result)
    }
}

/// What the server says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Introduction {
    /// It sends notifications of its own accord, as Claude Code's channels are.
    pub has_channel: bool,
    /// What a model is told, in parts.
    pub instructions: &'static [&'static str],
}

impl Introduction {
    fn capabilities(self) -> Value {
        if self.has_channel {
            json!({"tools": {}, "experimental": {"claude/channel": {}}})
        } else {
            json!({"tools": {}})
        }
    }

    /// Returns the result of `initialize`: the version that the client names, or else the newest with a handshake.
    pub fn initialize(self, params: &Map<String, Value>) -> Map<String, Value> {
        let requested = params.get("protocolVersion").and_then(Value::as_str);
        let newest = HANDSHAKE_VERSIONS[HANDSHAKE_VERSIONS.len() - 1];
        let version = requested.filter(|version| HANDSHAKE_VERSIONS.contains(version));
        let mut result = Map::new();
        result.insert(
            "protocolVersion".to_owned(),
            json!(version.unwrap_or(newest)),
        );
        result.insert("capabilities".to_owned(), self.capabilities());
        result.insert("serverInfo".to_owned(), server_info());
        result.insert(
            "instructions".to_owned(),
            json!(self.instructions.join(" ")),
        );
        result
    }

    /// Returns the result of `server/discover`, without what belongs to its era.
    pub fn discover(self) -> Map<String, Value> {
        let mut result = Map::new();
        result.insert("supportedVersions".to_owned(), json!(STATELESS_VERSIONS));
        result.insert("capabilities".to_owned(), self.capabilities());
        result.insert(
            "instructions".to_owned(),
            json!(self.instructions.join(" ")),
        );
        result
    }
}

fn server_info() -> Value {
    json!({
        "name": "td-observe",
        "title": "td-observe",
        "version": env!("CARGO_PKG_VERSION"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn the_era_is_that_of_the_request() {
        assert_eq!(Era::of(&Map::new()), Ok(Era::Handshake));
        let old = params(json!({"_meta": {"progressToken": 1}}));
        assert_eq!(Era::of(&old), Ok(Era::Handshake));
        let of = |version: Value, capabilities: Value| {
            let meta = json!({VERSION_KEY: version, CAPABILITIES_KEY: capabilities});
            Era::of(&params(json!({"_meta": meta})))
        };
        assert_eq!(of(json!("2026-07-28"), json!({})), Ok(Era::Stateless));
        for (version, capabilities, code) in [
            (json!("2027-01-01"), json!({}), UNSUPPORTED_VERSION),
            (json!("2025-11-25"), json!({}), UNSUPPORTED_VERSION),
            (json!(7), json!({}), INVALID_PARAMS),
            (json!("2026-07-28"), json!(null), INVALID_PARAMS),
        ] {
            let problem = of(version, capabilities).unwrap_err();
            assert_eq!(problem.response(&json!(1))["error"]["code"], code);
        }
    }

    #[test]
    fn a_handshake_agrees_on_a_version() {
        let introduction = Introduction {
            has_channel: false,
            instructions: &[],
        };
        for (asked, agreed) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-11-25", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
            ("1", "2025-11-25"),
        ] {
            let asked = params(json!({"protocolVersion": asked}));
            assert_eq!(introduction.initialize(&asked)["protocolVersion"], agreed);
        }
    }

    #[test]
    fn only_results_of_the_stateless_era_have_its_fields() {
        assert!(Era::Handshake.kept_result(Map::new()).is_empty());
        let result = Era::Stateless.kept_result(Map::new());
        assert_eq!(result["resultType"], "complete");
        assert_eq!(result["cacheScope"], "public");
        assert_eq!(result["_meta"][SERVER_KEY]["name"], "td-observe");
    }
}
