//! Streams of agents, built from records like the real ones.

use td_observe::agent::Format;

/// A stream and its description.
pub struct Stream {
    pub name: &'static str,
    pub format: Format,
    pub text: String,
}

/// Returns one stream of each kind, 8 MiB long.
pub fn all() -> Vec<Stream> {
    /// The length of a stream in bytes.
    const BYTES: usize = 8 * 1024 * 1024;
    const ID: &str = "11111111-1111-4111-8111-111111111111";
    let partial = |event: &str| {
        format!(
            r#"{{"type":"stream_event","event":{event},"session_id":"{ID}","parent_tool_use_id":null,"uuid":"{ID}"}}"#
        ) + "\n"
    };
    let start = r#"{"type":"message_start","message":{"id":"m","type":"message","usage":{"input_tokens":31,"output_tokens":7}}}"#;
    let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"'ll read both files."}}"#;
    let usage = r#""usage":{"input_tokens":2,"cache_creation_input_tokens":27272,"cache_read_input_tokens":25282,"output_tokens":1,"service_tier":"standard"}"#;
    let page = "1\\tfn main() {\\n".repeat(100);
    let whole = format!(
        r#"{{"type":"assistant","message":{{"model":"claude-opus-5","id":"m","type":"message","role":"assistant","content":[{{"type":"tool_use","id":"t","name":"Read","input":{{"file_path":"/work/demo/fx-a.txt"}}}}],"stop_reason":null,{usage}}},"parent_tool_use_id":null,"session_id":"{ID}","uuid":"{ID}"}}
{{"type":"user","message":{{"role":"user","content":[{{"tool_use_id":"t","type":"tool_result","content":"{page}"}}]}},"parent_tool_use_id":null,"session_id":"{ID}","uuid":"{ID}"}}
"#
    );
    let chat = r#"{"id":"chatcmpl-Dx0","object":"chat.completion.chunk","created":1782955818,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","choices":[{"index":0,"delta":{"content":" capital"},"logprobs":null,"finish_reason":null}],"usage":null}"#;
    let response = format!(
        r#"{{"type":"response.output_text.delta","content_index":0,"delta":"stream","item_id":"msg_{ID}","logprobs":[],"output_index":0,"sequence_number":4}}"#
    );
    let kinds = [
        (
            "Anthropic SSE",
            Format::Sse,
            format!("event: message_start\ndata: {start}\n\n"),
            format!("event: content_block_delta\ndata: {delta}   \n\n"),
        ),
        (
            "OpenAI chat SSE",
            Format::Sse,
            String::new(),
            format!("data: {chat}\n\n"),
        ),
        (
            "OpenAI responses SSE",
            Format::Sse,
            "data: {\"type\":\"response.created\",\"response\":{}}\n\n".to_owned(),
            format!("event: response.output_text.delta\ndata: {response}\n\n"),
        ),
        (
            "stream-json, partial messages",
            Format::Claude,
            partial(start),
            partial(delta),
        ),
        (
            "stream-json, whole messages",
            Format::Claude,
            partial(start),
            whole,
        ),
    ];
    let stream = |(name, format, first, record): (&'static str, Format, String, String)| Stream {
        name,
        format,
        text: first + &record.repeat(BYTES / record.len()),
    };
    kinds.into_iter().map(stream).collect()
}
