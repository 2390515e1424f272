//! What models are shown of the tools: enough to use them, and little, since each of their conversations has it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::client::Client;
use super::official::Era;
use crate::cli::assert_code;
use crate::observer::Home;

/// The size of all descriptions together, in bytes: 1,500 tokens of four.
const DESCRIPTIONS_BYTES_MAX: usize = 6_000;

/// Returns the lengths of all descriptions in a value, wherever they are.
fn descriptions(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| match value.as_str() {
                Some(text) if name == "description" => text.len(),
                _ => descriptions(value),
            })
            .sum(),
        Value::Array(values) => values.iter().map(descriptions).sum(),
        _ => 0,
    }
}

#[test]
fn the_tools_are_described_in_few_words_and_in_both_eras_alike() {
    let home = Home::new();
    home.server.new_session("web", 80, 24, "exec cat");
    let mut listed = Vec::new();
    for (era, options) in [
        (Era::Handshake, &[][..]),
        (Era::PerRequest, &["--allow-input"][..]),
    ] {
        let mut client = Client::start(&home, options);
        let server = client.connect(era);
        assert!(server["capabilities"]["tools"].is_object(), "{server}");
        assert!(
            !server["instructions"].as_str().unwrap().is_empty(),
            "{server}"
        );
        listed.push(client.tools());
        assert_code(&client.end(), 0);
    }
    let tools = listed.pop().unwrap();
    // What a model sees does not depend on what it may.
    assert_eq!(listed, vec![tools.clone()]);
    let size: usize = tools.iter().map(descriptions).sum();
    eprintln!(
        "{size} bytes of descriptions, {} of all",
        json!(tools).to_string().len()
    );
    assert!(size <= DESCRIPTIONS_BYTES_MAX, "{size}");
    for tool in &tools {
        let name = &tool["name"];
        assert!(!tool["description"].as_str().unwrap().is_empty(), "{name}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        // APIs of models refuse alternatives at the top of a schema.
        for keyword in ["anyOf", "oneOf", "allOf", "not", "enum"] {
            assert!(tool["inputSchema"][keyword].is_null(), "{name}: {keyword}");
        }
        let types = name.as_str().unwrap().starts_with("send");
        let hints = &tool["annotations"];
        assert_eq!(hints["readOnlyHint"], !types, "{name}");
        assert_eq!(
            hints["destructiveHint"].as_bool().unwrap_or(types),
            types,
            "{name}"
        );
        let properties = tool["inputSchema"]["properties"].as_object().unwrap();
        let known: BTreeSet<&String> = properties.keys().collect();
        let required = tool["inputSchema"]["required"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        assert!(
            required
                .iter()
                .all(|name| known.iter().any(|known| name == *known)),
            "{name}"
        );
    }
}
