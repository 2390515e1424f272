//! Any bytes as a line of an MCP client: each is answered, or needs no answer; answers are one line of JSON with the id
//! of the request, and the arguments of a tool are read or refused.

use serde_json::Value;
use td_observe::internals::fuzzing::mcp_answer;

pub fn run(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some(answer) = mcp_answer(line) else {
            continue;
        };
        assert!(!answer.contains('\n'), "{answer}");
        let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
        assert_eq!(answer["jsonrpc"], "2.0");
        assert!(
            answer.get("result").is_some() != answer.get("error").is_some(),
            "{answer}"
        );
        let asked: Option<Value> = serde_json::from_slice(line.trim_ascii()).ok();
        let id = asked.and_then(|asked| asked.get("id").cloned());
        assert!(
            answer["id"].is_null() || Some(&answer["id"]) == id.as_ref(),
            "{answer}"
        );
    }
}
