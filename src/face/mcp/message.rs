//! JSON-RPC messages, one on each line (pure).

use serde_json::{Map, Value, json};

use super::short::short;

/// The code of an error: the line is no JSON.
pub(super) const PARSE_ERROR: i64 = -32700;
/// The code of an error: the message is no request.
pub(super) const INVALID_REQUEST: i64 = -32600;
/// The code of an error: no such method.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
/// The code of an error: the parameters do not fit the method.
pub(super) const INVALID_PARAMS: i64 = -32602;
/// The code of an error: this version of the protocol is not spoken (2026-07-28).
pub(super) const UNSUPPORTED_VERSION: i64 = -32022;

/// The longest id that is answered, in bytes: clients count, or send a UUID.
const ID_BYTES_MAX: usize = 256;

/// The longest words of an error, in characters: they repeat what the client has sent.
const MESSAGE_CHARS_MAX: usize = 600;

/// A message of the client.
#[derive(Debug, PartialEq)]
pub(super) enum Incoming {
    Request(Request),
    Notification {
        method: String,
        params: Map<String, Value>,
    },
    /// The answer to a request of the server, which sends none.
    Response,
    /// It is no message; the answer says why.
    Invalid(Value),
}

/// A request.
#[derive(Debug, PartialEq)]
pub(super) struct Request {
    /// A text or a number.
    pub id: Value,
    pub method: String,
    pub params: Map<String, Value>,
}

/// An error, as an answer has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Problem {
    code: i64,
    message: String,
    data: Option<Value>,
}

impl Problem {
    pub fn new(code: i64, message: impl AsRef<str>) -> Self {
        Self {
            code,
            message: short(message.as_ref(), MESSAGE_CHARS_MAX),
            data: None,
        }
    }

    pub fn with_data(self, data: Value) -> Self {
        Self {
            data: Some(data),
            ..self
        }
    }

    /// Returns the answer to a request; `null` is the id of what has none. The schema of the protocol knows no such id, so
    /// that answer is without.
    pub fn response(self, id: &Value) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = self.data {
            error["data"] = data;
        }
        if id.is_null() {
            json!({"jsonrpc": "2.0", "error": error})
        } else {
            json!({"jsonrpc": "2.0", "id": id, "error": error})
        }
    }
}

/// Returns the answer to a request.
pub(super) fn response(id: &Value, result: Map<String, Value>) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Returns a notification.
pub(super) fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// Reads a line; `None` if it is empty.
pub(super) fn parse(line: &[u8]) -> Option<Incoming> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return None;
    }
    let invalid =
        |code, why: &str, id: &Value| Some(Incoming::Invalid(Problem::new(code, why).response(id)));
    let Ok(message) = serde_json::from_slice::<Value>(line) else {
        return invalid(PARSE_ERROR, "the line is no JSON", &Value::Null);
    };
    let Value::Object(mut message) = message else {
        let why = "a message is one JSON object on a line; batches are not supported";
        return invalid(INVALID_REQUEST, why, &Value::Null);
    };
    let id = message.remove("id");
    let known_id = id.clone().filter(is_id).unwrap_or(Value::Null);
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid(INVALID_REQUEST, "jsonrpc is not \"2.0\"", &known_id);
    }
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        None if message.contains_key("result") || message.contains_key("error") => {
            return Some(Incoming::Response);
        }
        _ => return invalid(INVALID_REQUEST, "method is missing, or no text", &known_id),
    };
    let params = match message.remove("params") {
        Some(Value::Object(params)) => params,
        None | Some(Value::Null) => Map::new(),
        Some(_) if id.is_none() => Map::new(),
        Some(_) => return invalid(INVALID_PARAMS, "params is no object", &known_id),
    };
    Some(match id {
        None => Incoming::Notification { method, params },
        Some(id) if is_id(&id) => Incoming::Request(Request { id, method, params }),
        Some(_) => return invalid(INVALID_REQUEST, "id is no text and no number", &Value::Null),
    })
}

fn is_id(id: &Value) -> bool {
    match id {
        Value::String(text) => text.len() <= ID_BYTES_MAX,
        Value::Number(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code(line: &str) -> Option<i64> {
        match parse(line.as_bytes()) {
            Some(Incoming::Invalid(answer)) => answer["error"]["code"].as_i64(),
            _ => None,
        }
    }

    #[test]
    fn requests_notifications_and_answers_differ() {
        let read = |line: &str| parse(line.as_bytes()).unwrap();
        assert_eq!(
            read(" {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}\r"),
            Incoming::Request(Request {
                id: json!("a"),
                method: "ping".to_owned(),
                params: Map::new(),
            })
        );
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            Incoming::Notification { .. }
        ));
        assert_eq!(
            read(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            Incoming::Response
        );
        assert_eq!(parse(b" \r"), None);
    }

    #[test]
    fn what_is_no_message_is_answered_with_the_reason() {
        for (line, expected) in [
            ("{", PARSE_ERROR),
            ("\u{0}", PARSE_ERROR),
            ("[]", INVALID_REQUEST),
            (
                r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
                INVALID_REQUEST,
            ),
            (r#"{"id":1,"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, INVALID_REQUEST),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#,
                INVALID_PARAMS,
            ),
        ] {
            assert_eq!(code(line), Some(expected), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(&line);
        }
    }
}
