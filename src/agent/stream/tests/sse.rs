//! The APIs' own streams.

use super::*;

#[test]
fn a_message_of_anthropic() {
    let text = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}   \n\n\
        event: ping\ndata: {\"type\": \"ping\"}\n\n\
        data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hel\"}  }\r\n\r\n\
        data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"ls\",\"input\":{}}}\r\r\
        data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\"}}\n\n\
        data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":\"}}\n\n\
        data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"1}\"}}\n\n\
        data: {\"type\":\"content_block_stop\",\"index\":1 }\n\n\
        data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"REASON\"},\"usage\":{\"output_tokens\":4}}\n\n\
        data: {\"type\":\"message_stop\"   }\n\n";
    let mut expected = vec!["token Hel", r#"tool ls {"a":1}"#, "response 10/4 tools"];
    let tools = text.replace("REASON", "tool_use");
    assert_eq!(events_of(Format::Auto, &tools), expected);
    expected.extend(["turn max_tokens", "! the answer is incomplete: max_tokens"]);
    assert_eq!(
        events_of(Format::Sse, &text.replace("REASON", "max_tokens")),
        expected
    );
    // Cut off before its end, or failed with an error after HTTP 200.
    let cut = tools
        .split("data: {\"type\":\"message_stop\"")
        .next()
        .unwrap();
    let cut_off = "failed the run was cut off before its end";
    assert_eq!(events_of(Format::Auto, cut).last().unwrap(), cut_off);
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let failed = events_of(Format::Auto, &[cut, error].concat());
    assert_eq!(
        failed.last().unwrap(),
        "failed overloaded_error: Overloaded"
    );
    // Payloads without fields.
    let payloads: String = tools
        .split(['\n', '\r'])
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|payload| format!("{payload}\n"))
        .collect();
    assert_eq!(
        events_of(Format::Auto, &payloads),
        events_of(Format::Auto, &tools)
    );
}

#[test]
fn a_chat_completion() {
    let chunk = |more: &str| {
        format!("data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",{more}}}\n\n")
    };
    let text = chunk(
        r#""choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]"#,
    ) + ": OPENROUTER PROCESSING\n\n"
        + &chunk(r#""choices":[{"index":0,"delta":{"content":"Hi"}}]"#);
    let finished =
        text.clone() + &chunk(r#""choices":[{"index":0,"delta":{},"finish_reason":"stop"}]"#);
    let usage = chunk(r#""choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}"#);
    let done = "data: [DONE]\n\n";
    assert_eq!(
        events_of(Format::Auto, &[&finished, &*usage, done].concat()),
        ["token Hi", "response 7/2", "turn stop"]
    );
    assert_eq!(
        events_of(Format::Auto, &finished),
        [
            "token Hi",
            "! the stream ended without [DONE]",
            "response 0/0",
            "turn stop"
        ]
    );
    assert_eq!(
        events_of(Format::Auto, &[&text, done].concat()),
        ["token Hi", "failed the run was cut off before its end"]
    );
    let error = chunk(
        r#""error":{"code":400,"message":"Token limit reached"},"choices":[{"index":0,"finish_reason":null}]"#,
    );
    assert_eq!(
        events_of(Format::Auto, &[&finished, &*error, done].concat()),
        ["token Hi", "failed Token limit reached"]
    );
    let tools = chunk(
        r#""choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"ls","arguments":""}}]}}]"#,
    ) + &chunk(
        r#""choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]"#,
    ) + &chunk(r#""choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]"#);
    assert_eq!(
        events_of(Format::Auto, &[&tools, done].concat()),
        ["tool ls {}", "response 0/0 tools"]
    );
}

#[test]
fn a_response() {
    let event = |more: &str| format!("event: x\ndata: {{{more}}}\n\n");
    let begun = event(r#""type":"response.created","response":{"id":"r"},"sequence_number":0"#)
        + &event(
            r#""type":"response.output_item.added","item":{"id":"w","type":"web_search_call","status":"in_progress"}"#,
        )
        + &event(
            r#""type":"response.output_item.done","item":{"id":"w","type":"web_search_call","status":"completed","action":{"query":"q"}}"#,
        )
        + &event(r#""type":"response.output_text.delta","delta":"Hi""#)
        + &event(r#""type":"response.output_text.done","text":"Hi""#);
    let usage = r#""usage":{"input_tokens":7,"output_tokens":2}"#;
    let completed = event(&format!(
        r#""type":"response.completed","response":{{"id":"r",{usage}}}"#
    ));
    assert_eq!(
        events_of(Format::Auto, &[&begun, &*completed].concat()),
        [
            "tool web_search_call ",
            "ok web_search_call  0ms",
            "token Hi",
            "response 7/2 tools",
            "turn response.completed",
        ]
    );
    let call = event(
        r#""type":"response.output_item.done","item":{"call_id":"c","type":"function_call","name":"ls","arguments":"{}"}"#,
    );
    let waits = events_of(Format::Auto, &[&begun, &*call, &completed].concat());
    assert_eq!(waits.last().unwrap(), "response 7/2 tools");
    let failed = event(r#""type":"response.failed","response":{"error":{"message":"no"}}"#);
    let failed = events_of(Format::Auto, &[&begun, &*failed].concat());
    assert_eq!(failed.last().unwrap(), "failed no");
    let cut = events_of(Format::Auto, &begun);
    assert_eq!(
        cut.last().unwrap(),
        "failed the run was cut off before its end"
    );
    let short = event(
        r#""type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}"#,
    );
    let short = events_of(Format::Auto, &[&begun, &*short].concat());
    assert_eq!(
        short.last().unwrap(),
        "! the answer is incomplete: max_output_tokens"
    );
}
