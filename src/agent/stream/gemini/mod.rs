//! Gemini CLI: what `--output-format stream-json` prints, and session files (pure).

mod print;
mod session;

pub(super) use print::Print;
pub(super) use session::Session;
