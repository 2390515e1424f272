//! Gemini CLI: the output of `--output-format stream-json`, and session files (pure).

mod print;
mod session;

pub(super) use print::GeminiPrint;
pub(super) use session::GeminiSession;
