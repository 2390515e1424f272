//! Results of tools, and their size (pure).

use serde_json::{Map, Value, json};

use super::refusal::Refusal;

/// The longest result in bytes, unless the client asks for more.
const BYTES_MAX: usize = 4096;

/// The longest result that a client gets for the asking: a hundred thousand tokens would be too much for any model.
const ASKED_BYTES_MAX: usize = 128 * 1024;

/// The bytes of a result beside the fields of the tool: the envelope, cursors and counts, and our advice.
const AROUND_BYTES: usize = 900;

/// The least room that is tried: the fields around a text take more.
const SMALLEST: usize = 200;

/// The result of a tool: its fields, which are sent as structured content and as text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ToolResult {
    fields: Map<String, Value>,
    is_error: bool,
}

impl ToolResult {
    /// Returns the result of a tool that has done what it was asked.
    pub fn new(fields: Map<String, Value>) -> Self {
        Self {
            fields,
            is_error: false,
        }
    }

    /// Returns the result of a tool that does nothing. One that types says if it has typed something.
    pub fn refused(refusal: Refusal, types: bool) -> Self {
        let typed = refusal.typed().filter(|_| types);
        let mut fields = refusal.fields();
        if let Some(typed) = typed {
            fields.insert("typed".to_owned(), json!(typed));
        }
        Self {
            fields,
            is_error: true,
        }
    }

    /// Returns the result of `tools/call`, without what belongs to its era.
    pub fn result(self) -> Map<String, Value> {
        let fields = Value::Object(self.fields);
        let mut result = Map::new();
        let text = json!([{"type": "text", "text": fields.to_string()}]);
        result.insert("content".to_owned(), text);
        result.insert("structuredContent".to_owned(), fields);
        if self.is_error {
            result.insert("isError".to_owned(), json!(true));
        }
        result
    }
}

/// The room that is left in a result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget(usize);

impl Budget {
    /// Returns the room of a short result, or of one as long as may be.
    pub fn new(is_long: bool) -> Self {
        let all = if is_long { ASKED_BYTES_MAX } else { BYTES_MAX };
        Self(all - AROUND_BYTES)
    }

    /// Takes the room of a value; false if there is not enough.
    pub fn take(&mut self, value: &Value) -> bool {
        let cost = cost(value);
        let fits = cost <= self.0;
        self.0 = self.0.saturating_sub(cost);
        fits
    }

    /// Returns the number of bytes that are left.
    pub fn bytes(self) -> usize {
        self.0
    }

    /// Returns the number of bytes of a text, as plain as most are, that fit.
    pub fn text_bytes(self) -> usize {
        self.0 / 2
    }

    /// Returns the first result of `read` that fits, each with less room for its text, in bytes of JSON.
    pub fn fit<T: serde::Serialize, E>(
        self,
        mut read: impl FnMut(usize) -> Result<T, E>,
    ) -> Result<Value, E> {
        let mut room = self.text_bytes();
        loop {
            let value = json!(read(room)?);
            if cost(&value) <= self.0 || room < SMALLEST {
                return Ok(value);
            }
            // Escapes are escaped once more in the text.
            room = room / 5 * 4;
        }
    }

    /// Returns the end of a text that fits: whole lines, if one fits.
    pub fn fit_end(self, text: &str) -> String {
        let rest = self.fit_bytes(text);
        match rest.split_once('\n') {
            Some((_, lines)) if rest.len() < text.len() && !lines.is_empty() => lines.to_owned(),
            _ => rest,
        }
    }

    fn fit_bytes(self, text: &str) -> String {
        let mut begin = text.len().saturating_sub(self.text_bytes());
        loop {
            while !text.is_char_boundary(begin) {
                begin += 1;
            }
            let rest = &text[begin..];
            let over = cost(&json!(rest)).saturating_sub(self.0);
            if over == 0 || rest.is_empty() {
                return rest.to_owned();
            }
            // Escapes take up to six bytes twice.
            begin += (over / 14).max(1);
        }
    }
}

/// Returns the bytes that a value takes in a list of a result: as it is, and once more as a text.
pub(super) fn cost(value: &Value) -> usize {
    let text = value.to_string();
    let again = json!(text).to_string().len();
    // The quotes of the text stand for the commas.
    text.len() + again
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_sent_twice() {
        let fields = Map::from_iter([("a".to_owned(), json!("\"x\""))]);
        let result = ToolResult::new(fields).result();
        assert_eq!(result["structuredContent"]["a"], "\"x\"");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap()["a"], "\"x\"");
    }

    proptest! {
        #[test]
        fn a_text_that_fits_keeps_a_result_short(text in ".{0,3000}") {
            let fitting = Budget::new(false).fit_end(&text);
            prop_assert!(text.ends_with(&fitting));
            let fields = Map::from_iter([("output".to_owned(), json!(fitting))]);
            let result = ToolResult::new(fields).result();
            prop_assert!(json!(result).to_string().len() < BYTES_MAX);
        }
    }
}
