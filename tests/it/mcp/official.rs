//! The official schemas of the protocol, one for each era, and what they say of a message of the server.
//!
//! `tests/it/mcp/schema/` has them as the project that keeps the protocol publishes them, with its licence.

use std::sync::OnceLock;

use serde_json::Value;

use crate::schema::Structure;

/// The way in which a client speaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// A handshake, `initialize`, comes first; 2025-11-25 is its last version.
    Handshake,
    /// Each request names its version, from 2026-07-28 on.
    PerRequest,
}

impl Era {
    pub const ALL: [Self; 2] = [Self::Handshake, Self::PerRequest];

    /// The last version of the era.
    pub fn version(self) -> &'static str {
        match self {
            Self::Handshake => "2025-11-25",
            Self::PerRequest => "2026-07-28",
        }
    }

    /// Returns the era in which a request or notification of a client speaks.
    pub fn of(message: &Value) -> Self {
        let version = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
        if version.is_null() {
            Self::Handshake
        } else {
            Self::PerRequest
        }
    }

    fn schema(self) -> &'static Structure {
        static HANDSHAKE: OnceLock<Structure> = OnceLock::new();
        static PER_REQUEST: OnceLock<Structure> = OnceLock::new();
        let (cell, text) = match self {
            Self::Handshake => (&HANDSHAKE, include_str!("schema/schema-2025-11-25.json")),
            Self::PerRequest => (&PER_REQUEST, include_str!("schema/schema-2026-07-28.json")),
        };
        cell.get_or_init(|| Structure::of(serde_json::from_str(text).unwrap()))
    }

    /// Returns the definition of the results of a method, or `None` if the era has no such method.
    fn result(self, method: &str) -> Option<&'static str> {
        match (self, method) {
            (Self::Handshake, "initialize") => Some("InitializeResult"),
            (Self::Handshake, "logging/setLevel") => Some("EmptyResult"),
            // The later era has no pings, and need not refuse them.
            (_, "ping") => Some("EmptyResult"),
            (Self::PerRequest, "server/discover") => Some("DiscoverResult"),
            (_, "tools/list") => Some("ListToolsResult"),
            (_, "tools/call") => Some("CallToolResult"),
            _ => None,
        }
    }

    /// Checks the answer to a request with this method.
    pub fn check_answer(self, method: &str, answer: &Value) -> Result<(), String> {
        let schema = self.schema();
        if !answer["error"].is_null() {
            return schema.check_as("JSONRPCErrorResponse", answer);
        }
        schema.check_as("JSONRPCResultResponse", answer)?;
        match self.result(method) {
            Some(name) => schema.check_as(name, &answer["result"]),
            None => Err(format!("{self:?} has no results of {method}")),
        }
    }

    /// Checks a notification of the server. Those of Claude's channel are an extension.
    pub fn check_notification(self, notification: &Value) -> Result<(), String> {
        let is_channel = notification["method"] == "notifications/claude/channel";
        let name = if is_channel {
            "JSONRPCNotification"
        } else {
            "ServerNotification"
        };
        self.schema().check_as(name, notification)
    }
}

/// Checks an error that answers no request that could be told.
pub fn check_error_without_request(error: &Value) -> Result<(), String> {
    Era::ALL.into_iter().try_for_each(|era| {
        let schema = era.schema();
        schema.check_as("JSONRPCErrorResponse", error)
    })
}

#[test]
fn the_official_schemas_tell_right_messages_from_wrong_ones() {
    use serde_json::json;
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": 1, "result": result});
    let text = json!([{"type": "text", "text": "{}"}]);
    let old = answer(json!({"content": text, "structuredContent": {}}));
    let new = answer(json!({"content": text, "structuredContent": {}, "resultType": "complete"}));
    for era in Era::ALL {
        assert_eq!(era.check_answer("tools/call", &new), Ok(()));
        for (method, wrong) in [
            ("tools/call", answer(json!({}))),
            ("tools/call", answer(json!({"content": [{"type": "text"}]}))),
            ("tools/call", answer(json!([]))),
            ("tools/call", json!({"id": 1, "result": new["result"]})),
            ("tools/list", new.clone()),
            ("tools/unknown", new.clone()),
            (
                "ping",
                json!({"jsonrpc": "2.0", "id": null, "error": {"code": -1, "message": ""}}),
            ),
            (
                "ping",
                json!({"jsonrpc": "2.0", "id": 1, "error": {"code": "1", "message": ""}}),
            ),
        ] {
            assert!(
                era.check_answer(method, &wrong).is_err(),
                "{era:?} {method} {wrong}"
            );
        }
        let progress = |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        let right = progress(json!({"progressToken": 1, "progress": 1}));
        assert_eq!(era.check_notification(&right), Ok(()));
        for wrong in [
            progress(json!({"progress": 1})),
            progress(json!({"progressToken": 1, "progress": "1"})),
            json!({"jsonrpc": "2.0", "method": "notifications/unknown"}),
        ] {
            assert!(era.check_notification(&wrong).is_err(), "{era:?} {wrong}");
        }
    }
    assert_eq!(Era::Handshake.check_answer("tools/call", &old), Ok(()));
    assert!(Era::PerRequest.check_answer("tools/call", &old).is_err());
}
