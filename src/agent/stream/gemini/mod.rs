//! Gemini CLI: what `--output-format stream-json` prints, and session files (pure).

mod print;
mod session;

pub(super) use print::GeminiPrint;
pub(super) use session::GeminiSession;
